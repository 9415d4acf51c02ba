package postgres

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/trial"
	"millrace/schema"
)

// ops are what records are, by operation and key: "r1 r2 c3 d1 -1" (a tombstone). The rows of
// a snapshot, which come as they lie, are sorted.
func ops(rs []schema.Record) string {
	rs = slices.Clone(rs)
	for i := 0; i < len(rs); {
		end := i
		for end < len(rs) && op(rs[end]) == "r" {
			end++
		}
		slices.SortFunc(rs[i:end], func(a, b schema.Record) int { return int(a.Key.Get("id").Int() - b.Key.Get("id").Int()) })
		i = end + 1
	}
	var out []string
	for _, r := range rs {
		o := op(r)
		if o == "tombstone" {
			o = "-"
		}
		out = append(out, o+strconv.FormatInt(r.Key.Get("id").Int(), 10))
	}
	return strings.Join(out, " ")
}

// sent starts a task, has it come to rest, and says what it sent.
func (d *database) sent(conf map[string]string, store *connectortest.OffsetStore, n int) string {
	d.Helper()
	r := d.start(conf, store)
	r.WaitFor(fmt.Sprintf("%d records", n), func() bool { return r.Count() >= n })
	if conf["snapshot.mode"] != "initial_only" && conf["snapshot.mode.configuration.based.start.stream"] != "false" {
		// Behind the snapshot it streams: what comes now comes last.
		r.WaitFor("the stream", func() bool {
			return connectortest.Figures(r.Task.(*task).Samples())["Connected streaming"] == 1 && r.Task.(*task).scan.Progress().State != "running"
		})
	} else {
		r.WaitFor("the end", func() bool {
			p := r.Task.(*task).Progress(context.Background())
			return strings.Contains(p.Position, "reads no changes") && p.Snapshot != nil && p.Snapshot.State != "running"
		})
	}
	r.Stop()
	return ops(r.Records())
}

// TestSnapshotMode: each mode at a first start, and at a second one, before which a row was
// inserted, one changed and one deleted.
func TestSnapshotMode(t *testing.T) {
	const changes = "c3 u2 d1 -1"
	based := func(data, stream, again string) []string {
		return []string{"snapshot.mode", "configuration_based", "snapshot.mode.configuration.based.snapshot.data", data,
			"snapshot.mode.configuration.based.start.stream", stream, "snapshot.mode.configuration.based.snapshot.on.data.error", again}
	}
	d := newDatabase(t)
	for i, c := range []struct {
		name          string
		conf          []string
		first, second string
		lost          string // what the second start sends when the slot was dropped before it; "!": it fails
	}{
		{"always", []string{"snapshot.mode", "always"}, "r1 r2", changes + " r2 r3", "r2 r3"},
		{"initial", []string{"snapshot.mode", "initial"}, "r1 r2", changes, "!"},
		{"initial_only", []string{"snapshot.mode", "initial_only"}, "r1 r2", "", ""},
		{"no_data", []string{"snapshot.mode", "no_data"}, "", changes, "!"},
		{"never", []string{"snapshot.mode", "never"}, "", changes, "!"},
		{"schema_only", []string{"snapshot.mode", "schema_only"}, "", changes, "!"},
		{"when_needed", []string{"snapshot.mode", "when_needed"}, "r1 r2", changes, "r2 r3"},
		{"data alone", based("true", "false", "false"), "r1 r2", "r2 r3", "r2 r3"},
		{"data and stream", based("true", "true", "false"), "r1 r2", changes + " r2 r3", "r2 r3"},
		{"stream alone", based("false", "true", "false"), "", changes, "!"},
		{"stream, and data when needed", based("false", "true", "true"), "", changes, "r2 r3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table, slot := fmt.Sprintf("m%d", i), fmt.Sprintf("%s_%d", d.name, i)
			d := &database{t, d.server, d.name, d.conn}
			d.exec("CREATE TABLE "+table+" (id int PRIMARY KEY, v int)", "INSERT INTO "+table+" VALUES (1, 1), (2, 1)")
			conf := d.config(append(c.conf, "table.include.list", "public."+table, "slot.name", slot, "publication.name", slot, "publication.autocreate.mode", "filtered")...)
			store := &connectortest.OffsetStore{}
			count := func(s string) int { return len(strings.Fields(s)) }
			if got := d.sent(conf, store, count(c.first)); got != c.first {
				t.Fatalf("the first start sent %q, want %q", got, c.first)
			}
			streams := "0"
			if strings.Contains(c.name, "stream") || slices.Contains([]string{"always", "initial", "no_data", "never", "schema_only", "when_needed"}, c.name) {
				streams = "1"
			}
			if n := d.text("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '" + slot + "'"); n != streams {
				t.Errorf("%s slots, want %s: one is for a stream", n, streams)
			}
			d.exec("INSERT INTO "+table+" VALUES (3, 1)", "UPDATE "+table+" SET v = 2 WHERE id = 2", "DELETE FROM "+table+" WHERE id = 1")
			before := store.Clone()
			if got := d.sent(conf, store, count(c.second)); got != c.second {
				t.Errorf("the second start sent %q, want %q", got, c.second)
			}
			if streams == "1" {
				d.dropSlot(slot)
			}
			if c.lost == "!" {
				err := d.start(conf, before).Wait()
				if f := connectors.FailureOf(err); f == nil || f.Reason != reasonSlotLost || connectors.IsRetriable(err) {
					t.Errorf("without its slot it said %v, want %s and no retry", err, reasonSlotLost.Code)
				}
				return
			}
			if got := d.sent(conf, before, count(c.lost)); got != c.lost {
				t.Errorf("without its slot it sent %q, want %q", got, c.lost)
			}
		})
	}
}

// TestSlotAheadOfTheOffset: snapshot.mode=when_needed reads anew where the slot was moved
// on by somebody else, and the stream goes on behind.
func TestSlotAheadOfTheOffset(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	conf := d.config("snapshot.mode", "when_needed")
	store := &connectortest.OffsetStore{}
	if got := d.sent(conf, store, 1); got != "r1" {
		t.Fatal(got)
	}
	d.exec("INSERT INTO t VALUES (2)")
	target := d.text("SELECT pg_current_wal_insert_lsn()")
	for i := 0; d.text("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '"+d.name+"' AND confirmed_flush_lsn >= '"+target+"'") == "0"; i++ {
		// Its reader was just told to go, and the server's log is written a moment later.
		if _, err := d.conn.Exec(context.Background(), "SELECT pg_replication_slot_advance('"+d.name+"', '"+target+"')"); err != nil && sqlState(err) != "55006" || i == 3000 {
			t.Fatalf("the slot does not move on: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	d.exec("INSERT INTO t VALUES (3)")
	r := d.start(conf, store)
	r.WaitFor("the snapshot", func() bool { return r.Count() >= 3 })
	d.exec("INSERT INTO t VALUES (4)")
	r.WaitFor("the stream", func() bool { return r.Count() >= 4 })
	r.Stop()
	if got := ops(r.Records()); got != "r1 r2 r3 c4" {
		t.Error(got)
	}
}

// TestIsolationMode: snapshot.isolation.mode. What is committed between the slot's beginning and
// the reading of a table is in the snapshot's rows under read_committed alone; in each mode
// it comes with the stream.
func TestIsolationMode(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE many (id int PRIMARY KEY)", "INSERT INTO many SELECT n FROM generate_series(1, 20000) n")
	for i, c := range []struct{ mode, want string }{
		{"serializable", "r1 c2"}, {"repeatable_read", "r1 c2"}, {"read_committed", "r1 r2 c2"}, {"read_uncommitted", "r1 r2 c2"},
	} {
		t.Run(c.mode, func(t *testing.T) {
			d := &database{t, d.server, d.name, d.conn}
			table := fmt.Sprintf("i%d", i)
			d.exec("CREATE TABLE "+table+" (id int PRIMARY KEY)", "INSERT INTO "+table+" VALUES (1)")
			conf := d.config("snapshot.isolation.mode", c.mode, "table.include.list", "public.many,public."+table, "slot.name", d.name+strconv.Itoa(i), "max.batch.size", "50", "max.queue.size", "51")
			// The log is behind: the snapshot does not get through the first table.
			r := d.start(conf, nil, connectortest.Blocked)
			r.WaitFor("the first table to be under way", func() bool {
				p := r.Task.(*task).scan.Progress()
				return p != nil && p.Tables[0].State == "reading" && p.Rows > 0
			})
			d.exec("INSERT INTO " + table + " VALUES (2)")
			r.Open()
			of := func() string { return ops(on(r.Records(), "p.public."+table)) }
			r.WaitFor("the insert", func() bool { return strings.HasSuffix(of(), "c2") })
			r.Stop()
			if got := of(); got != c.want {
				t.Errorf("sent %q, want %q", got, c.want)
			}
		})
	}
}

// TestLockTimeout: snapshot.locking.mode=shared waits for snapshot.lock.timeout.ms and says
// who stands in its way; with none nothing is locked but by the reading itself.
func TestLockTimeout(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
	other := d.server.Connect(t, d.name)
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE b IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	conf := d.config("snapshot.mode", "initial_only", "snapshot.locking.mode", "shared", "snapshot.lock.timeout.ms", "200")
	err = d.start(conf, nil).Wait()
	f := connectors.FailureOf(err)
	if f == nil || f.Reason != reasonLocked || !connectors.IsRetriable(err) || !strings.Contains(err.Error(), "public.b") || !strings.Contains(err.Error(), "snapshot.lock.timeout.ms") {
		t.Fatalf("it said %v", err)
	}
	// Without locks the first table is read before the second one stands in the way.
	r := d.start(with(conf, "snapshot.locking.mode", "none", "max.batch.size", "1"), nil)
	r.WaitFor("a row of the first table", func() bool {
		return d.text("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'b'::regclass") == "1"
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.WaitFor("the row", func() bool { return r.Count() == 1 })
	r.Stop()
}

// TestOrderOfTables: the order of table.include.list, or by row count; and
// snapshot.include.collection.list, with the places of first and last in what is left.
func TestOrderOfTables(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)", "CREATE TABLE c (id int PRIMARY KEY)", "CREATE TABLE empty (id int PRIMARY KEY)",
		"INSERT INTO a VALUES (1), (2)", "INSERT INTO b VALUES (1), (2), (3)", "INSERT INTO c VALUES (1)", "ANALYZE a, b, c, empty")
	for i, c := range []struct {
		name string
		conf []string
		want string
	}{
		{"by name", nil, "a:first a:last_in_data_collection b:first_in_data_collection b:true b:last_in_data_collection c:last"},
		{"as the list has them", []string{"table.include.list", "public.c,public.[ab]"}, "c:first a:first_in_data_collection a:last_in_data_collection b:first_in_data_collection b:true b:last"},
		{"fewest rows first", []string{"snapshot.tables.order.by.row.count", "ascending"}, "c:first a:first_in_data_collection a:last_in_data_collection b:first_in_data_collection b:true b:last"},
		{"most rows first", []string{"snapshot.tables.order.by.row.count", "descending"}, "b:first b:true b:last_in_data_collection a:first_in_data_collection a:last_in_data_collection c:last"},
		{"a part of them", []string{"snapshot.include.collection.list", "public.(a|c|empty)"}, "a:first a:last_in_data_collection c:last"},
		{"one row", []string{"snapshot.include.collection.list", "public.c"}, "c:last"},
		{"none", []string{"snapshot.include.collection.list", "public.x"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &database{t, d.server, d.name, d.conn}
			r := d.start(d.config(append(c.conf, "slot.name", d.name+strconv.Itoa(i))...), nil)
			r.WaitFor("the stream", func() bool { return connectortest.Figures(r.Task.(*task).Samples())["Connected streaming"] == 1 })
			r.Stop()
			var got []string
			for _, rec := range r.Records() {
				src := rec.Value.Get("source")
				got = append(got, src.Get("table").Str()+":"+src.Get("snapshot").Str())
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("sent %s, want %s", s, c.want)
			}
		})
	}
}

// TestDelays: snapshot.delay.ms and streaming.delay.ms hold up what they name, and end with
// the task.
func TestDelays(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	const hour = "3600000"
	r := d.start(d.config("snapshot.delay.ms", hour), nil)
	r.WaitFor("the publication, which is made before", func() bool { return d.text("SELECT count(*) FROM pg_publication") == "1" })
	r.Stop()
	if r.Count() != 0 || d.text("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '"+d.name+"'") != "0" {
		t.Error("the snapshot did not wait")
	}
	r = d.start(d.config("streaming.delay.ms", hour), nil)
	r.WaitFor("the snapshot", func() bool {
		return r.Task.(*task).scan.Progress() != nil && r.Task.(*task).scan.Progress().State == "completed"
	})
	r.Stop()
	if connectortest.Figures(r.Task.(*task).Samples())["TotalNumberOfEventsSeen streaming"] != 0 || d.text("SELECT count(*) FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = r.pid WHERE slot_name = '"+d.name+"'") != "0" {
		t.Error("the stream did not wait")
	}
	r = d.start(d.config("snapshot.delay.ms", "1", "streaming.delay.ms", "1"), nil)
	d.exec("INSERT INTO t VALUES (2)")
	r.WaitFor("both", func() bool { return r.Count() >= 2 })
}

// TestBrokenOffSnapshots: a snapshot that is broken off at any place, with changes between the
// starts, ends with a topic that says what the table holds. Rows that were sent and deleted
// since are the hard part.
func TestBrokenOffSnapshots(t *testing.T) {
	rnd := rand.New(rand.NewPCG(trial.Seed(t), 1))
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT n, 0 FROM generate_series(1, 2000) n")
	conf := d.config("max.batch.size", "50", "max.queue.size", "51")
	store := &connectortest.OffsetStore{}
	var mu sync.Mutex
	topic := map[int64]int64{}
	apply := func(b connectors.Batch) {
		mu.Lock()
		defer mu.Unlock()
		for _, r := range b.Records {
			id := r.Key.Get("id").Int()
			if after := r.Value.Get("after"); !after.IsNull() {
				topic[id] = after.Get("v").Int()
			} else {
				delete(topic, id)
			}
		}
	}
	brokenOff := 0
	for round := range 8 {
		left, enough := 1+rnd.IntN(30), make(chan struct{})
		r := d.start(conf, store, connectortest.Consume(func(b connectors.Batch) {
			apply(b)
			if left--; left == 0 {
				close(enough)
			}
			if left <= 0 { // let no more than a few through until the task is told to end
				time.Sleep(time.Millisecond)
			}
		}))
		select {
		case <-enough:
		case <-time.After(time.Minute):
			t.Fatalf("round %d: the task sends nothing", round)
		}
		r.Stop()
		if v, _ := store.Stored(context.Background(), r.Task.(*task).partition); !v.IsNull() {
			if p, _, _ := parsePosition(v); p.snapshot {
				brokenOff++
			}
		}
		for range 40 {
			switch id := 1 + rnd.IntN(2200); rnd.IntN(3) {
			case 0:
				d.exec(fmt.Sprintf("DELETE FROM t WHERE id BETWEEN %d AND %d", id, id+3))
			case 1:
				d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d, %d) ON CONFLICT (id) DO UPDATE SET v = excluded.v", id, round))
			case 2:
				d.exec(fmt.Sprintf("UPDATE t SET v = v + 1 WHERE id BETWEEN %d AND %d", id, id+20))
			}
		}
	}
	if brokenOff == 0 {
		t.Error("no snapshot was broken off")
	}
	r := d.start(conf, store, connectortest.Consume(apply))
	table := map[int64]int64{}
	rows, err := d.conn.Query(t.Context(), "SELECT id, v FROM t")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var id, v int64
		if err := rows.Scan(&id, &v); err != nil {
			t.Fatal(err)
		}
		table[id] = v
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	same := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return maps.Equal(table, topic)
	}
	r.WaitFor("the topic to say what the table holds", same)
	r.Stop()
}
