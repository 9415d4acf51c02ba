package runtime

import (
	"fmt"

	"millrace/connectors"
	"millrace/runtime/provider"
	"millrace/schema/converters"
	"millrace/schema/plugin"
	"millrace/transforms"
)

// Plugins are the components that a worker can run. They are immutable.
type Plugins struct {
	Sources    plugin.Table[connectors.SourcePlugin]
	Sinks      plugin.Table[connectors.SinkPlugin]
	Transforms plugin.Table[transforms.Plugin]
	Predicates plugin.Table[transforms.PredicatePlugin]
	Converters plugin.Table[converters.Plugin]
	Providers  plugin.Table[provider.Plugin]
}

// NewPlugins sorts a binary's list of plugin values by their kinds. An element is a
// SourcePlugin, SinkPlugin, Plugin or PredicatePlugin of transforms, or a Plugin of
// converters or config providers; anything else, and two of a kind with one name, is an error.
func NewPlugins(list ...plugin.Plugin) (*Plugins, error) {
	var sources []connectors.SourcePlugin
	var sinks []connectors.SinkPlugin
	var smts []transforms.Plugin
	var predicates []transforms.PredicatePlugin
	var convs []converters.Plugin
	var providers []provider.Plugin
	for _, p := range list {
		switch p := p.(type) {
		case connectors.SourcePlugin:
			sources = append(sources, p)
		case connectors.SinkPlugin:
			sinks = append(sinks, p)
		case transforms.Plugin:
			smts = append(smts, p)
		case transforms.PredicatePlugin:
			predicates = append(predicates, p)
		case converters.Plugin:
			convs = append(convs, p)
		case provider.Plugin:
			providers = append(providers, p)
		default:
			return nil, fmt.Errorf("plugin %s: %T is no kind of plugin that a worker can run", p.Describe().Name, p)
		}
	}
	var out Plugins
	var err error
	if out.Sources, err = plugin.NewTable(sources...); err != nil {
		return nil, err
	}
	if out.Sinks, err = plugin.NewTable(sinks...); err != nil {
		return nil, err
	}
	if out.Transforms, err = plugin.NewTable(smts...); err != nil {
		return nil, err
	}
	if out.Predicates, err = plugin.NewTable(predicates...); err != nil {
		return nil, err
	}
	if out.Converters, err = plugin.NewTable(convs...); err != nil {
		return nil, err
	}
	if out.Providers, err = plugin.NewTable(providers...); err != nil {
		return nil, err
	}
	return &out, nil
}
