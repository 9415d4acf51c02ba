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
func (s *standalone) logConfig(worker runtime.WorkerConfig, onOffline func(error)) (log.Config, error) {
	if s.onCluster() {
		c := log.Config{Logger: s.lg}
		for seed := range strings.SplitSeq(s.worker["bootstrap.servers"], ",") {
			c.Seeds = append(c.Seeds, strings.TrimSpace(seed))
		}
		for _, key := range slices.Sorted(maps.Keys(s.worker)) {
			if strings.HasPrefix(key, "log.") && (key != "log.listeners" || s.flagGiven("kafka")) {
				s.lg.Warn("setting without effect: the log is the cluster of bootstrap.servers", "setting", key)
			}
		}
		opts, errs := worker.Cluster.Options(s.lg)
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
		s.lg.Warn("setting without effect: there is no cluster, and the worker reaches its own log within the process", "setting", key)
	}
	c, err := worker.Log.Embedded(s.lg)
	if err != nil {
		return c, err
	}
	c.Logger, c.DataDir = s.lg, filepath.Join(s.data, "log")
	if !worker.Log.StayOffline {
		c.OnOffline = onOffline
	}
	return c, nil
}

// kafkaIsLocal reports whether only this machine reaches the log.
func (s *standalone) kafkaIsLocal(worker runtime.WorkerConfig) bool {
	return s.onCluster() || !slices.ContainsFunc(worker.Log.Listeners, func(l log.Listener) bool { return !l.Loopback() })
}

// explainKafkaPort says what to do about a port in use.
func explainKafkaPort(err error, listeners []string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; choose another with --kafka (as in --kafka 127.0.0.1:9093, or --kafka none) or log.listeners; given: %s", err, strings.Join(listeners, ","))
	}
	return err
}
