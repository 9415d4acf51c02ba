package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is a compression of Kafka's, as the low three attribute bits name it.
type Codec int8

// The codecs, with the protocol's numbers.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

func (c Codec) String() string {
	if c >= None && c <= Zstd {
		return [...]string{"none", "gzip", "snappy", "lz4", "zstd"}[c]
	}
	return fmt.Sprintf("codec %d", int8(c))
}

// Limits of decompression; the larger of the two holds. A few hostile kilobytes
// can otherwise name any amount of memory.
const (
	MaxExpansion = 64       // decompressed bytes per compressed byte
	MaxInflated  = 64 << 20 // bytes
	maxWindow    = 128 << 20
)

var errTooLarge = errors.New("decompressed data exceeds its limit")

func inflateLimit(compressed int) int { return max(MaxInflated, MaxExpansion*compressed) }

var (
	gzipReaders  = sync.Pool{New: func() any { return new(gzip.Reader) }}
	lz4Readers   = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	zstdDecoders = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			panic(err) // options are constant
		}
		return d
	}}
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(1<<20))
		if err != nil {
			panic(err) // options are constant
		}
		return e
	})
)

// inflate returns the decompressed form of src in a new buffer of at most limit bytes.
func inflate(c Codec, src []byte, limit int) ([]byte, error) {
	switch c {
	case Gzip:
		r := gzipReaders.Get().(*gzip.Reader)
		defer gzipReaders.Put(r)
		if err := r.Reset(bytes.NewReader(src)); err != nil {
			return nil, err
		}
		return readLimited(r, len(src), limit)
	case Snappy:
		return unsnappy(src, limit)
	case LZ4:
		r := lz4Readers.Get().(*lz4.Reader)
		defer lz4Readers.Put(r)
		r.Reset(bytes.NewReader(src))
		return readLimited(r, len(src), limit)
	case Zstd:
		d := zstdDecoders.Get().(*zstd.Decoder)
		defer zstdDecoders.Put(d)
		if err := d.Reset(bytes.NewReader(src)); err != nil {
			return nil, err
		}
		defer d.Reset(nil)
		return readLimited(d, len(src), limit)
	}
	return nil, fmt.Errorf("unknown %v", c)
}

func readLimited(r io.Reader, compressed, limit int) ([]byte, error) {
	// Memory follows what the stream yields, not what it promises.
	b := make([]byte, 0, min(4*compressed+512, limit+1))
	for {
		if len(b) == cap(b) {
			if len(b) > limit {
				return nil, errTooLarge
			}
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if len(b) > limit {
			return nil, errTooLarge
		}
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// Java writes snappy in a framing of its own (xerial): this header, then blocks of
// u32 length and that many bytes of plain snappy. Others write one plain block.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeader = 16 // magic, i32 version 1, i32 lowest compatible version 1
	xerialBlock  = 32 << 10
)

func unsnappy(src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return snappyBlock(nil, src, limit)
	}
	if len(src) < xerialHeader {
		return nil, io.ErrUnexpectedEOF
	}
	var out []byte
	for src = src[xerialHeader:]; len(src) > 0; {
		if len(src) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int64(binary.BigEndian.Uint32(src))
		if n > int64(len(src)-4) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = snappyBlock(out, src[4:4+n], limit); err != nil {
			return nil, err
		}
		src = src[4+n:]
	}
	return out, nil
}

// snappyBlock appends the decompressed block to dst.
func snappyBlock(dst, block []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	// A snappy copy element of 3 bytes yields at most 64: what claims more lies.
	if n > limit-len(dst) || n > 32*len(block)+64 {
		return nil, errTooLarge
	}
	at := len(dst)
	dst = append(dst, make([]byte, n)...)
	got, err := s2.Decode(dst[at:at:len(dst)], block)
	if err != nil {
		return nil, err
	}
	if len(got) != n {
		return nil, s2.ErrCorrupt
	}
	copy(dst[at:], got)
	return dst, nil
}

// deflate appends the compressed form of src to dst.
func deflate(dst []byte, c Codec, src []byte) []byte {
	w := bytes.NewBuffer(dst)
	switch c {
	case None:
		w.Write(src)
	case Gzip:
		z := gzip.NewWriter(w)
		z.Write(src)
		z.Close()
	case Snappy:
		w.Write(xerialMagic)
		w.Write([]byte{0, 0, 0, 1, 0, 0, 0, 1})
		for len(src) > 0 {
			n := min(len(src), xerialBlock)
			block := s2.EncodeSnappy(nil, src[:n])
			w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(block))))
			w.Write(block)
			src = src[n:]
		}
	case LZ4:
		z := lz4.NewWriter(w)
		z.Apply(lz4.BlockSizeOption(lz4.Block64Kb))
		z.Write(src)
		z.Close()
	case Zstd:
		return zstdEncoder().EncodeAll(src, dst)
	default:
		panic(fmt.Sprintf("batch: deflate with %v", c))
	}
	return w.Bytes() // writes to a bytes.Buffer do not fail
}
