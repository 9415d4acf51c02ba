package postgres

import (
	"testing"

	"millrace/schema"
)

// benchTypes are types with a text as the server prints it. Those of a fixed size must
// not allocate, but for the arena's slabs, which many values share.
func benchTypes() []struct {
	name  string
	m     mapping
	text  string
	fixed bool
} {
	s := benchSettings
	text, iso := *s, *s
	text.decimals, text.intervalText, text.hstoreMap = "string", true, true
	iso.times = "isostring"
	base := func(of *settings, oid uint32, mod int32) mapping {
		m, _ := of.mapBase(benchCatalog, oid, mod)
		return m
	}
	extension := func(name string) mapping {
		m, _ := s.mapExtension(name)
		return m
	}
	numeric := func(precision, scale int32) int32 { return precision<<16 | scale + 4 }
	return []struct {
		name  string
		m     mapping
		text  string
		fixed bool
	}{
		{"bool", base(s, oidBool, -1), "t", true},
		{"int2", base(s, oidInt2, -1), "-32768", true},
		{"int4", base(s, oidInt4, -1), "2147483647", true},
		{"int8", base(s, oidInt8, -1), "-9223372036854775808", true},
		{"oid", base(s, oidOID, -1), "4294967295", true},
		{"float4", base(s, oidFloat4, -1), "3.4028235e+38", true},
		{"float8", base(s, oidFloat8, -1), "0.1", true},
		{"numeric(12,2)", base(s, oidNumeric, numeric(12, 2)), "1234567890.12", true},
		{"numeric(40,10)", base(s, oidNumeric, numeric(40, 10)), "123456789012345678901234567890.0123456789", false},
		{"numeric", base(s, oidNumeric, -1), "14285.7142857142857143", false},
		{"numeric as text", base(&text, oidNumeric, numeric(12, 2)), "1234567890.12", true},
		{"money", base(s, oidMoney, -1), "$1,234.56", true},
		{"money as text", base(&text, oidMoney, -1), "-$1,234.56", true},
		{"text", base(s, oidText, -1), "customer 0123456789abcdef0123", false},
		{"uuid", base(s, oidUUID, -1), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", true},
		{"bytea", base(s, oidBytea, -1), `\x00ff10203040506070`, false},
		{"date", base(s, oidDate, -1), "2024-02-29", true},
		{"date as iso", base(&iso, oidDate, -1), "2024-02-29", true},
		{"time", base(s, oidTime, -1), "12:34:56.789012", true},
		{"time as iso", base(&iso, oidTime, -1), "12:34:56.789012", true},
		{"timetz", base(s, oidTimetz, -1), "12:34:56.789012+02", true},
		{"timestamp", base(s, oidTimestamp, -1), "2024-02-29 12:34:56.789012", true},
		{"timestamp as iso", base(&iso, oidTimestamp, -1), "2024-02-29 12:34:56.789012", true},
		{"timestamptz", base(s, oidTimestamptz, -1), "2024-02-29 12:34:56.789012+00", true},
		{"interval", base(s, oidInterval, -1), "1 year 2 mons 3 days 04:05:06.789", true},
		{"interval as text", base(&text, oidInterval, -1), "1 year 2 mons 3 days 04:05:06.789", true},
		{"bit(1)", base(s, oidBit, 1), "1", true},
		{"bit(70)", base(s, oidBit, 70), "1100000000000000000000000000000000000000000000000000000000000000000001", true},
		{"point", base(s, oidPoint, -1), "(1.5,-2.5)", true},
		{"enum", base(s, benchEnum, -1), "sad", true},
		{"int4[]", base(s, benchInts, -1), "{1,NULL,3,4,5,6,7,8}", false},
		{"text[]", base(s, benchTexts, -1), `{a,"b,c",NULL,"d\"e"}`, false},
		{"hstore", extension("hstore"), `"a"=>"1", "n"=>NULL, "b c"=>"x"`, false},
		{"geometry", extension("geometry"), "0101000020E61000001C7C613255DE6540787AA52C435C42C0", true},
		{"vector", extension("vector"), "[1.5,-2,0.1,3.25,1e-05,7,8,9]", false},
		{"sparsevec", extension("sparsevec"), "{1:1.5,3:-2}/10", false},
	}
}

const benchEnum, benchInts, benchTexts = 90001, 90002, 90003

var benchCatalog = map[uint32]*typeInfo{
	oidInt4: {oid: oidInt4, name: "int4", kind: 'b', category: 'N', delim: ','}, oidText: {oid: oidText, name: "text", kind: 'b', category: 'S', delim: ','},
	benchEnum: {oid: benchEnum, name: "mood", kind: 'e', category: 'E', delim: ',', labels: []string{"sad", "ok"}},
	benchInts: {oid: benchInts, name: "_int4", kind: 'b', category: 'A', elem: oidInt4, delim: ','}, benchTexts: {oid: benchTexts, name: "_text", kind: 'b', category: 'A', elem: oidText, delim: ','},
}

// BenchmarkTypes decodes one value of each type.
func BenchmarkTypes(b *testing.B) {
	for _, t := range benchTypes() {
		b.Run(t.name, func(b *testing.B) {
			d, text, arena := t.m.decode(t.m.schema.Build()), []byte(t.text), &schema.Arena{}
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := d(arena, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestFixedSizesAllocateNothing: what has a fixed size takes no memory of its own but
// its share of the arena.
func TestFixedSizesAllocateNothing(t *testing.T) {
	fixed := 0
	for _, c := range benchTypes() {
		d, text, arena := c.m.decode(c.m.schema.Build()), []byte(c.text), &schema.Arena{}
		n := testing.AllocsPerRun(2000, func() {
			if _, err := d(arena, text); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		})
		if c.fixed {
			if fixed++; n != 0 {
				t.Errorf("%s: %v allocations for a value", c.name, n)
			}
		}
	}
	if fixed < 20 {
		t.Errorf("%d types of fixed size", fixed)
	}
}
