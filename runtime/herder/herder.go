package herder

import (
	"context"
	"errors"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/runtime"
)

// A Log is where everything is kept. *log.Log is one: the embedded log or a cluster.
type Log interface {
	// ClientOpts are what a client needs to reach the log. The slice is the caller's.
	ClientOpts() []kgo.Opt
}

// Config is what a herder needs.
type Config struct {
	Log     Log
	Plugins *runtime.Plugins
	Worker  runtime.WorkerConfig
	Files   *runtime.FileRoots
	Logger  *slog.Logger
	// AdvertisedURL is where other workers reach this one's API: "http://host:8083/".
	AdvertisedURL string
}

// A Herder is this process's part of the group of workers.
type Herder struct{}

// Open verifies or makes the internal topics, reads them to their ends and begins to
// join the group; see Ready. It blocks while the log cannot be reached, until ctx
// ends. ctx bounds the opening alone.
func Open(ctx context.Context, c Config) (*Herder, error) { return nil, errors.ErrUnsupported }

// Ready is closed once the worker has its first assignment.
func (h *Herder) Ready() <-chan struct{} { return nil }

// Done is closed when the herder has ended, by Close or because it cannot go on; Err
// says why.
func (h *Herder) Done() <-chan struct{} { return nil }

// Err is why the herder ended by itself, or nil.
func (h *Herder) Err() error { return nil }

// Close stops the tasks within the worker's grace, commits their offsets, leaves the
// group and closes the clients.
func (h *Herder) Close(ctx context.Context) error { return nil }
