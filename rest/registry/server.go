package registry

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"millrace/rest"
	rules "millrace/schema/registry"
)

// Instance is what the API asks of this process's registry.
type Instance interface {
	Rules() *rules.Registry
	// Leader is the address of the instance that writes, and whether it is this one.
	Leader(ctx context.Context) (url string, self bool, err error)
	// Decide has the writer decide; see runtime/registry.
	Decide(ctx context.Context, shared bool, decide func(*rules.Batch) error) error
	ClusterID() string
	GroupID() string
}

// Config is what a Server needs.
type Config struct {
	Instance Instance
	NotHere  error // what Decide fails with where another instance writes
	Log      *slog.Logger
	Client   *http.Client // calls the instance that writes; nil: one of its own
	Version  string       // that clients are told
}

// Server is the API. It is an http.Handler, to be put behind a rest.Gate.
type Server struct {
	Config
	bodies rest.Bodies
	http.Handler
}

// Limits of the server.
const (
	requestTimeout = 60 * time.Second
)

// New makes a Server.
func New(c Config) *Server {
	if c.Client == nil {
		c.Client = &http.Client{}
	}
	s := &Server{Config: c}
	s.Handler = s.routes()
	return s
}

// routes are the operations, in the order of the reference.
func (s *Server) routes() http.Handler {
	r := chi.NewRouter()
	r.NotFound(func(w http.ResponseWriter, r *http.Request) { writeError(w, r, httpError(http.StatusNotFound)) })
	r.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) {
		writeError(w, r, httpError(http.StatusMethodNotAllowed))
	})
	get := func(path string, h handler) {
		r.Method(http.MethodGet, path, s.handle(h))
		r.Method(http.MethodHead, path, s.handle(h))
	}
	post := func(path string, h handler) { r.Method(http.MethodPost, path, s.handleBody(h)) }
	put := func(path string, h handler) { r.Method(http.MethodPut, path, s.handleBody(h)) }
	del := func(path string, h handler) { r.Method(http.MethodDelete, path, s.handle(h)) }

	get("/", s.root)
	r.Method(http.MethodPost, "/", s.handle(s.root))

	get("/subjects", s.subjects)
	post("/subjects/{subject}", s.lookUp)
	del("/subjects/{subject}", s.deleteSubject)
	get("/subjects/{subject}/metadata", s.withMetadata)
	get("/subjects/{subject}/versions", s.versions)
	post("/subjects/{subject}/versions", s.register)
	get("/subjects/{subject}/versions/{version}", s.version)
	get("/subjects/{subject}/versions/{version}/schema", s.versionText)
	get("/subjects/{subject}/versions/{version}/referencedby", s.referencedBy)
	del("/subjects/{subject}/versions/{version}", s.deleteVersion)
	post("/subjects/{subject}/versions/{version}/tags", s.tag)

	get("/schemas", s.schemas)
	get("/schemas/ids/{id}", s.byID)
	get("/schemas/ids/{id}/schema", s.textByID)
	get("/schemas/ids/{id}/subjects", s.subjectsOf)
	get("/schemas/ids/{id}/versions", s.versionsOf)
	get("/schemas/guids/{guid}", s.byGUID)
	get("/schemas/guids/{guid}/ids", s.idsOf)
	get("/schemas/types", s.types)

	get("/config", s.config)
	put("/config", s.putConfig)
	del("/config", s.deleteConfig)
	get("/config/{subject}", s.config)
	put("/config/{subject}", s.putConfig)
	del("/config/{subject}", s.deleteConfig)

	get("/mode", s.mode)
	put("/mode", s.putMode)
	del("/mode", s.deleteMode)
	get("/mode/{subject}", s.mode)
	put("/mode/{subject}", s.putMode)
	del("/mode/{subject}", s.deleteMode)

	post("/compatibility/subjects/{subject}/versions/{version}", s.compatible)
	post("/compatibility/subjects/{subject}/versions", s.compatible)

	get("/contexts", s.contexts)
	del("/contexts/{context}", s.deleteContext)

	get("/v1/metadata/id", s.clusterID)
	get("/v1/metadata/version", s.serverVersion)
	get("/v1/metadata/deployment", s.deployment)

	return s.recovered(rest.EscapedPath(rest.TrailingSlash(s.contextPath(s.aliased(acceptable(r))))))
}
