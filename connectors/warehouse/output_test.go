package warehouse

import (
	"testing"

	"millrace/schema"
)

// Schemas that alternate are met with what was made for them before.
func TestEnvelopesOfAlternatingSchemas(t *testing.T) {
	e := newStructFields(&Output{Type: "avro", Fields: []string{"key", "value", "offset"}}, 100)
	made := map[[2]*schema.Schema]*schema.Schema{}
	keys := []*schema.Schema{schema.StringSchema, schema.Int64Schema}
	for o := range int64(40) {
		r := row(o, 1+int(o%2))
		r.KeySchema, r.Key = keys[o/2%2], schema.StringValue("k")
		if r.KeySchema == schema.Int64Schema {
			r.Key = schema.Int64Value(o)
		}
		s, v, err := e.of(&r)
		if err != nil {
			t.Fatal(err)
		}
		pair := [2]*schema.Schema{r.KeySchema, r.ValueSchema}
		if made[pair] == nil {
			made[pair] = s
		}
		if s != made[pair] || v.Schema() != s || s.Field("key") != r.KeySchema || s.Field("value") != r.ValueSchema {
			t.Errorf("record %d has the schema %v", o, s)
		}
	}
	if len(made) != 4 {
		t.Errorf("%d pairs of schemas", len(made))
	}
}
