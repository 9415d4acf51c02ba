package debezium

import (
	"fmt"
	"strconv"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/envelope"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
	"millrace/transforms"
)

// VectorToJSON writes vectors as JSON.
var VectorToJSON = transforms.Plugin{
	Info: plugin.Info{
		Name: "vector-to-json", Class: "io.debezium.transforms.VectorToJsonConverter", Version: schema.DebeziumVersion,
		Doc:    "Turns vector columns into JSON texts, for sinks that know no vectors: { \"values\": [1.0, 2.5] }, and of a sparse one { \"dimensions\": 5, \"vector\": { \"1\": 1.5 } }.",
		Config: config.Define(),
	},
	New: func(config.Values) (transforms.Transform, error) { return &vectorToJSON{}, nil },
}

// The names of the vectors' schemas.
const (
	doubleVector = "io.debezium.data.DoubleVector"
	floatVector  = "io.debezium.data.FloatVector"
	sparseVector = "io.debezium.data.SparseDoubleVector"
)

type vectorToJSON struct {
	plans schema.Cache[*vectorPlan]
}

// vectorPlan is what becomes of a struct: nil where nothing does.
type vectorPlan struct {
	to     *schema.Schema
	fields []vectorField
}

type vectorField struct {
	vector bool
	inner  *vectorPlan
}

func (t *vectorToJSON) Apply(r schema.Record) (schema.Record, bool, error) {
	if r.Value.IsNull() {
		return r, true, nil
	}
	if r.Value.Kind() != schema.Struct {
		return r, false, &schema.DataError{Reason: "Only Struct objects supported for [Value should be a struct], found: " + javatext.ClassName(r.Value.Kind())}
	}
	p, err := t.plans.Get(r.ValueSchema, planVectors)
	if err != nil || p == nil {
		return r, err == nil, err
	}
	r.ValueSchema, r.Value = p.to, p.apply(r.Value)
	return r, true, nil
}

func planVectors(s *schema.Schema) (*vectorPlan, error) {
	p, any := &vectorPlan{fields: make([]vectorField, len(s.Fields()))}, false
	b := schema.From(s)
	for i, f := range s.Fields() {
		to := f.Schema
		switch {
		case to.Name() == doubleVector || to.Name() == floatVector || to.Name() == sparseVector:
			to, p.fields[i].vector = envelope.Semantic(schema.String, envelope.JSONName).SetOptional(to.Optional()).Build(), true
		case to.Kind() == schema.Struct && to.Recursive():
			return nil, schema.Under(f.Name, &schema.DataError{Reason: fmt.Sprintf("the %s is a part of itself; this transform does not change such schemas", to)})
		case to.Kind() == schema.Struct:
			inner, err := planVectors(to)
			if err != nil {
				return nil, err
			}
			if inner != nil {
				to, p.fields[i].inner = inner.to, inner
			}
		}
		any = any || to != f.Schema
		b.Field(f.Name, to)
	}
	if !any {
		return nil, nil
	}
	var err error
	p.to, err = b.TryBuild()
	return p, err
}

func (p *vectorPlan) apply(v schema.Value) schema.Value {
	old := v.Fields()
	fields := make([]schema.Value, len(old))
	for i, f := range p.fields {
		switch {
		case old[i].IsNull():
		case f.vector:
			fields[i] = schema.StringOfBytes(appendVector(nil, old[i]))
		case f.inner != nil:
			fields[i] = f.inner.apply(old[i])
		default:
			fields[i] = old[i]
		}
	}
	return schema.StructValue(p.to, fields)
}

func appendVector(b []byte, v schema.Value) []byte {
	if v.Kind() == schema.Array {
		b = append(b, `{ "values": [`...)
		for i, e := range v.Elems() {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendNumber(b, e)
		}
		return append(b, "] }"...)
	}
	b = append(b, `{ "dimensions": `...)
	b = strconv.AppendInt(b, v.Get("dimensions").Int(), 10)
	b = append(b, `, "vector": { `...)
	for i, e := range v.Get("vector").Entries() {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, '"')
		b = strconv.AppendInt(b, e.Key.Int(), 10)
		b = append(b, `": `...)
		b = appendNumber(b, e.Value)
	}
	return append(b, " } }"...)
}

// appendNumber writes a number as Java prints it.
func appendNumber(b []byte, v schema.Value) []byte {
	if v.Kind() == schema.Float32 {
		return javatext.AppendFloat(b, float32(v.Float()))
	}
	return javatext.AppendDouble(b, v.Float())
}
