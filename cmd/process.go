package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"millrace/log"
	"millrace/rest"
	"millrace/runtime"
	"millrace/runtime/herder"
	"millrace/runtime/loggers"
	"millrace/schema/plugin"
)

// process is a worker's process: what the command's flags and files say of it.
type process struct {
	distributed bool   // there are others, and the cluster's topics alone keep what is kept
	data        string // "" for no folder of its own
	rest        string
	kafka       string
	registry    string
	fileRoots   []string
	settings    []string // --config K=V
	plugins     []plugin.Plugin
	worker      map[string]string
	workerPath  []string
	connectors  []*connectorFile
	out         io.Writer
	lg          *slog.Logger
	levels      *loggers.Levels
	flagGiven   func(name string) bool
}

// readFiles sorts the command line's files into the worker's properties and
// connectors.
func (p *process) readFiles(paths []string) error {
	p.worker = map[string]string{}
	names := map[string]string{}
	for _, path := range paths {
		a, err := readArgument(path)
		if err != nil {
			return err
		}
		if c := a.connector; c != nil {
			if first, twice := names[c.name]; twice {
				return fmt.Errorf("%s: a connector called %q is in %s already; names must differ", path, c.name, first)
			}
			names[c.name] = path
			p.connectors = append(p.connectors, c)
			continue
		}
		if len(p.workerPath) > 0 {
			return fmt.Errorf("%s: no connector.class, so this is a worker's file, and %s is one already", path, p.workerPath[0])
		}
		p.worker, p.workerPath = a.worker, append(p.workerPath, path)
	}
	for _, kv := range p.settings {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return fmt.Errorf("--config %s: want key=value", kv)
		}
		p.worker[k] = v
	}
	return nil
}

// started is when this process began to run our code.
var started = time.Now()

// parts are what a worker's process has open, in the order in which it opens them.
type parts struct {
	plugins  *runtime.Plugins
	loaded   runtime.Loaded
	files    *runtime.FileRoots
	isNew    bool // there was no log before
	api      *rest.Listeners
	schemas  *registryServer
	log      *log.Log
	offline  <-chan error // says that the log's disk has failed
	herder   *herder.Herder
	serving  chan error // says that the API is served no more
	unsignal func()     // lets the next signal end the process at once
}

// run opens the log and what listens, has them served until a signal comes or one of them fails, and closes them in the opposite order.
func (p *process) run(ctx context.Context) (err error) {
	w := parts{}
	ctx, w.unsignal = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer w.unsignal()
	defer guardMemory(ctx)()
	if err := p.configure(ctx, &w); err != nil {
		return err
	}
	w.isNew = !exists(filepath.Join(p.data, "log"))
	if w.api, err = rest.Listen(w.loaded.Worker.REST, p.lg); err != nil {
		return err
	}
	defer w.api.Close()
	if w.schemas, err = listenRegistry(w.loaded.Worker, p.lg); err != nil {
		return err
	}
	defer w.schemas.close()

	offline := make(chan error, 1)
	w.offline = offline
	logConfig, err := p.logConfig(w.loaded.Worker, func(err error) { offline <- err })
	if err != nil {
		return err
	}
	if w.log, err = log.Open(ctx, logConfig); err != nil {
		return explainKafkaPort(err, logConfig.Listeners)
	}
	defer func() { err = errors.Join(err, w.log.Close(context.WithoutCancel(ctx))) }()
	return p.serve(ctx, w)
}

// configure reads the settings, and makes the logger that hides their secrets.
func (p *process) configure(ctx context.Context, w *parts) (err error) {
	p.lg, p.levels = newLogger(os.Stderr)
	if w.plugins, err = runtime.NewPlugins(p.plugins...); err != nil {
		return err
	}
	if w.loaded, w.files, err = p.load(ctx, w.plugins); err != nil {
		return err
	}
	p.lg = w.loaded.Secrets.Logger(p.lg)
	return nil
}

// serve opens the registry and the herder on the log, and serves them.
func (p *process) serve(ctx context.Context, w parts) (err error) {
	worker := w.loaded.Worker
	others, err := rest.PeerClient(worker.REST, p.lg)
	if err != nil {
		return err
	}
	defer others.CloseIdleConnections()
	endRegistry, err := w.schemas.open(ctx, w.log, worker, others, p.lg)
	if err != nil {
		return stopped(ctx, err)
	}
	defer func() { err = errors.Join(err, endRegistry()) }()

	w.herder, err = herder.Open(ctx, herder.Config{
		Registry: w.schemas.url(), Log: w.log, Plugins: w.plugins, Worker: worker, Files: w.files, Logger: p.lg, Levels: p.levels,
		AdvertisedURL: w.api.Advertised(), Providers: w.loaded.Providers, PutTasks: rest.PutTasks(others),
	})
	if err != nil {
		return stopped(ctx, err)
	}
	defer func() { err = errors.Join(err, w.herder.Close(context.WithoutCancel(ctx))) }()

	w.serving = make(chan error, 1)
	serveCtx, endServing := context.WithCancel(context.WithoutCancel(ctx))
	collectors := append(w.schemas.collectors(), w.herder.Collector(), w.log.Collector(worker.MetricTopics))
	go func() {
		w.serving <- w.api.Serve(serveCtx, rest.Config{
			Herder: w.herder, Log: p.lg, Client: others, Metrics: metricsHandler(p.lg, collectors...),
			Kafka: cmp.Or(w.log.Addr(), strings.TrimSpace(p.worker["bootstrap.servers"])), Registry: w.schemas.url(), Topics: internalTopics(worker),
		})
	}()
	defer func() { endServing(); err = errors.Join(err, <-w.serving) }()
	return p.attend(ctx, w)
}

// attend says when the worker is ready, stores the connectors of the command line, and returns when a signal comes or a part fails.
func (p *process) attend(ctx context.Context, w parts) error {
	select {
	case <-w.herder.Ready():
		w.schemas.settled(ctx)
	case err := <-w.herder.Failed():
		return err
	case <-ctx.Done():
		return nil
	}
	worker := w.loaded.Worker
	if p.distributed && w.api.Loopback() && worker.REST.AdvertisedHost == "" {
		p.lg.Warn("workers on other machines cannot hand requests on to this one, whose address is one of their own: set listeners", "advertised", w.api.Advertised())
	}
	p.greet(ctx, w)
	if err := p.putConnectors(ctx, w.herder); err != nil {
		return stopped(ctx, err)
	}
	select {
	case <-ctx.Done():
		w.unsignal()
		p.lg.Info("stopping: tasks finish what they began; a second Ctrl-C ends at once")
		return nil
	case err := <-w.offline:
		return ioError{fmt.Errorf("the log's disk failed, nothing more can be written: %w; repair the disk and start again: what was acknowledged is kept", err)}
	case err := <-w.serving:
		w.serving <- nil
		return err
	}
}

// internalTopics are those in which a worker keeps its state.
func internalTopics(worker runtime.WorkerConfig) []string {
	names := []string{worker.ConfigTopic.Name, worker.OffsetTopic.Name, worker.StatusTopic.Name}
	if worker.Registry.Offered() {
		names = append(names, worker.Registry.Topic.Name)
	}
	return names
}

// stopped is err, or nil where it only says that a signal came.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// putConnectors stores the connectors of the command line. All are validated before
// the first is stored.
func (p *process) putConnectors(ctx context.Context, h rest.Herder) error {
	for _, c := range p.connectors {
		info, err := h.Validate(ctx, c.config)
		if err != nil {
			return fmt.Errorf("%s: %w", c.path, err)
		}
		var wrong []string
		for _, ci := range info.Configs {
			for _, e := range ci.Value.Errors {
				wrong = append(wrong, "  "+ci.Value.Name+": "+e)
			}
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%s: %s, no connector was stored\n%s", c.path, wrongSettings(len(wrong)), strings.Join(wrong, "\n"))
		}
	}
	for _, c := range p.connectors {
		if _, _, err := h.PutConfig(ctx, c.name, c.config, c.initial, true); err != nil {
			return fmt.Errorf("%s: %w", c.path, err)
		}
	}
	return nil
}

// wrongSettings counts them in words.
func wrongSettings(n int) string {
	if n == 1 {
		return "1 setting is wrong"
	}
	return fmt.Sprintf("%d settings are wrong", n)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// sortedKeys are m's keys in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
