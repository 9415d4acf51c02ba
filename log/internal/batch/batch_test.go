package batch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/deploy/trial"
)

func sample(rng *rand.Rand, n int) []Record {
	blob := func() []byte {
		switch rng.IntN(5) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		b := make([]byte, rng.IntN(300))
		for i := range b {
			b[i] = byte('a' + rng.IntN(4))
		}
		return b
	}
	rs := make([]Record, n)
	for i := range rs {
		rs[i] = Record{Timestamp: rng.Int64N(1 << 42), Key: blob(), Value: blob()}
		for range rng.IntN(3) {
			rs[i].Headers = append(rs[i].Headers, Header{Key: string(blob()), Value: blob()})
		}
	}
	return rs
}

func sameRecord(a, b Record) bool {
	bytesEqual := func(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) }
	return a.Offset == b.Offset && a.Timestamp == b.Timestamp && bytesEqual(a.Key, b.Key) && bytesEqual(a.Value, b.Value) &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y Header) bool { return x.Key == y.Key && bytesEqual(x.Value, y.Value) })
}

func TestRecordsComeBackAsTheyWereBuiltInEveryCodec(t *testing.T) {
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for codec := None; codec <= Zstd; codec++ {
		for range 50 {
			rs := sample(rng, 1+rng.IntN(200))
			v := Build(Options{Codec: codec, BaseOffset: 1000, LeaderEpoch: 3}, rs...)
			if err := v.Validate(Check{Client: true}); err != nil {
				t.Fatalf("%v: %v", codec, err)
			}
			if v.BaseOffset() != 1000 || v.LeaderEpoch() != 3 || v.Codec() != codec || int(v.Count()) != len(rs) || v.NextOffset() != 1000+int64(len(rs)) || v.Size() != len(v) {
				t.Fatalf("header of %v: %d %d %v", codec, v.BaseOffset(), v.LeaderEpoch(), v.Codec())
			}
			i := 0
			latest := int64(0)
			for r, err := range v.Records() {
				if err != nil {
					t.Fatal(err)
				}
				want := rs[i]
				want.Offset = 1000 + int64(i)
				if !sameRecord(r, want) {
					t.Fatalf("%v record %d: %+v, want %+v", codec, i, r, want)
				}
				latest = max(latest, r.Timestamp)
				i++
			}
			if i != len(rs) || v.MaxTimestamp() != latest {
				t.Fatalf("%d records, max timestamp %d want %d", i, v.MaxTimestamp(), latest)
			}
		}
	}
}

// An independent reader of the format agrees on every field.
func TestBatchesReadTheSameInAnotherLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	rs := sample(rng, 20)
	v := Build(Options{Producer: &Producer{ID: 77, Epoch: 5, Sequence: 12}, Transactional: true, BaseOffset: 9, LeaderEpoch: 4}, rs...)
	var k kmsg.RecordBatch
	if err := k.ReadFrom(v); err != nil {
		t.Fatal(err)
	}
	if k.FirstOffset != 9 || k.Length != v.Length() || k.PartitionLeaderEpoch != 4 || k.Magic != 2 || uint32(k.CRC) != v.CRC() || k.Attributes != 0x10 ||
		k.LastOffsetDelta != 19 || k.FirstTimestamp != rs[0].Timestamp || k.MaxTimestamp != v.MaxTimestamp() || k.ProducerID != 77 || k.ProducerEpoch != 5 || k.FirstSequence != 12 || k.NumRecords != 20 {
		t.Fatalf("%+v", k)
	}
	b := k.Records
	for i := range rs {
		n, used := binary.Varint(b)
		var r kmsg.Record
		if err := r.ReadFrom(b[:used+int(n)]); err != nil {
			t.Fatal(err)
		}
		b = b[used+int(n):]
		if !bytes.Equal(r.Key, rs[i].Key) || !bytes.Equal(r.Value, rs[i].Value) || len(r.Headers) != len(rs[i].Headers) || int(r.OffsetDelta) != i || rs[0].Timestamp+r.TimestampDelta64 != rs[i].Timestamp {
			t.Fatalf("record %d: %+v, want %+v", i, r, rs[i])
		}
	}
	if len(b) != 0 {
		t.Fatalf("%d bytes left", len(b))
	}
}

func TestEveryFlippedBitBehindTheLeaderEpochIsNoticed(t *testing.T) {
	v := Build(Options{Codec: LZ4, Producer: &Producer{ID: 1}}, Record{Key: []byte("k"), Value: []byte("v")})
	for i := 16; i < len(v); i++ { // offset, length and leader epoch are outside the checksum
		for bit := range 8 {
			b := slices.Clone(v)
			b[i] ^= 1 << bit
			if err := b.Validate(Check{}); err == nil {
				t.Fatalf("byte %d bit %d: not noticed", i, bit)
			}
		}
	}
}

func TestValidateRefusesWithTheRightCode(t *testing.T) {
	rec := Record{Timestamp: 5, Key: []byte("k"), Value: []byte("value")}
	good := func() View { return Build(Options{}, rec, rec, rec) }
	edit := func(f func(v View)) View {
		v := good()
		f(v)
		v.SealCRC()
		return v
	}
	be := binary.BigEndian
	for _, c := range []struct {
		name  string
		v     View
		check Check
		want  Code
	}{
		{"a good batch passes", good(), Check{Client: true, Keys: true}, 0},
		{"a batch without records", edit(func(v View) { be.PutUint32(v[57:], 0) }), Check{}, InvalidRecord},
		{"more records claimed than the offset delta allows", edit(func(v View) { be.PutUint32(v[57:], 4) }), Check{}, InvalidRecord},
		{"more records claimed than there are", edit(func(v View) { be.PutUint32(v[57:], 4); be.PutUint32(v[23:], 3) }), Check{}, InvalidRecord},
		{"fewer records claimed than there are", edit(func(v View) { be.PutUint32(v[57:], 2); be.PutUint32(v[23:], 1) }), Check{}, InvalidRecord},
		{"a negative offset delta", edit(func(v View) { be.PutUint32(v[23:], math.MaxUint32) }), Check{}, CorruptMessage},
		{"an unknown codec", edit(func(v View) { v[22] |= 5 }), Check{}, UnsupportedCompression},
		{"a control batch from a client", NewMarker(1, 0, Marker{}, 0), Check{Client: true}, InvalidRecord},
		{"a control batch from the coordinator", NewMarker(1, 0, Marker{Commit: true}, 0), Check{}, 0},
		{"a transactional batch without a producer", edit(func(v View) { v[22] |= attrTxn }), Check{}, InvalidRecord},
		{"a client's producer without a sequence", Build(Options{Producer: &Producer{ID: 1, Sequence: -1}}, rec), Check{Client: true}, InvalidRecord},
		{"a coordinator's producer without a sequence", Build(Options{Producer: &Producer{ID: 1, Sequence: -1}}, rec), Check{}, 0},
		{"a negative producer epoch", Build(Options{Producer: &Producer{ID: 1, Epoch: -1}}, rec), Check{}, InvalidRecord},
		{"a batch over the limit", good(), Check{MaxBytes: 80}, MessageTooLarge},
		{"magic 1", edit(func(v View) { v[16] = 1 }), Check{}, CorruptMessage},
		{"a record without key in a compacted topic", Build(Options{}, rec, Record{Value: []byte("v")}), Check{Keys: true}, InvalidRecord},
		{"a record without key in a compressed batch of a compacted topic", Build(Options{Codec: Zstd}, rec, Record{Value: []byte("v")}), Check{Keys: true}, InvalidRecord},
		{"a record without key elsewhere", Build(Options{}, rec, Record{Value: []byte("v")}), Check{}, 0},
		{"compressed bytes that are none, in a compacted topic", edit(func(v View) { v[22] |= byte(LZ4) }), Check{Keys: true}, CorruptMessage},
		{"an emptied batch from a client", edit(func(v View) { v[22] |= attrHorizon }), Check{Client: true}, InvalidRecord},
	} {
		err := c.v.Validate(c.check)
		if got, _ := CodeOf(err); got != c.want {
			t.Errorf("%s: %v, want code %d", c.name, err, c.want)
		}
	}
}

func TestMarkersSayWhatTheyWereBuiltWith(t *testing.T) {
	for _, m := range []Marker{{Commit: true, CoordinatorEpoch: 7}, {CoordinatorEpoch: math.MaxInt32}} {
		v := NewMarker(42, 3, m, 99)
		got, ok, err := v.Marker()
		if err != nil || !ok || got != m || !v.IsControl() || !v.Transactional() || v.ProducerID() != 42 || v.ProducerEpoch() != 3 || v.BaseSequence() != -1 || v.MaxTimestamp() != 99 {
			t.Errorf("%+v: %+v %v %v", m, got, ok, err)
		}
	}
	if _, ok, err := Build(Options{}, Record{}).Marker(); ok || err != nil {
		t.Error("a data batch is no marker")
	}
}

func TestLogAppendTimeReplacesEveryTimestamp(t *testing.T) {
	v := Build(Options{Codec: Snappy}, Record{Timestamp: 1}, Record{Timestamp: 2})
	v.SetLogAppendTime(500)
	if err := v.Validate(Check{}); err != nil || !v.LogAppendTime() || v.MaxTimestamp() != 500 {
		t.Fatal(err)
	}
	for r, err := range v.Records() {
		if err != nil || r.Timestamp != 500 {
			t.Fatal(r, err)
		}
	}
}

func TestSequencesWrapToZero(t *testing.T) {
	for _, c := range [][3]int32{{0, 1, 1}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 3, 1}, {5, 0, 5}} {
		if got := AddSequence(c[0], c[1]); got != c[2] {
			t.Errorf("%d+%d = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

func TestDecompressionIsBounded(t *testing.T) {
	// 600 MiB of zeros in about 600 KiB of gzip, 20 KiB of zstd: over 64 MiB and over 64 times.
	zeros := make([]byte, 80<<20)
	for codec := Gzip; codec <= Zstd; codec++ {
		packed := deflate(nil, codec, zeros)
		_, err := inflate(codec, packed, inflateLimit(len(packed)))
		if bigger := len(packed)*MaxExpansion > len(zeros); bigger != (err == nil) {
			t.Errorf("%v: %d bytes packed: %v", codec, len(packed), err)
		}
	}
	// One block that claims 3 GiB.
	bomb := binary.AppendUvarint(nil, 3<<30)
	if _, err := inflate(Snappy, bomb, inflateLimit(len(bomb))); err == nil {
		t.Error("snappy block of 3 GiB accepted")
	}
}

func TestSplitTakesWholeBatchesOnly(t *testing.T) {
	a, b := Build(Options{}, Record{Key: []byte("a")}), Build(Options{BaseOffset: 1}, Record{Key: []byte("b")})
	both := append(slices.Clone(a), b...)
	vs, err := Split(nil, both)
	if err != nil || len(vs) != 2 || !bytes.Equal(vs[0], a) || !bytes.Equal(vs[1], b) {
		t.Fatal(vs, err)
	}
	for n := range both {
		vs, err := Split(nil, both[:n])
		if whole := n == 0 || n == len(a); whole != (err == nil) {
			t.Fatalf("%d bytes: %d batches, %v", n, len(vs), err)
		}
	}
	old := slices.Clone(a)
	old[16] = 1
	if _, _, err := Next(old); !strings.Contains(fmt.Sprint(err), "version 1") {
		t.Error(err)
	}
}

func TestValidateAllocatesNothing(t *testing.T) {
	rec := Record{Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 100), Headers: []Header{{"h", []byte("x")}}}
	v := Build(Options{}, slices.Repeat([]Record{rec}, 100)...)
	if n := testing.AllocsPerRun(100, func() {
		if v.Validate(Check{Client: true, MaxBytes: 1 << 20, Keys: true}) != nil {
			t.Fatal("invalid")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzBatch(f *testing.F) {
	for codec := None; codec <= Zstd; codec++ {
		f.Add([]byte(Build(Options{Codec: codec}, sample(rand.New(rand.NewPCG(3, 4)), 3)...)), true)
	}
	f.Add([]byte(NewMarker(1, 2, Marker{Commit: true}, 3)), false)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal && len(b) >= HeaderSize { // else the checksum shields everything behind it
			binary.BigEndian.PutUint32(b[8:], uint32(len(b)-LengthPrefix))
			b[16] = Magic
			View(b).SealCRC()
		}
		vs, err := Split(nil, b)
		if err != nil {
			if _, ok := CodeOf(err); !ok {
				t.Fatalf("no code in %v", err)
			}
			return
		}
		for _, v := range vs {
			valid := v.Validate(Check{Keys: true})
			v.Marker()
			n := 0
			var bad error
			for _, err := range v.Records() {
				if bad = err; err == nil {
					n++
				}
			}
			if valid == nil && (bad != nil || n != int(v.Count())) {
				t.Fatalf("valid, but %d of %d records, %v", n, v.Count(), bad)
			}
		}
	})
}

func FuzzDecompress(f *testing.F) {
	text := bytes.Repeat([]byte("some text "), 50)
	for codec := Gzip; codec <= Zstd; codec++ {
		f.Add(int8(codec), deflate(nil, codec, text))
	}
	f.Fuzz(func(t *testing.T, codec int8, b []byte) {
		const limit = 1 << 20
		if out, err := inflate(Codec(codec), b, limit); err == nil && len(out) > limit {
			t.Fatalf("%d bytes", len(out))
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	for _, size := range []int{100, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			rec := Record{Timestamp: 1, Value: bytes.Repeat([]byte("v"), size)}
			v := Build(Options{}, slices.Repeat([]Record{rec}, 64<<10/size)...)
			b.SetBytes(int64(len(v)))
			b.ReportAllocs()
			for b.Loop() {
				if err := v.Validate(Check{Client: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
