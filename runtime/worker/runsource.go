package worker

import (
	"cmp"
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log"
	"millrace/runtime"
	"millrace/runtime/settings"
	"millrace/runtime/store"
	"millrace/runtime/tolerance"
	"millrace/schema/config"
)

// closers are what a run lets go of at its end, the last one first.
type closers []func()

func (c *closers) later(f func()) { *c = append(*c, f) }

func (c *closers) close() {
	for _, f := range *c {
		defer f() // one that panics keeps no other from its turn
	}
}

// runSetup is what the runs of sources and sinks begin with.
type runSetup struct {
	w    *Worker
	t    *Task
	hard context.Context // ends when the task is abandoned
	spec TaskSpec
	v    config.Values // of the connector: what the worker reads of it
	own  config.Values // of the task: what the connector reads
	cc   connectors.Context
	act  *activity
	closers

	log, made *log.Log // as the task's own client reaches it, and as topics are made
}

func (w *Worker) setup(hard context.Context, t *Task, spec TaskSpec, info Info) (*runSetup, error) {
	def := settings.Source
	if info.Type == runtime.SinkType {
		def = settings.Sink
	}
	v, err := parse(def, spec.Connector)
	if err != nil {
		return nil, err
	}
	own, err := parse(info.config, spec.Task)
	if err != nil {
		return nil, err
	}
	cc := w.Context(spec.ID.Connector, spec.ID.Task)
	cc.Restarts = spec.Restarts
	return &runSetup{w: w, t: t, hard: hard, spec: spec, v: v, own: own, cc: cc, act: t.Meter.begin(info.Type, t.gate)}, nil
}

// overrides are what worker and connector set of a client of Java's.
func (r *runSetup) overrides(kind runtime.ClientKind) (runtime.ClientConfig, error) {
	o, errs := r.w.cfg.Worker.ClientOverrides(kind, r.spec.Connector)
	return o, wrong(errs)
}

// reach reaches the log for a client of the task's own.
func (r *runSetup) reach(ctx context.Context, kind runtime.ClientKind, o runtime.ClientConfig) error {
	l, made, done, err := r.w.logsOf(ctx, kind, o, r.spec.Connector, r.cc.Log)
	if err != nil {
		return err
	}
	r.later(done)
	r.log, r.made = l, made
	return nil
}

// topics are those that the task writes to.
func (r *runSetup) topics() *topics {
	return &topics{admin: r.made.Admin(), await: r.made.AwaitTopic, lg: r.cc.Log, known: map[string]limits{}}
}

// tolerance is what the connector says of records that fail.
func (r *runSetup) tolerance() tolerance.Config {
	return tolerance.Config{
		RetryTimeout: settings.ErrorsRetryTimeout.Get(r.v), RetryDelayMax: settings.ErrorsRetryDelayMax.Get(r.v),
		TolerateAll: strings.EqualFold(settings.ErrorsTolerance.Get(r.v), "all"), Clean: r.spec.secrets.Error,
		Log: settings.ErrorsLogEnable.Get(r.v), LogMessages: settings.ErrorsLogIncludeMessages.Get(r.v),
	}
}

// begins tells what has no effect, and that the task runs from now on.
func (r *runSetup) begins(o runtime.ClientConfig, sh *shaper) {
	notices(r.cc.Log, o.Notices)
	sh.notices(r.cc.Log)
	r.t.state(running(r.t.gate.closed()), nil)
}

// sourceSetup makes a source task, in steps.
type sourceSetup struct {
	*runSetup
	producer runtime.ClientConfig

	tops   *topics
	stores []*store.Offsets
	txn    *transactions // nil: at least once
	client *kgo.Client   // writes records; closed here until the run has it
	keeper *kgo.Client   // writes offsets
}

func (w *Worker) runSource(ctx, hard context.Context, t *Task, spec TaskSpec, info Info) error {
	r, err := w.setup(hard, t, spec, info)
	if err != nil {
		return err
	}
	defer r.close()
	s := &sourceSetup{runSetup: r}
	for _, step := range []func(context.Context) error{s.reachLog, s.openOffsets, s.makeClient, s.openJournals, s.makeKeeper} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	src, err := s.makeTask(info)
	if err != nil {
		return err
	}
	s.begins(s.producer, src.shaper)
	s.client = nil
	return src.run(ctx, hard)
}

func (s *sourceSetup) reachLog(ctx context.Context) (err error) {
	if s.producer, err = s.overrides(runtime.Producer); err != nil {
		return err
	}
	if err := s.reach(ctx, runtime.Producer, s.producer); err != nil {
		return err
	}
	s.tops = s.topics()
	s.tops.used = s.w.usedBy(s.spec.ID)
	if s.w.cfg.Worker.TopicCreation {
		as, errs := settings.NewTopicCreation(settings.TopicCreationGroups.Get(s.v), s.spec.Connector)
		if len(errs) > 0 {
			return wrong(errs)
		}
		s.tops.as = as
	}
	return nil
}

func (s *sourceSetup) openOffsets(ctx context.Context) error {
	stores, closeStores, err := s.w.OffsetStores(ctx, s.spec.Connector, s.cc.Log)
	if err != nil {
		return err
	}
	s.later(closeStores)
	s.stores = stores
	s.cc.Offsets = offsets{stores: stores, connector: s.spec.ID.Connector}
	return nil
}

// makeClient makes the client that writes the records. Where it writes in transactions nothing of an earlier run is under way any more.
func (s *sourceSetup) makeClient(ctx context.Context) (err error) {
	if s.w.cfg.Worker.ExactlyOnceSources() {
		s.txn, s.client, err = s.w.transactional(ctx, s.log, s.v, s.spec, s.producer, s.tops.limit, s.t.Meter, s.cc.Log)
	} else {
		s.client, err = s.w.producer(s.log, s.clientID(), s.producer, s.tops.limit, s.t.Meter)
	}
	return err
}

func (s *sourceSetup) clientID() string { return "connector-producer-" + s.spec.ID.String() }

// ofWorker makes a client for what is the worker's to keep: the worker writes it, whoever writes the records.
func (s *sourceSetup) ofWorker(name string) (*kgo.Client, error) {
	cl, err := s.w.producer(s.w.cfg.Log, name+s.spec.ID.String(), s.producer, s.tops.limit, s.t.Meter)
	if err == nil {
		context.AfterFunc(s.hard, cl.Close)
	}
	return cl, err
}

// openJournals lets the connector open journals. It also sees to the client's end, which comes before that of the journals.
func (s *sourceSetup) openJournals(context.Context) error {
	j := &journals{log: s.w.cfg.Log, lg: s.cc.Log, servers: s.w.cfg.Worker.Properties["bootstrap.servers"],
		make: func() (*kgo.Client, error) { return s.ofWorker("connector-journal-producer-") },
		reach: func(ctx context.Context, at connectors.JournalPlace) (reached, error) {
			r, err := s.w.reachJournal(ctx, at, "connector-journal-"+s.spec.ID.String(), s.tops.limit, s.t.Meter, s.cc.Log)
			if err == nil {
				context.AfterFunc(s.hard, r.client.Close)
			}
			return r, err
		}}
	if s.txn == nil && s.log == s.w.cfg.Log { // in transactions it takes records inside of them alone
		j.client = s.client
	}
	s.later(j.close)
	s.later(func() {
		if s.client != nil {
			s.client.Close()
		}
	})
	s.cc.Journal = j.open
	return nil
}

func (s *sourceSetup) makeKeeper(context.Context) (err error) {
	if s.keeper = s.client; s.txn != nil || s.log == s.w.cfg.Log {
		return nil
	}
	if s.keeper, err = s.ofWorker("connector-offsets-producer-"); err != nil {
		return err
	}
	s.later(s.keeper.Close)
	return nil
}

// makeTask makes the connector's task, and puts the stages around it.
func (s *sourceSetup) makeTask(info Info) (*sourceTask, error) {
	op := tolerance.New(s.tolerance(), s.spec.ID.String(), s.cc.Log, nil)
	s.t.Meter.operates(op, nil)
	sh, err := s.w.shaper(s.v, s.spec.Connector, op)
	if err != nil {
		return nil, err
	}
	plugin, _ := s.w.cfg.Plugins.Sources.Find(info.Class)
	task, err := plugin.NewTask(s.cc, s.own)
	if err != nil {
		return nil, err
	}
	task = s.t.Meter.source(task, s.act, s.spec.secrets)
	src := &sourceTask{
		meter: s.t.Meter, activity: s.act, producer: s.t.Meter.client(ProducerClient, cmp.Or(s.producer.ClientID, s.clientID())),
		client: s.client, source: task, gate: s.t.gate, shaper: sh, topics: s.tops, inflight: newInflight(runtime.MaxInFlight),
		txn: s.txn, grace: s.w.cfg.Worker.TaskGrace,
	}
	src.commits = &committer{
		client: s.keeper, topics: topicsOf(s.stores), connector: s.spec.ID.Connector, codec: store.NewCodec(), keys: store.NewCodec(),
		inflight: src.inflight, task: task, meter: s.t.Meter, interval: s.w.cfg.Worker.OffsetFlushInterval, timeout: s.w.cfg.Worker.OffsetFlushTimeout,
		lg: s.cc.Log, counted: s.w.cfg.Counted,
	}
	if s.txn != nil {
		s.txn.task, src.commits.stored = src, make(chan struct{}, 1)
	}
	return src, nil
}
