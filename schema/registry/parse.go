package registry

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Bounds of what is kept parsed, and of parsing at once.
const (
	parsedSchemas = 1000
	parsedBytes   = 8 << 20 // of text
	largeText     = 128 << 10
	largeAtOnce   = 2
	maxReferences = 1000 // of a schema, with those of what it refers to
)

// parseCache keeps the schemas that were parsed last. The same schema with other dependencies is another one.
type parseCache struct {
	schemas, bytes int
	large          chan struct{} // large texts are parsed a few at a time

	mu    sync.Mutex // guards the fields below
	byKey map[[sha256.Size]byte]*list.Element
	order list.List // of *parsedSchema, the last used first
	held  int       // bytes
}

type parsedSchema struct {
	key    [sha256.Size]byte
	schema Schema
	bytes  int
}

func newParseCache(schemas, bytes int) *parseCache {
	return &parseCache{schemas: schemas, bytes: bytes, large: make(chan struct{}, largeAtOnce), byKey: map[[sha256.Size]byte]*list.Element{}}
}

func (c *parseCache) parse(t Type, text string, o ParseOptions) (Schema, error) {
	h, size := sha256.New(), len(text)
	part := func(s string) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		h.Write([]byte(s))
	}
	part(t.Name())
	part(text)
	part(fmt.Sprint(o.New))
	for _, d := range o.Dependencies {
		part(d.Name)
		part(d.Text)
		size += len(d.Text)
	}
	k := [sha256.Size]byte(h.Sum(nil))
	c.mu.Lock()
	if e, ok := c.byKey[k]; ok {
		c.order.MoveToFront(e)
		c.mu.Unlock()
		return e.Value.(*parsedSchema).schema, nil
	}
	c.mu.Unlock()
	if size > largeText {
		c.large <- struct{}{}
		defer func() { <-c.large }()
	}
	s, err := t.Parse(text, o)
	if err != nil || size > c.bytes/4 {
		return s, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKey[k]; ok {
		return s, nil
	}
	c.byKey[k] = c.order.PushFront(&parsedSchema{k, s, size})
	c.held += size
	for c.held > c.bytes || c.order.Len() > c.schemas {
		old := c.order.Remove(c.order.Back()).(*parsedSchema)
		delete(c.byKey, old.key)
		c.held -= old.bytes
	}
	return s, nil
}

// resolve finds what a schema refers to, and what that refers to: what is needed first stands first. The version -1 becomes the
// latest one's number, in a copy of refs. deleted says that deleted versions serve, too, as they do for what is stored already.
func (s *State) resolve(parent string, refs []Reference, deleted bool) (deps []Dependency, numbered []Reference, err error) {
	if len(refs) == 0 {
		return nil, refs, nil
	}
	met, bytes := map[string]bool{}, 0
	var follow func(parent string, refs []Reference, depth int) ([]Reference, error)
	follow = func(parent string, refs []Reference, depth int) ([]Reference, error) {
		refs = slices.Clone(refs)
		for i, ref := range refs {
			if ref.Name == "" || ref.Subject == "" || ref.Version < 1 && ref.Version != Latest {
				return nil, fmt.Errorf("Invalid reference: {name='%s', subject='%s', version=%d}", cut(ref.Name), cut(ref.Subject), ref.Version)
			}
			name := within(parent, ref.Subject)
			v := s.find(name, int(ref.Version), deleted)
			if v == nil {
				return nil, fmt.Errorf("No schema reference found for subject \"%s\" and version %d", cut(name), ref.Version)
			}
			refs[i].Version = v.number
			if met[ref.Name] {
				continue
			}
			met[ref.Name] = true
			bytes += len(v.text)
			if len(met) > maxReferences || depth > 100 || bytes > 4*DefaultLimits.Bytes {
				return nil, fmt.Errorf("the schema refers to more than %d schemas, to chains of more than 100, or to more than %d bytes", maxReferences, 4*DefaultLimits.Bytes)
			}
			if _, err := follow(v.subject.name, v.refs, depth+1); err != nil {
				return nil, err
			}
			deps = append(deps, Dependency{ref.Name, v.text})
		}
		return refs, nil
	}
	s.read(func() { numbered, err = follow(parent, refs, 0) })
	return deps, numbered, err
}

// candidate is a schema of a request, parsed and in the form in which it is stored.
type candidate struct {
	schema Schema
	content
}

// named is a parsing error as the original tells it.
func invalidSchema(typ string, err error) error {
	return failf(CodeInvalidSchema, "Invalid schema of type %s, details: %s", typ, err)
}

func (r *Registry) typeOf(name string) (Type, error) {
	if name == "" {
		name = TypeAvro
	}
	if t := r.types[name]; t != nil {
		return t, nil
	}
	if name == TypeJSON || name == TypeProtobuf {
		return nil, failf(CodeInvalidSchema, "Invalid schema type %s: this registry keeps and answers such schemas of another registry's topic, and registers none; it registers %s", name, strings.Join(r.Types(), ", "))
	}
	return nil, failf(CodeInvalidSchema, "Invalid schema type %s: there are %s", cut(name), strings.Join(r.Types(), ", "))
}

// parse reads a schema of a request for a subject: nil where the request holds none. isNew validates it as one that shall be registered.
func (r *Registry) parse(name string, q *Request, isNew, normalize bool) (*candidate, error) {
	if strings.TrimSpace(q.Schema) == "" {
		return nil, nil
	}
	t, err := r.typeOf(q.Type)
	if err != nil {
		return nil, err
	}
	deps, refs, err := r.resolve(name, q.References, !isNew)
	if err != nil {
		return nil, invalidSchema(t.Name(), err)
	}
	s, err := r.parsed.parse(t, q.Schema, ParseOptions{Dependencies: deps, New: isNew, Limits: r.settings.Limits})
	if err != nil {
		return nil, invalidSchema(t.Name(), err)
	}
	text := s.Canonical()
	if normalize {
		text = s.Normalized()
	}
	return &candidate{s, content{guid: guidOf(text, refs, q.Metadata, q.RuleSet), typ: t.Name(), text: text, refs: refs, meta: q.Metadata, rules: q.RuleSet}}, nil
}

// stored parses a schema that a version has.
func (r *Registry) stored(v *version) (Schema, error) {
	t, err := r.typeOf(v.typ)
	if err != nil {
		return nil, err
	}
	deps, _, err := r.resolve(v.subject.name, v.refs, true)
	if err == nil {
		var s Schema
		if s, err = r.parsed.parse(t, v.text, ParseOptions{Dependencies: deps, Limits: r.settings.Limits}); err == nil {
			return s, nil
		}
	}
	return nil, failf(CodeStore, "version %d of subject '%s' is stored and cannot be read: %s", v.number, v.subject.name, err)
}

// Format is an entry with its text in a format of its type. As in the original a format that there is not changes nothing, so that
// clients may ask for one that a later registry has.
func (r *Registry) Format(e Entry, format string) (Entry, error) {
	if strings.TrimSpace(format) == "" {
		return e, nil
	}
	s, err := r.parseEntry(e)
	if err != nil {
		return e, err
	}
	if format == "resolved" {
		e.Schema = s.Resolved()
	} else if text, ok := s.Format(format); ok {
		e.Schema = text
	}
	return e, nil
}

func (r *Registry) parseEntry(e Entry) (Schema, error) {
	t, err := r.typeOf(e.Type)
	if err != nil {
		return nil, err
	}
	deps, _, err := r.resolve(e.Subject, e.References, true)
	if err != nil {
		return nil, invalidSchema(t.Name(), err)
	}
	s, err := r.parsed.parse(t, e.Schema, ParseOptions{Dependencies: deps, Limits: r.settings.Limits})
	if err != nil {
		return nil, invalidSchema(t.Name(), err)
	}
	return s, nil
}

// WithTags is an entry with the parts that have one of the tags; "*" stands for all.
func (r *Registry) WithTags(e Entry, tags []string) (Entry, error) {
	if len(tags) == 0 {
		return e, nil
	}
	s, err := r.parseEntry(e)
	if err != nil {
		return e, err
	}
	t, ok := s.(Tagger)
	if !ok {
		return e, nil
	}
	for _, part := range t.Tags() {
		if slices.Contains(tags, "*") || slices.ContainsFunc(part.Tags, func(tag string) bool { return slices.Contains(tags, tag) }) {
			st := SchemaTags{Tags: part.Tags}
			st.Entity.Path, st.Entity.Type = part.Path, part.Kind
			e.SchemaTags = append(e.SchemaTags, st)
		}
	}
	return e, nil
}

func entityTags(list []SchemaTags) []EntityTags {
	out := make([]EntityTags, len(list))
	for i, t := range list {
		out[i] = EntityTags{t.Entity.Path, t.Entity.Type, t.Tags}
	}
	return out
}

// QualifyReferences writes the context of an entry's references out.
func QualifyReferences(e Entry) Entry {
	if qualify(e.Subject).context != DefaultContext {
		e.References = slices.Clone(e.References)
		for i, ref := range e.References {
			e.References[i].Subject = within(e.Subject, ref.Subject)
		}
	}
	return e
}

// topFields are the names of the fields at the top of an Avro record; of other schemas none.
func topFields(c *candidate) (out []string) {
	var record struct {
		Fields []struct {
			Name string `json:"name"`
		} `json:"fields"`
	}
	if c.typ == TypeAvro && json.Unmarshal([]byte(c.text), &record) == nil {
		for _, f := range record.Fields {
			out = append(out, f.Name)
		}
	}
	return out
}
