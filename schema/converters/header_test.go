package converters

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"millrace/schema"
)

// headerDifferences are the texts that are read otherwise here than by Connect's
// own parser, on purpose, with what they become.
var headerDifferences = map[string]string{
	// Connect takes the first part and drops the rest.
	"1,2": "string", "1:2": "string", "12:34": "string", "12:34:56": "string", "12:34:56Z": "string", "[1]x": "string", "[1,2]]": "string", `{"a":1}}`: "string", "[1][2]": "string",
	// Days and times that do not exist: Connect counts on.
	"2024-02-30": "string", "2024-13-01": "string", "0000-01-01": "string", "2024-02-29T25:00:00.000Z": "string", "24:00:00.000Z": "string",
	// Connect escapes quotes and backslashes when it writes a list, and leaves the escapes when it reads one.
	`["a\"b"]`: "array", `["\\"]`: "array",
	// Connect makes values that its own schema forbids, or that JSON has no form for.
	`[[1],["a"]]`: "array", "[[1],[2.5]]": "array", `[{"a":1},{"b":"x"}]`: "array", "[1,9223372036854775808]": "array",
	`{"a":2024-02-29T12:34:56.789Z,"b":2}`: "map", `{"a":[1,2],"b":[]}`: "map",
	// Connect fails on them.
	"null": "", "null ": "", "{}": "map", "{ }": "map", `{"a":{},"b":{}}`: "map", "[{}]": "array",
	// Digits of other scripts are no numbers.
	"٣": "string",
}

func TestHeaderTextGolden(t *testing.T) {
	f, err := os.Open("testdata/headers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, errs := SimpleHeader.MakeHeader(nil)
	if errs != nil {
		t.Fatal(errs)
	}
	js := newConverter(t, JSON)
	compared, differ := 0, 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var c struct {
			Header string
			Result struct {
				Parsed  json.RawMessage
				Error   string
				Written *string
			}
		}
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		s, v, err := h.DecodeHeader("t", "h", []byte(c.Header))
		if err != nil {
			t.Errorf("%q: %v", c.Header, err)
			continue
		}
		if err := schema.Validate(s, v); s != nil && err != nil {
			t.Errorf("%q is read as what its schema forbids: %v", c.Header, err)
		}
		written, _, _ := h.EncodeHeader(nil, "t", "h", s, v)
		if want, ok := headerDifferences[c.Header]; ok {
			differ++
			kind := ""
			if s != nil {
				kind = strings.ToLower(s.Kind().String())
			}
			if kind != want {
				t.Errorf("%q is read as %q, want %q", c.Header, kind, want)
			}
			// Whatever it is read as, nothing is lost: reading what is written gives the same.
			if s2, v2, _ := h.DecodeHeader("t", "h", written); v.Kind() != schema.Null && (!schema.Equal(s, s2) || !schema.EqualValues(v, v2)) {
				t.Errorf("%q is written as %q, which is read as something else", c.Header, written)
			}
			continue
		}
		compared++
		if c.Result.Error != "" {
			t.Errorf("%q: Connect fails (%s), and it is no known difference", c.Header, c.Result.Error)
			continue
		}
		if c.Result.Written == nil || string(written) != *c.Result.Written {
			t.Errorf("%q is written as %q, want %v", c.Header, written, *c.Result.Written)
		}
		text, _, err := js.Encode(nil, nil, s, v)
		if err != nil || !sameJSON(text, c.Result.Parsed) {
			t.Errorf("%q is read as %s (%v), want %s", c.Header, text, err, c.Result.Parsed)
		}
	}
	t.Logf("headers.jsonl: %d compared, %d differ on purpose", compared, differ)
	if compared < 180 || differ > len(headerDifferences) {
		t.Errorf("compared %d, too few", compared)
	}
}

// sameJSON compares two texts as JSON: numbers by value, objects without order.
func sameJSON(a, b []byte) bool {
	var x, y any
	dec := func(text []byte, to *any) error {
		d := json.NewDecoder(bytes.NewReader(text))
		return d.Decode(to)
	}
	return dec(a, &x) == nil && dec(b, &y) == nil && reflect.DeepEqual(x, y)
}
