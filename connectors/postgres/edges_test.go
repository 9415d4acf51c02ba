package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
)

// A key with columns that are no part of the replica identity is not known of a deleted row: a key of what is known would be another row's.
func TestAKeyThatDeletesDoNotCarry(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE s (id int PRIMARY KEY, b text NOT NULL, v int)")
	conf := d.config("message.key.columns", "public.s:b", "snapshot.mode", "no_data")
	r := d.streaming(conf, nil, connectortest.Uncommitted)
	d.exec("INSERT INTO s VALUES (1, 'x', 1)", "UPDATE s SET v = 2", "UPDATE s SET id = 2", "DELETE FROM s")
	err := r.Wait()
	if f := connectors.FailureOf(err); f == nil || f.Reason != reasonData {
		t.Fatalf("the task said %v, want the reason %s", err, reasonData.Code)
	}
	for _, word := range []string{"public.s", `"b"`, "message.key.columns", "REPLICA IDENTITY FULL"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in the message: %v", word, err)
		}
	}
	conf["event.processing.failure.handling.mode"] = "warn"
	r = d.start(conf, &connectortest.OffsetStore{})
	d.exec("ALTER TABLE s REPLICA IDENTITY FULL", "INSERT INTO s VALUES (3, 'y', 1)", "UPDATE s SET b = 'z'", "DELETE FROM s")
	wantLines(t, take(r, 9), "p.public.s {b:x} c null -> {id:1 b:x v:1}", "p.public.s {b:x} u null -> {id:1 b:x v:2}", "p.public.s {b:x} u null -> {id:2 b:x v:2}",
		"p.public.s {b:y} c null -> {id:3 b:y v:1}",
		"p.public.s {b:y} d {id:3 b:y v:1} -> null", "p.public.s {b:y} tombstone null -> null", "p.public.s {b:z} c null -> {id:3 b:z v:1}",
		"p.public.s {b:z} d {id:3 b:z v:1} -> null", "p.public.s {b:z} tombstone null -> null")
	r.Stop()
}

// A TRUNCATE of many tables is one message. It keeps the bounds of batches, and is resumed within.
func TestATruncateOfManyTables(t *testing.T) {
	d := newDatabase(t)
	var names, want []string
	for i := range 25 {
		d.exec(fmt.Sprintf("CREATE TABLE t%02d (id int PRIMARY KEY)", i))
		names, want = append(names, fmt.Sprintf("t%02d", i)), append(want, fmt.Sprintf("p.public.t%02d null t null -> null", i))
	}
	want = append(want, "p.public.t00 {id:1} c null -> {id:1}")
	store := &connectortest.OffsetStore{}
	conf := d.config("skipped.operations", "none", "max.batch.size", "10", "snapshot.mode", "no_data")
	r := d.streaming(conf, store, connectortest.Uncommitted)
	d.exec("TRUNCATE "+strings.Join(names, ", "), "INSERT INTO t00 VALUES (1)")
	wantLines(t, take(r, len(want)), want...)
	r.Stop()
	sent, within := 0, 0
	for _, b := range r.Batches() {
		if len(b.Records) > 10 {
			t.Errorf("a batch of %d records, want 10 at most", len(b.Records))
		}
		if sent += len(b.Records); sent == 0 || sent >= 25 {
			continue
		}
		within++
		again := d.start(conf, store.At(t, b.Offsets))
		wantLines(t, take(again, len(want)-sent), want[sent:]...)
		again.Stop()
	}
	if within == 0 {
		t.Error("no batch ends within the truncation")
	}
}

// What an administrator limits for all sessions ends none of a connector's: not the one that rests until a table's shape is asked for, and
// not the snapshot.
func TestSessionsOutliveTheLimitsOfTheDatabase(t *testing.T) {
	for _, version := range []string{"", "18"} {
		t.Run("Postgres "+version, func(t *testing.T) {
			d := databaseOn(t, peers.PostgresVersion(t, version))
			limits := []string{"idle_session_timeout", "idle_in_transaction_session_timeout", "statement_timeout"}
			if version != "" {
				limits = append(limits, "transaction_timeout")
			}
			for _, name := range limits {
				d.exec(fmt.Sprintf("ALTER DATABASE %s SET %s = '300ms'", quoteName(d.name), name))
			}
			d.exec("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
			said := &logged{}
			r := d.start(d.config("slot.watch.interval.ms", "0", "snapshot.select.statement.overrides", "public.a",
				"snapshot.select.statement.overrides.public.a", "SELECT a.id FROM a, pg_sleep(1)"), nil, connectortest.LogTo(slog.New(slog.NewTextHandler(said, nil))))
			r.WaitFor("the snapshot", func() bool { return r.Count() == 1 })
			r.WaitFor("a session that has rested for a second", func() bool {
				return d.text("SELECT count(*) FROM pg_stat_activity WHERE application_name = left('millrace "+d.name+"', 63) AND state = 'idle' AND clock_timestamp() - state_change > '1 s'") != "0"
			})
			d.exec("CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b VALUES (2)")
			r.WaitFor("the row", func() bool { return r.Count() == 2 })
			r.Stop()
			if s := said.String(); strings.Contains(s, "connection lost") {
				t.Errorf("logged: %s", s)
			}
		})
	}
}

// A server that answers where another did, and that has less than was read of that one, is noticed before a byte is read of it.
func TestAConnectionToAServerThatHasLess(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "SELECT pg_create_logical_replication_slot('"+d.name+"', 'pgoutput')", "CREATE PUBLICATION dbz_publication FOR ALL TABLES")
	end, err := parseLSN(d.text("SELECT pg_current_wal_lsn()"))
	if err != nil {
		t.Fatal(err)
	}
	for strategy, want := range map[string]*connectors.Reason{"no_validation": reasonAhead, "trust_slot": nil} {
		s := settingsOf(t, d.config("offset.mismatch.strategy", strategy))
		tk := &task{s: s, lg: slog.New(slog.DiscardHandler), warned: map[string]bool{}}
		tk.watch.t = tk
		pos := position{commit: end + 1<<40, message: "COMMIT"}
		established, err := tk.stream(context.Background(), cdc.NewQueue(100, 0), &pos, 0)
		f := connectors.FailureOf(err)
		if established || err == nil || (want != nil) != (f != nil) || want != nil && f.Reason != want {
			t.Errorf("%s: established: %t, %v", strategy, established, err)
		}
		if want == nil && !connectors.IsRetriable(err) {
			t.Errorf("%s: %v, want an error that the next start mends", strategy, err)
		}
	}
}

// A server makes no slot while a transaction is open that has written. Whom the connector waits for it says.
func TestASlotThatWaitsForATransaction(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)", "BEGIN", "INSERT INTO t VALUES (2)")
	pid := d.text("SELECT pg_backend_pid()::text")
	said := &logged{}
	r := d.start(d.config(), nil, connectortest.LogTo(slog.New(slog.NewTextHandler(said, nil))))
	r.WaitFor("a word of the transaction", func() bool { return strings.Contains(said.String(), "pid "+pid+" of postgres") })
	d.exec("COMMIT")
	r.WaitFor("both rows", func() bool { return r.Count() == 2 })
	r.Stop()
}

// ALTER TABLE may write a table anew, and then a snapshot from before sees none of its rows: they are read all the same.
func TestATableThatIsRewrittenBeforeTheSnapshotComesToIt(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (0)", "CREATE TABLE b (id int PRIMARY KEY, v int)", "INSERT INTO b VALUES (1, 10), (2, 20)",
		"CREATE TABLE e (id int PRIMARY KEY)", "INSERT INTO e VALUES (7)",
		"CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)", "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)", "INSERT INTO p VALUES (3, 30)",
		"CREATE TABLE z (id int PRIMARY KEY)", "INSERT INTO z VALUES (4)", "SELECT pg_advisory_lock(1)")
	r := d.start(d.config("publish.via.partition.root", "true", "snapshot.select.statement.overrides", "public.a",
		"snapshot.select.statement.overrides.public.a", "SELECT a.id FROM a, pg_advisory_lock(1)"), nil)
	r.WaitFor("the snapshot at its first table", func() bool {
		return d.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == "1"
	})
	d.exec("ALTER TABLE b ALTER v TYPE bigint", "TRUNCATE e", "ALTER TABLE p ALTER v TYPE bigint", "VACUUM FULL z", "INSERT INTO b VALUES (5, 5000000000)", "SELECT pg_advisory_unlock(1)")
	snapshotDone(r)
	r.WaitFor("the row that came meanwhile", func() bool { return r.Count() == 7 })
	wantLines(t, r.Records(), "p.public.a {id:0} r null -> {id:0}",
		"p.public.b {id:1} r null -> {id:1 v:10}", "p.public.b {id:2} r null -> {id:2 v:20}", "p.public.b {id:5} r null -> {id:5 v:5000000000}",
		"p.public.p {id:3} r null -> {id:3 v:30}", "p.public.z {id:4} r null -> {id:4}",
		"p.public.b {id:5} c null -> {id:5 v:5000000000}")
	r.Stop()
}

// Who waits for a lock holds up whoever comes behind: a start does not wait for long to change a table that is in use.
func TestAStartDoesNotHoldUpThoseWhoUseATable(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "BEGIN", "SELECT count(*) FROM t")
	err := d.start(d.config("replica.identity.autoset.values", "public.t:FULL"), nil).Wait()
	if f := connectors.FailureOf(err); f == nil || f.Reason != reasonLocked || !connectors.IsRetriable(err) {
		t.Errorf("the task said %v, want the reason %s", err, reasonLocked.Code)
	}
	d.exec("COMMIT")
}
