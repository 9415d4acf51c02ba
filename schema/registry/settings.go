package registry

import (
	"maps"
	"slices"
	"strings"
)

// configFor is the configuration that a subject, a context or, under the empty name, the registry has of its own; inherited says that
// otherwise the one counts that it inherits: its context's (in the default context the registry's), the global context's, the process's.
func (r *Registry) configFor(name string, inherited bool) *Config {
	level := func(c Config) *Config {
		if c.Compatibility == "" {
			c.Compatibility = r.settings.Compatibility
		}
		return &c
	}
	if c := r.configs[name]; c != nil {
		return level(*c)
	}
	q := qualify(name)
	if !inherited {
		if name == "" || q.context == globalContext {
			return level(Config{})
		}
		return nil
	}
	for _, n := range []string{q.contextName(), qualified{context: globalContext}.contextName()} {
		if c := r.configs[n]; c != nil {
			return level(*c)
		}
	}
	return level(Config{})
}

// configInScope is what counts for a subject: its own configuration with what it leaves to the registry's, or what it inherits.
func (r *Registry) configInScope(name string) Config {
	own := r.configFor(name, false)
	if own == nil || name == "" {
		return *r.configFor(name, true)
	}
	c, all := *own, *r.configFor("", false)
	for _, f := range []struct{ to, from **bool }{
		{&c.Normalize, &all.Normalize}, {&c.ValidateFields, &all.ValidateFields}, {&c.ValidateNewSchemas, &all.ValidateNewSchemas}, {&c.ValidateRules, &all.ValidateRules},
	} {
		if *f.to == nil {
			*f.to = *f.from
		}
	}
	if c.CompatibilityPolicy == "" {
		c.CompatibilityPolicy = all.CompatibilityPolicy
	}
	if c.CompatibilityGroup == nil {
		c.CompatibilityGroup = all.CompatibilityGroup
	}
	return c
}

func or(b *bool, otherwise bool) bool {
	if b != nil {
		return *b
	}
	return otherwise
}

// settingsName is the name under which a subject's settings stand: the empty one for the default context, and so for the registry.
func settingsName(name string) (string, error) {
	if isDefaultContext(name) {
		return "", nil
	}
	return Normalize(name), checkSubject(name, true)
}

// Config is the configuration of a subject or context; of the registry under the empty name.
func (r *Registry) Config(name string, inherited bool) (Config, error) {
	if isDefaultContext(name) {
		name = ""
	}
	name = Normalize(name)
	var c *Config
	r.read(func() {
		if inherited {
			scope := r.configInScope(name)
			c = &scope
		} else {
			c = r.configFor(name, false)
		}
	})
	if c == nil {
		return Config{}, failf(CodeNoSubjectConfig, "Subject '%s' does not have subject-level compatibility configured", name)
	}
	return *c, nil
}

// Normalizes reports whether schemas of a subject are normalized without being asked to.
func (r *Registry) Normalizes(name string) (yes bool) {
	r.read(func() { yes = or(r.configInScope(Normalize(name)).Normalize, false) })
	return yes
}

// modeFor is the mode that a name has of its own, "" for none; inherited as for configFor.
func (r *Registry) modeFor(name string, inherited bool) Mode {
	if inherited && r.modes[""] == ReadOnlyOverride {
		return ReadOnlyOverride
	}
	if m := r.modes[name]; m != "" {
		return m
	}
	q := qualify(name)
	if !inherited {
		if name == "" || q.context == globalContext {
			return ReadWrite
		}
		return ""
	}
	for _, n := range []string{q.contextName(), qualified{context: globalContext}.contextName()} {
		if m := r.modes[n]; m != "" {
			return m
		}
	}
	return ReadWrite
}

// Mode is the mode of a subject or context; of the registry under the empty name.
func (r *Registry) Mode(name string, inherited bool) (Mode, error) {
	if isDefaultContext(name) {
		name = ""
	}
	name = Normalize(name)
	var m Mode
	r.read(func() { m = r.modeFor(name, inherited) })
	if m == "" {
		return "", failf(CodeNoSubjectMode, "Subject '%s' does not have subject-level mode configured", name)
	}
	return m, nil
}

// PutConfig decides a change of a configuration, and tells the one that results.
func (b *Batch) PutConfig(name string, change *ConfigChange) (Config, error) {
	name, err := settingsName(name)
	if err != nil {
		return Config{}, err
	}
	var out *Config
	b.r.read(func() {
		if err = b.r.writable(name); err == nil {
			out, err = change.apply(b.r.configs[name])
		}
	})
	if err != nil {
		return Config{}, err
	}
	return *out, b.add(record(subjectKey(typeConfig, name), configValue{name, *out}))
}

// DeleteConfig decides to remove a configuration, and tells the one there was.
func (b *Batch) DeleteConfig(name string) (Config, error) {
	if isDefaultContext(name) {
		name = ""
	}
	name = Normalize(name)
	var c *Config
	var err error
	b.r.read(func() {
		if c = b.r.configFor(name, false); c == nil {
			err = subjectNotFound(name)
			return
		}
		err = b.r.writable(name)
	})
	if err != nil {
		return Config{}, err
	}
	return *c, b.add(Record{Key: subjectKey(typeConfig, name)}, nil)
}

// writable refuses changes where the mode allows none.
func (r *Registry) writable(name string) error {
	if r.modeFor(name, true).readOnly() {
		return notPermitted("Subject %s in context %s is in read-only mode", nameOrNull(name), qualify(name).contextName())
	}
	return nil
}

// nameOrNull is a name as the original tells it.
func nameOrNull(name string) string {
	if name == "" {
		return "null"
	}
	return name
}

// PutMode decides a mode; the empty one removes what was set. IMPORT wants that there are no subjects, unless it is forced, and forgets
// what was deleted.
func (b *Batch) PutMode(name string, mode Mode, force bool) error {
	if err := checkSubject(name, true); err != nil {
		return err
	}
	name, err := settingsName(name)
	if err != nil {
		return err
	}
	asked := mode
	mode = Mode(strings.ToUpper(string(mode)))
	if mode != "" && !slices.Contains(modes, mode) {
		return &Error{CodeInvalidMode, invalidModeText}
	}
	if asked == Forwarding && qualify(name) != (qualified{context: globalContext}) {
		return failf(CodeInvalidMode, "Forward mode only supported on global level")
	}
	if b.r.settings.ModeImmutable {
		return notPermitted("Mode changes are not allowed")
	}
	b.r.read(func() {
		if mode != Import || b.r.modeFor(name, true) == Import || force {
			return
		}
		if b.r.hasSubjects(name, false) {
			err = notPermitted("Cannot import since found existing subjects")
			return
		}
		for _, sub := range b.r.matching(name) {
			for _, v := range sub.versions {
				if len(b.r.referencedBy(SubjectVersion{sub.name, v.number}, true)) > 0 {
					err = referenced(sub.name, v.number)
					return
				}
				_ = b.add(tombstone(sub.name, v.number), nil)
			}
		}
		q := qualify(name)
		for _, context := range slices.Sorted(maps.Keys(b.r.kept)) {
			if name == "" || q.subject == "" && (q.context == globalContext || q.context == context) {
				kept := b.r.kept[context]
				for _, v := range kept.versions {
					_ = b.add(tombstone(kept.name, v.number), nil)
				}
			}
		}
		err = b.add(record(subjectKey(typeClearSubject, name), deletion{Subject: name}))
	})
	if err != nil {
		return err
	}
	if mode == "" {
		return b.add(Record{Key: subjectKey(typeMode, name)}, nil)
	}
	return b.add(record(subjectKey(typeMode, name), modeValue{name, mode}))
}

// DeleteMode decides to remove a mode, and tells the one there was; recursive removes those of a context's subjects, too.
func (b *Batch) DeleteMode(name string, recursive bool) (Mode, error) {
	if isDefaultContext(name) {
		name = ""
	}
	name = Normalize(name)
	if b.r.settings.ModeImmutable {
		return "", notPermitted("Mode changes are not allowed")
	}
	var m Mode
	names := []string{name}
	b.r.read(func() {
		m = b.r.modeFor(name, false)
		q := qualify(name)
		if recursive && q.subject == "" {
			for _, n := range sortedNames(b.r.modes) {
				if n != name && (qualify(n).context == q.context || q.context == globalContext) {
					names = append(names, n)
				}
			}
		}
	})
	if m == "" && !recursive {
		return "", subjectNotFound(name)
	}
	for _, n := range names {
		if err := b.add(Record{Key: subjectKey(typeMode, n)}, nil); err != nil {
			return "", err
		}
	}
	return m, nil
}

// DeleteContext decides to forget a context, which must have no subjects.
func (b *Batch) DeleteContext(context string) error {
	prefix, err := ContextPrefix(context)
	if err != nil {
		return failf(CodeBadRequest, "%s", err)
	}
	b.r.read(func() {
		if prefix == "" || b.r.hasSubjects(prefix, true) {
			err = failf(CodeContextNotEmpty, "The specified context '%s' is not empty.", cut(prefix))
		}
	})
	if err != nil {
		return err
	}
	return b.add(Record{Key: contextKey(qualify(prefix).context)}, nil)
}
