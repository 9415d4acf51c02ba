package cmd_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/deploy/peers"
	"millrace/deploy/trial"
)

// TestServerCrashesLoseAndRepeatNothing stops the database server at once (SIGQUIT: no
// checkpoint, its log is replayed at the next start) in a snapshot and in the stream, and
// ends the worker with SIGKILL in between: a reader of committed records must see every change
// exactly once, in order, COPY and inserts of many rows among them.
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
	k.p = r.start(t)
	k.p.create("pg", pgSource(pg, db, "public.load"))

	var writing sync.Mutex // held by whoever uses the connection: a crash never meets a transaction of the load
	crash := func(phase string) {
		writing.Lock()
		defer writing.Unlock()
		pg.Kill(t)
		k.kills[phase]++
		pg.Start(t)
		k.conn = pg.Connect(t, db)
	}
	snapshotDone := func() bool {
		o := offsetsOf(k.p, "pg")
		return strings.Contains(o, `"lsn_commit"`) || strings.Contains(o, `"snapshot_completed":true`)
	}
	k.p.until("the snapshot runs", time.Minute, func() (bool, string) {
		s, err := k.p.status("pg")
		return err == nil && len(s.Tasks) == 1 && s.Tasks[0].State == "RUNNING", ""
	})
	time.Sleep(time.Duration(k.rnd.IntN(100)) * time.Millisecond)
	phase := "snapshot"
	if snapshotDone() { // a fast machine, or a slow look: the crash is the stream's then, and the rest holds all the same
		phase = "after the snapshot"
	}
	crash(phase)
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
		before := offsetsOf(k.p, "pg")
		k.p.until("the offset moves", 2*time.Minute, func() (bool, string) {
			now := offsetsOf(k.p, "pg")
			return now != before && now != "", now
		})
		time.Sleep(time.Duration(k.rnd.IntN(200)) * time.Millisecond)
		crash("server")
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
	t.Logf("kills by phase: %v; %d changes of %d rows", k.kills, k.next, k.ids)
	if _, err := k.conn.Exec(t.Context(), "INSERT INTO load VALUES (-1, -1, 'marker')"); err != nil {
		t.Fatal(err)
	}
	k.history[-1], k.alive[-1] = []int{-1}, true
	k.exactlyOnce()
}
