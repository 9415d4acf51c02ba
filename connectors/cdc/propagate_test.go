package cdc

import (
	"fmt"
	"testing"

	"millrace/schema"
)

func TestSourceTypesAreToldInRowsAndNotInKeys(t *testing.T) {
	plain := schema.NewStruct("n").Param("own", "1").Field("scale", schema.Int32Schema).Field("value", schema.BytesSchema).Build()
	for _, c := range []struct {
		name string
		told SourceType
		want string
	}{
		{"all there is", SourceType{Name: "c", Type: "numeric", Length: 10, Scale: 2, HasScale: true, Comment: "money"},
			"[{own 1} {__debezium.source.column.type NUMERIC} {__debezium.source.column.length 10} {__debezium.source.column.scale 2} {__debezium.source.column.comment money} {__debezium.source.column.name c}]"},
		{"neither length nor scale", SourceType{Name: "c", Type: "json", Length: -1}, "[{own 1} {__debezium.source.column.type JSON} {__debezium.source.column.name c}]"},
	} {
		b := schema.From(plain)
		for _, f := range plain.Fields() {
			b.Field(f.Name, f.Schema)
		}
		c.told.Tell(b)
		told := b.Build()
		if got := fmt.Sprint(told.Params()); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if key := Untold(told); !schema.Equal(key, plain) {
			t.Errorf("%s: the key's schema is %v with %v", c.name, key, key.Params())
		}
	}
	if Untold(plain) != plain {
		t.Error("a schema without a source type is made anew")
	}
}

func TestPropagateNamesColumnsOrTypes(t *testing.T) {
	list := func(s string) Patterns {
		p, err := ParsePatterns(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := Propagate{Columns: list("inv.orders.a"), Types: list(".*\\.numeric,inv.t.int4")}
	for name, want := range map[[4]string]bool{
		{"inv", "orders", "a", "text"}: true, {"inv", "orders", "b", "text"}: false, {"x", "y", "z", "numeric"}: true, {"inv", "t", "z", "int4"}: true, {"inv", "u", "z", "int4"}: false,
	} {
		if got := p.Match(name[0], name[1], name[2], name[3]); got != want {
			t.Errorf("%v: %v, want %v", name, got, want)
		}
	}
}
