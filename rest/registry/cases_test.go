package registry_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"millrace/log/logtest"
)

// Cases from the field, as clients meet them. What stands behind each is tested in schema/avro and schema/registry.

// cases/registry/1: what does not fit inside a union is refused, wherever the union stands.
func TestCaseIncompatibleInsideAUnion(t *testing.T) {
	s := start(t, logtest.New(t))
	for i, form := range []string{
		`["null",%s]`, `{"type":"record","name":"O","fields":[{"name":"r","type":["null",%s]}]}`, `{"type":"array","items":["null",%s]}`, `{"type":"map","values":["null",%s]}`,
		`{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]},{"name":"r","type":["null",%s]}]}`,
	} {
		of := func(fields string) string {
			return schemaBody(fmt.Sprintf(form, `{"type":"record","name":"R","namespace":"n","fields":[`+fields+`]}`))
		}
		const a, without, with = `{"name":"a","type":"int"}`, `,{"name":"b","type":"string"}`, `,{"name":"b","type":"string","default":""}`
		subject := fmt.Sprint("/subjects/s", i)
		for _, step := range []struct {
			path, body string
			status     int
			says       string
		}{
			{subject + "/versions", of(a), 200, `"version":1`},
			{"/compatibility" + subject + "/versions/latest", of(a + without), 200, `"is_compatible":false`},
			{subject + "/versions", of(a + without), 409, `"error_code":409`},
			{"/compatibility" + subject + "/versions/latest", of(a + with), 200, `"is_compatible":true`},
			{subject + "/versions", of(a + with), 200, `"version":2`},
		} {
			if got := s.send("POST", step.path, step.body); got.status != step.status || !strings.Contains(got.body, step.says) {
				t.Errorf("%s: POST %s: %d %s, want %d %s", form, step.path, got.status, got.body, step.status, step.says)
			}
		}
	}
}

// cases/registry/2: a rename with an alias fits backward, and not forward.
func TestCaseAliases(t *testing.T) {
	s := start(t, logtest.New(t))
	const renamed = `{"type":"record","name":"R2","aliases":["R"],"fields":[{"name":"a","type":"int"}]}`
	for i, c := range []struct {
		level, v1, candidate string
		status               int
	}{
		{"BACKWARD", recA, `{"type":"record","name":"R","fields":[{"name":"b","type":"int","aliases":["a"]}]}`, 200},
		{"BACKWARD", recA, renamed, 200},
		{"BACKWARD", `["null",` + recA + `]`, `["null",` + renamed + `]`, 200},
		{"BACKWARD", recA, `{"type":"record","name":"R","fields":[{"name":"b","type":"int"}]}`, 409},
		{"FORWARD", recA, `{"type":"record","name":"R","fields":[{"name":"b","type":"int","aliases":["a"]}]}`, 409},
	} {
		subject := fmt.Sprint("s", i)
		s.send("PUT", "/config/"+subject, `{"compatibility":"`+c.level+`"}`)
		s.send("POST", "/subjects/"+subject+"/versions", schemaBody(c.v1))
		if a := s.send("POST", "/subjects/"+subject+"/versions", schemaBody(c.candidate)); a.status != c.status {
			t.Errorf("%s: %s after %s: %d %s", c.level, c.candidate, c.v1, a.status, a.body)
		}
	}
}

// cases/registry/3: a schema keeps its id through deletions; versions are counted on; and a restart between any two steps changes nothing.
func TestCaseDeleteThenRegisterAgain(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		l := logtest.New(t)
		s := start(t, l)
		for _, step := range []struct {
			method, path, body string
			status             int
			says               string
		}{
			{"PUT", "/config", `{"compatibility":"NONE"}`, 200, "NONE"},
			{"POST", "/subjects/s/versions", schemaBody(ints), 200, `"id":1,"version":1`},
			{"POST", "/subjects/s/versions", schemaBody(`"string"`), 200, `"id":2,"version":2`},
			{"DELETE", "/subjects/s/versions/1", "", 200, "1"},
			{"DELETE", "/subjects/s/versions/2", "", 200, "2"},
			{"POST", "/subjects/s/versions", schemaBody(ints), 200, `"id":1,"version":3`},
			{"GET", "/subjects/s/versions", "", 200, "[3]"},
			{"GET", "/subjects/s/versions?deleted=true", "", 200, "[2,3]"}, // the version whose schema was registered again is gone
			{"DELETE", "/subjects/s?permanent=true", "", 404, "40405"},
			{"DELETE", "/subjects/s", "", 200, "[3]"},
			{"DELETE", "/subjects/s?permanent=true", "", 200, "[2,3]"}, // the version whose schema was registered again is gone
			{"POST", "/subjects/s/versions", schemaBody(`"boolean"`), 200, `"id":3,"version":1`},
			{"POST", "/subjects/s/versions", schemaBody(ints), 200, `"id":1,"version":2`},
			{"POST", "/subjects/other/versions", schemaBody(ints), 200, `"id":1,"version":1`},
		} {
			a := s.send(step.method, step.path, step.body)
			got := a.body
			var e struct{ ID, Version int }
			if step.method == "POST" && json.Unmarshal([]byte(got), &e) == nil {
				got = fmt.Sprintf(`"id":%d,"version":%d`, e.ID, e.Version)
			}
			if a.status != step.status || !strings.Contains(got, step.says) {
				t.Errorf("restarts %v: %s %s: %d %s, want %d %s", restarts, step.method, step.path, a.status, a.body, step.status, step.says)
			}
			if restarts {
				s.close()
				s = start(t, l)
			}
			if step.method != "PUT" {
				if a := s.send("GET", "/schemas/ids/1/schema", ""); a.status != 200 || a.body != ints {
					t.Errorf("restarts %v: the id 1 after %s %s: %d %s", restarts, step.method, step.path, a.status, a.body)
				}
			}
		}
		s.close()
	}
}

// cases/registry/4: what makes a new version, and what does not; the text that is kept has all that the author wrote.
func TestCaseWhenTwoTextsAreTheSame(t *testing.T) {
	const base = `{"type":"record","name":"n.R","fields":[{"name":"a","type":"int","doc":"d","default":1},{"name":"z","type":"long"}]}`
	for _, normalize := range []string{"false", "true"} {
		s := start(t, logtest.New(t))
		s.send("PUT", "/config", `{"compatibility":"NONE"}`)
		post := func(text string) (id, version int) {
			a := s.send("POST", "/subjects/s/versions?normalize="+normalize, schemaBody(text))
			var e struct{ ID, Version int }
			if json.Unmarshal([]byte(a.body), &e) != nil || a.status != 200 {
				t.Fatalf("%s: %d %s", text, a.status, a.body)
			}
			return e.ID, e.Version
		}
		id, version := post(base)
		for name, text := range map[string]string{
			"white space and CRLF":     strings.ReplaceAll(base, ",", " ,\r\n\t"),
			"the order of attributes":  `{"fields":[{"default":1,"doc":"d","type":"int","name":"a"},{"type":"long","name":"z"}],"name":"n.R","type":"record"}`,
			"the name split":           strings.Replace(base, `"name":"n.R"`, `"name":"R","namespace":"n"`, 1),
			"a primitive as an object": strings.Replace(base, `"type":"int"`, `"type":{"type":"int"}`, 1),
		} {
			if i, v := post(text); i != id || v != version {
				t.Errorf("normalize=%s: %s: id %d version %d, want %d %d", normalize, name, i, v, id, version)
			}
		}
		last := version
		for _, change := range [][2]string{{`"doc":"d"`, `"doc":"e"`}, {`"default":1`, `"default":2`}, {`"default":1`, `"default":1,"aliases":["b"]`}, {`"default":1`, `"default":1,"p":true`},
			{`{"name":"a","type":"int","doc":"d","default":1},{"name":"z","type":"long"}`, `{"name":"z","type":"long"},{"name":"a","type":"int","doc":"d","default":1}`}} {
			i, v := post(strings.Replace(base, change[0], change[1], 1))
			if i == id || v != last+1 {
				t.Errorf("normalize=%s: %s for %s: id %d version %d after %d", normalize, change[1], change[0], i, v, last)
			}
			last = v
			if kept := s.send("GET", fmt.Sprintf("/schemas/ids/%d/schema", i), "").body; !strings.Contains(kept, change[1]) {
				t.Errorf("normalize=%s: %s is not kept: %s", normalize, change[1], kept)
			}
		}
	}
}
