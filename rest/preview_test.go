package rest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type previewAnswer struct {
	Type    string
	Ended   bool
	Message string
	Records []struct {
		Where string
		Steps []struct {
			Name, Class, Topic, Error string
			Key, Value                json.RawMessage
			ValueSchema               json.RawMessage `json:"value_schema"`
			Passed, Dropped           bool
		}
	}
}

func (w *worker) preview(t *testing.T, body map[string]any) (int, previewAnswer) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(w.url+"/connectors/preview", "application/json", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var a previewAnswer
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return res.StatusCode, a
}

// steps are a preview's records as short texts: step value!error, with … for a drop.
func (a previewAnswer) steps() string {
	var lines []string
	for _, r := range a.Records {
		var parts []string
		for _, s := range r.Steps {
			text := s.Name + " " + s.Topic + " " + string(s.Value)
			switch {
			case s.Error != "":
				text += "!" + s.Error
			case s.Dropped:
				text += " dropped"
			case s.Passed:
				text += " passed"
			}
			parts = append(parts, text)
		}
		lines = append(lines, strings.Join(parts, " | "))
	}
	return strings.Join(lines, "\n")
}

func TestPreview(t *testing.T) {
	w := startWorker(t)
	if err := os.WriteFile(filepath.Join(w.dir, "in.txt"), []byte("one\ntwo\nthree\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	source := func(extra ...string) map[string]any {
		c := map[string]any{"connector.class": "FileStreamSource", "file": filepath.Join(w.dir, "in.txt"), "topic": "lines",
			"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
		for i := 0; i < len(extra); i += 2 {
			c[extra[i]] = extra[i+1]
		}
		return c
	}
	t.Run("a source's chain, step by step", func(t *testing.T) {
		code, a := w.preview(t, map[string]any{"config": source("transforms", "h,r", "transforms.h.type", "org.apache.kafka.connect.transforms.HoistField$Value", "transforms.h.field", "line",
			"transforms.r.type", "org.apache.kafka.connect.transforms.RegexRouter", "transforms.r.regex", "(.*)", "transforms.r.replacement", "x-$1"), "records": 2})
		want := `read lines "one" | transforms.h lines {"line":"one"} | transforms.r x-lines {"line":"one"} | encode x-lines {"line":"one"}` + "\n" +
			`read lines "two" | transforms.h lines {"line":"two"} | transforms.r x-lines {"line":"two"} | encode x-lines {"line":"two"}`
		if code != 200 || a.steps() != want || a.Ended || a.Type != "source" {
			t.Errorf("%d %+v\n%s", code, a, a.steps())
		}
		if where := a.Records[1].Where; !strings.Contains(where, "byte 4") {
			t.Errorf("where: %s", where)
		}
		if s := string(a.Records[0].Steps[1].ValueSchema); !strings.Contains(s, `"field":"line"`) {
			t.Errorf("schema: %s", s)
		}
	})
	t.Run("the step and the field that fail", func(t *testing.T) {
		code, a := w.preview(t, map[string]any{"config": source("transforms", "h,e", "transforms.h.type", "org.apache.kafka.connect.transforms.HoistField$Value", "transforms.h.field", "line",
			"transforms.e.type", "org.apache.kafka.connect.transforms.ExtractField$Value", "transforms.e.field", "nope"), "records": 1})
		if want := `read lines "one" | transforms.h lines {"line":"one"} | transforms.e lines {"line":"one"}!Unknown field: nope`; code != 200 || a.steps() != want {
			t.Errorf("%d %s", code, a.steps())
		}
	})
	t.Run("drops and predicates", func(t *testing.T) {
		code, a := w.preview(t, map[string]any{"config": source("transforms", "f,g", "transforms.f.type", "org.apache.kafka.connect.transforms.Filter", "transforms.f.predicate", "p", "transforms.f.negate", "true",
			"transforms.g.type", "org.apache.kafka.connect.transforms.Filter", "predicates", "p",
			"predicates.p.type", "org.apache.kafka.connect.transforms.predicates.TopicNameMatches", "predicates.p.pattern", "lines"), "records": 9})
		if want := `read lines "one" | transforms.f lines "one" passed | transforms.g lines "one" dropped`; code != 200 || !strings.HasPrefix(a.steps(), want) || len(a.Records) != 3 || !a.Ended {
			t.Errorf("%d %s", code, a.steps())
		}
	})
	t.Run("nothing is left behind", func(t *testing.T) {
		res, err := http.Get(w.url + "/connectors")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if text, _ := io.ReadAll(res.Body); string(text) != "[]" {
			t.Errorf("connectors: %s", text)
		}
	})
	t.Run("what cannot be previewed says why", func(t *testing.T) {
		for _, c := range []struct {
			code int
			want string
			body map[string]any
		}{
			{400, `send "config", or the "name"`, map[string]any{}},
			{404, "not found", map[string]any{"name": "nope"}},
			{400, "want 1 to 100", map[string]any{"config": source(), "records": 101}},
			{400, "topic", map[string]any{"config": map[string]any{"connector.class": "FileStreamSource"}}},
			{400, "no/such", map[string]any{"config": map[string]any{"connector.class": "FileStreamSource", "topic": "t", "file": "/no/such/../../etc/passwd"}}},
			{400, "standard input", map[string]any{"config": map[string]any{"connector.class": "FileStreamSource", "topic": "t"}}},
		} {
			if code, a := w.preview(t, c.body); code != c.code || !strings.Contains(a.Message, c.want) && c.want != "no/such" {
				t.Errorf("%v: %d %s", c.body, code, a.Message)
			}
		}
	})
	// A sink reads what a source has written.
	body, err := json.Marshal(map[string]any{"name": "src", "config": source()})
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(w.url+"/connectors", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(res.Body)
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	sink := map[string]any{"connector.class": "FileStreamSink", "file": filepath.Join(w.dir, "out.txt"), "topics": "lines", "value.converter": "org.apache.kafka.connect.json.JsonConverter",
		"value.converter.schemas.enable": "false", "transforms": "h", "transforms.h.type": "org.apache.kafka.connect.transforms.HoistField$Value", "transforms.h.field": "line"}
	t.Run("a sink reads the topic from its beginning, with no group", func(t *testing.T) {
		want := `decode lines "one" | transforms.h lines {"line":"one"}`
		eventually(t, func(tb testing.TB) bool {
			code, a := w.preview(t, map[string]any{"config": sink, "records": 3})
			if code != 200 || !strings.HasPrefix(a.steps(), want) || len(a.Records) != 3 || a.Type != "sink" {
				tb.Errorf("%d %s %s", code, a.Message, a.steps())
				return false
			}
			return true
		})
		if _, err := os.Stat(filepath.Join(w.dir, "out.txt")); err == nil {
			t.Error("the sink wrote")
		}
	})
	t.Run("a sink's converter that cannot read", func(t *testing.T) {
		sink["value.converter.schemas.enable"] = "true"
		code, a := w.preview(t, map[string]any{"config": sink, "records": 1})
		if code != 200 || len(a.Records) != 1 || len(a.Records[0].Steps) != 1 || !strings.Contains(a.Records[0].Steps[0].Error, "VALUE_CONVERTER") || string(a.Records[0].Steps[0].Value) != `"one"` {
			t.Errorf("%d %s", code, a.steps())
		}
	})
	t.Run("a connector that is there, by its name", func(t *testing.T) {
		if code, a := w.preview(t, map[string]any{"name": "src"}); code != 200 || len(a.Records) != 3 {
			t.Errorf("%d %s", code, a.Message)
		}
	})
}
