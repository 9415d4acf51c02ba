package registry

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Batch is what the writer decides at once: Records go to the topic together or not at all, and nothing that was decided counts before
// they are applied. Registrations of different subjects can share one; whatever else is decided is in one of its own.
type Batch struct {
	Records []Record

	r        *Registry
	subjects map[string]bool
	contexts map[string]bool
	ids      map[string]*idsOf // by context
}

// idsOf are the ids that a batch gives.
type idsOf struct {
	max    int32
	byGUID map[guid]int32
}

// ErrLater says that a decision depends on what a batch has decided already: it wants the next one.
var ErrLater = errors.New("decided in the next batch")

// NewBatch is an empty one.
func (r *Registry) NewBatch() *Batch {
	return &Batch{r: r, subjects: map[string]bool{}, contexts: map[string]bool{}, ids: map[string]*idsOf{}}
}

func (b *Batch) add(r Record, err error) error {
	if err == nil {
		b.Records = append(b.Records, r)
	}
	return err
}

func (b *Batch) idsOf(context string) *idsOf {
	ids := b.ids[context]
	if ids == nil {
		ids = &idsOf{byGUID: map[guid]int32{}}
		if c := b.r.contexts[context]; c != nil {
			ids.max = c.maxID
		}
		b.ids[context] = ids
	}
	return ids
}

// A Registration is a schema to register, with what was found out about it before it is decided. It is used by one goroutine at a time.
type Registration struct {
	Subject          string
	Request          *Request
	Normalize, Force bool

	checked map[string][]string // messages by what was compared
	with    []*version          // keeps what was compared, so that its addresses stay its own
}

// CheckRequest refuses what can be refused without looking at the state.
func CheckRequest(subject string, q *Request) error {
	if err := q.RuleSet.check(); err != nil {
		return err
	}
	return checkSubject(subject, false)
}

// Prepare does the long part of a registration ahead, so that the writer is not held up: it parses and compares. What it finds out is
// thrown away where the subject changes until the registration is decided.
func (r *Registry) Prepare(g *Registration) error {
	b := r.NewBatch()
	_, err := b.Register(g)
	return err
}

// Known is a version that a registration would find there already; false where it must be decided.
func (r *Registry) Known(g *Registration) (Entry, bool, error) {
	q, name := g.Request, Normalize(g.Subject)
	var c Config
	var mode Mode
	r.read(func() { c, mode = r.configInScope(name), r.modeFor(name, true) })
	if len(q.TagsToAdd)+len(q.TagsToRemove) > 0 || q.PropagateSchemaTags || c.hasDefaults() || mode.importing() {
		return Entry{}, false, nil
	}
	wanted := int32(0)
	if q.Version != nil {
		wanted = *q.Version
	}
	if q.ID != nil && *q.ID >= 0 || wanted > 0 {
		return Entry{}, false, nil
	}
	cand, err := r.parse(name, q, false, g.Normalize)
	if err != nil || cand == nil {
		return Entry{}, false, err
	}
	return r.lookUp(name, cand, false, wanted == Latest)
}

// LookUp is the version of a subject that has a schema. Where there is none, the metadata and rules count that the schema would get when
// it is registered.
func (r *Registry) LookUp(name string, q *Request, normalize, deleted bool) (Entry, error) {
	name = Normalize(name)
	try := func(name string) (Entry, bool, error) {
		cand, err := r.parse(name, q, false, normalize)
		if err != nil || cand == nil {
			return Entry{}, false, err
		}
		e, ok, err := r.lookUp(name, cand, deleted, false)
		if ok || err != nil {
			return e, ok, err
		}
		next := *q
		found := false
		r.read(func() {
			if prev := r.subject(name).latest(); prev != nil {
				found = r.inherit(&next, name, prev, 0)
			}
		})
		if !found || next.Metadata.equal(q.Metadata) && next.RuleSet.equal(q.RuleSet) {
			return e, false, nil
		}
		if cand, err = r.parse(name, &next, false, normalize); err != nil {
			return e, false, err
		}
		return r.lookUp(name, cand, deleted, false)
	}
	e, ok, err := try(name)
	if ok || err != nil {
		return e, err
	}
	if qualify(name).context == DefaultContext {
		var names []string
		r.read(func() {
			for _, c := range r.others() {
				if other := (qualified{c.name, name}).String(); r.subject(other) != nil {
					names = append(names, other)
				}
			}
		})
		for _, other := range names {
			if e, ok, err := try(other); ok && err == nil {
				return e, nil
			}
		}
	}
	r.read(func() {
		if r.hasSubjects(name, deleted) {
			err = schemaNotFound("")
		} else {
			err = subjectNotFound(name)
		}
	})
	return e, err
}

// lookUp finds the version that is a schema.
func (r *Registry) lookUp(name string, cand *candidate, deleted, latestOnly bool) (e Entry, ok bool, err error) {
	var resolve []*version // those that may be the same schema with its references written out
	r.read(func() {
		sub := r.subject(name)
		if sub == nil {
			return
		}
		for _, v := range slices.Backward(sub.versions) {
			if v.deleted && !deleted || v.deleted && latestOnly {
				continue
			}
			if v.guid == cand.guid && !latestOnly {
				e, ok = cand.entryAt(v), true
				return
			}
		}
		for _, v := range slices.Backward(sub.versions) {
			if v.deleted && (!deleted || latestOnly) {
				continue
			}
			switch v.is(cand) {
			case same:
				e, ok = v.entry(), true
				return
			case maybe:
				resolve = append(resolve, v)
			}
			if latestOnly {
				return
			}
		}
	})
	for _, v := range resolve {
		if s, err := r.stored(v); err == nil && s.Resolved() == cand.schema.Resolved() {
			r.read(func() { e = v.entry() })
			return e, true, nil
		}
	}
	return e, ok, nil
}

// entryAt is a schema that was asked for, as the version that has it.
func (c *candidate) entryAt(v *version) Entry {
	e := c.entry()
	id := v.id
	e.Subject, e.Version, e.ID = v.subject.name, v.number, &id
	return e
}

const (
	different = iota
	same
	maybe // the same if its references are written out
)

// is reports whether a version is the schema of a request, which may leave out which version it is, or its references.
func (v *version) is(c *candidate) int {
	if v.typ != c.typ || !v.rules.equal(c.rules) {
		return different
	}
	mine, has := c.meta.property(versionProperty)
	_, stored := v.meta.property(versionProperty)
	switch {
	case !has && stored:
		if !orEmpty(c.meta).equal(orEmpty(v.meta.without(versionProperty))) {
			return different
		}
	case has && !stored:
		if mine != strconv.Itoa(int(v.number)) || !orEmpty(c.meta.without(versionProperty)).equal(orEmpty(v.meta)) {
			return different
		}
	case !c.meta.equal(v.meta):
		return different
	}
	if len(c.refs) == 0 && len(v.refs) > 0 {
		return maybe
	}
	if slices.Equal(c.refs, v.refs) && c.text == v.text {
		return same
	}
	return different
}

func orEmpty(m *Metadata) *Metadata {
	if m == nil {
		return &Metadata{}
	}
	return m
}

// inherit gives a request the metadata and rules that it gets when it is registered behind prev, which may be nil, and reports whether
// there are any. number is the version that it will be; 0 where that is not known.
func (r *Registry) inherit(q *Request, name string, prev *version, number int32) bool {
	c := r.configInScope(name)
	meta, rules := q.Metadata, q.RuleSet
	if prev != nil {
		if meta == nil {
			meta = prev.meta
		}
		if rules == nil {
			rules = prev.rules
		}
	}
	meta = mergeMetadata(mergeMetadata(c.DefaultMetadata, meta), c.OverrideMetadata)
	rules = mergeRuleSets(mergeRuleSets(c.DefaultRuleSet, rules), c.OverrideRuleSet)
	if _, has := meta.property(versionProperty); number > 0 && (q.Version != nil && *q.Version != 0 || has) {
		meta = meta.with(versionProperty, strconv.Itoa(int(number)))
	}
	if meta == nil && rules == nil {
		return false
	}
	q.Metadata, q.RuleSet = meta, rules
	return true
}

// Register decides a registration. The answer is the version that was there already, or the one that the batch's records make.
func (b *Batch) Register(g *Registration) (Entry, error) {
	r, name, q := b.r, Normalize(g.Subject), *g.Request
	if b.subjects[name] {
		return Entry{}, ErrLater
	}
	if err := r.retag(name, &q); err != nil {
		return Entry{}, err
	}
	id, wanted := int32(-1), int32(0)
	if q.ID != nil {
		id = *q.ID
	}
	if q.Version != nil {
		wanted = *q.Version
	}
	var (
		err     error
		config  Config
		mode    Mode
		number  int32 = 1 // of a new version
		live    []*version
		deleted []*version
	)
	r.read(func() {
		config, mode = r.configInScope(name), r.modeFor(name, true)
		if err = r.registrable(name, id, mode); err != nil {
			return
		}
		if sub := r.subject(name); sub != nil {
			for _, v := range sub.versions {
				number = v.number + 1
				if v.deleted {
					deleted = append(deleted, v)
				} else {
					live = append(live, v)
				}
			}
		}
		if !mode.importing() {
			var prev *version
			if len(live) > 0 {
				prev = live[len(live)-1]
			}
			if strings.TrimSpace(q.Schema) == "" && prev != nil {
				q.Schema, q.Type, q.References = prev.text, prev.typ, prev.refs
			}
			r.inherit(&q, name, prev, number)
		}
	})
	if err != nil {
		return Entry{}, err
	}
	if q.PropagateSchemaTags && !mode.importing() && len(live) > 0 {
		if err := r.propagate(name, &q, live[len(live)-1]); err != nil {
			return Entry{}, err
		}
	}
	cand, err := r.parse(name, &q, id < 0 && !mode.importing() && or(config.ValidateNewSchemas, r.settings.ValidateNewSchemas), g.Normalize && !mode.importing())
	if err != nil {
		return Entry{}, err
	}
	if cand == nil {
		return Entry{}, failf(CodeInvalidSchema, "Empty schema")
	}
	context := qualify(name).context
	var known *version
	r.read(func() { known, id = b.known(name, context, cand, id, wanted) })
	if known != nil {
		return cand.entryAt(known), nil
	}
	if wanted == 0 {
		for _, v := range slices.Backward(live) {
			if id >= 0 && v.id != id {
				continue
			}
			switch v.is(cand) {
			case maybe:
				if s, err := r.stored(v); err != nil || s.Resolved() != cand.schema.Resolved() {
					continue
				}
				fallthrough
			case same:
				return cand.entryAt(v), nil
			}
		}
	}
	if !mode.importing() && !g.Force {
		messages, err := r.compare(g, cand, config, live)
		if err != nil {
			return Entry{}, err
		}
		if len(messages) > 0 {
			return Entry{}, failf(CodeIncompatible, incompatibleSubjectText, name, "["+strings.Join(messages, ", ")+"]")
		}
	}
	if wanted < Latest || wanted > 0 && wanted != number && !mode.importing() {
		return Entry{}, failf(CodeInvalidSchema, "Version is not one more than previous version")
	}
	if wanted > 0 {
		number = wanted
	}
	r.read(func() { err = b.put(name, context, number, id, cand, deleted) })
	if err != nil {
		return Entry{}, err
	}
	e := cand.entry()
	e.Subject, e.Version = name, number
	return e, nil
}

// registrable refuses what the mode does not allow.
func (r *Registry) registrable(name string, id int32, mode Mode) error {
	context := qualify(name).contextName()
	switch {
	case mode.readOnly():
		return notPermitted("Subject %s in context %s is in read-only mode", name, context)
	case id >= 0 && !mode.importing():
		return notPermitted("Subject %s in context %s is not in import mode", name, context)
	case id < 0 && mode != ReadWrite:
		return notPermitted("Subject %s in context %s is not in read-write mode", name, context)
	}
	return nil
}

// known is the version of the subject that a schema is already, if any, and otherwise the id that the schema has already.
func (b *Batch) known(name, context string, cand *candidate, id, wanted int32) (*version, int32) {
	c := b.r.contexts[context]
	var has int32 = -1
	if given, ok := b.idsOf(context).byGUID[cand.guid]; ok {
		has = given
	} else if c != nil {
		if given, ok := c.byGUID[cand.guid]; ok {
			has = given
		}
	}
	if has < 0 || id >= 0 && id != has {
		return nil, id
	}
	if wanted == 0 {
		if sub := b.r.subject(name); sub != nil {
			for _, v := range slices.Backward(sub.versions) {
				if v.guid == cand.guid && !v.deleted {
					return v, has
				}
			}
		}
	}
	return nil, has
}

// put adds the records of a new version.
func (b *Batch) put(name, context string, number, id int32, cand *candidate, deleted []*version) error {
	r, ids := b.r, b.idsOf(context)
	c := r.contexts[context]
	var holders []*version
	if c != nil && id >= 0 {
		holders = c.byID[id]
	}
	for _, v := range holders {
		if v.guid == cand.guid && v.typ == cand.typ {
			continue
		}
		if v.subject != r.kept[context] {
			return failf(CodeIDDoesNotMatch, "Overwrite new schema with id %d in context %s is not permitted.", id, qualified{context: context}.contextName())
		}
		_ = b.add(tombstone(v.subject.name, v.number), nil) // nobody has it any more
	}
	if id < 0 {
		if ids.max == math.MaxInt32 {
			return failf(CodeStore, "Error while registering the schema: context %s has used up all ids", context)
		}
		id = ids.max + 1
	}
	// From here on nothing fails: a batch that others share holds a registration as a whole or not at all.
	ids.max, ids.byGUID[cand.guid] = max(ids.max, id), id
	cand.id = id
	if context != DefaultContext && !b.contexts[context] && (c == nil || !c.known) {
		b.contexts[context] = true
		if err := b.add(record(contextKey(context), contextValue{tenant, context})); err != nil {
			return err
		}
	}
	for _, v := range deleted {
		// A deleted version of the same schema gives way to the new one, unless another schema needs it.
		if v.id == id && v.number < number && len(r.referencedBy(SubjectVersion{name, v.number}, true)) == 0 {
			_ = b.add(tombstone(name, v.number), nil)
		}
	}
	b.subjects[name] = true
	return b.add(versionRecord(name, number, &cand.content, false))
}

// retag puts the tags of a request into its schema, which makes it a new version.
func (r *Registry) retag(name string, q *Request) error {
	if len(q.TagsToAdd)+len(q.TagsToRemove) == 0 {
		return nil
	}
	s, err := r.tagged(name, q, entityTags(q.TagsToAdd), entityTags(q.TagsToRemove))
	if err != nil {
		return err
	}
	q.Schema = s
	if q.Version == nil {
		latest := int32(Latest) // so that the metadata say which version it is
		q.Version = &latest
	}
	return nil
}

func (r *Registry) tagged(name string, q *Request, add, remove []EntityTags) (string, error) {
	cand, err := r.parse(name, q, false, false)
	if err != nil {
		return "", err
	}
	if cand == nil {
		return "", failf(CodeInvalidSchema, "Empty schema")
	}
	t, ok := cand.schema.(Tagger)
	if !ok {
		return "", failf(CodeInvalidSchema, "schemas of the type %s cannot carry tags", cand.typ)
	}
	s, err := t.Tagged(add, remove)
	if err != nil {
		return "", failf(CodeInvalidSchema, "%s", err)
	}
	return s.Canonical(), nil
}

// propagate gives a schema the tags of the version before it.
func (r *Registry) propagate(name string, q *Request, prev *version) error {
	s, err := r.stored(prev)
	if err != nil {
		return err
	}
	t, ok := s.(Tagger)
	if !ok || len(t.Tags()) == 0 {
		return nil
	}
	text, err := r.tagged(name, q, t.Tags(), nil)
	if err == nil {
		q.Schema = text
	}
	return err
}

// Tag decides a new version with other tags, metadata or rules than one that there is.
func (b *Batch) Tag(name string, number int, t *TagRequest) (Entry, error) {
	r := b.r
	if err := checkSubject(name, false); err != nil {
		return Entry{}, err
	}
	name = Normalize(name)
	if t.RuleSet != nil && (t.RulesToMerge != nil || t.RulesToRemove != nil) {
		return Entry{}, failf(CodeInvalidRuleSet, "ruleSet should be omitted if specifying rulesToMerge or rulesToRemove")
	}
	for _, rules := range []*RuleSet{t.RuleSet, t.RulesToMerge} {
		if err := rules.check(); err != nil {
			return Entry{}, err
		}
	}
	from, err := r.Version(name, number, false)
	if err != nil {
		return Entry{}, err
	}
	var newVersion int32
	if t.NewVersion != nil {
		newVersion = *t.NewVersion
	}
	rules := t.RuleSet
	if t.RulesToMerge != nil || t.RulesToRemove != nil {
		before := Latest
		if t.NewVersion != nil {
			before = int(newVersion) - 1
		}
		if old, err := r.Version(name, before, false); err == nil {
			rules = old.RuleSet
		}
		rules = mergeRuleSets(rules, t.RulesToMerge).removed(t.RulesToRemove)
	}
	meta := t.Metadata
	if meta == nil {
		meta = from.Metadata
	}
	meta = meta.with(versionProperty, strconv.Itoa(int(newVersion)))
	q := &Request{Schema: from.Schema, Type: from.Type, References: from.References, Metadata: meta, RuleSet: rules, Version: &newVersion}
	if q.Schema, err = r.tagged(name, q, entityTags(t.TagsToAdd), entityTags(t.TagsToRemove)); err != nil {
		return Entry{}, err
	}
	return b.Register(&Registration{Subject: name, Request: q})
}

// referenced is why a version cannot be deleted.
func referenced(subject string, number int32) error {
	return failf(CodeReferenceExists, "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject=%s,version=%d}.", subject, number)
}

// DeleteVersion decides to delete a version, for good where permanent says so, and tells its number.
func (b *Batch) DeleteVersion(name string, number int, permanent bool) (n int32, err error) {
	r := b.r
	name = Normalize(name)
	r.read(func() {
		sub := r.subject(name)
		v := sub.at(int32(number))
		if number == Latest {
			v = sub.latest()
		}
		switch {
		case v == nil && !r.hasSubjects(name, true):
			err = subjectNotFound(name)
			return
		case v == nil:
			err = versionNotFound(number)
			return
		case v.deleted && !permanent:
			err = failf(CodeVersionSoftDeleted, "Subject '%s' Version %d was soft deleted.Set permanent=true to delete permanently", name, number)
			return
		}
		if err = r.writable(name); err != nil {
			return
		}
		if len(r.referencedBy(SubjectVersion{name, v.number}, permanent)) > 0 {
			err = referenced(name, v.number)
			return
		}
		n = v.number
		if !permanent {
			err = b.add(versionRecord(name, v.number, v.content, true))
			return
		}
		if !v.deleted {
			err = failf(CodeVersionNotSoftDeleted, "Subject '%s' Version %d was not deleted first before being permanently deleted", name, v.number)
			return
		}
		err = b.remove(sub, []*version{v})
	})
	return n, err
}

// DeleteSubject decides to delete a subject, for good where permanent says so, and tells which versions that were.
func (b *Batch) DeleteSubject(name string, permanent bool) (numbers []int32, err error) {
	r := b.r
	name = Normalize(name)
	numbers = []int32{}
	r.read(func() {
		sub := r.subject(name)
		switch {
		case sub == nil:
			err = subjectNotFound(name)
			return
		case !permanent && sub.latest() == nil:
			err = failf(CodeSubjectSoftDeleted, "Subject '%s' was soft deleted.Set permanent=true to delete permanently", name)
			return
		}
		if err = r.writable(name); err != nil {
			return
		}
		var gone []*version
		for _, v := range sub.versions {
			if v.deleted && !permanent {
				continue
			}
			for _, by := range r.referencedBy(SubjectVersion{name, v.number}, permanent) {
				if by.subject != sub {
					err = referenced(name, v.number)
					return
				}
			}
			if permanent && !v.deleted {
				err = failf(CodeSubjectNotSoftDeleted, "Subject '%s' was not deleted first before being permanently deleted", name)
				return
			}
			numbers = append(numbers, v.number)
			gone = append(gone, v)
		}
		if permanent {
			err = b.remove(sub, gone)
			return
		}
		last := numbers[len(numbers)-1]
		err = b.add(record(subjectKey(typeDeleteSubject, name), deletion{name, &last}))
	})
	return numbers, err
}

// remove deletes versions for good. A schema that no version has any more keeps its id under a subject of its own: what was written with
// it stays readable, and its id never becomes another schema's.
func (b *Batch) remove(sub *subject, gone []*version) error {
	r, c := b.r, sub.context
	for _, v := range gone {
		if !slices.ContainsFunc(c.byID[v.id], func(o *version) bool { return o.subject != sub || !slices.Contains(gone, o) }) {
			if err := b.add(versionRecord(qualified{c.name, keptSubject}.String(), max(v.id, 1), v.content, true)); err != nil {
				return err
			}
		}
	}
	for _, v := range slices.Backward(gone) { // a later version may refer to an earlier one
		_ = b.add(tombstone(sub.name, v.number), nil)
	}
	if len(gone) < len(sub.versions) {
		return nil
	}
	if _, has := r.modes[sub.name]; has {
		_ = b.add(Record{Key: subjectKey(typeMode, sub.name)}, nil)
	}
	if _, has := r.configs[sub.name]; has {
		_ = b.add(Record{Key: subjectKey(typeConfig, sub.name)}, nil)
	}
	return nil
}

// Compatible judges a schema against versions of a subject: one, the latest, or, where number is 0, all as a registration does. The
// messages say why it does not fit.
func (r *Registry) Compatible(name string, number int, q *Request, normalize bool) (messages []string, err error) {
	name = Normalize(name)
	var config Config
	var earlier []*version
	r.read(func() {
		config = r.configInScope(name)
		sub := r.subject(name)
		switch {
		case number == 0 && sub != nil:
			for _, v := range sub.versions {
				if !v.deleted {
					earlier = append(earlier, v)
				}
			}
		case number == Latest:
			if v := sub.latest(); v != nil {
				earlier = append(earlier, v)
			}
		case number > 0:
			if v := sub.at(int32(number)); v != nil && !v.deleted {
				earlier = append(earlier, v)
			} else {
				err = versionNotFound(number)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	cand, err := r.parse(name, q, or(config.ValidateNewSchemas, r.settings.ValidateNewSchemas), normalize)
	if err != nil {
		return nil, err
	}
	if cand == nil {
		return nil, failf(CodeInvalidSchema, "Empty schema")
	}
	return r.compare(&Registration{}, cand, config, earlier)
}

// compare is why a schema does not fit to earlier versions, oldest first, as the configuration asks for; the answer is remembered with
// the registration.
func (r *Registry) compare(g *Registration, cand *candidate, config Config, earlier []*version) ([]string, error) {
	id := fmt.Sprintf("%x %s %v", cand.guid, config.Compatibility, or(config.ValidateFields, r.settings.ValidateFields))
	if config.CompatibilityGroup != nil {
		id += " " + *config.CompatibilityGroup
	}
	for _, v := range earlier {
		id += fmt.Sprintf(" %d:%p", v.number, v.content)
	}
	if messages, ok := g.checked[id]; ok {
		return messages, nil
	}
	messages, err := r.judge(cand, config, earlier)
	if err == nil {
		g.checked, g.with = map[string][]string{id: messages}, earlier
	}
	return messages, err
}

func (r *Registry) judge(cand *candidate, config Config, earlier []*version) (messages []string, err error) {
	validate := or(config.ValidateFields, r.settings.ValidateFields)
	if validate {
		var prev *version
		if len(earlier) > 0 {
			prev = earlier[len(earlier)-1]
		}
		messages = reservedFields(cand, prev)
	}
	if g := config.CompatibilityGroup; g != nil && *g != "" {
		mine, has := cand.meta.property(*g)
		earlier = slices.DeleteFunc(slices.Clone(earlier), func(v *version) bool {
			other, other_ := v.meta.property(*g)
			return mine != other || has != other_
		})
	}
	if config.Compatibility != None {
		for _, v := range slices.Backward(earlier) {
			var found []string
			if v.typ != cand.typ {
				found = []string{differentType, fmt.Sprintf("{oldSchemaVersion: %d}", v.number), fmt.Sprintf("{oldSchema: '%s'}", v.text)}
			} else {
				old, err := r.stored(v)
				if err != nil {
					return nil, err
				}
				found = CheckCompatibility(cand.schema, config.Compatibility, []Version{{int(v.number), old}})
			}
			if len(found) > 0 {
				messages = append(messages, found...)
				break
			}
			if !config.Compatibility.Transitive() {
				break
			}
		}
	}
	if len(messages) > 0 {
		messages = append(messages, fmt.Sprintf("{validateFields: '%t', compatibility: '%s'}", validate, config.Compatibility))
	}
	return messages, nil
}

// reservedProperty are the names, with commas between them, that fields at the top of a schema may not have.
const reservedProperty = "confluent:reserved"

func reservedFields(cand *candidate, prev *version) (messages []string) {
	names := func(m *Metadata) []string {
		text, _ := m.property(reservedProperty)
		var out []string
		for n := range strings.SplitSeq(text, ",") {
			if n = strings.TrimSpace(n); n != "" {
				out = append(out, n)
			}
		}
		return set(out)
	}
	now := names(cand.meta)
	if prev != nil {
		for _, n := range names(prev.meta) {
			if !slices.Contains(now, n) {
				messages = append(messages, fmt.Sprintf(reservedFieldRemovedText, n))
			}
		}
	}
	top := topFields(cand)
	for _, n := range now {
		if slices.Contains(top, n) {
			messages = append(messages, fmt.Sprintf(reservedFieldConflictingText, n))
		}
	}
	return messages
}
