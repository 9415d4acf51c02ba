package warehouse

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/schema"
	"millrace/schema/config"
)

// The settings of partitioners.
var (
	partitionerClass = config.Key[config.Class]{Name: "partitioner.class", Default: javaPackage + "DefaultPartitioner", Importance: config.High, Group: groupPartitioner,
		Check: func(c config.Class) error { _, err := partitionerKind(string(c)); return err },
		Doc: "How records are shared out to folders: DefaultPartitioner (partition=N, the topic's partition), FieldPartitioner (name=value), TimeBasedPartitioner (path.format), " +
			"DailyPartitioner, HourlyPartitioner (year=/month=/day=/hour=) or FieldAndTimeBasedPartitioner."}
	fieldNames = config.Key[[]string]{Name: "partition.field.name", EmptyDefault: true, Group: groupPartitioner,
		Doc: "Fields of the value by which FieldPartitioner and FieldAndTimeBasedPartitioner make folders, in their order; names with dots lead into structs."}
	partitionDuration = config.Key[time.Duration]{Name: "partition.duration.ms", Default: -time.Millisecond, Group: groupPartitioner,
		Doc: "How much time a folder of TimeBasedPartitioner holds: times are rounded down to it before path.format is applied."}
	pathFormatKey = config.Key[string]{Name: "path.format", EmptyDefault: true, Group: groupPartitioner, Width: config.Long,
		Check: func(s string) error { _, err := parsePathFormat(s); return err },
		Doc:   "Folders of TimeBasedPartitioner, a pattern of Joda-Time: 'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH."}
	localeKey = config.Key[string]{Name: "locale", EmptyDefault: true, Group: groupPartitioner,
		Doc: "Language of names of months and days in path.format, such as en-US. Where path.format has such names it must be English."}
	timezoneKey = config.Key[string]{Name: "timezone", EmptyDefault: true, Group: groupPartitioner, Check: func(s string) error { _, err := location(s); return err },
		Doc: "Time zone of folders, such as UTC or Europe/Berlin."}
	extractorKey = config.Key[string]{Name: "timestamp.extractor", Default: "Wallclock", Group: groupPartitioner,
		Check: func(s string) error { _, err := extractorKind(s); return err },
		Doc:   "What time a record has: Wallclock (when it is written; then files differ from one run to the next), Record (its timestamp) or RecordField (timestamp.field)."}
	timestampField = config.Key[string]{Name: "timestamp.field", Default: "timestamp", Group: groupPartitioner,
		Doc: "Field of the value with its time: a timestamp, milliseconds since 1970, or an ISO 8601 text."}
)

const (
	groupPartitioner = "Partitioner"
	javaPackage      = "io.confluent.connect.storage.partitioner."
)

// PartitionerSettings are the settings that NewPartitioner reads.
var PartitionerSettings = config.Define(partitionerClass, fieldNames, partitionDuration, pathFormatKey, localeKey, timezoneKey, extractorKey, timestampField)

// A Partitioner tells the folder and the time of a record. It is used by one goroutine.
type Partitioner struct {
	fields []fieldPath
	timed  bool
	format pathFormat
	step   int64 // milliseconds
	zone   *time.Location
	when   extractor
	wall   bool

	schemaFolder string // see Options

	buf   []byte
	known map[string]string // paths, so that each is made once
	path  string            // of the last record
	last  struct {          // of the path format
		from, to int64
		text     string
	}
}

// maxKnown bounds the paths that a Partitioner remembers.
const maxKnown = 10_000

// NewPartitioner makes the partitioner of the settings. Errors name the key that is wrong.
func NewPartitioner(v config.Values) (*Partitioner, []*config.Error) {
	kind, err := partitionerKind(string(partitionerClass.Get(v)))
	if err != nil {
		return nil, []*config.Error{partitionerClass.Errorf(v, "%v", err)}
	}
	p := &Partitioner{known: map[string]string{}}
	var errs []*config.Error
	wrong := func(e *config.Error) { errs = append(errs, e) }
	p.zone, err = location(timezoneKey.Get(v))
	if err != nil {
		wrong(timezoneKey.Errorf(v, "%v", err))
	}
	if kind == "Field" || kind == "FieldAndTimeBased" {
		for _, name := range fieldNames.Get(v) {
			p.fields = append(p.fields, newFieldPath(name))
		}
		if len(p.fields) == 0 || slices.Contains(fieldNames.Get(v), "") {
			wrong(fieldNames.Errorf(v, "%sPartitioner needs the names of fields; give one or more", kind))
		}
	}
	format, step := "", time.Duration(0)
	switch kind {
	case "Daily":
		format, step = "'year'=YYYY/'month'=MM/'day'=dd", 24*time.Hour
	case "Hourly":
		format, step = "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", time.Hour
	case "TimeBased", "FieldAndTimeBased":
		format, step = pathFormatKey.Get(v), partitionDuration.Get(v)
		if format == "" {
			wrong(pathFormatKey.Errorf(v, "%sPartitioner needs it; give a pattern such as 'year'=YYYY/'month'=MM/'day'=dd", kind))
		}
		if step < time.Millisecond {
			wrong(partitionDuration.Errorf(v, "%sPartitioner needs it; give what a folder holds in milliseconds, such as 3600000", kind))
		}
	}
	p.timed = step != 0
	if p.timed && timezoneKey.Get(v) == "" {
		wrong(timezoneKey.Errorf(v, "%sPartitioner needs it; give UTC, or a zone such as Europe/Berlin", kind))
	}
	if p.timed && localeKey.Get(v) == "" {
		wrong(localeKey.Errorf(v, "%sPartitioner needs it; give a language, such as en-US", kind))
	}
	if p.format, err = parsePathFormat(format); err != nil {
		wrong(pathFormatKey.Errorf(v, "%v", err))
	}
	if l := localeKey.Get(v); p.timed && p.format.words() && !strings.EqualFold(l, "en") && !strings.HasPrefix(strings.ToLower(strings.ReplaceAll(l, "_", "-")), "en-") {
		wrong(localeKey.Errorf(v, "names of months and days are English here; set en, or use numbers in %s", pathFormatKey.Name))
	}
	p.step = step.Milliseconds()
	switch kind, _ := extractorKind(extractorKey.Get(v)); kind {
	case "Record":
		p.when = recordTime
	case "RecordField":
		if timestampField.Get(v) == "" {
			wrong(timestampField.Errorf(v, "%s=RecordField needs a field's name", extractorKey.Name))
		}
		p.when = fieldTime(newFieldPath(timestampField.Get(v)))
	default:
		p.when, p.wall = wallclock, true
	}
	if !p.timed { // without folders by time there is no time but the clock's
		p.when, p.wall = wallclock, true
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return p, nil
}

// Zone is the zone of the setting timezone; UTC where it is not set.
func (p *Partitioner) Zone() *time.Location { return p.zone }

// Place is the folder of a record below its topic's, such as "partition=0" or "country=DE/year=2026", and the record's time
// in milliseconds. Each part of the folder is a name that file systems take. An error is a data error of the record.
func (p *Partitioner) Place(r *schema.Record, now time.Time) (path string, ms int64, err error) {
	if ms, err = p.when(r, now); err != nil {
		return "", 0, err
	}
	b := p.buf[:0]
	defer func() { p.buf = b[:0] }()
	if p.schemaFolder == "PREFIX" {
		b = appendSchemaFolder(b, r)
	}
	for _, f := range p.fields {
		v, _, err := f.find(r)
		if err != nil {
			return "", 0, err
		}
		if len(b) > 0 {
			b = append(b, '/')
		}
		b = append(appendEscaped(b, f.text), '=')
		if b, err = appendFieldText(b, f, v); err != nil {
			return "", 0, err
		}
	}
	switch {
	case p.timed:
		if len(b) > 0 {
			b = append(b, '/')
		}
		b = append(b, p.timeText(ms)...)
	case len(p.fields) == 0:
		if len(b) > 0 {
			b = append(b, '/')
		}
		b = strconv.AppendInt(append(b, "partition="...), int64(origin(r)), 10)
	}
	if p.schemaFolder == "SUFFIX" {
		b = appendSchemaFolder(append(b, '/'), r)
	}
	if string(b) == p.path {
		return p.path, ms, nil
	}
	if path, ok := p.known[string(b)]; ok {
		p.path = path
		return path, ms, nil
	}
	path = string(b)
	if err := checkSegments(path); err != nil {
		return "", 0, err
	}
	if len(p.known) >= maxKnown {
		clear(p.known)
	}
	p.known[path] = path
	return path, ms, nil
}

// appendSchemaFolder appends the name of the schema of a record's value as a folder.
func appendSchemaFolder(b []byte, r *schema.Record) []byte {
	b = append(b, "schema_name="...)
	if s := schemaOf(r); s != nil && s.Name() != "" {
		return appendEscaped(b, s.Name())
	}
	return append(b, nullText...)
}

// nullTime is the time in milliseconds of a record whose value, which may tell it, is null: then it is that of the log.
func (p *Partitioner) nullTime(r *schema.Record, now time.Time) int64 {
	if ms, err := p.when(r, now); err == nil {
		return ms
	}
	return r.Timestamp
}

// TimeFolder is the part of the last record's folder that its time made; empty without folders by time.
func (p *Partitioner) TimeFolder() string {
	if !p.timed {
		return ""
	}
	return p.last.text
}

// timeText is the path format's text for a time. That of the last one is kept: most records are in the same folder.
func (p *Partitioner) timeText(ms int64) string {
	if p.last.text != "" && ms >= p.last.from && ms < p.last.to {
		return p.last.text
	}
	at := floorTime(ms, p.step, p.zone)
	p.last.text = string(p.format.append(nil, time.UnixMilli(at).In(p.zone)))
	p.last.from, p.last.to = ms, ms+1
	if next := floorTime(ms+p.step, p.step, p.zone); at <= ms && next > ms && next-at == p.step { // no clock is changed in it
		p.last.from, p.last.to = at, next
	}
	return p.last.text
}

// words reports whether a format has names of months or days.
func (f pathFormat) words() bool {
	return slices.ContainsFunc(f.parts, func(p pathPart) bool { return p.letter == 'E' || p.letter == 'M' && p.n >= 3 })
}

// origin is the partition of the log that a record came from.
func origin(r *schema.Record) int32 {
	if r.Origin != nil {
		return r.Origin.Partition
	}
	return r.Partition
}

// partitionerKind is the class's name without package and Partitioner.
func partitionerKind(class string) (string, error) {
	name := class[strings.LastIndexByte(class, '.')+1:]
	kind := strings.TrimSuffix(name, "Partitioner")
	switch kind {
	case "Default", "Field", "TimeBased", "Daily", "Hourly", "FieldAndTimeBased":
		return kind, nil
	}
	return "", fmt.Errorf("there is no partitioner %s; there are DefaultPartitioner, FieldPartitioner, TimeBasedPartitioner, DailyPartitioner, HourlyPartitioner and FieldAndTimeBasedPartitioner (Java classes cannot be loaded)", name)
}

// extractorKind is Wallclock, Record or RecordField, by that name or a class's.
func extractorKind(text string) (string, error) {
	name := text[strings.LastIndexByte(text, '$')+1:]
	name = strings.TrimSuffix(name[strings.LastIndexByte(name, '.')+1:], "TimestampExtractor")
	for _, kind := range []string{"Wallclock", "Record", "RecordField"} {
		if strings.EqualFold(kind, name) {
			return kind, nil
		}
	}
	return "", fmt.Errorf("it is none of Wallclock, Record and RecordField (Java classes cannot be loaded)")
}

func location(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if name == "Local" {
		return nil, errors.New("it is no time zone; use UTC, or a name such as Europe/Berlin")
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("it is no time zone; use UTC, or a name such as Europe/Berlin")
	}
	return loc, nil
}
