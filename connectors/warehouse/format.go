package warehouse

import (
	"context"
	"fmt"
	"io"
	"strings"

	"millrace/schema"
	"millrace/schema/converters"
)

// A format writes records as the content of files. It is used by one goroutine but for finish, of which several may run.
type format interface {
	// ext is how names of files end.
	ext() string
	// oneSchema says that all records of a file have one schema.
	oneSchema() bool
	// append appends a record, whose value is of schema s. An error is a data error of the record; then nothing is appended.
	append(dst []byte, s *schema.Schema, v schema.Value) ([]byte, error)
	// finish is what makes a file of a body's records; nil where they are one already.
	finish(o *body) finish
}

// A finish writes a file. Where that takes much memory it waits for its turn, until ctx ends. moving is called while that gets on.
type finish func(ctx context.Context, w io.Writer, moving func()) error

// jsonLines are values as JSON without their schemas, one in a line.
type jsonLines struct {
	c converters.Converter
}

func (f *jsonLines) ext() string { return ".json" }

func (f *jsonLines) oneSchema() bool { return false }

func (f *jsonLines) append(dst []byte, s *schema.Schema, v schema.Value) ([]byte, error) {
	out, null, err := f.c.Encode(dst, nil, s, v)
	if err != nil {
		return dst, err
	}
	if null {
		out = append(out, "null"...)
	}
	return append(out, '\n'), nil
}

func (f *jsonLines) finish(*body) finish { return nil }

// textLines are values that are texts, one in a line.
type textLines struct{}

func (f *textLines) ext() string     { return ".txt" }
func (f *textLines) oneSchema() bool { return false }

func (f *textLines) append(dst []byte, _ *schema.Schema, v schema.Value) ([]byte, error) {
	if v.Kind() != schema.String {
		return dst, &schema.DataError{Reason: fmt.Sprintf("the value is %v, and StringFormat writes texts; set value.converter=org.apache.kafka.connect.storage.StringConverter", v.Kind())}
	}
	return append(append(dst, v.Str()...), '\n'), nil
}

func (f *textLines) finish(*body) finish { return nil }

// rawBytes are values that are bytes, each with a separator behind it.
type rawBytes struct {
	extension, separator string
}

func (f *rawBytes) ext() string     { return f.extension }
func (f *rawBytes) oneSchema() bool { return false }

func (f *rawBytes) append(dst []byte, _ *schema.Schema, v schema.Value) ([]byte, error) {
	switch v.Kind() {
	case schema.Bytes:
		dst = append(dst, v.Bytes()...)
	case schema.Null:
	default:
		return dst, &schema.DataError{Reason: fmt.Sprintf("the value is %v, and ByteArrayFormat writes bytes; set value.converter=org.apache.kafka.connect.converters.ByteArrayConverter", v.Kind())}
	}
	return append(dst, f.separator...), nil
}

func (f *rawBytes) finish(*body) finish { return nil }

// classKind is the last part of a class's name without suffix.
func classKind(class, suffix string) string {
	return strings.TrimSuffix(class[strings.LastIndexByte(class, '.')+1:], suffix)
}
