package warehouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/schema"
)

// heap is what is alive, in MiB. What lies in a sync.Pool lives through one collection.
func heap() int64 {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc >> 20)
}

// 5,000 open files take a block of memory each, whatever they hold; the rest lies on disk.
func TestManyOpenFiles(t *testing.T) {
	const folders, each = 5000, 12
	s := schema.NewStruct("order").Field("k", schema.StringSchema).Field("id", schema.Int64Schema).Field("text", schema.StringSchema).Build()
	text := schema.StringValue(strings.Repeat("x", 1000))
	run := connectortest.NewSinkRun(t, withTarget(nowhere{}), nil, conf("format.class", "ParquetFormat", "flush.size", "1000000", "partitioner.class", "FieldPartitioner", "partition.field.name", "k"), true, topic)
	before := heap()
	offset := int64(0)
	for range each {
		var records []schema.Record
		for i := range folders {
			v := schema.StructValue(s, []schema.Value{schema.StringValue(fmt.Sprintf("customer-%d", i)), schema.Int64Value(offset), text})
			records = append(records, connectortest.At(schema.Record{ValueSchema: s, Value: v}, topic, offset))
			offset++
		}
		run.Put(records)
	}
	task := run.Task.(*Task)
	if files := len(task.parts[topic].open); files != folders {
		t.Fatalf("%d files are open", files)
	}
	// 45 MiB on the machine where this was written: 5,000 blocks of 8 KiB, and what tells files apart.
	if took := heap() - before; took > 135 {
		t.Errorf("%d open files with %d bytes each take %d MiB", folders, each*1000, took)
	} else {
		t.Logf("%d open files take %d MiB, %d MiB are on disk", folders, took, task.spool.used()>>20)
	}
	run.Close(true, topic)
}

// peak is Snappy, and notes how much is alive while pages are compressed.
type peak struct {
	compress.Codec
	pages int
	heap  int64
}

func (p *peak) Encode(dst, src []byte) ([]byte, error) {
	if p.pages%250 == 0 {
		p.heap = max(p.heap, heap())
	}
	p.pages++
	return p.Codec.Encode(dst, src)
}

func parquetWith(codec compress.Codec) *parquetFiles {
	return &parquetFiles{avroRows: avroRows{name: "ParquetFormat", fits: fitsParquet}, codec: parquetCodec{codec: codec}, groupBytes: rowGroupBytes}
}

// hooked is Snappy, and does something while a page is compressed.
type hooked struct {
	compress.Codec
	then func()
}

func (h *hooked) Encode(dst, src []byte) ([]byte, error) {
	h.then()
	return h.Codec.Encode(dst, src)
}

// still is who does not care whether something gets on.
func still() {}

// However many files are finished at once, in however many tasks, what they take together is bounded: the others wait, as long as their task runs.
func TestWideFilesWaitForEachOther(t *testing.T) {
	b := schema.NewStruct("wide")
	values := make([]schema.Value, 1000)
	for i := range values {
		b.Field(fmt.Sprintf("c%d", i), schema.Int64Schema)
		values[i] = schema.Int64Value(int64(i))
	}
	s, codec := b.Build(), &hooked{Codec: &parquet.Snappy, then: func() {}}
	f := parquetWith(codec)
	file := &body{content: content{s: &spool{}}, schema: s}
	defer file.s.close()
	row, err := f.append(nil, s, schema.StructValue(s, values))
	if err != nil {
		t.Fatal(err)
	}
	for o := range int64(100) {
		if err := file.add(row, o); err != nil {
			t.Fatal(err)
		}
	}
	m, err := f.maker(file)
	if err != nil {
		t.Fatal(err)
	}
	memory := m.memory(file.size)
	checked := false
	codec.then = func() {
		if checked {
			return
		}
		checked = true
		if making.TryAcquire(makingBytes - memory + 1) {
			t.Errorf("less than %d bytes are taken while it is made", memory)
		}
		if !making.TryAcquire(makingBytes - memory) {
			t.Errorf("more than %d bytes are taken while it is made", memory)
		} else {
			making.Release(makingBytes - memory)
		}
	}
	if err := f.finish(file)(t.Context(), io.Discard, still); err != nil || !checked {
		t.Errorf("it is made: %v, %v", checked, err)
	}
	if !making.TryAcquire(makingBytes) {
		t.Fatal("a file that is made takes memory")
	}
	defer making.Release(makingBytes)
	codec.then = func() { t.Error("it is made while others have the memory") }
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := f.finish(file)(ctx, io.Discard, still); !errors.Is(err, context.Canceled) {
		t.Errorf("a task that ends: %v", err)
	}
}

// A file that waits for its turn gets on as those do that it waits for: a task with such a file is not taken for one that hangs.
func TestWhoWaitsForOthersGetsOnWithThem(t *testing.T) {
	b := newBudget(10)
	if err := b.acquire(t.Context(), 8, still); err != nil {
		t.Fatal(err)
	}
	moving, got := make(chan struct{}), make(chan error, 1)
	go func() { got <- b.acquire(t.Context(), 5, func() { moving <- struct{}{} }) }()
	tell := func(what string, tell func()) {
		t.Helper()
		for limit := time.After(30 * time.Second); ; {
			tell()
			select {
			case <-moving:
				return
			case err := <-got:
				t.Fatalf("%s: it has its part (error: %v) while the others have theirs", what, err)
			case <-limit:
				t.Fatalf("%s: who waits did not get on", what)
			case <-time.After(10 * time.Millisecond): // it has not begun to wait
			}
		}
	}
	tell("a row group is written", b.moved)
	tell("another one", b.moved)
	b.release(8)
	for limit := time.After(30 * time.Second); ; {
		select {
		case <-moving:
			continue
		case err := <-got:
			if err != nil {
				t.Error(err)
			}
		case <-limit:
			t.Error("it does not get what was given back")
		}
		return
	}
}

// A partition is given back although its files wait for those of others: the group of consumers waits for that.
func TestAPartitionWhoseFilesWaitIsGivenBack(t *testing.T) {
	if !making.TryAcquire(makingBytes) {
		t.Fatal("somebody makes files")
	}
	f := newFolders()
	s := schema.NewStruct("order").Field("id", schema.Int64Schema).Build()
	run := connectortest.NewSinkRun(t, sinkPlugin(f), nil, conf("format.class", "ParquetFormat", "flush.size", "1"), true, topic)
	task := run.Task.(*Task)
	run.Put([]schema.Record{connectortest.At(schema.Record{ValueSchema: s, Value: schema.StructValue(s, []schema.Value{schema.Int64Value(1)})}, topic, 0)})
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		task.mu.Lock()
		busy := task.parts[topic].busy
		task.mu.Unlock()
		if busy {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the file is not begun")
		}
	}
	closed := make(chan error, 1)
	go func() { closed <- task.Close(t.Context(), []connectors.TopicPartition{topic}, false) }()
	select {
	case err := <-closed:
		if err != nil || f.names() != "" {
			t.Errorf("%v, visible: %s", err, f.names())
		}
	case <-time.After(30 * time.Second):
		t.Error("the partition is not given back while its file waits")
	}
	making.release(makingBytes)
}

// What files take follows from their columns and their size, and ordinary ones are made side by side.
func TestHowManyFilesAreMadeAtOnce(t *testing.T) {
	for _, c := range []struct {
		columns int
		size    int64
		want    int64
	}{{9, 1 << 40, 4}, {9, 20 << 10, 400}, {64, 1 << 40, 2}, {250, 10 << 20, 2}, {1000, 1 << 40, 1}, {1000, 100 << 10, 11}, {maxColumns, 8 << 20, 1}} {
		m := &parquetMaker{root: &shape{to: c.columns}, page: pageSize(c.columns), groupBytes: rowGroupBytes}
		if n := makingBytes / min(m.memory(c.size), makingBytes); n < c.want || n > 2*c.want {
			t.Errorf("%d files of %d columns and %d bytes at once, want %d", n, c.columns, c.size, c.want)
		}
	}
}

// What a Parquet file takes while it is made does not grow with its columns without bound.
func TestParquetFilesOfManyColumns(t *testing.T) {
	for _, c := range []struct {
		name          string // figures on the machine where this was written: 63 and 143
		field         *schema.Schema
		columns, rows int
		most          int64 // MiB
	}{
		{"the most columns, hardly a row", schema.Int64Schema, maxColumns, 2, 190},
		{"a thousand columns that all leave their dictionaries", schema.OptionalString, 1000, 1000, 430},
	} {
		b := schema.NewStruct("wide")
		values := make([]schema.Value, c.columns)
		for i := range c.columns {
			b.Field(fmt.Sprintf("c%d", i), c.field)
		}
		s := b.Build()
		codec := &peak{Codec: &parquet.Snappy}
		f := parquetWith(codec)
		file := &body{content: content{s: &spool{}}, schema: s}
		var row []byte
		for o := range c.rows {
			for i := range values {
				if values[i] = schema.Int64Value(int64(o)); c.field.Kind() == schema.String {
					values[i] = schema.StringValue(fmt.Sprintf("text %05d", o))
				}
			}
			var err error
			if row, err = f.append(row[:0], s, schema.StructValue(s, values)); err != nil {
				t.Fatal(err)
			}
			if err := file.add(row, int64(o)); err != nil {
				t.Fatal(err)
			}
		}
		before := heap()
		if err := f.finish(file)(t.Context(), io.Discard, still); err != nil {
			t.Fatal(err)
		}
		m, err := f.maker(file)
		if err != nil {
			t.Fatal(err)
		}
		if took, said := codec.heap-before, m.memory(file.size)>>20; took > c.most || took > 2*said {
			t.Errorf("%s: a file takes %d MiB, and is said to take %d", c.name, took, said)
		} else {
			t.Logf("%s: a file of %d pages takes %d MiB", c.name, codec.pages, took)
		}
		file.s.close()
	}
}

func TestPagesOfManyColumnsAreSmall(t *testing.T) {
	for columns, want := range map[int]int{1: 64 << 10, 64: 64 << 10, 1000: 4194, maxColumns: 1048} {
		if got := pageSize(columns); got != want {
			t.Errorf("pages of %d columns hold %d bytes, want %d", columns, got, want)
		}
	}
}
