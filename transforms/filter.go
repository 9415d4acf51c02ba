package transforms

import (
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// Filter drops records.
var Filter = Plugin{
	Info: plugin.Info{
		Name: "filter", Class: javaPackage + "Filter", Version: schema.ConnectVersion,
		Doc: "Drops every record that it is applied to: give it a predicate.",
	},
	New: func(config.Values) (Transform, error) { return filter{}, nil },
}

type filter struct{}

func (filter) Apply(r schema.Record) (schema.Record, bool, error) { return r, false, nil }
