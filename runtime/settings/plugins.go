package settings

import (
	"cmp"
	"slices"

	"millrace/runtime"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// Plugins lists plugins in Connect's order: sinks, sources, then, unless only
// connectors are wanted, transforms, predicates, converters and header converters,
// each kind by class.
func Plugins(p *runtime.Plugins, connectorsOnly bool) []runtime.PluginInfo {
	out := append(list(p.Sinks.All(), "sink"), list(p.Sources.All(), "source")...)
	if connectorsOnly {
		return out
	}
	out = append(out, list(p.Transforms.All(), "transformation")...)
	out = append(out, list(p.Predicates.All(), "predicate")...)
	values, headers := converterKinds(p)
	return append(append(out, values...), headers...)
}

func converterKinds(p *runtime.Plugins) (values, headers []runtime.PluginInfo) {
	for _, c := range p.Converters.All() {
		if c.New != nil || c.NewIn != nil {
			values = append(values, list([]plugin.Plugin{c}, "converter")...)
		}
		if c.NewHeader != nil {
			headers = append(headers, list([]plugin.Plugin{c}, "header_converter")...)
		}
	}
	byClass(values)
	byClass(headers)
	return values, headers
}

func list[P plugin.Plugin](plugins []P, kind string) []runtime.PluginInfo {
	out := []runtime.PluginInfo{}
	for _, p := range plugins {
		i := p.Describe()
		out = append(out, runtime.PluginInfo{Class: ClassOf(i), Type: kind, Version: i.Version, Names: i.Names()})
	}
	byClass(out)
	return out
}

func byClass(l []runtime.PluginInfo) {
	slices.SortFunc(l, func(a, b runtime.PluginInfo) int { return cmp.Compare(a.Class, b.Class) })
}

// ClassOf is a plugin's Java class, or its own name where it has none.
func ClassOf(i plugin.Info) string { return cmp.Or(i.Class, i.Name) }

// PluginConfig describes the settings of any plugin; for a connector those that
// every connector has come first.
func PluginConfig(p *runtime.Plugins, name string) ([]runtime.KeyInfo, error) {
	if c, ok := p.Sinks.Find(name); ok {
		return withShared(Sink, c.Info), nil
	}
	if c, ok := p.Sources.Find(name); ok {
		return withShared(Source, c.Info), nil
	}
	if t, ok := p.Transforms.Find(name); ok {
		return describeAll(t.Config), nil
	}
	if t, ok := p.Predicates.Find(name); ok {
		return describeAll(t.Config), nil
	}
	if c, ok := p.Converters.Find(name); ok {
		return describeAll(c.Config), nil
	}
	return nil, runtime.NotFound("Unknown plugin %s.", name)
}

// withShared lists a connector's settings as Connect does: its own first, then
// those of every connector that it does not declare itself.
func withShared(shared config.Def, c plugin.Info) []runtime.KeyInfo {
	out := describeAll(c.Config)
	for _, k := range describeAll(shared) {
		if _, declared := c.Config.Info(k.Name); declared {
			continue
		}
		if k.Name == PluginVersion.Name {
			k.DefaultValue = &c.Version
		}
		out = append(out, k)
	}
	return out
}
