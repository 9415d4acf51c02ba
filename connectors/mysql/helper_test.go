package mysql

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/client"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

// A database is one of a server, for one test.
type database struct {
	testing.TB
	server *peers.MySQLServer
	name   string
	conn   *client.Conn
}

func newDatabase(tb testing.TB) *database {
	tb.Helper()
	return databaseOn(tb, peers.MySQL(tb))
}

func databaseOn(tb testing.TB, server *peers.MySQLServer) *database {
	tb.Helper()
	name := server.NewDatabase(tb)
	return &database{TB: tb, server: server, name: name, conn: server.Connect(tb, name)}
}

// exec runs statements one by one in the test's own session.
func (d *database) exec(statements ...string) {
	d.Helper()
	for _, s := range statements {
		r, err := d.conn.Execute(s)
		if err != nil {
			d.Fatalf("%.300s: %v", s, err)
		}
		r.Close()
	}
}

// text is the first field of a query's first row.
func (d *database) text(sql string) string {
	d.Helper()
	r, err := d.conn.Execute(sql)
	if err != nil {
		d.Fatalf("%.300s: %v", sql, err)
	}
	defer r.Close()
	s, err := r.GetString(0, 0)
	if err != nil {
		d.Fatalf("%.300s: %v", sql, err)
	}
	return strings.Clone(s) // the result's memory is another's once it is closed
}

func (d *database) plugin() connectors.SourcePlugin {
	if d.server.MariaDB {
		return MariaDB
	}
	return Source
}

// config is a connector's, with more settings as key, value, …
func (d *database) config(more ...string) map[string]string {
	c := map[string]string{
		"name": "test", "connector.class": d.plugin().Class, "tasks.max": "1",
		"database.hostname": d.server.Host, "database.port": strconv.Itoa(d.server.Port), "database.user": "root", "database.password": "",
		"database.server.id": serverID(d.name), "database.include.list": d.name, "topic.prefix": "p",
	}
	for i := 0; i < len(more); i += 2 {
		c[more[i]] = more[i+1]
	}
	return c
}

// serverID is a number of its own for each name.
func serverID(name string) string {
	n := uint32(2166136261)
	for _, c := range []byte(name) {
		n = (n ^ uint32(c)) * 16777619
	}
	return strconv.FormatUint(uint64(n|1<<16), 10)
}

func (d *database) start(conf map[string]string, store *connectortest.OffsetStore, opts ...func(*connectortest.SourceRun)) *connectortest.SourceRun {
	d.Helper()
	return connectortest.StartSource(d.TB, d.plugin(), nil, maps.Clone(conf), store, opts...)
}

// script splits an SQL script into its statements, and leaves comments out.
func script(text string) []string {
	var out []string
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0:
			if c == '\\' && quote != '`' && i+1 < len(text) {
				b.WriteByte(c)
				i++
				c = text[i]
			} else if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"' || c == '`':
			quote = c
		case c == '-' && strings.HasPrefix(text[i:], "-- "):
			for i < len(text) && text[i] != '\n' {
				i++
			}
			continue
		case c == ';':
			if s := strings.TrimSpace(b.String()); s != "" {
				out = append(out, s)
			}
			b.Reset()
			continue
		}
		b.WriteByte(c)
	}
	return out
}

// on are the records of a topic.
func on(records []schema.Record, topic string) []schema.Record {
	var out []schema.Record
	for _, r := range records {
		if r.Topic == topic {
			out = append(out, r)
		}
	}
	return out
}

// op is connectortest.Op.
func op(r schema.Record) string { return connectortest.Op(r) }

// streaming waits until a run's snapshot is stored.
func streaming(r *connectortest.SourceRun) {
	r.WaitFor("the snapshot's offset", func() bool {
		bs := r.Batches()
		if len(bs) == 0 {
			return false
		}
		last := bs[len(bs)-1]
		if len(last.Offsets) == 0 {
			return false
		}
		v, ok := last.Offsets[0].Position.Lookup("snapshot_completed")
		if ok {
			return v.Bool()
		}
		_, snap := last.Offsets[0].Position.Lookup("snapshot")
		return !snap
	})
}

// sortedJSON is a document whose members are in the order of their names, its numbers
// as they are.
func sortedJSON(t *testing.T, doc string) string {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(doc))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
