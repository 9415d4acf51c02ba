package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// record is one record of the topic as it was read.
type record struct {
	key, value []byte // value is nil for a tombstone
	op         string // r, c, u, d; "" for a tombstone
	before     map[string]any
	after      map[string]any
	seen       time.Time
}

// reader follows the topic with an ordinary Kafka client and keeps all that it has read, in order.
type reader struct {
	client *kgo.Client
	topic  string

	mu     sync.Mutex
	all    []record               // guarded by mu
	err    error                  // guarded by mu
	more   chan struct{}          // closed and made anew with each arrival; guarded by mu
	notify func(n int, r *record) // called for each record in order, if set; guarded by mu
}

func follow(ctx context.Context, broker, topic string) (*reader, error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}),
		kgo.FetchMaxWait(500*time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	r := &reader{client: c, topic: topic, more: make(chan struct{})}
	go r.run(ctx)
	return r, nil
}

func (r *reader) run(ctx context.Context) {
	defer r.client.Close()
	for ctx.Err() == nil {
		fetches := r.client.PollFetches(ctx)
		now := time.Now()
		r.mu.Lock()
		for _, rec := range fetches.Records() {
			got, err := parse(rec.Key, rec.Value)
			if err != nil {
				r.err = fmt.Errorf("%s, offset %d: %w", r.topic, rec.Offset, err)
				continue
			}
			got.seen = now
			r.all = append(r.all, *got)
			if r.notify != nil {
				r.notify(len(r.all)-1, got)
			}
		}
		if len(fetches.Records()) > 0 || r.err != nil {
			close(r.more)
			r.more = make(chan struct{})
		}
		r.mu.Unlock()
	}
}

func parse(key, value []byte) (*record, error) {
	r := &record{key: key, value: value}
	if value == nil {
		return r, nil
	}
	var e struct {
		Op            string
		Before, After map[string]any
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if err := d.Decode(&e); err != nil {
		return nil, fmt.Errorf("%w: %s", err, value)
	}
	r.op, r.before, r.after = e.Op, e.Before, e.After
	return r, nil
}

// wait returns the records from number from on, once there are n of them.
func (r *reader) wait(ctx context.Context, from, n int) ([]record, error) {
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		r.mu.Lock()
		all, err, more := r.all, r.err, r.more
		r.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if len(all) >= from+n {
			return slices.Clone(all[from:]), nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-limit.C:
			return nil, fmt.Errorf("%s has %d records after a minute, want %d", r.topic, len(all), from+n)
		}
	}
}

// have is all that has been read so far.
func (r *reader) have() []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// tell calls f for all that arrives from now on.
func (r *reader) tell(f func(n int, r *record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notify = f
}

// line shows one record as a change: what came, what went, what is different.
func (s *screen) line(n int, r *record) string {
	place := s.paint(dim, fmt.Sprintf("%5d", n))
	id := func(m map[string]any) string { return fmt.Sprintf("id %v", m["id"]) }
	switch r.op {
	case "r":
		return place + "  " + s.paint(cyan, "= read     ") + id(r.after) + "  " + fields(r.after)
	case "c":
		return place + "  " + s.paint(green, "+ created  ") + id(r.after) + "  " + fields(r.after)
	case "u":
		var changed []string
		for _, name := range columns {
			if was, is := r.before[name], r.after[name]; fmt.Sprint(was) != fmt.Sprint(is) {
				changed = append(changed, fmt.Sprintf("%s %v → %v", name, was, is))
			}
		}
		return place + "  " + s.paint(yellow, "~ updated  ") + id(r.after) + "  " + strings.Join(changed, ", ")
	case "d":
		return place + "  " + s.paint(red, "- deleted  ") + id(r.before) + "  " + fields(r.before)
	case "":
		return place + "  " + s.paint(dim, "  tombstone for "+string(r.key))
	}
	return place + "  " + r.op + " " + string(r.value)
}

var columns = []string{"customer", "item", "quantity", "price", "status", "placed"}

func fields(m map[string]any) string {
	return fmt.Sprintf("%v: %v × %v at %v, %v", m["customer"], m["quantity"], m["item"], m["price"], m["status"])
}
