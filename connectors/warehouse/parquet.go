package warehouse

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"millrace/schema"
	"millrace/schema/avro"
)

const (
	// rowGroupBytes is about what a row group holds as Avro, before it is encoded. It bounds what one file takes in memory while it is
	// made; readers like row groups large.
	rowGroupBytes = 32 << 20
	// pageBytes is about what a page holds, as in Confluent's sink, and what a dictionary may: one that is larger saves nothing.
	pageBytes = 64 << 10
	// allPages bounds the pages of all columns together; see pageSize.
	allPages = 4 << 20
	// longRecord is the size of a record from which on the bounds of a file's texts are left out: they would be as long as the texts.
	longRecord = 16 << 10
)

// A parquetCodec is how pages are compressed, and how files that are so compressed are called.
type parquetCodec struct {
	ext   string
	codec compress.Codec
}

var parquetCodecs = map[string]parquetCodec{
	"none":         {"", &parquet.Uncompressed},
	"uncompressed": {"", &parquet.Uncompressed},
	"snappy":       {".snappy", &parquet.Snappy},
	"gzip":         {".gz", &parquet.Gzip},
	"zstd":         {".zstd", &parquet.Zstd},
	"lz4":          {".lz4", &parquet.Lz4Raw},
	"brotli":       {".br", &parquet.Brotli},
}

// parquetFiles are Parquet files. Until a file is finished its records are kept as Avro, by which the forms of Connect's schemas are
// those of Confluent's ParquetFormat (Avro's, as parquet-avro turns them into Parquet's). Then they are taken apart into columns: an
// open file takes no more memory than one of another format.
type parquetFiles struct {
	avroRows
	codec      parquetCodec
	groupBytes int64 // see rowGroupBytes

	makers, longMakers schema.Cache[*parquetMaker] // the second of files with long records, see longRecord
}

// pageSize is about what a page, and a dictionary, holds in a file of so many columns. While a row group is made each column has buffers
// of up to ten times that, so that where there are many columns their pages are small.
func pageSize(columns int) int { return min(pageBytes, allPages/columns) }

func fitsParquet(t *avro.Type) error {
	_, err := newParquetShape(t, false)
	return err
}

func (f *parquetFiles) ext() string { return f.codec.ext + ".parquet" }

func (f *parquetFiles) finish(o *body) finish {
	m, err := f.maker(o)
	if err != nil {
		return func(context.Context, io.Writer, func()) error { return err }
	}
	return func(ctx context.Context, w io.Writer, moving func()) error {
		memory := min(m.memory(o.size), makingBytes)
		if err := making.acquire(ctx, memory, moving); err != nil {
			return err
		}
		defer making.release(memory)
		return m.make(w, o, func() {
			moving()
			making.moved()
		})
	}
}

// making bounds what all tasks of the process take together while they make Parquet files; one that takes more by itself is alone.
var making = newBudget(makingBytes)

const makingBytes = 208 << 20

// memory is what a file of so many bytes of Avro takes while it is made, about and rather more: the pages of a row group until it is
// written, and what each column has of buffers, tables and a dictionary, which grows with the values to a multiple of a page.
func (m *parquetMaker) memory(size int64) int64 {
	columns := int64(m.root.to)
	column := min(16*int64(m.page)+80<<10, 16*size/columns+16<<10)
	return min(size, m.groupBytes) + columns*column
}

// maker is what makes a file of o's schema.
func (f *parquetFiles) maker(o *body) (*parquetMaker, error) {
	makers := &f.makers
	if o.largest >= longRecord {
		makers = &f.longMakers
	}
	return makers.Get(o.schema, func(s *schema.Schema) (*parquetMaker, error) {
		e, err := f.encoders.Get(s, f.compile)
		if err != nil {
			return nil, err
		}
		shape, err := newParquetShape(e.avro.Type(), o.largest >= longRecord)
		if err != nil {
			return nil, err
		}
		m := &parquetMaker{root: shape.shape, groupBytes: f.groupBytes, page: pageSize(shape.shape.to), options: []parquet.WriterOption{parquet.NewSchema(e.avro.Name(), shape.root), parquet.Compression(f.codec.codec),
			parquet.DataPageVersion(1), parquet.WriteBufferSize(blockSize), parquet.CreatedBy("millrace", "1", "parquet-go"),
			parquet.KeyValueMetadata("parquet.avro.schema", e.avro.Canonical()), parquet.KeyValueMetadata("writer.model.name", "avro")}}
		m.options = append(m.options, parquet.DictionaryMaxBytes(int64(m.page)), parquet.ColumnPageBuffers(parquet.NewChunkBufferPool(m.page/2)))
		for _, path := range shape.loose {
			m.options = append(m.options, parquet.SkipPageBounds(path...))
		}
		return m, nil
	})
}

// A parquetMaker makes files of one schema, several at a time.
type parquetMaker struct {
	root       *shape
	options    []parquet.WriterOption
	page       int // see pageSize
	groupBytes int64
	idle       sync.Pool // of *shredder
}

// smallPage is the least that a column's buffer is made for.
const smallPage = 4 << 10

func (m *parquetMaker) make(w io.Writer, o *body, moving func()) error {
	s, kept := m.idle.Get().(*shredder)
	if !kept {
		s = &shredder{columns: make([][]parquet.Value, m.root.to)}
	}
	// The library makes a column's buffer for a whole page. A small file has none, so that its pages are as large as all of it.
	page := min(m.page, max(int(min(o.size, pageBytes)), smallPage))
	out := parquet.NewWriter(w, append(slices.Clip(m.options), parquet.PageBufferSize(page))...) // the generic one takes no lists of two levels
	if err := s.all(o, m.root, m.groupBytes, out, moving); err != nil {
		return err
	}
	if o.largest < longRecord {
		m.idle.Put(s)
	}
	return out.Close()
}

// A shredder takes Avro's bytes apart into the columns of a Parquet file.
type shredder struct {
	in      []byte // a block
	at      int    // where it is read: a slice that gets shorter would cost the collector's barrier for each value
	columns [][]parquet.Value
}

// columnFile is a Parquet file that takes columns.
type columnFile interface {
	ColumnWriters() []*parquet.ColumnWriter
	Flush() error // ends the row group
}

var errTornRow = errors.New("what was kept of a record cannot be read")

// all writes the records of a file. moving is called behind each row group.
func (s *shredder) all(o *body, root *shape, groupBytes int64, out columnFile, moving func()) error {
	at, group := int64(0), int64(0)
	writers := out.ColumnWriters()
	for _, c := range o.cuts {
		s.in, s.at = slices.Grow(s.in[:0], int(c.bytes))[:c.bytes], 0
		if _, err := o.content.ReadAt(s.in, at); err != nil && err != io.EOF {
			return err
		}
		at += c.bytes
		for range c.records {
			if err := s.value(root, 0); err != nil {
				return err
			}
		}
		if s.at < len(s.in) {
			return errTornRow
		}
		for i, values := range s.columns {
			if _, err := writers[i].WriteRowValues(values); err != nil {
				return fmt.Errorf("write column %d: %w", i, err)
			}
			s.columns[i] = values[:0]
		}
		if group += c.bytes; group >= groupBytes {
			if err := out.Flush(); err != nil {
				return err
			}
			moving()
			group = 0
		}
	}
	return nil
}

// value takes one value; rep is the repetition level of its first part.
func (s *shredder) value(sh *shape, rep int) error {
	switch sh.kind {
	case avro.Record:
		for _, kid := range sh.kids {
			if err := s.value(kid, rep); err != nil {
				return err
			}
		}
		return nil
	case avro.Union:
		branch, err := s.long()
		if err != nil || branch < 0 || branch >= int64(len(sh.branches)) {
			return errTornRow
		}
		chosen := sh.branches[branch]
		if chosen < 0 {
			s.nulls(sh, rep, sh.def-1)
			return nil
		}
		for i, kid := range sh.kids {
			if i != chosen {
				s.nulls(kid, rep, sh.def)
			} else if err := s.value(kid, rep); err != nil {
				return err
			}
		}
		return nil
	case avro.Array, avro.Map:
		return s.items(sh, rep)
	}
	return s.leaf(sh, rep)
}

// items takes a list, or the entries of a map.
func (s *shredder) items(sh *shape, rep int) error {
	first := true
	for {
		n, err := s.long()
		if err != nil {
			return err
		}
		if n < 0 { // the block's size follows
			n = -n
			if _, err := s.long(); err != nil {
				return err
			}
		}
		if n == 0 {
			if first {
				s.nulls(sh, rep, sh.def-1)
			}
			return nil
		}
		for range n {
			for _, kid := range sh.kids {
				if err := s.value(kid, rep); err != nil {
					return err
				}
			}
			first, rep = false, sh.rep
		}
	}
}

// nulls notes in all columns of a part that it is not there.
func (s *shredder) nulls(sh *shape, rep, def int) {
	for c := sh.from; c < sh.to; c++ {
		s.columns[c] = append(s.columns[c], parquet.Value{}.Level(rep, def, c))
	}
}

func (s *shredder) leaf(sh *shape, rep int) (err error) {
	var v parquet.Value
	switch sh.kind {
	case avro.Boolean:
		var b []byte
		if b, err = s.take(1); err == nil {
			v = parquet.BooleanValue(b[0] != 0)
		}
	case avro.Int:
		var n int64
		n, err = s.long()
		v = parquet.Int32Value(int32(n))
	case avro.Long:
		var n int64
		n, err = s.long()
		v = parquet.Int64Value(n)
	case avro.Float:
		var b []byte
		if b, err = s.take(4); err == nil {
			v = parquet.FloatValue(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
	case avro.Double:
		var b []byte
		if b, err = s.take(8); err == nil {
			v = parquet.DoubleValue(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
	case avro.Bytes, avro.String:
		var n int64
		var b []byte
		if n, err = s.long(); err == nil {
			b, err = s.take(n)
			v = parquet.ByteArrayValue(b)
		}
	case avro.Fixed:
		var b []byte
		b, err = s.take(int64(sh.size))
		v = parquet.FixedLenByteArrayValue(b)
	case avro.Enum:
		var n int64
		if n, err = s.long(); err == nil && (n < 0 || n >= int64(len(sh.symbols))) {
			err = errTornRow
		}
		if err == nil {
			v = parquet.ByteArrayValue(sh.symbols[n])
		}
	}
	s.columns[sh.from] = append(s.columns[sh.from], v.Level(rep, sh.def, sh.from))
	return err
}

func (s *shredder) long() (int64, error) {
	n, size := binary.Varint(s.in[s.at:])
	if size <= 0 {
		return 0, errTornRow
	}
	s.at += size
	return n, nil
}

func (s *shredder) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(s.in)-s.at) {
		return nil, errTornRow
	}
	from, to := s.at, s.at+int(n)
	s.at = to
	return s.in[from:to:to], nil
}
