package rest

import (
	"net/http"
	"strings"

	"millrace/runtime"
)

func (s *Server) plugins(r *http.Request) (any, error) {
	return s.herder.Plugins(r.URL.Query().Get("connectorsOnly") != "false"), nil
}

func (s *Server) pluginConfig(r *http.Request) (any, error) {
	name, err := param(r, "plugin")
	if err != nil {
		return nil, err
	}
	keys, err := s.herder.PluginConfig(r.Context(), name)
	if err != nil {
		return nil, err
	}
	if want := r.URL.Query().Get("version"); want != "" && want != "latest" {
		for _, p := range s.herder.Plugins(false) {
			if p.Is(name) && p.Version != want {
				return nil, runtime.BadRequest("Plugin %s not found that matches the version range [%s,%s], available versions: [%s]",
					p.Class, want, want, p.Version)
			}
		}
	}
	return keys, nil
}

func (s *Server) validate(r *http.Request) (any, error) {
	plugin, err := param(r, "plugin")
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
	if class, ok := config["connector.class"]; ok && !s.samePlugin(class, plugin) {
		return nil, runtime.BadRequest("Included connector type %s does not match request type %s", class, plugin)
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
