package schema

import (
	"fmt"
	"strconv"
)

// The names of Connect's logical types (org.apache.kafka.connect.data) and of the
// parameters that Decimal takes.
const (
	DecimalName   = "org.apache.kafka.connect.data.Decimal"
	DateName      = "org.apache.kafka.connect.data.Date"
	TimeName      = "org.apache.kafka.connect.data.Time"
	TimestampName = "org.apache.kafka.connect.data.Timestamp"

	ScaleParam     = "scale"
	PrecisionParam = "connect.decimal.precision"
)

// DecimalOf starts the schema of a Decimal with this scale, version 1.
func DecimalOf(scale int32) *Builder {
	return New(Bytes).Name(DecimalName).Param(ScaleParam, strconv.Itoa(int(scale))).Version(1)
}

// DateOf, TimeOf and TimestampOf start the schemas of the other logical types, version 1.
func DateOf() *Builder      { return New(Int32).Name(DateName).Version(1) }
func TimeOf() *Builder      { return New(Int32).Name(TimeName).Version(1) }
func TimestampOf() *Builder { return New(Int64).Name(TimestampName).Version(1) }

// logicalKind is the kind of a schema's values: that of its logical type where its
// name is one's and its own kind is that type's encoding, else its own.
func logicalKind(s *Schema) (kind Kind, scale int32, err error) {
	switch {
	case s.name == DecimalName && s.kind == Bytes:
		text, ok := s.Param(ScaleParam)
		if !ok {
			return 0, 0, fmt.Errorf("schema %s: no parameter %q", s, ScaleParam)
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return 0, 0, fmt.Errorf("schema %s: parameter %s=%q is no 32-bit integer", s, ScaleParam, text)
		}
		return Decimal, int32(n), nil
	case s.name == DateName && s.kind == Int32:
		return Date, 0, nil
	case s.name == TimeName && s.kind == Int32:
		return Time, 0, nil
	case s.name == TimestampName && s.kind == Int64:
		return Timestamp, 0, nil
	}
	return s.kind, 0, nil
}
