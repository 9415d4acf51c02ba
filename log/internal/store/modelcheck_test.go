package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"millrace/log/internal/batch"
)

// check compares a partition with the model.
func (m *model) check(mp *modelPartition) {
	m.t.Helper()
	p := m.s.Get(mp.tp.Topic, 0)
	if p.usable() != nil {
		return
	}
	tolerate := func(err error) bool { // a fault that we injected
		return err != nil && (m.dead || m.eioAt > 0 && m.calls >= m.eioAt)
	}
	start, end, hw, lso := p.LogStart(), p.End(), p.HighWatermark(), p.LastStable()
	if start < mp.start || start > max(mp.start, mp.startMax) || hw > end || lso > hw || hw < mp.hw || lso < mp.lso || end != mp.end() && len(mp.log) > 0 {
		m.fatalf("%v: start %d [%d, %d], lso %d (was %d), hw %d (was %d), end %d (want %d)", mp.tp, start, mp.start, mp.startMax, lso, mp.lso, hw, mp.hw, end, mp.end())
	}
	mp.hw, mp.lso = hw, lso
	maxBytes := []int{0, 100, 1000, 1 << 20}[m.rng.IntN(4)]
	want := func(limit int64) (vs []batch.View) {
		for _, b := range mp.log {
			if start < limit && b.view.NextOffset() > start && b.view.BaseOffset() < limit {
				vs = append(vs, b.view)
			}
		}
		return vs
	}
	for _, iso := range []Isolation{ReadAll, ReadUncommitted, ReadCommitted} {
		limit := map[Isolation]int64{ReadAll: end, ReadUncommitted: hw, ReadCommitted: lso}[iso]
		got, err := tryReadAll(p, start, maxBytes, iso)
		if tolerate(err) {
			return
		}
		if err != nil || !same(got, want(limit)) {
			m.fatalf("%v: isolation %d up to %d: %d batches %v, want %d %v; %v", mp.tp, iso, limit, len(got), spans(got), len(want(limit)), spans(want(limit)), err)
		}
	}
	m.checkStable(mp, p, start, hw, lso, tolerate)
	m.checkTime(mp, p, start, hw, tolerate)
	// Leader epochs: every batch lies before the end of its epoch.
	if e := p.LeaderEpoch(); e < mp.epoch {
		m.fatalf("%v: leader epoch went from %d to %d", mp.tp, mp.epoch, e)
	} else {
		mp.epoch = e
	}
	for _, v := range want(end) {
		if e, o := p.EndOffsetForEpoch(v.LeaderEpoch()); e != v.LeaderEpoch() || o < v.NextOffset() {
			m.fatalf("%v: batch of epoch %d ends at %d, the epoch (%d) at %d", mp.tp, v.LeaderEpoch(), v.NextOffset(), e, o)
		}
	}
	// What is known of the producers.
	type state struct {
		epoch int16
		seq   int32
		open  int64
	}
	known := map[int64]state{}
	for _, b := range mp.log {
		if b.view.HasProducer() {
			st, ok := known[b.view.ProducerID()]
			if !ok {
				st = state{seq: -1, open: -1}
			}
			if st.epoch != b.view.ProducerEpoch() {
				st = state{epoch: b.view.ProducerEpoch(), seq: -1, open: st.open}
			}
			if b.marker {
				st.open = -1
			} else {
				if st.seq >= 0 && b.view.BaseSequence() != batch.AddSequence(st.seq, 1) {
					m.fatalf("%v: the log has sequence %d after %d", mp.tp, b.view.BaseSequence(), st.seq)
				}
				st.seq = b.view.LastSequence()
				if b.txn && st.open < 0 {
					st.open = b.view.BaseOffset()
				}
			}
			known[b.view.ProducerID()] = st
		}
	}
	infos := p.Producers()
	if len(infos) != len(known) {
		m.fatalf("%v: %d producers, want %d", mp.tp, len(infos), len(known))
	}
	for _, i := range infos {
		if st := known[i.ID]; i.Epoch != st.epoch || i.LastSequence != st.seq || i.TxnFirst != st.open {
			m.fatalf("%v: producer %+v, want %+v", mp.tp, i, st)
		}
	}
}

func spans(vs []batch.View) (out []string) {
	for _, v := range vs {
		out = append(out, fmt.Sprintf("%d-%d", v.BaseOffset(), v.LastOffset()))
	}
	return out
}

// checkStable compares the last stable offset, and what a read_committed consumer keeps.
func (m *model) checkStable(mp *modelPartition, p *Partition, start, hw, lso int64, tolerate func(error) bool) {
	m.t.Helper()
	wantLSO := hw
	open := map[int64]int64{}
	var committed, shown []int64 // base offsets
	txnOf := map[int64][]int64{}
	for _, b := range mp.log {
		v := b.view
		switch {
		case b.marker:
			first, was := open[v.ProducerID()]
			if was && v.BaseOffset() >= hw && !b.decided {
				wantLSO = min(wantLSO, first)
			}
			if b.commit {
				committed = append(committed, txnOf[v.ProducerID()]...)
			}
			delete(open, v.ProducerID())
			delete(txnOf, v.ProducerID())
		case b.txn:
			if _, was := open[v.ProducerID()]; !was {
				open[v.ProducerID()] = v.BaseOffset()
			}
			txnOf[v.ProducerID()] = append(txnOf[v.ProducerID()], v.BaseOffset())
		default:
			committed = append(committed, v.BaseOffset())
		}
	}
	for _, first := range open {
		wantLSO = min(wantLSO, first)
	}
	if wantLSO = max(wantLSO, start); lso != wantLSO {
		m.fatalf("%v: last stable offset %d, want %d", mp.tp, lso, wantLSO)
	}
	// A consumer of read_committed, as Kafka's clients do it.
	from := start
	for {
		sl, err := p.Read(from, ReadOpts{MaxBytes: 600, MinOne: true, Isolation: ReadCommitted})
		if tolerate(err) {
			return
		}
		if err != nil {
			m.fatalf("%v: read committed from %d: %v", mp.tp, from, err)
		}
		if sl.Len() == 0 {
			sl.Release()
			break
		}
		var buf bytes.Buffer
		_, err = sl.WriteTo(&buf)
		aborted := sl.Aborted
		sl.Release()
		if tolerate(err) {
			return
		}
		vs, err2 := batch.Split(nil, buf.Bytes())
		if err = errors.Join(err, err2); err != nil {
			m.fatalf("%v: %v", mp.tp, err)
		}
		skip := map[int64]bool{}
		for _, v := range vs {
			for len(aborted) > 0 && aborted[0].First <= v.LastOffset() {
				skip[aborted[0].ProducerID] = true
				aborted = aborted[1:]
			}
			from = v.NextOffset()
			if v.IsControl() {
				if mk, _, _ := v.Marker(); !mk.Commit {
					delete(skip, v.ProducerID())
				}
				continue
			}
			if !(v.Transactional() && skip[v.ProducerID()]) {
				shown = append(shown, v.BaseOffset())
			}
		}
	}
	slices.Sort(committed)
	var want []int64
	for _, b := range mp.log {
		o := b.view.BaseOffset()
		if _, found := slices.BinarySearch(committed, o); found && start < lso && b.view.NextOffset() > start && o < lso {
			want = append(want, o)
		}
	}
	if !slices.Equal(shown, want) {
		for _, seg := range *p.segs.Load() {
			as, err := seg.abortedTxns()
			m.logf("%s: %d bytes, live %v, aborted %+v %v", seg.file.name, seg.size.Load(), seg.isLive(), as, err)
		}
		m.fatalf("%v: read_committed shows the batches at %v, want %v", mp.tp, shown, want)
	}
}

// checkTime compares look-ups by time with a search through all records.
func (m *model) checkTime(mp *modelPartition, p *Partition, start, hw int64, tolerate func(error) bool) {
	m.t.Helper()
	best := TimeOffset{Timestamp: -1}
	var all []TimeOffset
	for _, b := range mp.log {
		if b.marker {
			continue
		}
		for r := range b.view.Records() {
			if r.Offset >= start && r.Offset < hw {
				t := TimeOffset{r.Offset, r.Timestamp, b.view.LeaderEpoch()}
				all = append(all, t)
				if t.Timestamp > best.Timestamp {
					best = t
				}
			}
		}
	}
	if len(all) == 0 {
		return
	}
	ms := all[m.rng.IntN(len(all))].Timestamp + m.rng.Int64N(3) - 1
	i := slices.IndexFunc(all, func(t TimeOffset) bool { return t.Timestamp >= ms })
	got, ok, err := p.OffsetForTime(ms, ReadUncommitted)
	if tolerate(err) {
		return
	}
	if err != nil || ok != (i >= 0) || ok && got != all[i] {
		m.fatalf("%v: time %d: %+v %v %v, want index %d of %d", mp.tp, ms, got, ok, err, i, len(all))
	}
	got, ok, err = p.MaxTimestamp(ReadUncommitted)
	if tolerate(err) {
		return
	}
	// Markers' times count for the header's maximum, as in Kafka, so that the largest record may not be found by it.
	if err != nil || ok && got.Timestamp > best.Timestamp {
		m.fatalf("%v: largest time %+v %v %v, want %+v", mp.tp, got, ok, err, best)
	}
}
