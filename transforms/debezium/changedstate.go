package debezium

import (
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/envelope"
	"millrace/schema/plugin"
	"millrace/transforms"
)

var (
	changedHeader = config.Key[string]{Name: "header.changed.name", Importance: config.Low, Width: config.Short, Order: 1, Display: "Header change name.",
		Doc: "Header that takes the list of the columns that an update changed; none without it."}
	unchangedHeader = config.Key[string]{Name: "header.unchanged.name", Importance: config.Low, Width: config.Short, Order: 1, Display: "Header unchanged name.",
		Doc: "Header that takes the list of the columns that an update left as they were; none without it."}
)

// ExtractChangedRecordState tells in headers which columns an update changed.
var ExtractChangedRecordState = transforms.Plugin{
	Info: plugin.Info{
		Name: "changed-state", Class: "io.debezium.transforms.ExtractChangedRecordState", Version: schema.DebeziumVersion,
		Doc:    "Adds headers with the names of the columns that an update changed and did not change. Where the row before is not known both lists are empty.",
		Config: config.Define(changedHeader, unchangedHeader),
	},
	New: newChangedState,
}

type changedState struct {
	events             envelope.Reader
	changed, unchanged *schema.Schema // of the headers; nil for none
}

func newChangedState(v config.Values) (transforms.Transform, error) {
	list := func(name string) *schema.Schema {
		if name == "" {
			return nil
		}
		return schema.ArrayOf(schema.OptionalString).Name(name).Optional().Build()
	}
	return &changedState{changed: list(changedHeader.Get(v)), unchanged: list(unchangedHeader.Get(v))}, nil
}

func (t *changedState) Apply(r schema.Record) (schema.Record, bool, error) {
	event, ok := t.events.Read(r.ValueSchema, r.Value)
	if !ok || t.changed == nil && t.unchanged == nil {
		return r, true, nil
	}
	var changed, unchanged []schema.Value
	note := func(name schema.Value, same bool) {
		if same {
			unchanged = append(unchanged, name)
		} else {
			changed = append(changed, name)
		}
	}
	switch before, after := event.Before, event.After; {
	case before.Kind() == schema.Struct && after.Kind() == schema.Struct:
		for i, f := range after.Schema().Fields() {
			old := before.Get(f.Name)
			if i < len(before.Fields()) && before.Schema() == after.Schema() {
				old = before.At(i)
			}
			note(schema.StringValue(f.Name), schema.EqualValues(old, after.At(i)))
		}
	case before.Kind() == schema.Map && after.Kind() == schema.Map:
		for _, e := range after.Entries() {
			old, had := before.Lookup(e.Key.Str())
			note(e.Key, had && schema.EqualValues(old, e.Value))
		}
	}
	var add [2]schema.Header
	headers := add[:0]
	if t.changed != nil {
		headers = append(headers, schema.Header{Key: t.changed.Name(), Schema: t.changed, Value: schema.ArrayValue(changed)})
	}
	if t.unchanged != nil {
		headers = append(headers, schema.Header{Key: t.unchanged.Name(), Schema: t.unchanged, Value: schema.ArrayValue(unchanged)})
	}
	r.WithHeaders(headers...)
	return r, true, nil
}
