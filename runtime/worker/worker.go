package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"millrace/connectors"
	"millrace/log"
	"millrace/runtime"
	"millrace/runtime/settings"
	"millrace/runtime/store"
	"millrace/schema"
)

// Config is what a Worker needs.
type Config struct {
	Log      *log.Log
	Plugins  *runtime.Plugins
	Settings runtime.WorkerConfig
	Files    connectors.Files
	Offsets  *store.Offsets
	Logger   *slog.Logger
	// UsedTopic is told when a task uses a topic for the first time.
	UsedTopic func(id runtime.TaskID, topic string)
}

// An Event is a task's change of state.
type Event struct {
	ID      runtime.TaskID
	State   runtime.State // Running, Paused or Failed
	Err     error         // why it failed; the task has ended
	Version string        // of the connector
}

// A Worker runs tasks. Its methods may be called concurrently, but for one task
// Start, Stop and Drop one after another.
type Worker struct {
	c  Config
	lg *slog.Logger

	mu    sync.Mutex // guards tasks
	tasks map[runtime.TaskID]*running
}

// New makes a Worker without tasks.
func New(c Config) *Worker {
	if c.UsedTopic == nil {
		c.UsedTopic = func(runtime.TaskID, string) {}
	}
	return &Worker{c: c, lg: c.Logger, tasks: map[runtime.TaskID]*running{}}
}

// A task is what source and sink tasks have in common for the worker.
type task interface {
	// run works until ctx ends and what is in flight is done, or hard ends, or it fails.
	run(ctx, hard context.Context) error
}

// A running task, from Start to the end of its goroutine.
type running struct {
	id      runtime.TaskID
	version string
	gate    *gate
	stop    context.CancelFunc // asks it to finish
	kill    context.CancelFunc // cuts it off
	ended   chan struct{}

	mu     sync.Mutex // guards on; held while it is called
	on     func(Event)
	failed bool
}

// emit tells the listener, until the task is stopped.
func (r *running) emit(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.on != nil {
		e.ID, e.Version = r.id, r.version
		r.on(e)
	}
}

func (r *running) mute() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = nil
}

// Context is what the connector of that name may ask of the runtime.
func (w *Worker) Context(name string) connectors.Context {
	return connectors.Context{Connector: name, Task: -1, Log: w.lg.With("connector", name), Files: w.c.Files, Offsets: offsetReader{w.c.Offsets, name}}
}

// Plan makes the connector of a configuration and asks it for its tasks. The
// configurations are as Connect stores them, with the task's Java class.
func (w *Worker) Plan(ctx context.Context, name string, raw map[string]string) (configs []map[string]string, err error) {
	defer recovered(&err, "plan the tasks of "+name)
	class := raw[settings.ConnectorClass.Name]
	def := settings.Source
	isSink := false
	if _, isSink = w.c.Plugins.Sinks.Find(class); isSink {
		def = settings.Sink
	}
	common, errs := def.Parse(raw)
	if len(errs) > 0 {
		return nil, connectors.BadConfig(errs[0])
	}
	most := int(settings.TasksMax.Get(common))
	var taskClass string
	switch {
	case isSink:
		p, _ := w.c.Plugins.Sinks.Find(class)
		taskClass = p.TaskClass
		v, errs := p.Config.Parse(raw)
		if len(errs) > 0 {
			return nil, connectors.BadConfig(errs[0])
		}
		c, err := p.New(w.Context(name), v)
		if err != nil {
			return nil, err
		}
		configs, err = c.Tasks(ctx, most)
		if err != nil {
			return nil, err
		}
	default:
		p, ok := w.c.Plugins.Sources.Find(class)
		if !ok {
			return nil, connectors.BadConfig(fmt.Errorf("connector.class %s: no such connector in this binary", class))
		}
		taskClass = p.TaskClass
		v, errs := p.Config.Parse(raw)
		if len(errs) > 0 {
			return nil, connectors.BadConfig(errs[0])
		}
		c, err := p.New(w.Context(name), v)
		if err != nil {
			return nil, err
		}
		configs, err = c.Tasks(ctx, most)
		if err != nil {
			return nil, err
		}
	}
	if len(configs) > most && settings.TasksEnforced(common) {
		return nil, connectors.BadConfig(fmt.Errorf("the connector made %d tasks, which is more than tasks.max=%d; raise it, or set tasks.max.enforce=false", len(configs), most))
	}
	for i, c := range configs {
		c = maps.Clone(c)
		if taskClass != "" {
			c["task.class"] = taskClass
		}
		if isSink { // Connect adds these to every sink task
			for _, k := range []string{settings.Topics.Name, settings.TopicsRegex.Name} {
				if t, ok := raw[k]; ok {
					c[k] = t
				}
			}
		}
		configs[i] = c
	}
	return configs, nil
}

// Start begins to run a task and returns at once. on is told of its states, in
// order, by the task's own goroutines; it must not call the worker.
func (w *Worker) Start(id runtime.TaskID, connector, config map[string]string, paused bool, on func(Event)) {
	ctx, stop := context.WithCancel(context.Background())
	hard, kill := context.WithCancel(context.Background())
	r := &running{id: id, gate: newGate(paused), stop: stop, kill: kill, ended: make(chan struct{}), on: on}
	w.mu.Lock()
	if _, twice := w.tasks[id]; twice {
		w.mu.Unlock()
		stop()
		kill()
		on(Event{ID: id, State: runtime.Failed, Err: fmt.Errorf("task %s runs already: a bug in the worker", id)})
		return
	}
	w.tasks[id] = r
	w.mu.Unlock()
	lg := w.lg.With("connector", id.Connector, "task", id.Task)
	go func() {
		defer close(r.ended)
		defer kill()
		defer stop()
		err := w.run(ctx, hard, r, connector, config, lg)
		if err == nil || hard.Err() != nil {
			return
		}
		lg.Error("task failed", "err", err)
		r.emit(Event{State: runtime.Failed, Err: err})
	}()
}

// run makes the task and runs it.
func (w *Worker) run(ctx, hard context.Context, r *running, connector, config map[string]string, lg *slog.Logger) (err error) {
	defer recovered(&err, "run task "+r.id.String())
	t, err := w.make(r, connector, config, lg)
	if err != nil {
		return err
	}
	state := runtime.Running
	if r.gate.isClosed() {
		state = runtime.Paused
	}
	r.emit(Event{State: state})
	return t.run(ctx, hard)
}

func (w *Worker) make(r *running, connector, config map[string]string, lg *slog.Logger) (task, error) {
	class := connector[settings.ConnectorClass.Name]
	if p, ok := w.c.Plugins.Sources.Find(class); ok {
		r.version = p.Version
		return w.newSource(r, p, connector, config, lg)
	}
	if p, ok := w.c.Plugins.Sinks.Find(class); ok {
		r.version = p.Version
		return w.newSink(r, p, connector, config, lg)
	}
	return nil, connectors.BadConfig(fmt.Errorf("connector.class %s: no such connector in this binary", class))
}

// SetPaused pauses a task or lets it go on. A task that does not run here is let be.
func (w *Worker) SetPaused(id runtime.TaskID, paused bool) {
	w.mu.Lock()
	r := w.tasks[id]
	w.mu.Unlock()
	if r == nil || !r.gate.set(paused) {
		return
	}
	select {
	case <-r.ended: // a failed task stays failed
		return
	default:
	}
	if paused {
		r.emit(Event{State: runtime.Paused})
	} else {
		r.emit(Event{State: runtime.Running})
	}
}

// Stop ends tasks together. What they have emitted reaches the log and their
// offsets are stored, within the worker's grace; what is not done by then is cut
// off. Afterwards none of them can write anything, and no listener is called.
func (w *Worker) Stop(ctx context.Context, ids []runtime.TaskID) {
	rs := w.take(ids)
	for _, r := range rs {
		r.mute()
		r.stop()
	}
	grace := time.NewTimer(w.c.Settings.TaskGrace)
	defer grace.Stop()
	for _, r := range rs {
		select {
		case <-r.ended:
			continue
		case <-grace.C:
			grace.Reset(0) // for the others as well
		case <-ctx.Done():
		}
		select {
		case <-r.ended:
		default:
			w.lg.Warn("task did not finish in time and is cut off", "connector", r.id.Connector, "task", r.id.Task, "grace", w.c.Settings.TaskGrace)
			r.kill()
		}
	}
	// A task that was cut off has no client any more and ends, unless its connector
	// holds its goroutine; then only that goroutine is left, and it reaches nothing.
	for _, r := range rs {
		select {
		case <-r.ended:
		case <-time.After(cutOff):
			w.lg.Error("task does not end although it was cut off; its connector ignores its context", "connector", r.id.Connector, "task", r.id.Task)
		}
	}
}

// cutOff is how long a task that was cut off may take to end.
const cutOff = 2 * time.Second

// Drop cuts tasks off at once: another worker may have them already. Nothing is
// committed.
func (w *Worker) Drop(ids []runtime.TaskID) {
	for _, r := range w.take(ids) {
		r.mute()
		r.kill()
	}
}

// take removes tasks from those that run here.
func (w *Worker) take(ids []runtime.TaskID) []*running {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*running
	for _, id := range ids {
		if r := w.tasks[id]; r != nil {
			out = append(out, r)
			delete(w.tasks, id)
		}
	}
	return out
}

// Close stops all tasks.
func (w *Worker) Close() {
	w.mu.Lock()
	ids := make([]runtime.TaskID, 0, len(w.tasks))
	for id := range w.tasks {
		ids = append(ids, id)
	}
	w.mu.Unlock()
	w.Stop(context.Background(), ids)
}

// recovered turns a panic into an error at the edge of a connector.
func recovered(err *error, doing string) {
	if p := recover(); p != nil {
		*err = panicked(p, doing)
	}
}

func panicked(p any, doing string) error {
	return fmt.Errorf("%s: the connector panicked, which is a bug in it: %v\n%s", doing, p, debug.Stack())
}

// A gate holds a task back while it is paused.
type gate struct {
	mu     sync.Mutex // guards the fields below
	closed bool
	opens  chan struct{} // closed when the gate opens
	moved  chan struct{} // of one: told of every change, for loops that look
}

func newGate(closed bool) *gate {
	return &gate{closed: closed, opens: make(chan struct{}), moved: make(chan struct{}, 1)}
}

// set closes or opens the gate and reports whether that changed it.
func (g *gate) set(closed bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed == closed {
		return false
	}
	g.closed = closed
	if closed {
		g.opens = make(chan struct{})
	} else {
		close(g.opens)
	}
	select {
	case g.moved <- struct{}{}:
	default:
	}
	return true
}

func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// wait returns when the gate is open, or with ctx's error.
func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	closed, opens := g.closed, g.opens
	g.mu.Unlock()
	if !closed {
		return nil
	}
	select {
	case <-opens:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// offsetReader is a source's view of its own offsets.
type offsetReader struct {
	offsets   *store.Offsets
	connector string
}

func (o offsetReader) Stored(ctx context.Context, partition schema.Value) (schema.Value, error) {
	if err := o.offsets.ReadToEnd(ctx); err != nil {
		return schema.Value{}, connectors.Retriable(fmt.Errorf("read stored offsets: %w", err))
	}
	return o.offsets.Stored(o.connector, partition), nil
}

func (o offsetReader) All(ctx context.Context) ([]connectors.Offset, error) {
	if err := o.offsets.ReadToEnd(ctx); err != nil {
		return nil, connectors.Retriable(fmt.Errorf("read stored offsets: %w", err))
	}
	return o.offsets.All(o.connector), nil
}

// errEnded is what a task's goroutines get when it has ended otherwise.
var errEnded = errors.New("the task has ended")
