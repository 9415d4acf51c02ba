package avro

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/schema/registry"
)

func parse(t *testing.T, text string) *Schema {
	t.Helper()
	s, err := Parse(text, registry.ParseOptions{New: true})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func compatible(t *testing.T, level registry.Level, candidate, old string) bool {
	t.Helper()
	return registry.CheckCompatibility(parse(t, candidate), level, []registry.Version{{Number: 1, Schema: parse(t, old)}}) == nil
}

// cases/registry/1: an incompatible change inside a union is found, wherever the union stands.
func TestChangesInsideUnionsAreJudged(t *testing.T) {
	record := func(fields string) string {
		return `{"type":"record","name":"R","namespace":"n","fields":[` + fields + `]}`
	}
	const a = `{"name":"a","type":"int"}`
	for _, nesting := range []struct{ name, form string }{
		{"in a union", `["null",%s]`},
		{"in a field of another record", `{"type":"record","name":"Outer","fields":[{"name":"r","type":["null",%s]}]}`},
		{"in an array", `{"type":"array","items":["null",%s]}`},
		{"in a map", `{"type":"map","values":["null",%s]}`},
	} {
		old := fmt.Sprintf(nesting.form, record(a))
		if compatible(t, registry.Backward, fmt.Sprintf(nesting.form, record(a+`,{"name":"b","type":"string"}`)), old) {
			t.Errorf("%s: a field without a default is accepted", nesting.name)
		}
		if !compatible(t, registry.Backward, fmt.Sprintf(nesting.form, record(a+`,{"name":"b","type":"string","default":""}`)), old) {
			t.Errorf("%s: a field with a default is refused", nesting.name)
		}
	}
	const self = `{"name":"next","type":["null","R"],"default":null}`
	if compatible(t, registry.Backward, record(self+`,{"name":"b","type":"string"}`), record(self)) {
		t.Error("in a recursive record: a field without a default is accepted")
	}
	if !compatible(t, registry.Backward, record(self+`,{"name":"b","type":"string","default":""}`), record(self)) {
		t.Error("in a recursive record: a field with a default is refused")
	}
}

// cases/registry/2: aliases of the reader count, in unions too.
func TestAliasesOfTheReaderCount(t *testing.T) {
	const old = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`
	const field = `{"type":"record","name":"R","fields":[{"name":"b","type":"int","aliases":["a"]}]}`
	const renamed = `{"type":"record","name":"R2","aliases":["R"],"fields":[{"name":"a","type":"int"}]}`
	for _, c := range []struct {
		name, candidate, old string
		level                registry.Level
		want                 bool
	}{
		{"a renamed field with its alias", field, old, registry.Backward, true},
		{"a renamed record with its alias", renamed, old, registry.Backward, true},
		{"the same inside a union", `["null",` + renamed + `]`, `["null",` + old + `]`, registry.Backward, true},
		{"a renamed field without an alias or a default", `{"type":"record","name":"R","fields":[{"name":"b","type":"int"}]}`, old, registry.Backward, false},
		{"a renamed field, read by the old schema, which has no alias", field, old, registry.Forward, false},
	} {
		if got := compatible(t, c.level, c.candidate, c.old); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// cases/registry/4: what changes the text that is kept, and what does not.
func TestWhenTwoTextsAreTheSame(t *testing.T) {
	const base = `{"type":"record","name":"n.R","fields":[{"name":"a","type":"int","doc":"d","default":1}]}`
	for _, c := range []struct {
		name, text string
		same       bool
	}{
		{"white space and CRLF", "{\r\n  \"type\": \"record\",\r\n  \"name\": \"n.R\",\r\n  \"fields\": [ {\"name\":\"a\",\r\n\"type\":\"int\",\"doc\":\"d\",\"default\":1} ]\r\n}\r\n", true},
		{"the order of attributes", `{"fields":[{"default":1,"doc":"d","type":"int","name":"a"}],"name":"n.R","type":"record"}`, true},
		{"the name split", `{"type":"record","namespace":"n","name":"R","fields":[{"name":"a","type":"int","doc":"d","default":1}]}`, true},
		{"a primitive as an object", `{"type":"record","name":"n.R","fields":[{"name":"a","type":{"type":"int"},"doc":"d","default":1}]}`, true},
		{"another doc", `{"type":"record","name":"n.R","fields":[{"name":"a","type":"int","doc":"e","default":1}]}`, false},
		{"another default", `{"type":"record","name":"n.R","fields":[{"name":"a","type":"int","doc":"d","default":2}]}`, false},
		{"an alias", `{"type":"record","name":"n.R","fields":[{"name":"a","type":"int","doc":"d","default":1,"aliases":["b"]}]}`, false},
		{"a property", `{"type":"record","name":"n.R","fields":[{"name":"a","type":"int","doc":"d","default":1}],"p":1}`, false},
		{"two fields", `{"type":"record","name":"n.R","fields":[{"name":"a","type":"int","doc":"d","default":1},{"name":"b","type":"int","default":1}]}`, false},
	} {
		x, y := parse(t, base), parse(t, c.text)
		if same := x.Canonical() == y.Canonical(); same != c.same {
			t.Errorf("%s: %v\n%s", c.name, same, y.Canonical())
		}
		if same := x.Normalized() == y.Normalized(); same != c.same {
			t.Errorf("%s, normalized: %v\n%s", c.name, same, y.Normalized())
		}
	}
	s := parse(t, `{"type":"record","name":"R","doc":"about","aliases":["Q"],"fields":[{"name":"a","type":"int","doc":"d","default":1,"p":[1,{"b":2,"a":1.50}]}],"x":true}`)
	if want := `{"type":"record","name":"R","doc":"about","fields":[{"name":"a","type":"int","doc":"d","default":1,"p":[1,{"b":2,"a":1.5}]}],"x":true,"aliases":["Q"]}`; s.Canonical() != want {
		t.Errorf("kept %s\nwant %s", s.Canonical(), want)
	}
}

func TestNormalizedTexts(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"properties by name, a logical type's own first", `{"type":"bytes","z":{"b":1,"a":[{"d":1,"c":2}]},"scale":2,"a":1,"precision":4,"logicalType":"decimal"}`,
			`{"type":"bytes","logicalType":"decimal","precision":4,"scale":2,"a":1,"z":{"a":[{"c":2,"d":1}],"b":1}}`},
		{"aliases by name", `{"type":"fixed","name":"n.F","size":1,"aliases":["c","m.b","a"]}`, `{"type":"fixed","name":"F","namespace":"n","size":1,"aliases":["a","c","m.b"]}`},
		{"defaults in the form of their type", `{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":1},{"name":"b","type":"float","default":0.10},{"name":"c","type":{"type":"map","values":"long"},"default":{"b":1,"a":2}}]}`,
			`{"type":"record","name":"R","fields":[{"name":"a","type":"double","default":1.0},{"name":"b","type":"float","default":0.1},{"name":"c","type":{"type":"map","values":"long"},"default":{"a":2,"b":1}}]}`},
		{"an empty doc of a type goes, an error is a record", `{"type":"error","name":"R","doc":"","fields":[]}`, `{"type":"record","name":"R","fields":[]}`},
		{"a default of a later branch stays", `{"type":"record","name":"R","fields":[{"name":"a","type":["null","string"],"default":"x"}]}`, `{"type":"record","name":"R","fields":[{"name":"a","type":["null","string"],"default":"x"}]}`},
	} {
		if got := parse(t, c.text).Normalized(); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestDependenciesAreMentionedAndNotWrittenOut(t *testing.T) {
	deps := []registry.Dependency{
		{Name: "n.A", Text: `{"type":"record","name":"A","namespace":"n","fields":[{"name":"x","type":"int"}]}`},
		{Name: "n.B", Text: `{"type":"record","name":"B","namespace":"n","fields":[{"name":"a","type":"A"},{"name":"e","type":{"type":"enum","name":"E","symbols":["P"]}}]}`},
	}
	s, err := Parse(`{"type":"record","name":"C","namespace":"m","fields":[{"name":"a","type":"n.A"},{"name":"b","type":["null","n.B"]}]}`, registry.ParseOptions{New: true, Dependencies: deps})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"type":"record","name":"C","namespace":"m","fields":[{"name":"a","type":"n.A"},{"name":"b","type":["null","n.B"]}]}`; s.Canonical() != want || s.Normalized() != want {
		t.Errorf("kept %s, normalized %s", s.Canonical(), s.Normalized())
	}
	want := `{"type":"record","name":"C","namespace":"m","fields":[{"name":"a","type":{"type":"record","name":"A","namespace":"n","fields":[{"name":"x","type":"int"}]}},{"name":"b","type":["null",{"type":"record","name":"B","namespace":"n","fields":[{"name":"a","type":"A"},{"name":"e","type":{"type":"enum","name":"E","symbols":["P"]}}]}]}]}`
	if s.Resolved() != want {
		t.Errorf("resolved %s", s.Resolved())
	}
	again, err := Parse(s.Canonical(), registry.ParseOptions{Dependencies: deps})
	if err != nil || again.Canonical() != s.Canonical() {
		t.Errorf("read again: %v", err)
	}
	if _, err := Parse(s.Canonical(), registry.ParseOptions{}); err == nil || !strings.Contains(err.Error(), `undefined type "n.A"`) {
		t.Errorf("without its dependencies: %v", err)
	}
	if _, err := Parse(`"int"`, registry.ParseOptions{Dependencies: []registry.Dependency{{Name: "n.X", Text: `{"type":"record"}`}}}); err == nil || !strings.Contains(err.Error(), "n.X") {
		t.Errorf("a broken dependency: %v", err)
	}
}

func TestNamesOfOldSchemasAreReadLeniently(t *testing.T) {
	for _, c := range []struct {
		name, text       string
		strictly, stored bool
	}{
		{"letters of any script", `{"type":"record","name":"Größe","fields":[{"name":"ä","type":"int"}]}`, false, true},
		{"a namespace with a dash", `{"type":"record","name":"R","namespace":"a-b","fields":[]}`, false, true},
		{"a dash in a name", `{"type":"record","name":"a-b","fields":[]}`, false, false},
		{"a digit in front", `{"type":"record","name":"R","fields":[{"name":"1a","type":"int"}]}`, false, false},
		{"a default that is none", `{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":null}]}`, false, true},
		{"a default of a union's second branch", `{"type":"record","name":"R","fields":[{"name":"a","type":["null","int"],"default":1}]}`, true, true},
	} {
		if _, err := Parse(c.text, registry.ParseOptions{New: true}); (err == nil) != c.strictly {
			t.Errorf("%s, new: %v", c.name, err)
		}
		if _, err := Parse(c.text, registry.ParseOptions{}); (err == nil) != c.stored {
			t.Errorf("%s, stored: %v", c.name, err)
		}
	}
}

func TestWhatIsNoSchemaIsRefusedInWords(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no JSON", `{"type":`, "at byte 8"},
		{"text behind it", `"int" x`, "dangling content"},
		{"a number", `1`, "a type is a name"},
		{"an unknown name", `"n.X"`, `undefined type "n.X"`},
		{"a field without a type", `{"type":"record","name":"R","fields":[{"name":"a"}]}`, `record "R": field "a": no "type"`},
		{"a field twice", `{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}`, `field "a" twice`},
		{"a symbol twice", `{"type":"enum","name":"E","symbols":["A","A"]}`, `symbol "A" twice`},
		{"a wrong default", `{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":"x"}]}`, `invalid default for field "a": "x" is no int`},
		{"a union in a union", `["null",["int"]]`, "a union directly inside a union"},
		{"a type twice in a union", `["int","int"]`, `duplicate in a union: "int"`},
		{"a type defined twice", `[{"type":"fixed","name":"F","size":1},{"type":"array","items":{"type":"fixed","name":"F","size":2}}]`, `can't redefine "F"`},
		{"a name of a primitive", `{"type":"fixed","name":"int","size":1}`, `named after primitives`},
		{"a size below zero", `{"type":"fixed","name":"F","size":-1}`, `no "size"`},
	} {
		_, err := Parse(c.text, registry.ParseOptions{New: true})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestHugeSchemasAreBounded: what is too large is refused soon, and what is allowed is dealt with in bounded time.
func TestHugeSchemasAreBounded(t *testing.T) {
	deep := func(n int) string {
		return strings.Repeat(`{"type":"array","items":`, n) + `"int"` + strings.Repeat("}", n)
	}
	fields := func(n int) string {
		b := []byte(`{"type":"record","name":"R","fields":[`)
		for i := range n {
			b = fmt.Appendf(b, `{"name":"f%d","type":"int"},`, i)
		}
		return string(b[:len(b)-1]) + `]}`
	}
	chain := []byte(`["null"`)
	for i := range 400 {
		chain = fmt.Appendf(chain, `,{"type":"record","name":"R%d","fields":[{"name":"f","type":"R%d"}]}`, i, i+1)
	}
	chain = append(chain, `,{"type":"record","name":"R400","fields":[]}]`...)
	doubling := []byte(`["null",{"type":"record","name":"D0","fields":[{"name":"a","type":"int","default":0}]}`)
	for i := 1; i < 100; i++ {
		doubling = fmt.Appendf(doubling, `,{"type":"record","name":"D%d","fields":[{"name":"a","type":"D%d","default":{}},{"name":"b","type":"D%d","default":{}}]}`, i, i-1, i-1)
	}
	doubling = append(doubling, ']')
	for _, c := range []struct{ name, text, want string }{
		{"a million fields", fields(1_000_000), "bytes of text"},
		{"more fields than are allowed", fields(110_000), "types, fields, symbols and branches"},
		{"deep nesting", deep(300_000), "bytes of text"},
		{"nesting deeper than is allowed", deep(257), "nested deeper"},
		{"a chain of names that would be deep when it is written out", string(chain), "when each type is written out"},
		{"defaults that double at each level", string(doubling), ""},
		{"as many fields as are allowed", fields(49_000), ""},
		{"as deep as is allowed", deep(255), ""},
		{"a number of a million digits", `{"type":"int","x":` + strings.Repeat("9", 1_000_000) + `}`, "digits"},
		{"two million values", `{"type":"int","x":[` + strings.Repeat("1,", 1_900_000) + `1]}`, "too many values"},
	} {
		start := time.Now()
		s, err := Parse(c.text, registry.ParseOptions{New: true})
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			if c.want != "digits" || err == nil {
				t.Errorf("%s: %.200v", c.name, err)
			}
		case c.want == "" && err != nil:
			t.Errorf("%s: %.200v", c.name, err)
		case c.want == "":
			s.Reads(s, "new", "old")
			s.Normalized()
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %v", c.name, took)
		}
	}
	// Every branch of one with every branch of the other.
	union := func(prefix string) *Schema {
		b := []byte(`["null"`)
		for i := range 3_000 {
			b = fmt.Appendf(b, `,{"type":"fixed","name":"%s%d","size":1}`, prefix, i)
		}
		return parse(t, string(append(b, ']')))
	}
	start := time.Now()
	found := union("A").Reads(union("B"), "new", "old")
	if len(found) != 1 || !strings.Contains(found[0].String(), "too large to be compared") {
		t.Errorf("two unions of 3,000 branches: %d reasons", len(found))
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("two unions of 3,000 branches took %v", took)
	}
}

// TestCanonicalTextsAreStable: what is printed is read as the same schema, and prints the same again.
func TestCanonicalTextsAreStable(t *testing.T) {
	read := 0
	for seed := uint64(1 << 32); seed < 1<<32+3000; seed++ {
		text, _ := pairOf(seed)
		s, err := Parse(text, registry.ParseOptions{New: true})
		if err != nil {
			continue
		}
		read++
		stable(t, s, text)
	}
	if read < 1000 {
		t.Errorf("%d schemas only", read)
	}
}

func stable(t *testing.T, s *Schema, text string) {
	t.Helper()
	again, err := Parse(s.Canonical(), registry.ParseOptions{})
	if err != nil {
		t.Errorf("%s\nis kept as %s\nwhich is no schema: %v", text, s.Canonical(), err)
		return
	}
	if again.Canonical() != s.Canonical() || again.Normalized() != s.Normalized() {
		t.Errorf("%s\nis kept as %s\nand then as %s", text, s.Canonical(), again.Canonical())
	}
	normal, err := Parse(s.Normalized(), registry.ParseOptions{})
	if err != nil {
		t.Errorf("%s\nis normalized to %s\nwhich is no schema: %v", text, s.Normalized(), err)
		return
	}
	if normal.Canonical() != s.Normalized() || normal.Normalized() != s.Normalized() {
		t.Errorf("%s\nis normalized to %s\nand then to %s", text, s.Normalized(), normal.Normalized())
	}
	if !equalTypes(s.root, again.root) {
		t.Errorf("%s\nread again is another schema", text)
	}
	if found := s.Reads(again, "new", "old"); len(found) > 0 && found[0].Kind != "" {
		t.Errorf("%s\ndoes not read itself: %v", text, found)
	}
}

func FuzzSchema(f *testing.F) {
	for seed := range uint64(100) {
		a, b := pairOf(seed)
		f.Add(a)
		f.Add(b)
	}
	f.Add("{\"type\":/* c */\"int\"}")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text, registry.ParseOptions{Limits: registry.Limits{Depth: 60}})
		if err != nil {
			return
		}
		stable(t, s, text)
		s.Tags()
	})
}

func TestTagsAreAddedAndRemoved(t *testing.T) {
	s := parse(t, `{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int","confluent:tags":["PII"]},{"name":"b","type":["null",{"type":"record","name":"S","fields":[{"name":"c","type":"int"}]}]}]}`)
	tagged, err := s.Tagged([]registry.EntityTags{{Path: "n.S.c", Kind: "sr_field", Tags: []string{"X", "PII"}}, {Path: "n.R", Kind: "sr_record", Tags: []string{"Y"}}}, []registry.EntityTags{{Path: "R.a", Kind: "sr_field", Tags: []string{"PII"}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int"},{"name":"b","type":["null",{"type":"record","name":"S","fields":[{"name":"c","type":"int","confluent:tags":["X","PII"]}]}]}],"confluent:tags":["Y"]}`; tagged.Canonical() != want {
		t.Errorf("got  %s\nwant %s", tagged.Canonical(), want)
	}
	if got := fmt.Sprint(tagged.(*Schema).Tags()); got != "[{n.R sr_record [Y]} {n.S.c sr_field [X PII]}]" {
		t.Errorf("tags %s", got)
	}
	if _, err := s.Tagged([]registry.EntityTags{{Path: "n.T.c", Kind: "sr_field", Tags: []string{"X"}}}, nil); err == nil || !strings.Contains(err.Error(), `"n.T.c"`) {
		t.Errorf("a path that there is not: %v", err)
	}
}
