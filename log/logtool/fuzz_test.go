package logtool

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/log/internal/batch"
	"millrace/log/internal/store"
	"millrace/log/internal/vfs"
)

// FuzzDirectory runs all tools over directories of the fuzzer's making. Nothing may crash, hang or grow; looking changes no file; what repair
// says it has repaired is in order afterwards.
func FuzzDirectory(f *testing.F) {
	l := logs(f, sample(f))
	names := []string{
		"t-0/00000000000000000000.log", "t-0/00000000000000000000.index", "t-0/00000000000000000000.timeindex", "t-0/00000000000000000000.txnindex",
		"t-0/00000000000000000019.log", "t-0/00000000000000000019.index", "t-0/00000000000000000019.snapshot", "t-0/00000000000000000019.pwin",
		"t-0/synced", "t-0/damaged", "t-0/leader-epoch-checkpoint", "t-0/partition.metadata", "t-0/00000000000000000000-00000000000000000019.swap",
		"log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "cleaner-offset-checkpoint", ".clean", ".lock", "t-0/99999999999999999999.log", "t-0/notes.txt",
	}
	add := func(parts ...string) {
		var b []byte
		for i := 0; i < len(parts); i += 2 {
			for n, name := range names {
				if name == parts[i] {
					b = append(b, byte(n))
					b = binary.BigEndian.AppendUint16(b, uint16(len(parts[i+1])))
					b = append(b, parts[i+1]...)
				}
			}
		}
		f.Add(b)
	}
	whole := files(f, sample(f))
	add("t-0/00000000000000000000.log", l[0].bytes, "t-0/00000000000000000019.log", l[1].bytes, "recovery-point-offset-checkpoint", "0\n1\nt 0 38\n",
		"t-0/00000000000000000000.index", whole["data/t-0/00000000000000000000.index"], "t-0/synced", whole["data/t-0/synced"])
	add("t-0/00000000000000000000.log", l[0].bytes[:100]+"\x00\x01"+l[0].bytes[102:], "recovery-point-offset-checkpoint", "0\n1\nt 0 38\n", "t-0/damaged", "0\n1\n0 2 0 0 170\n")
	add("t-0/00000000000000000019.log", l[1].bytes[:300], "log-start-offset-checkpoint", "0\n1\nt 0 3\n", ".clean", whole["data/.clean"])
	add("t-0/damaged", "0\n2\n5 9223372036854775807 0 0 100\n", "t-0/00000000000000000000.log", strings.Repeat("\x02", 400))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<16 {
			return
		}
		fsys := vfs.NewMem()
		if err := fsys.MkdirAll("data/t-0"); err != nil {
			t.Fatal(err)
		}
		for len(in) >= 3 {
			name := names[int(in[0])%len(names)]
			n := min(int(binary.BigEndian.Uint16(in[1:])), len(in)-3)
			write(t, fsys, "data/"+name, string(in[3:3+n]))
			in = in[3+n:]
		}
		before := fmt.Sprint(files(t, fsys))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r, err := Verify(ctx, opts(fsys))
		if err != nil {
			t.Fatal(err) // what is wrong is in the report
		}
		items := 0
		if err := Dump(ctx, opts(fsys), DumpOptions{Batches: true, Records: true, Files: true}, func(Item) error { items++; return nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := Repair(ctx, opts(fsys), false); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(files(t, fsys)) != before {
			t.Fatal("looking changed files")
		}
		done, err := Repair(ctx, opts(fsys), true)
		if err != nil {
			t.Fatal(err)
		}
		if done.Failed() {
			return
		}
		for _, p := range verify(t, fsys).Partitions {
			for _, f := range p.Findings {
				if f.Trouble == string(store.DamagedHole) || f.Trouble == string(store.BadIndex) {
					t.Fatalf("after the repair: %v\nbefore: %v", f, troubles(r))
				}
			}
		}
	})
}

func TestDumpShowsWhatIsThere(t *testing.T) {
	fsys := sample(t)
	l := logs(t, fsys)
	b := []byte(l[1].bytes)
	b[l[1].at[2]+70] ^= 1
	write(t, fsys, l[1].name, string(b))
	var batches []*Batch
	var bad []*Bad
	states := map[string]*State{}
	err := Dump(ctx, Options{Dir: "data", FS: fsys, Partitions: []string{"t-0"}}, DumpOptions{Batches: true, Records: true, Files: true}, func(it Item) error {
		switch {
		case it.Batch != nil:
			batches = append(batches, it.Batch)
		case it.Bad != nil:
			bad = append(bad, it.Bad)
		case it.State != nil:
			states[it.File] = it.State
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for n, f := range l {
		for k, v := range f.batches {
			if n == 1 && k == 2 {
				continue
			}
			got := batches[i]
			i++
			if got.BaseOffset != v.BaseOffset() || got.LastOffset != v.LastOffset() || got.Position != int64(f.at[k]) || got.CRC != v.CRC() || got.ProducerID != v.ProducerID() ||
				got.Codec != v.Codec().String() || got.Control != v.IsControl() || got.Transactional != v.Transactional() || len(got.Records) != int(v.Count()) {
				t.Fatalf("batch at %d: %+v", v.BaseOffset(), got)
			}
			if m, ok, _ := v.Marker(); ok && v.IsControl() && got.Marker != map[bool]string{true: "COMMIT", false: "ABORT"}[m.Commit] {
				t.Errorf("marker %q", got.Marker)
			}
			for j, r := range got.Records {
				if v.IsControl() {
					continue
				}
				if r.Offset != v.BaseOffset()+int64(j) || r.Key == nil || !strings.HasPrefix(*r.Key, "k") || r.Value == nil || r.Headers[0].Key != "h" || r.Headers[0].ValueBase64 != "/w==" {
					t.Errorf("record %+v", r)
				}
			}
		}
	}
	if i != len(batches) || len(bad) != 1 || bad[0].Position != int64(l[1].at[2]) || bad[0].End != int64(l[1].at[3]) || !strings.Contains(bad[0].Reason, "crc") {
		t.Errorf("%d of %d batches, bad %+v", i, len(batches), bad)
	}
	idx := states["00000000000000000000.index"]
	if idx == nil || len(idx.Index) == 0 || idx.Index[0].Position != int64(l[0].at[1]) && idx.Index[0].Position != int64(l[0].at[2]) {
		t.Errorf("index %+v", idx)
	}
	var aborted []AbortedTxn
	producers := 0
	for _, s := range states {
		aborted = append(aborted, s.Aborted...)
		for _, p := range s.Producers {
			if p.ProducerID == 7 && len(p.Window) > 0 {
				producers++
			}
		}
	}
	if len(aborted) != 2 || aborted[0].ProducerID != 7 || producers == 0 {
		t.Errorf("aborted %+v, %d producers", aborted, producers)
	}
	if s := states["leader-epoch-checkpoint"]; s == nil || s.Text != "0\n1\n0 0\n" {
		t.Errorf("epochs %+v", s)
	}
	if s := states["partition.metadata"]; s == nil || !strings.Contains(s.Text, "topic_id: ") {
		t.Errorf("metadata %+v", s)
	}
	// A range of offsets, and no more.
	var some []int64
	err = Dump(ctx, Options{Dir: "data", FS: fsys, Partitions: []string{"t-0"}}, DumpOptions{From: l[2].batches[1].BaseOffset(), To: l[2].batches[3].BaseOffset(), Batches: true}, func(it Item) error {
		some = append(some, it.Batch.BaseOffset)
		if it.Batch.Records != nil {
			t.Error("records that nobody asked for")
		}
		return nil
	})
	if err != nil || fmt.Sprint(some) != fmt.Sprint([]int64{l[2].batches[1].BaseOffset(), l[2].batches[2].BaseOffset()}) {
		t.Errorf("%v, %v", some, err)
	}
}

func TestARecordThatCannotBeReadIsSaid(t *testing.T) {
	v := batch.Build(batch.Options{Codec: batch.LZ4}, batch.Record{Key: []byte("k"), Value: []byte(strings.Repeat("x", 100))})
	v[len(v)-8] ^= 0xff
	v.SealCRC()
	b := header(v, 0)
	records(b, v, false)
	if b.RecordsProblem == "" {
		t.Errorf("%+v", b)
	}
}
