package envelope

import (
	"testing"
	"time"

	"millrace/schema"
)

func testLayout(t *testing.T) (*Layout, *schema.Schema) {
	t.Helper()
	source := SourceBlock("io.debezium.connector.test.Source", schema.Field{Name: "pos", Schema: schema.OptionalInt64})
	l, err := NewLayout("p.s.t", []schema.Field{{Name: "id", Schema: schema.Int32Schema}, {Name: "v", Schema: schema.OptionalString}}, source)
	if err != nil {
		t.Fatal(err)
	}
	return l, source
}

func sourceOf(s *schema.Schema) schema.Value {
	f := make([]schema.Value, len(s.Fields()))
	for i := range f[:SourceDB+1] {
		f[i] = schema.StringValue("x")
	}
	f[SourceMillis] = schema.Int64Value(1)
	return schema.StructValue(s, f)
}

func TestEventIsAValueOfItsSchema(t *testing.T) {
	l, source := testLayout(t)
	var a schema.Arena
	after := schema.StructValue(l.Row, []schema.Value{schema.Int32Value(1), {}})
	ev := l.Event(&a, OpCreate, schema.Value{}, after, sourceOf(source), schema.Value{}, MomentOf(time.Unix(1, 2345678)))
	if err := schema.Validate(l.Envelope, ev); err != nil {
		t.Fatal(err)
	}
	if ms, us, ns := ev.Get("ts_ms").Int(), ev.Get("ts_us").Int(), ev.Get("ts_ns").Int(); ms != 1002 || us != 1002345 || ns != 1002345678 {
		t.Errorf("times %d %d %d", ms, us, ns)
	}
	if v, _ := l.Envelope.Version(); l.Envelope.Name() != "p.s.t.Envelope" || v != 2 || l.Row.Name() != "p.s.t.Value" {
		t.Errorf("names: %s v%d, %s", l.Envelope.Name(), v, l.Row.Name())
	}
}

func TestTimesBeforeTheEpochRoundDown(t *testing.T) {
	m := MomentOfMicros(-1)
	if m.Millis.Int() != -1 || m.Nanos.Int() != -1000 {
		t.Errorf("-1 µs is %d ms, %d ns", m.Millis.Int(), m.Nanos.Int())
	}
}

func TestReaderTakesEventsApart(t *testing.T) {
	l, source := testLayout(t)
	var a schema.Arena
	row := schema.StructValue(l.Row, []schema.Value{schema.Int32Value(7), {}})
	ev := l.Event(&a, OpDelete, row, schema.Value{}, sourceOf(source), schema.Value{}, MomentOf(time.Now()))
	str := schema.StringValue
	asMap := schema.MapValue([]schema.Entry{
		{Key: str("before"), Value: schema.Value{}}, {Key: str("after"), Value: schema.MapValue(nil)},
		{Key: str("source"), Value: schema.MapValue(nil)}, {Key: str("op"), Value: str("u")},
	})
	var r Reader
	for _, c := range []struct {
		name string
		s    *schema.Schema
		v    schema.Value
		ok   bool
		op   string
	}{
		{"an event with its schema", l.Envelope, ev, true, Delete},
		{"the same schema again", l.Envelope, ev, true, Delete},
		{"a schemaless event", nil, asMap, true, Update},
		{"a row is no event", l.Row, row, false, ""},
		{"a tombstone is no event", nil, schema.Value{}, false, ""},
		{"a map without an op is no event", nil, schema.MapValue(asMap.Entries()[:3]), false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			view, ok := r.Read(c.s, c.v)
			if ok != c.ok || view.Op != c.op {
				t.Errorf("ok %v op %q, want %v %q", ok, view.Op, c.ok, c.op)
			}
			if c.op == Delete && (view.Before.Get("id").Int() != 7 || !view.After.IsNull() || view.Row != l.Row) {
				t.Errorf("view %+v", view)
			}
		})
	}
}

func TestTwoFieldsOfOneNameAreRefused(t *testing.T) {
	_, err := NewLayout("t", []schema.Field{{Name: "a", Schema: schema.Int32Schema}, {Name: "a", Schema: schema.Int32Schema}},
		SourceBlock("s"))
	if err == nil {
		t.Fatal("want an error")
	}
}
