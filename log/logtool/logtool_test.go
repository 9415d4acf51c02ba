package logtool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/deploy/trial"
	"millrace/log/internal/batch"
	"millrace/log/internal/store"
	"millrace/log/internal/vfs"
)

var ctx = context.Background()

func openStore(t testing.TB, fsys vfs.FS) *store.Store {
	t.Helper()
	s, err := store.Open(fsys, "data", store.Options{Maintain: -1, Ballast: -1, MinFree: -1, Process: "pid 1, a test"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sample is a directory that a store stopped in order: t-0 has several segments with plain, compressed, idempotent and aborted
// transactional batches; u-0 a single one.
func sample(t testing.TB) *vfs.Mem {
	t.Helper()
	fsys := vfs.NewMem()
	s := openStore(t, fsys)
	fill(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return fsys
}

func fill(t testing.TB, s *store.Store) {
	t.Helper()
	c := store.DefaultConfig()
	c.SegmentBytes, c.IndexInterval = 1500, 100
	for _, topic := range []string{"t", "u"} {
		p, err := s.Create(store.TopicPartition{Topic: topic}, [16]byte{1, 2, 3}, c)
		if err != nil {
			t.Fatal(err)
		}
		rounds := 24
		if topic == "u" {
			rounds = 2
		}
		for i := range rounds {
			now := time.Now().UnixMilli()
			add := func(o store.AppendOpts, v batch.View) {
				t.Helper()
				a, err := p.Append([]batch.View{v}, o)
				if err == nil {
					err = p.WaitDurable(ctx, a.End)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			rec := func(v string) batch.Record {
				return batch.Record{Timestamp: now, Key: []byte("k" + strconv.Itoa(i%5)), Value: []byte(v), Headers: []batch.Header{{Key: "h", Value: []byte{0xff}}}}
			}
			add(store.AppendOpts{}, batch.Build(batch.Options{}, rec("plain"), rec("and more")))
			add(store.AppendOpts{}, batch.Build(batch.Options{Codec: batch.LZ4}, rec(strings.Repeat("compressed ", 10))))
			if i%6 == 5 {
				pr := &batch.Producer{ID: 7, Epoch: 0, Sequence: int32(i / 6)}
				add(store.AppendOpts{}, batch.Build(batch.Options{Producer: pr, Transactional: true}, rec("in a transaction")))
				add(store.AppendOpts{Origin: store.FromCoordinator}, batch.NewMarker(7, 0, batch.Marker{Commit: i%12 == 11}, now))
			}
		}
	}
}

func opts(fsys vfs.FS) Options { return Options{Dir: "data", FS: fsys, Process: "a test"} }

func verify(t testing.TB, fsys vfs.FS) Report {
	t.Helper()
	r, err := Verify(ctx, opts(fsys))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// troubles are the findings as "kind file from-to", for tables.
func troubles(r Report) []string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, f.Trouble+" "+filepath.Base(f.File))
	}
	for _, p := range r.Partitions {
		for _, f := range p.Findings {
			s := f.Trouble + " " + filepath.Base(f.File)
			if f.From >= 0 {
				s += fmt.Sprintf(" %d-%d", f.From, f.To)
			}
			out = append(out, s)
		}
		if p.Error != "" {
			out = append(out, "error "+p.Error)
		}
	}
	return out
}

// files are all files of the directory with their contents.
func files(t testing.TB, fsys vfs.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	var walk func(string)
	walk = func(dir string) {
		es, err := fsys.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range es {
			name := dir + "/" + e.Name()
			if e.IsDir() {
				walk(name)
				continue
			}
			b, err := vfs.ReadFile(fsys, name, 1<<24)
			if err != nil {
				t.Fatal(err)
			}
			out[name] = string(b)
		}
	}
	walk("data")
	return out
}

func write(t testing.TB, fsys vfs.FS, name, content string) {
	t.Helper()
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	f, err := fsys.Create(name)
	if err == nil {
		_, err = f.WriteAt([]byte(content), 0)
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close(), fsys.SyncDir(filepath.Dir(name)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// logs are the log files of t-0, in order, and the batches of each with their positions.
type logFile struct {
	name    string
	bytes   string
	batches []batch.View
	at      []int
}

func logs(t testing.TB, fsys vfs.FS) []logFile {
	t.Helper()
	all := files(t, fsys)
	var out []logFile
	for name, b := range all {
		if !strings.HasPrefix(name, "data/t-0/") || !strings.HasSuffix(name, ".log") {
			continue
		}
		l := logFile{name: name, bytes: b}
		for pos := 0; pos < len(b); {
			v, _, err := batch.Next([]byte(b[pos:]))
			if err != nil {
				t.Fatal(err)
			}
			l.batches, l.at = append(l.batches, v), append(l.at, pos)
			pos += len(v)
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b logFile) int { return strings.Compare(a.name, b.name) })
	return out
}

// readAll reads t-0 as a consumer does, passing over nothing: what comes, and the first error.
func readAll(t testing.TB, fsys vfs.FS) ([]batch.View, error) {
	t.Helper()
	s := openStore(t, fsys)
	defer s.Close()
	p := s.Get("t", 0)
	var out []batch.View
	for from := p.LogStart(); from < p.End(); {
		sl, err := p.Read(from, store.ReadOpts{MaxBytes: 1 << 20, MinOne: true})
		if err != nil {
			return out, err
		}
		var b bytes.Buffer
		_, err = sl.WriteTo(&b)
		sl.Release()
		if err != nil {
			return out, err
		}
		vs, err := batch.Split(nil, b.Bytes())
		if err != nil {
			return out, err
		}
		if len(vs) == 0 {
			return out, fmt.Errorf("nothing at offset %d of %d", from, p.End())
		}
		for _, v := range vs {
			if v.NextOffset() > from {
				out = append(out, slices.Clone(v))
				from = v.NextOffset()
			}
		}
	}
	return out, nil
}

func TestALogThatIsWholeIsOK(t *testing.T) {
	for _, stop := range []string{"clean", "kill"} {
		t.Run(stop, func(t *testing.T) {
			fsys := vfs.NewMem()
			s := openStore(t, fsys)
			fill(t, s)
			if stop == "kill" {
				fsys = fsys.Kill()
			} else if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			r := verify(t, fsys)
			if !r.OK || len(r.Partitions) != 2 || r.Clean != (stop == "clean") {
				t.Fatalf("%+v", r)
			}
			p := r.Partitions[0]
			if p.Partition != "t-0" || p.Segments < 4 || p.Records != 24*3+4+4 || p.Next != p.Records || p.Bytes == 0 {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestADirectoryInUseIsRefusedAndItsHolderNamed(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys)
	fill(t, s)
	defer s.Close()
	var inUse *InUseError
	if _, err := Verify(ctx, opts(fsys)); !errors.As(err, &inUse) || !strings.Contains(err.Error(), "pid 1, a test") {
		t.Errorf("verify: %v", err)
	}
	if err := Dump(ctx, opts(fsys), DumpOptions{Batches: true}, nil); !errors.As(err, &inUse) {
		t.Errorf("dump: %v", err)
	}
	if _, err := Repair(ctx, opts(fsys), true); !errors.As(err, &inUse) {
		t.Errorf("repair: %v", err)
	}
}

func TestWhatIsNotThereIsNamed(t *testing.T) {
	fsys := sample(t)
	for name, o := range map[string]Options{
		`there is no directory nowhere`:                                     {Dir: "nowhere"},
		`data holds no partition "t-7"; it holds t-0`:                       {Dir: "data", Partitions: []string{"t-7"}},
		`data/t-0 holds no partitions; it is not the data directory`:        {Dir: "data/empty"},
		`data/.clean is a file; name the log's data directory, or a partit`: {Dir: "data/.clean"},
	} {
		if o.Dir == "data/empty" {
			if err := fsys.Mkdir("data/empty"); err != nil {
				t.Fatal(err)
			}
			name = "data/empty holds no partitions; it is not the data directory"
		}
		o.FS = fsys
		if _, err := Verify(ctx, o); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
}

func TestAWorkersDirectoryAndAPartitionsAreUnderstood(t *testing.T) {
	fsys := vfs.NewMem()
	s, err := store.Open(fsys, "worker/log", store.Options{Maintain: -1, Ballast: -1, MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for dir, n := range map[string]int{"worker": 2, "worker/log": 2, "worker/log/t-0": 1} {
		r, err := Verify(ctx, Options{Dir: dir, FS: fsys})
		if err != nil || len(r.Partitions) != n || !r.OK {
			t.Errorf("%s: %v, %+v", dir, err, r)
		}
	}
}

// Every kind of damage, what verify says of it, and that repair leaves a log that is read from end to end.
func TestDamageIsNamedAndRepaired(t *testing.T) {
	type world struct {
		fs   *vfs.Mem
		logs []logFile
	}
	flip := func(w world, file, at int) {
		b := []byte(w.logs[file].bytes)
		b[at] ^= 4
		write(t, w.fs, w.logs[file].name, string(b))
	}
	for _, c := range []struct {
		name string
		do   func(w world)
		want func(w world) []string
		left []string // after repair
	}{
		{"a bit in the middle of a segment", func(w world) { flip(w, 1, w.logs[1].at[2]+70) },
			func(w world) []string {
				v := w.logs[1].batches[2]
				return []string{fmt.Sprintf("hole %s %d-%d", filepath.Base(w.logs[1].name), v.BaseOffset(), v.NextOffset())}
			}, nil},
		{"a length field", func(w world) { flip(w, 1, w.logs[1].at[0]+9) },
			func(w world) []string {
				v := w.logs[1].batches[0]
				return []string{fmt.Sprintf("hole %s %d-%d", filepath.Base(w.logs[1].name), v.BaseOffset(), v.NextOffset())}
			}, nil},
		{"the last batch of a segment", func(w world) { flip(w, 1, len(w.logs[1].bytes)-2) },
			func(w world) []string {
				v := w.logs[1].batches[len(w.logs[1].batches)-1]
				return []string{fmt.Sprintf("hole %s %d-%d", filepath.Base(w.logs[1].name), v.BaseOffset(), v.NextOffset())}
			}, nil},
		{"two batches of one segment", func(w world) {
			b := []byte(w.logs[2].bytes)
			b[w.logs[2].at[1]+70] ^= 1
			b[w.logs[2].at[3]+70] ^= 1
			write(t, w.fs, w.logs[2].name, string(b))
		}, func(w world) []string {
			l := w.logs[2]
			return []string{fmt.Sprintf("hole %s %d-%d", filepath.Base(l.name), l.batches[1].BaseOffset(), l.batches[1].NextOffset()),
				fmt.Sprintf("hole %s %d-%d", filepath.Base(l.name), l.batches[3].BaseOffset(), l.batches[3].NextOffset())}
		}, nil},
		{"a segment cut short", func(w world) { write(t, w.fs, w.logs[1].name, w.logs[1].bytes[:w.logs[1].at[3]+10]) },
			func(w world) []string {
				return []string{
					"index mismatch " + base(w.logs[1].name) + ".index",
					fmt.Sprintf("hole %s %d-%d", filepath.Base(w.logs[1].name), w.logs[1].batches[3].BaseOffset(), w.logs[2].batches[0].BaseOffset())}
			}, nil},
		{"a segment that is gone", func(w world) {
			for _, suffix := range []string{".log", ".index", ".timeindex"} {
				if err := w.fs.Remove(strings.TrimSuffix(w.logs[1].name, ".log") + suffix); err != nil {
					t.Fatal(err)
				}
			}
		}, func(w world) []string {
			return []string{fmt.Sprintf("hole %s %d-%d", filepath.Base(w.logs[0].name), w.logs[1].batches[0].BaseOffset(), w.logs[2].batches[0].BaseOffset())}
		}, nil},
		{"zeros over a whole segment", func(w world) { write(t, w.fs, w.logs[1].name, strings.Repeat("\x00", len(w.logs[1].bytes))) },
			func(w world) []string {
				return []string{fmt.Sprintf("hole %s %d-%d", filepath.Base(w.logs[1].name), w.logs[1].batches[0].BaseOffset(), w.logs[2].batches[0].BaseOffset())}
			}, nil},
		{"an offset index with another's entries", func(w world) {
			all := files(t, w.fs)
			write(t, w.fs, "data/t-0/"+base(w.logs[1].name)+".index", all["data/t-0/"+base(w.logs[2].name)+".index"])
		}, func(w world) []string { return []string{"index mismatch " + base(w.logs[1].name) + ".index"} }, nil},
		{"a time index of garbage", func(w world) { write(t, w.fs, "data/t-0/"+base(w.logs[1].name)+".timeindex", "garbage") },
			func(w world) []string { return []string{"index mismatch " + base(w.logs[1].name) + ".timeindex"} }, nil},
		{"an index of aborted transactions that is gone", func(w world) {
			for name := range files(t, w.fs) {
				if strings.HasPrefix(name, "data/t-0/") && strings.HasSuffix(name, ".txnindex") {
					if err := w.fs.Remove(name); err != nil {
						t.Fatal(err)
					}
				}
			}
		}, func(w world) []string {
			var out []string
			for i, l := range w.logs[:len(w.logs)-1] {
				_ = i
				for _, v := range l.batches {
					if m, ok, _ := v.Marker(); v.IsControl() && ok && !m.Commit {
						out = append(out, "index mismatch "+base(l.name)+".txnindex")
						break
					}
				}
			}
			return out
		}, nil},
		{"a snapshot of producers with a bad checksum", func(w world) {
			for name, b := range files(t, w.fs) {
				if strings.HasPrefix(name, "data/t-0/") && strings.HasSuffix(name, ".snapshot") && len(b) > 20 {
					write(t, w.fs, name, b[:len(b)-1]+"x")
					return
				}
			}
			t.Fatal("no snapshot")
		}, nil, nil},
		{"a checkpoint of garbage", func(w world) { write(t, w.fs, "data/recovery-point-offset-checkpoint", "0\nx\n") },
			func(w world) []string { return []string{"bad state file recovery-point-offset-checkpoint"} }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := sample(t)
			w := world{fsys, logs(t, fsys)}
			c.do(w)
			before := files(t, fsys)
			r := verify(t, fsys)
			if r.OK {
				t.Fatal("verify says that all is well")
			}
			if c.want != nil {
				if got, want := troubles(r), c.want(w); !slices.Equal(got, want) {
					t.Fatalf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
			plan, err := Repair(ctx, opts(fsys), false)
			if err != nil || !slices.Equal(troubles(plan), troubles(r)) {
				t.Errorf("the plan: %v, %v", err, troubles(plan))
			}
			if now := files(t, fsys); fmt.Sprint(now) != fmt.Sprint(before) {
				t.Error("looking changed files")
			}
			done, err := Repair(ctx, opts(fsys), true)
			if err != nil || done.Failed() {
				t.Fatalf("repair: %v, %v", err, troubles(done))
			}
			if after := verify(t, fsys); !slices.Equal(troubles(after), c.left) {
				t.Fatalf("after the repair: %v", troubles(after))
			}
			got, err := readAll(t, fsys)
			if err != nil {
				t.Fatalf("reading on: %v", err)
			}
			lost := lostRanges(r)
			want := 0
			for _, l := range w.logs {
				for _, v := range l.batches {
					if !inside(lost, v.BaseOffset()) {
						want++
						if !slices.ContainsFunc(got, func(g batch.View) bool { return bytes.Equal(g, v) }) {
							t.Errorf("the batch at offset %d is gone", v.BaseOffset())
						}
					}
				}
			}
			data := 0
			for i, g := range got {
				if i > 0 && g.BaseOffset() < got[i-1].NextOffset() {
					t.Errorf("order: %d after %d", g.BaseOffset(), got[i-1].LastOffset())
				}
				if g.Count() > 0 {
					data++
				}
			}
			if data != want {
				t.Errorf("%d batches are read, want %d", data, want)
			}
			// What was taken out is kept, byte for byte.
			for _, p := range r.Partitions {
				for _, f := range p.Findings {
					if f.Trouble == string(store.DamagedHole) && f.End > f.Position && !keeps(t, fsys, before[f.File][f.Position:f.End]) {
						t.Errorf("bytes %d-%d of %s are nowhere", f.Position, f.End, f.File)
					}
				}
			}
		})
	}
}

func base(name string) string { return strings.TrimSuffix(filepath.Base(name), ".log") }

func lostRanges(r Report) (out [][2]int64) {
	for _, p := range r.Partitions {
		for _, f := range p.Findings {
			if f.Trouble == string(store.DamagedHole) && p.Partition == "t-0" {
				out = append(out, [2]int64{f.From, f.To})
			}
		}
	}
	return out
}

func inside(ranges [][2]int64, o int64) bool {
	return slices.ContainsFunc(ranges, func(r [2]int64) bool { return r[0] <= o && o < r[1] })
}

func keeps(t testing.TB, fsys vfs.FS, b string) bool {
	for name, content := range files(t, fsys) {
		if strings.Contains(name, ".cut-") && content == b {
			return true
		}
	}
	return false
}

func TestATornTailIsToldFromDamage(t *testing.T) {
	fsys := vfs.NewMem()
	s := openStore(t, fsys)
	fill(t, s)
	// How far it is durable is noted a moment later, and in the end as by a store that stops.
	noted := func(fsys vfs.FS) string {
		b, err := vfs.ReadFile(fsys, "data/t-0/synced", 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for want, until := noted(sample(t)), time.Now().Add(time.Minute); noted(fsys) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("how far the log is durable was not noted")
		}
	}
	fsys = fsys.Kill()
	l := logs(t, fsys)
	last := l[len(l)-1]
	write(t, fsys, last.name, last.bytes+"half a batch")
	r := verify(t, fsys)
	end := last.batches[len(last.batches)-1].NextOffset()
	if got := troubles(r); !slices.Equal(got, []string{fmt.Sprintf("torn tail %s %d--1", filepath.Base(last.name), end)}) {
		t.Errorf("%v", got)
	}
	if p := r.Partitions[0]; p.State != "torn tail" || p.Findings[0].Position != int64(len(last.bytes)) {
		t.Errorf("%+v", p)
	}
	// The same bytes where what is durable was noted are damage.
	write(t, fsys, last.name, last.bytes[:len(last.bytes)-5])
	if r := verify(t, fsys); r.Partitions[0].State != "hole" {
		t.Errorf("acknowledged bytes are missing: %v", troubles(r))
	}
	if done, err := Repair(ctx, opts(fsys), true); err != nil || done.Failed() {
		t.Fatal(err, troubles(done))
	}
	if got, err := readAll(t, fsys); err != nil || len(got) == 0 {
		t.Errorf("%d batches, %v", len(got), err)
	}
}

// Whatever byte of a log changes, verify notices, and repair loses no more than the batch that it is in.
func TestEveryFlippedByteIsFoundAndCostsOneBatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(trial.Seed(t), 0))
	whole := sample(t)
	content := files(t, whole)
	ls := logs(t, whole)
	for range trial.Effort(150) {
		fsys := vfs.NewMem()
		for _, dir := range []string{"data/t-0", "data/u-0"} {
			if err := fsys.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		for name, b := range content {
			write(t, fsys, name, b)
		}
		n := rng.IntN(len(ls))
		at := rng.IntN(len(ls[n].bytes))
		b := []byte(ls[n].bytes)
		b[at] ^= byte(1 << rng.IntN(8))
		write(t, fsys, ls[n].name, string(b))
		k, _ := slices.BinarySearch(ls[n].at, at+1)
		hit := ls[n].batches[k-1]
		where := fmt.Sprintf("byte %d of %s, in the batch at %d", at-ls[n].at[k-1], ls[n].name, hit.BaseOffset())
		r := verify(t, fsys)
		if in := at - ls[n].at[k-1]; in >= 8 && in < 12 || in >= 16 {
			if r.OK {
				t.Fatalf("%s: not noticed", where)
			}
		}
		if done, err := Repair(ctx, opts(fsys), true); err != nil || done.Failed() {
			t.Fatalf("%s: %v %v", where, err, troubles(done))
		}
		if after := verify(t, fsys); !after.OK {
			t.Fatalf("%s: after the repair %v", where, troubles(after))
		}
		got, err := readAll(t, fsys)
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		for _, l := range ls {
			for _, v := range l.batches {
				if v.BaseOffset() != hit.BaseOffset() && !slices.ContainsFunc(got, func(g batch.View) bool { return bytes.Equal(g, v) }) {
					t.Fatalf("%s: the batch at %d is gone too", where, v.BaseOffset())
				}
			}
		}
	}
}

// A repair that is cut short at any call of the file system can be done again, and loses nothing else.
func TestARepairThatIsCutShortIsDoneAgain(t *testing.T) {
	for n := 1; ; n++ {
		fsys := vfs.NewCrashable()
		s := openStore(t, fsys)
		fill(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		ls := logs(t, fsys)
		b := []byte(ls[1].bytes)
		b[ls[1].at[2]+70] ^= 1
		write(t, fsys, ls[1].name, string(b))
		calls := 0
		broken := errors.New("cut short")
		fsys.Inject(func(op vfs.Op, name string) *vfs.Fault {
			if op == vfs.OpRead || op == vfs.OpOpen {
				return nil
			}
			if calls++; calls >= n {
				return &vfs.Fault{Err: broken}
			}
			return nil
		})
		_, err := Repair(ctx, opts(fsys), true)
		done := calls < n
		fsys.Inject(nil)
		_ = err
		fsys = fsys.Crash(uint64(n))
		if r, err := Repair(ctx, opts(fsys), true); err != nil || r.Failed() {
			t.Fatalf("call %d: again: %v %v", n, err, troubles(r))
		}
		if r := verify(t, fsys); !r.OK {
			t.Fatalf("call %d: after it was done again: %v", n, troubles(r))
		}
		got, err := readAll(t, fsys)
		if err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
		for _, l := range ls {
			for _, v := range l.batches {
				if v.BaseOffset() != ls[1].batches[2].BaseOffset() && !slices.ContainsFunc(got, func(g batch.View) bool { return bytes.Equal(g, v) }) {
					t.Fatalf("call %d: the batch at %d is gone", n, v.BaseOffset())
				}
			}
		}
		if done {
			if n < 10 {
				t.Fatalf("only %d calls", n)
			}
			return
		}
	}
}

// Things that are no regular files, in places where files are expected: nothing is opened that reading would hang at.
func TestAStrangeDirectoryIsLookedAtWithoutHanging(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(vfs.OS{}, filepath.Join(dir, "log"), store.Options{Maintain: -1, Ballast: -1, MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, "log", name) }
	for _, name := range []string{".clean", "t-0/leader-epoch-checkpoint", "t-0/synced", "u-0/00000000000000000000.log", "u-0/00000000000000000000.index"} {
		if err := os.Remove(at(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := fifo(at(name)); err != nil {
			t.Skip(err)
		}
	}
	for name, target := range map[string]string{"t-0/99999999999999999990.index": "/dev/zero", "t-0/00000000000000009999.log": "/dev/zero", "loop-0": "."} {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(at("t-0/00000000000000008888.log/inside"), 0o755); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		o := Options{Dir: dir}
		r, err := Verify(ctx, o)
		if err == nil && r.OK {
			err = errors.New("all is well?")
		}
		if err == nil {
			err = Dump(ctx, o, DumpOptions{Batches: true, Records: true, Files: true}, func(Item) error { return nil })
		}
		if err == nil {
			_, err = Repair(ctx, o, true)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it hangs")
	}
	if _, err := os.Lstat(at("loop-0")); err != nil {
		t.Errorf("what is not the log's was touched: %v", err)
	}
}
