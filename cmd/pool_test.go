package cmd_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"millrace/deploy/peers"
	"millrace/deploy/trial"
)

const poolSession = 3 * time.Second

// growing are files that a writer appends numbered lines to, until it is stopped.
type growing struct {
	files   []*os.File
	stop    chan struct{}
	over    sync.WaitGroup
	written map[string]int // by name; the test's once the writer is stopped
}

func grow(t *testing.T, dir string, names []string) *growing {
	t.Helper()
	g := &growing{stop: make(chan struct{}), written: map[string]int{}}
	for _, name := range names {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		g.files = append(g.files, f)
	}
	g.over.Go(func() {
		tick := time.NewTicker(40 * time.Millisecond)
		defer tick.Stop()
		for {
			for i, f := range g.files {
				if _, err := fmt.Fprintf(f, "%s %06d\n", names[i], g.written[names[i]]); err != nil {
					t.Error(err)
					return
				}
				g.written[names[i]]++
			}
			select {
			case <-tick.C:
			case <-g.stop:
				return
			}
		}
	})
	t.Cleanup(g.end)
	return g
}

// end stops the writer.
func (g *growing) end() {
	select {
	case <-g.stop:
	default:
		close(g.stop)
	}
	g.over.Wait()
}

// A poolOfProcesses are three workers of a group that are killed and come back.
type poolOfProcesses struct {
	t       *testing.T
	group   []*runs
	workers []*process
	rnd     *rand.Rand
	kills   map[string]int // by what was under way
}

// moment passes for a while that is chosen by chance.
func (p *poolOfProcesses) moment(most time.Duration) {
	time.Sleep(time.Duration(p.rnd.Int64N(int64(most))))
}

func (p *poolOfProcesses) kill(i int, when string) {
	p.workers[i].kill()
	p.kills[when]++
}

// disturb does the worst to one worker or two: the nth kind of it.
func (p *poolOfProcesses) disturb(n int) {
	i := p.rnd.IntN(len(p.workers))
	other := (i + 1) % len(p.workers)
	p.moment(time.Second)
	switch n % 4 {
	case 0:
		p.kill(i, "one")
		p.moment(2 * poolSession) // the others may take over, or not yet
	case 1:
		p.kill(i, "two at once")
		p.kill(other, "two at once")
		p.workers[other] = p.group[other].start(p.t)
	case 2:
		p.kill(i, "one")
		p.workers[i] = p.group[i].spawn(p.t)
		p.moment(time.Second)
		p.kill(i, "one that starts")
	case 3: // it hangs, and comes back when others have its tasks
		halted := p.workers[i].cmd.Process
		if err := halted.Signal(syscall.SIGSTOP); err != nil {
			p.t.Fatal(err)
		}
		time.Sleep(poolSession * 3 / 2)
		if err := halted.Signal(syscall.SIGCONT); err != nil {
			p.t.Fatal(err)
		}
		p.kills["none: one was halted"]++
		return
	}
	p.workers[i] = p.group[i].start(p.t)
}

// killed is how many were.
func (p *poolOfProcesses) killed() (n int) {
	for when, k := range p.kills {
		if !strings.HasPrefix(when, "none") {
			n += k
		}
	}
	return n
}

// Three workers share sources of files that grow all the time. They are killed, alone, by twos and while they start, and halted for longer than a
// session. With exactly-once delivery a reader of committed records has each line once, in its file's order, whatever ends a transaction.
func TestAGroupTakesOverFromWorkersThatAreKilled(t *testing.T) {
	kafka := peers.Kafka(t)
	peers.Kcat(t)
	group := newGroup(t, kafka.Addr, 3, map[string]string{"exactly.once.source.support": "enabled", "session.timeout.ms": fmt.Sprint(poolSession.Milliseconds()), "heartbeat.interval.ms": "300"})
	topic := peers.Unique(t, "lines")
	var names []string
	for i := range 6 {
		names = append(names, fmt.Sprintf("file%d", i))
	}
	g := grow(t, group[0].dir, names)
	seed := trial.Seed(t)
	p := &poolOfProcesses{t: t, group: group, rnd: rand.New(rand.NewPCG(seed, 3)), kills: map[string]int{}}
	for _, r := range group {
		p.workers = append(p.workers, r.start(t))
	}
	for i, name := range names {
		conf := fileSource(name, topic)
		if i%2 == 1 {
			conf["transaction.boundary"], conf["transaction.boundary.interval.ms"] = "interval", "300"
		}
		p.workers[i%len(p.workers)].create(name, conf) // who does not lead asks the leader
	}
	shared := func() {
		t.Helper()
		p.workers[0].until("the work to be shared", 2*time.Minute, func() (bool, string) {
			owners := p.workers[0].owners(names)
			by := map[string]bool{}
			for _, w := range owners {
				by[w] = true
			}
			return len(by) == len(p.workers), fmt.Sprint(owners)
		})
	}
	shared()
	most := 4 // one of each kind
	if trial.Soak() {
		most = 100
	}
	for n := 0; n < 4 || p.killed() < most; n++ {
		p.disturb(n)
	}
	shared()
	g.end()
	total := 0
	for _, n := range g.written {
		total += n
	}
	p.workers[0].until("all lines to be in the topic", 2*time.Minute, func() (bool, string) {
		n := len(consume(t, kafka.Addr, topic))
		return n >= total, fmt.Sprintf("%d of %d", n, total)
	})
	next := map[string]int{}
	for _, r := range consume(t, kafka.Addr, topic) {
		name, _, _ := strings.Cut(*r.Payload, " ")
		if want := fmt.Sprintf("%s %06d", name, next[name]); *r.Payload != want {
			t.Fatalf("offset %d: %q comes, want %q", r.Offset, *r.Payload, want)
		}
		next[name]++
	}
	if !maps.Equal(next, g.written) {
		t.Errorf("read %v, written %v", next, g.written)
	}
	t.Logf("%d lines of %d files, each once, after %d kills: %v", total, len(names), p.killed(), p.kills)
	for _, w := range slices.Backward(p.workers) {
		if status := w.stop(); status != 0 {
			t.Errorf("exit status %d, want 0", status)
		}
	}
}
