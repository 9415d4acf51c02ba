package postgres

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
)

// A typeDifference is one on purpose (deploy/docs/differences.md): it changes what
// Debezium made of columns into what we make, and says in which captures it must.
type typeDifference struct {
	why     string
	in      []string       // captures, by their modes
	columns *regexp.Regexp // of table.column
	change  func(c *columnCapture, mode string)
	absent  bool // we leave the column out
	extra   bool // we have the column, the original has not
}

var (
	everyMode = []string{"default", "connect", "iso", "microseconds", "nanoseconds", "adaptive-time"}
	unknowns  = []string{"connect", "iso", "nanoseconds"} // include.unknown.datatypes=true
)

func columnsNamed(pattern string) *regexp.Regexp { return regexp.MustCompile("^(?:" + pattern + ")$") }

// inSchema changes the text of both schemas of a column.
func (c *columnCapture) inSchema(pattern, with string) {
	re := regexp.MustCompile(pattern)
	for _, s := range []*json.RawMessage{&c.Schema, &c.StreamSchema} {
		if *s != nil {
			*s = re.ReplaceAll(*s, []byte(with))
		}
	}
}

// values sets the values of the first rows, in snapshot and stream, and those of the
// old rows of deletes.
func (c *columnCapture) values(texts ...string) {
	c.Rows = slices.Clone(c.Rows)
	for i, t := range texts {
		c.Rows[i] = json.RawMessage(t)
	}
	c.StreamRows = nil
}

func (c *columnCapture) inDeleted(text string) {
	for i := range c.Deleted {
		c.Deleted[i] = json.RawMessage(text)
	}
}

// typeDifferences by script.
var typeDifferences = map[string][]typeDifference{
	"types": {
		{why: "a numeric of a negative scale has that scale, not 2046", in: []string{"default", "connect", "microseconds", "nanoseconds", "adaptive-time"}, columns: columnsNamed(`(types|required)\.num5_n2`),
			change: func(c *columnCapture, mode string) {
				c.inSchema(`"2046"`, `"-2"`)
				rows := []string{`"MDk="`, `"/w=="`, `"AA=="`}
				if mode == "connect" {
					rows = []string{`"1234500"`, `"-100"`, `"0"`}
					c.inDeleted(`"0"`)
				}
				c.values(rows[:min(3, len(c.Rows))]...)
			}},
		{why: "the type name is not null in the stream", in: []string{"default", "microseconds", "adaptive-time"}, columns: columnsNamed(`(types|required)\.name|defaults(_required)?\.d34`),
			change: func(c *columnCapture, _ string) { c.StreamRows = nil }},
		{why: "BC and infinite dates are in the snapshot what they are in the stream", in: everyMode, columns: columnsNamed(`types\.date|defaults(_required)?\.d39`),
			change: func(c *columnCapture, _ string) { _, c.Rows = c.stream() }},
		{why: "the default infinity is the infinity of the values", in: everyMode, columns: columnsNamed(`defaults(_required)?\.d39`),
			change: func(c *columnCapture, mode string) {
				with := `-2147472692`
				if mode == "iso" {
					with = `"-5877611-06-21Z"`
				}
				c.inSchema(`"default": ("[^"]*"|[0-9]+)`, `"default": `+with)
				c.inDeleted(with)
			}},
		{why: "int2vector and oidvector have their elements", in: everyMode, columns: columnsNamed(`(types|required)\.(int2|oid)vector`),
			change: func(c *columnCapture, _ string) { c.values(`[1,2]`) }},
		{why: "arrays of bit strings and of vectors of the catalog are unknown types, not a field that is always null or empty", in: everyMode, columns: columnsNamed(`types\.(bits|bit3s|int2vectors)`), absent: true},
		{why: "with include.unknown.datatypes no array is left out", in: unknowns, columns: columnsNamed(`types\.(bits|bit3s|int2vectors|moneys|names|ivs|xmls|varbits|points|refcursors)`), extra: true},
		{why: "text defaults with a quote or of several lines are whole", in: everyMode, columns: columnsNamed(`defaults(_required)?\.(d27|d28|d71)`),
			change: func(c *columnCapture, _ string) {
				whole := map[string]string{"d27": `"x'y"`, "d28": `"a\\b\nc"`, "d71": `"it's, \"great\""`}[c.Column]
				if c.inSchema(`"default": "(?:[^"\\]|\\.)*"`, `"default": `+whole); !bytes.Contains(c.Schema, []byte(`"default"`)) {
					c.inSchema(`\}$`, `, "default": `+whole+`}`)
				}
				c.inDeleted(whole)
			}},
		{why: "an expression is no default, neither its text nor the first constant in it", in: everyMode, columns: columnsNamed(`defaults(_required)?\.(d30|d31)`),
			change: func(c *columnCapture, _ string) {
				c.inSchema(`, "default": "[^"]*"`, ``)
				c.inDeleted(`""`)
			}},
		{why: "source types are told by the snapshot as by the stream", in: []string{"default", "connect"}, columns: columnsNamed(`.*`),
			change: func(c *columnCapture, _ string) { c.Schema, c.StreamSchema = first(c.StreamSchema, c.Schema), nil }},
		{why: "comments of columns are told", in: []string{"default"}, columns: columnsNamed(`defaults\.d1`),
			change: func(c *columnCapture, _ string) {
				c.inSchema(`"parameters": \{`, `"doc": "a comment", "parameters": {"__debezium.source.column.comment": "a comment", `)
			}},
	},
	"postgis": {
		{why: "source types are told by the snapshot as by the stream", in: []string{"default"}, columns: columnsNamed(`shapes\.place`),
			change: func(c *columnCapture, _ string) { c.Schema, c.StreamSchema = c.StreamSchema, nil }},
	},
	"vector": {
		{why: "a sparse vector's elements are in their order, not of a hash", in: []string{"default", "unknown"}, columns: columnsNamed(`vectors\.s`),
			change: func(c *columnCapture, _ string) {
				c.Rows[1] = json.RawMessage(`{"dimensions": 32767, "vector": [[1, 1.0], [2, 0.25], [5, 3.0]]}`)
			}},
	},
}

func first(a, b json.RawMessage) json.RawMessage {
	if a != nil {
		return a
	}
	return b
}
