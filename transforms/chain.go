package transforms

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// A Chain is a connector's transforms in their order, with the predicates that
// guard them. It belongs to one task and is used by one goroutine at a time.
type Chain struct {
	steps   []step
	tested  schema.Record // what a predicate looks at: a record of Apply's own would be new memory each time
	ignored []config.Notice
}

type step struct {
	alias, class string
	transform    Transform
	predicate    Predicate // nil: always
	negate       bool
	run          *programs // of this transform with those behind it that can be one program with it; nil: there are none
}

// A StepError says at which transform a record failed.
type StepError struct {
	Alias string // as the connector's configuration calls it
	Class string
	Err   error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("transform %q (%s): %v", e.Alias, e.Class, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }

// NewChain makes the chain that a connector's configuration describes with the keys
// transforms, transforms.ALIAS.*, predicates and predicates.ALIAS.*. Every wrong key
// is reported, with its full name.
func NewChain(raw map[string]string, transforms plugin.Table[Plugin], predicates plugin.Table[PredicatePlugin]) (*Chain, []*config.Error) {
	var errs []*config.Error
	byAlias := map[string]Predicate{}
	var known []string
	for _, alias := range aliases(raw, "predicates", &errs) {
		d := describePredicate(raw, alias, predicates)
		errs = append(errs, d.errs...)
		known = append(known, alias)
		byAlias[alias] = d.made
	}
	c := &Chain{}
	for _, alias := range aliases(raw, "transforms", &errs) {
		d := describeTransform(raw, alias, transforms)
		errs = append(errs, d.errs...)
		c.ignored = append(c.ignored, d.ignored...)
		s := step{alias: alias, class: d.class, transform: d.made, negate: negate.Get(d.common)}
		if name := predicate.Get(d.common); name != "" {
			p, ok := byAlias[name]
			if !ok {
				errs = append(errs, &config.Error{Key: d.prefix + "predicate", Value: name,
					Reason: fmt.Sprintf("there is no such predicate; the setting predicates lists %s", orNone(known))})
			}
			s.predicate = p
		}
		c.steps = append(c.steps, s)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	for i := range c.steps {
		c.steps[i].run = c.programs(i)
	}
	return c, nil
}

// programs are those of the transforms from the i-th on that can be planned and that no predicate guards; the first may be
// guarded. nil where that is one alone.
func (c *Chain) programs(i int) *programs {
	var ts []planner
	for k, s := range c.steps[i:] {
		t, ok := s.transform.(planner)
		if !ok || k > 0 && s.predicate != nil {
			break
		}
		ts = append(ts, t)
	}
	if len(ts) < 2 {
		return nil
	}
	ps := &programs{}
	ps.init(ts...)
	return ps
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Ignored are the settings of the transforms that have no effect, under their full names, with the reasons.
func (c *Chain) Ignored() []config.Notice { return c.ignored }

// Len is the number of transforms.
func (c *Chain) Len() int { return len(c.steps) }

// Apply passes a record through the chain. keep is false where a transform drops
// it. An error is a *StepError; it concerns this record alone.
func (c *Chain) Apply(r schema.Record) (out schema.Record, keep bool, err error) {
	for i := 0; i < len(c.steps); {
		s := &c.steps[i]
		if s.predicate != nil {
			yes, err := c.test(s.predicate, &r)
			if err != nil {
				return r, false, &StepError{s.alias, s.class, err}
			}
			if yes == s.negate {
				i++
				continue
			}
		}
		if s.run != nil {
			n, err := s.run.together(&r)
			if err != nil {
				s = &c.steps[i+n]
				return r, false, &StepError{s.alias, s.class, err}
			}
			if i += n; n > 0 {
				continue
			}
		}
		if r, keep, err = s.transform.Apply(r); err != nil {
			return r, false, &StepError{s.alias, s.class, err}
		}
		if !keep {
			return r, false, nil
		}
		i++
	}
	return r, true, nil
}

func (c *Chain) test(p Predicate, r *schema.Record) (bool, error) {
	c.tested = *r
	yes, err := p.Test(&c.tested)
	c.tested = schema.Record{}
	return yes, err
}

// A Trace is what one transform of a chain did to a record.
type Trace struct {
	Alias, Class string
	Passed       bool          // the predicate let the record by
	Out          schema.Record // after the transform
	Dropped      bool
	Err          error
}

// Trace is Apply that shows each step, up to the one that drops the record or fails.
func (c *Chain) Trace(r schema.Record) []Trace {
	var out []Trace
	for i := range c.steps {
		s := &c.steps[i]
		t := Trace{Alias: s.alias, Class: s.class}
		if s.predicate != nil {
			yes, err := s.predicate.Test(&r)
			t.Passed, t.Err = yes == s.negate, err
		}
		if !t.Passed && t.Err == nil {
			var keep bool
			r, keep, t.Err = s.transform.Apply(r)
			t.Dropped = !keep && t.Err == nil
		}
		t.Out = r
		if out = append(out, t); t.Dropped || t.Err != nil {
			break
		}
	}
	return out
}

// A Definition is a setting of a configuration's transforms and predicates for
// validate's answer.
type Definition struct {
	Info  config.Info // Name is the full one: transforms.h.type; Group: Transforms: h
	Value any         // parsed, or the default; nil for none
}

// Definitions are the settings of the transforms and predicates that a
// configuration names, in Connect's order, with what is wrong with them. The
// settings transforms and predicates themselves are not among them.
func Definitions(raw map[string]string, transforms plugin.Table[Plugin], predicates plugin.Table[PredicatePlugin]) ([]Definition, []*config.Error) {
	var out []Definition
	var errs, ignored []*config.Error // the lists are checked by who declares them
	for _, alias := range aliases(raw, "transforms", &ignored) {
		d := describeTransform(raw, alias, transforms)
		out, errs = append(out, d.defs...), append(errs, d.errs...)
	}
	for _, alias := range aliases(raw, "predicates", &ignored) {
		d := describePredicate(raw, alias, predicates)
		out, errs = append(out, d.defs...), append(errs, d.errs...)
	}
	return out, errs
}

// MaxAliases is how many names a list of transforms, of predicates or of groups of topics may have: each is looked for among
// all settings, and validation describes each with all classes that there are, so that a body of a few MiB would ask for gigabytes.
const MaxAliases = 500

// TooManyAliases is the reason for which a longer list is refused.
func TooManyAliases(n int) string {
	return fmt.Sprintf("The list has %d names; %d are allowed.", n, MaxAliases)
}

// aliases are the names in the list under key, each once; none of a list that is too long.
func aliases(raw map[string]string, key string, errs *[]*config.Error) []string {
	var out []string
	twice := false
	text := strings.TrimSpace(raw[key])
	if text == "" {
		return nil
	}
	if n := strings.Count(text, ",") + 1; n > MaxAliases {
		*errs = append(*errs, &config.Error{Key: key, Text: TooManyAliases(n)})
		return nil
	}
	parts := strings.Split(text, ",")
	for i, a := range parts {
		a = strings.TrimSpace(a)
		parts[i] = a
		twice = twice || slices.Contains(out, a)
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	list := "[" + strings.Join(parts, ", ") + "]"
	if twice {
		*errs = append(*errs, &config.Error{Key: key, Value: list, Reason: "Duplicate alias provided."})
	}
	if i := slices.Index(out, ""); i >= 0 {
		*errs = append(*errs, &config.Error{Key: key, Value: list, Reason: "An alias is empty."})
		out = slices.Delete(out, i, i+1)
	}
	return out
}

// The settings that every transform has besides its own.
var (
	predicate = config.Key[string]{Name: "predicate", Doc: "Name of the predicate that decides to which records the transform is applied; all where there is none."}
	negate    = config.Key[bool]{Name: "negate", Doc: "Apply the transform where the predicate does not hold."}
	common    = config.Define(predicate, negate)
)

// part is a transform or predicate as a configuration describes it.
type part[T any] struct {
	prefix, class string
	defs          []Definition
	errs          []*config.Error
	ignored       []config.Notice // settings without effect
	common        config.Values   // predicate and negate
	made          T               // where nothing is wrong
}

func describeTransform(raw map[string]string, alias string, table plugin.Table[Plugin]) part[Transform] {
	d := part[Transform]{prefix: "transforms." + alias + "."}
	own := under(raw, d.prefix)
	_, negated := own[negate.Name]
	_, guarded := own[predicate.Name]
	var errs []*config.Error
	d.common, errs = common.Parse(own)
	for _, err := range errs {
		d.errs = append(d.errs, fullName(d.prefix, err))
	}
	if negated && !guarded {
		d.errs = append(d.errs, &config.Error{Key: d.prefix + negate.Name, Text: fmt.Sprintf(
			"Config '%snegate' was provided but there is no config '%spredicate' defining a predicate to be negated.", d.prefix, d.prefix)})
	}
	p, ok := find(&d, own, table, "Transforms: "+alias, "Transformation", "transformation", alias)
	if ok {
		d.made = build(&d, own, p.Config.Merge(common), p.New)
	}
	return d
}

func describePredicate(raw map[string]string, alias string, table plugin.Table[PredicatePlugin]) part[Predicate] {
	d := part[Predicate]{prefix: "predicates." + alias + "."}
	own := under(raw, d.prefix)
	p, ok := find(&d, own, table, "Predicates: "+alias, "Predicate", "predicate", alias)
	if ok {
		d.made = build(&d, own, p.Config, p.New)
	}
	return d
}

// under is the part of a configuration below a prefix, without it.
func under(raw map[string]string, prefix string) map[string]string {
	out := map[string]string{}
	for k, v := range raw {
		if name, ok := strings.CutPrefix(k, prefix); ok {
			out[name] = v
		}
	}
	return out
}

// find looks the class up and describes type and plugin.version.
func find[P plugin.Plugin, T any](d *part[T], own map[string]string, table plugin.Table[P], group, title, word, alias string) (P, bool) {
	var classes []any
	for _, p := range table.All() {
		i := p.Describe()
		name := i.Class
		if name == "" {
			name = i.Name
		}
		classes = append(classes, name)
	}
	slices.SortFunc(classes, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	kind := Definition{Info: config.Info{
		Name: d.prefix + "type", Doc: fmt.Sprintf("Class or alias of the %s %q.", word, alias), Display: title + " type for " + alias, Group: group,
		Type: config.ClassType, Importance: config.High, Width: config.Long, Required: true,
		Recommend: func(config.Values) []any { return classes },
	}}
	name, given := own["type"]
	name = strings.TrimSpace(name)
	p, ok := table.Find(name)
	switch {
	case ok:
		i := p.Describe()
		if d.class = i.Class; d.class == "" {
			d.class = i.Name
		}
		kind.Value = config.Class(name)
	case !given:
		d.errs = append(d.errs, missing(kind.Info.Name))
	default:
		d.errs = append(d.errs, &config.Error{Key: kind.Info.Name, Value: name, Reason: fmt.Sprintf("Class %s could not be found.", name)})
	}
	version := Definition{Info: config.Info{
		Name: d.prefix + "plugin.version", Doc: fmt.Sprintf("Version of the %s %q.", word, alias), Display: title + " version for " + alias, Group: group,
		Order: 1, Type: config.StringType, Importance: config.High, Width: config.Long,
	}}
	if ok && p.Describe().Version != "" {
		v := p.Describe().Version
		version.Info.Default, version.Value = v, v
		version.Info.Recommend = func(config.Values) []any { return []any{v} }
	}
	if v, given := own["plugin.version"]; given {
		version.Value = strings.TrimSpace(v)
	}
	d.defs = append(d.defs, kind, version)
	return p, ok
}

func missing(key string) *config.Error {
	return &config.Error{Key: key, Missing: true, Reason: fmt.Sprintf("Missing required configuration %q which has no default value.", key)}
}

// build parses the part's own settings, describes them and makes the part.
func build[T any](d *part[T], own map[string]string, def config.Def, make func(config.Values) (T, error)) (made T) {
	v, errs := def.Parse(own)
	for _, n := range v.Ignored() {
		d.ignored = append(d.ignored, config.Notice{Key: d.prefix + n.Key, Reason: n.Reason})
	}
	infos := def.Infos()
	slices.SortStableFunc(infos, inConnectsOrder)
	group := d.defs[0].Info.Group
	for n, i := range infos {
		value := v.Any(i.Name)
		if value == nil {
			// A text that a check refused is shown as it was given.
			if text, given := own[i.Name]; given && (i.Type == config.StringType || i.Type == config.ListType || i.Type == config.ClassType) {
				value = strings.TrimSpace(text)
			}
		}
		i.Name, i.Group, i.Order = d.prefix+i.Name, group, n+2
		d.defs = append(d.defs, Definition{i, value})
	}
	if len(errs) == 0 {
		var err error
		if made, err = make(v); err != nil {
			errs = append(errs, asConfigError(err))
		}
	}
	for _, err := range errs {
		if err.Key != predicate.Name && err.Key != negate.Name { // reported already
			d.errs = append(d.errs, fullName(d.prefix, err))
		}
	}
	return made
}

func asConfigError(err error) *config.Error {
	var e *config.Error
	if errors.As(err, &e) {
		return e
	}
	return &config.Error{Key: "type", Text: err.Error()}
}

// fullName is an error with the prefix before its key.
func fullName(prefix string, e *config.Error) *config.Error {
	if e.Missing && e.Text == "" {
		return missing(prefix + e.Key)
	}
	full := *e
	full.Key = prefix + e.Key
	return &full
}

// inConnectsOrder orders settings without a group: by place, the required ones, by
// importance, by name.
func inConnectsOrder(a, b config.Info) int {
	place := func(i config.Info) int {
		if i.Order == 0 {
			return -1
		}
		return i.Order
	}
	rank := map[config.Importance]int{config.High: 0, config.Medium: 1, config.Low: 2}
	switch {
	case place(a) != place(b):
		return place(a) - place(b)
	case a.Required != b.Required:
		if a.Required {
			return -1
		}
		return 1
	case a.Importance != b.Importance:
		return rank[a.Importance] - rank[b.Importance]
	}
	return strings.Compare(a.Name, b.Name)
}
