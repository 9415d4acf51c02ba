package client

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestSecret(t *testing.T) {
	for key, want := range map[string]bool{
		"database.password": true, "connection.password": true, "aws.secret.access.key": true, "producer.override.sasl.jaas.config": true,
		"ssl.keystore.password": true, "ssl.key.password": true, "api.key": true, "ssl.keystore.key": true, "x.token": true, "s3.proxy.password": true,
		"database.user": false, "ssl.keystore.location": false, "key.converter": false, "topic": false, "message.key.columns": false,
		"aws.access.key.id": false, "sasl.oauthbearer.token.endpoint.url": false, "credentials.file": false,
	} {
		if got := Secret(key); got != want {
			t.Errorf("Secret(%q) = %v", key, got)
		}
	}
}

func TestHide(t *testing.T) {
	got := Hide(map[string]string{"a.password": "x", "b.password": "${env:B}", "c.password": "", "plain": "y", "declared": "z", "odd.password": "${env:A}${env:B}"}, map[string]bool{"declared": true})
	want := map[string]string{"a.password": Hidden, "b.password": "${env:B}", "c.password": "", "plain": "y", "declared": Hidden, "odd.password": Hidden}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
}

// A conflict is waited out as long as the timeout says, and not longer; one that will
// not pass is answered at once.
func TestConflicts(t *testing.T) {
	var asked atomic.Int32
	message := atomic.Pointer[string]{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, `{"error_code":409,"message":%q}`, *message.Load())
	}))
	defer srv.Close()
	var told atomic.Int32
	c, err := New(Options{URL: srv.URL, Timeout: 2 * time.Second, Notify: func(string) { told.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	settling, exists := "Cannot complete request because of a conflicting operation (e.g. worker rebalance)", "Connector x already exists"
	message.Store(&settling)
	if err := c.Pause(context.Background(), "x"); err == nil || err.Error() != settling {
		t.Errorf("got %v", err)
	}
	if asked.Load() < 2 || told.Load() != 1 {
		t.Errorf("asked %d times, told %d times", asked.Load(), told.Load())
	}
	asked.Store(0)
	message.Store(&exists)
	if _, err := c.Create(context.Background(), "x", nil, ""); err == nil || err.Error() != exists || asked.Load() != 1 {
		t.Errorf("got %v after %d requests", err, asked.Load())
	}
}

func TestNamesInPaths(t *testing.T) {
	paths := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { paths <- r.URL.EscapedPath() }))
	defer srv.Close()
	c, err := New(Options{URL: srv.URL + "/behind/a%20proxy/", Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/b c", "100%", "..", "x?y#z", "ü"} {
		if err := c.Delete(context.Background(), name); err != nil {
			t.Fatal(err)
		}
		got := <-paths
		if !strings.HasPrefix(got, "/behind/a%20proxy/connectors/") || strings.Count(got, "/") != 4 {
			t.Errorf("%q: path %s", name, got)
		}
	}
}
