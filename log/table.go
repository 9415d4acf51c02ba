package log

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TableOptions say which topic a Table is and who hears of its records.
type TableOptions struct {
	Topic       string
	Partitions  int32             // when it is made, and verified if 1; 0 means 1
	Replication int16             // when it is made; 0 means the cluster's default
	Configs     map[string]string // beyond cleanup.policy=compact, which it must have

	// Apply is called with records in the order of the log, per partition, one call at a time. Records
	// that exist come during OpenTable, later ones in the background. A null value deletes its key.
	// The records are Apply's to keep. It must not call the table.
	Apply func([]*kgo.Record)
}

// Table is a compacted topic that is read to its end and then followed. Records of aborted
// transactions are never seen. Its methods may be called concurrently.
type Table struct {
	log   *Log
	topic string
	apply func([]*kgo.Record)
	cl    *kgo.Client
	adm   *kadm.Client

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup
	puts    chan *put

	mu      sync.Mutex      // guards the fields below
	pos     map[int32]int64 // next offset to apply, per partition
	moved   chan struct{}   // closed and replaced when pos moves
	lastErr error           // of the reader, nil when it reads again
}

// ErrTableClosed is what calls get after Close.
var ErrTableClosed = errors.New("table is closed")

// OpenTable makes or verifies the topic, applies everything in it, and follows it from then on.
func (l *Log) OpenTable(ctx context.Context, o TableOptions) (*Table, error) {
	configs := map[string]string{}
	maps.Copy(configs, o.Configs)
	configs["cleanup.policy"] = "compact"
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.Replication == 0 {
		o.Replication = -1
	}
	if err := l.EnsureTopic(ctx, o.Topic, o.Partitions, o.Replication, configs); err != nil {
		return nil, err
	}
	t := &Table{log: l, topic: o.Topic, apply: o.Apply, puts: make(chan *put), pos: map[int32]int64{}, moved: make(chan struct{})}
	var err error
	t.cl, err = kgo.NewClient(append(l.ClientOpts(),
		kgo.ClientID(l.cfg.clientID()+"-"+o.Topic),
		kgo.WithLogger(l.clientLog()),
		kgo.ConsumeTopics(o.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// Markers are not applied, but they move the position, which may end on one.
		kgo.KeepControlRecords(),
		kgo.ManualFlushing(),
		kgo.ProducerBatchMaxBytes(l.tableBatch()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(2*putChunk),
	)...)
	if err != nil {
		return nil, fmt.Errorf("client of topic %q: %w", o.Topic, err)
	}
	t.adm = kadm.NewClient(t.cl)
	t.ctx, t.stop = context.WithCancel(context.Background())
	starts, err := t.adm.ListStartOffsets(ctx, o.Topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("read topic %q: %w", o.Topic, err)
	}
	starts.Each(func(s kadm.ListedOffset) { t.pos[s.Partition] = s.Offset })
	t.running.Go(t.follow)
	t.running.Go(t.write)
	if err := t.ReadToEnd(ctx); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// tableBatch is the size of a table's largest batch: what clusters take by default.
func (l *Log) tableBatch() int32 {
	if l.Embedded() {
		return 15 << 20
	}
	return 1000012
}

// Close ends the table. Puts that were not acknowledged fail. It waits for a running Apply.
func (t *Table) Close() {
	t.stop()
	t.cl.Close()
	t.running.Wait()
}

// follow applies records as they come.
func (t *Table) follow() {
	for {
		fs := t.cl.PollFetches(t.ctx)
		if t.ctx.Err() != nil || fs.IsClientClosed() {
			return
		}
		fs.EachError(func(_ string, p int32, err error) { t.failed(p, err) })
		fs.EachPartition(func(fp kgo.FetchTopicPartition) {
			if len(fp.Records) == 0 {
				return
			}
			// Control records carry no data.
			data := make([]*kgo.Record, 0, len(fp.Records))
			for _, r := range fp.Records {
				if !r.Attrs.IsControl() {
					data = append(data, r)
				}
			}
			if len(data) > 0 {
				t.apply(data)
			}
			t.advance(fp.Partition, fp.Records[len(fp.Records)-1].Offset+1)
		})
	}
}

func (t *Table) failed(partition int32, err error) {
	var loss *kgo.ErrDataLoss
	if errors.As(err, &loss) {
		t.log.lg.Warn("records of an internal topic are gone", "topic", t.topic, "partition", partition, "error", err)
		return
	}
	t.mu.Lock()
	news := t.lastErr == nil || t.lastErr.Error() != err.Error()
	t.lastErr = err
	t.mu.Unlock()
	if news {
		t.log.lg.Warn("internal topic cannot be read, trying on", "topic", t.topic, "partition", partition, "error", err)
	}
}

func (t *Table) advance(partition int32, next int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastErr = nil
	if next > t.pos[partition] {
		t.pos[partition] = next
		close(t.moved)
		t.moved = make(chan struct{})
	}
}

// ReadToEnd returns when everything that was acknowledged, or committed, before the call has been
// applied, as far as readers of committed records can see: not what lies behind a transaction that is open.
func (t *Table) ReadToEnd(ctx context.Context) error {
	return t.readTo(ctx, t.adm.ListCommittedOffsets)
}

// openWarning is how long open transactions are waited for without a word.
const openWarning = 30 * time.Second

// ReadPastOpen is ReadToEnd for who must miss nothing that was committed before the call. It waits for
// transactions to end that are open, those of the dead, too: until somebody takes their ids over, or they
// time out.
func (t *Table) ReadPastOpen(ctx context.Context) error {
	long := time.AfterFunc(openWarning, func() {
		t.log.lg.Warn("an internal topic is not read to its end yet: transactions that are open there are waited for (kafka-transactions find-hanging looks for those that nobody ends)",
			"topic", t.topic, "waited", openWarning)
	})
	defer long.Stop()
	return t.readTo(ctx, t.adm.ListEndOffsets)
}

func (t *Table) readTo(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error)) error {
	ends, err := list(ctx, t.topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		if t.ctx.Err() != nil {
			err = ErrTableClosed
		}
		return fmt.Errorf("read topic %q to its end: %w", t.topic, err)
	}
	var targets []kadm.ListedOffset
	ends.Each(func(e kadm.ListedOffset) { targets = append(targets, e) })
	return t.reach(ctx, targets)
}

// ReadTo returns when records that were written to the topic and committed are applied. To a cluster
// the end that readers of committed records see comes a little later than the answer to a commit.
func (t *Table) ReadTo(ctx context.Context, records ...*kgo.Record) error {
	last := map[int32]int64{}
	for _, r := range records {
		last[r.Partition] = max(last[r.Partition], r.Offset+1)
	}
	targets := make([]kadm.ListedOffset, 0, len(last))
	for p, end := range last {
		targets = append(targets, kadm.ListedOffset{Topic: t.topic, Partition: p, Offset: end})
	}
	return t.reach(ctx, targets)
}

// reach returns when all before the targets is applied.
func (t *Table) reach(ctx context.Context, targets []kadm.ListedOffset) error {
	probe := time.NewTicker(100 * time.Millisecond)
	defer probe.Stop()
	stuck := map[int32]int64{} // positions at the last tick
	for {
		behind, moved, lastErr := t.behind(targets)
		if len(behind) == 0 {
			return nil
		}
		select {
		case <-moved:
		case <-probe.C:
			for _, b := range behind {
				if at, seen := stuck[b.partition]; seen && at == b.at {
					t.skip(ctx, b)
				}
				stuck[b.partition] = b.at
			}
		case <-t.ctx.Done():
			return fmt.Errorf("read topic %q to its end: %w", t.topic, ErrTableClosed)
		case <-ctx.Done():
			err := context.Cause(ctx)
			if lastErr != nil {
				err = fmt.Errorf("%w (last error of the reader: %w)", err, lastErr)
			}
			return fmt.Errorf("read topic %q to its end: at offset %d of %d in partition %d: %w", t.topic, behind[0].at, behind[0].end, behind[0].partition, err)
		}
	}
}

type lag struct {
	partition int32
	at, end   int64
}

func (t *Table) behind(targets []kadm.ListedOffset) (behind []lag, moved chan struct{}, lastErr error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range targets {
		at, known := t.pos[e.Partition]
		if !known && e.Offset > 0 {
			// Added since; the client finds it with its next metadata.
			t.cl.ForceMetadataRefresh()
		}
		if at < e.Offset {
			behind = append(behind, lag{e.Partition, at, e.Offset})
		}
	}
	return behind, t.moved, t.lastErr
}

// skip moves the position over offsets that hold no records any more: the end of a log can be
// compacted away or deleted, and then no record ever comes that would show it. It asks for what
// comes at the position: when nothing before the end does, the end is reached.
func (t *Table) skip(ctx context.Context, l lag) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	topics, err := t.adm.ListTopics(ctx, t.topic)
	if err != nil {
		return // the reader has the same trouble, and tells of it
	}
	topic := topics[t.topic]
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MinBytes, req.IsolationLevel, req.SessionEpoch = 1<<20, 0, 1, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = t.topic, topic.ID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = l.partition, l.at, 1<<20, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	raw, err := t.cl.Broker(int(topic.Partitions[l.partition].Leader)).Request(ctx, req)
	if err != nil {
		return
	}
	resp := raw.(*kmsg.FetchResponse)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return
	}
	p := &resp.Topics[0].Partitions[0]
	switch p.ErrorCode {
	case 0:
		got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
			KeepControlRecords: true, Offset: l.at, IsolationLevel: kgo.ReadCommitted(), Topic: t.topic, Partition: l.partition,
		}, p, kgo.DefaultDecompressor(), nil)
		if got.Err == nil && len(got.Records) == 0 && (next > l.at || len(p.RecordBatches) == 0) {
			t.advance(l.partition, max(next, l.at))
			// Nothing came although the answer itself says that the log reaches so far: there is
			// nothing. An answer from before that says nothing.
			if len(p.RecordBatches) == 0 && p.HighWatermark >= l.end && (p.LastStableOffset < 0 || p.LastStableOffset >= l.end) {
				t.advance(l.partition, l.end)
			}
		}
	case kerr.OffsetOutOfRange.Code:
		t.advance(l.partition, min(p.LogStartOffset, l.end))
	}
}

const putChunk = 5000 // records handed to the client at once

// put is one Put on its way.
type put struct {
	ctx     context.Context
	records []*kgo.Record
	taken   atomic.Bool // by the writer, or by a Put that gave up
	done    chan error
}

// Put writes records, in order, and returns when all are acknowledged by all replicas. Those of one
// call go out together. The topic of the records is set here, the partition follows from the key.
// When it fails, none, some or all of them may have been written or be written yet, unless the error
// is ErrNotWritten.
func (t *Table) Put(ctx context.Context, records ...*kgo.Record) error {
	if len(records) == 0 {
		return nil
	}
	p := &put{ctx: ctx, records: records, done: make(chan error, 1)}
	for _, r := range records {
		r.Topic = t.topic
	}
	select {
	case t.puts <- p:
	case <-ctx.Done():
		return t.notWritten(context.Cause(ctx))
	case <-t.ctx.Done():
		return t.notWritten(ErrTableClosed)
	}
	var err error
	select {
	case err = <-p.done:
	case <-ctx.Done():
		if p.taken.CompareAndSwap(false, true) {
			return t.notWritten(context.Cause(ctx))
		}
		// The client gives up as soon as it can tell what became of them.
		err = <-p.done
	}
	if err != nil {
		return fmt.Errorf("write to topic %q: %w", t.topic, explain(err, records))
	}
	return nil
}

// ErrNotWritten means that nothing of a Put was written or will be.
var ErrNotWritten = errors.New("nothing was written")

func (t *Table) notWritten(why error) error {
	return fmt.Errorf("write to topic %q: %w: %w", t.topic, ErrNotWritten, why)
}

func explain(err error, records []*kgo.Record) error {
	if !errors.Is(err, kerr.MessageTooLarge) {
		return err
	}
	most := records[0]
	for _, r := range records {
		if len(r.Key)+len(r.Value) > len(most.Key)+len(most.Value) {
			most = r
		}
	}
	return fmt.Errorf("%w: the largest record has %d bytes under key %.80q; raise max.message.bytes of the topic", err, len(most.Key)+len(most.Value), most.Key)
}

// write sends what Puts hand in; those that come meanwhile go out together next.
func (t *Table) write() {
	for {
		var p *put
		select {
		case p = <-t.puts:
		case <-t.ctx.Done():
			return
		}
		n := t.send(p)
		for more := true; more && n < putChunk; {
			select {
			case p = <-t.puts:
				n += t.send(p)
			default:
				more = false
			}
		}
		t.cl.Flush(t.ctx) // fails only with ctx; results come through the promises
	}
}

// send hands a put's records to the client, which keeps them until Flush.
func (t *Table) send(p *put) int {
	if !p.taken.CompareAndSwap(false, true) {
		return 0
	}
	left := int64(len(p.records))
	var mu sync.Mutex
	var first error
	promise := func(_ *kgo.Record, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && first == nil {
			first = err
		}
		if left--; left == 0 {
			if errors.Is(first, kgo.ErrClientClosed) {
				first = ErrTableClosed
			}
			p.done <- first
		}
	}
	for i, r := range p.records {
		t.cl.Produce(p.ctx, r, promise)
		if (i+1)%putChunk == 0 {
			t.cl.Flush(t.ctx)
		}
	}
	return len(p.records)
}
