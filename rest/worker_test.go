package rest_test

import (
	"log/slog"
	"maps"
	"net/http/httptest"
	"testing"

	"millrace/connectors/file"
	"millrace/connectors/mysql"
	"millrace/connectors/postgres"
	"millrace/log"
	"millrace/log/logtest"
	"millrace/rest"
	"millrace/runtime"
	"millrace/runtime/herder"
	"millrace/runtime/provider"
	"millrace/schema/converters"
	"millrace/schema/plugin"
	"millrace/transforms"
)

// worker is a whole worker on a log in memory, behind the API.
type worker struct {
	url string
	dir string // its files
	log *log.Log
}

func startWorker(t testing.TB) *worker {
	t.Helper()
	return startWorkerWith(t, nil, slog.New(slog.DiscardHandler))
}

// startWorkerWith is a worker with properties and plugins beside those that all have.
func startWorkerWith(t testing.TB, properties map[string]string, lg *slog.Logger, more ...plugin.Plugin) *worker {
	t.Helper()
	dir := t.TempDir()
	table, err := runtime.NewPlugins(append(plugins(), more...)...)
	if err != nil {
		t.Fatal(err)
	}
	roots, err := runtime.NewFileRoots([]string{dir, "/no/such/dir"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	conf := map[string]string{
		"offset.flush.interval.ms": "50",
		// The captured worker delivered at least once: there are no marks of transactions among the offsets.
		"exactly.once.source.support": "disabled",
		// The captured worker's converters write schemas, as Connect's do by default.
		"key.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter": "org.apache.kafka.connect.json.JsonConverter",
	}
	maps.Copy(conf, properties)
	loaded, errs := runtime.LoadWorker(t.Context(), table, runtime.WithDefaults(conf, runtime.StandaloneDefaults()), roots, lg)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	l := logtest.New(t)
	h, err := herder.Open(t.Context(), herder.Config{Log: l, Plugins: table, Worker: loaded.Worker, Providers: loaded.Providers, Files: roots, Logger: lg, AdvertisedURL: "http://127.0.0.1:18083/"})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(rest.New(rest.Config{Herder: h, Log: lg, CheckHost: true}))
	t.Cleanup(func() {
		s.Close()
		if err := h.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	<-h.Ready()
	return &worker{url: s.URL, dir: dir, log: l}
}

// plugins are what the worker has.
func plugins() []plugin.Plugin {
	list := []plugin.Plugin{file.Source, file.Sink, postgres.Source, mysql.Source}
	for _, p := range provider.All() {
		list = append(list, p)
	}
	for _, p := range converters.All() {
		list = append(list, p)
	}
	for _, p := range transforms.All() {
		list = append(list, p)
	}
	for _, p := range transforms.Predicates() {
		list = append(list, p)
	}
	return list
}

// ourPlugins are their classes.
func ourPlugins() map[string]bool {
	out := map[string]bool{}
	for _, p := range plugins() {
		out[p.Describe().Class] = true
	}
	return out
}

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }
