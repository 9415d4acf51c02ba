package debezium

import (
	"fmt"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
	"millrace/transforms"
)

var routerExpression = config.Key[string]{Name: "topic.expression", Required: true, Importance: config.High, Width: config.MediumW, Order: 1, Display: "Topic name expression", Check: config.NonEmpty,
	Doc: "Expression whose text is the topic; nil leaves the record where it is: value.op == 'u' ? 'updates' : nil. It sees what the condition of Filter sees."}

// ContentBasedRouter chooses the topic by an expression.
var ContentBasedRouter = transforms.Plugin{
	Info: plugin.Info{
		Name: "content-router", Class: "io.debezium.transforms.ContentBasedRouter", Version: schema.DebeziumVersion,
		Doc:    "Sends records to the topic that an expression names.",
		Config: config.Define(routerExpression, scriptLanguage, scriptTopics, scriptNulls),
	},
	New: func(v config.Values) (transforms.Transform, error) {
		s, err := newScript(v, routerExpression)
		return &contentRouter{s}, err
	},
}

type contentRouter struct{ *script }

func (t *contentRouter) Apply(r schema.Record) (schema.Record, bool, error) {
	result, look, keep, err := t.run(&r)
	if err != nil || !look {
		return r, keep, err
	}
	switch to := result.(type) {
	case nil:
	case string:
		if to == "" {
			return r, false, &schema.DataError{Reason: "topic.expression makes an empty topic"}
		}
		r.Topic = to
	default:
		return r, false, &schema.DataError{Reason: fmt.Sprintf("topic.expression is %v (%T) and not a text", result, result)}
	}
	return r, true, nil
}
