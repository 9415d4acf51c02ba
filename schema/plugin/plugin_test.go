package plugin

import (
	"strings"
	"testing"
)

type named struct{ Info }

func TestTable(t *testing.T) {
	a := named{Info{Name: "filter", Class: "org.apache.kafka.connect.transforms.Filter"}}
	b := named{Info{Name: "filter-by", Class: "io.debezium.transforms.Filter"}}
	c := named{Info{Name: "postgres", Class: "io.debezium.connector.postgresql.PostgresConnector", Aliases: []string{"pg"}}}
	table, err := NewTable(a, b, c)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"filter": "filter", "filter-by": "filter-by", a.Class: "filter", b.Class: "filter-by", "Filter": "", // of two it is neither's
		"PostgresConnector": "postgres", "Postgres": "postgres", "pg": "postgres", "postgres": "postgres", "nope": "",
	} {
		p, ok := table.Find(name)
		if got := p.Name; got != want || ok != (want != "") {
			t.Errorf("Find(%q) = %q, %v; want %q", name, got, ok, want)
		}
	}
	for _, other := range []named{{Info{Name: "pg", Class: "x.Y"}}, {Info{Name: "z", Class: c.Class}}} {
		if _, err := NewTable(c, other); err == nil || !strings.Contains(err.Error(), "both are called") {
			t.Errorf("%v: %v", other, err)
		}
	}
}
