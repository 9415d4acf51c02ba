package elasticsearch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"millrace/connectors"
)

// The fields of a bulk's answer that are needed.
var bulkAnswer = []string{"errors", "items.*.status", "items.*.error"}

// send sends a job's batches one after the other. It runs in a sender and leaves to the
// task's goroutine what that must do: refusals, a job that was given up, a failure.
func (t *task) send(ctx context.Context, j *job) {
	whole := len(j.batches) == 1
	first := j.batches[0]
	err := t.sendGuarded(ctx, j)
	whole = whole && len(j.batches) <= 1
	t.mu.Lock()
	switch {
	case err == nil || ctx.Err() != nil:
		t.underWay--
		t.bytes -= j.bytes
	case connectors.IsRetriable(err):
		t.parked, t.parkedBy = append(t.parked, j), err
	default:
		t.failed = err
	}
	t.mu.Unlock()
	if err == nil && whole && cap(first.body) <= 2*t.set.bulkBytes {
		clear(first.items[:cap(first.items)])
		first.items, first.body = first.items[:0], first.body[:0]
		select {
		case t.spare <- first:
		default:
		}
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// sendGuarded is sendAll with a panic, which is a bug of ours, made an error of this
// task: it must not end the process and all other tasks with it.
func (t *task) sendGuarded(ctx context.Context, j *job) (err error) {
	defer func() {
		if p := recover(); p != nil {
			t.lg.Error("sending documents panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("sending documents panicked: %v", p)
		}
	}()
	return t.sendAll(ctx, j)
}

// sendAll sends until each record is stored or refused. What is in j.batches when it
// returns an error is not.
func (t *task) sendAll(ctx context.Context, j *job) error {
	for failed := 0; len(j.batches) > 0; {
		b := j.batches[0]
		t.mu.Lock()
		t.forget(b)
		t.mu.Unlock()
		if len(b.items) == 0 {
			j.batches = j.batches[1:]
			continue
		}
		before := len(b.items)
		again, wait, err := t.sendOnce(ctx, j, failed)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !again {
			return err
		}
		if err == nil {
			failed = 0
			t.moving()
			continue
		}
		if len(b.items) < before { // some were stored: the server works
			failed = 0
			t.moving()
		}
		if failed++; failed > t.set.maxRetries {
			return err
		}
		if err := t.wait(ctx, max(wait, t.backoff(failed))); err != nil {
			return err
		}
	}
	return nil
}

// moving says that the server takes documents, while a Put waits for a place.
func (t *task) moving() {
	if t.cc.Moving != nil {
		t.cc.Moving()
	}
}

// backoff is how long an attempt waits.
func (t *task) backoff(attempt int) time.Duration {
	return connectors.Backoff(t.set.backoff, maxWait, attempt)
}

// sendOnce sends the job's first batch and takes out of it what needs nothing more.
// With again, err says why the rest should be sent once more, after wait at least;
// failed is how often that was so already.
func (t *task) sendOnce(ctx context.Context, j *job, failed int) (again bool, wait time.Duration, err error) {
	b := j.batches[0]
	doing := fmt.Sprintf("send %d documents (%d bytes)", len(b.items), len(b.body))
	a, err := t.client.do(ctx, esapi.BulkRequest{
		Body: bytes.NewReader(b.body), FilterPath: bulkAnswer, Header: http.Header{"Content-Type": {"application/x-ndjson"}},
	})
	switch {
	case err != nil:
		return true, 0, t.client.silent(doing, err)
	case a.status == http.StatusOK:
		return t.answered(b, a)
	case a.status == http.StatusRequestEntityTooLarge || a.status == http.StatusBadRequest:
		// Some record in it is to blame: halves find out which one.
		if len(b.items) > 1 {
			if a.status == http.StatusRequestEntityTooLarge {
				t.takesLess(int64(len(b.body) / 2)) // the next ones are made to fit
			}
			j.halve()
			return false, 0, nil
		}
		t.refused(b, a)
		return false, 0, nil
	}
	if a.status == http.StatusTooManyRequests && failed > 0 && len(b.items) > 1 {
		j.halve() // it may be more than the server ever takes at once
	}
	err = t.client.failure(doing, a)
	return connectors.IsRetriable(err), a.wait, err
}

// takesLess notes that bulks must be no larger than n bytes.
func (t *task) takesLess(n int64) {
	for {
		old := t.most.Load()
		if old > 0 && old <= n || t.most.CompareAndSwap(old, n) {
			return
		}
	}
}

// refused takes a batch's only item out as refused.
func (t *task) refused(b *batch, a answer) {
	it := b.items[0]
	reason, cause := &refused, fmt.Sprintf("%s: the server answers %d to the request with it: %s", describe(&it), a.status, a.said())
	if a.status == http.StatusRequestEntityTooLarge {
		reason = &tooLarge
		cause = fmt.Sprintf("%s: its %d bytes are more than the server takes in a request (413)", describe(&it), it.end-it.start)
	}
	t.mu.Lock()
	t.refusals = append(t.refusals, refusal{it, connectors.Failed(reason, nil, cause, "")})
	t.mu.Unlock()
	b.keep(func(int) bool { return false })
}

// describe names an item for messages.
func describe(it *item) string {
	id := ""
	if it.id != "" {
		id = fmt.Sprintf(" %q", it.id)
	}
	return fmt.Sprintf("document%s of index %q (record %s)", id, it.index, where(&it.record))
}

// itemAnswer is what the server says of one item.
type itemAnswer struct {
	Status int          `json:"status"`
	Error  *serverError `json:"error"`
}

// answered sorts the items of a bulk by the server's answer: done, refused, to be sent
// again.
func (t *task) answered(b *batch, a answer) (again bool, wait time.Duration, err error) {
	head := string(a.body[:min(len(a.body), 64)])
	if strings.Contains(head, `"errors":false`) { // the common case needs no parsing
		t.mu.Lock()
		for i := range b.items {
			t.done(&b.items[i])
		}
		t.mu.Unlock()
		b.keep(func(int) bool { return false })
		return false, 0, nil
	}
	var body struct {
		Items []map[string]itemAnswer `json:"items"`
	}
	if err := json.Unmarshal(a.body, &body); err != nil {
		return true, 0, connectors.Failed(&unavailable, err, fmt.Sprintf("%s sends an answer to a bulk that cannot be read", t.client.nodes), "")
	}
	if len(body.Items) != len(b.items) {
		return true, 0, connectors.Failed(&unavailable, nil,
			fmt.Sprintf("%s answers for %d of %d documents", t.client.nodes, len(body.Items), len(b.items)), "")
	}
	verdicts := make([]verdict, len(b.items))
	stored := map[uint64]int{} // the last item that was stored, by document
	var refusals []refusal
	for i := range b.items {
		it := &b.items[i]
		var said itemAnswer
		for _, said = range body.Items[i] {
		}
		v, cause := judge(it, said)
		switch verdicts[i] = v; v {
		case vStored, vConflict:
			if v == vConflict {
				t.conflicts.add(t.lg, it, said.Error)
			}
			if it.hash != 0 {
				stored[it.hash] = i
			}
		case vRefused:
			refusals = append(refusals, refusal{*it, cause})
		case vAgain:
			again, err = true, cause
		case vFailed:
			if err == nil || again {
				again, err = false, cause
			}
			// the others' verdicts still count
		}
	}
	failed := slices.Contains(verdicts, vFailed)
	t.mu.Lock()
	for i := range b.items {
		it := &b.items[i]
		// An older change that was put off and overtaken by a newer one in the same bulk must
		// not come behind it.
		if last, ok := stored[it.hash]; ok && verdicts[i] == vAgain && last > i {
			verdicts[i] = vStored
		}
		if verdicts[i] == vStored || verdicts[i] == vConflict {
			t.done(it)
		}
	}
	t.refusals = append(t.refusals, refusals...)
	t.mu.Unlock()
	b.keep(func(i int) bool { return verdicts[i] == vAgain || verdicts[i] == vFailed })
	if len(b.items) == 0 {
		return false, 0, nil
	}
	return again && !failed, a.wait, err
}

type verdict uint8

const (
	vStored   verdict = iota
	vConflict         // a version that is as new or newer is there, or in a data stream the id: a replay, or see the package's comment
	vRefused          // this document, for ever
	vAgain            // may be taken later
	vFailed           // the task cannot go on
)

// malformed are the types of errors that say that a document is to blame.
var malformed = map[string]*connectors.Reason{
	"mapper_parsing_exception":            &mappingConflict,
	"document_parsing_exception":          &mappingConflict,
	"strict_dynamic_mapping_exception":    &mappingConflict,
	"illegal_argument_exception":          &mappingConflict,
	"action_request_validation_exception": &refused,
}

// judge is the verdict on an item, with the cause where it is not stored.
func judge(it *item, said itemAnswer) (verdict, error) {
	why := said.Error
	if why == nil {
		why = &serverError{}
	}
	fail := func(r *connectors.Reason) error {
		return connectors.Failed(r, nil, fmt.Sprintf("%s is refused with %d: %s", describe(it), said.Status, why), "")
	}
	switch {
	case said.Status >= 200 && said.Status < 300:
		return vStored, nil
	case said.Status == http.StatusNotFound && it.op == opDelete && said.Error == nil:
		return vStored, nil // it was not there
	case said.Status == http.StatusConflict && (it.versioned || it.op == opCreate):
		return vConflict, nil
	case said.Status == http.StatusConflict: // several changed the document at once
		return vAgain, fail(&unavailable)
	case passing(said.Status), why.blocks(), strings.HasSuffix(why.Type, "rejected_execution_exception"):
		return vAgain, fail(&unavailable)
	case said.Status == http.StatusUnauthorized || said.Status == http.StatusForbidden:
		return vFailed, fail(&unauthorized)
	case said.Status == http.StatusRequestEntityTooLarge:
		return vRefused, fail(&tooLarge)
	case malformed[why.Type] != nil:
		return vRefused, fail(malformed[why.Type])
	case said.Status == http.StatusBadRequest:
		return vRefused, fail(&refused)
	}
	return vFailed, fail(&refused)
}
