package registry

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
)

// content is a schema with all that makes it one: versions of different subjects share it. It is immutable, but for the versions.
type content struct {
	id    int32
	guid  guid
	typ   string
	text  string
	refs  []Reference
	meta  *Metadata
	rules *RuleSet
	md5   string // as the record has it; usually none
}

// version is one of a subject.
type version struct {
	subject *subject
	number  int32
	deleted bool
	ts      int64
	*content
}

// subject has versions, in the order of their numbers.
type subject struct {
	name     string
	context  *contextState
	versions []*version
}

// at is the version of that number, nil where there is none.
func (s *subject) at(number int32) *version {
	if s == nil {
		return nil
	}
	if i, ok := s.find(number); ok {
		return s.versions[i]
	}
	return nil
}

func (s *subject) find(number int32) (int, bool) {
	return slices.BinarySearchFunc(s.versions, number, func(v *version, n int32) int { return int(v.number) - int(n) })
}

// latest is the newest version that is not deleted, nil where there is none.
func (s *subject) latest() *version {
	if s == nil {
		return nil
	}
	for _, v := range slices.Backward(s.versions) {
		if !v.deleted {
			return v
		}
	}
	return nil
}

// has reports whether there is a version, one that is not deleted unless deleted ones count.
func (s *subject) has(deleted bool) bool {
	return s != nil && (deleted && len(s.versions) > 0 || s.latest() != nil)
}

// contextState is all about one context.
type contextState struct {
	name     string
	known    bool // has a record of its own, as every context but the default one has
	subjects map[string]*subject
	sorted   []*subject // nil where it must be sorted anew
	byID     map[int32][]*version
	byGUID   map[guid]int32
	maxID    int32
}

// State is what the records of the topic add up to. Records are applied by one goroutine, and everything is read by many.
type State struct {
	lg *slog.Logger

	mu       sync.RWMutex // guards the fields below
	contexts map[string]*contextState
	configs  map[string]*Config // by subject; "" for the registry as a whole
	modes    map[string]Mode    // likewise
	refs     map[SubjectVersion]map[*version]bool
	kept     map[string]*subject // by context: what keeps ids whose schemas were deleted for good
	unknown  map[string]bool     // types of keys that were reported
	counts   map[string]*Counts  // by type of schemas
}

// Counts are how many schemas of a type were met in the topic since the start.
type Counts struct{ Created, Deleted int64 }

// NewState is an empty registry.
func NewState(lg *slog.Logger) *State {
	return &State{lg: lg, contexts: map[string]*contextState{}, configs: map[string]*Config{}, modes: map[string]Mode{},
		refs: map[SubjectVersion]map[*version]bool{}, kept: map[string]*subject{}, unknown: map[string]bool{}, counts: map[string]*Counts{}}
}

// Apply applies records in the order of the topic. What cannot be read is reported and left out, as the original leaves it.
func (s *State) Apply(records []Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		if err := s.apply(r); err != nil {
			s.lg.Warn("a record of the schemas' topic is left out", "offset", r.Offset, "err", err)
		}
	}
}

func (s *State) apply(r Record) error {
	k, err := parseKey(r.Key)
	if err != nil {
		return err
	}
	name := ""
	if k.Subject != nil {
		name = *k.Subject
	}
	switch k.Type {
	case typeSchema:
		return s.applySchema(name, k.Version, r)
	case typeConfig:
		return applySetting(s.configs, name, r, func() (*Config, error) {
			v := new(configValue)
			err := json.Unmarshal(r.Value, v)
			return &v.Config, err
		})
	case typeMode:
		return applySetting(s.modes, name, r, func() (Mode, error) {
			v := modeValue{}
			if err := json.Unmarshal(r.Value, &v); err != nil {
				return "", err
			}
			if !slices.Contains(modes, v.Mode) {
				return "", fmt.Errorf("the mode of %q is %q, which there is not", name, v.Mode)
			}
			return v.Mode, nil
		})
	case typeDeleteSubject:
		if r.Value == nil {
			return nil
		}
		d := deletion{}
		if err := json.Unmarshal(r.Value, &d); err != nil {
			return err
		}
		if sub := s.subject(name); sub != nil && d.Version != nil {
			for _, v := range sub.versions {
				if v.number <= *d.Version && !v.deleted {
					v.deleted = true
					s.count(v.typ).Deleted++
				}
			}
		}
	case typeClearSubject:
		if r.Value != nil {
			s.clear(name)
		}
	case typeContext:
		s.context(k.Context).known = r.Value != nil
	case typeNoop:
	default:
		if !s.unknown[k.Type] && len(s.unknown) < 100 {
			s.unknown[k.Type] = true
			return fmt.Errorf("records with keys of the type %q are none that this registry knows; they stay in the topic", cut(k.Type))
		}
	}
	return nil
}

func applySetting[V any](into map[string]V, name string, r Record, read func() (V, error)) error {
	if r.Value == nil {
		delete(into, name)
		return nil
	}
	v, err := read()
	if err == nil {
		into[name] = v
	}
	return err
}

// context is a context's state, made where there is none.
func (s *State) context(name string) *contextState {
	c := s.contexts[name]
	if c == nil {
		c = &contextState{name: name, subjects: map[string]*subject{}, byID: map[int32][]*version{}, byGUID: map[guid]int32{}}
		s.contexts[name] = c
	}
	return c
}

// subject is a subject with versions, nil where there is none.
func (s *State) subject(name string) *subject {
	q := qualify(name)
	if c := s.contexts[q.context]; c != nil {
		return c.subjects[q.subject]
	}
	return nil
}

func (s *State) count(typ string) *Counts {
	c := s.counts[typ]
	if c == nil {
		c = new(Counts)
		s.counts[typ] = c
	}
	return c
}

func (s *State) applySchema(name string, number int32, r Record) error {
	q := qualify(name)
	c := s.context(q.context)
	if r.Value == nil {
		s.forget(s.owner(c, q, name), number)
		return nil
	}
	var value schemaValue
	if err := json.Unmarshal(r.Value, &value); err != nil {
		return fmt.Errorf("version %d of subject %q: %w", number, cut(name), err)
	}
	if value.Type == "" {
		value.Type = TypeAvro
	}
	g := value.guid()
	v := &version{number: number, deleted: value.Deleted, ts: r.Timestamp}
	if others := c.byID[value.ID]; len(others) > 0 {
		if others[0].text != value.Schema {
			return fmt.Errorf("version %d of subject %q has the id %d, which another schema has already", number, cut(name), value.ID)
		}
		for _, o := range others {
			if o.guid == g && o.md5 == value.MD5 {
				v.content = o.content
				break
			}
		}
	}
	if v.content == nil {
		v.content = &content{id: value.ID, guid: g, typ: value.Type, text: value.Schema, refs: value.References, meta: value.Metadata, rules: value.RuleSet, md5: value.MD5}
	}
	sub := s.owner(c, q, name)
	if sub == nil {
		sub = &subject{name: name, context: c}
		if q.subject == keptSubject {
			s.kept[c.name] = sub
		} else {
			c.subjects[q.subject] = sub
			c.sorted = nil
		}
	}
	v.subject = sub
	s.forget(sub, number) // an earlier record of the same key
	i, _ := sub.find(number)
	sub.versions = slices.Insert(sub.versions, i, v)
	c.byID[v.id] = append(c.byID[v.id], v)
	c.byGUID[v.guid] = v.id
	c.maxID = max(c.maxID, v.id)
	if q.subject == keptSubject {
		return nil
	}
	// A forgotten subject is one of its context no more; one that has versions is.
	c.subjects[q.subject] = sub
	for _, ref := range v.refs {
		to := SubjectVersion{within(name, ref.Subject), ref.Version}
		if s.refs[to] == nil {
			s.refs[to] = map[*version]bool{}
		}
		s.refs[to][v] = true
	}
	if v.deleted {
		s.count(v.typ).Deleted++
	} else {
		s.count(v.typ).Created++
	}
	return nil
}

// owner is the subject that has, or gets, versions under a name.
func (s *State) owner(c *contextState, q qualified, name string) *subject {
	if q.subject == keptSubject {
		return s.kept[c.name]
	}
	return c.subjects[q.subject]
}

// forget removes a version.
func (s *State) forget(sub *subject, number int32) {
	if sub == nil {
		return
	}
	i, ok := sub.find(number)
	if !ok {
		return
	}
	v, c := sub.versions[i], sub.context
	sub.versions = slices.Delete(sub.versions, i, i+1)
	c.byID[v.id] = slices.DeleteFunc(c.byID[v.id], func(o *version) bool { return o == v })
	if len(c.byID[v.id]) == 0 {
		delete(c.byID, v.id)
		delete(c.byGUID, v.guid)
	}
	if s.kept[c.name] == sub {
		return
	}
	for _, ref := range v.refs {
		to := SubjectVersion{within(sub.name, ref.Subject), ref.Version}
		delete(s.refs[to], v)
		if len(s.refs[to]) == 0 {
			delete(s.refs, to)
		}
	}
	if len(sub.versions) == 0 {
		delete(c.subjects, qualify(sub.name).subject)
		c.sorted = nil
	}
}

// clear forgets the deleted versions of a subject, or of a context's subjects.
func (s *State) clear(name string) {
	for _, sub := range s.matching(name) {
		for _, v := range slices.Clone(sub.versions) {
			if v.deleted {
				s.forget(sub, v.number)
			}
		}
	}
}

// matching are the subjects that a name means: the one itself, all of the context that it names, or, where it is empty or the
// global context, all.
func (s *State) matching(name string) []*subject {
	if sub := s.subject(name); sub != nil {
		return []*subject{sub}
	}
	q := qualify(name)
	if q.subject != "" {
		return nil
	}
	var out []*subject
	for _, c := range s.inOrder() {
		if name == "" || q.context == globalContext || q.context == c.name {
			for _, n := range slices.Sorted(maps.Keys(c.subjects)) {
				out = append(out, c.subjects[n])
			}
		}
	}
	return out
}

// inOrder are the contexts by name.
func (s *State) inOrder() []*contextState {
	out := slices.Collect(maps.Values(s.contexts))
	slices.SortFunc(out, func(a, b *contextState) int { return strings.Compare(a.name, b.name) })
	return out
}

// others are the contexts that have a record, by name: all but the default one.
func (s *State) others() []*contextState {
	return slices.DeleteFunc(s.inOrder(), func(c *contextState) bool { return !c.known })
}

// bySubject are the context's subjects, in order. Under the write lock alone it may sort.
func (c *contextState) bySubject() []*subject {
	if c.sorted == nil {
		c.sorted = slices.AppendSeq(make([]*subject, 0, len(c.subjects)), maps.Values(c.subjects))
		sort.Slice(c.sorted, func(i, j int) bool { return c.sorted[i].name < c.sorted[j].name })
	}
	return c.sorted
}

// read calls f under the read lock.
func (s *State) read(f func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f()
}

// readSorted is read with every context's subjects in order.
func (s *State) readSorted(f func()) {
	for {
		s.mu.RLock()
		stale := false
		for _, c := range s.contexts {
			stale = stale || c.sorted == nil
		}
		if !stale {
			defer s.mu.RUnlock()
			f()
			return
		}
		s.mu.RUnlock()
		s.mu.Lock()
		for _, c := range s.contexts {
			c.bySubject()
		}
		s.mu.Unlock()
	}
}

// Counts are how many schemas of each type were created and deleted, as far as the topic tells, and how many there are.
func (s *State) Counts() (byType map[string]Counts, registered int) {
	byType = map[string]Counts{}
	s.read(func() {
		for typ, c := range s.counts {
			byType[typ] = *c
		}
		for _, c := range s.contexts {
			registered += len(c.byID)
		}
	})
	return byType, registered
}
