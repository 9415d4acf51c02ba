package transforms

import (
	"fmt"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
)

// half is the half of a record that a transform changes: $Key or $Value.
type half bool

const (
	valueHalf half = false
	keyHalf   half = true
)

// index is the half's place in arrays of the two: the value's is first.
func (h half) index() int {
	if h == keyHalf {
		return 1
	}
	return 0
}

// uses is planner's, for those that read the half that they change and leave the other alone.
func (h half) uses(other half) use {
	if h == other {
		return reads
	}
	return unused
}

func (h half) of(r *schema.Record) (*schema.Schema, schema.Value) {
	if h == keyHalf {
		return r.KeySchema, r.Key
	}
	return r.ValueSchema, r.Value
}

func (h half) set(r *schema.Record, s *schema.Schema, v schema.Value) {
	if h == keyHalf {
		r.KeySchema, r.Key = s, v
	} else {
		r.ValueSchema, r.Value = s, v
	}
}

const javaPackage = "org.apache.kafka.connect.transforms."

// pair makes the plugins of a transform that comes for keys and for values.
func pair(name, class, doc string, def config.Def, make func(v config.Values, h half) (Transform, error)) []Plugin {
	one := func(name, class, of string, h half) Plugin {
		return Plugin{
			Info: plugin.Info{Name: name, Class: javaPackage + class, Version: schema.ConnectVersion, Doc: fmt.Sprintf(doc, of), Config: def},
			New:  func(v config.Values) (Transform, error) { return make(v, h) },
		}
	}
	return []Plugin{
		one(name+"-key", class+"$Key", "key", keyHalf),
		one(name, class+"$Value", "value", valueHalf),
	}
}

// replaceNull is a setting that many transforms share.
var replaceNull = config.Key[bool]{
	Name: "replace.null.with.default", Default: true,
	Doc: "Read a null field that has a default as that default; false keeps null.",
}

// requireMap checks that schemaless data is a map.
func requireMap(v schema.Value, purpose string) error {
	if v.Kind() == schema.Map {
		return nil
	}
	return &schema.DataError{Reason: fmt.Sprintf("Only Map objects supported in absence of schema for [%s], found: %s", purpose, javatext.ClassName(v.Kind()))}
}

// requireStruct checks that data under a schema is a struct.
func requireStruct(v schema.Value, purpose string) error {
	if v.Kind() == schema.Struct {
		return nil
	}
	return &schema.DataError{Reason: fmt.Sprintf("Only Struct objects supported for [%s], found: %s", purpose, javatext.ClassName(v.Kind()))}
}

// at is the i-th field of a struct, a null replaced by its default where that is
// asked for.
func at(v schema.Value, i int, defaults bool) schema.Value {
	if defaults {
		return v.At(i)
	}
	return v.Fields()[i]
}

// basics starts a struct's schema with the name, version, documentation and
// parameters of s; as in Connect it is neither optional nor has it a default.
func basics(s *schema.Schema) *schema.Builder {
	b := schema.NewStruct(s.Name()).Doc(s.Doc())
	if n, ok := s.Version(); ok {
		b.Version(n)
	}
	for _, p := range s.Params() {
		b.Param(p.Key, p.Value)
	}
	return b
}

// noEmpty is a check for lists: there is something in it.
func noEmpty(list []string) error {
	if len(list) == 0 {
		return fmt.Errorf("Empty list")
	}
	return nil
}
