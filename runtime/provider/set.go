package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/schema/config"
	"millrace/schema/plugin"
)

// providersKey lists the providers of a worker by the names that variables use.
var providersKey = config.Key[[]string]{Name: "config.providers", Doc: "Names of config providers, as variables use them (`${NAME:path:key}`). Each has a class under config.providers.NAME.class and parameters under config.providers.NAME.param.*. None is there by itself.", EmptyDefault: true, Importance: config.Low, Check: names}

// Settings are the worker's settings of its providers.
var Settings = config.Define(providersKey)

// Prefix begins the settings of single providers.
const Prefix = "config.providers."

func names(list []string) error {
	seen := map[string]bool{}
	for _, n := range list {
		switch {
		case n == "":
			return errors.New("a provider needs a name")
		case strings.ContainsAny(n, ":}."):
			return fmt.Errorf("%q cannot be a provider's name: it holds one of : } and the point", n)
		case seen[n]:
			return fmt.Errorf("provider %q is listed twice", n)
		}
		seen[n] = true
	}
	return nil
}

// A Set is a worker's providers by name. It is safe for concurrent use. A nil Set has none.
type Set struct {
	byName map[string]Provider
	lg     *slog.Logger
}

// Open makes the providers that a worker's properties name, and reports every wrong setting and those
// that have no effect.
func Open(plugins plugin.Table[Plugin], properties map[string]string, c Context) (*Set, []string, []*config.Error) {
	v, errs := Settings.Parse(properties)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Set{byName: map[string]Provider{}, lg: c.Log}
	mine := map[string]bool{providersKey.Name: true}
	for _, name := range providersKey.Get(v) {
		classKey, prefix := Prefix+name+".class", Prefix+name+".param."
		mine[classKey] = true
		class := strings.TrimSpace(properties[classKey])
		p, ok := plugins.Find(class)
		if !ok {
			var there []string
			for _, p := range plugins.All() {
				there = append(there, p.Class)
			}
			reason := "no config provider is called so; there are " + strings.Join(there, ", ")
			if class == "" {
				reason = fmt.Sprintf("provider %q needs a class: one of %s", name, strings.Join(there, ", "))
			}
			errs = append(errs, &config.Error{Key: classKey, Value: class, Reason: reason})
			continue
		}
		params := map[string]string{}
		for key, value := range properties {
			if own, ok := strings.CutPrefix(key, prefix); ok {
				params[own] = value
			}
		}
		own, wrong := p.Config.Parse(params)
		for _, e := range wrong {
			errs = append(errs, &config.Error{Key: prefix + e.Key, Value: e.Value, Reason: e.Reason, Missing: e.Missing})
		}
		if len(wrong) > 0 {
			continue
		}
		unknown := own.Undeclared()
		for key := range params {
			if !slices.Contains(unknown, key) {
				mine[prefix+key] = true
			}
		}
		made, err := p.New(c, own)
		if err != nil {
			errs = append(errs, &config.Error{Key: classKey, Value: class, Reason: err.Error()})
			continue
		}
		s.byName[name] = made
	}
	var notices []string
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if strings.HasPrefix(key, Prefix) && !mine[key] {
			notices = append(notices, key+" is no setting of a provider that config.providers names, and is ignored")
		}
	}
	return s, notices, errs
}

// A Resolved is a configuration with values in the place of its variables.
type Resolved struct {
	Values map[string]string
	// TTL is the shortest time for which one of the values holds; 0: for ever.
	TTL time.Duration

	raw    map[string]string
	active bool // there are providers
	given  []given
}

// given is what a provider gave for a variable.
type given struct{ text, value string }

// Resolve puts values in the place of a configuration's variables, as Kafka does: a variable of a provider
// that there is not, or of a key that the provider has not, stays as it is; a provider that fails is an error on
// every key that asks it. Values are not looked at again. raw is not changed.
func (s *Set) Resolve(ctx context.Context, raw map[string]string) (Resolved, []*config.Error) {
	r := Resolved{Values: raw, raw: raw}
	if s == nil || len(s.byName) == 0 {
		return r, nil
	}
	r.active = true
	type place struct{ provider, path string }
	wanted, by := map[place][]string{}, map[place][]string{}
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		for _, v := range variables(raw[key]) {
			if s.byName[v.provider] == nil {
				continue
			}
			at := place{v.provider, v.path}
			if !slices.Contains(wanted[at], v.key) {
				wanted[at] = append(wanted[at], v.key)
			}
			by[at] = append(by[at], key)
		}
	}
	if len(wanted) == 0 {
		return r, nil
	}
	found := map[place]map[string]string{}
	var errs []*config.Error
	for at, keys := range wanted {
		d, err := s.byName[at.provider].Get(ctx, at.path, keys)
		if err != nil {
			for _, key := range slices.Compact(by[at]) {
				errs = append(errs, &config.Error{Key: key, Value: raw[key], Reason: fmt.Sprintf("config provider %q: %v", at.provider, err)})
			}
			continue
		}
		found[at] = d.Values
		if d.TTL > 0 && (r.TTL == 0 || d.TTL < r.TTL) {
			r.TTL = d.TTL
		}
	}
	if len(errs) > 0 {
		slices.SortFunc(errs, func(a, b *config.Error) int { return strings.Compare(a.Key, b.Key) })
		return r, errs
	}
	r.Values = maps.Clone(raw)
	for key, text := range raw {
		vars := variables(text)
		if len(vars) == 0 {
			continue
		}
		var b strings.Builder
		last := 0
		for _, v := range vars {
			at := place{v.provider, v.path}
			if s.byName[v.provider] == nil {
				continue
			}
			value, ok := found[at][v.key]
			if !ok {
				s.lg.Warn("a variable stays as it is: its provider has no such key", "setting", key, "variable", text[v.at:v.end])
				continue
			}
			b.WriteString(text[last:v.at])
			b.WriteString(value)
			last = v.end
			r.given = append(r.given, given{text[v.at:v.end], value})
		}
		b.WriteString(text[last:])
		r.Values[key] = b.String()
	}
	return r, nil
}

// Secrets are the values that providers gave.
func (r Resolved) Secrets() *Secrets {
	var values []string
	for _, g := range r.given {
		values = append(values, g.value)
	}
	return NewSecrets(values...)
}

// wholeValue is the length from which a value that a connector wrote into a setting of another name is taken
// for the provider's: shorter ones are in many texts by chance.
const wholeValue = 8

// Stored is a task's configuration, planned from the values, as it may be stored: with variables where the values
// were. An error names the setting that cannot be stored so.
func (r Resolved) Stored(planned map[string]string) (map[string]string, error) {
	if !r.active {
		return planned, nil
	}
	longest := slices.Clone(r.given)
	slices.SortStableFunc(longest, func(a, b given) int { return len(b.value) - len(a.value) })
	out := maps.Clone(planned)
	for key, text := range planned {
		if raw, same := r.raw[key]; same && r.Values[key] == text {
			out[key] = raw
			continue
		}
		if HasVariables(text) {
			return nil, fmt.Errorf("setting %s of a task holds a value that looks like a variable and would be taken for one; change what its provider gives", key)
		}
		for _, g := range longest {
			if len(g.value) >= wholeValue {
				text = strings.ReplaceAll(text, g.value, g.text)
			}
		}
		out[key] = text
	}
	return out, nil
}
