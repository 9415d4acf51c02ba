package settings

import (
	"maps"
	"slices"
	"strings"

	"millrace/runtime"
	"millrace/runtime/provider"
	"millrace/schema/config"
	"millrace/transforms"
)

// hiding says how each setting of a configuration is shown where its secrets are not: as it is, in part, or not at
// all. What is declared decides; of what nobody declares, the name.
func (d *Validator) hiding(raw map[string]string) func(key, text string) string {
	declared := map[string]config.Info{}
	def := func(prefix string, def config.Def) {
		for _, i := range def.Infos() {
			declared[prefix+i.Name] = i
		}
	}
	def("", Source)
	def("", Sink)
	if c, err := d.find(raw); err == nil {
		def("", c.Config)
	}
	for _, half := range []string{"key", "value", "header"} {
		if p, ok := d.Plugins.Converters.Find(strings.TrimSpace(raw[half+".converter"])); ok {
			def(half+".converter.", p.Config)
		}
	}
	chain, _ := transforms.Definitions(raw, d.Plugins.Transforms, d.Plugins.Predicates)
	for _, s := range chain {
		declared[s.Info.Name] = s.Info
	}
	own := func(key, text string) string {
		if text == "" || provider.OnlyVariables(text) {
			return text // a reference tells nothing
		}
		for _, kind := range []runtime.ClientKind{runtime.Producer, runtime.Consumer, runtime.Admin} {
			if name, ok := strings.CutPrefix(key, string(kind)+".override."); ok {
				return runtime.ShownClientValue(kind, name, text)
			}
		}
		i, ok := declared[key]
		switch {
		case !ok && runtime.SecretName(key), ok && i.Type == config.PasswordType:
			return config.Hidden
		case ok && i.Hide != nil:
			return i.Hide(text)
		}
		return text
	}
	// A connector may have put a secret into another setting: a URL with its password.
	var values []string
	for key, text := range raw {
		if len(text) >= longSecret && own(key, text) == config.Hidden {
			values = append(values, text)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	return func(key, text string) string {
		if shown := own(key, text); shown != text {
			return shown
		}
		for _, secret := range values {
			text = strings.ReplaceAll(text, secret, config.Hidden)
		}
		return text
	}
}

// longSecret is the length from which a secret is hidden inside of other settings, too.
const longSecret = 6

// Hidden is a connector's, or one of its tasks', configuration without its secrets. conf is not changed.
func (d *Validator) Hidden(conf map[string]string) map[string]string {
	shown := d.hiding(conf)
	out := maps.Clone(conf)
	for key, text := range out {
		out[key] = shown(key, text)
	}
	return out
}

// Keep is a configuration that a client sends, with what is stored in the place of what it was shown: a secret that
// comes back as [hidden] stays what it is. Where nothing is stored that it could be, that is an error on the key.
func (d *Validator) Keep(sent, stored map[string]string) (map[string]string, []*config.Error) {
	out := maps.Clone(sent)
	var errs []*config.Error
	shown, was := d.hiding(sent), d.hiding(stored)
	for key, text := range sent {
		if !strings.Contains(text, config.Hidden) {
			continue
		}
		old, there := stored[key]
		switch {
		case there && text == was(key, old) && text != old:
			out[key] = old
		case text == config.Hidden && shown(key, "x") == config.Hidden:
			errs = append(errs, &config.Error{Key: key, Value: text, Reason: "it stands for a secret that is stored, and there is none under this key; give the secret, or a variable of a config provider"})
		}
	}
	return out, errs
}
