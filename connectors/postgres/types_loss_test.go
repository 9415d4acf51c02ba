package postgres

import (
	"fmt"
	"strings"
	"testing"

	"millrace/connectors/cdc"
	"millrace/schema"
)

// TestValuesThatASchemaCannotSay: in a column that may be null they are null, and a
// warning tells of it; in a required one they are what comes nearest, or an error that
// names the column.
func TestValuesThatASchemaCannotSay(t *testing.T) {
	text, nano := *benchSettings, *benchSettings
	text.decimals, nano.times = "string", "nanoseconds"
	numeric := int32(10<<16 | 2 + 4)
	const enums, sparse = 90021, 90022
	types := map[uint32]*typeInfo{benchEnum: benchCatalog[benchEnum], enums: {oid: enums, kind: 'b', category: 'A', elem: benchEnum, delim: ','}, sparse: {oid: sparse, name: "sparsevec", kind: 'b', category: 'U'},
		oidInt4: benchCatalog[oidInt4], benchInts: benchCatalog[benchInts]}
	for _, c := range []struct {
		name          string
		s             *settings
		oid           uint32
		mod           int32
		in            string
		optional, not string // what it is in a column that may be null, and in a required one
	}{
		{"NaN", benchSettings, oidNumeric, numeric, "NaN", "null", fails}, {"an infinite numeric without scale", benchSettings, oidNumeric, -1, "-Infinity", "null", fails},
		{"NaN as text has a place", &text, oidNumeric, numeric, "NaN", "NAN", "NAN"},
		{"a timestamp beyond 64 bits of microseconds", benchSettings, oidTimestamp, -1, "294276-12-31 23:59:59.999999", "null", "9223372036854775807"},
		{"one before 64 bits of nanoseconds", &nano, oidTimestamp, -1, "0044-03-15 00:00:00 BC", "null", "-9223372036854775808"},
		{"VARBIT(1) without a bit", benchSettings, oidVarbit, 1, "", "null", "false"},
		{"a null in an array whose elements are required", benchSettings, enums, -1, "{sad,NULL}", "null", fails},
		{"an array of two dimensions", benchSettings, benchInts, -1, "{{1,2},{3,4}}", fails, fails},
		{"a sparse vector of many dimensions", benchSettings, sparse, -1, "{1:1}/32768", "null", fails}, {"one of fewer", benchSettings, sparse, -1, "{1:1}/32767", "{dimensions:32767 vector:{1:1}}", "{dimensions:32767 vector:{1:1}}"},
	} {
		for _, required := range []bool{false, true} {
			rel := &relation{oid: 1, schema: "s", name: "t", identity: 'd', columns: []relColumn{{"id", oidInt4, -1, true}, {"c", c.oid, c.mod, false}}}
			cat := &described{pk: []string{"id"}, columns: map[string]catColumn{"c": {typ: c.oid, notNull: required}}}
			tab, skipped, err := c.s.compile(rel, cat, types, sourceSchema)
			if err != nil || skipped != nil {
				t.Fatalf("%s: %v, skipped %v", c.name, err, skipped)
			}
			v, lossy, err := tab.copyRow(&schema.Arena{}, []byte("1\t"+c.in+"\n"))
			got, want := fails, c.optional
			if required {
				want = c.not
			}
			if err == nil {
				got = text2(v.Get("c"))
				if (got != c.in && got != "NAN" && !strings.HasPrefix(got, "{")) != (lossy == 1) {
					t.Errorf("%s, required %v: column %d is reported as not whole", c.name, required, lossy)
				}
			} else if !strings.Contains(err.Error(), `column "c"`) {
				t.Errorf("%s, required %v: the error does not name the column: %v", c.name, required, err)
			}
			if got != want {
				t.Errorf("%s, required %v: %s, want %s (%v)", c.name, required, got, want, err)
			}
		}
	}
}

// text2 is text, with maps.
func text2(v schema.Value) string {
	if v.Kind() != schema.Struct || v.Schema().Index("vector") < 0 {
		return text(v)
	}
	var parts []string
	for _, e := range v.Get("vector").Entries() {
		parts = append(parts, text(e.Key)+":"+text(e.Value))
	}
	return "{dimensions:" + text(v.Get("dimensions")) + " vector:{" + strings.Join(parts, " ") + "}}"
}

// TestPlaceholders: what stands for a large value that an update left alone, by type.
func TestPlaceholders(t *testing.T) {
	const mark, inBase64, uuid = "__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
	bytes := *benchSettings
	bytes.placeholder = []byte(mark)
	base64, hex, maps := bytes, bytes, bytes
	base64.binary, hex.binary, maps.decimals = cdc.BinaryBase64, cdc.BinaryHex, "string"
	const hstore, geometry = 90031, 90032
	arrayOf := map[uint32]uint32{oidUUID: 90041, oidBytea: 90042, oidJSONB: 90043, oidDate: 90044, oidNumeric: 90045}
	types := map[uint32]*typeInfo{hstore: {oid: hstore, name: "hstore", kind: 'b', category: 'U'}, geometry: {oid: geometry, name: "geometry", kind: 'b', category: 'U'}}
	for elem, oid := range arrayOf {
		types[oid] = &typeInfo{oid: oid, kind: 'b', category: 'A', elem: elem, delim: ','}
	}
	for _, c := range []struct {
		name string
		s    *settings
		oid  uint32
		want string
	}{
		{"text", &bytes, oidText, mark}, {"jsonb", &bytes, oidJSONB, mark}, {"bytea", &bytes, oidBytea, fmt.Sprintf("%x", mark)}, {"bytea in base64", &base64, oidBytea, inBase64},
		{"bytea in hex", &hex, oidBytea, mark}, {"bytea[] in base64", &base64, arrayOf[oidBytea], "[" + inBase64 + "]"}, {"jsonb[]", &bytes, arrayOf[oidJSONB], "[" + mark + "]"},
		{"uuid[]: the UUID that Java makes of it", &bytes, arrayOf[oidUUID], "[" + uuid + "]"}, {"hstore as JSON", &bytes, hstore, `{"` + mark + `":"` + mark + `"}`},
		{"numeric as text", &maps, oidNumeric, mark}, {"date[]: its bytes", &bytes, arrayOf[oidDate], "[" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint([]byte(mark))), " "), "[]") + "]"},
		{"geometry", &bytes, geometry, "{wkb:" + fmt.Sprintf("%x", mark) + " srid:null}"},
	} {
		rel := &relation{oid: 1, schema: "s", name: "t", identity: 'd', columns: []relColumn{{"c", c.oid, -1, false}}}
		tab, _, err := c.s.compile(rel, &described{}, types, sourceSchema)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(tab.columns[0].held); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		row, _, err := tab.row(&schema.Arena{}, &cursor{b: appendTuple(nil, "\x00u")}, nil)
		if err != nil || schema.Validate(tab.Layout.Row, row) != nil {
			t.Errorf("%s: %v, %v", c.name, err, schema.Validate(tab.Layout.Row, row))
		}
	}
}

// TestOwnTypesWithTheNamesOfOthers: a composite type or a range that is called as a type
// of an extension is none of it.
func TestOwnTypesWithTheNamesOfOthers(t *testing.T) {
	unknown := *benchSettings
	unknown.unknown = true
	for _, kind := range []byte{'c', 'r', 'm'} {
		for _, name := range []string{"vector", "geometry", "hstore", "isbn"} {
			types := map[uint32]*typeInfo{90051: {oid: 90051, name: name, kind: kind, category: 'U', delim: ','}}
			if m, ok := benchSettings.mapType(types, 90051, -1); ok {
				t.Errorf("%s of kind %c becomes %v", name, kind, m.schema.Build())
			}
			if m, ok := unknown.mapType(types, 90051, -1); !ok || m.schema.Build().Kind() != schema.Bytes || decoded(m.decode(nil), "(1,2)") != "28312c3229" {
				t.Errorf("%s of kind %c is not sent as its text's bytes", name, kind)
			}
		}
	}
}
