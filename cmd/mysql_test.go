package cmd_test

import (
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
	rnd, kills := rand.New(rand.NewPCG(seed, 2)), map[string]int{}
	r := newRuns(t, "--config", "offset.flush.interval.ms=100")
	p := r.start(t)
	p.create("my", mySource(server, db))

	var writing sync.Mutex // held by whoever uses the connection: a crash never meets a transaction of the load
	crash := func(phase string) {
		writing.Lock()
		defer writing.Unlock()
		server.Kill(t)
		kills[phase+", server"]++
		server.Start(t)
		l.conn = server.Connect(t, db)
	}
	again := func(phase string) {
		p.kill()
		kills[phase+", worker"]++
		p = r.start(t)
	}
	snapshotDone := func() bool { return strings.Contains(offsetsOf(p, "my"), `"snapshot_completed":true`) }
	for _, end := range []func(string){again, crash} {
		p.until("the snapshot runs", time.Minute, func() (bool, string) {
			s, err := p.status("my")
			return err == nil && len(s.Tasks) == 1 && s.Tasks[0].State == "RUNNING", ""
		})
		time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
		phase := "snapshot"
		if snapshotDone() { // a fast machine, or a slow look: the rest holds all the same
			phase = "after the snapshot"
		}
		end(phase)
	}
	p.until("the snapshot is over", 2*time.Minute, func() (bool, string) { return snapshotDone(), offsetsOf(p, "my") })

	enough, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			writing.Lock()
			err := l.transaction()
			writing.Unlock()
			if err != nil {
				done <- err
				return
			}
			select {
			case <-enough:
				done <- nil
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	for i := range 4 * trial.Effort(1) {
		before := offsetsOf(p, "my")
		p.until("the offset moves", 2*time.Minute, func() (bool, string) {
			now := offsetsOf(p, "my")
			return now != before && now != "", now
		})
		time.Sleep(time.Duration(rnd.IntN(200)) * time.Millisecond)
		if i%2 == 0 {
			crash("stream")
		}
		again("stream") // a new worker has patience anew
	}
	close(enough)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	l.last++
	if err := l.exec("INSERT INTO `load` (id, n, v%d) VALUES (%d, -1, 7)", l.version, l.last); err != nil {
		t.Fatal(err)
	}
	var records []kcatRecord
	p.until("the marker is in the topic", 2*time.Minute, func() (bool, string) {
		records = consume(t, p.kafka, "shop."+db+".load")
		last := ""
		if len(records) > 0 && records[len(records)-1].Key != nil {
			last = *records[len(records)-1].Key
		}
		return last == fmt.Sprintf(`{"id":%d}`, l.last), fmt.Sprintf("%d records, the last of %s", len(records), last)
	})
	compareMyLoad(t, rows, l.want, records[:len(records)-1])
	t.Logf("kills: %v; %d changes in %d versions of the table", kills, len(l.want), l.version+1)
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
