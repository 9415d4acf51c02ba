package postgres

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"millrace/connectors"
	"millrace/connectors/cdc"
)

func appendTuple(b []byte, cols ...string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(cols)))
	for _, c := range cols {
		switch c {
		case "\x00n":
			b = append(b, colNull)
		case "\x00u":
			b = append(b, colUnchanged)
		default:
			b = binary.BigEndian.AppendUint32(append(b, colText), uint32(len(c)))
			b = append(b, c...)
		}
	}
	return b
}

// BenchmarkDecodeUpdate makes an event of an update of 8 columns.
func BenchmarkDecodeUpdate(b *testing.B) {
	t := benchTable(b)
	msg := appendTuple(append(binary.BigEndian.AppendUint32([]byte{msgUpdate}, 1), 'N'), benchRow...)
	tk := &task{s: benchSettings, partition: cdc.ServerPartition("p"), warned: map[string]bool{}, headers: cdc.ContextHeaders("p", 0, "c")}
	build := cdc.NewBuilder(2000)
	r := &reader{t: tk, queue: cdc.NewQueue(1<<30, 1<<40), build: build, events: tk.newEvents(build), block: newSourceBlock(benchSettings),
		tables: map[uint32]*table{1: t}, rc: &replConn{}, interval: 1e9}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = r.queue.Emit(ctx, &drain{}) }()
	r.block.begin(1, 2, 3)
	r.commit = 1
	b.ReportAllocs()
	b.SetBytes(int64(len(msg)))
	for b.Loop() {
		if err := r.message(ctx, 4, msg); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCopyRow makes an event of a row of COPY's text.
func BenchmarkCopyRow(b *testing.B) {
	t := benchTable(b)
	line := []byte(strings.Join(benchRow, "\t") + "\n")
	tk := &task{s: benchSettings, partition: cdc.ServerPartition("p"), warned: map[string]bool{}, headers: cdc.ContextHeaders("p", 0, "c")}
	sn := &snapshot{t: tk, queue: cdc.NewQueue(1<<30, 1<<40), build: cdc.NewBuilder(2000), block: newSourceBlock(benchSettings), table: t, ctx: b.Context()}
	sn.events = tk.newEvents(sn.build)
	sn.mid = sn.block.at(&sn.build.Arena, t.schemaValue, t.nameValue, 1)
	go func() { _ = sn.queue.Emit(b.Context(), &drain{}) }()
	b.ReportAllocs()
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if _, err := sn.Write(line); err != nil {
			b.Fatal(err)
		}
	}
}

var _ connectors.Out = (*drain)(nil)
