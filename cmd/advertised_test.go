package cmd

import (
	"os"
	"testing"
)

func TestAdvertised(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, listens, want string }{
		{"an address is itself", "127.0.0.1:8083", "http://127.0.0.1:8083/"},
		{"all addresses of both families are the host", "[::]:8083", "http://" + name + ":8083/"},
		{"all addresses of one family are the host", "0.0.0.0:8083", "http://" + name + ":8083/"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := advertised(row.listens); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}
