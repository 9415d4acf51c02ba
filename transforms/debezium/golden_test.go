package debezium_test

import (
	"testing"

	"millrace/schema/plugin"
	"millrace/transforms"
	"millrace/transforms/debezium"
	"millrace/transforms/smttest"
)

func runner(t *testing.T, differences map[string]string) *smttest.Runner {
	ts, err := plugin.NewTable(debezium.All()...)
	if err != nil {
		t.Fatal(err)
	}
	ps, err := plugin.NewTable[transforms.PredicatePlugin]()
	if err != nil {
		t.Fatal(err)
	}
	return &smttest.Runner{Transforms: ts, Predicates: ps, Differences: differences}
}

func TestGolden(t *testing.T) {
	if n := runner(t, nil).Run(t, smttest.Read(t, "../testdata/cases.jsonl.gz")); n < 63 {
		t.Errorf("%d cases compared, too few", n)
	}
}

// TestGoldenUnwrap goes through the keys that the golden cases leave untried; the
// cases were run by Debezium's own class.
func TestGoldenUnwrap(t *testing.T) {
	const (
		structs = "a struct is added with its fields, optional; Debezium makes a schema without fields, which nothing can be written under"
		first   = "what a header drops makes room for what is added, for creates as for deletes"
	)
	r := runner(t, map[string]string{
		"ExtractNewRecordState{add.fields=before} with schemas":                                            structs,
		"ExtractNewRecordState{add.fields=source} with schemas":                                            structs,
		"ExtractNewRecordState{add.headers=source} with schemas":                                           structs,
		"ExtractNewRecordState{add.fields=source.snapshot,ts_ms,source.sequence,transaction} with schemas": structs,
		"ExtractNewRecordState{add.fields.prefix= add.fields=op:name delete.tombstone.handling.mode=rewrite-with-tombstone drop.fields.from.key=true drop.fields.header.name=x drop.fields.keep.schema.compatible=false} with schemas": first,
	})
	r.Errors = map[string]string{
		"cannot be cast to class java.util.List": "should hold a list of field names",
		"Unable to validate config.":             "Value must be one of drop, tombstone",
	}
	if n := r.Run(t, smttest.Read(t, "testdata/unwrap.jsonl.gz")); n < 140 {
		t.Errorf("%d cases compared, too few", n)
	}
}
