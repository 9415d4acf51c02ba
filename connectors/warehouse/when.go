package warehouse

import (
	"fmt"
	"strings"
	"time"

	"millrace/schema"
	"millrace/schema/javatext"
)

// An extractor tells what time a record has, in milliseconds since the epoch. An error is a data error of the record.
type extractor func(r *schema.Record, now time.Time) (int64, error)

func wallclock(_ *schema.Record, now time.Time) (int64, error) { return now.UnixMilli(), nil }

func recordTime(r *schema.Record, _ time.Time) (int64, error) {
	if r.Timestamp == schema.NoTimestamp {
		return 0, &schema.DataError{Reason: "the record has no timestamp; set timestamp.extractor to Wallclock or RecordField"}
	}
	return r.Timestamp, nil
}

// fieldTime is the extractor of a field: a timestamp, milliseconds as a whole number, an ISO 8601 text, or one of
// Debezium's times, whose schema's name says what they count.
func fieldTime(f fieldPath) extractor {
	return func(r *schema.Record, _ time.Time) (int64, error) {
		v, s, err := f.find(r)
		if err != nil {
			return 0, err
		}
		name := ""
		if s != nil {
			name = s.Name()
		}
		switch v.Kind() {
		case schema.Timestamp:
			return v.Int(), nil
		case schema.Date:
			return v.Int() * javatext.MillisPerDay, nil
		case schema.Int8, schema.Int16, schema.Int32, schema.Int64:
			switch name {
			case "io.debezium.time.Date":
				return v.Int() * javatext.MillisPerDay, nil
			case "io.debezium.time.MicroTimestamp", "org.apache.kafka.connect.data.MicroTimestamp":
				return javatext.FloorDiv(v.Int(), 1000), nil
			case "io.debezium.time.NanoTimestamp":
				return javatext.FloorDiv(v.Int(), 1_000_000), nil
			case "io.debezium.time.Time", "io.debezium.time.MicroTime", "io.debezium.time.NanoTime", "io.debezium.time.MicroDuration":
				return 0, &schema.DataError{Path: f.text, Reason: "a time of day is no point in time; name another field in timestamp.field"}
			}
			return v.Int(), nil
		case schema.String:
			ms, ok := parseISO(v.Str())
			if !ok {
				return 0, &schema.DataError{Path: f.text, Reason: fmt.Sprintf("%.60q is no time; ISO 8601 is taken, such as 2026-01-02T03:04:05Z", v.Str())}
			}
			return ms, nil
		case schema.Null:
			return 0, &schema.DataError{Path: f.text, Reason: "it is null, and timestamp.field needs a time"}
		}
		return 0, &schema.DataError{Path: f.text, Reason: fmt.Sprintf("%v is no time; a timestamp, milliseconds or an ISO 8601 text is taken", v.Kind())}
	}
}

// isoForms are the forms of ISO 8601 that are taken, without their zone. A fraction of a second may follow the seconds, with a
// point or a comma.
var isoForms = []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02T15", "2006-01-02", "2006-01", "2006", "2006-002T15:04:05", "2006-002"}

// parseISO reads a date or a time of ISO 8601 in the forms that Joda's dateTimeParser takes, but for weeks; the time of a day
// may stand behind a space, as databases write it. Without a zone it is UTC.
func parseISO(text string) (ms int64, ok bool) {
	text = strings.TrimSpace(text)
	if len(text) > 64 {
		return 0, false
	}
	text = strings.Replace(text, ",", ".", 1)
	if len(text) > 10 && text[10] == ' ' {
		text = text[:10] + "T" + text[11:]
	}
	for _, form := range isoForms {
		for _, zone := range [...]string{"", "Z07:00", "Z0700", "Z07"} {
			if zone != "" && !strings.Contains(form, "T") {
				continue
			}
			if t, err := time.Parse(form+zone, text); err == nil {
				return t.UnixMilli(), true
			}
		}
	}
	return 0, false
}

// floorTime is the start of the step of that many milliseconds that ms is in, as steps are counted by the clocks of a zone.
func floorTime(ms, step int64, zone *time.Location) int64 {
	_, off := time.UnixMilli(ms).In(zone).Zone()
	local := ms + int64(off)*1000
	local = javatext.FloorDiv(local, step) * step
	return toUTC(local, zone)
}

// toUTC is when clocks in a zone show local, which is counted as if it were UTC: the earlier of two such times. Where
// clocks leave out local they are taken as they were before.
func toUTC(local int64, zone *time.Location) int64 {
	offset := func(ms int64) int64 {
		_, off := time.UnixMilli(ms).In(zone).Zone()
		return int64(off) * 1000
	}
	before, after := offset(local-javatext.MillisPerDay), offset(local+javatext.MillisPerDay)
	if at := local - before; offset(at) == before {
		return at
	}
	if at := local - after; offset(at) == after {
		return at
	}
	return local - before
}
