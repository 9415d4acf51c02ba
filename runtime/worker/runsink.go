package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log"
	"millrace/runtime"
	"millrace/runtime/settings"
	"millrace/runtime/tolerance"
	"millrace/schema"
	"millrace/schema/javatext"
)

// sinkSetup makes a sink task, in steps.
type sinkSetup struct {
	*runSetup
	consumer runtime.ClientConfig
	tol      tolerance.Config
	letters  *tolerance.DeadLetters // nil: none
	op       *tolerance.Operator
}

func (w *Worker) runSink(ctx, hard context.Context, t *Task, spec TaskSpec, info Info) error {
	r, err := w.setup(hard, t, spec, info)
	if err != nil {
		return err
	}
	defer r.close()
	r.cc.Offsets, r.cc.Moving = nil, r.act.beat
	s := &sinkSetup{runSetup: r}
	for _, step := range []func(context.Context) error{s.reachLog, s.openDeadLetters} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	task, err := s.makeTask(info)
	if err != nil {
		return err
	}
	if err := s.makeClient(task); err != nil {
		return err
	}
	s.begins(s.consumer, task.shaper)
	return task.run(ctx, hard)
}

func (s *sinkSetup) reachLog(ctx context.Context) (err error) {
	if s.consumer, err = s.overrides(runtime.Consumer); err != nil {
		return err
	}
	return s.reach(ctx, runtime.Consumer, s.consumer)
}

// openDeadLetters decides what becomes of records that fail, and makes the client that writes them to their topic where they have one.
func (s *sinkSetup) openDeadLetters(ctx context.Context) error {
	s.tol = s.tolerance()
	s.tol.DeadLetterTopic = settings.DeadLetterTopic.Get(s.v)
	s.tol.DeadLetterReplication, s.tol.DeadLetterContext = settings.DeadLetterReplication.Get(s.v), settings.DeadLetterContext.Get(s.v)
	if s.tol.TolerateAll && s.tol.DeadLetterTopic != "" {
		if err := s.makeDeadLetters(ctx); err != nil {
			return err
		}
	}
	s.op = tolerance.New(s.tol, s.spec.ID.String(), s.cc.Log, s.letters)
	s.t.Meter.operates(s.op, s.letters)
	s.cc.Report = s.report
	return nil
}

func (s *sinkSetup) makeDeadLetters(ctx context.Context) error {
	if err := makeDeadLetterTopic(ctx, s.made, s.tol); err != nil {
		return err
	}
	tops := s.topics()
	if err := tops.ensure(ctx, s.tol.DeadLetterTopic); err != nil {
		return err
	}
	o, err := s.overrides(runtime.Producer)
	if err != nil {
		return err
	}
	o.ClientID = ""
	writes, done, err := s.w.logAs(ctx, runtime.Producer, o, s.cc.Log)
	if err != nil {
		return err
	}
	s.later(done)
	client, err := s.w.producer(writes, "connector-dlq-producer-"+s.spec.ID.String(), o, tops.limit, s.t.Meter)
	if err != nil {
		return err
	}
	s.later(client.Close)
	stop := context.AfterFunc(s.hard, client.Close)
	s.later(func() { stop() })
	s.letters = tolerance.NewDeadLetters(client, s.tol, s.spec.ID.Connector, s.spec.ID.Task, s.cc.Log)
	return nil
}

// report is what the connector calls with records that its target refused.
func (s *sinkSetup) report(ctx context.Context, r schema.Record, cause error) error {
	f := tolerance.Failure{Stage: tolerance.TaskPut, Class: sinkTaskClass, Origin: r.Origin, Err: cause}
	if r.Origin != nil {
		f.Where = whereOf(r.Origin)
	}
	_, err := s.op.Report(ctx, f)
	return err
}

// makeTask makes the connector's task, and the loop around it.
func (s *sinkSetup) makeTask(info Info) (*sinkTask, error) {
	sh, err := s.w.shaper(s.v, s.spec.Connector, s.op)
	if err != nil {
		return nil, err
	}
	plugin, _ := s.w.cfg.Plugins.Sinks.Find(info.Class)
	task, err := plugin.NewTask(s.cc, s.own)
	if err != nil {
		return nil, err
	}
	return &sinkTask{
		admin: s.log.Admin(), sink: s.t.Meter.sink(task, s.act, s.spec.secrets), meter: s.t.Meter, activity: s.act, gate: s.t.gate, shaper: sh, letters: s.letters,
		used: s.w.usedBy(s.spec.ID), reset: cmp.Or(s.consumer.AutoOffsetReset, "earliest"), every: s.w.cfg.Worker.OffsetFlushInterval, timeout: s.w.cfg.Worker.OffsetFlushTimeout, lg: s.cc.Log,
		calls: make(chan *call, 8), ended: make(chan struct{}), dead: s.hard.Done(), parts: map[connectors.TopicPartition]*part{},
	}, nil
}

// makeClient makes the task's member of its consumer group.
func (s *sinkSetup) makeClient(task *sinkTask) (err error) {
	group, id := cmp.Or(s.consumer.Group, "connect-"+s.spec.ID.Connector), cmp.Or(s.consumer.ClientID, "connector-consumer-"+s.spec.ID.String())
	task.consumer = s.t.Meter.client(ConsumerClient, id)
	opts := append(s.log.ClientOpts(), kgo.ClientID(id), kgo.WithLogger(log.ClientLog(s.cc.Log.With("client", id))), kgo.WithHooks(task.consumer), kgo.ConsumerGroup(group), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	opts = append(opts, task.options()...)
	if pattern := settings.TopicsRegex.Get(s.v); pattern != "" {
		if task.regex, err = javatext.Compile(pattern); err != nil {
			return connectors.BadConfig(fmt.Errorf("topics.regex %s: %w", pattern, err))
		}
	} else {
		opts = append(opts, kgo.ConsumeTopics(slices.Compact(slices.Sorted(slices.Values(settings.Topics.Get(s.v))))...))
	}
	if task.client, err = kgo.NewClient(append(opts, s.consumer.Options...)...); err != nil {
		return connectors.BadConfig(fmt.Errorf("client %s: %w", id, err))
	}
	return nil
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
