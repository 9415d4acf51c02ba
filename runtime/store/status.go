package store

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log"
	"millrace/runtime"
)

// A Status is the state of a connector or task as a worker reported it.
type Status struct {
	State      runtime.State
	Trace      string // "" for none
	WorkerID   string
	Generation int32  // of the group, when it was reported
	Version    string // of the plugin; "" where unknown
}

// A TopicUse says that a connector used a topic.
type TopicUse struct {
	Topic      string
	Connector  string
	Task       int
	Discovered int64 // ms since the epoch
}

// Statuses is the status topic. Reports are written in the background, in order, the
// last one of each connector and task surely; they are seen here at once.
type Statuses struct {
	Forgotten atomic.Int64 // moves when the topic says that a topic use is forgotten

	table *log.Table
	lg    *slog.Logger

	wake    chan struct{} // of one
	ctx     context.Context
	stop    context.CancelFunc
	writing sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	logged map[string]Status
	topics map[string]map[string]TopicUse // by connector and topic
	ours   map[string]report              // reports that the topic does not show yet
	own    map[string]Status              // the last word of this worker about each part that it has
	queue  []string                       // their keys, in order
	seq    int64
	idle   chan struct{} // closed when ours is empty; nil while nobody waits
	heard  func(runtime.TaskID)
}

type report struct {
	value []byte // nil: removed
	st    Status
	seq   int64
	quiet bool // not shown before the topic does (topic uses)
}

// OpenStatuses makes or verifies the status topic and reads it to its end.
func OpenStatuses(ctx context.Context, l *log.Log, t runtime.InternalTopic, lg *slog.Logger) (*Statuses, error) {
	s := newStatuses(lg)
	var err error
	s.table, err = l.OpenTable(ctx, log.TableOptions{Topic: t.Name, Partitions: t.Partitions, Replication: t.Replication, Configs: t.Settings, Apply: s.apply})
	if err != nil {
		return nil, fmt.Errorf("status.storage.topic: %w", err)
	}
	s.writing.Go(s.write)
	return s, nil
}

func newStatuses(lg *slog.Logger) *Statuses {
	s := &Statuses{
		lg: lg, wake: make(chan struct{}, 1),
		logged: map[string]Status{}, topics: map[string]map[string]TopicUse{}, ours: map[string]report{}, own: map[string]Status{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Close writes what is not written yet, for as long as ctx lives, and ends the store.
func (s *Statuses) Close(ctx context.Context) error {
	err := s.Flush(ctx)
	s.stop()
	s.table.Close()
	s.writing.Wait()
	return err
}

// Flush returns when all reports so far are written.
func (s *Statuses) Flush(ctx context.Context) error {
	s.mu.Lock()
	if len(s.ours) == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("write states to topic: %w", context.Cause(ctx))
	}
}

func connectorKey(name string) string  { return "status-connector-" + name }
func taskKey(id runtime.TaskID) string { return "status-task-" + id.String() }

const (
	topicPrefix = "status-topic-"
	ofConnector = ":connector-"
)

func topicKey(topic, connector string) string {
	return topicPrefix + topic + ofConnector + connector
}

// Connector is a connector's state, and whether one is known.
func (s *Statuses) Connector(name string) (Status, bool) { return s.get(connectorKey(name)) }

// Task is a task's state, and whether one is known.
func (s *Statuses) Task(id runtime.TaskID) (Status, bool) { return s.get(taskKey(id)) }

func (s *Statuses) get(key string) (Status, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.ours[key]; ok {
		return r.st, r.value != nil
	}
	st, ok := s.logged[key]
	return st, ok
}

// Watch has f called for each connector (task -1) and task of which the topic tells something from now on. f must not block.
func (s *Statuses) Watch(f func(runtime.TaskID)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = f
}

// Known are the connectors and tasks of which a state is known, and connectors of which no more is known than a topic
// that they used.
func (s *Statuses) Known() (connectors []string, tasks []runtime.TaskID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add := func(key string) {
		if name, ok := strings.CutPrefix(key, "status-connector-"); ok {
			connectors = append(connectors, name)
		} else if id, ok := parseTaskKey(key); ok {
			tasks = append(tasks, id)
		}
	}
	stays := func(key string) bool { r, ours := s.ours[key]; return !ours || r.value != nil }
	for key := range s.logged {
		if stays(key) {
			add(key)
		}
	}
	for name, uses := range s.topics {
		for topic := range uses {
			if _, logged := s.logged[connectorKey(name)]; (!logged || !stays(connectorKey(name))) && stays(topicKey(topic, name)) {
				connectors = append(connectors, name)
				break
			}
		}
	}
	for key, r := range s.ours {
		if _, too := s.logged[key]; !too && r.value != nil && !r.quiet {
			add(key)
		}
	}
	return connectors, tasks
}

// Topics are the topics that a connector used.
func (s *Statuses) Topics(connector string) []TopicUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []TopicUse
	for _, u := range s.topics[connector] {
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b TopicUse) int { return strings.Compare(a.Topic, b.Topic) })
	return out
}

// PutConnector reports a connector's state.
func (s *Statuses) PutConnector(name string, st Status) { s.put(connectorKey(name), st) }

// PutTask reports a task's state.
func (s *Statuses) PutTask(id runtime.TaskID, st Status) { s.put(taskKey(id), st) }

// RemoveConnector forgets a connector's state and the topics it used.
func (s *Statuses) RemoveConnector(name string) {
	s.remove(connectorKey(name))
	s.ForgetTopics(name)
}

// ForgetTopics forgets the topics that a connector used. Its tasks tell them anew when
// they use them again.
func (s *Statuses) ForgetTopics(name string) {
	for _, u := range s.Topics(name) {
		s.remove(topicKey(u.Topic, name))
	}
}

// RemoveTask forgets a task's state.
func (s *Statuses) RemoveTask(id runtime.TaskID) { s.remove(taskKey(id)) }

// PutTopic reports that a connector used a topic.
func (s *Statuses) PutTopic(u TopicUse) {
	s.enqueue(topicKey(u.Topic, u.Connector), report{value: appendTopicUse(nil, u), quiet: true})
}

// put reports a state. That something is no longer run here (UNASSIGNED) is not said
// where a worker of a later generation already said what it does.
func (s *Statuses) put(key string, st Status) {
	if st.State == runtime.Unassigned {
		if now, ok := s.get(key); ok && now.WorkerID != st.WorkerID && now.Generation > st.Generation {
			return
		}
	}
	s.enqueue(key, report{value: appendStatus(nil, st), st: st})
}

func (s *Statuses) remove(key string) { s.enqueue(key, report{}) }

func (s *Statuses) enqueue(key string, r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.value != nil && !r.quiet && r.st.State != runtime.Unassigned {
		s.own[key] = r.st
	} else {
		delete(s.own, key)
	}
	s.enqueueLocked(key, r)
}

func (s *Statuses) enqueueLocked(key string, r report) {
	s.seq++
	r.seq = s.seq
	s.ours[key] = r
	s.queue = append(s.queue, key)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// write sends reports until the store is closed.
func (s *Statuses) write() {
	for {
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
		for s.ctx.Err() == nil && s.send() {
		}
	}
}

// send writes what is queued and reports whether there was something.
func (s *Statuses) send() bool {
	s.mu.Lock()
	sent := map[string]int64{}
	var rs []*kgo.Record
	for _, key := range s.queue {
		r, waits := s.ours[key]
		if _, twice := sent[key]; waits && !twice {
			sent[key] = r.seq
			rs = append(rs, record(key, r.value))
		}
	}
	s.queue = nil
	s.mu.Unlock()
	if len(rs) == 0 {
		return false
	}
	err := s.table.Put(s.ctx, rs...)
	if err == nil {
		err = s.table.ReadToEnd(s.ctx)
	}
	if err != nil && s.ctx.Err() != nil {
		return false
	}
	if err != nil {
		s.lg.Warn("states could not be written; they are tried again", "err", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		for key := range sent {
			s.queue = append(s.queue, key)
		}
		time.AfterFunc(time.Second, func() {
			select {
			case s.wake <- struct{}{}:
			default:
			}
		})
		return false
	}
	s.written(sent)
	return true
}

// written shows the topic's word again of what was sent: the topic shows it now, or what came after it. Where that
// tells something of what was removed, it was hidden when it was heard and is told again.
func (s *Statuses) written(sent map[string]int64) {
	again := map[runtime.TaskID]bool{}
	s.mu.Lock()
	for key, seq := range sent {
		r := s.ours[key]
		if r.seq != seq {
			continue
		}
		delete(s.ours, key)
		if r.value == nil && s.shows(key) {
			again[partOf(key)] = true
		}
	}
	if len(s.ours) == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
	s.mu.Unlock()
	s.tell(again)
}

// tell has who watches called for parts of which the topic tells something.
func (s *Statuses) tell(parts map[runtime.TaskID]bool) {
	s.mu.Lock()
	heard := s.heard
	s.mu.Unlock()
	if heard != nil {
		for id := range parts {
			heard(id)
		}
	}
}

// shows reports whether the topic's last word of a key is a value.
func (s *Statuses) shows(key string) bool {
	if topic, name, ok := parseTopicKey(key); ok {
		_, used := s.topics[name][topic]
		return used
	}
	_, logged := s.logged[key]
	return logged
}

func parseTaskKey(key string) (runtime.TaskID, bool) {
	rest, ok := strings.CutPrefix(key, "status-task-")
	dash := strings.LastIndexByte(rest, '-')
	if !ok || dash < 0 {
		return runtime.TaskID{}, false
	}
	n, err := strconv.Atoi(rest[dash+1:])
	return runtime.TaskID{Connector: rest[:dash], Task: n}, err == nil && n >= 0
}

// parseTopicKey is topicKey the other way round. A topic's name holds no colon, a connector's may.
func parseTopicKey(key string) (topic, connector string, ok bool) {
	rest, ok := strings.CutPrefix(key, topicPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ofConnector)
}

// apply reads records as they come.
func (s *Statuses) apply(records []*kgo.Record) {
	told := map[runtime.TaskID]bool{}
	s.mu.Lock()
	for _, r := range records {
		if err := s.one(r); err != nil {
			s.lg.Error("record of the status topic is skipped", "topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "err", err)
		} else if r.Value != nil {
			told[partOf(string(r.Key))] = true
		}
	}
	s.mu.Unlock()
	s.tell(told)
}

// partOf is what a key is about: a task, or a connector (task -1).
func partOf(key string) runtime.TaskID {
	if id, ok := parseTaskKey(key); ok {
		return id
	}
	if name, ok := strings.CutPrefix(key, "status-connector-"); ok {
		return runtime.TaskID{Connector: name, Task: -1}
	}
	_, name, _ := parseTopicKey(key)
	return runtime.TaskID{Connector: name, Task: -1}
}

func (s *Statuses) one(r *kgo.Record) error {
	key := string(r.Key)
	if strings.HasPrefix(key, topicPrefix) {
		topic, name, ok := parseTopicKey(key)
		if !ok {
			return fmt.Errorf("key %q: want status-topic-TOPIC:connector-NAME", key)
		}
		if r.Value == nil {
			if _, known := s.topics[name][topic]; known {
				delete(s.topics[name], topic)
				s.Forgotten.Add(1)
			}
			return nil
		}
		var v struct {
			Topic struct {
				Name       string `json:"name"`
				Connector  string `json:"connector"`
				Task       int    `json:"task"`
				Discovered int64  `json:"discoverTimestamp"`
			} `json:"topic"`
		}
		if err := unmarshal(r.Key, r.Value, &v); err != nil {
			return err
		}
		if s.topics[name] == nil {
			s.topics[name] = map[string]TopicUse{}
		}
		s.topics[name][topic] = TopicUse{v.Topic.Name, v.Topic.Connector, v.Topic.Task, v.Topic.Discovered}
		return nil
	}
	_, task := parseTaskKey(key)
	if !task && !strings.HasPrefix(key, "status-connector-") {
		return fmt.Errorf("unknown key %q", key)
	}
	if r.Value == nil {
		delete(s.logged, key)
		return nil
	}
	var v struct {
		State      string  `json:"state"`
		Trace      *string `json:"trace"`
		WorkerID   string  `json:"worker_id"`
		Generation int32   `json:"generation"`
		Version    *string `json:"version"`
	}
	if err := unmarshal(r.Key, r.Value, &v); err != nil {
		return err
	}
	st := Status{State: runtime.State(v.State), WorkerID: v.WorkerID, Generation: v.Generation}
	if v.Trace != nil {
		st.Trace = *v.Trace
	}
	if v.Version != nil {
		st.Version = *v.Version
	}
	// A late word of the last owner does not hide what the present one does.
	if was, ok := s.logged[key]; ok && st.State == runtime.Unassigned && was.State == runtime.Running &&
		was.WorkerID != st.WorkerID && was.Generation >= st.Generation {
		return nil
	}
	// A worker that was cut off writes what waited when it comes back: about a part that
	// is ours now, its word must not be the last.
	if own, ok := s.own[key]; ok && own.WorkerID != st.WorkerID && own.Generation > st.Generation {
		s.enqueueLocked(key, report{value: appendStatus(nil, own), st: own})
		return nil
	}
	s.logged[key] = st
	return nil
}

func appendStatus(b []byte, st Status) []byte {
	b = appendString(append(b, `{"state":`...), string(st.State))
	b = appendStringOrNull(append(b, `,"trace":`...), st.Trace)
	b = appendString(append(b, `,"worker_id":`...), st.WorkerID)
	b = fmt.Appendf(b, `,"generation":%d`, st.Generation)
	return append(appendStringOrNull(append(b, `,"version":`...), st.Version), '}')
}

func appendTopicUse(b []byte, u TopicUse) []byte {
	b = appendString(append(b, `{"topic":{"name":`...), u.Topic)
	b = appendString(append(b, `,"connector":`...), u.Connector)
	return fmt.Appendf(b, `,"task":%d,"discoverTimestamp":%d}}`, u.Task, u.Discovered)
}
