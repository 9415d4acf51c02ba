package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/runtime/settings"
	"millrace/runtime/tolerance"
	"millrace/schema"
	"millrace/schema/javatext"
)

// Bounds of a sink task.
const (
	fetchBytes  = 4 << 20     // in flight from the log
	pollRecords = 2000        // of one Put
	idlePut     = time.Second // Put comes at least this often
	retryFirst  = 300 * time.Millisecond
	retryMost   = 10 * time.Second
)

// A sinkTask reads the partitions that its group gives it and hands their records to
// a sink. The loop and the group's callbacks take turns (the client blocks one while
// the other runs), so the sink's methods are never called at once.
type sinkTask struct {
	r      *running
	class  string
	sink   connectors.SinkTask
	opts   []kgo.Opt
	client *kgo.Client
	hard   context.Context // the run's; callbacks come without one
	opener *opener
	policy *tolerance.Policy
	dead   *deadLetters
	lg     *slog.Logger
	every  time.Duration // between commits
	reset  string        // auto.offset.reset, for messages
	topics []string
	regex  *javatext.Regexp
	onUse  func(topic string)

	mu       sync.Mutex // guards what follows; held while the sink works
	parts    map[connectors.TopicPartition]*progress
	pending  []schema.Record // polled and not taken by the sink yet
	used     map[string]bool
	callback error         // what went wrong in a callback
	woken    chan struct{} // of one: callback is set
}

// progress is how far a partition is.
type progress struct {
	read      int64 // the offset after the last record that was polled, -1 before the first
	delivered int64 // after the last record that the sink took
	flushed   int64 // what the sink says it is done with
	committed int64
}

// commitable is the offset that may be committed, -1 for none: what the sink is done
// with, and beyond it what no sink has to see (filtered and skipped records).
func (p *progress) commitable(pending bool) int64 {
	if p.flushed >= p.delivered && !pending {
		return p.read
	}
	return p.flushed
}

func (w *Worker) newSink(r *running, p connectors.SinkPlugin, connector, raw map[string]string, lg *slog.Logger) (task, error) {
	common, err := parsed(settings.Sink, connector)
	if err != nil {
		return nil, err
	}
	v, err := parsed(p.Config, raw)
	if err != nil {
		return nil, err
	}
	t := &sinkTask{
		r: r, class: settings.ClassOf(p.Info), lg: lg, every: w.c.Settings.OffsetFlushInterval,
		policy: tolerance.New(r.id, common, lg), parts: map[connectors.TopicPartition]*progress{},
		used: map[string]bool{}, woken: make(chan struct{}, 1),
		onUse: func(topic string) { w.c.UsedTopic(r.id, topic) },
	}
	t.topics = settings.Topics.Get(common)
	if pattern := settings.TopicsRegex.Get(common); pattern != "" {
		if t.regex, err = javatext.Compile(pattern); err != nil {
			return nil, connectors.BadConfig(fmt.Errorf("topics.regex %s: %w", pattern, err))
		}
	}
	if t.dead, err = w.newDeadLetters(r.id, common, connector, lg); err != nil {
		return nil, err
	}
	if t.opener, err = w.newOpener(connector, t.policy, t.dead.send); err != nil {
		return nil, err
	}
	cc := w.Context(r.id.Connector)
	cc.Task, cc.Log, cc.Offsets, cc.Report = r.id.Task, lg, nil, t.report
	if t.sink, err = p.NewTask(cc, v); err != nil {
		return nil, err
	}
	t.opts, err = w.consumerOpts(connector, t, lg)
	return t, err
}

func (w *Worker) consumerOpts(raw map[string]string, t *sinkTask, lg *slog.Logger) ([]kgo.Opt, error) {
	own, err := w.clientOpts("consumer", consumerKeys, raw, lg)
	if err != nil {
		return nil, err
	}
	t.reset = "earliest"
	if r, ok := w.c.Settings.Properties["consumer.auto.offset.reset"]; ok {
		t.reset = r
	}
	if r, ok := raw["consumer.override.auto.offset.reset"]; ok {
		t.reset = r
	}
	return slices.Concat(w.c.Log.ClientOpts(), []kgo.Opt{
		kgo.ClientID("connector-consumer-" + t.r.id.String()), kgo.WithLogger(clientLog{lg}),
		kgo.ConsumerGroup("connect-" + t.r.id.Connector), kgo.ConsumeTopics(t.topics...),
		kgo.Balancers(kgo.RangeBalancer(), kgo.CooperativeStickyBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchBytes / 4), kgo.MaxConcurrentFetches(1),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(t.assigned), kgo.OnPartitionsRevoked(t.revoked), kgo.OnPartitionsLost(t.lost),
		kgo.AdjustFetchOffsetsFn(t.adjust),
	}, own), nil
}

// report is what the sink's context offers for records that the target refuses.
func (t *sinkTask) report(ctx context.Context, r schema.Record, cause error) error {
	where := func() string { return originText(r.Origin) }
	if err := t.policy.Failed(tolerance.TaskPut, t.class, cause, where); err != nil {
		return err
	}
	return t.dead.send(ctx, r.Origin, tolerance.TaskPut, t.class, cause)
}

// run polls and puts until ctx ends; then it flushes, commits and gives the
// partitions back. After hard no method of the client reaches the log.
func (t *sinkTask) run(ctx, hard context.Context) (err error) {
	defer t.dead.close()
	t.hard = hard
	if t.client, err = kgo.NewClient(t.opts...); err != nil {
		return connectors.BadConfig(fmt.Errorf("consumer: %w", err))
	}
	defer t.client.CloseAllowingRebalance()
	defer context.AfterFunc(hard, t.client.CloseAllowingRebalance)()
	if t.regex != nil {
		watching, stop := context.WithCancel(ctx)
		defer stop()
		if err := t.subscribe(watching); err != nil {
			return err
		}
		go t.follow(watching)
	}
	done := make(chan error, 1)
	go func() { // a sink that ignores its context is left behind when the task is cut off
		var err error
		defer func() { done <- err }()
		defer recovered(&err, "write to the sink")
		err = t.loop(ctx, hard)
		err = errors.Join(err, t.finish(hard, err != nil))
	}()
	select {
	case err := <-done:
		return err
	case <-hard.Done():
		return hard.Err()
	}
}

// loop is the task's work: poll, put, and commit now and then.
func (t *sinkTask) loop(ctx, hard context.Context) error {
	commit := time.NewTicker(t.every)
	defer commit.Stop()
	paused := false
	for {
		if now := t.r.gate.isClosed(); now != paused {
			paused = now
			t.pause(paused)
		}
		if err := t.poll(ctx, paused); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if !paused {
			if err := t.put(ctx, hard); err != nil {
				return err
			}
		}
		select {
		case <-commit.C:
			if err := t.commit(hard); err != nil {
				return err
			}
		default:
		}
		t.client.AllowRebalance()
		if err := t.callbackError(); err != nil {
			return err
		}
	}
}

// poll fetches what is there, or waits for it, at most until the next idle Put.
func (t *sinkTask) poll(ctx context.Context, paused bool) error {
	wait, cancel := context.WithTimeout(ctx, idlePut)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // a change of the gate or a failed callback ends the wait
		select {
		case <-t.r.gate.moved:
		case <-t.woken:
		case <-stop:
		}
		cancel()
	}()
	fetches := t.client.PollRecords(wait, pollRecords)
	t.mu.Lock()
	defer t.mu.Unlock()
	var failure error
	fetches.EachError(func(topic string, partition int32, err error) {
		if failure == nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.Is(err, kgo.ErrClientClosed) {
			failure = t.fetchError(topic, partition, err)
		}
	})
	if failure != nil {
		return failure
	}
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) > 0 && !t.used[p.Topic] {
			t.used[p.Topic] = true
			t.onUse(p.Topic)
		}
	})
	return t.open(ctx, fetches)
}

// open makes records of what was polled. Failed ones are skipped or end the task.
func (t *sinkTask) open(ctx context.Context, fetches kgo.Fetches) error {
	n := fetches.NumRecords()
	if n == 0 {
		return nil
	}
	t.pending = slices.Grow(t.pending, n)
	t.opener.begin(n)
	for it := fetches.RecordIter(); !it.Done(); {
		k := it.Next()
		p := t.parts[connectors.TopicPartition{Topic: k.Topic, Partition: k.Partition}]
		if p == nil {
			continue // taken away meanwhile
		}
		p.read = k.Offset + 1
		r, keep, err := t.opener.open(ctx, k)
		if err != nil {
			return err
		}
		if keep {
			t.pending = append(t.pending, r)
		}
	}
	return nil
}

// fetchError says what an error of the fetch means.
func (t *sinkTask) fetchError(topic string, partition int32, err error) error {
	var lost *kgo.ErrDataLoss
	if errors.As(err, &lost) {
		t.lg.Warn("records are gone from the log before they were read", "topic", topic, "partition", partition,
			"from", lost.ConsumedTo, "to", lost.ResetTo, "auto.offset.reset", t.reset)
		return nil
	}
	return connectors.Retriable(fmt.Errorf("read topic %s, partition %d: %w", topic, partition, err))
}

// put hands the pending records to the sink, and again while it says that a retry
// helps. While it waits, the group may take partitions away; their records are gone
// from pending then.
func (t *sinkTask) put(ctx, hard context.Context) error {
	delay := retryFirst
	for {
		t.mu.Lock()
		batch := t.pending
		err := t.sink.Put(hard, batch)
		taken := len(batch)
		if err != nil {
			taken = 0
			var pe *connectors.PutError
			if errors.As(err, &pe) {
				taken = min(max(pe.Taken, 0), len(batch))
			}
		}
		for i := range batch[:taken] {
			o := batch[i].Origin
			if p := t.parts[connectors.TopicPartition{Topic: o.Topic, Partition: o.Partition}]; p != nil {
				p.delivered = o.Offset + 1
			}
		}
		if taken == len(batch) {
			t.pending = nil // the sink owns the slice now
		} else {
			t.pending = slices.Clone(batch[taken:])
		}
		t.mu.Unlock()
		if err == nil {
			return nil
		}
		if !connectors.IsRetriable(err) {
			return fmt.Errorf("put: %w", err)
		}
		if taken > 0 {
			delay = retryFirst
		}
		t.lg.Warn("the sink did not take records; trying again", "records", len(batch)-taken, "in", delay, "err", err)
		t.policy.Retries.Add(1)
		t.client.AllowRebalance()
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return nil
		}
		if err := t.callbackError(); err != nil {
			return err
		}
		delay = min(2*delay, retryMost)
	}
}

// commit flushes the sink and commits what it is done with, after the dead letters
// before it are in the log.
func (t *sinkTask) commit(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.commitLocked(ctx, nil)
}

// commitLocked commits the partitions given, nil for all.
func (t *sinkTask) commitLocked(ctx context.Context, only []connectors.TopicPartition) error {
	done, err := t.sink.Flush(ctx)
	if err != nil {
		if connectors.IsRetriable(err) {
			t.lg.Warn("the sink could not flush; trying again with the next commit", "err", err)
			return nil
		}
		return fmt.Errorf("flush: %w", err)
	}
	if err := t.dead.flush(ctx); err != nil {
		return err
	}
	for tp, o := range done {
		if p := t.parts[tp]; p != nil {
			p.flushed = max(p.flushed, o)
		}
	}
	waiting := map[connectors.TopicPartition]bool{}
	for i := range t.pending {
		o := t.pending[i].Origin
		waiting[connectors.TopicPartition{Topic: o.Topic, Partition: o.Partition}] = true
	}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	var moved []*progress
	for tp, p := range t.parts {
		o := p.commitable(waiting[tp])
		if o <= p.committed || only != nil && !slices.Contains(only, tp) {
			continue
		}
		if offsets[tp.Topic] == nil {
			offsets[tp.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[tp.Topic][tp.Partition] = kgo.EpochOffset{Epoch: -1, Offset: o}
		moved = append(moved, p)
		defer func() {
			if err == nil {
				p.committed = o
			}
		}()
	}
	if len(moved) == 0 {
		return nil
	}
	if err = t.commitOffsets(ctx, offsets); err != nil {
		t.lg.Warn("offsets were not committed; trying again with the next commit", "err", err)
	}
	return nil
}

// finish gives the partitions back when the task ends: flushed and committed, unless
// it failed.
func (t *sinkTask) finish(hard context.Context, failed bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	if !failed {
		err = t.commitLocked(hard, nil)
	}
	parts := t.owned()
	clear(t.parts)
	t.pending = nil
	return errors.Join(err, t.sink.Close(hard, parts, failed))
}

func (t *sinkTask) owned() []connectors.TopicPartition {
	parts := make([]connectors.TopicPartition, 0, len(t.parts))
	for tp := range t.parts {
		parts = append(parts, tp)
	}
	slices.SortFunc(parts, func(a, b connectors.TopicPartition) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition - b.Partition)
	})
	return parts
}

// pause stops or restarts the fetching of all partitions. Polling goes on, so that
// the group does not take the task for dead.
func (t *sinkTask) pause(paused bool) {
	t.mu.Lock()
	parts := map[string][]int32{}
	for tp := range t.parts {
		parts[tp.Topic] = append(parts[tp.Topic], tp.Partition)
	}
	t.mu.Unlock()
	if paused {
		t.client.PauseFetchPartitions(parts)
		return
	}
	t.client.ResumeFetchPartitions(t.client.PauseFetchPartitions(nil))
}

// follow looks for topics that a pattern matches, until ctx ends.
func (t *sinkTask) follow(ctx context.Context) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := t.subscribe(ctx); err != nil && ctx.Err() == nil {
			t.lg.Warn("cannot look for topics that topics.regex matches; trying again", "err", err)
		}
	}
}

// subscribe adds the topics that the pattern matches and that are not read yet.
func (t *sinkTask) subscribe(ctx context.Context) error {
	topics, err := kadm.NewClient(t.client).ListTopics(ctx)
	if err != nil {
		return connectors.Retriable(fmt.Errorf("list topics: %w", err))
	}
	var add []string
	for _, name := range topics.Names() {
		if topics[name].IsInternal {
			continue
		}
		ok, err := t.regex.MatchWhole(name)
		if err != nil {
			return fmt.Errorf("topics.regex on topic %s: %w", name, err)
		}
		if ok {
			add = append(add, name)
		}
	}
	t.client.AddConsumeTopics(add...)
	return nil
}
