package rest

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/go-chi/chi/v5"

	"millrace/runtime"
)

// nameConfig puts the connector's name into its configuration. One that names
// another connector, and a name that no URL, log line or frame can hold, are refused.
func nameConfig(name string, config map[string]string) error {
	if in, ok := config["name"]; ok && in != name {
		return runtime.BadRequest("Connector name configuration (%s) doesn't match connector name in the URL (%s)", in, name)
	}
	const header, footer = "Connector configuration is invalid and contains the following 1 error(s):\n",
		"\nYou can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
	if i := strings.IndexFunc(name, unicode.IsControl); i >= 0 {
		return runtime.BadRequest(header+"Invalid value %q for configuration name: String may not contain control sequences but had the following ASCII chars: at byte %d"+footer, name, i)
	}
	if len(name) > runtime.MaxNameBytes {
		return runtime.BadRequest(header+"Invalid value %.40q… for configuration name: a name has at most %d bytes, this one has %d"+footer, name, runtime.MaxNameBytes, len(name))
	}
	if strings.TrimSpace(name) != name {
		return runtime.BadRequest(header+"Invalid value %q for configuration name: a name neither begins nor ends with white space"+footer, name)
	}
	config["name"] = name
	return nil
}

// pathName is a name as a path holds it. A name of dots alone is encoded too, or
// clients would take it for a step up.
func pathName(name string) string {
	if strings.Trim(name, ".") == "" {
		return strings.Repeat("%2E", len(name))
	}
	return url.PathEscape(name)
}

// unmistakable refuses a new name whose path, once a proxy has decoded it on its way,
// leads to another connector that there is, or that another's path then leads to: a
// DELETE must not meet the wrong one.
func (s *Server) unmistakable(ctx context.Context, name string) error {
	names, err := s.herder.Connectors(ctx)
	if err != nil {
		return err
	}
	if name == "" {
		return nil // refused for that
	}
	leads := s.mistakenFor(name)
	for _, other := range names {
		if other == name {
			return nil // it is there already
		}
	}
	for _, other := range names {
		if other == leads || s.mistakenFor(other) == name {
			return runtime.BadRequest("a proxy that decodes paths would mix up the connectors %q and %q: choose another name", name, other)
		}
	}
	return nil
}

// mistakenFor is the connector that a name's path leads to once it has been decoded one
// time too many, "" where it leads to none or to the same.
func (s *Server) mistakenFor(name string) string {
	decoded, _, _ := strings.Cut("/connectors/"+name, "?")
	decoded, _, _ = strings.Cut(decoded, "#")
	decoded = path.Clean(decoded)
	for _, m := range methods {
		at := chi.NewRouteContext()
		if !s.mux.Match(at, m, decoded) {
			continue
		}
		to, err := url.PathUnescape(at.URLParam("name"))
		if err != nil || to == name {
			continue
		}
		return to
	}
	return ""
}

// checkName is what a name passes before a connector is made of a request.
func (s *Server) checkName(r *http.Request, name string, config map[string]string) error {
	if err := nameConfig(name, config); err != nil {
		return err
	}
	return s.unmistakable(r.Context(), name)
}
