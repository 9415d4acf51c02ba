package rest

import (
	"net/http"
	"strings"

	"millrace/runtime"
	"millrace/schema/plugin"
)

func (s *Server) plugins(r *http.Request) (any, error) {
	return s.herder.Plugins(r.URL.Query().Get("connectorsOnly") != "false"), nil
}

func (s *Server) pluginConfig(r *http.Request) (any, error) {
	name, err := Param(r, "plugin")
	if err != nil {
		return nil, err
	}
	keys, err := s.herder.PluginConfig(r.Context(), name)
	if err != nil {
		return nil, err
	}
	want := strings.TrimSpace(r.URL.Query().Get("version"))
	for _, p := range s.herder.Plugins(false) {
		if !p.Is(name) {
			continue
		}
		fits, err := plugin.Info{Version: p.Version}.Satisfies(want)
		if err != nil {
			return nil, runtime.BadRequest("version: %.200s", err)
		}
		if !fits {
			if !strings.ContainsAny(want, "[(") {
				want = "[" + want + "," + want + "]" // as Connect shows it
			}
			return nil, runtime.BadRequest("Plugin %s not found that matches the version range %.100s, available versions: [%s]", p.Class, want, p.Version)
		}
	}
	return keys, nil
}

func (s *Server) validate(r *http.Request) (any, error) {
	name, err := Param(r, "plugin")
	if err != nil {
		return nil, err
	}
	var body runtime.FlatConfig
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	config, err := required(&body)
	if err != nil {
		return nil, err
	}
	if class, ok := config["connector.class"]; ok && !s.samePlugin(class, name) {
		return nil, runtime.BadRequest("Included connector type %s does not match request type %s", class, name)
	}
	return s.herder.Validate(r.Context(), config)
}

// samePlugin reports whether a configuration's class and the path's name mean the
// same connector: Connect compares the ends of both, without the word Connector;
// our own short names are looked up.
func (s *Server) samePlugin(class, name string) bool {
	bare := func(n string) string {
		if n == "Connector" {
			return n
		}
		return strings.TrimSuffix(n, "Connector")
	}
	if strings.HasSuffix(bare(class), bare(name)) {
		return true
	}
	for _, p := range s.herder.Plugins(true) {
		if p.Is(class) && p.Is(name) {
			return true
		}
	}
	return false
}
