package cmd

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log"
	"millrace/runtime"
	"millrace/schema/config"
)

// logConfig says where the log is and who may reach it. onOffline is told when its disk has failed.
func (p *process) logConfig(worker runtime.WorkerConfig, onOffline func(error)) (log.Config, error) {
	if p.onCluster() {
		c := log.Config{Logger: p.lg}
		for seed := range strings.SplitSeq(p.worker["bootstrap.servers"], ",") {
			c.Seeds = append(c.Seeds, strings.TrimSpace(seed))
		}
		for _, key := range slices.Sorted(maps.Keys(p.worker)) {
			if strings.HasPrefix(key, "log.") && (key != "log.listeners" || p.flagGiven("kafka")) {
				p.lg.Warn("setting without effect: the log is the cluster of bootstrap.servers", "setting", key)
			}
		}
		opts, errs := worker.Cluster.Options(nil, p.lg)
		c.ClientOpts = opts
		_, wrong := ownIdentities(worker, p.lg)
		return c, p.explain(append(errs, wrong...))
	}
	for _, key := range worker.Cluster.Unused() {
		p.lg.Warn("setting without effect: there is no cluster, and the worker reaches its own log within the process", "setting", key)
	}
	c, err := worker.Log.Embedded(p.lg)
	if err != nil {
		return c, err
	}
	c.Logger, c.DataDir = p.lg, filepath.Join(p.data, "log")
	if !worker.Log.StayOffline {
		c.OnOffline = onOffline
	}
	return c, nil
}

// ownIdentities are the ways in which connectors' clients sign in that the worker's settings give an identity of their own ("producer.sasl…").
func ownIdentities(worker runtime.WorkerConfig, lg *slog.Logger) (map[runtime.ClientKind][]kgo.Opt, []*config.Error) {
	out, all := map[runtime.ClientKind][]kgo.Opt{}, []*config.Error{}
	for _, kind := range []runtime.ClientKind{runtime.Producer, runtime.Consumer, runtime.Admin} {
		client, errs := worker.ClientOverrides(kind, nil)
		if client.Identity != nil && len(errs) == 0 {
			out[kind], errs = client.Identity.Options(nil, lg)
		}
		all = append(all, errs...)
	}
	return out, all
}

// kafkaIsLocal reports whether only this machine reaches the log.
func (p *process) kafkaIsLocal(worker runtime.WorkerConfig) bool {
	return p.onCluster() || !slices.ContainsFunc(worker.Log.Listeners, func(l log.Listener) bool { return !l.Loopback() })
}

// explainKafkaPort says what to do about a port in use.
func explainKafkaPort(err error, listeners []string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; choose another with --kafka (as in --kafka 127.0.0.1:9093, or --kafka none) or log.listeners; given: %s", err, strings.Join(listeners, ","))
	}
	return err
}
