package store

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

func TestProducersAreHeldToEpochAndSequence(t *testing.T) {
	// Every case begins with producer 1 at epoch 5 having written sequences 0-2 and
	// 3-4, and producer 2 with a transaction open since its only batch, 0-0.
	marker := func(pid int64, epoch int16, coordinator int32) batch.View {
		return batch.NewMarker(pid, epoch, batch.Marker{Commit: true, CoordinatorEpoch: coordinator}, 1)
	}
	for _, c := range []struct {
		name string
		v    batch.View
		o    AppendOpts
		want batch.Code
		dup  bool
	}{
		{"the next sequence", idempotent(1, 5, 5, 1, "v"), AppendOpts{}, 0, false},
		{"the last batch again", idempotent(1, 5, 3, 2, "v"), AppendOpts{}, 0, true},
		{"the first batch again", idempotent(1, 5, 0, 3, "v"), AppendOpts{}, 0, true},
		{"a known first sequence with another last one", idempotent(1, 5, 3, 3, "v"), AppendOpts{}, batch.OutOfOrderSequence, false},
		{"a gap", idempotent(1, 5, 6, 1, "v"), AppendOpts{}, batch.OutOfOrderSequence, false},
		{"an old epoch", idempotent(1, 4, 5, 1, "v"), AppendOpts{}, batch.InvalidProducerEpoch, false},
		{"an old epoch, even with known sequences", idempotent(1, 4, 3, 2, "v"), AppendOpts{}, batch.InvalidProducerEpoch, false},
		{"a new epoch from 0", idempotent(1, 6, 0, 1, "v"), AppendOpts{}, 0, false},
		{"a new epoch from 1", idempotent(1, 6, 1, 1, "v"), AppendOpts{}, batch.OutOfOrderSequence, false},
		{"an unknown producer, at any sequence", idempotent(9, 0, 77, 1, "v"), AppendOpts{}, 0, false},
		{"outside the open transaction", idempotent(2, 0, 1, 1, "v"), AppendOpts{}, batch.InvalidTxnState, false},
		{"inside the open transaction", transactional(2, 0, 1, 1, "v"), AppendOpts{}, 0, false},
		{"a marker from a client", marker(2, 0, 0), AppendOpts{}, batch.InvalidRecord, false},
		{"a marker from the coordinator", marker(2, 0, 7), AppendOpts{Origin: FromCoordinator}, 0, false},
		{"a marker of an old producer epoch", marker(1, 4, 7), AppendOpts{Origin: FromCoordinator}, batch.InvalidProducerEpoch, false},
		{"a marker of an old coordinator", marker(3, 0, 6), AppendOpts{Origin: FromCoordinator}, batch.TransactionCoordinatorFenced, false},
		{"the coordinator's offsets, without a sequence", batch.Build(batch.Options{Producer: &batch.Producer{ID: 2, Sequence: -1}, Transactional: true}, records(1, "v")...), AppendOpts{Origin: FromCoordinator}, 0, false},
	} {
		s := open(t, vfs.NewMem(), quiet())
		p := create(t, s, "t", DefaultConfig())
		appendOne(t, p, idempotent(1, 5, 0, 3, "v"))
		appendOne(t, p, idempotent(1, 5, 3, 2, "v"))
		appendOne(t, p, transactional(2, 0, 0, 1, "v"))
		if _, err := p.Append([]batch.View{marker(3, 0, 7)}, AppendOpts{Origin: FromCoordinator}); err != nil {
			t.Fatal(err)
		}
		before, end := p.Producers(), p.End()
		a, err := p.Append([]batch.View{c.v}, c.o)
		if code, _ := batch.CodeOf(err); code != c.want || a.Duplicate != c.dup {
			t.Errorf("%s: %+v %v, want code %d, duplicate %v", c.name, a, err, c.want, c.dup)
		}
		if (c.want != 0 || c.dup) && (p.End() != end || !slices.Equal(before, p.Producers())) {
			t.Errorf("%s: changed something", c.name)
		}
		s.Close()
	}
}

func TestAnEmptyPartitionWantsSequenceZero(t *testing.T) {
	p := create(t, open(t, vfs.NewMem(), quiet()), "t", DefaultConfig())
	_, err := p.Append([]batch.View{idempotent(1, 0, 4, 1, "v")}, AppendOpts{})
	if code, _ := batch.CodeOf(err); code != batch.OutOfOrderSequence {
		t.Fatal(err)
	}
	appendOne(t, p, idempotent(1, 0, 0, 1, "v"))
}

func TestSequencesWrapAcrossTheSnapshot(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys, quiet())
	p := create(t, s, "t", DefaultConfig())
	appendDurable(t, p, plain(1, "first"))
	appendOne(t, p, idempotent(1, 0, math.MaxInt32-1, 5, "over the edge")) // to 2
	s.Close()
	p = open(t, fsys, quiet()).Get("t", 0)
	if a := appendOne(t, p, idempotent(1, 0, math.MaxInt32-1, 5, "over the edge")); !a.Duplicate || a.Base != 1 || a.End != 6 {
		t.Fatalf("%+v", a)
	}
	if a := appendOne(t, p, idempotent(1, 0, 3, 1, "next")); a.Duplicate || a.Base != 6 {
		t.Fatalf("%+v", a)
	}
}

func TestTheLastStableOffsetWaitsForTheMarkerToBeDurable(t *testing.T) {
	fsys := vfs.NewMem()
	s := open(t, fsys, quiet())
	p := create(t, s, "t", DefaultConfig())
	appendDurable(t, p, plain(2, "v"))
	appendDurable(t, p, transactional(1, 0, 0, 2, "v"))
	if p.LastStable() != 2 || p.HighWatermark() != 4 {
		t.Fatalf("open transaction: stable %d, high watermark %d", p.LastStable(), p.HighWatermark())
	}
	release := holdSyncs(s)
	a := endTxn(t, p, 1, 0, true)
	if p.LastStable() != 2 {
		t.Fatalf("marker written, not durable: stable %d", p.LastStable())
	}
	release()
	wait(t, p, a.End)
	if p.LastStable() != 5 {
		t.Fatalf("marker durable: stable %d", p.LastStable())
	}
}

// TestAMarkerShowsWhatItEnds says from when on a reader of committed records sees a transaction: from when its end cannot be lost any more.
func TestAMarkerShowsWhatItEnds(t *testing.T) {
	for _, commit := range []bool{true, false} {
		for _, decided := range []bool{false, true} {
			t.Run(fmt.Sprintf("commit %v, decided elsewhere %v", commit, decided), func(t *testing.T) {
				s := open(t, vfs.NewMem(), quiet())
				p := create(t, s, "t", DefaultConfig())
				appendDurable(t, p, transactional(1, 0, 0, 3, "v"))
				if p.LastStable() != 0 {
					t.Fatalf("last stable offset %d in the transaction", p.LastStable())
				}
				release := holdSyncs(s)
				w := NewWaiter()
				p.Subscribe(w)
				defer p.Unsubscribe(w)
				marker := batch.NewMarker(1, 0, batch.Marker{Commit: commit}, 1)
				a, err := p.Append([]batch.View{marker}, AppendOpts{Origin: FromCoordinator, Decided: decided})
				if err != nil {
					t.Fatal(err)
				}
				want := int64(0)
				if decided {
					want = 3
				}
				// Who subscribed may have been woken by the sync before, too: it publishes, and wakes afterwards.
				if p.LastStable() != want || p.HighWatermark() != 3 || decided && len(w.C) == 0 {
					t.Errorf("before the marker is durable: last stable offset %d, want %d; durable %d; woken %v", p.LastStable(), want, p.HighWatermark(), len(w.C) > 0)
				}
				release()
				wait(t, p, a.End)
				if p.LastStable() != 4 {
					t.Errorf("last stable offset %d in the end", p.LastStable())
				}
			})
		}
	}
}

// TestWhoWaitsRunsTheSync has no worker that would.
func TestWhoWaitsRunsTheSync(t *testing.T) {
	s := open(t, vfs.NewMem(), quiet())
	p := create(t, s, "t", DefaultConfig())
	s.syncer.mu.Lock()
	s.syncer.workers = s.syncer.max // all are busy
	s.syncer.mu.Unlock()
	a := appendOne(t, p, plain(1, "v"))
	s.syncer.mu.Lock()
	s.syncer.workers = 0 // and are gone without having seen the queue
	s.syncer.mu.Unlock()
	wait(t, p, a.End)
	if n := queued(s); n > 0 || p.HighWatermark() != 1 {
		t.Errorf("%d partitions are queued, %d is durable", n, p.HighWatermark())
	}
}

// holdSyncs keeps the syncer from running anything until release is called.
func holdSyncs(s *Store) (release func()) {
	s.syncer.mu.Lock()
	s.syncer.workers += 1 << 20
	s.syncer.mu.Unlock()
	return func() {
		s.syncer.mu.Lock()
		s.syncer.workers -= 1 << 20
		n := len(s.syncer.queue)
		if n > 0 && s.syncer.workers < s.syncer.max {
			s.syncer.workers++
			s.syncer.wg.Add(1)
			go s.syncer.work()
		}
		s.syncer.mu.Unlock()
	}
}

func TestProducersExpireButNotTheirTransactions(t *testing.T) {
	o := quiet()
	clock := newClock()
	o.Now = clock.now
	s := open(t, vfs.NewMem(), o)
	cfg := DefaultConfig()
	cfg.TimestampAfter = -1
	p := create(t, s, "t", cfg)
	appendDurable(t, p, idempotent(1, 0, 0, 1, "v"))
	appendDurable(t, p, transactional(2, 0, 0, 1, "v"))
	clock.advance(25 * hour)
	if err := s.Maintain(); err != nil {
		t.Fatal(err)
	}
	if ps := p.Producers(); len(ps) != 1 || ps[0].ID != 2 {
		t.Fatalf("%+v", ps)
	}
}

func FuzzSnapshot(f *testing.F) {
	m := map[int64]*producer{
		7: {epoch: 1, coordEpoch: -1, txnFirst: 12, timestamp: 99},
		8: {epoch: 3, coordEpoch: 2, txnFirst: -1, timestamp: 5},
	}
	for i := range int32(5) {
		m[7].push(produced{firstSeq: i * 2, lastSeq: i*2 + 1, firstOffset: int64(10 + 2*i), timestamp: 99})
	}
	snapshot, pwin := encodeSnapshot(m)
	f.Add(snapshot, pwin, false)
	f.Add(snapshot, pwin, true)
	f.Fuzz(func(t *testing.T, snapshot, pwin []byte, seal bool) {
		if seal { // past the checksum
			for _, b := range [][]byte{snapshot, pwin} {
				if len(b) >= snapshotHeader {
					sealSnapshot(b, int(be.Uint32(b[6:])))
				}
			}
		}
		m, err := parseSnapshot(snapshot)
		if err != nil {
			return
		}
		s1, _ := encodeSnapshot(m)
		m2, err := parseSnapshot(s1)
		if err != nil || len(m2) != len(m) {
			t.Fatalf("what was parsed cannot be written and parsed again: %v", err)
		}
		if mergeWindows(m, pwin) != nil {
			return
		}
		s3, p3 := encodeSnapshot(m)
		if err := mergeWindows(m2, p3); err != nil || !bytes.Equal(s1, s3) {
			t.Fatalf("windows changed the snapshot, or do not come back: %v", err)
		}
	})
}

func FuzzStateFiles(f *testing.F) {
	f.Add(encodeOffsets(map[TopicPartition]int64{{"a", 1}: 5, {"b", 0}: 1 << 40}))
	f.Add(encodeEpochs([]epochStart{{0, 0}, {3, 17}}))
	f.Add(encodeHoles([]hole{{1, 5, 0, 100, 200}, {7, 9, 6, 0, 0}}))
	f.Add(encodeMetadata([16]byte{1, 2, 3}))
	clean, _ := encodeClean([]cleanPartition{{Topic: "t", End: 5, Size: 100}})
	f.Add(clean)
	f.Add(appendSynced(nil, syncedMark{5, 9}))
	f.Add(appendAborted(nil, abortedTxn{1, 2, 3, 4}))
	f.Add(be.AppendUint64(nil, 5<<32|77))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parseOffsets(b); err == nil {
			again, err := parseOffsets(encodeOffsets(m))
			if err != nil || len(again) != len(m) {
				t.Fatalf("offsets: %v", err)
			}
		}
		if es, err := parseEpochs(b); err == nil {
			if again, err := parseEpochs(encodeEpochs(es)); err != nil || !slices.Equal(again, es) {
				t.Fatalf("epochs: %v", err)
			}
		}
		if hs, err := parseHoles(b); err == nil {
			if again, err := parseHoles(encodeHoles(hs)); err != nil || !slices.Equal(again, hs) {
				t.Fatalf("holes: %v", err)
			}
		}
		if id, err := parseMetadata(b); err == nil {
			if again, err := parseMetadata(encodeMetadata(id)); err != nil || again != id {
				t.Fatalf("metadata: %v", err)
			}
		}
		if as, err := parseAborted(b); err == nil {
			var out []byte
			for _, a := range as {
				out = appendAborted(out, a)
			}
			if !bytes.Equal(out, b) {
				t.Fatal("aborted transactions do not come back")
			}
		}
		if m, err := parseSynced(b); err == nil && !bytes.Equal(appendSynced(nil, m), b) {
			t.Fatal("synced does not come back")
		}
		parseClean(b)
		parseLock(b)
		checkIndex(b, 1<<20)
		checkTimeIndex(b)
		parseDirName(string(b))
		parseOffsetName(string(b), logSuffix)
	})
}
