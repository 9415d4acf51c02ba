package debezium

import (
	"fmt"
	"strings"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
	"millrace/transforms"
)

// databaseChange is the type of a change that concerns no table.
const databaseChange = "DATABASE"

var excludedChanges = config.Key[[]string]{Name: "schema.change.event.exclude.list", Required: true, Importance: config.Medium, Width: config.MediumW, Order: 1,
	Display: "Schema change event exclude list", Check: checkChanges,
	Doc: "Types of schema changes to drop: CREATE, ALTER, DROP, TRUNCATE, and DATABASE for those that concern no table."}

func checkChanges(types []string) error {
	if len(types) == 0 {
		return fmt.Errorf("The '%s' value is invalid: A value is required", "schema.change.event.exclude.list")
	}
	for _, t := range types {
		switch t {
		case "CREATE", "ALTER", "DROP", "TRUNCATE", databaseChange:
		default:
			return fmt.Errorf("%q is no type of schema change; there are CREATE, ALTER, DROP, TRUNCATE and DATABASE", t)
		}
	}
	return nil
}

// SchemaChangeEventFilter drops schema changes by their type.
var SchemaChangeEventFilter = transforms.Plugin{
	Info: plugin.Info{
		Name: "schema-change-filter", Class: "io.debezium.transforms.SchemaChangeEventFilter", Version: schema.DebeziumVersion,
		Doc:    "Drops records of the schema change topic whose first table change is of a listed type; all other records pass.",
		Config: config.Define(excludedChanges),
	},
	New: func(v config.Values) (transforms.Transform, error) {
		t := &schemaChangeFilter{drop: map[string]bool{}}
		for _, name := range excludedChanges.Get(v) {
			t.drop[name] = true
		}
		return t, nil
	},
}

type schemaChangeFilter struct{ drop map[string]bool }

func (t *schemaChangeFilter) Apply(r schema.Record) (schema.Record, bool, error) {
	changes := schema.Value{}
	switch r.Value.Kind() {
	case schema.Struct:
		if !strings.HasSuffix(r.ValueSchema.Name(), "SchemaChangeValue") {
			return r, true, nil
		}
		changes = r.Value.Get("tableChanges")
	case schema.Map: // without a schema it is known by its fields
		var ok bool
		if _, ok = r.Value.Lookup("ddl"); !ok {
			return r, true, nil
		}
		if changes, ok = r.Value.Lookup("tableChanges"); !ok {
			return r, true, nil
		}
	default:
		return r, true, nil
	}
	kind := databaseChange
	if elems := changes.Elems(); len(elems) > 0 {
		if elems[0].Kind() == schema.Map {
			v, _ := elems[0].Lookup("type")
			kind = v.Str()
		} else {
			kind = elems[0].Get("type").Str()
		}
	}
	return r, !t.drop[kind], nil
}
