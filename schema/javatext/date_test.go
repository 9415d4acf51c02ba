package javatext

import (
	"math/rand/v2"
	"testing"
	"time"

	"millrace/schema"
	"millrace/schema/schematest"
)

func TestCivilDatesAsTheTimePackage(t *testing.T) {
	schematest.Rounds(t, 20000, func(t *testing.T, r *rand.Rand) {
		days := r.Int64N(8_000_000) - 4_000_000
		want := time.Unix(days*86400, 0).UTC()
		y, m, d := Civil(days)
		if int(y) != want.Year() || m != int(want.Month()) || d != want.Day() {
			t.Fatalf("day %d is %d-%d-%d, want %v", days, y, m, d, want)
		}
		if back := Days(y, m, d); back != days {
			t.Fatalf("%d-%d-%d is day %d, want %d", y, m, d, back, days)
		}
		if y, m, d := julian(days); julianDays(y, m, d) != days {
			t.Fatalf("day %d is %d-%d-%d in the Julian calendar, and not back", days, y, m, d)
		}
		if got := longDays[weekday(days)]; got != want.Weekday().String() {
			t.Fatalf("day %d is a %s, want %v", days, got, want.Weekday())
		}
		ms := days*MillisPerDay + r.Int64N(MillisPerDay)
		day, ofDay := SplitMillis(ms)
		if day != days || ofDay < 0 || ofDay >= MillisPerDay || day*MillisPerDay+ofDay != ms {
			t.Fatalf("%d splits into %d and %d", ms, day, ofDay)
		}
	})
}

func TestISOTextsComeBack(t *testing.T) {
	schematest.Rounds(t, 5000, func(t *testing.T, r *rand.Rand) {
		ms := r.Int64N(253402300800000+62135769600000) - 62135769600000 // 0001 to 9999
		if got, ok := ParseTimestamp(string(AppendTimestamp(nil, ms))); !ok || got != ms {
			t.Fatalf("%d is written as %s and read as %d, %v", ms, AppendTimestamp(nil, ms), got, ok)
		}
	})
	for _, bad := range []string{"", "2024-02-30", "2023-02-29", "2024-00-01", "2024-13-01", "0000-01-01", "1582-10-10", "2024-2-1", "20240201", "2024/02/01", "+024-02-01", "2024-02-0x"} {
		if d, ok := ParseDate(bad); ok {
			t.Errorf("%q is read as day %d", bad, d)
		}
	}
	for _, bad := range []string{"24:00:00.000Z", "12:60:00.000Z", "12:00:60.000Z", "12:00:00,000Z", "12:00:00.000", "-1:00:00.000Z"} {
		if ms, ok := ParseTime(bad); ok {
			t.Errorf("%q is read as %d", bad, ms)
		}
	}
}

func TestParseFloatAsJava(t *testing.T) {
	for text, want := range map[string]string{" 1.5 ": "1.5", "1f": "1.0", "1e400": "Infinity", "-Infinity": "-Infinity", "NaN": "NaN", "+.5d": "0.5", "5.": "5.0", "-0": "-0.0"} {
		if f, ok := ParseFloat(text, 64); !ok || Double(f) != want {
			t.Errorf("%q is read as %v, %v", text, f, ok)
		}
	}
	for _, bad := range []string{"", " ", "x", "inf", "nan", "1_0", "0x1p3", "1e", "--1", "+-Infinity", "f", "1ff"} {
		if f, ok := ParseFloat(bad, 64); ok {
			t.Errorf("%q is read as %v", bad, f)
		}
	}
}

func TestDatesByTheirValue(t *testing.T) {
	for want, v := range map[string]schema.Value{
		"2024-02-29": schema.DateValue(19782), "12:34:56.789Z": schema.TimeValue(45296789), "2024-02-29T12:34:56.789Z": schema.TimestampValue(1709210096789),
		"00:00:00.000Z": schema.DateValue(0), "23:59:59.999Z": schema.TimestampValue(-1), "1970-01-02": schema.TimestampValue(86400000),
	} {
		if got := string(AppendDateByValue(nil, v)); got != want {
			t.Errorf("%v %d is %s, want %s", v.Kind(), v.Int(), got, want)
		}
	}
}

func BenchmarkAppendTimestamp(b *testing.B) {
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = AppendTimestamp(out[:0], 1709210096789)
	}
}

func BenchmarkAppendDouble(b *testing.B) {
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = AppendDouble(AppendDouble(out[:0], 1234.5625), 1e-7)
	}
}
