package converters

import (
	"fmt"
	"strconv"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
)

var converterType = config.Key[string]{
	Name: "converter.type", Doc: "What this converter converts: key, value or header. The worker sets it.",
	Required: true, Importance: config.Low, Check: config.OneOf("key", "value", "header"),
}

// The settings of the JSON converter.
var (
	schemasEnable = config.Key[bool]{
		Name: "schemas.enable", Default: true, Importance: config.High, Group: "Schemas", Width: config.MediumW, Display: "Enable Schemas",
		Doc: "Write each record as {\"schema\": …, \"payload\": …} and expect that when reading; false writes and reads the payload alone.",
	}
	schemasCacheSize = config.Key[int32]{
		Name: "schemas.cache.size", Default: 1000, Importance: config.High, Group: "Schemas", Width: config.MediumW, Display: "Schema Cache Size",
		Doc: "Number of schemas whose JSON text and encoder are kept.",
	}
	schemaContent = config.Key[string]{
		Name: "schema.content", Importance: config.High, Group: "Schemas", Width: config.MediumW, Display: "Schema Content",
		Doc: "The schema of all messages read, in the form of an envelope's schema; messages are then the payload alone. Only with schemas.enable.",
	}
	decimalFormat = config.Key[string]{
		Name: "decimal.format", Default: "BASE64", Importance: config.Low, Group: "Serialization", Width: config.MediumW, Display: "Decimal Format",
		Doc:   "How decimals are written: BASE64 (the unscaled bytes) or NUMERIC (a JSON number). Both are read.",
		Check: config.OneOf("BASE64", "NUMERIC"),
	}
	replaceNull = config.Key[bool]{
		Name: "replace.null.with.default", Default: true, Importance: config.Low, Group: "Serialization", Width: config.MediumW, Display: "Replace null with default",
		Doc: "Write and read a null field that has a default as that default; false keeps null.",
	}
)

// JSON is Connect's JsonConverter, for keys, values and headers.
var JSON = Plugin{
	Info: plugin.Info{
		Name: "json", Class: "org.apache.kafka.connect.json.JsonConverter", Version: schema.ConnectVersion,
		Doc:    "Data as JSON text, with or without the schema beside it.",
		Config: config.Define(converterType, schemasEnable, schemasCacheSize, schemaContent, decimalFormat, replaceNull),
	},
	New:       func(v config.Values, _ bool) (Converter, error) { return newJSON(v) },
	NewHeader: func(v config.Values) (HeaderConverter, error) { return newJSON(v) },
}

// jsonConverter serves keys, values and headers alike.
type jsonConverter struct {
	schemas     bool
	numeric     bool // decimals as JSON numbers
	replaceNull bool
	content     *schema.Schema // of all messages read, or nil

	plans   schema.Cache[*jsonPlan]
	decoder jsonDecoder
}

func newJSON(v config.Values) (*jsonConverter, error) {
	c := &jsonConverter{
		schemas:     schemasEnable.Get(v),
		numeric:     equalFold(decimalFormat.Get(v), "NUMERIC"),
		replaceNull: replaceNull.Get(v),
	}
	size := int(schemasCacheSize.Get(v))
	if size < 1 {
		return nil, schemasCacheSize.Errorf(v, "Value must be at least 1")
	}
	c.plans.Limit = size
	c.decoder.init(size, c.replaceNull)
	if text := schemaContent.Get(v); text != "" {
		s, err := c.decoder.schemaOf([]byte(text))
		if err != nil {
			return nil, schemaContent.Errorf(v, "it is no schema as JSON: %v", err)
		}
		if c.schemas {
			c.content = s
		}
	}
	return c, nil
}

// Encode appends v as JSON. A schema with a null value is JSON's null, inside an
// envelope or alone; no schema and null is null, a tombstone.
func (c *jsonConverter) Encode(dst []byte, _ *Message, s *schema.Schema, v schema.Value) ([]byte, bool, error) {
	if s == nil && v.IsNull() {
		return dst, true, nil
	}
	plan, err := c.plans.Get(s, c.compile)
	if err != nil {
		return dst, false, err
	}
	if !c.schemas {
		out, err := c.append(dst, plan.root, v)
		if err != nil {
			return dst, false, err
		}
		return out, false, nil
	}
	out, err := c.append(append(dst, plan.prefix...), plan.root, v)
	if err != nil {
		return dst, false, err // without the half that was written
	}
	return append(out, '}'), false, nil
}

// Decode reads JSON: an envelope with schemas.enable, else schemaless data.
func (c *jsonConverter) Decode(_ *Message, data []byte) (*schema.Schema, schema.Value, error) {
	switch {
	case data == nil, len(data) == 0 && !c.schemas: // no bytes are a missing node to Jackson, and null to Connect
		return nil, schema.Value{}, nil
	case !c.schemas:
		v, err := c.decoder.schemaless(data)
		return nil, v, err
	case c.content != nil:
		v, err := c.decoder.payload(c.content, data)
		return c.content, v, err
	}
	return c.decoder.envelope(data)
}

func (c *jsonConverter) EncodeHeader(dst []byte, _, _ string, s *schema.Schema, v schema.Value) ([]byte, bool, error) {
	return c.Encode(dst, nil, s, v)
}

func (c *jsonConverter) DecodeHeader(_, _ string, data []byte) (*schema.Schema, schema.Value, error) {
	return c.Decode(nil, data)
}

// jsonPlan is what is computed once per schema.
type jsonPlan struct {
	prefix []byte    // {"schema":…,"payload":
	root   *jsonNode // nil: schemaless
}

// jsonNode writes the values of one schema.
type jsonNode struct {
	s      *schema.Schema
	alias  *schema.Schema // the last other pointer found equal to s
	kind   schema.Kind
	null   []byte // what null is written as; nil: it is an error
	fields []jsonField
	key    *jsonNode
	elem   *jsonNode
	pairs  bool // a map whose keys are no strings: [[k,v],…]
}

type jsonField struct {
	prefix []byte // {"name": or ,"name":
	null   []byte // prefix and node.null together; nil as there
	node   *jsonNode

	// The last long number and its text with the prefix. Most are instants that many records of a transaction share.
	number int64
	text   []byte
}

// longNumber is where keeping a number's text begins to be cheaper than writing the number again.
const longNumber = 1e9

// appendLong appends a field's whole number of ten digits or more.
func (f *jsonField) appendLong(dst []byte, v int64) []byte {
	if f.number != v {
		f.text = strconv.AppendInt(append(f.text[:0], f.prefix...), v, 10)
		f.number = v
	}
	return append(dst, f.text...)
}

func (c *jsonConverter) compile(s *schema.Schema) (*jsonPlan, error) {
	p := &jsonPlan{}
	text := []byte("null")
	if s != nil {
		seen := map[*schema.Schema]*jsonNode{}
		var err error
		if p.root, err = c.node(s, seen); err != nil {
			return nil, err
		}
		for _, n := range seen {
			for i := range n.fields {
				n.fields[i].setNull()
			}
		}
		if !c.schemas {
			return p, nil
		}
		if s.Recursive() {
			return nil, &schema.DataError{Reason: fmt.Sprintf("the schema %s is a part of itself, which JSON has no words for; set schemas.enable=false, or take a converter with a schema registry", s)}
		}
		if text, err = c.appendSchema(nil, s, "", seen); err != nil {
			return nil, err
		}
	}
	p.prefix = append(append([]byte(`{"schema":`), text...), `,"payload":`...)
	return p, nil
}

// node compiles s; a schema that occurs twice (before, after, in itself) is compiled once.
func (c *jsonConverter) node(s *schema.Schema, seen map[*schema.Schema]*jsonNode) (*jsonNode, error) {
	if s == nil {
		return nil, nil
	}
	if n := seen[s]; n != nil {
		return n, nil
	}
	n := &jsonNode{s: s, kind: s.ValueKind()}
	seen[s] = n
	def, has := s.Default()
	has = has && c.replaceNull
	if s.Optional() && !has {
		n.null = []byte("null")
	}
	var err error
	switch s.Kind() {
	case schema.Struct:
		for i, f := range s.Fields() {
			part, err := c.node(f.Schema, seen)
			if err != nil {
				return nil, schema.Under(f.Name, err)
			}
			open := byte(',')
			if i == 0 {
				open = '{'
			}
			field := jsonField{node: part, prefix: append(javatext.AppendJSONUTF8([]byte{open}, []byte(f.Name)), ':')}
			field.setNull()
			n.fields = append(n.fields, field)
		}
	case schema.Array:
		n.elem, err = c.node(s.Elem(), seen)
	case schema.Map:
		n.pairs = s.Key() != nil && s.Key().Kind() != schema.String
		if n.key, err = c.node(s.Key(), seen); err == nil {
			n.elem, err = c.node(s.Elem(), seen)
		}
	}
	if err != nil {
		return nil, err
	}
	if has {
		n.null, err = c.append(nil, n, def)
	}
	return n, err
}

// setNull takes over what null is written as. A part that was not compiled yet, since its
// schema is recursive, is asked again when all are.
func (f *jsonField) setNull() {
	if f.null == nil && f.node.null != nil {
		f.null = append(append([]byte(nil), f.prefix...), f.node.null...)
	}
}

// append appends v under the node n; a nil node is schemaless.
func (c *jsonConverter) append(dst []byte, n *jsonNode, v schema.Value) ([]byte, error) {
	if n == nil {
		return c.appendSchemaless(dst, v)
	}
	k := v.Kind()
	if k != n.kind {
		if k != schema.Null {
			return dst, &schema.DataError{Reason: fmt.Sprintf("%v under the schema %s", k, n.s)}
		}
		if n.null == nil {
			return dst, nullUnderRequired(n.s)
		}
		return append(dst, n.null...), nil
	}
	switch k {
	case schema.Struct:
		return c.appendStruct(dst, n, v)
	case schema.Array:
		dst = append(dst, '[')
		for i, e := range v.Elems() {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = c.append(dst, n.elem, e); err != nil {
				return dst, schema.Under(fmt.Sprintf("[%d]", i), err)
			}
		}
		return append(dst, ']'), nil
	case schema.Map:
		return c.appendMap(dst, n, v)
	case schema.Decimal:
		if !c.numeric && v.Scale() != n.s.Scale() {
			return dst, &schema.DataError{Reason: fmt.Sprintf("a decimal of scale %d under the schema's scale %d", v.Scale(), n.s.Scale())}
		}
	}
	return c.appendScalar(dst, v), nil
}

func nullUnderRequired(s *schema.Schema) error {
	return &schema.DataError{Reason: fmt.Sprintf("Conversion error: null value for field that is required and has no default value (%s)", s)}
}

func (c *jsonConverter) appendStruct(dst []byte, n *jsonNode, v schema.Value) ([]byte, error) {
	if own := v.Schema(); own != n.s && own != n.alias {
		if !schema.Equal(own, n.s) {
			return dst, &schema.DataError{Reason: fmt.Sprintf("Mismatching schema: a struct of the schema %s, which is not the %s that its place has", own, n.s)}
		}
		n.alias = own
	}
	if len(n.fields) == 0 {
		return append(dst, '{', '}'), nil
	}
	for i, f := range v.Fields() {
		p := &n.fields[i]
		if f.IsNull() {
			if p.null == nil {
				return dst, schema.Under(n.s.Fields()[i].Name, nullUnderRequired(p.node.s))
			}
			dst = append(dst, p.null...)
			continue
		}
		k := f.Kind()
		if v := f.Int(); v >= longNumber && k == p.node.kind {
			dst = p.appendLong(dst, v)
			continue
		}
		dst = append(dst, p.prefix...)
		if k == p.node.kind && k < schema.Array { // most fields: no call in between
			dst = c.appendScalar(dst, f)
			continue
		}
		var err error
		if dst, err = c.append(dst, p.node, f); err != nil {
			return dst, schema.Under(n.s.Fields()[i].Name, err)
		}
	}
	return append(dst, '}'), nil
}

func (c *jsonConverter) appendMap(dst []byte, n *jsonNode, v schema.Value) ([]byte, error) {
	// A map whose keys have no schema is an object where all keys are strings.
	pairs := n.pairs || n.key == nil && !stringKeys(v.Entries())
	open, end := byte('{'), byte('}')
	if pairs {
		open, end = '[', ']'
	}
	dst = append(dst, open)
	for i, e := range v.Entries() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if pairs {
			dst = append(dst, '[')
		} else if e.Key.Kind() != schema.String {
			return dst, &schema.DataError{Reason: fmt.Sprintf("a map's key is %v under the schema %s", e.Key.Kind(), n.key.s)}
		}
		if dst, err = c.append(dst, n.key, e.Key); err != nil {
			return dst, schema.Under("[key]", err)
		}
		if pairs {
			dst = append(dst, ',')
		} else {
			dst = append(dst, ':')
		}
		if dst, err = c.append(dst, n.elem, e.Value); err != nil {
			return dst, schema.Under(mapStep(e.Key), err)
		}
		if pairs {
			dst = append(dst, ']')
		}
	}
	return append(dst, end), nil
}

func mapStep(key schema.Value) string {
	if key.Kind() == schema.String {
		return fmt.Sprintf("[%q]", key.Str())
	}
	return "[…]"
}

func stringKeys(entries []schema.Entry) bool {
	for _, e := range entries {
		if e.Key.Kind() != schema.String {
			return false
		}
	}
	return true
}
