package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Def is a component's settings, in the order in which listings show them. It is
// immutable and safe for concurrent use. The zero Def has no settings.
type Def struct {
	fields []Field
	byName map[string]Field
	ignore map[string]string // key → why it has no meaning here
	first  int               // see OrderedFrom
}

// Define makes a Def. A name twice is a bug, so Define panics.
func Define(fields ...Field) Def {
	d := Def{byName: make(map[string]Field, len(fields))}
	return d.With(fields...)
}

// With is d with more settings behind its own.
func (d Def) With(fields ...Field) Def {
	n := Def{byName: maps.Clone(d.byName), fields: slices.Clone(d.fields), ignore: d.ignore, first: d.first}
	if n.byName == nil {
		n.byName = map[string]Field{}
	}
	for _, f := range fields {
		name := f.info().Name
		if _, twice := n.byName[name]; twice {
			panic("config: key " + name + " declared twice")
		}
		n.byName[name] = f
		n.fields = append(n.fields, f)
	}
	return n
}

// Merge is d with the settings of o behind its own.
func (d Def) Merge(o Def) Def {
	n := d.With(o.fields...)
	n.ignore = maps.Clone(d.ignore)
	if n.ignore == nil {
		n.ignore = map[string]string{}
	}
	maps.Copy(n.ignore, o.ignore)
	return n
}

// Replacing is d with f in the place of the setting of the same name: with another default, say. Its key is read as before. That there is
// none is a bug, so Replacing panics.
func (d Def) Replacing(f Field) Def {
	n := d.With()
	name := f.info().Name
	at := slices.IndexFunc(n.fields, func(old Field) bool { return old.info().Name == name })
	if at < 0 {
		panic("config: there is no key " + name + " to be replaced")
	}
	n.fields[at], n.byName[name] = f, f
	return n
}

// Ignoring is d with keys that existing configurations may hold and that have no
// meaning here, each with the reason. They are accepted and reported as notices. A key that
// ends in ".*" stands for all that begin so.
func (d Def) Ignoring(reasons map[string]string) Def {
	n := d.With()
	n.ignore = maps.Clone(d.ignore)
	if n.ignore == nil {
		n.ignore = map[string]string{}
	}
	maps.Copy(n.ignore, reasons)
	return n
}

// OrderedFrom is d with n as the place of the first key of each group, for keys that
// name no place themselves. It is 0 where this was not said.
func (d Def) OrderedFrom(n int) Def {
	out := d.With()
	out.first = n
	return out
}

// First is what OrderedFrom said.
func (d Def) First() int { return d.first }

// Infos are the settings in their order, without internal ones.
func (d Def) Infos() []Info { return d.infos(false) }

// Internals are the internal settings in their order: what configurations may hold although
// the original's listings do not have it.
func (d Def) Internals() []Info { return d.infos(true) }

func (d Def) infos(internal bool) []Info {
	out := make([]Info, 0, len(d.fields))
	for _, f := range d.fields {
		if i := f.info(); i.Internal == internal {
			out = append(out, i)
		}
	}
	return out
}

// Info is what is known of the named setting, and whether it is declared.
func (d Def) Info(name string) (Info, bool) {
	f, ok := d.byName[name]
	if !ok {
		return Info{}, false
	}
	return f.info(), true
}

// Ignored are the keys without a meaning here, with the reasons.
func (d Def) Ignored() map[string]string { return maps.Clone(d.ignore) }

// Parse reads a configuration and reports every wrong key, not the first. The
// values are usable as far as they are right. Keys that are not declared are kept
// in Values.Raw, and are no error.
func (d Def) Parse(raw map[string]string) (Values, []*Error) {
	v := Values{Raw: raw, parsed: make(map[string]any, len(d.fields)), given: make(map[string]bool, len(raw)), def: d}
	var errs []*Error
	for _, f := range d.fields {
		i := f.info()
		text, ok := raw[i.Name]
		if !ok {
			v.parsed[i.Name] = f.absent()
			if i.Required {
				errs = append(errs, &Error{Key: i.Name, Missing: true,
					Reason: fmt.Sprintf("Missing required configuration %q which has no default value.", i.Name)})
			}
			continue
		}
		v.given[i.Name] = true
		x, err := f.parse(text)
		if err != nil {
			errs = append(errs, err)
		}
		v.parsed[i.Name] = x
	}
	return v, errs
}

// Values is a parsed configuration. Settings are read through their keys.
type Values struct {
	Raw    map[string]string // as given, undeclared keys included; must not be changed
	parsed map[string]any
	given  map[string]bool
	def    Def
}

// Any is the parsed value of a declared setting, nil where it has none, for code
// that handles settings by name: listings and forms.
func (v Values) Any(name string) any { return v.parsed[name] }

// Given reports whether the configuration itself gives the named key.
func (v Values) Given(name string) bool { return v.given[name] }

// A Notice says of a given key that it has no effect, and why.
type Notice struct{ Key, Reason string }

// Ignored are the given keys that have no meaning here, sorted, with the reasons.
func (v Values) Ignored() []Notice { return v.def.IgnoredIn(v.Raw) }

// IgnoredIn are the keys of raw that have no meaning here, sorted, with the reasons.
func (d Def) IgnoredIn(raw map[string]string) []Notice {
	var out []Notice
	for k := range raw {
		if reason := d.ignored(k); reason != "" {
			out = append(out, Notice{k, reason})
		}
	}
	slices.SortFunc(out, func(a, b Notice) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// ignored is the reason for which a key has no meaning; "": it has one, or is unknown.
func (d Def) ignored(key string) string {
	if reason := d.ignore[key]; reason != "" {
		return reason
	}
	for i := range len(key) {
		if key[i] == '.' {
			if reason := d.ignore[key[:i+1]+"*"]; reason != "" && i+1 < len(key) {
				return reason
			}
		}
	}
	return ""
}

// Undeclared are the given keys that the Def does not know, sorted, without those
// it ignores with a reason.
func (v Values) Undeclared() []string {
	var out []string
	for k := range v.Raw {
		if _, known := v.def.byName[k]; !known && v.def.ignored(k) == "" {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// Shown is the text of a key's value as messages and validation may show it.
func (v Values) Shown(name, text string) string {
	i, ok := v.def.Info(name)
	switch {
	case ok && i.Type == PasswordType:
		return Hidden
	case ok && i.Hide != nil:
		return i.Hide(text)
	}
	return text
}

// shown is the given text of a key for messages, hidden where it is a secret.
func (v Values) shown(name string) string {
	return v.Shown(name, v.Raw[name])
}
