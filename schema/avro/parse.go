package avro

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"millrace/schema/registry"
)

// Parse reads a schema, as the registry's Type does.
func Parse(text string, o registry.ParseOptions) (*Schema, error) {
	b := &builder{limits: o.Limits.OrDefault(), strict: o.New, names: map[string]*Type{}}
	s := &Schema{strict: o.New, limits: b.limits, deps: o.Dependencies, known: map[string]bool{}}
	for _, d := range o.Dependencies {
		t, err := b.text(d.Text)
		if err != nil {
			return nil, fmt.Errorf("the schema that is referred to as %q: %w", d.Name, err)
		}
		s.known[t.FullName()] = true
	}
	var err error
	if s.root, err = b.text(text); err != nil {
		return nil, err
	}
	if !o.New {
		// What was stored long ago may have names that are refused today; only what cannot be a name in any script is.
		if err := looseNames(s.root); err != nil {
			return nil, err
		}
	}
	if s.canonical, err = s.fits(s.known); err != nil {
		return nil, err
	}
	return s, nil
}

func tooLong(bytes int, l registry.Limits) error {
	return fmt.Errorf("%d bytes of text; a schema and what it refers to may have %d", bytes, l.Bytes)
}

// builder makes types of the texts of a schema and of those that it refers to.
type builder struct {
	limits registry.Limits
	strict bool             // names and defaults are validated
	names  map[string]*Type // by full name
	bytes  int
	nodes  int
	parts  int

	// Of the text at hand.
	refs  []ref
	again []*Type // defined a second time
}

// ref is a place that waits for the type of a name that was not known when it was mentioned.
type ref struct {
	at   **Type
	name string
}

// partsPerNode is how many values of JSON a type, field, symbol or branch may have on the average.
const partsPerNode = 6

func (b *builder) text(text string) (*Type, error) {
	if b.bytes += len(text); b.bytes > b.limits.Bytes {
		return nil, tooLong(b.bytes, b.limits)
	}
	p := &parser{text: text, depthLimit: b.limits.Depth, partsLimit: b.limits.Nodes*partsPerNode - b.parts}
	j, err := p.document()
	if err != nil {
		return nil, err
	}
	b.parts += p.parts
	b.refs, b.again = b.refs[:0], b.again[:0]
	var root *Type
	if err := b.put(&root, j, ""); err != nil {
		return nil, err
	}
	for _, r := range b.refs {
		if *r.at = b.names[r.name]; *r.at == nil {
			return nil, fmt.Errorf("undefined type %s", quote(r.name))
		}
	}
	if root.Kind.Named() {
		root = b.names[root.Name.Full()]
	}
	w := walker{seen: map[*Type]bool{}, done: map[*Type]bool{}, defaults: b.strict}
	if err := w.check(root); err != nil {
		return nil, err
	}
	for _, t := range b.again {
		if !equalTypes(b.names[t.Name.Full()], t) {
			return nil, fmt.Errorf("can't redefine %s: it is defined twice, and differently", quote(t.Name.Full()))
		}
	}
	return root, nil
}

// quote puts a name into a message, cut where it is long.
func quote(name string) string {
	if len(name) > 200 {
		name = strings.ToValidUTF8(name[:200], "") + "…"
	}
	return strconv.Quote(name)
}

func (b *builder) count() error {
	if b.nodes++; b.nodes > b.limits.Nodes {
		return fmt.Errorf("more than %d types, fields, symbols and branches; a schema and what it refers to may have no more", b.limits.Nodes)
	}
	return nil
}

// put makes the type of j at a place.
func (b *builder) put(at **Type, j *JSON, space string) error {
	if err := b.count(); err != nil {
		return err
	}
	switch j.Kind {
	case JSONString:
		return b.named(at, j.text, space)
	case JSONArray:
		t := &Type{Kind: Union, Branches: make([]*Type, len(j.kids))}
		*at = t
		for i, k := range j.kids {
			if err := b.put(&t.Branches[i], k, space); err != nil {
				return under("branch "+strconv.Itoa(i), err)
			}
		}
		return nil
	case JSONObject:
	default:
		return fmt.Errorf("a type is a name, an object or an array of types (a union), not %s", short(j))
	}
	kind := j.Get("type")
	if !kind.IsString() {
		return fmt.Errorf(`no "type", or one that is no text, in %s`, short(j))
	}
	t := &Type{}
	switch kind.text {
	case "record", "error":
		t.IsError = kind.text == "error"
		return b.record(at, t, j, space)
	case "enum":
		return b.enum(at, t, j, space)
	case "fixed":
		return b.fixed(at, t, j, space)
	case "array":
		t.Kind = Array
		return b.container(at, t, j, "items", space)
	case "map":
		t.Kind = Map
		return b.container(at, t, j, "values", space)
	}
	k, primitive := primitives[kind.text]
	if !primitive {
		return b.named(at, kind.text, space)
	}
	t.Kind = k
	b.props(t, j, false)
	*at = t
	return nil
}

// short is the beginning of a value's text.
func short(j *JSON) string {
	text := j.String()
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:80], "") + "…"
	}
	return text
}

// named finds a type by its name: in the namespace, then as it is written. One that is not there yet is looked for when the whole
// text is known, and then in the namespace alone.
func (b *builder) named(at **Type, name, space string) error {
	if k, ok := primitives[name]; ok {
		*at = &Type{Kind: k}
		return nil
	}
	full := name
	if space != "" && !strings.Contains(name, ".") {
		full = space + "." + name
	}
	t := b.names[full]
	if t == nil {
		t = b.names[name]
	}
	if t == nil {
		b.refs = append(b.refs, ref{at, full})
	}
	*at = t
	return nil
}

func textOf(j *JSON, key string) *string {
	if v := j.Get(key); v.IsString() {
		return &v.text
	}
	return nil
}

// head reads what all named types have.
func (b *builder) head(t *Type, j *JSON, space string) error {
	if own := textOf(j, "namespace"); own != nil {
		space = *own
	}
	name := textOf(j, "name")
	if name == nil {
		return fmt.Errorf(`no "name", or one that is no text, in %s`, short(j))
	}
	t.Name = NameOf(*name, space)
	t.Doc = textOf(j, "doc")
	if err := b.name(t.Name.Local); err != nil {
		return fmt.Errorf("name %s: %w", quote(*name), err)
	}
	if _, taken := primitives[t.Name.Full()]; taken {
		return fmt.Errorf("types may not be named after primitives: %s", quote(t.Name.Full()))
	}
	return nil
}

// tail reads what all named types have behind their own, and makes the name known.
func (b *builder) tail(t *Type, j *JSON) error {
	b.props(t, j, t.Kind == Enum)
	aliases, err := aliasesOf(j)
	if err != nil {
		return err
	}
	for _, a := range aliases {
		n := NameOf(a, t.Name.Space)
		if err := b.name(n.Local); err != nil {
			return fmt.Errorf("alias %s: %w", quote(a), err)
		}
		if !slices.ContainsFunc(t.Aliases, func(o Name) bool { return o.within(t.Name.Space) == n.within(t.Name.Space) }) {
			t.Aliases = append(t.Aliases, n)
		}
	}
	full := t.Name.Full()
	if t.Name.Space != "" {
		for _, part := range strings.Split(t.Name.Space, ".") {
			if err := b.name(part); err != nil {
				return fmt.Errorf("namespace %s: %w", quote(t.Name.Space), err)
			}
		}
	}
	if _, known := b.names[full]; known {
		b.again = append(b.again, t)
		return nil
	}
	b.names[full] = t
	return nil
}

func (b *builder) record(at **Type, t *Type, j *JSON, space string) error {
	t.Kind = Record
	if err := b.head(t, j, space); err != nil {
		return err
	}
	fields := j.Get("fields")
	if fields == nil || fields.Kind != JSONArray {
		return fmt.Errorf(`record %s: no "fields", or they are no array`, quote(t.Name.Full()))
	}
	*at = t
	t.Fields = make([]Field, len(fields.kids))
	seen := make(map[string]int, len(fields.kids))
	for i, k := range fields.kids {
		f := &t.Fields[i]
		if err := b.field(f, k, t.Name.Space); err != nil {
			place := "field " + strconv.Itoa(i)
			if f.Name != "" {
				place = "field " + quote(f.Name)
			}
			return under("record "+quote(t.Name.Full()), under(place, err))
		}
		if _, twice := seen[f.Name]; twice {
			return fmt.Errorf("record %s: field %s twice", quote(t.Name.Full()), quote(f.Name))
		}
		seen[f.Name] = i
	}
	if len(t.Fields) > manyParts {
		t.index = seen
	}
	return b.tail(t, j)
}

// under puts a place before an error. Deep places are left out, so that a message stays one line.
func under(place string, err error) error {
	if strings.Count(err.Error(), ": ") > 8 {
		return err
	}
	return fmt.Errorf("%s: %w", place, err)
}

func (b *builder) field(f *Field, j *JSON, space string) error {
	if err := b.count(); err != nil {
		return err
	}
	name := textOf(j, "name")
	if name == nil {
		return fmt.Errorf(`no "name", or one that is no text, in %s`, short(j))
	}
	f.Name = *name
	if err := b.name(f.Name); err != nil {
		return err
	}
	f.Doc = textOf(j, "doc")
	kind := j.Get("type")
	if kind == nil {
		return fmt.Errorf(`no "type" in %s`, short(j))
	}
	if err := b.put(&f.Type, kind, space); err != nil {
		return err
	}
	if order := j.Get("order"); order != nil {
		i := 0
		for ; i < len(orderNames) && !(order.IsString() && strings.EqualFold(order.text, orderNames[i])); i++ {
		}
		if i == len(orderNames) {
			return fmt.Errorf("order %s: it is ascending, descending or ignore", short(order))
		}
		f.Order = Order(i)
	}
	f.Default = j.Get("default")
	if f.Default.IsString() && f.Type != nil && (f.Type.Kind == Float || f.Type.Kind == Double) {
		n, ok := javaDouble(f.Default.text)
		if !ok {
			return fmt.Errorf("default %s is no number", short(f.Default))
		}
		f.Default = FloatJSON(n)
	}
	if b.strict && f.Default != nil {
		// The Java library looks at defaults twice: now, when a name that is defined later is nothing, and when all are known.
		c := defaultCheck{known: map[defaultPair]bool{}}
		if !c.valid(f.Type, f.Default) {
			return fmt.Errorf("invalid default for field %s: %s is no %s", quote(f.Name), short(f.Default), describe(f.Type))
		}
	}
	for i, k := range j.keys {
		switch k {
		case "default", "doc", "name", "order", "type", "aliases":
		default:
			f.Props = append(f.Props, Prop{k, j.kids[i]})
		}
	}
	var err error
	f.Aliases, err = aliasesOf(j)
	return err
}

// javaDouble reads a number as Double.parseDouble does, without its hexadecimal form.
func javaDouble(s string) (float64, bool) {
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	switch strings.TrimLeft(s, "+-") {
	case "NaN", "Infinity":
		if len(s)-len(strings.TrimLeft(s, "+-")) > 1 {
			return 0, false
		}
		f, err := strconv.ParseFloat(s, 64)
		return f, err == nil || s != "NaN"
	}
	s = strings.TrimRight(s, "fFdD")
	if strings.ContainsAny(s, "_xXpPnN") {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || math.IsInf(f, 0)
}

func aliasesOf(j *JSON) ([]string, error) {
	v := j.Get("aliases")
	if v == nil {
		return nil, nil
	}
	if v.Kind != JSONArray {
		return nil, fmt.Errorf("aliases are an array, not %s", short(v))
	}
	seen := make(map[string]bool, len(v.kids))
	var all []string
	for _, k := range v.kids {
		if k.Kind != JSONString {
			return nil, fmt.Errorf("an alias is a text, not %s", short(k))
		}
		if !seen[k.text] {
			seen[k.text] = true
			all = append(all, k.text)
		}
	}
	return all, nil
}

func (b *builder) enum(at **Type, t *Type, j *JSON, space string) error {
	t.Kind = Enum
	if err := b.head(t, j, space); err != nil {
		return err
	}
	symbols := j.Get("symbols")
	if symbols == nil || symbols.Kind != JSONArray {
		return fmt.Errorf(`enum %s: no "symbols", or they are no array`, quote(t.Name.Full()))
	}
	seen := make(map[string]int, len(symbols.kids))
	for i, k := range symbols.kids {
		if err := b.count(); err != nil {
			return err
		}
		if k.Kind != JSONString {
			return fmt.Errorf("enum %s: a symbol is a text, not %s", quote(t.Name.Full()), short(k))
		}
		if err := b.name(k.text); err != nil {
			return fmt.Errorf("enum %s: symbol %s: %w", quote(t.Name.Full()), quote(k.text), err)
		}
		if _, twice := seen[k.text]; twice {
			return fmt.Errorf("enum %s: symbol %s twice", quote(t.Name.Full()), quote(k.text))
		}
		seen[k.text] = i
		t.Symbols = append(t.Symbols, k.text)
	}
	if len(t.Symbols) > manyParts {
		t.index = seen
	}
	if t.Default = textOf(j, "default"); t.Default != nil {
		if _, ok := seen[*t.Default]; !ok {
			return fmt.Errorf("enum %s: the default %s is none of its symbols", quote(t.Name.Full()), quote(*t.Default))
		}
	}
	*at = t
	return b.tail(t, j)
}

func (b *builder) fixed(at **Type, t *Type, j *JSON, space string) error {
	t.Kind = Fixed
	if err := b.head(t, j, space); err != nil {
		return err
	}
	n, ok := j.Get("size").Int()
	if !ok || n < 0 || n > math.MaxInt32-8 {
		return fmt.Errorf(`fixed %s: no "size", or it is no whole number from 0 to %d`, quote(t.Name.Full()), math.MaxInt32-8)
	}
	t.Size = int(n)
	*at = t
	return b.tail(t, j)
}

func (b *builder) container(at **Type, t *Type, j *JSON, key, space string) error {
	elem := j.Get(key)
	if elem == nil {
		return fmt.Errorf("%s without %q", t.Kind, key)
	}
	*at = t
	if err := b.put(&t.Elem, elem, space); err != nil {
		return under(key, err)
	}
	b.props(t, j, false)
	return nil
}

// props keeps what is not Avro's own.
func (b *builder) props(t *Type, j *JSON, enum bool) {
	for i, k := range j.keys {
		switch k {
		case "doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases":
		case "default":
			if !enum {
				t.Props = append(t.Props, Prop{k, j.kids[i]})
			}
		default:
			t.Props = append(t.Props, Prop{k, j.kids[i]})
		}
	}
	t.Logical = logicalOf(t)
}

// name validates a name of what is registered now: ASCII letters, digits and underscores.
func (b *builder) name(s string) error {
	if !b.strict {
		return nil
	}
	if s == "" {
		return errEmptyName
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9':
		case i == 0:
			return fmt.Errorf("illegal initial character: a name begins with a letter (A-Z, a-z) or _, and goes on with letters, digits and _")
		default:
			r, _ := utf8.DecodeRuneInString(s[i:])
			return fmt.Errorf("illegal character %q: a name begins with a letter (A-Z, a-z) or _, and goes on with letters, digits and _", r)
		}
	}
	return nil
}

var errEmptyName = fmt.Errorf("empty name")

// looseName accepts letters and digits of any script, up to U+FFFF as Java's characters go.
func looseName(s string) error {
	if s == "" {
		return errEmptyName
	}
	for i, r := range s {
		if r > 0xffff || r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.Is(unicode.Nd, r)) {
			return fmt.Errorf("illegal character %q in the name %s", r, quote(s))
		}
	}
	return nil
}

func looseNames(root *Type) error {
	w := walker{seen: map[*Type]bool{}}
	return w.each(root, func(t *Type) error {
		if t.Kind.Named() {
			if err := looseName(t.Name.Local); err != nil {
				return err
			}
		}
		for i := range t.Fields {
			if err := looseName(t.Fields[i].Name); err != nil {
				return err
			}
		}
		for _, s := range t.Symbols {
			if err := looseName(s); err != nil {
				return err
			}
		}
		return nil
	})
}
