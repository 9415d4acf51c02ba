package warehouse

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"millrace/schema"
	"millrace/schema/avro"
)

// A shape says into which columns the parts of an Avro value go. Levels and lists are those of Dremel's paper, in the form that
// parquet-avro gives them. It is not changed after it was made.
type shape struct {
	kind     avro.Kind
	rep, def int      // levels: a leaf's own, and those of an item of a list or map
	from, to int      // columns: those below are from ≤ c < to
	size     int      // of a fixed
	symbols  [][]byte // of an enum
	kids     []*shape // of fields, of an element, of key and value, of what a union may hold beside null
	branches []int    // of a union: the kid of each branch, -1 for null
}

// parquetShape is what an Avro schema leads to.
type parquetShape struct {
	root  parquet.Node
	shape *shape
	// loose are the columns whose bounds are not written: see looseType.
	loose [][]string
}

// maxColumns bounds the columns of a file: each of them has buffers. Twice the columns that a table of Postgres may have (before and after
// in an event) are fewer.
const maxColumns = 4000

// A shaper makes a parquetShape. oldLists asks for lists of two levels, which is what Confluent's sink writes where no list may hold
// nulls. noBounds leaves out the bounds of all texts and bytes.
type shaper struct {
	oldLists bool
	noBounds bool
	columns  int
	path     []string
	open     []*avro.Type // the records around
	loose    [][]string
}

func newParquetShape(t *avro.Type, noBounds bool) (*parquetShape, error) {
	if t.Kind != avro.Record {
		return nil, &schema.DataError{Reason: fmt.Sprintf("the value is %v, and ParquetFormat writes structs; use a transform such as HoistField, or AvroFormat", t.Kind)}
	}
	s := &shaper{oldLists: !hasNullItems(t, map[*avro.Type]bool{}), noBounds: noBounds}
	node, root, err := s.node(t, 0, 0)
	if err != nil {
		return nil, err
	}
	return &parquetShape{node, root, s.loose}, nil
}

// hasNullItems reports whether a list in t may hold nulls.
func hasNullItems(t *avro.Type, seen map[*avro.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind {
	case avro.Array:
		return t.Elem.Kind == avro.Union && slices.ContainsFunc(t.Elem.Branches, isNullType) || hasNullItems(t.Elem, seen)
	case avro.Map:
		return hasNullItems(t.Elem, seen)
	case avro.Union:
		return slices.ContainsFunc(t.Branches, func(b *avro.Type) bool { return hasNullItems(b, seen) })
	case avro.Record:
		return slices.ContainsFunc(t.Fields, func(f avro.Field) bool { return hasNullItems(f.Type, seen) })
	}
	return false
}

func isNullType(t *avro.Type) bool { return t.Kind == avro.Null }

// node is the required form of t, whose levels are rep and def.
func (s *shaper) node(t *avro.Type, rep, def int) (parquet.Node, *shape, error) {
	if def > maxLevel {
		return nil, nil, s.wrong("it is nested too deeply for Parquet")
	}
	sh := &shape{kind: t.Kind, rep: rep, def: def, from: s.columns, size: t.Size}
	var node parquet.Node
	var err error
	switch t.Kind {
	case avro.Record:
		node, err = s.record(sh, t)
	case avro.Array:
		node, err = s.list(sh, t)
	case avro.Map:
		node, err = s.entries(sh, t)
	case avro.Union:
		node, err = s.union(sh, t)
	default:
		node, err = s.leaf(sh, t)
	}
	sh.to = s.columns
	return node, sh, err
}

// maxLevel bounds levels below what the library takes, whose steps are at most three.
const maxLevel = parquet.MaxDefinitionLevel - 4

// part makes a part of sh, and adds it to its kids.
func (s *shaper) part(sh *shape, name string, t *avro.Type, rep, def int) (parquet.Node, error) {
	s.path = append(s.path, name)
	defer func() { s.path = s.path[:len(s.path)-1] }()
	node, kid, err := s.node(t, rep, def)
	sh.kids = append(sh.kids, kid)
	return node, err
}

func (s *shaper) record(sh *shape, t *avro.Type) (parquet.Node, error) {
	if slices.Contains(s.open, t) {
		return nil, s.wrong(fmt.Sprintf("the schema %s is a part of itself, which Parquet has no form for", t.FullName()))
	}
	if len(t.Fields) == 0 {
		return nil, s.wrong("a struct without fields has no form in Parquet")
	}
	s.open = append(s.open, t)
	defer func() { s.open = s.open[:len(s.open)-1] }()
	g := &columnGroup{}
	for _, f := range t.Fields {
		node, err := s.part(sh, f.Name, f.Type, sh.rep, sh.def)
		if err != nil {
			return nil, err
		}
		g.add(f.Name, node)
	}
	return g, nil
}

func (s *shaper) list(sh *shape, t *avro.Type) (parquet.Node, error) {
	sh.rep, sh.def = sh.rep+1, sh.def+1
	of := &columnGroup{typ: listType}
	if s.oldLists {
		item, err := s.part(sh, "array", t.Elem, sh.rep, sh.def)
		if err != nil {
			return nil, err
		}
		return of.add("array", parquet.Repeated(item)), nil
	}
	s.path = append(s.path, "list")
	defer func() { s.path = s.path[:len(s.path)-1] }()
	item, err := s.part(sh, "element", t.Elem, sh.rep, sh.def)
	if err != nil {
		return nil, err
	}
	return of.add("list", parquet.Repeated((&columnGroup{}).add("element", item))), nil
}

func (s *shaper) entries(sh *shape, t *avro.Type) (parquet.Node, error) {
	sh.rep, sh.def = sh.rep+1, sh.def+1
	s.path = append(s.path, "key_value")
	defer func() { s.path = s.path[:len(s.path)-1] }()
	key, err := s.part(sh, "key", &avro.Type{Kind: avro.String}, sh.rep, sh.def)
	if err != nil {
		return nil, err
	}
	value, err := s.part(sh, "value", t.Elem, sh.rep, sh.def)
	if err != nil {
		return nil, err
	}
	return (&columnGroup{typ: mapType}).add("key_value", parquet.Repeated((&columnGroup{}).add("key", key).add("value", value))), nil
}

// union is what may be null, or a group with a member for each type of which one is set.
func (s *shaper) union(sh *shape, t *avro.Type) (parquet.Node, error) {
	optional := slices.ContainsFunc(t.Branches, isNullType)
	if optional {
		sh.def++
	}
	some := len(t.Branches)
	if optional {
		some--
	}
	var node parquet.Node
	members := &columnGroup{}
	for _, b := range t.Branches {
		if isNullType(b) {
			sh.branches = append(sh.branches, -1)
			continue
		}
		i := len(sh.kids)
		sh.branches = append(sh.branches, i)
		var err error
		if some == 1 {
			if node, sh.kids, err = s.only(sh, b); err != nil {
				return nil, err
			}
			continue
		}
		name := "member" + strconv.Itoa(i)
		member, err := s.part(sh, name, b, sh.rep, sh.def+1)
		if err != nil {
			return nil, err
		}
		members.add(name, parquet.Optional(member))
	}
	switch {
	case some == 0:
		return nil, s.wrong("it is always null, which has no form in Parquet")
	case some > 1:
		node = members
	}
	if optional {
		node = parquet.Optional(node)
	}
	return node, nil
}

// only is the one type of a union, which adds nothing to the path.
func (s *shaper) only(sh *shape, t *avro.Type) (parquet.Node, []*shape, error) {
	node, kid, err := s.node(t, sh.rep, sh.def)
	return node, []*shape{kid}, err
}

func (s *shaper) leaf(sh *shape, t *avro.Type) (parquet.Node, error) {
	if s.columns++; s.columns > maxColumns {
		return nil, s.wrong(fmt.Sprintf("the schema has more than %d columns", maxColumns))
	}
	for _, symbol := range t.Symbols {
		sh.symbols = append(sh.symbols, []byte(symbol))
	}
	node := leafNode(t)
	if node == nil {
		return nil, s.wrong("it is always null, which has no form in Parquet")
	}
	typ := node.Type()
	bytes := typ.Kind() == parquet.ByteArray || typ.Kind() == parquet.FixedLenByteArray
	switch {
	case t.Logical.Name == "decimal", bytes && s.noBounds:
		s.loose = append(s.loose, slices.Clone(s.path))
		return parquet.Encoded(parquet.Leaf(newLooseType(typ, t.Logical.Name == "decimal")), &parquet.Plain), nil
	case typ.Kind() == parquet.Boolean, typ.Kind() == parquet.FixedLenByteArray: // have no dictionaries in Confluent's files, either
		return parquet.Encoded(node, &parquet.Plain), nil
	}
	return parquet.Encoded(node, &parquet.RLEDictionary), nil
}

// leafNode is the form of a type that has no parts; nil where it has none.
func leafNode(t *avro.Type) parquet.Node {
	switch t.Logical.Name {
	case "date":
		return parquet.Date()
	case "time-millis":
		return parquet.Time(parquet.Millisecond)
	case "time-micros":
		return parquet.Time(parquet.Microsecond)
	case "timestamp-millis":
		return parquet.Timestamp(parquet.Millisecond)
	case "timestamp-micros":
		return parquet.Timestamp(parquet.Microsecond)
	case "local-timestamp-millis":
		return parquet.TimestampAdjusted(parquet.Millisecond, false)
	case "local-timestamp-micros":
		return parquet.TimestampAdjusted(parquet.Microsecond, false)
	case "decimal":
		typ := parquet.ByteArrayType
		if t.Kind == avro.Fixed {
			typ = parquet.FixedLenByteArrayType(t.Size)
		}
		return parquet.Decimal(t.Logical.Scale, t.Logical.Precision, typ)
	}
	switch t.Kind {
	case avro.Boolean:
		return parquet.Leaf(parquet.BooleanType)
	case avro.Int:
		return parquet.Leaf(parquet.Int32Type)
	case avro.Long:
		return parquet.Leaf(parquet.Int64Type)
	case avro.Float:
		return parquet.Leaf(parquet.FloatType)
	case avro.Double:
		return parquet.Leaf(parquet.DoubleType)
	case avro.Bytes:
		return parquet.Leaf(parquet.ByteArrayType)
	case avro.String:
		return parquet.String()
	case avro.Enum:
		return parquet.Enum()
	case avro.Fixed:
		return parquet.Leaf(parquet.FixedLenByteArrayType(t.Size))
	}
	return nil
}

// wrong is the data error of a schema that has no form in Parquet.
func (s *shaper) wrong(reason string) error {
	return &schema.DataError{Path: strings.Join(s.path, "."), Reason: reason}
}

// A columnGroup is a group of Parquet whose fields keep their order; the library's own orders them by name. typ is nil where it is neither a
// list nor a map.
type columnGroup struct {
	parquet.Group
	fields []parquet.Field
	typ    parquet.Type
}

var (
	listType = parquet.List(parquet.String()).Type()
	mapType  = parquet.Map(parquet.String(), parquet.String()).Type()
)

func (g *columnGroup) add(name string, node parquet.Node) *columnGroup {
	g.fields = append(g.fields, &columnField{node, name})
	return g
}

func (g *columnGroup) Fields() []parquet.Field { return g.fields }

func (g *columnGroup) Type() parquet.Type {
	if g.typ != nil {
		return g.typ
	}
	return g.Group.Type()
}

type columnField struct {
	parquet.Node
	name string
}

func (f *columnField) Name() string { return f.name }

// Value implements parquet.Field, for writers of Go values, which there are none of here.
func (f *columnField) Value(reflect.Value) reflect.Value { return reflect.Value{} }
