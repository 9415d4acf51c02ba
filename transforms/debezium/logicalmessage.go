package debezium

import (
	"encoding/base64"
	"fmt"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/envelope"
	"millrace/schema/plugin"
	"millrace/transforms"
)

var includeNulls = config.Key[bool]{Name: "fields.null.include", Importance: config.Medium, Order: 1, Display: "Whether to include fields that have null values",
	Doc: "Keep fields of the content that are null, as optional bytes; otherwise they are left out."}

// DecodeLogicalDecodingMessageContent makes change events of logical messages.
var DecodeLogicalDecodingMessageContent = transforms.Plugin{
	Info: plugin.Info{
		Name: "decode-logical-message", Class: "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent", Version: schema.DebeziumVersion,
		Doc:    "Turns the message of pg_logical_emit_message, whose content is a JSON object, into an event like that of an insert, with the object in after. The key goes; other records pass.",
		Config: config.Define(includeNulls),
	},
	New: func(v config.Values) (transforms.Transform, error) {
		return &logicalMessage{content: jsonExpander{nulls: includeNulls.Get(v)}}, nil
	},
}

// The schema of logical messages, and their field.
const (
	messageValue   = "io.debezium.connector.postgresql.MessageValue"
	messageField   = "message"
	messageContent = "content"
)

type logicalMessage struct {
	content jsonExpander
	plans   schema.Cache[*messagePlans]
}

// messagePlans are the envelopes of one message schema by the schema of the content.
type messagePlans struct {
	to   *schema.Schema
	of   *schema.Schema // what to was made for
	from []int          // of to, but for after
	op   int            // in to
}

func (t *logicalMessage) Apply(r schema.Record) (schema.Record, bool, error) {
	switch {
	case r.Value.Kind() == schema.Map && r.ValueSchema == nil:
		return t.schemaless(r)
	case r.Value.Kind() != schema.Struct || r.ValueSchema.Name() != messageValue:
		return r, true, nil
	}
	content := r.Value.Get(messageField).Get(messageContent)
	n, err := parseContent(content.Bytes(), content.IsNull())
	if err != nil {
		return r, false, err
	}
	row, err := t.content.infer(n, "")
	if err != nil {
		return r, false, &schema.DataError{Reason: fmt.Sprintf("content of the logical message: %v", err)}
	}
	p, err := t.plans.Get(r.ValueSchema, func(*schema.Schema) (*messagePlans, error) { return &messagePlans{}, nil })
	if err != nil {
		return r, false, err
	}
	if p.of == nil || !schema.Equal(p.of, row) {
		if err := p.make(r.ValueSchema, row); err != nil {
			return r, false, err
		}
	}
	fields := make([]schema.Value, 0, len(p.from)+1)
	for _, from := range p.from {
		fields = append(fields, r.Value.Fields()[from])
	}
	if p.op >= 0 {
		fields[p.op] = schema.StringValue("c")
	}
	fields = append(fields, t.content.fill(p.of, n))
	r.KeySchema, r.Key = nil, schema.Value{}
	r.ValueSchema, r.Value = p.to, schema.StructValue(p.to, fields)
	return r, true, nil
}

func (p *messagePlans) make(s, row *schema.Schema) error {
	b := schema.NewStruct(s.Name() + envelope.EnvelopeSuffix)
	from, op := []int{}, -1
	for i, f := range s.Fields() {
		switch f.Name {
		case messageField:
			continue
		case envelope.OpField:
			op = len(from)
		}
		from = append(from, i)
		b.Field(f.Name, f.Schema)
	}
	to, err := b.Field(envelope.AfterField, row).TryBuild()
	if err != nil {
		return &schema.DataError{Reason: err.Error()}
	}
	*p = messagePlans{to, row, from, op}
	return nil
}

// parseContent reads the content of a message, which must be a JSON object.
func parseContent(content []byte, null bool) (*jsonNode, error) {
	if null {
		return nil, &schema.DataError{Reason: "the logical message has no content"}
	}
	n, err := parseNode(content)
	if err != nil || n.kind != schema.Struct {
		const most = 200
		shown := string(content[:min(len(content), most)])
		return nil, &schema.DataError{Reason: fmt.Sprintf("Unable to parse logical decoding message content JSON string '%s': want a JSON object", shown)}
	}
	return n, nil
}

// schemaless is Apply for data without a schema, where the content is base64 as the
// JSON converter writes it, or bytes.
func (t *logicalMessage) schemaless(r schema.Record) (schema.Record, bool, error) {
	op, _ := r.Value.Lookup(envelope.OpField)
	message, _ := r.Value.Lookup(messageField)
	content, ok := message.Lookup(messageContent)
	if op.Str() != "m" || !ok {
		return r, true, nil
	}
	raw := content.Bytes()
	if content.Kind() == schema.String {
		var err error
		if raw, err = base64.StdEncoding.DecodeString(content.Str()); err != nil {
			return r, false, &schema.DataError{Reason: fmt.Sprintf("content of the logical message is not base64: %v", err)}
		}
	}
	n, err := parseContent(raw, content.IsNull())
	if err != nil {
		return r, false, err
	}
	var m []schema.Entry
	for _, e := range r.Value.Entries() {
		switch e.Key.Str() {
		case messageField:
		case envelope.OpField:
			m = append(m, schema.Entry{Key: e.Key, Value: schema.StringValue("c")})
		default:
			m = append(m, e)
		}
	}
	m = put(m, envelope.AfterField, n.plain(t.content.nulls))
	r.KeySchema, r.Key = nil, schema.Value{}
	r.Value = schema.MapValue(m)
	return r, true, nil
}

// plain is a node without a schema.
func (n *jsonNode) plain(nulls bool) schema.Value {
	switch n.kind {
	case schema.Struct:
		m := make([]schema.Entry, 0, len(n.names))
		for i, f := range n.fields {
			if f.kind != schema.Null || nulls {
				m = append(m, schema.Entry{Key: schema.StringValue(n.names[i]), Value: f.plain(nulls)})
			}
		}
		return schema.MapValue(m)
	case schema.Array:
		elems := make([]schema.Value, len(n.elems))
		for i, e := range n.elems {
			elems[i] = e.plain(nulls)
		}
		return schema.ArrayValue(elems)
	}
	return n.value
}
