package avro

import "math"

// logicalOf reads a type's logical type from its properties. One that Avro does not know, or that the type cannot carry, is none, as
// in Java.
func logicalOf(t *Type) Logical {
	name := t.Prop("logicalType")
	if !name.IsString() {
		return Logical{}
	}
	is := func(kinds ...Kind) bool {
		for _, k := range kinds {
			if t.Kind == k {
				return true
			}
		}
		return false
	}
	l := Logical{Name: name.Str()}
	ok := false
	switch l.Name {
	case "decimal":
		l.Precision, ok = intProp(t, "precision")
		if t.Prop("scale") != nil && ok {
			l.Scale, ok = intProp(t, "scale")
		}
		ok = ok && is(Bytes, Fixed) && l.Precision > 0 && l.Scale >= 0 && l.Scale <= l.Precision && (t.Kind == Bytes || float64(l.Precision) <= math.Floor(math.Log10(2)*float64(8*t.Size-1)))
	case "big-decimal":
		ok = is(Bytes)
	case "uuid":
		ok = is(String) || is(Fixed) && t.Size == 16
	case "duration":
		ok = is(Fixed) && t.Size == 12
	case "date", "time-millis":
		ok = is(Int)
	case "time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos":
		ok = is(Long)
	}
	if !ok {
		return Logical{}
	}
	return l
}

func intProp(t *Type, name string) (int, bool) {
	n, ok := t.Prop(name).Int()
	if !ok || n < math.MinInt32 || n > math.MaxInt32 {
		return 0, false
	}
	return int(n), true
}
