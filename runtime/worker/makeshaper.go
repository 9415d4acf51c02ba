package worker

import (
	"fmt"
	"log/slog"

	"millrace/connectors"
	"millrace/runtime/settings"
	"millrace/runtime/tolerance"
	"millrace/schema/config"
	"millrace/schema/converters"
	"millrace/transforms"
)

// shaper makes a task's transforms and converters.
func (w *Worker) shaper(v config.Values, conf map[string]string, op *tolerance.Operator) (*shaper, error) {
	sh := &shaper{op: op}
	chain, errs := transforms.NewChain(conf, w.cfg.Plugins.Transforms, w.cfg.Plugins.Predicates)
	if err := wrong(errs); err != nil {
		return nil, err
	}
	if chain.Len() > 0 {
		sh.chain, sh.ignored = chain, chain.Ignored()
	}
	// A connector that names a converter of its own takes none of the worker's settings for it.
	find := func(half string, own config.Key[config.Class], standard string) (converters.Plugin, map[string]string, error) {
		name, from := standard, w.cfg.Worker.Properties
		if own.Has(v) {
			name, from = string(own.Get(v)), conf
		}
		p, ok := w.cfg.Plugins.Converters.Find(name)
		if !ok {
			return p, nil, connectors.BadConfig(fmt.Errorf("%s: no converter is called %q", own.Name, name))
		}
		raw := settings.ConverterConfig(from, half)
		for _, n := range p.Info.Config.IgnoredIn(raw) {
			sh.ignored = append(sh.ignored, config.Notice{Key: half + ".converter." + n.Key, Reason: n.Reason})
		}
		return p, raw, nil
	}
	env := converters.Env{Registry: w.cfg.Registry}
	if w.cfg.Files != nil {
		env.Check = w.cfg.Files.Check
	}
	half := func(name string, own config.Key[config.Class], standard string) (class string, c converters.Converter, err error) {
		p, raw, err := find(name, own, standard)
		if err != nil {
			return "", nil, err
		}
		c, errs := p.MakeIn(env, raw, name == "key")
		if len(errs) > 0 {
			return "", nil, fmt.Errorf("%s.converter: %w", name, wrong(errs))
		}
		return settings.ClassOf(p.Info), c, nil
	}
	var err error
	if sh.keyClass, sh.key, err = half("key", settings.KeyConverter, w.cfg.Worker.KeyConverter); err != nil {
		return nil, err
	}
	if sh.valueClass, sh.value, err = half("value", settings.ValueConverter, w.cfg.Worker.ValueConverter); err != nil {
		return nil, err
	}
	header, raw, err := find("header", settings.HeaderConverter, w.cfg.Worker.HeaderConverter)
	if err != nil {
		return nil, err
	}
	sh.headerClass = settings.ClassOf(header.Info)
	if sh.header, errs = header.MakeHeader(raw); len(errs) > 0 {
		return nil, fmt.Errorf("header.converter: %w", wrong(errs))
	}
	return sh, nil
}

// notices tells of the settings of transforms and converters that have no effect.
func (s *shaper) notices(lg *slog.Logger) {
	for _, n := range s.ignored {
		lg.Info("a setting of a transform or converter has no effect", "setting", n.Key, "reason", n.Reason)
	}
}
