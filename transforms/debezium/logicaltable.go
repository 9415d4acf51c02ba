package debezium

import (
	"fmt"
	"strings"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/envelope"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
	"millrace/transforms"
)

// physicalTable is the default name of the key's field that names the table.
const physicalTable = "__dbz__physicalTableIdentifier"

var (
	logicalRegex = config.Key[string]{Name: "topic.regex", Required: true, Importance: config.Low, Width: config.Long, Order: 1, Display: "Topic regex", Check: javatext.CheckPattern,
		Doc: "Regular expression, as in Java, that the whole topic of a table must match."}
	logicalReplacement = config.Key[string]{Name: "topic.replacement", Required: true, Importance: config.Low, Width: config.Long, Order: 1, Display: "Topic replacement", Check: config.NonEmpty,
		Doc: "The topic of the logical table; $1 and ${name} are the expression's groups."}
	keyUnique = config.Key[bool]{Name: "key.enforce.uniqueness", Default: true, Importance: config.Low, Width: config.Long, Order: 1, Display: "Add source topic name into key",
		Doc: "Add a field to the key that names the table, so that rows of different tables with one key stay apart."}
	keyRegex = config.Key[string]{Name: "key.field.regex", Importance: config.Low, Width: config.Long, Order: 1, Display: "Key field regex",
		Doc: "Regular expression that makes the table's name of the topic; without it the topic itself is taken."}
	keyReplacement = config.Key[string]{Name: "key.field.replacement", Importance: config.Low, Width: config.Long, Order: 1, Display: "Key field replacement",
		Doc: "What key.field.regex makes of the topic."}
	keyFieldName = config.Key[string]{Name: "key.field.name", Default: physicalTable, Importance: config.Low, Width: config.Long, Order: 1, Display: "Key field name",
		Doc: "Name of the key's field that names the table."}
	logicalCache = config.Key[int32]{Name: "logical.table.cache.size", Default: 16, Importance: config.Low, Width: config.Long, Order: 1, Display: "Logical table cache size", Check: config.AtLeast(int32(1)),
		Doc: "How many tables are remembered with their names and schemas; those of the longest past are worked out again."}
	logicalAdjust = config.Key[string]{Name: "schema.name.adjustment.mode", Default: "none", Importance: config.Medium, Width: config.MediumW, Order: 1, Display: "Schema Name Adjustment", Check: config.OneOf(envelope.AdjustModes...),
		Doc: "How schema names are made fit for a converter: none; avro replaces by _ what Avro refuses; avro_unicode replaces it, and _, by _uXXXX."}
)

// ByLogicalTableRouter sends the events of several tables to one topic.
var ByLogicalTableRouter = transforms.Plugin{
	Info: plugin.Info{
		Name: "logical-table-router", Class: "io.debezium.transforms.ByLogicalTableRouter", Version: schema.DebeziumVersion,
		Doc:    "Sends the events of several tables, such as shards, to the topic of one logical table, and names their schemas after it.",
		Config: config.Define(logicalRegex, logicalReplacement, keyUnique, keyRegex, keyReplacement, keyFieldName, logicalCache, logicalAdjust),
	},
	New: newLogicalTable,
}

type logicalTable struct {
	regex     *javatext.Regexp
	to        *javatext.Replacement
	unique    bool
	keyRegex  *javatext.Regexp
	keyTo     *javatext.Replacement
	keyField  string
	adjust    envelope.Adjuster
	maxTables int
	tables    map[string]*logicalRoute // by topic
}

// A logicalRoute is where a topic's records go.
type logicalRoute struct {
	pass   bool // the expression does not match
	topic  string
	name   string       // of the schemas
	table  schema.Value // in the key
	keys   schema.Cache[*schema.Schema]
	values schema.Cache[*renamed]
}

// renamed is an envelope under another name: nil for what is none.
type renamed struct {
	to            *schema.Schema
	before, after int
}

func newLogicalTable(v config.Values) (transforms.Transform, error) {
	t := &logicalTable{unique: keyUnique.Get(v), keyField: keyFieldName.Get(v), maxTables: int(logicalCache.Get(v)), tables: map[string]*logicalRoute{}}
	var err error
	if t.regex, err = javatext.Compile(logicalRegex.Get(v)); err != nil {
		return nil, logicalRegex.Errorf(v, "Invalid regex: %v", err)
	}
	if t.to, err = t.regex.Replacement(logicalReplacement.Get(v)); err != nil {
		return nil, logicalReplacement.Errorf(v, "%v", err)
	}
	if pattern := keyRegex.Get(v); pattern != "" {
		if keyReplacement.Get(v) == "" {
			return nil, keyReplacement.Errorf(v, "key.field.replacement must be non-empty if key.field.regex is set.")
		}
		if t.keyRegex, err = javatext.Compile(pattern); err != nil {
			return nil, keyRegex.Errorf(v, "Invalid regex: %v", err)
		}
		if t.keyTo, err = t.keyRegex.Replacement(keyReplacement.Get(v)); err != nil {
			return nil, keyReplacement.Errorf(v, "%v", err)
		}
	}
	t.adjust, err = envelope.ParseAdjuster(logicalAdjust.Get(v))
	return t, err
}

func (t *logicalTable) Apply(r schema.Record) (schema.Record, bool, error) {
	to, ok := t.tables[r.Topic]
	if !ok {
		var err error
		if to, err = t.route(r.Topic); err != nil {
			return r, false, &schema.DataError{Reason: err.Error()}
		}
		if len(t.tables) >= t.maxTables {
			clear(t.tables)
		}
		t.tables[r.Topic] = to
	}
	if to.pass {
		return r, true, nil
	}
	if err := t.key(&r, to); err != nil {
		return r, false, err
	}
	r.Topic = to.topic
	switch r.Value.Kind() {
	case schema.Struct:
		p, err := to.values.Get(r.ValueSchema, func(s *schema.Schema) (*renamed, error) { return rename(s, to.name) })
		if err != nil {
			return r, false, err
		}
		if p != nil {
			r.ValueSchema, r.Value = p.to, p.apply(r.Value)
		}
	case schema.Map, schema.Null:
	default:
		return r, false, &schema.DataError{Reason: "Only Struct objects supported for [Updating schema], found: " + javatext.ClassName(r.Value.Kind())}
	}
	return r, true, nil
}

func (t *logicalTable) route(topic string) (*logicalRoute, error) {
	ok, err := t.regex.MatchWhole(topic)
	if err != nil {
		return nil, err
	}
	if !ok {
		return &logicalRoute{pass: true}, nil
	}
	to := &logicalRoute{}
	if to.topic, err = t.to.First(topic); err != nil {
		return nil, err
	}
	if to.topic == "" {
		return nil, fmt.Errorf("topic.replacement makes an empty topic of %q", topic)
	}
	to.name = t.adjust.Name(to.topic)
	table := topic
	if t.keyRegex != nil {
		if ok, err = t.keyRegex.MatchWhole(topic); err != nil {
			return nil, err
		}
		if ok {
			if table, err = t.keyTo.First(topic); err != nil {
				return nil, err
			}
		}
	}
	to.table = schema.StringValue(table)
	return to, nil
}

// key renames the key's schema and adds the table.
func (t *logicalTable) key(r *schema.Record, to *logicalRoute) error {
	switch r.Key.Kind() {
	case schema.Null:
		return nil
	case schema.Map:
		if r.KeySchema == nil {
			if t.unique {
				r.Key = schema.MapValue(put(append([]schema.Entry(nil), r.Key.Entries()...), t.keyField, to.table))
			}
			return nil
		}
	case schema.Struct:
		s, err := to.keys.Get(r.KeySchema, func(s *schema.Schema) (*schema.Schema, error) {
			b := schema.From(s).Name(to.name + envelope.KeySuffix)
			for _, f := range s.Fields() {
				b.Field(f.Name, f.Schema)
			}
			if t.unique {
				if s.Index(t.keyField) >= 0 {
					return nil, &schema.DataError{Reason: fmt.Sprintf("Cannot create field because of field name duplication %s", t.keyField)}
				}
				b.Field(t.keyField, schema.StringSchema)
			}
			return b.TryBuild()
		})
		if err != nil {
			return err
		}
		old := r.Key.Fields()
		fields := append(make([]schema.Value, 0, len(old)+1), old...)
		if t.unique {
			fields = append(fields, to.table)
		}
		r.KeySchema, r.Key = s, schema.StructValue(s, fields)
		return nil
	}
	return &schema.DataError{Reason: "Only Struct objects supported for [Updating schema], found: " + javatext.ClassName(r.Key.Kind())}
}

func rename(s *schema.Schema, name string) (*renamed, error) {
	if !envelope.IsSchema(s) {
		return nil, nil
	}
	p := &renamed{before: s.Index(envelope.BeforeField), after: s.Index(envelope.AfterField)}
	b := schema.From(s).Name(name + envelope.EnvelopeSuffix)
	for i, f := range s.Fields() {
		of := f.Schema
		if (i == p.before || i == p.after) && of.Kind() == schema.Struct && strings.HasSuffix(of.Name(), envelope.ValueSuffix) {
			row := schema.From(of).Name(name + envelope.ValueSuffix)
			for _, f := range of.Fields() {
				row.Field(f.Name, f.Schema)
			}
			var err error
			if of, err = row.TryBuild(); err != nil {
				return nil, err
			}
		}
		b.Field(f.Name, of)
	}
	var err error
	p.to, err = b.TryBuild()
	return p, err
}

func (p *renamed) apply(v schema.Value) schema.Value {
	fields := append([]schema.Value(nil), v.Fields()...)
	for _, i := range []int{p.before, p.after} {
		if i >= 0 && fields[i].Kind() == schema.Struct {
			fields[i] = schema.StructValue(p.to.Fields()[i].Schema, fields[i].Fields())
		}
	}
	return schema.StructValue(p.to, fields)
}
