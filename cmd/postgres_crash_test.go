package cmd_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/deploy/peers"
	"millrace/deploy/trial"
)

// TestServerCrashesLoseAndRepeatNothing stops the database server at once (SIGQUIT: no
// checkpoint, its log is replayed at the next start) in the middle of a snapshot and in the middle
// of a transaction of the stream, and ends the worker with SIGKILL in between: a reader of committed
// records must see every change exactly once, in order, COPY and inserts of many rows among them.
func TestServerCrashesLoseAndRepeatNothing(t *testing.T) {
	// What a commit has promised is on disk: what the server itself loses is not ours to find.
	pg := peers.PostgresOwn(t, peers.PostgresOptions{Settings: map[string]string{"synchronous_commit": "on"}})
	peers.Kcat(t)
	seed := trial.Seed(t)
	db := pg.NewDatabase(t)
	pg.Exec(t, db, "CREATE TABLE load (id int PRIMARY KEY, n int NOT NULL, filler text)")
	r := newRuns(t, "--config", "offset.flush.interval.ms=100")
	k := &killing{load: newLoad(t, pg.Connect(t, db), seed), r: r, rnd: rand.New(rand.NewPCG(seed, 2)), topic: "shop.public.load", kills: map[string]int{}}
	if err := k.copyIn(t.Context(), 90_000); err != nil {
		t.Fatal(err)
	}
	// A snapshot reads as many rows as the gate lets through, and each one behind them takes a millisecond.
	const free, gate = 30_000, "SELECT * FROM public.load WHERE CASE WHEN id < (SELECT free FROM public.gate) THEN true ELSE pg_sleep(0.001) IS NOT NULL END"
	pg.Exec(t, db, "CREATE TABLE gate (free int NOT NULL)", fmt.Sprintf("INSERT INTO gate VALUES (%d)", free))
	conf := pgSource(pg, db, "public.load")
	conf["snapshot.select.statement.overrides"], conf["snapshot.select.statement.overrides.public.load"] = "public.load", gate
	k.p = r.start(t)
	k.p.create("pg", conf)

	var writing sync.Mutex        // held by whoever uses the connection: a crash never meets a transaction of the load
	crash := func(phase string) { // with the lock
		pg.Kill(t)
		k.kills[phase]++
		pg.Start(t)
		k.conn = pg.Connect(t, db)
	}
	snapshotDone := func() bool {
		o := offsetsOf(k.p, "pg")
		return strings.Contains(o, `"lsn_commit"`) || strings.Contains(o, `"snapshot_completed":true`)
	}
	k.p.until("the middle of the snapshot", time.Minute, func() (bool, string) {
		s, err := k.p.status("pg")
		if err != nil || len(s.Tasks) != 1 || s.Tasks[0].Reading == nil || s.Tasks[0].Reading.Snapshot == nil {
			return false, fmt.Sprintf("%+v, %v", s, err)
		}
		sn := s.Tasks[0].Reading.Snapshot
		return sn.Rows >= k.rnd.IntN(free-5000), fmt.Sprintf("%+v", *sn) // a batch, and what the server holds back, are not counted yet
	})
	if _, err := k.conn.Exec(t.Context(), "UPDATE gate SET free = 1000000000"); err != nil { // for the next one
		t.Fatal(err)
	}
	if snapshotDone() {
		t.Fatal("the snapshot is over before the server is stopped")
	}
	crash("snapshot")
	k.p.until("the snapshot is over", 2*time.Minute, func() (bool, string) { return snapshotDone(), offsetsOf(k.p, "pg") })

	enough, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			writing.Lock()
			err := k.transaction(t.Context())
			writing.Unlock()
			if err != nil {
				done <- err
				return
			}
			select {
			case <-enough:
				done <- nil
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	rounds := trial.Effort(2)
	for i := range rounds {
		writing.Lock()
		k.withinATransaction()
		crash("stream")
		writing.Unlock()
		if i < rounds-1 { // a new worker has patience anew
			k.p.kill()
			k.kills["worker"]++
			k.p = r.start(t)
		}
	}
	close(enough)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if k.kills["snapshot"] != 1 || k.kills["stream"] != rounds {
		t.Errorf("kills by phase: %v", k.kills)
	}
	t.Logf("kills by phase: %v; %d changes of %d rows", k.kills, k.next, k.ids)
	if _, err := k.conn.Exec(t.Context(), "INSERT INTO load VALUES (-1, -1, 'marker')"); err != nil {
		t.Fatal(err)
	}
	k.history[-1], k.alive[-1] = []int{-1}, true
	k.exactlyOnce()
}

var committedAt = regexp.MustCompile(`"lsn_commit":(\d+)`)

// withinATransaction makes a large transaction and returns when the stored offset lies within it. Whoever calls it keeps others from writing.
func (k *killing) withinATransaction() {
	k.t.Helper()
	end := func() (at int64) {
		k.t.Helper()
		if err := k.conn.QueryRow(k.t.Context(), "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").Scan(&at); err != nil {
			k.t.Fatal(err)
		}
		return at
	}
	for rows := 20_000; rows <= 320_000; rows *= 2 { // more for a faster machine
		from := end()
		if err := k.copyIn(k.t.Context(), rows); err != nil {
			k.t.Fatal(err)
		}
		to, within := end(), false
		k.p.until("the offset reaches a large transaction", 2*time.Minute, func() (bool, string) {
			now := offsetsOf(k.p, "pg")
			m := committedAt.FindStringSubmatch(now)
			if m == nil {
				return false, now
			}
			at, err := strconv.ParseInt(m[1], 10, 64)
			within = strings.Contains(now, `"lsn_commit_before"`)
			return err == nil && at > from && (within || at >= to), now
		})
		if within {
			return
		}
	}
	k.t.Fatal("no offset was seen within a transaction: the source is through with each before it can be stopped there")
}
