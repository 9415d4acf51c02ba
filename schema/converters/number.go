package converters

import (
	"encoding/binary"
	"fmt"
	"math"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// The converters of one number or boolean each, big-endian, as Kafka's serializers
// write them. What is read is optional.
var (
	Short   = number("short", "ShortConverter", numberConverter{schema.OptionalInt16, "Short", "short", 2})
	Integer = number("integer", "IntegerConverter", numberConverter{schema.OptionalInt32, "Integer", "integer", 4})
	Long    = number("long", "LongConverter", numberConverter{schema.OptionalInt64, "Long", "long", 8})
	Float   = number("float", "FloatConverter", numberConverter{schema.OptionalFloat32, "Float", "float", 4})
	Double  = number("double", "DoubleConverter", numberConverter{schema.OptionalFloat64, "Double", "double", 8})
	Boolean = number("boolean", "BooleanConverter", numberConverter{schema.OptionalBool, "Boolean", "boolean", 1})
)

func number(name, class string, c numberConverter) Plugin {
	return Plugin{
		Info: plugin.Info{
			Name: name, Class: "org.apache.kafka.connect.converters." + class, Version: schema.ConnectVersion,
			Doc:    fmt.Sprintf("A %s in %d bytes, big-endian.", c.word, c.size),
			Config: config.Define(converterType),
		},
		New:       func(config.Values, bool) (Converter, error) { return c, nil },
		NewHeader: func(config.Values) (HeaderConverter, error) { return headers{c}, nil },
	}
}

type numberConverter struct {
	s     *schema.Schema
	class string // Java's, in the serializer's name
	word  string
	size  int
}

// Encode goes by the value; as in Connect the record's schema is not asked.
func (c numberConverter) Encode(dst []byte, _ *Message, _ *schema.Schema, v schema.Value) ([]byte, bool, error) {
	if v.IsNull() {
		return dst, true, nil
	}
	if v.Kind() != c.s.Kind() {
		return dst, false, &schema.DataError{Reason: fmt.Sprintf("Failed to serialize to %s (was %v)", c.word, v.Kind())}
	}
	switch v.Kind() {
	case schema.Bool:
		if v.Bool() {
			return append(dst, 1), false, nil
		}
		return append(dst, 0), false, nil
	case schema.Int16:
		return binary.BigEndian.AppendUint16(dst, uint16(v.Int())), false, nil
	case schema.Int32:
		return binary.BigEndian.AppendUint32(dst, uint32(v.Int())), false, nil
	case schema.Int64:
		return binary.BigEndian.AppendUint64(dst, uint64(v.Int())), false, nil
	case schema.Float32:
		return binary.BigEndian.AppendUint32(dst, math.Float32bits(float32(v.Float()))), false, nil
	}
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v.Float())), false, nil
}

func (c numberConverter) Decode(_ *Message, data []byte) (*schema.Schema, schema.Value, error) {
	if data == nil {
		return c.s, schema.Value{}, nil
	}
	if len(data) != c.size {
		return nil, schema.Value{}, &schema.DataError{Reason: fmt.Sprintf("Failed to deserialize %s: Size of data received by %sDeserializer is not %d but %d", c.word, c.class, c.size, len(data))}
	}
	switch c.s.Kind() {
	case schema.Bool:
		if data[0] > 1 {
			return nil, schema.Value{}, &schema.DataError{Reason: fmt.Sprintf("Failed to deserialize boolean: Unexpected byte received by BooleanDeserializer: %d", data[0])}
		}
		return c.s, schema.BoolValue(data[0] == 1), nil
	case schema.Int16:
		return c.s, schema.Int16Value(int16(binary.BigEndian.Uint16(data))), nil
	case schema.Int32:
		return c.s, schema.Int32Value(int32(binary.BigEndian.Uint32(data))), nil
	case schema.Int64:
		return c.s, schema.Int64Value(int64(binary.BigEndian.Uint64(data))), nil
	case schema.Float32:
		return c.s, schema.Float32Value(math.Float32frombits(binary.BigEndian.Uint32(data))), nil
	}
	return c.s, schema.Float64Value(math.Float64frombits(binary.BigEndian.Uint64(data))), nil
}
