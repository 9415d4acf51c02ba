package cmd

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"millrace/log"
	"millrace/runtime"
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
		opts, errs := worker.Cluster.Options(p.lg)
		if len(errs) > 0 {
			all := make([]error, len(errs))
			for i, e := range errs {
				all[i] = e
			}
			return c, errors.Join(all...)
		}
		c.ClientOpts = opts
		return c, nil
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
