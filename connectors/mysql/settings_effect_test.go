package mysql

import (
	"log/slog"
	"strings"
	"testing"

	"millrace/connectors"
	"millrace/connectors/connectortest"
)

// TestSettingsOfSessionsAndSnapshots: what a setting says is seen by the server, or in
// what comes.
func TestSettingsOfSessionsAndSnapshots(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)", "CREATE TABLE said (w bigint, r bigint)")
	started := func(more ...string) *connectortest.SourceRun {
		return d.start(d.config(more...), &connectortest.OffsetStore{})
	}
	fails := func(what string, r *connectortest.SourceRun, want string) {
		t.Helper()
		if err := r.Wait(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the task ended with %v, want %q", what, err, want)
		}
	}
	r := started("database.initial.statements", "INSERT INTO "+d.name+".said VALUES (@@net_write_timeout, @@net_read_timeout)", "binlog.net.write.timeout", "77", "binlog.net.read.timeout", "78",
		"table.include.list", d.name+".a")
	streaming(r)
	r.Stop()
	if got := d.text("SELECT CONCAT(MAX(w), ' ', MAX(r)) FROM said"); got != "77 78" {
		t.Errorf("the sessions had the time limits %s", got)
	}
	fails("a guardrail that fails", started("guardrail.collections.max", "1", "guardrail.collections.limit.action", "fail"), "guardrail.collections.max=1")
	fails("a query that takes too long", started("database.query.timeout.ms", "50", "database.initial.statements", "SELECT SLEEP(5)"), "database.query.timeout.ms")

	rows := func(r *connectortest.SourceRun) int { return len(on(r.Records(), "p."+d.name+".a")) }
	for _, c := range []struct {
		name string
		more []string
		rows int
	}{
		{"rows and the stream", []string{"snapshot.mode.configuration.based.snapshot.data", "true", "snapshot.mode.configuration.based.start.stream", "true"}, 2},
		{"the stream alone", []string{"snapshot.mode.configuration.based.start.stream", "true"}, 1},
	} {
		d.exec("DELETE FROM a WHERE id = 2")
		r := started(append([]string{"snapshot.mode", "configuration_based", "snapshot.mode.configuration.based.snapshot.schema", "true", "table.include.list", d.name + ".a"}, c.more...)...)
		streaming(r)
		d.exec("INSERT INTO a VALUES (2)")
		r.WaitFor(c.name, func() bool { return rows(r) == c.rows })
		r.Stop()
	}
	r = started("snapshot.mode", "initial_only", "table.include.list", d.name+".a")
	streaming(r)
	r.Stop()

	// Rows whose definition is not known: the history is another server's.
	for mode, wrong := range map[string]bool{"fail": true, "warn": false, "skip": false} {
		s := &settings{inconsistent: mode}
		rd := &reader{t: &task{s: s, lg: slog.New(slog.DiscardHandler)}}
		err := rd.inconsistent(&mapped{m: &tableMap{}}, connectors.Failed(reasonSchema, nil, "x", ""), 4)
		if (err != nil) != wrong {
			t.Errorf("inconsistent.schema.handling.mode=%s: %v", mode, err)
		}
	}
}
