package avroconverter

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/schema"
	"millrace/schema/avro"
	"millrace/schema/avro/avrodata"
	"millrace/schema/config"
	"millrace/schema/converters"
	"millrace/schema/registry"
	"millrace/schema/registry/client"
)

// converter is the converter of one half. It is used by one goroutine at a time.
type converter struct {
	half     string // key or value
	registry *client.Client
	mapper   avrodata.Mapper
	options  avrodata.Options

	strategy                           strategy
	auto, normal, latest, latestStrict bool
	metadata                           map[string]string // of the version to write with; nil: none
	id                                 int32
	idStrict                           bool
	ttl                                time.Duration // below zero: for ever
	inHeader, readHeader               bool
	header                             string
	limit                              int

	writers schema.Cache[*writer]
	readers map[place]*reading
	last    place
	lastOf  *reading
}

func newConverter(v config.Values, isKey bool, env converters.Env) (*converter, error) {
	c := &converter{
		half: "value", header: "__value_schema_id", auto: autoRegister.Get(v), normal: normalize.Get(v), latest: useLatest.Get(v), latestStrict: latestStrict.Get(v),
		id: useID.Get(v), idStrict: idStrict.Get(v), ttl: time.Duration(latestTTL.Get(v)) * time.Second, limit: int(cacheSize.Get(v)), readers: map[place]*reading{},
	}
	strategyKey, ids, idsRead := valueStrategy, valueIDs, valueIDsRead
	if isKey {
		c.half, c.header = "key", "__key_schema_id"
		strategyKey, ids, idsRead = keyStrategy, keyIDs, keyIDsRead
	}
	c.strategy, _ = strategyOf(strategyKey.Get(v))
	c.inHeader, c.readHeader = is(ids.Get(v), headerSerializer), is(idsRead.Get(v), dualDeserializer)
	c.options = avrodata.Options{
		Enhanced: enhanced.Get(v), Scrub: scrub.Get(v), MetaData: metaData.Get(v), OptionalMapKeys: optionalKeys.Get(v), FlattenSingleton: flatten.Get(v),
		DiscardDocs: discardDocs.Get(v), GeneralizedSums: generalSums.Get(v), KeepNulls: keepNulls.Get(v),
	}
	c.mapper.Options = c.options
	c.writers.Limit = c.limit
	var err error
	if c.metadata, err = pairs(latestWith.Get(v)); err != nil {
		return nil, latestWith.Errorf(v, "%v", err)
	}
	c.registry, err = clientOf(v, env)
	return c, err
}

// writer is what the values of one schema need.
type writer struct {
	schema  *schema.Schema
	own     *avro.Schema // made of it
	encoder *avrodata.Encoder
	last    string // topic
	lastOf  *target
	topics  map[string]*target
}

// target is where values of a schema go: what stands before them or in the headers, and the program that writes them.
type target struct {
	prefix  [5]byte
	header  []byte // magic and guid
	encoder *avrodata.Encoder
	raw     bool // the schema is bytes: they stand alone
	until   time.Time
}

// Encode appends the id of the schema and the value. Null without a default is null, and nothing is registered for it.
func (c *converter) Encode(dst []byte, m *converters.Message, s *schema.Schema, v schema.Value) ([]byte, bool, error) {
	if v.IsNull() && (s == nil || s.Optional() && !c.defaults(s)) {
		return dst, true, nil
	}
	w, err := c.writers.Get(s, c.writer)
	if err != nil {
		return dst, false, err
	}
	t := w.lastOf
	if t == nil || w.last != m.Topic || !t.until.IsZero() && time.Now().After(t.until) {
		if t, err = c.target(w, m.Topic); err != nil {
			return dst, false, err
		}
	}
	out := dst
	if !c.inHeader {
		out = append(out, t.prefix[:]...)
	}
	if t.raw {
		if v.IsNull() {
			v, _ = s.Default()
		}
		if out, err = c.appendRaw(out, w, v); err != nil {
			return dst, false, err
		}
	} else if out, _, err = t.encoder.Append(out, v); err != nil {
		return dst, false, err
	}
	if c.inHeader {
		m.Headers = append(m.Headers, schema.RawHeader{Key: c.header, Value: t.header})
	}
	return out, false, nil
}

// defaults reports whether null of an optional schema is written as its default.
func (c *converter) defaults(s *schema.Schema) bool {
	_, has := s.Default()
	return has && !c.options.KeepNulls
}

// appendRaw appends what is bytes in Avro, without a length before it: so the original's serializers write it.
func (c *converter) appendRaw(dst []byte, w *writer, v schema.Value) ([]byte, error) {
	if w.schema == nil || v.Kind() != w.schema.ValueKind() {
		return dst, &schema.DataError{Reason: fmt.Sprintf("%v under the schema %s", v.Kind(), w.schema)}
	}
	switch v.Kind() {
	case schema.Decimal:
		if v.Scale() != w.schema.Scale() {
			return dst, &schema.DataError{Reason: fmt.Sprintf("a decimal of scale %d under the schema's scale %d", v.Scale(), w.schema.Scale())}
		}
		return v.AppendUnscaled(dst), nil
	case schema.String:
		return append(dst, v.Str()...), nil
	}
	return append(dst, v.Bytes()...), nil
}

func (c *converter) writer(s *schema.Schema) (*writer, error) {
	own, err := c.mapper.ToAvro(s)
	if err != nil {
		return nil, err
	}
	e, err := avrodata.NewEncoder(s, own.Type(), c.options)
	if err != nil {
		return nil, err
	}
	return &writer{schema: s, own: own, encoder: e, topics: map[string]*target{}}, nil
}

// subject is the name under which schemas of a topic's records are.
func (c *converter) subject(topic string, t *avro.Type) (string, error) {
	if c.strategy == topicName {
		return topic + "-" + c.half, nil
	}
	if t.Kind != avro.Record {
		return "", &schema.DataError{Reason: fmt.Sprintf("the subject is named after the record (%s.subject.name.strategy), but the schema is no record: %s", c.half, t.FullName())}
	}
	if c.strategy == recordName {
		return t.FullName(), nil
	}
	return topic + "-" + t.FullName(), nil
}

// target finds where values of w go in a topic.
func (c *converter) target(w *writer, topic string) (*target, error) {
	t := w.topics[topic]
	if t == nil || !t.until.IsZero() && time.Now().After(t.until) {
		var err error
		if t, err = c.ask(w, topic); err != nil {
			return nil, err
		}
		if len(w.topics) >= c.limit {
			clear(w.topics)
		}
		w.topics[strings.Clone(topic)] = t
	}
	w.last, w.lastOf = strings.Clone(topic), t
	return t, nil
}

// ask asks the registry for the schema to write with.
func (c *converter) ask(w *writer, topic string) (*target, error) {
	subject, err := c.subject(topic, w.own.Type())
	if err != nil {
		return nil, err
	}
	ctx := context.Background() // bounded by the client's limits
	mine := client.Schema{Text: w.own.Canonical()}
	t := &target{encoder: w.encoder}
	var known client.Known
	other, strict := false, false // another schema than the data's own; whether it has to read what that would write
	switch {
	case c.auto:
		known, err = c.registry.Register(ctx, subject, mine, c.normal)
		if err == nil && c.inHeader && known.GUID == "" {
			known, err = c.registry.Lookup(ctx, subject, mine, c.normal)
		}
	case c.id >= 0:
		known, err = c.registry.ByID(ctx, c.id, subject)
		other, strict = true, c.idStrict
	case c.latest || c.metadata != nil:
		known, err = c.wanted(ctx, subject)
		other, strict = true, c.latestStrict
		if c.ttl >= 0 {
			t.until = time.Now().Add(c.ttl)
		}
	default:
		known, err = c.registry.Lookup(ctx, subject, mine, c.normal)
	}
	if err != nil {
		return nil, c.explain(err, subject)
	}
	if err := mayWrite(known); err != nil {
		return nil, err
	}
	written := w.own.Type()
	if other {
		s, err := c.parse(ctx, known)
		if err != nil {
			return nil, err
		}
		if found := s.Reads(w.own, "registered", "data's"); strict && len(found) > 0 {
			return nil, &schema.DataError{Reason: fmt.Sprintf("the schema %d under %q cannot read what the data's schema would write: %s", known.ID, subject, found[0])}
		}
		written = s.Type()
		if t.encoder, err = avrodata.NewEncoder(w.schema, written, c.options); err != nil {
			return nil, err
		}
	}
	t.raw = written.Kind == avro.Bytes
	t.prefix = [5]byte{}
	binary.BigEndian.PutUint32(t.prefix[1:], uint32(known.ID))
	if c.inHeader {
		guid, err := hex.DecodeString(strings.ReplaceAll(known.GUID, "-", ""))
		if err != nil || len(guid) != 16 {
			return nil, fmt.Errorf("the schema registry does not tell the GUID of the schema %d under %q; an older one has none: set %s.schema.id.serializer=%s", known.ID, subject, c.half, prefixSerializer)
		}
		t.header = append([]byte{1}, guid...)
	}
	return t, nil
}

// explain says what to do against a refusal.
func (c *converter) explain(err error, subject string) error {
	var e *client.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Status == 409:
		return fmt.Errorf("%w; the new schema does not fit the versions of %q: change the table or the subject's compatibility", err, subject)
	case e.Status == 404 && !c.auto:
		return fmt.Errorf("%w; auto.register.schemas is false, so that the schema has to be registered before", err)
	}
	return err
}

// parse reads a registered schema with all that it refers to.
func (c *converter) parse(ctx context.Context, k client.Known) (*avro.Schema, error) {
	if k.Type != "" && k.Type != registry.TypeAvro {
		return nil, &schema.DataError{Reason: fmt.Sprintf("the schema %d is of the type %s, and not Avro", k.ID, k.Type)}
	}
	var deps []registry.Dependency
	seen := map[string]bool{}
	if err := c.depend(ctx, k.References, &deps, seen, 0); err != nil {
		return nil, err
	}
	s, err := avro.Parse(k.Text, registry.ParseOptions{Dependencies: deps})
	if err != nil {
		return nil, &schema.DataError{Reason: fmt.Sprintf("the schema %d of the registry cannot be read: %v", k.ID, err)}
	}
	return s, nil
}

// Bounds of what schemas may refer to.
const (
	mostReferences = 1000
	deepReferences = 50
)

func (c *converter) depend(ctx context.Context, refs []client.Reference, deps *[]registry.Dependency, seen map[string]bool, depth int) error {
	if depth > deepReferences {
		return &schema.DataError{Reason: fmt.Sprintf("schemas refer to each other more than %d deep", deepReferences)}
	}
	for _, r := range refs {
		if seen[r.Name] {
			continue
		}
		if seen[r.Name] = true; len(seen) > mostReferences {
			return &schema.DataError{Reason: fmt.Sprintf("a schema that refers to more than %d others", mostReferences)}
		}
		k, err := c.registry.Version(ctx, r.Subject, r.Version)
		if err != nil {
			return err
		}
		if err := c.depend(ctx, k.References, deps, seen, depth+1); err != nil {
			return err
		}
		*deps = append(*deps, registry.Dependency{Name: r.Name, Text: k.Text})
	}
	return nil
}
