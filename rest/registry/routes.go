package registry

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	rules "millrace/schema/registry"
)

type object = map[string]any

func (s *Server) rules() *rules.Registry { return s.Instance.Rules() }

func (s *Server) root(*call) (any, error) { return object{}, nil }

func (s *Server) subjects(c *call) (any, error) {
	p, err := c.page()
	if err != nil {
		return nil, err
	}
	prefix := rules.AllContexts
	if c.URL.Query().Has("subjectPrefix") {
		prefix = c.query("subjectPrefix")
	}
	return s.rules().Subjects(prefix, rules.Filter{Deleted: c.flag("deleted"), DeletedOnly: c.flag("deletedOnly")}, p), nil
}

func (s *Server) lookUp(c *call) (any, error) {
	name, q, err := subjectBody[rules.Request](c)
	if err != nil {
		return nil, err
	}
	e, err := s.rules().LookUp(name, q, s.normalizes(c, name), c.flag("deleted"))
	if err != nil {
		return nil, err
	}
	return s.formatted(c, e)
}

func (s *Server) normalizes(c *call, subject string) bool {
	return c.flag("normalize") || s.rules().Normalizes(subject)
}

func (s *Server) formatted(c *call, e rules.Entry) (any, error) {
	return s.rules().Format(e, c.query("format"))
}

func (s *Server) deleteSubject(c *call) (any, error) {
	name, err := c.subject()
	if err != nil {
		return nil, err
	}
	return s.write(c, false, nil, func(b *rules.Batch) (any, error) { return b.DeleteSubject(name, c.flag("permanent")) })
}

func (s *Server) withMetadata(c *call) (any, error) {
	name, err := c.subject()
	if err != nil {
		return nil, err
	}
	q := c.URL.Query()
	properties := map[string]string{}
	for i, k := range q["key"] {
		if i < len(q["value"]) {
			properties[k] = q["value"][i]
		}
	}
	e, err := s.rules().WithMetadata(name, properties, c.flag("deleted"))
	if err != nil {
		return nil, err
	}
	return s.formatted(c, e)
}

func (s *Server) versions(c *call) (any, error) {
	name, err := c.subject()
	if err != nil {
		return nil, err
	}
	p, err := c.page()
	if err != nil {
		return nil, err
	}
	return s.rules().Versions(name, rules.Filter{Deleted: c.flag("deleted"), DeletedOnly: c.flag("deletedOnly")}, c.flag("deletedAsNegative"), p)
}

func (s *Server) register(c *call) (any, error) {
	name, q, err := subjectBody[rules.Request](c)
	if err != nil {
		return nil, err
	}
	if err := rules.CheckRequest(name, q); err != nil {
		return nil, err
	}
	g := &rules.Registration{Subject: name, Request: q, Normalize: s.normalizes(c, name), Force: c.flag("force")}
	if e, known, err := s.rules().Known(g); err != nil {
		return nil, err
	} else if known {
		return s.registered(c, e)
	}
	v, err := s.write(c, true, func() error { return s.rules().Prepare(g) }, func(b *rules.Batch) (any, error) { return b.Register(g) })
	if e, ours := v.(rules.Entry); ours && err == nil {
		return s.registered(c, e)
	}
	return v, err
}

// registered is the answer to a registration: no subject.
func (s *Server) registered(c *call, e rules.Entry) (any, error) {
	e, err := s.rules().Format(e, c.query("format"))
	e.Subject = ""
	return e, err
}

// found is a version of the path.
func (s *Server) found(c *call) (e rules.Entry, err error) {
	name, n, err := c.subjectVersion()
	if err != nil {
		return e, err
	}
	return s.rules().Version(name, n, c.flag("deleted"))
}

// shaped is an entry with the tags and in the format that are asked for.
func (s *Server) shaped(c *call, e rules.Entry) (rules.Entry, error) {
	e, err := s.rules().WithTags(e, c.URL.Query()["findTags"])
	if err == nil {
		e, err = s.rules().Format(e, c.query("format"))
	}
	if c.query("referenceFormat") == "qualified" {
		e = rules.QualifyReferences(e)
	}
	return e, err
}

func (s *Server) version(c *call) (any, error) {
	e, err := s.found(c)
	if err != nil {
		return nil, err
	}
	return s.shaped(c, e)
}

func (s *Server) versionText(c *call) (any, error) {
	e, err := s.found(c)
	if err == nil {
		e, err = s.rules().Format(e, c.query("format"))
	}
	return text(e.Schema), err
}

func (s *Server) referencedBy(c *call) (any, error) {
	name, n, err := c.subjectVersion()
	if err != nil {
		return nil, err
	}
	p, err := c.page()
	if err != nil {
		return nil, err
	}
	return s.rules().ReferencedBy(name, n, c.flag("deleted"), p)
}

func (s *Server) deleteVersion(c *call) (any, error) {
	name, n, err := c.subjectVersion()
	if err != nil {
		return nil, err
	}
	return s.write(c, false, nil, func(b *rules.Batch) (any, error) { return b.DeleteVersion(name, n, c.flag("permanent")) })
}

func (s *Server) tag(c *call) (any, error) {
	name, n, err := c.subjectVersion()
	if err != nil {
		return nil, err
	}
	q, err := decode[rules.TagRequest](c)
	if err != nil {
		return nil, err
	}
	v, err := s.write(c, false, nil, func(b *rules.Batch) (any, error) { return b.Tag(name, n, q) })
	if e, ours := v.(rules.Entry); ours {
		e.Subject = ""
		return e, err
	}
	return v, err
}

func (s *Server) schemas(c *call) (any, error) {
	p, err := c.page()
	if err != nil {
		return nil, err
	}
	return s.rules().Schemas(rules.Search{Prefix: c.query("subjectPrefix"), Aliases: c.flag("aliases"), Deleted: c.flag("deleted"), LatestOnly: c.flag("latestOnly"),
		RuleType: c.query("ruleType"), Page: p}), nil
}

func (s *Server) byID(c *call) (any, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	e, err := s.rules().ByID(id, c.query("subject"), c.flag("fetchMaxId"))
	if err != nil {
		return nil, err
	}
	return s.shaped(c, e)
}

func (s *Server) textByID(c *call) (any, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	e, err := s.rules().ByID(id, c.query("subject"), false)
	if err == nil {
		e, err = s.rules().Format(e, c.query("format"))
	}
	return text(e.Schema), err
}

func (s *Server) usesOf(c *call) ([]rules.SubjectVersion, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	p, err := c.page()
	if err != nil {
		return nil, err
	}
	return s.rules().VersionsOf(id, c.query("subject"), c.flag("deleted"), p)
}

func (s *Server) subjectsOf(c *call) (any, error) {
	uses, err := s.usesOf(c)
	names := make([]string, len(uses))
	for i, u := range uses {
		names[i] = u.Subject
	}
	return names, err
}

func (s *Server) versionsOf(c *call) (any, error) { return s.usesOf(c) }

func (s *Server) byGUID(c *call) (any, error) {
	g, err := c.param("guid")
	if err != nil {
		return nil, err
	}
	e, err := s.rules().ByGUID(g)
	if err != nil {
		return nil, err
	}
	return s.formatted(c, e)
}

func (s *Server) idsOf(c *call) (any, error) {
	g, err := c.param("guid")
	return s.rules().IDsOf(g), err
}

func (s *Server) types(*call) (any, error) { return s.rules().Types(), nil }

func (s *Server) config(c *call) (any, error) {
	name, err := c.subject()
	if err != nil {
		return nil, err
	}
	return s.rules().Config(name, c.flag("defaultToGlobal"))
}

func (s *Server) putConfig(c *call) (any, error) {
	name, change, err := subjectBody[rules.ConfigChange](c)
	if err != nil {
		return nil, err
	}
	return s.write(c, false, nil, func(b *rules.Batch) (any, error) {
		conf, err := b.PutConfig(name, change)
		return conf.Request(), err
	})
}

func (s *Server) deleteConfig(c *call) (any, error) {
	name, err := c.subject()
	if err != nil {
		return nil, err
	}
	return s.write(c, false, nil, func(b *rules.Batch) (any, error) { return b.DeleteConfig(name) })
}

// modeBody is a mode; none is left out.
type modeBody struct {
	Mode rules.Mode `json:"mode,omitempty"`
}

func (s *Server) mode(c *call) (any, error) {
	name, err := c.subject()
	if err != nil {
		return nil, err
	}
	m, err := s.rules().Mode(name, c.flag("defaultToGlobal"))
	return modeBody{m}, err
}

func (s *Server) putMode(c *call) (any, error) {
	name, q, err := subjectBody[modeBody](c)
	if err != nil {
		return nil, err
	}
	return s.write(c, false, nil, func(b *rules.Batch) (any, error) { return q, b.PutMode(name, q.Mode, c.flag("force")) })
}

func (s *Server) deleteMode(c *call) (any, error) {
	name, err := c.subject()
	if err != nil {
		return nil, err
	}
	return s.write(c, false, nil, func(b *rules.Batch) (any, error) {
		m, err := b.DeleteMode(name, c.flag("recursive"))
		return modeBody{m}, err
	})
}

// compatibility is the answer to whether a schema fits.
type compatibility struct {
	Compatible bool      `json:"is_compatible"`
	Messages   *[]string `json:"messages,omitempty"`
}

func (s *Server) compatible(c *call) (any, error) {
	name, err := c.subject()
	if err != nil {
		return nil, err
	}
	n := 0 // all versions
	if chi.URLParam(c.Request, "version") != "" {
		if n, err = c.number(); err != nil {
			return nil, err
		}
	}
	q, err := decode[rules.Request](c)
	if err != nil {
		return nil, err
	}
	verbose := c.flag("verbose")
	messages, err := s.rules().Compatible(name, n, q, s.normalizes(c, name))
	if known, ok := err.(*rules.Error); ok && verbose && known.Code == rules.CodeInvalidSchema {
		messages, err = []string{known.Message}, nil
	}
	if err != nil {
		return nil, err
	}
	out := compatibility{Compatible: len(messages) == 0}
	if verbose {
		if messages == nil {
			messages = []string{}
		}
		out.Messages = &messages
	}
	return out, nil
}

func (s *Server) contexts(c *call) (any, error) {
	p, err := c.page()
	if err != nil {
		return nil, err
	}
	return s.rules().Contexts(c.query("contextPrefix"), p), nil
}

func (s *Server) deleteContext(c *call) (any, error) {
	name, err := c.param("context")
	if err != nil {
		return nil, err
	}
	return s.write(c, false, nil, func(b *rules.Batch) (any, error) {
		return answer{status: http.StatusNoContent}, b.DeleteContext(name)
	})
}

func (s *Server) clusterID(*call) (any, error) {
	return struct {
		Scope any    `json:"scope"`
		ID    string `json:"id"`
	}{object{"path": []string{}, "clusters": map[string]string{"kafka-cluster": s.Instance.ClusterID(), "schema-registry-cluster": s.Instance.GroupID()}}, ""}, nil
}

func (s *Server) serverVersion(*call) (any, error) {
	return object{"version": s.Version, "commitId": "millrace"}, nil
}

func (s *Server) deployment(*call) (any, error) { return object{}, nil }
