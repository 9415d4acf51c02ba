package cmd_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/deploy/peers"
	"millrace/deploy/trial"
)

// pgSource is a Postgres connector's configuration for the tests' own database.
func pgSource(pg *peers.PostgresServer, db, tables string) map[string]string {
	return map[string]string{
		"connector.class":   "io.debezium.connector.postgresql.PostgresConnector",
		"database.hostname": pg.Host, "database.port": strconv.Itoa(pg.Port), "database.user": pg.User, "database.password": pg.Password,
		"database.dbname": db, "topic.prefix": "shop", "slot.name": "s_" + db, "publication.name": "p_" + db,
		"plugin.name": "pgoutput", "table.include.list": tables, "publication.autocreate.mode": "filtered",
	}
}

// searchSink is a search connector's configuration: rows as documents, by the key's id.
func searchSink(url, topics string) map[string]string {
	return map[string]string{
		"connector.class": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector", "connection.url": url, "topics": topics,
		"key.ignore": "false", "schema.ignore": "true", "behavior.on.null.values": "delete", "write.method": "insert",
		"transforms": "unwrap,id", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
		"transforms.id.type": "org.apache.kafka.connect.transforms.ExtractField$Key", "transforms.id.field": "id",
	}
}

// A kcatRecord is a record as kcat prints it.
type kcatRecord struct {
	Offset  int64
	Key     *string
	Payload *string
}

// consume reads the committed records of a whole topic with kcat, which shares no code with us.
func consume(t *testing.T, kafka, topic string) []kcatRecord {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, peers.Kcat(t), "-b", kafka, "-t", topic, "-C", "-e", "-q", "-J", "-X", "check.crcs=true", "-X", "isolation.level=read_committed")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var records []kcatRecord
	d := json.NewDecoder(bufio.NewReader(out))
	for d.More() {
		var r kcatRecord
		if err := d.Decode(&r); err != nil {
			t.Fatalf("kcat's output: %v", err)
		}
		records = append(records, r)
	}
	if err := cmd.Wait(); err != nil && !strings.Contains(stderr.String(), "Unknown topic or partition") { // not made yet
		t.Fatalf("kcat: %v: %s", err, stderr.String())
	}
	return records
}

// A load changes rows and remembers what was committed: for each id the numbers that
// it was given, in order, and -1 for each time it was deleted.
type load struct {
	t       *testing.T
	conn    *pgx.Conn
	rnd     *rand.Rand
	next    int // number of the next change
	ids     int // ids given so far
	history map[int][]int
	alive   map[int]bool
}

func newLoad(t *testing.T, conn *pgx.Conn, seed uint64) *load {
	return &load{t: t, conn: conn, rnd: rand.New(rand.NewPCG(seed, 1)), history: map[int][]int{}, alive: map[int]bool{}}
}

// copyIn adds rows through COPY, which gives many of them one position in the WAL.
func (l *load) copyIn(ctx context.Context, rows int) error {
	data := make([][]any, rows)
	for i := range data {
		data[i] = []any{l.ids + i, l.next + i, "filler of a row that is not very long"}
	}
	if _, err := l.conn.CopyFrom(ctx, pgx.Identifier{"load"}, []string{"id", "n", "filler"}, pgx.CopyFromRows(data)); err != nil {
		return err
	}
	for range rows {
		l.history[l.ids], l.alive[l.ids] = []int{l.next}, true
		l.ids, l.next = l.ids+1, l.next+1
	}
	return nil
}

// transaction makes about 200 changes in one transaction: new rows by COPY and by one
// insert of many rows, updates by one statement, deletes, and a row that comes back.
func (l *load) transaction(ctx context.Context) error {
	ids := slices.Sorted(maps.Keys(l.alive))
	var changes []string
	given, dead := map[int][]int{}, map[int]bool{}
	var values, gone []string
	for range 150 {
		id := ids[l.rnd.IntN(len(ids))]
		if _, twice := given[id]; twice {
			continue
		}
		given[id] = []int{l.next}
		values = append(values, fmt.Sprintf("(%d,%d)", id, l.next))
		l.next++
	}
	changes = append(changes, "UPDATE load SET n = v.n FROM (VALUES "+strings.Join(values, ",")+") v(id, n) WHERE load.id = v.id")
	for range 5 {
		id := ids[l.rnd.IntN(len(ids))]
		if !dead[id] {
			dead[id] = true
			given[id] = append(given[id], -1)
			gone = append(gone, strconv.Itoa(id))
		}
	}
	changes = append(changes, "DELETE FROM load WHERE id IN ("+strings.Join(gone, ",")+")")
	back, err := strconv.Atoi(gone[0])
	if err != nil {
		return err
	}
	given[back], dead[back] = append(given[back], l.next), false
	values = []string{fmt.Sprintf("(%d,%d,'back')", back, l.next)}
	l.next++
	for range 20 {
		given[l.ids] = []int{l.next}
		values = append(values, fmt.Sprintf("(%d,%d,'new')", l.ids, l.next))
		l.ids, l.next = l.ids+1, l.next+1
	}
	changes = append(changes, "INSERT INTO load VALUES "+strings.Join(values, ","))
	if _, err := l.conn.Exec(ctx, "BEGIN; "+strings.Join(changes, "; ")+"; COMMIT"); err != nil {
		return err
	}
	for id, ns := range given {
		l.history[id] = append(l.history[id], ns...)
		l.alive[id] = true
	}
	for id, is := range dead {
		if is {
			delete(l.alive, id)
		}
	}
	return l.copyIn(ctx, 25)
}

// offsetsOf is a connector's offsets as the API shows them.
func offsetsOf(p *process, name string) string {
	_, body, err := p.call("GET", "/connectors/"+name+"/offsets", nil)
	if err != nil {
		return ""
	}
	return string(body)
}

// A killing is a load under which the worker is ended with SIGKILL again and again.
type killing struct {
	*load
	r     *runs
	p     *process
	rnd   *rand.Rand
	kafka string // of a cluster; the worker's own log where empty
	topic string
	kills map[string]int // by phase
}

// read is the topic as a reader of committed records sees it.
func (k *killing) read() []kcatRecord {
	k.t.Helper()
	return consume(k.t, cmp.Or(k.kafka, k.p.kafka), k.topic)
}

// kill starts a source of the table load, with rows in it, and ends the worker: each
// times in the snapshot, in the stream and right after a commit, wanted times in all.
// then adds what else shall run.
func kill(t *testing.T, pg *peers.PostgresServer, r *runs, prefix string, rows, each, wanted int, then func(p *process)) *killing {
	seed := trial.Seed(t)
	db := pg.NewDatabase(t)
	pg.Exec(t, db, "CREATE TABLE load (id int PRIMARY KEY, n int NOT NULL, filler text)")
	k := &killing{load: newLoad(t, pg.Connect(t, db), seed), r: r, rnd: rand.New(rand.NewPCG(seed, 2)), topic: prefix + ".public.load", kills: map[string]int{}}
	if err := k.copyIn(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	k.p = r.start(t)
	source := pgSource(pg, db, "public.load")
	source["topic.prefix"] = prefix
	k.p.create("pg", source)
	then(k.p)
	again := func(phase string) {
		k.p.kill()
		k.kills[phase]++
		k.p = r.start(t)
	}
	snapshotDone := func() bool {
		o := offsetsOf(k.p, "pg")
		return strings.Contains(o, `"lsn_commit"`) || strings.Contains(o, `"snapshot_completed":true`)
	}
	for k.kills["snapshot"] < each {
		k.p.until("the snapshot runs", time.Minute, func() (bool, string) {
			s, err := k.p.status("pg")
			return err == nil && len(s.Tasks) == 1 && s.Tasks[0].State == "RUNNING", ""
		})
		time.Sleep(time.Duration(k.rnd.IntN(100)) * time.Millisecond)
		if snapshotDone() {
			t.Fatalf("the snapshot was over after %d kills, want %d in it: it needs more rows", k.kills["snapshot"], each)
		}
		again("snapshot")
	}
	k.p.until("the snapshot is over", time.Minute, func() (bool, string) { return snapshotDone(), offsetsOf(k.p, "pg") })
	writing := make(chan error, 1)
	enough := make(chan struct{})
	changes := 100_000 * wanted / 20
	go func() {
		begun := k.next
		for {
			if err := k.transaction(t.Context()); err != nil {
				writing <- err
				return
			}
			select {
			case <-enough:
				if k.next-begun >= changes {
					writing <- nil
					return
				}
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	for k.kills["snapshot"]+k.kills["stream"]+k.kills["commit"] < wanted || k.kills["stream"] < each || k.kills["commit"] < each {
		before := offsetsOf(k.p, "pg")
		if k.rnd.IntN(2) == 0 {
			k.p.until("the offset moves", 60*time.Second, func() (bool, string) {
				now := offsetsOf(k.p, "pg")
				return now != before && snapshotDone(), now
			})
			again("commit")
		} else {
			k.p.until("the stream runs", 60*time.Second, func() (bool, string) { return snapshotDone(), before })
			time.Sleep(time.Duration(k.rnd.IntN(400)) * time.Millisecond)
			again("stream")
		}
	}
	close(enough)
	if err := <-writing; err != nil {
		t.Fatal(err)
	}
	t.Logf("kills by phase: %v; %d changes of %d rows", k.kills, k.next, k.ids)
	// The last change is a marker: once it is anywhere, all is.
	if _, err := k.conn.Exec(t.Context(), "INSERT INTO load VALUES (-1, -1, 'marker')"); err != nil {
		t.Fatal(err)
	}
	k.history[-1], k.alive[-1] = []int{-1}, true
	return k
}

// exactlyOnce reads the topic as a reader of committed records does: it must hold every
// change of every row once, in the order of the database. Rows that a snapshot read are
// there once more for each snapshot that a kill has ended.
func (k *killing) exactlyOnce() {
	t := k.t
	t.Helper()
	var records []kcatRecord
	k.p.until("the marker is in the topic", 2*time.Minute, func() (bool, string) {
		records = k.read()
		last := ""
		if len(records) > 0 && records[len(records)-1].Key != nil {
			last = *records[len(records)-1].Key
		}
		return strings.Contains(last, `"id":-1}`), fmt.Sprintf("%d records, the last of %s", len(records), last)
	})
	seen, reads, gone := map[int][]int{}, map[int]int{}, map[int]int{}
	lsn := int64(0)
	for _, r := range records {
		var key struct{ ID int }
		if err := json.Unmarshal([]byte(*r.Key), &key); err != nil {
			t.Fatalf("offset %d: key %s: %v", r.Offset, *r.Key, err)
		}
		if r.Payload == nil {
			gone[key.ID]--
			continue
		}
		var event struct {
			Op     string
			After  *struct{ N int }
			Source struct{ LSN int64 }
		}
		if err := json.Unmarshal([]byte(*r.Payload), &event); err != nil {
			t.Fatalf("offset %d: %v", r.Offset, err)
		}
		n := -1
		if event.After != nil {
			n = event.After.N
		}
		if event.Op == "r" {
			if len(seen[key.ID]) > 0 && seen[key.ID][0] != n || len(seen[key.ID]) > 1 || reads[key.ID] > k.kills["snapshot"] {
				t.Fatalf("offset %d: id %d: a snapshot has %d, behind %v and %d snapshots", r.Offset, key.ID, n, seen[key.ID], reads[key.ID])
			}
			seen[key.ID], reads[key.ID] = []int{n}, reads[key.ID]+1
			continue
		}
		if event.Source.LSN < lsn {
			t.Fatalf("offset %d: LSN %d comes behind LSN %d", r.Offset, event.Source.LSN, lsn)
		}
		lsn = event.Source.LSN
		if n < 0 && key.ID >= 0 {
			gone[key.ID]++
		}
		seen[key.ID] = append(seen[key.ID], n)
	}
	for id, want := range k.history {
		if got := seen[id]; !slices.Equal(got, want) {
			t.Fatalf("id %d: the topic has %v, want what was committed, once each: %v", id, got, want)
		}
		if gone[id] != 0 {
			t.Errorf("id %d: %d deletes more than tombstones", id, gone[id])
		}
	}
	if len(seen) != len(k.history) {
		t.Errorf("the topic has %d rows, want %d", len(seen), len(k.history))
	}
	t.Logf("%d committed records: each change once, in order", len(records))
}

// TestKillsLoseAndRepeatNothing ends a worker on its own log: a reader of committed
// records must see every change exactly once, COPY and inserts of many rows among them,
// and the search index must equal the table.
func TestKillsLoseAndRepeatNothing(t *testing.T) {
	pg, search := peers.Postgres(t), peers.Search(t, "opensearch")
	peers.Kcat(t)
	index := strings.ReplaceAll(peers.Unique(t, "kills"), "_", "-")
	sink := searchSink(search.URL, "shop.public.load")
	sink["transforms"] += ",route"
	maps.Copy(sink, map[string]string{"transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
		"transforms.route.regex": ".*", "transforms.route.replacement": index})
	t.Cleanup(func() { deleteIndex(t, search.URL, index) })
	k := kill(t, pg, newRuns(t, "--config", "offset.flush.interval.ms=100"), "shop", 90_000, 3, max(20, trial.Effort(20)), func(p *process) { p.create("search", sink) })
	k.exactlyOnce()
	k.p.until("the marker is in the index", 2*time.Minute, func() (bool, string) {
		res, err := http.Get(search.URL + "/" + index + "/_doc/-1")
		if err != nil {
			return false, err.Error()
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK, res.Status
	})
	compareIndex(t, k.load, search.URL, index)
}

// TestKillsOnAClusterLoseAndRepeatNothing is the same on a real Kafka, whose group and
// transactions outlive the worker.
func TestKillsOnAClusterLoseAndRepeatNothing(t *testing.T) {
	pg, kafka := peers.Postgres(t), peers.Kafka(t)
	peers.Kcat(t)
	r := newRuns(t, "--config", "bootstrap.servers="+kafka.Addr, "--config", "group.id="+peers.Unique(t, "kills"),
		"--config", "exactly.once.source.support=enabled", "--config", "offset.flush.interval.ms=100", "--config", "session.timeout.ms=6000", "--config", "heartbeat.interval.ms=500")
	each := max(1, trial.Effort(100)/150)
	k := kill(t, pg, r, peers.Unique(t, "shop"), 30_000, each, 3*each, func(*process) {})
	k.kafka = kafka.Addr
	k.exactlyOnce()
}

// TestKillsAtLeastOnceLoseNothing ends a worker that delivers at least once: every
// change must be in the topic, in order per key, what was sent again after a kill aside.
func TestKillsAtLeastOnceLoseNothing(t *testing.T) {
	pg := peers.Postgres(t)
	peers.Kcat(t)
	r := newRuns(t, "--config", "offset.flush.interval.ms=100", "--config", "exactly.once.source.support=disabled")
	k := kill(t, pg, r, "shop", 60_000, 2, max(6, trial.Effort(6)), func(*process) {})
	k.p.until("the marker is in the topic", 2*time.Minute, func() (bool, string) {
		records := k.read()
		return len(records) > 0 && strings.Contains(*records[len(records)-1].Key, `"id":-1}`), fmt.Sprint(len(records))
	})
	seen := firstSeen(t, k.read())
	for id, want := range k.history {
		if got := seen[id]; !slices.Equal(got, want) {
			t.Fatalf("id %d: the topic has %v, want what was committed: %v", id, got, want)
		}
	}
}

// firstSeen are the numbers of each id in the order in which the topic first has
// them, -1 for a delete. After a kill the stream repeats what came after the last
// stored offset: within a repetition nothing new may come before its end.
func firstSeen(t *testing.T, records []kcatRecord) map[int][]int {
	t.Helper()
	type change struct {
		n   int
		lsn int64 // of a delete, which has no number of its own
	}
	type state struct {
		all []change
		at  int // where a repetition stands; len(all) when there is none
	}
	states := map[int]*state{}
	for _, r := range records {
		if r.Payload == nil {
			continue // a tombstone behind its delete
		}
		var key struct{ ID int }
		var event struct {
			After  *struct{ N int }
			Source struct{ LSN int64 }
		}
		if err := json.Unmarshal([]byte(*r.Key), &key); err != nil {
			t.Fatalf("offset %d: key %s: %v", r.Offset, *r.Key, err)
		}
		if err := json.Unmarshal([]byte(*r.Payload), &event); err != nil {
			t.Fatalf("offset %d: %v", r.Offset, err)
		}
		c := change{n: -1, lsn: event.Source.LSN}
		if event.After != nil {
			c = change{n: event.After.N}
		}
		s := states[key.ID]
		if s == nil {
			s = &state{}
			states[key.ID] = s
		}
		if i := slices.Index(s.all, c); i >= 0 {
			s.at = i + 1
			continue
		}
		if s.at != len(s.all) {
			t.Fatalf("offset %d: id %d: %v is new, but the repetition of %v has not ended (at %d)", r.Offset, key.ID, c, s.all, s.at)
		}
		s.all = append(s.all, c)
		s.at = len(s.all)
	}
	out := map[int][]int{}
	for id, s := range states {
		for _, c := range s.all {
			out[id] = append(out[id], c.n)
		}
	}
	return out
}

// compareIndex compares the whole index with the whole table.
func compareIndex(t *testing.T, l *load, url, index string) {
	t.Helper()
	table := map[string]int{}
	rows, err := l.conn.Query(t.Context(), "SELECT id, n FROM load")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var id, n int
		if err := rows.Scan(&id, &n); err != nil {
			t.Fatal(err)
		}
		table[strconv.Itoa(id)] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	// The sink keeps the order of each key alone: a bulk with the last changes of other keys may come in behind the marker's.
	differs := func() string {
		docs := allDocs(t, url, index)
		for id, n := range table {
			if doc, ok := docs[id]; !ok || doc != n {
				return fmt.Sprintf("id %s: the table has %d, the index %d (there: %v)", id, n, doc, ok)
			}
		}
		if len(docs) != len(table) {
			return fmt.Sprintf("the index has %d documents, the table %d rows", len(docs), len(table))
		}
		return ""
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		why := differs()
		if why == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal(why)
		}
	}
}

// allDocs are the numbers of all documents, read by the search server's own scroll.
func allDocs(t *testing.T, url, index string) map[string]int {
	t.Helper()
	ask := func(path, body string) (id string, hits map[string]int) {
		res, err := http.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var page struct {
			ID   string `json:"_scroll_id"`
			Hits struct {
				Hits []struct {
					ID     string          `json:"_id"`
					Source struct{ N int } `json:"_source"`
				}
			}
		}
		if err := json.NewDecoder(res.Body).Decode(&page); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v", path, res.Status, err)
		}
		hits = map[string]int{}
		for _, h := range page.Hits.Hits {
			hits[h.ID] = h.Source.N
		}
		return page.ID, hits
	}
	if res, err := http.Post(url+"/"+index+"/_refresh", "", nil); err != nil {
		t.Fatal(err)
	} else {
		res.Body.Close()
	}
	all := map[string]int{}
	id, hits := ask("/"+index+"/_search?scroll=1m", `{"size":10000,"sort":["_doc"]}`)
	for len(hits) > 0 {
		maps.Copy(all, hits)
		id, hits = ask("/_search/scroll", fmt.Sprintf(`{"scroll":"1m","scroll_id":%q}`, id))
	}
	return all
}

func deleteIndex(t *testing.T, url, index string) {
	req, err := http.NewRequest("DELETE", url+"/"+index, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Errorf("delete index: %v", err)
		return
	}
	res.Body.Close()
}

// TestRowsOf15MiB sends 200 rows of 15 MiB through the whole process, half by the
// snapshot and half by the stream, in less than 300 MiB of memory.
func TestRowsOf15MiB(t *testing.T) {
	pg := peers.Postgres(t)
	peers.Kcat(t)
	db := pg.NewDatabase(t)
	insert := func(from, to int) string {
		return fmt.Sprintf("INSERT INTO big SELECT g, repeat(md5(g::text), 15*1024*1024/32) FROM generate_series(%d,%d) g", from, to)
	}
	pg.Exec(t, db, "CREATE TABLE big (id int PRIMARY KEY, text text)", insert(1, 100))
	r := newRuns(t)
	p := r.start(t)
	p.create("pg", pgSource(pg, db, "public.big"))
	p.running("pg", 1)
	pg.Exec(t, db, insert(101, 150), insert(151, 200))
	want := make([]string, 200)
	for i := range want {
		want[i] = fmt.Sprintf(`{"id":%d}`, i+1)
	}
	var got []string
	p.until("200 large rows are in the topic", 4*time.Minute, func() (bool, string) {
		out, err := exec.Command(peers.Kcat(t), "-b", p.kafka, "-t", "shop.public.big", "-C", "-e", "-q", "-f", "%k %S\n",
			"-X", "fetch.message.max.bytes=33554432", "-X", "receive.message.max.bytes=268435456", "-X", "queued.max.messages.kbytes=65536").Output()
		if err != nil {
			return false, err.Error()
		}
		got = nil
		for line := range strings.Lines(string(out)) {
			key, size, _ := strings.Cut(strings.TrimSpace(line), " ")
			if n, err := strconv.Atoi(size); err != nil || n < 15<<20 {
				t.Errorf("%s: %s bytes, want more than 15 MiB", key, size)
			}
			got = append(got, key)
		}
		return len(got) >= 200, fmt.Sprint(len(got))
	})
	if !slices.Equal(got, want) {
		t.Errorf("keys %v, want 1 to 200 once each", got)
	}
	peak := p.peakMiB()
	t.Logf("largest memory of the process: %d MiB", peak)
	if peak >= 300 {
		t.Errorf("largest memory of the process: %d MiB, want less than 300", peak)
	}
}

// TestADatabaseThatGoesAwayComesBack takes the database away under a running task.
func TestADatabaseThatGoesAwayComesBack(t *testing.T) {
	pg := peers.PostgresOwn(t, peers.PostgresOptions{})
	db := pg.NewDatabase(t)
	pg.Exec(t, db, "CREATE TABLE load (id int PRIMARY KEY, n int NOT NULL, filler text)", "INSERT INTO load VALUES (1, 1, 'a')")
	r := newRuns(t)
	appendTo(t, r.dir+"/in.txt", "one\n")
	p := r.start(t)
	p.create("pg", pgSource(pg, db, "public.load"))
	p.create("neighbour", fileSource("in.txt", "lines"))
	p.running("pg", 1)
	arrived := func(n int) {
		t.Helper()
		p.until(fmt.Sprintf("%d events are in the topic", n), time.Minute, func() (bool, string) {
			got := consume(t, p.kafka, "shop.public.load")
			return len(got) >= n, fmt.Sprint(len(got))
		})
	}
	arrived(1)
	pg.Stop(t)
	p.until("the task says what is wrong", time.Minute, func() (bool, string) {
		s, err := p.status("pg")
		if err != nil || len(s.Tasks) != 1 {
			return false, fmt.Sprint(err)
		}
		return s.Tasks[0].State == "FAILED" && s.Tasks[0].Reason != nil && strings.HasPrefix(s.Tasks[0].Reason.Code, "postgres.") &&
			s.Tasks[0].Reason.Remedy != "", string(mustJSON(t, s))
	})
	appendTo(t, r.dir+"/in.txt", "two\n")
	p.until("the neighbour goes on", time.Minute, func() (bool, string) {
		got := consume(t, p.kafka, "lines")
		return len(got) == 2, fmt.Sprint(len(got))
	})
	pg.Start(t)
	pg.Exec(t, db, "INSERT INTO load VALUES (2, 2, 'b')")
	arrived(2)
	p.running("pg", 1)
	if s := p.log.String(); pg.Password != "" && strings.Contains(s, pg.Password) {
		t.Error("the log shows the password")
	}
}

// TestAClusterInPlaceOfTheEmbeddedLog runs the same worker on a real Kafka.
func TestAClusterInPlaceOfTheEmbeddedLog(t *testing.T) {
	kafka := peers.Kafka(t)
	r := newRuns(t, "--config", "bootstrap.servers="+kafka.Addr, "--config", "group.id="+peers.Unique(t, "group"))
	topic := peers.Unique(t, "lines")
	appendTo(t, r.dir+"/in.txt", "one\ntwo\n")
	p := r.start(t)
	p.create("src", fileSource("in.txt", topic))
	p.create("sink", fileSink("out.txt", topic))
	p.until("the lines are in the other file", time.Minute, func() (bool, string) {
		got := lines(r.dir + "/out.txt")
		return slices.Equal(got, []string{"one", "two"}), fmt.Sprint(got)
	})
	if got := consume(t, kafka.Addr, topic); len(got) != 2 {
		t.Errorf("the cluster's topic has %d records, want 2", len(got))
	}
	if _, err := os.Stat(r.dir + "/data/log"); err == nil {
		t.Error("a log was embedded although a cluster was named")
	}
	if status := p.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	appendTo(t, r.dir+"/in.txt", "three\n")
	p = r.start(t)
	p.until("a restart goes on where it stopped", time.Minute, func() (bool, string) {
		got := lines(r.dir + "/out.txt")
		return slices.Equal(got, []string{"one", "two", "three"}), fmt.Sprint(got)
	})
}
