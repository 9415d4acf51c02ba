package avrodata

import (
	"syscall"
	"testing"
	"time"

	hamba "github.com/hamba/avro/v2"

	"millrace/schema"
	"millrace/schema/schematest"
)

// event is the change event of all encoders' benchmarks: 8 columns, before and after, the source block.
func event(tb testing.TB) (s *schema.Schema, v schema.Value, text string, e *Encoder) {
	var a schema.Arena
	s, v = schematest.ChangeEvent(&a)
	written, err := (&Mapper{Options: usual}).ToAvro(s)
	if err != nil {
		tb.Fatal(err)
	}
	if e, err = NewEncoder(s, written.Type(), usual); err != nil {
		tb.Fatal(err)
	}
	return s, v, written.Canonical(), e
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perEvent reports the CPU time of one event, which others on the machine change less than its time on the clock.
func perEvent(b *testing.B, began time.Duration) {
	b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/op")
}

func BenchmarkAvroEncodeEvent(b *testing.B) {
	_, v, _, e := event(b)
	out, _, err := e.Append(nil, v)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(out)))
	b.ReportMetric(float64(len(out)), "bytes/event")
	b.ReportAllocs()
	began := cpuTime()
	for b.Loop() {
		if out, _, err = e.Append(out[:0], v); err != nil {
			b.Fatal(err)
		}
	}
	perEvent(b, began)
}

func BenchmarkAvroDecodeEvent(b *testing.B) {
	_, v, text, e := event(b)
	data, _, err := e.Append(nil, v)
	if err != nil {
		b.Fatal(err)
	}
	d := decoderOf(b, text, usual)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	began := cpuTime()
	for b.Loop() {
		if _, err := d.Value(data); err != nil {
			b.Fatal(err)
		}
	}
	perEvent(b, began)
}

// generic is a value as hamba's encoder takes it without Go structs: maps and pointers-free scalars.
func generic(s *schema.Schema, v schema.Value) any {
	switch v.Kind() {
	case schema.Null:
		return nil
	case schema.Struct:
		m := map[string]any{}
		for i, f := range s.Fields() {
			one := generic(f.Schema, v.Fields()[i])
			if one != nil && f.Schema.Kind() == schema.Struct && f.Schema.Optional() {
				one = map[string]any{f.Schema.Name(): one}
			}
			m[f.Name] = one
		}
		return m
	case schema.Int32:
		return int(v.Int())
	case schema.Int64:
		return v.Int()
	case schema.Float64:
		return v.Float()
	case schema.Bool:
		return v.Bool()
	}
	return v.Str()
}

// BenchmarkHambaMapEvent is the same event as maps through hamba's reflecting encoder.
func BenchmarkHambaMapEvent(b *testing.B) {
	s, v, text, _ := event(b)
	parsed, err := hamba.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	m := generic(s, v)
	if _, err := hamba.Marshal(parsed, m); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	began := cpuTime()
	for b.Loop() {
		if _, err := hamba.Marshal(parsed, m); err != nil {
			b.Fatal(err)
		}
	}
	perEvent(b, began)
}

type row struct {
	ID       int      `avro:"id"`
	Customer *string  `avro:"customer"`
	Amount   *float64 `avro:"amount"`
	Paid     *bool    `avro:"paid"`
	Note     *string  `avro:"note"`
	Quantity *int     `avro:"quantity"`
	Created  *int64   `avro:"created"`
	Payload  *string  `avro:"payload"`
}

type source struct {
	Version   string  `avro:"version"`
	Connector string  `avro:"connector"`
	Name      string  `avro:"name"`
	TsMs      int64   `avro:"ts_ms"`
	Snapshot  *string `avro:"snapshot"`
	DB        string  `avro:"db"`
	Sequence  *string `avro:"sequence"`
	TsUs      *int64  `avro:"ts_us"`
	TsNs      *int64  `avro:"ts_ns"`
	Schema    string  `avro:"schema"`
	Table     string  `avro:"table"`
	TxID      *int64  `avro:"txId"`
	LSN       *int64  `avro:"lsn"`
	Xmin      *int64  `avro:"xmin"`
	Origin    *string `avro:"origin"`
	OriginLSN *int64  `avro:"origin_lsn"`
}

type envelope struct {
	Before      *row   `avro:"before"`
	After       *row   `avro:"after"`
	Source      source `avro:"source"`
	Transaction *struct {
		ID    string `avro:"id"`
		Total int64  `avro:"total_order"`
		Order int64  `avro:"data_collection_order"`
	} `avro:"transaction"`
	Op   string `avro:"op"`
	TsMs *int64 `avro:"ts_ms"`
	TsUs *int64 `avro:"ts_us"`
	TsNs *int64 `avro:"ts_ns"`
}

func pointer[T any](v T) *T { return &v }

// structs is the event as Go structs.
func structs(v schema.Value) envelope {
	image := func(v schema.Value) *row {
		f := v.Fields()
		return &row{int(f[0].Int()), pointer(f[1].Str()), pointer(f[2].Float()), pointer(f[3].Bool()), pointer(f[4].Str()), pointer(int(f[5].Int())), pointer(f[6].Int()), pointer(f[7].Str())}
	}
	s := v.Fields()[2].Fields()
	return envelope{
		Before: image(v.Fields()[0]), After: image(v.Fields()[1]),
		Source: source{s[0].Str(), s[1].Str(), s[2].Str(), s[3].Int(), pointer(s[4].Str()), s[5].Str(), pointer(s[6].Str()), pointer(s[7].Int()), pointer(s[8].Int()), s[9].Str(), s[10].Str(), pointer(s[11].Int()), pointer(s[12].Int()), nil, nil, nil},
		Op:     v.Fields()[4].Str(), TsMs: pointer(v.Fields()[5].Int()), TsUs: pointer(v.Fields()[6].Int()), TsNs: pointer(v.Fields()[7].Int()),
	}
}

// BenchmarkHambaStructEvent is the same event as Go structs through hamba's reflecting encoder, its best case: the columns are known
// when the program is written.
func BenchmarkHambaStructEvent(b *testing.B) {
	_, v, text, e := event(b)
	parsed, err := hamba.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	one := structs(v)
	theirs, err := hamba.Marshal(parsed, one)
	if err != nil {
		b.Fatal(err)
	}
	if ours, _, _ := e.Append(nil, v); string(ours) != string(theirs) {
		b.Fatalf("hamba writes another event:\n%x\n%x", theirs, ours)
	}
	b.ReportAllocs()
	began := cpuTime()
	for b.Loop() {
		if _, err := hamba.Marshal(parsed, one); err != nil {
			b.Fatal(err)
		}
	}
	perEvent(b, began)
}
