package cmd_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"

	"millrace/deploy/peers"
	"millrace/deploy/trial"
)

// mySource is a MySQL connector's configuration for the table load of a database.
func mySource(s *peers.MySQLServer, db string) map[string]string {
	return map[string]string{
		"connector.class":   "io.debezium.connector.mysql.MySqlConnector",
		"database.hostname": s.Host, "database.port": strconv.Itoa(s.Port), "database.user": "root", "database.password": "",
		"database.server.id": "5577", "topic.prefix": "shop", "database.include.list": db, "table.include.list": db + ".load",
	}
}

// A myChange is what an event of the table load must say: its row's number is in the column n, and once more in a column
// whose name, type and place change with each version of the table.
type myChange struct {
	op      string
	id, n   int
	version int
}

// A myLoad changes rows of the table load, and its columns, and knows the events of that.
type myLoad struct {
	conn    *client.Conn
	rnd     *rand.Rand
	next    int // number of the next change
	version int
	ids     []int // that are there
	last    int   // id
	want    []myChange
}

// column is the definition of the column that changes.
func (l *myLoad) column(version int) string {
	return fmt.Sprintf("v%d %s", version, []string{"int", "varchar(20)", "bigint unsigned"}[version%3])
}

func (l *myLoad) exec(format string, args ...any) error {
	r, err := l.conn.Execute(fmt.Sprintf(format, args...))
	if err != nil {
		return err
	}
	r.Close()
	return nil
}

// fill makes the table with rows in it.
func (l *myLoad) fill(rows int) error {
	if err := l.exec("CREATE TABLE `load` (id int PRIMARY KEY, n int NOT NULL, %s, filler varchar(60))", l.column(0)); err != nil {
		return err
	}
	for range rows {
		l.last++
		l.ids = append(l.ids, l.last)
	}
	if err := l.exec("SET SESSION cte_max_recursion_depth = 10000000"); err != nil {
		return err
	}
	return l.exec("INSERT INTO `load` WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < %d) SELECT g, 0, 0, 'filler of a row that is not very long' FROM s", rows)
}

// transaction changes rows by statements of many rows each. Behind some, the column changes.
func (l *myLoad) transaction() error {
	v, n, want := l.version, l.next, l.want
	ids := slices.Clone(l.ids)
	statements := []string{"BEGIN"}
	n++
	var values []string
	for range 1 + l.rnd.IntN(40) {
		l.last++
		ids = append(ids, l.last)
		values = append(values, fmt.Sprintf("(%d, %d, %d)", l.last, n, n))
		want = append(want, myChange{"c", l.last, n, v})
	}
	statements = append(statements, fmt.Sprintf("INSERT INTO `load` (id, n, v%d) VALUES %s", v, strings.Join(values, ", ")))
	n++
	from := l.rnd.IntN(len(ids))
	some := ids[from:min(len(ids), from+1+l.rnd.IntN(100))]
	for _, id := range some {
		want = append(want, myChange{"u", id, n, v})
	}
	statements = append(statements, fmt.Sprintf("UPDATE `load` SET n = %d, v%d = %[1]d WHERE id BETWEEN %[3]d AND %d ORDER BY id", n, v, some[0], some[len(some)-1]))
	at := l.rnd.IntN(len(ids))
	want = append(want, myChange{"d", ids[at], 0, v})
	statements = append(statements, fmt.Sprintf("DELETE FROM `load` WHERE id = %d", ids[at]), "COMMIT")
	ids = slices.Delete(ids, at, at+1)
	for _, s := range statements {
		if err := l.exec("%s", s); err != nil {
			return err
		}
	}
	l.next, l.ids, l.want = n, ids, want
	if l.rnd.IntN(2) > 0 {
		return nil
	}
	place := []string{"FIRST", "AFTER id", "AFTER filler"}[l.rnd.IntN(3)]
	if err := l.exec("ALTER TABLE `load` CHANGE COLUMN v%d %s %s", v, l.column(v+1), place); err != nil {
		return err
	}
	l.version++
	return nil
}

// TestKillsOfMySQLAndWorkerLoseAndRepeatNothing ends the worker and the database server with SIGKILL, in the snapshot and in the
// stream, while the table's columns are renamed, moved and given other types: a reader of committed records must see every
// change exactly once, in order, with the columns that the table had then.
func TestKillsOfMySQLAndWorkerLoseAndRepeatNothing(t *testing.T) {
	server := peers.MySQLOwn(t, peers.MySQLOptions{})
	peers.Kcat(t)
	seed := trial.Seed(t)
	db := server.NewDatabase(t)
	l := &myLoad{conn: server.Connect(t, db), rnd: rand.New(rand.NewPCG(seed, 1))}
	const rows = 60_000
	if err := l.fill(rows); err != nil {
		t.Fatal(err)
	}
	// A snapshot reads as many rows as the gate lets through, and each one behind them takes a millisecond: half a minute is left
	// to kill it there.
	server.Exec(t, db, "CREATE TABLE gate (free int NOT NULL)", "INSERT INTO gate VALUES (0)")
	conf := mySource(server, db)
	conf["snapshot.select.statement.overrides"] = db + ".load"
	conf["snapshot.select.statement.overrides."+db+".load"] = fmt.Sprintf("SELECT * FROM %s.`load` WHERE id <= (SELECT free FROM %[1]s.gate) OR SLEEP(0.001) = 0", db)
	r := newRuns(t, "--config", "offset.flush.interval.ms=100")
	k := &myKills{t: t, server: server, db: db, load: l, r: r, p: r.start(t), times: map[string]int{}}
	rnd := rand.New(rand.NewPCG(seed, 2))
	crashes, workers := trial.Effort(3), trial.Effort(7) // kills of the server, and of the worker, which cost less: in the snapshot, and in the stream
	if trial.Soak() {
		crashes, workers = 75, 75
	}

	for i := range crashes + workers + 1 {
		free := rows
		if i < crashes+workers {
			free = 4000 + rnd.IntN(rows/2-4000)
		}
		if err := l.exec("UPDATE gate SET free = %d", free); err != nil {
			t.Fatal(err)
		}
		switch {
		case i == 0:
			k.p.create("my", conf)
		case i%2 == 0 && i <= 2*crashes: // a worker is new each time, since its patience with a server has an end
			k.crash("snapshot")
		default:
			k.worker("snapshot")
		}
		if free < rows {
			k.snapshotAt(free - 3000) // a batch, and what the server holds back, are not counted yet
		}
	}
	k.p.until("the snapshot is over", 2*time.Minute, func() (bool, string) {
		now := offsetsOf(k.p, "my")
		return strings.Contains(now, snapshotOver), now
	})

	enough, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- k.change(enough) }()
	moved := func() {
		before := ""
		k.p.until("the offset moves in the stream", 2*time.Minute, func() (bool, string) {
			select {
			case err := <-done:
				t.Fatalf("the load has ended: %v", err)
			default:
			}
			now := offsetsOf(k.p, "my")
			if !strings.Contains(now, `"pos"`) || strings.Contains(now, `"snapshot`) {
				return false, now
			}
			before = cmp.Or(before, now)
			return now != before, now
		})
		time.Sleep(time.Duration(rnd.IntN(200)) * time.Millisecond)
	}
	for i := range workers {
		if i < crashes {
			moved()
			k.crash("stream")
		}
		moved()
		k.worker("stream")
	}
	close(enough)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]int{"server in the snapshot": crashes, "worker in the snapshot": workers, "server in the stream": crashes, "worker in the stream": workers} {
		if k.times[kind] != want {
			t.Errorf("%d kills of the %s, want %d", k.times[kind], kind, want)
		}
	}
	l.last++
	if err := l.exec("INSERT INTO `load` (id, n, v%d) VALUES (%d, -1, 7)", l.version, l.last); err != nil {
		t.Fatal(err)
	}
	var records []kcatRecord
	k.p.until("the marker is in the topic", 2*time.Minute, func() (bool, string) {
		records = consume(t, k.p.kafka, "shop."+db+".load")
		last := ""
		if len(records) > 0 && records[len(records)-1].Key != nil {
			last = *records[len(records)-1].Key
		}
		return last == fmt.Sprintf(`{"id":%d}`, l.last), fmt.Sprintf("%d records, the last of %s", len(records), last)
	})
	compareMyLoad(t, rows, l.want, records[:len(records)-1])
	t.Logf("kills: %v; %d changes in %d versions of the table", k.times, len(l.want), l.version+1)
}

// myKills are the kills of a MySQL server and of the worker that reads it.
type myKills struct {
	t      *testing.T
	server *peers.MySQLServer
	db     string
	r      *runs
	p      *process
	times  map[string]int // by what was killed, and where

	writing sync.Mutex // guards load: a crash never meets a transaction of it
	load    *myLoad
}

// change changes rows until it is enough.
func (k *myKills) change(enough <-chan struct{}) error {
	for {
		k.writing.Lock()
		err := k.load.transaction()
		k.writing.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-enough:
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// crash ends the server and starts it again.
func (k *myKills) crash(phase string) {
	k.t.Helper()
	k.writing.Lock()
	defer k.writing.Unlock()
	k.count("server", phase)
	k.server.Kill(k.t)
	k.server.Start(k.t)
	k.load.conn = k.server.Connect(k.t, k.db)
}

// worker ends the worker and starts it again.
func (k *myKills) worker(phase string) {
	k.t.Helper()
	k.count("worker", phase)
	k.p.kill()
	k.p = k.r.start(k.t)
}

// count notes a kill that is due.
func (k *myKills) count(what, phase string) {
	k.t.Helper()
	if phase == "snapshot" && strings.Contains(offsetsOf(k.p, "my"), snapshotOver) {
		k.t.Fatal("the snapshot is over before it was killed")
	}
	k.times[what+" in the "+phase]++
}

// snapshotOver stands in an offset behind the snapshot.
const snapshotOver = `"snapshot_completed":true`

// snapshotAt waits until a snapshot that is under way has read so many rows.
func (k *myKills) snapshotAt(rows int) {
	k.t.Helper()
	k.p.until(fmt.Sprintf("the snapshot has read %d rows", rows), time.Minute, func() (bool, string) {
		s, err := k.p.status("my")
		if err != nil || len(s.Tasks) != 1 || s.Tasks[0].Reading == nil || s.Tasks[0].Reading.Snapshot == nil {
			return false, fmt.Sprintf("%+v, %v", s, err)
		}
		task := s.Tasks[0]
		return task.State == "RUNNING" && task.Reading.Snapshot.State == "running" && task.Reading.Snapshot.Rows >= rows,
			fmt.Sprintf("%s, %+v", task.State, *task.Reading.Snapshot)
	})
}

// compareMyLoad compares a topic, without its marker, with what was written: the rows of the snapshots first, all of version 0.
func compareMyLoad(t *testing.T, rows int, want []myChange, records []kcatRecord) {
	t.Helper()
	read, next := map[int]bool{}, 0
	for _, r := range records {
		var key struct{ ID int }
		if err := json.Unmarshal([]byte(*r.Key), &key); err != nil {
			t.Fatalf("offset %d: key %s: %v", r.Offset, *r.Key, err)
		}
		if r.Payload == nil {
			if next == 0 || want[next-1].op != "d" || want[next-1].id != key.ID {
				t.Fatalf("offset %d: a tombstone of %d that is behind no delete", r.Offset, key.ID)
			}
			continue
		}
		var event struct {
			Op            string
			Before, After map[string]any
		}
		if err := json.Unmarshal([]byte(*r.Payload), &event); err != nil {
			t.Fatalf("offset %d: %v", r.Offset, err)
		}
		expected := myChange{op: "r", id: key.ID}
		if event.Op == "r" {
			if next > 0 || key.ID > rows {
				t.Fatalf("offset %d: row %d of a snapshot behind %d changes", r.Offset, key.ID, next)
			}
			read[key.ID] = true
		} else {
			if next == len(want) {
				t.Fatalf("offset %d: more changes than were made: %s", r.Offset, *r.Payload)
			}
			expected = want[next]
			next++
		}
		row := event.After
		if event.Op == "d" {
			row = event.Before
		}
		column := fmt.Sprintf("v%d", expected.version)
		got := myChange{op: event.Op, id: key.ID, version: expected.version, n: expected.n}
		if event.Op != "d" {
			n, _ := row["n"].(float64)
			got.n = int(n)
		}
		if _, ok := row[column]; !ok || len(row) != 4 || got != expected || fmt.Sprint(row[column]) != fmt.Sprint(row["n"]) {
			t.Fatalf("offset %d: %s; want %+v with a column %s that is like n", r.Offset, *r.Payload, expected, column)
		}
	}
	if next != len(want) || len(read) != rows {
		t.Fatalf("the topic has %d of %d changes and %d of %d rows of the snapshot", next, len(want), len(read), rows)
	}
}

// TestALargeTransactionTakesLittleMemory: the events of one transaction, which would take some 500 MiB together, go through as
// they come.
func TestALargeTransactionTakesLittleMemory(t *testing.T) {
	server := peers.MySQL(t)
	peers.Kcat(t)
	db := server.NewDatabase(t)
	server.Exec(t, db, "CREATE TABLE large (id int PRIMARY KEY, n int, note varchar(100))", "CREATE TABLE marker (id int PRIMARY KEY)", "INSERT INTO marker VALUES (1)")
	p := newRuns(t).start(t)
	conf := mySource(server, db)
	conf["table.include.list"] = db + ".large," + db + ".marker"
	p.create("my", conf)
	reached := func(n int) {
		t.Helper()
		p.until(fmt.Sprintf("marker %d is in the topic", n), 3*time.Minute, func() (bool, string) {
			records := consume(t, p.kafka, "shop."+db+".marker")
			return len(records) == n, fmt.Sprint(len(records))
		})
	}
	reached(1)
	const rows = 300_000
	server.Exec(t, db, fmt.Sprintf("SET SESSION cte_max_recursion_depth = %d", rows),
		fmt.Sprintf("INSERT INTO large WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < %d) SELECT g, g, repeat(left(sha2(g, 256), 32), 2) FROM s", rows),
		"INSERT INTO marker VALUES (2)")
	reached(2)
	if peak := p.peakMiB(); peak > 300 {
		t.Errorf("the worker has held %d MiB", peak)
	} else {
		t.Logf("a transaction of %d rows: %d MiB at most", rows, peak)
	}
}
