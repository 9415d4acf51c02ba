package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/deploy/trial"
)

// Offsets become committable in the order of emission, and only once all batches
// before them are acknowledged, whatever order the log acknowledges in.
func TestOffsetsAreTheContiguousPrefix(t *testing.T) {
	seed := trial.Seed(t)
	for round := range 200 {
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		f := newInflight(1 << 40)
		batches := make([]*flight, 1+rng.IntN(40))
		for i := range batches {
			fl := &flight{bytes: int64(rng.IntN(100))}
			for range rng.IntN(3) { // some move no offset, some several source partitions
				fl.offsets = append(fl.offsets, keyed{string(rune('a' + rng.IntN(3))), connectors.Offset{Position: at(int64(i))}})
			}
			batches[i] = fl
			if err := f.add(context.Background(), fl); err != nil {
				t.Fatal(err)
			}
		}
		acked := make([]bool, len(batches))
		committed := map[string]int64{}
		for _, i := range rng.Perm(len(batches)) {
			f.ack(batches[i])
			acked[i] = true
			prefix := 0
			for prefix < len(acked) && acked[prefix] {
				prefix++
			}
			want := map[string]int64{}
			for n, fl := range batches[:prefix] {
				for _, o := range fl.offsets {
					want[o.key] = int64(n)
				}
			}
			if rng.IntN(3) == 0 { // commits come now and then, and some fail
				taken := f.take()
				if rng.IntN(3) == 0 {
					f.giveBack(taken)
					continue
				}
				for _, o := range taken {
					n, _ := o.Position.Lookup("n")
					if n.Int() < committed[o.key] {
						t.Fatalf("seed %d round %d: %s goes back from %d to %d", seed, round, o.key, committed[o.key], n.Int())
					}
					committed[o.key] = n.Int()
				}
				for k, n := range want {
					if committed[k] != n {
						t.Fatalf("seed %d round %d: after %d batches %s is committed at %d, want %d", seed, round, prefix, k, committed[k], n)
					}
				}
				for k := range committed {
					if _, ok := want[k]; !ok {
						t.Fatalf("seed %d round %d: %s was committed too soon", seed, round, k)
					}
				}
			}
		}
		if err := f.drain(context.Background()); err != nil || f.bytes != 0 {
			t.Fatalf("seed %d round %d: %d bytes are left, %v", seed, round, f.bytes, err)
		}
	}
}

func TestInflightIsBounded(t *testing.T) {
	f := newInflight(100)
	large, small := &flight{bytes: 500}, &flight{bytes: 10}
	if err := f.add(context.Background(), large); err != nil {
		t.Fatal("a large batch travels alone:", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := f.add(ctx, small); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a batch beside a large one: %v", err)
	}
	f.ack(large)
	if err := f.add(context.Background(), small); err != nil {
		t.Fatal(err)
	}
}
