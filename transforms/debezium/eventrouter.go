package debezium

import (
	"fmt"
	"slices"
	"strings"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/envelope"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
	"millrace/transforms"
)

// outboxColumn declares a setting that names a column of the outbox table.
func outboxColumn(name, def, display, doc string) config.Key[string] {
	return config.Key[string]{Name: name, Default: def, Importance: config.Low, Width: config.MediumW, Order: 1, Display: display, Doc: doc}
}

var (
	outboxID        = outboxColumn("table.field.event.id", "id", "Event ID Field", "Column of the event's id, which becomes the header id.")
	outboxKey       = outboxColumn("table.field.event.key", "aggregateid", "Event Key Field", "Column that becomes the record's key.")
	outboxType      = outboxColumn("table.field.event.type", "type", "Event Type Field", "Column of the event's type; place it with table.fields.additional.placement where readers need it.")
	outboxPayload   = outboxColumn("table.field.event.payload", "payload", "Event Payload Field", "Column that becomes the record's value.")
	outboxTimestamp = outboxColumn("table.field.event.timestamp", "", "Event Timestamp Field", "Column of the record's timestamp; without it the time of the change is taken.")
	outboxVersion   = outboxColumn("table.field.event.schema.version", "", "Event Schema Version Field", "Column that holds the version of the schema under which a value with further fields is written.")
	outboxPlacement = config.Key[[]string]{Name: "table.fields.additional.placement", Importance: config.Medium, Width: config.Long, Order: 1, Display: "Settings for each additional column in the outbox table", Check: checkPlacement,
		Doc: "Further columns and where they go: column:header, column:envelope or column:partition, with another name behind a second colon."}
	outboxMissing = config.Key[bool]{Name: "table.fields.additional.error.on.missing", Default: true, Importance: config.Medium, Width: config.Long, Order: 1, Display: "Should the transform error if an additional field is not found in the change data",
		Doc: "Whether an event without a column of table.fields.additional.placement is an error; otherwise that column is left out."}
	outboxMissingNew = config.Key[string]{Name: "table.field.additional.missing", Internal: true, EmptyDefault: true, Check: config.OneOf("", "error", "ignore"),
		Doc: "error or ignore: the newer name of table.fields.additional.error.on.missing."}
	outboxExpand = config.Key[bool]{Name: "table.expand.json.payload", Importance: config.Medium, Width: config.MediumW, Order: 1, Display: "Expand Payload escaped string as real JSON",
		Doc: "Turn a payload that is the text of a JSON object or array into a value with a schema made of it."}
	outboxNulls = config.Key[string]{Name: "table.json.payload.null.behavior", Default: "ignore", Importance: config.Medium, Width: config.MediumW, Order: 1, Display: "Behavior when json payload including null values", Check: config.OneOf("ignore", "optional_bytes"),
		Doc: "What becomes of null fields of an expanded payload: ignore leaves them out, optional_bytes keeps them as optional bytes."}
	outboxInvalid = config.Key[string]{Name: "table.op.invalid.behavior", Default: "warn", Importance: config.Low, Width: config.MediumW, Order: 1, Display: "Behavior when capturing an unexpected outbox event", Check: config.OneOf("warn", "error", "fatal"),
		Doc: "What happens at an update of the outbox table: warn and error drop the event; fatal fails the task."}
	outboxRouteBy = config.Key[string]{Name: "route.by.field", Default: "aggregatetype", Importance: config.High, Width: config.MediumW, Order: 1, Display: "Field to route events by",
		Doc: "Column whose text decides the topic."}
	outboxRegex = config.Key[string]{Name: "route.topic.regex", Default: "(?<routedByValue>.*)", Importance: config.Low, Width: config.MediumW, Order: 1, Display: "The name of the routed topic", Check: javatext.CheckPattern,
		Doc: "Regular expression, as in Java, for the text of the column."}
	outboxReplacement = config.Key[string]{Name: "route.topic.replacement", Default: "outbox.event.${routedByValue}", Importance: config.High, Width: config.MediumW, Order: 1, Display: "The name of the routed topic",
		Doc: "What the topic becomes; $1 and ${name} are the expression's groups."}
	outboxTombstone = config.Key[bool]{Name: "route.tombstone.on.empty.payload", Importance: config.High, Width: config.MediumW, Order: 1, Display: "Empty payloads cause a tombstone message",
		Doc: "Whether an empty or null payload becomes a tombstone."}
)

// EventRouter sends the rows of an outbox table to topics.
var EventRouter = transforms.Plugin{
	Info: plugin.Info{
		Name: "outbox", Class: "io.debezium.transforms.outbox.EventRouter", Version: schema.DebeziumVersion,
		Doc: "Makes events of the rows that an application inserts into an outbox table: the topic of one column, the key of another, the value of the payload. Deletes and tombstones of the table are dropped; what is no change event passes.",
		Config: config.Define(outboxID, outboxKey, outboxType, outboxPayload, outboxTimestamp, outboxVersion, outboxPlacement, outboxMissing, outboxMissingNew, outboxExpand, outboxNulls,
			outboxInvalid, outboxRouteBy, outboxRegex, outboxReplacement, outboxTombstone).Ignoring(map[string]string{
			"tracing.span.context.field":      "tracing spans belong to the JVM's OpenTelemetry agent",
			"tracing.operation.name":          "tracing spans belong to the JVM's OpenTelemetry agent",
			"tracing.with.context.field.only": "tracing spans belong to the JVM's OpenTelemetry agent",
		}),
	},
	New: newEventRouter,
}

func checkPlacement(list []string) error {
	for _, p := range list {
		parts := strings.Split(p, ":")
		if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || !slices.Contains([]string{"header", "envelope", "partition"}, strings.ToLower(strings.TrimSpace(parts[1]))) {
			return fmt.Errorf("%q is not column:header, column:envelope or column:partition, with another name behind a second colon", p)
		}
	}
	return nil
}

// A placement is a further column on its way.
type placement struct{ column, name string }

type eventRouter struct {
	id, key, payload, timestamp, version, routeBy string
	headers, envelope                             []placement
	partition                                     string
	missingIsError, tombstone, fatal              bool
	expand                                        *jsonExpander
	regex                                         *javatext.Regexp
	to                                            *javatext.Replacement

	events  envelope.Reader
	topics  map[string]string
	schemas schema.Cache[map[outboxShape]*schema.Schema] // of values with further fields, by the row's schema
}

// An outboxShape is what the schema of a value with further fields depends on beside
// the row's.
type outboxShape struct {
	routed  string
	payload *schema.Schema
	version int32
	missing string // columns that the row does not have
}

// maxOutboxShapes bounds the schemas that are remembered per table version.
const maxOutboxShapes = 1000

func newEventRouter(v config.Values) (transforms.Transform, error) {
	t := &eventRouter{
		id: outboxID.Get(v), key: outboxKey.Get(v), payload: outboxPayload.Get(v), timestamp: outboxTimestamp.Get(v), version: outboxVersion.Get(v), routeBy: outboxRouteBy.Get(v),
		missingIsError: outboxMissing.Get(v), tombstone: outboxTombstone.Get(v), fatal: strings.EqualFold(outboxInvalid.Get(v), "fatal"), topics: map[string]string{},
	}
	if m := outboxMissingNew.Get(v); m != "" {
		t.missingIsError = strings.EqualFold(m, "error")
	}
	for _, text := range outboxPlacement.Get(v) {
		parts := strings.Split(text, ":")
		p := placement{strings.TrimSpace(parts[0]), strings.TrimSpace(parts[len(parts)-1])}
		if len(parts) == 2 {
			p.name = p.column
		}
		switch strings.ToLower(strings.TrimSpace(parts[1])) {
		case "header":
			t.headers = append(t.headers, p)
		case "envelope":
			t.envelope = append(t.envelope, p)
		default:
			t.partition = p.column
		}
	}
	if outboxExpand.Get(v) {
		t.expand = &jsonExpander{nulls: strings.EqualFold(outboxNulls.Get(v), "optional_bytes")}
	}
	var err error
	if t.regex, err = javatext.Compile(outboxRegex.Get(v)); err != nil {
		return nil, outboxRegex.Errorf(v, "Invalid regex: %v", err)
	}
	if t.to, err = t.regex.Replacement(outboxReplacement.Get(v)); err != nil {
		return nil, outboxReplacement.Errorf(v, "%v", err)
	}
	return t, nil
}

// A column is a column's value with its schema.
type column struct {
	s     *schema.Schema
	v     schema.Value
	found bool
}

func columnOf(row schema.Value, name string) column {
	if row.Kind() == schema.Map {
		v, ok := row.Lookup(name)
		return column{v: v, found: ok}
	}
	s := row.Schema().Field(name)
	return column{s, row.Get(name), s != nil}
}

func noColumn(name string) error {
	return &schema.DataError{Reason: name + " is not a valid field name"}
}

// column is a column that the event must have.
func (t *eventRouter) column(row schema.Value, name string) (column, error) {
	c := columnOf(row, name)
	if !c.found {
		return c, noColumn(name)
	}
	return c, nil
}

func (t *eventRouter) Apply(r schema.Record) (schema.Record, bool, error) {
	if r.Value.IsNull() {
		return r, false, nil // the tombstone behind a delete of the outbox table
	}
	event, ok := t.events.Read(r.ValueSchema, r.Value)
	if !ok {
		return r, true, nil
	}
	switch event.Op {
	case "c", "r":
	case "u":
		if t.fatal {
			return r, false, &schema.DataError{Reason: "an update of the outbox table was met, and table.op.invalid.behavior is fatal: rows of an outbox table are only inserted and deleted"}
		}
		return r, false, nil
	default:
		return r, false, nil
	}
	row := event.After
	if row.Kind() != schema.Struct && row.Kind() != schema.Map {
		return r, true, nil
	}
	id, err := t.column(row, t.id)
	if err != nil {
		return r, false, err
	}
	payload := columnOf(row, t.payload)
	if !payload.found {
		return r, false, &schema.DataError{Reason: fmt.Sprintf("Unable to find payload field %s in event", t.payload)}
	}
	routeBy, err := t.column(row, t.routeBy)
	if err != nil {
		return r, false, err
	}
	if !routeBy.v.IsNull() && routeBy.v.Kind() != schema.String || routeBy.s != nil && routeBy.s.Kind() != schema.String {
		return r, false, &schema.DataError{Reason: fmt.Sprintf("Field '%s' is not of type STRING", t.routeBy)}
	}
	if routeBy.v.IsNull() {
		return r, false, &schema.DataError{Reason: fmt.Sprintf("column %s, which decides the topic, is null", t.routeBy)}
	}
	if r.Timestamp, err = t.time(row, event); err != nil {
		return r, false, err
	}
	topic, err := t.topic(routeBy.v.Str())
	if err != nil {
		return r, false, err
	}
	key, err := t.column(row, t.key)
	if err != nil {
		return r, false, err
	}
	headers := append(make([]schema.Header, 0, 1+len(t.headers)), schema.Header{Key: "id", Schema: id.s, Value: id.v})
	for _, p := range t.headers {
		c := columnOf(row, p.column)
		if c.found {
			headers = append(headers, schema.Header{Key: p.name, Schema: c.s, Value: c.v})
		} else if t.missingIsError {
			return r, false, noColumn(p.column)
		}
	}
	partition := schema.NoPartition
	if t.partition != "" {
		c := columnOf(row, t.partition)
		switch {
		case !c.found && t.missingIsError:
			return r, false, noColumn(t.partition)
		case c.found && !c.v.IsNull() && c.v.Kind() != schema.Int32 && !(c.s == nil && c.v.Kind() == schema.Int64):
			return r, false, &schema.DataError{Reason: fmt.Sprintf("Field '%s' is not of type INT32", t.partition)}
		case c.found && c.s != nil && c.s.Kind() != schema.Int32:
			return r, false, &schema.DataError{Reason: fmt.Sprintf("Field '%s' is not of type INT32", t.partition)}
		case c.found && !c.v.IsNull():
			partition = int32(c.v.Int())
		}
	}
	valueSchema, value, err := t.value(&r, row, payload, routeBy.v.Str())
	if err != nil {
		return r, false, err
	}
	if t.tombstone && (payload.v.IsNull() || payload.v.Kind() == schema.String && payload.v.Str() == "" || payload.v.Kind() == schema.Bytes && len(payload.v.Bytes()) == 0) {
		valueSchema, value = nil, schema.Value{}
	}
	r.WithHeaders(headers...)
	r.Topic, r.Partition = topic, partition
	r.KeySchema, r.Key, r.ValueSchema, r.Value = key.s, key.v, valueSchema, value
	return r, true, nil
}

// time is the record's timestamp: of a column, or of the change.
func (t *eventRouter) time(row schema.Value, event envelope.View) (int64, error) {
	if t.timestamp == "" {
		return event.Millis.Int(), nil
	}
	c := columnOf(row, t.timestamp)
	if !c.found {
		return 0, &schema.DataError{Reason: fmt.Sprintf("Unable to find timestamp field %s in event", t.timestamp)}
	}
	name := ""
	if c.s != nil {
		if name = c.s.Name(); c.s.Kind() != schema.Int64 {
			return 0, &schema.DataError{Reason: fmt.Sprintf("Field '%s' is not of type INT64", t.timestamp)}
		}
	}
	if c.v.IsNull() {
		return event.Millis.Int(), nil
	}
	switch name {
	case envelope.TimestampName, "org.apache.kafka.connect.data.Timestamp":
		return c.v.Int(), nil
	case envelope.MicroTimestampName:
		return javatext.FloorDiv(c.v.Int(), 1000), nil
	case envelope.NanoTimestampName:
		return javatext.FloorDiv(c.v.Int(), 1_000_000), nil
	case "":
		if c.s == nil && c.v.Kind() == schema.Int64 {
			return c.v.Int(), nil // without a schema it is taken for milliseconds
		}
	}
	return 0, &schema.DataError{Reason: fmt.Sprintf("Unsupported field type %v (%s) for event timestamp", c.s, orText(name, "without logical schema name"))}
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func (t *eventRouter) topic(by string) (string, error) {
	if to, ok := t.topics[by]; ok {
		return to, nil
	}
	to, err := by, error(nil)
	ok, err := t.regex.MatchWhole(by)
	if err == nil && ok {
		to, err = t.to.First(by)
	}
	if err == nil && to == "" {
		err = fmt.Errorf("column %s makes an empty topic of %q", t.routeBy, by)
	}
	if err != nil {
		return "", &schema.DataError{Reason: err.Error()}
	}
	if len(t.topics) >= 10_000 {
		clear(t.topics)
	}
	t.topics[by] = to
	return to, nil
}

// value is the payload, or a struct of it and further columns.
func (t *eventRouter) value(r *schema.Record, row schema.Value, payload column, routed string) (*schema.Schema, schema.Value, error) {
	if t.expand != nil && payload.v.Kind() == schema.String {
		payload.s, payload.v = t.expand.expand(payload.s, payload.v)
	}
	if len(t.envelope) == 0 {
		return payload.s, payload.v, nil
	}
	if r.ValueSchema == nil {
		m := []schema.Entry{{Key: schema.StringValue("payload"), Value: payload.v}}
		for _, p := range t.envelope {
			c := columnOf(row, p.column)
			if c.found {
				m = put(m, p.name, c.v)
			} else if t.missingIsError {
				return nil, schema.Value{}, noEnvelopeColumn(p.column)
			}
		}
		return nil, schema.MapValue(m), nil
	}
	shape := outboxShape{routed: routed, payload: payload.s}
	if t.version != "" {
		shape.version = int32(row.Get(t.version).Int())
	}
	fields := append(make([]schema.Value, 0, 1+len(t.envelope)), payload.v)
	for _, p := range t.envelope {
		c := columnOf(row, p.column)
		switch {
		case c.found:
			fields = append(fields, c.v)
		case t.missingIsError:
			return nil, schema.Value{}, noEnvelopeColumn(p.column)
		default:
			shape.missing += p.column + "\x00"
		}
	}
	known, err := t.schemas.Get(row.Schema(), func(*schema.Schema) (map[outboxShape]*schema.Schema, error) {
		return map[outboxShape]*schema.Schema{}, nil
	})
	if err != nil {
		return nil, schema.Value{}, err
	}
	s := known[shape]
	if s == nil {
		if s, err = t.shape(row.Schema(), shape); err != nil {
			return nil, schema.Value{}, err
		}
		if len(known) >= maxOutboxShapes {
			clear(known)
		}
		known[shape] = s
	}
	return s, schema.StructValue(s, fields), nil
}

func noEnvelopeColumn(name string) error {
	return &schema.DataError{Reason: fmt.Sprintf("Unable to find field %s in event", name)}
}

func (t *eventRouter) shape(row *schema.Schema, sh outboxShape) (*schema.Schema, error) {
	name := row.Name()
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		name = name[:i] + "." + sh.routed + name[i:]
	}
	b := schema.NewStruct(name)
	if t.version != "" && row.Index(t.version) >= 0 {
		b.Version(sh.version)
	}
	b.Field("payload", sh.payload)
	for _, p := range t.envelope {
		if s := row.Field(p.column); s != nil {
			b.Field(p.name, s)
		}
	}
	s, err := b.TryBuild()
	if err != nil {
		return nil, &schema.DataError{Reason: err.Error()}
	}
	return s, nil
}
