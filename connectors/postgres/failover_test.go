package postgres

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
)

// logged is what tasks log, from their goroutines.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestFailoverSlots: slot.failover makes a slot that standby servers keep in step where the server can, and says why not where it cannot.
func TestFailoverSlots(t *testing.T) {
	for _, c := range []struct {
		name     string
		older    bool
		existing bool // the slot is there already, made without it
		slot     string
		notice   string
	}{
		{"a new slot on Postgres 18 is kept in step", false, false, "true", ""},
		{"a slot that was made without is told of, with the command that mends it", false, true, "false", "ALTER_REPLICATION_SLOT"},
		{"an older server cannot", true, false, "false", "from Postgres 17 on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := peers.PostgresVersion(t, "18")
			failover := "failover"
			if c.older {
				server, failover = peers.PostgresVersion(t, ""), "false"
			}
			d := databaseOn(t, server)
			d.exec("CREATE TABLE t (id int PRIMARY KEY)")
			if c.existing {
				d.exec("SELECT pg_create_logical_replication_slot('" + d.name + "', 'pgoutput')")
			}
			said := &logged{}
			r := d.streaming(d.config("slot.failover", "true", "snapshot.mode", "no_data"), nil, connectortest.LogTo(slog.New(slog.NewTextHandler(said, nil))))
			d.exec("INSERT INTO t VALUES (1)")
			r.WaitFor("the row", func() bool { return r.Count() == 1 })
			if got := d.text("SELECT " + failover + "::text FROM pg_replication_slots WHERE slot_name = '" + d.name + "'"); got != c.slot {
				t.Errorf("the slot's failover is %s, want %s", got, c.slot)
			}
			r.Stop()
			if s := said.String(); strings.Contains(s, "slot.failover has no effect") != (c.notice != "") || !strings.Contains(s, c.notice) {
				t.Errorf("logged: %s\nwant a notice with %q", s, c.notice)
			}
			if c.existing { // what the notice says mends it, once the server has noticed that we let go
				for end := time.Now().Add(time.Minute); d.text("SELECT active::text FROM pg_replication_slots WHERE slot_name = '"+d.name+"'") == "true"; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal("the slot stays in use")
					}
				}
				conn, _, err := settingsOf(t, d.config()).openReplication(context.Background(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close(context.Background())
				if _, err := conn.Exec(context.Background(), "ALTER_REPLICATION_SLOT "+quoteName(d.name)+" (FAILOVER true)").ReadAll(); err != nil {
					t.Fatal(err)
				}
				if got := d.text("SELECT failover::text FROM pg_replication_slots WHERE slot_name = '" + d.name + "'"); got != "true" {
					t.Errorf("after the command the slot's failover is %s", got)
				}
			}
		})
	}
}
