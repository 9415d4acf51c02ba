package rest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"millrace/runtime"
)

// listen opens listeners as a worker's properties say.
func listen(t *testing.T, properties map[string]string) (*Listeners, error) {
	t.Helper()
	c, errs := runtime.ParseWorker(runtime.WithDefaults(properties, runtime.StandaloneDefaults()))
	for _, e := range errs {
		return nil, e
	}
	ls, err := Listen(c.REST, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Cleanup(ls.Close)
	}
	return ls, err
}

func portOf(t *testing.T, a net.Addr) string {
	t.Helper()
	_, port, err := net.SplitHostPort(a.String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestWhatIsAdvertised(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name       string
		properties map[string]string
		want       string // PORT is the first listener's
	}{
		{"an address is itself", map[string]string{"listeners": "http://127.0.0.1:0"}, "http://127.0.0.1:PORT/"},
		{"all addresses are the host", map[string]string{"listeners": "http://:0", "insecure": "true"}, "http://" + name + ":PORT/"},
		{"all addresses of both families are the host", map[string]string{"listeners": "http://[::]:0", "insecure": "true"}, "http://" + name + ":PORT/"},
		{"a host of one's own", map[string]string{"listeners": "HTTP://127.0.0.1:0", "rest.advertised.host.name": "worker.example"}, "http://worker.example:PORT/"},
		{"a port of one's own", map[string]string{"listeners": "http://127.0.0.1:0", "rest.advertised.port": "80", "rest.advertised.host.name": "w"}, "http://w:80/"},
		{"the first of several", map[string]string{"listeners": "http://127.0.0.1:0, http://localhost:0"}, "http://127.0.0.1:PORT/"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ls, err := listen(t, row.properties)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Replace(row.want, "PORT", portOf(t, ls.list[0].Addr()), 1); ls.Advertised() != want {
				t.Errorf("%s, want %s", ls.Advertised(), want)
			}
		})
	}
}

func TestListenersThatCannotBeSayWhy(t *testing.T) {
	for _, row := range []struct {
		name       string
		properties map[string]string
		says       []string
	}{
		{"others can reach it", map[string]string{"listeners": "http://0.0.0.0:0"}, []string{"listeners=http://0.0.0.0:0", "insecure=true"}},
		{"one of two can be reached", map[string]string{"listeners": "http://127.0.0.1:0,http://:0"}, []string{"listeners=http://0.0.0.0:0", "insecure=true"}},
		{"the administration's can be reached", map[string]string{"listeners": "http://127.0.0.1:0", "admin.listeners": "http://:0"}, []string{"admin.listeners=http://0.0.0.0:0"}},
		{"none at all", map[string]string{"listeners": ""}, []string{"listeners", "at least one"}},
		{"another protocol", map[string]string{"listeners": "ftp://127.0.0.1:21"}, []string{"listeners", "ftp://127.0.0.1:21", "http://HOST:PORT"}},
		{"no port", map[string]string{"listeners": "http://127.0.0.1"}, []string{"listeners", "http://HOST:PORT"}},
		{"a port that cannot be", map[string]string{"listeners": "http://127.0.0.1:99999"}, []string{"listeners", "99999"}},
		{"advertised under a scheme that nobody listens to", map[string]string{"listeners": "http://127.0.0.1:0", "rest.advertised.listener": "https"}, []string{"rest.advertised.listener=https", "no https listener"}},
		{"a line break in a host", map[string]string{"listeners": "http://127.0.0.1\r\nx:0"}, []string{"listeners"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := listen(t, row.properties)
			if err == nil {
				t.Fatal("no error")
			}
			for _, s := range row.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%v: does not say %q", err, s)
				}
			}
		})
	}
}

// TestAdministrationHasItsListeners: /admin is where admin.listeners says, and nowhere else.
func TestAdministrationHasItsListeners(t *testing.T) {
	for _, row := range []struct {
		name                       string
		properties                 map[string]string
		mainAdmin, mainRoot        bool // what the main listener lets through
		otherListener              bool
		otherAdmin, otherConnector bool
	}{
		{"with the others where nothing is said", map[string]string{"listeners": "http://127.0.0.1:0"}, true, true, false, false, false},
		{"on a listener of its own", map[string]string{"listeners": "http://127.0.0.1:0", "admin.listeners": "http://127.0.0.1:0"}, false, true, true, true, false},
		{"nowhere", map[string]string{"listeners": "http://127.0.0.1:0", "admin.listeners": ""}, false, true, false, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			ls, err := listen(t, row.properties)
			if err != nil {
				t.Fatal(err)
			}
			// Which requests come behind the guard is asked of the guard itself: what answers there is others' matter.
			passes := func(l listener, path string) bool {
				reached := false
				s := New(Config{Log: slog.New(slog.DiscardHandler), Part: l.only})
				h := s.guard(Config{Part: l.only}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
				r, err := http.NewRequest("GET", "http://127.0.0.1"+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				h.ServeHTTP(discard{}, r)
				return reached
			}
			if got := passes(ls.list[0], "/admin/loggers"); got != row.mainAdmin {
				t.Errorf("the main listener serves /admin/loggers: %v", got)
			}
			if got := passes(ls.list[0], "/connectors"); got != row.mainRoot {
				t.Errorf("the main listener serves /connectors: %v", got)
			}
			if got := len(ls.list) > 1; got != row.otherListener {
				t.Fatalf("%d listeners", len(ls.list))
			}
			if !row.otherListener {
				return
			}
			if got := passes(ls.list[1], "/admin/loggers"); got != row.otherAdmin {
				t.Errorf("the other listener serves /admin/loggers: %v", got)
			}
			for _, path := range []string{"/connectors", "/", "/adminx"} {
				if got := passes(ls.list[1], path); got != row.otherConnector {
					t.Errorf("the other listener serves %s: %v", path, got)
				}
			}
		})
	}
}

// discard is an answer that nobody reads.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// The registry's listeners are as guarded as those of Connect's API.
func TestTheRegistrysListenersFollowTheSettingsOfTheAPI(t *testing.T) {
	open := func(t *testing.T, properties map[string]string) (*Listeners, error) {
		t.Helper()
		c, errs := runtime.ParseWorker(runtime.WithDefaults(properties, runtime.StandaloneDefaults()))
		for _, e := range errs {
			return nil, e
		}
		ls, err := ListenRegistry(c.Registry, c.REST, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Cleanup(ls.Close)
		}
		return ls, err
	}
	for _, row := range []struct {
		name       string
		properties map[string]string
		says       []string
	}{
		{"others can reach it", map[string]string{"schema.registry.listeners": "http://0.0.0.0:0"}, []string{"schema.registry.listeners=http://0.0.0.0:0", "--registry", "insecure=true"}},
		{"no address", map[string]string{"schema.registry.listeners": "127.0.0.1:8081"}, []string{"schema.registry.listeners", "http://HOST:PORT"}},
		{"https without a key", map[string]string{"schema.registry.listeners": "https://127.0.0.1:0"}, []string{"schema.registry.listeners=https://127.0.0.1:0"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := open(t, row.properties)
			if err == nil {
				t.Fatal("no error")
			}
			for _, s := range row.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%v: does not say %q", err, s)
				}
			}
		})
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("ada:"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ls, err := open(t, map[string]string{"schema.registry.listeners": "http://127.0.0.1:0", "rest.auth": "basic", "rest.auth.file": file, "schema.registry.host.name": "me", "schema.registry.host.port": "81"})
	if err != nil {
		t.Fatal(err)
	}
	if ls.Advertised() != "http://me:81/" {
		t.Errorf("advertised %s", ls.Advertised())
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- ls.ServeHandler(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	}()
	for password, want := range map[string]int{"": 401, "wrong": 401, "secret": 204} {
		r, err := http.NewRequest(http.MethodGet, ls.URL()+"/subjects", nil)
		if err != nil {
			t.Fatal(err)
		}
		if password != "" {
			r.SetBasicAuth("ada", password)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("password %q: %d, want %d", password, resp.StatusCode, want)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
