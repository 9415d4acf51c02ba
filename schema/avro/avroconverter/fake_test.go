package avroconverter

import (
	"crypto/md5"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"millrace/schema/registry"
	"millrace/schema/registry/client"
)

// fake is a schema registry of a few lines: ids by text, versions by subject.
type fake struct {
	url string

	mu       sync.Mutex // guards what follows
	schemas  []client.Schema
	subjects map[string][]int // ids, by version - 1
	asked    []string         // method, path and query of each request
	sign     []string         // the sign-in of each
	fail     []int            // statuses of the next answers
	noGUID   bool
	rules    map[int]*registry.RuleSet // by id
	tags     map[int]string            // key=value of the metadata, by id
}

func newFake(t testing.TB) *fake {
	f := &fake{subjects: map[string][]int{}}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.url = s.URL
	return f
}

func guidOf(s client.Schema) string {
	g := md5.Sum([]byte(s.Text))
	return fmt.Sprintf("%x-%x-%x-%x-%x", g[0:4], g[4:6], g[6:8], g[8:10], g[10:16])
}

func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.asked...)
}

// put registers a schema and returns its id.
func (f *fake) put(subject string, s client.Schema) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.add(subject, s)
}

func (f *fake) add(subject string, s client.Schema) int {
	id := 0
	for i, o := range f.schemas {
		if o.Text == s.Text {
			id = i + 1
		}
	}
	if id == 0 {
		f.schemas = append(f.schemas, s)
		id = len(f.schemas)
	}
	for _, o := range f.subjects[subject] {
		if o == id {
			return id
		}
	}
	f.subjects[subject] = append(f.subjects[subject], id)
	return id
}

func (f *fake) known(subject string, version int) map[string]any {
	id := f.subjects[subject][version-1]
	s := f.schemas[id-1]
	k := map[string]any{"subject": subject, "version": version, "id": id, "schema": s.Text, "references": s.References, "ruleSet": f.rules[id]}
	if !f.noGUID {
		k["guid"] = guidOf(s)
	}
	if s.Type != "" {
		k["schemaType"] = s.Type
	}
	return k
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.Method+" "+r.RequestURI)
	f.sign = append(f.sign, r.Header.Get("Authorization")+r.Header.Get("X-Tenant")+r.Header.Get("target-sr-cluster")+r.Header.Get("Confluent-Identity-Pool-Id"))
	if len(f.fail) > 0 {
		status := f.fail[0]
		f.fail = f.fail[1:]
		refuse(w, status, status*100+1, "as the test wants it")
		return
	}
	parts := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	for i := range parts {
		parts[i], _ = url.PathUnescape(parts[i])
	}
	var body client.Schema
	if r.Method == http.MethodPost {
		if r.Header.Get("Content-Type") != "application/vnd.schemaregistry.v1+json" || json.NewDecoder(r.Body).Decode(&body) != nil {
			refuse(w, 415, 415, "what is that")
			return
		}
	}
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch {
	case len(parts) == 3 && parts[2] == "metadata":
		q := r.URL.Query()
		for i := len(f.subjects[parts[1]]); i > 0; i-- {
			if f.tags[f.subjects[parts[1]][i-1]] == q.Get("key")+"="+q.Get("value") {
				answer(f.known(parts[1], i))
				return
			}
		}
		refuse(w, 404, 40402, "Version not found")
	case r.Method == http.MethodPost && len(parts) == 3:
		id := f.add(parts[1], body)
		a := map[string]any{"id": id, "ruleSet": f.rules[id]}
		if !f.noGUID {
			a["guid"] = guidOf(body)
		}
		answer(a)
	case r.Method == http.MethodPost && len(parts) == 2:
		for i, id := range f.subjects[parts[1]] {
			if f.schemas[id-1].Text == body.Text {
				answer(f.known(parts[1], i+1))
				return
			}
		}
		refuse(w, 404, 40403, "Schema not found")
	case parts[0] == "subjects" && len(parts) == 4:
		n, _ := strconv.Atoi(parts[3])
		if parts[3] == "latest" {
			n = len(f.subjects[parts[1]])
		}
		if n < 1 || n > len(f.subjects[parts[1]]) {
			refuse(w, 404, 40402, "Version not found")
			return
		}
		answer(f.known(parts[1], n))
	case parts[0] == "schemas" && parts[1] == "guids":
		for _, s := range f.schemas {
			if guidOf(s) == parts[2] {
				answer(map[string]any{"schema": s.Text})
				return
			}
		}
		refuse(w, 404, 40403, "Schema not found")
	case parts[0] == "schemas":
		id, _ := strconv.Atoi(parts[2])
		if id < 1 || id > len(f.schemas) {
			refuse(w, 404, 40403, "Schema not found")
			return
		}
		if len(parts) == 4 {
			uses := []client.Use{}
			for subject, ids := range f.subjects {
				for i, o := range ids {
					if o == id {
						uses = append(uses, client.Use{Subject: subject, Version: int32(i + 1)})
					}
				}
			}
			answer(uses)
			return
		}
		s := f.schemas[id-1]
		a := map[string]any{"schema": s.Text, "references": s.References, "ruleSet": f.rules[id]}
		if s.Type != "" {
			a["schemaType"] = s.Type
		}
		answer(a)
	default:
		refuse(w, 404, 404, "HTTP 404 Not Found")
	}
}

func refuse(w http.ResponseWriter, status, code int, message string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error_code": code, "message": message})
}
