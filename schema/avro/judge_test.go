package avro

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"millrace/deploy/trial"
	"millrace/schema/registry"
)

// verdict is what Avro's Java library said of the pair of a seed: an answer of AvroPeer.
type verdict struct {
	Seed        uint64   `json:"seed"`
	Reader      string   `json:"reader"` // its canonical text
	Writer      string   `json:"writer"`
	ReaderError string   `json:"readerError"` // or why it is no schema
	WriterError string   `json:"writerError"`
	Found       []string `json:"found"`
}

// judged compares our judgement of a pair with Java's.
func judged(t *testing.T, v verdict) (readable, compatible bool) {
	t.Helper()
	r, w := pairOf(v.Seed)
	reader := parsedAs(t, v.Seed, "reader", r, v.Reader, v.ReaderError)
	writer := parsedAs(t, v.Seed, "writer", w, v.Writer, v.WriterError)
	if reader == nil || writer == nil {
		return false, false
	}
	var got []string
	for _, one := range reader.Reads(writer, "new", "old") {
		switch {
		case one.Kind == "":
			got = append(got, "exception "+strings.TrimPrefix(one.Description, "Unexpected exception during compatibility check: "))
		default:
			got = append(got, one.Kind+" "+one.Path+" "+one.Info)
		}
	}
	if strings.Join(got, "\n") != strings.Join(v.Found, "\n") {
		t.Errorf("%s:\nreader %s\nwriter %s\nours %s\nJava %s", seedName(v.Seed), r, w, strings.Join(got, "\n     "), strings.Join(v.Found, "\n     "))
	}
	return true, len(v.Found) == 0
}

func parsedAs(t *testing.T, seed uint64, side, text, want, refused string) *Schema {
	t.Helper()
	s, err := Parse(text, registry.ParseOptions{New: true})
	switch {
	case refused != "" && err == nil:
		t.Errorf("%s: %s %s\nis a schema to us; Java: %s", seedName(seed), side, text, refused)
		return nil
	case refused != "":
		return nil
	case err != nil:
		t.Errorf("%s: %s %s\nis none to us (%v), but to Java: %s", seedName(seed), side, text, err, want)
		return nil
	case s.Canonical() != want:
		t.Errorf("%s: %s\n%s\nours %s\nJava %s", seedName(seed), side, text, s.Canonical(), want)
	}
	return s
}

func TestJudgesAsJava(t *testing.T) {
	f, err := os.Open("testdata/judged.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	most := max(100, trial.Effort(6000))
	pairs, readable, compatible := 0, 0, 0
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for pairs < most && lines.Scan() {
		var v verdict
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		pairs++
		ok, fits := judged(t, v)
		if ok {
			readable++
		}
		if fits {
			compatible++
		}
		if t.Failed() && pairs > 50 {
			break
		}
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	t.Logf("%d pairs, %d of two schemas, %d of them compatible", pairs, readable, compatible)
	if pairs < most || readable < most/3 || compatible < most/10 || compatible > readable-most/10 {
		t.Error("too few pairs of a kind to tell anything")
	}
}
