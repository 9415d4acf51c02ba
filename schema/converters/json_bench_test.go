package converters

import (
	"encoding/json"
	"testing"

	"millrace/schema"
	"millrace/schema/schematest"
)

func benchmarkEncode(b *testing.B, schemas string) {
	var a schema.Arena
	s, v := schematest.ChangeEvent(&a)
	c := newConverter(b, JSON, "schemas.enable", schemas)
	m := &Message{Topic: "bench.public.orders"}
	out, _, err := c.Encode(nil, m, s, v)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(out)))
	b.ReportMetric(float64(len(out)), "bytes/event")
	b.ReportAllocs()
	for b.Loop() {
		if out, _, err = c.Encode(out[:0], m, s, v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJSONEncodeEvent(b *testing.B)           { benchmarkEncode(b, "false") }
func BenchmarkJSONEncodeEventWithSchema(b *testing.B) { benchmarkEncode(b, "true") }

// BenchmarkEncodingJSONEvent is the measure of comparison: the same event as maps
// through encoding/json.
func BenchmarkEncodingJSONEvent(b *testing.B) {
	var a schema.Arena
	s, v := schematest.ChangeEvent(&a)
	text, _, err := newConverter(b, JSON, "schemas.enable", "false").Encode(nil, nil, s, v)
	if err != nil {
		b.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(m); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkDecode(b *testing.B, schemas string) {
	var a schema.Arena
	s, v := schematest.ChangeEvent(&a)
	c := newConverter(b, JSON, "schemas.enable", schemas)
	text, _, err := c.Encode(nil, nil, s, v)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := c.Decode(nil, text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJSONDecodeEvent(b *testing.B)           { benchmarkDecode(b, "false") }
func BenchmarkJSONDecodeEventWithSchema(b *testing.B) { benchmarkDecode(b, "true") }

func BenchmarkEncodingJSONDecodeEvent(b *testing.B) {
	var a schema.Arena
	s, v := schematest.ChangeEvent(&a)
	text, _, err := newConverter(b, JSON, "schemas.enable", "false").Encode(nil, nil, s, v)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			b.Fatal(err)
		}
	}
}

// TestJSONEncodeDoesNotAllocate holds the promise of the data path: nothing per
// field, nothing per record.
func TestJSONEncodeDoesNotAllocate(t *testing.T) {
	var a schema.Arena
	s, v := schematest.ChangeEvent(&a)
	for _, schemas := range []string{"true", "false"} {
		c := newConverter(t, JSON, "schemas.enable", schemas)
		m := &Message{Topic: "t"}
		buf := make([]byte, 0, 64<<10)
		if n := testing.AllocsPerRun(100, func() {
			if _, _, err := c.Encode(buf, m, s, v); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("schemas.enable=%s: %v allocations for a change event, want none", schemas, n)
		}
	}
}
