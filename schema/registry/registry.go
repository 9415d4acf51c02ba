package registry

import (
	"fmt"
	"slices"
)

// Settings are a registry's own, of the process and not of its topic.
type Settings struct {
	Types []Type // of schemas

	Compatibility      Level // where no configuration says one
	ValidateFields     bool
	ValidateNewSchemas bool
	ModeImmutable      bool // modes cannot be changed

	SearchDefault, SearchMax int // of answers that are lists; 0: 1,000 for schemas, 20,000 for others
	Limits                   Limits
}

// Registry is the rules over a State. Its methods may be called concurrently; those that decide what is written
// are called by one writer at a time.
type Registry struct {
	*State
	settings Settings
	types    map[string]Type
	parsed   *parseCache
}

// New makes the rules over a state.
func New(state *State, settings Settings) *Registry {
	if settings.Compatibility == "" {
		settings.Compatibility = Backward
	}
	r := &Registry{State: state, settings: settings, types: map[string]Type{}, parsed: newParseCache(parsedSchemas, parsedBytes)}
	for _, t := range settings.Types {
		r.types[t.Name()] = t
	}
	return r
}

// Types are the names of the types of schemas that can be registered.
func (r *Registry) Types() []string {
	out := make([]string, 0, len(r.types))
	for _, t := range r.settings.Types {
		out = append(out, t.Name())
	}
	return out
}

// A Page is a part of a list.
type Page struct {
	Offset int // 0: from the beginning
	Limit  int // 0 or less: as many as the registry gives
}

// The most that one answer lists.
const (
	mostListed  = 20_000
	mostSchemas = 1_000
	// answerBytes bounds the schemas' texts of one answer: one that would have more ends there, and the rest is found behind an offset.
	answerBytes = 32 << 20
)

// page is the part of a list that was asked for.
func page[T any](list []T, p Page, most int) []T {
	n := most
	if p.Limit > 0 && p.Limit <= most {
		n = p.Limit
	}
	list = list[min(max(p.Offset, 0), len(list)):]
	if list = list[:min(n, len(list))]; list == nil {
		list = []T{}
	}
	return list
}

func (r *Registry) limit(p Page, usual int) (Page, int) {
	most := usual
	if r.settings.SearchMax > 0 {
		most = r.settings.SearchMax
	}
	if (p.Limit <= 0 || p.Limit > most) && r.settings.SearchDefault > 0 {
		p.Limit = min(r.settings.SearchDefault, most)
	}
	return p, most
}

// Filter says which versions count.
type Filter struct {
	Deleted     bool // deleted ones, too
	DeletedOnly bool // none but these
}

func (f Filter) takes(deleted bool) bool {
	if f.DeletedOnly {
		return deleted
	}
	return f.Deleted || !deleted
}

// entry is a version as it is answered.
func (v *version) entry() Entry {
	e := v.content.entry()
	e.Subject, e.Version = v.subject.name, v.number
	ts, deleted := v.ts, v.deleted
	e.Timestamp, e.Deleted = &ts, &deleted
	return e
}

// entry is a schema without the version that has it.
func (c *content) entry() Entry {
	id := c.id
	e := Entry{ID: &id, GUID: c.guid.String(), References: c.refs, Metadata: c.meta, RuleSet: c.rules, Schema: c.text}
	if c.typ != TypeAvro {
		e.Type = c.typ
	}
	return e
}

// prefixed are the subjects whose names begin with a prefix, in order; AllContexts in front of it looks in all contexts.
func (s *State) prefixed(prefix string) []*subject {
	var out []*subject
	take := func(c *contextState, prefix string) {
		if c == nil {
			return
		}
		list := c.bySubject()
		start := c.name
		if start == DefaultContext {
			start = prefix
		} else {
			start = qualified{c.name, prefix}.String()
		}
		i, _ := slices.BinarySearchFunc(list, start, func(sub *subject, name string) int { return compareText(sub.name, name) })
		for ; i < len(list) && len(list[i].name) >= len(start) && list[i].name[:len(start)] == start; i++ {
			out = append(out, list[i])
		}
	}
	q := qualify(prefix)
	switch {
	case q.context == "*":
		take(s.contexts[DefaultContext], q.subject)
		for _, c := range s.inOrder() {
			if c.name != DefaultContext {
				take(c, q.subject)
			}
		}
	case q.context != DefaultContext && q.subject == "" && prefix[len(prefix)-1] != ':':
		for _, c := range s.inOrder() { // the beginning of contexts' names
			if c.name != DefaultContext && len(c.name) >= len(q.context) && c.name[:len(q.context)] == q.context {
				take(c, "")
			}
		}
	default:
		take(s.contexts[q.context], q.subject)
	}
	return out
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Subjects are the names of the subjects with a prefix.
func (r *Registry) Subjects(prefix string, f Filter, p Page) []string {
	var out []string
	r.readSorted(func() {
		for _, sub := range r.prefixed(prefix) {
			if f.takes(sub.latest() == nil) {
				out = append(out, sub.name)
			}
		}
	})
	slices.Sort(out)
	p, most := r.limit(p, mostListed)
	return page(out, p, most)
}

// Versions are the numbers of a subject's versions; deleted ones below zero where negative says so.
func (r *Registry) Versions(name string, f Filter, negative bool, p Page) ([]int32, error) {
	name = Normalize(name)
	var out []int32
	var err error
	r.read(func() {
		sub := r.subject(name)
		if !sub.has(f.Deleted || f.DeletedOnly || negative) {
			err = subjectNotFound(name)
			return
		}
		for _, v := range sub.versions {
			switch {
			case negative && v.deleted:
				out = append(out, -v.number)
			case negative || f.takes(v.deleted):
				out = append(out, v.number)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	p, most := r.limit(p, mostListed)
	return page(out, p, most), nil
}

// find is a version: of the subject itself or, where it names no context and has none such, of the first context whose subject of
// that name does.
func (s *State) find(name string, number int, deleted bool) *version {
	look := func(sub *subject) *version {
		if number == Latest {
			return sub.latest()
		}
		if v := sub.at(int32(number)); v != nil && (deleted || !v.deleted) {
			return v
		}
		return nil
	}
	if v := look(s.subject(name)); v != nil {
		return v
	}
	if q := qualify(name); q.context == DefaultContext {
		for _, c := range s.others() {
			if v := look(c.subjects[q.subject]); v != nil {
				return v
			}
		}
	}
	return nil
}

// hasSubjects reports whether a name means subjects that have versions.
func (s *State) hasSubjects(name string, deleted bool) bool {
	return slices.ContainsFunc(s.matching(name), func(sub *subject) bool { return sub.has(deleted) })
}

// missing is why there is no version.
func (s *State) missing(name string, number int, deleted bool) error {
	if !s.hasSubjects(name, deleted) {
		return subjectNotFound(name)
	}
	return versionNotFound(number)
}

// Version is a version of a subject.
func (r *Registry) Version(name string, number int, deleted bool) (Entry, error) {
	name = Normalize(name)
	var e Entry
	var err error
	r.read(func() {
		if v := r.find(name, number, deleted); v != nil {
			e = v.entry()
		} else {
			err = r.missing(name, number, deleted)
		}
	})
	return e, err
}

// withID is a version that has an id, as subject says: of that subject, or of its context. A subject of the default context that does
// not have it is looked for in the other contexts before any subject is taken.
func (s *State) withID(id int32, name string) *version {
	q := qualify(name)
	in := func(c *contextState, subject string) *version {
		if c == nil {
			return nil
		}
		var last *version
		for _, v := range c.byID[id] {
			if v.subject.name == subject || subject == "" {
				if subject == "" && s.kept[c.name] != v.subject {
					return v
				}
				last = v // the newest record of the subject, as in the original
			}
		}
		return last
	}
	if q.subject == "" {
		return in(s.contexts[q.context], "")
	}
	if v := in(s.contexts[q.context], q.String()); v != nil || q.context != DefaultContext {
		return v
	}
	for _, c := range s.others() {
		if v := in(c, qualified{c.name, q.subject}.String()); v != nil {
			return v
		}
	}
	return in(s.contexts[q.context], "")
}

// ByID is the schema of an id, in the context, or of the subject, that subject names. maxID asks for the highest id there is, too.
func (r *Registry) ByID(id int32, subject string, maxID bool) (Entry, error) {
	var e Entry
	var err error
	r.read(func() {
		v := r.withID(id, subject)
		if v == nil {
			err = schemaNotFound(fmt.Sprint(id))
			return
		}
		e = v.entry()
		if subject == "" || r.kept[v.subject.context.name] == v.subject {
			e.Subject, e.Version = "", 0
		}
		if maxID {
			n := max(1, v.subject.context.maxID)
			e.MaxID = &n
		}
	})
	e.ID = nil
	return e, err
}

// usesOf are the subjects with the newest of their versions that have a schema.
func (s *State) usesOf(v *version, deleted bool) []SubjectVersion {
	newest := map[string]*version{}
	c := v.subject.context
	for _, o := range c.byID[v.id] {
		if o.guid == v.guid && s.kept[c.name] != o.subject && (newest[o.subject.name] == nil || newest[o.subject.name].number < o.number) {
			newest[o.subject.name] = o
		}
	}
	var out []SubjectVersion
	for _, o := range newest {
		if deleted || !o.deleted {
			out = append(out, SubjectVersion{o.subject.name, o.number})
		}
	}
	slices.SortFunc(out, func(a, b SubjectVersion) int { return compareText(a.Subject, b.Subject) })
	return out
}

// VersionsOf are the subjects and versions that have an id.
func (r *Registry) VersionsOf(id int32, subject string, deleted bool, p Page) ([]SubjectVersion, error) {
	var out []SubjectVersion
	var err error
	r.read(func() {
		v := r.withID(id, subject)
		if v == nil {
			err = schemaNotFound("")
			return
		}
		out = r.usesOf(v, deleted)
	})
	if err != nil {
		return nil, err
	}
	p, most := r.limit(p, mostListed)
	return page(out, p, most), nil
}

// IDsOf are the ids of a guid in all contexts.
func (r *Registry) IDsOf(text string) []ContextID {
	out := []ContextID{}
	g, ok := parseGUID(text)
	if !ok {
		return out
	}
	r.read(func() {
		for _, c := range r.inOrder() {
			if id, has := c.byGUID[g]; has {
				out = append(out, ContextID{c.name, id})
			}
		}
	})
	return out
}

// ByGUID is the schema of a guid.
func (r *Registry) ByGUID(text string) (Entry, error) {
	ids := r.IDsOf(text)
	if len(ids) == 0 {
		return Entry{}, schemaNotFound(cut(text))
	}
	e, err := r.ByID(ids[0].ID, qualified{context: ids[0].Context}.contextName(), false)
	e.Subject, e.Version = "", 0
	return e, err
}

// referencedBy are the versions that refer to one. Those that are deleted count when deleted says so.
func (s *State) referencedBy(to SubjectVersion, deleted bool) []*version {
	var out []*version
	for v := range s.refs[to] {
		if deleted || !v.deleted {
			out = append(out, v)
		}
	}
	return out
}

// ReferencedBy are the ids of the schemas that refer to a version.
func (r *Registry) ReferencedBy(name string, number int, deleted bool, p Page) ([]int32, error) {
	name = Normalize(name)
	var ids []ContextID
	var err error
	r.read(func() {
		v := r.find(name, number, true)
		if v == nil {
			err = r.missing(name, number, true)
			return
		}
		for _, by := range r.referencedBy(SubjectVersion{v.subject.name, v.number}, deleted) {
			ids = append(ids, ContextID{by.subject.context.name, by.id})
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(ids, func(a, b ContextID) int {
		if c := compareText(a.Context, b.Context); c != 0 {
			return c
		}
		return int(a.ID) - int(b.ID)
	})
	ids = slices.Compact(ids)
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = id.ID
	}
	p, most := r.limit(p, mostSchemas)
	return page(out, p, most), nil
}

// WithMetadata is the newest version of a subject whose metadata have all of the properties.
func (r *Registry) WithMetadata(name string, properties map[string]string, deleted bool) (Entry, error) {
	name = Normalize(name)
	var e Entry
	var err error
	r.read(func() {
		if sub := r.subject(name); sub != nil {
			for _, v := range slices.Backward(sub.versions) {
				if v.deleted && !deleted || v.meta == nil {
					continue
				}
				all := true
				for k, want := range properties {
					got, has := v.meta.property(k)
					all = all && has && got == want
				}
				if all {
					e = v.entry()
					return
				}
			}
		}
		if !r.hasSubjects(name, deleted) {
			err = subjectNotFound(name)
		} else {
			err = schemaNotFound("")
		}
	})
	return e, err
}

// A Search is for versions of many subjects.
type Search struct {
	Prefix     string // of subjects
	Aliases    bool   // subjects that are aliases of those, too, and the aliases' names
	Deleted    bool
	LatestOnly bool
	RuleType   string // with a rule of that type
	Page
}

// Schemas are the versions that a search finds, by subject and number.
func (r *Registry) Schemas(q Search) []Entry {
	var found []*version
	aliases := map[string][]string{}
	r.readSorted(func() {
		subjects := r.prefixed(q.Prefix)
		if q.Aliases {
			for _, name := range sortedNames(r.configs) {
				c := r.configs[name]
				if c.Alias == nil || *c.Alias == "" || !hasPrefix(name, q.Prefix) {
					continue
				}
				to := within(name, *c.Alias)
				aliases[to] = append(aliases[to], name)
				if sub := r.subject(to); sub != nil && !slices.Contains(subjects, sub) {
					subjects = append(subjects, sub)
				}
			}
		}
		slices.SortFunc(subjects, func(a, b *subject) int { return compareText(a.name, b.name) })
		for _, sub := range subjects {
			first := len(found)
			for _, v := range sub.versions {
				if !v.deleted || q.Deleted {
					if q.LatestOnly {
						found = found[:first]
					}
					found = append(found, v)
				}
			}
			if q.RuleType != "" {
				found = append(found[:first], slices.DeleteFunc(slices.Clone(found[first:]), func(v *version) bool { return !v.rules.hasType(q.RuleType) })...)
			}
		}
	})
	p, most := r.limit(q.Page, mostSchemas)
	found = page(found, p, most)
	out := make([]Entry, 0, len(found))
	r.read(func() {
		bytes := 0
		for _, v := range found {
			if bytes += len(v.text); bytes > answerBytes && len(out) > 0 {
				return
			}
			e := v.entry()
			e.Aliases = aliases[v.subject.name]
			out = append(out, e)
		}
	})
	return out
}

func hasPrefix(name, prefix string) bool {
	q := qualify(prefix)
	if q.context == "*" {
		n := qualify(name).subject
		return len(n) >= len(q.subject) && n[:len(q.subject)] == q.subject
	}
	return len(name) >= len(prefix) && name[:len(prefix)] == prefix && (HasContext(prefix) || !HasContext(name))
}

func sortedNames[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Contexts are the names of the contexts.
func (r *Registry) Contexts(prefix string, p Page) []string {
	out := []string{DefaultContext}
	r.read(func() {
		for _, c := range r.others() {
			out = append(out, c.name)
		}
	})
	out = slices.DeleteFunc(out, func(c string) bool { return len(c) < len(prefix) || c[:len(prefix)] != prefix })
	p, most := r.limit(p, mostListed)
	return page(out, p, most)
}

// Alias is the subject that stands for another: itself, unless its configuration says one.
func (r *Registry) Alias(name string) string {
	r.read(func() {
		if c := r.configs[Normalize(name)]; c != nil && c.Alias != nil && *c.Alias != "" {
			name = within(name, *c.Alias)
		}
	})
	return name
}
