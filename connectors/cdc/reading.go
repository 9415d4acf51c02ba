package cdc

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"millrace/schema/config"
	"millrace/schema/envelope"
)

// A Reading reads what settings of every database source say together, and collects what is wrong with them beyond what
// each key's own check finds, in Debezium's words where it has some.
type Reading struct {
	Values config.Values
	Errs   []*config.Error
}

// Add collects an error; nil is none.
func (r *Reading) Add(e *config.Error) {
	if e != nil {
		r.Errs = append(r.Errs, e)
	}
}

// Require is a text that must be given.
func (r *Reading) Require(k config.Key[string]) string {
	s := k.Get(r.Values)
	if s == "" {
		r.Add(Missing(k.Name))
	}
	return s
}

// Queue checks that a queue holds more than a batch.
func (r *Reading) Queue(queue, batch int) {
	if queue <= batch {
		r.Add(Invalid(KeyMaxQueueSize.Name, strconv.Itoa(queue), "Must be larger than the maximum batch size"))
	}
}

// Exclusive checks that two settings are not both given.
func (r *Reading) Exclusive(include, exclude string) {
	raw := r.Values.Raw
	if strings.TrimSpace(raw[include]) != "" && strings.TrimSpace(raw[exclude]) != "" {
		r.Add(Invalid(exclude, raw[exclude], fmt.Sprintf("\"%s\" is already specified; give one of the two", include)))
	}
}

// Patterns is a list of regular expressions: read from its text and not from the list, since commas may be escaped.
func (r *Reading) Patterns(key string) Patterns {
	p, err := ParsePatterns(r.Values.Raw[key])
	if err != nil {
		r.Add(&config.Error{Key: key, Value: r.Values.Raw[key], Reason: err.Error()})
	}
	return p
}

// Naming is how topics, schemas and fields are called. The modes of adjustment are checked by their keys already.
func (r *Reading) Naming(prefix, delimiter, schemas, fields string) Naming {
	n := Naming{Prefix: prefix, Delimiter: delimiter}
	n.Schemas, _ = envelope.ParseAdjuster(schemas)
	n.Fields, _ = envelope.ParseAdjuster(fields)
	return n
}

// HeartbeatTopic is the topic of heartbeats; the older setting of its prefix counts where the present one is not given.
func (r *Reading) HeartbeatTopic(n Naming, prefix, older string) string {
	if KeyHeartbeatPrefix2.Has(r.Values) && !KeyHeartbeatTopicsPrefix.Has(r.Values) {
		prefix = older
	}
	return prefix + n.Delimiter + n.Prefix
}

// Selects are the statements of tables by those of snapshot.select.statement.overrides.
func (r *Reading) Selects(tables string) map[string]string {
	out := map[string]string{}
	for _, t := range SplitPatterns(tables) {
		key := KeySnapshotSelectStatementOverrides.Name + "." + t
		if r.Values.Raw[key] == "" {
			r.Add(&config.Error{Key: KeySnapshotSelectStatementOverrides.Name, Value: t, Reason: fmt.Sprintf("there is no key %s with the table's SELECT", key)})
		}
		out[t] = r.Values.Raw[key]
	}
	return out
}

// TextRules are the masks, cuts and hashes of columns, whose keys hold a part of what they say. Keys that are renamed are
// reported with their present names.
func (r *Reading) TextRules(renamed map[string]string) (rules []TextRule) {
	for _, k := range slices.Sorted(maps.Keys(r.Values.Raw)) {
		text := r.Values.Raw[k]
		if now := renamed[k]; now != "" {
			r.Add(&config.Error{Key: k, Value: r.Values.Shown(now, text), Reason: fmt.Sprintf("this key is called %s now; rename it", now)})
		}
		if rule, err := ParseTextRule(k, text); err != nil {
			r.Add(&config.Error{Key: k, Value: text, Reason: err.Error()})
		} else if rule != nil {
			rules = append(rules, *rule)
		}
	}
	return rules
}
