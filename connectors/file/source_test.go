package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/schema"
)

func write(tb testing.TB, path, text string) {
	tb.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		tb.Fatal(err)
	}
}

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// TestRotation is files/1: rename, late lines, copy and truncate, with the task
// running all the time and with a restart after every step.
func TestRotation(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, down := range []bool{false, true} { // the step itself happens while no task runs
			if down && !restart {
				continue
			}
			t.Run(fmt.Sprintf("restart=%v,down=%v", restart, down), func(t *testing.T) {
				dir := tempDir(t)
				in := filepath.Join(dir, "in.log")
				conf := map[string]string{"file": in, "topic": "lines"}
				m := newMemory()
				run := startSource(t, m, dir, conf)
				want := 0
				step := func(what string, lines int, act func()) {
					t.Helper()
					if down {
						run.end()
					}
					act()
					if run.over {
						run = startSource(t, m, dir, conf)
					}
					want += lines
					m.waitFor(t, what, count(want))
					if restart && !down {
						run.end()
						run = startSource(t, m, dir, conf)
					}
				}
				step("100 lines", 100, func() { write(t, in, numbered(1, 100)) })
				step("rename, 2 late lines, 20 in a shorter new file", 22, func() {
					must(t, os.Rename(in, in+".1"))
					write(t, in+".1", numbered(101, 102))
					write(t, in, numbered(103, 122))
				})
				step("copy, truncate, 30 more", 30, func() {
					b, err := os.ReadFile(in)
					must(t, err)
					must(t, os.WriteFile(in+".copy", b, 0o644))
					must(t, os.Truncate(in, 0))
					write(t, in, numbered(123, 152))
				})
				step("unread lines are in the copy", 8, func() {
					run.end() // so that the lines are surely unread
					write(t, in, numbered(153, 155))
					b, err := os.ReadFile(in)
					must(t, err)
					must(t, os.WriteFile(in+".2", b, 0o644))
					must(t, os.Truncate(in, 0))
					write(t, in, numbered(156, 160))
				})
				step("deleted and made again, the same inode or not", 3, func() {
					must(t, os.Remove(in))
					write(t, in, numbered(161, 163))
				})
				run.end()
				if got := m.got(); strings.Join(got, "\n")+"\n" != numbered(1, 163) {
					t.Errorf("got %d lines:\n%s", len(got), strings.Join(got, "\n"))
				}
			})
		}
	}
}

func TestTwoRotationsWhileDown(t *testing.T) {
	dir := tempDir(t)
	in := filepath.Join(dir, "app.log")
	conf := map[string]string{"file": in, "topic": "lines"}
	m := newMemory()
	write(t, in, numbered(1, 10))
	run := startSource(t, m, dir, conf)
	m.waitFor(t, "the first lines", count(10))
	run.end()
	write(t, in, numbered(11, 12))
	old := func(path string, age int64) {
		at := syscall.NsecToTimespec((1_700_000_000 + age) * 1e9)
		must(t, syscall.UtimesNano(path, []syscall.Timespec{at, at}))
	}
	must(t, os.Rename(in, in+".2"))
	old(in+".2", 1)
	write(t, in+".3", "read long ago\n") // older than what is being read
	old(in+".3", 0)
	write(t, in+".bak", "no rotated file\n")
	write(t, in+".1", numbered(13, 15))
	old(in+".1", 2)
	run = startSource(t, m, dir, conf)
	m.waitFor(t, "the rotated files, though there is no new one", count(12))
	write(t, in, numbered(16, 17))
	m.waitFor(t, "the new file", count(17))
	run.end()
	if got := strings.Join(m.got(), "\n") + "\n"; got != numbered(1, 17) {
		t.Errorf("got\n%s", got)
	}
}

// TestFilesThatBeginAlike has a new file that begins with the very lines of the old one,
// and a copy that was put in the old one's place.
func TestFilesThatBeginAlike(t *testing.T) {
	for _, rotated := range []bool{true, false} {
		dir := tempDir(t)
		in := filepath.Join(dir, "in.log")
		conf := map[string]string{"file": in, "topic": "lines"}
		m := newMemory()
		write(t, in, "started\n")
		run := startSource(t, m, dir, conf)
		m.waitFor(t, "the first line", count(1))
		run.end()
		want := []string{"started", "late", "started", "new"}
		must(t, os.Rename(in, filepath.Join(dir, "in.log.1")))
		if rotated {
			write(t, in+".1", "late\n")
		} else {
			must(t, os.Rename(in+".1", filepath.Join(dir, "elsewhere")))
			want = []string{"started", "new"}
		}
		write(t, in, "started\nnew\n")
		run = startSource(t, m, dir, conf)
		m.waitFor(t, "the last line", count(len(want)))
		run.end()
		if got := m.got(); !slices.Equal(got, want) {
			t.Errorf("rotated=%v: got %q", rotated, got)
		}
	}
}

func TestTruncatedWithoutACopy(t *testing.T) {
	for _, size := range []int{3, 20, 40} { // shorter than the position, the same, longer
		for _, down := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d lines after 20,down=%v", size, down), func(t *testing.T) {
				dir := tempDir(t)
				in := filepath.Join(dir, "in.log")
				conf := map[string]string{"file": in, "topic": "lines"}
				m := newMemory()
				write(t, in, numbered(101, 120))
				run := startSource(t, m, dir, conf)
				m.waitFor(t, "before", count(20))
				if down {
					run.end()
				}
				must(t, os.WriteFile(in, []byte(numbered(201, 200+size)), 0o644)) // the same inode
				if down {
					run = startSource(t, m, dir, conf)
				}
				m.waitFor(t, "after", count(20+size))
				run.end()
				if got := strings.Join(m.got()[20:], "\n") + "\n"; got != numbered(201, 200+size) {
					t.Errorf("got\n%s", got)
				}
			})
		}
	}
}

// TestLines is files/2, with a restart after every write.
func TestLines(t *testing.T) {
	dir := tempDir(t)
	in := filepath.Join(dir, "in.log")
	conf := map[string]string{"file": in, "topic": "lines"}
	m := newMemory()
	huge := strings.Repeat("0123456789abcdef", 20<<16)
	var want []string
	size := int64(0)
	for _, step := range []struct {
		name, text string
		lines      []string
		pending    int // bytes of the text that no record covers yet
	}{
		{"half a line", "abc", nil, 3},
		{"its other half", "def\n", []string{"abcdef"}, 0},
		{"a CRLF", "x\r\n", []string{"x"}, 0},
		{"a CR whose LF has not come", "y\r", nil, 2},
		{"the LF", "\n", []string{"y"}, 0},
		{"a CR alone ends a line", "a\rb\n", []string{"a", "b"}, 0},
		{"bytes that are no UTF-8", "\xff\xfe\n", []string{"\uFFFD\uFFFD"}, 0},
		{"two-byte letters", strings.Repeat("é", 1000) + "\n", []string{strings.Repeat("é", 1000)}, 0},
		{"half of a letter", "h\xc3", nil, 2},
		{"its other half", "\xa9\n", []string{"h\u00e9"}, 0},
		{"20 MiB", huge + "\n", []string{huge}, 0},
		{"an empty line", "\n", []string{""}, 0},
		{"a NUL", "a\x00b\n", []string{"a\x00b"}, 0},
		{"several", "1\n2\n3\n", []string{"1", "2", "3"}, 0},
	} {
		write(t, in, step.text)
		size += int64(len(step.text))
		want = append(want, step.lines...)
		for range 2 { // the second finds nothing new
			run := startSource(t, m, dir, conf)
			m.waitFor(t, step.name, count(len(want)))
			run.end()
			if len(want) > 0 && step.pending == 0 && m.position() != size {
				t.Errorf("%s: position %d, the file has %d bytes", step.name, m.position(), size)
			}
		}
		if got := m.got(); !slices.Equal(got, want) {
			t.Fatalf("%s: got %d records, want %d; the last is %.40q", step.name, len(got), len(want), got[len(got)-1])
		}
	}
	for _, n := range m.batches {
		if n > 3 {
			t.Errorf("a batch of %d records", n)
		}
	}
}

func TestALineThatNoRecordHolds(t *testing.T) {
	dir := tempDir(t)
	in := filepath.Join(dir, "in.log")
	f, err := os.Create(in)
	must(t, err)
	must(t, f.Truncate(maxLine+maxLine/2)) // NULs, without a newline
	f.Close()
	write(t, in, "\nnext\n")
	m := newMemory()
	run := startSource(t, m, dir, map[string]string{"file": in, "topic": "lines"})
	failure := connectors.FailureOf(run.fails())
	if failure == nil || failure.Reason != &longLine || !strings.Contains(failure.Error(), fmt.Sprintf(`{"position": %d}`, maxLine+maxLine/2+1)) {
		t.Errorf("got %v", failure)
	}
	if got := m.got(); len(got) > 0 {
		t.Errorf("%d records of it", len(got))
	}
}

func TestBounds(t *testing.T) {
	dir := tempDir(t)
	in := filepath.Join(dir, "in.log")
	var b strings.Builder
	for i := range 5001 {
		fmt.Fprintln(&b, i)
	}
	b.WriteString(strings.Repeat(strings.Repeat("x", 300<<10)+"\n", 7))
	b.WriteString("small\n" + strings.Repeat("y", 3<<20) + "\nsmall\n")
	write(t, in, b.String())
	for _, size := range []string{"", "7", "-1", "1000000"} {
		conf := map[string]string{"file": in, "topic": "lines"}
		limit := connectors.MaxBatchRecords
		if size != "" {
			conf["batch.size"] = size
			fmt.Sscan(size, &limit)
			limit = min(max(limit, 1), connectors.MaxBatchRecords)
		}
		m := newMemory()
		run := startSource(t, m, dir, conf)
		m.waitFor(t, "all", count(5011))
		run.end()
		lines := m.got()
		for at, n := 0, 0; n < len(m.batches); n++ {
			bytes := 0
			for _, l := range lines[at : at+m.batches[n]] {
				bytes += len(l)
			}
			if m.batches[n] > limit || bytes > connectors.MaxBatchBytes && m.batches[n] > 1 {
				t.Errorf("batch.size=%s: batch %d has %d records of %d bytes", size, n, m.batches[n], bytes)
			}
			at += m.batches[n]
		}
	}
}

func TestOffsetsOfOthersAreHonoured(t *testing.T) {
	position := func(entries ...schema.Entry) schema.Value { return schema.MapValue(entries) }
	entry := func(k string, v schema.Value) schema.Entry { return schema.Entry{Key: schema.StringValue(k), Value: v} }
	for _, c := range []struct {
		name   string
		offset schema.Value
		want   string
		wrong  string
	}{
		{"Kafka's position at a line", position(entry("position", schema.Int64Value(7))), "line 2\nline 3\n", ""},
		{"a client's position within a line", position(entry("position", schema.Int64Value(9))), "ne 2\nline 3\n", ""},
		{"a position behind the end starts over", position(entry("position", schema.Int64Value(700))), numbered(1, 3), ""},
		{"a fingerprint that nobody can read counts as none", position(entry("position", schema.Int64Value(7)),
			entry("fingerprint", schema.StringValue("?"))), "line 2\nline 3\n", ""},
		{"no position", position(entry("pos", schema.Int64Value(7))), "", "position"},
		{"a text", position(entry("position", schema.StringValue("7"))), "", "position"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tempDir(t)
			in := filepath.Join(dir, "in.log")
			write(t, in, numbered(1, 3))
			m := newMemory()
			m.offset = c.offset
			run := startSource(t, m, dir, map[string]string{"file": in, "topic": "lines"})
			if c.wrong != "" {
				if err := run.fails(); !strings.Contains(err.Error(), c.wrong) || connectors.RetryOf(err) != connectors.RetryNever {
					t.Errorf("got %v", err)
				}
				return
			}
			m.waitFor(t, "lines", count(strings.Count(c.want, "\n")))
			run.end()
			if got := strings.Join(m.got(), "\n") + "\n"; got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestAFileThatIsNotThereYet(t *testing.T) {
	dir := tempDir(t)
	in := filepath.Join(dir, "later", "in.log")
	m := newMemory()
	run := startSource(t, m, dir, map[string]string{"file": in, "topic": "lines"})
	must(t, os.Mkdir(filepath.Dir(in), 0o755))
	write(t, in, numbered(1, 3))
	m.waitFor(t, "lines", count(3))
	run.end()
}

func TestRefusedFiles(t *testing.T) {
	dir, other := tempDir(t), tempDir(t)
	write(t, filepath.Join(other, "secret"), "x\n")
	must(t, os.Symlink(filepath.Join(other, "secret"), filepath.Join(dir, "link")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	for path, want := range map[string]string{
		filepath.Join(other, "secret"):                           dir,
		filepath.Join(dir, "..", filepath.Base(other), "secret"): dir,
		filepath.Join(dir, "link"):                               dir,
		filepath.Join(dir, "pipe"):                               "a pipe",
		filepath.Join(dir, "folder"):                             "a directory",
	} {
		for _, kind := range []string{"source", "sink"} {
			conf := map[string]string{"file": path, "topic": "lines"}
			cc := connectors.Context{Log: quiet(), Files: roots(dir)}
			var valid connectors.Validator
			var failed error
			if kind == "source" {
				v, _ := Source.Config.Parse(conf)
				s, err := Source.New(cc, v)
				must(t, err)
				valid = s.(connectors.Validator)
				failed = startSource(t, newMemory(), dir, conf).fails()
			} else {
				v, _ := Sink.Config.Parse(conf)
				s, err := Sink.New(cc, v)
				must(t, err)
				valid = s.(connectors.Validator)
				task, err := Sink.NewTask(cc, v)
				must(t, err)
				_, failed = task.Open(context.Background(), nil)
			}
			errs := valid.Validate(context.Background())
			if len(errs) != 1 || errs[0].Key != "file" || !strings.Contains(errs[0].Error(), want) {
				t.Errorf("%s %s: validate says %v", kind, path, errs)
			}
			if failed == nil || !strings.Contains(failed.Error(), want) || connectors.RetryOf(failed) != connectors.RetryNever {
				t.Errorf("%s %s: the task says %v", kind, path, failed)
			}
		}
	}
}

func TestALinkThatChangesLater(t *testing.T) {
	dir, other := tempDir(t), tempDir(t)
	link := filepath.Join(dir, "in.log")
	write(t, filepath.Join(dir, "real"), "x\n")
	write(t, filepath.Join(other, "secret"), "secret\n")
	must(t, os.Symlink(filepath.Join(dir, "real"), link))
	m := newMemory()
	run := startSource(t, m, dir, map[string]string{"file": link, "topic": "lines"})
	m.waitFor(t, "a line", count(1))
	must(t, os.Symlink(filepath.Join(other, "secret"), link+"2"))
	must(t, os.Rename(link+"2", link))
	if f := connectors.FailureOf(run.fails()); f == nil || f.Reason != &outside {
		t.Errorf("got %v", f)
	}
	if got := m.got(); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

func TestStandardInput(t *testing.T) {
	r, w := io.Pipe()
	in := newStdin(r)
	m := newMemory()
	task := func() *sourceTask {
		return &sourceTask{cc: connectors.Context{Log: quiet()}, topic: "lines", batch: 2, in: in}
	}
	run := func() (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		tk := task()
		go func() { done <- tk.Run(ctx, m) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	stop := run()
	io.WriteString(w, "a\nb\r\nc\nhal")
	m.waitFor(t, "three", count(3))
	stop()
	m.fail = context.Canceled // what a task could not hand on is for the next one
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- task().Run(ctx, emitThen(cancel, m)) }()
	io.WriteString(w, "f\nd\n")
	if err := <-done; err != nil {
		t.Error(err)
	}
	m.mu.Lock()
	m.fail = nil
	m.mu.Unlock()
	stop = run()
	io.WriteString(w, "no newline")
	w.Close()
	m.waitFor(t, "all", count(6))
	stop()
	if got := m.got(); !slices.Equal(got, []string{"a", "b", "c", "half", "d", "no newline"}) {
		t.Errorf("got %q", got)
	}
}

type emitFunc func(context.Context, connectors.Batch) error

func (f emitFunc) Emit(ctx context.Context, b connectors.Batch) error { return f(ctx, b) }

func emitThen(cancel func(), m *memory) connectors.Out {
	return emitFunc(func(ctx context.Context, b connectors.Batch) error { cancel(); return m.Emit(ctx, b) })
}

func TestAlterOffsets(t *testing.T) {
	v, _ := Source.Config.Parse(map[string]string{"file": "x", "topic": "lines"})
	s, _ := Source.New(connectors.Context{}, v)
	obj := func(k string, val schema.Value) schema.Value {
		return schema.MapValue([]schema.Entry{{Key: schema.StringValue(k), Value: val}})
	}
	file := obj("filename", schema.StringValue("x"))
	for _, c := range []struct {
		name                string
		partition, position schema.Value
		want                string
	}{
		{"good", file, obj("position", schema.Int64Value(4)), ""},
		{"null removes, whatever the partition", obj("nope", schema.Int64Value(1)), schema.Value{}, ""},
		{"another key", file, obj("pos", schema.Int64Value(4)), "Offset objects should either be null or contain the key 'position'"},
		{"a text", file, obj("position", schema.StringValue("x")), "The value for the 'position' key in the offset is expected to be a Long value"},
		{"negative", file, obj("position", schema.Int64Value(-1)), "The value for the 'position' key in the offset should be a non-negative value"},
		{"no partition", schema.Value{}, obj("position", schema.Int64Value(4)), "Partition objects cannot be null"},
		{"no file name", obj("nope", schema.StringValue("x")), obj("position", schema.Int64Value(4)), "Partition objects should contain the key 'filename'"},
		{"a number for a file name", obj("filename", schema.Int64Value(1)), obj("position", schema.Int64Value(4)), "The value for the 'filename' key in the partition is expected to be a text"},
		{"a fraction", file, obj("position", schema.Float64Value(1.5)), "The value for the 'position' key in the offset is expected to be a Long value"},
		{"a stored inode that is none", file, schema.MapValue([]schema.Entry{{Key: schema.StringValue("position"), Value: schema.Int64Value(4)}, {Key: schema.StringValue("inode"), Value: schema.StringValue("x")}}),
			"The value for the 'inode' key in the offset is expected to be a Long value"},
	} {
		done, err := s.(connectors.OffsetAlterer).AlterOffsets(context.Background(), []connectors.Offset{{Partition: c.partition, Position: c.position}})
		if done != (c.want == "") || c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

// TestSettingsAreKafkas compares the declared keys with what Kafka's own plugin
// answers; the texts are ours.
func TestSettingsAreKafkas(t *testing.T) {
	text, err := os.ReadFile("testdata/source-config.json")
	must(t, err)
	var want []map[string]any
	must(t, json.Unmarshal(text, &want))
	infos := Source.Config.Infos()
	if len(infos) != len(want) {
		t.Fatalf("%d keys, Kafka has %d", len(infos), len(want))
	}
	for i, info := range infos {
		var def any
		if text, ok := info.DefaultText(); ok {
			def = text
		}
		got := map[string]any{"name": info.Name, "type": string(info.Type), "required": info.Required, "default_value": def,
			"importance": string(info.Importance), "width": string(info.Width), "display_name": info.Display}
		for k, v := range got {
			if want[i][k] != v {
				t.Errorf("%s: %s is %v, Kafka says %v", info.Name, k, v, want[i][k])
			}
		}
	}
	v, errs := Source.Config.Parse(map[string]string{"topic": ""})
	if len(errs) != 1 || errs[0].Error() != "Invalid value  for configuration topic: String must be non-empty" {
		t.Error(errs)
	}
	s, _ := Source.New(connectors.Context{}, v)
	if plan, err := s.Tasks(context.Background(), 5); err != nil || len(plan) != 1 || len(plan[0]) != 1 {
		t.Errorf("tasks %v, %v", plan, err)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\nc\rd\r"), byte(3))
	f.Fuzz(func(t *testing.T, text []byte, step byte) {
		text = append(text, '\n')
		want := strings.Split(strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\r", "\n"), "\n")
		var got []string
		var begun []byte
		scanned := 0
		for rest := text; ; {
			for {
				line, next, ok := cutLine(begun, scanned)
				if !ok {
					break
				}
				got = append(got, string(line))
				begun, scanned = begun[next:], 0
			}
			if scanned = len(begun); scanned > 0 && begun[scanned-1] == '\r' {
				scanned--
			}
			if len(rest) == 0 {
				break
			}
			n := min(int(step)%7+1, len(rest))
			begun, rest = append(begun, rest[:n]...), rest[n:]
		}
		if len(begun) > 0 {
			t.Fatalf("%q is left", begun)
		}
		if !slices.Equal(append(got, ""), want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func FuzzFingerprint(f *testing.F) {
	f.Add(fingerprint{1, 2, 3, 4}.String())
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := parseFingerprint(text)
		if !ok {
			return
		}
		if again, ok := parseFingerprint(p.String()); !ok || again != p {
			t.Fatalf("%q became %v", text, again)
		}
		if _, err := (place{pos: 5, print: p}).matches(bytes.NewReader([]byte("short"))); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	})
}

func TestSourceSuite(t *testing.T) {
	dir := tempDir(t)
	connectortest.Source(t, connectortest.SourceCase{
		Plugin: Source, Files: roots(dir),
		New: func(tb testing.TB) connectortest.SourceTarget {
			folder, err := os.MkdirTemp(dir, "")
			must(tb, err)
			in := filepath.Join(folder, "in.log")
			return connectortest.SourceTarget{
				Config: map[string]string{"file": in, "topic": "lines"},
				Write: func(tb testing.TB, first, n int) {
					var b strings.Builder
					for i := range n {
						fmt.Fprintf(&b, "%d %s\n", first+i, strings.Repeat("x", (first+i)%200))
					}
					write(tb, in, b.String())
				},
				Number: func(r schema.Record) (int, bool) {
					n := 0
					_, err := fmt.Sscanf(r.Value.Str(), "%d ", &n)
					return n, err == nil
				},
			}
		},
	})
}
