package avrodata

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"millrace/schema"
	"millrace/schema/avro"
)

// NoVersion is the version of a schema that no registry has numbered.
const NoVersion = 0

// ToConnect is the Connect schema of data written with t, version being the number of the schema in the registry. It is nil for data
// that had no schema when it was written.
func (m *Mapper) ToConnect(t *avro.Type, version int32) (*schema.Schema, error) {
	r := &reader{m: m, o: m.Options, open: map[*avro.Type]*schema.Builder{}, pairs: map[*avro.Type]bool{}}
	return r.typ(t, mention{version: version})
}

// maxSchemas bounds what a schema may become when each mention of a type is written out: types that mention the next one twice
// double with each.
const maxSchemas = 100_000

// reader makes the Connect schema of one Avro type.
type reader struct {
	m     *Mapper
	o     Options
	open  map[*avro.Type]*schema.Builder // records whose fields are being made
	pairs map[*avro.Type]bool            // pairs of maps, likewise
	made  int
}

// mention is what the place of a type says of it.
type mention struct {
	optional bool
	def      *avro.JSON // of a field, or nil
	doc      *string    // of a field
	version  int32
}

func (r *reader) typ(t *avro.Type, at mention) (*schema.Schema, error) {
	if r.made++; r.made > maxSchemas {
		return nil, wrong("the schema describes more than %d fields and types when each mention of a type is counted", maxSchemas)
	}
	if isAnything(t) {
		return nil, nil
	}
	if b := r.open[t]; b != nil {
		return b.Self(at.optional), nil
	}
	d, err := r.base(t, at)
	if err != nil {
		return nil, err
	}
	if d.flat {
		return d.member, nil
	}
	return r.finish(d, t, at)
}

func isAnything(t *avro.Type) bool {
	return t.Kind == avro.Record && t.Name == anything.Type().Name && (t == anything.Type() || sameFlat(t))
}

// sameFlat compares the fields of what may be Anything, which is part of itself, by their names.
func sameFlat(t *avro.Type) bool {
	own := anything.Type()
	if len(t.Fields) != len(own.Fields) {
		return false
	}
	for i := range t.Fields {
		f, o := &t.Fields[i], &own.Fields[i]
		if null, branch := nullable(f.Type); f.Name != o.Name || null != 0 || f.Type.Branches[branch].Kind != o.Type.Branches[1].Kind {
			return false
		}
	}
	elem := t.Fields[anyMap].Type.Branches[1].Elem
	return t.Fields[anyArray].Type.Branches[1].Elem == t && isEntry(elem) && len(elem.Fields) == 2 && elem.Fields[0].Type == t && elem.Fields[1].Type == t
}

// draft is a schema that is being made: what it is, and what was set by its kind.
type draft struct {
	*schema.Builder
	name    string
	version bool
	flat    bool           // a union that is one of its branches:
	member  *schema.Schema // whose schema stands for it
}

func of(k schema.Kind) *draft { return &draft{Builder: schema.New(k)} }

func (r *reader) base(t *avro.Type, at mention) (*draft, error) {
	logical := t.Prop(logicalType).Str()
	switch t.Kind {
	case avro.Boolean:
		return of(schema.Bool), nil
	case avro.Bytes, avro.Fixed:
		return r.bytes(t, logical)
	case avro.Double:
		return of(schema.Float64), nil
	case avro.Float:
		return of(schema.Float32), nil
	case avro.Int:
		switch {
		case strings.EqualFold(logical, "date"):
			return &draft{Builder: schema.DateOf(), name: schema.DateName, version: true}, nil
		case strings.EqualFold(logical, "time-millis"):
			return &draft{Builder: schema.TimeOf(), name: schema.TimeName, version: true}, nil
		}
		switch kind := t.Prop(connectType); {
		case logical != "" || !kind.IsString():
			return of(schema.Int32), nil
		case kind.Str() == "int8":
			return of(schema.Int8), nil
		case kind.Str() == "int16":
			return of(schema.Int16), nil
		default:
			return nil, wrong("an int with the %s %s; it is int8 or int16", connectType, kind)
		}
	case avro.Long:
		if strings.EqualFold(logical, "timestamp-millis") {
			return &draft{Builder: schema.TimestampOf(), name: schema.TimestampName, version: true}, nil
		}
		return of(schema.Int64), nil
	case avro.String:
		return of(schema.String), nil
	case avro.Array:
		return r.array(t)
	case avro.Map:
		elem, err := r.typ(t.Elem, mention{})
		if err != nil {
			return nil, schema.Under("[value]", err)
		}
		return &draft{Builder: schema.MapOf(schema.StringSchema, elem)}, nil
	case avro.Record:
		return r.record(t)
	case avro.Enum:
		return r.enum(t), nil
	case avro.Union:
		return r.union(t, at)
	}
	return nil, wrong("null alone has no schema in Connect; it stands in unions only")
}

func (r *reader) bytes(t *avro.Type, logical string) (*draft, error) {
	d := of(schema.Bytes)
	if strings.EqualFold(logical, decimal) {
		scale, _ := t.Prop(schema.ScaleParam).Int() // none is zero
		if scale < math.MinInt32 || scale > math.MaxInt32 {
			return nil, wrong("a decimal of scale %d", scale)
		}
		d = &draft{Builder: schema.DecimalOf(int32(scale)), name: schema.DecimalName, version: true}
		if p := t.Prop("precision"); p != nil {
			n, ok := p.Int()
			if !ok {
				return nil, wrong("a decimal whose precision is %s, and no whole number", p)
			}
			if n != defaultPrecision {
				d.Param(schema.PrecisionParam, strconv.FormatInt(n, 10))
			}
		}
	}
	if t.Kind == avro.Fixed {
		d.Param(fixedSize, strconv.Itoa(t.Size))
	}
	return d, nil
}

func isEntry(t *avro.Type) bool {
	return t.Kind == avro.Record && (t.Name == avro.Name{Local: mapEntry, Space: namespace} || t.Prop(connectInternal).Str() == mapEntry)
}

func (r *reader) array(t *avro.Type) (*draft, error) {
	if !isEntry(t.Elem) {
		elem, err := r.typ(t.Elem, mention{})
		if err != nil {
			return nil, schema.Under("[]", err)
		}
		return &draft{Builder: schema.ArrayOf(elem)}, nil
	}
	k, v := t.Elem.Field(keyField), t.Elem.Field(valueField)
	if len(t.Elem.Fields) != 2 || k < 0 || v < 0 {
		return nil, wrong("a map as an array of pairs, whose pairs have other fields than %s and %s", keyField, valueField)
	}
	if isAnything(t.Elem.Fields[k].Type) && isAnything(t.Elem.Fields[v].Type) {
		return &draft{Builder: schema.MapOf(nil, nil)}, nil
	}
	if r.pairs[t.Elem] {
		return nil, wrong("a map as an array of pairs is a part of its own pairs (%s); Connect has recursive structs, and no recursive maps", t.Elem.FullName())
	}
	r.pairs[t.Elem] = true
	defer delete(r.pairs, t.Elem)
	key, err := r.typ(t.Elem.Fields[k].Type, mention{})
	if err != nil {
		return nil, schema.Under("[key]", err)
	}
	value, err := r.typ(t.Elem.Fields[v].Type, mention{})
	if err != nil {
		return nil, schema.Under("[value]", err)
	}
	return &draft{Builder: schema.MapOf(key, value)}, nil
}

func (r *reader) record(t *avro.Type) (*draft, error) {
	d := of(schema.Struct)
	r.open[t] = d.Builder
	defer delete(r.open, t)
	if !r.o.DiscardDocs && r.o.MetaData && t.Doc != nil {
		d.Param(recordDoc, *t.Doc)
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if !r.o.DiscardDocs && r.o.MetaData && f.Doc != nil {
			d.Param(fieldDoc+f.Name, *f.Doc)
		}
		s, err := r.typ(f.Type, mention{def: f.Default, doc: f.Doc})
		if err != nil {
			return nil, schema.Under(f.Name, err)
		}
		if s == nil {
			return nil, schema.Under(f.Name, wrong("data without a schema inside a record has no form in Connect"))
		}
		if p := f.Prop(connectParameters); r.o.MetaData && p != nil && p.Kind == avro.JSONObject && !r.mentionsOpen(f.Type) {
			s = withParams(s, p)
		}
		d.Field(f.Name, s)
	}
	return d, nil
}

// mentionsOpen reports whether t is a record whose fields are being made, or null. As in the original, such a mention differs from
// the record in its optionality alone.
func (r *reader) mentionsOpen(t *avro.Type) bool {
	if _, branch := nullable(t); branch >= 0 {
		t = t.Branches[branch]
	}
	return r.open[t] != nil
}

// withParams adds the parameters that a field has of its own.
func withParams(s *schema.Schema, p *avro.JSON) *schema.Schema {
	same := true
	text := func(i int) string {
		if v := p.At(i); v.IsString() {
			return v.Str()
		}
		return p.At(i).String()
	}
	for i, k := range p.Names() {
		if v, ok := s.Param(k); !ok || v != text(i) {
			same = false
		}
	}
	if same {
		return s
	}
	b := schema.From(s)
	for _, f := range s.Fields() {
		b.Field(f.Name, f.Schema)
	}
	for i, k := range p.Names() {
		b.Param(k, text(i))
	}
	with, err := b.TryBuild()
	if err != nil {
		return s
	}
	return with
}

func (r *reader) enum(t *avro.Type) *draft {
	d := of(schema.String)
	if r.o.MetaData {
		if t.Doc != nil {
			if r.o.DiscardDocs {
				d.Param(connectEnumDoc, *t.Doc)
			} else {
				d.Param(enumDoc+t.Name.Local, *t.Doc)
			}
		}
		if t.Default != nil && !r.o.DiscardDocs {
			d.Param(enumDefault+t.Name.Local, *t.Default)
		}
	}
	param := typeEnum
	if r.o.GeneralizedSums {
		param = generalEnum
	}
	d.Param(param, t.FullName())
	for i, s := range t.Symbols {
		if r.o.GeneralizedSums {
			d.Param(param+"."+s, strconv.Itoa(i))
		} else {
			d.Param(param+"."+s, s)
		}
	}
	return d
}

func (r *reader) union(t *avro.Type, at mention) (*draft, error) {
	if len(t.Branches) == 1 && r.o.FlattenSingleton {
		s, err := r.typ(t.Branches[0], mention{doc: at.doc})
		return &draft{flat: true, member: s}, err
	}
	if _, branch := nullable(t); branch >= 0 {
		s, err := r.typ(t.Branches[branch], mention{optional: true, doc: at.doc})
		if err == nil && s == nil {
			return nil, wrong("an optional value without a schema has no form in Connect")
		}
		return &draft{flat: true, member: s}, err
	}
	d := of(schema.Struct)
	d.name = typeUnion
	if r.o.GeneralizedSums {
		d.name = generalUnionPrefix + strconv.Itoa(r.m.unions)
		r.m.unions++
		d.Param(generalUnion, d.name)
	}
	d.Name(d.name)
	names := map[string]bool{}
	for i, branch := range t.Branches {
		if branch.Kind == avro.Null {
			d.Optional()
			continue
		}
		name := r.o.memberOf(branch, i)
		if names[name] {
			return nil, wrong("two branches of a union would be the field %q of its struct; enhanced.avro.schema.support=true tells them apart by their full names", name)
		}
		names[name] = true
		s, err := r.typ(branch, mention{optional: true})
		if err != nil {
			return nil, schema.Under(name, err)
		}
		if s == nil {
			return nil, wrong("data without a schema inside a union has no form in Connect")
		}
		d.Field(name, s)
	}
	return d, nil
}

// nullable tells of a union of null and one other branch where they are, else -1.
func nullable(t *avro.Type) (null, branch int) {
	if t.Kind != avro.Union || len(t.Branches) != 2 {
		return -1, -1
	}
	switch {
	case t.Branches[0].Kind == avro.Null && len(t.Branches[0].Props) == 0:
		return 0, 1
	case t.Branches[1].Kind == avro.Null && len(t.Branches[1].Props) == 0:
		return 1, 0
	}
	return -1, -1
}

// memberOf is the name of the field for a branch of a union.
func (o Options) memberOf(t *avro.Type, i int) string {
	switch {
	case o.GeneralizedSums:
		return generalFieldPrefix + strconv.Itoa(i)
	case !t.Kind.Named():
		return t.Kind.String()
	case o.Enhanced:
		return t.FullName()
	case o.Scrub:
		return scrubbed(t.Name.Local)
	}
	return t.Name.Local
}

// finish adds what the properties of the type and its place say.
func (r *reader) finish(d *draft, t *avro.Type, at mention) (*schema.Schema, error) {
	doc := t.Prop(connectDoc)
	switch {
	case !r.o.DiscardDocs:
		if r.o.MetaData && doc.IsString() {
			d.Doc(doc.Str())
		}
	default:
		switch {
		case at.doc != nil:
			d.Doc(*at.doc)
		case t.Doc != nil:
			d.Doc(*t.Doc)
		case doc.IsString():
			d.Doc(doc.Str())
		}
		if r.o.MetaData && t.Doc != nil {
			d.Param(connectRecordDoc, *t.Doc)
		}
	}
	if err := r.version(d, t, at); err != nil {
		return nil, err
	}
	if p := t.Prop(connectParameters); r.o.MetaData && p != nil {
		if p.Kind != avro.JSONObject {
			return nil, wrong("%s is %s, and no object", connectParameters, p)
		}
		for i, k := range p.Names() {
			if !p.At(i).IsString() {
				return nil, wrong("%s: %q is %s, and no text", connectParameters, k, p.At(i))
			}
			d.Param(k, p.At(i).Str())
		}
	}
	for _, p := range t.Props {
		if strings.HasPrefix(p.Name, "avro") {
			text := p.Value.String()
			if p.Value.IsString() {
				text = p.Value.Str()
			}
			d.Param(p.Name, text)
		}
	}
	def, own := at.def, t.Prop(connectDefault)
	switch {
	case def == nil:
		def = own
	case own == nil && r.o.MetaData && !r.o.DiscardDocs:
		d.Param(fieldDefault, "true")
	}
	if err := r.name(d, t); err != nil {
		return nil, err
	}
	d.SetOptional(at.optional || t.Kind == avro.Union && hasNull(t))
	if def == nil || def.Kind == avro.JSONNull {
		return d.build()
	}
	plain, err := d.build()
	if err != nil {
		return nil, err
	}
	// A default that does not fit is none, as in the original: the data can be read without it.
	v, err := r.value(plain, t, def)
	if err != nil || v.IsNull() {
		return plain, nil
	}
	with, err := d.Default(v).TryBuild()
	if err != nil {
		return plain, nil
	}
	return with, nil
}

func (d *draft) build() (*schema.Schema, error) {
	s, err := d.TryBuild()
	if err != nil {
		return nil, &schema.DataError{Reason: err.Error()}
	}
	return s, nil
}

func hasNull(t *avro.Type) bool {
	for _, b := range t.Branches {
		if b.Kind == avro.Null {
			return true
		}
	}
	return false
}

func (r *reader) version(d *draft, t *avro.Type, at mention) error {
	p := t.Prop(connectVersion)
	if p == nil {
		if at.version > NoVersion && !d.version {
			d.Version(at.version)
		}
		return nil
	}
	n, ok := p.Int()
	switch {
	case !ok || n > math.MaxInt32 || n < math.MinInt32:
		return wrong("%s is %s, and no version", connectVersion, p)
	case n < 0:
	case d.version && n != 1:
		return wrong("%s is %d, but the logical type's version is 1", connectVersion, n)
	default:
		d.Version(int32(n))
	}
	return nil
}

func (r *reader) name(d *draft, t *avro.Type) error {
	name := ""
	switch p := t.Prop(connectName); {
	case p != nil && !p.IsString():
		return wrong("%s is %s, and no name", connectName, p)
	case p != nil:
		name = p.Str()
	case t.Kind == avro.Record, t.Kind == avro.Enum, t.Kind == avro.Fixed && d.name != schema.DecimalName:
		name = t.FullName()
	}
	switch {
	case name == "" || strings.HasPrefix(name, defaultFullName):
	case d.name == "":
		d.Name(name)
	case d.name != name:
		return wrong("%s is %q, but the type is a %s", connectName, name, d.name)
	}
	return nil
}

// value is a default of the type t as a value of s.
func (r *reader) value(s *schema.Schema, t *avro.Type, j *avro.JSON) (schema.Value, error) {
	if j == nil || j.Kind == avro.JSONNull {
		return schema.Value{}, nil
	}
	bad := func() (schema.Value, error) {
		return schema.Value{}, wrong("a default %s for %s", j, t.FullName())
	}
	switch t.Kind {
	case avro.Union:
		if len(t.Branches) == 0 || t.Branches[0].Kind == avro.Null {
			return schema.Value{}, nil
		}
		if null, branch := nullable(t); branch == 0 || len(t.Branches) == 1 && null < 0 && !isUnion(s) {
			return r.value(s, t.Branches[0], j)
		}
		at := s.Index(r.o.memberOf(t.Branches[0], 0))
		if at < 0 {
			return bad()
		}
		v, err := r.value(s.Fields()[at].Schema, t.Branches[0], j)
		if err != nil {
			return v, err
		}
		fields := make([]schema.Value, len(s.Fields()))
		fields[at] = v
		return schema.StructValue(s, fields), nil
	case avro.Boolean:
		if j.Kind != avro.JSONBool {
			return bad()
		}
		return schema.BoolValue(j.Bool()), nil
	case avro.Int, avro.Long:
		n, ok := j.Int()
		if !ok {
			return bad()
		}
		return intValue(s.ValueKind(), n)
	case avro.Float:
		if j.Kind != avro.JSONInt && j.Kind != avro.JSONFloat {
			return bad()
		}
		return schema.Float32Value(float32(j.Float())), nil
	case avro.Double:
		if j.Kind != avro.JSONInt && j.Kind != avro.JSONFloat {
			return bad()
		}
		return schema.Float64Value(j.Float()), nil
	case avro.String, avro.Enum:
		if !j.IsString() {
			return bad()
		}
		return schema.StringValue(j.Str()), nil
	case avro.Bytes, avro.Fixed:
		if !j.IsString() {
			return bad()
		}
		b := fromLatin1(j.Str())
		if s.ValueKind() == schema.Decimal {
			return schema.DecimalBytes(b, s.Scale()), nil
		}
		return schema.BytesValue(b), nil
	case avro.Array:
		if s.Kind() == schema.Map || j.Kind != avro.JSONArray {
			return bad()
		}
		elems := make([]schema.Value, len(j.Items()))
		for i, k := range j.Items() {
			v, err := r.value(s.Elem(), t.Elem, k)
			if err != nil {
				return v, err
			}
			elems[i] = v
		}
		return schema.ArrayValue(elems), nil
	case avro.Map:
		if j.Kind != avro.JSONObject {
			return bad()
		}
		entries := make([]schema.Entry, len(j.Names()))
		for i, k := range j.Names() {
			v, err := r.value(s.Elem(), t.Elem, j.At(i))
			if err != nil {
				return v, err
			}
			entries[i] = schema.Entry{Key: schema.StringValue(k), Value: v}
		}
		return schema.MapValue(entries), nil
	case avro.Record:
		if j.Kind != avro.JSONObject || len(s.Fields()) != len(t.Fields) { // s is of a record whose fields are being made
			return bad()
		}
		fields := make([]schema.Value, len(t.Fields))
		for i := range t.Fields {
			f := &t.Fields[i]
			k := j.Get(f.Name)
			if k == nil {
				k = f.Default
			}
			v, err := r.value(s.Fields()[i].Schema, f.Type, k)
			if err != nil {
				return v, err
			}
			fields[i] = v
		}
		return schema.StructValue(s, fields), nil
	}
	return bad()
}

func intValue(k schema.Kind, n int64) (schema.Value, error) {
	fits := func(low, high int64) error {
		if n < low || n > high {
			return wrong("%d is no %v", n, k)
		}
		return nil
	}
	switch k {
	case schema.Int8:
		return schema.Int8Value(int8(n)), fits(math.MinInt8, math.MaxInt8)
	case schema.Int16:
		return schema.Int16Value(int16(n)), fits(math.MinInt16, math.MaxInt16)
	case schema.Int32:
		return schema.Int32Value(int32(n)), fits(math.MinInt32, math.MaxInt32)
	case schema.Int64:
		return schema.Int64Value(n), nil
	case schema.Date:
		return schema.DateValue(n), fits(math.MinInt32, math.MaxInt32)
	case schema.Time:
		return schema.TimeValue(n), fits(math.MinInt32, math.MaxInt32)
	case schema.Timestamp:
		return schema.TimestampValue(n), nil
	}
	return schema.Value{}, fmt.Errorf("avrodata: %v is no kind of whole numbers", k)
}

// fromLatin1 undoes latin1.
func fromLatin1(s string) []byte {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			r = '?'
		}
		b = append(b, byte(r))
	}
	return b
}
