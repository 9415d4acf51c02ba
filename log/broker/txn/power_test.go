package txn

import (
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/deploy/trial"
	"millrace/log/internal/batch"
	"millrace/log/internal/store"
	"millrace/log/internal/vfs"
)

// asked is a transaction that a producer was in when the power was lost, or before.
type asked struct {
	values  []string
	parts   []Partition // of the values
	offset  int64       // that was committed for the group of the producer's name; 0: none
	ending  bool        // its end was asked for
	version int16       // in which it was, or will be: of the older flow or the newer
	commit  bool
	decided bool // and answered
}

// copier writes to all partitions in one transaction after the other until the power is lost.
type copier struct {
	Producer
	rng  *rand.Rand
	txns []*asked
}

func (w *copier) run(r *rig, dead *atomic.Bool) {
	for !dead.Load() {
		x := &asked{version: int16(4 + w.rng.IntN(2))}
		w.txns = append(w.txns, x)
		for i := range 1 + w.rng.IntN(3) {
			p := Partition{"a", int32(w.rng.IntN(2))}
			value := fmt.Sprintf("%s/%d/%d", w.TransactionalID, len(w.txns), i)
			if !w.write(r, p, value, dead) {
				return
			}
			x.values, x.parts = append(x.values, value), append(x.parts, p)
		}
		if w.rng.IntN(2) == 0 {
			if !w.commitOffset(r, int64(len(w.txns)), dead) {
				return
			}
			x.offset = int64(len(w.txns))
		}
		x.commit = w.rng.IntN(3) > 0
		if !w.end(r, x) {
			return
		}
	}
}

// write returns whether a write was acknowledged.
func (w *copier) write(r *rig, p Partition, value string, dead *atomic.Bool) bool {
	h, code, err := r.c.Hold(w.Producer, true, []Partition{p})
	for code == kerr.ConcurrentTransactions.Code && !dead.Load() { // it has the epoch of the one before
		goruntime.Gosched()
		h, code, err = r.c.Hold(w.Producer, true, []Partition{p})
	}
	if err != nil {
		return false
	}
	if code != 0 {
		if code != kerr.CoordinatorNotAvailable.Code && !dead.Load() {
			r.t.Errorf("%s: %v", w.TransactionalID, kerr.ErrorForCode(code))
		}
		return false
	}
	part := r.st.Get(p.Topic, p.Partition)
	a, err := part.Append([]batch.View{dataOf(w.ID, w.Epoch, value)}, store.AppendOpts{Origin: store.FromCoordinator})
	h.Release()
	return err == nil && part.WaitDurable(r.t.Context(), a.End) == nil
}

// commitOffset returns whether an offset was acknowledged. A write has begun the transaction.
func (w *copier) commitOffset(r *rig, offset int64, dead *atomic.Bool) bool {
	req := offsetCommit(w.Producer, w.TransactionalID, offset)
	type result struct {
		resp *kmsg.TxnOffsetCommitResponse
		err  error
	}
	c := make(chan result, 1)
	code, err := r.c.TxnOffsetCommit(req, func() {
		r.groups.TxnOffsetCommit(req, func(resp *kmsg.TxnOffsetCommitResponse, err error) { c <- result{resp, err} })
	})
	if code == 0 && err == nil {
		got := <-c
		code, err = got.resp.Topics[0].Partitions[0].ErrorCode, got.err
	}
	if code != 0 && !dead.Load() {
		r.t.Errorf("%s: offset: %v", w.TransactionalID, kerr.ErrorForCode(code))
	}
	return code == 0 && err == nil
}

// end returns whether the end of a transaction was answered.
func (w *copier) end(r *rig, x *asked) bool {
	x.ending = true
	type result struct {
		resp *kmsg.EndTxnResponse
		err  error
	}
	c := make(chan result, 1)
	req := &kmsg.EndTxnRequest{Version: x.version, TransactionalID: w.TransactionalID, ProducerID: w.ID, ProducerEpoch: w.Epoch, Commit: x.commit}
	r.c.EndTxn(req, func(resp *kmsg.EndTxnResponse, err error) { c <- result{resp, err} })
	got := <-c
	if got.err != nil || got.resp.ErrorCode == kerr.CoordinatorNotAvailable.Code {
		return false
	}
	if got.resp.ErrorCode != 0 {
		r.t.Errorf("%s: end: %v", w.TransactionalID, kerr.ErrorForCode(got.resp.ErrorCode))
		return false
	}
	x.decided = true
	if x.version >= 5 {
		w.ID, w.Epoch = got.resp.ProducerID, got.resp.ProducerEpoch
	}
	return true
}

// committed are the values of a partition whose transaction was committed, each once.
func (r *rig) committed(topic string, n int32) (values []string) {
	open := map[int64][]string{}
	err := r.st.Get(topic, n).Replay(0, func(v batch.View) error {
		if m, ok, _ := v.Marker(); ok {
			if m.Commit {
				values = append(values, open[v.ProducerID()]...)
			}
			delete(open, v.ProducerID())
			return nil
		}
		for rec := range v.Records() {
			open[v.ProducerID()] = append(open[v.ProducerID()], string(rec.Value))
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return values
}

// TestProducersAtATimeLoseThePower has several producers end transactions at a time, so that their records share syncs, until the power is
// lost: what was answered stays, each transaction is there as a whole or not at all, and its producer goes on with the one that is open.
func TestProducersAtATimeLoseThePower(t *testing.T) {
	for _, seed := range trial.Seeds(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		r := newRigOn(t, vfs.NewCrashable())
		for i := range 4 { // some run out of epochs
			r.state(txn{id: fmt.Sprint("x", i), state: empty, pid: int64(i), prevPID: -1, nextPID: -1, epoch: lastEpoch - int16(rng.IntN(6)) - 1, lastEpoch: -1, timeout: 60_000, start: -1})
		}
		r.open()
		var ws []*copier
		for i := range 4 {
			id := r.init(fmt.Sprint("x", i), -1, -1, false)
			ws = append(ws, &copier{Producer: Producer{fmt.Sprint("x", i), id.ProducerID, id.ProducerEpoch}, rng: rand.New(rand.NewPCG(seed, uint64(10+i)))})
		}
		for round := range 3 {
			var dead atomic.Bool
			left := 1 + rng.IntN(300)
			r.fs.Inject(func(vfs.Op, string) *vfs.Fault {
				if left--; left > 0 {
					return nil
				}
				dead.Store(true)
				return &vfs.Fault{Err: vfs.ErrDead}
			})
			var wg sync.WaitGroup
			for _, w := range ws {
				wg.Go(func() { w.run(r, &dead) })
			}
			wg.Wait()
			r.crash(rng.Uint64())
			r.open()
			for _, w := range ws {
				w.goOn(r)
			}
			for i, w := range ws {
				w.check(r, fmt.Sprintf("seed %d, round %d, producer %d", seed, round, i))
			}
		}
		r.close()
		r.fs = vfs.NewCrashable()
		r.openStore()
		if t.Failed() {
			return
		}
	}
}

// goOn ends what was open, as a client does that gets no answer: it asks again.
func (w *copier) goOn(r *rig) {
	r.t.Helper()
	if len(w.txns) == 0 || w.txns[len(w.txns)-1].decided {
		return
	}
	x := w.txns[len(w.txns)-1]
	if !x.ending { // a write was not acknowledged
		x.commit = false
	}
	if len(x.values) == 0 && !x.ending {
		t, _ := r.c.look(w.TransactionalID)
		if t.state != ongoing {
			x.decided = true
			return
		}
	}
	if !w.end(r, x) {
		r.t.Errorf("%s: its end is not answered: %s", w.TransactionalID, r.show(w.TransactionalID))
	}
}

func (w *copier) check(r *rig, what string) {
	seen := map[Partition][]string{}
	for n := range int32(2) {
		seen[Partition{"a", n}] = r.committed("a", n)
	}
	total, offset := 0, int64(-1)
	for n, x := range w.txns {
		if x.commit && x.offset > 0 {
			offset = x.offset
		}
		for i, value := range x.values {
			count := 0
			for _, v := range seen[x.parts[i]] {
				if v == value {
					count++
				}
			}
			want := 0
			if x.commit {
				want = 1
				total++
			}
			if count != want {
				r.t.Errorf("%s: %s of transaction %d (commit %v) is there %d times", what, value, n, x.commit, count)
			}
		}
	}
	if got := r.offset(w.TransactionalID); got != offset {
		r.t.Errorf("%s: the offset is %d, want %d", what, got, offset)
	}
	got := 0
	for _, vs := range seen {
		got += len(slices.DeleteFunc(slices.Clone(vs), func(v string) bool { return !strings.HasPrefix(v, w.TransactionalID+"/") }))
	}
	if got != total {
		r.t.Errorf("%s: %d values are committed, want %d", what, got, total)
	}
	for n := range int32(2) {
		if open := r.st.Get("a", n).OpenTxns(); len(open) > 0 {
			r.t.Errorf("%s: a-%d has open %v", what, n, open)
		}
	}
}
