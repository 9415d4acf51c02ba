package herder

import (
	"maps"

	"millrace/runtime"
	"millrace/runtime/settings"
)

// shown is a connector's configuration as calls that return configurations show it.
func (h *Herder) shown(conf map[string]string) map[string]string {
	if !h.cfg.Worker.REST.HideSecrets {
		return maps.Clone(conf)
	}
	return h.validator.Hidden(conf)
}

// shownTask is a task's: what is secret of it, its connector's configuration says.
func (h *Herder) shownTask(connector, task map[string]string) map[string]string {
	if !h.cfg.Worker.REST.HideSecrets {
		return maps.Clone(task)
	}
	whole := maps.Clone(connector)
	maps.Copy(whole, task)
	hidden := h.validator.Hidden(whole)
	maps.DeleteFunc(hidden, func(key, _ string) bool { _, of := task[key]; return !of })
	return hidden
}

// kept is what a client sends for a connector, with the secrets that are stored in the place of their masks.
func (h *Herder) kept(name string, conf map[string]string) (map[string]string, error) {
	var stored map[string]string
	if c := h.configs.Now().Connectors[name]; c != nil {
		stored = c.Config
	}
	out, errs := h.validator.Keep(conf, stored)
	if len(errs) > 0 {
		infos := runtime.ConfigInfos{ErrorCount: len(errs)}
		for _, e := range errs {
			infos.Configs = append(infos.Configs, runtime.ConfigInfo{Value: runtime.ValueInfo{Errors: []string{e.Error()}}})
		}
		return nil, runtime.BadRequest("%s", settings.ErrorText(infos))
	}
	return out, nil
}
