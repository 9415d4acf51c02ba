package converters

import (
	"bytes"
	"container/list"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	"millrace/schema"
)

// jsonDecoder turns JSON into data. Schemas are interned by their text, so that
// records of one schema share its pointer.
type jsonDecoder struct {
	parser      jsonParser
	arena       schema.Arena
	replaceNull bool

	limit  int
	last   *knownSchema
	byText map[string]*list.Element
	order  list.List // of *knownSchema, most recent first
	reads  schema.Cache[*jsonReader]
}

type knownSchema struct {
	text   string
	schema *schema.Schema // nil: the text is null
	reader *jsonReader
}

func (d *jsonDecoder) init(limit int, replaceNull bool) {
	d.limit, d.replaceNull = limit, replaceNull
	d.byText = map[string]*list.Element{}
	d.parser.arena = &d.arena
}

// start readies the parser for a text.
func (d *jsonDecoder) start(data []byte) *jsonParser {
	const keep = 1 << 14 // of values: a huge record's scratch is let go
	p := &d.parser
	p.data, p.pos, p.depth = data, 0, 0
	if p.stack = p.stack[:0]; cap(p.stack) > keep {
		p.stack = nil
	}
	if p.pairs = p.pairs[:0]; cap(p.pairs) > keep {
		p.pairs = nil
	}
	return p
}

// readError makes an error of the parser a data error with Connect's words.
func readError(err error) error {
	var syntax *syntaxError
	if errors.As(err, &syntax) {
		return &schema.DataError{Reason: "Converting byte[] to Kafka Connect data failed due to serialization error: " + syntax.Error()}
	}
	return err
}

func (d *jsonDecoder) schemaless(data []byte) (schema.Value, error) {
	p := d.start(data)
	v, err := p.schemaless()
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return schema.Value{}, readError(err)
	}
	return v, nil
}

// payload reads data of a schema that stands elsewhere.
func (d *jsonDecoder) payload(s *schema.Schema, data []byte) (schema.Value, error) {
	if s == nil {
		return d.schemaless(data)
	}
	r, err := d.reads.Get(s, d.compile)
	if err != nil {
		return schema.Value{}, err
	}
	p := d.start(data)
	v, err := p.typed(r)
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return schema.Value{}, readError(err)
	}
	return v, nil
}

var errNoEnvelope = &schema.DataError{Reason: `JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields.` +
	" If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."}

// envelope reads {"schema":…,"payload":…}, in any order.
func (d *jsonDecoder) envelope(data []byte) (*schema.Schema, schema.Value, error) {
	known, v, err := d.readEnvelope(data)
	if err != nil {
		return nil, schema.Value{}, readError(err)
	}
	return known.schema, v, nil
}

func (d *jsonDecoder) readEnvelope(data []byte) (known *knownSchema, v schema.Value, err error) {
	p := d.start(data)
	if p.peek() != '{' {
		if p.pos == len(data) {
			return nil, v, errNoEnvelope
		}
		if err = p.skip(); err == nil {
			err = errNoEnvelope
		}
		return nil, v, err
	}
	if err = p.enter(); err != nil {
		return nil, v, err
	}
	var early []byte // a payload that stands before its schema
	hasPayload := false
	for first := true; ; first = false {
		more, err := p.next('}', first)
		if err != nil {
			return nil, v, err
		}
		if !more {
			break
		}
		name, err := p.name()
		if err != nil {
			return nil, v, err
		}
		switch {
		case string(name) == "schema" && known == nil:
			if known, err = d.takeSchema(p); err != nil {
				return nil, v, err
			}
		case string(name) == "payload" && !hasPayload:
			hasPayload = true
			if known == nil {
				if early, err = p.span(); err != nil {
					return nil, v, err
				}
				continue
			}
			if known.reader == nil {
				v, err = p.schemaless()
			} else {
				v, err = p.typed(known.reader)
			}
			if err != nil {
				return nil, v, err
			}
		default:
			if err := p.skip(); err != nil {
				return nil, v, err
			}
			return nil, v, errNoEnvelope
		}
	}
	if err = p.end(); err != nil {
		return nil, v, err
	}
	if known == nil || !hasPayload {
		return nil, v, errNoEnvelope
	}
	if early != nil {
		v, err = d.payload(known.schema, early)
	}
	return known, v, err
}

// takeSchema takes an envelope's schema.
func (d *jsonDecoder) takeSchema(p *jsonParser) (*knownSchema, error) {
	p.peek()
	// The text of an object ends with its own brace, so that a prefix is the whole of it.
	if k := d.last; k != nil && k.schema != nil && len(p.data)-p.pos > len(k.text) && string(p.data[p.pos:p.pos+len(k.text)]) == k.text {
		p.pos += len(k.text)
		return k, nil
	}
	text, err := p.span()
	if err != nil {
		return nil, err
	}
	if e, ok := d.byText[string(text)]; ok {
		d.order.MoveToFront(e)
		d.last = e.Value.(*knownSchema)
		return d.last, nil
	}
	text = bytes.Clone(text) // names in the schema share it, and outlive the record
	s, err := d.schemaOf(text)
	if err != nil {
		return nil, err
	}
	k := &knownSchema{text: string(text), schema: s}
	if s != nil {
		if k.reader, err = d.reads.Get(s, d.compile); err != nil {
			return nil, err
		}
	}
	d.byText[k.text] = d.order.PushFront(k)
	d.last = k
	if d.order.Len() > d.limit {
		delete(d.byText, d.order.Remove(d.order.Back()).(*knownSchema).text)
	}
	return k, nil
}

// jsonReader reads the values of one schema.
type jsonReader struct {
	s      *schema.Schema
	kind   schema.Kind // of its values
	fields []*jsonReader
	key    *jsonReader // nil: schemaless
	elem   *jsonReader
	pairs  bool
	def    schema.Value // what null is read as; null: null
}

func (d *jsonDecoder) compile(s *schema.Schema) (*jsonReader, error) {
	return d.reader(s, map[*schema.Schema]*jsonReader{}), nil
}

func (d *jsonDecoder) reader(s *schema.Schema, seen map[*schema.Schema]*jsonReader) *jsonReader {
	if s == nil {
		return nil
	}
	if r := seen[s]; r != nil {
		return r
	}
	r := &jsonReader{s: s, kind: s.ValueKind()}
	seen[s] = r
	for _, f := range s.Fields() {
		r.fields = append(r.fields, d.reader(f.Schema, seen))
	}
	r.key, r.elem = d.reader(s.Key(), seen), d.reader(s.Elem(), seen)
	r.pairs = s.Kind() == schema.Map && s.Key() != nil && s.Key().Kind() != schema.String
	if def, ok := s.Default(); ok && d.replaceNull {
		r.def = def
	}
	return r
}

// null is what stands for a null or missing value.
func (r *jsonReader) null() (schema.Value, error) {
	if !r.def.IsNull() || r.s.Optional() {
		return r.def, nil
	}
	return schema.Value{}, &schema.DataError{Reason: fmt.Sprintf("Invalid null value for required %v field", r.s.Kind())}
}

// typed takes a value of the reader's schema; a nil reader is schemaless.
func (p *jsonParser) typed(r *jsonReader) (schema.Value, error) {
	if r == nil {
		return p.schemaless()
	}
	c := p.peek()
	if c == 'n' {
		if err := p.word("null"); err != nil {
			return schema.Value{}, err
		}
		return r.null()
	}
	switch r.kind {
	case schema.Struct:
		if c == '{' {
			return p.typedStruct(r)
		}
	case schema.String:
		if c == '"' {
			s, err := p.str()
			return schema.StringOfBytes(s), err
		}
	case schema.Bool:
		switch c {
		case 't':
			return schema.BoolValue(true), p.word("true")
		case 'f':
			return schema.BoolValue(false), p.word("false")
		}
	case schema.Int8, schema.Int16, schema.Int32, schema.Int64, schema.Date, schema.Time, schema.Timestamp:
		if c == '-' || c-'0' < 10 {
			return p.integer(r)
		}
	case schema.Float32, schema.Float64:
		return p.float(r, c)
	case schema.Bytes:
		if c == '"' {
			b, err := p.base64(r)
			return schema.BytesValue(b), err
		}
	case schema.Decimal:
		return p.decimal(r, c)
	case schema.Array:
		if c == '[' {
			return p.typedArray(r)
		}
	case schema.Map:
		if c == '{' && !r.pairs || c == '[' && (r.pairs || r.key == nil) {
			return p.typedMap(r, c)
		}
	}
	return schema.Value{}, p.mismatch(r)
}

// mismatch takes the value, which must at least be one, and says that the schema
// wants another kind.
func (p *jsonParser) mismatch(r *jsonReader) error {
	found := "a number"
	switch p.peek() {
	case '{':
		found = "an object"
	case '[':
		found = "an array"
	case '"':
		found = "a string"
	case 't', 'f':
		found = "a boolean"
	}
	if err := p.skip(); err != nil {
		return err
	}
	switch r.kind {
	case schema.Struct:
		return &schema.DataError{Reason: "Structs should be encoded as JSON objects, but found " + found}
	case schema.Decimal:
		return &schema.DataError{Reason: "Invalid type for Decimal, underlying representation should be numeric or bytes but was " + found}
	case schema.Date, schema.Time, schema.Timestamp:
		return &schema.DataError{Reason: fmt.Sprintf("Invalid type for %v, underlying representation should be integer but was %s", r.kind, found)}
	}
	return &schema.DataError{Reason: fmt.Sprintf("%s under the schema %s", found, r.s)}
}

func (p *jsonParser) typedStruct(r *jsonReader) (schema.Value, error) {
	if err := p.enter(); err != nil {
		return schema.Value{}, err
	}
	names := r.s.Fields()
	fields := p.arena.Values(len(names))
	at := 0 // fields usually stand in the schema's order
	for first := true; ; first = false {
		more, err := p.next('}', first)
		if err != nil {
			return schema.Value{}, err
		}
		if !more {
			break
		}
		name, err := p.name()
		if err != nil {
			return schema.Value{}, err
		}
		if at >= len(names) || string(name) != names[at].Name {
			if at = r.s.Index(schema.StringOfBytes(name).Str()); at < 0 {
				at = len(names)
				if err := p.skip(); err != nil { // as Connect: a field that the schema has not is left out
					return schema.Value{}, err
				}
				continue
			}
		}
		if fields[at], err = p.typed(r.fields[at]); err != nil {
			return schema.Value{}, underField(names[at].Name, err)
		}
		at++
	}
	for i := range fields {
		if f := r.fields[i]; fields[i].IsNull() && !(f.def.IsNull() && f.s.Optional()) {
			var err error
			if fields[i], err = f.null(); err != nil {
				return schema.Value{}, schema.Under(names[i].Name, err)
			}
		}
	}
	return p.arena.Struct(r.s, fields), nil
}

// underField names the field in data errors; an error of syntax has its position.
func underField(name string, err error) error {
	if _, ok := err.(*syntaxError); ok {
		return err
	}
	return schema.Under(name, err)
}

func (p *jsonParser) typedArray(r *jsonReader) (schema.Value, error) {
	if err := p.enter(); err != nil {
		return schema.Value{}, err
	}
	base := len(p.stack)
	for first := true; ; first = false {
		more, err := p.next(']', first)
		if err != nil {
			return schema.Value{}, err
		}
		if !more {
			return p.takeArray(base), nil
		}
		v, err := p.typed(r.elem)
		if err != nil {
			return schema.Value{}, underField("["+strconv.Itoa(len(p.stack)-base)+"]", err)
		}
		p.stack = append(p.stack, v)
	}
}

func (p *jsonParser) typedMap(r *jsonReader, open byte) (schema.Value, error) {
	if err := p.enter(); err != nil {
		return schema.Value{}, err
	}
	base := len(p.pairs)
	end := open + 2 // ] and } stand two behind [ and {
	for first := true; ; first = false {
		more, err := p.next(end, first)
		if err != nil {
			return schema.Value{}, err
		}
		if !more {
			return p.takeMap(base), nil
		}
		var e schema.Entry
		if open == '{' {
			name, err := p.name()
			if err != nil {
				return schema.Value{}, err
			}
			e.Key = schema.StringOfBytes(name)
		} else {
			if p.peek() != '[' {
				if err := p.skip(); err != nil {
					return schema.Value{}, err
				}
				return schema.Value{}, &schema.DataError{Reason: "Found invalid map entry instead of array tuple: a map whose keys are no strings is an array of pairs"}
			}
			p.pos++
			if e.Key, err = p.typed(r.key); err != nil {
				return schema.Value{}, underField("[key]", err)
			}
			if err := p.want(','); err != nil {
				return schema.Value{}, err
			}
		}
		if e.Value, err = p.typed(r.elem); err != nil {
			return schema.Value{}, underField(mapStep(e.Key), err)
		}
		if open == '[' {
			if err := p.want(']'); err != nil {
				return schema.Value{}, err
			}
		}
		p.pairs = append(p.pairs, e)
	}
}

var intBits = [...]uint{schema.Int8: 8, schema.Int16: 16, schema.Int32: 32, schema.Int64: 64, schema.Date: 32, schema.Time: 32, schema.Timestamp: 64}

// integer takes a whole number that the schema's kind holds; 1.0 and 1e3 are whole.
func (p *jsonParser) integer(r *jsonReader) (schema.Value, error) {
	text, n, whole, fits, err := p.number()
	if err != nil {
		return schema.Value{}, err
	}
	if !whole {
		if d, err := schema.ParseDecimal(string(text)); err == nil {
			if d, exact := d.Rescale(0); exact {
				n, fits = d.Unscaled64()
			}
		}
	}
	if bits := intBits[r.kind]; !fits || n<<(64-bits)>>(64-bits) != n {
		if len(text) > 40 {
			text = text[:40]
		}
		return schema.Value{}, &schema.DataError{Reason: fmt.Sprintf("%s is no value of %s", text, r.s)}
	}
	switch r.kind {
	case schema.Int8:
		return schema.Int8Value(int8(n)), nil
	case schema.Int16:
		return schema.Int16Value(int16(n)), nil
	case schema.Int32:
		return schema.Int32Value(int32(n)), nil
	case schema.Date:
		return schema.DateValue(n), nil
	case schema.Time:
		return schema.TimeValue(n), nil
	case schema.Timestamp:
		return schema.TimestampValue(n), nil
	}
	return schema.Int64Value(n), nil
}

// float takes a number, or one of the strings that stand for what JSON has not.
func (p *jsonParser) float(r *jsonReader, c byte) (schema.Value, error) {
	var f float64
	bits := 64
	if r.kind == schema.Float32 {
		bits = 32
	}
	switch {
	case c == '"':
		start := p.pos
		s, err := p.str()
		if err != nil {
			return schema.Value{}, err
		}
		special, ok := readSpecialFloat(string(s))
		if !ok {
			p.pos = start
			return schema.Value{}, p.mismatch(r)
		}
		f = special
	case c == '-' || c-'0' < 10:
		text, n, whole, fits, err := p.number()
		if err != nil {
			return schema.Value{}, err
		}
		if whole && fits && n > -1<<24 && n < 1<<24 {
			f = float64(n)
		} else if f, err = strconv.ParseFloat(schema.StringOfBytes(text).Str(), bits); err != nil {
			return schema.Value{}, &schema.DataError{Reason: fmt.Sprintf("a number beyond the range of %s", r.s)}
		}
	default:
		return schema.Value{}, p.mismatch(r)
	}
	if bits == 32 {
		return schema.Float32Value(float32(f)), nil
	}
	return schema.Float64Value(f), nil
}

func (p *jsonParser) base64(r *jsonReader) ([]byte, error) {
	s, err := p.str()
	if err != nil {
		return nil, err
	}
	out := p.arena.Bytes(base64.StdEncoding.DecodedLen(len(s)))
	n, err := base64.StdEncoding.Decode(out, s)
	if err != nil {
		return nil, &schema.DataError{Reason: fmt.Sprintf("a string that is no base64 under the schema %s", r.s)}
	}
	return out[:n:n], nil
}

// decimal takes base64 of the unscaled number, or a number, whatever the converter
// writes itself. A number of another scale than the schema's is rescaled where that
// loses nothing.
func (p *jsonParser) decimal(r *jsonReader, c byte) (schema.Value, error) {
	switch {
	case c == '"':
		b, err := p.base64(r)
		if err != nil {
			return schema.Value{}, err
		}
		if len(b) == 0 {
			return schema.Value{}, &schema.DataError{Reason: "Invalid bytes for Decimal field: no bytes"}
		}
		return schema.DecimalBytes(b, r.s.Scale()), nil
	case c == '-' || c-'0' < 10:
		text, _, _, _, err := p.number()
		if err != nil {
			return schema.Value{}, err
		}
		v, err := schema.ParseDecimal(string(text))
		if err != nil {
			return v, &schema.DataError{Reason: err.Error()}
		}
		exact, ok := v.Rescale(r.s.Scale())
		if !ok {
			return v, &schema.DataError{Reason: fmt.Sprintf("the decimal %s has more digits than the schema's scale %d holds", v.AppendDecimal(nil), r.s.Scale())}
		}
		return exact, nil
	}
	return schema.Value{}, p.mismatch(r)
}

// schemaOf makes a schema of its JSON text, which it shares. The text null is the
// nil schema.
func (d *jsonDecoder) schemaOf(text []byte) (*schema.Schema, error) {
	p := &jsonParser{data: text, arena: &d.arena}
	b, err := d.takeSchemaBuilder(p)
	if err == nil {
		err = p.end()
	}
	if err != nil || b == nil {
		return nil, err
	}
	s, err := b.TryBuild()
	if err != nil {
		return nil, badSchema("%v", err)
	}
	return s, nil
}

// schemaParts are the texts of a schema's members.
type schemaParts struct {
	kind, optional, name, version, doc, params, def, fields, items, keys, values, field []byte
}

func (q *schemaParts) at(name string) *[]byte {
	switch name {
	case "type":
		return &q.kind
	case "optional":
		return &q.optional
	case "name":
		return &q.name
	case "version":
		return &q.version
	case "doc":
		return &q.doc
	case "parameters":
		return &q.params
	case "default":
		return &q.def
	case "fields":
		return &q.fields
	case "items":
		return &q.items
	case "keys":
		return &q.keys
	case "values":
		return &q.values
	case "field":
		return &q.field
	}
	return nil
}

func (d *jsonDecoder) takeSchemaBuilder(p *jsonParser) (*schema.Builder, error) {
	text, err := p.span()
	if err != nil {
		return nil, err
	}
	b, _, err := d.schemaBuilder(text, 0)
	return b, err
}

func badSchema(format string, args ...any) error {
	return &schema.DataError{Reason: fmt.Sprintf(format, args...)}
}

// schemaBuilder starts the schema of a text that is known to be JSON. The field's
// name, where the schema is one's, is the second result. Null is a nil builder.
func (d *jsonDecoder) schemaBuilder(text []byte, depth int) (*schema.Builder, string, error) {
	if string(text) == "null" || text == nil {
		return nil, "", nil
	}
	if text[0] != '{' {
		return nil, "", badSchema("a schema is a JSON object")
	}
	q := schemaParts{}
	p := &jsonParser{data: text, arena: &d.arena}
	p.pos++
	for first := true; ; first = false {
		more, err := p.next('}', first)
		if err != nil {
			return nil, "", err
		}
		if !more {
			break
		}
		name, err := p.name()
		if err != nil {
			return nil, "", err
		}
		part, err := p.span()
		if err != nil {
			return nil, "", err
		}
		if at := q.at(string(name)); at != nil {
			*at = part
		}
	}
	if q.kind == nil || q.kind[0] != '"' {
		return nil, "", badSchema("Schema must contain 'type' field")
	}
	b, err := d.startSchema(&q, depth)
	if err != nil {
		return nil, "", err
	}
	if string(q.optional) == "true" {
		b.Optional()
	}
	if name, ok := jsonText(q.name); ok {
		b.Name(name)
	}
	if q.version != nil {
		n, err := strconv.ParseInt(string(q.version), 10, 32)
		if err != nil && string(q.version) != "null" {
			return nil, "", badSchema("a schema's version %s is no 32-bit integer", q.version)
		}
		if err == nil {
			b.Version(int32(n))
		}
	}
	if doc, ok := jsonText(q.doc); ok {
		b.Doc(doc)
	}
	if err := d.schemaParams(b, q.params); err != nil {
		return nil, "", err
	}
	if q.def != nil && string(q.def) != "null" {
		if err := d.schemaDefault(b, q.def); err != nil {
			return nil, "", err
		}
	}
	field, _ := jsonText(q.field)
	return b, field, nil
}

// jsonText is the string that a text is, and whether it is one.
func jsonText(text []byte) (string, bool) {
	if len(text) == 0 || text[0] != '"' {
		return "", false
	}
	p := jsonParser{data: text}
	s, err := p.str()
	return string(s), err == nil
}

// part makes the schema of a map's or array's part.
func (d *jsonDecoder) part(text []byte, depth int, missing string) (*schema.Schema, error) {
	b, _, err := d.schemaBuilder(text, depth+1)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, badSchema("%s", missing)
	}
	return b.TryBuild()
}

// startSchema starts the schema of the type that the parts name.
func (d *jsonDecoder) startSchema(q *schemaParts, depth int) (*schema.Builder, error) {
	if depth > maxDepth/4 {
		return nil, badSchema("a schema nested deeper than %d", maxDepth/4)
	}
	kind, _ := jsonText(q.kind)
	switch kind {
	case "array":
		items, err := d.part(q.items, depth, "Array schema did not specify the element type")
		return schema.ArrayOf(items), err
	case "map":
		keys, err := d.part(q.keys, depth, "Map schema did not specify the key type")
		if err != nil {
			return nil, err
		}
		values, err := d.part(q.values, depth, "Map schema did not specify the value type")
		return schema.MapOf(keys, values), err
	case "struct":
		return d.structSchema(q.fields, depth)
	}
	for k, name := range jsonTypes {
		if name == kind && name != "" {
			return schema.New(schema.Kind(k)), nil
		}
	}
	return nil, badSchema("Unknown schema type: %s", kind)
}

func (d *jsonDecoder) structSchema(fields []byte, depth int) (*schema.Builder, error) {
	if fields == nil || fields[0] != '[' {
		return nil, badSchema("Struct schema's \"fields\" argument is not an array.")
	}
	b := schema.NewStruct("")
	p := &jsonParser{data: fields, arena: &d.arena, pos: 1}
	for first := true; ; first = false {
		more, err := p.next(']', first)
		if err != nil || !more {
			return b, err
		}
		text, err := p.span()
		if err != nil {
			return nil, err
		}
		part, name, err := d.schemaBuilder(text, depth+1)
		if err != nil {
			return nil, underField(name, err)
		}
		if part == nil || name == "" && !bytes.Contains(text, []byte(`"field"`)) {
			return nil, badSchema("Struct schema's field name not specified properly")
		}
		s, err := part.TryBuild()
		if err != nil {
			return nil, err
		}
		b.Field(name, s)
	}
}

func (d *jsonDecoder) schemaParams(b *schema.Builder, text []byte) error {
	if text == nil || string(text) == "null" {
		return nil
	}
	if text[0] != '{' {
		return badSchema("Schema parameters must be a JSON object")
	}
	p := &jsonParser{data: text, arena: &d.arena}
	v, err := p.schemaless()
	if err != nil {
		return err
	}
	for _, e := range v.Entries() {
		if e.Value.Kind() != schema.String {
			return badSchema("Schema parameters must have string values.")
		}
		b.Param(e.Key.Str(), e.Value.Str())
	}
	return nil
}

// schemaDefault reads the default by the schema as it is so far.
func (d *jsonDecoder) schemaDefault(b *schema.Builder, text []byte) error {
	s, err := b.TryBuild()
	if err != nil {
		return err
	}
	p := &jsonParser{data: text, arena: &d.arena}
	v, err := p.typed(d.reader(s, map[*schema.Schema]*jsonReader{}))
	if err != nil {
		return fmt.Errorf("a schema's default: %w", err)
	}
	b.Default(v)
	return nil
}
