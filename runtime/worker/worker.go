package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log"
	"millrace/runtime"
	"millrace/runtime/provider"
	"millrace/runtime/settings"
	"millrace/runtime/store"
	"millrace/schema"
	"millrace/schema/config"
)

// Config is what a worker needs.
type Config struct {
	Log     *log.Log
	Plugins *runtime.Plugins
	Worker  runtime.WorkerConfig
	Files   connectors.Files
	Offsets *store.Offsets
	Logger  *slog.Logger
	// Providers put values in the place of the variables of configurations; nil: there are none.
	Providers *provider.Set
	// Expires is called where a provider's values hold for a time only: the connector (task -1)
	// or task that runs on them shall be made anew after it. Nil: nobody cares.
	Expires func(id runtime.TaskID, after time.Duration)
	// Used is called when a task uses a topic for the first time.
	Used func(u store.TopicUse)
	// Registry is the address of this process's own schema registry, for converters that name none; empty: it has none.
	Registry string
	// Forgotten moves when topic uses are forgotten: tasks tell them anew. May be nil.
	Forgotten *atomic.Int64
	// Counted reports whether the group still counts this process in. While it does not, no offsets are
	// stored: another may have the tasks, and theirs be newer. Nil: always.
	Counted func() bool
}

// A Worker makes connectors and tasks. Its methods may be called concurrently.
type Worker struct{ cfg Config }

// New makes a worker.
func New(c Config) *Worker { return &Worker{c} }

// Info is what is known of a connector's plugin.
type Info struct {
	Type    runtime.Type
	Class   string
	Version string
	task    string // class of its tasks
	config  config.Def
}

// Find is the plugin of a class or alias.
func (w *Worker) Find(class string) (Info, error) {
	if provider.HasVariables(class) {
		r, errs := w.cfg.Providers.Resolve(context.Background(), map[string]string{settings.ConnectorClass.Name: class})
		if err := wrong(errs); err != nil {
			return Info{Type: runtime.UnknownType}, err
		}
		class = r.Values[settings.ConnectorClass.Name]
	}
	if p, ok := w.cfg.Plugins.Sources.Find(class); ok {
		return Info{runtime.SourceType, settings.ClassOf(p.Info), p.Version, p.TaskClass, p.Config}, nil
	}
	if p, ok := w.cfg.Plugins.Sinks.Find(class); ok {
		return Info{runtime.SinkType, settings.ClassOf(p.Info), p.Version, p.TaskClass, p.Config}, nil
	}
	return Info{Type: runtime.UnknownType}, connectors.BadConfig(fmt.Errorf("no connector is called %q; GET /connector-plugins lists those that are there", class))
}

// Context is what a connector or task may ask of us. Report is set for sink tasks by
// whoever runs them.
func (w *Worker) Context(name string, task int) connectors.Context {
	lg := w.cfg.Logger.With("connector", name)
	if task >= 0 {
		lg = lg.With("task", task)
	}
	return connectors.Context{Connector: name, Task: task, Log: lg, Files: w.cfg.Files, Offsets: offsets{[]*store.Offsets{w.cfg.Offsets}, name}}
}

// offsets are one connector's stored offsets: those of the first store that has them.
type offsets struct {
	stores    []*store.Offsets
	connector string
}

// Stored implements connectors.OffsetReader.
func (o offsets) Stored(ctx context.Context, partition schema.Value) (schema.Value, error) {
	all, err := o.All(ctx)
	if err != nil {
		return schema.Value{}, err
	}
	for _, at := range all {
		if schema.EqualValues(at.Partition, partition) {
			return at.Position, nil
		}
	}
	return schema.Value{}, nil
}

// All implements connectors.OffsetReader.
func (o offsets) All(ctx context.Context) ([]connectors.Offset, error) {
	out, err := store.AllOf(ctx, o.connector, o.stores...)
	return out, connectors.Retriable(err)
}

// OffsetStores are where a source's offsets are kept: the topic of its own, where it
// has one, and the worker's. As in Connect the first one that has an offset counts,
// and what is stored goes to all. The caller closes them, the worker's stays open.
func (w *Worker) OffsetStores(ctx context.Context, conf map[string]string, lg *slog.Logger) (stores []*store.Offsets, close func(), err error) {
	stores, close = []*store.Offsets{w.cfg.Offsets}, func() {}
	topic := strings.TrimSpace(conf[settings.OffsetsTopic.Name])
	if topic == "" || topic == w.cfg.Offsets.Topic {
		return stores, close, nil
	}
	as := w.cfg.Worker.OffsetTopic
	as.Name = topic
	own, err := store.OpenOffsets(ctx, w.cfg.Log, as, lg)
	if err != nil {
		return nil, close, connectors.Retriable(fmt.Errorf("%s: %w", settings.OffsetsTopic.Name, err))
	}
	return []*store.Offsets{own, w.cfg.Offsets}, own.Close, nil
}

func topicsOf(stores []*store.Offsets) []string {
	out := make([]string, len(stores))
	for i, s := range stores {
		out[i] = s.Topic
	}
	return out
}

// Plan has a connector plan its tasks. Each configuration names its task's class, as
// in Connect, so that a worker of either kind can run it.
func (w *Worker) Plan(ctx context.Context, name string, conf map[string]string) (tasks []map[string]string, err error) {
	r, err := w.resolve(ctx, runtime.TaskID{Connector: name, Task: -1}, conf)
	if err != nil {
		return nil, err
	}
	secrets := r.Secrets()
	tasks, err = w.hiding(secrets).plan(ctx, name, r.Values)
	for i, t := range tasks {
		if tasks[i], err = r.Stored(t); err != nil {
			return nil, connectors.BadConfig(secrets.Error(err))
		}
	}
	return tasks, secrets.Error(err)
}

// plan is Plan with values in the place of variables.
func (w *Worker) plan(ctx context.Context, name string, conf map[string]string) (tasks []map[string]string, err error) {
	if err := wrong(runtime.CheckJaas(conf)); err != nil {
		return nil, err
	}
	info, err := w.Find(conf[settings.ConnectorClass.Name])
	if err != nil {
		return nil, err
	}
	def := settings.Source
	if info.Type == runtime.SinkType {
		def = settings.Sink
	}
	v, err := parse(def, conf)
	if err != nil {
		return nil, err
	}
	own, err := parse(info.config, conf)
	if err != nil {
		return nil, err
	}
	for _, g := range own.Ignored() {
		w.cfg.Logger.Info("a connector's setting has no effect", "connector", name, "setting", g.Key, "reason", g.Reason)
	}
	// Every task holds memory: a number with a zero too many is no reason to run out of it.
	asked := int(settings.TasksMax.Get(v))
	most := min(asked, w.cfg.Worker.TasksLimit())
	if most < asked {
		w.cfg.Logger.Warn("a connector gets fewer tasks than its tasks.max: the worker's tasks.max.limit is lower", "connector", name, "tasks.max", asked, "tasks.max.limit", most)
	}
	err = guard("connector "+name, func() error {
		cc := w.Context(name, -1)
		if p, ok := w.cfg.Plugins.Sources.Find(info.Class); ok {
			s, err := p.New(cc, own)
			if err != nil {
				return err
			}
			tasks, err = s.Tasks(ctx, most)
			return err
		}
		p, _ := w.cfg.Plugins.Sinks.Find(info.Class)
		s, err := p.New(cc, own)
		if err != nil {
			return err
		}
		tasks, err = s.Tasks(ctx, most)
		return err
	})
	if err != nil {
		return nil, err
	}
	if limit := w.cfg.Worker.TasksLimit(); len(tasks) > limit {
		return nil, connectors.BadConfig(fmt.Errorf("the connector has made %d tasks, which is more than the worker's tasks.max.limit (%d)", len(tasks), limit))
	}
	if len(tasks) > most && settings.TasksMaxEnforce.Get(v) {
		return nil, connectors.BadConfig(fmt.Errorf("the connector has made %d tasks, which is more than tasks.max (%d)", len(tasks), most))
	}
	for i, t := range tasks {
		t = maps.Clone(t)
		t["task.class"] = info.task
		if info.Type == runtime.SinkType {
			for _, k := range []string{settings.Topics.Name, settings.TopicsRegex.Name} {
				if text, ok := conf[k]; ok {
					t[k] = text
				}
			}
		}
		tasks[i] = t
	}
	return tasks, nil
}

// parse reads a configuration; what is wrong only a change of it mends.
func parse(def config.Def, raw map[string]string) (config.Values, error) {
	v, errs := def.Parse(raw)
	return v, wrong(errs)
}

func wrong(errs []*config.Error) error {
	if len(errs) == 0 {
		return nil
	}
	list := make([]error, len(errs))
	for i, e := range errs {
		list[i] = e
	}
	return connectors.BadConfig(errors.Join(list...))
}

// hiding is the worker for a configuration whose values are secrets: it logs nothing of them.
func (w *Worker) hiding(s *provider.Secrets) *Worker {
	if s == nil {
		return w
	}
	c := w.cfg
	c.Logger = s.Logger(c.Logger)
	return &Worker{c}
}

// resolve puts values in the place of a configuration's variables.
func (w *Worker) resolve(ctx context.Context, id runtime.TaskID, conf map[string]string) (provider.Resolved, error) {
	r, errs := w.cfg.Providers.Resolve(ctx, conf)
	if len(errs) > 0 { // not for ever wrong: what a provider reads may be mended without us
		list := make([]error, len(errs))
		for i, e := range errs {
			list[i] = e
		}
		return r, errors.Join(list...)
	}
	v, wrong := reload.Parse(r.Values)
	if r.TTL > 0 && w.cfg.Expires != nil && len(wrong) == 0 && strings.EqualFold(settings.ConfigReload.Get(v), "restart") {
		w.cfg.Expires(id, r.TTL)
	}
	return r, nil
}

var reload = config.Define(settings.ConfigReload)

// resolved is a task's specification with values in the place of variables, and the worker that hides them.
func (w *Worker) resolved(ctx context.Context, spec TaskSpec) (*Worker, TaskSpec, *provider.Secrets, error) {
	conn, err := w.resolve(ctx, spec.ID, spec.Connector)
	if err != nil {
		return w, spec, nil, err
	}
	task, err := w.resolve(ctx, spec.ID, spec.Task)
	if err != nil {
		return w, spec, nil, err
	}
	spec.Connector, spec.Task = conn.Values, task.Values
	secrets := conn.Secrets().And(task.Secrets())
	spec.secrets = secrets
	return w.hiding(secrets), spec, secrets, nil
}

// TaskSpec is what a task is started with.
type TaskSpec struct {
	ID        runtime.TaskID
	Connector map[string]string // the connector's configuration
	Task      map[string]string // the task's own
	Paused    bool
	Meter     *Meter // of the task's runs; nil for a new one
	Restarts  int    // automatic ones in a row before this run
	// State hears of the task's states: RUNNING or PAUSED, then FAILED with the error
	// where it fails. It is called from the task's goroutines, never after Kill.
	State func(t *Task, s runtime.State, err error)

	secrets *provider.Secrets // what its providers gave
}

// A Task is one run of a task. It ends when it fails, or after Stop.
type Task struct {
	ID      runtime.TaskID
	Version string
	Started time.Time
	Meter   *Meter

	gate  *gate
	stop  context.CancelFunc
	kill  context.CancelFunc
	hard  context.Context
	done  chan struct{}
	state func(s runtime.State, err error)

	reporting sync.Mutex // held while a state is reported, so that none follows Kill
	failed    atomic.Bool
}

// Start starts a task. What is wrong with it is reported to spec.State.
func (w *Worker) Start(spec TaskSpec) *Task {
	ctx, stop := context.WithCancel(context.Background())
	hard, kill := context.WithCancel(context.Background())
	t := &Task{ID: spec.ID, Started: time.Now(), gate: newGate(spec.Paused), stop: stop, kill: kill, hard: hard, done: make(chan struct{}), Meter: spec.Meter}
	if t.Meter == nil {
		t.Meter = &Meter{}
	}
	t.state = func(s runtime.State, err error) {
		t.reporting.Lock()
		defer t.reporting.Unlock()
		if hard.Err() != nil {
			return
		}
		t.Meter.Is(s)
		if spec.State != nil {
			spec.State(t, s, err)
		}
	}
	if info, err := w.Find(spec.Connector[settings.ConnectorClass.Name]); err == nil {
		t.Version = info.Version
	}
	go func() {
		defer close(t.done)
		w, spec, secrets, err := w.resolved(ctx, spec)
		if err == nil {
			err = guard("task", func() error { return w.run(ctx, hard, t, spec) })
		}
		err = secrets.Error(err)
		if err == nil || hard.Err() != nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return
		}
		lg := w.cfg.Logger.With("connector", spec.ID.Connector, "task", spec.ID.Task)
		var p *PanicError
		if errors.As(err, &p) {
			lg.Error("task panicked", "where", p.Where, "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
		}
		lg.Error("task failed", "err", err)
		t.failed.Store(true)
		t.state(runtime.Failed, err)
	}()
	return t
}

// SetPaused pauses a task, or lets it go on.
func (t *Task) SetPaused(paused bool) {
	if t.gate.set(paused) && !t.failed.Load() {
		t.state(running(paused), nil)
	}
}

func running(paused bool) runtime.State {
	if paused {
		return runtime.Paused
	}
	return runtime.Running
}

// Done is closed when the task has ended.
func (t *Task) Done() <-chan struct{} { return t.done }

// Stop tells the task to finish what it began and end.
func (t *Task) Stop() { t.stop() }

// Kill abandons the task: when it returns, nothing of it reaches the log or reports a
// state any more, however it behaves.
func (t *Task) Kill() {
	t.stop()
	t.kill()
	t.reporting.Lock() // a report that had begun has ended
	defer t.reporting.Unlock()
}

// StopAll stops tasks together and returns when all have ended or the grace is over;
// those that have not ended by then are abandoned, and returned.
func StopAll(tasks []*Task, grace time.Duration) (abandoned []*Task) {
	for _, t := range tasks {
		t.Stop()
	}
	over := time.NewTimer(grace)
	defer over.Stop()
	for i, t := range tasks {
		select {
		case <-t.done:
			t.Kill()
			continue
		case <-over.C:
		}
		for _, t := range tasks[i:] {
			select {
			case <-t.done:
			default:
				abandoned = append(abandoned, t)
			}
			t.Kill()
		}
		break
	}
	return abandoned
}

// run runs a task until it ends.
func (w *Worker) run(ctx, hard context.Context, t *Task, spec TaskSpec) error {
	info, err := w.Find(spec.Connector[settings.ConnectorClass.Name])
	if err != nil {
		return err
	}
	if info.Type == runtime.SourceType {
		return w.runSource(ctx, hard, t, spec, info)
	}
	return w.runSink(ctx, hard, t, spec, info)
}

func notices(lg *slog.Logger, list []string) {
	for _, n := range list {
		lg.Info("a client setting has no effect", "notice", n)
	}
}

// usedBy records that a task uses topics.
func (w *Worker) usedBy(id runtime.TaskID) *uses {
	if w.cfg.Used == nil || !w.cfg.Worker.TopicTracking {
		return nil
	}
	return &uses{forgotten: w.cfg.Forgotten, report: func(topic string) {
		w.cfg.Used(store.TopicUse{Topic: topic, Connector: id.Connector, Task: id.Task, Discovered: time.Now().UnixMilli()})
	}}
}

// logTimeout is how long a cluster may take to let another identity in.
const logTimeout = 30 * time.Second

// logAs is the log as a client of a connector reaches it: as the worker does, or as who the client's settings say it is. done is called at
// the end.
func (w *Worker) logAs(ctx context.Context, kind runtime.ClientKind, o runtime.ClientConfig, lg *slog.Logger) (l *log.Log, done func(), err error) {
	if o.Identity == nil {
		return w.cfg.Log, func() {}, nil
	}
	opts, errs := o.Identity.Options(w.cfg.Files, lg)
	if err := wrong(errs); err != nil {
		return nil, nil, err
	}
	l, err = within(ctx, func(ctx context.Context) (*log.Log, error) { return w.cfg.Log.As(ctx, opts) },
		fmt.Sprintf("the connector's %s signs in with settings %s.* or %s.override.* of its own", kind, kind, kind))
	if err != nil {
		return nil, nil, err
	}
	return l, func() { _ = l.Close(context.WithoutCancel(ctx)) }, nil // of a cluster's nothing can fail
}

// within reaches a cluster within logTimeout. A connection that does not come about is retriable.
func within(ctx context.Context, open func(context.Context) (*log.Log, error), what string) (*log.Log, error) {
	limited, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	l, err := open(limited)
	if err == nil {
		return l, nil
	}
	err = fmt.Errorf("%s: %w", what, err)
	if lost := (net.Error)(nil); errors.As(err, &lost) {
		err = connectors.Retriable(err)
	}
	return nil, cmp.Or(ctx.Err(), err)
}

// logsOf are the log as a task's producer or consumer reaches it, and as its connector makes topics in it and looks at them. done is called
// at the end of both.
func (w *Worker) logsOf(ctx context.Context, kind runtime.ClientKind, o runtime.ClientConfig, connector map[string]string, lg *slog.Logger) (l, made *log.Log, done func(), err error) {
	l, end, err := w.logAs(ctx, kind, o, lg)
	if err != nil {
		return nil, nil, nil, err
	}
	admin, errs := w.cfg.Worker.ClientOverrides(runtime.Admin, connector)
	endMade := func() {}
	if err = wrong(errs); err == nil {
		made, endMade, err = w.logAs(ctx, runtime.Admin, admin, lg)
	}
	if err != nil {
		end()
		return nil, nil, nil, err
	}
	return l, made, func() { endMade(); end() }, nil
}

func (w *Worker) producer(l *log.Log, id string, o runtime.ClientConfig, limit func(string) int32, m *Meter, more ...kgo.Opt) (*kgo.Client, error) {
	if o.ClientID != "" {
		id = o.ClientID
	}
	opts := append(l.ClientOpts(),
		kgo.ClientID(id), kgo.WithLogger(log.ClientLog(w.cfg.Logger.With("client", id))), kgo.WithHooks(m.client(ProducerClient, id), abrupt{}),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(partitioner()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytesFn(limit),
		kgo.MaxBufferedRecords(1<<30), // the bound is in bytes, see inflight
	)
	cl, err := kgo.NewClient(slices.Concat(opts, more, o.Options)...)
	if err != nil {
		return nil, connectors.BadConfig(fmt.Errorf("client %s: %w", id, err))
	}
	return cl, nil
}
