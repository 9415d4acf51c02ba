package transforms_test

import (
	"testing"

	"millrace/schema/plugin"
	"millrace/transforms"
	"millrace/transforms/smttest"
)

// TestGolden runs what the original classes ran. Classes of Debezium are compared
// by their own package.
func TestGolden(t *testing.T) {
	ts, err := plugin.NewTable(transforms.All()...)
	if err != nil {
		t.Fatal(err)
	}
	ps, err := plugin.NewTable(transforms.Predicates()...)
	if err != nil {
		t.Fatal(err)
	}
	r := smttest.Runner{Transforms: ts, Predicates: ps, Differences: map[string]string{}}
	if n := r.Run(t, smttest.Read(t, "testdata/cases.jsonl.gz")); n < 57 {
		t.Errorf("%d cases compared, too few", n)
	}
}
