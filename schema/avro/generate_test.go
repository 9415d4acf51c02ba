package avro

import (
	"fmt"
	"math/rand/v2"
)

// generator makes texts of schemas: mostly good ones, with names that repeat, recursion, mentions before the definition, and some that
// are none.
type generator struct {
	r       *rand.Rand
	defined []string // full names, or local ones
	open    []string // records whose fields are being made
	left    int      // types that may still be made
}

func (g *generator) one(of ...string) string { return of[g.r.IntN(len(of))] }
func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func obj(pairs ...any) *JSON {
	j := &JSON{Kind: JSONObject}
	for i := 0; i < len(pairs); i += 2 {
		j.keys, j.kids = append(j.keys, pairs[i].(string)), append(j.kids, pairs[i+1].(*JSON))
	}
	return j
}

func (g *generator) schema() *JSON {
	g.left = 1 + g.r.IntN(14)
	return g.typ(0, true)
}

func (g *generator) primitive() *JSON {
	name := g.one("null", "boolean", "int", "int", "long", "long", "float", "double", "bytes", "string", "string")
	if !g.chance(12) {
		return StringJSON(name)
	}
	j := obj("type", StringJSON(name))
	if g.chance(60) {
		logical := g.one("date", "time-millis", "timestamp-millis", "timestamp-micros", "uuid", "decimal", "other", "local-timestamp-nanos")
		if g.chance(40) {
			g.set(j, "logicalType", StringJSON(logical))
		}
		g.set(j, "logicalType", StringJSON(logical))
		if logical == "decimal" {
			g.set(j, "precision", IntJSON(int64(g.r.IntN(12)-1)))
			if g.chance(50) {
				g.set(j, "scale", IntJSON(int64(g.r.IntN(6))))
			}
		}
	}
	if g.chance(60) {
		g.prop(j)
	}
	return j
}

func (g *generator) set(j *JSON, key string, v *JSON) {
	for i, k := range j.keys {
		if k == key {
			j.kids[i] = v
			return
		}
	}
	j.keys, j.kids = append(j.keys, key), append(j.kids, v)
}

func (g *generator) prop(j *JSON) {
	g.set(j, g.one("x", "y", "connect.name", "Ü", "a b"), g.any(2))
}

func (g *generator) any(depth int) *JSON {
	switch g.r.IntN(9) {
	case 0:
		return NullJSON
	case 1:
		return BoolJSON(g.chance(50))
	case 2:
		return IntJSON(int64(g.r.IntN(2000) - 1000))
	case 3:
		return IntJSON(g.r.Int64() - g.r.Int64())
	case 4:
		return FloatJSON([]float64{0.5, -1e10, 1e-5, 3, 123456.789, 1e300}[g.r.IntN(6)])
	case 5, 6:
		return StringJSON(g.one("", "a", "q\"\\\n\t\x01/", "ü€😀", "%s"))
	}
	if depth == 0 {
		return StringJSON("deep")
	}
	if g.chance(50) {
		return ArrayJSON(g.any(depth-1), g.any(depth-1))
	}
	return obj("b", g.any(depth-1), "a", g.any(depth-1))
}

func (g *generator) typ(depth int, unions bool) *JSON {
	g.left--
	if depth > 5 || g.left < 0 {
		return g.primitive()
	}
	switch n := g.r.IntN(100); {
	case n < 30:
		return g.primitive()
	case n < 55:
		return g.record(depth)
	case n < 63:
		return g.enum()
	case n < 69:
		return g.fixed()
	case n < 76:
		j := obj("type", StringJSON("array"), "items", g.typ(depth+1, true))
		if g.chance(10) {
			g.prop(j)
		}
		return j
	case n < 82:
		return obj("values", g.typ(depth+1, true), "type", StringJSON("map"))
	case n < 92 && unions:
		j := &JSON{Kind: JSONArray}
		if g.chance(60) {
			j.kids = append(j.kids, StringJSON("null"))
		}
		for range g.r.IntN(4) {
			j.kids = append(j.kids, g.typ(depth+1, g.chance(2)))
		}
		return j
	}
	switch n := g.r.IntN(20); {
	case n == 0:
		return StringJSON(g.name()) // perhaps defined later, or never
	case len(g.open) > 0 && n < 12:
		return StringJSON(g.open[g.r.IntN(len(g.open))])
	case len(g.defined) > 0:
		return StringJSON(g.defined[g.r.IntN(len(g.defined))])
	}
	return g.primitive()
}

func (g *generator) name() string {
	return g.one("A", "B", "C", "D", "R", "E", "n.A", "n.B", "m.x.C", "record", "F")
}

func (g *generator) head(kind string) *JSON {
	j := obj("type", StringJSON(kind), "name", StringJSON(g.name()))
	if g.chance(25) {
		g.set(j, "namespace", StringJSON(g.one("n", "m.x", "", "o")))
	}
	if g.chance(10) {
		g.set(j, "doc", StringJSON(g.one("", "about", "ü\n")))
	}
	if g.chance(15) {
		aliases := ArrayJSON(StringJSON(g.name()), StringJSON(g.name()))
		g.set(j, "aliases", aliases)
	}
	if g.chance(8) {
		g.prop(j)
	}
	if g.chance(1) {
		g.set(j, "name", StringJSON(g.one("", "1a", "a-b", "ä", "int", "a..b", "n.", ".x", "n-n.A")))
	}
	return j
}

func (g *generator) record(depth int) *JSON {
	j := g.head(g.one("record", "record", "record", "error"))
	g.open = append(g.open, j.Get("name").Str())
	fields := &JSON{Kind: JSONArray}
	at := g.r.IntN(3)
	for i := range g.r.IntN(5) {
		name := string(rune('a' + (at+i)%6))
		if g.chance(1) {
			name = g.one("a", "", "9", "a.b", "ß")
		}
		f := obj("name", StringJSON(name), "type", g.typ(depth+1, true))
		if g.chance(45) {
			g.set(f, "default", g.value(f.Get("type"), 0))
		}
		if g.chance(12) {
			g.set(f, "aliases", ArrayJSON(StringJSON(string(rune('a'+g.r.IntN(6))))))
		}
		if g.chance(6) {
			g.set(f, "doc", StringJSON(g.one("", "d")))
		}
		if g.chance(6) {
			g.set(f, "order", StringJSON(g.one("ascending", "descending", "ignore", "IGNORE")))
		}
		if g.chance(6) {
			g.prop(f)
		}
		fields.kids = append(fields.kids, f)
	}
	g.set(j, "fields", fields)
	g.open = g.open[:len(g.open)-1]
	g.defined = append(g.defined, j.Get("name").Str())
	return j
}

func (g *generator) enum() *JSON {
	j := g.head("enum")
	symbols := &JSON{Kind: JSONArray}
	at := g.r.IntN(3)
	for i := range 1 + g.r.IntN(4) {
		symbols.kids = append(symbols.kids, StringJSON(string(rune('P'+(at+i)%6))))
	}
	g.set(j, "symbols", symbols)
	if g.chance(35) {
		g.set(j, "default", StringJSON(string(rune('P'+at))))
	}
	g.defined = append(g.defined, j.Get("name").Str())
	return j
}

func (g *generator) fixed() *JSON {
	j := g.head("fixed")
	g.set(j, "size", IntJSON(int64([]int{0, 1, 12, 16, 16}[g.r.IntN(5)])))
	if g.chance(30) {
		g.set(j, "logicalType", StringJSON(g.one("uuid", "duration", "decimal")))
		g.set(j, "precision", IntJSON(int64(g.r.IntN(40))))
	}
	g.defined = append(g.defined, j.Get("name").Str())
	return j
}

// value makes a default, mostly one that fits.
func (g *generator) value(t *JSON, depth int) *JSON {
	if g.chance(4) || depth > 4 {
		return g.any(1)
	}
	kind := t.Str()
	switch t.Kind {
	case JSONArray:
		if len(t.kids) == 0 {
			return NullJSON
		}
		return g.value(t.kids[g.r.IntN(min(2, len(t.kids)))], depth+1)
	case JSONObject:
		kind = t.Get("type").Str()
	}
	switch kind {
	case "null":
		return NullJSON
	case "boolean":
		return BoolJSON(true)
	case "int":
		return IntJSON(int64(g.r.IntN(100)))
	case "long":
		return IntJSON(g.r.Int64())
	case "float", "double":
		return []*JSON{IntJSON(3), FloatJSON(0.1), FloatJSON(1e10), StringJSON("NaN"), StringJSON(" -1.5d"), IntJSON(1 << 40)}[g.r.IntN(6)]
	case "bytes", "fixed":
		return StringJSON(g.one("", "\x00ÿ", "a"))
	case "string":
		return StringJSON(g.one("", "a", "ü"))
	case "enum":
		return t.Get("symbols").Items()[0]
	case "array":
		return ArrayJSON(g.value(t.Get("items"), depth+1))
	case "map":
		return obj("k", g.value(t.Get("values"), depth+1))
	case "record", "error":
		j := obj()
		for _, f := range t.Get("fields").Items() {
			if !g.chance(25) {
				g.set(j, f.Get("name").Str(), g.value(f.Get("type"), depth+1))
			}
		}
		return j
	}
	return NullJSON
}

// change makes a few small changes to a copy of a schema, as people do between versions.
func (g *generator) change(j *JSON) *JSON {
	c := copyJSON(j)
	var types, fields []*JSON // objects that can be changed
	var walk func(*JSON)
	walk = func(j *JSON) {
		if j.Get("type") != nil {
			if j.Get("name") != nil && j.Get("fields") == nil && j.Get("symbols") == nil && j.Get("size") == nil {
				fields = append(fields, j)
			} else {
				types = append(types, j)
			}
		}
		for _, k := range j.kids {
			walk(k)
		}
	}
	walk(c)
	for range 1 + g.r.IntN(3) {
		g.left = 3
		if len(fields) > 0 && g.chance(60) {
			f := fields[g.r.IntN(len(fields))]
			switch g.r.IntN(7) {
			case 0:
				g.set(f, "name", StringJSON(string(rune('a'+g.r.IntN(7)))))
			case 1:
				g.set(f, "aliases", ArrayJSON(f.Get("name")))
				g.set(f, "name", StringJSON(string(rune('a'+g.r.IntN(7)))))
			case 2:
				g.set(f, "type", g.typ(4, true))
			case 3:
				g.set(f, "default", g.value(f.Get("type"), 0))
			case 4:
				f.keys, f.kids = f.keys[:2], f.kids[:2]
			case 5:
				if f.Get("type").Kind != JSONArray {
					g.set(f, "type", ArrayJSON(StringJSON("null"), f.Get("type")))
				}
			case 6:
				if k := f.Get("type"); k.Str() == "int" {
					g.set(f, "type", StringJSON(g.one("long", "float", "double")))
				} else if k.Str() == "string" {
					g.set(f, "type", StringJSON("bytes"))
				}
			}
			continue
		}
		if len(types) == 0 {
			return g.schema()
		}
		t := types[g.r.IntN(len(types))]
		switch {
		case t.Get("fields") != nil && g.chance(60):
			list := t.Get("fields")
			if len(list.kids) > 0 && g.chance(40) {
				i := g.r.IntN(len(list.kids))
				list.kids = append(list.kids[:i:i], list.kids[i+1:]...)
				continue
			}
			f := obj("name", StringJSON(string(rune('a'+g.r.IntN(8)))), "type", g.primitive())
			if g.chance(50) {
				g.set(f, "default", g.value(f.Get("type"), 0))
			}
			list.kids = append(list.kids, f)
		case t.Get("symbols") != nil && g.chance(60):
			list := t.Get("symbols")
			if g.chance(50) && len(list.kids) > 1 {
				list.kids = list.kids[:len(list.kids)-1]
			} else {
				list.kids = append(list.kids, StringJSON(g.one("V", "W", "Z")))
			}
		case t.Get("size") != nil && g.chance(60):
			g.set(t, "size", IntJSON(int64(g.r.IntN(3))))
		case t.Get("name") != nil:
			if g.chance(50) {
				g.set(t, "aliases", ArrayJSON(t.Get("name")))
			}
			g.set(t, "name", StringJSON(g.name()))
		default:
			g.prop(t)
		}
	}
	return c
}

func copyJSON(j *JSON) *JSON {
	c := *j
	c.keys = append([]string(nil), j.keys...)
	c.kids = make([]*JSON, len(j.kids))
	for i, k := range j.kids {
		c.kids[i] = copyJSON(k)
	}
	return &c
}

// pairOf is the pair of texts that belongs to a seed.
func pairOf(seed uint64) (reader, writer string) {
	g := &generator{r: rand.New(rand.NewPCG(seed, 9))}
	a := g.schema()
	b := a
	for range 1 + g.r.IntN(2) {
		b = g.change(b)
	}
	if g.chance(50) {
		a, b = b, a
	}
	return a.String(), b.String()
}

func seedName(seed uint64) string { return fmt.Sprintf("seed %d", seed) }
