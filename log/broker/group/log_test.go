package group

import (
	"errors"
	"slices"
	"sync"

	"millrace/log/internal/batch"
	"millrace/log/internal/store"
)

// memLog is a partition in memory. It tells written from durable, and a crash leaves what a crash leaves.
type memLog struct {
	mu      sync.Mutex // guards the fields below
	batches []batch.View
	end     int64
	durable int64
	held    bool  // nothing becomes durable until sync is called
	single  bool  // each record has a batch of its own, so that a crash can come between any two
	refuse  error // of Append
	offline error // of AfterDurable
	waits   []memWait
}

type memWait struct {
	end  int64
	done func(error)
}

var errFull = errors.New("disk full")

func (l *memLog) Append(batches []batch.View, o store.AppendOpts) (store.Appended, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return store.Appended{}, l.refuse
	}
	base := l.end
	if l.single {
		batches = singles(batches)
	}
	for _, b := range batches {
		b = slices.Clone(b)
		b.SetBaseOffset(l.end)
		l.batches = append(l.batches, b)
		l.end = b.NextOffset()
	}
	if !l.held {
		l.durable = l.end
	}
	return store.Appended{Base: base, End: l.end}, nil
}

// singles takes batches apart, except those of transactions.
func singles(batches []batch.View) (out []batch.View) {
	for _, b := range batches {
		if b.Transactional() {
			out = append(out, b)
			continue
		}
		for r, err := range b.Records() {
			if err != nil {
				panic(err) // the coordinator's own
			}
			out = append(out, batch.Build(batch.Options{}, batch.Record{Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}))
		}
	}
	return out
}

func (l *memLog) AfterDurable(end int64, done func(error)) {
	l.mu.Lock()
	if l.offline == nil && end > l.durable {
		l.waits = append(l.waits, memWait{end, done})
		l.mu.Unlock()
		return
	}
	err := l.offline
	l.mu.Unlock()
	done(err)
}

// sync makes durable what was written.
func (l *memLog) sync() { l.settle(func() { l.durable = l.end }) }

// fail takes the log offline.
func (l *memLog) fail(err error) { l.settle(func() { l.offline = err }) }

func (l *memLog) settle(change func()) {
	l.mu.Lock()
	change()
	waits := l.waits
	l.waits = nil
	l.mu.Unlock()
	for _, w := range waits {
		l.AfterDurable(w.end, w.done)
	}
}

// crash returns what is on disk after a crash: all that is durable, and keep of the batches after it.
func (l *memLog) crash(keep int) *memLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	after := &memLog{held: l.held, single: l.single}
	for _, b := range l.batches {
		if b.BaseOffset() >= l.durable {
			if keep == 0 {
				break
			}
			keep--
		}
		after.batches = append(after.batches, b)
		after.end = b.NextOffset()
	}
	after.durable = after.end // recovery syncs what it keeps
	return after
}

// undurable is the number of batches that a crash may lose.
func (l *memLog) undurable() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, b := range l.batches {
		if b.BaseOffset() >= l.durable {
			n++
		}
	}
	return n
}

func (l *memLog) Replay(from int64, f func(batch.View) error) error {
	l.mu.Lock()
	batches := slices.Clone(l.batches)
	l.mu.Unlock()
	for _, b := range batches {
		if err := f(b); err != nil {
			return err
		}
	}
	return nil
}

func (l *memLog) LogStart() int64 { return 0 }

// memTopics are topics with ids; each has 4 partitions until it is said otherwise.
type memTopics struct {
	mu         sync.Mutex
	ids        map[string][16]byte
	partitions map[string]int32
	changes    int64
}

func newTopics(names ...string) *memTopics {
	t := &memTopics{ids: map[string][16]byte{}, partitions: map[string]int32{}}
	for i, n := range names {
		t.ids[n] = [16]byte{15: byte(i + 1)}
	}
	return t
}

func (t *memTopics) set(name string, id byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes++
	delete(t.partitions, name)
	if id == 0 {
		delete(t.ids, name)
		return
	}
	t.ids[name] = [16]byte{15: id}
}

func (t *memTopics) TopicByName(name string) ([16]byte, int32, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, ok := t.ids[name]
	if n, set := t.partitions[name]; set {
		return id, n, ok
	}
	return id, 4, ok
}

// grow sets the number of a topic's partitions.
func (t *memTopics) grow(name string, partitions int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes++
	t.partitions[name] = partitions
}

func (t *memTopics) TopicNames() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return sortedTopics(t.ids)
}

func (t *memTopics) Changes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changes
}

func (t *memTopics) TopicByID(id [16]byte) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, i := range t.ids {
		if i == id {
			return n, true
		}
	}
	return "", false
}
