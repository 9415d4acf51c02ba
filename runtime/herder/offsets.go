package herder

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/runtime/settings"
	"millrace/runtime/store"
	"millrace/schema"
	"millrace/schema/javatext"
)

// Offsets are the positions of a source's partitions, or of a sink's topic partitions.
func (h *Herder) Offsets(ctx context.Context, name string) ([]runtime.OffsetInfo, error) {
	c, err := h.connector(name)
	if err != nil {
		return nil, err
	}
	out := []runtime.OffsetInfo{}
	if h.typeOf(c.Config) != runtime.SinkType {
		stores, done, err := h.offsetStores(ctx, c, false)
		if err != nil {
			return nil, err
		}
		defer done()
		stored, err := store.AllOf(ctx, name, stores...)
		if err != nil {
			return nil, err
		}
		for _, o := range stored {
			out = append(out, runtime.OffsetInfo{Partition: o.Partition, Offset: o.Position})
		}
		return out, nil
	}
	group, err := h.sinkGroup(ctx, name, c.Config)
	if err != nil {
		return nil, err
	}
	found, err := h.groupOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	for _, o := range found {
		out = append(out, sinkOffset(o.Offset))
	}
	return out, nil
}

// offsetStores are where a source's offsets are: its own topic first, where it has one,
// then the worker's. A topic that does not exist is made where it shall be written.
func (h *Herder) offsetStores(ctx context.Context, c *store.Connector, write bool) (stores []*store.Offsets, done func(), err error) {
	topic := strings.TrimSpace(c.Config[settings.OffsetsTopic.Name])
	if topic == "" || topic == h.cfg.Worker.OffsetTopic.Name {
		return []*store.Offsets{h.offsets}, func() {}, nil
	}
	if !write {
		found, err := h.cfg.Log.Admin().ListTopics(ctx, topic)
		if err != nil {
			return nil, nil, fmt.Errorf("%s %s: %w", settings.OffsetsTopic.Name, topic, err)
		}
		if !found.Has(topic) {
			return []*store.Offsets{h.offsets}, func() {}, nil
		}
	}
	return h.worker.OffsetStores(ctx, c.Config, h.lg)
}

func (h *Herder) groupOffsets(ctx context.Context, group string) ([]kadm.OffsetResponse, error) {
	found, err := h.cfg.Log.Admin().FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("offsets of consumer group %s: %w", group, err)
	}
	list := found.Sorted()
	for _, o := range list {
		if o.Err != nil {
			return nil, fmt.Errorf("offsets of consumer group %s: %w", group, o.Err)
		}
	}
	return list, nil
}

const (
	kafkaTopic, kafkaPartition, kafkaOffset = "kafka_topic", "kafka_partition", "kafka_offset"

	// alterLimit is how long a connector may take to agree to offsets.
	alterLimit = 30 * time.Second
)

func sinkOffset(o kadm.Offset) runtime.OffsetInfo {
	str := schema.StringValue
	return runtime.OffsetInfo{
		Partition: schema.MapValue([]schema.Entry{
			{Key: str(kafkaPartition), Value: schema.Int32Value(o.Partition)},
			{Key: str(kafkaTopic), Value: str(o.Topic)},
		}),
		Offset: schema.MapValue([]schema.Entry{{Key: str(kafkaOffset), Value: schema.Int64Value(o.At)}}),
	}
}

// AlterOffsets sets offsets of a stopped connector; a null offset removes one. done
// says that the connector keeps none elsewhere. Nothing is changed where an error is
// returned, unless the log failed in the midst of writing.
func (h *Herder) AlterOffsets(ctx context.Context, name string, offsets []runtime.OffsetInfo) (done bool, err error) {
	c, err := h.mayAlter(ctx, name)
	if err != nil {
		return false, err
	}
	if h.typeOf(c.Config) == runtime.SinkType {
		wanted, err := sinkOffsets(offsets)
		if err != nil {
			return false, err
		}
		if err := h.subscribed(ctx, c, wanted); err != nil {
			return false, err
		}
		return h.alterSink(ctx, c, wanted, false)
	}
	wanted := make([]connectors.Offset, 0, len(offsets))
	for _, o := range offsets {
		wanted = append(wanted, connectors.Offset{Partition: o.Partition, Position: o.Offset})
	}
	return h.alterSource(ctx, c, wanted, false)
}

// ResetOffsets removes all offsets of a stopped connector; see AlterOffsets.
func (h *Herder) ResetOffsets(ctx context.Context, name string) (done bool, err error) {
	c, err := h.mayAlter(ctx, name)
	if err != nil {
		return false, err
	}
	if h.typeOf(c.Config) != runtime.SinkType {
		return h.alterSource(ctx, c, nil, true)
	}
	group, err := h.sinkGroup(ctx, name, c.Config)
	if err != nil {
		return false, err
	}
	found, err := h.groupOffsets(ctx, group)
	if err != nil {
		return false, err
	}
	wanted := map[connectors.TopicPartition]*int64{}
	for _, o := range found {
		wanted[connectors.TopicPartition{Topic: o.Topic, Partition: o.Partition}] = nil
	}
	return h.alterSink(ctx, c, wanted, true)
}

// mayAlter is the connector, where its offsets may be changed: it is stopped, and so
// are its tasks, which are waited for: those here, and those of the others, which join
// the group again without them once they have stopped.
func (h *Herder) mayAlter(ctx context.Context, name string) (*store.Connector, error) {
	if _, err := h.connector(name); err != nil {
		return nil, err
	}
	if err := h.mustLead(ctx); err != nil {
		return nil, err
	}
	c, err := h.connector(name)
	if err != nil {
		return nil, err
	}
	if err := stoppedForOffsets(c); err != nil {
		return nil, err
	}
	limit := time.NewTimer(h.cfg.Worker.TaskGrace + time.Second)
	defer limit.Stop()
	for {
		running := false
		if err := h.do(ctx, func() {
			for id := range h.tasks {
				running = running || id.Connector == name
			}
			for _, w := range h.holding {
				for _, id := range w.tasks {
					running = running || id.Connector == name
				}
			}
		}); err != nil {
			return nil, err
		}
		if !running {
			return c, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit.C:
			return nil, runtime.Conflict("the tasks of connector %s have not stopped yet; try again", name)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func stoppedForOffsets(c *store.Connector) error {
	// Tasks without the configuration that they were made for are those of a connector of this name that was deleted, in a
	// topic that was compacted: of the one that was made STOPPED they never were.
	if c.Target != runtime.StoppedTarget || len(c.Tasks) > 0 && c.Applied != nil {
		return runtime.BadRequest("Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified connector "+
			"by issuing a 'PUT' request to the '/connectors/%s/stop' endpoint", c.Name)
	}
	return nil
}

// stillStopped takes the right to write configurations, so that no client resumes the
// connector here meanwhile, and looks once more whether it is the same and stopped.
func (h *Herder) stillStopped(ctx context.Context, was *store.Connector) (release func(), err error) {
	release, err = h.lockConfigs(ctx)
	if err != nil {
		return nil, err
	}
	c, err := h.connector(was.Name)
	if err == nil {
		err = stoppedForOffsets(c)
	}
	if err == nil && c.Version != was.Version {
		err = runtime.Conflict("the configuration of connector %s was changed meanwhile; try again", was.Name)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// alterSource stores a source's offsets; with reset it removes all that are stored.
func (h *Herder) alterSource(ctx context.Context, c *store.Connector, wanted []connectors.Offset, reset bool) (done bool, err error) {
	// No former task writes offsets any more, whichever worker it may live on.
	if err := h.fenceNow(ctx, c.Name); err != nil {
		return false, err
	}
	stores, closeStores, err := h.offsetStores(ctx, c, true)
	if err != nil {
		return false, err
	}
	defer closeStores()
	stored, err := store.AllOf(ctx, c.Name, stores...)
	if err != nil {
		return false, err
	}
	if reset {
		for _, o := range stored {
			wanted = append(wanted, connectors.Offset{Partition: o.Partition})
		}
	}
	if err := sameKeys(wanted, stored); err != nil {
		return false, err
	}
	asked, cancel := context.WithTimeout(ctx, alterLimit)
	defer cancel()
	if done, err = h.worker.AlterOffsets(asked, c.Name, c.Config, wanted); err != nil {
		return false, refused(ctx, err)
	}
	release, err := h.stillStopped(ctx, c)
	if err != nil {
		return false, err
	}
	defer release()
	if err := h.fenceLocked(ctx, c.Name); err != nil { // had it run meanwhile
		return false, err
	}
	for _, s := range stores {
		if err := s.Put(ctx, c.Name, wanted); err != nil {
			return false, fmt.Errorf("write offsets of connector %s: %w", c.Name, err)
		}
	}
	return done, nil
}

// sameKeys gives each wanted source partition the order of keys in which it is stored:
// in another it would be another one to whoever compares bytes, as compaction does.
// One that is given twice is refused.
func sameKeys(wanted, stored []connectors.Offset) error {
	codec := store.NewCodec()
	known := make(map[string]schema.Value, len(stored))
	for _, o := range stored {
		key, err := codec.Canonical(o.Partition)
		if err != nil {
			return err
		}
		known[key] = o.Partition
	}
	seen := make(map[string]bool, len(wanted))
	for i, o := range wanted {
		// What is removed may be anything that was stored.
		if !o.Position.IsNull() && (o.Partition.Kind() != schema.Map || o.Position.Kind() != schema.Map) {
			return runtime.BadRequest("offset %d: a source partition and its offset are objects", i+1)
		}
		key, err := codec.Canonical(o.Partition)
		if err != nil {
			return runtime.BadRequest("offset %d: %s", i+1, err)
		}
		if seen[key] {
			return runtime.BadRequest("offset %d: its source partition %s was given already; give each once", i+1, strings.TrimSuffix(strings.TrimPrefix(key, `["",`), "]"))
		}
		seen[key] = true
		if p, ok := known[key]; ok {
			wanted[i].Partition = p
		}
	}
	return nil
}

// refused is a connector's word against offsets. It is the client's to mend, unless
// nobody is: the connector was still at it when time was up.
func refused(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the connector has not agreed to the offsets in time: %w", err)
	}
	return runtime.BadRequest("%s", err)
}

// sinkOffsets reads a sink's offsets: numbers may be given as numbers or as texts.
func sinkOffsets(offsets []runtime.OffsetInfo) (map[connectors.TopicPartition]*int64, error) {
	out := map[connectors.TopicPartition]*int64{}
	for _, o := range offsets {
		if o.Partition.Kind() != schema.Map {
			return nil, runtime.BadRequest("The partition for a sink connector offset cannot be null or missing")
		}
		topic, hasTopic := o.Partition.Lookup(kafkaTopic)
		partition, hasPartition := o.Partition.Lookup(kafkaPartition)
		if !hasTopic || !hasPartition {
			return nil, runtime.BadRequest("The partition for a sink connector offset must contain the keys '%s' and '%s'", kafkaTopic, kafkaPartition)
		}
		if topic.Kind() != schema.String || topic.Str() == "" {
			return nil, runtime.BadRequest("Kafka topic names must be valid strings and may not be null: correct the key '%s'", kafkaTopic)
		}
		n, ok := wholeNumber(partition)
		if !ok || n < 0 || n > math.MaxInt32 {
			return nil, runtime.BadRequest("Failed to parse the following Kafka partition value in the provided offsets: '%s'. Partition values for sink connectors need to be integers: correct the key '%s'", shown(partition), kafkaPartition)
		}
		tp := connectors.TopicPartition{Topic: topic.Str(), Partition: int32(n)}
		if _, twice := out[tp]; twice {
			return nil, runtime.BadRequest("the partition %s was given twice; give each once", tp)
		}
		if o.Offset.IsNull() {
			out[tp] = nil
			continue
		}
		at, ok := o.Offset.Lookup(kafkaOffset)
		if o.Offset.Kind() != schema.Map || !ok {
			return nil, runtime.BadRequest("The offset for a sink connector should either be null or contain the key '%s'", kafkaOffset)
		}
		n, ok = wholeNumber(at)
		if !ok || n < 0 {
			return nil, runtime.BadRequest("Failed to parse the following Kafka offset value in the provided offsets: '%s'. Offset values for sink connectors need to be integers that are not negative: correct the key '%s'", shown(at), kafkaOffset)
		}
		out[tp] = &n
	}
	return out, nil
}

func wholeNumber(v schema.Value) (int64, bool) {
	switch v.Kind() {
	case schema.Int8, schema.Int16, schema.Int32, schema.Int64:
		return v.Int(), true
	case schema.String:
		n, err := strconv.ParseInt(v.Str(), 10, 64)
		return n, err == nil
	}
	return 0, false
}

// shown is a scalar for a message, cut where it is long.
func shown(v schema.Value) string {
	switch v.Kind() {
	case schema.String:
		if s := v.Str(); len(s) <= 64 {
			return s
		}
		return v.Str()[:64] + "…"
	case schema.Int8, schema.Int16, schema.Int32, schema.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case schema.Null:
		return "null"
	}
	return v.Kind().String()
}

// subscribed refuses offsets of topics that a sink does not read, and of partitions
// that do not exist: they would have no effect, or a late one.
func (h *Herder) subscribed(ctx context.Context, c *store.Connector, wanted map[connectors.TopicPartition]*int64) error {
	v, errs := settings.Sink.Parse(c.Config)
	if len(errs) > 0 {
		return runtime.BadRequest("the configuration of connector %s is wrong: %s", c.Name, errs[0])
	}
	topics, pattern := settings.Topics.Get(v), settings.TopicsRegex.Get(v)
	reads := func(topic string) bool { return slices.Contains(topics, topic) }
	if pattern != "" {
		re, err := javatext.Compile(pattern)
		if err != nil {
			return runtime.BadRequest("%s: %s", settings.TopicsRegex.Name, err)
		}
		reads = func(topic string) bool { ok, err := re.MatchWhole(topic); return ok && err == nil }
	}
	var names []string
	for tp, at := range wanted {
		if at == nil {
			continue
		}
		if !reads(tp.Topic) {
			return runtime.BadRequest("connector %s does not read topic %s: correct the key '%s'", c.Name, tp.Topic, kafkaTopic)
		}
		names = append(names, tp.Topic)
	}
	if len(names) == 0 {
		return nil
	}
	found, err := h.cfg.Log.Admin().ListTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("look at the topics of connector %s: %w", c.Name, err)
	}
	for tp, at := range wanted {
		if at == nil {
			continue
		}
		d, ok := found[tp.Topic]
		if !ok || errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			return runtime.BadRequest("there is no topic %s: correct the key '%s'", tp.Topic, kafkaTopic)
		}
		if d.Err != nil {
			return fmt.Errorf("look at topic %s: %w", tp.Topic, d.Err)
		}
		if _, ok := d.Partitions[tp.Partition]; !ok {
			return runtime.BadRequest("topic %s has %d partitions and none with the number %d: correct the key '%s'", tp.Topic, len(d.Partitions), tp.Partition, kafkaPartition)
		}
	}
	return nil
}

// alterSink sets the offsets of a sink's consumer group; with reset the group itself is
// deleted.
func (h *Herder) alterSink(ctx context.Context, c *store.Connector, wanted map[connectors.TopicPartition]*int64, reset bool) (done bool, err error) {
	asked, cancel := context.WithTimeout(ctx, alterLimit)
	defer cancel()
	if done, err = h.worker.AlterSinkOffsets(asked, c.Name, c.Config, wanted); err != nil {
		return false, refused(ctx, err)
	}
	release, err := h.stillStopped(ctx, c)
	if err != nil {
		return false, err
	}
	defer release()
	group, err := h.sinkGroup(ctx, c.Name, c.Config)
	if err != nil {
		return false, err
	}
	admin := h.cfg.Log.Admin()
	if reset {
		answers, err := admin.DeleteGroups(ctx, group)
		if err == nil {
			err = answers[group].Err
		}
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return false, groupError(c.Name, "delete consumer group "+group, err)
		}
		return done, nil
	}
	set, remove := kadm.Offsets{}, kadm.TopicsSet{}
	for tp, at := range wanted {
		if at == nil {
			remove.Add(tp.Topic, tp.Partition)
		} else {
			set.AddOffset(tp.Topic, tp.Partition, *at, -1)
		}
	}
	if len(remove) > 0 {
		answers, err := admin.DeleteOffsets(ctx, group, remove)
		if err == nil {
			err = answers.Error()
		}
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return false, groupError(c.Name, "remove offsets of consumer group "+group, err)
		}
	}
	if len(set) > 0 {
		answers, err := admin.CommitOffsets(ctx, group, set)
		if err == nil {
			err = answers.Error()
		}
		if err != nil {
			return false, groupError(c.Name, "set offsets of consumer group "+group, err)
		}
	}
	return done, nil
}

// groupError tells a group that still has members, which a client tries again, from
// what failed.
func groupError(name, what string, err error) error {
	for _, busy := range []error{kerr.NonEmptyGroup, kerr.GroupSubscribedToTopic, kerr.UnknownMemberID, kerr.RebalanceInProgress, kerr.IllegalGeneration} {
		if errors.Is(err, busy) {
			return runtime.Conflict("%s: tasks of connector %s have not stopped yet, or something else consumes in this group; try again (%s)", what, name, err)
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}
