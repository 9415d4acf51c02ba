package transforms

import (
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
)

var (
	headerName   = config.Key[string]{Name: "name", Required: true, Check: config.NonEmpty, Doc: "Key of the header."}
	topicPattern = config.Key[string]{Name: "pattern", Required: true, Check: checkTopicPattern, Doc: "Regular expression (Java's) that the whole topic must match."}
)

func checkTopicPattern(text string) error {
	if err := config.NonEmpty(text); err != nil {
		return err
	}
	return javatext.CheckPattern(text)
}

// HasHeaderKey holds for records with a header of that key.
var HasHeaderKey = PredicatePlugin{
	Info: plugin.Info{
		Name: "has-header-key", Class: javaPackage + "predicates.HasHeaderKey", Version: schema.ConnectVersion,
		Doc: "Records that have at least one header of this key.", Config: config.Define(headerName),
	},
	New: func(v config.Values) (Predicate, error) { return hasHeaderKey(headerName.Get(v)), nil },
}

type hasHeaderKey string

func (p hasHeaderKey) Test(r *schema.Record) (bool, error) {
	_, ok := r.Header(string(p))
	return ok, nil
}

// RecordIsTombstone holds for records whose value is null.
var RecordIsTombstone = PredicatePlugin{
	Info: plugin.Info{
		Name: "record-is-tombstone", Class: javaPackage + "predicates.RecordIsTombstone", Version: schema.ConnectVersion,
		Doc: "Records whose value is null.",
	},
	New: func(config.Values) (Predicate, error) { return tombstone{}, nil },
}

type tombstone struct{}

func (tombstone) Test(r *schema.Record) (bool, error) { return r.Value.IsNull(), nil }

// TopicNameMatches holds for records whose whole topic matches.
var TopicNameMatches = PredicatePlugin{
	Info: plugin.Info{
		Name: "topic-name-matches", Class: javaPackage + "predicates.TopicNameMatches", Version: schema.ConnectVersion,
		Doc: "Records whose whole topic matches a regular expression.", Config: config.Define(topicPattern),
	},
	New: newTopicNameMatches,
}

type topicNameMatches struct{ re *javatext.Regexp }

func newTopicNameMatches(v config.Values) (Predicate, error) {
	re, err := javatext.Compile(topicPattern.Get(v))
	if err != nil {
		return nil, topicPattern.Errorf(v, "Invalid regex: %v", err)
	}
	return topicNameMatches{re}, nil
}

func (p topicNameMatches) Test(r *schema.Record) (bool, error) {
	ok, err := p.re.MatchWhole(r.Topic)
	if err != nil {
		return false, &schema.DataError{Reason: err.Error()}
	}
	return ok, nil
}
