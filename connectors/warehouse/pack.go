package warehouse

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// A packer compresses what is written to it.
type packer func(w io.Writer) (io.WriteCloser, error)

func gzipPacker(level int) packer {
	return func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, level) }
}

// packers are how files are compressed as a whole.
var packers = map[string]packer{
	"gzip":   gzipPacker(gzip.DefaultCompression),
	"zstd":   func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) },
	"snappy": func(w io.Writer) (io.WriteCloser, error) { return &xerial{w: w}, nil },
}

// packed is a format whose files are compressed as a whole.
type packed struct {
	format
	pack packer
	end  string // of names
}

func (p *packed) ext() string { return p.format.ext() + p.end }

func (p *packed) finish(o *body) finish {
	inner := p.format.finish(o)
	return func(ctx context.Context, w io.Writer, moving func()) error {
		z, err := p.pack(w)
		if err != nil {
			return err
		}
		if inner != nil {
			err = inner(ctx, z, moving)
		} else {
			_, err = io.Copy(z, io.NewSectionReader(&o.content, 0, o.content.size))
		}
		if err != nil {
			z.Close()
			return err
		}
		return z.Close()
	}
}

// xerial is the stream of Snappy's blocks that snappy-java writes (SnappyOutputStream): a header, then each block behind its size.
type xerial struct {
	w     io.Writer
	begun bool
	raw   []byte
}

const xerialBlock = 32 << 10

func (x *xerial) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		take := min(xerialBlock-len(x.raw), len(p))
		x.raw = append(x.raw, p[:take]...)
		if p = p[take:]; len(x.raw) == xerialBlock {
			if err := x.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (x *xerial) flush() error {
	if !x.begun {
		x.begun = true
		if _, err := x.w.Write([]byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")); err != nil {
			return err
		}
	}
	block := snappy.Encode(nil, x.raw)
	x.raw = x.raw[:0]
	if _, err := x.w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(block)))); err != nil {
		return err
	}
	_, err := x.w.Write(block)
	return err
}

func (x *xerial) Close() error {
	if len(x.raw) == 0 && x.begun {
		return nil
	}
	return x.flush()
}
