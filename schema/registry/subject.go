package registry

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Contexts divide a registry: ids are numbered in each of them anew. A subject of another context than the default one is written
// with it, as ":.ctx:subject".
const (
	DefaultContext = "."
	// AllContexts stands for every context in front of a prefix of subjects.
	AllContexts = ":*:"
	// globalContext carries configuration and mode for all contexts, and no subjects.
	globalContext = ".__GLOBAL"

	contextPrefix = ":."
	// keptSubject is no subject that a client can name: under it stands, as a deleted version, what keeps the id of a schema whose
	// last version was deleted for good.
	keptSubject = "__EMPTY"
)

// maxSubjectBytes bounds a subject's name: it stands in every key of its versions.
const maxSubjectBytes = 4096

// qualified is a subject apart from its context. The subject is empty where the name is that of a context.
type qualified struct{ context, subject string }

// qualify takes a subject's name apart.
func qualify(name string) qualified {
	switch {
	case strings.HasPrefix(name, contextPrefix):
		context, subject, _ := strings.Cut(name[1:], ":")
		return qualified{context, subject}
	case strings.HasPrefix(name, AllContexts):
		return qualified{"*", name[len(AllContexts):]}
	}
	return qualified{DefaultContext, name}
}

// contextName is the context as it stands in front of its subjects: nothing for the default one.
func (q qualified) contextName() string {
	if q.context == DefaultContext {
		return ""
	}
	return ":" + q.context + ":"
}

func (q qualified) String() string { return q.contextName() + q.subject }

// Normalize is a subject's name as it is stored: one with the default context written out is the one without it.
func Normalize(name string) string { return qualify(name).String() }

// HasContext reports whether a name says which context it belongs to, or that it belongs to any.
func HasContext(name string) bool {
	return strings.HasPrefix(name, contextPrefix) || strings.HasPrefix(name, AllContexts)
}

// ContextPrefix is what stands in front of the subjects of a context, given as ".ctx", "ctx" or ":.ctx:". It is empty for the
// default context.
func ContextPrefix(context string) (string, error) {
	context = strings.TrimSuffix(strings.TrimPrefix(context, ":"), ":")
	if strings.Contains(context, ":") {
		return "", fmt.Errorf("Context name '%s' cannot contain a colon", context)
	}
	if !strings.HasPrefix(context, ".") {
		context = "." + context
	}
	return qualified{context: context}.contextName(), nil
}

// within is a subject that another of parent's context refers to: one that names no context is of the same.
func within(parent, name string) string {
	q := qualify(name)
	if q.context == DefaultContext {
		q.context = qualify(parent).context
	}
	return q.String()
}

// isDefaultContext reports whether a name stands for the default context as a whole, as the empty one does.
func isDefaultContext(name string) bool { return qualify(name) == qualified{context: DefaultContext} }

// checkSubject refuses names that no subject can have. Configuration and mode can also be those of the global context.
func checkSubject(name string, settings bool) error {
	q := qualify(name)
	switch {
	case strings.ContainsFunc(name, unicode.IsControl), !utf8.ValidString(name), q.subject == "__GLOBAL", q.subject == keptSubject,
		!settings && q.context == globalContext:
		return invalidSubject(name)
	case len(name) > maxSubjectBytes:
		return &Error{CodeInvalidSubject, fmt.Sprintf("The specified subject '%.40s…' is not a valid: it has %d bytes, more than %d.", name, len(name), maxSubjectBytes)}
	}
	return nil
}
