package catalog

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/log/internal/batch"
	"millrace/log/internal/scram"
	"millrace/log/internal/store"
)

// Error is a refusal with the code that the protocol has for it. Nothing was changed.
type Error struct {
	Code   *kerr.Error
	Reason string
}

func (e *Error) Error() string { return e.Reason }

// Unwrap gives the protocol's error, for errors.Is.
func (e *Error) Unwrap() error { return e.Code }

func refuse(code *kerr.Error, format string, a ...any) error {
	return &Error{code, fmt.Sprintf(format, a...)}
}

// Topic is one topic at one moment. It is never changed: changes make a new one.
type Topic struct {
	Name    string
	ID      [16]byte
	Configs map[string]string // those that were set; read only
	parts   []*store.Partition
}

// Partitions is their number.
func (t *Topic) Partitions() int32 { return int32(len(t.parts)) }

// Partition returns partition n, nil if there is none.
func (t *Topic) Partition(n int32) *store.Partition {
	if n < 0 || int(n) >= len(t.parts) {
		return nil
	}
	return t.parts[n]
}

// Options of Open. Zero values get their defaults.
type Options struct {
	Defaults      map[string]string // topic configurations that are not set on the topic
	MaxPartitions int               // of all topics together, 10000
	Logger        *slog.Logger
}

// Catalog is the set of topics and of users. Safe for concurrent use.
type Catalog struct {
	opt  Options
	lg   *slog.Logger
	st   *store.Store
	meta *store.Partition
	turn chan struct{} // held by whoever changes topics: a channel, since it is held over syncs

	changes atomic.Int64 // of the topics

	mu         sync.RWMutex // guards the fields below; never held over I/O
	topics     map[string]*Topic
	byID       map[[16]byte]*Topic
	partitions int
	groups     map[string]map[string]string // what is set on groups; replaced, not changed
	cluster    string
	users      map[Account]scram.Credential // never changed: changes make a new one
	shapes     map[scram.Mechanism]shape
	secret     []byte // guarded by turn

	ids        chan struct{} // held by whoever takes producer ids
	nextID     int64
	blockEnd   int64
	blockStart int64 // first id that no block holds yet
}

const producerBlock = 1000

// Open loads the catalogue of a store, and finishes what a crash interrupted. A new store gets a
// cluster id.
func Open(st *store.Store, opt Options) (*Catalog, error) {
	if opt.MaxPartitions == 0 {
		opt.MaxPartitions = 10000
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if err := checkConfigs(opt.Defaults); err != nil {
		return nil, fmt.Errorf("defaults of topics: %w", err)
	}
	c := &Catalog{
		opt: opt, lg: opt.Logger, st: st,
		turn: make(chan struct{}, 1), ids: make(chan struct{}, 1),
		topics: map[string]*Topic{}, byID: map[[16]byte]*Topic{},
	}
	pc := partitionConfig(MetaTopic, nil, map[string]string{"cleanup.policy": "compact"})
	c.meta = st.Get(MetaTopic, 0)
	if c.meta == nil {
		var err error
		if c.meta, err = st.Create(store.TopicPartition{Topic: MetaTopic}, newID(), pc); err != nil {
			return nil, fmt.Errorf("create catalogue: %w", err)
		}
	} else {
		c.meta.SetConfig(pc)
	}
	s := state{topics: map[string]topicRecord{}, users: map[Account]scram.Credential{}}
	if err := c.load(&s); err != nil {
		// Reads of what recovery has found damaged name the remedy; a range that was well then, or was not looked at, gets here.
		if bad := new(batch.Error); errors.As(err, &bad) && bad.Code == batch.CorruptMessage && !strings.Contains(err.Error(), "log repair") {
			return nil, fmt.Errorf("load catalogue %s-0: %w: it is damaged; restore it from a copy, or cut the range out with `millrace log repair`", MetaTopic, err)
		}
		return nil, fmt.Errorf("load catalogue %s-0: %w", MetaTopic, err)
	}
	c.cluster, c.blockStart, c.secret = s.cluster, s.nextBlock, s.secret
	// The record of given ids may have been lost with a damaged part. An id that is given twice would make another's records look like retries.
	for _, p := range st.Partitions() {
		if id := p.LargestProducer(); id >= c.blockStart && id < math.MaxInt64/2 {
			c.lg.Warn("the catalogue does not know of producer ids that were given; it goes on behind them", "partition", p.ID().String(), "producerId", id)
			c.blockStart = (id/producerBlock + 1) * producerBlock
		}
	}
	c.setUsers(s.users)
	if c.groups = s.groups; c.groups == nil {
		c.groups = map[string]map[string]string{}
	}
	if c.cluster == "" {
		c.cluster = FormatID(newID())
		if err := c.write(record{keyCluster, encode(clusterRecord{c.cluster})}); err != nil {
			return nil, fmt.Errorf("create catalogue: %w", err)
		}
	}
	for name, t := range s.topics {
		if err := c.adopt(name, t); err != nil {
			return nil, err
		}
	}
	return c, c.strays()
}

func (c *Catalog) load(s *state) error {
	return c.meta.Replay(c.meta.LogStart(), func(v batch.View) error {
		if v.IsControl() {
			return nil
		}
		for r, err := range v.Records() {
			if err != nil {
				return err
			}
			if err := s.apply(string(r.Key), r.Value); err != nil {
				return err
			}
		}
		return nil
	})
}

// adopt takes a topic over at the start.
func (c *Catalog) adopt(name string, r topicRecord) error {
	id, err := ParseID(r.ID)
	if err != nil {
		return err
	}
	if r.Deleting {
		return c.remove(name, r.Partitions)
	}
	t := &Topic{Name: name, ID: id, Configs: r.Configs}
	pc := partitionConfig(name, c.opt.Defaults, r.Configs)
	for n := range r.Partitions {
		p := c.st.Get(name, n)
		if p == nil {
			c.lg.Error("partition is missing, its directory was removed; it starts empty", "topic", name, "partition", n)
			if p, err = c.st.Create(store.TopicPartition{Topic: name, Partition: n}, id, pc); err != nil {
				return fmt.Errorf("restore partition %s-%d: %w", name, n, err)
			}
		}
		p.SetConfig(pc)
		t.parts = append(t.parts, p)
	}
	c.publish(t)
	return nil
}

// strays looks at partitions that no topic has. What is left of a creation that was cut short holds nothing and goes. Records under an id that no
// topic has are those of a topic whose own record was lost with a damaged part of this catalogue, or of one that somebody put there: it is taken
// in. How long it was to keep them is not known, so it keeps them for ever. (A deletion is no such case: its directories have another name before the record
// goes.) Anything else stays for the operator to judge.
func (c *Catalog) strays() error {
	lost := map[string]map[int32]*store.Partition{}
	for _, p := range c.st.Partitions() {
		tp := p.ID()
		t := c.topics[tp.Topic]
		switch {
		case tp.Topic == MetaTopic || t != nil && t.Partition(tp.Partition) == p:
		case p.End() == 0:
			if err := c.st.Delete(tp.Topic, tp.Partition); err != nil {
				return fmt.Errorf("remove unfinished partition %s-%d: %w", tp.Topic, tp.Partition, err)
			}
		case t == nil && p.TopicID() != [16]byte{} && c.byID[p.TopicID()] == nil && int(tp.Partition) < c.opt.MaxPartitions:
			if lost[tp.Topic] == nil {
				lost[tp.Topic] = map[int32]*store.Partition{}
			}
			lost[tp.Topic][tp.Partition] = p
		default:
			c.lg.Warn("partition belongs to no topic; its directory is left alone", "topic", tp.Topic, "partition", tp.Partition, "records", p.End()-p.LogStart())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		if err := c.takeIn(name, lost[name]); err != nil {
			return fmt.Errorf("take in topic %s, of which there are partitions and no record: %w", name, err)
		}
	}
	return nil
}

// takeIn makes a topic of partitions that are there.
func (c *Catalog) takeIn(name string, parts map[int32]*store.Partition) error {
	numbers := slices.Sorted(maps.Keys(parts))
	id := parts[numbers[0]].TopicID()
	for n, p := range parts {
		if p.TopicID() != id {
			c.lg.Error("partitions of one name and no topic have different ids; their directories are left alone", "topic", name, "partition", n)
			return nil
		}
	}
	r := topicRecord{ID: FormatID(id), Partitions: numbers[len(numbers)-1] + 1, Configs: map[string]string{"retention.ms": "-1"}}
	if IsInternal(name) {
		r.Configs = map[string]string{"cleanup.policy": "compact"}
	}
	c.lg.Error("topic was lost from the catalogue and is taken in again; its settings are not known: it keeps its records until they are set", "topic", name, "partitions", r.Partitions, "configs", r.Configs)
	if err := c.write(record{topicPrefix + name, encode(r)}); err != nil {
		return err
	}
	return c.adopt(name, r)
}

func (c *Catalog) publish(t *Topic) {
	defer c.changes.Add(1) // when it can be seen
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.topics[t.Name]; old != nil {
		c.partitions -= len(old.parts)
	}
	c.topics[t.Name] = t
	c.byID[t.ID] = t
	c.partitions += len(t.parts)
}

func (c *Catalog) withdraw(t *Topic) {
	defer c.changes.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.topics, t.Name)
	delete(c.byID, t.ID)
	c.partitions -= len(t.parts)
}

type record struct {
	key   string
	value []byte // nil removes
}

// write makes records durable.
func (c *Catalog) write(rs ...record) error {
	now := time.Now().UnixMilli()
	out := make([]batch.Record, len(rs))
	for i, r := range rs {
		out[i] = batch.Record{Timestamp: now, Key: []byte(r.key), Value: r.value}
	}
	a, err := c.meta.Append([]batch.View{batch.Build(batch.Options{}, out...)}, store.AppendOpts{Origin: store.FromCoordinator})
	if err != nil {
		return err
	}
	return c.meta.WaitDurable(context.Background(), a.End)
}

// ClusterID is the cluster's id, 22 characters.
func (c *Catalog) ClusterID() string { return c.cluster }

// Topic returns a topic by name, nil if there is none.
func (c *Catalog) Topic(name string) *Topic {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.topics[name]
}

// TopicBytes is Topic for a name in a buffer; it does not allocate.
func (c *Catalog) TopicBytes(name []byte) *Topic {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.topics[string(name)]
}

// TopicByID returns a topic by id, nil if there is none.
func (c *Catalog) TopicByID(id [16]byte) *Topic {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byID[id]
}

// Changes rises after every change of a topic: when it is as it was, there is nothing new to see.
func (c *Catalog) Changes() int64 { return c.changes.Load() }

// TopicNames returns the names of all topics, in order. The slice is the caller's.
func (c *Catalog) TopicNames() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(maps.Keys(c.topics))
}

// Size is the number of all topics' partitions.
func (c *Catalog) Size() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.partitions
}

// Topics returns all topics by name. The slice is the caller's.
func (c *Catalog) Topics() []*Topic {
	c.mu.RLock()
	ts := slices.Collect(maps.Values(c.topics))
	c.mu.RUnlock()
	slices.SortFunc(ts, func(a, b *Topic) int { return cmp.Compare(a.Name, b.Name) })
	return ts
}

// Config is the effective value of a configuration of a topic that has these set, and whether it
// comes from the topic, from this broker's defaults, or from the built-in ones.
func (c *Catalog) Config(set map[string]string, d *Config) (value string, source Source) {
	if v, ok := set[d.Name]; ok {
		return v, FromTopic
	}
	if v, ok := c.opt.Defaults[d.Name]; ok {
		return v, FromBroker
	}
	return d.Default, FromDefault
}

// Source says where a configuration's value comes from, with the protocol's numbers.
type Source int8

// The sources that topics have.
const (
	FromTopic   Source = 1
	FromBroker  Source = 4
	FromDefault Source = 5
)

// Spec is a topic to be made.
type Spec struct {
	Name       string
	Partitions int32
	Configs    map[string]string
}

// Check refuses a topic that could not be made. Errors are *Error.
func (c *Catalog) Check(s Spec) error {
	if s.Name == MetaTopic {
		return refuse(kerr.InvalidTopicException, "topic name %q is used by the log itself", s.Name)
	}
	if err := store.CheckTopicName(s.Name); err != nil {
		return refuse(kerr.InvalidTopicException, "%s", err)
	}
	if c.Topic(s.Name) != nil {
		return refuse(kerr.TopicAlreadyExists, "Topic '%s' already exists.", s.Name)
	}
	if s.Partitions < 1 {
		return refuse(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	if err := c.room(int(s.Partitions)); err != nil {
		return err
	}
	return checkConfigs(s.Configs)
}

func (c *Catalog) room(more int) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.partitions+more > c.opt.MaxPartitions {
		return refuse(kerr.InvalidPartitions, "%d more partitions would exceed the limit of %d; there are %d", more, c.opt.MaxPartitions, c.partitions)
	}
	return nil
}

func checkConfigs(configs map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(configs)) {
		if err := CheckConfig(k, configs[k]); err != nil {
			return refuse(kerr.InvalidConfig, "%s", err)
		}
	}
	return nil
}

// Create makes a topic and returns when it is durable. Errors are *Error, *batch.Error, or
// store.ErrOutcomeUnknown.
func (c *Catalog) Create(s Spec) (*Topic, error) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if err := c.Check(s); err != nil {
		return nil, err
	}
	t := &Topic{Name: s.Name, ID: newID(), Configs: maps.Clone(s.Configs)}
	if err := c.grow(t, s.Partitions); err != nil {
		return nil, err
	}
	if err := c.write(t.record()); err != nil {
		c.undo(t, 0)
		return nil, err
	}
	c.publish(t)
	return t, nil
}

// grow makes the partitions that t lacks, several at a time: each costs two syncs. When one fails,
// those that were made are removed.
func (c *Catalog) grow(t *Topic, to int32) error {
	from := len(t.parts)
	pc := partitionConfig(t.Name, c.opt.Defaults, t.Configs)
	parts := make([]*store.Partition, int(to)-from)
	errs := make([]error, len(parts))
	limit := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i := range parts {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			parts[i], errs[i] = c.st.Create(store.TopicPartition{Topic: t.Name, Partition: int32(from + i)}, t.ID, pc)
		})
	}
	wg.Wait()
	for _, p := range parts {
		if p != nil {
			p.SetConfig(pc)
		}
	}
	if err := errors.Join(errs...); err != nil {
		for i, p := range parts {
			if p != nil {
				c.st.Delete(t.Name, int32(from+i)) // the first error is the one to tell
			}
		}
		for _, err := range errs {
			if errors.Is(err, store.ErrExist) {
				return refuse(kerr.TopicAlreadyExists, "the data directory holds partitions of an unknown topic %q; move them away", t.Name)
			}
			if err != nil {
				return err
			}
		}
	}
	t.parts = append(t.parts, parts...)
	return nil
}

func (c *Catalog) undo(t *Topic, from int) {
	for n := from; n < len(t.parts); n++ {
		if err := c.st.Delete(t.Name, int32(n)); err != nil {
			c.lg.Warn("unfinished partition was not removed", "topic", t.Name, "partition", n, "error", err)
		}
	}
}

func (t *Topic) record() record {
	return record{topicPrefix + t.Name, encode(topicRecord{ID: FormatID(t.ID), Partitions: t.Partitions(), Configs: t.Configs})}
}

// Delete removes a topic. It is gone when its record says so, whatever happens to its files.
func (c *Catalog) Delete(name string) error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	t := c.Topic(name)
	if t == nil {
		return refuse(kerr.UnknownTopicOrPartition, "This server does not host this topic-partition.")
	}
	mark := topicRecord{ID: FormatID(t.ID), Partitions: t.Partitions(), Configs: t.Configs, Deleting: true}
	if err := c.write(record{topicPrefix + name, encode(mark)}); err != nil {
		return err
	}
	c.withdraw(t)
	return c.remove(name, t.Partitions())
}

// remove takes the directories of a topic away whose record is marked, then the record.
func (c *Catalog) remove(name string, partitions int32) error {
	for n := range partitions {
		if c.st.Get(name, n) == nil {
			continue
		}
		if err := c.st.Delete(name, n); err != nil {
			return fmt.Errorf("delete %s-%d: %w", name, n, err)
		}
	}
	return c.write(record{topicPrefix + name, nil})
}

// AddPartitions grows a topic to that many partitions. With dryRun it only checks.
func (c *Catalog) AddPartitions(name string, to int32, dryRun bool) error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	t := c.Topic(name)
	switch {
	case t == nil:
		return refuse(kerr.UnknownTopicOrPartition, "This server does not host this topic-partition.")
	case to == t.Partitions():
		return refuse(kerr.InvalidPartitions, "Topic already has %d partition(s).", to)
	case to < t.Partitions():
		return refuse(kerr.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.", name, t.Partitions(), to)
	}
	if err := c.room(int(to - t.Partitions())); err != nil || dryRun {
		return err
	}
	grown := &Topic{Name: name, ID: t.ID, Configs: t.Configs, parts: slices.Clone(t.parts)}
	if err := c.grow(grown, to); err != nil {
		return err
	}
	if err := c.write(grown.record()); err != nil {
		c.undo(grown, len(t.parts))
		return err
	}
	c.publish(grown)
	return nil
}

// AlterConfigs changes a topic's configurations: change gets a copy of those that are set. With
// dryRun it only checks.
func (c *Catalog) AlterConfigs(name string, dryRun bool, change func(set map[string]string) error) error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	t := c.Topic(name)
	if t == nil {
		return refuse(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", name)
	}
	set := maps.Clone(t.Configs)
	if set == nil {
		set = map[string]string{}
	}
	if err := change(set); err != nil {
		return err
	}
	if err := checkConfigs(set); err != nil || dryRun {
		return err
	}
	altered := &Topic{Name: name, ID: t.ID, Configs: set, parts: t.parts}
	if err := c.write(altered.record()); err != nil {
		return err
	}
	pc := partitionConfig(name, c.opt.Defaults, set)
	for _, p := range t.parts {
		p.SetConfig(pc)
	}
	c.publish(altered)
	return nil
}

// ProducerID returns an id that was never returned before, by any process.
func (c *Catalog) ProducerID() (int64, error) {
	c.ids <- struct{}{}
	defer func() { <-c.ids }()
	if c.nextID == c.blockEnd {
		end := c.blockStart + producerBlock
		if err := c.write(record{keyProducers, encode(producersRecord{end})}); err != nil {
			return 0, err
		}
		c.nextID, c.blockEnd, c.blockStart = c.blockStart, end, end
	}
	id := c.nextID
	c.nextID++
	return id, nil
}

// newID makes a topic id. A leading dash would look like an option on a command line.
func newID() (id [16]byte) {
	for {
		rand.Read(id[:])
		if FormatID(id)[0] != '-' && id != ([16]byte{}) {
			return id
		}
	}
}
