package rest

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"millrace/runtime"
)

// A Gate is what every request passes before its route, at whichever of the worker's HTTP listeners: the Host check, the check for
// foreign pages, the sign-in, the limit of bodies and our name.
type Gate struct {
	// AllowedHosts are names by which clients may call besides loopback addresses: the advertised host.
	AllowedHosts []string
	CheckHost    bool                     // refuse other Host headers (DNS rebinding)
	REST         runtime.RESTConfig       // what the worker's settings say of pages of other origins and of headers
	Users        *Users                   // who must sign in; nil: nobody must
	Free         func(*http.Request) bool // requests for which nobody signs in; nil: none
}

// Guard puts the gate before a handler.
func (g Gate) Guard(next http.Handler) http.Handler {
	cross, pages := http.NewCrossOriginProtection(), newCORS(g.REST)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "Millrace")
		for _, rule := range g.REST.Headers {
			rule.Apply(w.Header(), time.Now())
		}
		if g.CheckHost && !hostAllowed(r.Host, g.AllowedHosts) {
			writeError(w, &statusError{http.StatusForbidden, fmt.Sprintf(
				"The Host header %q names neither this machine's loopback address nor the advertised host; use one of them", r.Host)})
			return
		}
		if pages.answer(w, r) {
			return
		}
		if err := cross.Check(r); err != nil && !pages.named(r.Header.Get("Origin")) {
			writeError(w, &statusError{http.StatusForbidden, "A page of another origin may not change anything here: " + err.Error() +
				"; the worker's access.control.allow.origin names those that may"})
			return
		}
		if g.Users != nil && !(g.Free != nil && g.Free(r)) && !signedIn(g.Users, r) {
			w.Header().Set("WWW-Authenticate", challenge)
			writeError(w, &statusError{http.StatusUnauthorized, "User cannot access the resource."})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// guard is the gate of Connect's API, and the choice between its parts.
func (s *Server) guard(c Config, next http.Handler) http.Handler {
	g := Gate{AllowedHosts: c.AllowedHosts, CheckHost: c.CheckHost, REST: c.REST, Users: c.Users,
		Free: func(r *http.Request) bool { return internalCall(r.Method, r.URL.EscapedPath()) }}
	return g.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if admin := isAdmin(r.URL.EscapedPath()); c.Part == NoAdmin && admin || c.Part == OnlyAdmin && !admin {
			writeError(w, httpError(http.StatusNotFound))
			return
		}
		next.ServeHTTP(w, r)
	}))
}

// signedIn reports whether a request comes with a user's name and password.
func signedIn(users *Users, r *http.Request) bool {
	name, password, ok := r.BasicAuth()
	return ok && users.SignsIn(r.Context(), name, password)
}

// isAdmin reports whether a path is one of the administrative calls.
func isAdmin(path string) bool { return path == "/admin" || strings.HasPrefix(path, "/admin/") }

// hostAllowed reports whether a Host header names a loopback address, localhost or
// one of the allowed names. A page that rebinds its own name to 127.0.0.1 sends
// that name.
func hostAllowed(hostport string, allowed []string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(allowed, host) {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// EscapedPath makes the router match on the path as it was sent, so that an encoded
// slash stays part of a name.
func EscapedPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.RawPath = r.URL.EscapedPath()
		next.ServeHTTP(w, r)
	})
}

// TrailingSlash serves "/connectors/" as "/connectors", as Connect does.
func TrailingSlash(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.RawPath; len(p) > 1 && strings.HasSuffix(p, "/") {
			r.URL.RawPath = strings.TrimSuffix(p, "/")
			r.URL.Path = strings.TrimSuffix(r.URL.Path, "/")
		}
		next.ServeHTTP(w, r)
	})
}

// methods are those that may have a route.
var methods = []string{http.MethodHead, http.MethodPost, http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete}

// allowed are the methods that the request's path has.
func allowedMethods(routes chi.Routes, r *http.Request) []string {
	var out []string
	for _, m := range methods {
		if routes.Match(chi.NewRouteContext(), m, r.URL.RawPath) {
			out = append(out, m)
		}
	}
	return out
}

// options answers OPTIONS with the methods of the path.
func options(routes chi.Routes) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodOptions {
				next.ServeHTTP(w, r)
				return
			}
			ms := allowedMethods(routes, r)
			if len(ms) == 0 {
				writeError(w, httpError(http.StatusNotFound))
				return
			}
			ms = append(ms, http.MethodOptions)
			w.Header().Set("Allow", strings.Join(ms, ","))
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, strings.Join(ms, ", "))
		})
	}
}

// acceptsJSON refuses clients that do not take JSON, where the route exists.
func acceptsJSON(routes chi.Routes) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawPath != "/metrics" && !takesJSON(r.Header.Values("Accept")) && routes.Match(chi.NewRouteContext(), r.Method, r.URL.RawPath) {
				writeError(w, httpError(http.StatusNotAcceptable))
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// takesJSON reports whether Accept headers allow application/json. None allow all.
func takesJSON(accept []string) bool {
	any := false
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			media, params, _ := strings.Cut(part, ";")
			media = strings.ToLower(strings.TrimSpace(media))
			if media == "" {
				continue
			}
			any = true
			refused := slices.ContainsFunc(strings.Split(params, ";"), func(p string) bool {
				q, ok := strings.CutPrefix(strings.ReplaceAll(p, " ", ""), "q=")
				return ok && strings.Trim(q, "0.") == ""
			})
			if (media == "*/*" || media == "application/*" || media == "application/json") && !refused {
				return true
			}
		}
	}
	return !any
}
