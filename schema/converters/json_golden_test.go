package converters

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"os"
	"testing"

	"millrace/schema"
)

// goldenLine is a record as the golden files hold it.
type goldenLine struct {
	Topic   string
	Key     goldenText
	Value   goldenText
	Headers []struct {
		Key   string
		Value goldenText
	}
}

// goldenText is bytes: a string, or {"base64": …}, or null.
type goldenText []byte

func (g *goldenText) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var s string
	if json.Unmarshal(b, &s) == nil {
		*g = []byte(s)
		return nil
	}
	var o struct{ Base64 string }
	err := json.Unmarshal(b, &o)
	if err == nil {
		*g, err = base64.StdEncoding.DecodeString(o.Base64)
	}
	return err
}

func readGolden(t testing.TB, file string) []goldenLine {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []goldenLine
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var g goldenLine
		if err := json.Unmarshal(sc.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		out = append(out, g)
	}
	if sc.Err() != nil {
		t.Fatal(sc.Err())
	}
	return out
}

// newConverter makes a converter of settings given as key, value, key, value.
func newConverter(t testing.TB, p Plugin, settings ...string) Converter {
	t.Helper()
	raw := map[string]string{}
	for i := 0; i < len(settings); i += 2 {
		raw[settings[i]] = settings[i+1]
	}
	c, errs := p.Make(raw, false)
	for _, err := range errs {
		t.Fatal(err)
	}
	return c
}

// TestJSONGolden reads what Debezium's records hold and writes it again: byte for
// byte the same.
func TestJSONGolden(t *testing.T) {
	for _, file := range []string{"pgdefault.jsonl", "pgconnect.jsonl"} {
		c := newConverter(t, JSON)
		compared := 0
		for n, g := range readGolden(t, file) {
			for half, data := range map[string][]byte{"key": g.Key, "value": g.Value} {
				s, v, err := c.Decode(&Message{Topic: g.Topic}, data)
				if err != nil {
					t.Fatalf("%s line %d %s: %v", file, n+1, half, err)
				}
				if s != nil {
					if err := schema.Validate(s, v); err != nil {
						t.Fatalf("%s line %d %s: decoded to what its schema forbids: %v", file, n+1, half, err)
					}
				}
				out, null, err := c.Encode(nil, &Message{Topic: g.Topic}, s, v)
				if err != nil {
					t.Fatalf("%s line %d %s: %v", file, n+1, half, err)
				}
				if null != (data == nil) || !bytes.Equal(out, data) {
					t.Fatalf("%s line %d %s:\n got %s\nwant %s", file, n+1, half, out, data)
				}
				compared++
			}
		}
		t.Logf("%s: %d keys and values compared, 0 skipped", file, compared)
	}
}

// TestJSONGoldenSecondConverter encodes with a converter that meets each schema
// for the first time, by the pointers of another one.
func TestJSONGoldenSecondConverter(t *testing.T) {
	dec, enc := newConverter(t, JSON), newConverter(t, JSON)
	for n, g := range readGolden(t, "pgdefault.jsonl") {
		s, v, err := dec.Decode(nil, g.Value)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := enc.Encode(nil, nil, s, v)
		if err != nil || !bytes.Equal(out, g.Value) {
			t.Fatalf("line %d: %v\n got %s\nwant %s", n+1, err, out, g.Value)
		}
	}
}

// TestJSONGoldenRandom reads and writes again what Connect's own JsonConverter
// (replace.null.with.default=false) wrote of random data of random schemas.
func TestJSONGoldenRandom(t *testing.T) {
	f, err := os.Open("testdata/random.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dec := newConverter(t, JSON, "replace.null.with.default", "false")
	enc := newConverter(t, JSON, "replace.null.with.default", "false")
	n := 0
	sc := bufio.NewScanner(z)
	for ; sc.Scan(); n++ {
		s, v, err := dec.Decode(nil, bytes.Clone(sc.Bytes()))
		if err != nil {
			t.Fatalf("line %d: %v\n%s", n+1, err, sc.Bytes())
		}
		if out, _, err := enc.Encode(nil, nil, s, v); err != nil || !bytes.Equal(out, sc.Bytes()) {
			t.Errorf("line %d (%v):\n got %s\nwant %s", n+1, err, out, sc.Bytes())
		}
	}
	t.Logf("%d compared, 0 skipped", n)
	if sc.Err() != nil || n < 500 {
		t.Errorf("%d compared, too few (%v)", n, sc.Err())
	}
}
