package settings

import (
	"log/slog"
	"maps"
	"slices"
	"strings"

	"millrace/runtime"
	"millrace/schema/config"
)

// overrides lists a connector's settings for its clients as Connect does: of each kind of client that the
// connector has, first those that no such client knows, without a definition, then the others. What is
// wrong with settings of clients that it has not is told as well.
func (d *Validator) overrides(a *answer, sink, deadLetters bool) (infos []runtime.ConfigInfo, errors int) {
	shown := []runtime.ClientKind{runtime.Producer, runtime.Admin}
	if sink {
		shown = []runtime.ClientKind{runtime.Consumer}
		if deadLetters {
			shown = []runtime.ClientKind{runtime.Producer, runtime.Consumer, runtime.Admin}
		}
	}
	for _, kind := range []runtime.ClientKind{runtime.Producer, runtime.Consumer, runtime.Admin} {
		prefix := string(kind) + ".override."
		var names []string
		for _, key := range slices.Sorted(maps.Keys(a.raw)) {
			if name, ok := strings.CutPrefix(key, prefix); ok {
				names = append(names, name)
			}
		}
		client, wrong := d.Worker.ClientOverrides(kind, a.raw)
		if len(wrong) == 0 && client.Identity != nil {
			_, wrong = client.Identity.Options(d.Context(a.raw[Name.Name]).Files, slog.New(slog.DiscardHandler))
		}
		texts := map[string][]string{}
		for _, e := range wrong {
			if strings.HasPrefix(e.Key, prefix) { // the worker's own were told when it started
				texts[e.Key] = append(texts[e.Key], e.Error())
			}
		}
		def := runtime.ClientSettings(kind)
		var known []runtime.ConfigInfo
		for _, name := range names {
			key := prefix + name
			if !slices.Contains(shown, kind) && texts[key] == nil {
				continue
			}
			value := runtime.ShownClientValue(kind, name, a.raw[key])
			if _, shown := a.shown[key]; shown {
				value = a.shown[key]
			}
			info := runtime.ConfigInfo{Value: runtime.ValueInfo{Name: key, Value: &value, RecommendedValues: []string{}, Errors: append([]string{}, texts[key]...), Visible: true}}
			errors += len(texts[key])
			i, ok := def.Info(name)
			if !ok {
				infos = append(infos, info)
				continue
			}
			k := describe(i, 0)
			k.Name = key
			info.Definition = &k
			known = append(known, info)
		}
		infos = append(infos, known...)
	}
	return infos, errors
}

// checkLogins refuses login modules in settings of clients that a connector has beside the worker's.
func checkLogins(a *answer) {
	for _, e := range runtime.CheckJaas(a.raw) {
		if !isOverride(e.Key) {
			a.add(e)
		}
	}
}

func isOverride(key string) bool {
	for _, kind := range []runtime.ClientKind{runtime.Producer, runtime.Consumer, runtime.Admin} {
		if strings.HasPrefix(key, string(kind)+".override.") {
			name := strings.TrimPrefix(key, string(kind)+".override.")
			i, known := runtime.ClientSettings(kind).Info(name)
			return known && i.Type == config.PasswordType // its own check has told
		}
	}
	return false
}
