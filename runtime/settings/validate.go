package settings

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/runtime/provider"
	"millrace/schema/config"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
	"millrace/transforms"
)

// A Validator validates configurations of connectors. It is safe for concurrent use.
type Validator struct {
	Plugins *runtime.Plugins
	Worker  runtime.WorkerConfig
	// Context makes what a connector may ask of the runtime while it validates.
	Context func(name string) connectors.Context
	// Providers put values in the place of variables; nil: there are none.
	Providers *provider.Set
	// ExactlyOnce says that the worker can deliver exactly once.
	ExactlyOnce bool
}

// lookLimit is how long a connector may look around (reach its database) before its
// answer no longer counts.
const lookLimit = 30 * time.Second

// A connector is a source or sink plugin, as far as validation goes.
type connector struct {
	plugin.Info
	sink bool
	new  func(cc connectors.Context, v config.Values) (any, error)
}

// make makes the connector; its panic is an error.
func (c connector) make(cc connectors.Context, v config.Values) (made any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s cannot be made: a bug in the connector: %v", c.Name, p)
		}
	}()
	return c.new(cc, v)
}

// find is the connector that a configuration names.
func (d *Validator) find(raw map[string]string) (connector, error) {
	class, ok := raw[ConnectorClass.Name]
	if class = strings.TrimSpace(class); !ok || class == "" {
		return connector{}, runtime.BadRequest("Connector config {name=%s} contains no connector type", raw[Name.Name])
	}
	if p, ok := d.Plugins.Sources.Find(class); ok {
		return connector{p.Info, false, func(cc connectors.Context, v config.Values) (any, error) { return p.New(cc, v) }}, nil
	}
	if p, ok := d.Plugins.Sinks.Find(class); ok {
		return connector{p.Info, true, func(cc connectors.Context, v config.Values) (any, error) { return p.New(cc, v) }}, nil
	}
	var there []string
	for _, p := range Plugins(d.Plugins, true) {
		there = append(there, p.Class)
	}
	return connector{}, runtime.BadRequest("Failed to find any class that implements Connector and which name matches %s, available connectors are: %s",
		class, strings.Join(there, ", "))
}

// Type is the kind of connector that a configuration names.
func (d *Validator) Type(raw map[string]string) runtime.Type {
	if class := raw[ConnectorClass.Name]; provider.HasVariables(class) {
		r, _ := d.Providers.Resolve(context.Background(), map[string]string{ConnectorClass.Name: class})
		raw = r.Values
	}
	switch c, err := d.find(raw); {
	case err != nil:
		return runtime.UnknownType
	case c.sink:
		return runtime.SinkType
	}
	return runtime.SourceType
}

// Validate describes every setting of a configuration, with what was given and what
// is wrong with it. An error means that there is no such connector. Variables are shown
// as they were given; nothing in the answer is what they stand for.
func (d *Validator) Validate(ctx context.Context, given map[string]string) (runtime.ConfigInfos, error) {
	r, errs := d.Providers.Resolve(ctx, given)
	if len(errs) > 0 {
		return d.unresolved(given, errs)
	}
	secrets := r.Secrets()
	infos, err := d.validate(ctx, r.Values, secrets)
	if err != nil {
		return infos, secrets.Error(err)
	}
	hide(&infos, given, r.Values, secrets)
	return infos, nil
}

// unresolved is the answer where a provider has failed: nothing else can be said.
func (d *Validator) unresolved(given map[string]string, errs []*config.Error) (runtime.ConfigInfos, error) {
	def := Source
	if class := given[ConnectorClass.Name]; !provider.HasVariables(class) {
		c, err := d.find(given)
		if err != nil {
			return runtime.ConfigInfos{}, err
		}
		if c.sink {
			def = Sink
		}
	}
	a := newAnswer(given)
	a.add(errs...)
	keys := describeAll(def)
	return a.infos(given[ConnectorClass.Name], groups(keys, nil), keys), nil
}

// hide shows variables in the place of what they stand for, and takes that out of all else.
func hide(infos *runtime.ConfigInfos, given, resolved map[string]string, secrets *provider.Secrets) {
	if secrets == nil {
		return
	}
	// Names that a provider gave (of transforms) are texts like others.
	named := resolved[Transforms.Name] != given[Transforms.Name] || resolved[Predicates.Name] != given[Predicates.Name]
	clean := func(text string) string {
		if named && (strings.HasPrefix(strings.ToLower(text), "transforms") || strings.HasPrefix(strings.ToLower(text), "predicates")) {
			return secrets.Text(text)
		}
		return text
	}
	infos.Name = given[ConnectorClass.Name]
	for i, g := range infos.Groups {
		infos.Groups[i] = clean(g)
	}
	for i := range infos.Configs {
		v := &infos.Configs[i].Value
		if k := infos.Configs[i].Definition; k != nil {
			name := k.Name
			k.Name = clean(k.Name)
			if named {
				k.Documentation, k.DisplayName = secrets.Text(k.Documentation), secrets.Text(k.DisplayName)
			}
			if k.Group != nil {
				group := clean(*k.Group)
				k.Group = &group
			}
			if raw, ok := given[name]; ok && raw != resolved[name] && k.Type != string(config.PasswordType) {
				v.Value = &raw
			}
		} else if raw, ok := given[v.Name]; ok && raw != resolved[v.Name] && v.Value != nil && *v.Value != config.Hidden {
			v.Value = &raw
		}
		if raw, ok := given[v.Name]; v.Value != nil && (!ok || *v.Value != raw) {
			text := secrets.Text(*v.Value)
			v.Value = &text
		}
		v.Name = clean(v.Name)
		for j, e := range v.Errors {
			v.Errors[j] = secrets.Text(e)
		}
		for j, rec := range v.RecommendedValues {
			v.RecommendedValues[j] = clean(rec)
		}
	}
}

// validate is Validate with values in the place of variables.
func (d *Validator) validate(ctx context.Context, raw map[string]string, secrets *provider.Secrets) (runtime.ConfigInfos, error) {
	c, err := d.find(raw)
	if err != nil {
		return runtime.ConfigInfos{}, err
	}
	a := newAnswer(raw)
	def := Source
	if c.sink {
		def = Sink
	}
	v, errs := def.Parse(raw)
	a.add(errs...)
	if _, given := raw[TasksMax.Name]; given && v.Any(TasksMax.Name) == nil && !refusedByCheck(a.errs[TasksMax.Name]) {
		a.fail(TasksMax.Name, "Invalid value null for configuration tasks.max: Value must be non-null")
	}
	if c.sink {
		d.checkTopics(a, v)
	} else {
		d.checkExactlyOnce(a, v, c)
		if own := OffsetsTopic.Get(v); own != "" && own != d.Worker.OffsetTopic.Name {
			if reason := d.badTopic(own); reason != "" {
				a.fail(OffsetsTopic.Name, fmt.Sprintf("Invalid value %s for configuration %s: %s", own, OffsetsTopic.Name, reason))
			}
		}
		if d.Worker.TopicCreation && len(a.errs[TopicCreationGroups.Name]) == 0 {
			_, errs := NewTopicCreation(TopicCreationGroups.Get(v), raw)
			a.add(errs...)
		}
	}
	defaults := d.checkClasses(a, v, c)
	sharedKeys := describeAll(def)
	for i, k := range sharedKeys {
		if text, ok := defaults[k.Name]; ok {
			sharedKeys[i].DefaultValue = text
		}
	}
	a.values(v, sharedKeys)

	chain, chainErrs := transforms.Definitions(raw, d.Plugins.Transforms, d.Plugins.Predicates)
	a.add(chainErrs...)
	chainKeys := make([]runtime.KeyInfo, 0, len(chain))
	for _, s := range chain {
		k := describe(s.Info, s.Info.Order)
		chainKeys = append(chainKeys, k)
		if s.Value != nil {
			a.shown[k.Name] = config.Text(s.Value)
		}
	}
	for _, k := range chainKeys {
		switch {
		case strings.HasPrefix(k.Name, "transforms.") && strings.HasSuffix(k.Name, ".type"):
			a.recommended[k.Name] = classes(list(d.Plugins.Transforms.All(), ""))
		case strings.HasPrefix(k.Name, "predicates.") && strings.HasSuffix(k.Name, ".type"):
			a.recommended[k.Name] = classes(list(d.Plugins.Predicates.All(), ""))
		case strings.HasSuffix(k.Name, ".plugin.version") && k.DefaultValue != nil:
			a.recommended[k.Name] = []string{*k.DefaultValue}
		}
	}

	own, errs := c.Config.Parse(raw)
	a.add(errs...)
	ownKeys := slices.DeleteFunc(describeAll(c.Config), func(k runtime.KeyInfo) bool { _, is := def.Info(k.Name); return is })
	a.values(own, ownKeys)
	a.advise(own, c.Config)
	checkLogins(a)
	clients, clientErrors := d.overrides(a, c.sink, c.sink && DeadLetterTopic.Get(v) != "")
	// The connector looks for itself where its own settings can be read, so that one answer
	// holds all that is wrong; and where no setting of a client is, which it may well use.
	switch {
	case len(errs) > 0:
		d.check(a, c, errs, secrets)
	case clientErrors == 0:
		d.look(ctx, a, c, own, secrets)
	}
	keys := slices.Concat(sharedKeys, chainKeys, ownKeys)
	names := groups(keys, nil)
	for _, half := range []string{"key", "value", "header"} {
		ks := d.converterKeys(a, half)
		keys, names = append(keys, ks...), groups(ks, names)
	}
	infos := a.infos(raw[ConnectorClass.Name], names, keys)
	infos.Configs = append(infos.Configs, clients...)
	infos.ErrorCount += clientErrors
	for _, n := range own.Ignored() {
		infos.Ignored = append(infos.Ignored, runtime.IgnoredSetting{Name: n.Key, Reason: n.Reason})
	}
	return infos, nil
}

// check lets a connector some of whose settings are wrong say what is wrong with the
// others.
func (d *Validator) check(a *answer, c connector, wrong []*config.Error, secrets *provider.Secrets) {
	defer d.bugs(a, c)
	raw, is := maps.Clone(a.raw), map[string]bool{}
	for _, e := range wrong {
		is[e.Key] = true
		delete(raw, e.Key)
	}
	v, errs := c.Config.Parse(raw)
	if len(errs) > 0 {
		return // a key that it needs is wrong
	}
	cc := d.Context(a.raw[Name.Name])
	cc.Log = secrets.Logger(cc.Log)
	made, err := c.make(cc, v)
	if err != nil {
		return
	}
	if checker, ok := made.(connectors.Checker); ok {
		for _, e := range checker.Check() {
			if !is[e.Key] {
				a.add(e)
			}
		}
	}
}

// bugs is deferred: a connector's bug fails this validation and nothing else.
func (d *Validator) bugs(a *answer, c connector) {
	if p := recover(); p != nil {
		a.fail(ConnectorClass.Name, fmt.Sprintf("%s cannot validate this configuration: a bug in the connector: %v", c.Name, p))
	}
}

// look lets the connector itself say what is wrong.
func (d *Validator) look(ctx context.Context, a *answer, c connector, v config.Values, secrets *provider.Secrets) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	defer d.bugs(a, c)
	cc := d.Context(a.raw[Name.Name])
	cc.Log = secrets.Logger(cc.Log)
	made, err := c.make(cc, v)
	if err != nil {
		if e, ok := err.(*config.Error); ok {
			a.add(e)
			return
		}
		a.fail(ConnectorClass.Name, err.Error())
		return
	}
	if looker, ok := made.(connectors.Validator); ok {
		a.add(looker.Validate(ctx)...)
	}
}

// checkTopics checks which topics a sink reads, and where its dead letters go.
func (d *Validator) checkTopics(a *answer, v config.Values) {
	topics, pattern, dead := Topics.Get(v), TopicsRegex.Get(v), DeadLetterTopic.Get(v)
	switch {
	case len(topics) > 0 && pattern != "":
		a.both("topics and topics.regex are mutually exclusive options, but both are set.")
	case len(topics) == 0 && pattern == "":
		a.both("Must configure one of topics or topics.regex")
	}
	for _, name := range topics {
		if reason := d.badTopic(name); reason != "" {
			a.fail(Topics.Name, fmt.Sprintf("Invalid value %s for configuration %s: %s", name, Topics.Name, reason))
		}
	}
	if reason := d.badTopic(dead); dead != "" && reason != "" {
		a.fail(DeadLetterTopic.Name, fmt.Sprintf("Invalid value %s for configuration %s: %s", dead, DeadLetterTopic.Name, reason))
	}
	if dead != "" && slices.Contains(topics, dead) {
		a.fail(Topics.Name, fmt.Sprintf("The DLQ topic '%s' may not be included in the list of topics ('topics=[%s]') consumed by the connector", dead, strings.Join(topics, ", ")))
	}
	if pattern == "" {
		return
	}
	re, err := javatext.Compile(pattern)
	if err != nil {
		a.fail(TopicsRegex.Name, fmt.Sprintf("Invalid value %s for configuration topics.regex: %v", pattern, err))
		return
	}
	if ok, err := re.MatchWhole(dead); dead != "" && err == nil && ok {
		a.fail(TopicsRegex.Name, fmt.Sprintf("The DLQ topic '%s' may not be included in the regex matching for topics ('topics.regex=%s') consumed by the connector", dead, pattern))
	}
}

// badTopic says why a connector cannot read or write the topic, "" where it can.
func (d *Validator) badTopic(name string) string {
	if i := strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
	}); i >= 0 {
		return "the name of a topic holds letters of ASCII, digits, '.', '_' and '-' alone"
	}
	switch {
	case name == "", name == ".", name == "..":
		return "no topic can have this name"
	case len(name) > maxTopicName:
		return fmt.Sprintf("the name of a topic has at most %d characters, this one has %d", maxTopicName, len(name))
	case name == d.Worker.ConfigTopic.Name, name == d.Worker.OffsetTopic.Name, name == d.Worker.StatusTopic.Name:
		return "this topic is the worker's own, which its connectors neither read nor write"
	}
	return ""
}

// maxTopicName is Kafka's bound.
const maxTopicName = 249

// checkExactlyOnce asks the connector for its guarantees where the configuration
// depends on them. The texts are Connect's.
func (d *Validator) checkExactlyOnce(a *answer, v config.Values, c connector) {
	required := strings.EqualFold(ExactlyOnce.Get(v), "required")
	boundaries := strings.EqualFold(TransactionBoundary.Get(v), "connector")
	if required && !d.ExactlyOnce {
		a.fail(ExactlyOnce.Name, "This worker does not have exactly-once source support enabled.")
	}
	if !required && !boundaries {
		return
	}
	own, errs := c.Config.Parse(a.raw)
	if len(errs) > 0 {
		return // they are reported, and what the connector guarantees depends on them
	}
	made, err := c.make(d.Context(a.raw[Name.Name]), own)
	if err != nil {
		return // look reports it
	}
	g, ok := made.(connectors.Guarantees)
	switch {
	case !required:
	case !ok:
		a.fail(ExactlyOnce.Name, "The connector does not implement the API required for preflight validation of exactly-once source support. "+
			"Please consult the documentation for the connector to determine whether it supports exactly-once semantics, and then consider reconfiguring "+
			"the connector to use the value \"requested\" for this property (which will disable this preflight check and allow the connector to be created).")
	case !g.ExactlyOnce():
		a.fail(ExactlyOnce.Name, "The connector does not support exactly-once semantics with the provided configuration.")
	}
	if boundaries && (!ok || !g.Boundaries()) {
		a.fail(TransactionBoundary.Name, "The connector does not support connector-defined transaction boundaries with the given configuration. "+
			"Please reconfigure it to use a different transaction boundary definition.")
	}
}

// checkClasses looks up the converters that the configuration names and returns the
// defaults that come from the worker: its converters and the plugins' versions.
func (d *Validator) checkClasses(a *answer, v config.Values, c connector) map[string]*string {
	values, headers := converterKinds(d.Plugins)
	out := map[string]*string{PluginVersion.Name: &c.Version}
	a.recommended[PluginVersion.Name] = []string{c.Version}
	if !v.Given(PluginVersion.Name) {
		a.shown[PluginVersion.Name] = c.Version
	} else {
		a.version(PluginVersion, v, c.Info)
	}
	for _, h := range []struct {
		key      config.Key[config.Class]
		version  config.Key[string]
		standard string
		offered  []runtime.PluginInfo
	}{
		{KeyConverter, keyConverterVersion, d.Worker.KeyConverter, values},
		{ValueConverter, valueConverterVersion, d.Worker.ValueConverter, values},
		{HeaderConverter, headerConverterVersion, d.Worker.HeaderConverter, headers},
	} {
		standard := h.standard
		if p, ok := d.Plugins.Converters.Find(standard); ok {
			standard = ClassOf(p.Info)
		}
		out[h.key.Name] = &standard
		a.recommended[h.key.Name] = classes(h.offered)
		name := standard
		if h.key.Has(v) {
			name = string(h.key.Get(v))
		}
		p, ok := d.Plugins.Converters.Find(name)
		if ok && !slices.ContainsFunc(h.offered, func(o runtime.PluginInfo) bool { return o.Is(name) }) {
			a.fail(h.key.Name, fmt.Sprintf("Invalid value %s for configuration %s: Class %s cannot convert this part of a record", name, h.key.Name, name))
			continue
		}
		if !ok {
			a.fail(h.key.Name, fmt.Sprintf("Invalid value %s for configuration %s: Class %s could not be found.", name, h.key.Name, name))
			a.without = append(a.without, h.key.Name)
			a.hidden[h.version.Name] = true
			continue
		}
		version := p.Version
		out[h.version.Name] = &version
		a.recommended[h.version.Name] = []string{version}
		a.shown[h.key.Name] = ClassOf(p.Info)
		if !v.Given(h.version.Name) {
			a.shown[h.version.Name] = version
		} else {
			a.version(h.version, v, p.Info)
		}
	}
	return out
}

// version checks what a configuration says of a plugin's version, in Maven's form.
func (a *answer) version(key config.Key[string], v config.Values, p plugin.Info) {
	switch fits, err := p.Satisfies(key.Get(v)); {
	case err != nil:
		a.add(key.Errorf(v, "%s", err))
	case !fits:
		a.add(key.Errorf(v, "the binary has version %s alone", p.Version))
	}
}

// converterKeys are the settings of a converter that the configuration itself names.
func (d *Validator) converterKeys(a *answer, half string) []runtime.KeyInfo {
	prefix := half + ".converter."
	class, given := a.raw[half+".converter"]
	p, ok := d.Plugins.Converters.Find(strings.TrimSpace(class))
	if !given || !ok {
		return nil
	}
	v, errs := p.Config.Parse(ConverterConfig(a.raw, half))
	for _, e := range errs {
		a.add(&config.Error{Key: prefix + e.Key, Value: e.Value, Missing: e.Missing,
			Reason: strings.ReplaceAll(e.Reason, `"`+e.Key+`"`, `"`+prefix+e.Key+`"`)})
	}
	keys := describeAll(p.Config)
	inJavaOrder(keys)
	for i, k := range keys {
		keys[i].Name = prefix + k.Name
		if x := v.Any(k.Name); x != nil {
			a.shown[keys[i].Name] = v.Shown(k.Name, config.Text(x))
		}
	}
	return keys
}

// ConverterConfig is what a converter's half ("key", "value", "header") is configured
// with: its settings in raw without their prefix, and which half it converts.
func ConverterConfig(raw map[string]string, half string) map[string]string {
	out := map[string]string{"converter.type": half}
	for k, v := range raw {
		if name, ok := strings.CutPrefix(k, half+".converter."); ok && name != "plugin.version" {
			out[name] = v
		}
	}
	return out
}

func classes(plugins []runtime.PluginInfo) []string {
	out := make([]string, len(plugins))
	for i, p := range plugins {
		out[i] = p.Class
	}
	return out
}

// An answer gathers what is known of each key.
type answer struct {
	raw         map[string]string
	errs        map[string][]string
	shown       map[string]string
	recommended map[string][]string
	hidden      map[string]bool
	without     []string // keys whose value is not shown, since it is none
}

func newAnswer(raw map[string]string) *answer {
	return &answer{raw: raw, errs: map[string][]string{}, shown: map[string]string{}, recommended: map[string][]string{}, hidden: map[string]bool{}}
}

func (a *answer) fail(key, text string) { a.errs[key] = append(a.errs[key], text) }

func (a *answer) both(text string) { a.fail(Topics.Name, text); a.fail(TopicsRegex.Name, text) }

func (a *answer) add(errs ...*config.Error) {
	for _, e := range errs {
		a.fail(e.Key, e.Error())
	}
}

// values notes what is shown as the value of each key: what was given where it could
// be read, else the default.
func (a *answer) values(v config.Values, keys []runtime.KeyInfo) {
	for _, k := range keys {
		if _, done := a.shown[k.Name]; done {
			continue
		}
		if x := v.Any(k.Name); x != nil {
			a.shown[k.Name] = v.Shown(k.Name, config.Text(x))
		} else if text, given := a.raw[k.Name]; given && k.Type != string(config.PasswordType) && refusedByCheck(a.errs[k.Name]) {
			a.shown[k.Name] = v.Shown(k.Name, strings.TrimSpace(text))
		}
	}
}

// advise notes what a connector recommends for its settings, and which of them do not
// matter beside the others.
func (a *answer) advise(v config.Values, def config.Def) {
	for _, i := range def.Infos() {
		if i.Recommend != nil {
			var texts []string
			for _, r := range i.Recommend(v) {
				texts = append(texts, config.Text(r))
			}
			a.recommended[i.Name] = texts
		}
		if i.Visible != nil && !i.Visible(v) {
			a.hidden[i.Name] = true
		}
	}
}

// refusedByCheck reports whether a value could be read and was then refused: Connect
// shows such a value, and none that it could not read.
func refusedByCheck(errs []string) bool {
	return len(errs) > 0 && !slices.ContainsFunc(errs, func(e string) bool {
		return strings.Contains(e, ": Not a number of type ") || strings.Contains(e, ": Expected value to be either true or false")
	})
}

func (a *answer) infos(class string, groups []string, keys []runtime.KeyInfo) runtime.ConfigInfos {
	out := runtime.ConfigInfos{Name: class, Groups: groups, Configs: make([]runtime.ConfigInfo, 0, len(keys))}
	known := map[string]bool{}
	for _, k := range keys {
		known[k.Name] = true
		v := runtime.ValueInfo{Name: k.Name, RecommendedValues: []string{}, Errors: []string{}, Visible: !a.hidden[k.Name]}
		if text, ok := a.shown[k.Name]; ok && !slices.Contains(a.without, k.Name) {
			v.Value = &text
		}
		v.RecommendedValues = append(v.RecommendedValues, a.recommended[k.Name]...)
		v.Errors = append(v.Errors, a.errs[k.Name]...)
		out.ErrorCount += len(v.Errors)
		out.Configs = append(out.Configs, runtime.ConfigInfo{Definition: &k, Value: v})
	}
	// An error about a key that is listed nowhere is not lost.
	for _, key := range slices.Sorted(maps.Keys(a.errs)) {
		if known[key] {
			continue
		}
		out.ErrorCount += len(a.errs[key])
		out.Configs = append(out.Configs, runtime.ConfigInfo{
			Definition: &runtime.KeyInfo{Name: key, Type: string(config.StringType), Importance: string(config.Low), OrderInGroup: -1, Width: string(config.NoWidth), DisplayName: key, Dependents: []string{}},
			Value:      runtime.ValueInfo{Name: key, RecommendedValues: []string{}, Errors: a.errs[key], Visible: true},
		})
	}
	return out
}

// ErrorText is the text of the error with which Connect refuses a configuration, ""
// where there is nothing wrong with it.
func ErrorText(infos runtime.ConfigInfos) string {
	if infos.ErrorCount == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Connector configuration is invalid and contains the following %d error(s):", infos.ErrorCount)
	for _, c := range infos.Configs {
		for _, e := range c.Value.Errors {
			b.WriteString("\n" + e)
		}
	}
	b.WriteString("\nYou can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`")
	return b.String()
}
