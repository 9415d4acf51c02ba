package converters

import (
	"fmt"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// Bytes is Connect's ByteArrayConverter.
var Bytes = Plugin{
	Info: plugin.Info{
		Name: "bytes", Class: "org.apache.kafka.connect.converters.ByteArrayConverter", Version: schema.ConnectVersion,
		Doc:    "Bytes as they are; anything else is an error. What is read is optional bytes.",
		Config: config.Define(converterType),
	},
	New:       func(config.Values, bool) (Converter, error) { return bytesConverter{}, nil },
	NewHeader: func(config.Values) (HeaderConverter, error) { return headers{bytesConverter{}}, nil },
}

type bytesConverter struct{}

func (bytesConverter) Encode(dst []byte, _ *Message, s *schema.Schema, v schema.Value) ([]byte, bool, error) {
	switch {
	case s != nil && s.Kind() != schema.Bytes:
		return dst, false, &schema.DataError{Reason: fmt.Sprintf("Invalid schema type for ByteArrayConverter: %v", s.Kind())}
	case v.IsNull():
		return dst, true, nil
	case v.Kind() != schema.Bytes:
		return dst, false, &schema.DataError{Reason: fmt.Sprintf("ByteArrayConverter is not compatible with objects of type %v", v.Kind())}
	}
	return append(dst, v.Bytes()...), false, nil
}

func (bytesConverter) Decode(_ *Message, data []byte) (*schema.Schema, schema.Value, error) {
	if data == nil {
		return schema.OptionalBytes, schema.Value{}, nil
	}
	return schema.OptionalBytes, schema.BytesValue(data), nil
}
