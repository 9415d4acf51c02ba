package registry

import (
	"net/http"
	"net/url"
	"strings"

	rules "millrace/schema/registry"
)

// contextPath serves /contexts/CONTEXT/… as the rest of the path with the context in its subjects, prefixes of subjects and settings.
func (s *Server) contextPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after, ok := strings.CutPrefix(r.URL.RawPath, "/contexts/")
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		encoded, path, more := strings.Cut(after, "/")
		context, err := url.PathUnescape(encoded)
		if err == nil && more {
			var prefix string
			if prefix, err = rules.ContextPrefix(context); err == nil {
				setPath(r, inContext(path, prefix, r.URL))
			}
		}
		if err != nil {
			writeError(w, r, &rules.Error{Code: rules.CodeBadRequest, Message: err.Error()})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// inContext is a path behind a context as it is served, and puts the context into the parameters of u.
func inContext(path, prefix string, u *url.URL) string {
	in := func(name string) string {
		if rules.HasContext(name) {
			return name
		}
		return prefix + name
	}
	parts := strings.Split(path, "/")
	settings := parts[0] == "config" || parts[0] == "mode"
	for i, p := range parts {
		if i > 0 && (parts[i-1] == "subjects" && i < 3 || settings && i == 1) && p != "" {
			if name, err := url.PathUnescape(p); err == nil {
				parts[i] = url.PathEscape(in(name))
			}
		}
	}
	if settings && len(parts) == 1 && prefix != "" {
		parts = append(parts, url.PathEscape(prefix))
	}
	q := u.Query()
	switch joined := strings.Join(parts, "/"); {
	case strings.HasPrefix(joined, "schemas/ids"):
		q.Set("subject", in(q.Get("subject")))
	case joined == "schemas" || joined == "subjects":
		q.Set("subjectPrefix", in(q.Get("subjectPrefix")))
	}
	u.RawQuery = q.Encode()
	return "/" + strings.Join(parts, "/")
}

// aliased serves subjects that are aliases of others as those, where they stand behind subjects in the path, and in the parameter with
// which ids are looked for.
func (s *Server) aliased(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		alias := s.Instance.Rules().Alias
		parts := strings.Split(r.URL.RawPath, "/")
		for i := range parts {
			if i < 2 || i > 3 || parts[i-1] != "subjects" {
				continue
			}
			if name, err := url.PathUnescape(parts[i]); err == nil {
				if to := alias(name); to != name {
					parts[i] = url.PathEscape(to)
					setPath(r, strings.Join(parts, "/"))
				}
			}
			break
		}
		if strings.HasPrefix(r.URL.RawPath, "/schemas/ids") && r.URL.RawQuery != "" {
			q := r.URL.Query()
			if name := q.Get("subject"); name != "" && alias(name) != name {
				q.Set("subject", alias(name))
				r.URL.RawQuery = q.Encode()
			}
		}
		next.ServeHTTP(w, r)
	})
}

// setPath is the path that the router sees.
func setPath(r *http.Request, encoded string) {
	r.URL.RawPath = encoded
	if path, err := url.PathUnescape(encoded); err == nil {
		r.URL.Path = path
	}
}
