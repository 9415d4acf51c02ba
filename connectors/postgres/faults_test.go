package postgres

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/deploy/trial"
	"millrace/schema"
	"millrace/schema/converters"
)

// A workload writes random transactions and knows the events that they make.
type workload struct {
	connectortest.Rows
	d *database
}

// write runs one transaction: rows by COPY, which share an LSN, by INSERTs of many
// rows, updates of many, deletes, keys that change, and now and then a rollback.
func (w *workload) write() {
	w.d.exec("BEGIN")
	undo := w.Begin()
	for range 1 + w.Rnd.IntN(4) {
		w.V++
		n := 1 + w.Rnd.IntN(60)
		switch kind := w.Rnd.IntN(6); {
		case kind == 0:
			var b []byte
			for range n {
				b = fmt.Appendf(b, "%d\t%d\n", w.Next, w.V)
				w.Insert()
			}
			if _, err := w.d.conn.PgConn().CopyFrom(context.Background(), bytesReader(b), "COPY t FROM STDIN"); err != nil {
				w.d.Fatal(err)
			}
		case kind <= 2 || len(w.Live) == 0:
			w.d.exec(fmt.Sprintf("INSERT INTO t SELECT g, %d FROM generate_series(%d, %d) g", w.V, w.Next, w.Next+int64(n)-1))
			for range n {
				w.Insert()
			}
		case kind == 3:
			for _, id := range w.Some(n) {
				w.d.exec(fmt.Sprintf("UPDATE t SET v = %d WHERE id = %d", w.V, id))
				w.Update(id)
			}
		case kind == 4:
			for _, id := range w.Some(min(n, 20)) {
				w.d.exec(fmt.Sprintf("DELETE FROM t WHERE id = %d", id))
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
		w.d.exec("ROLLBACK")
		undo()
		return
	}
	w.d.exec("COMMIT")
	if w.Rnd.IntN(3) == 0 { // noise that is not captured moves the position without records
		w.d.exec("INSERT INTO noise SELECT generate_series(1, 20)")
	}
}

// TestRestartsAtRandomPlaces stops the task again and again, keeps a random front of
// what it emitted, as a transactional log would, and resumes behind it: what is kept in
// the end is each change once, in order, between its transaction's beginning and end.
// Some of the times the server's sender is killed under it.
func TestRestartsAtRandomPlaces(t *testing.T) {
	seed := trial.Seed(t)
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)", "CREATE TABLE noise (n int)")
	w := &workload{connectortest.Rows{Rnd: rand.New(rand.NewPCG(seed, 1)), Next: 1}, d}
	conf := d.config("table.include.list", "public.t", "max.batch.size", "50", "provide.transaction.metadata", "true", "status.update.interval.ms", "100")
	store := &connectortest.OffsetStore{}
	first := d.start(conf, store)
	first.WaitFor("the end of the snapshot", func() bool { return len(first.Batches()) >= 2 })
	first.Stop()
	var kept []connectortest.Change
	tx := connectortest.Transactions{Space: "schema", ID: func(id string) string { x, _, _ := strings.Cut(id, ":"); return x }}
	keep := func(recs []schema.Record) {
		for _, rec := range recs {
			event, err := tx.Take(rec)
			if err != nil {
				t.Fatalf("seed %d, behind %d changes: %v", seed, len(kept), err)
			}
			if event {
				kept = append(kept, connectortest.ChangeOf(rec))
			}
		}
	}
	changes := func(r *connectortest.SourceRun) int { return len(on(r.Records(), "p.public.t")) }
	killed := 0
	for round := range trial.Effort(25) {
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
				d.exec("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '" + d.name + "' AND active")
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
	r := d.start(conf, store)
	r.WaitFor("the rest", func() bool {
		rs := r.Records()
		return len(kept)+changes(r) >= len(w.Want) && (len(rs) == 0 && tx.Open == "" || len(rs) > 0 && rs[len(rs)-1].Topic == "p.transaction")
	})
	r.Stop()
	keep(r.Records())
	if err := connectortest.CompareChanges(kept, w.Want); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if tx.Open != "" || tx.Ended == 0 {
		t.Errorf("%d transactions ended, %q is open", tx.Ended, tx.Open)
	}
	t.Logf("%d changes of %d transactions, each once and in order; %d senders killed", len(kept), tx.Ended, killed)
}

// TestConnectionsCutAnywhere breaks all connections after a random number of bytes from the
// server, in the login, the preparations, the snapshot, the stream: what fails says that
// it may be tried again, and in the end each row of the snapshot and each change behind
// it is there once.
func TestConnectionsCutAnywhere(t *testing.T) {
	seed := trial.Seed(t)
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)", "CREATE TABLE noise (n int)")
	w := &workload{connectortest.Rows{Rnd: rand.New(rand.NewPCG(seed, 1)), Next: 1}, d}
	for range 40 {
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
	conf := through(p, d.config("max.batch.size", "50", "status.update.interval.ms", "50", "slot.watch.interval.ms", "100"))
	store := &connectortest.OffsetStore{}
	var changes []connectortest.Change
	reads := map[int64]int64{}
	whole, cuts, failures := false, 0, 0
	for round := 0; round < trial.Effort(40) || !whole || len(changes) < len(w.Want); round++ {
		if round == 10*trial.Effort(40) {
			t.Fatalf("seed %d: %d rounds, the snapshot is whole: %t, %d of %d changes", seed, round, whole, len(changes), len(w.Want))
		}
		if whole && round < trial.Effort(40) {
			w.write()
		}
		if round < trial.Effort(40) {
			cuts++
			p.BreakAfter(w.Rnd.IntN(1 << (8 + w.Rnd.IntN(10))))
		} else {
			p.BreakAfter(-1)
		}
		began := time.Now()
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
				return r.Ended() || len(changes)+len(on(r.Records(), "p.public.t")) >= len(w.Want)
			}
			return r.Ended() || last()
		})
		err := r.Halt()
		if took := time.Since(began); took > 3*time.Second {
			t.Logf("round %d took %s: %v; %s", round, took, err, d.text("SELECT string_agg(slot_name||' '||active::text||' '||coalesce(confirmed_flush_lsn::text,'-'),',') FROM pg_replication_slots"))
		}
		if err != nil {
			failures++
			if !connectors.IsRetriable(err) {
				t.Fatalf("seed %d, round %d: a connection was cut and the task said %v, want an error that may pass", seed, round, err)
			}
		}
		if !whole { // a snapshot that was cut begins anew
			clear(reads)
			changes = nil
		}
		for _, rec := range on(r.Records(), "p.public.t") {
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
	t.Logf("%d cuts, %d of them ended the task; %d rows of the snapshot and %d changes, each once", cuts, failures, len(rows), len(changes))
}

// TestServerStopsAndComesBack stops the server in mid-stream, in order and by SIGKILL:
// the task fails as one that may be tried again, and its successors lose nothing.
func TestServerStopsAndComesBack(t *testing.T) {
	server := peers.PostgresOwn(t, peers.PostgresOptions{})
	d := databaseOn(t, server)
	d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)")
	conf, store := d.config("status.update.interval.ms", "200"), &connectortest.OffsetStore{}
	seen, next := map[int64]int64{}, int64(0) // id → how often
	order := []int64{}
	collect := func(r *connectortest.SourceRun) {
		for _, rec := range on(r.Records(), "p.public.t") {
			id := rec.Key.Get("id").Int()
			seen[id]++
			order = append(order, id)
		}
	}
	for round, stop := range []func(testing.TB){server.Stop, server.Kill, server.Stop} {
		r := d.start(conf, store)
		d.conn = server.Connect(t, d.name)
		d.exec("SET synchronous_commit = on") // what a kill of the server loses is not ours to find
		for range 20 {
			d.exec(fmt.Sprintf("INSERT INTO t SELECT g, 1 FROM generate_series(%d, %d) g", next, next+49))
			next += 50
		}
		before := r.Count()
		r.WaitFor("a first record", func() bool { return r.Count() > before || r.Count() > 100 })
		stop(t)
		err := r.Wait()
		if !connectors.IsRetriable(err) {
			t.Fatalf("round %d: the server stopped and the task said %v, want an error that may pass", round, err)
		}
		if f := connectors.FailureOf(err); f == nil || f.Reason != reasonUnreachable {
			t.Errorf("round %d: the error has not the reason %s: %v", round, reasonUnreachable.Code, err)
		}
		collect(r)
		down := d.start(conf, store)
		if err := down.Wait(); !connectors.IsRetriable(err) || !strings.Contains(err.Error(), d.server.Host) {
			t.Errorf("round %d: with the server down the task said %v, want an error that names the host and may pass", round, err)
		}
		server.Start(t)
	}
	d.conn = server.Connect(t, d.name)
	r := d.start(conf, store)
	d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d, 1)", next))
	r.WaitFor("the last row", func() bool {
		rs := on(r.Records(), "p.public.t")
		return len(rs) > 0 && rs[len(rs)-1].Key.Get("id").Int() == next
	})
	r.Stop()
	collect(r)
	for id := range next + 1 {
		if seen[id] == 0 {
			t.Fatalf("row %d is lost", id)
		}
	}
	first := slices.Compact(order)
	t.Logf("%d rows, none lost, %d sent again", next+1, len(first)-int(next)-1)
}

// TestSlotThatIsGone is a clear failure, and so is one that is ahead of the stored
// position.
func TestSlotThatIsGone(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)")
	conf, store := d.config("status.update.interval.ms", "100"), &connectortest.OffsetStore{}
	r := d.start(conf, store)
	r.WaitFor("the slot", func() bool { return len(r.Batches()) >= 2 })
	r.Stop()
	old := store.Clone()
	check := func(what string, store *connectortest.OffsetStore, words ...string) {
		t.Helper()
		err := d.start(conf, store).Wait()
		f := connectors.FailureOf(err)
		if f == nil || f.Reason != reasonSlotLost || connectors.RetryOf(err) != connectors.RetryNever {
			t.Fatalf("%s: the task said %v, want the reason %s, for good", what, err, reasonSlotLost.Code)
		}
		for _, w := range append(words, d.name, "snapshot.mode=initial") {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q is not in the message: %v", what, w, err)
			}
		}
	}
	d.exec("SET synchronous_commit = on", "INSERT INTO t VALUES (1, 1)", "SELECT pg_replication_slot_advance('"+d.name+"', pg_current_wal_lsn())")
	check("the slot is ahead", old, "is confirmed up to")
	conf["offset.mismatch.strategy"] = "trust_slot"
	r = d.start(conf, old)
	d.exec("INSERT INTO t VALUES (2, 2)")
	r.WaitFor("the row behind the gap", func() bool { return len(r.Records()) == 1 })
	r.Stop()
	delete(conf, "offset.mismatch.strategy")
	d.dropSlot(d.name)
	check("the slot is dropped", store, "does not exist")
}

// TestPublicationThatIsGone: the server tells of a missing publication and of a missing slot with one and the same code.
func TestPublicationThatIsGone(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	r := d.streaming(d.config("snapshot.mode", "no_data", "publication.name", d.name, "slot.name", d.name), nil)
	d.exec("DROP PUBLICATION "+d.name, "INSERT INTO t VALUES (1)")
	if f := connectors.FailureOf(r.Wait()); f == nil || f.Reason != reasonPublication {
		t.Errorf("the stream ended with %v, want %s", f, reasonPublication.Code)
	}
}

// TestSlotIsDroppedOnStop, when asked for.
func TestSlotIsDroppedOnStop(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)")
	conf, store := d.config("slot.drop.on.stop", "true"), &connectortest.OffsetStore{}
	for i := range 2 { // the second start makes it anew
		r := d.start(conf, store)
		// A slot in the making is active already, and what is written before its consistent point does not come.
		r.WaitFor("the slot", func() bool {
			return d.text("SELECT count(*) FROM pg_replication_slots WHERE active AND confirmed_flush_lsn IS NOT NULL AND slot_name = '"+d.name+"'") == "1"
		})
		d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d, 1)", i))
		r.WaitFor("the row", func() bool { return len(r.Records()) == 1 })
		r.Stop()
		if n := d.text("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '" + d.name + "'"); n != "0" {
			t.Fatalf("after the stop the slot is still there")
		}
	}
}

// TestInterruptedSnapshotBeginsAgain with the slot that is there already, neither loses nor
// repeats what changed meanwhile, and tells of the rows that were deleted: some were sent.
func TestInterruptedSnapshotBeginsAgain(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id bigint PRIMARY KEY, v bigint)", "INSERT INTO t SELECT g, 0 FROM generate_series(1, 20000) g")
	conf, store := d.config("max.batch.size", "500", "max.queue.size", "1000"), &connectortest.OffsetStore{}
	r := d.start(conf, store)
	r.WaitFor("some rows", func() bool { return r.Count() > 500 })
	r.Block()
	r.Stop()
	if p, ok, err := parsePosition(stored(t, store)); err != nil || !ok || !p.snapshot {
		t.Fatalf("the stored position %+v is not of a snapshot under way (%v)", p, err)
	}
	d.exec("UPDATE t SET v = 1 WHERE id <= 100", "DELETE FROM t WHERE id > 19990")
	r = d.start(conf, store)
	r.WaitFor("the whole snapshot", func() bool { return r.Count() >= 20+19990 })
	d.exec("INSERT INTO t VALUES (30000, 3)")
	r.WaitFor("the row behind it", func() bool { return r.Count() >= 20+19991 })
	r.Stop()
	rs := r.Records()
	if len(rs) != 20+19991 {
		t.Fatalf("%d records, want 10 deletes with tombstones, 19990 rows and one insert", len(rs))
	}
	for i, rec := range rs[:20] {
		if want := []string{"d", "tombstone"}[i%2]; op(rec) != want || rec.Key.Get("id").Int() != int64(19991+i/2) {
			t.Fatalf("record %d is %s of %s, want %s of a row that was deleted", i, op(rec), text(rec.Key), want)
		}
	}
	rs = rs[20:]
	for i, rec := range rs[:19990] {
		if op(rec) != "r" {
			t.Fatalf("record %d is %s, want a row of the snapshot", i, op(rec))
		}
	}
	if op(rs[19990]) != "c" {
		t.Fatalf("the last record is %s, want the insert", op(rs[19990]))
	}
	marks := map[string]int{}
	for _, rec := range rs[:19990] {
		marks[rec.Value.Get("source").Get("snapshot").Str()]++
	}
	if marks["first"] != 1 || marks["last"] != 1 || marks["true"] != 19988 {
		t.Errorf("marks of the snapshot: %v", marks)
	}
}

func stored(t *testing.T, s *connectortest.OffsetStore) schema.Value {
	t.Helper()
	all, _ := s.All(context.Background())
	if len(all) != 1 {
		t.Fatalf("%d stored offsets, want 1", len(all))
	}
	return all[0].Position
}

// TestLargeRows passes rows of 15 MiB through a process of its own, half of them
// in a snapshot, and looks at the most memory that it held.
func TestLargeRows(t *testing.T) {
	const env = "MILLRACE_TEST_LARGE_ROWS"
	if conf := os.Getenv(env); conf != "" {
		largeRows(t, conf)
		return
	}
	half := trial.Effort(30) // 100 for the figure
	const insertBig = "INSERT INTO big SELECT g, repeat(md5(g::text), 15*32768) FROM generate_series(%d, %d) g"
	d := newDatabase(t)
	d.exec("CREATE TABLE big (id int PRIMARY KEY, body text)", "SET default_toast_compression = lz4", fmt.Sprintf(insertBig, 1, half))
	cmd := exec.Command(os.Args[0], "-test.run=^TestLargeRows$", "-test.v")
	cmd.Env = append(os.Environ(), env+"="+strings.Join([]string{d.server.Host, strconv.Itoa(d.server.Port), d.name, strconv.Itoa(half)}, " "))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var peak int
	var text strings.Builder
	for sc := bufio.NewScanner(out); sc.Scan(); {
		line := sc.Text()
		text.WriteString(line + "\n")
		if strings.Contains(line, "snapshot read") {
			d.exec(fmt.Sprintf(insertBig, half+1, 2*half))
		}
		_, _ = fmt.Sscanf(line, "peak %d MiB", &peak)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the process failed: %v\n%s", err, text.String())
	}
	t.Logf("%d rows of 15 MiB, encoded as JSON: at most %d MiB of memory (the figure is 300)", 2*half, peak)
	if peak == 0 || peak > 3*300 {
		t.Errorf("at most %d MiB of memory", peak)
	}
}

func largeRows(t *testing.T, where string) {
	f := strings.Fields(where)
	v, errs := Source.Config.Parse(map[string]string{"database.hostname": f[0], "database.port": f[1], "database.dbname": f[2], "database.user": "postgres",
		"topic.prefix": "p", "slot.name": f[2]})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	task, err := Source.NewTask(connectors.Context{Connector: "big", Offsets: &connectortest.OffsetStore{}}, v)
	if err != nil {
		t.Fatal(err)
	}
	c, errs := converters.JSON.Make(map[string]string{"schemas.enable": "false"}, false)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	d := &drain{encoder: c}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- task.Run(ctx, d) }()
	half, _ := strconv.ParseInt(f[3], 10, 64)
	for _, goal := range []int64{half, 2 * half} {
		for d.records.Load() < goal {
			select {
			case err := <-done:
				t.Fatalf("the task ended: %v", err)
			case <-time.After(10 * time.Millisecond):
			}
		}
		if goal == half {
			fmt.Println("snapshot read")
		}
	}
	cancel()
	<-done
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			fmt.Printf("peak %d MiB\n", kib>>10)
		}
	}
}
