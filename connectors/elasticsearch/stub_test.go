package elasticsearch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stub is a search server in memory with external versions. before and after let a
// test answer in its stead.
type stub struct {
	*httptest.Server
	mu       sync.Mutex
	docs     map[string]map[string]stubDoc // by index and id, deleted ones included
	mappings map[string]string
	bulks    []stubBulk
	made     int // ids
	requests []string
	serving  atomic.Int64

	before func(w http.ResponseWriter, r *http.Request, body []byte) (answered bool)
	// item answers for an item in the server's stead; 0 lets the server answer
	item func(bulk int, it stubItem) (status int, why *serverError)
	// after lets a test cut the connection once the documents are stored
	after func(bulk int, w http.ResponseWriter) (answered bool)
	delay func()
}

type stubDoc struct {
	source  string
	version int64
	deleted bool
}

type stubBulk struct {
	items []stubItem
	at    time.Time
	size  int
}

type stubItem struct {
	op, index, id string
	version       int64
	versioned     bool
	source        string
}

func newStub(tb testing.TB) *stub {
	s := &stub{docs: map[string]map[string]stubDoc{}, mappings: map[string]string{}}
	s.Server = httptest.NewServer(s)
	tb.Cleanup(s.Server.Close)
	return s
}

// idle waits until no request is being served.
func (s *stub) idle() {
	for s.serving.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serving.Add(1)
	defer s.serving.Add(-1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	before := s.before
	s.mu.Unlock()
	if before != nil && before(w, r, body) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// Elasticsearch 7 to 9 and OpenSearch have no vendor's media type that all of them take.
	for _, media := range []string{r.Header.Get("Accept"), r.Header.Get("Content-Type")} {
		if strings.Contains(media, "vnd.") || strings.Contains(media, "compatible-with") {
			w.WriteHeader(406)
			return
		}
	}
	switch {
	case r.URL.Path == "/":
		io.WriteString(w, `{"version":{"number":"8.18.4"}}`)
	case r.URL.Path == "/_bulk":
		s.bulk(w, r, body)
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/_mapping"):
		s.mu.Lock()
		defer s.mu.Unlock()
		name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"), "/_mapping")
		m, ok := s.mappings[name]
		if !ok {
			w.WriteHeader(404)
			fmt.Fprintf(w, `{"error":{"type":"index_not_found_exception","reason":"no such index [%s]"},"status":404}`, name)
			return
		}
		fmt.Fprintf(w, `{%q:{"mappings":%s}}`, name, m)
	case r.Method == http.MethodPut:
		s.mu.Lock()
		defer s.mu.Unlock()
		name, mapping := strings.TrimPrefix(r.URL.Path, "/"), "{}"
		if only, ok := strings.CutSuffix(name, "/_mapping"); ok {
			name, mapping = only, string(body)
		} else {
			if _, ok := s.mappings[name]; ok {
				w.WriteHeader(400)
				fmt.Fprint(w, `{"error":{"type":"resource_already_exists_exception","reason":"there"},"status":400}`)
				return
			}
			var make struct{ Mappings json.RawMessage }
			if json.Unmarshal(body, &make) == nil && make.Mappings != nil {
				mapping = string(make.Mappings)
			}
		}
		s.mappings[name] = mapping
		fmt.Fprint(w, `{"acknowledged":true}`)
	default:
		w.WriteHeader(405)
	}
}

func (s *stub) bulk(w http.ResponseWriter, r *http.Request, body []byte) {
	if s.delay != nil {
		s.delay()
	}
	items, err := parseBulk(body)
	if err != nil || r.Header.Get("Content-Type") != "application/x-ndjson" {
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"error":{"type":"illegal_argument_exception","reason":%q},"status":400}`, fmt.Sprint(err))
		return
	}
	s.mu.Lock()
	n := len(s.bulks)
	s.bulks = append(s.bulks, stubBulk{items, time.Now(), len(body)})
	var out []string
	bad := false
	for _, it := range items {
		status, why := 0, (*serverError)(nil)
		if s.item != nil {
			status, why = s.item(n, it)
		}
		if status == 0 {
			status, why = s.store(it)
		}
		text := fmt.Sprintf(`{%q:{"status":%d`, it.op, status)
		if why != nil {
			bad = true
			b, _ := json.Marshal(why)
			text += `,"error":` + string(b)
		}
		out = append(out, text+"}}")
	}
	after := s.after
	s.mu.Unlock()
	if after != nil && after(n, w) {
		return
	}
	fmt.Fprintf(w, `{"errors":%v,"items":[%s]}`, bad, strings.Join(out, ","))
}

// store is called under the mutex.
func (s *stub) store(it stubItem) (int, *serverError) {
	ix := s.docs[it.index]
	if ix == nil {
		ix = map[string]stubDoc{}
		s.docs[it.index] = ix
	}
	if it.id == "" {
		s.made++
		it.id = fmt.Sprintf("made-%d", s.made)
	}
	// A document is parsed before its version is looked at, as the real ones do.
	if it.op != "update" && strings.Contains(it.source, "poison") {
		return 400, &serverError{Type: "mapper_parsing_exception", Reason: "failed to parse field [n] of type [long]",
			CausedBy: &serverError{Type: "illegal_argument_exception", Reason: `For input string: "poison"`}}
	}
	old, there := ix[it.id]
	if it.versioned && there && it.version <= old.version {
		return 409, &serverError{Type: "version_conflict_engine_exception",
			Reason: fmt.Sprintf("[%s]: version conflict, current version [%d] is higher or equal to the one provided [%d]", it.id, old.version, it.version)}
	}
	switch it.op {
	case "delete":
		ix[it.id] = stubDoc{version: it.version, deleted: true}
		if !there || old.deleted {
			return 404, nil
		}
		return 200, nil
	case "update":
		doc := map[string]json.RawMessage{}
		if there && !old.deleted {
			json.Unmarshal([]byte(old.source), &doc)
		}
		var up struct{ Doc map[string]json.RawMessage }
		if err := json.Unmarshal([]byte(it.source), &up); err != nil {
			return 400, &serverError{Type: "mapper_parsing_exception", Reason: err.Error()}
		}
		for k, v := range up.Doc {
			doc[k] = v
		}
		b, _ := json.Marshal(doc)
		ix[it.id] = stubDoc{source: string(b)}
		return 200, nil
	}
	ix[it.id] = stubDoc{source: it.source, version: it.version}
	return 201, nil
}

func parseBulk(body []byte) ([]stubItem, error) {
	if !bytes.HasSuffix(body, []byte("\n")) {
		return nil, fmt.Errorf("the bulk request must be terminated by a newline")
	}
	var out []stubItem
	lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		var action map[string]struct {
			Index       string `json:"_index"`
			ID          string `json:"_id"`
			Version     *int64 `json:"version"`
			VersionType string `json:"version_type"`
		}
		if err := json.Unmarshal([]byte(lines[i]), &action); err != nil || len(action) != 1 {
			return nil, fmt.Errorf("line %d is no action: %.80s", i, lines[i])
		}
		for op, a := range action {
			it := stubItem{op: op, index: a.Index, id: a.ID, versioned: a.Version != nil}
			if it.versioned {
				if a.VersionType != "external" {
					return nil, fmt.Errorf("version_type %q", a.VersionType)
				}
				it.version = *a.Version
			}
			if op != "delete" {
				i++
				if it.source = lines[i]; !json.Valid([]byte(it.source)) {
					return nil, fmt.Errorf("line %d is no JSON: %.80s", i, it.source)
				}
			}
			out = append(out, it)
		}
	}
	return out, nil
}

// texts are the field of that name of all documents of an index.
func (s *stub) texts(index, field string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, d := range s.docs[index] {
		var doc map[string]any
		if !d.deleted && json.Unmarshal([]byte(d.source), &doc) == nil {
			out = append(out, fmt.Sprint(doc[field]))
		}
	}
	return out
}

// source is a document's, "" where there is none.
func (s *stub) source(index, id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.docs[index][id].source
}

func (s *stub) seen() []stubBulk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]stubBulk(nil), s.bulks...)
}

// set changes the stub's behaviour.
func (s *stub) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}
