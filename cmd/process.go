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

// run starts the parts, waits for a signal or for one of them to fail, and stops
// them in the opposite order.
func (p *process) run(ctx context.Context) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer guardMemory(ctx)()
	p.lg, p.levels = newLogger(os.Stderr)
	plugins, err := runtime.NewPlugins(p.plugins...)
	if err != nil {
		return err
	}
	loaded, roots, err := p.load(ctx, plugins)
	if err != nil {
		return err
	}
	worker := loaded.Worker
	p.lg = loaded.Secrets.Logger(p.lg)
	isNew := !exists(filepath.Join(p.data, "log"))
	api, err := rest.Listen(worker.REST, p.lg)
	if err != nil {
		return err
	}
	defer api.Close()
	schemas, err := listenRegistry(worker, p.lg)
	if err != nil {
		return err
	}
	defer schemas.close()

	offline := make(chan error, 1)
	logConfig, err := p.logConfig(worker, func(err error) { offline <- err })
	if err != nil {
		return err
	}
	l, err := log.Open(ctx, logConfig)
	if err != nil {
		return explainKafkaPort(err, logConfig.Listeners)
	}
	defer func() { err = errors.Join(err, l.Close(context.WithoutCancel(ctx))) }()

	others, err := rest.PeerClient(worker.REST, p.lg)
	if err != nil {
		return err
	}
	defer others.CloseIdleConnections()
	endRegistry, err := schemas.open(ctx, l, worker, others, p.lg)
	if err != nil {
		return stopped(ctx, err)
	}
	defer func() { err = errors.Join(err, endRegistry()) }()

	h, err := herder.Open(ctx, herder.Config{Registry: schemas.url(), Log: l, Plugins: plugins, Worker: worker, Files: roots, Logger: p.lg, Levels: p.levels,
		AdvertisedURL: api.Advertised(), Providers: loaded.Providers})
	if err != nil {
		return stopped(ctx, err)
	}
	defer func() { err = errors.Join(err, h.Close(context.WithoutCancel(ctx))) }()

	serving := make(chan error, 1)
	serveCtx, endServing := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		serving <- api.Serve(serveCtx, rest.Config{Herder: h, Log: p.lg, Client: others, Metrics: metricsHandler(p.lg, append(schemas.collectors(), h.Collector(), l.Collector(worker.MetricTopics))...), Kafka: cmp.Or(l.Addr(), strings.TrimSpace(p.worker["bootstrap.servers"])), Registry: schemas.url(), Topics: internalTopics(worker)})
	}()
	defer func() { endServing(); err = errors.Join(err, <-serving) }()

	select {
	case <-h.Ready():
		schemas.settled(ctx)
	case err := <-h.Failed():
		return err
	case <-ctx.Done():
		return nil
	}
	if p.distributed && api.Loopback() && worker.REST.AdvertisedHost == "" {
		p.lg.Warn("workers on other machines cannot hand requests on to this one, whose address is one of their own: set listeners", "advertised", api.Advertised())
	}
	p.greet(ctx, h, l, api, schemas, isNew, worker)
	if err := p.putConnectors(ctx, h); err != nil {
		return stopped(ctx, err)
	}
	select {
	case <-ctx.Done():
		stop() // a second signal ends the process at once
		p.lg.Info("stopping: tasks finish what they began; a second Ctrl-C ends at once")
		return nil
	case err := <-offline:
		return ioError{fmt.Errorf("the log's disk failed, nothing more can be written: %w; repair the disk and start again: what was acknowledged is kept", err)}
	case err := <-serving:
		serving <- nil
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
