package mysql

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/trial"
	"millrace/schema"
)

// A workload writes random transactions and knows the events that they make.
type workload struct {
	connectortest.Rows
	d  *database
	xa int
}

// write runs one transaction: INSERTs of many rows, updates of many, deletes, keys that
// change; now and then compressed, distributed, or rolled back.
func (w *workload) write() {
	rolledBack := w.Begin()
	begin, end, undo := []string{"BEGIN"}, []string{"COMMIT"}, []string{"ROLLBACK"}
	switch w.Rnd.IntN(8) {
	case 0:
		w.xa++
		id := fmt.Sprintf("'%s-%d'", w.d.name, w.xa)
		begin, end, undo = []string{"XA START " + id}, []string{"XA END " + id, "XA PREPARE " + id, "XA COMMIT " + id}, []string{"XA END " + id, "XA PREPARE " + id, "XA ROLLBACK " + id}
		if w.Rnd.IntN(2) == 0 {
			end = []string{"XA END " + id, "XA COMMIT " + id + " ONE PHASE"}
		}
	case 1:
		if !w.d.server.MariaDB {
			w.d.exec("SET SESSION binlog_transaction_compression = ON")
			defer w.d.exec("SET SESSION binlog_transaction_compression = OFF")
		}
	}
	w.d.exec(begin...)
	for range 1 + w.Rnd.IntN(4) {
		w.V++
		n := 1 + w.Rnd.IntN(60)
		switch kind := w.Rnd.IntN(6); {
		case kind <= 2 || len(w.Live) == 0:
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, ",(%d,%d)", w.Next+int64(i), w.V)
			}
			w.d.exec("INSERT INTO t VALUES " + b.String()[1:])
			for range n {
				w.Insert()
			}
		case kind == 3:
			ids := w.Some(n)
			slices.Sort(ids)
			w.d.exec(fmt.Sprintf("UPDATE t SET v = %d WHERE id IN (%s) ORDER BY id", w.V, join(ids)))
			for _, id := range ids {
				w.Update(id)
			}
		case kind == 4:
			ids := w.Some(min(n, 20))
			slices.Sort(ids)
			w.d.exec(fmt.Sprintf("DELETE FROM t WHERE id IN (%s) ORDER BY id", join(ids)))
			for _, id := range ids {
				w.Delete(id)
			}
		default:
			id := w.Some(1)[0]
			w.d.exec(fmt.Sprintf("UPDATE t SET id = %d, v = %d WHERE id = %d", w.Next, w.V, id))
			w.Delete(id)
			w.Insert()
		}
	}
	if w.Rnd.IntN(8) == 0 {
		w.d.exec(undo...)
		rolledBack()
		return
	}
	w.d.exec(end...)
	if w.Rnd.IntN(3) == 0 { // noise that is not captured moves the position without records
		w.d.exec("INSERT INTO noise VALUES (1), (2), (3)")
	}
}

func join(ids []int64) string {
	var s []string
	for _, id := range ids {
		s = append(s, strconv.FormatInt(id, 10))
	}
	return strings.Join(s, ",")
}

// TestRestartsAtRandomPlaces stops the task again and again, keeps a random front of
// what it emitted, as a transactional log would, and resumes behind it: what is kept in
// the end is each change once, in order, between its transaction's beginning and end.
// Some of the times the server ends the connection under it.
func TestRestartsAtRandomPlaces(t *testing.T) { eachServer(t, restartsAtRandomPlaces) }

func restartsAtRandomPlaces(t *testing.T, d *database) {
	seed := trial.Seed(t)
	d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)", "CREATE TABLE noise (n int)")
	w := &workload{Rows: connectortest.Rows{Rnd: rand.New(rand.NewPCG(seed, 1)), Next: 1}, d: d}
	conf := d.config("table.include.list", d.name+".t", "max.batch.size", "50", "provide.transaction.metadata", "true")
	topic := "p." + d.name + ".t"
	store := &connectortest.OffsetStore{}
	first := d.start(conf, store)
	streaming(first)
	first.Stop()
	var kept []connectortest.Change
	tx := connectortest.Transactions{Space: "db"}
	keep := func(recs []schema.Record) {
		for _, rec := range recs {
			if rec.Topic != topic && rec.Topic != "p.transaction" {
				continue
			}
			event, err := tx.Take(rec)
			if err != nil {
				t.Fatalf("seed %d, behind %d changes: %v", seed, len(kept), err)
			}
			if event {
				kept = append(kept, connectortest.ChangeOf(rec))
			}
		}
	}
	changes := func(r *connectortest.SourceRun) int { return len(on(r.Records(), topic)) }
	killed := 0
	for round := range trial.Effort(15) {
		for range 1 + w.Rnd.IntN(6) {
			w.write()
		}
		r := d.start(conf, store, connectortest.Uncommitted)
		goal := w.Rnd.IntN(len(w.Want) - len(kept) + 1)
		kill := w.Rnd.IntN(3) == 0
		r.WaitFor(fmt.Sprintf("%d records", goal), func() bool {
			if kill && changes(r) >= goal/2 {
				kill = false
				killed++
				d.killDumps()
			}
			return changes(r) >= goal
		})
		r.Stop()
		batches := r.Batches()
		if len(batches) == 0 {
			continue
		}
		n := w.Rnd.IntN(len(batches) + 1)
		for _, b := range batches[:n] {
			keep(b.Records)
			store.Put(t, b.Offsets)
		}
		if err := connectortest.CompareChanges(kept, w.Want[:min(len(kept), len(w.Want))]); err != nil {
			t.Fatalf("seed %d, round %d, %d of %d batches kept: %v", seed, round, n, len(batches), err)
		}
	}
	// The last of the server's transactions may be another test's: the end of ours is when
	// no transaction of ours is open any more.
	r := d.start(conf, store)
	r.WaitFor("the rest", func() bool { return len(kept)+changes(r) >= len(w.Want) })
	r.Stop()
	keep(r.Records())
	if err := connectortest.CompareChanges(kept, w.Want); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if tx.Ended == 0 {
		t.Error("no transaction has ended")
	}
	t.Logf("%d changes of %d transactions, each once and in order; %d connections killed", len(kept), tx.Ended, killed)
}

// TestConnectionsCutAnywhere breaks all connections after a random number of bytes from the
// server, in the login, the preparations, the snapshot, the stream: what fails says that
// it may be tried again, and in the end each row of the snapshot and each change behind
// it is there once.
func TestConnectionsCutAnywhere(t *testing.T) { eachServer(t, connectionsCutAnywhere) }

func connectionsCutAnywhere(t *testing.T, d *database) {
	seed := trial.Seed(t)
	d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)", "CREATE TABLE noise (n int)")
	w := &workload{Rows: connectortest.Rows{Rnd: rand.New(rand.NewPCG(seed, 1)), Next: 1}, d: d}
	for range 20 {
		w.write()
	}
	rows := map[int64]int64{} // what the snapshot must have
	for _, c := range w.Want {
		if delete(rows, c.ID); c.Op != "d" && c.Op != "tombstone" {
			rows[c.ID] = c.V
		}
	}
	w.Want = nil
	p := connectortest.NewRelay(t, net.JoinHostPort(d.server.Host, strconv.Itoa(d.server.Port)))
	conf := d.config("max.batch.size", "50", "table.include.list", d.name+".t", "database.hostname", p.Host, "database.port", strconv.Itoa(p.Port))
	topic := "p." + d.name + ".t"
	store := &connectortest.OffsetStore{}
	var changes []connectortest.Change
	reads := map[int64]int64{}
	whole, failures := false, 0
	rounds := trial.Effort(25)
	for round := 0; round < rounds || !whole || len(changes) < len(w.Want); round++ {
		if round == 10*rounds {
			t.Fatalf("seed %d: %d rounds, the snapshot is whole: %t, %d of %d changes", seed, round, whole, len(changes), len(w.Want))
		}
		if whole && round < rounds {
			w.write()
		}
		if round < rounds {
			p.BreakAfter(w.Rnd.IntN(1 << (8 + w.Rnd.IntN(10))))
		} else {
			p.BreakAfter(-1)
		}
		r := d.start(conf, store)
		last := func() bool {
			all, err := store.All(context.Background())
			if err != nil || len(all) == 0 {
				return false
			}
			p, ok, err := parsePosition(all[0].Position)
			return err == nil && ok && !p.snapshot
		}
		r.WaitFor("an end, of one kind or the other", func() bool {
			if whole {
				return r.Ended() || len(changes)+len(on(r.Records(), topic)) >= len(w.Want)
			}
			return r.Ended() || last()
		})
		if err := r.Halt(); err != nil {
			failures++
			if !connectors.IsRetriable(err) {
				t.Fatalf("seed %d, round %d: a connection was cut and the task said %v, want an error that may pass", seed, round, err)
			}
		}
		if !whole { // a snapshot that was cut begins anew
			clear(reads)
			changes = nil
		}
		for _, rec := range on(r.Records(), topic) {
			if op(rec) == "r" {
				reads[rec.Key.Get("id").Int()] = rec.Value.Get("after").Get("v").Int()
				continue
			}
			changes = append(changes, connectortest.ChangeOf(rec))
		}
		if !whole && last() {
			whole = true
			if !maps.Equal(reads, rows) {
				t.Fatalf("seed %d: the snapshot has %d rows, want %d", seed, len(reads), len(rows))
			}
		}
		if err := connectortest.CompareChanges(changes, w.Want[:min(len(changes), len(w.Want))]); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
	}
	t.Logf("%d rounds, %d of them ended in a failure; %d rows of the snapshot and %d changes, each once", rounds, failures, len(rows), len(changes))
}

// TestServerIsKilledAndComesBack kills the server in mid-stream: the task fails as one
// that may be tried again, and its successors lose nothing.
func TestServerIsKilledAndComesBack(t *testing.T) {
	seed := trial.Seed(t)
	d := ownDatabase(t, false, nil)
	d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)", "CREATE TABLE noise (n int)")
	w := &workload{Rows: connectortest.Rows{Rnd: rand.New(rand.NewPCG(seed, 1)), Next: 1}, d: d}
	conf := d.config("table.include.list", d.name+".t", "max.batch.size", "50")
	topic := "p." + d.name + ".t"
	store := &connectortest.OffsetStore{}
	var got []connectortest.Change
	for round := range trial.Effort(4) {
		r := d.start(conf, store)
		if round == 0 {
			streaming(r)
		}
		for range 4 {
			w.write()
		}
		r.WaitFor("some", func() bool { return len(got)+len(on(r.Records(), topic)) > len(w.Want)/2 })
		d.server.Kill(t)
		err := r.Wait()
		if !connectors.IsRetriable(err) {
			t.Fatalf("the server was killed and the task said %v", err)
		}
		for _, rec := range on(r.Records(), topic) {
			got = append(got, connectortest.ChangeOf(rec))
		}
		d.server.Start(t)
		d.conn = d.server.Connect(t, d.name)
	}
	r := d.start(conf, store)
	r.WaitFor("the rest", func() bool { return len(got)+len(on(r.Records(), topic)) >= len(w.Want) })
	r.Stop()
	for _, rec := range on(r.Records(), topic) {
		got = append(got, connectortest.ChangeOf(rec))
	}
	if err := connectortest.CompareChanges(got, w.Want); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}
