package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"millrace/deploy/peers/run"
)

const (
	poolWorkers = 3
	delayTasks  = 30               // of each group in pool-delay
	poolLimit   = 10 * time.Minute // for anything that a group is waited for
)

func (b *bench) poolParts() []part { return []part{{"pool", b.pool}, {"pool-delay", b.poolDelay}} }

// A pool is a group of workers, ours or Connect's, on a Kafka.
type pool struct {
	name    string
	workers []*run.Server
	states  *poolStates
}

// A poolGroup is what the workers of a group have in common. Ours and Connect's read the same, so that one can follow the other.
type poolGroup struct {
	kafka, id, files string
	more             string // further lines of properties
}

func (g poolGroup) properties() string {
	return fmt.Sprintf("group.id=%[1]s\nconfig.storage.topic=%[1]s-configs\noffset.storage.topic=%[1]s-offsets\nstatus.storage.topic=%[1]s-status\n%[2]s", g.id, g.more)
}

// ours starts workers of a group.
func (b *bench) ours(ctx context.Context, g poolGroup) (p *pool, err error) {
	bin, err := filepath.Abs(b.bin)
	if err != nil {
		return nil, err
	}
	text := "bootstrap.servers=" + g.kafka + "\nfile.roots=" + g.files + "\nconfig.storage.replication.factor=1\noffset.storage.replication.factor=1\nstatus.storage.replication.factor=1\n" +
		"key.converter=org.apache.kafka.connect.json.JsonConverter\nvalue.converter=org.apache.kafka.connect.json.JsonConverter\n" +
		"key.converter.schemas.enable=false\nvalue.converter.schemas.enable=false\n" + g.properties()
	file := filepath.Join(b.dir, g.id+".properties")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return b.startPool(ctx, "Millrace", g, func(dir string) (*run.Server, error) {
		port, err := run.TakePort()
		if err != nil {
			return nil, err
		}
		command := func() *exec.Cmd {
			return exec.Command(bin, "distributed", file, "--config", "listeners=http://"+port.Addr())
		}
		return run.Program(ctx, "millrace", dir, []*run.Port{port}, command, func(ctx context.Context) error {
			_, status, err := newREST("Millrace", "http://"+port.Addr()).call(ctx, http.MethodGet, "/health", nil)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("GET /health: status %d", status)
			}
			return err
		})
	})
}

// connects starts workers of Connect in a group.
func (b *bench) connects(ctx context.Context, g poolGroup) (*pool, error) {
	return b.startPool(ctx, "Connect", g, func(dir string) (*run.Server, error) {
		return run.Connect(ctx, dir, g.kafka, run.ConnectOptions{Settings: g.properties()})
	})
}

func (b *bench) startPool(ctx context.Context, name string, g poolGroup, start func(dir string) (*run.Server, error)) (_ *pool, err error) {
	p := &pool{name: name}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	for i := range poolWorkers {
		s, err := start(filepath.Join(b.dir, fmt.Sprintf("%s-%s-%d", g.id, name, i)))
		if err != nil {
			return nil, err
		}
		p.workers = append(p.workers, s)
	}
	p.states, err = followStates(ctx, g.kafka, g.id+"-status")
	return p, err
}

// close ends a group: ours in order, since another goes on with what it leaves; a worker of Connect takes more than half a minute for that.
func (p *pool) close() (err error) {
	if p.states != nil {
		p.states.close()
	}
	for _, w := range p.workers {
		if p.name == "Millrace" && w.Pid() != 0 {
			err = errors.Join(err, w.Stop())
		}
		err = errors.Join(err, w.Close())
	}
	return err
}

func (p *pool) rest(i int) *rest { return newREST(p.name, "http://"+p.workers[i].Addr) }

// addrs are the workers that run.
func (p *pool) addrs() (out []string) {
	for _, w := range p.workers {
		if w.Pid() != 0 {
			out = append(out, w.Addr)
		}
	}
	return out
}

// cpu is what the workers that run have used.
func (p *pool) cpu() (sum time.Duration, err error) {
	for _, w := range p.workers {
		if pid := w.Pid(); pid != 0 {
			used, err := cpu(pid)
			if err != nil {
				return 0, err
			}
			sum += used
		}
	}
	return sum, nil
}

// create makes connectors that follow a file each.
func (p *pool) create(ctx context.Context, g poolGroup, n int) error {
	if err := os.MkdirAll(g.files, 0o755); err != nil {
		return err
	}
	for i := range n {
		name := fmt.Sprintf("file-%03d", i)
		path := filepath.Join(g.files, name)
		if err := os.WriteFile(path, []byte("a line\n"), 0o644); err != nil {
			return err
		}
		if err := p.rest(0).create(ctx, name, fileSource(path, g.id+"-lines")); err != nil {
			return err
		}
	}
	return nil
}

// shared waits until n tasks run, on the workers that run and on no other, and each of these has its share.
func (p *pool) shared(ctx context.Context, n int) error {
	alive := map[string]bool{}
	for _, a := range p.addrs() {
		alive[a] = true
	}
	return p.states.await(ctx, fmt.Sprintf("%s: %d tasks shared among %d workers", p.name, n, len(alive)), func(tasks map[string]taskState) bool {
		by, running := map[string]int{}, 0
		for _, t := range tasks {
			if t.State == "RUNNING" && alive[t.Worker] {
				by[t.Worker]++
				running++
			}
		}
		for a := range alive {
			if by[a] < n/len(alive) {
				return false
			}
		}
		return running == n
	})
}

// poolStates follows a group's status topic: what runs where is seen as soon as it is told, and no worker is asked for it.
type poolStates struct {
	client *kgo.Client
	done   chan struct{}

	mu         sync.Mutex // guards the fields below
	tasks      map[string]taskState
	generation int
}

type taskState struct {
	State      string `json:"state"`
	Worker     string `json:"worker_id"`
	Generation int    `json:"generation"`
}

func followStates(ctx context.Context, kafka, topic string) (*poolStates, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(time.Second), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	s := &poolStates{client: client, done: make(chan struct{}), tasks: map[string]taskState{}}
	go func() {
		defer close(s.done)
		for {
			fetches := client.PollFetches(ctx)
			if fetches.IsClientClosed() || ctx.Err() != nil {
				return
			}
			s.mu.Lock()
			fetches.EachRecord(s.apply)
			s.mu.Unlock()
		}
	}()
	return s, nil
}

func (s *poolStates) close() {
	s.client.Close()
	<-s.done
}

func (s *poolStates) apply(r *kgo.Record) {
	var t taskState
	if r.Value != nil && json.Unmarshal(r.Value, &t) == nil {
		s.generation = max(s.generation, t.Generation)
	}
	switch key := string(r.Key); {
	case !strings.HasPrefix(key, "status-task-"):
	case r.Value == nil:
		delete(s.tasks, key)
	default:
		s.tasks[key] = t
	}
}

// last is the latest generation that a state was told in.
func (s *poolStates) last() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.generation
}

func (s *poolStates) await(ctx context.Context, what string, ok func(tasks map[string]taskState) bool) error {
	for deadline := time.Now().Add(poolLimit); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		is := ok(s.tasks)
		s.mu.Unlock()
		switch {
		case is:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return fmt.Errorf("not within %s: %s", poolLimit, what)
		}
	}
}

// moved is what it cost a group to share its work out anew.
type moved struct {
	took, cpu   time.Duration
	generations int
}

// move has f change the group and waits until its tasks are shared out again. The CPU time is that of the workers that ran before and after.
func (p *pool) move(ctx context.Context, tasks int, f func() error) (m moved, err error) {
	before := map[*run.Server]time.Duration{}
	for _, w := range p.workers {
		if pid := w.Pid(); pid != 0 {
			if before[w], err = cpu(pid); err != nil {
				return m, err
			}
		}
	}
	generation, begun := p.states.last(), time.Now()
	if err := f(); err != nil {
		return m, err
	}
	if err := p.shared(ctx, tasks); err != nil {
		return m, err
	}
	m.took, m.generations = time.Since(begun), p.states.last()-generation
	for w, was := range before {
		if pid := w.Pid(); pid != 0 {
			now, err := cpu(pid)
			if err != nil {
				return m, err
			}
			m.cpu += now - was
		}
	}
	return m, nil
}

// pool measures three workers that share many tasks, each of which follows a file, at scheduled.rebalance.max.delay.ms=0: what they cost
// at rest, and what it takes them to go on after one of them is killed and after it has come back. Three workers of Connect then take the
// group over and do the same.
func (b *bench) pool(ctx context.Context) (err error) {
	kafka, err := run.Kafka(ctx, filepath.Join(b.dir, "kafka-pool"), "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kafka.Close()) }()
	g := poolGroup{kafka: kafka.Addr, id: "pool", files: filepath.Join(b.dir, "pool-files"), more: "scheduled.rebalance.max.delay.ms=0\n"}
	b.print("%d workers share %d tasks, each of which follows a file; scheduled.rebalance.max.delay.ms=0, session.timeout.ms=10000 as by default, at least once as by default; load %s", poolWorkers, b.poolTasks, load())
	ours, err := b.ours(ctx, g)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err = ours.create(ctx, g, b.poolTasks); err == nil {
		posted := time.Since(begun)
		if err = ours.shared(ctx, b.poolTasks); err == nil {
			b.print("Millrace: POSTed one by one in %s, all RUNNING and shared out %s after the first", ms(posted), ms(time.Since(begun)))
			err = b.poolCosts(ctx, ours, kafka)
		}
	}
	if err := errors.Join(err, ours.close()); err != nil {
		return err
	}
	begun = time.Now()
	connects, err := b.connects(ctx, g)
	if err != nil {
		return err
	}
	if err = connects.shared(ctx, b.poolTasks); err == nil {
		b.print("Connect: took the group over, all RUNNING and shared out %s after its first worker was started", ms(time.Since(begun)))
		err = b.poolCosts(ctx, connects, kafka)
	}
	return errors.Join(err, connects.close())
}

// poolCosts prints what a group costs at rest and when its workers die and come back.
func (b *bench) poolCosts(ctx context.Context, p *pool, kafka *run.Server) error {
	if err := b.poolAtRest(ctx, p, kafka); err != nil {
		return err
	}
	var died, back []moved
	for i := range b.pairs {
		w := p.workers[i%poolWorkers]
		m, err := p.move(ctx, b.poolTasks, w.Kill)
		if err != nil {
			return err
		}
		died = append(died, m)
		if m, err = p.move(ctx, b.poolTasks, func() error { return w.Start(ctx) }); err != nil {
			return err
		}
		back = append(back, m)
		b.print("  %s, round %d: the others run all tasks %s after a worker's SIGKILL (%d rebalances, CPU %s of both); shared among three %s after its start (%d rebalances, CPU %s of the two)",
			p.name, i+1, ms(died[i].took), died[i].generations, ms(died[i].cpu), ms(back[i].took), back[i].generations, ms(back[i].cpu))
	}
	took := func(all []moved) (out []time.Duration) {
		for _, m := range all {
			out = append(out, m.took)
		}
		return out
	}
	var used time.Duration
	n := 0
	for _, m := range append(died, back...) {
		used += m.cpu
		n += m.generations
	}
	b.print("%s: SIGKILL to all tasks running elsewhere, median of %d: %s; start to shared among three: %s; CPU of two workers %.0f ms per rebalance (%d rebalances)",
		p.name, b.pairs, ms(median(took(died))), ms(median(took(back))), float64(used.Milliseconds())/float64(max(n, 1)), n)
	return nil
}

func (b *bench) poolAtRest(ctx context.Context, p *pool, kafka *run.Server) error {
	const settles, rests = 60 * time.Second, 30 * time.Second
	pause := func(d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	if err := pause(settles); err != nil {
		return err
	}
	var used [2][2]time.Duration
	for i := range used {
		workers, err1 := p.cpu()
		broker, err2 := cpu(kafka.Pid())
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		used[i] = [2]time.Duration{workers, broker}
		if i == 0 {
			if err := pause(rests); err != nil {
				return err
			}
		}
	}
	var held, peaks []string
	for _, w := range p.workers {
		rss, peak, err := memory(w.Pid())
		if err != nil {
			return err
		}
		held, peaks = append(held, fmt.Sprintf("%.1f", rss)), append(peaks, fmt.Sprintf("%.1f", peak))
	}
	share := func(k int) float64 { return 100 * (used[1][k] - used[0][k]).Seconds() / rests.Seconds() }
	b.print("%s at rest for %s: %s MiB resident (%s MiB at their highest), %.1f %% of a core for all three, and Kafka's %.1f %%",
		p.name, settles, strings.Join(held, ", "), strings.Join(peaks, ", "), share(0), share(1))
	return nil
}

// poolDelay measures from a worker's SIGKILL to its tasks running elsewhere at the default scheduled.rebalance.max.delay.ms, five minutes,
// in a group of ours and one of Connect's at the same time.
func (b *bench) poolDelay(ctx context.Context) (err error) {
	kafka, err := run.Kafka(ctx, filepath.Join(b.dir, "kafka-delay"), "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kafka.Close()) }()
	var took [2]time.Duration
	both, ctx := errgroup.WithContext(ctx)
	for i, start := range []func(context.Context, poolGroup) (*pool, error){b.ours, b.connects} {
		both.Go(func() error {
			g := poolGroup{kafka: kafka.Addr, id: fmt.Sprintf("delay-%d", i), files: filepath.Join(b.dir, fmt.Sprintf("delay-%d", i))}
			p, err := start(ctx, g)
			if err != nil {
				return err
			}
			if err = p.create(ctx, g, delayTasks); err == nil {
				err = p.shared(ctx, delayTasks)
			}
			if err == nil {
				var m moved
				m, err = p.move(ctx, delayTasks, p.workers[poolWorkers-1].Kill)
				took[i] = m.took
			}
			return errors.Join(err, p.close())
		})
	}
	if err := both.Wait(); err != nil {
		return err
	}
	b.print("%d workers with %d tasks, SIGKILL of one to all tasks running elsewhere, at the default scheduled.rebalance.max.delay.ms=300000: Millrace %.1f s, Connect %.1f s",
		poolWorkers, delayTasks, took[0].Seconds(), took[1].Seconds())
	return nil
}
