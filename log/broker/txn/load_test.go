package txn

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/log/internal/batch"
)

// What a start makes of the state and of what is open in partitions.
func TestStart(t *testing.T) {
	a0, a1 := Partition{"a", 0}, Partition{"a", 1}
	base := txn{id: "x", pid: 5, prevPID: -1, nextPID: -1, lastEpoch: -1, timeout: 60_000, start: 1 << 50, updated: 1 << 50}
	with := func(change func(*txn)) *txn {
		t := base
		change(&t)
		return &t
	}
	for name, c := range map[string]struct {
		state *txn
		data  []batch.View // of a-0
		other []batch.View // of a-1
		want  string       // of the id
		log   string       // of a-0
		log1  string       // of a-1
	}{
		"what is open over TCP stays open": {
			state: with(func(t *txn) { t.state, t.parts = ongoing, []Partition{a0} }), data: []batch.View{dataOf(5, 0, "v")},
			want: "Ongoing 5/0 a-0", log: "5/0 open: 1",
		},
		"what is open over the in-memory connection is aborted, and its producer fenced": {
			state: with(func(t *txn) { t.state, t.parts, t.embedded = ongoing, []Partition{a0, a1}, true }), data: []batch.View{dataOf(5, 0, "v")},
			want: "CompleteAbort 5/1", log: "5/0 -5/1",
		},
		"a commit that was decided is carried out where it was not": {
			state: with(func(t *txn) { t.state, t.parts, t.version, t.epoch = prepareCommit, []Partition{a0, a1}, 2, 1 }),
			data:  []batch.View{dataOf(5, 0, "v")}, other: []batch.View{dataOf(5, 0, "v"), endOf(5, 1, true)},
			want: "CompleteCommit 5/1", log: "5/0 +5/1", log1: "5/0 +5/1",
		},
		"so is an abort": {
			state: with(func(t *txn) { t.state, t.parts = prepareAbort, []Partition{a0, a1} }),
			data:  []batch.View{dataOf(5, 0, "v")}, other: []batch.View{dataOf(5, 0, "v")},
			want: "CompleteAbort 5/0", log: "5/0 -5/0", log1: "5/0 -5/0",
		},
		"so it is though the process that decided is gone": {
			state: with(func(t *txn) { t.state, t.parts, t.embedded = prepareCommit, []Partition{a0}, true }), data: []batch.View{dataOf(5, 0, "v")},
			want: "CompleteCommit 5/0", log: "5/0 +5/0",
		},
		"what was written after the transaction that is decided is not committed with it": {
			state: with(func(t *txn) { t.state, t.parts, t.version, t.epoch = prepareCommit, []Partition{a0, a1}, 2, 1 }),
			data:  []batch.View{dataOf(5, 0, "v"), endOf(5, 1, true), dataOf(5, 1, "w")}, other: []batch.View{dataOf(5, 0, "v")},
			want: "Ongoing 5/1 a-0", log: "5/0 +5/1 5/1 open: 1", log1: "5/0 +5/1",
		},
		"what was written without a record that is left belongs to its producer's next transaction": {
			state: with(func(t *txn) { t.state, t.version, t.epoch = completeCommit, 2, 1 }), data: []batch.View{dataOf(5, 1, "v")},
			want: "Ongoing 5/1 a-0", log: "5/1 open: 1",
		},
		"so it does after an init": {
			state: with(func(t *txn) { t.state, t.epoch, t.start = empty, 3, -1 }), data: []batch.View{dataOf(5, 3, "v")},
			want: "Ongoing 5/3 a-0", log: "5/3 open: 1",
		},
		"so it does beside what is known": {
			state: with(func(t *txn) { t.state, t.parts = ongoing, []Partition{a0} }), data: []batch.View{dataOf(5, 0, "v")}, other: []batch.View{dataOf(5, 0, "v")},
			want: "Ongoing 5/0 a-0 a-1", log: "5/0 open: 1", log1: "5/0 open: 1",
		},
		"and is aborted with it when the process is gone": {
			state: with(func(t *txn) { t.state, t.version, t.epoch, t.embedded = completeCommit, 2, 1, true }), data: []batch.View{dataOf(5, 1, "v")},
			want: "CompleteAbort 5/2", log: "5/1 -5/2",
		},
		"a commit whose marker was lost is marked again": {
			state: with(func(t *txn) { t.state = completeCommit }), data: []batch.View{dataOf(5, 0, "v")},
			want: "CompleteCommit 5/0", log: "5/0 +5/0",
		},
		"an abort whose marker was lost is marked again": {
			state: with(func(t *txn) { t.state, t.version, t.epoch = completeAbort, 2, 1 }), data: []batch.View{dataOf(5, 0, "v")},
			want: "CompleteAbort 5/1", log: "5/0 -5/0",
		},
		"what a fenced producer has open is aborted": {
			state: with(func(t *txn) { t.state, t.epoch = empty, 4 }), data: []batch.View{dataOf(5, 3, "v")},
			want: "Empty 5/4", log: "5/3 -5/3",
		},
		"what an unknown producer has open is aborted": {
			data: []batch.View{dataOf(77, 3, "v")}, want: "unknown", log: "77/3 -77/3",
		},
		"a producer whose epochs ran out goes on with its next id": {
			state: with(func(t *txn) {
				t.state, t.parts, t.version, t.epoch, t.nextPID = prepareCommit, []Partition{a0, a1}, 2, lastEpoch+1, 9
			}),
			data: []batch.View{dataOf(5, lastEpoch, "v")}, other: []batch.View{dataOf(5, lastEpoch, "v"), endOf(5, lastEpoch+1, true), dataOf(9, 0, "w")},
			want: "Ongoing 9/0 a-1", log: "5/32766 +5/32767", log1: "5/32766 +5/32767 9/0 open: 1",
		},
		"nothing is done twice": {
			state: with(func(t *txn) { t.state, t.version, t.epoch = completeCommit, 2, 1 }), data: []batch.View{dataOf(5, 0, "v"), endOf(5, 1, true)},
			want: "CompleteCommit 5/1", log: "5/0 +5/1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if c.state != nil {
				r.state(*c.state)
			}
			r.append("a", 0, c.data...)
			r.append("a", 1, c.other...)
			r.restart()
			check := func(when string) {
				t.Helper()
				r.open()
				if got := r.show("x"); got != c.want {
					t.Errorf("%s: %s, want %s", when, got, c.want)
				}
				if got := r.log("a", 0); got != c.log {
					t.Errorf("%s: a-0 is %s, want %s", when, got, c.log)
				}
				if got := r.log("a", 1); got != c.log1 {
					t.Errorf("%s: a-1 is %s, want %s", when, got, c.log1)
				}
			}
			check("the first start")
			r.restart()
			check("the second start")
		})
	}
}

func TestStartPassesOverRecordsThatItCannotRead(t *testing.T) {
	r := newRig(t)
	r.state(txn{id: "good", state: empty, pid: 7, prevPID: -1, nextPID: -1, lastEpoch: -1, start: -1})
	r.state(txn{id: "gone", state: empty, pid: 8, prevPID: -1, nextPID: -1, lastEpoch: -1, start: -1})
	for _, rec := range []batch.Record{
		{Key: stateKey("gone")}, // a tombstone
		{Key: stateKey("bad"), Value: []byte("nonsense")},
		{Key: stateKey("short"), Value: []byte{0}},
		{Key: []byte{0, 9, 1}, Value: []byte("of another version")},
		{Key: []byte{0}, Value: []byte("no key")},
	} {
		r.append(Topic, 0, batch.Build(batch.Options{}, rec))
	}
	r.restart()
	r.open()
	for id, want := range map[string]string{"good": "Empty 7/0", "gone": "unknown", "bad": "unknown", "short": "unknown"} {
		if got := r.show(id); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
}

// A start on a full disk serves; what it could not write is written when there is space.
func TestStartOnAFullDisk(t *testing.T) {
	r := newRig(t)
	r.state(txn{id: "x", state: prepareCommit, pid: 5, prevPID: -1, nextPID: -1, lastEpoch: -1, timeout: 1000, start: 1, parts: []Partition{{"a", 0}}})
	r.append("a", 0, dataOf(5, 0, "v"), dataOf(77, 0, "ghost"))
	r.restart()
	r.fillDisk()
	r.open()
	if got := r.show("x"); got != "PrepareCommit 5/0 a-0" {
		t.Errorf("on a full disk: %s", got)
	}
	r.c.scan(r.c.nowMs())
	r.fs.SetCapacity(1 << 40)
	within(t, "what was decided is carried out", func() bool {
		r.c.scan(r.c.nowMs())
		return r.show("x") == "CompleteCommit 5/0"
	})
	if got := r.log("a", 0); got != "5/0 77/0 +5/0 -77/0" && got != "5/0 77/0 -77/0 +5/0" {
		t.Errorf("a-0 is %s", got)
	}
}

// What was written after a decision, and without a record that is left, is its producer's on a full disk as well.
func TestStartOnAFullDiskKeepsWhatIsOpen(t *testing.T) {
	r := newRig(t)
	r.state(txn{id: "x", state: prepareCommit, version: 2, pid: 5, epoch: 1, prevPID: -1, nextPID: -1, lastEpoch: 0, timeout: 60_000, start: 1, parts: []Partition{{"a", 0}}})
	r.append("a", 0, dataOf(5, 0, "v"), endOf(5, 1, true), dataOf(5, 1, "w"))
	r.restart()
	r.fillDisk()
	r.open()
	r.c.scan(r.c.nowMs())
	if got := r.show("x"); got != "Ongoing 5/1 a-0" {
		t.Errorf("on a full disk: %s", got)
	}
	r.fs.SetCapacity(1 << 40)
	if resp := r.end(Producer{"x", 5, 1}, true, 5); resp.ErrorCode != 0 {
		t.Errorf("its commit: %v", kerr.ErrorForCode(resp.ErrorCode))
	}
	if got := r.log("a", 0); got != "5/0 +5/1 5/1 +5/2" {
		t.Errorf("a-0 is %s", got)
	}
}
