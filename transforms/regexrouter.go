package transforms

import (
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
)

var (
	routerRegex = config.Key[string]{
		Name: "regex", Required: true, Importance: config.High, Check: javatext.CheckPattern,
		Doc: "Regular expression (Java's) that the whole topic must match.",
	}
	routerReplacement = config.Key[string]{
		Name: "replacement", Required: true, Importance: config.High,
		Doc: "What the topic becomes; $1 and ${name} are the expression's groups.",
	}
)

// RegexRouter renames topics.
var RegexRouter = Plugin{
	Info: plugin.Info{
		Name: "regex-router", Class: javaPackage + "RegexRouter", Version: schema.ConnectVersion,
		Doc:    "Changes the topic of records whose whole topic matches a regular expression.",
		Config: config.Define(routerRegex, routerReplacement),
	},
	New: newRegexRouter,
}

type regexRouter struct {
	regex       *javatext.Regexp
	replacement *javatext.Replacement
	routes      map[string]string // of topics met so far
}

func newRegexRouter(v config.Values) (Transform, error) {
	re, err := javatext.Compile(routerRegex.Get(v))
	if err != nil {
		return nil, routerRegex.Errorf(v, "Invalid regex: %v", err)
	}
	// Connect finds out at the first record; a task that can never work is told at once.
	with, err := re.Replacement(routerReplacement.Get(v))
	if err != nil {
		return nil, routerReplacement.Errorf(v, "%v", err)
	}
	return &regexRouter{re, with, map[string]string{}}, nil
}

// maxRoutes bounds the topics that a router remembers.
const maxRoutes = 10_000

func (t *regexRouter) Apply(r schema.Record) (schema.Record, bool, error) {
	to, err := t.routed(r.Topic, r.Timestamp)
	if err != nil {
		return r, false, err
	}
	r.Topic = to
	return r, true, nil
}

func (t *regexRouter) uses(half) use { return unused }

func (t *regexRouter) plan(p *plan) error {
	p.add(op{what: opRoute, route: t.routed})
	return nil
}

func (t *regexRouter) routed(topic string, _ int64) (string, error) {
	to, ok := t.routes[topic]
	if !ok {
		var err error
		if to, err = t.route(topic); err != nil {
			return topic, &schema.DataError{Reason: err.Error()}
		}
		if len(t.routes) >= maxRoutes {
			clear(t.routes)
		}
		t.routes[topic] = to
	}
	return to, nil
}

func (t *regexRouter) route(topic string) (string, error) {
	ok, err := t.regex.MatchWhole(topic)
	if err != nil || !ok {
		return topic, err
	}
	return t.replacement.First(topic)
}
