package avrodata

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/avro"
	"millrace/schema/schematest"
)

// usual are the converter's default settings.
var usual = Options{MetaData: true, FlattenSingleton: true}

// through writes and reads a value as two converters would, and returns what the reader has.
func through(t testing.TB, o Options, s *schema.Schema, v schema.Value) (*schema.Schema, schema.Value, error) {
	t.Helper()
	m := &Mapper{Options: o}
	written, err := m.ToAvro(s)
	if err != nil {
		return nil, schema.Value{}, err
	}
	e, err := NewEncoder(s, written.Type(), o)
	if err != nil {
		return nil, schema.Value{}, err
	}
	data, null, err := e.Append(nil, v)
	if err != nil {
		return nil, schema.Value{}, err
	}
	if null {
		return nil, schema.Value{}, nil
	}
	back, err := m.ToConnect(written.Type(), 0)
	if err != nil {
		return nil, schema.Value{}, fmt.Errorf("reading the schema %s: %w", written.Canonical(), err)
	}
	d, err := NewDecoder(written.Type(), back)
	if err != nil {
		return nil, schema.Value{}, err
	}
	got, err := d.Value(data)
	if err != nil {
		return nil, schema.Value{}, fmt.Errorf("reading %x of %s: %w", data, written.Canonical(), err)
	}
	return back, got, nil
}

// TestWhatIsWrittenIsRead: with connect's own properties, a schema and its values come back as they were.
func TestWhatIsWrittenIsRead(t *testing.T) {
	read, refused := 0, 0
	schematest.Rounds(t, 1500, func(t *testing.T, r *rand.Rand) {
		o := usual
		o.KeepNulls, o.Scrub = true, true
		s := schematest.Schema(r, 3)
		v := schematest.Value(r, s)
		back, got, err := through(t, o, s, v)
		if err != nil {
			reason := err.Error()
			if !strings.Contains(reason, "two different types have the name") && !strings.Contains(reason, "another of that name") && !strings.Contains(reason, "twice") &&
				!strings.Contains(reason, "under the required schema") && !strings.Contains(reason, "is the schema") && !strings.Contains(reason, "duplicate in a union") && !strings.Contains(reason, "named after primitives") {
				t.Errorf("%s: %v", s, err)
			}
			refused++
			return
		}
		if v.IsNull() {
			return
		}
		read++
		if err := schema.Validate(back, got); err != nil {
			t.Errorf("%s: what was read is no value of its schema: %v", s, err)
		}
		if a, b := fmt.Sprint(plain(v)), fmt.Sprint(plain(got)); a != b {
			t.Errorf("%s:\nwrote %s\nread  %s", s, a, b)
		}
	})
	t.Logf("%d read, %d refused", read, refused)
	if read == 0 {
		t.Error("nothing was read")
	}
}

// plain is a value without schemas, comparable by its print.
func plain(v schema.Value) any {
	switch v.Kind() {
	case schema.Null:
		return nil
	case schema.Struct:
		var all []any
		for i, f := range v.Fields() {
			if of := v.Schema().Fields()[i].Schema; f.IsNull() && !of.Optional() {
				f, _ = of.Default() // what stands for it
			}
			all = append(all, plain(f))
		}
		return all
	case schema.Array:
		all := []any{}
		for _, e := range v.Elems() {
			all = append(all, plain(e))
		}
		return all
	case schema.Map:
		all := map[string]any{}
		for _, e := range v.Entries() {
			all[fmt.Sprintf("%T %#v", plain(e.Key), plain(e.Key))] = plain(e.Value)
		}
		return all
	case schema.String:
		return v.Str()
	case schema.Bytes:
		return v.Bytes()
	case schema.Bool:
		return v.Bool()
	case schema.Float32, schema.Float64:
		return v.Float()
	case schema.Decimal:
		return fmt.Sprintf("%s e-%d", v.Unscaled(), v.Scale())
	}
	return fmt.Sprintf("%v %d", v.Kind(), v.Int())
}

func TestSchemalessDataIsWrittenAndRead(t *testing.T) {
	schematest.Rounds(t, 500, func(t *testing.T, r *rand.Rand) {
		v := schematest.Schemaless(r, 3)
		s, got, err := through(t, usual, nil, v)
		if err != nil {
			t.Error(err)
			return
		}
		if v.IsNull() {
			return
		}
		if s != nil || fmt.Sprint(plain(v)) != fmt.Sprint(plain(got)) {
			t.Errorf("wrote %v, read %v", plain(v), plain(got))
		}
	})
}

func FuzzDecoder(f *testing.F) {
	var a schema.Arena
	s, v := schematest.ChangeEvent(&a)
	event, err := (&Mapper{Options: usual}).ToAvro(s)
	if err != nil {
		f.Fatal(err)
	}
	e, err := NewEncoder(s, event.Type(), usual)
	if err != nil {
		f.Fatal(err)
	}
	data, _, err := e.Append(nil, v)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte("\x02\x02\x02\x02"))
	var decoders []*Decoder
	for _, text := range []string{
		event.Canonical(), anythingText, `{"type":"array","items":"null"}`, `{"type":"array","items":{"type":"fixed","name":"F","size":0}}`,
		`{"type":"array","items":{"type":"record","name":"R","fields":[]}}`, `{"type":"map","values":["null","string",{"type":"enum","name":"E","symbols":["A","B"]}]}`,
		`{"type":"record","name":"L","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","string","L"]},{"name":"kids","type":{"type":"array","items":"L"}}]}`, `{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}`,
		`{"type":"array","items":{"type":"record","name":"MapEntry","namespace":"io.confluent.connect.avro","fields":[{"name":"key","type":"int"},{"name":"value","type":{"type":"bytes","logicalType":"decimal","precision":3}}]}}`,
	} {
		p, err := avro.Registry.Parse(text, parseNew)
		if err != nil {
			f.Fatal(err)
		}
		t := p.(*avro.Schema).Type()
		if text == `{"type":"array","items":"null"}` {
			continue // Connect has no such schema
		}
		s, err := (&Mapper{Options: usual}).ToConnect(t, 1)
		if err != nil {
			f.Fatal(err)
		}
		d, err := NewDecoder(t, s)
		if err != nil {
			f.Fatal(err)
		}
		decoders = append(decoders, d)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, d := range decoders {
			v, err := d.Value(data)
			if err != nil {
				continue
			}
			if err := schema.Validate(d.root.s, v); err != nil {
				t.Errorf("%s: %v", d.root.s, err)
			}
		}
	})
}
