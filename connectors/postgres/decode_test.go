package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"millrace/connectors/cdc"
	"millrace/deploy/trial"
	"millrace/schema"
	"millrace/schema/converters"
)

// fails stands for an error in tables of decoders.
const fails = "(error)"

func decoded(d decoder, in string) string {
	v, err := d(&schema.Arena{}, []byte(in))
	if err != nil {
		return fails
	}
	return text(v)
}

func TestDecoders(t *testing.T) {
	for _, c := range []struct {
		name     string
		d        decoder
		in, want string
	}{
		{"the smallest INT8", decodeInt64, "-9223372036854775808", "-9223372036854775808"},
		{"one above the largest INT8", decodeInt64, "9223372036854775808", fails},
		{"one below the smallest INT2", decodeInt16, "-32769", fails},
		{"no digits", decodeInt32, "-", fails},
		{"empty", decodeInt32, "", fails},
		{"a decimal of its scale", fixedDecimal(2), "-0.01", "-1e-2"},
		{"a decimal with fewer digits", fixedDecimal(3), "1.5", "1500e-3"},
		{"a decimal of 25 digits", fixedDecimal(2), "12345678901234567890123.45", "1234567890123456789012345e-2"},
		{"a decimal above its point", fixedDecimal(-2), "12300", "123e--2"},
		{"zero above its point", fixedDecimal(-2), "0", "0e--2"},
		{"a decimal with digits below a negative scale", fixedDecimal(-2), "12301", fails},
		{"a decimal that is none", fixedDecimal(2), "NaN", fails},
		{"two points", fixedDecimal(2), "1.2.3", fails},
		{"a number without scale", variableDecimal(schema.NewStruct("v").Field("scale", schema.Int32Schema).Field("value", schema.BytesSchema).Build()), "1.50", "{scale:1 value:0f}"},
		{"NaN as text", decimalText(0), "NaN", "NAN"},
		{"money", moneyDecimal(2), "$1,234.56", "123456e-2"},
		{"negative money", moneyDecimal(2), "-$0.50", "-50e-2"},
		{"money as text", moneyText(2), "-$0.05", "-0.05"},
		{"infinity", decodeFloat64, "-Infinity", "-Inf"},
		{"bits, little endian", decodeBits, "10101010101", "5505"},
		{"bits that are all zero", decodeBits, "0000", ""},
		{"no bits", decodeBits, "012", fails},
		{"a date BC", dateDecoder(schema.Int32Value), "0044-03-15 BC", "-735160"},
		{"the last date", dateDecoder(schema.Int32Value), "5874897-12-31", "2145042905"},
		{"the first date", dateDecoder(schema.Int32Value), "4714-11-24 BC", "-2440588"},
		{"month 13", dateDecoder(schema.Int32Value), "2024-13-01", fails},
		{"the end of a day", timeDecoder(1e6, schema.Int64Value), "24:00:00", "86400000000"},
		{"milliseconds", timeDecoder(1e3, int32Of), "12:34:56.7899", "45296789"},
		{"a time with a zone where none belongs", timeDecoder(1e6, schema.Int64Value), "12:00:00+02", fails},
		{"one microsecond before the epoch", timestampDecoder(1e6, schema.Int64Value), "1969-12-31 23:59:59.999999", "-1"},
		{"half a millisecond before the epoch", timestampDecoder(1e3, schema.Int64Value), "1969-12-31 23:59:59.9995", "-1"},
		{"the last timestamp of 64 bits", timestampDecoder(1e6, schema.Int64Value), "294247-01-10 04:00:54.775807", "9223372036854775807"},
		{"the one behind it does not fit", timestampDecoder(1e6, schema.Int64Value), "294247-01-10 04:00:54.775808", fails},
		{"in milliseconds it is itself", timestampDecoder(1e3, schema.Int64Value), "294276-12-31 23:59:59.999", "9224318015999999"},
		{"nanoseconds of a far year", timestampDecoder(nanosPerSec, schema.Int64Value), "2300-01-01 00:00:00", fails},
		{"nanoseconds of a BC year", timestampDecoder(nanosPerSec, schema.Int64Value), "0001-01-01 00:00:00 BC", fails},
		{"infinity in nanoseconds", timestampDecoder(nanosPerSec, schema.Int64Value), "-infinity", "-9223372036854775808"},
		{"an infinite iso date", isoDate, "infinity", "-5877611-06-21Z"},
		{"an infinite iso timestamp", isoTimestamp(-1, false), "infinity", "+294247-01-10T04:00:25.2Z"},
		{"infinity in milliseconds", timestampDecoder(1e3, schema.Int64Value), "infinity", "9223372036825200"},
		{"a zone of half an hour", zonedTimestamp(6), "2024-02-29 00:10:00+05:30", "2024-02-28T18:40:00.000000Z"},
		{"a zone of seconds", zonedTimestamp(0), "1900-01-01 00:00:00+00:19:32", "1899-12-31T23:40:28Z"},
		{"a year of five digits", zonedTimestamp(3), "12024-01-02 03:04:05.6+00", "+12024-01-02T03:04:05.600Z"},
		{"year 0", zonedTimestamp(6), "0001-12-31 23:40:28+00 BC", "0000-12-31T23:40:28.000000Z"},
		{"a time before midnight in UTC", zonedTime, "00:30:00+02", "22:30:00Z"},
		{"the end of the day in UTC", zonedTime, "24:00:00+00", "24:00:00Z"},
		{"an iso date", isoDate, "2024-01-02", "2024-01-02Z"},
		{"an iso timestamp", isoTimestamp(-1, false), "2024-01-02 03:04:05.120", "2024-01-02T03:04:05.12Z"},
		{"an interval", intervalMicros, "1 year 2 mons 3 days 04:05:06.789", "37091106789000"},
		{"a negative one", intervalMicros, "-1 days -00:00:01", "-86401000000"},
		{"one of mixed signs", intervalMicros, "1 mon -1 days +00:00:01", "2543401000000"},
		{"one of many hours", intervalMicros, "1000000:00:00", "3600000000000000"},
		{"one that does not fit", intervalMicros, "178000000 years", fmt.Sprint(int64(math.MaxInt64))},
		{"one that does not fit, negative", intervalMicros, "-178000000 years", fmt.Sprint(int64(math.MinInt64))},
		{"as text", intervalText, "1 year 2 mons 3 days 04:05:06.78", "P1Y2M3DT4H5M6.78S"},
		{"a negative one as text", intervalText, "-00:00:01.5", "P0Y0M0DT0H0M-1.5S"},
		{"a unit without a number", intervalMicros, "years", fails},
		{"bytea", bytea(cdc.BinaryBytes), `\x00FF`, "00ff"},
		{"bytea in base64", bytea(cdc.BinaryBase64), `\xfbff`, "+/8="},
		{"bytea in base64 for addresses", bytea(cdc.BinaryBase64URL), `\xfbff`, "-_8="},
		{"bytea in hex", bytea(cdc.BinaryHex), `\xFBff`, "fbff"},
		{"bytea of half a byte", bytea(cdc.BinaryBytes), `\x0`, fails},
		{"bytea of the old format", bytea(cdc.BinaryBytes), `abc`, fails},
		{"an empty array", array(decodeInt32, ',', true), "{}", "[]"},
		{"nulls, quotes and escapes", array(decodeText, ',', true), `{a,NULL,"NULL","","b,c","d\"e","\\"}`, `[a null NULL  b,c d"e \]`},
		{"bounds", array(decodeInt32, ',', true), "[0:1]={1,2}", "[1 2]"},
		{"another delimiter", array(decodeText, ';', true), "{a,b;c}", "[a,b c]"},
		{"two dimensions", array(decodeInt32, ',', true), "{{1},{2}}", fails},
		{"an open quote", array(decodeText, ',', true), `{"a`, fails},
		{"an open quote before the end", array(decodeText, ',', true), `{"a}`, fails},
		{"no braces", array(decodeText, ',', true), "1,2", fails},
		{"a bad element", array(decodeInt32, ',', true), "{1,x}", fails},
		{"hstore in Java's order", hstoreJSON, `"a"=>"1", "n"=>NULL, "b c"=>"x,\"y"`, `{"a":"1","b c":"x,\"y","n":null}`},
		{"an empty hstore", hstoreJSON, "", "{}"},
		{"controls in an hstore", hstoreJSON, "\"a\"=>\"\x01\n\"", `{"a":"\u0001\n"}`},
		{"no hstore", hstoreJSON, `"a"`, fails},
		{"a point", decodePoint(pointSchema), "(1.5,-2.5)", "{x:1.5 y:-2.5 wkb:0101000000000000000000f83f00000000000004c0 srid:null}"},
		{"no point", decodePoint(pointSchema), "(1.5)", fails},
	} {
		if got := decoded(c.d, c.in); got != c.want {
			t.Errorf("%s: %q is %s, want %s", c.name, c.in, got, c.want)
		}
	}
}

// TestTimesAgainstTheLibrary: against package time.
func TestTimesAgainstTheLibrary(t *testing.T) {
	seed := trial.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 3))
	for range 20000 {
		us := rnd.Int64N(400_000_000_000_000_000) - 62_000_000_000_000_000
		at := time.UnixMicro(us).UTC()
		in := at.Format("2006-01-02 15:04:05.999999")
		if got := decoded(timestampDecoder(1e6, schema.Int64Value), in); at.Year() > 0 && at.Year() < 10000 && got != fmt.Sprint(us) {
			t.Fatalf("seed %d: %s is %s, want %d", seed, in, got, us)
		}
		if want := at.Format("2006-01-02T15:04:05.000000Z"); at.Year() > 0 && at.Year() < 10000 && decoded(zonedTimestamp(6), in+"+00") != want {
			t.Fatalf("seed %d: %s is %s, want %s", seed, in, decoded(zonedTimestamp(6), in+"+00"), want)
		}
	}
}

// TestDecimalsAgainstTheLibrary: the bytes of any number, against math/big.
func TestDecimalsAgainstTheLibrary(t *testing.T) {
	seed := trial.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 4))
	for range 5000 {
		n := new(big.Int)
		for range 1 + rnd.IntN(4) {
			n.Lsh(n, 40).Add(n, big.NewInt(rnd.Int64N(1<<40)))
		}
		if rnd.IntN(4) == 0 { // at the edges of bytes
			n.Sub(n.Lsh(big.NewInt(1), uint(rnd.IntN(140))), big.NewInt(int64(rnd.IntN(3))))
		}
		if rnd.IntN(2) == 0 {
			n.Neg(n)
		}
		scale := rnd.IntN(10)
		digits, neg := new(big.Int).Abs(n).String(), n.Sign() < 0
		for len(digits) <= scale {
			digits = "0" + digits
		}
		in := digits[:len(digits)-scale]
		if scale > 0 {
			in += "." + digits[len(digits)-scale:]
		}
		if neg {
			in = "-" + in
		}
		v, err := fixedDecimal(scale)(&schema.Arena{}, []byte(in))
		if err != nil || v.Unscaled().Cmp(n) != 0 || int(v.Scale()) != scale {
			t.Fatalf("seed %d: %s at scale %d is %v (%v)", seed, in, scale, text(v), err)
		}
		digits, _, err = decimalDigits(in)
		if got, want := unscaled(nil, []byte(digits)), schema.DecimalBig(n, 0).AppendUnscaled(nil); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: the bytes of %s are %x, want %x (%v)", seed, in, got, want, err)
		}
	}
}

func decimalDigits(in string) (string, int, error) {
	d, scale, err := decimal([]byte(in), nil)
	return string(d), scale, err
}

func TestDefaults(t *testing.T) {
	req := func(k schema.Kind) *schema.Schema { return schema.New(k).Build() }
	for _, c := range []struct {
		name, expr string
		s          *schema.Schema
		d          decoder
		want       string
	}{
		{"a number", "42", req(schema.Int32), decodeInt32, "42"},
		{"a negative one", "'-1'::integer", req(schema.Int32), decodeInt32, "-1"},
		{"one in parentheses", "(-5)", req(schema.Int32), decodeInt32, "-5"},
		{"a text with a quote", "'x''y'::text", req(schema.String), decodeText, "x'y"},
		{"a text with a length", "'abc'::character varying(5)", req(schema.String), decodeText, "abc"},
		{"a text with a backslash", `E'a\\b'::text`, req(schema.String), decodeText, `a\b`},
		{"true", "true", req(schema.Bool), decodeBool, "true"},
		{"a cast to a quoted type", `'sad'::inv."Mood"`, req(schema.String), decodeText, "sad"},
		{"bits", `B'1'::"bit"`, req(schema.Bool), decodeBool, "true"},
		{"a sequence of a required column is zero", "nextval('a_seq'::regclass)", req(schema.Int64), decodeInt64, "0"},
		{"a function of an optional column is zero, too", "nextval('a_seq'::regclass)", schema.OptionalInt64, decodeInt64, "0"},
		{"what begins with a function is zero", "(now() + '1 day'::interval)", req(schema.Int64), decodeInt64, "0"},
		{"the time", "CURRENT_TIMESTAMP(3)", req(schema.Int64), decodeInt64, "0"},
		{"a word of SQL is none", "CURRENT_USER", req(schema.String), decodeText, "(none)"},
		{"a number with an exponent", "'1e+300'::numeric", req(schema.Float64), decodeFloat64, "1e+300"},
		{"an expression is none", "(1 + 2)", req(schema.Int32), decodeInt32, "(none)"},
		{"texts put together are none", "('a'::text || 'b'::text)", req(schema.String), decodeText, "(none)"},
		{"a literal with more behind its cast is none", "'a'::text || 'b'::text", req(schema.String), decodeText, "(none)"},
		{"null is none", "NULL::character varying", schema.OptionalString, decodeText, "(none)"},
	} {
		v, ok := defaultOf(c.expr, mapping{decode: plain(c.d), defaults: true, generated: "0"}, c.s)
		got := text(v)
		if !ok {
			got = "(none)"
		}
		if got != c.want {
			t.Errorf("%s: %s is %s, want %s", c.name, c.expr, got, c.want)
		}
	}
}

func TestPositionsComeBack(t *testing.T) {
	for _, p := range []position{
		{commit: 100, events: 7, last: 90, begun: 80, ended: 70, xid: 5, micros: 3, message: "BEGIN"},
		{commit: 100, last: 90, begun: 80, xid: 5, micros: 3, message: "BEGIN", tx: cdc.TxState{ID: "5:90", Counts: []cdc.TxCount{{Collection: "public.t", Events: 4}, {Collection: "s.u", Events: 3}}}},
		{commit: 101, last: 101, xid: 5, micros: 3, message: "COMMIT"},
		{commit: 91, last: 90, micros: 3, message: "MESSAGE"},
		{commit: 50, last: 50, xid: 9, micros: 2, snapshot: true},
		{commit: 50, last: 50, xid: 9, micros: 2},
	} {
		if got, ok, err := parsePosition(p.value()); err != nil || !ok || !reflect.DeepEqual(got, p) {
			t.Errorf("%+v comes back as %+v (%v, %v)", p, got, ok, err)
		}
	}
	if _, ok, err := parsePosition(schema.Value{}); ok || err != nil {
		t.Errorf("no offset: %v, %v", ok, err)
	}
	if _, _, err := parsePosition(schema.MapValue(nil)); err == nil {
		t.Error("an offset without an lsn is taken")
	}
}

// TestDebeziumPositions: offsets as Debezium's connector has stored them, the first ones of
// the golden captures.
func TestDebeziumPositions(t *testing.T) {
	for _, c := range []struct {
		name, json string
		want       position
	}{
		{"behind a snapshot", `{"last_snapshot_record":true,"lsn":53105832,"txId":1189,"ts_usec":1796001326113273,"snapshot":"INITIAL","snapshot_completed":true}`,
			position{commit: 53105832, last: 53105832, xid: 1189, micros: 1796001326113273}},
		{"within a transaction, at its first row", `{"lsn_proc":1581397296,"messageType":"INSERT","lsn_commit":1581397296,"lsn":1581397296,"txId":9855,"ts_usec":1796002937062262}`,
			position{commit: 1581397296, last: 1581397296, xid: 9855, micros: 1796002937062262, message: "INSERT", foreignXID: 9855, foreignRow: 1581397296}},
		{"within a transaction, behind the commit of another", `{"transaction_id":null,"lsn_proc":300,"messageType":"UPDATE","lsn_commit":200,"lsn":300,"txId":7,"ts_usec":1}`,
			position{commit: 200, last: 300, xid: 7, micros: 1, message: "UPDATE", foreignXID: 7, foreignRow: 300}},
		{"the same of a newer one, which counts rows of one LSN", `{"lsn_proc":300,"messageType":"UPDATE","lsn_commit":200,"lsn":300,"txId":7,"ts_usec":1,"lsn_events_processed":4}`,
			position{commit: 200, last: 300, xid: 7, micros: 1, message: "UPDATE", foreignXID: 7, foreignRow: 300}},
		{"within a transaction whose row lies before the commit that was sent before", `{"lsn_proc":300,"messageType":"UPDATE","lsn_commit":400,"lsn":300,"txId":7,"ts_usec":1}`,
			position{commit: 400, last: 300, xid: 7, micros: 1, message: "UPDATE", foreignXID: 7, foreignRow: 300}},
		{"within the first transaction", `{"lsn_proc":300,"messageType":"UPDATE","lsn_commit":null,"lsn":300,"txId":7,"ts_usec":1}`,
			position{commit: 300, last: 300, xid: 7, micros: 1, message: "UPDATE", foreignXID: 7, foreignRow: 300}},
		{"between transactions", `{"lsn_proc":300,"messageType":"COMMIT","lsn_commit":300,"lsn":300,"txId":7,"ts_usec":1}`,
			position{commit: 300, last: 300, xid: 7, micros: 1, message: "COMMIT"}},
		{"behind a message outside of transactions", `{"lsn_proc":300,"messageType":"MESSAGE","lsn_commit":200,"lsn":300,"ts_usec":1}`,
			position{commit: 301, last: 300, micros: 1, message: "MESSAGE"}},
		{"of an old version", `{"lsn_proc":300,"lsn_commit":300,"lsn":300,"txId":7,"ts_usec":1}`,
			position{commit: 300, last: 300, xid: 7, micros: 1}},
		{"within a snapshot", `{"snapshot":"INITIAL","lsn":300,"txId":7,"ts_usec":1,"last_snapshot_record":false}`,
			position{commit: 300, last: 300, xid: 7, micros: 1, snapshot: true}},
	} {
		conv, errs := converters.JSON.Make(map[string]string{"schemas.enable": "false"}, false)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		_, v, err := conv.Decode(&converters.Message{}, []byte(c.json))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok, err := parsePosition(v); err != nil || !ok || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n %+v (%v), want\n %+v", c.name, got, err, c.want)
		}
	}
}

func fuzzTable(f *testing.F) *table {
	rel := &relation{oid: 1, schema: "s", name: "t", identity: 'f', columns: []relColumn{{"id", oidInt4, -1, true}, {"a", oidText, -1, true}, {"n", oidNumeric, -1, true}, {"ts", oidTimestamptz, -1, true}, {"b", oidBytea, -1, true}}}
	t, _, err := benchSettings.compile(rel, &described{pk: []string{"id"}}, nil, sourceSchema)
	if err != nil {
		f.Fatal(err)
	}
	return t
}

// FuzzTuple: any bytes where a row belongs make a row or an error, and a row is one of
// the table's.
func FuzzTuple(f *testing.F) {
	tab := fuzzTable(f)
	f.Add(appendTuple(nil, "1", "a", "1.5", "2024-01-01 00:00:00+00", `\x00`))
	f.Add(appendTuple(nil, "1", "\x00n", "\x00u", "infinity", "\x00u"))
	f.Add([]byte{0, 5, 't', 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, _, err := tab.row(&schema.Arena{}, &cursor{b: b}, nil)
		if err == nil {
			if err := schema.Validate(tab.Layout.Row, v); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzRelation: any bytes where a table's announcement belongs.
func FuzzRelation(f *testing.F) {
	b := binary.BigEndian.AppendUint32(nil, 7)
	b = append(b, "s\x00t\x00d\x00\x01\x01id\x00"...)
	b = binary.BigEndian.AppendUint32(b, oidInt4)
	f.Add(binary.BigEndian.AppendUint32(b, 0xffffffff))
	f.Fuzz(func(t *testing.T, b []byte) {
		if rel, err := parseRelation(b); err == nil {
			_, _, _ = benchSettings.compile(rel, &described{}, nil, sourceSchema)
		}
	})
}

// FuzzCopyRow: any bytes where a line of COPY belongs.
func FuzzCopyRow(f *testing.F) {
	tab := fuzzTable(f)
	f.Add([]byte("1\ta\\tb\t1.5\t2024-01-01 00:00:00+00\t\\\\x00\n"))
	f.Add([]byte("\\N\t\\N\t\\N\t\\N\t\\N\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, _, err := tab.copyRow(&schema.Arena{}, b); err == nil {
			if err := schema.Validate(tab.Layout.Row, v); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// fuzzTypes are all types in every mode, each with its schema.
func fuzzTypes() (out []mapping) {
	for _, times := range []string{"adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"} {
		for i, decimals := range []string{"precise", "string", "double"} {
			s := *benchSettings
			s.times, s.decimals, s.binary, s.hstoreMap, s.intervalText, s.unknown = times, decimals, cdc.BinaryMode(i), i > 0, i > 0, i > 0
			for _, oid := range []uint32{oidBool, oidBytea, oidChar, oidName, oidInt8, oidInt2, oidInt4, oidText, oidOID, oidInt2Vector, oidOIDVector, oidJSON, oidXML, oidPoint, oidLseg, oidPath, oidBox, oidPolygon,
				oidLine, oidCircle, oidCIDR, oidFloat4, oidFloat8, oidInt4Range, oidMoney, oidInet, oidBpchar, oidVarchar, oidDate, oidTime, oidTimestamp, oidTimestamptz, oidInterval, oidTimetz, oidBit, oidVarbit,
				oidNumeric, oidUUID, oidTsvector, oidJSONB, benchEnum, benchInts, benchTexts} {
				for _, mod := range []int32{-1, 1, 3, 12<<16 | 2 + 4} {
					if m, ok := s.mapType(benchCatalog, oid, mod); ok {
						out = append(out, m)
					}
					if m, ok := s.mapArray(benchCatalog, oid, mod); ok {
						out = append(out, m)
					}
				}
			}
			for _, name := range []string{"citext", "isbn", "ltree", "hstore", "geometry", "geography", "vector", "halfvec", "sparsevec"} {
				m, _ := s.mapExtension(name)
				out = append(out, m)
			}
		}
	}
	return out
}

// FuzzTypes: any text of any type, in any mode, makes a value of its schema that the JSON
// converter can write, or an error.
func FuzzTypes(f *testing.F) {
	types := fuzzTypes()
	schemas := make([]*schema.Schema, len(types))
	for i, m := range types {
		schemas[i] = m.schema.SetOptional(true).Build()
	}
	for _, t := range benchTypes() {
		for i := range types {
			if schema.Equal(schemas[i], t.m.schema.SetOptional(true).Build()) {
				f.Add(uint16(i), []byte(t.text))
				break
			}
		}
	}
	for _, s := range []string{`{a,"b"}`, `"a"=>"b"`, "1 day 00:00:01", "2024-01-01 00:00:00+00 BC", "infinity", "'a'::text", "12:00:00+02", "NaN", "{1:1,2:2}/3", "[1,2]", "(1,2),(3,4)", "00000000000000000000"} {
		f.Add(uint16(len(s)), []byte(s))
	}
	json, errs := converters.JSON.Make(nil, false)
	if len(errs) > 0 {
		f.Fatal(errs)
	}
	f.Fuzz(func(t *testing.T, n uint16, b []byte) {
		i := int(n) % len(types)
		v, err := types[i].decode(schemas[i])(&schema.Arena{}, b)
		if err != nil && (!lost(err) || v.IsNull()) {
			return
		}
		if err := schema.Validate(schemas[i], v); err != nil {
			t.Fatalf("%v of %s: %v", schemas[i], b, err)
		}
		if !utf8.Valid(b) {
			return // the session's encoding is UTF-8
		}
		if _, _, err := json.Encode(nil, &converters.Message{}, schemas[i], v); err != nil {
			t.Fatalf("%v of %s: %v", schemas[i], b, err)
		}
	})
}

// FuzzDefaults: any text where a default's expression belongs.
func FuzzDefaults(f *testing.F) {
	for _, s := range []string{"'a'::text", "E'a\\\\b'::text", "(-5)", "1.5e+300", "now()", "(now() + '1 day'::interval)", "NULL::text", "'", "B'101'::\"bit\""} {
		f.Add(uint16(len(s)), s)
	}
	types := fuzzTypes()
	f.Fuzz(func(t *testing.T, n uint16, expr string) {
		m := types[int(n)%len(types)]
		s := m.schema.SetOptional(true).Build()
		if v, ok := defaultOf(expr, m, s); ok {
			if err := schema.Validate(s, v); err != nil {
				t.Fatalf("%s as a default of %v: %v", expr, s, err)
			}
		}
	})
}
