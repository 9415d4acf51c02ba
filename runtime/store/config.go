package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log"
	"millrace/runtime"
)

// A Connector is what the config topic says of one. It is immutable.
type Connector struct {
	Name   string
	Config map[string]string
	// Version tells configurations of this connector apart: it is the offset of the
	// record that set this one.
	Version int64
	Target  runtime.TargetState

	// Tasks are the tasks' configurations of the last commit that was complete, by number.
	Tasks []map[string]string
	// TasksVersion is the offset of that commit, -1 where there was none.
	TasksVersion int64
	// Inconsistent says that a later commit was incomplete: the tasks must be planned anew.
	Inconsistent bool
	// Applied is the configuration at the last commit: tasks of another one are planned
	// anew. It is nil where the connector was not known then, as happens when
	// compaction has removed the record that the commit followed.
	Applied map[string]string

	// FencedTasks is how many tasks the last fencing was followed by, -1 where there was
	// none. Their producers may still be there.
	FencedTasks int
	// FencedVersion is the offset of that fencing's record, -1 where there was none.
	FencedVersion int64
}

// PendingFencing reports whether tasks were planned since the last fencing: with
// exactly-once delivery none of them starts before the next.
func (c *Connector) PendingFencing() bool { return c.TasksVersion > c.FencedVersion }

// Class is the connector's class or alias as its configuration says.
func (c *Connector) Class() string { return c.Config["connector.class"] }

// A SessionKey signs requests between workers.
type SessionKey struct {
	Key       string `json:"key"` // base64
	Algorithm string `json:"algorithm"`
	Created   int64  `json:"creation-timestamp"` // ms since the epoch
}

// Snapshot is all that the config topic says at one moment. It is immutable.
type Snapshot struct {
	// Offset is the position behind the last record that was read, -1 for none. It numbers
	// configurations in the group protocol, where Connect's workers count so.
	Offset     int64
	Connectors map[string]*Connector
	SessionKey *SessionKey
}

// Tasks are the ids of all tasks of all connectors, sorted.
func (s *Snapshot) Tasks() []runtime.TaskID {
	var out []runtime.TaskID
	for _, name := range slices.Sorted(maps.Keys(s.Connectors)) {
		for n := range s.Connectors[name].Tasks {
			out = append(out, runtime.TaskID{Connector: name, Task: n})
		}
	}
	return out
}

// A Restart is a client's wish that reached all workers.
type Restart struct {
	Connector    string
	IncludeTasks bool
	OnlyFailed   bool
}

// Changes hear of what the config topic brings after it was opened. They are called
// one at a time, in the order of the topic, and must not call the store's methods
// that write or wait.
type Changes struct {
	Changed func(*Snapshot)               // connectors, tasks, target states, session key
	Restart func(Restart)                 // never for what was asked before the store was opened
	Logger  func(namespace, level string) // likewise
	// Fenced is called when a leader's write shows that another worker leads now, or that
	// the log does not answer. Nothing is written then until Lead or Follow.
	Fenced func(err error)
}

// Configs is the config topic.
type Configs struct {
	table   *log.Table
	lg      *slog.Logger
	changes Changes
	live    atomic.Bool // the topic has been read to its end once

	now atomic.Pointer[Snapshot]

	// Of the one goroutine that applies records:
	offset   int64
	conns    map[string]connRecord
	targets  map[string]runtime.TargetState
	staged   map[string]map[int]map[string]string
	commits  map[string]tasksRecord
	fencings map[string]fencing
	key      *SessionKey

	lead chan lead // of one; who writes takes it
	sole bool      // what is the leader's to write nobody else writes

	once sync.Once
}

// lead is how this worker writes: w is the leader's, nil for others. One that was fenced
// writes nothing more until it is told what it is now.
type lead struct {
	w      *log.TableWriter
	fenced error // why it was; nil: it was not
}

type fencing struct {
	tasks   int
	version int64
}

type connRecord struct {
	config  map[string]string
	version int64
}

type tasksRecord struct {
	tasks        []map[string]string
	version      int64
	applied      map[string]string
	inconsistent bool
}

// OpenConfigs makes or verifies the config topic and reads it to its end. With sole, what is the leader's to write is refused but between Lead
// and Follow; target states and levels everybody may write, as in Connect.
func OpenConfigs(ctx context.Context, l *log.Log, t runtime.InternalTopic, sole bool, lg *slog.Logger, changes Changes) (*Configs, error) {
	c := newConfigs(lg, changes)
	c.sole = sole
	var err error
	c.table, err = l.OpenTable(ctx, log.TableOptions{Topic: t.Name, Partitions: 1, Replication: t.Replication, Configs: t.Settings, Apply: c.apply})
	if err != nil {
		return nil, fmt.Errorf("config.storage.topic: %w", err)
	}
	return c, nil
}

func newConfigs(lg *slog.Logger, changes Changes) *Configs {
	c := &Configs{
		lg: lg, changes: changes, offset: -1,
		conns: map[string]connRecord{}, targets: map[string]runtime.TargetState{}, staged: map[string]map[int]map[string]string{},
		commits: map[string]tasksRecord{}, fencings: map[string]fencing{}, lead: make(chan lead, 1),
	}
	c.lead <- lead{}
	c.publish()
	return c
}

// Live says that from now on restarts and logger levels are acted on.
func (c *Configs) Live() { c.live.Store(true) }

// Close ends the store. What is being written fails.
func (c *Configs) Close() {
	c.once.Do(func() {
		c.table.Close()
		c.Follow()
	})
}

// Lead makes this the only worker that writes to the topic in transactions: whoever
// did before is fenced. From then on every write is a transaction of its own. Who
// leads already goes on.
func (c *Configs) Lead(ctx context.Context, transactionalID string) error {
	var was lead
	select {
	case was = <-c.lead:
	case <-ctx.Done():
		return ctx.Err()
	}
	if was.w != nil {
		c.lead <- was
		return nil
	}
	w, err := c.table.OpenWriter(ctx, transactionalID)
	c.lead <- lead{w: w, fenced: err}
	return err
}

// Follow ends what Lead began.
func (c *Configs) Follow() {
	if was := <-c.lead; was.w != nil {
		was.w.Close()
	}
	c.lead <- lead{}
}

// Now is the current snapshot.
func (c *Configs) Now() *Snapshot { return c.now.Load() }

// ReadToEnd returns when Now holds all that was written before the call.
func (c *Configs) ReadToEnd(ctx context.Context) error { return c.table.ReadToEnd(ctx) }

// apply reads records as they come.
func (c *Configs) apply(records []*kgo.Record) {
	changed := false
	for _, r := range records {
		c.offset = r.Offset + 1
		did, err := c.one(r)
		if err != nil {
			c.lg.Error("record of the config topic is skipped", "topic", r.Topic, "offset", r.Offset, "err", err)
		}
		changed = changed || did
	}
	c.publish()
	if changed && c.changes.Changed != nil {
		c.changes.Changed(c.Now())
	}
}

// one applies a record and reports whether it changed what a snapshot shows.
func (c *Configs) one(r *kgo.Record) (changed bool, err error) {
	key := string(r.Key)
	if name, ok := strings.CutPrefix(key, "connector-"); ok {
		if len(name) > runtime.MaxNameBytes {
			return false, fmt.Errorf("key %.40q…: a connector's name has at most %d bytes, this one has %d", key, runtime.MaxNameBytes, len(name))
		}
		if r.Value == nil {
			delete(c.conns, name)
			delete(c.commits, name)
			delete(c.staged, name)
			return true, nil
		}
		p, err := parseProperties(r)
		if err != nil {
			return false, err
		}
		c.conns[name] = connRecord{p, r.Offset}
		return true, nil
	}
	if name, ok := strings.CutPrefix(key, "target-state-"); ok {
		if r.Value == nil {
			delete(c.targets, name)
			return true, nil
		}
		var v struct {
			State string `json:"state"`
			V2    string `json:"state.v2"`
		}
		if err := unmarshal(r.Key, r.Value, &v); err != nil {
			return false, err
		}
		if v.V2 != "" {
			v.State = v.V2
		}
		switch s := runtime.TargetState(v.State); s {
		case runtime.Started, runtime.PausedTarget, runtime.StoppedTarget:
			c.targets[name] = s
			return true, nil
		}
		return false, fmt.Errorf("value of key %q: unknown target state %q", key, v.State)
	}
	if rest, ok := strings.CutPrefix(key, "task-"); ok {
		dash := strings.LastIndexByte(rest, '-')
		if dash < 0 {
			return false, fmt.Errorf("key %q: want task-NAME-NUMBER", key)
		}
		n, err := strconv.Atoi(rest[dash+1:])
		if err != nil || n < 0 {
			return false, fmt.Errorf("key %q: want task-NAME-NUMBER", key)
		}
		if r.Value == nil {
			return false, nil // Connect never writes that, and reads over it
		}
		p, err := parseProperties(r)
		if err != nil {
			return false, err
		}
		name := rest[:dash]
		if c.staged[name] == nil {
			c.staged[name] = map[int]map[string]string{}
		}
		c.staged[name][n] = p
		return false, nil
	}
	if name, ok := strings.CutPrefix(key, "commit-"); ok {
		var v struct {
			Tasks *int `json:"tasks"`
		}
		if r.Value == nil {
			return false, nil
		}
		if err := unmarshal(r.Key, r.Value, &v); err != nil {
			return false, err
		}
		if v.Tasks == nil || *v.Tasks < 0 {
			return false, fmt.Errorf("value of key %q: no number of tasks", key)
		}
		c.commit(name, *v.Tasks, r.Offset)
		return true, nil
	}
	if name, ok := strings.CutPrefix(key, "tasks-fencing-"); ok {
		var v struct {
			Count *int `json:"task-count"`
		}
		if r.Value == nil {
			delete(c.fencings, name)
			return true, nil
		}
		if err := unmarshal(r.Key, r.Value, &v); err != nil {
			return false, err
		}
		if v.Count == nil {
			return false, fmt.Errorf("value of key %q: no task-count", key)
		}
		c.fencings[name] = fencing{*v.Count, r.Offset}
		return true, nil
	}
	if name, ok := strings.CutPrefix(key, "restart-connector-"); ok {
		if r.Value == nil || !c.live.Load() || c.changes.Restart == nil {
			return false, nil
		}
		v := struct {
			IncludeTasks bool `json:"include-tasks"`
			OnlyFailed   bool `json:"only-failed"`
		}{}
		if err := unmarshal(r.Key, r.Value, &v); err != nil {
			return false, err
		}
		c.changes.Restart(Restart{name, v.IncludeTasks, v.OnlyFailed})
		return false, nil
	}
	if name, ok := strings.CutPrefix(key, "logger-cluster-"); ok {
		if r.Value == nil || !c.live.Load() || c.changes.Logger == nil {
			return false, nil
		}
		var v struct {
			Level string `json:"level"`
		}
		if err := unmarshal(r.Key, r.Value, &v); err != nil {
			return false, err
		}
		c.changes.Logger(name, v.Level)
		return false, nil
	}
	if key == "session-key" {
		if r.Value == nil {
			return false, nil
		}
		var k SessionKey
		if err := unmarshal(r.Key, r.Value, &k); err != nil {
			return false, err
		}
		c.key = &k
		return true, nil
	}
	return false, fmt.Errorf("unknown key %q", key)
}

// commit makes the staged task configurations a connector's tasks, all or none. More
// may be staged than the commit counts: compaction keeps those of an older, larger
// set.
func (c *Configs) commit(name string, n int, offset int64) {
	staged := c.staged[name]
	tasks := make([]map[string]string, n)
	last := c.commits[name]
	complete := true
	for i := range tasks {
		p, ok := staged[i]
		if !ok {
			complete = false
			break
		}
		tasks[i] = p
	}
	delete(c.staged, name)
	if !complete {
		c.lg.Warn("the task configurations of a connector are incomplete; its tasks are planned anew", "connector", name, "want", n, "have", len(staged))
		last.inconsistent = true
		c.commits[name] = last
		return
	}
	t := tasksRecord{tasks: tasks, version: offset, applied: c.conns[name].config}
	c.commits[name] = t
}

func (c *Configs) publish() {
	s := &Snapshot{Offset: c.offset, Connectors: make(map[string]*Connector, len(c.conns)), SessionKey: c.key}
	for name, r := range c.conns {
		conn := &Connector{Name: name, Config: r.config, Version: r.version, Target: c.targets[name], TasksVersion: -1, FencedTasks: -1, FencedVersion: -1}
		if f, ok := c.fencings[name]; ok {
			conn.FencedTasks, conn.FencedVersion = f.tasks, f.version
		}
		if conn.Target == "" {
			conn.Target = runtime.Started
		}
		if t, ok := c.commits[name]; ok {
			conn.Tasks, conn.TasksVersion, conn.Inconsistent, conn.Applied = t.tasks, t.version, t.inconsistent, t.applied
			if t.inconsistent {
				conn.Tasks = nil // part of them belongs to another plan
			}
		}
		s.Connectors[name] = conn
	}
	c.now.Store(s)
}

func parseProperties(r *kgo.Record) (map[string]string, error) {
	var v struct {
		Properties map[string]string `json:"properties"`
	}
	if err := unmarshal(r.Key, r.Value, &v); err != nil {
		return nil, err
	}
	if v.Properties == nil {
		return nil, fmt.Errorf("value of key %q: no properties", r.Key)
	}
	return v.Properties, nil
}

// put writes records that are the leader's to write, and returns when Now shows them.
func (c *Configs) put(ctx context.Context, records ...*kgo.Record) error {
	return c.write(ctx, c.sole, records)
}

// write is put, for records that everybody may write as well.
func (c *Configs) write(ctx context.Context, sole bool, records []*kgo.Record) error {
	var l lead
	select {
	case l = <-c.lead:
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.w == nil && l.fenced == nil {
		c.lead <- l // others may write at once
		if sole {
			return runtime.Conflict("only the leader of the group writes configurations, and this worker no longer is; try again")
		}
		if err := c.table.Put(ctx, records...); err != nil {
			return err
		}
		return c.table.ReadToEnd(ctx)
	}
	err, fenced := l.fenced, true // what fenced it a moment ago is told whoever asks until it leads again
	if l.w != nil {
		err = l.w.Put(ctx, records...)
		fenced = errors.Is(err, log.ErrFenced) || errors.Is(err, log.ErrStuck)
	}
	if fenced && l.w != nil {
		l.w.Close()
		l = lead{fenced: err}
		if c.changes.Fenced != nil {
			c.changes.Fenced(err)
		}
	}
	c.lead <- l
	switch {
	case fenced:
		return fmt.Errorf("%w: %w", runtime.Conflict("Cannot complete request because this worker can no longer write configurations; the group is asked anew who leads"), err)
	case err != nil:
		return err
	}
	return c.table.ReadTo(ctx, records...)
}

// PutConnector sets a connector's configuration and, where target is not empty, what
// it shall do. All methods that write return when Now shows what they wrote.
func (c *Configs) PutConnector(ctx context.Context, name string, config map[string]string, target runtime.TargetState) error {
	var rs []*kgo.Record
	if target != "" {
		rs = append(rs, targetRecord(name, target))
	}
	return c.put(ctx, append(rs, connectorRecord(name, config))...)
}

// RemoveConnector deletes a connector. Its task records stay, as in Connect.
func (c *Configs) RemoveConnector(ctx context.Context, name string) error {
	return c.put(ctx, record("connector-"+name, nil), record("target-state-"+name, nil))
}

// PutTasks replaces a connector's tasks, all at once.
func (c *Configs) PutTasks(ctx context.Context, name string, tasks []map[string]string) error {
	rs := make([]*kgo.Record, 0, len(tasks)+1)
	for i, t := range tasks {
		rs = append(rs, taskRecord(name, i, t))
	}
	return c.put(ctx, append(rs, commitRecord(name, len(tasks)))...)
}

// PutTarget says what a connector shall do. Stopping takes its tasks away, too.
func (c *Configs) PutTarget(ctx context.Context, name string, target runtime.TargetState) error {
	if target == runtime.StoppedTarget {
		return c.put(ctx, commitRecord(name, 0), targetRecord(name, target))
	}
	return c.write(ctx, false, []*kgo.Record{targetRecord(name, target)})
}

// PutRestart tells all workers to restart their parts of a connector.
func (c *Configs) PutRestart(ctx context.Context, r Restart) error {
	return c.put(ctx, restartRecord(r))
}

// PutFencing says that no producer of a connector's former tasks is left, and how many
// tasks come now.
func (c *Configs) PutFencing(ctx context.Context, name string, tasks int) error {
	return c.put(ctx, fencingRecord(name, tasks))
}

// PutSessionKey makes a key known to all workers.
func (c *Configs) PutSessionKey(ctx context.Context, k SessionKey) error {
	return c.put(ctx, sessionKeyRecord(k))
}

// PutLogger sets a logger's level on all workers.
func (c *Configs) PutLogger(ctx context.Context, namespace, level string) error {
	return c.write(ctx, false, []*kgo.Record{loggerRecord(namespace, level)})
}

func record(key string, value []byte) *kgo.Record { return &kgo.Record{Key: []byte(key), Value: value} }

func connectorRecord(name string, config map[string]string) *kgo.Record {
	return record("connector-"+name, appendProperties(nil, config))
}

func taskRecord(name string, n int, config map[string]string) *kgo.Record {
	return record("task-"+name+"-"+strconv.Itoa(n), appendProperties(nil, config))
}

func commitRecord(name string, tasks int) *kgo.Record {
	return record("commit-"+name, fmt.Appendf(nil, `{"tasks":%d}`, tasks))
}

// targetRecord names a target state in two fields: STOPPED is PAUSED to workers that
// do not know it.
func targetRecord(name string, t runtime.TargetState) *kgo.Record {
	old := t
	if t == runtime.StoppedTarget {
		old = runtime.PausedTarget
	}
	return record("target-state-"+name, fmt.Appendf(nil, `{"state":"%s","state.v2":"%s"}`, old, t))
}

func restartRecord(r Restart) *kgo.Record {
	return record("restart-connector-"+r.Connector, fmt.Appendf(nil, `{"include-tasks":%t,"only-failed":%t}`, r.IncludeTasks, r.OnlyFailed))
}

func fencingRecord(name string, tasks int) *kgo.Record {
	return record("tasks-fencing-"+name, fmt.Appendf(nil, `{"task-count":%d}`, tasks))
}

func sessionKeyRecord(k SessionKey) *kgo.Record {
	b := appendString([]byte(`{"key":`), k.Key)
	b = appendString(append(b, `,"algorithm":`...), k.Algorithm)
	return record("session-key", fmt.Appendf(b, `,"creation-timestamp":%d}`, k.Created))
}

func loggerRecord(namespace, level string) *kgo.Record {
	return record("logger-cluster-"+namespace, append(appendString([]byte(`{"level":`), level), '}'))
}
