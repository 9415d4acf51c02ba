package registry_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	hamba "github.com/hamba/avro/v2"
	"github.com/twmb/franz-go/pkg/sr"

	"millrace/deploy/peers"
	"millrace/log/logtest"
	"millrace/schema"
	"millrace/schema/avro/avroconverter"
	"millrace/schema/converters"
)

// What the Avro converter writes with this registry is read by Confluent's client for Python, by franz-go's and by Avro's Java library, and
// what they write is read by the converter.

func avroConverter(t testing.TB, url string, pairs ...string) converters.Converter {
	t.Helper()
	raw := map[string]string{"schema.registry.url": url}
	for i := 0; i < len(pairs); i += 2 {
		raw[pairs[i]] = pairs[i+1]
	}
	c, errs := avroconverter.Plugin.Make(raw, false)
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	return c
}

var (
	line  = schema.NewStruct("shop.Line").Field("sku", schema.StringSchema).Field("count", schema.Int16Schema).Build()
	order = schema.NewStruct("shop.Order").Field("id", schema.Int64Schema).Field("small", schema.Int8Schema).Field("paid", schema.OptionalBool).
		Field("price", schema.DecimalOf(2).Param(schema.PrecisionParam, "9").Build()).Field("day", schema.DateOf().Build()).Field("at", schema.TimestampOf().Optional().Build()).
		Field("ratio", schema.Float64Schema).Field("short", schema.Float32Schema).Field("raw", schema.BytesSchema).
		Field("lines", schema.ArrayOf(line).Build()).Field("notes", schema.MapOf(schema.StringSchema, schema.OptionalString).Build()).
		Field("state", schema.New(schema.String).Optional().Default(schema.StringValue("new")).Build()).Build()
)

func orderValue() schema.Value {
	str := schema.StringValue
	return schema.StructValue(order, []schema.Value{
		schema.Int64Value(-5_000_000_000), schema.Int8Value(-7), schema.BoolValue(true), schema.DecimalInt64(-12345, 2), schema.DateValue(20000), schema.TimestampValue(1_700_000_000_123),
		schema.Float64Value(0.1), schema.Float32Value(1.5), schema.BytesValue([]byte{0, 0xff}),
		schema.ArrayValue([]schema.Value{schema.StructValue(line, []schema.Value{str("ä1"), schema.Int16Value(300)})}),
		schema.MapValue([]schema.Entry{{Key: str("k"), Value: str("v")}}), {},
	})
}

// pythonText is the order as Python prints it.
const pythonText = `{"id": -5000000000, "small": -7, "paid": true, "price": "-123.45", "day": "2024-10-04", "at": "2023-11-14 22:13:20.123000+00:00", "ratio": 0.1, "short": 1.5, "raw": "b'\\x00\\xff'", "lines": [{"sku": "ä1", "count": 300}], "notes": {"k": "v"}, "state": "new"}`

// node is a struct that is a part of itself: a tree.
var node = func() *schema.Schema {
	b := schema.NewStruct("shop.Node")
	return b.Field("v", schema.Int32Schema).Field("next", b.Self(true)).Field("kids", schema.MapOf(schema.StringSchema, b.Self(false)).Build()).Build()
}()

func nodeValue() schema.Value {
	leaf := func(v int32) []schema.Value {
		return []schema.Value{schema.Int32Value(v), {}, schema.MapValue(nil)}
	}
	next := []schema.Value{schema.Int32Value(2), schema.StructValue(node.Field("next"), leaf(3)), schema.MapValue([]schema.Entry{{Key: schema.StringValue("k"), Value: schema.StructValue(node, leaf(4))}})}
	return schema.StructValue(node, []schema.Value{schema.Int32Value(1), schema.StructValue(node.Field("next"), next), schema.MapValue(nil)})
}

// nodeText is it as Python and Java print it.
const nodeText = `{"v": 1, "next": {"v": 2, "next": {"v": 3, "next": null, "kids": {}}, "kids": {"k": {"v": 4, "next": null, "kids": {}}}}, "kids": {}}`

func checkNode(t *testing.T, s *schema.Schema, v schema.Value, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
		return
	}
	if kids := v.Get("next").Get("kids").Entries(); !s.Recursive() || v.Get("next").Get("next").Get("v").Int() != 3 || len(kids) != 1 || kids[0].Value.Get("v").Int() != 4 || schema.Validate(s, v) != nil {
		t.Errorf("read %s: %v, %v", s, v, schema.Validate(s, v))
	}
}

const pythonProgram = `
import json, sys
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer, AvroDeserializer
from confluent_kafka.serialization import SerializationContext, MessageField

url, prefixed, bare, headers, schema, node = sys.argv[1], bytes.fromhex(sys.argv[2]), bytes.fromhex(sys.argv[3]), json.loads(sys.argv[4]), sys.argv[5], bytes.fromhex(sys.argv[6])
client = SchemaRegistryClient({"url": url})
read = AvroDeserializer(client)
here = lambda topic, h=None: SerializationContext(topic, MessageField.VALUE, h)
print(json.dumps(read(prefixed, here("orders")), default=str, ensure_ascii=False))
print(json.dumps(read(bare, here("orders", [(k, bytes.fromhex(v)) for k, v in headers])), default=str, ensure_ascii=False))
mine = {"name": "Ann", "tags": ["a", "b"], "age": 41, "either": 2.5}
print(AvroSerializer(client, schema)(mine, here("people")).hex())
added = []
print(AvroSerializer(client, schema, conf={"schema.id.serializer": header_schema_id_serializer})(mine, here("people", added)).hex())
print(json.dumps([[k, v.hex()] for k, v in added]))
tree = read(node, here("nodes"))
print(json.dumps(tree))
text = client.get_latest_version("nodes-value").schema.schema_str
print(AvroSerializer(client, text)(tree, here("nodes")).hex())
`

// personText is a schema of somebody else: no connect.* properties, a union of several types, a default.
const personText = `{"type":"record","name":"Person","namespace":"others","fields":[{"name":"name","type":"string"},{"name":"tags","type":{"type":"array","items":"string"}},{"name":"age","type":["null","int"],"default":null},{"name":"either","type":["string","double"]},{"name":"kind","type":{"type":"enum","name":"Kind","symbols":["NEW","OLD"]},"default":"OLD"}]}`

func checkPerson(t *testing.T, s *schema.Schema, v schema.Value, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
		return
	}
	version, _ := s.Version()
	if tags := v.Get("tags").Elems(); v.Get("name").Str() != "Ann" || len(tags) != 2 || tags[1].Str() != "b" || v.Get("age").Int() != 41 || v.Get("either").Get("double").Float() != 2.5 ||
		v.Get("kind").Str() != "OLD" || s.Name() != "others.Person" || version != 1 {
		t.Errorf("read %s version %d: %v %v %v %v %v", s, version, v.Get("name").Str(), tags, v.Get("age").Int(), v.Get("either").Get("double").Float(), v.Get("kind").Str())
	}
}

func TestPythonReadsAndWritesAvro(t *testing.T) {
	python := peers.PythonClients(t)
	s := start(t, logtest.New(t))
	c := avroConverter(t, s.url)
	topic := &converters.Message{Topic: "orders"}
	prefixed, _, err := c.Encode(nil, topic, order, orderValue())
	if err != nil {
		t.Fatal(err)
	}
	inHeader := &converters.Message{Topic: "orders"}
	bare, _, err := avroConverter(t, s.url, "value.schema.id.serializer", "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer").Encode(nil, inHeader, order, orderValue())
	if err != nil {
		t.Fatal(err)
	}
	tree, _, err := c.Encode(nil, &converters.Message{Topic: "nodes"}, node, nodeValue())
	if err != nil {
		t.Fatal(err)
	}
	headers, _ := json.Marshal([][2]string{{inHeader.Headers[0].Key, hex.EncodeToString(inHeader.Headers[0].Value)}})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	said := strings.Split(strings.TrimSpace(python.Run(ctx, t, pythonProgram, s.url, hex.EncodeToString(prefixed), hex.EncodeToString(bare), string(headers), personText, hex.EncodeToString(tree))), "\n")
	if len(said) != 7 {
		t.Fatalf("Python says %q", said)
	}
	for i, what := range []string{"with the id before it", "with the id in the headers"} {
		if said[i] != pythonText {
			t.Errorf("%s, Python reads\n%s\nwant\n%s", what, said[i], pythonText)
		}
	}
	if said[5] != nodeText || said[6] != hex.EncodeToString(tree) {
		t.Errorf("of a tree, Python reads\n%s\nwant\n%s\nand writes %s, we %x", said[5], nodeText, said[6], tree)
	}
	rs, rv, err := c.Decode(&converters.Message{Topic: "nodes"}, tree)
	checkNode(t, rs, rv, err)
	written, _ := hex.DecodeString(said[2])
	rs, rv, err = c.Decode(&converters.Message{Topic: "people"}, written)
	checkPerson(t, rs, rv, err)
	written, _ = hex.DecodeString(said[3])
	var added [][2]string
	if err := json.Unmarshal([]byte(said[4]), &added); err != nil || len(added) != 1 {
		t.Fatalf("headers of Python: %s", said[4])
	}
	guid, _ := hex.DecodeString(added[0][1])
	rs, rv, err = avroConverter(t, s.url).Decode(&converters.Message{Topic: "people", Headers: []schema.RawHeader{{Key: added[0][0], Value: guid}}}, written)
	if err == nil {
		// A GUID tells no version.
		if _, ok := rs.Version(); ok {
			t.Error("a version of a schema that is known by its GUID")
		}
		rs = versioned(rs)
		rv = schema.StructValue(rs, rv.Fields())
	}
	checkPerson(t, rs, rv, err)
}

func versioned(s *schema.Schema) *schema.Schema {
	b := schema.From(s).Version(1)
	for _, f := range s.Fields() {
		b.Field(f.Name, f.Schema)
	}
	return b.Build()
}

func TestFranzGoReadsAndWritesAvro(t *testing.T) {
	s := start(t, logtest.New(t))
	c := avroConverter(t, s.url)
	client, err := sr.NewClient(sr.URLs(s.url))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	data, _, err := c.Encode(nil, &converters.Message{Topic: "orders"}, order, orderValue())
	if err != nil {
		t.Fatal(err)
	}
	var serde sr.Serde
	id, rest, err := serde.DecodeID(data)
	if err != nil {
		t.Fatal(err)
	}
	known, err := client.SchemaByID(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := hamba.Parse(known.Schema)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := hamba.Unmarshal(parsed, rest, &got); err != nil {
		t.Fatal(err)
	}
	if got["id"] != int64(-5_000_000_000) || got["state"] != "new" || !reflect.DeepEqual(got["raw"], []byte{0, 0xff}) || fmt.Sprint(got["lines"]) != "[map[count:300 sku:ä1]]" || fmt.Sprint(got["price"]) != "-2469/20" {
		t.Errorf("franz-go and hamba read %v", got)
	}

	registered, err := client.CreateSchema(ctx, "people-value", sr.Schema{Schema: personText})
	if err != nil {
		t.Fatal(err)
	}
	person := hamba.MustParse(personText)
	serde.Register(registered.ID, map[string]any{}, sr.EncodeFn(func(v any) ([]byte, error) { return hamba.Marshal(person, v) }))
	written, err := serde.Encode(map[string]any{"name": "Ann", "tags": []string{"a", "b"}, "age": 41, "either": 2.5, "kind": "OLD"})
	if err != nil {
		t.Fatal(err)
	}
	rs, rv, err := c.Decode(&converters.Message{Topic: "people"}, written)
	checkPerson(t, rs, rv, err)

	ours, err := client.SchemaByVersion(ctx, "orders-value", -1)
	if err != nil || ours.ID != id || ours.Version != 1 {
		t.Errorf("the latest version for franz-go: %+v, %v", ours, err)
	}
	fits, err := client.CheckCompatibility(ctx, "people-value", -1, sr.Schema{Schema: strings.Replace(personText, `{"name":"tags"`, `{"name":"must","type":"int"},{"name":"tags"`, 1)})
	if err != nil || fits.Is {
		t.Errorf("a field without a default fits for franz-go: %+v, %v", fits, err)
	}
}

func TestJavaReadsAndWritesAvro(t *testing.T) {
	java := peers.AvroLibrary(t)
	s := start(t, logtest.New(t))
	c := avroConverter(t, s.url)
	data, _, err := c.Encode(nil, &converters.Message{Topic: "orders"}, order, orderValue())
	if err != nil {
		t.Fatal(err)
	}
	tree, _, err := c.Encode(nil, &converters.Message{Topic: "nodes"}, node, nodeValue())
	if err != nil {
		t.Fatal(err)
	}
	latest := func(subject string) string {
		var is struct{ Schema string }
		if a := s.send("GET", "/subjects/"+subject+"/versions/latest", ""); json.Unmarshal([]byte(a.body), &is) != nil || is.Schema == "" {
			t.Fatalf("the latest version: %+v", a)
		}
		return is.Schema
	}
	var questions, answers bytes.Buffer
	ask := json.NewEncoder(&questions)
	for _, q := range []map[string]string{
		{"schema": latest("orders-value"), "data": hex.EncodeToString(data[5:])},
		{"schema": personText, "json": `{"name":"Ann","tags":["a","b"],"age":{"int":41},"either":{"double":2.5},"kind":"OLD"}`},
		{"schema": latest("nodes-value"), "data": hex.EncodeToString(tree[5:])},
	} {
		if err := ask.Encode(q); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := java.Command(ctx, "AvroPeer")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &questions, &answers, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	var said []struct{ Data, Text, Error string }
	for lines := bufio.NewScanner(&answers); lines.Scan(); {
		said = append(said, struct{ Data, Text, Error string }{})
		if err := json.Unmarshal(lines.Bytes(), &said[len(said)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if len(said) != 3 || said[0].Error+said[1].Error+said[2].Error != "" {
		t.Fatalf("Java says %+v", said)
	}
	const text = `{"id": -5000000000, "small": -7, "paid": true, "price": "ÏÇ", "day": 20000, "at": 1700000000123, "ratio": 0.1, "short": 1.5, "raw": "\u0000ÿ", "lines": [{"sku": "ä1", "count": 300}], "notes": {"k": "v"}, "state": "new"}`
	if said[0].Data != hex.EncodeToString(data[5:]) || said[0].Text != text {
		t.Errorf("Java reads\n%s\nwant\n%s\nand writes %s, we %x", said[0].Text, text, said[0].Data, data[5:])
	}
	if said[2].Data != hex.EncodeToString(tree[5:]) || said[2].Text != nodeText {
		t.Errorf("Java reads\n%s\nwant\n%s\nand writes %s, we %x", said[2].Text, nodeText, said[2].Data, tree[5:])
	}
	if a := s.send("POST", "/subjects/people-value/versions", schemaBody(personText)); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	id := tree[4] + 1
	written, _ := hex.DecodeString(said[1].Data)
	rs, rv, err := c.Decode(&converters.Message{Topic: "people"}, append([]byte{0, 0, 0, 0, id}, written...))
	checkPerson(t, rs, rv, err)
}
