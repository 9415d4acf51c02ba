package schema_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"millrace/schema"
	"millrace/schema/schematest"
)

// TestCacheAgainstAModel asks a cache for schemas and their twins: a result is
// computed for each schema once as long as it can be kept, and never another's.
func TestCacheAgainstAModel(t *testing.T) {
	schematest.Rounds(t, 30, func(t *testing.T, r *rand.Rand) {
		limit := 1 + r.IntN(20)
		c := schema.Cache[string]{Limit: limit}
		pool := []*schema.Schema{nil}
		names := map[*schema.Schema]string{nil: "nil"}
		for i := range 1 + r.IntN(30) {
			s := schema.NewStruct(fmt.Sprint("s", i)).Field("a", schema.Int32Schema).Build()
			for range 1 + r.IntN(3) {
				pool = append(pool, schematest.Copy(s))
				names[pool[len(pool)-1]] = s.Name()
			}
		}
		var recent []string // names in the order of their use, the newest first
		computed := 0
		for range 500 {
			s := pool[r.IntN(len(pool))]
			name := names[s]
			fail := r.IntN(20) == 0
			hit := true
			got, err := c.Get(s, func(asked *schema.Schema) (string, error) {
				hit = false
				if asked != s {
					t.Fatal("asked for another schema")
				}
				if fail {
					return "x", errors.New("no")
				}
				computed++
				return name, nil
			})
			if !hit && fail {
				if err == nil || got != "" {
					t.Fatalf("a failure gave %q, %v", got, err)
				}
				continue
			}
			if err != nil || got != name {
				t.Fatalf("%q for %q, %v", got, name, err)
			}
			if len(recent) > 0 && recent[0] == name && !hit {
				t.Fatalf("%q was computed twice in a row", name)
			}
			recent = append([]string{name}, recent...)
		}
		if limit > len(pool) && computed > len(names) {
			t.Errorf("%d results for %d schemas in a cache that holds them all", computed, len(names))
		}
	})
}

func TestCacheComputesOncePerEqualSchema(t *testing.T) {
	var c schema.Cache[int]
	n := 0
	for range 5000 { // a source that makes a new pointer each time
		s := schema.NewStruct("s").Field("a", schema.Int32Schema).Build()
		if _, err := c.Get(s, func(*schema.Schema) (int, error) { n++; return n, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("computed %d times", n)
	}
}

func TestCacheOfNilAfterAFailure(t *testing.T) {
	var c schema.Cache[string]
	if _, err := c.Get(nil, func(*schema.Schema) (string, error) { return "", errors.New("no") }); err == nil {
		t.Fatal("no error")
	}
	if got, err := c.Get(nil, func(*schema.Schema) (string, error) { return "yes", nil }); err != nil || got != "yes" {
		t.Errorf("%q, %v", got, err)
	}
}

func BenchmarkCacheHit(b *testing.B) {
	var c schema.Cache[int]
	s := schema.NewStruct("s").Build()
	for b.Loop() {
		if _, err := c.Get(s, func(*schema.Schema) (int, error) { return 1, nil }); err != nil {
			b.Fatal(err)
		}
	}
}
