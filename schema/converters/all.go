package converters

// All are the converters that need nothing but themselves.
func All() []Plugin {
	return []Plugin{JSON, String, Bytes, Short, Integer, Long, Float, Double, Boolean, SimpleHeader}
}
