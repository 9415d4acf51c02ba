//go:build synctests

package runtimetest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/deploy/line"
	"millrace/deploy/trial"
	"millrace/log"
	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/runtime/herder"
)

const (
	poolSize    = 3
	poolTasks   = 6
	poolSession = 10 * time.Second
)

// A pool is three workers that share one connector of six tasks over lines of their own, in fake time.
type pool struct {
	t        *testing.T
	disk     *logtest.Disk
	l        *log.Log // the coordinator's
	settings []string
	prepare  func(*Source)
	workers  [poolSize]*poolWorker
	trail    []string // what was done to it
}

type poolWorker struct {
	line *line.Line
	src  *Source
	h    *herder.Herder
	log  *log.Log
	down bool
}

func newPool(t *testing.T, settings ...string) *pool {
	return newPoolOf(t, func(*Source) {}, nil, settings...)
}

// newPoolOf is newPool with prepared sources and settings of the connector.
func newPoolOf(t *testing.T, prepare func(*Source), more map[string]string, settings ...string) *pool {
	p := &pool{t: t, disk: logtest.NewDisk(), prepare: prepare, settings: append([]string{
		"session.timeout.ms", fmt.Sprint(poolSession.Milliseconds()), "heartbeat.interval.ms", "3000", "rebalance.timeout.ms", "20000",
		"offset.flush.interval.ms", "1000", "task.shutdown.graceful.timeout.ms", "5000"}, settings...)}
	p.l = p.disk.Open(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("after:\n  %s", strings.Join(p.trail, "\n  "))
		}
	})
	for i := range p.workers {
		p.workers[i] = &poolWorker{line: line.Over(t, p.dial, func() (client, inner net.Conn, err error) { client, inner = net.Pipe(); return client, inner, nil }), down: true}
		p.start(i)
	}
	conf := map[string]string{"connector.class": "Numbers", "topic": "n", "tasks.max": "99", "tasks": strconv.Itoa(poolTasks), "batch": "1"}
	maps.Copy(conf, more)
	p.create("c", conf)
	p.settle()
	return p
}

// dial connects to the log that there is now.
func (p *pool) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	cl, err := kgo.NewClient(p.l.ClientOpts()...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	return cl.OptValue(kgo.Dialer).(func(context.Context, string, string) (net.Conn, error))(ctx, network, addr)
}

// start starts a worker as a new process.
func (p *pool) start(i int) {
	p.t.Helper()
	w := p.workers[i]
	w.line.Heal()
	w.src = NewSource()
	w.src.Pause.Store(int64(400 * time.Millisecond))
	p.prepare(w.src)
	w.log = throughLine(p.t, []string{"embedded:9092"}, w.line)
	w.h = Start(p.t, w.log, Plugins(p.t, w.src.Plugin("Numbers")), p.settings...)
	w.down = false
}

// die ends a worker without a goodbye: nothing of it reaches the log any more.
func (p *pool) die(i int) {
	w := p.workers[i]
	w.line.Break()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = w.h.Close(ended)
	w.down = true
}

// create makes a connector where that is taken: by the leader, once there is one.
func (p *pool) create(name string, conf map[string]string) {
	p.t.Helper()
	var err error
	for range 60 {
		for _, w := range p.workers {
			if _, _, err = w.h.PutConfig(context.Background(), name, conf, "", true); err == nil {
				return
			}
		}
		time.Sleep(time.Second)
	}
	p.t.Fatal(err)
}

// settle waits until all tasks run, each on one of the workers that are there, in equal shares.
func (p *pool) settle() {
	p.t.Helper()
	why := ""
	for range 180 {
		time.Sleep(time.Second)
		if why = p.unsettled(); why == "" {
			return
		}
	}
	p.t.Fatalf("three minutes later: %s", why)
}

func (p *pool) unsettled() string {
	running := 0
	for i, w := range p.workers {
		if w.down {
			continue
		}
		if n := w.src.Now(); n != poolTasks/poolSize {
			return fmt.Sprintf("worker %d runs %d tasks", i, n)
		}
		if !spread(w.h, "c", poolTasks, poolSize) {
			return fmt.Sprintf("worker %d tells %v", i, owners(w.h, "c"))
		}
		running += w.src.Now()
	}
	if running != poolTasks {
		return fmt.Sprintf("%d tasks run", running)
	}
	return ""
}

// end ends the workers before the log, which may have been opened after them.
func (p *pool) end() {
	for _, w := range p.workers {
		Close(p.t, w.h)
	}
	time.Sleep(poolSession) // what is abandoned has come to its end
}

// check compares the records and the offsets with what is promised, and returns how many records there are. The workers have
// ended: behind an open transaction what others have committed is not seen.
func (p *pool) check(exactly bool) int {
	p.t.Helper()
	for i, w := range p.workers {
		if w.src.Twice() {
			p.t.Errorf("a task ran twice at once in worker %d", i)
		}
	}
	stored := p.offsetsGoForward()
	next, total := map[string]int64{}, 0
	for _, r := range Committed(p.t, p.l, "n") {
		n, err := strconv.ParseInt(strings.Trim(string(r.Value), `"v`), 10, 64)
		if err != nil {
			p.t.Fatalf("value %s", r.Value)
		}
		key := string(r.Key)
		if n > next[key] || exactly && n != next[key] {
			p.t.Fatalf("offset %d: task %s has record %d where %d comes", r.Offset, key, n, next[key])
		}
		if n == next[key] {
			next[key]++
			total++
		}
	}
	for task, n := range stored {
		if written := next[fmt.Sprintf("%q", task)]; n > written {
			p.t.Errorf("task %s's offset %d is beyond its %d records", task, n, written)
		}
	}
	return total
}

// offsetsGoForward checks that no task's offset was ever set back, and returns the last ones.
func (p *pool) offsetsGoForward() map[string]int64 {
	p.t.Helper()
	at := map[string]int64{}
	for _, r := range Committed(p.t, p.l, "connect-offsets") {
		var task string
		var n int64
		if _, err := fmt.Sscanf(strings.NewReplacer(`["c",{"task":`, "", "}]", "").Replace(string(r.Key)), "%s", &task); err != nil {
			p.t.Fatalf("key %s", r.Key)
		}
		if _, err := fmt.Sscanf(string(r.Value), `{"n":%d}`, &n); err != nil {
			p.t.Fatalf("value %s", r.Value)
		}
		if n < at[task] {
			p.t.Errorf("offset topic, offset %d: task %s goes back from %d to %d", r.Offset, task, at[task], n)
		}
		at[task] = n
	}
	return at
}

// restartLog has the coordinator die and come back.
func (p *pool) restartLog(away time.Duration) {
	p.disk.Kill()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.l.Close(ended)
	for _, w := range p.workers {
		w.line.Break()
	}
	time.Sleep(away)
	p.l = p.disk.Open(p.t)
	for _, w := range p.workers {
		w.line.Heal()
	}
}

func deliveries(t *testing.T, test func(t *testing.T, exactly bool, settings []string)) {
	for _, support := range []string{"disabled", "enabled"} {
		t.Run("exactly once "+support, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, support == "enabled", []string{"exactly.once.source.support", support}) })
		})
	}
}

// worker-log/1, in fake time: a worker that is cut off from the group for three sessions stops within one, the others go on with its
// tasks, and after its return each task runs once.
func TestSimAWorkerThatIsCutOffForThreeSessions(t *testing.T) {
	for _, c := range []struct {
		name string
		hurt func(l *line.Line)
	}{
		{"nothing comes through", func(l *line.Line) { l.Silence() }},
		{"its requests do not arrive", func(l *line.Line) { l.Silence(line.Out) }},
		{"the answers do not arrive", func(l *line.Line) { l.Silence(line.In) }},
		{"all comes later than a session lasts", func(l *line.Line) { l.Delay(2 * poolSession) }},
		{"it is reset, and nobody can be reached", func(l *line.Line) { l.Break() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			deliveries(t, func(t *testing.T, exactly bool, settings []string) {
				p := newPool(t, settings...)
				cut := p.workers[1]
				c.hurt(cut.line)
				time.Sleep(poolSession + 3*time.Second) // the heartbeat that is not answered any more was sent an interval after the cut
				if n := cut.src.Now(); n != 0 {
					t.Errorf("a session later it still runs %d tasks", n)
				}
				emitted := cut.src.Emitted.Load()
				time.Sleep(2 * poolSession)
				if n := cut.src.Emitted.Load() - emitted; n != 0 {
					t.Errorf("it emitted %d batches more", n)
				}
				if n := p.workers[0].src.Now() + p.workers[2].src.Now(); n != poolTasks {
					t.Errorf("the others run %d tasks, want all %d", n, poolTasks)
				}
				before := generation(t, p.workers[0].h)
				cut.line.Heal()
				p.settle()
				time.Sleep(time.Minute)
				if n := generation(t, p.workers[0].h) - before; n > mostRebalances {
					t.Errorf("%d rebalances after the return, want %d at most", n, mostRebalances)
				}
				p.end()
				t.Logf("%d records", p.check(exactly))
			})
		})
	}
	t.Run("the coordinator is away", func(t *testing.T) {
		deliveries(t, func(t *testing.T, exactly bool, settings []string) {
			p := newPool(t, settings...)
			before := generation(t, p.workers[0].h)
			p.restartLog(3 * time.Second) // less than a session: nobody notices
			time.Sleep(2 * poolSession)
			p.settle()
			p.restartLog(3 * poolSession)
			p.settle()
			n := generation(t, p.workers[0].h) - before
			p.end()
			t.Logf("%d rebalances, %d records", n, p.check(exactly))
		})
	})
}

// rest/2, in fake time: a restart that is asked for during a rebalance, which waits for a worker that is silent, is a conflict and not
// carried out; afterwards it is.
func TestSimARestartDuringARebalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t)
		var leader *poolWorker
		for _, w := range p.workers {
			if _, err := w.h.Restart(t.Context(), "c", true, false); err == nil {
				leader = w
			} else if !errors.As(err, new(*runtime.ForwardError)) {
				t.Fatal(err)
			}
		}
		p.settle()
		var silent *poolWorker
		for _, w := range p.workers {
			if w != leader {
				silent = w
			}
		}
		silent.line.Silence()
		conf := map[string]string{"connector.class": "Numbers", "topic": "d"}
		if _, _, err := leader.h.PutConfig(t.Context(), "d", conf, runtime.StoppedTarget, true); err != nil { // has the leader join again
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		runs := leader.src.Runs.Load()
		began := time.Now()
		_, err := leader.h.Restart(t.Context(), "c", true, false)
		if !errors.As(err, new(*runtime.ConflictError)) || !strings.Contains(err.Error(), "rebalances") || time.Since(began) > poolSession {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if n := leader.src.Runs.Load(); n != runs {
			t.Errorf("%d runs began all the same", n-runs)
		}
		silent.line.Heal()
		p.settle()
		if _, err := leader.h.Restart(t.Context(), "c", true, false); err != nil {
			t.Error(err)
		}
		p.settle()
		p.end()
	})
}

// In fake time: what was deleted while a worker was away that led the group and ran some of it is forgotten, and does not come back with
// the worker, which has still to say that its tasks failed.
func TestSimWhatWasDeletedWhileItsLeaderWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		p := newPool(t, "exactly.once.source.support", "disabled")
		p.create("gone", map[string]string{"connector.class": "Numbers", "topic": "gone", "tasks.max": "3", "tasks": "3"})
		Until(t, "it to be shared out", func() bool { return spread(p.workers[0].h, "gone", 3, 3) })
		leader := p.workers[0] // the first that joined
		leader.line.Silence()
		leader.src.FailNow.Store(true)
		time.Sleep(2 * poolSession)
		deleted := false
		for _, w := range p.workers[1:] {
			deleted = deleted || w.h.Delete(ctx, "gone") == nil
		}
		if !deleted {
			t.Fatal("nobody else leads")
		}
		told := func() (keys []string) {
			last := map[string]bool{}
			for _, r := range Records(t, p.l, "connect-status") {
				last[string(r.Key)] = r.Value != nil
			}
			for key, there := range last {
				if there && strings.Contains(key, "gone") {
					keys = append(keys, key)
				}
			}
			return keys
		}
		time.Sleep(5 * time.Second)
		if keys := told(); len(keys) > 0 {
			t.Errorf("after its deletion the topic tells of %v", keys)
		}
		leader.src.FailNow.Store(false)
		leader.line.Heal()
		p.settle()
		time.Sleep(5 * time.Second)
		if keys := told(); len(keys) > 0 {
			t.Errorf("after the leader's return the topic tells of %v", keys)
		}
		for i, w := range p.workers {
			names, err := w.h.Connectors(ctx)
			_, gone := w.h.Status(ctx, "gone")
			if err != nil || !slices.Equal(names, []string{"c"}) || !errors.As(gone, new(*runtime.NotFoundError)) {
				t.Errorf("worker %d knows %v (%v), and of the deleted: %v", i, names, err, gone)
			}
		}
		p.end()
	})
}

// In fake time: the leader makes a new key for the requests between workers when the last one is old enough, whoever leads, and every
// worker takes what is signed with the newest, and nothing else.
func TestSimTheSessionKeyIsRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Minute
		p := newPoolOf(t, func(s *Source) { s.Pause.Store(int64(time.Hour)) }, nil, "exactly.once.source.support", "disabled", "inter.worker.key.ttl.ms", fmt.Sprint(ttl.Milliseconds()))
		body := []byte("{}")
		takes := func(w *poolWorker, signature []byte) bool {
			err := w.h.Fence(context.Background(), "c", body, runtime.Signature{MAC: signature, Algorithm: "HmacSHA256"})
			if err == nil {
				t.Fatal("a worker without exactly-once delivery fences")
			}
			return !errors.As(err, new(*runtime.ForbiddenError))
		}
		var old [][]byte
		check := func(n int) {
			t.Helper()
			keys := p.sessionKeys()
			if len(keys) != n {
				t.Fatalf("%d keys were made, want %d", len(keys), n)
			}
			mac := hmac.New(sha256.New, keys[n-1])
			mac.Write(body)
			signature := mac.Sum(nil)
			for i, w := range p.workers {
				if w.down {
					continue
				}
				if !takes(w, signature) {
					t.Errorf("worker %d refuses what is signed with the newest key", i)
				}
				if slices.ContainsFunc(old, func(signature []byte) bool { return takes(w, signature) }) {
					t.Errorf("worker %d takes what is signed with an older key", i)
				}
			}
			old = append(old, signature)
		}
		check(1)
		time.Sleep(ttl + time.Minute)
		check(2)
		p.die(0) // it led
		time.Sleep(ttl + time.Minute)
		check(3)
		p.start(0)
		p.settle()
		time.Sleep(ttl)
		check(4)
		p.end()
	})
}

// sessionKeys are those that were made, in order.
func (p *pool) sessionKeys() (keys [][]byte) {
	p.t.Helper()
	for _, r := range Records(p.t, p.l, "connect-configs") {
		if string(r.Key) != "session-key" {
			continue
		}
		var k struct {
			Key []byte `json:"key"`
		}
		if err := json.Unmarshal(r.Value, &k); err != nil {
			p.t.Fatalf("%v: %s", err, r.Value)
		}
		keys = append(keys, k.Key)
	}
	return keys
}

// In fake time: whatever happens to three workers' lines, to the workers and to the coordinator, nothing is lost, with exactly-once delivery
// nothing comes twice, whatever ends transactions, no offset goes back, and afterwards each task runs once.
func TestSimAPoolUnderFaults(t *testing.T) {
	seeds := trial.Seeds(3)
	kinds := map[string]int{}
	for _, seed := range seeds {
		for name, exactly := range map[string]bool{"at least once": false, "exactly once": true} {
			boundary := []string{"poll", "interval", "connector"}[seed%3]
			ok := t.Run(fmt.Sprintf("%s, %s, seed=%d", name, boundary, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					prepare, support, more := func(*Source) {}, "disabled", map[string]string{}
					if exactly {
						support, more = "enabled", map[string]string{"transaction.boundary": boundary}
					}
					switch {
					case exactly && boundary == "interval":
						more["transaction.boundary.interval.ms"] = "1500"
					case exactly && boundary == "connector":
						prepare = func(s *Source) { s.Txn = everyFifth }
					}
					p := newPoolOf(t, prepare, more, "exactly.once.source.support", support)
					p.faults(rand.New(rand.NewPCG(seed, 11)), 20, kinds)
					p.end()
					t.Logf("%d records", p.check(exactly))
				})
			})
			if !ok {
				t.Fatalf("failed with MILLRACE_SEED=%d", seed)
			}
		}
	}
	t.Logf("faults: %v", kinds)
}

// everyFifth has a connector end transactions with each fifth record.
func everyFifth(n int64) connectors.Txn {
	if n%5 == 0 {
		return connectors.TxnCommit
	}
	return connectors.TxnNone
}

// faults does so many random things to a pool, and lets it settle.
func (p *pool) faults(rnd *rand.Rand, steps int, kinds map[string]int) {
	began := time.Now()
	do := func(kind string, i int, f func()) {
		kinds[kind]++
		p.trail = append(p.trail, fmt.Sprintf("%s %d at %v", kind, i, time.Since(began)))
		f()
	}
	for range steps {
		i := rnd.IntN(poolSize)
		w := p.workers[i]
		switch n := rnd.IntN(12); {
		case w.down:
			do("start", i, func() { p.start(i) })
		case n < 2:
			do("silence", i, func() { w.line.Silence() })
		case n < 3:
			do("silence requests", i, func() { w.line.Silence(line.Out) })
		case n < 4:
			do("silence answers", i, func() { w.line.Silence(line.In) })
		case n < 5:
			do("delay", i, func() { w.line.Delay(time.Duration(rnd.IntN(15000)) * time.Millisecond) })
		case n < 6:
			do("reset", i, w.line.Reset)
		case n < 7:
			do("break", i, w.line.Break)
		case n < 8:
			do("die", i, func() { p.die(i) })
		case n < 9:
			do("restart of the coordinator", i, func() { p.restartLog(time.Duration(rnd.IntN(15000)) * time.Millisecond) })
		default:
			do("heal", i, w.line.Heal)
		}
		time.Sleep(time.Duration(rnd.IntN(20000)) * time.Millisecond)
		if rnd.IntN(6) == 0 {
			do("rest", i, p.mend)
		}
	}
	p.mend()
}

// mend makes all lines whole, starts who is down, and lets the pool settle.
func (p *pool) mend() {
	for i, w := range p.workers {
		w.line.Heal()
		if w.down {
			p.start(i)
		}
	}
	p.settle()
}
