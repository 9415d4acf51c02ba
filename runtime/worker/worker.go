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

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log"
	"millrace/runtime"
	"millrace/runtime/provider"
	"millrace/runtime/settings"
	"millrace/runtime/store"
	"millrace/runtime/tolerance"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
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

func (w *Worker) runSource(ctx, hard context.Context, t *Task, spec TaskSpec, info Info) error {
	v, err := parse(settings.Source, spec.Connector)
	if err != nil {
		return err
	}
	own, err := parse(info.config, spec.Task)
	if err != nil {
		return err
	}
	cc := w.Context(spec.ID.Connector, spec.ID.Task)
	cc.Restarts = spec.Restarts
	act := t.Meter.begin(runtime.SourceType, t.gate)
	plugin, _ := w.cfg.Plugins.Sources.Find(info.Class)
	overrides, errs := w.cfg.Worker.ClientOverrides(runtime.Producer, spec.Connector)
	if err := wrong(errs); err != nil {
		return err
	}
	l, made, done, err := w.logsOf(ctx, runtime.Producer, overrides, spec.Connector, cc.Log)
	if err != nil {
		return err
	}
	defer done()
	tops := &topics{admin: made.Admin(), await: made.AwaitTopic, lg: cc.Log, known: map[string]limits{}, used: w.usedBy(spec.ID)}
	if w.cfg.Worker.TopicCreation {
		if tops.as, errs = settings.NewTopicCreation(settings.TopicCreationGroups.Get(v), spec.Connector); len(errs) > 0 {
			return wrong(errs)
		}
	}
	stores, closeStores, err := w.OffsetStores(ctx, spec.Connector, cc.Log)
	if err != nil {
		return err
	}
	defer closeStores()
	cc.Offsets = offsets{stores: stores, connector: spec.ID.Connector}
	var txn *transactions
	var client *kgo.Client
	if w.cfg.Worker.ExactlyOnceSources() {
		txn, client, err = w.transactional(ctx, l, v, spec, overrides, tops.limit, t.Meter, cc.Log)
	} else {
		client, err = w.producer(l, "connector-producer-"+spec.ID.String(), overrides, tops.limit, t.Meter)
	}
	if err != nil {
		return err
	}
	// What is the worker's to keep is written by the worker, whoever writes the records.
	ofWorker := func(name string) (*kgo.Client, error) {
		cl, err := w.producer(w.cfg.Log, name+spec.ID.String(), overrides, tops.limit, t.Meter)
		if err == nil {
			context.AfterFunc(hard, cl.Close)
		}
		return cl, err
	}
	journals := &journals{log: w.cfg.Log, lg: cc.Log, servers: w.cfg.Worker.Properties["bootstrap.servers"], client: client,
		make: func() (*kgo.Client, error) { return ofWorker("connector-journal-producer-") },
		reach: func(ctx context.Context, at connectors.JournalPlace) (reached, error) {
			r, err := w.reachJournal(ctx, at, "connector-journal-"+spec.ID.String(), tops.limit, t.Meter, cc.Log)
			if err == nil {
				context.AfterFunc(hard, r.client.Close)
			}
			return r, err
		}}
	if txn != nil || l != w.cfg.Log {
		journals.client = nil // in transactions it takes records inside of them alone
	}
	defer journals.close()
	closeClient := true
	defer func() {
		if closeClient {
			client.Close()
		}
	}()
	keeper := client // of the offsets
	if txn == nil && l != w.cfg.Log {
		if keeper, err = ofWorker("connector-offsets-producer-"); err != nil {
			return err
		}
		defer keeper.Close()
	}
	tol := toleranceOf(v)
	tol.Clean = spec.secrets.Error
	op := tolerance.New(tol, spec.ID.String(), cc.Log, nil)
	t.Meter.operates(op, nil)
	sh, err := w.shaper(v, spec.Connector, op)
	if err != nil {
		return err
	}
	cc.Journal = journals.open
	task, err := plugin.NewTask(cc, own)
	if err != nil {
		return err
	}
	task = t.Meter.source(task, act, spec.secrets)
	src := &sourceTask{
		meter: t.Meter, activity: act, producer: t.Meter.client(ProducerClient, cmp.Or(overrides.ClientID, "connector-producer-"+spec.ID.String())),
		client: client, source: task, gate: t.gate, shaper: sh, topics: tops, inflight: newInflight(runtime.MaxInFlight),
		txn: txn, grace: w.cfg.Worker.TaskGrace,
	}
	src.commits = &committer{
		client: keeper, topics: topicsOf(stores), connector: spec.ID.Connector, codec: store.NewCodec(), keys: store.NewCodec(),
		inflight: src.inflight, task: task, meter: t.Meter, interval: w.cfg.Worker.OffsetFlushInterval, timeout: w.cfg.Worker.OffsetFlushTimeout, lg: cc.Log, counted: w.cfg.Counted,
	}
	if txn != nil {
		txn.task, src.commits.stored = src, make(chan struct{}, 1)
	}
	notices(cc.Log, overrides.Notices)
	sh.notices(cc.Log)
	t.state(running(t.gate.closed()), nil)
	closeClient = false
	return src.run(ctx, hard)
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

func toleranceOf(v config.Values) tolerance.Config {
	return tolerance.Config{
		RetryTimeout: settings.ErrorsRetryTimeout.Get(v), RetryDelayMax: settings.ErrorsRetryDelayMax.Get(v),
		TolerateAll: strings.EqualFold(settings.ErrorsTolerance.Get(v), "all"),
		Log:         settings.ErrorsLogEnable.Get(v), LogMessages: settings.ErrorsLogIncludeMessages.Get(v),
	}
}

func (w *Worker) runSink(ctx, hard context.Context, t *Task, spec TaskSpec, info Info) error {
	v, err := parse(settings.Sink, spec.Connector)
	if err != nil {
		return err
	}
	own, err := parse(info.config, spec.Task)
	if err != nil {
		return err
	}
	cc := w.Context(spec.ID.Connector, spec.ID.Task)
	cc.Restarts = spec.Restarts
	cc.Offsets = nil
	act := t.Meter.begin(runtime.SinkType, t.gate)
	cc.Moving = act.beat
	plugin, _ := w.cfg.Plugins.Sinks.Find(info.Class)
	overrides, errs := w.cfg.Worker.ClientOverrides(runtime.Consumer, spec.Connector)
	if err := wrong(errs); err != nil {
		return err
	}
	tol := toleranceOf(v)
	tol.Clean = spec.secrets.Error
	tol.DeadLetterTopic = settings.DeadLetterTopic.Get(v)
	tol.DeadLetterReplication, tol.DeadLetterContext = settings.DeadLetterReplication.Get(v), settings.DeadLetterContext.Get(v)
	l, made, done, err := w.logsOf(ctx, runtime.Consumer, overrides, spec.Connector, cc.Log)
	if err != nil {
		return err
	}
	defer done()
	var letters *tolerance.DeadLetters
	if tol.TolerateAll && tol.DeadLetterTopic != "" {
		if err := makeDeadLetterTopic(ctx, made, tol); err != nil {
			return err
		}
		tops := &topics{admin: made.Admin(), await: made.AwaitTopic, lg: cc.Log, known: map[string]limits{}}
		if err := tops.ensure(ctx, tol.DeadLetterTopic); err != nil {
			return err
		}
		deadOverrides, errs := w.cfg.Worker.ClientOverrides(runtime.Producer, spec.Connector)
		if err := wrong(errs); err != nil {
			return err
		}
		deadOverrides.ClientID = ""
		writes, done, err := w.logAs(ctx, runtime.Producer, deadOverrides, cc.Log)
		if err != nil {
			return err
		}
		defer done()
		dead, err := w.producer(writes, "connector-dlq-producer-"+spec.ID.String(), deadOverrides, tops.limit, t.Meter)
		if err != nil {
			return err
		}
		defer dead.Close()
		defer context.AfterFunc(hard, dead.Close)()
		letters = tolerance.NewDeadLetters(dead, tol, spec.ID.Connector, spec.ID.Task, cc.Log)
	}
	op := tolerance.New(tol, spec.ID.String(), cc.Log, letters)
	t.Meter.operates(op, letters)
	cc.Report = func(ctx context.Context, r schema.Record, cause error) error {
		f := tolerance.Failure{Stage: tolerance.TaskPut, Class: sinkTaskClass, Origin: r.Origin, Err: cause}
		if r.Origin != nil {
			f.Where = whereOf(r.Origin)
		}
		_, err := op.Report(ctx, f)
		return err
	}
	sh, err := w.shaper(v, spec.Connector, op)
	if err != nil {
		return err
	}
	task, err := plugin.NewTask(cc, own)
	if err != nil {
		return err
	}
	s := &sinkTask{
		admin: l.Admin(), sink: t.Meter.sink(task, act, spec.secrets), meter: t.Meter, activity: act, gate: t.gate, shaper: sh, letters: letters, used: w.usedBy(spec.ID),
		reset: "earliest", every: w.cfg.Worker.OffsetFlushInterval, timeout: w.cfg.Worker.OffsetFlushTimeout, lg: cc.Log,
		calls: make(chan *call, 8), ended: make(chan struct{}), dead: hard.Done(), parts: map[connectors.TopicPartition]*part{},
	}
	if overrides.AutoOffsetReset != "" {
		s.reset = overrides.AutoOffsetReset
	}
	group, id := "connect-"+spec.ID.Connector, "connector-consumer-"+spec.ID.String()
	if overrides.Group != "" {
		group = overrides.Group
	}
	if overrides.ClientID != "" {
		id = overrides.ClientID
	}
	s.consumer = t.Meter.client(ConsumerClient, id)
	opts := append(l.ClientOpts(), kgo.ClientID(id), kgo.WithLogger(log.ClientLog(cc.Log.With("client", id))), kgo.WithHooks(s.consumer), kgo.ConsumerGroup(group), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	opts = append(opts, s.options()...)
	if pattern := settings.TopicsRegex.Get(v); pattern != "" {
		if s.regex, err = javatext.Compile(pattern); err != nil {
			return connectors.BadConfig(fmt.Errorf("topics.regex %s: %w", pattern, err))
		}
	} else {
		opts = append(opts, kgo.ConsumeTopics(slices.Compact(slices.Sorted(slices.Values(settings.Topics.Get(v))))...))
	}
	if s.client, err = kgo.NewClient(append(opts, overrides.Options...)...); err != nil {
		return connectors.BadConfig(fmt.Errorf("client %s: %w", id, err))
	}
	notices(cc.Log, overrides.Notices)
	sh.notices(cc.Log)
	t.state(running(t.gate.closed()), nil)
	return s.run(ctx, hard)
}

// sinkTaskClass is the class that Connect names for what a sink reports.
const sinkTaskClass = "org.apache.kafka.connect.sink.SinkTask"

// makeDeadLetterTopic makes the topic with one partition where it does not exist.
func makeDeadLetterTopic(ctx context.Context, l *log.Log, tol tolerance.Config) error {
	found, err := l.Admin().ListTopics(ctx, tol.DeadLetterTopic)
	if err == nil {
		err = found[tol.DeadLetterTopic].Err
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		err = l.EnsureTopic(ctx, tol.DeadLetterTopic, 1, tol.DeadLetterReplication, nil)
		if errors.Is(err, kerr.InvalidReplicationFactor) {
			return connectors.BadConfig(fmt.Errorf("%s: %w", settings.DeadLetterReplication.Name, err))
		}
	}
	if err != nil {
		return connectors.Retriable(fmt.Errorf("%s %s: %w", settings.DeadLetterTopic.Name, tol.DeadLetterTopic, err))
	}
	return nil
}
