package connectortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/schema"
	"millrace/schema/converters"
)

// SourceCase is a source connector with a system that the suite can write to.
type SourceCase struct {
	Plugin connectors.SourcePlugin
	Files  connectors.Files // for the tasks' Context; may be nil

	// New makes an empty system, for one test.
	New func(tb testing.TB) SourceTarget
}

// SourceTarget is a system and what the suite needs to know of it.
type SourceTarget struct {
	Config map[string]string // the connector's settings

	// Write makes the source's next n events, numbered from first on, in an order that
	// the source must keep. It returns when they are there to be read.
	Write func(tb testing.TB, first, n int)

	// Number is the number of a record's event; false: the record is none of Write's.
	Number func(r schema.Record) (int, bool)

	// Patience is how long the suite blocks Emit: longer than the system waits for a
	// reader that does not answer. Zero: the system does not care.
	Patience time.Duration

	// Drop ends the source's connections. Nil: it has none.
	Drop func(tb testing.TB)
}

// Source runs the suite that every source passes: order, stopping, resuming at each
// offset, a log that is behind, connections that break.
func Source(t *testing.T, c SourceCase) {
	tests := []struct {
		name string
		run  func(s *sourceTest)
	}{
		{"events come in order, each once", (*sourceTest).order},
		{"batches keep their bounds", (*sourceTest).bounds},
		{"an end of ctx stops an idle task", (*sourceTest).stopIdle},
		{"an end of ctx stops a task whose Emit blocks", (*sourceTest).stopBlocked},
		{"a task resumes at each offset without gap", (*sourceTest).resume},
		{"a task that was never committed begins again", (*sourceTest).again},
		{"a log that is behind for long loses nothing", (*sourceTest).behind},
		{"a connection that breaks loses nothing", (*sourceTest).dropped},
		{"a connection that breaks while the log is behind loses nothing", (*sourceTest).droppedBehind},
		{"commits may come late, twice and at any time", (*sourceTest).commits},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.run(&sourceTest{TB: t, c: c, target: c.New(t)})
		})
	}
}

type sourceTest struct {
	testing.TB
	c      SourceCase
	target SourceTarget
}

// OffsetStore keeps offsets as the runtime does: as JSON.
type OffsetStore struct {
	mu       sync.Mutex // guards the rest
	keys     []string
	values   map[string]connectors.Offset
	journals map[string]*memoryJournal
}

// Put stores offsets.
func (s *OffsetStore) Put(tb testing.TB, offsets []connectors.Offset) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[string]connectors.Offset{}
	}
	for _, o := range offsets {
		key, part := throughJSON(tb, o.Partition)
		_, pos := throughJSON(tb, o.Position)
		if _, have := s.values[key]; !have {
			s.keys = append(s.keys, key)
		}
		s.values[key] = connectors.Offset{Partition: part, Position: pos}
	}
}

// Clone is a copy of what is stored now.
func (s *OffsetStore) Clone() *OffsetStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &OffsetStore{keys: slices.Clone(s.keys), values: map[string]connectors.Offset{}}
	for k, v := range s.values {
		c.values[k] = v
	}
	for name, j := range s.journals {
		if c.journals == nil {
			c.journals = map[string]*memoryJournal{}
		}
		j.mu.Lock()
		c.journals[name] = &memoryJournal{entries: slices.Clone(j.entries)}
		j.mu.Unlock()
	}
	return c
}

// At is a copy of the store with these offsets in place of its own.
func (s *OffsetStore) At(tb testing.TB, offsets []connectors.Offset) *OffsetStore {
	tb.Helper()
	c := s.Clone()
	c.keys, c.values = nil, map[string]connectors.Offset{}
	c.Put(tb, offsets)
	return c
}

// Stored is connectors.OffsetReader's.
func (s *OffsetStore) Stored(_ context.Context, partition schema.Value) (schema.Value, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		if o := s.values[k]; schema.EqualValues(o.Partition, partition) {
			return o.Position, nil
		}
	}
	return schema.Value{}, nil
}

// All is connectors.OffsetReader's.
func (s *OffsetStore) All(context.Context) ([]connectors.Offset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []connectors.Offset
	for _, k := range s.keys {
		out = append(out, s.values[k])
	}
	return out, nil
}

// Journal is connectors.Context's: journals are kept with the offsets.
func (s *OffsetStore) Journal(_ context.Context, at connectors.JournalPlace) (connectors.Journal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journals == nil {
		s.journals = map[string]*memoryJournal{}
	}
	j := s.journals[at.Topic]
	if j == nil {
		j = &memoryJournal{}
		s.journals[at.Topic] = j
	}
	return j, nil
}

// A memoryJournal is a journal that lives as long as its store.
type memoryJournal struct {
	mu      sync.Mutex
	entries [][]byte
}

func (j *memoryJournal) Append(_ context.Context, entries ...[]byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range entries {
		j.entries = append(j.entries, bytes.Clone(e))
	}
	return nil
}

func (j *memoryJournal) Replay(_ context.Context, each func([]byte) error) error {
	j.mu.Lock()
	entries := slices.Clone(j.entries)
	j.mu.Unlock()
	for _, e := range entries {
		if err := each(e); err != nil {
			return err
		}
	}
	return nil
}

// throughJSON is a value as it comes back from the offsets topic, and its text.
func throughJSON(tb testing.TB, v schema.Value) (string, schema.Value) {
	tb.Helper()
	c, errs := converters.JSON.Make(map[string]string{"schemas.enable": "false"}, false)
	if len(errs) > 0 {
		tb.Fatal(errs)
	}
	text, null, err := c.Encode(nil, &converters.Message{}, nil, v)
	if err != nil {
		tb.Fatalf("offset: %v", err)
	}
	if null {
		return "", schema.Value{}
	}
	_, back, err := c.Decode(&converters.Message{}, text)
	if err != nil {
		tb.Fatalf("offset %s: %v", text, err)
	}
	return string(text), back
}

// SourceRun drives one source task as the runtime does. Tests of a connector's own
// use it, too.
type SourceRun struct {
	testing.TB
	Task    connectors.SourceTask
	Offsets *OffsetStore // what is committed

	cancel   context.CancelFunc
	done     chan struct{}
	err      error // of Run, once done is closed
	emitting atomic.Bool

	mu      sync.Mutex // guards what follows
	batches []connectors.Batch
	records int
	gate    chan struct{} // closed: Emit may go on
	hold    bool          // offsets are not committed
	held    []connectors.Offset
	changed chan struct{}
	keep    func(connectors.Batch) // in place of keeping batches
	lg      *slog.Logger           // the task's
}

// StartSource makes a task of the settings and runs it. Offsets that are stored
// already are where it resumes. The run is stopped at the test's end.
func StartSource(tb testing.TB, p connectors.SourcePlugin, files connectors.Files, conf map[string]string, store *OffsetStore, opts ...func(*SourceRun)) *SourceRun {
	tb.Helper()
	v, errs := p.Config.Parse(conf)
	if len(errs) > 0 {
		tb.Fatalf("settings: %v", errs)
	}
	if store == nil {
		store = &OffsetStore{}
	}
	r := &SourceRun{TB: tb, Offsets: store, done: make(chan struct{}), changed: make(chan struct{}, 1), gate: make(chan struct{}), lg: slog.New(slog.DiscardHandler)}
	close(r.gate)
	for _, o := range opts {
		o(r)
	}
	var err error
	r.Task, err = p.NewTask(connectors.Context{Connector: "suite", Task: 0, Log: r.lg, Files: files, Offsets: store, Journal: store.Journal}, v)
	if err != nil {
		tb.Fatalf("make the task: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() {
		defer close(r.done)
		r.err = r.Task.Run(ctx, r)
	}()
	tb.Cleanup(func() {
		r.cancel()
		r.Open()
		select {
		case <-r.done:
		case <-time.After(time.Minute):
			tb.Errorf("the task did not stop within a minute of the end of its context")
		}
	})
	return r
}

// Blocked starts a run whose Emit blocks until Open.
func Blocked(r *SourceRun) { r.gate = make(chan struct{}) }

// Uncommitted starts a run whose offsets wait for Commit.
func Uncommitted(r *SourceRun) { r.hold = true }

// LogTo starts a run whose task logs to lg.
func LogTo(lg *slog.Logger) func(*SourceRun) { return func(r *SourceRun) { r.lg = lg } }

// Consume starts a run that hands batches to f and does not keep them.
func Consume(f func(connectors.Batch)) func(*SourceRun) {
	return func(r *SourceRun) { r.keep = f }
}

// Emit is connectors.Out's.
func (r *SourceRun) Emit(ctx context.Context, b connectors.Batch) error {
	if !r.emitting.CompareAndSwap(false, true) {
		r.Errorf("Emit was called while another call of it was under way")
	}
	defer r.emitting.Store(false)
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-gate:
	}
	if len(b.Records) > connectors.MaxBatchRecords {
		r.Errorf("a batch of %d records, want at most %d", len(b.Records), connectors.MaxBatchRecords)
	}
	if r.keep != nil {
		r.keep(b)
	}
	r.mu.Lock()
	if r.keep == nil {
		r.batches = append(r.batches, b)
	}
	r.records += len(b.Records)
	hold := r.hold
	if hold {
		r.held = append(r.held, b.Offsets...)
	}
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
	if !hold {
		r.commit(ctx, b.Offsets)
	}
	return nil
}

func (r *SourceRun) commit(ctx context.Context, offsets []connectors.Offset) {
	if len(offsets) == 0 {
		return
	}
	r.Offsets.Put(r.TB, offsets)
	if err := r.Task.Commit(ctx, offsets); err != nil {
		r.Errorf("Commit: %v", err)
	}
}

// Commit commits what a run with Uncommitted holds, and all that comes.
func (r *SourceRun) Commit() {
	r.mu.Lock()
	held := r.held
	r.held, r.hold = nil, false
	r.mu.Unlock()
	r.commit(context.Background(), held)
}

// Open lets Emit go on.
func (r *SourceRun) Open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.gate:
	default:
		close(r.gate)
	}
}

// Block makes Emit wait for Open.
func (r *SourceRun) Block() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = make(chan struct{})
}

// Batches are the batches so far.
func (r *SourceRun) Batches() []connectors.Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.batches)
}

// Records are the records so far.
func (r *SourceRun) Records() []schema.Record {
	var out []schema.Record
	for _, b := range r.Batches() {
		out = append(out, b.Records...)
	}
	return out
}

// WaitFor waits until cond holds, which is asked after each batch, and fails the test
// when the task ends first or two minutes pass.
func (r *SourceRun) WaitFor(what string, cond func() bool) {
	r.Helper()
	timeout := time.After(2 * time.Minute)
	for !cond() {
		select {
		case <-r.changed:
		case <-r.done:
			if cond() {
				return
			}
			r.Fatalf("waiting for %s: the task ended: %v", what, r.err)
		case <-time.After(20 * time.Millisecond):
		case <-timeout:
			r.Fatalf("waiting for %s: it did not come within two minutes (%d records did)", what, r.Count())
		}
	}
}

// Count is the number of records so far.
func (r *SourceRun) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.records
}

// Stop ends the task's context and fails the test unless Run returns nil, soon.
func (r *SourceRun) Stop() {
	r.Helper()
	r.cancel()
	if err := r.Wait(); err != nil {
		r.Fatalf("Run returned %v after its context ended, want nil", err)
	}
}

// Halt ends the task's context and returns Run's error, which may be from before.
func (r *SourceRun) Halt() error {
	r.Helper()
	r.cancel()
	return r.Wait()
}

// Ended reports whether Run has returned.
func (r *SourceRun) Ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Wait waits for Run's end and returns its error.
func (r *SourceRun) Wait() error {
	r.Helper()
	select {
	case <-r.done:
	case <-time.After(time.Minute):
		r.Fatalf("Run did not return within a minute")
	}
	return r.err
}

// numbers are the numbers of the run's events so far.
func (s *sourceTest) numbers(r *SourceRun) []int {
	var out []int
	for _, rec := range r.Records() {
		if n, ok := s.target.Number(rec); ok {
			out = append(out, n)
		}
	}
	return out
}

func (s *sourceTest) start(store *OffsetStore, opts ...func(*SourceRun)) *SourceRun {
	s.Helper()
	return StartSource(s.TB, s.c.Plugin, s.c.Files, s.target.Config, store, opts...)
}

// await waits until the event of that number was emitted.
func (s *sourceTest) await(r *SourceRun, number int) {
	s.Helper()
	r.WaitFor(fmt.Sprintf("event %d", number), func() bool { return slices.Contains(s.numbers(r), number) })
}

// exactly fails unless the numbers are first, first+1 … last.
func (s *sourceTest) exactly(got []int, first, last int) {
	s.Helper()
	for i, n := range got {
		if n != first+i {
			s.Fatalf("event %d is number %d, want %d", i, n, first+i)
		}
	}
	if len(got) != last-first+1 {
		s.Fatalf("%d events, want %d to %d", len(got), first, last)
	}
}

func (s *sourceTest) order() {
	s.target.Write(s, 0, 300)
	r := s.start(nil)
	s.await(r, 299)
	s.target.Write(s, 300, 700)
	s.await(r, 999)
	r.Stop()
	s.exactly(s.numbers(r), 0, 999)
}

func (s *sourceTest) bounds() {
	r := s.start(nil)
	s.target.Write(s, 0, 5000) // Emit checks each batch
	s.await(r, 4999)
	for _, b := range r.Batches() {
		if len(b.Offsets) == 0 {
			s.Errorf("a batch of %d records without an offset: it can never be committed", len(b.Records))
		}
		for i := range b.Records {
			if b.Describe != nil && b.Describe(i) == "" {
				s.Errorf("record %d of a batch has an empty description", i)
			}
		}
	}
}

func (s *sourceTest) stopIdle() {
	r := s.start(nil)
	s.target.Write(s, 0, 1)
	s.await(r, 0)
	r.Stop()
}

func (s *sourceTest) stopBlocked() {
	r := s.start(nil, Blocked)
	s.target.Write(s, 0, 5000)
	for !r.emitting.Load() {
		select {
		case <-r.done:
			s.Fatalf("the task ended: %v", r.err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	r.Stop()
}

func (s *sourceTest) resume() {
	// Nothing is committed here, so that the source keeps what lies behind each offset;
	// that offset i is stored when the task resumes at it tells the source to let go of
	// what lies before it.
	r := s.start(nil, Uncommitted)
	s.target.Write(s, 0, 400)
	s.await(r, 399)
	s.target.Write(s, 400, 400)
	s.await(r, 799)
	r.Stop()
	batches := r.Batches()
	exact := false
	v, _ := s.c.Plugin.Config.Parse(s.target.Config)
	if src, err := s.c.Plugin.New(connectors.Context{Log: slog.New(slog.DiscardHandler), Task: -1}, v); err == nil {
		g, ok := src.(connectors.Guarantees)
		exact = ok && g.ExactlyOnce()
	}
	store, last, tried := r.Offsets.At(s, nil), -1, 0
	for i, b := range batches {
		store.Put(s, b.Offsets)
		for _, rec := range b.Records {
			if n, ok := s.target.Number(rec); ok {
				last = n
			}
		}
		// Each of the first ones, then some.
		if i > 4 && i%7 != 0 && i != len(batches)-1 || last == 799 || last < 0 {
			continue
		}
		tried++
		again := s.start(store.Clone(), Uncommitted)
		s.await(again, 799)
		again.Stop()
		got := s.numbers(again)
		if exact && got[0] != last+1 && got[0] != 0 { // a snapshot that was not finished begins again
			s.Fatalf("resumed behind batch %d, whose last event is %d: the first event is %d", i, last, got[0])
		}
		if got[0] > last+1 {
			s.Fatalf("resumed behind batch %d, whose last event is %d: the first event is %d, so some are lost", i, last, got[0])
		}
		s.exactly(got, got[0], 799)
	}
	if tried == 0 {
		s.Fatal("no offset to resume at: everything came in one batch")
	}
	s.Logf("resumed at %d of %d offsets", tried, len(batches))
}

func (s *sourceTest) again() {
	r := s.start(nil, Uncommitted)
	s.target.Write(s, 0, 200)
	s.await(r, 199)
	r.Stop()
	again := s.start(nil)
	s.await(again, 199)
	again.Stop()
	s.exactly(s.numbers(again), 0, 199)
}

func (s *sourceTest) behind() {
	if s.target.Patience == 0 {
		s.Skip("the system does not care how long its reader takes")
	}
	r := s.start(nil)
	s.target.Write(s, 0, 1)
	s.await(r, 0)
	r.Block()
	s.target.Write(s, 1, 20000)
	select {
	case <-r.done:
		s.Fatalf("the task ended while its log was behind: %v", r.err)
	case <-time.After(s.target.Patience):
	}
	r.Open()
	s.await(r, 20000)
	r.Stop()
	s.exactly(s.numbers(r), 0, 20000)
}

func (s *sourceTest) dropped() {
	if s.target.Drop == nil {
		s.Skip("the source has no connections")
	}
	store := &OffsetStore{}
	r := s.start(store)
	s.target.Write(s, 0, 100)
	s.await(r, 99)
	seen := map[int]bool{}
	at := 100
	for range 3 {
		s.target.Drop(s)
		s.target.Write(s, at, 100)
		at += 100
		r = s.resumed(r, store, at-1, seen)
	}
	s.stopWhole(r, at, seen)
}

// droppedBehind breaks the connection while its owner holds a batch for which there is no room.
func (s *sourceTest) droppedBehind() {
	if s.target.Drop == nil || s.target.Patience == 0 {
		s.Skip("the source has no connections, or the system does not care how long its reader takes")
	}
	store := &OffsetStore{}
	r := s.start(store)
	s.target.Write(s, 0, 1)
	s.await(r, 0)
	r.Block()
	s.target.Write(s, 1, 20000)
	for range 2 { // the queue fills; then the connection is found to be broken
		select {
		case <-r.done:
		case <-time.After(s.target.Patience / 2):
		}
		s.target.Drop(s)
	}
	r.Open()
	seen := map[int]bool{}
	s.stopWhole(s.resumed(r, store, 20000, seen), 20001, seen)
}

// resumed waits for an event. A task that ends meanwhile with a failure that may pass is started again, as the runtime does; what it had
// sent is noted.
func (s *sourceTest) resumed(r *SourceRun, store *OffsetStore, last int, seen map[int]bool) *SourceRun {
	for timeout := time.After(2 * time.Minute); !slices.Contains(s.numbers(r), last); {
		select {
		case <-r.done:
			if !connectors.IsRetriable(r.err) {
				s.Fatalf("a broken connection is not marked as one that may come back: %v", r.err)
			}
			for _, n := range s.numbers(r) {
				seen[n] = true
			}
			r = s.start(store)
		case <-time.After(20 * time.Millisecond):
		case <-timeout:
			s.Fatalf("event %d did not come within two minutes", last)
		}
	}
	return r
}

// stopWhole stops a task and wants all events below end to have been sent, by it or by those before it.
func (s *sourceTest) stopWhole(r *SourceRun, end int, seen map[int]bool) {
	r.Stop()
	for _, n := range s.numbers(r) {
		seen[n] = true
	}
	for n := range end {
		if !seen[n] {
			s.Fatalf("event %d is lost", n)
		}
	}
}

func (s *sourceTest) commits() {
	r := s.start(nil, Uncommitted)
	s.target.Write(s, 0, 100)
	s.await(r, 99)
	var offsets []connectors.Offset
	for _, b := range r.Batches() {
		offsets = append(offsets, b.Offsets...)
	}
	for _, o := range offsets {
		if err := r.Task.Commit(context.Background(), []connectors.Offset{o}); err != nil {
			s.Fatalf("Commit: %v", err)
		}
	}
	if err := r.Task.Commit(context.Background(), offsets[len(offsets)-1:]); err != nil {
		s.Fatalf("the same Commit again: %v", err)
	}
	s.target.Write(s, 100, 100)
	s.await(r, 199)
	r.Stop()
	if err := r.Task.Commit(context.Background(), offsets[len(offsets)-1:]); err != nil && !errors.Is(err, context.Canceled) {
		s.Fatalf("a Commit after Run returned: %v", err)
	}
	s.exactly(s.numbers(r), 0, 199)
}
