package postgres

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
)

// slotFigures are a task's figures of its slot, by name.
func slotFigures(r *connectortest.SourceRun) map[string]float64 {
	out := map[string]float64{}
	for _, s := range r.Task.(*task).Samples() {
		if name, ok := strings.CutPrefix(s.Name, "millrace_postgres_slot_"); ok {
			out[name] = s.Value
		}
	}
	return out
}

// TestSlotFigures: what the server keeps for the slot, and how far behind it is, while
// the log takes nothing and after.
func TestSlotFigures(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, filler text)")
	r := d.streaming(d.config("slot.watch.interval.ms", "50", "status.update.interval.ms", "100"), nil)
	r.Block()
	d.exec("INSERT INTO t SELECT g, repeat('f', 1000) FROM generate_series(1, 3000) g")
	r.WaitFor("a lag of the rows", func() bool {
		f := slotFigures(r)
		return f["lag_bytes"] > 3e6 && f["retained_bytes"] >= f["lag_bytes"] && f["lag_seconds"] > 0.05
	})
	r.Open()
	r.WaitFor("the rows in the log", func() bool { return slotFigures(r)["lag_bytes"] < 1e6 })
	if _, there := slotFigures(r)["safe_bytes"]; there {
		t.Error("a slot without a bound has a figure of what is left")
	}
	r.Stop()
}

// TestRetainedLimit: at the limit the task ends, and with drop the slot goes.
func TestRetainedLimit(t *testing.T) {
	for _, action := range []string{"fail", "drop"} {
		t.Run(action, func(t *testing.T) {
			d := newDatabase(t)
			d.exec("CREATE TABLE t (id int PRIMARY KEY, filler text)", "CREATE TABLE other (filler text)")
			r := d.streaming(d.config("table.include.list", "public.t", "publication.autocreate.mode", "filtered", "slot.watch.interval.ms", "20", "slot.retained.wal.limit.bytes", "1000000", "slot.retained.wal.action", action), nil)
			r.Block()
			d.exec("INSERT INTO t VALUES (1, 'held')", "INSERT INTO other SELECT repeat('f', 1000) FROM generate_series(1, 3000) g")
			err := r.Wait()
			if f := connectors.FailureOf(err); f == nil || f.Reason != reasonSlotFull || !strings.Contains(err.Error(), d.name) {
				t.Fatalf("the task said %v, want the reason %s", err, reasonSlotFull.Code)
			}
			if n := d.text("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '" + d.name + "'"); (n == "0") != (action == "drop") {
				t.Errorf("%s slots are left", n)
			}
		})
	}
}

// TestLimitLetsATaskCatchUp: judgements over looks, without a server.
func TestLimitLetsATaskCatchUp(t *testing.T) {
	look := func(mib int64) slotLook { return slotLook{there: true, retained: mib << 20, lag: mib << 20, safe: -1} }
	for _, c := range []struct {
		name    string
		moves   bool // messages come meanwhile
		looks   []int64
		stopped bool
	}{
		{"below the limit", false, []int64{99, 99, 99, 99, 99, 99, 99, 99, 99}, false},
		{"above it for a moment", false, []int64{120, 120, 120, 90, 120, 120, 120}, false},
		{"above it, but falling", false, []int64{190, 180, 170, 160, 150, 140, 130, 120, 110, 105, 102, 101}, false},
		{"above it, and it stays", false, []int64{120, 120, 130, 125, 120, 121, 140, 140}, true},
		{"above it within a transaction that comes", true, []int64{120, 130, 140, 150, 160, 170, 180, 190, 195}, false},
		{"twice above it, whatever comes", true, []int64{150, 160, 170, 180, 190, 200, 210, 220}, true},
	} {
		tk := &task{s: &settings{slot: "s", retainLimit: 100 << 20, retainAction: retainFail}}
		tk.watch.t = tk
		tk.seen.streaming.Store(c.moves)
		var err error
		for _, l := range c.looks {
			if c.moves {
				tk.seen.messages.Add(1)
			}
			if err = tk.watch.limit(look(l)); err != nil {
				break
			}
		}
		if (err != nil) != c.stopped {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestPositionBeyondTheServer: another server, or one restored from a backup.
func TestPositionBeyondTheServer(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	conf, store := d.config(), &connectortest.OffsetStore{}
	r := d.streaming(conf, store)
	r.Stop()
	far := position{commit: 1 << 60, last: 1 << 60, micros: 1, message: "COMMIT"}
	store.Put(t, []connectors.Offset{{Partition: r.Task.(*task).partition, Position: far.value()}})
	err := d.start(conf, store).Wait()
	if f := connectors.FailureOf(err); f == nil || f.Reason != reasonAhead || connectors.RetryOf(err) != connectors.RetryNever || !strings.Contains(err.Error(), far.commit.String()) {
		t.Fatalf("the task said %v, want the reason %s", err, reasonAhead.Code)
	}
	conf["offset.mismatch.strategy"] = "trust_slot"
	r = d.start(conf, store)
	d.exec("INSERT INTO t VALUES (1)")
	wantLines(t, take(r, 1), "p.public.t {id:1} c null -> {id:1}")
	confirmedBelow := func() {
		t.Helper()
		r.Stop()
		if n := d.text("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '" + d.name + "' AND confirmed_flush_lsn <= pg_current_wal_lsn()"); n != "1" {
			t.Error("the slot was confirmed up to the place that the server does not have")
		}
	}
	confirmedBelow()
	// Where snapshots are taken when they are needed, this is such a case.
	delete(conf, "offset.mismatch.strategy")
	conf["snapshot.mode"] = "when_needed"
	store.Put(t, []connectors.Offset{{Partition: r.Task.(*task).partition, Position: far.value()}})
	r = d.start(conf, store)
	r.WaitFor("the row", func() bool { return r.Count() == 1 })
	d.exec("INSERT INTO t VALUES (2)")
	wantLines(t, take(r, 2), "p.public.t {id:1} r null -> {id:1}", "p.public.t {id:2} c null -> {id:2}")
	confirmedBelow()
}

// TestSlotInvalidatedByTheServer, which keeps no more of its log than it is told to.
func TestSlotInvalidatedByTheServer(t *testing.T) {
	server := peers.PostgresOwn(t, peers.PostgresOptions{Settings: map[string]string{"max_slot_wal_keep_size": "16MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}})
	d := databaseOn(t, server)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (filler text)")
	conf := d.config("table.include.list", "public.t", "publication.autocreate.mode", "filtered", "slot.watch.interval.ms", "50", "status.update.interval.ms", "100")
	r := d.streaming(conf, nil)
	r.WaitFor("the figure of what is left", func() bool { return slotFigures(r)["safe_bytes"] > 0 })
	r.Block()
	d.exec("INSERT INTO t VALUES (1)")
	done := make(chan error, 1)
	go func() { done <- r.Wait() }()
	var err error
	for range 100 {
		d.exec("INSERT INTO other SELECT repeat('f', 1000) FROM generate_series(1, 16000) g", "SELECT pg_switch_wal()", "CHECKPOINT")
		select {
		case err = <-done:
		case <-time.After(50 * time.Millisecond):
			continue
		}
		break
	}
	if f := connectors.FailureOf(err); f == nil || f.Reason != reasonSlotLost || connectors.RetryOf(err) != connectors.RetryNever {
		t.Fatalf("the task said %v, want the reason %s", err, reasonSlotLost.Code)
	}
}

// through is a configuration that reaches the server through a relay.
func through(p *connectortest.Relay, conf map[string]string) map[string]string {
	return with(conf, "database.port", strconv.Itoa(p.Port))
}

// TestSilentServer: a connection that the network forgets is noticed, although nobody
// says so, and replaced.
func TestSilentServer(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "ALTER DATABASE "+d.name+" SET wal_sender_timeout = '2s'")
	p := connectortest.NewRelay(t, net.JoinHostPort(d.server.Host, d.text("SHOW port")))
	r := d.streaming(through(p, d.config("status.update.interval.ms", "200", "slot.watch.interval.ms", "200")), nil)
	d.exec("INSERT INTO t VALUES (1)")
	take(r, 1)
	p.Forget()
	d.exec("INSERT INTO t VALUES (2)")
	r.WaitFor("the row", func() bool { return len(r.Records()) == 2 })
	var ids []int64
	for _, rec := range r.Records() {
		ids = append(ids, rec.Key.Get("id").Int())
	}
	if len(ids) != 2 || ids[1] != 2 {
		t.Errorf("rows %v, want 1 and 2", ids)
	}
}
