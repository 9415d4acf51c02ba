package avrodata

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"millrace/deploy/peers"
	"millrace/schema"
	"millrace/schema/converters"
)

// captured are keys and values of Debezium's events as Kafka Connect's JSON converter wrote them, with their schemas.
func captured(t *testing.T) (all []struct {
	s *schema.Schema
	v schema.Value
}) {
	t.Helper()
	c, errs := converters.JSON.Make(map[string]string{"replace.null.with.default": "false"}, false)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	f, err := os.Open("../../converters/testdata/pgconnect.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var record struct{ Key, Value *string }
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			t.Fatal(err)
		}
		for _, text := range []*string{record.Key, record.Value} {
			if text == nil {
				continue
			}
			s, v, err := c.Decode(&converters.Message{}, []byte(*text))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, struct {
				s *schema.Schema
				v schema.Value
			}{s, v})
		}
	}
	if len(all) < 100 {
		t.Fatalf("%d captured keys and values only", len(all))
	}
	return all
}

// TestEventsOfDebeziumComeBack: what Debezium's events hold is written as Avro and read back, schemas and values alike. Avro's Java library,
// where it is wanted, reads the same bytes and writes them again.
func TestEventsOfDebeziumComeBack(t *testing.T) {
	o := usual
	o.KeepNulls, o.Scrub = true, true
	var questions bytes.Buffer
	var written []string
	ask := json.NewEncoder(&questions)
	m := &Mapper{Options: o}
	for i, one := range captured(t) {
		w, err := m.ToAvro(one.s)
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		e, err := NewEncoder(one.s, w.Type(), o)
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		data, null, err := e.Append(nil, one.v)
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if null {
			continue
		}
		back, err := m.ToConnect(w.Type(), NoVersion)
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		d, err := NewDecoder(w.Type(), back)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Value(data)
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if a, b := fmt.Sprint(plain(one.v)), fmt.Sprint(plain(got)); a != b {
			t.Errorf("event %d:\nwrote %s\nread  %s", i, a, b)
		}
		if same := schema.Equal(back, one.s); !same && !scrubs(one.s) {
			t.Errorf("event %d: the schema came back as another\n%s\n%s", i, show(one.s), show(back))
		}
		if err := ask.Encode(map[string]string{"schema": w.Canonical(), "data": hex.EncodeToString(data)}); err != nil {
			t.Fatal(err)
		}
		written = append(written, hex.EncodeToString(data))
	}
	t.Logf("%d keys and values", len(written))
	t.Run("Java", func(t *testing.T) {
		java := peers.AvroLibrary(t)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := java.Command(ctx, "AvroPeer")
		cmd.Stdin, cmd.Stderr = &questions, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range bytes.Lines(out) {
			var a struct{ Data, Error string }
			if err := json.Unmarshal(line, &a); err != nil || n == len(written) {
				t.Fatalf("answer %d: %s: %v", n, line, err)
			}
			if a.Error != "" || a.Data != written[n] {
				t.Errorf("event %d: Java says %q and writes\n%s\nwe\n%s", n, a.Error, a.Data, written[n])
			}
			n++
		}
		if n != len(written) {
			t.Errorf("%d answers to %d questions", n, len(written))
		}
	})
}

// scrubs reports whether a name in s had to be made legal.
func scrubs(s *schema.Schema) bool {
	for _, f := range s.Fields() {
		if scrubbed(f.Name) != f.Name || scrubs(f.Schema) {
			return true
		}
	}
	return s.Elem() != nil && scrubs(s.Elem())
}
