package runtime

import (
	"context"
	"fmt"
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
	errs = append(errs, missingConverters(plugins, l.Worker)...)
	l.Worker.Notices = append(l.Worker.Notices, notices...)
	for i, n := range l.Worker.Notices {
		l.Worker.Notices[i] = l.Secrets.Text(n)
	}
	return l, l.Secrets.ConfigErrors(errs)
}

// missingConverters are the converters that the worker names and that the binary does not have: no connector without one of its own could run.
func missingConverters(plugins *Plugins, c WorkerConfig) (errs []*config.Error) {
	for key, class := range map[string]string{keyConverter.Name: c.KeyConverter, valueConverter.Name: c.ValueConverter, headerConverter.Name: c.HeaderConverter} {
		if _, given := c.Properties[key]; class == "" && !given {
			continue // told as missing
		}
		if _, ok := plugins.Converters.Find(class); !ok {
			errs = append(errs, &config.Error{Key: key, Value: class, Reason: fmt.Sprintf("Class %s could not be found.", class)})
		}
	}
	slices.SortFunc(errs, func(a, b *config.Error) int { return strings.Compare(a.Key, b.Key) })
	return errs
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
