package rest

import (
	"net/http"
	"slices"
	"strings"

	"millrace/runtime"
)

// cors lets pages of other origins read answers, and, where an origin is named, act.
type cors struct {
	origins []string // exact, or with * for a part; "*" alone for all
	methods []string
}

// corsHeaders are what a page may send beside what is always allowed, and how long a browser need not ask again.
const (
	corsHeaders = "Accept, Authorization, Content-Type, Origin, X-Requested-With"
	corsSeconds = "1800"
)

func newCORS(c runtime.RESTConfig) *cors {
	if len(c.AllowOrigins) == 0 {
		return nil
	}
	out := &cors{origins: c.AllowOrigins, methods: c.AllowMethods}
	if len(out.methods) == 0 {
		out.methods = []string{http.MethodGet, http.MethodPost, http.MethodHead}
	}
	return out
}

// named reports whether an origin is trusted by name; everybody whether all are let in to read.
func (c *cors) named(origin string) bool {
	return c != nil && slices.ContainsFunc(c.origins, func(o string) bool { return o != "*" && originMatches(o, origin) })
}

func (c *cors) everybody() bool { return c != nil && slices.Contains(c.origins, "*") }

// originMatches compares an origin with one of the settings', in which each * stands for a part of a host's name.
func originMatches(pattern, origin string) bool {
	if origin == "null" {
		return false // sandboxed pages and files, of whoever
	}
	parts := strings.Split(strings.ToLower(pattern), "*")
	rest, ok := strings.CutPrefix(strings.ToLower(origin), parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	for i, p := range parts[1:] {
		if i == len(parts)-2 {
			star, ok := strings.CutSuffix(rest, p)
			return ok && isHostPart(star)
		}
		at := strings.Index(rest, p)
		if p == "" || at < 0 || !isHostPart(rest[:at]) {
			return false
		}
		rest = rest[at+len(p):]
	}
	return false
}

func isHostPart(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.-") == ""
}

// answer adds what a browser wants to know, and reports whether the request was a browser's question before the real
// one, which is then answered.
func (c *cors) answer(w http.ResponseWriter, r *http.Request) (done bool) {
	origin := r.Header.Get("Origin")
	if c == nil || origin == "" {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	named := c.named(origin)
	methods := c.methods
	switch {
	case named:
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Allow-Credentials", "true")
	case c.everybody(): // may read, and nothing else
		h.Set("Access-Control-Allow-Origin", "*")
		methods = []string{http.MethodGet, http.MethodHead}
	default:
		return false
	}
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Access-Control-Expose-Headers", "Location")
		return false
	}
	h.Add("Vary", "Access-Control-Request-Method")
	h.Add("Vary", "Access-Control-Request-Headers")
	if slices.Contains(methods, r.Header.Get("Access-Control-Request-Method")) {
		h.Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
		h.Set("Access-Control-Allow-Headers", corsHeaders)
		h.Set("Access-Control-Max-Age", corsSeconds)
		if named && r.Header.Get("Access-Control-Request-Private-Network") == "true" {
			h.Set("Access-Control-Allow-Private-Network", "true")
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}
