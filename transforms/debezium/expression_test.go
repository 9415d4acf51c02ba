package debezium

import (
	"strings"
	"testing"
	"time"

	"millrace/schema"
	"millrace/transforms"
)

func made(t testing.TB, p transforms.Plugin, settings ...string) (transforms.Transform, error) {
	t.Helper()
	raw := map[string]string{}
	for i := 0; i < len(settings); i += 2 {
		raw[settings[i]] = settings[i+1]
	}
	v, errs := p.Config.Parse(raw)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return p.New(v)
}

var (
	rowSchema      = schema.NewStruct("s.t.Value").Optional().Field("id", schema.Int32Schema).Field("name", schema.OptionalString).Field("total", schema.OptionalFloat64).Build()
	sourceSchema   = schema.NewStruct("src").Field("table", schema.StringSchema).Build()
	envelopeSchema = schema.NewStruct("s.t.Envelope").Version(2).Field("before", rowSchema).Field("after", rowSchema).Field("source", sourceSchema).Field("op", schema.StringSchema).Field("ts_ms", schema.OptionalInt64).Build()
	keySchema      = schema.NewStruct("s.t.Key").Field("id", schema.Int32Schema).Build()
)

func row(id int32, name string) schema.Value {
	return schema.StructValue(rowSchema, []schema.Value{schema.Int32Value(id), schema.StringValue(name), schema.Float64Value(1.5)})
}

func event(op string, before, after schema.Value) schema.Record {
	return schema.Record{Topic: "shop.orders", Partition: schema.NoPartition, Timestamp: 5,
		KeySchema: keySchema, Key: schema.StructValue(keySchema, []schema.Value{schema.Int32Value(7)}),
		ValueSchema: envelopeSchema, Value: schema.StructValue(envelopeSchema, []schema.Value{before, after,
			schema.StructValue(sourceSchema, []schema.Value{schema.StringValue("orders")}), schema.StringValue(op), schema.Int64Value(99)}),
		Headers: []schema.Header{{Key: "kind", Schema: schema.StringSchema, Value: schema.StringValue("test")}, {Key: "n", Schema: schema.Int8Schema, Value: schema.Int8Value(5)}},
	}
}

// plainEvent is the same without schemas.
func plainEvent(op string, id int64, name string) schema.Record {
	text := schema.StringValue
	m := func(kv ...schema.Value) schema.Value {
		var out []schema.Entry
		for i := 0; i < len(kv); i += 2 {
			out = append(out, schema.Entry{Key: kv[i], Value: kv[i+1]})
		}
		return schema.MapValue(out)
	}
	return schema.Record{Topic: "shop.orders", Key: m(text("id"), schema.Int64Value(7)),
		Value: m(text("op"), text(op), text("source"), m(text("table"), text("orders")), text("after"), m(text("id"), schema.Int64Value(id), text("name"), text(name)), text("before"), schema.Value{})}
}

func TestFilter(t *testing.T) {
	update, create := event("u", row(2, "Ann"), row(2, "Bob")), event("c", schema.Value{}, row(3, "Eve"))
	tombstone := update
	tombstone.ValueSchema, tombstone.Value = nil, schema.Value{}
	for _, c := range []struct {
		condition string
		r         schema.Record
		keep      bool
	}{
		{"value.op == 'u' && value.before.id == 2", update, true},
		{"value.op == 'u' && value.before.id == 2", create, false},
		{"value.op == 'u' and value.after.name == \"Bob\"", update, true},
		{"value.before == nil", create, true},
		{"value.before == nil", update, false},
		{"value.before.id == 2", create, false}, // of nothing there is nothing
		{"value?.before?.name == 'Ann'", update, true},
		{"value.nope.deeper == nil", update, true},
		{"value.after.total > 1", update, true},
		{"value.after.name in ['Bob', 'Joe']", update, true},
		{"value.after.name matches '^B.b$'", update, true},
		{"topic startsWith 'shop.'", update, true},
		{"key.id == 7", update, true},
		{"header.kind.value == 'test' && header.n.value + 1 == 6", update, true},
		{"header.nope.value == nil", update, true},
		{"valueSchema.name endsWith '.Envelope' && valueSchema.version == 2 && keySchema.name == 's.t.Key'", update, true},
		{"value.source.table == 'orders'", plainEvent("c", 1, "x"), true},
		{"value.after.id == 1 && valueSchema == nil", plainEvent("c", 1, "x"), true},
		{"value['op'] == 'u'", update, true},
		{"len(value) == 5", update, true},
		{"value.op == 'zap'", tombstone, true},
	} {
		t.Run(c.condition, func(t *testing.T) {
			f, err := made(t, Filter, "condition", c.condition, "language", "expr")
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				out, keep, err := f.Apply(c.r)
				if err != nil || keep != c.keep {
					t.Errorf("keep %v, %v", keep, err)
				}
				if keep && !schema.EqualValues(out.Value, c.r.Value) {
					t.Error("the record has changed")
				}
			}
		})
	}
	t.Run("nulls", func(t *testing.T) {
		for mode, want := range map[string]bool{"keep": true, "drop": false, "evaluate": true} {
			f, err := made(t, Filter, "condition", "value == nil", "null.handling.mode", mode)
			if err != nil {
				t.Fatal(err)
			}
			if _, keep, err := f.Apply(tombstone); keep != want || err != nil {
				t.Errorf("%s: %v %v", mode, keep, err)
			}
		}
	})
	t.Run("topics", func(t *testing.T) {
		f, err := made(t, Filter, "condition", "false", "topic.regex", "other.*")
		if err != nil {
			t.Fatal(err)
		}
		if _, keep, err := f.Apply(update); !keep || err != nil {
			t.Errorf("%v %v", keep, err)
		}
	})
	t.Run("a condition that is none is an error of the record", func(t *testing.T) {
		for _, condition := range []string{"value.op", "value.after.name > 3", "value.after.id"} {
			f, err := made(t, Filter, "condition", condition)
			if err != nil {
				t.Fatalf("%s: %v", condition, err)
			}
			if _, _, err := f.Apply(update); err == nil || strings.Contains(err.Error(), "panic") {
				t.Errorf("%s: %v", condition, err)
			}
		}
	})
	t.Run("what cannot work is told when it is configured", func(t *testing.T) {
		for _, c := range []struct {
			want     string
			settings []string
		}{
			{"needs a JVM and cannot run here", []string{"condition", "value.op == 'u'", "language", "jsr223.groovy"}},
			{"the one language there is: expr", []string{"condition", "true", "language", "lua"}},
			{"unexpected token", []string{"condition", "value.op = 'u'"}},
			{"there is no variable valeu", []string{"condition", "valeu.op == 'u'"}},
			{"Missing required configuration", nil},
			{"Invalid regex", []string{"condition", "true", "topic.regex", "("}},
		} {
			if _, err := made(t, Filter, c.settings...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: %v, want %q", c.settings, err, c.want)
			}
		}
	})
}

func TestContentBasedRouter(t *testing.T) {
	update := event("u", row(2, "Ann"), row(2, "Bob"))
	for expression, want := range map[string]string{
		"value.op == 'u' ? 'updates' : nil": "updates",
		"value.op == 'c' ? 'creates' : nil": "shop.orders",
		"topic + '.' + value.after.name":    "shop.orders.Bob",
		"'t' + string(key.id)":              "t7",
	} {
		f, err := made(t, ContentBasedRouter, "topic.expression", expression)
		if err != nil {
			t.Fatal(err)
		}
		out, keep, err := f.Apply(update)
		if err != nil || !keep || out.Topic != want {
			t.Errorf("%s: %s %v %v", expression, out.Topic, keep, err)
		}
	}
	for _, expression := range []string{"''", "5", "value"} {
		f, err := made(t, ContentBasedRouter, "topic.expression", expression)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Apply(update); err == nil {
			t.Errorf("%s: no error", expression)
		}
	}
}

// A time of day gets the offset that the zone has now.
func TestTimeOfDayFollowsTheSeason(t *testing.T) {
	f, err := made(t, TimezoneConverter, "converted.timezone", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	z := f.(*timezone)
	for now, want := range map[string]string{"2024-01-15T12:00:00Z": "13:34:56.789+01:00", "2024-07-15T12:00:00Z": "14:34:56.789+02:00"} {
		z.now = func() time.Time { at, _ := time.Parse(time.RFC3339, now); return at }
		if got, err := z.timeOfDay("12:34:56.789Z"); err != nil || got != want {
			t.Errorf("%s: %s %v", now, got, err)
		}
	}
}

// Local times around the changes of a zone's clocks, as the JVM's rules have them.
func TestLocalTimesAtTheChangeOfClocks(t *testing.T) {
	f, err := made(t, TimezoneConverter, "converted.timezone", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	z := f.(*timezone)
	for local, hours := range map[string]int64{
		"2024-03-31T01:59:59Z": 1, "2024-03-31T02:30:00Z": 1 /* never */, "2024-03-31T03:00:00Z": 2,
		"2024-10-27T01:59:59Z": 2, "2024-10-27T02:30:00Z": 2 /* twice */, "2024-10-27T03:00:00Z": 1,
	} {
		at, _ := time.Parse(time.RFC3339, local)
		if got := z.offsetOfLocal(at.Unix()); got != hours*3600 {
			t.Errorf("%s: %d", local, got)
		}
	}
}

// What has no schema is taken apart by its fields (beyond Debezium's transforms).
func TestWithoutSchemas(t *testing.T) {
	changed, err := made(t, ExtractChangedRecordState, "header.changed.name", "Changed")
	if err != nil {
		t.Fatal(err)
	}
	r := plainEvent("u", 1, "new")
	r.Value = schema.MapValue(put(append([]schema.Entry(nil), r.Value.Entries()...), "before", schema.MapValue([]schema.Entry{{Key: schema.StringValue("id"), Value: schema.Int64Value(1)}, {Key: schema.StringValue("name"), Value: schema.StringValue("old")}})))
	out, _, err := changed.Apply(r)
	if err != nil {
		t.Fatal(err)
	}
	if h, ok := out.Header("Changed"); !ok || len(h.Value.Elems()) != 1 || h.Value.Elems()[0].Str() != "name" {
		t.Errorf("%v", out.Headers)
	}
	part, err := made(t, PartitionRouting, "partition.payload.fields", "change.id", "partition.topic.num", "3")
	if err != nil {
		t.Fatal(err)
	}
	if out, _, err := part.Apply(plainEvent("c", 4, "x")); err != nil || out.Partition != 1 {
		t.Errorf("%d %v", out.Partition, err)
	}
	route, err := made(t, ByLogicalTableRouter, "topic.regex", "shop\\.(.*)", "topic.replacement", "all")
	if err != nil {
		t.Fatal(err)
	}
	if out, _, err := route.Apply(plainEvent("c", 4, "x")); err != nil || out.Topic != "all" {
		t.Errorf("%s %v", out.Topic, err)
	} else if v, _ := out.Key.Lookup(physicalTable); v.Str() != "shop.orders" {
		t.Errorf("%v", out.Key)
	}
	header, err := made(t, HeaderToValue, "headers", "h", "fields", "after.h", "operation", "move")
	if err != nil {
		t.Fatal(err)
	}
	r = plainEvent("c", 4, "x")
	r.Headers = []schema.Header{{Key: "h", Value: schema.Int64Value(9)}}
	out, _, err = header.Apply(r)
	after, _ := out.Value.Lookup("after")
	if v, _ := after.Lookup("h"); err != nil || v.Int() != 9 || len(out.Headers) != 0 {
		t.Errorf("%v %v", out, err)
	}
}

func BenchmarkTransforms(b *testing.B) {
	r := event("u", row(2, "Ann"), row(2, "Bob"))
	for name, c := range map[string]struct {
		p        transforms.Plugin
		settings []string
	}{
		"unwrap":         {ExtractNewRecordState, nil},
		"filter":         {Filter, []string{"condition", "value.op == 'u' && value.before.id == 2"}},
		"content router": {ContentBasedRouter, []string{"topic.expression", "value.op == 'u' ? 'updates' : nil"}},
		"changed state":  {ExtractChangedRecordState, []string{"header.changed.name", "Changed"}},
		"partition":      {PartitionRouting, []string{"partition.payload.fields", "change.name", "partition.topic.num", "7"}},
		"logical table":  {ByLogicalTableRouter, []string{"topic.regex", "shop\\.(.*)", "topic.replacement", "all"}},
		"timezone":       {TimezoneConverter, []string{"converted.timezone", "Asia/Tokyo"}},
		"header value":   {HeaderToValue, []string{"headers", "kind", "fields", "kind", "operation", "copy"}},
	} {
		b.Run(name, func(b *testing.B) {
			f, err := made(b, c.p, c.settings...)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := f.Apply(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// VectorToJson rewrites structs within structs, and says so where they have no end.
func TestVectorsInARecursiveStruct(t *testing.T) {
	tr, err := made(t, VectorToJSON)
	if err != nil {
		t.Fatal(err)
	}
	b := schema.NewStruct("node")
	s := b.Field("v", schema.Int32Schema).Field("next", b.Self(true)).Build()
	v := schema.StructValue(s, []schema.Value{schema.Int32Value(1), {}})
	if _, _, err := tr.Apply(schema.Record{ValueSchema: s, Value: v}); err == nil || !strings.Contains(err.Error(), `field "next": the STRUCT node is a part of itself`) {
		t.Error(err)
	}
}
