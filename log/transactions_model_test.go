package log_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"millrace/deploy/trial"
	"millrace/log"
	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// The model test runs producers with transactions in both flows, and one that mixes them, against a log whose process dies at any call
// of the file system, whose machine loses power, or whose disk is full, and compares what a read_committed consumer and the groups see
// with what was answered: all of a transaction or none of it, its offsets with it, each record once. Producers over the in-memory
// connection belong to the process: nothing of theirs is open after a start. Those over TCP go on where they were, and send again what
// was not answered.

type outcome int

const (
	isOpen outcome = iota
	isCommitted
	isAborted
	isUnknown // the answer was lost
)

func (o outcome) String() string { return [...]string{"open", "committed", "aborted", "unknown"}[o] }

type modelTxn struct {
	n       int
	records map[string][]string // values by topic-partition
	offset  bool                // n was committed as the group's offset
	outcome outcome
}

type modelProducer struct {
	id       string
	newer    bool // the newer flow
	mixed    bool // now this, now that
	pid      int64
	epoch    int16
	ready    bool
	sequence map[string]int32
	added    map[string]bool
	txns     []*modelTxn
	old      []prod // of generations that were fenced
	// The last end that was answered: it may be repeated.
	last       prod
	lastCommit bool
	lastNewer  bool
	repeatable bool
	// Over TCP: what was sent and not answered, to be sent again; and whether that ends the transaction, with a commit.
	again  func()
	ending bool
	commit bool
}

func (p *modelProducer) open() *modelTxn {
	if n := len(p.txns); n > 0 && p.txns[n-1].outcome == isOpen {
		return p.txns[n-1]
	}
	return nil
}

type txnModel struct {
	t         *testing.T
	seed      uint64
	rng       *rand.Rand
	fs        *vfs.Mem
	tcp       bool
	l         *log.Log
	cl        map[bool]*kgo.Client // by flow
	producers []*modelProducer
	ops       []string
	kinds     map[string]int
	values    int

	mu    sync.Mutex // guards the fields below, which the log's goroutines use
	calls int
	dieAt int
	dead  bool
}

func (m *txnModel) logf(format string, a ...any) { m.ops = append(m.ops, fmt.Sprintf(format, a...)) }

func (m *txnModel) fatalf(format string, a ...any) {
	m.t.Helper()
	tail := m.ops[max(0, len(m.ops)-80):]
	m.t.Fatalf("seed %d (run it alone with MILLRACE_SEED=%d): %s\nlast operations:\n  %s", m.seed, m.seed, fmt.Sprintf(format, a...), strings.Join(tail, "\n  "))
}

func (m *txnModel) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// start opens the log; a process that dies in it is started again.
func (m *txnModel) start() {
	for attempt := 0; ; attempt++ {
		m.mu.Lock()
		m.calls, m.dead, m.dieAt = 0, false, 0
		if attempt < 2 && m.rng.IntN(4) == 0 {
			m.dieAt = 1 + m.rng.IntN(150)
		}
		m.mu.Unlock()
		m.fs.Inject(func(op vfs.Op, name string) *vfs.Fault {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.calls++
			if m.dieAt > 0 && m.calls >= m.dieAt {
				m.dead = true
			}
			if m.dead {
				return &vfs.Fault{Err: vfs.ErrDead}
			}
			return nil
		})
		// Segments are small everywhere, so that compaction finds something, in the coordinators' topics as well.
		cfg := log.Config{DataDir: "/log", FS: m.fs, Limits: log.Limits{MinFree: -1, Ballast: -1},
			Defaults: map[string]string{"segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}}
		if m.tcp {
			cfg.Listeners = []string{"127.0.0.1:0"}
		}
		l, err := log.Open(context.Background(), cfg)
		if err != nil && !m.isDead() {
			m.fatalf("open: %v", err)
		}
		if err == nil {
			m.l = l
			if !m.isDead() {
				m.mu.Lock()
				m.dieAt = 0
				m.mu.Unlock()
				m.cl = map[bool]*kgo.Client{}
				for _, newer := range []bool{false, true} {
					v := kversion.Stable()
					v.SetMaxKeyVersion(0, 12) // later ones name topics by id
					v.SetMaxKeyVersion(1, 12)
					opts := append(l.ClientOpts(), kgo.MaxVersions(v), kgo.RequestRetries(0))
					if m.tcp {
						opts = []kgo.Opt{kgo.SeedBrokers(l.Addr()), kgo.MaxVersions(v), kgo.RequestRetries(0)}
					}
					if !newer {
						opts = append(opts, older())
					}
					cl, err := kgo.NewClient(opts...)
					if err != nil {
						m.t.Fatal(err)
					}
					m.cl[newer] = cl
				}
				return
			}
			m.close()
		}
		m.kinds["died while it started"]++
		m.logf("died while it started")
		m.crash()
	}
}

func (m *txnModel) close() {
	for _, cl := range m.cl {
		cl.Close()
	}
	m.cl = nil
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := m.l.Close(ctx); err != nil && !m.isDead() {
		m.fatalf("close: %v", err)
	}
}

func (m *txnModel) crash() {
	if m.rng.IntN(2) == 0 {
		m.fs = m.fs.Crash(m.rng.Uint64())
	} else {
		m.fs = m.fs.Kill()
	}
}

// ask sends one request; nil means that the answer was lost.
func ask[R kmsg.Response](m *txnModel, newer bool, req kmsg.Request) (resp R, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := m.cl[newer].SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		if !m.isDead() {
			m.fatalf("%T: %v", req, err)
		}
		return resp, false
	}
	return r.(R), true
}

// brief is what of an answer a reader of the list of operations wants to see.
func brief(resp kmsg.Response, ok bool) string {
	if !ok {
		return "no answer"
	}
	code := func(c int16) string {
		if c == 0 {
			return "ok"
		}
		return kerr.TypedErrorForCode(c).Message
	}
	switch r := resp.(type) {
	case *kmsg.InitProducerIDResponse:
		return fmt.Sprintf("%s, producer %d, epoch %d", code(r.ErrorCode), r.ProducerID, r.ProducerEpoch)
	case *kmsg.AddPartitionsToTxnResponse:
		return code(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.ProduceResponse:
		return fmt.Sprintf("%s, offset %d", code(r.Topics[0].Partitions[0].ErrorCode), r.Topics[0].Partitions[0].BaseOffset)
	case *kmsg.TxnOffsetCommitResponse:
		return code(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.EndTxnResponse:
		return fmt.Sprintf("%s, epoch %d", code(r.ErrorCode), r.ProducerEpoch)
	}
	return ""
}

const modelTopics, modelPartitions = 2, 2

func (m *txnModel) topics() {
	for i, policy := range [modelTopics]string{"delete", "compact"} {
		if _, err := m.l.Admin().CreateTopic(m.t.Context(), modelPartitions, 1, map[string]*string{"cleanup.policy": &policy}, fmt.Sprint("t", i)); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			m.fatalf("create: %v", err)
		}
	}
}

func (m *txnModel) init(p *modelProducer) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &p.id, 60_000, -1, -1
	own := p.ready && m.rng.IntN(3) == 0
	if own {
		req.ProducerID, req.ProducerEpoch = p.pid, p.epoch
	}
	resp, ok := ask[*kmsg.InitProducerIDResponse](m, p.newer, req)
	m.logf("%s: init, own %v: %s", p.id, own, brief(resp, ok))
	if !ok {
		p.begin()
		return
	}
	if resp.ErrorCode != 0 {
		m.refused("init", resp.ErrorCode)
		p.begin() // it asks until it gets an answer
		return
	}
	if p.ready && resp.ProducerID == p.pid && resp.ProducerEpoch <= p.epoch {
		m.fatalf("%s: epoch %d after %d", p.id, resp.ProducerEpoch, p.epoch)
	}
	if p.ready {
		p.old = append(p.old, prod{p.id, p.pid, p.epoch})
	}
	if x := p.open(); x != nil {
		x.outcome = isAborted
		m.kinds["aborted by init"]++
	}
	p.pid, p.epoch, p.ready, p.repeatable = resp.ProducerID, resp.ProducerEpoch, true, false
	p.sequence, p.added = map[string]int32{}, map[string]bool{}
}

// begin: the producer has to begin anew; what is open will be aborted.
func (p *modelProducer) begin() {
	p.ready, p.repeatable, p.again, p.ending = false, false, nil, false
	if x := p.open(); x != nil {
		x.outcome = isAborted
	}
}

// lost: the process died under a request. Over TCP it is sent again.
func (m *txnModel) lost(p *modelProducer, again func()) {
	if m.tcp {
		p.again = again
		return
	}
	p.begin()
}

// refused checks that a refusal is one of a full disk.
func (m *txnModel) refused(what string, code int16) {
	m.kinds["refused"]++
	switch code {
	case kerr.CoordinatorNotAvailable.Code, kerr.KafkaStorageError.Code, kerr.NotEnoughReplicas.Code, kerr.ConcurrentTransactions.Code:
	default:
		m.fatalf("%s: %v", what, kerr.ErrorForCode(code))
	}
}

func (m *txnModel) begin(p *modelProducer) *modelTxn {
	if x := p.open(); x != nil {
		return x
	}
	x := &modelTxn{n: len(p.txns) + 1, records: map[string][]string{}}
	p.txns = append(p.txns, x)
	p.added = map[string]bool{}
	return x
}

func (m *txnModel) add(p *modelProducer, topic string, part int32, again func()) bool {
	key := fmt.Sprintf("%s-%d", topic, part)
	if p.newer || p.added[key] {
		return true
	}
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.id, p.pid, p.epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{part}}}
	resp, ok := ask[*kmsg.AddPartitionsToTxnResponse](m, p.newer, req)
	m.logf("%s: add %s: %s", p.id, key, brief(resp, ok))
	if !ok {
		m.lost(p, again)
		return false
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		m.refused("add", code)
		return false
	}
	p.added[key] = true
	return true
}

func (m *txnModel) batch(p prod, sequence int32, values []string) batch.View {
	var rs []batch.Record
	for _, v := range values {
		rs = append(rs, batch.Record{Timestamp: time.Now().UnixMilli(), Key: []byte(v), Value: []byte(v + strings.Repeat(".", m.rng.IntN(100)))})
	}
	return batch.Build(batch.Options{Producer: &batch.Producer{ID: p.pid, Epoch: p.epoch, Sequence: sequence}, Transactional: true}, rs...)
}

func produceReq(p prod, topic string, part int32, v batch.View) *kmsg.ProduceRequest {
	req := &kmsg.ProduceRequest{Acks: -1, TimeoutMillis: 30_000, TransactionID: &p.id}
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: part, Records: v}}}}
	return req
}

func (m *txnModel) write(p *modelProducer) {
	topic, part := fmt.Sprint("t", m.rng.IntN(modelTopics)), int32(m.rng.IntN(modelPartitions))
	x := m.begin(p)
	var values []string
	for range 1 + m.rng.IntN(3) {
		m.values++
		values = append(values, fmt.Sprintf("%s/%d/%d", p.id, x.n, m.values))
	}
	me := prod{p.id, p.pid, p.epoch}
	m.send(p, x, topic, part, values, produceReq(me, topic, part, m.batch(me, p.sequence[fmt.Sprintf("%s-%d", topic, part)], values)))
}

func (m *txnModel) send(p *modelProducer, x *modelTxn, topic string, part int32, values []string, req *kmsg.ProduceRequest) {
	key := fmt.Sprintf("%s-%d", topic, part)
	again := func() { m.send(p, x, topic, part, values, req) }
	if !m.add(p, topic, part, again) {
		return
	}
	// A client resends what was not answered; it is answered the same again.
	for range 1 + m.rng.IntN(2) {
		resp, ok := ask[*kmsg.ProduceResponse](m, p.newer, req)
		m.logf("%s: write %v to %s: %s", p.id, values, key, brief(resp, ok))
		if !ok {
			m.lost(p, again)
			return
		}
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			m.refused("write", code)
			return
		}
		if !slices.Contains(x.records[key], values[0]) {
			x.records[key] = append(x.records[key], values...)
			p.sequence[key] += int32(len(values))
		}
	}
}

func (m *txnModel) commitOffset(p *modelProducer) {
	x := m.begin(p)
	again := func() { m.commitOffset(p) }
	if !p.newer {
		resp, ok := ask[*kmsg.AddOffsetsToTxnResponse](m, p.newer, &kmsg.AddOffsetsToTxnRequest{TransactionalID: p.id, ProducerID: p.pid, ProducerEpoch: p.epoch, Group: p.id})
		if !ok {
			m.lost(p, again)
			return
		}
		if resp.ErrorCode != 0 {
			m.refused("add offsets", resp.ErrorCode)
			return
		}
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group, req.Generation = p.id, p.pid, p.epoch, p.id, -1
	req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t0", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: int64(x.n), LeaderEpoch: -1}}}}
	resp, ok := ask[*kmsg.TxnOffsetCommitResponse](m, p.newer, req)
	m.logf("%s: offset %d: %s", p.id, x.n, brief(resp, ok))
	if !ok {
		m.lost(p, again)
		return
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		m.refused("offset", code)
		return
	}
	x.offset = true
}

func (m *txnModel) end(p *modelProducer) {
	x := p.open()
	if x == nil || len(x.records) == 0 && !x.offset {
		return // a full disk refused what it began with
	}
	m.sendEnd(p, x, m.rng.IntN(3) > 0)
}

func (m *txnModel) sendEnd(p *modelProducer, x *modelTxn, commit bool) {
	p.ending = false
	was := prod{p.id, p.pid, p.epoch}
	resp, ok := ask[*kmsg.EndTxnResponse](m, p.newer, &kmsg.EndTxnRequest{TransactionalID: p.id, ProducerID: p.pid, ProducerEpoch: p.epoch, Commit: commit})
	m.logf("%s: end %d, commit %v: %s", p.id, x.n, commit, brief(resp, ok))
	if !ok {
		if m.lost(p, func() { m.sendEnd(p, x, commit) }); m.tcp {
			p.ending, p.commit = true, commit
		} else if commit {
			x.outcome = isUnknown
		}
		return
	}
	if resp.ErrorCode != 0 {
		m.refused("end", resp.ErrorCode)
		p.again = nil
		return
	}
	if x.outcome = isCommitted; !commit {
		x.outcome = isAborted
	}
	m.kinds["ended, "+x.outcome.String()]++
	p.last, p.lastCommit, p.lastNewer, p.repeatable, p.added = was, commit, p.newer, true, map[string]bool{}
	if p.newer {
		if resp.ProducerID != p.pid || resp.ProducerEpoch != p.epoch+1 {
			m.fatalf("%s: end: %+v", p.id, resp)
		}
		p.epoch = resp.ProducerEpoch
		p.sequence = map[string]int32{}
	}
	if m.rng.IntN(4) == 0 {
		m.repeat(p)
	}
}

// repeat asks again for the end that was answered.
func (m *txnModel) repeat(p *modelProducer) {
	if !p.repeatable || p.open() != nil {
		return
	}
	for _, commit := range []bool{p.lastCommit, !p.lastCommit} {
		resp, ok := ask[*kmsg.EndTxnResponse](m, p.lastNewer, &kmsg.EndTxnRequest{TransactionalID: p.id, ProducerID: p.last.pid, ProducerEpoch: p.last.epoch, Commit: commit})
		m.logf("%s: end again, commit %v: %s", p.id, commit, brief(resp, ok))
		switch {
		case !ok:
			m.lost(p, nil)
			return
		case commit == p.lastCommit && resp.ErrorCode != 0, commit != p.lastCommit && resp.ErrorCode != kerr.InvalidTxnState.Code, commit == p.lastCommit && p.lastNewer && resp.ProducerEpoch != p.epoch:
			if resp.ErrorCode != kerr.ConcurrentTransactions.Code {
				m.fatalf("%s: end again, commit %v after %v: %+v", p.id, commit, p.lastCommit, resp)
			}
		}
	}
	m.kinds["repeated"]++
}

// zombie lets a producer that was fenced try everything.
func (m *txnModel) zombie(p *modelProducer) {
	if len(p.old) == 0 {
		return
	}
	z := p.old[m.rng.IntN(len(p.old))]
	m.kinds["zombie"]++
	resp, ok := ask[*kmsg.ProduceResponse](m, p.newer, produceReq(z, "t0", 0, m.batch(z, int32(m.rng.IntN(3)), []string{"zombie"})))
	if !ok {
		m.lost(p, nil)
		return
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != kerr.InvalidProducerEpoch.Code && code != kerr.InvalidProducerIDMapping.Code {
		m.fatalf("%s: a write of epoch %d: %v", p.id, z.epoch, kerr.ErrorForCode(code))
	}
	end, ok := ask[*kmsg.EndTxnResponse](m, p.newer, &kmsg.EndTxnRequest{TransactionalID: p.id, ProducerID: z.pid, ProducerEpoch: z.epoch, Commit: m.rng.IntN(2) == 0})
	if !ok {
		m.lost(p, nil)
		return
	}
	if end.ErrorCode == 0 || p.open() != nil && end.ErrorCode != kerr.ProducerFenced.Code && end.ErrorCode != kerr.InvalidProducerIDMapping.Code {
		m.fatalf("%s: an end of epoch %d: %v", p.id, z.epoch, kerr.ErrorForCode(end.ErrorCode))
	}
}

func (m *txnModel) step() {
	p := m.producers[m.rng.IntN(len(m.producers))]
	if p.mixed && p.again == nil {
		p.newer = m.rng.IntN(2) == 0
	}
	r := m.rng.IntN(100)
	switch {
	case !p.ready:
		m.init(p)
	case p.again != nil:
		again := p.again
		p.again = nil
		m.kinds["sent again"]++
		again()
	case r < 45:
		m.write(p)
	case r < 55:
		m.commitOffset(p)
	case r < 83:
		m.end(p)
	case r < 86:
		m.init(p)
	case r < 89:
		m.zombie(p)
	case r < 91:
		m.repeat(p)
	case r < 92:
		n := m.l.Compact()
		m.logf("compacted %d", n)
		m.kinds["compacted"] += n
	case r < 95:
		space, _ := m.fs.Space("")
		free := m.rng.Int64N(100_000)
		m.fs.SetCapacity(space.Total - space.Free + free)
		m.logf("%d bytes are free", free)
		m.kinds["little space"]++
	default:
		m.fs.SetCapacity(1 << 40)
	}
}

// stop ends the process in some way and starts another.
func (m *txnModel) stop() {
	how := "killed"
	if m.isDead() {
		how = "died"
	}
	if how != "died" && m.rng.IntN(4) == 0 {
		how = "closed"
		m.fs.SetCapacity(1 << 40)
		m.close()
		m.fs = m.fs.Kill()
	} else {
		m.mu.Lock()
		m.dead = true
		m.mu.Unlock()
		m.close()
		m.crash()
	}
	m.kinds[how]++
	m.logf("the process is %s", how)
	for _, p := range m.producers {
		if m.tcp {
			continue
		}
		if p.ready {
			p.old = append(p.old, prod{p.id, p.pid, p.epoch})
		}
		p.begin()
	}
	m.fs.SetCapacity(1 << 40)
	m.start()
	m.topics() // creating them may have been cut short
	m.check()
}

// check compares what can be seen with what was answered. Nothing is open: all producers are of this process.
func (m *txnModel) check() {
	m.t.Helper()
	open := slices.ContainsFunc(m.producers, func(p *modelProducer) bool { return m.tcp && (p.open() != nil || !p.ready) })
	seen := map[string]string{} // value to partition
	for i := range modelTopics {
		for part := range int32(modelPartitions) {
			key := fmt.Sprintf("t%d-%d", i, part)
			for _, v := range m.read(fmt.Sprint("t", i), part, open) {
				if was, twice := seen[v]; twice {
					m.fatalf("%s is in %s and in %s", v, was, key)
				}
				seen[v] = key
			}
		}
	}
	for _, p := range m.producers {
		offset := int64(-1)
		os, err := m.l.Admin().FetchOffsets(m.t.Context(), p.id)
		if err != nil {
			m.fatalf("offsets of %s: %v", p.id, err)
		}
		os.Each(func(o kadm.OffsetResponse) { offset = o.At })
		want := int64(-1)
		for _, x := range p.txns {
			have, total := 0, 0
			for key, values := range x.records {
				for _, v := range values {
					if total++; seen[v] == key {
						have++
					}
				}
			}
			if x.outcome == isUnknown {
				m.kinds["unknown"]++
				switch {
				case have == total && total > 0, total == 0 && offset == int64(x.n):
					x.outcome = isCommitted
				default:
					x.outcome = isAborted
				}
			}
			deciding := x.outcome == isOpen && p.ending // all or none
			// Behind what others have open nothing can be read.
			missing := have != total && !open
			if x.outcome == isCommitted && missing || x.outcome == isAborted && have != 0 || x.outcome == isOpen && have != 0 && !(deciding && p.commit && !missing) {
				m.fatalf("%s, transaction %d is %v; %d of %d records can be read: %v", p.id, x.n, x.outcome, have, total, x.records)
			}
			if x.offset && (x.outcome == isCommitted || deciding && p.commit && offset == int64(x.n)) {
				want = int64(x.n)
			}
			for _, values := range x.records {
				for _, v := range values {
					delete(seen, v)
				}
			}
		}
		if offset != want {
			m.fatalf("the offset of %s is %d, want %d", p.id, offset, want)
		}
	}
	// What is left was written by requests that were not answered: it must not be seen, since nobody committed it.
	for v, key := range seen {
		m.fatalf("%s in %s was never answered, and can be read", v, key)
	}
}

// read is what a read_committed consumer sees of a partition, to its end: unless some transaction is open nothing may hold it back.
func (m *txnModel) read(topic string, part int32, open bool) (values []string) {
	m.t.Helper()
	ends := func(isolation int8) int64 {
		req := &kmsg.ListOffsetsRequest{ReplicaID: -1, IsolationLevel: isolation}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = part, -1, -1
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		resp, ok := ask[*kmsg.ListOffsetsResponse](m, true, req)
		if !ok || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			m.fatalf("end of %s-%d: %+v", topic, part, resp)
		}
		return resp.Topics[0].Partitions[0].Offset
	}
	end, stable := ends(0), ends(1)
	if end != stable && !open {
		m.fatalf("%s-%d ends at %d and is stable to %d: a transaction is open after the start", topic, part, end, stable)
	}
	for from := int64(0); from < stable; {
		req := &kmsg.FetchRequest{ReplicaID: -1, MaxBytes: 1 << 20, SessionEpoch: -1, IsolationLevel: 1}
		req.ReplicaState.ID, req.ReplicaState.Epoch = -1, -1
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch, rp.LastFetchedEpoch, rp.LogStartOffset = part, from, 1<<20, -1, -1, -1
		req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, Partitions: []kmsg.FetchRequestTopicPartition{rp}}}
		resp, ok := ask[*kmsg.FetchResponse](m, true, req)
		if !ok {
			m.fatalf("fetch %s-%d: no answer", topic, part)
		}
		fp := resp.Topics[0].Partitions[0]
		vs, err := batch.Split(nil, fp.RecordBatches)
		if err != nil || fp.ErrorCode != 0 || len(vs) == 0 {
			m.fatalf("fetch %s-%d from %d: error %d, %d batches, %v", topic, part, from, fp.ErrorCode, len(vs), err)
		}
		aborted := map[int64]bool{}
		for _, v := range vs {
			for len(fp.AbortedTransactions) > 0 && fp.AbortedTransactions[0].FirstOffset <= v.LastOffset() {
				aborted[fp.AbortedTransactions[0].ProducerID] = true
				fp.AbortedTransactions = fp.AbortedTransactions[1:]
			}
			from = v.NextOffset()
			if v.IsControl() {
				if mk, _, _ := v.Marker(); !mk.Commit {
					delete(aborted, v.ProducerID())
				}
				continue
			}
			if aborted[v.ProducerID()] {
				continue
			}
			for r := range v.Records() {
				values = append(values, string(r.Key))
			}
		}
	}
	return values
}

func runTxnModel(t *testing.T, seed uint64, kinds map[string]int) {
	m := &txnModel{t: t, seed: seed, tcp: seed%2 == 1, rng: rand.New(rand.NewPCG(seed, 2)), fs: vfs.NewCrashable(), kinds: kinds}
	for i := range 4 {
		m.producers = append(m.producers, &modelProducer{id: fmt.Sprint("p", i), newer: i != 1, mixed: i == 3})
	}
	m.start()
	m.topics()
	for range 3 + m.rng.IntN(3) {
		if m.rng.IntN(3) > 0 {
			m.mu.Lock()
			m.dieAt = m.calls + 1 + m.rng.IntN(250)
			m.mu.Unlock()
		}
		for range m.rng.IntN(80) {
			if m.isDead() {
				break
			}
			m.step()
		}
		m.stop()
	}
	// Whatever is open can be ended.
	for _, p := range m.producers {
		for p.again != nil {
			again := p.again
			p.again = nil
			again()
		}
		switch x := p.open(); {
		case x == nil || !p.ready:
		case len(x.records) == 0 && !x.offset: // a full disk refused what it began with
			x.outcome = isAborted
		default:
			m.sendEnd(p, x, true)
		}
		if !p.ready {
			m.init(p)
		}
	}
	m.check()
	m.close()
}

func TestTransactionsAgreeWithTheModelAcrossStopsAndFaults(t *testing.T) {
	kinds := map[string]int{}
	seeds := trial.Seeds(100)
	for _, seed := range seeds {
		runTxnModel(t, seed, kinds)
	}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		t.Logf("%s: %d", k, kinds[k])
	}
	for _, k := range []string{"closed", "killed", "died", "died while it started", "unknown", "ended, committed", "ended, aborted", "aborted by init", "zombie", "repeated", "sent again", "compacted", "little space", "refused"} {
		if len(seeds) >= 100 && kinds[k] == 0 {
			t.Errorf("%q never happened", k)
		}
	}
}
