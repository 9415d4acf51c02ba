package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/deploy/trial"
	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// The model test runs random operations against a store and a plain model of it,
// with stops of every kind at every call of the file system, and compares.
//
// It is deterministic: nothing runs in the background. The syncer is given no
// workers (its count of them is set to its limit), and the test runs what is queued.

type modelBatch struct {
	view    batch.View // as stored
	marker  bool
	commit  bool
	decided bool // a marker that would come again
	txn     bool
}

type sentBatch struct {
	seq   int32
	n     int
	value string
	stamp int64
	end   int64
}

type modelProducer struct {
	pid     int64
	epoch   int16
	next    int32
	txn     bool // writes transactions
	open    bool
	begun   bool        // the partition knows it
	pending []sentBatch // sent, not known to be durable
}

type modelPartition struct {
	tp        TopicPartition
	cfg       PartitionConfig
	created   bool // acknowledged
	deleting  bool // asked for, outcome open
	log       []modelBatch
	acked     int64 // everything below was reported durable
	start     int64 // acknowledged log start
	startMax  int64 // largest log start that may have been reached
	hw, lso   int64 // last seen in this run
	epoch     int32
	producers []*modelProducer
}

func (m *modelPartition) end() int64 {
	if len(m.log) == 0 {
		return m.start
	}
	return m.log[len(m.log)-1].view.NextOffset()
}

type model struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	fs    *vfs.Mem
	s     *Store
	o     Options
	clock time.Time
	parts map[TopicPartition]*modelPartition
	ops   []string
	calls int // of the file system
	dieAt int // call at which the process dies; 0 never
	dead  bool
	eioAt int // call that fails once
	topic int
	pids  int64
	kinds map[string]int
	kicks Kicks        // of partitions whose syncs are put off
	due   []*Partition // whose notes are
}

func (m *model) logf(format string, a ...any) { m.ops = append(m.ops, fmt.Sprintf(format, a...)) }

func (m *model) fatalf(format string, a ...any) {
	m.t.Helper()
	tail := m.ops[max(0, len(m.ops)-60):]
	m.t.Fatalf("seed %d (run it alone with MILLRACE_SEED=%d): %s\nlast operations:\n  %s", m.seed, m.seed, fmt.Sprintf(format, a...), strings.Join(tail, "\n  "))
}

func (m *model) arm() {
	m.fs.Inject(func(op vfs.Op, name string) *vfs.Fault {
		m.calls++
		if m.dieAt > 0 && m.calls >= m.dieAt {
			m.dead = true
		}
		if m.dead {
			short := 0
			if op == vfs.OpWrite && m.calls == m.dieAt {
				short = m.rng.IntN(100)
			}
			return &vfs.Fault{Err: vfs.ErrDead, Short: short}
		}
		if m.eioAt > 0 && m.calls == m.eioAt {
			m.kinds["eio "+string(op)]++
			m.logf("  EIO at %s %s", op, name)
			return &vfs.Fault{Err: syscall.EIO, Short: m.rng.IntN(40)}
		}
		return nil
	})
}

// open opens the store; if the process dies in it, that counts as another crash.
// It reports whether a loss of power was among them.
func (m *model) open() (crashed bool) {
	for attempt := 0; ; attempt++ {
		m.calls, m.dead, m.dieAt, m.eioAt = 0, false, 0, 0
		if _, asked := trial.Again(); asked {
			if _, err := m.fs.Stat("data"); err == nil {
				m.t.Logf("before the start:\n%s", dump(m.t, m.fs))
			}
		}
		if attempt < 3 && m.rng.IntN(4) == 0 {
			m.dieAt = 1 + m.rng.IntN(60)
		}
		m.arm()
		s, err := Open(m.fs, "data", m.o)
		if err == nil {
			m.s = s
			s.syncer.workers = 1 << 20
			if !m.dead {
				m.dieAt = 0
				return crashed
			}
			m.finish() // it died where that is not noticed
		} else if !m.dead {
			m.fatalf("open: %v", err)
		}
		m.logf("died in open at call %d", m.dieAt)
		m.kinds["died in open"]++
		if m.rng.IntN(2) == 0 {
			m.fs, crashed = m.fs.Crash(m.rng.Uint64()), true
		} else {
			m.fs = m.fs.Kill()
		}
	}
}

// pump runs up to n queued syncs, all if n < 0. Those that were put off and notes may come later, but for all.
func (m *model) pump(n int) {
	all := n < 0
	if all || m.rng.IntN(2) == 0 {
		m.kicks.Start()
	}
	defer func() {
		if all || m.rng.IntN(2) == 0 {
			for _, p := range m.due {
				p.note()
			}
			m.due = nil
		}
	}()
	for ; n != 0; n-- {
		m.s.syncer.mu.Lock()
		if len(m.s.syncer.queue) == 0 {
			m.s.syncer.mu.Unlock()
			return
		}
		p := m.s.syncer.queue[0]
		m.s.syncer.queue = m.s.syncer.queue[1:]
		m.s.syncer.mu.Unlock()
		if p.runSync() {
			m.due = append(m.due, p)
		}
	}
}

// all are the partitions in a fixed order.
func (m *model) all() (ps []*modelPartition) {
	for _, p := range m.parts {
		ps = append(ps, p)
	}
	slices.SortFunc(ps, func(a, b *modelPartition) int { return compareTP(a.tp, b.tp) })
	return ps
}

func (m *model) pick() *modelPartition {
	ps := slices.DeleteFunc(m.all(), func(p *modelPartition) bool { return !p.created || p.deleting })
	if len(ps) == 0 {
		return nil
	}
	return ps[m.rng.IntN(len(ps))]
}

func (m *model) recs(n int, value string, stamp int64) []batch.Record {
	rs := make([]batch.Record, n)
	for i := range rs {
		rs[i] = batch.Record{Timestamp: stamp + int64(i%3), Key: []byte(strconv.Itoa(i)), Value: []byte(value)}
	}
	return rs
}

// append writes a batch and takes it into the model.
func (m *model) append(mp *modelPartition, v batch.View, o AppendOpts) (Appended, error) {
	p := m.s.Get(mp.tp.Topic, mp.tp.Partition)
	switch m.rng.IntN(4) {
	case 0:
		o.Lazy = true
	case 1:
		o.Kicks = &m.kicks
	}
	a, err := p.Append([]batch.View{v}, o)
	if err != nil {
		code, ok := batch.CodeOf(err)
		if !(ok && code == batch.StorageError) && !errors.Is(err, ErrOutcomeUnknown) {
			m.fatalf("append to %v: %v", mp.tp, err)
		}
		return a, err
	}
	if a.Duplicate {
		return a, nil
	}
	if a.Base != mp.end() || a.Base != v.BaseOffset() || a.End != v.NextOffset() {
		m.fatalf("append to %v went to %+v, want %d", mp.tp, a, mp.end())
	}
	mk, isMarker, _ := v.Marker()
	mp.log = append(mp.log, modelBatch{view: slices.Clone(v), marker: isMarker, commit: mk.Commit, decided: o.Decided, txn: v.Transactional()})
	if o.Lazy && m.rng.IntN(2) == 0 {
		return a, nil // nobody waits
	}
	p.AfterDurable(a.End, func(err error) {
		if err == nil {
			if m.o.Fsync == FsyncGroup || mp.cfg.Internal {
				mp.acked = max(mp.acked, a.End)
			}
		} else if code, _ := batch.CodeOf(err); !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrClosed) && code != batch.UnknownTopicOrPartition {
			m.t.Errorf("seed %d: wait for %d of %v: %v", m.seed, a.End, mp.tp, err)
		}
	})
	return a, nil
}

func (m *model) step() {
	mp := m.pick()
	r := m.rng.IntN(100)
	if mp == nil {
		if len(m.parts) < 4 && m.s.usable() == nil {
			m.create()
		}
		return
	}
	switch {
	case r < 15:
		n := 1 + m.rng.IntN(4)
		value := strings.Repeat("p", m.rng.IntN(200))
		codec := batch.Codec(m.rng.IntN(5))
		_, err := m.append(mp, batch.Build(batch.Options{Codec: codec}, m.recs(n, value, m.stamp())...), AppendOpts{})
		m.logf("plain %v: %v", mp.tp, err)
	case r < 45:
		pr := mp.producers[m.rng.IntN(len(mp.producers))]
		m.produce(mp, pr)
	case r < 55:
		pr := mp.producers[m.rng.IntN(len(mp.producers))]
		if pr.txn && pr.open {
			commit := m.rng.IntN(2) == 0
			o := AppendOpts{Origin: FromCoordinator, Decided: m.rng.IntN(2) == 0}
			_, err := m.append(mp, batch.NewMarker(pr.pid, pr.epoch, batch.Marker{Commit: commit}, m.stamp()), o)
			m.logf("end txn %v pid %d commit %v decided %v: %v", mp.tp, pr.pid, commit, o.Decided, err)
			if err == nil {
				pr.open = false
			}
		}
	case r < 75:
		n := 1 + m.rng.IntN(3)
		m.logf("sync %d", n)
		m.pump(n)
	case r < 79:
		p := m.s.Get(mp.tp.Topic, 0)
		to := mp.start + m.rng.Int64N(p.HighWatermark()-mp.start+1)
		mp.startMax = max(mp.startMax, to)
		got, err := p.DeleteRecordsTo(to)
		m.logf("delete records of %v to %d: %d, %v", mp.tp, to, got, err)
		if err == nil {
			if got != max(to, mp.start) {
				m.fatalf("log start %d, want %d", got, to)
			}
			mp.start = got
		}
	case r < 83:
		for _, mp := range m.parts {
			mp.startMax = max(mp.startMax, mp.end())
		}
		m.clock = m.clock.Add(time.Duration(m.rng.IntN(100)) * time.Millisecond)
		err := m.s.Maintain()
		m.logf("maintain: %v", err)
		for _, mp := range m.parts {
			if p := m.s.Get(mp.tp.Topic, 0); p != nil && err == nil {
				mp.start = p.LogStart()
			}
		}
	case r < 84:
		err := m.s.Checkpoint()
		m.logf("checkpoint: %v", err)
	case r < 87:
		if len(m.parts) < 4 {
			m.create()
		}
	case r < 88:
		if m.rng.IntN(3) == 0 {
			m.pump(-1)
			mp.deleting = true
			err := m.s.Delete(mp.tp.Topic, 0)
			m.s.removals.Wait()
			m.logf("delete %v: %v", mp.tp, err)
			if err == nil {
				delete(m.parts, mp.tp)
			}
		}
	case r < 92:
		free := m.rng.Int64N(20000)
		space, _ := m.fs.Space("")
		m.fs.SetCapacity(space.Total - space.Free + free)
		m.logf("capacity: %d free", free)
		m.kinds["little space"]++
	case r < 94:
		m.fs.SetCapacity(1 << 40)
	case r < 97:
		m.check(mp)
	default:
		m.eioAt = m.calls + 1 + m.rng.IntN(20)
	}
}

func (m *model) stamp() int64 { return m.clock.UnixMilli() + m.rng.Int64N(50) - 25 }

func (m *model) produce(mp *modelPartition, pr *modelProducer) {
	if len(pr.pending) == windowSize {
		p := m.s.Get(mp.tp.Topic, 0)
		for len(pr.pending) > 0 && pr.pending[0].end <= p.HighWatermark() {
			pr.pending = pr.pending[1:]
		}
		if len(pr.pending) == windowSize {
			return
		}
	}
	if !pr.begun && mp.acked > 0 && m.rng.IntN(2) == 0 {
		// A producer that the partition does not know, soon to wrap.
		pr.next = 1<<31 - 1 - int32(m.rng.IntN(10))
	}
	b := sentBatch{seq: pr.next, n: 1 + m.rng.IntN(3), value: strings.Repeat("i", m.rng.IntN(100)), stamp: m.stamp()}
	a, err := m.append(mp, m.build(pr, b), AppendOpts{})
	m.logf("produce %v pid %d epoch %d seq %d: %+v %v", mp.tp, pr.pid, pr.epoch, b.seq, a, err)
	if err != nil {
		return
	}
	if a.Duplicate {
		m.fatalf("a new batch was taken for a duplicate")
	}
	b.end = a.End
	pr.begun = true
	pr.open = pr.open || pr.txn
	pr.next = batch.AddSequence(pr.next, int32(b.n))
	pr.pending = append(pr.pending, b)
	if m.rng.IntN(5) == 0 { // a retry at once
		b := pr.pending[m.rng.IntN(len(pr.pending))]
		a, err := m.append(mp, m.build(pr, b), AppendOpts{})
		if err == nil && (!a.Duplicate || a.End != b.end) {
			m.fatalf("retry of sequence %d: %+v, want a duplicate ending at %d", b.seq, a, b.end)
		}
	}
}

func (m *model) build(pr *modelProducer, b sentBatch) batch.View {
	return batch.Build(batch.Options{Producer: &batch.Producer{ID: pr.pid, Epoch: pr.epoch, Sequence: b.seq}, Transactional: pr.txn}, m.recs(b.n, b.value, b.stamp)...)
}

func (m *model) create() {
	m.topic++
	tp := TopicPartition{fmt.Sprintf("t%d", m.topic), 0}
	c := DefaultConfig()
	c.SegmentBytes = int64(300 + m.rng.IntN(3000))
	c.IndexInterval = 1 + m.rng.IntN(600)
	c.Internal = m.rng.IntN(3) == 0
	c.TimestampAfter = -1
	if m.rng.IntN(3) == 0 {
		c.RetentionBytes = int64(m.rng.IntN(5000))
	}
	if m.rng.IntN(3) == 0 {
		c.RetentionTime = time.Duration(m.rng.IntN(1000)) * time.Millisecond
	}
	mp := &modelPartition{tp: tp, cfg: c}
	for i := range 3 {
		m.pids++
		mp.producers = append(mp.producers, &modelProducer{pid: m.pids, txn: i == 2})
	}
	m.parts[tp] = mp
	p, err := m.s.Create(tp, [16]byte{byte(m.topic)}, c)
	m.logf("create %v: %v", tp, err)
	if err != nil {
		if m.dead || m.s.offline.Load() != nil {
			return // it may be there after the next start
		}
		delete(m.parts, tp)
		if code, _ := batch.CodeOf(err); code != batch.StorageError {
			m.fatalf("create: %v", err)
		}
		return
	}
	mp.created = true
	if p.End() != 0 || p.TopicID()[0] != byte(m.topic) {
		m.fatalf("created %v with end %d, id %v", tp, p.End(), p.TopicID())
	}
}

// stop ends the process in one of all ways.
func (m *model) stop() {
	how := []string{"close", "kill", "crash", "crash", "crash", "die", "die", "die"}[m.rng.IntN(8)]
	failed := m.s.offline.Load() != nil
	if m.dead {
		how = "die"
	}
	m.kinds[how]++
	exact := false // nothing may be missing
	switch how {
	case "close":
		m.fs.SetCapacity(1 << 40)
		m.dieAt, m.eioAt = 0, 0
		m.pump(-1)
		failed = m.s.offline.Load() != nil
		m.finish()
		exact = !failed
		if _, err := m.fs.Stat("data/" + cleanFile); (err == nil) != !failed {
			m.fatalf("clean marker after a stop (failed %v): %v", failed, err)
		}
		if m.rng.IntN(2) == 0 {
			how = "close, then crash"
			m.fs = m.fs.Crash(m.rng.Uint64())
		} else {
			m.fs = m.fs.Kill()
		}
	case "kill":
		m.dead = true // no goroutine of ours does anything more
		m.finish()
		m.fs = m.fs.Kill()
		exact = !failed
	default:
		if m.rng.IntN(3) == 0 && !m.dead {
			// The process dies while it stops.
			m.dieAt = m.calls + 1 + m.rng.IntN(30)
			m.fs.SetCapacity(1 << 40)
			m.pump(-1)
			how += " while stopping"
			m.finish()
		} else {
			m.dead = true
			m.finish()
		}
		if how == "die" && m.rng.IntN(4) == 0 {
			how = "die, killed"
			m.fs = m.fs.Kill()
		} else {
			m.fs = m.fs.Crash(m.rng.Uint64())
		}
	}
	m.logf("stop: %s (offline %v)", how, failed)
	m.fs.SetCapacity(1 << 40)
	crashed := m.open()
	m.recovered(exact && !crashed)
}

// finish ends the store's goroutines. Close waits for syncs, which nobody runs but us.
func (m *model) finish() {
	done := make(chan struct{})
	go func() { m.s.Close(); close(done) }()
	for {
		select {
		case <-done:
			return
		default:
			m.pump(-1)
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// recovered brings the model in line with what a start found, after checking that it may be so.
func (m *model) recovered(exact bool) {
	for _, mp := range m.all() {
		tp := mp.tp
		p := m.s.Get(tp.Topic, 0)
		switch {
		case p == nil && mp.created && !mp.deleting:
			m.fatalf("%v is gone", tp)
		case p == nil:
			delete(m.parts, tp)
			continue
		}
		mp.created, mp.deleting = true, false
		p.SetConfig(mp.cfg)
		end := p.End()
		written := mp.end()
		if end < mp.acked || end > max(written, p.LogStart()) || exact && end != written {
			m.fatalf("%v: recovered to %d; %d were acknowledged, %d written, exact %v", tp, end, mp.acked, written, exact)
		}
		if p.LogStart() < mp.start || p.LogStart() > max(mp.start, mp.startMax) {
			m.fatalf("%v: log start %d, want [%d, %d]", tp, p.LogStart(), mp.start, mp.startMax)
		}
		n := len(mp.log)
		for n > 0 && mp.log[n-1].view.NextOffset() > end {
			n--
		}
		if n < len(mp.log) && p.LeaderEpoch() == mp.epoch && (m.o.Fsync != FsyncGroup && !mp.cfg.Internal) {
			// Consumers may have seen what is gone: they must be able to notice. With group
			// sync nobody saw it.
			m.kinds["cut in a weak mode"]++
		}
		mp.log = mp.log[:n]
		if n > 0 && mp.log[n-1].view.NextOffset() != end {
			if end > p.LogStart() {
				m.fatalf("%v: recovered to %d, which is inside a batch", tp, end)
			}
			mp.log = nil // what was there is below the log start, which survived although it did not
		}
		if weak := m.o.Fsync != FsyncGroup && !mp.cfg.Internal; weak && !exact && p.LogStart() > 0 {
			// Deleted records may have been lost before they were synced, and with them what
			// they said of producers. Nothing is promised; the model does not follow.
			m.kinds["not followed"]++
			delete(m.parts, tp)
			continue
		}
		mp.start, mp.startMax = p.LogStart(), p.LogStart()
		mp.acked = max(mp.acked, min(end, p.Durable()))
		mp.hw, mp.lso = 0, 0
		if len(p.Damaged()) > 0 {
			m.fatalf("%v: damaged %+v, but nothing was", tp, p.damage())
		}
		if err := checkIndexes(p); err != nil {
			m.fatalf("%v", err)
		}
		for _, e := range listDir(m.t, m.fs, p.dir) {
			if strings.HasSuffix(e.Name(), tmpSuffix) || strings.HasSuffix(e.Name(), deletedSuffix) {
				m.fatalf("%s is left over", e.Name())
			}
		}
		m.resume(mp)
		m.check(mp)
	}
	if _, err := m.fs.Stat("data/" + cleanFile); !errors.Is(err, fs.ErrNotExist) {
		m.fatalf("the clean marker is still there: %v", err)
	}
}

// resume is what clients do after a restart: idempotent ones resend what was not
// acknowledged, the coordinator aborts what is open and fences.
func (m *model) resume(mp *modelPartition) {
	for _, pr := range mp.producers {
		pr.begun = true
		inLog := map[int32]int64{} // first sequence to end
		open := false
		last := int32(-1)
		for _, b := range mp.log {
			if v := b.view; v.ProducerID() == pr.pid {
				if b.marker {
					open = false
				} else if v.ProducerEpoch() == pr.epoch {
					inLog[v.BaseSequence()] = v.NextOffset()
					last = v.LastSequence()
					open = open || b.txn
				}
			}
		}
		if pr.txn {
			if open || m.rng.IntN(3) == 0 {
				if _, err := m.append(mp, batch.NewMarker(pr.pid, pr.epoch+1, batch.Marker{}, m.stamp()), AppendOpts{Origin: FromCoordinator}); err != nil {
					m.fatalf("abort after the restart: %v", err)
				}
			}
			pr.epoch++
			pr.next, pr.open, pr.pending = 0, false, nil
			continue
		}
		pending := pr.pending
		if m.o.Fsync != FsyncGroup && !mp.cfg.Internal {
			// Acknowledged batches may be gone; the client does not know. It begins a new epoch.
			pr.epoch, pr.next, pr.pending = pr.epoch+1, 0, nil
			continue
		}
		for i := range pending {
			b := &pending[i]
			a, err := m.append(mp, m.build(pr, *b), AppendOpts{})
			end, had := inLog[b.seq]
			if err != nil || a.Duplicate != had || had && a.End != end {
				m.fatalf("%v: resend of pid %d sequence %d: %+v %v; in the log: %v, ending at %d (last %d)", mp.tp, pr.pid, b.seq, a, err, had, end, last)
			}
			b.end = a.End
			m.kinds[fmt.Sprintf("resent, duplicate %v", had)]++
		}
	}
}

func runModel(t *testing.T, seed uint64, kinds map[string]int) {
	m := &model{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), fs: vfs.NewCrashable(), parts: map[TopicPartition]*modelPartition{}, kinds: kinds,
		clock: time.UnixMilli(1_700_000_000_000)}
	m.o = quiet()
	if _, asked := trial.Again(); asked {
		m.o.Logger = testLogger(t)
	}
	m.o.MaxSyncs = 1
	m.o.ProducerExpiry = 1000 * time.Hour
	m.o.MaxOpenFiles = 1 + m.rng.IntN(8)
	m.o.Now = func() time.Time { return m.clock }
	if m.rng.IntN(3) == 0 {
		m.o.Ballast = 4096
	}
	if m.rng.IntN(6) == 0 {
		m.o.Fsync = FsyncNever
	}
	m.logf("fsync %v, ballast %d", m.o.Fsync, m.o.Ballast)
	m.open()
	for range 3 + m.rng.IntN(3) {
		if m.rng.IntN(2) == 0 {
			m.dieAt = m.calls + 1 + m.rng.IntN(150)
		}
		for range m.rng.IntN(60) {
			if m.dead {
				break
			}
			m.step()
		}
		m.stop()
	}
	m.dead = true
	m.finish()
}

// metBefore are seeds that found something: a snapshot that a stop left at the log's end without its
// index files, where a segment began later.
var metBefore = []uint64{1796016709595550}

func TestStoreAgreesWithTheModelAcrossStopsAndFaults(t *testing.T) {
	kinds := map[string]int{}
	seeds := trial.Seeds(1500)
	if _, asked := trial.Again(); !asked {
		seeds = append(seeds, metBefore...)
	}
	for _, seed := range seeds {
		runModel(t, seed, kinds)
	}
	t.Logf("%v", kinds)
	for _, k := range []string{"close", "kill", "crash", "die", "died in open", "eio sync", "little space", "resent, duplicate true", "resent, duplicate false"} {
		if len(seeds) >= 300 && kinds[k] == 0 {
			t.Errorf("%q never happened", k)
		}
	}
}
