package warehouse

import (
	"compress/flate"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/dsnet/compress/bzip2"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"

	"millrace/schema"
	"millrace/schema/avro"
	"millrace/schema/avro/avrodata"
)

// avroRows are records as Avro's binary form, by the schema that Connect's leads to.
type avroRows struct {
	name    string // of the format's class, for messages
	options avrodata.Options
	fits    func(*avro.Type) error // whether the format has a form for a schema; nil: for each

	encoders schema.Cache[*avroEncoder]
}

// avroEncoder is what a schema leads to.
type avroEncoder struct {
	avro *avro.Schema
	enc  *avrodata.Encoder
}

func (f *avroRows) oneSchema() bool { return true }

func (f *avroRows) compile(s *schema.Schema) (*avroEncoder, error) {
	m := avrodata.Mapper{Options: f.options}
	as, err := m.ToAvro(s)
	if err != nil {
		return nil, err
	}
	if f.fits != nil {
		if err := f.fits(as.Type()); err != nil {
			return nil, err
		}
	}
	enc, err := avrodata.NewEncoder(s, as.Type(), f.options)
	return &avroEncoder{as, enc}, err
}

func (f *avroRows) append(dst []byte, s *schema.Schema, v schema.Value) ([]byte, error) {
	if s == nil {
		return dst, &schema.DataError{Reason: fmt.Sprintf("the value has no schema, and %s needs one; use a converter that has schemas, or JsonFormat", f.name)}
	}
	e, err := f.encoders.Get(s, f.compile)
	if err != nil {
		return dst, err
	}
	out, null, err := e.enc.Append(dst, v)
	if err == nil && null {
		err = &schema.DataError{Reason: fmt.Sprintf("the value is null, and %s has no null record", f.name)}
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

// container is Avro's object container file. Source: the Avro specification, "Object Container Files".
type container struct {
	avroRows
	codec string    // null, deflate, snappy, bzip2, zstandard
	idle  sync.Pool // of blockCodec: what compresses has tables larger than a small file
}

// blockBytes is about what a block holds before it is compressed.
const blockBytes = 64 << 10

func (f *container) ext() string { return ".avro" }

// header is the file's header but for the sync marker.
func (f *container) header(s *avro.Schema) []byte {
	b := append([]byte(nil), "Obj\x01"...)
	meta := [][2]string{{"avro.schema", s.Canonical()}, {"avro.codec", f.codec}}
	b = binary.AppendVarint(b, int64(len(meta)))
	for _, m := range meta {
		for _, text := range m {
			b = append(binary.AppendVarint(b, int64(len(text))), text...)
		}
	}
	return append(b, 0)
}

func (f *container) finish(o *body) finish {
	e, err := f.encoders.Get(o.schema, f.compile)
	if err != nil {
		return func(context.Context, io.Writer, func()) error { return err }
	}
	header := f.header(e.avro)
	// The marker follows from what is written, so that a file that is written again is the same.
	rng := rand.NewPCG(uint64(o.first), uint64(len(header)))
	var sync [16]byte
	binary.BigEndian.PutUint64(sync[:8], rng.Uint64())
	binary.BigEndian.PutUint64(sync[8:], rng.Uint64())
	return func(_ context.Context, w io.Writer, _ func()) error {
		if _, err := w.Write(append(header[:len(header):len(header)], sync[:]...)); err != nil {
			return err
		}
		var raw, packed, head []byte
		at := int64(0)
		compress, kept := f.idle.Get().(blockCodec)
		if !kept {
			var err error
			if compress, err = newBlockCodec(f.codec); err != nil {
				return err
			}
		}
		defer f.idle.Put(compress)
		for _, c := range o.cuts {
			raw = slices.Grow(raw[:0], int(c.bytes))[:c.bytes]
			if _, err := o.content.ReadAt(raw, at); err != nil && err != io.EOF {
				return err
			}
			at += c.bytes
			var err error
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
var avroCodecs = map[string]string{"null": "null", "deflate": "deflate", "snappy": "snappy", "bzip2": "bzip2", "zstd": "zstandard", "zstandard": "zstandard"}

// A blockCodec compresses blocks, one after the other, into the memory of dst.
type blockCodec func(dst, raw []byte) ([]byte, error)

func newBlockCodec(name string) (blockCodec, error) {
	switch name {
	case "deflate":
		z, err := flate.NewWriter(nil, flate.DefaultCompression)
		return streamCodec(z, func(w io.Writer) error { z.Reset(w); return nil }), err
	case "bzip2":
		z, err := bzip2.NewWriter(nil, &bzip2.WriterConfig{Level: bzip2.BestSpeed}) // levels are sizes of blocks: this is 100 kB, and ours hold less
		return streamCodec(z, z.Reset), err
	case "snappy":
		return func(dst, raw []byte) ([]byte, error) {
			dst = snappy.Encode(dst[:cap(dst)], raw)
			return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(raw)), nil
		}, nil
	case "zstandard":
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		return func(dst, raw []byte) ([]byte, error) { return z.EncodeAll(raw, dst[:0]), nil }, err
	}
	return func(_, raw []byte) ([]byte, error) { return raw, nil }, nil
}

// streamCodec makes a stream of each block.
func streamCodec(z io.WriteCloser, reset func(io.Writer) error) blockCodec {
	var out sliceWriter
	return func(dst, raw []byte) ([]byte, error) {
		out.b = dst[:0]
		if err := reset(&out); err != nil {
			return dst, err
		}
		if _, err := z.Write(raw); err != nil {
			return dst, err
		}
		err := z.Close()
		return out.b, err
	}
}

type sliceWriter struct{ b []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}
