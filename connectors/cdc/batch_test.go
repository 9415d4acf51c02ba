package cdc

import (
	"context"
	"errors"
	"math/rand/v2"
	goruntime "runtime"
	"testing"
	"time"
	"weak"

	"millrace/connectors"
	"millrace/schema"
)

func TestBuilderKeepsItsRecordsInOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	b := NewBuilder(500)
	next, want := int64(0), int64(0)
	check := func() {
		records, _ := b.Take()
		if len(records) > 500 {
			t.Fatalf("a batch of %d records", len(records))
		}
		for _, r := range records {
			if r.Key.Int() != want {
				t.Fatalf("record %d is number %d", want, r.Key.Int())
			}
			want++
		}
	}
	for range 20000 {
		size := rnd.IntN(2000)
		if b.Full(size) || rnd.IntN(50) == 0 {
			check()
		}
		for range 1 + rnd.IntN(recordsPerChange) {
			b.Add(schema.Record{Key: schema.Int64Value(next)})
			next++
		}
		b.Grow(size)
	}
	check()
	if want != next {
		t.Fatalf("%d records of %d", want, next)
	}
}

// TestBuilderLetsGoOfLargeValues: what a batch held may go once the batch has,
// although the builder lives on.
func TestBuilderLetsGoOfLargeValues(t *testing.T) {
	b := NewBuilder(500)
	var bodies []weak.Pointer[byte]
	for range 5 {
		body := make([]byte, 1<<20)
		bodies = append(bodies, weak.Make(&body[0]))
		f := b.Arena.Values(1)
		f[0] = schema.BytesValue(body)
		b.Add(schema.Record{Value: schema.ArrayValue(f)})
		b.Grow(len(body))
		b.Take()
	}
	goruntime.GC()
	for i, p := range bodies {
		if p.Value() != nil {
			t.Errorf("the value of batch %d is kept", i)
		}
	}
	goruntime.KeepAlive(b)
}

func TestQueueBoundsAndAnswers(t *testing.T) {
	q := NewQueue(10, 100)
	batch := func(n int) connectors.Batch { return connectors.Batch{Records: make([]schema.Record, n)} }
	if !q.Offer(batch(50), 1000) {
		t.Fatal("a batch larger than the bounds is refused by an empty queue")
	}
	if q.Offer(batch(1), 1) {
		t.Fatal("the queue takes more than its bounds")
	}
	alive := 0
	dead := errors.New("dead")
	err := q.Put(context.Background(), batch(1), 1, time.Millisecond, func() error {
		if alive++; alive == 3 {
			return dead
		}
		return nil
	})
	if err != dead || alive != 3 {
		t.Fatalf("Put returned %v after %d calls of alive", err, alive)
	}
	done := make(chan error, 1)
	go func() { done <- q.Put(context.Background(), batch(2), 2, time.Hour, func() error { return nil }) }()
	if b, err := q.take(context.Background()); err != nil || len(b.Records) != 50 {
		t.Fatalf("took %d records, %v", len(b.Records), err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if b, _ := q.take(context.Background()); len(b.Records) != 2 {
		t.Fatalf("took %d records, want 2", len(b.Records))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := q.take(ctx); err != context.Canceled {
		t.Fatalf("take returned %v", err)
	}
	if !q.Hungry() {
		t.Error("an emitter that waited is not hungry")
	}
}
