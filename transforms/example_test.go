package transforms_test

import (
	"fmt"
	"strings"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
	"millrace/transforms"
)

var field = config.Key[string]{Name: "field", Required: true, Importance: config.High, Doc: "Field whose text is made upper case."}

// Shout is a transform of one's own, as deploy/docs/transforms.md shows it.
var Shout = transforms.Plugin{
	Info: plugin.Info{Name: "shout", Class: "com.example.Shout", Version: "1.0", Doc: "Makes the text of a field upper case.", Config: config.Define(field)},
	New:  func(v config.Values) (transforms.Transform, error) { return &shout{field: field.Get(v)}, nil },
}

type shout struct {
	field string
	at    schema.Cache[int] // where the field stands in structs of a schema
}

func (t *shout) Apply(r schema.Record) (schema.Record, bool, error) {
	if r.Value.Kind() != schema.Struct {
		return r, true, nil
	}
	i, err := t.at.Get(r.ValueSchema, func(s *schema.Schema) (int, error) { return s.Index(t.field), nil })
	if err != nil || i < 0 || r.Value.Fields()[i].Kind() != schema.String {
		return r, err == nil, err
	}
	fields := append([]schema.Value(nil), r.Value.Fields()...)
	fields[i] = schema.StringValue(strings.ToUpper(fields[i].Str()))
	r.Value = schema.StructValue(r.ValueSchema, fields)
	return r, true, nil
}

func Example_ownTransform() {
	v, errs := Shout.Config.Parse(map[string]string{"field": "name"})
	if errs != nil {
		fmt.Println(errs)
		return
	}
	t, err := Shout.New(v)
	if err != nil {
		fmt.Println(err)
		return
	}
	s := schema.NewStruct("person").Field("id", schema.Int32Schema).Field("name", schema.OptionalString).Build()
	out, keep, err := t.Apply(schema.Record{ValueSchema: s, Value: schema.StructValue(s, []schema.Value{schema.Int32Value(1), schema.StringValue("ann")})})
	fmt.Println(out.Value.Get("name").Str(), keep, err)
	// Output: ANN true <nil>
}
