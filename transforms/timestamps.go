package transforms

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
)

var (
	topicFormat = config.Key[string]{Name: "topic.format", Default: "${topic}-${timestamp}", Importance: config.High,
		Doc: "The new topic; ${topic} is the old one, ${timestamp} the record's timestamp."}
	timestampFormat = config.Key[string]{Name: "timestamp.format", Default: "yyyyMMdd", Importance: config.High, Check: checkDatePattern,
		Doc: "Pattern (Java's SimpleDateFormat, in UTC) of the timestamp."}
)

func checkDatePattern(text string) error {
	_, err := javatext.NewSimpleDateFormat(text)
	return err
}

// TimestampRouter puts a record's timestamp into its topic.
var TimestampRouter = Plugin{
	Info: plugin.Info{
		Name: "timestamp-router", Class: javaPackage + "TimestampRouter", Version: schema.ConnectVersion,
		Doc: "Makes the topic of the old one and the record's timestamp.", Config: config.Define(topicFormat, timestampFormat),
	},
	New: func(v config.Values) (Transform, error) {
		f, err := javatext.NewSimpleDateFormat(timestampFormat.Get(v))
		if err != nil {
			return nil, timestampFormat.Errorf(v, "%v", err)
		}
		return &timestampRouter{format: topicFormat.Get(v), date: f}, nil
	},
}

type timestampRouter struct {
	format string
	date   *javatext.SimpleDateFormat
}

func (t *timestampRouter) Apply(r schema.Record) (schema.Record, bool, error) {
	to, err := t.routed(r.Topic, r.Timestamp)
	if err != nil {
		return r, false, err
	}
	r.Topic = to
	return r, true, nil
}

func (t *timestampRouter) uses(half) use { return unused }

func (t *timestampRouter) plan(p *plan) error {
	p.add(op{what: opRoute, route: t.routed})
	return nil
}

func (t *timestampRouter) routed(topic string, timestamp int64) (string, error) {
	if timestamp == schema.NoTimestamp {
		return topic, &schema.DataError{Reason: "Timestamp missing on record: its topic cannot be made of it"}
	}
	stamp := string(t.date.Append(nil, timestamp))
	return strings.NewReplacer("${topic}", topic, "${timestamp}", stamp).Replace(t.format), nil
}

var (
	convertedField = config.Key[string]{Name: "field", EmptyDefault: true, Importance: config.High, Doc: "Field to convert; empty for the whole."}
	targetType     = config.Key[string]{Name: "target.type", Required: true, Importance: config.High, Check: exactlyOneOf("string", "unix", "Date", "Time", "Timestamp"),
		Doc: "What the timestamp becomes: string, unix (a number since 1970), Date, Time or Timestamp."}
	dateFormat = config.Key[string]{Name: "format", EmptyDefault: true, Check: checkConverterPattern,
		Doc: "Pattern (Java's SimpleDateFormat, in UTC) of timestamps as text."}
	unixPrecision = config.Key[string]{Name: "unix.precision", Default: "milliseconds", Importance: config.Low,
		Check: exactlyOneOf("nanoseconds", "microseconds", "milliseconds", "seconds"), Doc: "What a number since 1970 counts: seconds, milliseconds, microseconds or nanoseconds."}
)

func checkConverterPattern(text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return checkDatePattern(text)
}

// TimestampConverter converts timestamps.
var TimestampConverter = pair("timestamp-converter", "TimestampConverter", "Converts a timestamp in the %s from what it is to another form. A null stays null.",
	config.Define(convertedField, targetType, dateFormat, unixPrecision, replaceNull), newTimestampConverter)

type timestampConverter struct {
	programs
	half
	field    string
	target   string
	format   *javatext.SimpleDateFormat // nil: none
	unit     int64                      // nanoseconds that a unix number counts in
	defaults bool
	schemas  schema.Cache[*schema.Schema] // of nulls and of what is converted whole
}

func newTimestampConverter(v config.Values, h half) (Transform, error) {
	t := &timestampConverter{
		half: h, field: convertedField.Get(v), target: targetType.Get(v), defaults: replaceNull.Get(v),
		unit: map[string]int64{"nanoseconds": 1, "microseconds": 1000, "milliseconds": 1_000_000, "seconds": 1_000_000_000}[unixPrecision.Get(v)],
	}
	text := dateFormat.Get(v)
	if t.target == "string" && text == "" {
		return nil, &config.Error{Key: dateFormat.Name, Text: "TimestampConverter requires format option to be specified when using string timestamps"}
	}
	if text != "" {
		f, err := javatext.NewSimpleDateFormat(text)
		if err != nil {
			return nil, dateFormat.Errorf(v, "%v", err)
		}
		t.format = f
	}
	return t, nil
}

const convertingTimestamps = "converting timestamp formats"

func (t *timestampConverter) Apply(r schema.Record) (schema.Record, bool, error) {
	s, v := t.of(&r)
	if s == nil {
		out, err := t.schemaless(v)
		if err != nil {
			return r, false, err
		}
		t.set(&r, nil, out)
		return r, true, nil
	}
	if t.field != "" && !v.IsNull() {
		if err := requireStruct(v, convertingTimestamps); err != nil {
			return r, false, err
		}
		return t.apply(t, &r)
	}
	out, err := t.schemas.Get(s, t.converted)
	if err != nil {
		return r, false, err
	}
	if t.field == "" {
		if v, err = t.convert(v); err != nil {
			return r, false, err
		}
	}
	t.set(&r, out, v)
	return r, true, nil
}

func (t *timestampConverter) plan(p *plan) error {
	if t.field == "" {
		return errUnplanned
	}
	s, from, err := p.openRead(t.half, t.defaults)
	if err != nil {
		return err
	}
	out, err := t.converted(s)
	if err != nil {
		return err
	}
	fields := slices.Clone(from)
	if i := s.Index(t.field); i >= 0 {
		fields[i] = p.compute(from[i], t.field, t.convert)
	}
	p.set(t.half, out, fields)
	return nil
}

func (t *timestampConverter) schemaless(v schema.Value) (schema.Value, error) {
	if v.IsNull() || t.field == "" {
		return t.convert(v)
	}
	if err := requireMap(v, convertingTimestamps); err != nil {
		return v, err
	}
	old, _ := v.Lookup(t.field)
	to, err := t.convert(old)
	if err != nil {
		return v, schema.Under(t.field, err)
	}
	return schema.MapValue(put(append([]schema.Entry(nil), v.Entries()...), t.field, to)), nil
}

// converted is the schema of what is converted.
func (t *timestampConverter) converted(s *schema.Schema) (*schema.Schema, error) {
	if t.field == "" {
		if err := isTimestamp(s); err != nil {
			return nil, err
		}
		return t.targetSchema(s.Optional()), nil
	}
	field := s.Index(t.field)
	if field >= 0 {
		if err := isTimestamp(s.Fields()[field].Schema); err != nil {
			return nil, schema.Under(t.field, err)
		}
	}
	b := basics(s).SetOptional(s.Optional())
	for i, f := range s.Fields() {
		fs := f.Schema
		if i == field {
			fs = t.targetSchema(fs.Optional())
		}
		b.Field(f.Name, fs)
	}
	out, err := b.TryBuild()
	if err != nil {
		return nil, err
	}
	def, ok := s.Default()
	if !ok {
		return out, nil
	}
	fields := make([]schema.Value, len(s.Fields()))
	for i := range fields {
		fields[i] = at(def, i, t.defaults)
	}
	if field >= 0 {
		if fields[field], err = t.convert(fields[field]); err != nil {
			return nil, schema.Under(t.field, err)
		}
	}
	return b.Default(schema.StructValue(out, fields)).TryBuild()
}

// isTimestamp checks that a schema is of a kind of timestamp.
func isTimestamp(s *schema.Schema) error {
	switch s.ValueKind() {
	case schema.Date, schema.Time, schema.Timestamp, schema.Int64, schema.String:
		return nil
	}
	return &schema.DataError{Reason: fmt.Sprintf("Schema %s does not correspond to a known timestamp type format", s)}
}

func (t *timestampConverter) targetSchema(optional bool) *schema.Schema {
	b := map[string]func() *schema.Builder{
		"string": func() *schema.Builder { return schema.New(schema.String) }, "unix": func() *schema.Builder { return schema.New(schema.Int64) },
		"Date": schema.DateOf, "Time": schema.TimeOf, "Timestamp": schema.TimestampOf,
	}[t.target]()
	return b.SetOptional(optional).Build()
}

// convert makes a timestamp of what it is the target.
func (t *timestampConverter) convert(v schema.Value) (schema.Value, error) {
	var ms int64
	switch v.Kind() {
	case schema.Null:
		return v, nil
	case schema.Date, schema.Time, schema.Timestamp:
		ms = javatext.DateMillis(v)
	case schema.Int64:
		ms = toMillis(v.Int(), t.unit)
	case schema.String:
		if t.format == nil {
			return v, &schema.DataError{Reason: "TimestampConverter requires format option to be specified when using string timestamps"}
		}
		var ok bool
		if ms, ok = t.format.Parse(v.Str()); !ok {
			shown := v.Str()
			if len(shown) > 100 {
				shown = shown[:100] + "…"
			}
			return v, &schema.DataError{Reason: fmt.Sprintf("Could not parse timestamp: value (%s) does not match pattern (%s)", shown, t.format.Pattern())}
		}
	default:
		return v, &schema.DataError{Reason: fmt.Sprintf("TimestampConverter does not support class %s objects as timestamps", javatext.ClassName(v.Kind()))}
	}
	day, ofDay := javatext.SplitMillis(ms)
	switch t.target {
	case "string":
		return schema.StringOfBytes(t.format.Append(nil, ms)), nil
	case "unix":
		return schema.Int64Value(fromMillis(ms, t.unit)), nil
	case "Date":
		return schema.DateValue(day), nil
	case "Time":
		return schema.TimeValue(ofDay), nil
	}
	return schema.TimestampValue(ms), nil
}

// toMillis is n units as milliseconds, without a fraction; what does not fit is the
// nearest that does, as in Java's TimeUnit.
func toMillis(n, unit int64) int64 {
	const milli = 1_000_000
	if unit <= milli {
		return n / (milli / unit)
	}
	return saturate(n, unit/milli)
}

func fromMillis(ms, unit int64) int64 {
	const milli = 1_000_000
	if unit >= milli {
		return ms / (unit / milli)
	}
	return saturate(ms, milli/unit)
}

func saturate(n, by int64) int64 {
	switch {
	case n > math.MaxInt64/by:
		return math.MaxInt64
	case n < math.MinInt64/by:
		return math.MinInt64
	}
	return n * by
}
