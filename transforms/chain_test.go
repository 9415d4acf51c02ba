package transforms_test

import (
	"fmt"
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
	"millrace/transforms"
)

func tables(t testing.TB) (plugin.Table[transforms.Plugin], plugin.Table[transforms.PredicatePlugin]) {
	t.Helper()
	ts, err := plugin.NewTable(transforms.All()...)
	if err != nil {
		t.Fatal(err)
	}
	ps, err := plugin.NewTable(transforms.Predicates()...)
	if err != nil {
		t.Fatal(err)
	}
	return ts, ps
}

// settings reads "key=value" lines.
func settings(text string) map[string]string {
	raw := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			raw[k] = v
		}
	}
	return raw
}

const (
	smt  = "org.apache.kafka.connect.transforms."
	pred = smt + "predicates."
)

func TestChainAppliesInOrderAndWherePredicatesHold(t *testing.T) {
	ts, ps := tables(t)
	raw := settings(`
		transforms=route, again, mark
		transforms.route.type=` + smt + `RegexRouter
		transforms.route.regex=ord(.*)
		transforms.route.replacement=x-$1
		transforms.again.type=regex-router
		transforms.again.regex=x-(.*)
		transforms.again.replacement=y-$1
		transforms.again.predicate=deleted
		transforms.again.negate=true
		transforms.mark.type=InsertField$Value
		transforms.mark.topic.field=t
		transforms.mark.predicate=routed
		predicates=deleted,routed
		predicates.deleted.type=` + pred + `RecordIsTombstone
		predicates.routed.type=` + pred + `TopicNameMatches
		predicates.routed.pattern=y-.*`)
	c, errs := transforms.NewChain(raw, ts, ps)
	if errs != nil {
		t.Fatal(errs)
	}
	if c.Len() != 3 {
		t.Errorf("%d transforms, want 3", c.Len())
	}
	value := schema.MapValue([]schema.Entry{{Key: schema.StringValue("a"), Value: schema.Int64Value(1)}})
	out, keep, err := c.Apply(schema.Record{Topic: "orders", Value: value})
	if err != nil || !keep || out.Topic != "y-ers" {
		t.Fatalf("topic %q, keep %v, %v", out.Topic, keep, err)
	}
	if v, _ := out.Value.Lookup("t"); v.Str() != "y-ers" {
		t.Errorf("the field has %q, want the topic as the transforms before it left it", v.Str())
	}
	if _, touched := value.Lookup("t"); touched {
		t.Error("the record's own value was changed")
	}
	out, _, err = c.Apply(schema.Record{Topic: "orders"})
	if err != nil || out.Topic != "x-ers" {
		t.Errorf("a tombstone's topic is %q (%v), want x-ers: the second transform is not for it", out.Topic, err)
	}
}

func TestChainErrorsNameTheTransform(t *testing.T) {
	ts, ps := tables(t)
	c, errs := transforms.NewChain(settings("transforms=k\ntransforms.k.type=ValueToKey\ntransforms.k.fields=id"), ts, ps)
	if errs != nil {
		t.Fatal(errs)
	}
	_, _, err := c.Apply(schema.Record{Topic: "t"})
	step, ok := err.(*transforms.StepError)
	if !ok || step.Alias != "k" || step.Class != smt+"ValueToKey" {
		t.Errorf("error %v", err)
	}
}

func TestChainReportsEveryWrongKey(t *testing.T) {
	ts, ps := tables(t)
	for _, c := range []struct {
		name, raw string
		want      []string
	}{
		{"nothing configured", "", nil},
		{"no type", "transforms=a", []string{`transforms.a.type: Missing required configuration "transforms.a.type" which has no default value.`}},
		{"a class that there is not", "transforms=a\ntransforms.a.type=no.such.Smt", []string{"transforms.a.type: Invalid value no.such.Smt for configuration transforms.a.type: Class no.such.Smt could not be found."}},
		{"an alias twice", "transforms=a,a\ntransforms.a.type=ValueToKey\ntransforms.a.fields=x", []string{"transforms: Invalid value [a, a] for configuration transforms: Duplicate alias provided."}},
		{"more aliases than may be", "transforms=" + strings.Repeat("a,", transforms.MaxAliases) + "a", []string{"transforms: The list has 501 names; 500 are allowed."}},
		{"required keys missing", "transforms=a\ntransforms.a.type=RegexRouter", []string{
			`transforms.a.regex: Missing required configuration "transforms.a.regex" which has no default value.`,
			`transforms.a.replacement: Missing required configuration "transforms.a.replacement" which has no default value.`}},
		{"a wrong expression", "transforms=a\ntransforms.a.type=RegexRouter\ntransforms.a.regex=(\ntransforms.a.replacement=x", []string{
			"transforms.a.regex: Invalid value ( for configuration transforms.a.regex: Invalid regex: Unclosed group near index 1\n("}},
		{"a group that there is not", "transforms=a\ntransforms.a.type=RegexRouter\ntransforms.a.regex=ord(.*)\ntransforms.a.replacement=x-$2", []string{
			`transforms.a.replacement: Invalid value x-$2 for configuration transforms.a.replacement: the replacement "x-$2": No group 2 in the expression "ord(.*)", which has 1`}},
		{"a predicate that there is not", "transforms=a\ntransforms.a.type=ValueToKey\ntransforms.a.fields=x\ntransforms.a.predicate=p\npredicates=q\npredicates.q.type=RecordIsTombstone", []string{
			"transforms.a.predicate: Invalid value p for configuration transforms.a.predicate: there is no such predicate; the setting predicates lists q"}},
		{"negated without a predicate", "transforms=a\ntransforms.a.type=ValueToKey\ntransforms.a.fields=x\ntransforms.a.negate=true", []string{
			"transforms.a.negate: Config 'transforms.a.negate' was provided but there is no config 'transforms.a.predicate' defining a predicate to be negated."}},
		{"a negate that is no boolean, once", "transforms=a\ntransforms.a.type=ValueToKey\ntransforms.a.fields=x\ntransforms.a.negate=maybe\ntransforms.a.predicate=q\npredicates=q\npredicates.q.type=RecordIsTombstone", []string{
			"transforms.a.negate: Invalid value maybe for configuration transforms.a.negate: Expected value to be either true or false"}},
		{"a predicate's key", "transforms=\npredicates=p\npredicates.p.type=HasHeaderKey", []string{`predicates.p.name: Missing required configuration "predicates.p.name" which has no default value.`}},
		{"no field to insert", "transforms=a\ntransforms.a.type=InsertField$Key", []string{
			"transforms.a.type: No field insertion configured: set at least one of topic.field, partition.field, offset.field, timestamp.field, static.field"}},
		{"an open backtick", "transforms=a\ntransforms.a.type=ExtractField$Value\ntransforms.a.field=a.`b\ntransforms.a.field.syntax.version=V2", []string{
			"transforms.a.field: Invalid value a.`b for configuration transforms.a.field: Incomplete backtick pair in path: [a.`b], consider adding a backslash before backtick at position 2 to escape it"}},
	} {
		_, errs := transforms.NewChain(settings(c.raw), ts, ps)
		var got []string
		for _, e := range errs {
			got = append(got, e.Key+": "+e.Error())
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// TestDefinitions has the settings of golden/connect-rest's validation of
// transforms, as far as its classes are built: names, groups, order, values.
func TestDefinitions(t *testing.T) {
	ts, ps := tables(t)
	raw := settings("transforms=h,h\ntransforms.h.type=" + smt + "ExtractField$Value\ntransforms.h.predicate=p\npredicates=q\npredicates.q.type=" + pred + "TopicNameMatches")
	defs, errs := transforms.Definitions(raw, ts, ps)
	var got []string
	for _, d := range defs {
		def, _ := d.Info.DefaultText()
		got = append(got, fmt.Sprintf("%s|%s|%d|%v|%s|%s|%s|%s|%s|%v", d.Info.Name, d.Info.Group, d.Info.Order, d.Info.Required, d.Info.Type, def, d.Info.Width, d.Info.Importance, d.Info.Display, d.Value))
	}
	want := []string{
		"transforms.h.type|Transforms: h|0|true|CLASS||LONG|HIGH|Transformation type for h|" + smt + "ExtractField$Value",
		"transforms.h.plugin.version|Transforms: h|1|false|STRING|4.3.1|LONG|HIGH|Transformation version for h|4.3.1",
		"transforms.h.field|Transforms: h|2|true|STRING||NONE|MEDIUM|field|<nil>",
		"transforms.h.field.syntax.version|Transforms: h|3|false|STRING|V1|NONE|HIGH|field.syntax.version|V1",
		"transforms.h.negate|Transforms: h|4|false|BOOLEAN|false|NONE|MEDIUM|negate|false",
		"transforms.h.predicate|Transforms: h|5|false|STRING||NONE|MEDIUM|predicate|p",
		"transforms.h.replace.null.with.default|Transforms: h|6|false|BOOLEAN|true|NONE|MEDIUM|replace.null.with.default|true",
		"predicates.q.type|Predicates: q|0|true|CLASS||LONG|HIGH|Predicate type for q|" + pred + "TopicNameMatches",
		"predicates.q.plugin.version|Predicates: q|1|false|STRING|4.3.1|LONG|HIGH|Predicate version for q|4.3.1",
		"predicates.q.pattern|Predicates: q|2|true|STRING||NONE|MEDIUM|pattern|<nil>",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	keys := []string{}
	for _, e := range errs {
		keys = append(keys, e.Key)
	}
	if fmt.Sprint(keys) != "[transforms.h.field predicates.q.pattern]" {
		t.Errorf("wrong keys: %v", keys)
	}
	versions := defs[1].Info.Recommend(config.Values{})
	if len(versions) != 1 || versions[0] != "4.3.1" {
		t.Errorf("recommended versions: %v", versions)
	}
}
