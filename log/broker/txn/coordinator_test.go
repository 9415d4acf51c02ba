package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/batch"
	"millrace/log/internal/store"
	"millrace/log/internal/vfs"
)

func TestATransactionThatTakesTooLongIsAborted(t *testing.T) {
	r := newRig(t)
	c := r.open()
	i := r.init("x", -1, -1, false)
	p := Producer{"x", i.ProducerID, i.ProducerEpoch}
	if code := r.write(p, "a", 0); code != 0 {
		t.Fatal(code)
	}
	c.scan(c.nowMs() + 59_000)
	if got := r.show("x"); got != fmt.Sprintf("Ongoing %d/0 a-0", p.ID) {
		t.Errorf("before its time: %s", got)
	}
	c.scan(c.nowMs() + 61_000)
	within(t, "it is aborted", func() bool { return r.show("x") == fmt.Sprintf("CompleteAbort %d/1", p.ID) })
	if got := r.log("a", 0); got != fmt.Sprintf("%d/0 -%d/1", p.ID, p.ID) {
		t.Errorf("a-0 is %s", got)
	}
	if code := r.write(p, "a", 0); code != kerr.ProducerFenced.Code {
		t.Errorf("a write afterwards: %d", code)
	}
	if resp := r.end(p, true, 5); resp.ErrorCode != kerr.InvalidTxnState.Code {
		t.Errorf("a commit afterwards: %+v", resp)
	}
	// Its producer aborts, and goes on.
	resp := r.end(p, false, 5)
	if resp.ErrorCode != 0 || resp.ProducerEpoch != 1 {
		t.Fatalf("an abort afterwards: %+v", resp)
	}
	p.Epoch = resp.ProducerEpoch
	if code := r.write(p, "a", 0); code != 0 {
		t.Errorf("a write in the next transaction: %d", code)
	}
}

func TestIdsThatNobodyUsesAreForgotten(t *testing.T) {
	r := newRig(t)
	c := r.open()
	x, y := r.init("x", -1, -1, false), r.init("y", -1, -1, false)
	if code := r.write(Producer{"y", y.ProducerID, 0}, "a", 0); code != 0 {
		t.Fatal(code)
	}
	week := (7*24*time.Hour + time.Minute).Milliseconds()
	c.scan(c.nowMs() + week - 2*60_000)
	within(t, "y is aborted", func() bool { return r.show("y") == fmt.Sprintf("CompleteAbort %d/1", y.ProducerID) })
	if r.show("x") == "unknown" {
		t.Error("x was forgotten before its time")
	}
	c.scan(c.nowMs() + week)
	for _, id := range []string{"x", "y"} {
		if got := r.show(id); got != "unknown" {
			t.Errorf("%s is %s", id, got)
		}
	}
	if resp := r.end(Producer{"x", x.ProducerID, 0}, true, 5); resp.ErrorCode != kerr.InvalidProducerIDMapping.Code {
		t.Errorf("%+v", resp)
	}
	r.restart()
	r.open()
	if got := r.show("x"); got != "unknown" {
		t.Errorf("after a restart x is %s", got)
	}
	if again := r.init("x", -1, -1, false); again.ErrorCode != 0 || again.ProducerID == x.ProducerID {
		t.Errorf("%+v", again)
	}
}

func TestIdsAreBounded(t *testing.T) {
	r := newRig(t)
	r.limits.MaxIDs = 3
	c := r.open()
	for i := range 3 {
		if resp := r.init(fmt.Sprint(i), -1, -1, false); resp.ErrorCode != 0 {
			t.Fatal(resp.ErrorCode)
		}
	}
	if resp := r.init("one more", -1, -1, false); resp.ErrorCode != kerr.PolicyViolation.Code {
		t.Errorf("%+v", resp)
	}
	if resp := r.init("0", -1, -1, false); resp.ErrorCode != 0 || resp.ProducerEpoch != 1 {
		t.Errorf("an id that is there: %+v", resp)
	}
	c.scan(c.nowMs() + (8 * 24 * time.Hour).Milliseconds())
	if resp := r.init("one more", -1, -1, false); resp.ErrorCode != 0 {
		t.Errorf("when others are forgotten: %+v", resp)
	}
}

// An id whose producer id could not be had is not kept.
func TestAnIdWithoutAProducerIsNotKept(t *testing.T) {
	r := newRig(t)
	c := r.open()
	ids := c.ids
	c.ids = func() (int64, error) { return 0, &batch.Error{Code: batch.StorageError, Reason: "the disk is full"} }
	if resp := r.init("x", -1, -1, false); resp.ErrorCode != kerr.CoordinatorNotAvailable.Code {
		t.Errorf("%+v", resp)
	}
	if resp := c.DescribeTransactions(&kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{"x"}}); resp.TransactionStates[0].ErrorCode != kerr.TransactionalIDNotFound.Code {
		t.Errorf("%+v", resp)
	}
	c.scan(c.nowMs() + 2*60_000)
	if len(c.all()) != 0 {
		t.Error("it is kept")
	}
	c.ids = ids
	if resp := r.init("x", -1, -1, false); resp.ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
}

// A transaction does not end while somebody writes in it, and is not written to afterwards.
func TestWritesHoldTheTransaction(t *testing.T) {
	r := newRig(t)
	c := r.open()
	i := r.init("x", -1, -1, false)
	p := Producer{"x", i.ProducerID, 0}
	h, code, err := c.Hold(p, true, []Partition{{"a", 0}, {"a", 1}})
	if code != 0 || err != nil || !h.Has(Partition{"a", 1}) || h.Has(Partition{"b", 0}) {
		t.Fatal(code, err)
	}
	ended := make(chan *kmsg.EndTxnResponse, 1)
	c.EndTxn(&kmsg.EndTxnRequest{Version: 5, TransactionalID: "x", ProducerID: p.ID, Commit: true}, func(resp *kmsg.EndTxnResponse, err error) {
		if err != nil {
			t.Error(err)
		}
		ended <- resp
	})
	select {
	case resp := <-ended:
		t.Errorf("it ended while it was written to: %+v", resp)
	case <-time.After(50 * time.Millisecond):
	}
	r.append("a", 0, dataOf(p.ID, 0, "v"))
	h.Release()
	if resp := <-ended; resp.ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
	if got := r.log("a", 0); got != fmt.Sprintf("%d/0 +%d/1", p.ID, p.ID) {
		t.Errorf("a-0 is %s", got)
	}
	if _, code, _ := c.Hold(p, true, []Partition{{"a", 0}}); code != kerr.ProducerFenced.Code {
		t.Errorf("a write after the end: %d", code)
	}
}

// Many writers and ends at a time: every transaction has one outcome, and nothing stays open.
func TestManyAtATime(t *testing.T) {
	r := newRig(t)
	r.limits.ScanEvery = time.Millisecond
	c := r.open()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			id := fmt.Sprint("x", w%4) // two producers fence each other
			for n := range 20 {
				i := r.init(id, -1, -1, n%2 == 0)
				if i.ErrorCode != 0 {
					t.Errorf("init: %d", i.ErrorCode)
					return
				}
				p := Producer{id, i.ProducerID, i.ProducerEpoch}
				for part := range int32(2) {
					h, code, err := c.Hold(p, true, []Partition{{"a", part}})
					if err != nil || code != 0 && code != kerr.ProducerFenced.Code && code != kerr.ConcurrentTransactions.Code {
						t.Errorf("hold: %d, %v", code, err)
						return
					}
					if code == 0 {
						// The epoch of what another has fenced is not the present one: nothing is written.
						if _, err := r.st.Get("a", part).Append([]batch.View{dataOf(p.ID, p.Epoch, "v")}, store.AppendOpts{Origin: store.FromCoordinator}); err != nil {
							t.Errorf("append: %v", err)
						}
						h.Release()
					}
				}
				resp := r.end(p, n%3 > 0, 5)
				switch resp.ErrorCode {
				case 0, kerr.ProducerFenced.Code, kerr.InvalidTxnState.Code, kerr.ConcurrentTransactions.Code:
				default:
					t.Errorf("end: %d", resp.ErrorCode)
				}
			}
		})
	}
	wg.Wait()
	for w := range 4 {
		r.init(fmt.Sprint("x", w), -1, -1, false)
	}
	for part := range int32(2) {
		if open := r.st.Get("a", part).OpenTxns(); len(open) > 0 {
			t.Errorf("a-%d: %+v are open", part, open)
		}
	}
}

// The request of an administrator aborts the transaction everywhere, when it is one that is known.
func TestMarkersOfAdministrators(t *testing.T) {
	r := newRig(t)
	c := r.open()
	i := r.init("x", -1, -1, false)
	p := Producer{"x", i.ProducerID, 0}
	for part := range int32(2) {
		if code := r.write(p, "a", part); code != 0 {
			t.Fatal(code)
		}
	}
	r.append("b", 0, dataOf(77, 0, "nobody's"))
	mark := func(pid int64, epoch int16, commit bool, topic string, part int32) int16 {
		t.Helper()
		req := &kmsg.WriteTxnMarkersRequest{Version: 1, Markers: []kmsg.WriteTxnMarkersRequestMarker{{ProducerID: pid, ProducerEpoch: epoch, Committed: commit,
			Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic, Partitions: []int32{part}}}}}}
		resp := await(t, func(done func(*kmsg.WriteTxnMarkersResponse, error)) { c.WriteTxnMarkers(req, done) })
		return resp.Markers[0].Topics[0].Partitions[0].ErrorCode
	}
	for name, c := range map[string]struct{ got, want int16 }{
		"a commit of what is open":        {mark(p.ID, 0, true, "a", 0), kerr.InvalidTxnState.Code},
		"the state's own topic":           {mark(p.ID, 0, false, Topic, 0), kerr.UnknownTopicOrPartition.Code},
		"no topic":                        {mark(p.ID, 0, false, "none", 0), kerr.UnknownTopicOrPartition.Code},
		"no producer":                     {mark(-1, 0, false, "a", 0), kerr.InvalidProducerEpoch.Code},
		"no epoch":                        {mark(p.ID, -1, false, "a", 0), kerr.InvalidProducerEpoch.Code},
		"an abort of what is nobody's":    {mark(77, 0, false, "b", 0), 0},
		"an old epoch of what is over":    {mark(77, 0, false, "b", 0), 0},
		"an abort of what is open":        {mark(p.ID, 0, false, "a", 0), 0},
		"an old epoch after that":         {mark(p.ID, 0, false, "a", 0), kerr.InvalidProducerEpoch.Code},
		"a topic of offsets, of nobody's": {mark(78, 0, false, "__consumer_offsets", 0), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", name, c.got, c.want)
		}
	}
	for part := range int32(2) {
		if got := r.log("a", part); got != fmt.Sprintf("%d/0 -%d/1", p.ID, p.ID) {
			t.Errorf("a-%d is %s", part, got)
		}
	}
	if got := r.log("b", 0); got != "77/0 -77/0 -77/0" {
		t.Errorf("b-0 is %s", got)
	}
	if code := r.write(p, "a", 0); code != kerr.ProducerFenced.Code {
		t.Errorf("a write after the abort: %d", code)
	}
}

// A partition that is deleted does not keep a transaction from ending.
func TestADeletedTopicDoesNotHoldATransaction(t *testing.T) {
	r := newRig(t)
	r.open()
	i := r.init("x", -1, -1, false)
	p := Producer{"x", i.ProducerID, 0}
	for _, topic := range []string{"a", "b"} {
		if code := r.write(p, topic, 0); code != 0 {
			t.Fatal(code)
		}
	}
	if err := r.st.Delete("b", 0); err != nil {
		t.Fatal(err)
	}
	if resp := r.end(p, true, 5); resp.ErrorCode != 0 {
		t.Errorf("%+v", resp)
	}
	if got := r.log("a", 0); got != fmt.Sprintf("%d/0 +%d/1", p.ID, p.ID) {
		t.Errorf("a-0 is %s", got)
	}
}

// A coordinator that is closed answers nobody, and lets go of everything.
func TestClose(t *testing.T) {
	r := newRig(t)
	c := r.open()
	i := r.init("x", -1, -1, false)
	c.Close()
	c.EndTxn(&kmsg.EndTxnRequest{Version: 5, TransactionalID: "x", ProducerID: i.ProducerID}, func(_ *kmsg.EndTxnResponse, err error) {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
	})
	id := "x"
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &id, 1000
	c.InitProducerID(req, false, func(_ *kmsg.InitProducerIDResponse, err error) {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

// TestWhatAReaderSawStays loses the markers of a decided transaction, which a reader of committed records no longer waits for, with the
// power: the next start writes them again.
func TestWhatAReaderSawStays(t *testing.T) {
	lost := 0
	for n := range 16 {
		commit, seed := n%2 == 0, uint64(n/2)
		t.Run(fmt.Sprintf("commit %v, seed %d", commit, seed), func(t *testing.T) {
			r := newRigOn(t, vfs.NewCrashable())
			c := r.open()
			id := r.init("x", -1, -1, false)
			p := Producer{"x", id.ProducerID, id.ProducerEpoch}
			if code := r.write(p, "a", 0); code != 0 {
				t.Fatal(kerr.ErrorForCode(code))
			}
			part := r.st.Get("a", 0)
			r.fs.Inject(func(op vfs.Op, name string) *vfs.Fault {
				if op == vfs.OpSync && strings.Contains(name, "/a-0/") {
					return &vfs.Fault{Err: vfs.ErrDead}
				}
				return nil
			})
			answered := make(chan error, 1)
			req := &kmsg.EndTxnRequest{Version: 5, TransactionalID: p.TransactionalID, ProducerID: p.ID, ProducerEpoch: p.Epoch, Commit: commit}
			c.EndTxn(req, func(_ *kmsg.EndTxnResponse, err error) { answered <- err })
			select {
			case err := <-answered:
				if err == nil {
					t.Error("the client is told of an end whose marker is not durable")
				}
			case <-time.After(time.Minute):
				t.Fatal("no answer")
			}
			if part.LastStable() != 1 || part.HighWatermark() != 1 {
				t.Fatalf("last stable offset %d, durable %d: want the transaction shown and its marker lost", part.LastStable(), part.HighWatermark())
			}
			r.crash(seed) // some of what was not synced is left, or nothing
			if strings.HasSuffix(r.log("a", 0), "open: 1") {
				lost++
			}
			r.open()
			sign := map[bool]string{true: "+", false: "-"}[commit]
			if got := r.log("a", 0); !strings.HasPrefix(got, fmt.Sprintf("%d/%d %s%d/", p.ID, p.Epoch, sign, p.ID)) || strings.Contains(got, "open") {
				t.Errorf("after the start: %s", got)
			}
			sl, err := r.st.Get("a", 0).Read(0, store.ReadOpts{MaxBytes: 1 << 20, MinOne: true, Isolation: store.ReadCommitted})
			if err != nil || sl.LastStable < 1 || (len(sl.Aborted) == 0) != commit {
				t.Errorf("last stable offset %d, %d aborted transactions, %v", sl.LastStable, len(sl.Aborted), err)
			}
			sl.Release()
		})
	}
	if lost == 0 {
		t.Error("no marker was lost")
	}
}

// TestATransactionNeedsNoRecordOfItsOwn loses the power after writes and an offset were acknowledged, and with it what the state's log
// was not synced for: that the transaction before is complete, and that another has begun. Whoever would have ended it ends all of it.
func TestATransactionNeedsNoRecordOfItsOwn(t *testing.T) {
	lost := 0
	for name, c := range map[string]struct {
		embedded, commits bool
		end               func(r *rig, p Producer)
	}{
		"its producer goes on with it and commits": {commits: true, end: func(r *rig, p Producer) {
			r.mustWrite(p, "b", 0)
			if resp := r.end(p, true, 5); resp.ErrorCode != 0 {
				r.t.Fatal(kerr.ErrorForCode(resp.ErrorCode))
			}
			if got, want := r.log("b", 0), fmt.Sprintf("%d/%d +%d/%d", p.ID, p.Epoch, p.ID, p.Epoch+1); got != want {
				r.t.Errorf("b-0 is %s, want %s", got, want)
			}
		}},
		"its producer aborts": {end: func(r *rig, p Producer) {
			if resp := r.end(p, false, 5); resp.ErrorCode != 0 {
				r.t.Fatal(kerr.ErrorForCode(resp.ErrorCode))
			}
		}},
		"another producer takes its id": {end: func(r *rig, p Producer) {
			if resp := r.init("x", -1, -1, false); resp.ErrorCode != 0 {
				r.t.Fatal(kerr.ErrorForCode(resp.ErrorCode))
			}
		}},
		"it takes too long": {end: func(r *rig, p Producer) {
			r.c.scan(r.c.nowMs() + 61_000)
			within(r.t, "it is aborted", func() bool { return strings.HasPrefix(r.show("x"), "CompleteAbort") })
		}},
		"it belonged to the process that ended": {embedded: true, end: func(*rig, Producer) {}},
	} {
		for _, epoch := range []int16{1, lastEpoch - 1, lastEpoch} { // of the first transaction
			for _, first := range []bool{true, false} { // the power is lost in the first transaction, or in the second
				for seed := range uint64(3) {
					t.Run(fmt.Sprintf("%s, epoch %d, first %v, seed %d", name, epoch, first, seed), func(t *testing.T) {
						r := newRigOn(t, vfs.NewCrashable())
						r.state(txn{id: "x", state: empty, pid: 5, prevPID: -1, nextPID: -1, epoch: epoch - 1, lastEpoch: -1, timeout: 60_000, start: -1})
						r.open()
						id := r.init("x", -1, -1, c.embedded)
						p := Producer{"x", id.ProducerID, id.ProducerEpoch}
						before := ""
						if !first {
							r.mustWrite(p, "a", 0)
							before = fmt.Sprintf("%d/%d +%d/%d ", p.ID, p.Epoch, p.ID, p.Epoch+1)
							resp := r.end(p, true, 5)
							if p.ID, p.Epoch = resp.ProducerID, resp.ProducerEpoch; resp.ErrorCode != 0 {
								t.Fatal(kerr.ErrorForCode(resp.ErrorCode))
							}
						}
						known := r.st.Get(Topic, 0).HighWatermark()
						r.mustWrite(p, "a", 0)
						r.mustWrite(p, "a", 1)
						r.commitOffset(p, "g", 7)
						if got := r.st.Get(Topic, 0).HighWatermark(); got != known {
							t.Errorf("writing made the state's log durable from %d to %d", known, got)
						}
						r.crash(seed)
						if r.st.Get(Topic, 0).End() == known {
							lost++
						}
						r.open()
						if got, want := r.show("x"), fmt.Sprintf("Ongoing %d/%d __consumer_offsets-0 a-0 a-1", p.ID, p.Epoch); got != want && !c.embedded {
							t.Fatalf("after the start it is %s, want %s", got, want)
						}
						c.end(r, p)
						sign, offset := "-", int64(-1)
						if c.commits {
							sign, offset = "+", 7
						}
						this := fmt.Sprintf("%d/%d %s%d/%d", p.ID, p.Epoch, sign, p.ID, p.Epoch+1)
						for n, want := range []string{before + this, this} {
							if got := r.log("a", int32(n)); got != want {
								t.Errorf("a-%d is %s, want %s", n, got, want)
							}
						}
						if got := r.offset("g"); got != offset {
							t.Errorf("the group's offset is %d, want %d", got, offset)
						}
					})
				}
			}
		}
	}
	if lost == 0 {
		t.Error("no record was lost")
	}
}

// TestATransactionOfTheSameEpochIsWrittenInOnceItHasBegun: after a transaction that ended in the older flow the next one has its epoch. A
// start that finds what was written in it, and no record of it, would take that for a part of the one before and commit it.
func TestATransactionOfTheSameEpochIsWrittenInOnceItHasBegun(t *testing.T) {
	for name, c := range map[string]struct {
		version int16 // in which the transaction before was ended
		want    int16
	}{"after the older flow": {4, kerr.ConcurrentTransactions.Code}, "after the newer flow": {5, 0}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.open()
			id := r.init("x", -1, -1, false)
			p := Producer{"x", id.ProducerID, id.ProducerEpoch}
			next := func() {
				t.Helper()
				within(t, "it is written in", func() bool {
					code := r.write(p, "a", 0)
					if code != 0 && code != kerr.ConcurrentTransactions.Code {
						t.Fatal(kerr.ErrorForCode(code))
					}
					return code == 0
				})
				resp := r.end(p, true, c.version)
				if resp.ErrorCode != 0 {
					t.Fatal(kerr.ErrorForCode(resp.ErrorCode))
				}
				if c.version >= 5 {
					p.Epoch = resp.ProducerEpoch
				}
			}
			next()
			next()
			// The record of the third never becomes durable.
			r.fs.Inject(func(op vfs.Op, name string) *vfs.Fault {
				if op == vfs.OpSync && strings.Contains(name, "/"+Topic+"-0/") {
					return &vfs.Fault{Err: vfs.ErrDead}
				}
				return nil
			})
			for _, add := range []bool{true, false} { // the second asks as the older flow does
				h, code, err := r.c.Hold(p, add, []Partition{{"a", 0}})
				if code != c.want || err != nil {
					t.Errorf("adding %v: %v, %v; want %v", add, kerr.ErrorForCode(code), err, kerr.ErrorForCode(c.want))
				}
				if code == 0 {
					h.Release()
				}
			}
		})
	}
}

// stalled is a state's log of which nothing becomes durable; who waits is told so when it is released.
type stalled struct {
	Log
	waits   chan struct{} // somebody does
	release chan struct{}
}

func (s stalled) WaitDurable(context.Context, int64) error {
	s.waits <- struct{}{}
	<-s.release
	return store.ErrOutcomeUnknown
}

// Who repeats the end of a transaction while it is carried out is told no more of it than who came first: the decision may be lost.
func TestWhoRepeatsAnEndIsToldNoMore(t *testing.T) {
	r := newRig(t)
	c := r.open()
	id := r.init("x", -1, -1, false)
	r.mustWrite(Producer{"x", id.ProducerID, id.ProducerEpoch}, "a", 0)
	log := stalled{c.log, make(chan struct{}, 1), make(chan struct{})}
	c.log = log
	first, second := make(chan error, 1), make(chan error, 1)
	c.EndTxn(&kmsg.EndTxnRequest{Version: 5, TransactionalID: "x", ProducerID: id.ProducerID, Commit: true}, func(_ *kmsg.EndTxnResponse, err error) { first <- err })
	<-log.waits
	s := c.lock("x")
	go func() { second <- c.settle(s) }()
	s.mu.Lock()
	busy := s.ending != nil // whoever has the mutex by now, the second has seen that another is at it
	s.mu.Unlock()
	if close(log.release); !busy {
		t.Error("the first was through before the second came")
	}
	for who, err := range map[string]error{"the first": <-first, "the second": <-second} {
		if !errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("%s is told %v", who, err)
		}
	}
}
