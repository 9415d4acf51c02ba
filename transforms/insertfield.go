package transforms

import (
	"fmt"
	"slices"
	"strings"

	"millrace/schema"
	"millrace/schema/config"
)

func insertKey(name, what string) config.Key[string] {
	return config.Key[string]{Name: name, Doc: "Field for " + what + ". A name that ends in ! is a required field, in ? (or neither) an optional one."}
}

var (
	insertTopic     = insertKey("topic.field", "the topic")
	insertPartition = insertKey("partition.field", "the partition")
	insertOffset    = insertKey("offset.field", "the offset, in sinks only")
	insertTimestamp = insertKey("timestamp.field", "the record's timestamp")
	insertStatic    = insertKey("static.field", "a fixed text")
	staticValue     = config.Key[string]{Name: "static.value", Doc: "The text for static.field."}
)

// InsertField adds fields with what is known of the record.
var InsertField = pair("insert-field", "InsertField", "Adds the topic, partition, offset, timestamp or a fixed text to the %s. A null stays null.",
	config.Define(insertTopic, insertPartition, insertOffset, insertTimestamp, insertStatic, staticValue, replaceNull), newInsertField)

// insertion is one field to add; the zero one is none.
type insertion struct {
	name     string
	optional bool
}

func newInsertion(text string) insertion {
	if name, ok := strings.CutSuffix(text, "!"); ok {
		return insertion{name, false}
	}
	return insertion{strings.TrimSuffix(text, "?"), true}
}

type insertField struct {
	programs
	half
	topic, partition, offset, timestamp, static insertion

	text     schema.Value
	defaults bool
}

func newInsertField(v config.Values, h half) (Transform, error) {
	t := &insertField{half: h, defaults: replaceNull.Get(v), text: schema.StringValue(staticValue.Get(v))}
	any := false
	for _, f := range []struct {
		key config.Key[string]
		to  *insertion
	}{{insertTopic, &t.topic}, {insertPartition, &t.partition}, {insertOffset, &t.offset}, {insertTimestamp, &t.timestamp}, {insertStatic, &t.static}} {
		if f.key.Has(v) {
			*f.to = newInsertion(f.key.Get(v))
			any = true
		}
	}
	if !any {
		return nil, &config.Error{Key: "type", Text: "No field insertion configured: set at least one of topic.field, partition.field, offset.field, timestamp.field, static.field"}
	}
	if t.static.name != "" && !staticValue.Has(v) {
		return nil, &config.Error{Key: staticValue.Name, Value: "null", Reason: "No value specified for static field: " + t.static.name}
	}
	return t, nil
}

const inserting = "field insertion"

func (t *insertField) Apply(r schema.Record) (schema.Record, bool, error) {
	s, v := t.of(&r)
	if v.IsNull() {
		return r, true, nil
	}
	if s == nil {
		return t.schemaless(r, v)
	}
	if err := requireStruct(v, inserting); err != nil {
		return r, false, err
	}
	return t.apply(t, &r)
}

type namedInsertion struct {
	name string
	what opKind
}

// insertions are what can be inserted besides the text, in the order of the fields; the text comes last.
func (t *insertField) insertions() [4]namedInsertion {
	return [4]namedInsertion{{t.topic.name, opTopic}, {t.partition.name, opPartition}, {t.offset.name, opOffset}, {t.timestamp.name, opTimestamp}}
}

func (t *insertField) plan(p *plan) error {
	s, fields, err := p.openRead(t.half, t.defaults)
	if err != nil {
		return err
	}
	out, err := t.extend(s)
	if err != nil {
		return err
	}
	fields = slices.Clip(fields)
	for _, of := range t.insertions() {
		if of.name != "" {
			fields = append(fields, p.of(of.what))
		}
	}
	if t.static.name != "" {
		fields = append(fields, p.constant(t.text))
	}
	p.set(t.half, out, fields)
	return nil
}

func (t *insertField) schemaless(r schema.Record, v schema.Value) (schema.Record, bool, error) {
	if err := requireMap(v, inserting); err != nil {
		return r, false, err
	}
	m := append(make([]schema.Entry, 0, len(v.Entries())+5), v.Entries()...)
	for _, of := range t.insertions() {
		if of.name == "" {
			continue
		}
		add, err := of.what.of(&r, r.Topic)
		if err != nil {
			return r, false, err
		}
		if add.IsNull() { // no partition, no timestamp: no field
			continue
		}
		if add.Kind() == schema.Timestamp {
			add = schema.Int64Value(add.Int())
		}
		m = put(m, of.name, add)
	}
	if t.static.name != "" && !t.text.IsNull() {
		m = put(m, t.static.name, t.text)
	}
	t.set(&r, nil, schema.MapValue(m))
	return r, true, nil
}

// put sets a key of a map that is the caller's own.
func put(m []schema.Entry, name string, v schema.Value) []schema.Entry {
	for i := range m {
		if m[i].Key.Kind() == schema.String && m[i].Key.Str() == name {
			m[i].Value = v
			return m
		}
	}
	return append(m, schema.Entry{Key: schema.StringValue(name), Value: v})
}

func (t *insertField) extend(s *schema.Schema) (*schema.Schema, error) {
	b := basics(s)
	for _, f := range s.Fields() {
		b.Field(f.Name, f.Schema)
	}
	add := func(i insertion, of *schema.Builder) error {
		if i.name == "" {
			return nil
		}
		if s.Index(i.name) >= 0 {
			return &schema.DataError{Reason: fmt.Sprintf("Cannot create field because of field name duplication %s", i.name)}
		}
		b.Field(i.name, of.SetOptional(i.optional).Build())
		return nil
	}
	for _, f := range []struct {
		insertion
		of *schema.Builder
	}{
		{t.topic, schema.New(schema.String)}, {t.partition, schema.New(schema.Int32)}, {t.offset, schema.New(schema.Int64)},
		{t.timestamp, schema.TimestampOf()}, {t.static, schema.New(schema.String)},
	} {
		if err := add(f.insertion, f.of); err != nil {
			return nil, err
		}
	}
	return b.TryBuild()
}
