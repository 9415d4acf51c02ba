package cdc

import "millrace/schema"

// ServerPartition is the source partition of a server, as Debezium stores it.
func ServerPartition(prefix string) schema.Value {
	return schema.MapValue([]schema.Entry{{Key: schema.StringValue("server"), Value: schema.StringValue(prefix)}})
}

// A Position is put together entry by entry, in the order in which it is stored.
type Position []schema.Entry

// Set adds an entry.
func (p Position) Set(key string, v schema.Value) Position {
	return append(p, schema.Entry{Key: schema.StringValue(key), Value: v})
}

// Value is the position as an offset holds it.
func (p Position) Value() schema.Value { return schema.MapValue(p) }

// Int is a stored offset's number of that name, and whether there is one.
func Int(position schema.Value, key string) (int64, bool) {
	v, ok := position.Lookup(key)
	if !ok {
		return 0, false
	}
	switch v.Kind() {
	case schema.Int8, schema.Int16, schema.Int32, schema.Int64:
		return v.Int(), true
	}
	return 0, false
}

// Text is a stored offset's text of that name, or "".
func Text(position schema.Value, key string) string {
	v, _ := position.Lookup(key)
	return v.Str()
}

// True reports whether a stored offset's boolean of that name is true.
func True(position schema.Value, key string) bool {
	v, _ := position.Lookup(key)
	return v.Bool()
}
