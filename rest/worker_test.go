package rest_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
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

	herder *herder.Herder
}

func startWorker(t testing.TB) *worker {
	t.Helper()
	return startWorkerWith(t, nil, slog.New(slog.DiscardHandler))
}

// startWorkerWith is a worker with properties and plugins beside those that all have.
func startWorkerWith(t testing.TB, properties map[string]string, lg *slog.Logger, more ...plugin.Plugin) *worker {
	t.Helper()
	w := &worker{dir: t.TempDir(), log: logtest.New(t)}
	s := httptest.NewUnstartedServer(nil)
	w.serve(t, s, "http://127.0.0.1:18083/", properties, lg, more...)
	return w
}

// startPool is a pool of workers that share a log and files; each advertises where its API is.
func startPool(t testing.TB, n int, properties map[string]string) []*worker {
	t.Helper()
	dir, l := t.TempDir(), logtest.New(t)
	pool := make([]*worker, n)
	for i := range pool {
		pool[i] = &worker{dir: dir, log: l}
		s := httptest.NewUnstartedServer(nil)
		pool[i].serve(t, s, "http://"+s.Listener.Addr().String()+"/", properties, quietLog())
	}
	return pool
}

// serve opens the worker and starts s as its API.
func (w *worker) serve(t testing.TB, s *httptest.Server, advertised string, properties map[string]string, lg *slog.Logger, more ...plugin.Plugin) {
	t.Helper()
	table, err := runtime.NewPlugins(append(plugins(), more...)...)
	if err != nil {
		t.Fatal(err)
	}
	roots, err := runtime.NewFileRoots([]string{w.dir, "/no/such/dir"}, nil)
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
	w.herder, err = herder.Open(t.Context(), herder.Config{Log: w.log, Plugins: table, Worker: loaded.Worker, Providers: loaded.Providers, Files: roots, Logger: lg, AdvertisedURL: advertised, PutTasks: rest.PutTasks(http.DefaultClient)})
	if err != nil {
		t.Fatal(err)
	}
	s.Config.Handler = rest.New(rest.Config{Herder: w.herder, Log: lg, CheckHost: true})
	s.Start()
	w.url = s.URL
	t.Cleanup(func() {
		s.Close()
		if err := w.herder.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	<-w.herder.Ready()
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
