package debezium

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/envelope"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
	"millrace/transforms"
)

var (
	convertedZone = config.Key[string]{Name: "converted.timezone", Required: true, Importance: config.High, Width: config.Long, Order: 1, Display: "Converted Timezone", Check: checkZone,
		Doc: "Time zone to convert to: a place as America/Los_Angeles, or an offset as +08:00."}
	zoneInclude = config.Key[[]string]{Name: "include.list", Importance: config.Medium, Width: config.Long, Order: 1, Display: "Include List", Check: checkZoneRules,
		Doc: "What to convert: source:TABLE, topic:TOPIC, or NAME for either, each with :FIELD or :FIELD;FIELD behind it for some fields alone. Everything without it."}
	zoneExclude = config.Key[[]string]{Name: "exclude.list", Importance: config.Medium, Width: config.Long, Order: 1, Display: "Exclude List", Check: checkZoneRules,
		Doc: "What not to convert, written as in include.list; give one of the two."}
)

// TimezoneConverter moves times into a time zone.
var TimezoneConverter = transforms.Plugin{
	Info: plugin.Info{
		Name: "timezone", Class: "io.debezium.transforms.TimezoneConverter", Version: schema.DebeziumVersion,
		Doc: "Converts the times of change events to a time zone. Times with a zone keep their moment and get the zone's offset; times without one are taken for the zone's local time. " +
			"Dates and times of day without a zone stay. Times of the source block are converted where a rule names them: source.ts_ms.",
		Config: config.Define(convertedZone, zoneInclude, zoneExclude),
	},
	New: newTimezone,
}

var zoneOffset = regexp.MustCompile(`^([+-])(\d{2}):(\d{2})(?::(\d{2}))?$`)

const badZone = "Invalid timezone format. Please specify either a geographic timezone (e.g. America/Los_Angeles) or a UTC offset in the format of +/-hh:mm, (e.g. +08:00)."

func checkZone(text string) error {
	_, err := parseZone(text)
	return err
}

func parseZone(text string) (*time.Location, error) {
	if m := zoneOffset.FindStringSubmatch(text); m != nil {
		n := func(s string) int {
			var i int
			fmt.Sscanf(s, "%d", &i)
			return i
		}
		seconds := n(m[2])*3600 + n(m[3])*60 + n(m[4])
		if n(m[2]) > 18 || n(m[3]) > 59 || n(m[4]) > 59 || seconds > 18*3600 {
			return nil, fmt.Errorf("%s: an offset is at most 18:00", badZone)
		}
		if m[1] == "-" {
			seconds = -seconds
		}
		return time.FixedZone("", seconds), nil
	}
	if text == "" || text == "Local" || text != "UTC" && !strings.Contains(text, "/") && !oldZone(text) {
		return nil, fmt.Errorf("%s", badZone)
	}
	loc, err := time.LoadLocation(text)
	if err != nil {
		return nil, fmt.Errorf("%s There is no %q.", badZone, text)
	}
	return loc, nil
}

// oldZone finds the names of the database that have no place in them: CET, EST5EDT,
// Japan. Offsets such as GMT+2 are none.
func oldZone(text string) bool {
	return len(text) > 2 && !strings.ContainsAny(text, "+-: ")
}

// A zoneRule names what to convert, or not to.
type zoneRule struct {
	table, topic string   // one of them, or both alike for either
	fields       []string // none: all
}

func checkZoneRules(list []string) error {
	for _, text := range list {
		if _, err := parseZoneRule(text); err != nil {
			return err
		}
	}
	return nil
}

func parseZoneRule(text string) (zoneRule, error) {
	parts := strings.Split(text, ":")
	for i := range parts {
		if parts[i] = strings.TrimSpace(parts[i]); parts[i] == "" {
			parts = nil
			break
		}
	}
	var r zoneRule
	fields := func(s string) []string {
		list := strings.Split(s, ";")
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
		return list
	}
	switch {
	case len(parts) == 2 && parts[0] == "source":
		r.table = parts[1]
	case len(parts) == 2 && parts[0] == "topic":
		r.topic = parts[1]
	case len(parts) == 3 && parts[0] == "source":
		r.table, r.fields = parts[1], fields(parts[2])
	case len(parts) == 3 && parts[0] == "topic":
		r.topic, r.fields = parts[1], fields(parts[2])
	case len(parts) == 2:
		r.table, r.topic, r.fields = parts[0], parts[0], fields(parts[1])
	default:
		return r, fmt.Errorf("%q is no rule; want source:TABLE, source:TABLE:FIELDS, topic:TOPIC, topic:TOPIC:FIELDS or NAME:FIELDS", text)
	}
	return r, nil
}

type timezone struct {
	zone     *time.Location
	rules    []zoneRule
	exclude  bool
	events   envelope.Reader
	plans    schema.Cache[*zonePlan]
	selected map[string]*zoneSelection // by table and topic
	now      func() time.Time
}

// A zoneSelection is what to convert of a table's events.
type zoneSelection struct {
	all    bool
	fields []string // only these; where all, all but these
}

func (s *zoneSelection) has(block, field string) bool {
	named := slices.ContainsFunc(s.fields, func(f string) bool { return f == field && block != "source" || f == block+"."+field })
	if block == "source" {
		return named && !s.all
	}
	return named != s.all
}

// zonePlan is where the times of an envelope's blocks stand.
type zonePlan struct {
	before, after, source int
	row                   []zoneField // of before and after
	times                 []zoneField // of source: ts_ms, ts_us, ts_ns
}

type zoneField struct {
	i    int
	name string
	kind zoneKind
}

type zoneKind uint8

const (
	zoneNone zoneKind = iota
	zoneMillis
	zoneMicros
	zoneNanos
	zoneConnect
	zoneStamp
	zoneTime
)

func newTimezone(v config.Values) (transforms.Transform, error) {
	t := &timezone{selected: map[string]*zoneSelection{}, now: time.Now}
	include, exclude := zoneInclude.Get(v), zoneExclude.Get(v)
	if len(include) > 0 && len(exclude) > 0 {
		return nil, &config.Error{Key: zoneExclude.Name, Text: "Both include and exclude lists are specified. Please specify only one."}
	}
	t.exclude = len(exclude) > 0
	for _, text := range append(include, exclude...) {
		r, err := parseZoneRule(text)
		if err != nil {
			return nil, err
		}
		t.rules = append(t.rules, r)
	}
	var err error
	t.zone, err = parseZone(convertedZone.Get(v))
	return t, err
}

func (t *timezone) Apply(r schema.Record) (schema.Record, bool, error) {
	event, ok := t.events.Read(r.ValueSchema, r.Value)
	if !ok || r.Value.Kind() != schema.Struct { // without a schema nothing says what is a time
		return r, true, nil
	}
	p, err := t.plans.Get(r.ValueSchema, planZones)
	if err != nil {
		return r, false, err
	}
	table := event.Source.Get("table").Str()
	key := table + "\x00" + r.Topic
	sel := t.selected[key]
	if sel == nil {
		if len(t.selected) >= 10_000 {
			clear(t.selected)
		}
		sel = t.selection(table, r.Topic)
		t.selected[key] = sel
	}
	if !sel.all && len(sel.fields) == 0 {
		return r, true, nil
	}
	var fields []schema.Value
	for _, b := range []struct {
		at   int
		name string
		of   []zoneField
	}{{p.before, "before", p.row}, {p.after, "after", p.row}, {p.source, "source", p.times}} {
		if b.at < 0 || r.Value.Fields()[b.at].Kind() != schema.Struct {
			continue
		}
		block, changed, err := t.block(r.Value.Fields()[b.at], b.name, b.of, sel)
		if err != nil {
			return r, false, err
		}
		if changed {
			if fields == nil {
				fields = slices.Clone(r.Value.Fields())
			}
			fields[b.at] = block
		}
	}
	if fields != nil {
		r.Value = schema.StructValue(r.ValueSchema, fields)
	}
	return r, true, nil
}

// selection applies the rules to a table's events in a topic.
func (t *timezone) selection(table, topic string) *zoneSelection {
	if len(t.rules) == 0 {
		return &zoneSelection{all: true}
	}
	s := &zoneSelection{all: t.exclude}
	for _, r := range t.rules {
		if !(r.table != "" && r.table == table || r.topic != "" && r.topic == topic) {
			continue
		}
		if len(r.fields) == 0 {
			return &zoneSelection{all: !t.exclude}
		}
		s.fields = append(s.fields, r.fields...)
	}
	return s
}

func planZones(s *schema.Schema) (*zonePlan, error) {
	p := &zonePlan{before: s.Index(envelope.BeforeField), after: s.Index(envelope.AfterField), source: s.Index(envelope.SourceField)}
	for _, at := range []int{p.after, p.before} {
		if at < 0 || p.row != nil {
			continue
		}
		for i, f := range s.Fields()[at].Schema.Fields() {
			if k := zoneKindOf(f.Schema); k != zoneNone {
				p.row = append(p.row, zoneField{i, f.Name, k})
			}
		}
	}
	if p.source >= 0 {
		for i, f := range s.Fields()[p.source].Schema.Fields() {
			k := map[string]zoneKind{"ts_ms": zoneMillis, "ts_us": zoneMicros, "ts_ns": zoneNanos}[f.Name]
			if k != zoneNone && f.Schema.Kind() == schema.Int64 {
				p.times = append(p.times, zoneField{i, f.Name, k})
			}
		}
	}
	return p, nil
}

func zoneKindOf(s *schema.Schema) zoneKind {
	switch s.Name() {
	case envelope.TimestampName:
		return zoneMillis
	case envelope.MicroTimestampName:
		return zoneMicros
	case envelope.NanoTimestampName:
		return zoneNanos
	case "org.apache.kafka.connect.data.Timestamp":
		return zoneConnect
	case envelope.ZonedTimestampName:
		return zoneStamp
	case envelope.ZonedTimeName:
		return zoneTime
	}
	return zoneNone
}

// block converts the times of one struct of an event.
func (t *timezone) block(v schema.Value, name string, of []zoneField, sel *zoneSelection) (schema.Value, bool, error) {
	var fields []schema.Value
	for _, f := range of {
		old := v.Fields()[f.i]
		if old.IsNull() || !sel.has(name, f.name) {
			continue
		}
		now, err := t.convert(old, f.kind, name == "source")
		if err != nil {
			return v, false, &schema.DataError{Reason: fmt.Sprintf("field %s: %v", f.name, err)}
		}
		if fields == nil {
			fields = slices.Clone(v.Fields())
		}
		fields[f.i] = now
	}
	if fields == nil {
		return v, false, nil
	}
	return schema.StructValue(v.Schema(), fields), true, nil
}

func (t *timezone) convert(v schema.Value, kind zoneKind, moment bool) (schema.Value, error) {
	switch kind {
	case zoneStamp:
		text, err := t.stamp(v.Str())
		return schema.StringValue(text), err
	case zoneTime:
		text, err := t.timeOfDay(v.Str())
		return schema.StringValue(text), err
	}
	unit := map[zoneKind]int64{zoneMillis: 1000, zoneConnect: 1000, zoneMicros: 1_000_000, zoneNanos: 1_000_000_000}[kind]
	n := v.Int()
	if moment { // of the source block: a moment, told in the zone
		n += t.offsetAt(javatext.FloorDiv(n, unit)) * unit
	} else { // a local time: the moment at which the zone's clocks show it
		n -= t.offsetOfLocal(javatext.FloorDiv(n, unit)) * unit
	}
	if kind == zoneConnect {
		return schema.TimestampValue(n), nil
	}
	return schema.Int64Value(n), nil
}

// offsetAt is the zone's offset at a moment, in seconds.
func (t *timezone) offsetAt(unix int64) int64 {
	_, off := time.Unix(unix, 0).In(t.zone).Zone()
	return int64(off)
}

// offsetOfLocal is the zone's offset when its clocks show a time; where they show it
// twice or never, the earlier one.
func (t *timezone) offsetOfLocal(local int64) int64 {
	const day = 86_400
	before, after := t.offsetAt(local-day), t.offsetAt(local+day)
	if before == after || t.offsetAt(local-before) == before {
		return before
	}
	if t.offsetAt(local-after) == after {
		return after
	}
	return before
}

var (
	stampLayouts = []string{"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999Z07:00:00", "2006-01-02T15:04Z07:00"}
	timeLayouts  = []string{"15:04:05.999999999Z07:00", "15:04:05.999999999Z07:00:00", "15:04Z07:00"}
)

// stamp gives a ZonedTimestamp the zone's offset. Infinity has none.
func (t *timezone) stamp(text string) (string, error) {
	if text == "infinity" || text == "-infinity" {
		return text, nil
	}
	at, err := parseAny(stampLayouts, text)
	if err != nil {
		return "", err
	}
	return formatOffset(at.In(t.zone), "2006-01-02T15:04:05.999999999"), nil
}

// timeOfDay gives a ZonedTime the offset that the zone has now, as Debezium does.
func (t *timezone) timeOfDay(text string) (string, error) {
	at, err := parseAny(timeLayouts, text)
	if err != nil {
		return "", err
	}
	_, off := t.now().In(t.zone).Zone()
	return formatOffset(at.In(time.FixedZone("", off)), "15:04:05.999999999"), nil
}

func parseAny(layouts []string, text string) (time.Time, error) {
	for _, l := range layouts {
		if at, err := time.Parse(l, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("Text '%s' could not be parsed", text)
}

// formatOffset writes a time as Java's ISO formats do: Z for no offset, seconds of the
// offset where it has some.
func formatOffset(t time.Time, layout string) string {
	_, off := t.Zone()
	if off%60 != 0 {
		return t.Format(layout + "-07:00:00")
	}
	return t.Format(layout + "Z07:00")
}
