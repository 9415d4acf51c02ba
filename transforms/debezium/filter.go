package debezium

import (
	"fmt"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
	"millrace/transforms"
)

var filterCondition = config.Key[string]{Name: "condition", Required: true, Importance: config.High, Width: config.MediumW, Order: 1, Display: "Filtering condition", Check: config.NonEmpty,
	Doc: "Expression that is true for records to keep. It sees topic, key, value, keySchema, valueSchema and header: value.op == 'u' && value.before.id == 2, header.kind.value != 'test', valueSchema.name. A field that is not there is nil."}

// Filter keeps records for which an expression is true.
var Filter = transforms.Plugin{
	Info: plugin.Info{
		Name: "filter-by", Class: "io.debezium.transforms.Filter", Version: schema.DebeziumVersion,
		Doc:    "Keeps the records for which an expression is true and drops the others.",
		Config: config.Define(filterCondition, scriptLanguage, scriptTopics, scriptNulls),
	},
	New: func(v config.Values) (transforms.Transform, error) {
		s, err := newScript(v, filterCondition)
		return &scriptFilter{s}, err
	},
}

type scriptFilter struct{ *script }

func (t *scriptFilter) Apply(r schema.Record) (schema.Record, bool, error) {
	result, look, keep, err := t.run(&r)
	if err != nil || !look {
		return r, keep, err
	}
	yes, ok := result.(bool)
	if !ok {
		return r, false, &schema.DataError{Reason: fmt.Sprintf("the condition is %v (%T) and not true or false", result, result)}
	}
	return r, yes, nil
}
