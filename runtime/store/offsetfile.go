package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
)

// maxOffsetFile bounds the offset file of a Java worker.
const maxOffsetFile = 256 << 20

// An offsetEntry is one offset of a Java worker's file: key and value as the offset topic
// has them.
type offsetEntry struct{ key, value []byte }

// ImportFile takes over the offsets of a standalone Connect worker's file
// (offset.storage.file.filename) when the topic holds none yet, and returns how many.
// done is false where it holds some already. A file that is not there has none.
func (o *Offsets) ImportFile(ctx context.Context, path string) (n int, done bool, err error) {
	o.mu.Lock()
	have := len(o.stored)
	o.mu.Unlock()
	if have > 0 {
		return 0, false, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, true, nil
	} else if err != nil {
		return 0, false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	if !fi.Mode().IsRegular() {
		return 0, false, fmt.Errorf("%s is no file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxOffsetFile+1))
	if err != nil {
		return 0, false, err
	}
	entries, err := readOffsetFile(data)
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", path, err)
	}
	var rs []*kgo.Record
	o.mu.Lock()
	for _, e := range entries {
		if e.value == nil {
			continue
		}
		if _, _, err = o.codec.ParseKey(e.key); err == nil {
			_, err = o.codec.parse(e.value)
		}
		if err != nil {
			err = fmt.Errorf("%s: entry %q: %w", path, e.key, err)
			break
		}
		rs = append(rs, &kgo.Record{Key: e.key, Value: e.value})
	}
	o.mu.Unlock()
	if err != nil || len(rs) == 0 {
		return 0, err == nil, err
	}
	if err := o.table.Put(ctx, rs...); err != nil {
		return 0, false, err
	}
	return len(rs), true, o.table.ReadToEnd(ctx)
}

// The parts of Java's object serialization (protocol version 2) that such a file has: one
// java.util.HashMap of byte arrays.
const (
	tcNull, tcReference, tcClassDesc, tcObject, tcArray = 0x70, 0x71, 0x72, 0x73, 0x75
	tcBlockData, tcEndBlockData                         = 0x77, 0x78

	firstHandle = 0x7e0000
)

var (
	// The stream's magic, an object of HashMap's description, and its two fields.
	hashMapStart = []byte("\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1\x03\x00\x02F\x00\x0aloadFactorI\x00\x09thresholdxp")
	// The description of byte arrays.
	bytesClass = []byte("r\x00\x02[B\xac\xf3\x17\xf8\x06\x08\x54\xe0\x02\x00\x00xp")
)

// errNoOffsetFile says what such a file is.
var errNoOffsetFile = errors.New("not the offset file of a Connect worker (a serialized java.util.HashMap of byte arrays)")

// readOffsetFile reads the offsets of a Java worker's file. An empty file has none.
func readOffsetFile(data []byte) ([]offsetEntry, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if len(data) > maxOffsetFile {
		return nil, fmt.Errorf("larger than %d MiB: %w", maxOffsetFile>>20, errNoOffsetFile)
	}
	r := &javaReader{rest: data, size: len(data), arrays: map[uint32][]byte{}}
	if !r.skip(hashMapStart) {
		return nil, errNoOffsetFile
	}
	// loadFactor and threshold, then HashMap's own data: its capacity and size.
	r.handles = 2 // the class and the map
	head := r.take(8 + 2 + 8)
	if head == nil || head[8] != tcBlockData || head[9] != 8 {
		return nil, r.broken()
	}
	n := int32(binary.BigEndian.Uint32(head[14:]))
	if n < 0 || int(n) > len(r.rest)/2 {
		return nil, r.broken()
	}
	out := make([]offsetEntry, 0, n)
	for range n {
		key, err := r.bytes()
		if err != nil {
			return nil, err
		}
		value, err := r.bytes()
		if err != nil {
			return nil, err
		}
		if key == nil {
			return nil, r.broken()
		}
		out = append(out, offsetEntry{key, value})
	}
	if end := r.take(1); end == nil || end[0] != tcEndBlockData || len(r.rest) > 0 {
		return nil, r.broken()
	}
	return out, nil
}

// A javaReader reads serialized byte arrays.
type javaReader struct {
	rest    []byte
	size    int
	handles uint32            // given out so far
	class   uint32            // handle of the arrays' description; 0: not met yet
	arrays  map[uint32][]byte // by handle
}

func (r *javaReader) broken() error {
	return fmt.Errorf("at byte %d: %w", r.size-len(r.rest), errNoOffsetFile)
}

func (r *javaReader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *javaReader) skip(what []byte) bool {
	if !bytes.HasPrefix(r.rest, what) {
		return false
	}
	r.rest = r.rest[len(what):]
	return true
}

// bytes reads a byte array, one that was written before, or null.
func (r *javaReader) bytes() ([]byte, error) {
	kind := r.take(1)
	if kind == nil {
		return nil, r.broken()
	}
	switch kind[0] {
	case tcNull:
		return nil, nil
	case tcReference:
		handle, ok := r.reference()
		b, known := r.arrays[handle]
		if !ok || !known {
			return nil, r.broken()
		}
		return b, nil
	case tcArray:
	default:
		return nil, r.broken()
	}
	if r.skip(bytesClass) {
		r.class = r.handles
		r.handles++
	} else if of := r.take(1); of == nil || of[0] != tcReference {
		return nil, r.broken()
	} else if handle, ok := r.reference(); !ok || r.class == 0 || handle != r.class {
		return nil, r.broken()
	}
	head := r.take(4)
	if head == nil {
		return nil, r.broken()
	}
	b := r.take(int(int32(binary.BigEndian.Uint32(head))))
	if b == nil {
		return nil, r.broken()
	}
	r.arrays[r.handles] = b
	r.handles++
	return b, nil
}

func (r *javaReader) reference() (handle uint32, ok bool) {
	b := r.take(4)
	if b == nil {
		return 0, false
	}
	n := binary.BigEndian.Uint32(b)
	return n - firstHandle, n >= firstHandle
}
