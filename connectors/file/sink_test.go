package file

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/schema"
)

func linesOf(tb testing.TB, path string) []string {
	tb.Helper()
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	}
	must(tb, err)
	if len(b) > 0 && b[len(b)-1] != '\n' {
		tb.Fatalf("%s ends within a line", path)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func TestSinkSuite(t *testing.T) {
	dir := tempDir(t)
	connectortest.Sink(t, connectortest.SinkCase{
		Plugin: Sink, Files: roots(dir),
		New: func(tb testing.TB) connectortest.SinkTarget {
			folder, err := os.MkdirTemp(dir, "")
			must(tb, err)
			path := filepath.Join(folder, "out.txt")
			return connectortest.SinkTarget{
				Config:  map[string]string{"file": path},
				Stored:  func(tb testing.TB) []string { return linesOf(tb, path) },
				Ordered: true,
			}
		},
	})
}

var part = connectors.TopicPartition{Topic: "t", Partition: 3}

func value(offset int64, s *schema.Schema, v schema.Value) schema.Record {
	return connectortest.At(schema.Record{ValueSchema: s, Value: v}, part, offset)
}

func TestJavasTexts(t *testing.T) {
	inner := schema.NewStruct("inner").Field("x", schema.OptionalFloat64).Build()
	outer := schema.NewStruct("outer").Field("a", schema.OptionalInt32).Field("b", schema.OptionalString).Field("c", inner).Build()
	str := schema.StringValue
	for _, c := range []struct {
		name, want string
		v          schema.Value
	}{
		{"null", "null", schema.Value{}},
		{"a text", "é", str("é")},
		{"an empty text", "", str("")},
		{"true", "true", schema.BoolValue(true)},
		{"a number", "-42", schema.Int64Value(-42)},
		{"a double that is whole", "1.0", schema.Float64Value(1)},
		{"a large double", "1.0E10", schema.Float64Value(1e10)},
		{"not a number", "NaN", schema.Float64Value(math.NaN())},
		{"a float", "0.1", schema.Float32Value(0.1)},
		{"a decimal keeps its scale", "12.50", schema.DecimalInt64(1250, 2)},
		{"a date", "Fri Jan 02 00:00:00 UTC 1970", schema.DateValue(1)},
		{"a time", "Thu Jan 01 00:00:01 UTC 1970", schema.TimeValue(1000)},
		{"a timestamp before 1970", "Wed Dec 31 23:59:59 UTC 1969", schema.TimestampValue(-1)},
		{"bytes stand as they are", "a\x00", schema.BytesValue([]byte{'a', 0})},
		{"a list", "[1, null, x]", schema.ArrayValue([]schema.Value{schema.Int8Value(1), {}, str("x")})},
		{"an empty list", "[]", schema.ArrayValue(nil)},
		{"a map", "{a=1, b={}}", schema.MapValue([]schema.Entry{{Key: str("a"), Value: schema.Int32Value(1)}, {Key: str("b"), Value: schema.MapValue(nil)}})},
		{"a struct leaves nulls out", "Struct{b=x,c=Struct{x=0.5}}", schema.StructValue(outer, []schema.Value{{}, str("x"),
			schema.StructValue(inner, []schema.Value{schema.Float64Value(0.5)})})},
		{"an empty struct", "Struct{}", schema.StructValue(inner, []schema.Value{{}})},
	} {
		if got := string(appendText(nil, c.v)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestSinkSurvivesRotation(t *testing.T) {
	dir := tempDir(t)
	out := filepath.Join(dir, "out.txt")
	run := connectortest.NewSinkRun(t, Sink, roots(dir), map[string]string{"file": out}, false, part)
	put := func(offset int64, text string) {
		run.Put([]schema.Record{value(offset, schema.StringSchema, schema.StringValue(text))})
	}
	put(0, "first")
	must(t, os.Rename(out, out+".1"))
	put(1, "second")
	must(t, os.Remove(out))
	put(2, "third")
	must(t, os.Truncate(out, 0)) // copied and truncated
	put(3, "fourth")
	run.FlushTo(part, 4)
	run.Close(false, part)
	if got := strings.Join(append(linesOf(t, out+".1"), linesOf(t, out)...), ","); got != "first,fourth" {
		t.Errorf("got %s", got)
	}
}

func TestSinkEndsAHalfLine(t *testing.T) {
	dir := tempDir(t)
	out := filepath.Join(dir, "out.txt")
	write(t, out, "whole\nhal")
	run := connectortest.NewSinkRun(t, Sink, roots(dir), map[string]string{"file": out}, false, part)
	run.Put([]schema.Record{value(0, schema.StringSchema, schema.StringValue("half"))})
	run.FlushTo(part, 1)
	if got := strings.Join(linesOf(t, out), ","); got != "whole,hal,half" {
		t.Errorf("got %s", got)
	}
	run.Close(false, part)
}

func TestSinkWithoutAFolder(t *testing.T) {
	dir := tempDir(t)
	out := filepath.Join(dir, "no", "such", "out.txt")
	run := connectortest.NewSinkRun(t, Sink, roots(dir), map[string]string{"file": out}, false)
	_, err := run.Task.Open(context.Background(), []connectors.TopicPartition{part})
	if err == nil || !strings.HasPrefix(err.Error(), "Couldn't find or create file '"+out+"' for FileStreamSinkTask: ") || connectors.FailureOf(err).Reason != &unwritable {
		t.Errorf("got %v", err)
	}
}

// TestFullDisk writes to a file system that holds 64 KiB, and frees it.
func TestFullDisk(t *testing.T) {
	dir := tempDir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount a small file system here: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, 0) })
	out, filler := filepath.Join(dir, "out.txt"), filepath.Join(dir, "filler")
	must(t, os.WriteFile(filler, make([]byte, 32<<10), 0o644))
	run := connectortest.NewSinkRun(t, Sink, roots(dir), map[string]string{"file": out}, false, part)
	long := strings.Repeat("x", 9_000)
	var records []schema.Record
	for o := range int64(5) {
		records = append(records, value(o, schema.StringSchema, schema.StringValue(long)))
	}
	taken, err := run.TryPut(records)
	if !connectors.IsRetriable(err) || taken != 5 {
		t.Fatalf("took %d: %v", taken, err)
	}
	if err := run.TryFlush(); err == nil || len(run.Committed) > 0 {
		t.Fatalf("flushed %v on a full disk: %v", run.Committed, err)
	}
	must(t, os.Remove(filler))
	run.Put(nil)
	run.FlushTo(part, 5)
	run.Close(false, part)
	for i, l := range linesOf(t, out) {
		if l != long {
			t.Errorf("line %d has %d bytes", i, len(l))
		}
	}
	if n := len(linesOf(t, out)); n != 5 {
		t.Errorf("%d lines", n)
	}
}

func TestSinkPlansCopies(t *testing.T) {
	v, _ := Sink.Config.Parse(map[string]string{"file": "x", "topics": "t"})
	s, _ := Sink.New(connectors.Context{}, v)
	plan, err := s.Tasks(context.Background(), 3)
	if err != nil || len(plan) != 3 || plan[2]["topics"] != "t" || plan[2]["file"] != "x" {
		t.Errorf("%v %v", plan, err)
	}
}
