package transforms

import "slices"

// All are Kafka's transforms.
func All() []Plugin {
	return slices.Concat([]Plugin{RegexRouter, ValueToKey}, ExtractField, InsertField, MaskField, ReplaceField)
}

// Predicates are Kafka's predicates.
func Predicates() []PredicatePlugin {
	return []PredicatePlugin{HasHeaderKey, RecordIsTombstone, TopicNameMatches}
}
