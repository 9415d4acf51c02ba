package warehouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"millrace/connectors"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/envelope"
)

const (
	committers = 4                // groups that are made visible at once
	maxSealed  = 16               // groups that may wait; then the task takes no more records
	flushWait  = 30 * time.Second // how long Flush waits for what is sealed
)

// A Target makes files visible.
type Target interface {
	// Commit makes the files of a topic's partition visible. After a retriable error it is called again with the same files,
	// some of which may be visible already. Several calls may run, each for another partition. moving is called whenever
	// something was written.
	Commit(ctx context.Context, tp connectors.TopicPartition, files []File, moving func()) error
	// Close frees what the target holds.
	Close()
}

// A Task is a sink task that writes files to a Target.
//
// Records of a partition are shared out to files by their folder. The open files of a partition are finished and made
// visible together, and only then is the offset behind their last record committed. When they are finished follows from
// the records alone, unless the clock has a say (rotate.schedule.interval.ms, the Wallclock extractor): what is written
// again after a failure is the same files with the same names.
type Task struct {
	cc      connectors.Context
	lg      *slog.Logger
	set     set
	parter  *Partitioner
	views   []*view
	nulls   string  // the folder of null values; see Options
	output  *Output // see Options
	connect func(ctx context.Context) (Target, error)

	target Target // nil while no partition is open
	spool  *spool
	buf    []byte
	rows   []encoded
	stop   context.CancelFunc
	work   sync.WaitGroup
	now    func() time.Time
	warned bool // of many schemas
	events envelope.Reader

	mu     sync.Mutex // guards the following, and what part says
	cond   *sync.Cond
	parts  map[connectors.TopicPartition]*part
	queue  []*group // sealed and not yet committed, those under way among them
	held   bool     // nothing is begun until the failure was told
	err    error    // not yet told
	failed error    // for ever
	ending bool
	kick   chan struct{} // a group is through, or failed
}

// NewTask makes a task. connect reaches the target, when the first partition is opened.
func NewTask(cc connectors.Context, v config.Values, o Options, connect func(ctx context.Context) (Target, error)) (*Task, error) {
	p, views, errs := build(v, o)
	if len(errs) > 0 {
		return nil, connectors.BadConfig(errs[0])
	}
	t := &Task{cc: cc, lg: cc.Log, set: newSet(v, p), parter: p, views: views, rows: make([]encoded, len(views)), nulls: o.Tombstones, output: o.Output, connect: connect, now: time.Now, parts: map[connectors.TopicPartition]*part{}}
	t.cond = sync.NewCond(&t.mu)
	return t, nil
}

// Open implements connectors.SinkTask.
func (t *Task) Open(ctx context.Context, parts []connectors.TopicPartition) (map[connectors.TopicPartition]int64, error) {
	if t.target == nil {
		target, err := t.connect(ctx)
		if err != nil {
			return nil, err
		}
		t.start(ctx, target)
	}
	defer context.AfterFunc(ctx, t.cond.Broadcast)()
	t.mu.Lock()
	defer t.mu.Unlock()
	// What this task is still making visible of partitions that it lost is waited for: the target would take it for theirs.
	for ctx.Err() == nil && slices.ContainsFunc(t.queue, func(g *group) bool { return g.part.gone && slices.Contains(parts, g.part.tp) }) {
		t.cond.Wait()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, tp := range parts {
		t.parts[tp] = &part{tp: tp, open: map[fileKey]*openFile{}}
	}
	return nil, nil
}

func (t *Task) start(ctx context.Context, target Target) {
	t.target, t.spool = target, &spool{}
	t.queue, t.held, t.err, t.failed, t.ending = nil, false, nil, nil, false
	t.kick = make(chan struct{}, 1)
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stop = stop
	for range committers {
		t.work.Go(func() { t.commitAll(working) })
	}
}

// Close implements connectors.SinkTask. Open files go: their records were not committed and are read again.
func (t *Task) Close(ctx context.Context, parts []connectors.TopicPartition, lost bool) error {
	if t.target == nil {
		return nil
	}
	defer context.AfterFunc(ctx, t.cond.Broadcast)()
	t.mu.Lock()
	for _, tp := range parts {
		p := t.parts[tp]
		if p == nil {
			continue
		}
		p.gone = true
		delete(t.parts, tp)
		for _, f := range p.open {
			f.release()
		}
		if g := t.first(p); p.busy && !g.shown {
			g.withdraw() // its files may wait for those of many others
		}
		t.queue = slices.DeleteFunc(t.queue, func(g *group) bool {
			if g.part != p || p.busy && g == t.first(p) {
				return false
			}
			g.release()
			return true
		})
		// What is being made visible is waited for: whoever has the partition next would find half of it.
		for p.busy && !lost && ctx.Err() == nil {
			t.cond.Wait()
		}
	}
	last := len(t.parts) == 0
	if last {
		t.ending = true
		t.cond.Broadcast()
	}
	t.mu.Unlock()
	if !last {
		return nil
	}
	t.stop()
	t.work.Wait()
	t.target.Close()
	t.spool.close()
	t.target = nil
	return nil
}

// first is a part's oldest sealed group. The caller holds the mutex.
func (t *Task) first(p *part) *group {
	if i := slices.IndexFunc(t.queue, func(g *group) bool { return g.part == p }); i >= 0 {
		return t.queue[i]
	}
	return nil
}

// Put implements connectors.SinkTask.
func (t *Task) Put(ctx context.Context, records []schema.Record) error {
	if t.target == nil {
		if len(records) == 0 {
			return nil
		}
		return fmt.Errorf("put %d records: no partition is open", len(records))
	}
	if err := t.told(); err != nil {
		return &connectors.PutError{Err: err}
	}
	now := t.now()
	for i := range records {
		if err := t.take(ctx, &records[i], now); err != nil {
			return &connectors.PutError{Taken: i, Err: err}
		}
	}
	if t.set.schedule > 0 {
		for _, p := range t.parts {
			if len(p.open) > 0 && now.UnixMilli() >= t.due(p.began) {
				t.seal(p)
			}
		}
	}
	if err := t.told(); err != nil {
		return &connectors.PutError{Taken: len(records), Err: err}
	}
	return nil
}

// due is when files that were begun then are finished by the clock.
func (t *Task) due(began int64) int64 {
	b := time.UnixMilli(began).In(t.set.zone)
	midnight := time.Date(b.Year(), b.Month(), b.Day(), 0, 0, 0, 0, t.set.zone).UnixMilli()
	return midnight + ((began-midnight)/t.set.schedule+1)*t.set.schedule
}

// told returns a failure of a commit, once if it may pass; whoever goes on wants it tried again.
func (t *Task) told() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		return t.failed
	}
	err := t.err
	if t.err = nil; err == nil && t.held {
		t.held = false
		t.cond.Broadcast()
	}
	return err
}

// take puts a record into its file.
func (t *Task) take(ctx context.Context, r *schema.Record, now time.Time) error {
	p := t.parts[connectors.TopicPartition{Topic: r.Origin.Topic, Partition: r.Origin.Partition}]
	if p == nil {
		return fmt.Errorf("a record of %s-%d, which is not open", r.Origin.Topic, r.Origin.Partition)
	}
	offset := r.Origin.Offset
	if offset < p.next {
		return OffsetsBehind(fmt.Sprintf("records of %v from offset %d on come, after those up to %d", p.tp, offset, p.next-1))
	}
	if err := t.room(ctx); err != nil {
		return err
	}
	key := fileKey{topic: r.Topic, folder: t.nulls, tombstones: r.Value.IsNull()}
	var ms int64
	var err error
	switch {
	case t.output != nil:
		key, ms = fileKey{topic: r.Topic}, t.output.when(r, now)
	case !key.tombstones:
		if key.folder, ms, err = t.parter.Place(r, now); err != nil {
			return t.bad(ctx, p, r, noFile(r, err))
		}
	case t.nulls != "":
		ms = t.parter.nullTime(r, now)
	case t.set.ignoreNull:
		p.next = offset + 1
		return nil
	default:
		return t.bad(ctx, p, r, connectors.Failed(&nullValue, nil, fmt.Sprintf("the record at %s has a null value", where(r)), ""))
	}
	f := p.file(key)
	turn, err := t.encode(p, f, key, ms, r)
	if err != nil {
		return t.bad(ctx, p, r, noFile(r, err))
	}
	if turn {
		t.seal(p)
		f = nil
	}
	if f == nil {
		f = t.newFile(key, r.Origin, ms)
	}
	if err := t.add(f, offset); err != nil {
		return err
	}
	if cap(t.buf) > 1<<20 {
		t.buf = nil
	}
	if len(p.open) == 0 {
		p.base, p.latest, p.began, p.current = ms, ms, now.UnixMilli(), ""
	}
	if !key.tombstones && (ms >= p.latest || p.current == "") {
		p.current = t.parter.TimeFolder()
	}
	p.latest = max(p.latest, ms)
	if f.records == 1 {
		p.open[key], p.recent = f, f
	}
	p.next = offset + 1
	if f.records >= int64(t.set.flushSize) || t.set.bytes > 0 && f.size >= t.set.bytes || t.set.maxOpen > 0 && len(p.open) >= t.set.maxOpen {
		t.seal(p)
	}
	return nil
}

// encode turns a record into what the views' files get of it. f is its open file, if there is one; turn says that the open files are finished
// before. An error is a data error of the record.
func (t *Task) encode(p *part, f *openFile, key fileKey, ms int64, r *schema.Record) (turn bool, err error) {
	var parts [3]schema.Value
	for i, view := range t.shown(key) {
		s, v, err := view.of(r)
		if err != nil {
			return false, err
		}
		parts[i], t.rows[i].schema = v, s
	}
	turn = t.turns(p, f, key, ms)
	if turn || f == nil { // it is a file's first
		if err := t.checkName(p, key, r.Origin.Offset, ms); err != nil {
			return false, err
		}
		f = nil
	}
	t.buf = t.buf[:0]
	for i, view := range t.shown(key) {
		s, v := t.rows[i].schema, parts[i]
		if f != nil && view.format.oneSchema() && f.bodies[i].schema != s {
			if v, err = f.bodies[i].project(s, v); err != nil {
				return false, err
			}
			s = f.bodies[i].schema
		}
		from := len(t.buf)
		if t.buf, err = view.format.append(t.buf, s, v); err != nil {
			if view.suffix != "" {
				err = fmt.Errorf("its %s: %w", view.part, err)
			}
			return false, err
		}
		t.rows[i].from, t.rows[i].to = from, len(t.buf)
	}
	return turn, nil
}

// shown are the views that a file has: without its value for null values.
func (t *Task) shown(key fileKey) []*view {
	if key.tombstones {
		return t.views[1:]
	}
	return t.views
}

func (t *Task) newFile(key fileKey, first *schema.Origin, ms int64) *openFile {
	f := &openFile{fileKey: key, first: first.Offset, firstTime: first.Timestamp, ms: ms}
	for i, view := range t.shown(key) {
		f.bodies = append(f.bodies, &body{content: content{s: t.spool}, view: view, schema: t.rows[i].schema})
	}
	return f
}

// add appends the rows of a record to a file. After an error the file is of no use, and the task has failed: what is beside each other
// would not belong together.
func (t *Task) add(f *openFile, offset int64) error {
	for i, b := range f.bodies {
		if err := b.add(t.buf[t.rows[i].from:t.rows[i].to], offset); err != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.failed = err
			return err
		}
	}
	f.last, f.records, f.size = offset, f.records+1, f.size+int64(len(t.buf))
	return nil
}

// name is a file's name but for what views add.
func (t *Task) name(topic string, partition int32, folder string, first, ms int64) string {
	if t.output != nil {
		return t.output.Name(topic, partition, first, ms)
	}
	return t.set.name(topic, partition, folder, first)
}

// checkName returns why the names of a file cannot be so.
func (t *Task) checkName(p *part, key fileKey, first, ms int64) error {
	name := t.name(key.topic, p.tp.Partition, key.folder, first, ms)
	for _, view := range t.shown(key) {
		if err := checkName(name + view.ext()); err != nil {
			return err
		}
	}
	return nil
}

// turns reports whether the open files are finished before a record of that folder, time and schemas (in t.rows).
func (t *Task) turns(p *part, f *openFile, key fileKey, ms int64) bool {
	if len(p.open) == 0 {
		return false
	}
	if t.set.interval > 0 {
		if ms-p.base >= t.set.interval {
			return true
		}
		if t.set.onChange && !key.tombstones && p.current != "" && ms >= p.latest && t.parter.TimeFolder() != p.current {
			return true
		}
	}
	if f == nil {
		return false
	}
	for i, b := range f.bodies {
		if b.view.format.oneSchema() && t.changes(f, b, t.rows[i].schema) {
			return true
		}
	}
	return false
}

// changes reports whether a record's schema cannot go into a file.
func (t *Task) changes(f *openFile, b *body, s *schema.Schema) bool {
	if s == b.schema || s != nil && b.schema != nil && schema.Equal(s, b.schema) {
		return false
	}
	if s == nil || b.schema == nil || t.set.compatibility == "NONE" {
		if f.records == 1 && !t.warned {
			t.warned = true
			t.lg.Warn("records of alternating schemas make a file each; schema.compatibility=BACKWARD turns older ones into the newest schema", "schema", s.String())
		}
		return true
	}
	has, ok1 := b.schema.Version()
	comes, ok2 := s.Version()
	if !ok1 || !ok2 {
		return true
	}
	if t.set.compatibility == "FORWARD" {
		return comes < has
	}
	return comes > has
}

// project turns a value of a schema into one of the file's.
func (o *body) project(s *schema.Schema, v schema.Value) (schema.Value, error) {
	p := o.projections[s]
	if p == nil {
		if schema.Equal(s, o.schema) {
			return v, nil
		}
		var err error
		if p, err = schema.NewProjection(s, o.schema); err != nil {
			return v, err
		}
		if o.projections == nil || len(o.projections) > 100 {
			o.projections = map[*schema.Schema]*schema.Projection{}
		}
		o.projections[s] = p
	}
	return p.Apply(v)
}

// bad leaves out a record that makes no part of a file, as errors.tolerance says. The event of a truncated table is no reason to fail:
// it has neither the key nor the row that is asked for.
func (t *Task) bad(ctx context.Context, p *part, r *schema.Record, cause error) error {
	if t.events.Truncates(r) {
		t.lg.Warn("the event of a truncated table, which has no key and no row, is left out", "topic", r.Origin.Topic, "partition", r.Origin.Partition, "offset", r.Origin.Offset, "reason", cause)
	} else if err := t.cc.Report(ctx, *r, cause); err != nil {
		return err
	}
	p.next = r.Origin.Offset + 1
	return nil
}

// seal finishes the open files of a part.
func (t *Task) seal(p *part) {
	g := &group{part: p, end: p.next}
	for _, f := range p.open {
		g.files = append(g.files, f)
	}
	slices.SortFunc(g.files, func(a, b *openFile) int { return int(min(max(a.first-b.first, -1), 1)) })
	for _, f := range g.files {
		var all []finish
		for _, b := range f.bodies {
			all = append(all, b.view.format.finish(b))
		}
		g.finish = append(g.finish, all)
	}
	clear(p.open)
	p.recent = nil
	t.mu.Lock()
	defer t.mu.Unlock()
	p.sealed++
	t.queue = append(t.queue, g)
	t.cond.Broadcast()
}

// room waits until not too much is sealed.
func (t *Task) room(ctx context.Context) error {
	return t.await(ctx, func() bool { return len(t.queue) < maxSealed })
}

// await waits until ok holds, which is asked under the mutex, or a commit failed.
func (t *Task) await(ctx context.Context, ok func() bool) error {
	for {
		t.mu.Lock()
		done := ok()
		t.mu.Unlock()
		if done {
			return nil
		}
		if err := t.told(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.kick:
		}
	}
}

// Flush implements connectors.SinkTask.
func (t *Task) Flush(ctx context.Context) (map[connectors.TopicPartition]int64, error) {
	if t.target == nil {
		return nil, nil
	}
	if t.output != nil {
		for _, p := range t.parts {
			if len(p.open) > 0 {
				t.seal(p)
			}
		}
	}
	waiting, cancel := context.WithTimeoutCause(ctx, flushWait, errFlushTime)
	defer cancel()
	err := t.await(waiting, func() bool { return len(t.queue) == 0 })
	if err != nil && (ctx.Err() != nil || !errors.Is(context.Cause(waiting), errFlushTime)) {
		return nil, err
	}
	out := map[connectors.TopicPartition]int64{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for tp, p := range t.parts {
		if len(p.open) == 0 && p.sealed == 0 && p.next > p.committed { // also what was left out
			p.committed, p.moved = p.next, true
		}
		if p.moved {
			out[tp], p.moved = p.committed, false
		}
	}
	return out, nil
}

var errFlushTime = errors.New("flush took too long")

// commitAll makes groups visible until the task ends.
func (t *Task) commitAll(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		g := t.begin()
		for g == nil {
			if t.ending {
				return
			}
			t.cond.Wait()
			g = t.begin()
		}
		making, withdraw := context.WithCancel(ctx)
		g.withdraw = withdraw
		t.mu.Unlock()
		err := t.commit(ctx, making, g)
		withdraw()
		t.mu.Lock()
		t.ended(ctx, g, err)
	}
}

// begin takes the oldest group of a part of which none is under way. The caller holds the mutex.
func (t *Task) begin() *group {
	if t.held || t.failed != nil || t.ending {
		return nil
	}
	for _, g := range t.queue {
		if !g.part.busy {
			g.part.busy = true
			return g
		}
	}
	return nil
}

// ended takes a group out that is visible, or says why it is not. The caller holds the mutex.
func (t *Task) ended(ctx context.Context, g *group, err error) {
	p := g.part
	p.busy = false
	switch {
	case err == nil || p.gone:
		t.queue = slices.DeleteFunc(t.queue, func(other *group) bool { return other == g })
		p.sealed--
		if err == nil {
			p.committed, p.moved = g.end, true
		}
		g.release()
	case ctx.Err() != nil: // the task ends
	case connectors.RetryOf(err) == connectors.RetryHelps:
		t.err, t.held = err, true
	default:
		t.failed = err
	}
	t.cond.Broadcast()
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// shows notes that a group's files are being made visible, from when on who takes the partition away waits for them; false: it was taken away.
func (t *Task) shows(g *group) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.shown = !g.part.gone
	return g.shown
}

// commit makes a group visible. making ends with ctx, or when the group's partition is taken away.
func (t *Task) commit(ctx, making context.Context, g *group) (err error) {
	defer func() {
		if p := recover(); p != nil {
			t.lg.Error("writing files panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("writing files panicked: %v", p)
		}
	}()
	moving := func() {
		if t.cc.Moving != nil {
			t.cc.Moving()
		}
	}
	var files []File
	for i, f := range g.files {
		name := t.name(f.topic, g.part.tp.Partition, f.folder, f.first, f.ms)
		for j, b := range f.bodies {
			whole := &b.content
			if finish := g.finish[i][j]; finish != nil {
				whole = &content{s: t.spool}
				defer whole.release()
				if err := finish(making, whole, moving); err != nil {
					return err
				}
				moving()
			}
			files = append(files, File{Name: name + b.view.ext(), First: f.first, Last: f.last, FirstTime: f.firstTime, Records: f.records, Size: whole.size, Body: whole,
				end: fmt.Sprintf("%s%0*d", t.set.delim, t.set.pad, f.last), ext: b.view.ext()})
		}
	}
	if !t.shows(g) {
		return context.Canceled
	}
	return t.target.Commit(ctx, g.part.tp, files, moving)
}
