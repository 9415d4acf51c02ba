package transforms

import "slices"

// All are Kafka's transforms.
func All() []Plugin {
	return slices.Concat([]Plugin{DropHeaders, Filter, InsertHeader, RegexRouter, TimestampRouter, ValueToKey},
		Cast, ExtractField, Flatten, HeaderFrom, HoistField, InsertField, MaskField, ReplaceField, SetSchemaMetadata, TimestampConverter)
}

// Predicates are Kafka's predicates.
func Predicates() []PredicatePlugin {
	return []PredicatePlugin{HasHeaderKey, RecordIsTombstone, TopicNameMatches}
}
