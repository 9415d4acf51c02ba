package warehouse

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"time"

	"millrace/schema"
	"millrace/schema/avro/avrodata"
	"millrace/schema/config"
	"millrace/schema/converters"
)

// An Output says what files are in the manner of Aiven's sinks: one file for a partition at a time, with chosen fields of each record,
// finished whenever offsets are committed.
type Output struct {
	Type   string                                                      // csv, json, jsonl, avro, parquet
	Fields []string                                                    // of key, value, offset, timestamp, headers
	Raw    bool                                                        // values of csv stand as they are, not in base64
	Bare   bool                                                        // the one field without an object around it
	Pack   string                                                      // how files are compressed: none, gzip, snappy, zstd
	Name   func(topic string, partition int32, first, ms int64) string // of a file; ms is its first record's time
	Event  bool                                                        // that time is the record's, not the clock's
}

// when is a record's time in milliseconds, for the name of a file that begins with it.
func (o *Output) when(r *schema.Record, now time.Time) int64 {
	if o.Event && r.Timestamp != schema.NoTimestamp {
		return r.Timestamp
	}
	return now.UnixMilli()
}

// view is the view that fills the files.
func (o *Output) view(v config.Values) (*view, *config.Error) {
	out := &view{part: "record"}
	c, errs := converters.JSON.Make(map[string]string{"schemas.enable": "false"}, false)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	switch o.Type {
	case "csv":
		out.format, out.of = &rawBytes{"", "\n"}, o.csv
	case "jsonl", "json":
		j := &jsonFields{o, c}
		out.format, out.of = &rawBytes{"", "\n"}, j.of
		if o.Type == "json" {
			out.format = &jsonArray{rawBytes{"", "\n"}}
		}
	default:
		kind := map[string]string{"avro": "Avro", "parquet": "Parquet"}[o.Type]
		rows := avroRows{name: "format.output.type=" + o.Type, options: avrodata.Options{Enhanced: true, MetaData: true}}
		rows.encoders.Limit = int(cacheSize.Get(v))
		if kind == "Parquet" {
			rows.fits = fitsParquet
			out.format = &parquetFiles{avroRows: rows, codec: parquetCodecs[o.Pack], groupBytes: rowGroupBytes}
		} else {
			out.format = &container{avroRows: rows, codec: "null"}
		}
		out.of = newStructFields(o, int(cacheSize.Get(v))).of
	}
	if o.Pack != "none" && o.Type != "parquet" {
		out.format = &packed{out.format, packers[o.Pack], ""}
	}
	return out, nil
}

func (o *Output) csv(r *schema.Record) (*schema.Schema, schema.Value, error) {
	var b []byte
	for i, field := range o.Fields {
		if i > 0 {
			b = append(b, ',')
		}
		switch field {
		case "key":
			if !r.Key.IsNull() {
				text, err := octets(r.Key, "key")
				if err != nil {
					return nil, schema.Value{}, err
				}
				b = base64.StdEncoding.AppendEncode(b, text)
			}
		case "value":
			if r.Value.IsNull() {
				break
			}
			text, err := octets(r.Value, "value")
			if err != nil {
				return nil, schema.Value{}, err
			}
			if o.Raw {
				b = append(b, text...)
			} else {
				b = base64.StdEncoding.AppendEncode(b, text)
			}
		case "offset":
			b = strconv.AppendInt(b, r.Origin.Offset, 10)
		case "timestamp":
			b = append(b, isoTime(r)...)
		case "headers":
			for _, h := range r.Headers {
				b = append(base64.StdEncoding.AppendEncode(b, []byte(h.Key)), ':')
				b = append(base64.StdEncoding.AppendEncode(b, converters.AppendText(nil, h.Value)), ';')
			}
		}
	}
	return schema.BytesSchema, schema.BytesValue(b), nil
}

// octets are the bytes of a value that is bytes or a text.
func octets(v schema.Value, part string) ([]byte, error) {
	switch v.Kind() {
	case schema.Bytes:
		return v.Bytes(), nil
	case schema.String:
		return v.StrBytes(), nil
	}
	return nil, &schema.DataError{Reason: fmt.Sprintf("the %s is %v, and csv takes bytes and texts; set %s.converter=org.apache.kafka.connect.converters.ByteArrayConverter, or another format.output.type", part, v.Kind(), part)}
}

// isoTime is the record's time as Java's ISO_INSTANT has it; empty where it has none.
func isoTime(r *schema.Record) string {
	if r.Timestamp == schema.NoTimestamp {
		return ""
	}
	at := time.UnixMilli(r.Timestamp).UTC()
	if at.Nanosecond() == 0 {
		return at.Format("2006-01-02T15:04:05Z")
	}
	return at.Format("2006-01-02T15:04:05.000Z")
}

// jsonFields takes records as JSON objects of their fields.
type jsonFields struct {
	o *Output
	c converters.Converter
}

func (j *jsonFields) of(r *schema.Record) (*schema.Schema, schema.Value, error) {
	var b []byte
	var err error
	if !j.o.Bare {
		b = append(b, '{')
	}
	for i, field := range j.o.Fields {
		if i > 0 {
			b = append(b, ',')
		}
		if !j.o.Bare {
			b = append(strconv.AppendQuote(b, field), ':')
		}
		switch field {
		case "key":
			b, err = j.value(b, r.KeySchema, r.Key)
		case "value":
			b, err = j.value(b, schemaOf(r), r.Value)
		case "offset":
			b = strconv.AppendInt(b, r.Origin.Offset, 10)
		case "timestamp":
			if text := isoTime(r); text != "" {
				b = strconv.AppendQuote(b, text)
			} else {
				b = append(b, nullText...)
			}
		case "headers":
			b, err = j.headers(b, r)
		}
		if err != nil {
			return nil, schema.Value{}, fmt.Errorf("its %s: %w", field, err)
		}
	}
	if !j.o.Bare {
		b = append(b, '}')
	}
	return schema.BytesSchema, schema.BytesValue(b), nil
}

func (j *jsonFields) value(b []byte, s *schema.Schema, v schema.Value) ([]byte, error) {
	out, null, err := j.c.Encode(b, nil, s, v)
	if err == nil && null {
		out = append(out, nullText...)
	}
	return out, err
}

func (j *jsonFields) headers(b []byte, r *schema.Record) ([]byte, error) {
	b = append(b, '[')
	for i, h := range r.Headers {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = j.value(append(b, `{"key":`...), schema.StringSchema, schema.StringValue(h.Key)); err != nil {
			return b, err
		}
		if b, err = j.value(append(b, `,"value":`...), h.Schema, h.Value); err != nil {
			return b, err
		}
		b = append(b, '}')
	}
	return append(b, ']'), nil
}

// structFields takes records as structs of their fields.
type structFields struct {
	o     *Output
	outer schema.Cache[*schema.Cache[*schema.Schema]] // by the value's schema, and then by the key's
}

// maxKeySchemas bounds the schemas of keys beside one schema of values: a topic has few.
const maxKeySchemas = 10

func newStructFields(o *Output, limit int) *structFields {
	e := &structFields{o: o}
	e.outer.Limit = limit
	return e
}

var textsByName = schema.MapOf(schema.StringSchema, schema.New(schema.String).Optional().Build()).Build()

func (e *structFields) of(r *schema.Record) (*schema.Schema, schema.Value, error) {
	if e.o.Bare && r.Value.Kind() == schema.Struct {
		return r.Value.Schema(), r.Value, nil
	}
	s, err := e.schema(r)
	if err != nil {
		return nil, schema.Value{}, err
	}
	values := make([]schema.Value, len(e.o.Fields))
	for i, field := range e.o.Fields {
		switch field {
		case "key":
			values[i] = r.Key
		case "value":
			values[i] = r.Value
		case "offset":
			values[i] = schema.Int64Value(r.Origin.Offset)
		case "timestamp":
			if r.Timestamp != schema.NoTimestamp {
				values[i] = schema.Int64Value(r.Timestamp)
			}
		case "headers":
			var all []schema.Entry
			for _, h := range r.Headers {
				entry := schema.Entry{Key: schema.StringValue(h.Key)}
				if !h.Value.IsNull() {
					entry.Value = schema.StringOfBytes(converters.AppendText(nil, h.Value))
				}
				all = append(all, entry)
			}
			values[i] = schema.MapValue(all)
		}
	}
	return s, schema.StructValue(s, values), nil
}

// schema is the schema of a record's envelope.
func (e *structFields) schema(r *schema.Record) (*schema.Schema, error) {
	value := schemaOf(r)
	byKey, err := e.outer.Get(value, func(*schema.Schema) (*schema.Cache[*schema.Schema], error) {
		return &schema.Cache[*schema.Schema]{Limit: maxKeySchemas}, nil
	})
	if err != nil {
		return nil, err
	}
	return byKey.Get(r.KeySchema, func(key *schema.Schema) (*schema.Schema, error) { return e.build(key, value) })
}

func (e *structFields) build(key, value *schema.Schema) (*schema.Schema, error) {
	b := schema.NewStruct("io.aiven." + e.o.Type + ".output.schema.connector_records")
	for _, field := range e.o.Fields {
		s := textsByName
		switch field {
		case "key":
			s = key
		case "value":
			s = value
		case "offset":
			s = schema.Int64Schema
		case "timestamp":
			s = schema.New(schema.Int64).Optional().Build()
		}
		if s == nil {
			return nil, &schema.DataError{Path: field, Reason: fmt.Sprintf("it has no schema, and format.output.type=%s needs one; use a converter that has schemas, or jsonl", e.o.Type)}
		}
		b.Field(field, s)
	}
	return b.TryBuild()
}

// jsonArray is lines of JSON as one list.
type jsonArray struct{ rawBytes }

func (f *jsonArray) finish(o *body) finish {
	return func(_ context.Context, w io.Writer, _ func()) error {
		out := bufio.NewWriterSize(w, blockBytes)
		out.WriteString("[\n")
		in := bufio.NewReaderSize(io.NewSectionReader(&o.content, 0, o.content.size-1), blockBytes) // but for the last line feed
		for {
			line, err := in.ReadSlice('\n')
			if n := len(line); n > 0 && line[n-1] == '\n' { // JSON has none within a value
				out.Write(line[:n-1])
				out.WriteString(",\n")
			} else {
				out.Write(line)
			}
			if err == io.EOF {
				break
			}
			if err != nil && err != bufio.ErrBufferFull {
				return err
			}
		}
		out.WriteString("\n]")
		return out.Flush()
	}
}
