package cmd

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"millrace/runtime"
	"millrace/schema/config"
)

// load reads the worker's properties over the defaults of its mode.
func (s *standalone) load(ctx context.Context, plugins *runtime.Plugins) (l runtime.Loaded, roots *runtime.FileRoots, err error) {
	properties, err := s.properties()
	if err != nil {
		return l, nil, err
	}
	if roots, err = s.roots(properties); err != nil {
		return l, nil, err
	}
	l, errs := runtime.LoadWorker(ctx, plugins, properties, roots, s.lg)
	return l, roots, s.explain(errs)
}

// explain is one error that tells all that is wrong with the worker's settings.
func (s *standalone) explain(errs []*config.Error) error {
	if len(errs) == 0 {
		return nil
	}
	lines := make([]string, len(errs))
	for i, e := range errs {
		lines[i] = "  " + e.Error()
	}
	where := "the worker's settings"
	if len(s.workerPath) > 0 {
		where = s.workerPath[0]
	}
	return errors.New(where + ": " + wrongSettings(len(errs)) + "\n" + strings.Join(lines, "\n"))
}

// properties are the worker's settings as files and flags give them, and the defaults of its mode.
func (s *standalone) properties() (map[string]string, error) {
	defaults := runtime.StandaloneDefaults()
	if s.onCluster() {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("find this machine's name for group.id: %w; set group.id", err)
		}
		abs, err := filepath.Abs(s.data)
		if err != nil {
			return nil, err
		}
		hash := fnv.New32a()
		hash.Write([]byte(abs))
		group := s.worker["group.id"]
		if group == "" {
			group = fmt.Sprintf("millrace-%s-%08x", host, hash.Sum32())
		}
		maps.Copy(defaults, map[string]string{
			"group.id": group, "config.storage.topic": group + "-configs", "offset.storage.topic": group + "-offsets",
			"status.storage.topic": group + "-status", "offset.flush.interval.ms": "60000", "exactly.once.source.support": "disabled",
			"config.storage.replication.factor": "-1", "offset.storage.replication.factor": "-1", "status.storage.replication.factor": "-1",
			"schema.registry.kafkastore.topic.replication.factor": "-1",
		})
	}
	if _, given := s.worker["listeners"]; !given || s.flagGiven("rest") {
		s.worker["listeners"] = "http://" + s.rest
	}
	if _, given := s.worker["schema.registry.listeners"]; !given || s.flagGiven("registry") {
		s.worker["schema.registry.listeners"] = s.registry
		if s.registry != "none" {
			s.worker["schema.registry.listeners"] = "http://" + s.registry
		}
	}
	if _, given := s.worker["log.listeners"]; !given || s.flagGiven("kafka") {
		s.worker["log.listeners"] = s.kafka
	}
	return runtime.WithDefaults(s.worker, defaults), nil
}

// printWorkerProperties writes the properties of a second worker of the same group: those
// of this one, without what only one process can have, and with the address of its log.
func (s *standalone) printWorkerProperties() error {
	p, err := s.properties()
	if err != nil {
		return err
	}
	if !s.onCluster() {
		address, _, _ := strings.Cut(p["log.listeners"], ",")
		if address == "none" {
			return errors.New("--kafka none: no other worker can reach this one's log; give it a port")
		}
		if _, after, ok := strings.Cut(address, "://"); ok {
			address = after
		}
		p["bootstrap.servers"] = address
	}
	maps.DeleteFunc(p, func(k, _ string) bool {
		return k == "listeners" || k == "offset.storage.file.filename" || strings.HasPrefix(k, "log.") || strings.HasPrefix(k, "rest.advertised.")
	})
	// Two cannot listen at one address, and what the first one's registry answers every other would.
	p["schema.registry.listeners"] = "none"
	fmt.Fprintln(s.out, "# A second worker of this group. Give it a REST address of its own, and one of the schema registry if it shall have one:")
	fmt.Fprintln(s.out, "# millrace standalone --data OTHER --rest 127.0.0.1:8084 --registry 127.0.0.1:8082 THIS-FILE")
	for _, k := range slices.Sorted(maps.Keys(p)) {
		value := strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(p[k])
		if _, err := fmt.Fprintf(s.out, "%s=%s\n", k, value); err != nil {
			return err
		}
	}
	return nil
}

// onCluster reports whether everything goes to a cluster and no log is embedded.
func (s *standalone) onCluster() bool { return strings.TrimSpace(s.worker["bootstrap.servers"]) != "" }

// roots are the folders whose files connectors may open. The worker's own
// properties, and the files that they name, are readable under none of them.
func (s *standalone) roots(properties map[string]string) (*runtime.FileRoots, error) {
	roots := s.fileRoots
	if len(roots) == 0 {
		roots = runtime.FileRootsOf(properties)
	}
	if len(roots) == 0 {
		files := filepath.Join(s.data, "files")
		if err := os.MkdirAll(files, 0o750); err != nil {
			return nil, err
		}
		roots = []string{".", files}
	}
	hidden := append([]string{filepath.Join(s.data, "log")}, s.workerPath...)
	return runtime.NewFileRoots(roots, append(hidden, runtime.OwnFiles(properties)...))
}
