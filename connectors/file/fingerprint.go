package file

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strconv"
	"strings"

	"millrace/schema"
)

// The names in a stored offset. The first is Kafka's, the others are ours.
const (
	filenameKey    = "filename"
	positionKey    = "position"
	inodeKey       = "inode"
	fingerprintKey = "fingerprint"
)

// How many bytes of a file a fingerprint covers: the first ones, and the last ones
// before the position. Fixed for ever, since they are in stored offsets.
const (
	headBytes = 1024
	tailBytes = 256
)

// A place is a byte in a file, and what the file looks like before it.
type place struct {
	pos   int64
	inode uint64      // 0: not known
	print fingerprint // zero: not known
}

// A fingerprint is what stands before a position: hashes of the file's first bytes
// and of the last ones before the position.
type fingerprint struct {
	headLen, tailLen int64
	head, tail       uint64
}

func (f fingerprint) known() bool { return f.tailLen > 0 }

// String is the form in which a fingerprint is stored: "<bytes>:<hash>:<bytes>:<hash>".
func (f fingerprint) String() string {
	return fmt.Sprintf("%d:%016x:%d:%016x", f.headLen, f.head, f.tailLen, f.tail)
}

// parseFingerprint reads what String wrote; ok is false for anything else.
func parseFingerprint(text string) (f fingerprint, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) != 4 {
		return f, false
	}
	nums := [4]uint64{}
	for i, p := range parts {
		base := 10
		if i%2 == 1 {
			base = 16
		}
		n, err := strconv.ParseUint(p, base, 64)
		if err != nil {
			return fingerprint{}, false
		}
		nums[i] = n
	}
	if nums[0] > headBytes || nums[2] > tailBytes {
		return fingerprint{}, false
	}
	return fingerprint{int64(nums[0]), int64(nums[2]), nums[1], nums[3]}, true
}

func hashOf(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

// matches reports whether f holds, before the place's position, what the place's
// fingerprint says.
func (p place) matches(f io.ReaderAt) (bool, error) {
	var room [headBytes]byte
	for _, part := range []struct {
		at, size int64
		hash     uint64
	}{{p.pos - p.print.tailLen, p.print.tailLen, p.print.tail}, {0, p.print.headLen, p.print.head}} {
		switch {
		case part.at < 0:
			return false, nil
		case part.size == 0:
			continue // not known
		}
		b := room[:part.size]
		if n, err := f.ReadAt(b, part.at); n < len(b) {
			if err == io.EOF {
				return false, nil // shorter than the position
			}
			return false, err
		}
		if hashOf(b) != part.hash {
			return false, nil
		}
	}
	return true, nil
}

// holds reports whether the file has these bytes just before a position.
func holds(f *os.File, before int64, want []byte) (bool, error) {
	var room [tailBytes]byte
	got := room[:len(want)]
	if n, err := f.ReadAt(got, before-int64(len(want))); n < len(got) {
		if err == io.EOF {
			return false, nil
		}
		return false, err
	}
	return bytes.Equal(got, want), nil
}

// stored is the place as an offset holds it.
func (p place) stored() schema.Value {
	entries := make([]schema.Entry, 1, 3)
	entries[0] = schema.Entry{Key: schema.StringValue(positionKey), Value: schema.Int64Value(p.pos)}
	if p.inode != 0 {
		entries = append(entries, schema.Entry{Key: schema.StringValue(inodeKey), Value: schema.Int64Value(int64(p.inode))})
	}
	if p.print.known() {
		entries = append(entries, schema.Entry{Key: schema.StringValue(fingerprintKey), Value: schema.StringValue(p.print.String())})
	}
	return schema.MapValue(entries)
}

// placeOf reads a stored offset. One without a position that can be read is an error.
func placeOf(v schema.Value) (p place, err error) {
	pos, ok := v.Lookup(positionKey)
	if !ok || !isInteger(pos) || pos.Int() < 0 {
		return p, fmt.Errorf("the stored offset has no %q that is a number of bytes", positionKey)
	}
	p.pos = pos.Int()
	if ino, ok := v.Lookup(inodeKey); ok && isInteger(ino) {
		p.inode = uint64(ino.Int())
	}
	if text, ok := v.Lookup(fingerprintKey); ok {
		p.print, _ = parseFingerprint(text.Str())
	}
	return p, nil
}

func isInteger(v schema.Value) bool { return v.Kind() >= schema.Int8 && v.Kind() <= schema.Int64 }
