package cmd_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/deploy/peers"
	"millrace/deploy/peers/run"
	"millrace/deploy/trial"
)

// many inserts so many rows with one statement.
func (l *myLoad) many(rows int) error {
	l.next++
	from := l.last + 1
	for range rows {
		l.last++
		l.ids = append(l.ids, l.last)
		l.want = append(l.want, myChange{"c", l.last, l.next, l.version})
	}
	return l.exec("INSERT INTO `load` (id, n, v%d, filler) WITH RECURSIVE s (g) AS (SELECT %d UNION ALL SELECT g + 1 FROM s WHERE g < %d) SELECT g, %[4]d, %[4]d, 'one of many' FROM s", l.version, from, l.last, l.next)
}

// event is what a record of the table load says, and whether it is an event at all: tombstones are none. The column that
// changes with the versions must be there under one name, and be like n.
func myEvent(t *testing.T, r kcatRecord) (myChange, bool) {
	t.Helper()
	if r.Payload == nil {
		return myChange{}, false
	}
	var key struct{ ID int }
	var event struct {
		Op            string
		Before, After map[string]any
	}
	if err := json.Unmarshal([]byte(*r.Key), &key); err != nil {
		t.Fatalf("offset %d: key %s: %v", r.Offset, *r.Key, err)
	}
	if err := json.Unmarshal([]byte(*r.Payload), &event); err != nil {
		t.Fatalf("offset %d: %v", r.Offset, err)
	}
	c := myChange{op: event.Op, id: key.ID, version: -1}
	row := event.After
	if event.Op == "d" {
		row = event.Before
	} else {
		n, _ := row["n"].(float64)
		c.n = int(n)
	}
	for name, v := range row {
		if _, err := fmt.Sscanf(name, "v%d", &c.version); err == nil && fmt.Sprint(v) != fmt.Sprint(row["n"]) {
			t.Fatalf("offset %d: %s is %v: %s", r.Offset, name, v, *r.Payload)
		}
	}
	if len(row) != 4 || c.version < 0 {
		t.Fatalf("offset %d: not the table's columns: %s", r.Offset, *r.Payload)
	}
	return c, true
}

// myRepeats compares a topic with what was written: each row of the snapshot and each change, in order, with the columns of its
// time. It answers how many events came again: those that follow one that was there before, up to where it left off.
func myRepeats(t *testing.T, who string, rows int, want []myChange, records []kcatRecord) (again int) {
	t.Helper()
	read, next, at := map[int]bool{}, 0, 0 // at is below next while events come again
	for _, r := range records {
		got, event := myEvent(t, r)
		switch {
		case !event:
		case got.op == "r":
			if next > 0 || got.id > rows || read[got.id] {
				t.Fatalf("behind %s, offset %d: row %d of a snapshot behind %d changes, or twice", who, r.Offset, got.id, next)
			}
			read[got.id] = true
		case at < len(want) && got == want[at]:
			if at < next {
				again++
			}
			at++
			next = max(next, at)
		default:
			back := slices.Index(want[:next], got)
			if back < 0 || at != next {
				t.Fatalf("behind %s, offset %d: %+v behind %d changes, want %+v", who, r.Offset, got, at, want[min(at, len(want)-1)])
			}
			again++
			at = back + 1
		}
	}
	if next != len(want) || at != next || len(read) != rows {
		t.Fatalf("behind %s the topic has %d of %d changes and %d of %d rows of the snapshot; it stands at %d", who, next, len(want), len(read), rows, at)
	}
	return again
}

// TestTakeOverFromDebeziumAndBackOnMySQL: as with PostgreSQL, and the table's columns change all the time, also while nobody
// reads: whoever goes on has the definitions from the history that the other one wrote.
func TestTakeOverFromDebeziumAndBackOnMySQL(t *testing.T) {
	if !trial.Soak() {
		t.Skip("starts a JVM with Debezium: run it with MILLRACE_SOAK=1")
	}
	server, kafka := peers.MySQL(t), peers.Kafka(t)
	peers.Kcat(t)
	connect := restAPI{t, peers.Connect(t, kafka.Addr, run.ConnectOptions{Debezium: "mysql", Settings: "offset.flush.interval.ms=200\n"}).URL}
	prefix := peers.Unique(t, "shop")
	db := server.NewDatabase(t)
	l := &myLoad{conn: server.Connect(t, db), rnd: rand.New(rand.NewPCG(trial.Seed(t), 1))}
	const rows = 1000
	if err := l.fill(rows); err != nil {
		t.Fatal(err)
	}
	conf := mySource(server, db)
	conf["topic.prefix"], conf["schema.history.internal.kafka.topic"], conf["schema.history.internal.kafka.bootstrap.servers"] = prefix, prefix+"-history", kafka.Addr
	conf["key.converter"], conf["value.converter"] = "org.apache.kafka.connect.json.JsonConverter", "org.apache.kafka.connect.json.JsonConverter"
	conf["key.converter.schemas.enable"], conf["value.converter.schemas.enable"] = "false", "false"
	write := func(transactions int) {
		t.Helper()
		for range transactions {
			if err := l.transaction(); err != nil {
				t.Fatal(err)
			}
		}
	}
	topic := prefix + "." + db + ".load"
	check := func(who string) {
		t.Helper()
		if err := l.many(1); err != nil { // a change of this moment
			t.Fatal(err)
		}
		marker := fmt.Sprintf(`{"id":%d}`, l.last)
		var records []kcatRecord
		eventually(t, fmt.Sprintf("%s has sent the marker %s", who, marker), 2*time.Minute, func() (bool, string) {
			records = consume(t, kafka.Addr, topic)
			return slices.ContainsFunc(records, func(r kcatRecord) bool { return r.Key != nil && *r.Key == marker }), fmt.Sprintf("%d records", len(records))
		})
		again := myRepeats(t, who, rows, l.want, records)
		t.Logf("%s: %d records, %d changes in %d versions of the table, none lost, %d more than once", who, len(records), len(l.want), l.version+1, again)
	}

	connect.must(http.MethodPut, "/connectors/my/config", conf)
	eventually(t, "Debezium has read the table", 2*time.Minute, func() (bool, string) {
		n := len(consume(t, kafka.Addr, topic))
		return n >= rows, fmt.Sprintf("%d records", n)
	})
	check("Debezium")
	write(20)
	check("Debezium")
	offsets := connect.stop("my")
	t.Logf("Debezium's offsets: %s", offsets)

	// Ours, with what was written while nobody read.
	write(20)
	r := newRuns(t, "--config", "bootstrap.servers="+kafka.Addr, "--config", "group.id="+prefix, "--config", "exactly.once.source.support=enabled", "--config", "offset.flush.interval.ms=50")
	p := r.start(t)
	ours := restAPI{t, p.api}
	ours.must(http.MethodPost, "/connectors", map[string]any{"name": "my", "config": conf, "initial_state": "STOPPED"})
	ours.must(http.MethodPatch, "/connectors/my/offsets", offsets)
	ours.must(http.MethodPut, "/connectors/my/resume", nil)
	check("Millrace")
	write(20)
	check("Millrace")
	ours.stop("my")
	// It goes on, and stops within a transaction of many rows.
	const within = `"rows_in_transaction"`
	for try := 1; ; try++ {
		if err := l.many(200_000); err != nil {
			t.Fatal(err)
		}
		ours.must(http.MethodPut, "/connectors/my/resume", nil)
		for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
			if strings.Contains(ours.must(http.MethodGet, "/connectors/my/offsets", nil), within) {
				break
			}
		}
		if offsets = ours.stop("my"); strings.Contains(offsets, within) {
			break
		}
		if try == 5 {
			t.Fatalf("five large transactions, and it never stopped within one: %s", offsets)
		}
	}
	t.Logf("Millrace's offsets: %s", offsets)

	write(5)
	connect.must(http.MethodPatch, "/connectors/my/offsets", offsets)
	connect.must(http.MethodPut, "/connectors/my/resume", nil)
	check("Debezium again")
	write(5)
	check("Debezium again")
	connect.stop("my")
}
