package postgres

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"millrace/connectors/cdc"
	"millrace/schema"
)

var update = flag.Bool("update", false, "rewrite the table of types in deploy/docs/postgres-types.md")

const (
	typesDoc           = "../../deploy/docs/postgres-types.md"
	tableBegin         = "<!-- The table is what the code says: go test ./connectors/postgres -run TypesDocument -update writes it. -->\n"
	tableEnd           = "<!-- the end of the table -->\n"
	docEnum, docDomain = 90011, 90012
)

// A docType is a line of the document's table.
type docType struct {
	name      string
	oid       uint32
	mod       int32
	extension string // by name, where the number differs from database to database
}

func docTypes() []docType {
	numeric := func(precision, scale int32) int32 { return precision<<16 | scale + 4 }
	of := func(name string, oid uint32) docType { return docType{name, oid, -1, ""} }
	ext := func(name string) docType { return docType{name, 0, -1, name} }
	return []docType{
		of("boolean", oidBool), of("smallint", oidInt2), of("integer", oidInt4), of("bigint", oidInt8), of("oid", oidOID), of("real", oidFloat4), of("double precision", oidFloat8),
		{"numeric(10,2)", oidNumeric, numeric(10, 2), ""}, of("numeric", oidNumeric), of("money", oidMoney),
		of("char(n), varchar(n), text", oidText), of("\"char\"", oidChar), of("name", oidName), ext("citext"), of("bytea", oidBytea),
		of("date", oidDate), {"time(0) to time(3)", oidTime, 3, ""}, of("time, time(4) to time(6)", oidTime), of("timetz", oidTimetz),
		{"timestamp(0) to timestamp(3)", oidTimestamp, 3, ""}, of("timestamp, timestamp(4) to timestamp(6)", oidTimestamp), of("timestamptz", oidTimestamptz), of("interval", oidInterval),
		of("uuid", oidUUID), of("json, jsonb", oidJSONB), of("xml", oidXML), of("inet, cidr, macaddr, macaddr8", oidInet),
		{"bit(1), varbit(1)", oidBit, 1, ""}, {"bit(n), varbit(n)", oidBit, 12, ""}, of("varbit", oidVarbit),
		of("point", oidPoint), of("line, lseg, box, path, polygon, circle", oidBox),
		of("int4range, int8range, numrange, tsrange, tstzrange, daterange", oidInt4Range), ext("other ranges, multiranges"),
		{"an enum", docEnum, -1, ""}, {"a domain (here of numeric(10,2))", docDomain, -1, ""}, ext("a composite type"),
		ext("hstore"), ext("ltree"), of("tsvector", oidTsvector), ext("isbn"), of("int2vector", oidInt2Vector), of("oidvector", oidOIDVector),
		ext("geometry"), ext("geography"), ext("vector"), ext("halfvec"), ext("sparsevec"), ext("any other"),
	}
}

// shortSchema says a schema in a few words: its kind and what names it.
func shortSchema(s *schema.Schema) string {
	out := strings.ToLower(s.Kind().String())
	switch s.Kind() {
	case schema.Array:
		out = "array of " + shortSchema(s.Elem())
		if s.Elem().Optional() {
			out += "?"
		}
	case schema.Map:
		out = "map of " + shortSchema(s.Key()) + " to " + shortSchema(s.Elem())
		if s.Elem().Optional() {
			out += "?"
		}
	}
	if s.ValueKind() == schema.Decimal {
		out = "bytes"
	}
	if s.Name() != "" {
		out += " `" + strings.TrimPrefix(s.Name(), "io.debezium.") + "`"
	}
	var params []string
	for _, p := range s.Params() {
		params = append(params, p.Key[strings.LastIndexByte(p.Key, '.')+1:]+" "+p.Value)
	}
	if params != nil {
		out += " (" + strings.Join(params, ", ") + ")"
	}
	return out
}

func docTable() string {
	catalog := map[uint32]*typeInfo{docEnum: {oid: docEnum, name: "mood", kind: 'e', category: 'E', delim: ',', labels: []string{"sad", "ok"}},
		docDomain: {oid: docDomain, name: "price", kind: 'd', category: 'N', base: oidNumeric, baseMod: 10<<16 | 2 + 4}}
	const others = 90013
	mapped := func(s *settings, t docType) (mapping, bool) {
		oid := t.oid
		if t.extension != "" {
			oid = others
			catalog[oid] = &typeInfo{oid: oid, name: t.extension, kind: 'b', category: 'U', delim: ','}
		}
		return s.mapType(catalog, oid, t.mod)
	}
	show := func(s *settings, t docType) string {
		m, ok := mapped(s, t)
		if !ok {
			return "left out"
		}
		return shortSchema(m.schema.Build())
	}
	base := *benchSettings
	type mode struct {
		key string
		set func(s *settings)
	}
	var modes []mode
	for _, v := range []string{"adaptive_time_microseconds", "microseconds", "nanoseconds", "connect", "isostring"} {
		modes = append(modes, mode{"time.precision.mode=" + v, func(s *settings) { s.times = v }})
	}
	for _, v := range []string{"string", "double"} {
		modes = append(modes, mode{"decimal.handling.mode=" + v, func(s *settings) { s.decimals = v }})
	}
	for i, v := range cdc.BinaryModes[1:] {
		modes = append(modes, mode{"binary.handling.mode=" + v, func(s *settings) { s.binary = cdc.BinaryMode(i + 1) }})
	}
	modes = append(modes, mode{"hstore.handling.mode=map", func(s *settings) { s.hstoreMap = true }}, mode{"interval.handling.mode=string", func(s *settings) { s.intervalText = true }},
		mode{"include.unknown.datatypes", func(s *settings) { s.unknown = true }})
	var b strings.Builder
	b.WriteString("| PostgreSQL | event | with other settings | arrays of it | default |\n| --- | --- | --- | --- | --- |\n")
	for _, t := range docTypes() {
		want := show(&base, t)
		var same []string // settings with one outcome stand together
		outcomes := map[string][]string{}
		for _, m := range modes {
			s := base
			m.set(&s)
			if got := show(&s, t); got != want {
				if outcomes[got] == nil {
					same = append(same, got)
				}
				outcomes[got] = append(outcomes[got], m.key)
			}
		}
		var other []string
		for _, got := range same {
			list, key := outcomes[got], ""
			for i, k := range list {
				name, value, _ := strings.Cut(k, "=")
				if list[i] = "`" + k + "`"; name == key {
					list[i] = "`" + value + "`"
				}
				key = name
			}
			other = append(other, strings.Join(list, ", ")+": "+got)
		}
		m, ok := mapped(&base, t)
		elements, def := "unknown", "no"
		if ok {
			switch m.elements {
			case elementsOptional:
				elements = "yes"
			case elementsRequired:
				elements = "without nulls"
			}
			if t.oid == docDomain {
				elements = "unknown"
			}
			if m.schema.Build().Kind() == schema.Struct && m.defaults {
				def = "in the other modes"
			} else if m.defaults {
				def = "yes"
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", t.name, want, strings.Join(other, "; "), elements, def)
	}
	return b.String()
}

// TestTypesDocument: each line of the document's table is what the code does; the
// golden tests show that it is what the original does.
func TestTypesDocument(t *testing.T) {
	doc, err := os.ReadFile(typesDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), tableBegin)
	have, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no table between %q and %q", typesDoc, tableBegin, tableEnd)
	}
	want := docTable()
	if *update {
		if err := os.WriteFile(typesDoc, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	a, b := strings.Split(have, "\n"), strings.Split(want, "\n")
	if !reflect.DeepEqual(a, b) {
		for i := range max(len(a), len(b)) {
			x, y := slices.Concat(a, make([]string, len(b)))[i], slices.Concat(b, make([]string, len(a)))[i]
			if x != y {
				t.Errorf("line %d of the table is\n%s, want\n%s", i+1, x, y)
			}
		}
	}
}
