package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/runtime/tolerance"
	"millrace/schema"
	"millrace/schema/javatext"
)

const (
	maxPollRecords = connectors.MaxBatchRecords
	maxFetchBytes  = 4 << 20
	putEvery       = time.Second // an idle task is given an empty batch
	putTries       = 5           // of a batch of which the sink takes nothing, about 9 s
)

// sinkTask is one run of a sink task. One goroutine, run's, calls the connector and
// owns all that is not said otherwise; the client's group goroutines hand it what
// concerns partitions.
type sinkTask struct {
	client  *kgo.Client
	admin   *kadm.Client
	sink    connectors.SinkTask
	gate    *gate
	shaper  *shaper
	letters *tolerance.DeadLetters // nil: none
	used    *uses
	regex   *javatext.Regexp // of topics to read; nil where they are named
	reset   string           // auto.offset.reset: earliest, latest or none
	every   time.Duration
	timeout time.Duration // of a commit
	lg      *slog.Logger

	calls chan *call
	ended chan struct{}
	dead  <-chan struct{}                    // closed when the run is abandoned
	wake  atomic.Pointer[context.CancelFunc] // ends the poll that runs

	parts   map[connectors.TopicPartition]*part
	pending []schema.Record // Put did not take them yet
	tries   int             // of pending
	lastPut time.Time

	troubles []kgo.FetchError // of the last poll, see settle

	meter    *Meter
	consumer *ClientMeter
	activity *activity
	touched  []*part // partitions of what was read last
	failed   bool    // what closes now is kept to be seen
}

// part is a partition that the task has.
type part struct {
	position  int64 // of the next record to read
	delivered int64 // behind the last record that Put took
	flushed   int64 // as Flush returned
	committed int64
	read      int64      // behind the last record that was read, those of transactions' ends included
	shown     *shownPart // of these, for all to see
}

// done shows that all which was read of the partition needs nothing more.
func (p *part) done() { p.shown.done.Store(max(p.position, p.read)) }

// call is something about partitions that the group wants done.
type call struct {
	open   map[string]map[int32]kgo.Offset // what is assigned, at the committed offsets; adjusted in place
	gone   map[string][]int32              // what is taken away
	lost   bool
	result chan error
}

// options are what the group client needs beyond those of every client.
func (t *sinkTask) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.DisableAutoCommit(),
		kgo.RebalanceTimeout(runtime.RejoinTimeout),
		kgo.Balancers(kgo.RangeBalancer(), kgo.CooperativeStickyBalancer()),
		kgo.FetchMaxBytes(maxFetchBytes),
		kgo.MaxConcurrentFetches(1),
		kgo.KeepControlRecords(),                                                        // a position behind the last record of a transaction would look like lag for ever
		kgo.ConsumeResetOffset(kgo.NoResetOffset().AtStart()),                           // out of range is decided here, see place
		kgo.KeepRetryableFetchErrors(),                                                  // damage on the broker's disk counts as retriable there, see fetchError
		kgo.MetadataMaxAge(5 * time.Second), kgo.MetadataMinAge(500 * time.Millisecond), // topics may appear later
		// What a call holds is its own: a run that is abandoned may still be at it when the client goes on.
		kgo.AdjustFetchOffsetsFn(func(ctx context.Context, at map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			own := make(map[string]map[int32]kgo.Offset, len(at))
			for topic, ps := range at {
				own[topic] = maps.Clone(ps)
			}
			if err := t.ask(ctx, &call{open: own}); err != nil {
				return at, err
			}
			return own, nil
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, gone map[string][]int32) {
			_ = t.ask(ctx, &call{gone: cloned(gone)}) // what failed there fails the task
		}),
		kgo.OnPartitionsLost(func(ctx context.Context, _ *kgo.Client, gone map[string][]int32) {
			_ = t.ask(ctx, &call{gone: cloned(gone), lost: true})
		}),
	}
}

func cloned(gone map[string][]int32) map[string][]int32 {
	out := make(map[string][]int32, len(gone))
	for topic, ps := range gone {
		out[topic] = slices.Clone(ps)
	}
	return out
}

// ask has run's goroutine serve a call and waits for it.
func (t *sinkTask) ask(ctx context.Context, c *call) error {
	c.result = make(chan error, 1)
	select {
	case t.calls <- c:
	case <-t.ended:
		return errEnded
	case <-t.dead:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
	if wake := t.wake.Load(); wake != nil {
		(*wake)()
	}
	select {
	case err := <-c.result:
		return err
	case <-t.ended:
		return errEnded
	case <-t.dead: // its goroutine may hang in the connector: the group must not wait for that
		return errEnded
	}
}

var errEnded = errors.New("the task has ended")

// run carries records from the log to the sink until ctx ends or something fails.
// Then it commits what the sink has flushed and leaves the group. After hard nothing
// of this task reaches the log.
func (t *sinkTask) run(ctx, hard context.Context) (err error) {
	defer t.activity.ended.Store(true)
	// Once: two that close a client at the same time race for its fetch sessions.
	closeClient := sync.OnceFunc(t.client.CloseAllowingRebalance)
	defer context.AfterFunc(hard, closeClient)()
	defer closeClient()
	defer close(t.ended)
	defer func() { err = errors.Join(err, t.finish(hard, err == nil)) }()
	if t.regex != nil {
		if err := t.subscribe(ctx); err != nil {
			return err
		}
		looking, stop := context.WithCancel(ctx)
		defer stop()
		go t.look(looking)
	}
	return guard("sink", func() error { return t.loop(ctx, hard) })
}

// lookEvery is the time between two looks for topics that topics.regex matches.
const lookEvery = 5 * time.Second

// look finds topics that appear, until ctx ends.
func (t *sinkTask) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := t.subscribe(ctx); err != nil && ctx.Err() == nil {
			t.lg.Warn("topics that topics.regex matches are not known; they are looked for again", "err", err)
		}
	}
}

// subscribe adds the topics that the pattern matches; those that are read stay.
func (t *sinkTask) subscribe(ctx context.Context) error {
	found, err := t.admin.ListTopics(ctx)
	if err != nil {
		return connectors.Retriable(fmt.Errorf("list topics: %w", err))
	}
	var add []string
	for _, name := range found.Names() {
		if found[name].IsInternal {
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

// finish gives all partitions back; what was put is flushed and committed first where
// nothing failed.
func (t *sinkTask) finish(hard context.Context, well bool) error {
	if len(t.parts) == 0 {
		return nil
	}
	t.failed = !well
	return guard("sink", func() error { return t.closeParts(hard, slices.Collect(maps.Keys(t.parts)), !well) })
}

func (t *sinkTask) loop(ctx, hard context.Context) error {
	commits := time.NewTicker(t.every)
	defer commits.Stop()
	for {
		// What concerns partitions goes before all else: the group waits for it.
		select {
		case c := <-t.calls:
			if err := t.answer(hard, c); err != nil {
				return err
			}
			continue
		case <-ctx.Done():
			return nil
		default:
		}
		select {
		case <-commits.C:
			if err := t.commit(hard, slices.Collect(maps.Keys(t.parts))); err != nil {
				return err
			}
			continue
		case <-t.gate.passing():
		default: // paused: the group and commits are all there is
			select {
			case c := <-t.calls:
				if err := t.answer(hard, c); err != nil {
					return err
				}
			case <-ctx.Done():
			case <-t.gate.passing():
			case <-time.After(min(t.every, putEvery)):
			}
			continue
		}
		if len(t.pending) > 0 {
			if err := t.again(ctx, hard); err != nil {
				return err
			}
			continue
		}
		records, err := t.poll(ctx, hard)
		if err != nil {
			return err
		}
		if len(records) > 0 || len(t.parts) > 0 && time.Since(t.lastPut) >= putEvery {
			if err := t.put(hard, records); err != nil {
				return err
			}
		}
	}
}

// answer serves a call and lets its caller go on.
func (t *sinkTask) answer(hard context.Context, c *call) error {
	err := t.serve(hard, c)
	c.result <- err
	return err
}

// poll reads what is there, waiting for up to a second, and shapes it.
func (t *sinkTask) poll(ctx, hard context.Context) ([]schema.Record, error) {
	if err := t.settle(hard); err != nil {
		return nil, err
	}
	polling, cancel := context.WithTimeout(ctx, max(time.Millisecond, min(t.every, putEvery-time.Since(t.lastPut))))
	defer cancel()
	t.wake.Store(&cancel)
	if len(t.calls) > 0 {
		return nil, nil
	}
	begun := time.Now()
	fetches := t.client.PollRecords(polling, maxPollRecords)
	t.troubles = fetches.Errors()
	n := 0
	fetches.EachRecord(func(r *kgo.Record) {
		if !r.Attrs.IsControl() {
			n++
		}
	})
	t.consumer.poll(begun, n)
	t.activity.polled.Store(time.Now().UnixNano())
	if fetches.NumRecords() == 0 {
		return nil, t.settle(hard)
	}
	defer t.activity.enter(converting)()
	out := make([]schema.Record, 0, n)
	origins := make([]schema.Origin, n)
	i := 0
	var err error
	fetches.EachPartition(func(fp kgo.FetchTopicPartition) {
		p := t.parts[connectors.TopicPartition{Topic: fp.Topic, Partition: fp.Partition}]
		if p == nil || err != nil {
			return // no longer ours
		}
		p.shown.start.Store(fp.LogStartOffset)
		p.shown.end.Store(readable(fp.FetchPartition))
		t.touched = append(t.touched, p)
		defer func() { p.shown.position.Store(max(p.position, p.read)) }()
		for _, kr := range fp.Records {
			if kr.Offset < p.position {
				continue // read before the position was moved
			}
			p.read = kr.Offset + 1
			if kr.Attrs.IsControl() {
				continue
			}
			var r schema.Record
			var keep bool
			if r, keep, err = t.shaper.decode(hard, kr, &origins[i]); err != nil {
				return
			}
			i++
			p.position = kr.Offset + 1
			if keep {
				out = append(out, r)
			}
		}
	})
	if i > 0 {
		t.meter.read(i)
		t.activity.move()
	}
	if len(out) == 0 && err == nil {
		t.allDone()
	}
	return out, err
}

// settle decides about the errors of the last poll. The records that came with them were read before, and the sink
// has them by now.
func (t *sinkTask) settle(hard context.Context) error {
	troubles := t.troubles
	t.troubles = nil
	for _, e := range troubles {
		if err := t.fetchError(hard, connectors.TopicPartition{Topic: e.Topic, Partition: e.Partition}, e.Err); err != nil {
			return err
		}
	}
	return nil
}

// readable is the end of what a fetch may read.
func readable(fp kgo.FetchPartition) int64 {
	if fp.LastStableOffset >= 0 {
		return fp.LastStableOffset
	}
	return fp.HighWatermark
}

// allDone shows that what was read last needs nothing more.
func (t *sinkTask) allDone() {
	for _, p := range t.touched {
		p.done()
	}
	clear(t.touched)
	t.touched = t.touched[:0]
}

// fetchError decides what an error of reading means.
func (t *sinkTask) fetchError(hard context.Context, tp connectors.TopicPartition, err error) error {
	var loss *kgo.ErrDataLoss
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errEnded):
		return nil
	case errors.Is(err, kerr.OffsetOutOfRange):
		p := t.parts[tp]
		if p == nil {
			return nil
		}
		b, err := t.bounds(hard, tp.Topic)
		if err != nil {
			return err
		}
		at, err := t.place(tp, p.position, b)
		if err != nil {
			return err
		}
		if at != p.position {
			*p = part{position: at, delivered: at, flushed: at, committed: outrun(p.committed, p.position, at), read: at, shown: p.shown}
			p.shown.position.Store(at)
			p.done()
			t.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{tp.Topic: {tp.Partition: {Epoch: -1, Offset: at}}})
		}
		return nil
	case errors.As(err, &loss):
		t.lg.Warn("the log lost records that were read before", "topic", tp.Topic, "partition", tp.Partition, "err", err)
		return nil
	case errors.Is(err, kerr.CorruptMessage):
		p := t.parts[tp]
		if p == nil {
			return nil
		}
		// No retry brings it back, and without a word the task would wait here for ever.
		return fmt.Errorf("records of %s from offset %d on are damaged on the broker's disk (%w); the embedded log names range and file in /health and in its log. "+
			"Restore the file from a copy, or cut the range out with `millrace log repair`, or move this connector's offsets behind it", tp, p.position, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("read topic %s: %w; grant the right, then restart the task", tp.Topic, err)
	case kerr.IsRetriable(err), errors.Is(err, kgo.ErrClientClosed):
		return nil // the client goes on
	}
	return connectors.Retriable(fmt.Errorf("read topic %s: %w", tp.Topic, err))
}

// place finds the position to read from in a partition, for a position at that may
// lie outside of what there is; at is negative where none is committed. What is lost
// is said, and decided as auto.offset.reset wants.
func (t *sinkTask) place(tp connectors.TopicPartition, at int64, b bounds) (int64, error) {
	start, end := b.of(tp)
	if at >= start && at <= end {
		return at, nil
	}
	to := start
	if t.reset == "latest" {
		to = end
	}
	switch {
	case at < 0 && t.reset == "none":
		return 0, connectors.BadConfig(fmt.Errorf("no offset is committed for %s, and auto.offset.reset is none: set it to earliest or latest", tp))
	case at < 0:
		return to, nil
	case t.reset == "none" && at < start:
		return 0, fmt.Errorf("records %d-%d of %s are gone before they were read (retention), and auto.offset.reset is none: set it to earliest or latest to go on without them", at, start-1, tp)
	case t.reset == "none":
		return 0, fmt.Errorf("the committed offset %d of %s lies behind the end %d of the log, which lost records or was made anew; auto.offset.reset is none: set it to earliest or latest to go on", at, tp, end)
	case at < start:
		t.lg.Warn("records are gone before they were read", "topic", tp.Topic, "partition", tp.Partition, "lost", fmt.Sprintf("%d-%d", at, max(start, to)-1), "continues", to)
	default:
		t.lg.Warn("the committed offset lies behind the end of the log, which lost records or was made anew", "topic", tp.Topic, "partition", tp.Partition, "committed", at, "end", end, "continues", to)
	}
	return to, nil
}

// outrun is what counts as committed when the position moved from one to another. Commits never go back, but where the
// log ended before the committed offset that one is worth nothing, and the next start would meet it again.
func outrun(committed, from, to int64) int64 {
	if to < from {
		return min(committed, to-1)
	}
	return committed
}

// bounds are where partitions begin and end.
type bounds struct{ starts, ends kadm.ListedOffsets }

func (b bounds) of(tp connectors.TopicPartition) (start, end int64) {
	s, _ := b.starts.Lookup(tp.Topic, tp.Partition)
	e, _ := b.ends.Lookup(tp.Topic, tp.Partition)
	return s.Offset, e.Offset
}

// bounds asks for the bounds of topics' partitions until it has them.
func (t *sinkTask) bounds(ctx context.Context, topics ...string) (b bounds, err error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		b.starts, err = t.admin.ListStartOffsets(ctx, topics...)
		if err == nil {
			err = b.starts.Error()
		}
		if err == nil {
			b.ends, err = t.admin.ListEndOffsets(ctx, topics...)
		}
		if err == nil {
			err = b.ends.Error()
		}
		if err == nil {
			return b, nil
		}
		if ctx.Err() != nil {
			return b, ctx.Err()
		}
		t.lg.Warn("where partitions begin and end is not known yet", "topics", topics, "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return b, ctx.Err()
		}
	}
}

// put gives records to the sink. Those that it does not take yet stay pending.
func (t *sinkTask) put(hard context.Context, records []schema.Record) error {
	t.lastPut = time.Now()
	if len(records) > 0 && t.used.stale() {
		for i := range records {
			if r := records[i].Origin; r != nil {
				t.used.topic(r.Topic)
			}
		}
	}
	err := t.sink.Put(hard, records)
	taken := len(records)
	if err != nil {
		taken = 0
		var part *connectors.PutError
		if errors.As(err, &part) {
			taken = min(max(part.Taken, 0), len(records))
		}
	}
	var last *part
	for i := range records[:taken] {
		o := records[i].Origin
		if p := t.parts[connectors.TopicPartition{Topic: o.Topic, Partition: o.Partition}]; p != nil {
			p.delivered, last = o.Offset+1, p
		}
	}
	if last != nil && err != nil {
		last.shown.done.Store(last.delivered)
		t.activity.move()
	}
	t.activity.pending.Store(int64(len(records) - taken))
	switch {
	case err == nil:
		t.pending, t.tries = nil, 0
		t.allDone()
		return nil
	case hard.Err() != nil:
		return hard.Err()
	case !connectors.IsRetriable(err):
		return err
	}
	if taken > 0 {
		t.tries = 0
	}
	// A connector that gives a declared reason has used up its own retries, and what
	// stands still for long must show: the task fails, and is restarted with pauses.
	if t.tries++; connectors.FailureOf(err) != nil || t.tries > putTries {
		return err
	}
	t.pending = records[taken:]
	t.lg.Warn("the target did not take records; they are put again", "records", len(t.pending), "tries", t.tries, "err", err)
	return nil
}

// again waits and then puts pending records once more.
func (t *sinkTask) again(ctx, hard context.Context) error {
	wait := time.NewTimer(tolerance.Backoff(t.tries-1, 300*time.Millisecond, time.Minute))
	defer wait.Stop()
	select {
	case c := <-t.calls:
		return t.answer(hard, c)
	case <-ctx.Done():
		return nil
	case <-wait.C:
		return t.put(hard, t.pending)
	}
}

// serve does what the group wants.
func (t *sinkTask) serve(hard context.Context, c *call) error {
	if c.open != nil {
		return t.openParts(hard, c.open)
	}
	var gone []connectors.TopicPartition
	for topic, ps := range c.gone {
		for _, p := range ps {
			if tp := (connectors.TopicPartition{Topic: topic, Partition: p}); t.parts[tp] != nil {
				gone = append(gone, tp)
			}
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return t.closeParts(hard, gone, c.lost)
}

// openParts tells the sink of new partitions and decides where to start in them.
func (t *sinkTask) openParts(ctx context.Context, at map[string]map[int32]kgo.Offset) error {
	var list []connectors.TopicPartition
	for topic, ps := range at {
		for p := range ps {
			list = append(list, connectors.TopicPartition{Topic: topic, Partition: p})
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, compareParts)
	known, err := t.sink.Open(ctx, list)
	if err != nil {
		return err
	}
	b, err := t.bounds(ctx, slices.Collect(maps.Keys(at))...)
	if err != nil {
		return err
	}
	for _, tp := range list {
		committed := at[tp.Topic][tp.Partition].EpochOffset().Offset
		from := committed
		if k, ok := known[tp]; ok {
			from = k
		}
		to, err := t.place(tp, from, b)
		if err != nil {
			return err
		}
		p := &part{position: to, delivered: to, flushed: to, committed: outrun(committed, from, to), read: to, shown: t.activity.part(tp)}
		from = to
		t.parts[tp] = p
		start, end := b.of(tp)
		p.shown.start.Store(start)
		p.shown.end.Store(end)
		p.shown.position.Store(from)
		p.shown.committed.Store(committed)
		p.done()
		at[tp.Topic][tp.Partition] = kgo.NewOffset().At(from)
		t.used.topic(tp.Topic)
	}
	return nil
}

// closeParts takes partitions from the sink; what it put is flushed and committed
// first, but for those that are lost.
func (t *sinkTask) closeParts(hard context.Context, gone []connectors.TopicPartition, lost bool) error {
	var err error
	if !lost {
		err = t.commit(hard, gone)
		lost = err != nil
	}
	for _, tp := range gone {
		delete(t.parts, tp)
	}
	t.activity.drop(gone, t.failed)
	t.activity.pending.Store(0)
	t.pending = slices.DeleteFunc(t.pending, func(r schema.Record) bool {
		return t.parts[connectors.TopicPartition{Topic: r.Origin.Topic, Partition: r.Origin.Partition}] == nil
	})
	return errors.Join(err, t.sink.Close(hard, gone, lost))
}

// commit flushes the sink and commits what it says is written, after the dead letters
// before it are acknowledged. A commit that fails is tried again with the next.
func (t *sinkTask) commit(hard context.Context, parts []connectors.TopicPartition) error {
	if len(t.parts) == 0 {
		return nil
	}
	begun := time.Now()
	flushed, err := t.sink.Flush(hard)
	if err != nil {
		if hard.Err() != nil {
			return hard.Err()
		}
		if connectors.IsRetriable(err) {
			t.lg.Warn("the target could not be flushed; it is tried again", "err", err)
			return nil
		}
		return err
	}
	for tp, at := range flushed {
		if p := t.parts[tp]; p != nil {
			p.flushed = at
		}
	}
	held := map[connectors.TopicPartition]bool{}
	for i := range t.pending {
		held[connectors.TopicPartition{Topic: t.pending[i].Origin.Topic, Partition: t.pending[i].Origin.Partition}] = true
	}
	ctx, cancel := context.WithTimeout(hard, t.timeout)
	defer cancel()
	if t.letters != nil {
		switch err := t.letters.Flush(ctx); {
		case hard.Err() != nil:
			return hard.Err()
		case errors.Is(err, context.DeadlineExceeded):
			t.lg.Warn("dead letters are not acknowledged yet; offsets are committed later", "err", err)
			t.meter.late(time.Since(begun))
			return nil
		case err != nil:
			return connectors.Retriable(err)
		}
	}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	to := map[connectors.TopicPartition]int64{}
	for _, tp := range parts {
		p := t.parts[tp]
		if p == nil {
			continue
		}
		at := p.flushed
		if p.flushed >= p.delivered && !held[tp] {
			at = p.position // what followed was dropped or is a dead letter
		}
		if at <= p.committed {
			continue
		}
		if offsets[tp.Topic] == nil {
			offsets[tp.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[tp.Topic][tp.Partition] = kgo.EpochOffset{Epoch: -1, Offset: at}
		to[tp] = at
	}
	if len(offsets) == 0 {
		t.activity.failing.Store(0)
		return nil
	}
	leave := t.activity.enter(committing)
	err = t.commitOffsets(ctx, offsets)
	leave()
	t.meter.seq.Add(1)
	t.meter.commit(time.Since(begun), err == nil)
	if err != nil {
		if hard.Err() == nil {
			t.lg.Warn("offsets could not be committed; they are tried again", "err", err)
		}
		return nil
	}
	for tp, at := range to {
		t.parts[tp].committed = at
		t.parts[tp].shown.committed.Store(at)
	}
	return nil
}

func (t *sinkTask) commitOffsets(ctx context.Context, offsets map[string]map[int32]kgo.EpochOffset) error {
	var failed error
	t.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if err != nil {
			return
		}
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil && failed == nil {
					failed = fmt.Errorf("%s-%d: %w", topic.Topic, p.Partition, err)
				}
			}
		}
	})
	return failed
}
