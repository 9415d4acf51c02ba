package registry_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"millrace/deploy/peers"
	"millrace/log/logtest"
)

var update = flag.Bool("update", false, "ask Apicurio for testdata/apicurio.jsonl anew")

// secondOpinion are exchanges with an empty registry, one after the other. name, method and path, body.
var secondOpinion = [][3]string{
	{"the level that the original begins with", "PUT /config", `{"compatibility":"BACKWARD"}`},
	{"nothing yet", "GET /subjects", ""},
	{"the level", "GET /config", ""},
	{"the mode", "GET /mode", ""},
	{"register", "POST /subjects/s/versions", schemaBody(recA)},
	{"register again", "POST /subjects/s/versions", schemaBody(recA)},
	{"register elsewhere", "POST /subjects/t/versions", schemaBody(recA)},
	{"incompatible", "POST /subjects/s/versions", schemaBody(recB)},
	{"another version", "POST /subjects/s/versions", schemaBody(`{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}`)},
	{"not a schema", "POST /subjects/s/versions", schemaBody(`{"type":"nonsense"}`)},
	{"no JSON", "POST /subjects/s/versions", "{"},
	{"look up", "POST /subjects/s", schemaBody(recA)},
	{"look up what is not there", "POST /subjects/s", schemaBody(ints)},
	{"look up in no subject", "POST /subjects/none", schemaBody(ints)},
	{"subjects", "GET /subjects", ""},
	{"subjects of a prefix", "GET /subjects?subjectPrefix=t", ""},
	{"versions", "GET /subjects/s/versions", ""},
	{"versions of nothing", "GET /subjects/none/versions", ""},
	{"a version", "GET /subjects/s/versions/1", ""},
	{"the latest", "GET /subjects/s/versions/latest", ""},
	{"-1", "GET /subjects/s/versions/-1", ""},
	{"no such version", "GET /subjects/s/versions/9", ""},
	{"a version of nothing", "GET /subjects/none/versions/1", ""},
	{"no version at all", "GET /subjects/s/versions/0", ""},
	{"a version that is none", "GET /subjects/s/versions/one", ""},
	{"bare text", "GET /subjects/s/versions/1/schema", ""},
	{"references to it", "GET /subjects/s/versions/1/referencedby", ""},
	{"by id", "GET /schemas/ids/1", ""},
	{"no such id", "GET /schemas/ids/99", ""},
	{"subjects of an id", "GET /schemas/ids/1/subjects", ""},
	{"versions of an id", "GET /schemas/ids/1/versions", ""},
	{"versions of no id", "GET /schemas/ids/99/versions", ""},
	{"types", "GET /schemas/types", ""},
	{"does it fit", "POST /compatibility/subjects/s/versions/latest", schemaBody(recB)},
	{"does it fit to one", "POST /compatibility/subjects/s/versions/1", schemaBody(recA)},
	{"does it fit to all", "POST /compatibility/subjects/s/versions", schemaBody(recA)},
	{"to a version that is not", "POST /compatibility/subjects/s/versions/9", schemaBody(recA)},
	{"to the latest of nothing", "POST /compatibility/subjects/none/versions/latest", schemaBody(recA)},
	{"of no schema", "POST /compatibility/subjects/s/versions/latest", schemaBody(`nonsense`)},
	{"a subject's own level", "GET /config/s", ""},
	{"set it", "PUT /config/s", `{"compatibility":"NONE"}`},
	{"no level", "PUT /config/s", `{"compatibility":"some"}`},
	{"get it", "GET /config/s", ""},
	{"a third version", "POST /subjects/s/versions", schemaBody(`{"type":"record","name":"R","fields":[{"name":"a","type":"double"}]}`)},
	{"delete it", "DELETE /config/s", ""},
	{"a reference", "POST /subjects/r/versions", schemaBody(`{"type":"record","name":"O","fields":[{"name":"r","type":"R"}]}`, "references", `[{"name":"R","subject":"t","version":1}]`)},
	{"a reference to nothing", "POST /subjects/r/versions", schemaBody(`{"type":"record","name":"O","fields":[{"name":"r","type":"Q"}]}`, "references", `[{"name":"Q","subject":"none","version":1}]`)},
	{"what is referred to", "DELETE /subjects/t/versions/1", ""},
	{"delete a version for good", "DELETE /subjects/s/versions/1?permanent=true", ""},
	{"delete a version", "DELETE /subjects/s/versions/1", ""},
	{"delete it again", "DELETE /subjects/s/versions/1", ""},
	{"versions without it", "GET /subjects/s/versions", ""},
	{"versions with it", "GET /subjects/s/versions?deleted=true", ""},
	{"a deleted version", "GET /subjects/s/versions/1", ""},
	{"a subject for good first", "DELETE /subjects/s?permanent=true", ""},
	{"delete a subject", "DELETE /subjects/s", ""},
	{"delete it once more", "DELETE /subjects/s", ""},
	{"delete no subject", "DELETE /subjects/none", ""},
	{"subjects without it", "GET /subjects", ""},
	{"subjects with it", "GET /subjects?deleted=true", ""},
	{"and for good", "DELETE /subjects/s?permanent=true", ""},
	{"a mode that is none", "PUT /mode", `{"mode":"x"}`},
}

// otherwise are the exchanges that Apicurio answers otherwise. The reference of the original has decided each of them.
var otherwise = map[string]string{
	"the level that the original begins with": "the original's answer to a setting is the request: compatibility, and compatibilityLevel when it is read",
	"set it":                    "the original's answer to a setting is the request: compatibility, and compatibilityLevel when it is read",
	"the mode":                  "Apicurio has no modes",
	"a mode that is none":       "Apicurio has no modes",
	"another version":           "Apicurio gives a schema that was refused an id, too",
	"the latest":                "Apicurio gives a schema that was refused an id, too",
	"-1":                        "Apicurio gives a schema that was refused an id, too",
	"a third version":           "Apicurio gives a schema that was refused an id, too",
	"a reference":               "Apicurio gives a schema that was refused an id, too",
	"no JSON":                   "an error of the original always has a code and a message",
	"subjects of a prefix":      "Apicurio does not look at subjectPrefix",
	"no version at all":         "42202, with 422, is the original's code for what is no version",
	"a version that is none":    "42202, with 422, is the original's code for what is no version",
	"subjects of an id":         "Apicurio does not have it",
	"types":                     "what can be registered",
	"a subject's own level":     "40408 is the original's answer where a subject has no level of its own",
	"no level":                  "42203 is the original's code for what is no level",
	"delete a version for good": "the status is the first three digits of the code",
	"delete it again":           "the status is the first three digits of the code",
	"a subject for good first":  "the status is the first three digits of the code",
}

// opinion is what one says to an exchange.
type opinion struct {
	Name   string
	Status int
	Says   string // of an answer what clients go by
}

// gist are the parts of an answer that clients go by.
func gist(body string) string {
	var v any
	if json.Unmarshal([]byte(body), &v) != nil {
		return "no JSON"
	}
	switch all := v.(type) {
	case []any: // whose order is nobody's promise
		slices.SortFunc(all, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	case map[string]any:
		for k := range all {
			if !strings.Contains(" id subject error_code is_compatible mode compatibility compatibilityLevel ", " "+k+" ") {
				delete(all, k)
			}
		}
	}
	b, _ := json.Marshal(v)
	return string(b)
}

func opinions(t *testing.T, url string) (all []opinion) {
	t.Helper()
	for _, e := range secondOpinion {
		method, path, _ := strings.Cut(e[1], " ")
		a, err := send(url, method, path, e[2])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, opinion{e[0], a.status, gist(a.body)})
	}
	return all
}

// TestApicurioIsOfTheSameOpinion compares with answers that Apicurio gave; with MILLRACE_SOAK=1 it is asked again.
func TestApicurioIsOfTheSameOpinion(t *testing.T) {
	const file = "testdata/apicurio.jsonl"
	if *update || os.Getenv("MILLRACE_SOAK") != "" {
		var now bytes.Buffer
		e := json.NewEncoder(&now)
		e.SetEscapeHTML(false)
		for _, o := range opinions(t, peers.Apicurio(t)) {
			if err := e.Encode(o); err != nil {
				t.Fatal(err)
			}
		}
		if *update {
			if err := os.WriteFile(file, now.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if was, err := os.ReadFile(file); err != nil || !bytes.Equal(was, now.Bytes()) {
			t.Errorf("Apicurio says now (%v)\n%s", err, now.String())
		}
	}
	recorded, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ours := opinions(t, start(t, logtest.New(t)).url)
	lines := strings.Split(strings.TrimSpace(string(recorded)), "\n")
	if len(lines) != len(ours) {
		t.Fatalf("%d answers of Apicurio to %d questions", len(lines), len(ours))
	}
	same := 0
	for i, line := range lines {
		var theirs opinion
		if err := json.Unmarshal([]byte(line), &theirs); err != nil {
			t.Fatal(err)
		}
		differs := ours[i] != theirs
		reason := otherwise[theirs.Name]
		switch {
		case differs && reason == "":
			t.Errorf("%s: we say %d %s, Apicurio %d %s", theirs.Name, ours[i].Status, ours[i].Says, theirs.Status, theirs.Says)
		case !differs && reason != "":
			t.Errorf("%s: no difference any more", theirs.Name)
		case !differs:
			same++
		}
	}
	t.Logf("%d of %d answers are the same; of the others it is known why", same, len(lines))
}
