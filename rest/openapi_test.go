package rest

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
)

// description loads what GET /openapi.json answers, and checks it by OpenAPI's rules.
func description(t testing.TB, h http.Handler) *openapi3.T {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.json", nil))
	doc, err := openapi3.NewLoader().LoadFromData(w.Body.Bytes())
	if err != nil {
		t.Fatalf("%v: %s", err, w.Body.Bytes())
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestEveryRouteIsDescribed walks the router and the description: what is in the one
// is in the other.
func TestEveryRouteIsDescribed(t *testing.T) {
	s := New(Config{Log: slog.New(slog.DiscardHandler), Metrics: http.NotFoundHandler()})
	doc := description(t, s)
	var served, described []string
	walk := func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if method != http.MethodHead {
			served = append(served, method+" "+route)
		}
		return nil
	}
	if err := chi.Walk(s.routes(s.ops()), walk); err != nil {
		t.Fatal(err)
	}
	for path, item := range doc.Paths.Map() {
		for method, o := range item.Operations() {
			described = append(described, method+" "+path)
			if o.OperationID == "" || o.Summary == "" || !strings.HasSuffix(o.Summary, ".") {
				t.Errorf("%s %s: operation %q, summary %q; want both, and a sentence", method, path, o.OperationID, o.Summary)
			}
		}
	}
	slices.Sort(served)
	slices.Sort(described)
	if !slices.Equal(served, described) {
		t.Errorf("served:\n%s\ndescribed:\n%s", strings.Join(served, "\n"), strings.Join(described, "\n"))
	}
	if len(served) < 22 {
		t.Errorf("%d routes, want at least 22", len(served))
	}
}

// TestEveryRouteIsInTheDocs: the page for people names each call.
func TestEveryRouteIsInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../deploy/docs/rest.md")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Log: slog.New(slog.DiscardHandler), Metrics: http.NotFoundHandler()})
	for _, o := range s.ops() {
		if call := "`" + o.method + " " + o.path + "`"; !strings.Contains(string(page), call) {
			t.Errorf("deploy/docs/rest.md does not have %s", call)
		}
	}
}
