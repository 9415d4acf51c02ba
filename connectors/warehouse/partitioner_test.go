package warehouse

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"millrace/deploy/trial"
	"millrace/schema"
	"millrace/schema/config"
)

func settings(t testing.TB, pairs ...string) config.Values {
	t.Helper()
	raw := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		raw[pairs[i]] = pairs[i+1]
	}
	v, errs := PartitionerSettings.Parse(raw)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return v
}

func partitioner(t testing.TB, pairs ...string) *Partitioner {
	t.Helper()
	p, errs := NewPartitioner(settings(t, pairs...))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return p
}

func entry(name string, v schema.Value) schema.Entry {
	return schema.Entry{Key: schema.StringValue(name), Value: v}
}

func record(fields ...schema.Entry) schema.Record {
	return schema.Record{Topic: "t", Timestamp: 1_700_000_000_000, Value: schema.MapValue(fields), Origin: &schema.Origin{Topic: "t", Partition: 3}}
}

var utc = []string{"timezone", "UTC", "locale", "en"}

func TestFoldersOfARecord(t *testing.T) {
	inner := schema.NewStruct("in").Field("c", schema.OptionalString).Build()
	s := schema.NewStruct("out").Field("a.b", schema.StringSchema).Field("in", inner).Field("day", schema.DateOf().Build()).
		Field("at", schema.TimestampOf().Build()).Field("micros", schema.New(schema.Int64).Name("io.debezium.time.MicroTimestamp").Build()).Build()
	structured := schema.Record{ValueSchema: s, Value: schema.StructValue(s, []schema.Value{schema.StringValue("dotted"),
		schema.StructValue(inner, []schema.Value{schema.StringValue("x")}), schema.DateValue(20_000), schema.TimestampValue(1_700_000_000_123), schema.Int64Value(1_700_000_000_123_456)})}
	now := time.UnixMilli(1_800_000_000_000)
	for _, c := range []struct {
		name  string
		pairs []string
		r     schema.Record
		want  string
		ms    int64
	}{
		{"the topic's partition", nil, record(), "partition=3", 1_800_000_000_000},
		{"fields", []string{"partitioner.class", "FieldPartitioner", "partition.field.name", "k,n"},
			record(entry("k", schema.StringValue("a")), entry("n", schema.Int32Value(7))), "k=a/n=7", 1_800_000_000_000},
		{"a field of a struct below", []string{"partitioner.class", "io.confluent.connect.storage.partitioner.FieldPartitioner", "partition.field.name", "in.c"}, structured, "in.c=x", 1_800_000_000_000},
		{"a name with a dot in it", []string{"partitioner.class", "FieldPartitioner", "partition.field.name", "a.b"}, structured, "a.b=dotted", 1_800_000_000_000},
		{"dates and times", []string{"partitioner.class", "FieldPartitioner", "partition.field.name", "day,at"}, structured, "day=2024-10-04/at=2023-11-14T22%3A13%3A20.123Z", 1_800_000_000_000},
		{"hours by the record's time", append([]string{"partitioner.class", "HourlyPartitioner", "timestamp.extractor", "Record"}, utc...), record(), "year=2023/month=11/day=14/hour=22", 1_700_000_000_000},
		{"days in another zone", []string{"partitioner.class", "DailyPartitioner", "timestamp.extractor", "Record", "timezone", "Asia/Kolkata", "locale", "en-US"}, record(), "year=2023/month=11/day=15", 1_700_000_000_000},
		{"by a field in microseconds", append([]string{"partitioner.class", "HourlyPartitioner", "timestamp.extractor", "RecordField", "timestamp.field", "micros"}, utc...), structured, "year=2023/month=11/day=14/hour=22", 1_700_000_000_123},
		{"by a field with a text", append([]string{"partitioner.class", "DailyPartitioner", "timestamp.extractor", "io.confluent.connect.storage.partitioner.TimeBasedPartitioner$RecordFieldTimestampExtractor"}, utc...),
			record(entry("timestamp", schema.StringValue("2024-02-29T23:59:59.999+01:00"))), "year=2024/month=02/day=29", 1_709_247_599_999},
		{"a quarter of an hour", append([]string{"partitioner.class", "TimeBasedPartitioner", "timestamp.extractor", "Record", "partition.duration.ms", "900000", "path.format", "'dt='YYYY-MM-dd/'at='HHmm"}, utc...), record(), "dt=2023-11-14/at=2200", 1_700_000_000_000},
		{"fields and time", append([]string{"partitioner.class", "FieldAndTimeBasedPartitioner", "partition.field.name", "k", "timestamp.extractor", "Record", "partition.duration.ms", "86400000", "path.format", "YYYY"}, utc...),
			record(entry("k", schema.StringValue("ü"))), "k=ü/2023", 1_700_000_000_000},
		{"the clock", append([]string{"partitioner.class", "DailyPartitioner"}, utc...), record(), "year=2027/month=01/day=15", 1_800_000_000_000},
	} {
		p := partitioner(t, c.pairs...)
		for range 2 { // the second time from memory
			if path, ms, err := p.Place(&c.r, now); path != c.want || ms != c.ms || err != nil {
				t.Errorf("%s: %q at %d, %v", c.name, path, ms, err)
			}
		}
	}
}

// cases: object-stores/3. Each value has a folder of its own, which says what the value was.
func TestValuesInFolders(t *testing.T) {
	p := partitioner(t, "partitioner.class", "FieldPartitioner", "partition.field.name", "k")
	seen := map[string]string{}
	texts := []string{"a/b", "a%2Fb", "..", ".", "", "null", "NULL", "x=y", "ü", " sp ", "line\nbreak", "7", "a:b", `a\b`, "%6Eull", "a\x00b", "日本", "a//b", "\xff\xfe"}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		b := make([]byte, rng.IntN(20))
		for i := range b {
			b[i] = "ab/%.= :nul\\\n"[rng.IntN(13)]
		}
		texts = append(texts, string(b))
	}
	for _, text := range texts {
		r := record(entry("k", schema.StringValue(text)))
		path, _, err := p.Place(&r, time.Time{})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if strings.ContainsAny(path, "/:\\\n\x00") || path == "." || path == ".." {
			t.Errorf("%q has the folder %q", text, path)
		}
		if other, there := seen[path]; there && other != text {
			t.Errorf("%q and %q share the folder %q", text, other, path)
		}
		seen[path] = text
		back, ok := unescape(strings.TrimPrefix(path, "k="))
		if !ok || back != text {
			t.Errorf("%q has the folder %q, which says %q", text, path, back)
		}
	}
	null := record(entry("k", schema.Value{}))
	if path, _, err := p.Place(&null, time.Time{}); path != "k=null" || err != nil || seen[path] != "" {
		t.Errorf("null has the folder %q of %q: %v", path, seen[path], err)
	}
}

func TestRecordsWithoutAFolder(t *testing.T) {
	field := func(name string) *Partitioner {
		return partitioner(t, "partitioner.class", "FieldPartitioner", "partition.field.name", name)
	}
	when := partitioner(t, append([]string{"partitioner.class", "DailyPartitioner", "timestamp.extractor", "RecordField"}, utc...)...)
	byRecord := partitioner(t, append([]string{"partitioner.class", "DailyPartitioner", "timestamp.extractor", "Record"}, utc...)...)
	timeless := record()
	timeless.Timestamp = schema.NoTimestamp
	for _, c := range []struct {
		name string
		p    *Partitioner
		r    schema.Record
		want string
	}{
		{"a field that is not there", field("k"), record(), "no such field"},
		{"a long value", field("k"), record(entry("k", schema.StringValue(strings.Repeat("x", 2000)))), "at most 255"},
		{"a list", field("k"), record(entry("k", schema.ArrayValue(nil))), "no folder's name"},
		{"no timestamp", byRecord, timeless, "no timestamp"},
		{"no field with a time", when, record(), "no such field"},
		{"null for a time", when, record(entry("timestamp", schema.Value{})), "it is null"},
		{"a text for a time", when, record(entry("timestamp", schema.StringValue("soon"))), "ISO 8601"},
		{"a list for a time", when, record(entry("timestamp", schema.ArrayValue(nil))), "no time"},
		{"a bare value", field("k"), schema.Record{Value: schema.StringValue("x")}, "no such field"},
	} {
		if path, _, err := c.p.Place(&c.r, time.Time{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v", c.name, path, err)
		}
	}
}

func TestSettingsThatMakeNoPartitioner(t *testing.T) {
	timed := func(pairs ...string) []string { return append(pairs, utc...) }
	for _, c := range []struct {
		name, key, want string
		pairs           []string
	}{
		{"no fields", "partition.field.name", "names of fields", []string{"partitioner.class", "FieldPartitioner"}},
		{"no format", "path.format", "needs it", timed("partitioner.class", "TimeBasedPartitioner", "partition.duration.ms", "1000")},
		{"no duration", "partition.duration.ms", "needs it", timed("partitioner.class", "TimeBasedPartitioner", "path.format", "YYYY")},
		{"no zone", "timezone", "needs it", []string{"partitioner.class", "DailyPartitioner", "locale", "en"}},
		{"no language", "locale", "needs it", []string{"partitioner.class", "DailyPartitioner", "timezone", "UTC"}},
		{"German months", "locale", "English", []string{"partitioner.class", "TimeBasedPartitioner", "partition.duration.ms", "1000", "path.format", "MMM", "timezone", "UTC", "locale", "de-DE"}},
	} {
		if _, errs := NewPartitioner(settings(t, c.pairs...)); len(errs) != 1 || errs[0].Key != c.key || !strings.Contains(errs[0].Error(), c.want) {
			t.Errorf("%s: %v", c.name, errs)
		}
	}
	for _, c := range []struct{ key, value, want string }{
		{"partitioner.class", "com.example.MyPartitioner", "cannot be loaded"}, {"timestamp.extractor", "com.example.Mine", "cannot be loaded"},
		{"timezone", "Mars/Base", "no time zone"}, {"timezone", "Local", "no time zone"}, {"path.format", "YYYY/b", "letter b"},
	} {
		if _, errs := PartitionerSettings.Parse(map[string]string{c.key: c.value}); len(errs) != 1 || errs[0].Key != c.key || !strings.Contains(errs[0].Error(), c.want) {
			t.Errorf("%s=%s: %v", c.key, c.value, errs)
		}
	}
}

// Whatever order times come in, a folder is the same as for each alone.
func TestFoldersByTimeDoNotDependOnWhatCameBefore(t *testing.T) {
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kolkata"} {
		for _, step := range []string{"3600000", "86400000", "900000", "12345678", "604800000"} {
			pairs := []string{"partitioner.class", "TimeBasedPartitioner", "timestamp.extractor", "Record", "partition.duration.ms", step,
				"path.format", "YYYY-MM-dd_HHmmssSSS", "timezone", zone, "locale", "en"}
			p, at := partitioner(t, pairs...), int64(1_500_000_000_000)
			for range 300 {
				at += rng.Int64N(4*3_600_000) - 3_600_000
				r := schema.Record{Timestamp: at}
				got, _, err := p.Place(&r, time.Time{})
				if err != nil {
					t.Fatal(err)
				}
				if want, _, _ := partitioner(t, pairs...).Place(&r, time.Time{}); got != want {
					t.Fatalf("MILLRACE_SEED=%d: %d in %s by %s is in %s, and alone in %s", seed, at, zone, step, got, want)
				}
			}
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	for name, pairs := range map[string][]string{
		"default": nil,
		"field":   {"partitioner.class", "FieldPartitioner", "partition.field.name", "k"},
		"hourly":  append([]string{"partitioner.class", "HourlyPartitioner", "timestamp.extractor", "Record"}, utc...),
	} {
		b.Run(name, func(b *testing.B) {
			p, r := partitioner(b, pairs...), record(entry("k", schema.StringValue("country")))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := p.Place(&r, time.Time{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// unescape is what a reader of paths does: it gives back the name or value that stands in one, and whether it is well
// formed. The value of a null field is the bare text null.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, "%") {
		return s, true
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		hi, lo := strings.IndexByte(hexDigits, upper(s[i+1])), strings.IndexByte(hexDigits, upper(s[i+2]))
		if hi < 0 || lo < 0 {
			return "", false
		}
		out = append(out, byte(hi<<4|lo))
		i += 2
	}
	return string(out), true
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}
