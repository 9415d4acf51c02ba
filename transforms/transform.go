package transforms

import (
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// A Transform changes a record, or drops it.
type Transform interface {
	// Apply returns the changed record; keep is false where the record is dropped.
	// What it changes it makes anew: values and headers are shared with others. An
	// error concerns this record alone (a data error).
	Apply(r schema.Record) (out schema.Record, keep bool, err error)
}

// A Plugin is a transform as a binary lists it.
type Plugin struct {
	plugin.Info
	New func(v config.Values) (Transform, error)
}

// A Predicate says which records a transform applies to.
type Predicate interface {
	// Test reports whether the record is one of them. It does not change it.
	Test(r *schema.Record) (bool, error)
}

// A PredicatePlugin is a predicate as a binary lists it.
type PredicatePlugin struct {
	plugin.Info
	New func(v config.Values) (Predicate, error)
}
