package rest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
)

// Config is what a Server needs.
type Config struct {
	Herder Herder
	Log    *slog.Logger
	// AllowedHosts are names by which clients may call this server besides loopback
	// addresses: the advertised host. Nil on a listener with authentication: any.
	AllowedHosts []string
	CheckHost    bool // refuse other Host headers (DNS rebinding)
	Part         Part // which routes are served
}

// Server is the REST API. It is an http.Handler.
type Server struct {
	herder Herder
	lg     *slog.Logger
	http.Handler
}

// New makes a Server.
func New(c Config) *Server {
	s := &Server{herder: c.Herder, lg: c.Log}
	s.Handler = s.guard(c, s.routes())
	return s
}

// routes are all routes, in the order of Connect's reference.
func (s *Server) routes() http.Handler {
	r := chi.NewRouter()
	r.Use(escapedPath, trailingSlash, options(r), acceptsJSON(r))
	r.NotFound(func(w http.ResponseWriter, _ *http.Request) { writeError(w, httpError(http.StatusNotFound)) })
	r.MethodNotAllowed(func(w http.ResponseWriter, _ *http.Request) { writeError(w, httpError(http.StatusMethodNotAllowed)) })

	get := func(path string, h handler) {
		r.Get(path, s.handle(h))
		r.Head(path, s.handle(h))
	}
	get("/", s.root)
	get("/health", s.health)

	get("/connectors", s.connectors)
	r.Post("/connectors", s.handleBody(s.createConnector))
	get("/connectors/{name}", s.connector)
	get("/connectors/{name}/config", s.connectorConfig)
	r.Put("/connectors/{name}/config", s.handleBody(s.putConnectorConfig))
	r.Delete("/connectors/{name}", s.handle(s.deleteConnector))
	get("/connectors/{name}/status", s.connectorStatus)
	r.Post("/connectors/{name}/restart", s.handle(s.restartConnector))
	r.Put("/connectors/{name}/pause", s.handle(s.pauseConnector))
	r.Put("/connectors/{name}/resume", s.handle(s.resumeConnector))
	r.Put("/connectors/{name}/stop", s.handle(s.stopConnector))
	get("/connectors/{name}/tasks", s.tasks)
	get("/connectors/{name}/tasks/{task}/status", s.taskStatus)
	r.Post("/connectors/{name}/tasks/{task}/restart", s.handle(s.restartTask))
	get("/connectors/{name}/offsets", s.connectorOffsets)

	get("/connector-plugins", s.plugins)
	get("/connector-plugins/{plugin}/config", s.pluginConfig)
	r.Put("/connector-plugins/{plugin}/config/validate", s.handleBody(s.validate))
	return r
}

// Limits of the server. Connect gives a blocking call 90 s.
const (
	requestTimeout = 90 * time.Second
	maxBody        = 8 << 20
	maxHeader      = 64 << 10
	shutdownGrace  = 5 * time.Second
)

// Serve answers requests on l until ctx ends, then finishes those under way within
// a few seconds. It closes l, and returns nil when ctx ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(s.lg.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
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
