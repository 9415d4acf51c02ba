//go:build synctests

package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/deploy/trial"
	"millrace/log"
	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/runtime/herder"
	"millrace/schema/plugin"
)

// TestSimWhatWasAcceptedRuns compares a worker with a model of what clients were told,
// under random operations, restarts and deaths of the process, in fake time: what was
// accepted is what runs afterwards, no task runs twice, states end right, and each
// record is committed once.
func TestSimWhatWasAcceptedRuns(t *testing.T) {
	seeds := trial.Seeds(6)
	kinds := map[string]int{}
	for _, seed := range seeds {
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newModel(t, seed).run(60, kinds) })
		})
		if !ok {
			t.Fatalf("failed with MILLRACE_SEED=%d", seed)
		}
	}
	t.Logf("operations: %v", kinds)
	for _, k := range []string{"create", "update", "delete", "PAUSED", "STARTED", "STOPPED", "restart", "alter", "reset", "crash", "close", "crash in the midst"} {
		if kinds[k] == 0 && len(seeds) > 1 {
			t.Errorf("no %s came up", k)
		}
	}
}

// A wanted is what a client was told of a connector.
type wanted struct {
	rev    int // of its configuration; values begin with it
	tasks  int
	target runtime.TargetState
}

// A model is a worker, its disk, and what clients were told.
type model struct {
	t     *testing.T
	rnd   *rand.Rand
	disk  *logtest.Disk
	l     *log.Log
	h     *herder.Herder
	src   map[string]*Source // of the process that runs, by connector
	want  map[string]wanted
	rev   int
	trail []string
	// Deaths in the midst of something: after the answer, and before.
	answered, cutOff int

	// jumps are the positions at which a source may begin because a client said so, by
	// connector.
	jumps map[string][]int64
}

var modelNames = []string{"a", "b", "c", "d"}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), disk: logtest.NewDisk(), want: map[string]wanted{}, jumps: map[string][]int64{}}
	m.start()
	return m
}

// start starts a process: a log on the disk, and a worker.
func (m *model) start() {
	m.l = m.disk.Open(m.t)
	m.src = map[string]*Source{}
	var plugins []plugin.Plugin
	for _, name := range modelNames { // a class for each, so that each has a source of its own
		s := NewSource()
		s.Pause.Store(int64(300 * time.Millisecond))
		m.src[name] = s
		plugins = append(plugins, s.Plugin("Of"+name))
	}
	m.h = Worker(m.t, m.l, Plugins(m.t, plugins...), "heartbeat.interval.ms", "3000", "offset.flush.interval.ms", "1000", "exactly.once.source.support", "enabled")
}

// crash ends the process without a goodbye.
func (m *model) crash() {
	m.disk.Kill()
	m.twice()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.l.Close(ended) // from now on nobody is reached
	_ = m.h.Close(ended)
}

// close ends it in order.
func (m *model) close() {
	Close(m.t, m.h)
	m.twice()
	if err := m.l.Close(context.Background()); err != nil {
		m.fatal("close log: %v", err)
	}
}

func (m *model) twice() {
	for name, s := range m.src {
		if s.Twice() {
			m.fatal("a task of %s ran twice at once", name)
		}
	}
}

func (m *model) fatal(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\nafter:\n  %s", fmt.Sprintf(format, args...), strings.Join(m.trail, "\n  "))
}

func (m *model) note(format string, args ...any) {
	m.trail = append(m.trail, fmt.Sprintf(format, args...))
}

// An op is something a client asks: what it does, how the model looks where it is
// accepted, and which refusals are right.
type op struct {
	kind  string
	name  string
	do    func(ctx context.Context) error
	after func()
	legal bool // the model says that it can be done
}

func (m *model) config(name string, w wanted) map[string]string {
	return map[string]string{"connector.class": "Of" + name, "topic": "t-" + name, "batch": "1", "tasks.max": "9",
		"tasks": strconv.Itoa(w.tasks), "value": fmt.Sprintf("r%d/", w.rev)}
}

// pick is a random operation.
func (m *model) pick() op {
	name := modelNames[m.rnd.IntN(len(modelNames))]
	w, there := m.want[name]
	o := op{name: name, legal: there}
	put := func(kind string, w wanted, initial runtime.TargetState, replace bool) {
		m.rev++
		w.rev, w.tasks = m.rev, 1+m.rnd.IntN(3)
		conf := m.config(name, w)
		o.kind = kind
		o.do = func(ctx context.Context) error {
			_, _, err := m.h.PutConfig(ctx, name, conf, initial, replace)
			return err
		}
		o.after = func() { m.want[name] = w }
	}
	switch n := m.rnd.IntN(100); {
	case n < 20:
		w.target = []runtime.TargetState{runtime.Started, runtime.Started, runtime.PausedTarget, runtime.StoppedTarget}[m.rnd.IntN(4)]
		put("create", w, w.target, false)
		o.legal = !there
	case n < 38:
		if !there {
			w.target = runtime.Started
		}
		put("update", w, "", true)
		o.legal = true
	case n < 46:
		o.kind, o.do = "delete", func(ctx context.Context) error { return m.h.Delete(ctx, name) }
		o.after = func() { delete(m.want, name) }
	case n < 70:
		to := []runtime.TargetState{runtime.Started, runtime.PausedTarget, runtime.StoppedTarget}[m.rnd.IntN(3)]
		o.kind, o.do = string(to), func(ctx context.Context) error { return m.h.SetTargetState(ctx, name, to) }
		o.after = func() { w.target = to; m.want[name] = w }
	case n < 80:
		o.kind, o.do = "restart", func(ctx context.Context) error { _, err := m.h.Restart(ctx, name, true, false); return err }
		o.after = func() {}
	case n < 92:
		at := int64(m.rnd.IntN(1000))
		o.kind, o.legal = "alter", there && w.target == runtime.StoppedTarget
		o.do = func(ctx context.Context) error {
			m.jumps[name] = append(m.jumps[name], at)
			_, err := m.h.AlterOffsets(ctx, name, []runtime.OffsetInfo{{Partition: partition(0), Offset: position(at)}})
			return err
		}
		o.after = func() {}
	default:
		o.kind, o.legal = "reset", there && w.target == runtime.StoppedTarget
		o.do = func(ctx context.Context) error {
			m.jumps[name] = append(m.jumps[name], 0)
			_, err := m.h.ResetOffsets(ctx, name)
			return err
		}
		o.after = func() {}
	}
	return o
}

func (m *model) run(steps int, kinds map[string]int) {
	defer func() {
		if m.t.Failed() {
			m.disk.Kill() // nothing that goes on is of interest
		}
	}()
	for range steps {
		time.Sleep(time.Duration(m.rnd.IntN(1500)) * time.Millisecond)
		switch n := m.rnd.IntN(100); {
		case n < 8:
			kinds["crash"]++
			m.note("crash")
			m.crash()
			m.start()
			m.settled()
		case n < 12:
			kinds["close"]++
			m.note("close")
			m.close()
			m.start()
			m.settled()
		case n < 20:
			kinds["crash in the midst"]++
			m.midst(m.pick())
			m.settled()
		default:
			o := m.pick()
			kinds[o.kind]++
			m.ask(o)
			if m.rnd.IntN(4) == 0 {
				m.settled()
			}
		}
	}
	m.settled()
	m.records()
	m.close()
}

// ask has a client ask for something, again where workers are settling.
func (m *model) ask(o op) {
	var err error
	for range 40 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err = o.do(ctx)
		cancel()
		if !errors.As(err, new(*runtime.ConflictError)) {
			break
		}
		time.Sleep(250 * time.Millisecond)
	}
	m.note("%s %s: %v", o.kind, o.name, err)
	switch {
	case err == nil && !o.legal:
		m.fatal("%s of %s was accepted, but cannot be done: %+v", o.kind, o.name, m.want[o.name])
	case err == nil:
		o.after()
	case o.legal:
		m.fatal("%s of %s was refused: %v", o.kind, o.name, err)
	}
}

// midst has the process die while it serves a request. Whoever asked knows only what
// was answered: without an answer, or with an error, either may be.
func (m *model) midst(o op) {
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	go func() { done <- o.do(ctx) }()
	for range 1 << m.rnd.IntN(12) { // a clock that stands still lets all that can run come to its end
		goruntime.Gosched()
	}
	m.crash()
	err := <-done
	m.note("crash in %s %s: %v", o.kind, o.name, err)
	before := maps.Clone(m.want)
	if o.legal {
		o.after()
	}
	m.start()
	if err == nil {
		m.answered++
		return
	}
	if !o.legal {
		return
	}
	m.cutOff++
	time.Sleep(10 * time.Second)
	after := m.want
	if m.differs() != "" {
		m.want = before
		if why := m.differs(); why != "" {
			m.want = after
			m.fatal("after a death in %s of %s the worker has neither what was before nor what was asked: %s; %s", o.kind, o.name, why, m.differs())
		}
	}
}

// settled waits until things have come to rest, and compares.
func (m *model) settled() {
	why := ""
	for range 60 { // what failed by chance is restarted after a second
		time.Sleep(time.Second)
		if why = m.differs(); why == "" {
			m.twice()
			return
		}
	}
	m.fatal("a minute later: %s", why)
}

// differs says where the worker is not as the model, "" where it is.
func (m *model) differs() string {
	ctx := context.Background()
	names, err := m.h.Connectors(ctx)
	if want := slices.Sorted(maps.Keys(m.want)); err != nil || !slices.Equal(names, want) {
		return fmt.Sprintf("connectors %v (%v), want %v", names, err, want)
	}
	for name, w := range m.want {
		conf, err := m.h.Config(ctx, name)
		want := m.config(name, w)
		want["name"] = name
		if err != nil || !maps.Equal(conf, want) {
			return fmt.Sprintf("%s has the configuration %v (%v), want %v", name, conf, err, want)
		}
		st, err := m.h.Status(ctx, name)
		if err != nil {
			return fmt.Sprintf("%s has no status: %v", name, err)
		}
		state, tasks := runtime.Running, w.tasks
		switch w.target {
		case runtime.PausedTarget:
			state = runtime.Paused
		case runtime.StoppedTarget:
			state, tasks = runtime.Stopped, 0
		}
		// A connector that was never started since its last stop has no tasks, and one that
		// is paused keeps those of its last plan.
		if st.Connector.State != state || st.Connector.WorkerID != m.h.WorkerID() || w.target != runtime.PausedTarget && len(st.Tasks) != tasks {
			return fmt.Sprintf("%s is %+v with %d tasks, want %s with %d", name, st.Connector, len(st.Tasks), state, tasks)
		}
		for _, ts := range st.Tasks {
			if ts.State != state || ts.WorkerID != m.h.WorkerID() {
				return fmt.Sprintf("task %d of %s is %+v, want %s", ts.ID, name, ts.PartStatus, state)
			}
		}
		if w.target != runtime.Started {
			continue
		}
		if n := m.src[name].Now(); n != tasks {
			return fmt.Sprintf("%d tasks of %s run, want %d", n, name, tasks)
		}
		// What runs is what was asked for: the newest record of each task says so.
		newest := map[string]string{}
		for _, r := range Committed(m.t, m.l, "t-"+name) {
			newest[string(r.Key)] = string(r.Value)
		}
		for i := range tasks {
			if v := newest[fmt.Sprintf("%q", strconv.Itoa(i))]; !strings.HasPrefix(v, fmt.Sprintf(`"r%d/`, w.rev)) {
				return fmt.Sprintf("the newest record of %s-%d is %s, want one of configuration r%d", name, i, v, w.rev)
			}
		}
	}
	for _, name := range modelNames {
		if _, there := m.want[name]; there {
			continue
		}
		if _, err := m.h.Status(ctx, name); !errors.As(err, new(*runtime.NotFoundError)) {
			return fmt.Sprintf("%s is deleted, and has a status (%v)", name, err)
		}
		if n := m.src[name].Now(); n != 0 {
			return fmt.Sprintf("%d tasks of %s run, which is deleted", n, name)
		}
	}
	return ""
}

// records checks that each task's committed records follow each other without gap and
// repetition, but where a client set its offset.
func (m *model) records() {
	total := 0
	for _, name := range modelNames {
		if details, err := m.l.Admin().ListTopics(context.Background(), "t-"+name); err != nil || details["t-"+name].Err != nil {
			continue
		}
		next := map[string]int64{}
		jumps := slices.Clone(m.jumps[name])
		for _, r := range Committed(m.t, m.l, "t-"+name) {
			_, text, _ := strings.Cut(strings.Trim(string(r.Value), `"`), "/")
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				m.fatal("record %s", r.Value)
			}
			total++
			key := string(r.Key)
			if n == next[key] {
				next[key] = n + 1
				continue
			}
			i := slices.Index(jumps, n)
			if i < 0 {
				m.fatal("topic t-%s, offset %d: task %s has record %d where %d comes; clients set the offsets %v", name, r.Offset, key, n, next[key], m.jumps[name])
			}
			if n != 0 { // a reset is for all tasks
				jumps = slices.Delete(jumps, i, i+1)
			}
			next[key] = n + 1
		}
	}
	m.t.Logf("%d records, each committed once; deaths after an answer %d, before it %d", total, m.answered, m.cutOff)
}
