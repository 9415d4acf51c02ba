package runtime_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"millrace/runtime"
)

func TestFlatConfig(t *testing.T) {
	for _, c := range []struct {
		name, text string
		values     map[string]string
		nulls      []string
		wrong      string
	}{
		{"texts", `{"a":"b","c":"\u00fc"}`, map[string]string{"a": "b", "c": "ü"}, nil, ""},
		{"numbers and booleans keep their text", `{"a":1.50,"b":true,"c":1e400}`, map[string]string{"a": "1.50", "b": "true", "c": "1e400"}, nil, ""},
		{"nulls are kept apart", `{"b":null,"a":null,"c":"x"}`, map[string]string{"c": "x"}, []string{"a", "b"}, ""},
		{"no settings", `{}`, map[string]string{}, nil, ""},
		{"a null is no configuration", `null`, nil, nil, ""},
		{"the last of two keys holds", `{"a":"1","a":"2"}`, map[string]string{"a": "2"}, nil, ""},
		{"an object within", `{"a":{"b":1}}`, nil, nil, `"a": want a text`},
		{"an array within", `{"a":[]}`, nil, nil, `"a": want a text`},
		{"an array", `[]`, nil, nil, "object of texts"},
		{"a text", `"x"`, nil, nil, "object of texts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got runtime.FlatConfig
			err := json.Unmarshal([]byte(c.text), &got)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("%v, want an error with %q", err, c.wrong)
				}
				return
			}
			if err != nil || !maps.Equal(got.Values, c.values) || (got.Values == nil) != (c.values == nil) || !slices.Equal(got.Nulls, c.nulls) {
				t.Errorf("%v %v (%v), want %v %v", got.Values, got.Nulls, err, c.values, c.nulls)
			}
		})
	}
}
