package txn

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/broker/group"
	"millrace/log/internal/batch"
	"millrace/log/internal/store"
	"millrace/log/internal/vfs"
)

// rig is a store with a state topic, a topic of offsets, and data partitions a-0 and a-1, and the coordinators over it.
type rig struct {
	t      testing.TB
	fs     *vfs.Mem
	st     *store.Store
	c      *Coordinator
	groups *group.Coordinator
	ids    atomic.Int64 // given out
	limits Limits
}

func newRig(t testing.TB) *rig { return newRigOn(t, vfs.NewMem()) }

func newRigOn(t testing.TB, fs *vfs.Mem) *rig {
	r := &rig{t: t, fs: fs}
	r.ids.Store(1000)
	r.openStore()
	internal := store.DefaultConfig()
	internal.Internal, internal.Delete, internal.Compact = true, false, true
	for tp, c := range map[store.TopicPartition]store.PartitionConfig{
		{Topic: Topic}:             internal,
		{Topic: group.Topic}:       internal,
		{Topic: "a"}:               store.DefaultConfig(),
		{Topic: "a", Partition: 1}: store.DefaultConfig(),
		{Topic: "b", Partition: 0}: store.DefaultConfig(),
	} {
		if _, err := r.st.Create(tp, [16]byte{1}, c); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(r.close)
	return r
}

func (r *rig) openStore() {
	st, err := store.Open(r.fs, "data", store.Options{MinFree: -1, Ballast: -1, Maintain: -1})
	if err != nil {
		r.t.Fatal(err)
	}
	r.st = st
}

func (r *rig) close() {
	if err := r.stop(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) stop() error {
	if r.c != nil {
		r.c.Close()
		r.groups.Close()
		r.c = nil
	}
	return r.st.Close()
}

// crash is a loss of power and a start without coordinators.
func (r *rig) crash(seed uint64) {
	after := r.fs.Crash(seed)
	_ = r.stop() // it may see that its disk is gone
	r.fs = after
	r.openStore()
}

// restart is a clean stop and a start without coordinators.
func (r *rig) restart() {
	r.close()
	r.openStore()
}

// fillDisk leaves room for nothing more, behind a restart: the stop has given back what was reserved.
func (r *rig) fillDisk() {
	r.t.Helper()
	space, err := r.fs.Space("")
	if err != nil {
		r.t.Fatal(err)
	}
	r.fs.SetCapacity(space.Total - space.Free)
}

func (r *rig) Partition(topic string, n int32) *store.Partition { return r.st.Get(topic, n) }

func (r *rig) All() iter.Seq2[Partition, *store.Partition] {
	return func(yield func(Partition, *store.Partition) bool) {
		for _, p := range r.st.Partitions() {
			if !yield(Partition{p.ID().Topic, p.ID().Partition}, p) {
				return
			}
		}
	}
}

func (r *rig) TopicByName(name string) (id [16]byte, n int32, ok bool) {
	for r.st.Get(name, n) != nil {
		n++
	}
	return [16]byte{1}, n, n > 0
}

func (r *rig) TopicNames() []string { return []string{"a", "b"} }

func (r *rig) Changes() int64 { return 0 }

func (r *rig) TopicByID([16]byte) (string, bool) { return "", false }

// open starts the coordinators.
func (r *rig) open() *Coordinator {
	r.t.Helper()
	var err error
	if r.groups, err = group.Open(r.st.Get(group.Topic, 0), r, group.Options{}); err != nil {
		r.t.Fatal(err)
	}
	ids := func() (int64, error) { return r.ids.Add(1), nil }
	if r.limits.ScanEvery == 0 {
		r.limits.ScanEvery = time.Hour // tests scan
	}
	if r.c, err = Open(r.st.Get(Topic, 0), r, r.groups, ids, Options{Limits: r.limits}); err != nil {
		r.t.Fatal(err)
	}
	return r.c
}

func (r *rig) append(topic string, n int32, vs ...batch.View) {
	r.t.Helper()
	for _, v := range vs {
		a, err := r.st.Get(topic, n).Append([]batch.View{v}, store.AppendOpts{Origin: store.FromCoordinator})
		if err == nil {
			err = r.st.Get(topic, n).WaitDurable(r.t.Context(), a.End)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// state writes the record of a transactional id.
func (r *rig) state(t txn) {
	r.t.Helper()
	r.append(Topic, 0, batch.Build(batch.Options{}, batch.Record{Timestamp: 1, Key: stateKey(t.id), Value: stateValue(&t)}))
}

func dataOf(pid int64, epoch int16, value string) batch.View {
	return batch.Build(batch.Options{Producer: &batch.Producer{ID: pid, Epoch: epoch, Sequence: 0}, Transactional: true}, batch.Record{Timestamp: 1, Key: []byte("k"), Value: []byte(value)})
}

func endOf(pid int64, epoch int16, commit bool) batch.View {
	return batch.NewMarker(pid, epoch, batch.Marker{Commit: commit}, 1)
}

// log shows a partition: data as producer/epoch, markers as +producer/epoch or -producer/epoch, and what is open.
func (r *rig) log(topic string, n int32) string {
	r.t.Helper()
	p := r.st.Get(topic, n)
	var out []string
	err := p.Replay(0, func(v batch.View) error {
		s := fmt.Sprintf("%d/%d", v.ProducerID(), v.ProducerEpoch())
		if m, ok, _ := v.Marker(); ok && m.Commit {
			s = "+" + s
		} else if ok {
			s = "-" + s
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if open := p.OpenTxns(); len(open) > 0 {
		out = append(out, fmt.Sprintf("open: %d", len(open)))
	}
	return strings.Join(out, " ")
}

// show is what the coordinator knows of an id.
func (r *rig) show(id string) string {
	t, ok := r.c.look(id)
	if !ok {
		return "unknown"
	}
	s := fmt.Sprintf("%v %d/%d", t.state, t.pid, t.epoch)
	for _, p := range t.parts {
		s += fmt.Sprintf(" %s-%d", p.Topic, p.Partition)
	}
	return s
}

func (r *rig) init(id string, pid int64, epoch int16, embedded bool) *kmsg.InitProducerIDResponse {
	r.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version = 5
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &id, 60_000, pid, epoch
	return await(r.t, func(done func(*kmsg.InitProducerIDResponse, error)) { r.c.InitProducerID(req, embedded, done) })
}

func (r *rig) end(p Producer, commit bool, version int16) *kmsg.EndTxnResponse {
	r.t.Helper()
	req := &kmsg.EndTxnRequest{Version: version, TransactionalID: p.TransactionalID, ProducerID: p.ID, ProducerEpoch: p.Epoch, Commit: commit}
	return await(r.t, func(done func(*kmsg.EndTxnResponse, error)) { r.c.EndTxn(req, done) })
}

// write appends data in a transaction of the newer flow, as the broker does.
func (r *rig) write(p Producer, topic string, n int32) int16 {
	r.t.Helper()
	h, code, err := r.c.Hold(p, true, []Partition{{topic, n}})
	if err != nil {
		r.t.Fatal(err)
	}
	if code != 0 {
		return code
	}
	defer h.Release()
	r.append(topic, n, dataOf(p.ID, p.Epoch, "v"))
	return 0
}

func (r *rig) mustWrite(p Producer, topic string, n int32) {
	r.t.Helper()
	if code := r.write(p, topic, n); code != 0 {
		r.t.Fatal(kerr.ErrorForCode(code))
	}
}

// offsetCommit is the request that commits an offset of a-0 for a group in a transaction of the newer flow.
func offsetCommit(p Producer, group string, offset int64) *kmsg.TxnOffsetCommitRequest {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group, req.Generation = 5, p.TransactionalID, p.ID, p.Epoch, group, -1
	req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: offset, LeaderEpoch: -1}}}}
	return req
}

func (r *rig) commitOffset(p Producer, group string, offset int64) {
	r.t.Helper()
	req := offsetCommit(p, group, offset)
	resp := await(r.t, func(done func(*kmsg.TxnOffsetCommitResponse, error)) {
		if code, err := r.c.TxnOffsetCommit(req, func() { r.groups.TxnOffsetCommit(req, done) }); code != 0 || err != nil {
			r.t.Fatal(kerr.ErrorForCode(code), err)
		}
	})
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		r.t.Fatal(kerr.ErrorForCode(code))
	}
}

// offset is what a group has committed of a-0, -1 for nothing. It fails while a transaction has to decide about it.
func (r *rig) offset(group string) int64 {
	r.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.RequireStable = 8, true
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "a", Partitions: []int32{0}}}}}
	resp := await(r.t, func(done func(*kmsg.OffsetFetchResponse, error)) { r.groups.OffsetFetch(req, done) })
	p := resp.Groups[0].Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		r.t.Fatal(kerr.ErrorForCode(p.ErrorCode))
	}
	return p.Offset
}

func await[R any](t testing.TB, f func(done func(R, error))) R {
	t.Helper()
	type result struct {
		r   R
		err error
	}
	c := make(chan result, 1)
	f(func(r R, err error) { c <- result{r, err} })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case x := <-c:
		if x.err != nil {
			t.Fatal(x.err)
		}
		return x.r
	case <-ctx.Done():
		t.Fatal("no answer")
		panic("unreachable")
	}
}

func within(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}
