package warehouse

import (
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"

	"millrace/schema"
	"millrace/schema/avro/avrodata"
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
	// finish writes what makes a file of its records; nil where they are one already.
	finish(f *openFile) func(w io.Writer) error
}

// jsonLines are values as JSON without their schemas, one in a line.
type jsonLines struct {
	c    converters.Converter
	gzip int // level; 0: not compressed
}

func (f *jsonLines) ext() string { return ".json" + gzipExt(f.gzip) }

func gzipExt(level int) string {
	if level != 0 {
		return ".gz"
	}
	return ""
}

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

func (f *jsonLines) finish(o *openFile) func(io.Writer) error { return finishGzip(o, f.gzip) }

// rawBytes are values that are bytes, each with a separator behind it.
type rawBytes struct {
	extension, separator string
	gzip                 int
}

func (f *rawBytes) ext() string     { return f.extension + gzipExt(f.gzip) }
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

func (f *rawBytes) finish(o *openFile) func(io.Writer) error { return finishGzip(o, f.gzip) }

func finishGzip(o *openFile, level int) func(io.Writer) error {
	if level == 0 {
		return nil
	}
	return func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, level)
		if err != nil {
			return err
		}
		if _, err := io.Copy(z, io.NewSectionReader(&o.content, 0, o.content.size)); err != nil {
			return err
		}
		return z.Close()
	}
}

// container is Avro's object container file. Source: the Avro specification, "Object Container Files".
type container struct {
	options avrodata.Options
	codec   string // null, deflate, snappy, zstandard

	encoders schema.Cache[*avroEncoder]
}

// avroEncoder is what a schema leads to.
type avroEncoder struct {
	header []byte // schema and codec, without the sync marker
	enc    *avrodata.Encoder
}

// blockBytes is about what a block holds before it is compressed.
const blockBytes = 64 << 10

func (f *container) ext() string     { return ".avro" }
func (f *container) oneSchema() bool { return true }

func (f *container) compile(s *schema.Schema) (*avroEncoder, error) {
	m := avrodata.Mapper{Options: f.options}
	as, err := m.ToAvro(s)
	if err != nil {
		return nil, err
	}
	enc, err := avrodata.NewEncoder(s, as.Type(), f.options)
	if err != nil {
		return nil, err
	}
	b := append([]byte(nil), "Obj\x01"...)
	meta := map[string]string{"avro.schema": as.Canonical(), "avro.codec": f.codec}
	b = binary.AppendVarint(b, int64(len(meta)))
	for _, key := range []string{"avro.schema", "avro.codec"} {
		b = append(binary.AppendVarint(b, int64(len(key))), key...)
		b = append(binary.AppendVarint(b, int64(len(meta[key]))), meta[key]...)
	}
	return &avroEncoder{header: append(b, 0), enc: enc}, nil
}

func (f *container) append(dst []byte, s *schema.Schema, v schema.Value) ([]byte, error) {
	if s == nil {
		return dst, &schema.DataError{Reason: "the value has no schema, and AvroFormat needs one; use a converter that has schemas, or JsonFormat"}
	}
	e, err := f.encoders.Get(s, f.compile)
	if err != nil {
		return dst, err
	}
	out, null, err := e.enc.Append(dst, v)
	if err == nil && null {
		err = &schema.DataError{Reason: "the value is null, and AvroFormat has no null record"}
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (f *container) finish(o *openFile) func(io.Writer) error {
	e, err := f.encoders.Get(o.schema, f.compile)
	if err != nil {
		return func(io.Writer) error { return err }
	}
	// The marker follows from what is written, so that a file that is written again is the same.
	rng := rand.NewPCG(uint64(o.first), uint64(len(e.header)))
	var sync [16]byte
	binary.BigEndian.PutUint64(sync[:8], rng.Uint64())
	binary.BigEndian.PutUint64(sync[8:], rng.Uint64())
	return func(w io.Writer) error {
		if _, err := w.Write(append(append([]byte(nil), e.header...), sync[:]...)); err != nil {
			return err
		}
		var raw, packed, head []byte
		at := int64(0)
		compress, err := blockCodec(f.codec)
		if err != nil {
			return err
		}
		for _, c := range o.cuts {
			raw = append(raw[:0], make([]byte, c.bytes)...)
			if _, err := o.content.ReadAt(raw, at); err != nil && err != io.EOF {
				return err
			}
			at += c.bytes
			if packed, err = compress(packed[:0], raw); err != nil {
				return err
			}
			head = binary.AppendVarint(binary.AppendVarint(head[:0], c.records), int64(len(packed)))
			for _, part := range [][]byte{head, packed, sync[:]} {
				if _, err := w.Write(part); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// avroCodecs are the values of avro.codec, and how a file names them.
var avroCodecs = map[string]string{"null": "null", "deflate": "deflate", "snappy": "snappy", "zstd": "zstandard", "zstandard": "zstandard"}

// blockCodec makes what compresses the blocks of one file.
func blockCodec(name string) (func(dst, raw []byte) ([]byte, error), error) {
	switch name {
	case "deflate":
		var out sliceWriter
		z, err := flate.NewWriter(&out, flate.DefaultCompression)
		return func(dst, raw []byte) ([]byte, error) {
			out.b = dst
			z.Reset(&out)
			if _, err := z.Write(raw); err != nil {
				return dst, err
			}
			err := z.Close()
			return out.b, err
		}, err
	case "snappy":
		return func(dst, raw []byte) ([]byte, error) {
			dst = append(dst[:0], snappy.Encode(nil, raw)...)
			return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(raw)), nil
		}, nil
	case "zstandard":
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		return func(dst, raw []byte) ([]byte, error) { return z.EncodeAll(raw, dst[:0]), nil }, err
	}
	return func(_, raw []byte) ([]byte, error) { return raw, nil }, nil
}

type sliceWriter struct{ b []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// classKind is the last part of a class's name without suffix.
func classKind(class, suffix string) string {
	return strings.TrimSuffix(class[strings.LastIndexByte(class, '.')+1:], suffix)
}
