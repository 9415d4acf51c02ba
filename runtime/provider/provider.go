package provider

import (
	"context"
	"log/slog"
	"os"
	"time"

	"millrace/schema/config"
	"millrace/schema/plugin"
)

// A Plugin is a kind of config provider.
type Plugin struct {
	plugin.Info
	// New makes a provider with its parameters (config.providers.NAME.param.*).
	New func(c Context, v config.Values) (Provider, error)
}

// A Provider looks values up. Its method may be called concurrently.
type Provider interface {
	// Get returns the values of keys below path; a key that there is not is left out. An
	// error tells nothing of what lies outside of what the provider may read.
	Get(ctx context.Context, path string, keys []string) (Data, error)
}

// Data is what a provider found.
type Data struct {
	Values map[string]string
	// TTL is how long the values hold; the connector is then restarted, unless its
	// config.action.reload says none. 0: for ever.
	TTL time.Duration
}

// Context is what a provider may ask of its worker.
type Context struct {
	Files Files
	Log   *slog.Logger
}

// Files opens files for providers.
type Files interface {
	// Open opens a regular file for reading, following links only as far as they lead to
	// what may be opened: below roots, or, with none, below the worker's own. An access to
	// anything else is an OutsideError, whether or not it is there.
	Open(path string, roots []string) (*os.File, error)
}

// All are the providers that come with the binary.
func All() []Plugin { return []Plugin{File, Directory, Env} }

// maxBytes bounds a file that a provider reads.
const maxBytes = 1 << 20
