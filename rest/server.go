package rest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"

	"millrace/runtime"
)

// Config is what a Server needs.
type Config struct {
	Herder Herder
	Log    *slog.Logger
	// AllowedHosts are names by which clients may call this server besides loopback
	// addresses: the advertised host. Nil on a listener with authentication: any.
	AllowedHosts []string
	CheckHost    bool // refuse other Host headers (DNS rebinding)
	// Kafka is where clients reach the log, host:port with commas between; empty: nowhere.
	// GET /?detail=full tells it, so that a command line needs one address.
	Kafka string
	// Registry is where this worker's schema registry is; empty: it has none. GET /?detail=full tells it, too.
	Registry string
	// Topics are those in which the worker keeps its state. GET /?detail=full tells them, so that nobody deletes them unawares.
	Topics []string
	Part   Part // which routes are served
	// REST is what the worker's settings say of pages of other origins and of headers.
	REST runtime.RESTConfig
	// Users must sign in. Nil: nobody must.
	Users *Users
	// Client calls the workers that requests are forwarded to; nil: one without settings of its own.
	Client *http.Client
	// Metrics serves GET /metrics. Nil: there is no such route.
	Metrics http.Handler
}

// Server is the REST API. It is an http.Handler.
type Server struct {
	herder      Herder
	lg          *slog.Logger
	client      *http.Client
	metrics     http.Handler
	mux         *chi.Mux
	kafka       string                 // address of the log
	registry    string                 // of the schema registry
	internal    []string               // topics in which the worker keeps its state
	description func() ([]byte, error) // made when somebody asks for it
	bodies      Bodies
	http.Handler
}

// New makes a Server.
func New(c Config) *Server {
	s := &Server{herder: c.Herder, lg: c.Log, client: cmp.Or(c.Client, http.DefaultClient), metrics: c.Metrics, kafka: c.Kafka, registry: c.Registry, internal: c.Topics}
	ops := s.ops()
	s.description = sync.OnceValues(func() ([]byte, error) { return describeAPI(ops) })
	s.mux = s.routes(ops)
	s.Handler = s.guard(c, s.mux)
	return s
}

// Limits of the server. Connect gives a blocking call 90 s.
const (
	requestTimeout = 90 * time.Second
	maxBody        = 8 << 20
	maxHeader      = 64 << 10
	shutdownGrace  = 5 * time.Second
	maxConnections = 1024 // at a listener; further ones are closed
)

// Serve answers requests on l until ctx ends, then finishes those under way within
// a few seconds. It closes l, and returns nil when ctx ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { return serveOn(ctx, l, s, s.lg) }

func serveOn(ctx context.Context, l net.Listener, h http.Handler, lg *slog.Logger) error {
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(lg.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	var open atomic.Int64
	srv.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if open.Add(1) > maxConnections {
				c.Close()
			}
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		srv.Close() // a client that neither reads nor goes away does not hold up the stop
	}
	if err := <-done; err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
