package mysql

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/schema"
)

// effort scales a number of rounds by MILLRACE_EFFORT, in percent.
func effort(n int) int {
	if p, err := strconv.Atoi(os.Getenv("MILLRACE_EFFORT")); err == nil && p > 0 {
		return max(1, n*p/100)
	}
	return n
}

// newSeed is a test's seed: MILLRACE_SEED's, else one by chance, which is printed.
func newSeed(t testing.TB) uint64 {
	seed, err := strconv.ParseUint(os.Getenv("MILLRACE_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("MILLRACE_SEED=%d", seed)
	return seed
}

// A rowChange is what a test expects of an event.
type rowChange struct {
	op    string
	id, v int64
}

func changeOf(r schema.Record) rowChange {
	c := rowChange{op: op(r), id: r.Key.Get("id").Int()}
	if after := r.Value.Get("after"); !after.IsNull() {
		c.v = after.Get("v").Int()
	}
	return c
}

func compareChanges(got, want []rowChange) error {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("change %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d changes, want %d", len(got), len(want))
	}
	return nil
}

// A workload writes random transactions and knows the events that they make.
type workload struct {
	d    *database
	rnd  *rand.Rand
	next int64
	live []int64
	v    int64
	want []rowChange
	xa   int
}

// write runs one transaction: INSERTs of many rows, updates of many, deletes, keys that
// change; now and then compressed, distributed, or rolled back.
func (w *workload) write() {
	kept, live, next := len(w.want), slices.Clone(w.live), w.next
	begin, end, undo := []string{"BEGIN"}, []string{"COMMIT"}, []string{"ROLLBACK"}
	switch w.rnd.IntN(8) {
	case 0:
		w.xa++
		id := fmt.Sprintf("'%s-%d'", w.d.name, w.xa)
		begin, end, undo = []string{"XA START " + id}, []string{"XA END " + id, "XA PREPARE " + id, "XA COMMIT " + id}, []string{"XA END " + id, "XA PREPARE " + id, "XA ROLLBACK " + id}
		if w.rnd.IntN(2) == 0 {
			end = []string{"XA END " + id, "XA COMMIT " + id + " ONE PHASE"}
		}
	case 1:
		if !w.d.server.MariaDB {
			w.d.exec("SET SESSION binlog_transaction_compression = ON")
			defer w.d.exec("SET SESSION binlog_transaction_compression = OFF")
		}
	}
	w.d.exec(begin...)
	for range 1 + w.rnd.IntN(4) {
		w.v++
		n := 1 + w.rnd.IntN(60)
		switch kind := w.rnd.IntN(6); {
		case kind <= 2 || len(w.live) == 0:
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, ",(%d,%d)", w.next+int64(i), w.v)
			}
			w.d.exec("INSERT INTO t VALUES " + b.String()[1:])
			for range n {
				w.insert()
			}
		case kind == 3:
			ids := w.some(n)
			slices.Sort(ids)
			w.d.exec(fmt.Sprintf("UPDATE t SET v = %d WHERE id IN (%s) ORDER BY id", w.v, join(ids)))
			for _, id := range ids {
				w.want = append(w.want, rowChange{"u", id, w.v})
			}
		case kind == 4:
			ids := w.some(min(n, 20))
			slices.Sort(ids)
			w.d.exec(fmt.Sprintf("DELETE FROM t WHERE id IN (%s) ORDER BY id", join(ids)))
			for _, id := range ids {
				w.want = append(w.want, rowChange{op: "d", id: id}, rowChange{op: "tombstone", id: id})
			}
			w.live = slices.DeleteFunc(w.live, func(l int64) bool { return slices.Contains(ids, l) })
		default:
			id := w.some(1)[0]
			w.d.exec(fmt.Sprintf("UPDATE t SET id = %d, v = %d WHERE id = %d", w.next, w.v, id))
			w.want = append(w.want, rowChange{op: "d", id: id}, rowChange{op: "tombstone", id: id})
			w.live = slices.DeleteFunc(w.live, func(l int64) bool { return l == id })
			w.insert()
		}
	}
	if w.rnd.IntN(8) == 0 {
		w.d.exec(undo...)
		w.want, w.live, w.next = w.want[:kept], live, next
		return
	}
	w.d.exec(end...)
	if w.rnd.IntN(3) == 0 { // noise that is not captured moves the position without records
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

func (w *workload) insert() {
	w.want = append(w.want, rowChange{"c", w.next, w.v})
	w.live = append(w.live, w.next)
	w.next++
}

func (w *workload) some(n int) []int64 {
	ids := slices.Clone(w.live)
	w.rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:min(n, len(ids))]
}

// txCheck reads records with the metadata of transactions: each event lies between the
// beginning and the end of its transaction, which number and count what is there.
type txCheck struct {
	open   string         // the transaction's id; empty: none
	counts map[string]int // by collection
	total  int
	ended  int
}

func (c *txCheck) take(r schema.Record) (event bool, err error) {
	if r.Topic == "p.transaction" {
		id := r.Key.Get("id").Str()
		switch status := r.Value.Get("status").Str(); {
		case status == "BEGIN" && c.open == "":
			c.open, c.counts, c.total = id, map[string]int{}, 0
		case status == "END" && c.open == id:
			if n := r.Value.Get("event_count").Int(); n != int64(c.total) {
				return false, fmt.Errorf("transaction %s ends with %d events, %d came", id, n, c.total)
			}
			for _, t := range r.Value.Get("data_collections").Elems() {
				if name := t.Get("data_collection").Str(); t.Get("event_count").Int() != int64(c.counts[name]) {
					return false, fmt.Errorf("transaction %s ends with %d events of %s, %d came", id, t.Get("event_count").Int(), name, c.counts[name])
				}
			}
			c.open = ""
			c.ended++
		default:
			return false, fmt.Errorf("%s of transaction %s while %q is open", status, id, c.open)
		}
		return false, nil
	}
	if r.Value.IsNull() {
		return true, nil // a tombstone is not numbered
	}
	c.total++
	src, tx := r.Value.Get("source"), r.Value.Get("transaction")
	name := src.Get("db").Str() + "." + src.Get("table").Str()
	c.counts[name]++
	if id := tx.Get("id").Str(); id != c.open || tx.Get("total_order").Int() != int64(c.total) || tx.Get("data_collection_order").Int() != int64(c.counts[name]) {
		return true, fmt.Errorf("an event with the block %s, want number %d of transaction %s", show(tx), c.total, c.open)
	}
	return true, nil
}

// TestRestartsAtRandomPlaces stops the task again and again, keeps a random front of
// what it emitted, as a transactional log would, and resumes behind it: what is kept in
// the end is each change once, in order, between its transaction's beginning and end.
// Some of the times the server ends the connection under it.
func TestRestartsAtRandomPlaces(t *testing.T) { eachServer(t, restartsAtRandomPlaces) }

func restartsAtRandomPlaces(t *testing.T, d *database) {
	seed := newSeed(t)
	d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)", "CREATE TABLE noise (n int)")
	w := &workload{d: d, rnd: rand.New(rand.NewPCG(seed, 1)), next: 1}
	conf := d.config("table.include.list", d.name+".t", "max.batch.size", "50", "provide.transaction.metadata", "true")
	topic := "p." + d.name + ".t"
	store := &connectortest.OffsetStore{}
	first := d.start(conf, store)
	streaming(first)
	first.Stop()
	var kept []rowChange
	var tx txCheck
	keep := func(recs []schema.Record) {
		for _, rec := range recs {
			if rec.Topic != topic && rec.Topic != "p.transaction" {
				continue
			}
			event, err := tx.take(rec)
			if err != nil {
				t.Fatalf("seed %d, behind %d changes: %v", seed, len(kept), err)
			}
			if event {
				kept = append(kept, changeOf(rec))
			}
		}
	}
	changes := func(r *connectortest.SourceRun) int { return len(on(r.Records(), topic)) }
	killed := 0
	for round := range effort(15) {
		for range 1 + w.rnd.IntN(6) {
			w.write()
		}
		r := d.start(conf, store, connectortest.Uncommitted)
		goal := w.rnd.IntN(len(w.want) - len(kept) + 1)
		kill := w.rnd.IntN(3) == 0
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
		n := w.rnd.IntN(len(batches) + 1)
		for _, b := range batches[:n] {
			keep(b.Records)
			store.Put(t, b.Offsets)
		}
		if err := compareChanges(kept, w.want[:min(len(kept), len(w.want))]); err != nil {
			t.Fatalf("seed %d, round %d, %d of %d batches kept: %v", seed, round, n, len(batches), err)
		}
	}
	// The last of the server's transactions may be another test's: the end of ours is when
	// no transaction of ours is open any more.
	r := d.start(conf, store)
	r.WaitFor("the rest", func() bool { return len(kept)+changes(r) >= len(w.want) })
	r.Stop()
	keep(r.Records())
	if err := compareChanges(kept, w.want); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if tx.ended == 0 {
		t.Error("no transaction has ended")
	}
	t.Logf("%d changes of %d transactions, each once and in order; %d connections killed", len(kept), tx.ended, killed)
}

// TestConnectionsCutAnywhere breaks all connections after a random number of bytes from the
// server, in the login, the preparations, the snapshot, the stream: what fails says that
// it may be tried again, and in the end each row of the snapshot and each change behind
// it is there once.
func TestConnectionsCutAnywhere(t *testing.T) { eachServer(t, connectionsCutAnywhere) }

func connectionsCutAnywhere(t *testing.T, d *database) {
	seed := newSeed(t)
	d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)", "CREATE TABLE noise (n int)")
	w := &workload{d: d, rnd: rand.New(rand.NewPCG(seed, 1)), next: 1}
	for range 20 {
		w.write()
	}
	rows := map[int64]int64{} // what the snapshot must have
	for _, c := range w.want {
		if delete(rows, c.id); c.op != "d" && c.op != "tombstone" {
			rows[c.id] = c.v
		}
	}
	w.want = nil
	p := connectortest.NewRelay(t, net.JoinHostPort(d.server.Host, strconv.Itoa(d.server.Port)))
	conf := d.config("max.batch.size", "50", "table.include.list", d.name+".t", "database.hostname", p.Host, "database.port", strconv.Itoa(p.Port))
	topic := "p." + d.name + ".t"
	store := &connectortest.OffsetStore{}
	var changes []rowChange
	reads := map[int64]int64{}
	whole, failures := false, 0
	rounds := effort(25)
	for round := 0; round < rounds || !whole || len(changes) < len(w.want); round++ {
		if round == 10*rounds {
			t.Fatalf("seed %d: %d rounds, the snapshot is whole: %t, %d of %d changes", seed, round, whole, len(changes), len(w.want))
		}
		if whole && round < rounds {
			w.write()
		}
		if round < rounds {
			p.BreakAfter(w.rnd.IntN(1 << (8 + w.rnd.IntN(10))))
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
				return r.Ended() || len(changes)+len(on(r.Records(), topic)) >= len(w.want)
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
			changes = append(changes, changeOf(rec))
		}
		if !whole && last() {
			whole = true
			if !maps.Equal(reads, rows) {
				t.Fatalf("seed %d: the snapshot has %d rows, want %d", seed, len(reads), len(rows))
			}
		}
		if err := compareChanges(changes, w.want[:min(len(changes), len(w.want))]); err != nil {
			t.Fatalf("seed %d, round %d: %v", seed, round, err)
		}
	}
	t.Logf("%d rounds, %d of them ended in a failure; %d rows of the snapshot and %d changes, each once", rounds, failures, len(rows), len(changes))
}

// TestServerIsKilledAndComesBack kills the server in mid-stream: the task fails as one
// that may be tried again, and its successors lose nothing.
func TestServerIsKilledAndComesBack(t *testing.T) {
	seed := newSeed(t)
	d := ownDatabase(t, false, nil)
	d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)", "CREATE TABLE noise (n int)")
	w := &workload{d: d, rnd: rand.New(rand.NewPCG(seed, 1)), next: 1}
	conf := d.config("table.include.list", d.name+".t", "max.batch.size", "50")
	topic := "p." + d.name + ".t"
	store := &connectortest.OffsetStore{}
	var got []rowChange
	for round := range effort(4) {
		r := d.start(conf, store)
		if round == 0 {
			streaming(r)
		}
		for range 4 {
			w.write()
		}
		r.WaitFor("some", func() bool { return len(got)+len(on(r.Records(), topic)) > len(w.want)/2 })
		d.server.Kill(t)
		err := r.Wait()
		if !connectors.IsRetriable(err) {
			t.Fatalf("the server was killed and the task said %v", err)
		}
		for _, rec := range on(r.Records(), topic) {
			got = append(got, changeOf(rec))
		}
		d.server.Start(t)
		d.conn = d.server.Connect(t, d.name)
	}
	r := d.start(conf, store)
	r.WaitFor("the rest", func() bool { return len(got)+len(on(r.Records(), topic)) >= len(w.want) })
	r.Stop()
	for _, rec := range on(r.Records(), topic) {
		got = append(got, changeOf(rec))
	}
	if err := compareChanges(got, w.want); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}
