package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

// A database is one of a server, for one test.
type database struct {
	testing.TB
	server *peers.PostgresServer
	name   string
	conn   *pgx.Conn
}

func newDatabase(tb testing.TB) *database {
	tb.Helper()
	return databaseOn(tb, peers.Postgres(tb))
}

func databaseOn(tb testing.TB, server *peers.PostgresServer) *database {
	tb.Helper()
	name := server.NewDatabase(tb)
	return &database{TB: tb, server: server, name: name, conn: server.Connect(tb, name)}
}

// exec runs statements one by one in the test's own session.
func (d *database) exec(statements ...string) {
	d.Helper()
	for _, s := range statements {
		if _, err := d.conn.PgConn().Exec(context.Background(), s).ReadAll(); err != nil {
			d.Fatalf("%.200s: %v", s, err)
		}
	}
}

// text is the first field of a query's first row.
func (d *database) text(sql string) string {
	d.Helper()
	var s *string
	if err := d.conn.QueryRow(context.Background(), sql).Scan(&s); err != nil {
		d.Fatalf("%.200s: %v", sql, err)
	}
	if s == nil {
		return ""
	}
	return *s
}

// config is a connector's, with more settings as key, value, …
func (d *database) config(more ...string) map[string]string {
	c := map[string]string{
		"name": "test", "connector.class": Source.Class, "tasks.max": "1",
		"database.hostname": d.server.Host, "database.port": strconv.Itoa(d.server.Port), "database.user": "postgres", "database.password": "x",
		"database.dbname": d.name, "plugin.name": "pgoutput", "topic.prefix": "p", "slot.name": d.name,
	}
	for i := 0; i < len(more); i += 2 {
		c[more[i]] = more[i+1]
	}
	return c
}

func (d *database) start(conf map[string]string, store *connectortest.OffsetStore, opts ...func(*connectortest.SourceRun)) *connectortest.SourceRun {
	d.Helper()
	return connectortest.StartSource(d.TB, Source, nil, maps.Clone(conf), store, opts...)
}

// snapshotDone waits for the end of a run's snapshot.
func snapshotDone(r *connectortest.SourceRun) {
	r.Helper()
	r.WaitFor("the snapshot's offset", func() bool {
		return slices.ContainsFunc(r.Batches(), func(b connectors.Batch) bool {
			v, ok := b.Offsets[0].Position.Lookup("snapshot_completed")
			return ok && v.Bool()
		})
	})
}

// script splits an SQL script at the ends of its statements: a semicolon at a line's
// end, but for what a comment follows.
func script(text string) []string {
	var out []string
	for _, s := range regexp.MustCompile(`;[ \t]*(?:--[^\n]*)?\n`).Split(text, -1) {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
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

var _ connectors.OffsetReader = (*connectortest.OffsetStore)(nil)

func bytesReader(b []byte) io.Reader { return bytes.NewReader(b) }

// sha is the hash that a masked column has.
func sha(salt, text string) string {
	sum := sha256.Sum256([]byte(salt + "\xac\xed\x00\x05t\x00" + string(rune(len(text))) + text)) // as Java serializes a text
	return hex.EncodeToString(sum[:])
}

// dropSlot drops a slot whose reader was just told to go.
func (d *database) dropSlot(name string) {
	d.Helper()
	for i := 0; ; i++ {
		_, err := d.conn.Exec(context.Background(), "SELECT pg_drop_replication_slot('"+name+"')")
		if err == nil {
			return
		}
		if sqlState(err) != "55006" || i == 1000 {
			d.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
