package runtime

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"millrace/runtime/provider"
	"millrace/schema/config"
)

// A Loaded is a worker's configuration with what its variables needed.
type Loaded struct {
	Worker    WorkerConfig
	Providers *provider.Set
	// Secrets are the values that the worker's own settings took from providers.
	Secrets *provider.Secrets
}

// LoadWorker reads a worker's properties: the config providers that they name are made, and variables in
// other settings get their values, before those are read. Every wrong setting is reported, none of its
// secrets.
func LoadWorker(ctx context.Context, plugins *Plugins, properties map[string]string, files *FileRoots, lg *slog.Logger) (Loaded, []*config.Error) {
	set, notices, errs := provider.Open(plugins.Providers, properties, provider.Context{Files: files, Log: lg})
	if len(errs) > 0 {
		return Loaded{}, errs
	}
	resolved, errs := set.Resolve(ctx, properties)
	if len(errs) > 0 {
		return Loaded{}, errs
	}
	l := Loaded{Providers: set, Secrets: resolved.Secrets()}
	l.Worker, errs = ParseWorker(resolved.Values)
	l.Worker.Notices = append(l.Worker.Notices, notices...)
	for i, n := range l.Worker.Notices {
		l.Worker.Notices[i] = l.Secrets.Text(n)
	}
	return l, l.Secrets.ConfigErrors(errs)
}

// FileRootsOf are the folders of file.roots, before anything else of the properties is read.
func FileRootsOf(properties map[string]string) []string {
	v, _ := config.Define(fileRoots).Parse(properties)
	return fileRoots.Get(v)
}

// OwnFiles are the files that the worker's own settings name: keys, certificates, passwords. No
// connector and no provider opens them.
func OwnFiles(properties map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		path := strings.TrimSpace(properties[key])
		own := strings.HasSuffix(key, "ssl.keystore.location") || key == "rest.auth.file" || key == logUsersFile.Name
		if own && path != "" && !provider.HasVariables(path) {
			out = append(out, path)
		}
	}
	return out
}
