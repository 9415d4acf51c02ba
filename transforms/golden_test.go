package transforms_test

import (
	"testing"

	"millrace/schema/plugin"
	"millrace/transforms"
	"millrace/transforms/smttest"
)

func runner(t *testing.T) *smttest.Runner {
	ts, err := plugin.NewTable(transforms.All()...)
	if err != nil {
		t.Fatal(err)
	}
	ps, err := plugin.NewTable(transforms.Predicates()...)
	if err != nil {
		t.Fatal(err)
	}
	return &smttest.Runner{Transforms: ts, Predicates: ps, Differences: map[string]string{}, Errors: map[string]string{
		`Cannot invoke "org.apache.kafka.connect.data.Field.schema()"`: "Unknown field: ",
		`because "config.format" is null`:                              "requires format option to be specified",
		"Unterminated quote":                                           "Unterminated quote",
		"does not correspond to a known timestamp type format":         "does not correspond to a known timestamp type format",
		"Cannot look up fields on non-struct type":                     "Unknown field: ",
		"Configuration 'fields' must not be empty":                     "Invalid value [] for configuration fields: Empty list",
		"Cannot create field because of field name duplication":        "twice",
		"for configuration renames: Invalid rename mapping: i8:int8:x": "for configuration spec: Invalid rename mapping: i8:int8:x",
		"Invalid type found in casting spec: i8":                       "Invalid type found in casting spec: ",
	}}
}

// TestGolden runs what the original classes ran. Classes of Debezium are compared
// by their own package.
func TestGolden(t *testing.T) {
	if n := runner(t).Run(t, smttest.Read(t, "testdata/cases.jsonl.gz")); n < 144 {
		t.Errorf("%d cases compared, too few", n)
	}
}

// TestGoldenMore goes through the types, defaults and settings that the golden
// cases leave untried; the cases were run by Kafka's own classes.
func TestGoldenMore(t *testing.T) {
	r := runner(t)
	r.Differences["MaskField$Value{fields=i8 replacement=300} with schemas"] = "a replacement that the field's type cannot hold is an error, and not 44"
	if n := r.Run(t, smttest.Read(t, "testdata/more.jsonl.gz")); n < 250 {
		t.Errorf("%d cases compared, too few", n)
	}
}

// TestGoldenTimestamps converts each kind of timestamp to each other one.
func TestGoldenTimestamps(t *testing.T) {
	r := runner(t)
	if n := r.Run(t, smttest.Read(t, "testdata/timestamps.jsonl.gz")); n < 200 {
		t.Errorf("%d cases compared, too few", n)
	}
}
