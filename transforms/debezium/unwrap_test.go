package debezium_test

import (
	"testing"

	"millrace/schema"
	"millrace/transforms"
	"millrace/transforms/debezium"
	"millrace/transforms/smttest"
)

func unwrap(t testing.TB, settings map[string]string) transforms.Transform {
	t.Helper()
	v, errs := debezium.ExtractNewRecordState.Config.Parse(settings)
	if errs != nil {
		t.Fatal(errs)
	}
	tr, err := debezium.ExtractNewRecordState.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestUnwrapWithoutSchema recognises change events by their fields, which the
// original does not.
func TestUnwrapWithoutSchema(t *testing.T) {
	const source = `"source":{"table":"t","ts_ms":5,"lsn":9}`
	for _, c := range []struct {
		name     string
		settings map[string]string
		in       string
		want     string // "" where the record is dropped
		topic    string
	}{
		{"a create is its row", nil, `{"before":null,"after":{"id":1},` + source + `,"op":"c"}`, `{"id":1}`, "in"},
		{"an update is the row as it is now", nil, `{"before":{"id":1},"after":{"id":2},` + source + `,"op":"u"}`, `{"id":2}`, "in"},
		{"a delete is null", nil, `{"before":{"id":1},"after":null,` + source + `,"op":"d"}`, `null`, "in"},
		{"a delete is dropped", map[string]string{"delete.tombstone.handling.mode": "drop"}, `{"before":{"id":1},"after":null,` + source + `,"op":"d"}`, "", ""},
		{"a delete is rewritten", map[string]string{"delete.tombstone.handling.mode": "rewrite"}, `{"before":{"id":1},"after":null,` + source + `,"op":"d"}`, `{"id":1,"__deleted":"true"}`, "in"},
		{"a row that is rewritten says that it is there", map[string]string{"delete.tombstone.handling.mode": "rewrite"}, `{"after":{"id":1},` + source + `,"op":"r"}`, `{"id":1,"__deleted":"false"}`, "in"},
		{"fields are added from envelope and source, and not where there is none", map[string]string{"add.fields": "op,source.lsn,table:tbl,nope"}, `{"after":{"id":1},` + source + `,"op":"r"}`,
			`{"id":1,"__op":"r","__source_lsn":9,"__tbl":"t"}`, "in"},
		{"a truncate is dropped", nil, `{"before":null,"after":null,` + source + `,"op":"t"}`, "", ""},
		{"a column names the topic", map[string]string{"route.by.field": "to"}, `{"after":{"to":"out"},` + source + `,"op":"c"}`, `{"to":"out"}`, "out"},
		{"a row that only looks a little like an envelope passes", nil, `{"op":"c","after":{"id":1}}`, `{"op":"c","after":{"id":1}}`, "in"},
		{"a row with columns of those names passes", nil, `{"op":"x","source":{},"before":null,"after":null}`, `{"op":"x","source":{},"before":null,"after":null}`, "in"},
		{"a row whose after is text passes", nil, `{"op":"c","source":{},"after":"noon"}`, `{"op":"c","source":{},"after":"noon"}`, "in"},
		{"a list passes", nil, `[1]`, `[1]`, "in"},
		{"a tombstone is dropped", nil, `null`, "", ""},
		{"a tombstone is kept", map[string]string{"delete.tombstone.handling.mode": "rewrite-with-tombstone"}, `null`, `null`, "in"},
	} {
		js := smttest.Converter(t, "schemas.enable", "false")
		_, v, err := js.Decode(nil, []byte(c.in))
		if err != nil {
			t.Fatal(err)
		}
		out, keep, err := unwrap(t, c.settings).Apply(schema.Record{Topic: "in", Value: v})
		if err != nil || keep != (c.want != "") {
			t.Errorf("%s: kept %v, error %v", c.name, keep, err)
			continue
		}
		if !keep {
			continue
		}
		got, null, err := js.Encode(nil, nil, out.ValueSchema, out.Value)
		if null {
			got = []byte("null")
		}
		if err != nil || string(got) != c.want || out.Topic != c.topic {
			t.Errorf("%s: %s (%v) to topic %s, want %s to %s", c.name, got, err, out.Topic, c.want, c.topic)
		}
		again, _, _ := js.Encode(nil, nil, nil, v)
		if !v.IsNull() && string(again) != c.in {
			t.Errorf("%s: the value that came in was changed to %s", c.name, again)
		}
	}
}

func TestUnwrapDropsFieldsWithoutSchema(t *testing.T) {
	js := smttest.Converter(t, "schemas.enable", "false")
	_, v, err := js.Decode(nil, []byte(`{"after":{"id":1,"a":2,"b":3},"source":{},"op":"c"}`))
	if err != nil {
		t.Fatal(err)
	}
	_, key, _ := js.Decode(nil, []byte(`{"id":1,"a":2}`))
	list := schema.ArrayValue([]schema.Value{schema.StringValue("a")})
	tr := unwrap(t, map[string]string{"drop.fields.header.name": "x", "drop.fields.from.key": "true"})
	out, _, err := tr.Apply(schema.Record{Key: key, Value: v, Headers: []schema.Header{{Key: "x", Value: list}}})
	if err != nil {
		t.Fatal(err)
	}
	k, _, _ := js.Encode(nil, nil, nil, out.Key)
	got, _, _ := js.Encode(nil, nil, nil, out.Value)
	if string(k) != `{"id":1}` || string(got) != `{"id":1,"b":3}` {
		t.Errorf("key %s, value %s", k, got)
	}
}

func benchmarkUnwrap(b *testing.B, settings map[string]string) {
	tr := unwrap(b, settings)
	cases := smttest.Read(b, "../testdata/cases.jsonl.gz")
	js := smttest.Converter(b)
	var rec schema.Record
	for _, c := range cases {
		if c.Class == debezium.ExtractNewRecordState.Class && len(c.Record.Value) > 10 {
			var err error
			if rec.ValueSchema, rec.Value, err = js.Decode(nil, c.Record.Value); err != nil {
				b.Fatal(err)
			}
			break
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		out, keep, err := tr.Apply(rec)
		if err != nil || !keep || out.Value.IsNull() {
			b.Fatal(keep, err)
		}
	}
}

func BenchmarkUnwrap(b *testing.B) { benchmarkUnwrap(b, nil) }

func BenchmarkUnwrapAddingFields(b *testing.B) {
	benchmarkUnwrap(b, map[string]string{"add.fields": "op,source.ts_ms", "delete.tombstone.handling.mode": "rewrite"})
}
