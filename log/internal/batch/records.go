package batch

import (
	"encoding/binary"
	"iter"
	"math"
)

// A record, inside the records part of a batch once that is decompressed.
// Varints are zigzag.
//
//	varint length of what follows
//	i8     attributes, unused
//	varint timestamp delta to the batch's base timestamp (64 bit)
//	varint offset delta to the batch's base offset
//	varint key length, -1 null; key
//	varint value length, -1 null; value
//	varint header count; each: varint key length, key, varint value length (-1 null), value

// Header is one record header. Value nil is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record. Key and Value nil are null, empty ones are not nil. The slices alias the batch when
// it is uncompressed, else a buffer that nobody reuses.
type Record struct {
	Offset    int64
	Timestamp int64 // ms; the batch's max timestamp when the log stamped it
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Records iterates over the records of a data or control batch. Decompression is
// bounded. A bad record ends the iteration with an *Error of CorruptMessage.
func (v View) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		data, err := v.inflated()
		if err != nil {
			yield(Record{}, err)
			return
		}
		r := reader{b: data}
		base, stamp := v.BaseOffset(), v.BaseTimestamp()
		for i := int32(0); i < v.Count(); i++ {
			var f fields
			r.record(&f)
			if r.bad != "" {
				yield(Record{}, r.corrupt(v, i))
				return
			}
			rec := Record{Offset: base + int64(f.offsetDelta), Timestamp: stamp + f.timeDelta, Key: f.key, Value: f.value}
			if v.LogAppendTime() {
				rec.Timestamp = v.MaxTimestamp()
			}
			if rec.Headers, err = f.parseHeaders(); err != nil {
				yield(Record{}, err)
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
		if r.rest() != 0 {
			yield(Record{}, corrupt("batch at offset %d: %d bytes after its %d records", base, r.rest(), v.Count()))
		}
	}
}

// inflated is the records part, decompressed.
func (v View) inflated() ([]byte, error) {
	data := []byte(v[HeaderSize:])
	c := v.Codec()
	if c == None || (v.Count() == 0 && len(data) == 0) {
		return data, nil
	}
	b, err := inflate(c, data, inflateLimit(len(data)))
	if err != nil {
		return nil, corrupt("batch at offset %d: its %v records cannot be decompressed: %v", v.BaseOffset(), c, err)
	}
	return b, nil
}

// fields of one record; headers are left as they are.
type fields struct {
	timeDelta   int64
	offsetDelta int32
	key, value  []byte
	nHeaders    int32
	headers     []byte
}

type reader struct {
	b   []byte
	i   int    // where reading is
	bad string // what was wrong; reading has ended
}

func (r *reader) rest() int { return len(r.b) - r.i }

func (r *reader) corrupt(v View, i int32) error {
	return corrupt("batch at offset %d: record %d: %s", v.BaseOffset(), i, r.bad)
}

func (r *reader) fail(what string) {
	if r.bad == "" {
		r.bad = what
	}
	r.i = len(r.b)
}

// varint reads a zigzag varint of 32 bits. Most have one byte; that path is inlined.
func (r *reader) varint() int32 {
	if r.i < len(r.b) {
		if c := r.b[r.i]; c < 0x80 {
			r.i++
			return int32(c>>1) ^ -int32(c&1)
		}
	}
	return r.longVarint()
}

func (r *reader) longVarint() int32 {
	x := r.varlong()
	if x < math.MinInt32 || x > math.MaxInt32 {
		r.fail("varint of more than 32 bits")
		return 0
	}
	return int32(x)
}

func (r *reader) varlong() int64 {
	u, n := binary.Uvarint(r.b[r.i:])
	if n <= 0 {
		r.fail("bad varint")
		return 0
	}
	r.i += n
	return int64(u>>1) ^ -int64(u&1)
}

// bytes reads a length and that many bytes; nil for length -1.
func (r *reader) bytes() []byte {
	n := r.varint()
	if uint(n) > uint(len(r.b)-r.i) {
		if n != -1 {
			r.fail("field length outside the record")
		}
		return nil
	}
	b := r.b[r.i : r.i+int(n) : r.i+int(n)]
	r.i += int(n)
	return b
}

func (r *reader) record(f *fields) {
	n := int(r.varint())
	if r.bad != "" {
		return
	}
	if n < 1 || n > len(r.b)-r.i {
		r.fail("record length outside the batch")
		return
	}
	in := reader{b: r.b[r.i : r.i+n], i: 1} // behind the attributes
	r.i += n
	f.timeDelta = in.varlong()
	f.offsetDelta = in.varint()
	f.key = in.bytes()
	f.value = in.bytes()
	f.nHeaders = in.varint()
	f.headers = in.b[in.i:]
	if f.nHeaders == 0 {
		if len(f.headers) != 0 {
			in.fail("bytes after the record's last field")
		}
	} else if f.nHeaders < 0 || int(f.nHeaders) > len(f.headers)/2 {
		in.fail("header count outside the record")
	}
	r.bad = in.bad
}

func (f *fields) parseHeaders() ([]Header, error) {
	if f.nHeaders == 0 {
		return nil, nil
	}
	r := reader{b: f.headers}
	hs := make([]Header, 0, f.nHeaders)
	for range f.nHeaders {
		k := r.bytes()
		if r.bad == "" && k == nil {
			r.bad = "null header key"
		}
		v := r.bytes()
		if r.bad != "" {
			return nil, corrupt("record header: %s", r.bad)
		}
		hs = append(hs, Header{Key: string(k), Value: v})
	}
	if r.rest() != 0 {
		return nil, corrupt("record header: bytes after the last one")
	}
	return hs, nil
}

// skipHeaders checks the headers without building them.
func (f *fields) skipHeaders() string {
	r := reader{b: f.headers}
	for range f.nHeaders {
		if k := r.bytes(); r.bad == "" && k == nil {
			return "null header key"
		}
		r.bytes()
		if r.bad != "" {
			return r.bad
		}
	}
	if r.rest() != 0 {
		return "bytes after the record's last header"
	}
	return ""
}
