package cmd

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/log"
	"millrace/rest"
	restregistry "millrace/rest/registry"
	"millrace/runtime"
	"millrace/runtime/registry"
	"millrace/schema"
	"millrace/schema/avro"
	rules "millrace/schema/registry"
)

// schemaTypes are the types of schemas that can be registered.
var schemaTypes = []rules.Type{avro.Registry}

// registryServer is the schema registry of a worker. Nil: there is none.
type registryServer struct {
	on       *rest.Listeners
	instance *registry.Instance
}

// listenRegistry opens the registry's ports, as the worker's settings say.
func listenRegistry(worker runtime.WorkerConfig, lg *slog.Logger) (*registryServer, error) {
	if !worker.Registry.Offered() {
		return nil, nil
	}
	on, err := rest.ListenRegistry(worker.Registry, worker.REST, lg)
	if err != nil {
		return nil, err
	}
	return &registryServer{on: on}, nil
}

func (s *registryServer) close() {
	if s != nil {
		s.on.Close()
	}
}

// url is where clients of this machine find the registry; "" for none.
func (s *registryServer) url() string {
	if s == nil {
		return ""
	}
	return s.on.URL()
}

func (s *registryServer) collectors() []prometheus.Collector {
	if s == nil {
		return nil
	}
	return []prometheus.Collector{s.instance.Collector()}
}

// open reads the topic of schemas and serves it until end is called, which waits for what is under way.
func (s *registryServer) open(ctx context.Context, l *log.Log, worker runtime.WorkerConfig, client *http.Client, lg *slog.Logger) (end func() error, err error) {
	if s == nil {
		return func() error { return nil }, nil
	}
	s.instance, err = registry.Open(ctx, registry.Config{Log: l, Settings: worker.Registry, Types: schemaTypes, URL: s.on.Advertised(), Logger: lg})
	if err != nil {
		return nil, err
	}
	api := restregistry.New(restregistry.Config{Instance: s.instance, NotHere: registry.ErrNotLeader, Log: lg, Client: client, Version: schema.RegistryVersion})
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.on.ServeHandler(serving, api) }()
	return func() error {
		stop()
		err := <-done
		s.instance.Close()
		return err
	}, nil
}

// registryAgrees is how long a start waits until the registry's group has agreed on who writes: milliseconds, but when a former process of this
// one is still counted in.
const registryAgrees = time.Second

func (s *registryServer) settled(ctx context.Context) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, registryAgrees)
	defer cancel()
	_, _, _ = s.instance.Leader(ctx) // whoever writes meanwhile waits as well
}

var _ restregistry.Instance = (*registry.Instance)(nil)
