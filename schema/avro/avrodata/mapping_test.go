package avrodata

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/avro"
)

// The forms that Confluent's AvroData gives Connect's schemas; each is read back as the schema it was made of.
func TestFormsOfSchemas(t *testing.T) {
	enhanced := usual
	enhanced.Enhanced = true
	plain := usual
	plain.MetaData = false
	scrub := usual
	scrub.Scrub = true
	keys := usual
	keys.OptionalMapKeys = true
	str := schema.StringValue
	row := schema.NewStruct("srv.db.t.Value").Field("id", schema.Int32Schema).Optional().Build()
	for _, c := range []struct {
		name string
		o    Options
		s    *schema.Schema
		want string
		back bool // read back as the same schema
	}{
		{"an int8 keeps its size", usual, schema.Int8Schema, `{"type":"int","connect.type":"int8"}`, true},
		{"an int16 as well", usual, schema.Int16Schema, `{"type":"int","connect.type":"int16"}`, true},
		{"an int32", usual, schema.Int32Schema, `"int"`, true},
		{"an int64", usual, schema.Int64Schema, `"long"`, true},
		{"a float", usual, schema.Float32Schema, `"float"`, true},
		{"a double", usual, schema.Float64Schema, `"double"`, true},
		{"a boolean", usual, schema.BoolSchema, `"boolean"`, true},
		{"bytes", usual, schema.BytesSchema, `"bytes"`, true},
		{"an optional string", usual, schema.OptionalString, `["null","string"]`, true},
		{"an optional string with a default", usual, schema.New(schema.String).Optional().Default(str("d")).Build(), `[{"type":"string","connect.default":"d"},"null"]`, true},
		{"a name, a version, a doc and parameters", usual, schema.New(schema.Int64).Name("io.debezium.time.MicroTimestamp").Version(1).Doc("when").Param("a", "b").Build(),
			`{"type":"long","connect.doc":"when","connect.version":1,"connect.parameters":{"a":"b"},"connect.name":"io.debezium.time.MicroTimestamp"}`, true},
		{"the same without connect.meta.data", plain, schema.New(schema.Int64).Name("io.debezium.time.MicroTimestamp").Version(1).Build(), `"long"`, false},
		{"a decimal", usual, schema.DecimalOf(2).Build(),
			`{"type":"bytes","scale":2,"precision":64,"connect.version":1,"connect.parameters":{"scale":"2"},"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}`, true},
		{"a decimal with its precision", usual, schema.DecimalOf(2).Param(schema.PrecisionParam, "10").Build(),
			`{"type":"bytes","scale":2,"precision":10,"connect.version":1,"connect.parameters":{"scale":"2","connect.decimal.precision":"10"},"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}`, true},
		{"a decimal whose scale Avro does not know", usual, schema.DecimalOf(-3).Build(),
			`{"type":"bytes","scale":-3,"precision":64,"connect.version":1,"connect.parameters":{"scale":"-3"},"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}`, true},
		{"a date", usual, schema.DateOf().Build(), `{"type":"int","connect.version":1,"connect.name":"org.apache.kafka.connect.data.Date","logicalType":"date"}`, true},
		{"a time", usual, schema.TimeOf().Build(), `{"type":"int","connect.version":1,"connect.name":"org.apache.kafka.connect.data.Time","logicalType":"time-millis"}`, true},
		{"a timestamp", usual, schema.TimestampOf().Optional().Build(), `["null",{"type":"long","connect.version":1,"connect.name":"org.apache.kafka.connect.data.Timestamp","logicalType":"timestamp-millis"}]`, true},
		{"an array", usual, schema.ArrayOf(schema.OptionalInt32).Build(), `{"type":"array","items":["null","int"]}`, true},
		{"a map with string keys", usual, schema.MapOf(schema.StringSchema, schema.Int64Schema).Build(), `{"type":"map","values":"long"}`, true},
		{"a map with other keys is an array of pairs", usual, schema.MapOf(schema.Int32Schema, schema.OptionalString).Build(),
			`{"type":"array","items":{"type":"record","name":"MapEntry","namespace":"io.confluent.connect.avro","fields":[{"name":"key","type":"int"},{"name":"value","type":["null","string"],"default":null}]}}`, true},
		{"so is one with optional keys", usual, schema.MapOf(schema.OptionalString, schema.Int64Schema).Name("n.M").Build(),
			`{"type":"array","items":{"type":"record","name":"M","namespace":"n","fields":[{"name":"key","type":["null","string"],"default":null},{"name":"value","type":"long"}],"connect.internal.type":"MapEntry"},"connect.name":"n.M"}`, true},
		{"unless allow.optional.map.keys", keys, schema.MapOf(schema.OptionalString, schema.Int64Schema).Build(), `{"type":"map","values":"long"}`, false},
		{"a struct, its fields' defaults and docs", usual,
			schema.NewStruct("n.R").Version(3).Param(recordDoc, "about").Param(fieldDoc+"a", "first").Field("a", schema.New(schema.Int32).Default(schema.Int32Value(7)).Build()).Field("b", schema.OptionalString).Build(),
			`{"type":"record","name":"R","namespace":"n","doc":"about","fields":[{"name":"a","type":{"type":"int","connect.default":7},"doc":"first","default":7},{"name":"b","type":["null","string"],"default":null}],"connect.version":3,"connect.parameters":{"io.confluent.connect.avro.record.doc":"about","io.confluent.connect.avro.field.doc.a":"first"},"connect.name":"n.R"}`, true},
		{"structs without a name are numbered", usual, schema.NewStruct("").Field("a", schema.NewStruct("").Field("x", schema.Int32Schema).Build()).Build(),
			`{"type":"record","name":"ConnectDefault","namespace":"io.confluent.connect.avro","fields":[{"name":"a","type":{"type":"record","name":"ConnectDefault2","fields":[{"name":"x","type":"int"}]}}]}`, true},
		{"a struct that is used twice is mentioned the second time", usual, schema.NewStruct("srv.db.t.Envelope").Field("before", row).Field("after", row).Build(),
			`{"type":"record","name":"Envelope","namespace":"srv.db.t","fields":[{"name":"before","type":["null",{"type":"record","name":"Value","fields":[{"name":"id","type":"int"}],"connect.name":"srv.db.t.Value"}],"default":null},{"name":"after","type":["null","Value"],"default":null}],"connect.name":"srv.db.t.Envelope"}`, true},
		{"an enum is a string", usual, enumSchema, `{"type":"string","connect.parameters":{"io.confluent.connect.avro.Enum":"n.E","io.confluent.connect.avro.Enum.A":"A","io.confluent.connect.avro.Enum.B":"B"},"connect.name":"n.E"}`, true},
		{"an enum with enhanced.avro.schema.support", enhanced, enumSchema,
			`{"type":"enum","name":"E","namespace":"n","symbols":["A","B"],"connect.parameters":{"io.confluent.connect.avro.Enum":"n.E","io.confluent.connect.avro.Enum.A":"A","io.confluent.connect.avro.Enum.B":"B"},"connect.name":"n.E"}`, true},
		{"a fixed", usual, schema.New(schema.Bytes).Name("n.F").Param(fixedSize, "3").Build(), `{"type":"fixed","name":"F","namespace":"n","size":3,"connect.parameters":{"connect.fixed.size":"3"},"connect.name":"n.F"}`, true},
		{"a union", usual, schema.NewStruct(typeUnion).Field("string", schema.OptionalString).Field("int", schema.OptionalInt32).Optional().Build(), `["null","string","int"]`, true},
		{"names are made legal", scrub, schema.NewStruct("my-app.a b.1x").Field("weiß", schema.Int32Schema).Field("9", schema.Int32Schema).Field("a-b", schema.Int32Schema).Build(),
			`{"type":"record","name":"x1x","namespace":"my_app.a_b","fields":[{"name":"wei_C3_9F","type":"int"},{"name":"x9","type":"int"},{"name":"a_b","type":"int"}],"connect.name":"my-app.a b.1x"}`, false},
	} {
		m := &Mapper{Options: c.o}
		got, err := m.ToAvro(c.s)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Canonical() != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got.Canonical(), c.want)
		}
		back, err := m.ToConnect(got.Type(), NoVersion)
		if err != nil {
			t.Errorf("%s, read back: %v", c.name, err)
			continue
		}
		if schema.Equal(back, c.s) != c.back {
			t.Errorf("%s, read back: equal is not %v: %s", c.name, c.back, back)
		}
	}
}

var enumSchema = schema.New(schema.String).Name("n.E").Param(typeEnum, "n.E").Param(typeEnum+".A", "A").Param(typeEnum+".B", "B").Build()

// What others wrote in Avro, as Connect has it.
func TestSchemasOfOthers(t *testing.T) {
	enhanced, general, deep := usual, usual, usual
	enhanced.Enhanced, general.GeneralizedSums, deep.FlattenSingleton = true, true, false
	discard := usual
	discard.DiscardDocs = true
	for _, c := range []struct {
		name, text string
		o          Options
		want       *schema.Schema
	}{
		{"the registry's version is the struct's", `{"type":"record","name":"R","fields":[]}`, usual, schema.NewStruct("R").Version(7).Build()},
		{"a default of a field says that it is one", `{"type":"record","name":"R","fields":[{"name":"a","type":"long","default":5}]}`, usual,
			schema.NewStruct("R").Version(7).Field("a", schema.New(schema.Int64).Param(fieldDefault, "true").Default(schema.Int64Value(5)).Build()).Build()},
		{"docs are parameters", `{"type":"record","name":"R","doc":"r","fields":[{"name":"a","type":"long","doc":"f"}]}`, usual,
			schema.NewStruct("R").Version(7).Param(recordDoc, "r").Param(fieldDoc+"a", "f").Field("a", schema.Int64Schema).Build()},
		{"docs are docs with discard.type.doc.default", `{"type":"record","name":"R","doc":"r","fields":[{"name":"a","type":"long","doc":"f"}]}`, discard,
			schema.NewStruct("R").Version(7).Doc("r").Param(connectRecordDoc, "r").Field("a", schema.New(schema.Int64).Doc("f").Build()).Build()},
		{"times in micros are numbers", `{"type":"long","logicalType":"timestamp-micros"}`, usual, schema.New(schema.Int64).Version(7).Build()},
		{"a uuid is a string", `{"type":"string","logicalType":"uuid"}`, usual, schema.New(schema.String).Version(7).Build()},
		{"a decimal's precision", `{"type":"bytes","logicalType":"decimal","precision":9,"scale":3}`, usual, schema.DecimalOf(3).Param(schema.PrecisionParam, "9").Build()},
		{"an enum", `{"type":"enum","name":"n.E","symbols":["A","B"],"default":"A"}`, usual,
			schema.New(schema.String).Version(7).Name("n.E").Param(enumDefault+"E", "A").Param(typeEnum, "n.E").Param(typeEnum+".A", "A").Param(typeEnum+".B", "B").Build()},
		{"an enum in the general form", `{"type":"enum","name":"n.E","symbols":["A","B"]}`, general,
			schema.New(schema.String).Version(7).Name("n.E").Param(generalEnum, "n.E").Param(generalEnum+".A", "0").Param(generalEnum+".B", "1").Build()},
		{"a union of several", `["null","int",{"type":"record","name":"n.R","fields":[]}]`, usual,
			schema.NewStruct(typeUnion).Version(7).Field("int", schema.OptionalInt32).Field("R", schema.NewStruct("n.R").Optional().Build()).Optional().Build()},
		{"the same with full names", `["int",{"type":"record","name":"n.R","fields":[]}]`, enhanced,
			schema.NewStruct(typeUnion).Version(7).Field("int", schema.OptionalInt32).Field("n.R", schema.NewStruct("n.R").Optional().Build()).Build()},
		{"a union in the general form", `["int","string"]`, general,
			schema.NewStruct("connect_union_0").Version(7).Param(generalUnion, "connect_union_0").Field("connect_union_field_0", schema.OptionalInt32).Field("connect_union_field_1", schema.OptionalString).Build()},
		{"a union of one is it", `["int"]`, usual, schema.Int32Schema},
		{"unless flatten.singleton.unions is false", `["int"]`, deep, schema.NewStruct(typeUnion).Version(7).Field("int", schema.OptionalInt32).Build()},
		{"a default that is none is left out", `{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"int","connect.default":"x"}}]}`, usual, schema.NewStruct("R").Version(7).Field("a", schema.Int32Schema).Build()},
	} {
		m := &Mapper{Options: c.o}
		got, err := m.ToConnect(avroOf(t, c.text), 7)
		if err != nil || !schema.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, show(got), err, show(c.want))
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"null alone", `"null"`, "null alone"},
		{"a version that is none", `{"type":"int","connect.version":"x"}`, "no version"},
		{"a name that is none", `{"type":"int","connect.name":5}`, "no name"},
		{"parameters that are none", `{"type":"int","connect.parameters":{"a":1}}`, "no text"},
		{"a name that differs from the logical type's", `{"type":"int","logicalType":"date","connect.name":"x"}`, "but the type is"},
		{"two branches of one simple name", `[{"type":"record","name":"a.R","fields":[]},{"type":"record","name":"b.R","fields":[]},"null"]`, "enhanced.avro.schema.support"},
	} {
		if _, err := (&Mapper{Options: usual}).ToConnect(avroOf(t, c.text), 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func show(s *schema.Schema) string {
	if s == nil {
		return "none"
	}
	n, _ := s.Version()
	d, _ := s.Default()
	text := fmt.Sprintf("%s v%d optional %v doc %q %v default %v", s, n, s.Optional(), s.Doc(), s.Params(), plain(d))
	for _, f := range s.Fields() {
		text += "\n  " + f.Name + ": " + show(f.Schema)
	}
	return text
}

func TestWhatHasNoFormInAvro(t *testing.T) {
	twice := schema.NewStruct("n.R").Field("a", schema.NewStruct("n.X").Field("x", schema.Int32Schema).Build()).Field("b", schema.NewStruct("n.X").Field("y", schema.Int32Schema).Build()).Build()
	inside := schema.NewStruct("n.R").Field("a", schema.NewStruct("n.R").Field("x", schema.Int32Schema).Build()).Build()
	ints := schema.NewStruct("n.R").Field("a", schema.MapOf(schema.BoolSchema, schema.Int16Schema).Build()).Field("b", schema.MapOf(schema.BoolSchema, schema.Int32Schema).Build()).Build()
	dates := schema.NewStruct("n.R").Field("a", schema.NewStruct("n.X").Field("x", schema.DateOf().Build()).Build()).Field("b", schema.NewStruct("n.X").Field("x", schema.Int32Schema).Build()).Build()
	scales := schema.NewStruct("n.R").Field("a", schema.MapOf(schema.BoolSchema, schema.DecimalOf(2).Build()).Build()).Field("b", schema.MapOf(schema.BoolSchema, schema.DecimalOf(3).Build()).Build()).Build()
	for _, c := range []struct {
		name string
		s    *schema.Schema
		want string
	}{
		{"one name for entries of the same form, read as other kinds", ints, `field "b": two different types have the name "io.confluent.connect.avro.MapEntry"`},
		{"one name for structs of a date and of a number", dates, `field "b": two different types have the name "n.X"`},
		{"one name for entries of two scales", scales, `field "b": two different types have the name "io.confluent.connect.avro.MapEntry"`},
		{"an illegal name of a struct", schema.NewStruct("my-app.R").Build(), "scrub.invalid.names"},
		{"an illegal name of a field", schema.NewStruct("R").Field("a-b", schema.Int32Schema).Build(), "illegal character '-'"},
		{"one name for two structs", twice, `field "b": two different types have the name "n.X"`},
		{"a name inside itself", inside, `another of that name`},
	} {
		_, err := (&Mapper{Options: usual}).ToAvro(c.s)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// cases/converters/1: null where there is a default, at every stage alike.
func TestNullWhereThereIsADefault(t *testing.T) {
	anon := schema.New(schema.String).Optional().Default(schema.StringValue("anon")).Build()
	inner := schema.NewStruct("I").Field("name", anon).Optional().Build()
	s := schema.NewStruct("R").Field("name", anon).Field("one", inner).Field("many", schema.ArrayOf(inner).Build()).Build()
	null := schema.StructValue(inner, []schema.Value{{}})
	v := schema.StructValue(s, []schema.Value{{}, null, schema.ArrayValue([]schema.Value{null})})
	for _, c := range []struct {
		keep       bool
		want, root string
	}{
		{true, "[<nil> [<nil>] [[<nil>]]]", "<nil>"},
		{false, "[anon [anon] [[anon]]]", "anon"},
	} {
		o := usual
		o.KeepNulls = c.keep
		_, got, err := through(t, o, s, v)
		if err != nil || fmt.Sprint(plain(got)) != c.want {
			t.Errorf("ignore.default.for.nullables=%v: %v, %v", c.keep, plain(got), err)
		}
		_, got, err = through(t, o, anon, schema.Value{})
		if err != nil || fmt.Sprint(plain(got)) != c.root {
			t.Errorf("ignore.default.for.nullables=%v, at the root: %v, %v", c.keep, plain(got), err)
		}
	}
}

// cases/converters/2 and 3: null logical types, special floats.
func TestValuesAndTheirBytes(t *testing.T) {
	date := schema.DateOf().Optional().Build()
	fixed := schema.DecimalOf(2).Param(fixedSize, "4").Build()
	for _, c := range []struct {
		name string
		s    *schema.Schema
		v    schema.Value
		to   string // another schema than the own one
		want string
	}{
		{"a long below zero", schema.Int64Schema, schema.Int64Value(-65), "", "8101"},
		{"the smallest int", schema.Int32Schema, schema.Int32Value(-1 << 31), "", "ffffffff0f"},
		{"the largest long", schema.Int64Schema, schema.Int64Value(1<<63 - 1), "", "feffffffffffffffff01"},
		{"a float that is no number", schema.Float32Schema, schema.Float32Value(float32(math.NaN())), "", "0000c07f"},
		{"an infinite double", schema.Float64Schema, schema.Float64Value(math.Inf(-1)), "", "000000000000f0ff"},
		{"a double of minus zero", schema.Float64Schema, schema.Float64Value(math.Copysign(0, -1)), "", "0000000000000080"},
		{"an optional date that is there", schema.NewStruct("R").Field("d", date).Build(), schema.StructValue(schema.NewStruct("R").Field("d", date).Build(), []schema.Value{schema.DateValue(20000)}), "", "02c0b802"},
		{"an optional date that is null", schema.NewStruct("R").Field("d", date).Build(), schema.StructValue(schema.NewStruct("R").Field("d", date).Build(), []schema.Value{{}}), "", "00"},
		{"a decimal", schema.DecimalOf(2).Build(), schema.DecimalInt64(-156, 2), "", "04ff64"},
		{"a decimal in a fixed", fixed, schema.DecimalInt64(-156, 2), `{"type":"fixed","name":"D","namespace":"n","size":4,"logicalType":"decimal","precision":9,"scale":2}`, "ffffff64"},
		{"an int as a long", schema.Int32Schema, schema.Int32Value(3), `"long"`, "06"},
		{"an int as a double", schema.Int32Schema, schema.Int32Value(3), `"double"`, "0000000000000840"},
		{"a string as an enum", schema.StringSchema, schema.StringValue("B"), `{"type":"enum","name":"E","symbols":["A","B"]}`, "02"},
		{"an empty array", schema.ArrayOf(schema.Int32Schema).Build(), schema.ArrayValue(nil), "", "00"},
		{"an array", schema.ArrayOf(schema.Int32Schema).Build(), schema.ArrayValue([]schema.Value{schema.Int32Value(1), schema.Int32Value(2)}), "", "04020400"},
		{"fields by their names, others by their defaults", pairSchema, schema.StructValue(pairSchema, []schema.Value{schema.Int32Value(1), schema.StringValue("x")}),
			`{"type":"record","name":"P","fields":[{"name":"b","type":["null","string"]},{"name":"c","type":{"type":"array","items":"int"},"default":[5]},{"name":"a","type":"long"}]}`, "020278" + "020a00" + "02"},
	} {
		written := (*avro.Type)(nil)
		if c.to != "" {
			written = avroOf(t, c.to)
		} else if s, err := (&Mapper{Options: usual}).ToAvro(c.s); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		} else {
			written = s.Type()
		}
		e, err := NewEncoder(c.s, written, usual)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		data, _, err := e.Append(nil, c.v)
		if err != nil || hex.EncodeToString(data) != c.want {
			t.Errorf("%s: %x, %v; want %s", c.name, data, err, c.want)
		}
	}
}

var pairSchema = schema.NewStruct("P").Field("a", schema.Int32Schema).Field("b", schema.StringSchema).Build()

func TestValuesThatDoNotFit(t *testing.T) {
	s := schema.NewStruct("R").Field("a", schema.ArrayOf(schema.NewStruct("I").Field("x", schema.Int32Schema).Build()).Build()).Build()
	i := schema.StructValue(s.Fields()[0].Schema.Elem(), []schema.Value{{}})
	_, _, err := through(t, usual, s, schema.StructValue(s, []schema.Value{schema.ArrayValue([]schema.Value{i})}))
	if err == nil || !strings.Contains(err.Error(), `field "a[0].x": null under the required schema`) {
		t.Errorf("null deep inside: %v", err)
	}
	for _, c := range []struct{ name, to, want string }{
		{"a field that the data does not have", `{"type":"record","name":"P","fields":[{"name":"z","type":"int"}]}`, `field "z"`},
		{"another kind", `{"type":"record","name":"P","fields":[{"name":"a","type":"string"}]}`, "cannot be written as string"},
		{"a union without a branch for it", `["null","int"]`, "fits no branch"},
	} {
		if _, err := NewEncoder(pairSchema, avroOf(t, c.to), usual); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Data that lies about itself is refused before much memory is taken.
func TestDataThatLies(t *testing.T) {
	for _, c := range []struct{ name, text, data, want string }{
		{"a string longer than the datum", `"string"`, "feffffff0f61", "a length of 2147483647"},
		{"a negative length", `"bytes"`, "01", "a length of -1"},
		{"an end too soon", `"long"`, "ff", "the data does not fit"},
		{"a number of too many bytes", `"long"`, "ffffffffffffffffffffff01", "the data does not fit"},
		{"an int beyond 32 bits", `"int"`, "80808080f00f", "no INT32"},
		{"a branch that there is not", `["null","int"]`, "04", "branch 2 of a union of 2"},
		{"a symbol that there is not", `{"type":"enum","name":"E","symbols":["A"]}`, "02", "symbol 1 of an enum of 1"},
		{"a block of very many elements", `{"type":"array","items":"int"}`, "feffffff0f", "a block of 2147483647"},
		{"the smallest number as a block's length", `{"type":"array","items":"int"}`, "ffffffffffffffffff0100", "a block of"},
		{"many elements that take no bytes", `{"type":"array","items":{"type":"fixed","name":"F","size":0}}`, "feffffff0f", "take no bytes"},
		{"a boolean that is none", `"boolean"`, "02", "invalid bool"},
	} {
		data, err := hex.DecodeString(c.data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decoderOf(t, c.text, usual).Value(data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	deep := []byte{}
	for range 100_000 {
		deep = append(deep, 0, 0, 0, 0, 0, 0, 0, 2, 2) // an array of one
	}
	d, err := NewDecoder(anything.Type(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Value(deep); err == nil || !strings.Contains(err.Error(), "nests deeper") {
		t.Errorf("deep data without a schema: %v", err)
	}
}

func TestEncodingAllocatesNothing(t *testing.T) {
	_, v, _, e := event(t)
	out, _, err := e.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { out, _, _ = e.Append(out[:0], v) }); n > 0 {
		t.Errorf("%v allocations for an event", n)
	}
}
