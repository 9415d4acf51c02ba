package connectortest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/converters"
)

// GoldenBytes are bytes as the golden files hold them: a text, {"base64": …}, null.
type GoldenBytes []byte

// UnmarshalJSON implements json.Unmarshaler.
func (g *GoldenBytes) UnmarshalJSON(b []byte) error {
	*g = nil
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

// A GoldenHeader is a header of a GoldenRecord.
type GoldenHeader struct {
	Key   string
	Value GoldenBytes
}

// A GoldenRecord is a record as it stood in the original's topic.
type GoldenRecord struct {
	Topic      string
	Offset     int
	Key, Value GoldenBytes
	Headers    []GoldenHeader
}

// A Mask replaces what differs from run to run.
type Mask []maskRule

type maskRule struct {
	re *regexp.Regexp
	by string
}

// NumberMask masks the numbers of JSON fields of these names.
func NumberMask(names ...string) Mask {
	return Mask{}.And(`"(`+strings.Join(names, "|")+`)":-?\d+`, `"$1":0`)
}

// And is the mask with one more rule: what the expression matches is replaced.
func (m Mask) And(expr, by string) Mask { return append(m, maskRule{regexp.MustCompile(expr), by}) }

func (m Mask) apply(s string) string {
	for _, r := range m {
		s = r.re.ReplaceAllString(s, r.by)
	}
	return s
}

// text is a record as it is compared: all of it, what differs from run to run masked.
func (g GoldenRecord) text(m Mask) string {
	var b strings.Builder
	show := func(x GoldenBytes) string {
		if x == nil {
			return "(none)"
		}
		return m.apply(string(x))
	}
	fmt.Fprintf(&b, "key   %s\nvalue %s\n", show(g.Key), show(g.Value))
	for _, h := range g.Headers {
		v := show(h.Value)
		if h.Key == "__debezium.context.runId" {
			v = "(masked)"
		}
		fmt.Fprintf(&b, "header %s %s\n", h.Key, v)
	}
	return b.String()
}

// ReadGolden reads a file of golden records, by topic.
func ReadGolden(t testing.TB, path string) map[string][]GoldenRecord {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]GoldenRecord{}
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var g GoldenRecord
		if err := json.Unmarshal(sc.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		out[g.Topic] = append(out[g.Topic], g)
	}
	return out
}

// A Difference is one on purpose. It changes a golden record into ours, and says how
// often it must apply.
type Difference struct {
	Why   string
	Count map[string]int // by file: the records that it touches
	Apply func(g *GoldenRecord) (touched, skip bool)
}

// Replace replaces texts in a golden record's value, given in pairs, and reports
// whether one was there.
func (g *GoldenRecord) Replace(pairs ...string) bool {
	s := strings.NewReplacer(pairs...).Replace(string(g.Value))
	touched := s != string(g.Value)
	if touched {
		g.Value = GoldenBytes(s)
	}
	return touched
}

// EncodeGolden makes golden records of ours, by the converters of the connector's
// settings, in order per topic. Each value must be one of its schema.
func EncodeGolden(t testing.TB, records []schema.Record, conf map[string]string) map[string][]GoldenRecord {
	t.Helper()
	make := func(prefix string, isKey bool) converters.Converter {
		raw := map[string]string{}
		if v, ok := conf[prefix+".schemas.enable"]; ok {
			raw["schemas.enable"] = v
		}
		c, errs := converters.JSON.Make(raw, isKey)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		return c
	}
	key, value := make("key.converter", true), make("value.converter", false)
	headers, errs := converters.SimpleHeader.MakeHeader(nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	out := map[string][]GoldenRecord{}
	for _, r := range records {
		g := GoldenRecord{Topic: r.Topic}
		m := &converters.Message{Topic: r.Topic}
		must := func(b []byte, null bool, err error) GoldenBytes {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", r.Topic, err)
			}
			if null {
				return nil
			}
			if b == nil {
				b = []byte{}
			}
			return b
		}
		if r.ValueSchema != nil {
			if err := schema.Validate(r.ValueSchema, r.Value); err != nil {
				t.Errorf("%s: the value is none of its schema: %v", r.Topic, err)
			}
		}
		g.Key = must(key.Encode(nil, m, r.KeySchema, r.Key))
		g.Value = must(value.Encode(nil, m, r.ValueSchema, r.Value))
		for _, h := range r.Headers {
			g.Headers = append(g.Headers, GoldenHeader{h.Key, must(headers.EncodeHeader(nil, r.Topic, h.Key, h.Schema, h.Value))})
		}
		out[r.Topic] = append(out[r.Topic], g)
	}
	return out
}

// CompareGolden compares records with the golden ones of the file name, and fails where
// one differs that no Difference explains, or a Difference does not apply as often as it
// says. It prints what it compared.
func CompareGolden(t *testing.T, name string, want map[string][]GoldenRecord, records []schema.Record, conf map[string]string, m Mask, diffs []Difference) {
	t.Helper()
	got := EncodeGolden(t, records, conf)
	touched := map[string]int{}
	compared, skipped, listed := 0, 0, 0
	for topic, lines := range want {
		var expect []GoldenRecord
		for _, g := range lines {
			listed++
			drop := false
			for _, d := range diffs {
				hit, skip := d.Apply(&g)
				if hit {
					touched[d.Why]++
				}
				drop = drop || skip
			}
			if drop {
				skipped++
				continue
			}
			expect = append(expect, g)
		}
		if len(got[topic]) != len(expect) {
			t.Errorf("%s: %d records, want %d", topic, len(got[topic]), len(expect))
		}
		for i := range min(len(expect), len(got[topic])) {
			have, need := got[topic][i].text(m), expect[i].text(m)
			if have != need {
				at := 0
				for at < min(len(have), len(need)) && have[at] == need[at] {
					at++
				}
				from := max(0, at-200)
				t.Errorf("%s offset %d differs:\n got …%.600s\nwant …%.600s", topic, expect[i].Offset, have[from:], need[from:])
			}
			compared++
		}
	}
	for topic := range got {
		if want[topic] == nil {
			t.Errorf("%s: a topic that the original does not have", topic)
		}
	}
	for _, d := range diffs {
		if touched[d.Why] != d.Count[name] {
			t.Errorf("difference %q touches %d records, listed for %d", d.Why, touched[d.Why], d.Count[name])
		}
	}
	t.Logf("%s: %d records, %d compared whole, %d skipped; differences: %v", name, listed, compared, skipped, touched)
	if compared != listed-skipped {
		t.Errorf("%d of %d records compared, %d skipped", compared, listed, skipped)
	}
}
