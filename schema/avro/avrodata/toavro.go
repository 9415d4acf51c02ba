package avrodata

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"millrace/schema"
	"millrace/schema/avro"
	"millrace/schema/registry"
)

// A Mapper maps schemas. It is used by one goroutine at a time.
type Mapper struct {
	Options Options
	unions  int // general unions named so far
}

// ToAvro is the Avro schema of a Connect schema; nil stands for data without one. Errors are data errors that name the field.
func (m *Mapper) ToAvro(s *schema.Schema) (*avro.Schema, error) {
	b := &builder{o: m.Options, named: map[string]*avro.Type{}, seen: map[string]bool{}}
	t, err := b.typ(s, false)
	if err != nil {
		return nil, err
	}
	parsed, err := avro.Parse(t.String(), registry.ParseOptions{New: true})
	if err != nil {
		remedy := ""
		if !m.Options.Scrub {
			remedy = "; set scrub.invalid.names=true, or, where a database connector made the names, its schema.name.adjustment.mode and field.name.adjustment.mode to avro"
		}
		return nil, &schema.DataError{Reason: fmt.Sprintf("the schema %s has no form in Avro: %v%s", s, err, remedy)}
	}
	return parsed, nil
}

// Anything is the schema of data that has none.
var anything = func() *avro.Schema {
	s, err := avro.Parse(anythingText, registry.ParseOptions{New: true})
	if err != nil {
		panic("avrodata: " + err.Error())
	}
	return s
}()

// anythingEntry is the type of a pair in a map that has no schema.
var anythingEntry = anything.Type().Fields[anyMap].Type.Branches[1].Elem

const anythingText = `{"type":"record","name":"Anything","namespace":"io.confluent.connect.avro","fields":[` +
	`{"name":"boolean","type":["null","boolean"],"default":null},{"name":"bytes","type":["null","bytes"],"default":null},` +
	`{"name":"double","type":["null","double"],"default":null},{"name":"float","type":["null","float"],"default":null},` +
	`{"name":"int","type":["null","int"],"default":null},{"name":"long","type":["null","long"],"default":null},` +
	`{"name":"string","type":["null","string"],"default":null},` +
	`{"name":"array","type":["null",{"type":"array","items":"Anything"}],"default":null},` +
	`{"name":"map","type":["null",{"type":"array","items":{"type":"record","name":"MapEntry","fields":[{"name":"key","type":"Anything"},{"name":"value","type":"Anything"}]}}],"default":null}]}`

// builder makes the Avro type of one Connect schema.
type builder struct {
	o       Options
	done    schema.Cache[*avro.Type] // required schemas met before
	open    []openRecord             // structs whose fields are being made, the outermost first
	named   map[string]*avro.Type    // nil while its parts are being made
	seen    map[string]bool          // Connect names met in fields
	unnamed int
}

// openRecord is a struct with its record.
type openRecord struct {
	s *schema.Schema
	t *avro.Type
}

// around is the record that s mentions from inside, or nil: one of a struct that has the same name and fields. What describes the two
// may differ.
func (b *builder) around(s *schema.Schema) *avro.Type {
	if !s.Recursive() || s.Kind() != schema.Struct {
		return nil
	}
	for i := len(b.open) - 1; i >= 0; i-- {
		if o := b.open[i]; o.s.Name() == s.Name() && schema.EqualFields(o.s, s) {
			return o.t
		}
	}
	return nil
}

func wrong(format string, args ...any) error {
	return &schema.DataError{Reason: fmt.Sprintf(format, args...)}
}

// typ is the type of s; bare leaves null out where s is optional.
func (b *builder) typ(s *schema.Schema, bare bool) (*avro.Type, error) {
	if s == nil {
		_, err := b.only(anythingEntry)
		return anything.Type(), err
	}
	if s.Optional() || isUnion(s) {
		return b.fresh(s, bare)
	}
	if t := b.around(s); t != nil {
		return t, nil
	}
	return b.done.Get(s, func(s *schema.Schema) (*avro.Type, error) { return b.fresh(s, bare) })
}

var primitiveOf = [...]avro.Kind{
	schema.Bool: avro.Boolean, schema.Int8: avro.Int, schema.Int16: avro.Int, schema.Int32: avro.Int, schema.Int64: avro.Long,
	schema.Float32: avro.Float, schema.Float64: avro.Double, schema.String: avro.String, schema.Bytes: avro.Bytes,
}

func (b *builder) fresh(s *schema.Schema, bare bool) (*avro.Type, error) {
	switch s.Kind() {
	case schema.Struct:
		if isUnion(s) {
			return b.union(s)
		}
		if s.Optional() && !bare {
			t, err := b.typ(required(s), false)
			if err != nil {
				return nil, err
			}
			return unionOf(nullType, t), nil
		}
	}
	t, err := b.base(s)
	if err != nil {
		return nil, err
	}
	if err := b.describe(t, s); err != nil {
		return nil, err
	}
	if t, err = b.only(t); err != nil {
		return nil, err
	}
	switch _, has := s.Default(); {
	case !s.Optional() || bare:
		return t, nil
	case has:
		return unionOf(t, nullType), nil
	default:
		return unionOf(nullType, t), nil
	}
}

var nullType = &avro.Type{Kind: avro.Null}

func unionOf(branches ...*avro.Type) *avro.Type {
	return &avro.Type{Kind: avro.Union, Branches: branches}
}

// required is s without its optionality.
func required(s *schema.Schema) *schema.Schema {
	if !s.Optional() {
		return s
	}
	r := schema.From(s).SetOptional(false)
	for _, f := range s.Fields() {
		r.Field(f.Name, f.Schema)
	}
	return r.Build()
}

func isUnion(s *schema.Schema) bool {
	if s == nil || s.Kind() != schema.Struct {
		return false
	}
	_, general := s.Param(generalUnion)
	return general || s.Name() == typeUnion
}

func isEnum(s *schema.Schema) bool {
	_, general := s.Param(generalEnum)
	_, own := s.Param(typeEnum)
	return s.Kind() == schema.String && (general || own)
}

func isFixed(s *schema.Schema) bool {
	_, sized := s.Param(fixedSize)
	return s.Kind() == schema.Bytes && s.Name() != "" && sized
}

func (b *builder) union(s *schema.Schema) (*avro.Type, error) {
	t := &avro.Type{Kind: avro.Union}
	if s.Optional() {
		t.Branches = append(t.Branches, nullType)
	}
	for _, f := range s.Fields() {
		branch, err := b.typ(required(f.Schema), true)
		if err != nil {
			return nil, schema.Under(f.Name, err)
		}
		t.Branches = append(t.Branches, branch)
	}
	return t, nil
}

// base is the type of s without properties of its schema.
func (b *builder) base(s *schema.Schema) (*avro.Type, error) {
	switch s.Kind() {
	case schema.String:
		if (b.o.Enhanced || b.o.GeneralizedSums) && isEnum(s) {
			return b.enum(s)
		}
	case schema.Bytes:
		t := &avro.Type{Kind: avro.Bytes}
		if isFixed(s) {
			text, _ := s.Param(fixedSize)
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return nil, wrong("the parameter %s of the schema %s is %q, and no size", fixedSize, s, text)
			}
			t.Kind, t.Name, t.Size = avro.Fixed, b.name(s.Name()), n
		}
		if s.Name() == schema.DecimalName {
			t.Props = append(t.Props, avro.Prop{Name: schema.ScaleParam, Value: avro.IntJSON(int64(s.Scale()))})
			precision, err := precisionOf(s)
			if err != nil {
				return nil, err
			}
			t.Props = append(t.Props, avro.Prop{Name: "precision", Value: avro.IntJSON(int64(precision))})
		}
		return t, nil
	case schema.Array:
		elem, err := b.typ(s.Elem(), false)
		if err != nil {
			return nil, schema.Under("[]", err)
		}
		return &avro.Type{Kind: avro.Array, Elem: elem}, nil
	case schema.Map:
		return b.mapping(s)
	case schema.Struct:
		return b.record(s)
	}
	return &avro.Type{Kind: primitiveOf[s.Kind()]}, nil
}

func precisionOf(s *schema.Schema) (int, error) {
	text, ok := s.Param(schema.PrecisionParam)
	if !ok {
		return defaultPrecision, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, wrong("the parameter %s of the schema %s is %q, and no whole number", schema.PrecisionParam, s, text)
	}
	return int(n), nil
}

// name splits a Connect name, or makes one up.
func (b *builder) name(full string) avro.Name {
	if full != "" {
		return splitName(full, b.o.Scrub)
	}
	b.unnamed++
	if b.unnamed == 1 {
		return avro.Name{Local: defaultName, Space: namespace}
	}
	return avro.Name{Local: defaultName + strconv.Itoa(b.unnamed), Space: namespace}
}

func splitName(full string, scrub bool) avro.Name {
	full = strings.TrimRight(full, ".")
	if scrub {
		parts := strings.Split(full, ".")
		for i := range parts {
			parts[i] = scrubbed(parts[i])
		}
		full = strings.Join(parts, ".")
	}
	return avro.NameOf(full, "")
}

// scrubbed makes a name legal as Confluent's doScrubName does: bytes that may not stand in a URL are written as in one, with _ for
// all that is no letter or digit, and x stands before a digit.
func scrubbed(name string) string {
	plain := func(c byte) bool {
		return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	}
	ok := name == "" || name[0] < '0' || name[0] > '9'
	for i := 0; ok && i < len(name); i++ {
		ok = plain(name[i])
	}
	if ok {
		return name
	}
	out := make([]byte, 0, len(name)+8)
	if name[0] >= '0' && name[0] <= '9' {
		out = append(out, 'x')
	}
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case plain(c):
			out = append(out, c)
		case c == '-' || c == '.' || c == '*' || c == ' ': // what a URL has a character of its own for
			out = append(out, '_')
		default:
			out = append(out, '_', hex[c>>4], hex[c&15])
		}
	}
	return string(out)
}

func (b *builder) enum(s *schema.Schema) (*avro.Type, error) {
	param := typeEnum
	if b.o.GeneralizedSums {
		param = generalEnum
	}
	own := b.name(s.Name()).Local
	name, ok := s.Param(param)
	if !ok {
		return nil, wrong("an enum without the parameter %s", param)
	}
	t := &avro.Type{Kind: avro.Enum, Name: avro.NameOf(name, "")}
	for _, p := range s.Params() {
		if symbol, ok := strings.CutPrefix(p.Key, param+"."); ok {
			t.Symbols = append(t.Symbols, symbol)
		}
	}
	doc := enumDoc + own
	if b.o.DiscardDocs {
		doc = connectEnumDoc
	} else if def, ok := s.Param(enumDefault + own); ok {
		t.Default = &def
	}
	if text, ok := s.Param(doc); ok {
		t.Doc = &text
	}
	return t, nil
}

func (b *builder) stringKeys(s *schema.Schema) bool {
	return s.Key() != nil && s.Key().Kind() == schema.String && (!s.Key().Optional() || b.o.OptionalMapKeys)
}

func (b *builder) mapping(s *schema.Schema) (*avro.Type, error) {
	if b.stringKeys(s) {
		elem, err := b.typ(s.Elem(), false)
		if err != nil {
			return nil, schema.Under("[value]", err)
		}
		return &avro.Type{Kind: avro.Map, Elem: elem}, nil
	}
	entry := &avro.Type{Kind: avro.Record, Name: avro.Name{Local: mapEntry, Space: namespace}}
	if s.Name() != "" {
		entry.Name = b.name(s.Name())
		entry.Props = append(entry.Props, avro.Prop{Name: connectInternal, Value: avro.StringJSON(mapEntry)})
	}
	err := b.begin(entry)
	if err == nil {
		err = b.field(entry, keyField, s.Key(), nil)
	}
	if err == nil {
		err = b.field(entry, valueField, s.Elem(), nil)
	}
	if err != nil {
		return nil, err
	}
	if entry, err = b.only(entry); err != nil {
		return nil, err
	}
	return &avro.Type{Kind: avro.Array, Elem: entry}, nil
}

func (b *builder) record(s *schema.Schema) (*avro.Type, error) {
	t := &avro.Type{Kind: avro.Record, Name: b.name(s.Name())}
	doc := recordDoc
	if b.o.DiscardDocs {
		doc = connectRecordDoc
	}
	if text, ok := s.Param(doc); ok {
		t.Doc = &text
	}
	if err := b.begin(t); err != nil {
		return nil, err
	}
	b.open = append(b.open, openRecord{s, t})
	defer func() { b.open = b.open[:len(b.open)-1] }()
	for _, f := range s.Fields() {
		var doc *string
		if text, ok := s.Param(fieldDoc + f.Name); ok && !b.o.DiscardDocs {
			doc = &text
		}
		name := f.Name
		if b.o.Scrub {
			name = scrubbed(name)
		}
		if err := b.field(t, name, f.Schema, doc); err != nil {
			return nil, schema.Under(f.Name, err)
		}
	}
	return t, nil
}

// begin notes that a named type's parts are being made: one of its name inside it would be taken for the type itself.
func (b *builder) begin(t *avro.Type) error {
	full := t.Name.Full()
	if first, begun := b.named[full]; begun && first == nil {
		return wrong("a struct named %q inside another of that name; in Avro it would be the same one", full)
	} else if !begun {
		b.named[full] = nil
	}
	return nil
}

// only sees to it that a name stands for one type: Avro's texts define a name once.
func (b *builder) only(t *avro.Type) (*avro.Type, error) {
	if !t.Kind.Named() {
		return t, nil
	}
	full := t.Name.Full()
	first := b.named[full]
	switch {
	case first == nil:
		b.named[full] = t
		return t, nil
	case shapes{}.same(first, t):
		return first, nil
	}
	return nil, wrong("two different types have the name %q; a name stands for one type in Avro", full)
}

// readBy are the properties that decide what a reader makes of data of the same form.
var readBy = []string{connectType, connectName, connectInternal, logicalType, schema.ScaleParam}

// shapes are pairs of records that were compared, or are being compared.
type shapes map[[2]*avro.Type]bool

// same reports whether data of both types have the same form, and are read as the same.
func (m shapes) same(a, b *avro.Type) bool {
	pair := [2]*avro.Type{a, b}
	if a == b || m[pair] {
		return true
	}
	for _, name := range readBy {
		if !a.SameProp(b, name) {
			return false
		}
	}
	if a.Kind != b.Kind || a.Name != b.Name || a.Size != b.Size || len(a.Fields) != len(b.Fields) || len(a.Branches) != len(b.Branches) || !slices.Equal(a.Symbols, b.Symbols) {
		return false
	}
	if a.Kind == avro.Record {
		m[pair] = true
	}
	for i := range a.Fields {
		if a.Fields[i].Name != b.Fields[i].Name || !m.same(a.Fields[i].Type, b.Fields[i].Type) {
			return false
		}
	}
	for i := range a.Branches {
		if !m.same(a.Branches[i], b.Branches[i]) {
			return false
		}
	}
	return a.Elem == nil || m.same(a.Elem, b.Elem)
}

func (b *builder) field(t *avro.Type, name string, s *schema.Schema, doc *string) error {
	f := avro.Field{Name: name, Doc: doc}
	if s == nil {
		f.Type = anything.Type()
		t.Fields = append(t.Fields, f)
		return nil
	}
	var def *avro.JSON
	if v, has := s.Default(); has {
		var err error
		if def, err = b.value(s, v); err != nil {
			return err
		}
	} else if s.Optional() {
		def = avro.NullJSON
	}
	again := false
	if s.Name() != "" {
		full := splitName(s.Name(), b.o.Scrub).Full()
		again = b.seen[full]
		b.seen[full] = true
	}
	var err error
	if f.Type, err = b.typ(s, false); err != nil {
		return err
	}
	if b.o.DiscardDocs {
		f.Doc = nil
		if d := s.Doc(); d != "" {
			f.Doc = &d
		}
	}
	if def != nil && avro.ValidDefault(f.Type, def) {
		f.Default = def
	}
	// A type that was described before keeps those words; what this mention adds stands at the field.
	if b.o.MetaData && again && mentionsName(f.Type) {
		if p := b.params(s); p != nil {
			f.Props = append(f.Props, avro.Prop{Name: connectParameters, Value: p})
		}
	}
	t.Fields = append(t.Fields, f)
	return nil
}

func mentionsName(t *avro.Type) bool {
	for _, branch := range t.Branches {
		if branch.Kind.Named() {
			return true
		}
	}
	return t.Kind.Named()
}

// params are a schema's parameters as a property, or nil.
func (b *builder) params(s *schema.Schema) *avro.JSON {
	var keys []string
	var values []*avro.JSON
	for _, p := range s.Params() {
		if b.o.DiscardDocs || p.Key != fieldDefault {
			keys, values = append(keys, p.Key), append(values, avro.StringJSON(p.Value))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return avro.ObjectJSON(keys, values)
}

// describe adds the properties that keep what Avro has no words for, and the logical type.
func (b *builder) describe(t *avro.Type, s *schema.Schema) error {
	add := func(name string, v *avro.JSON) {
		if t.Prop(name) == nil {
			t.Props = append(t.Props, avro.Prop{Name: name, Value: v})
		}
	}
	if b.o.MetaData {
		if s.Doc() != "" {
			add(connectDoc, avro.StringJSON(s.Doc()))
		}
		if n, ok := s.Version(); ok {
			add(connectVersion, avro.IntJSON(int64(n)))
		}
		if p := b.params(s); p != nil {
			add(connectParameters, p)
		}
		if v, has := s.Default(); has {
			if _, fields := s.Param(fieldDefault); b.o.DiscardDocs || !fields {
				j, err := b.value(s, v)
				if err != nil {
					return err
				}
				add(connectDefault, j)
			}
		}
		if s.Name() != "" {
			add(connectName, avro.StringJSON(s.Name()))
		}
		switch s.Kind() {
		case schema.Int8:
			add(connectType, avro.StringJSON("int8"))
		case schema.Int16:
			add(connectType, avro.StringJSON("int16"))
		}
	}
	switch s.ValueKind() {
	case schema.Decimal:
		// One whose scale Avro does not allow has the name alone, which readers other than Connect's ignore.
		precision, err := precisionOf(s)
		if err != nil {
			return err
		}
		if precision <= 0 {
			return wrong("the precision of the schema %s is %d", s, precision)
		}
		add(logicalType, avro.StringJSON(decimal))
	case schema.Date:
		add(logicalType, avro.StringJSON("date"))
	case schema.Time:
		add(logicalType, avro.StringJSON("time-millis"))
	case schema.Timestamp:
		add(logicalType, avro.StringJSON("timestamp-millis"))
	}
	for _, p := range s.Params() {
		if strings.HasPrefix(p.Key, "avro") {
			add(p.Key, avro.StringJSON(p.Value))
		}
	}
	return nil
}

// value is a default as JSON.
func (b *builder) value(s *schema.Schema, v schema.Value) (*avro.JSON, error) {
	if v.IsNull() {
		return avro.NullJSON, nil
	}
	switch v.Kind() {
	case schema.Bool:
		return avro.BoolJSON(v.Bool()), nil
	case schema.Int8, schema.Int16, schema.Int32, schema.Int64, schema.Date, schema.Time, schema.Timestamp:
		return avro.IntJSON(v.Int()), nil
	case schema.Float32:
		return avro.Float32JSON(float32(v.Float())), nil
	case schema.Float64:
		return avro.FloatJSON(v.Float()), nil
	case schema.String:
		return avro.StringJSON(v.Str()), nil
	case schema.Bytes:
		return latin1(v.Bytes()), nil
	case schema.Decimal:
		return latin1(v.AppendUnscaled(nil)), nil
	case schema.Array:
		items := make([]*avro.JSON, len(v.Elems()))
		for i, e := range v.Elems() {
			j, err := b.value(s.Elem(), e)
			if err != nil {
				return nil, err
			}
			items[i] = j
		}
		return avro.ArrayJSON(items...), nil
	case schema.Map:
		return b.mapValue(s, v)
	case schema.Struct:
		var names []string
		var values []*avro.JSON
		for i, f := range s.Fields() {
			j, err := b.value(f.Schema, v.At(i))
			if err != nil || isUnion(s) {
				return j, err
			}
			name := f.Name
			if b.o.Scrub {
				name = scrubbed(name)
			}
			names, values = append(names, name), append(values, j)
		}
		return avro.ObjectJSON(names, values), nil
	}
	return nil, wrong("a default of kind %v", v.Kind())
}

func (b *builder) mapValue(s *schema.Schema, v schema.Value) (*avro.JSON, error) {
	var names []string
	var values []*avro.JSON
	for _, e := range v.Entries() {
		value, err := b.value(s.Elem(), e.Value)
		if err != nil {
			return nil, err
		}
		if b.stringKeys(s) {
			names, values = append(names, e.Key.Str()), append(values, value)
			continue
		}
		key, err := b.value(s.Key(), e.Key)
		if err != nil {
			return nil, err
		}
		values = append(values, avro.ArrayJSON(key, value))
	}
	if b.stringKeys(s) {
		return avro.ObjectJSON(names, values), nil
	}
	return avro.ArrayJSON(values...), nil
}

// latin1 is bytes as Avro writes them in JSON: a character of that number for each.
func latin1(b []byte) *avro.JSON {
	text := make([]rune, len(b))
	for i, c := range b {
		text[i] = rune(c)
	}
	return avro.StringJSON(string(text))
}
