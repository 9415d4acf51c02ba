package worker

import (
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestRecordsGoWhereTheyAreSentElseByTheirKeyElseToOnePartitionForABatch(t *testing.T) {
	java := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	var all sync.WaitGroup
	for range 4 { // clients of their own, which share what hashes
		all.Go(func() {
			p := partitioner().ForTopic("t")
			for i := range 2000 {
				r := &kgo.Record{Partition: byKey, Key: fmt.Appendf(nil, "key %d", i)}
				n := 1 + i%7
				if got, want := p.Partition(r, n), int(0); n == 1 && got != want {
					t.Errorf("%s of one partition: %d", r.Key, got)
				}
				if !p.RequiresConsistency(r) {
					t.Error("a key may go anywhere")
				}
			}
		})
	}
	all.Wait()
	p := partitioner().ForTopic("t")
	for i := range 2000 {
		r := &kgo.Record{Partition: byKey, Key: fmt.Appendf(nil, "key %d", i)}
		if got, want := p.Partition(r, 1+i%7), java.Partition(r, 1+i%7); got != want {
			t.Fatalf("%s of %d: %d, want %d", r.Key, 1+i%7, got, want)
		}
	}
	if got := p.Partition(&kgo.Record{Partition: 5, Key: []byte("k")}, 9); got != 5 || !p.RequiresConsistency(&kgo.Record{Partition: 5}) {
		t.Errorf("sent to 5, went to %d", got)
	}
	bare := &kgo.Record{Partition: byKey}
	if p.RequiresConsistency(bare) {
		t.Error("a record without a key may go anywhere")
	}
	used := map[int]int{}
	last := -1
	for range 300 {
		on := p.Partition(bare, 3)
		for range 5 {
			if again := p.Partition(bare, 3); again != on {
				t.Fatalf("a batch began in %d and went on in %d", on, again)
			}
		}
		if on == last || on < 0 || on > 2 {
			t.Fatalf("after %d comes %d", last, on)
		}
		used[on]++
		last = on
		p.(kgo.TopicPartitionerOnNewBatch).OnNewBatch()
	}
	if len(used) != 3 || used[0] < 50 || used[1] < 50 || used[2] < 50 {
		t.Errorf("batches went to %v", used)
	}
	if on := p.Partition(bare, 1); on != 0 {
		t.Errorf("of one partition: %d", on)
	}
}
