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

	"github.com/spf13/cobra"

	"millrace/log"
	"millrace/rest"
	"millrace/runtime"
	"millrace/runtime/herder"
	"millrace/runtime/loggers"
	"millrace/schema/plugin"
)

// standalone is what the command's flags and files say.
type standalone struct {
	data       string
	rest       string
	kafka      string
	registry   string
	fileRoots  []string
	settings   []string // --config K=V
	plugins    []plugin.Plugin
	worker     map[string]string
	workerPath []string
	connectors []*connectorFile
	out        io.Writer
	lg         *slog.Logger
	levels     *loggers.Levels
	flagGiven  func(name string) bool
}

func standaloneCommand(plugins []plugin.Plugin) *cobra.Command {
	s := &standalone{plugins: plugins}
	printOnly := false
	c := &cobra.Command{
		Use:   "standalone [worker.properties] [connector file …]",
		Short: "Run a worker with a log of its own, or on a Kafka cluster",
		Long: "Runs a worker: connectors, their REST API, a schema registry and, unless the worker's properties name a cluster with\n" +
			"bootstrap.servers, an embedded log that speaks the Kafka protocol. Files on the command line are a Connect\n" +
			"worker's properties and connectors (.properties or .json), which are stored at every start.",
		Example: "  millrace standalone\n  millrace standalone --data /var/lib/millrace worker.properties shop.json",
		RunE: func(c *cobra.Command, args []string) error {
			s.out, s.flagGiven = c.OutOrStdout(), c.Flags().Changed
			if err := s.readFiles(args); err != nil {
				return usage(err)
			}
			if printOnly {
				return s.printWorkerProperties()
			}
			return s.run(c.Context())
		},
	}
	f := c.Flags()
	f.BoolVar(&printOnly, "print-worker-properties", false, "print the properties with which a second worker joins this one's log and group, and start nothing")
	f.StringVar(&s.data, "data", "millrace-data", "folder that keeps everything: the log and, in its folder files, what file connectors may use")
	f.StringVar(&s.rest, "rest", "127.0.0.1:8083", "address of the REST API")
	f.StringVar(&s.kafka, "kafka", "127.0.0.1:9092", "address at which the embedded log speaks the Kafka protocol, HOST:PORT or as in log.listeners; none for no port")
	f.StringVar(&s.registry, "registry", "127.0.0.1:8081", "address of the schema registry; none for none")
	f.StringArrayVar(&s.fileRoots, "file-root", nil, "folder whose files connectors may open; repeatable, / for all (default: the working directory and DATA/files)")
	f.StringArrayVar(&s.settings, "config", nil, "a worker setting, key=value; repeatable, goes before the file's")
	return c
}

// readFiles sorts the command line's files into the worker's properties and
// connectors.
func (s *standalone) readFiles(paths []string) error {
	s.worker = map[string]string{}
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
			s.connectors = append(s.connectors, c)
			continue
		}
		if len(s.workerPath) > 0 {
			return fmt.Errorf("%s: no connector.class, so this is a worker's file, and %s is one already", path, s.workerPath[0])
		}
		s.worker, s.workerPath = a.worker, append(s.workerPath, path)
	}
	for _, kv := range s.settings {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return fmt.Errorf("--config %s: want key=value", kv)
		}
		s.worker[k] = v
	}
	return nil
}

// started is when this process began to run our code.
var started = time.Now()

// run starts the parts, waits for a signal or for one of them to fail, and stops
// them in the opposite order.
func (s *standalone) run(ctx context.Context) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer guardMemory(ctx)()
	s.lg, s.levels = newLogger(os.Stderr)
	plugins, err := runtime.NewPlugins(s.plugins...)
	if err != nil {
		return err
	}
	loaded, roots, err := s.load(ctx, plugins)
	if err != nil {
		return err
	}
	worker := loaded.Worker
	s.lg = loaded.Secrets.Logger(s.lg)
	isNew := !exists(filepath.Join(s.data, "log"))
	api, err := rest.Listen(worker.REST, s.lg)
	if err != nil {
		return err
	}
	defer api.Close()
	schemas, err := listenRegistry(worker, s.lg)
	if err != nil {
		return err
	}
	defer schemas.close()

	offline := make(chan error, 1)
	logConfig, err := s.logConfig(worker, func(err error) { offline <- err })
	if err != nil {
		return err
	}
	l, err := log.Open(ctx, logConfig)
	if err != nil {
		return explainKafkaPort(err, logConfig.Listeners)
	}
	defer func() { err = errors.Join(err, l.Close(context.WithoutCancel(ctx))) }()

	others, err := rest.PeerClient(worker.REST, s.lg)
	if err != nil {
		return err
	}
	defer others.CloseIdleConnections()
	endRegistry, err := schemas.open(ctx, l, worker, others, s.lg)
	if err != nil {
		return stopped(ctx, err)
	}
	defer func() { err = errors.Join(err, endRegistry()) }()

	h, err := herder.Open(ctx, herder.Config{Registry: schemas.url(), Log: l, Plugins: plugins, Worker: worker, Files: roots, Logger: s.lg, Levels: s.levels,
		AdvertisedURL: api.Advertised(), Providers: loaded.Providers})
	if err != nil {
		return stopped(ctx, err)
	}
	defer func() { err = errors.Join(err, h.Close(context.WithoutCancel(ctx))) }()

	serving := make(chan error, 1)
	serveCtx, endServing := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		serving <- api.Serve(serveCtx, rest.Config{Herder: h, Log: s.lg, Client: others, Metrics: metricsHandler(s.lg, append(schemas.collectors(), h.Collector(), l.Collector(worker.MetricTopics))...), Kafka: cmp.Or(l.Addr(), strings.TrimSpace(s.worker["bootstrap.servers"])), Registry: schemas.url(), Topics: internalTopics(worker)})
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
	s.greet(ctx, h, l, api, schemas, isNew, worker)
	if err := s.putConnectors(ctx, h); err != nil {
		return stopped(ctx, err)
	}
	select {
	case <-ctx.Done():
		stop() // a second signal ends the process at once
		s.lg.Info("stopping: tasks finish what they began; a second Ctrl-C ends at once")
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
func (s *standalone) putConnectors(ctx context.Context, h rest.Herder) error {
	for _, c := range s.connectors {
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
	for _, c := range s.connectors {
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
