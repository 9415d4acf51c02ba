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
func (p *process) load(ctx context.Context, plugins *runtime.Plugins) (l runtime.Loaded, roots *runtime.FileRoots, err error) {
	properties, err := p.properties()
	if err != nil {
		return l, nil, err
	}
	if roots, err = p.roots(properties); err != nil {
		return l, nil, err
	}
	l, errs := runtime.LoadWorker(ctx, plugins, properties, roots, p.lg)
	return l, roots, p.explain(errs)
}

// explain is one error that tells all that is wrong with the worker's settings.
func (p *process) explain(errs []*config.Error) error {
	if len(errs) == 0 {
		return nil
	}
	lines := make([]string, len(errs))
	for i, e := range errs {
		lines[i] = "  " + e.Error()
	}
	where := "the worker's settings"
	if len(p.workerPath) > 0 {
		where = p.workerPath[0]
	}
	return errors.New(where + ": " + wrongSettings(len(errs)) + "\n" + strings.Join(lines, "\n"))
}

// properties are the worker's settings as files and flags give them, and the defaults of its mode.
func (p *process) properties() (map[string]string, error) {
	if p.distributed {
		if !p.onCluster() {
			return nil, errors.New("bootstrap.servers is missing: the workers of a group share a Kafka cluster; name its servers, or run one worker with a log of its own: millrace standalone")
		}
		return runtime.WithDefaults(p.worker, runtime.DistributedDefaults()), nil
	}
	defaults := runtime.StandaloneDefaults()
	if p.onCluster() {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("find this machine's name for group.id: %w; set group.id", err)
		}
		abs, err := filepath.Abs(p.data)
		if err != nil {
			return nil, err
		}
		hash := fnv.New32a()
		hash.Write([]byte(abs))
		group := p.worker["group.id"]
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
	if _, given := p.worker["listeners"]; !given || p.flagGiven("rest") {
		p.worker["listeners"] = "http://" + p.rest
	}
	if _, given := p.worker["schema.registry.listeners"]; !given || p.flagGiven("registry") {
		p.worker["schema.registry.listeners"] = p.registry
		if p.registry != "none" {
			p.worker["schema.registry.listeners"] = "http://" + p.registry
		}
	}
	if _, given := p.worker["log.listeners"]; !given || p.flagGiven("kafka") {
		p.worker["log.listeners"] = p.kafka
	}
	return runtime.WithDefaults(p.worker, defaults), nil
}

// printWorkerProperties writes the properties of a second worker of the same group: those
// of this one, without what only one process can have, and with the address of its log.
func (p *process) printWorkerProperties() error {
	of, err := p.properties()
	if err != nil {
		return err
	}
	if !p.onCluster() {
		address, _, _ := strings.Cut(of["log.listeners"], ",")
		if address == "none" {
			return errors.New("--kafka none: no other worker can reach this one's log; give it a port")
		}
		if _, after, ok := strings.Cut(address, "://"); ok {
			address = after
		}
		of["bootstrap.servers"] = address
	}
	maps.DeleteFunc(of, func(k, _ string) bool {
		return k == "listeners" || k == "offset.storage.file.filename" || strings.HasPrefix(k, "log.") || strings.HasPrefix(k, "rest.advertised.")
	})
	// Two cannot listen at one address, and what the first one's registry answers every other would.
	of["schema.registry.listeners"] = "none"
	fmt.Fprintln(p.out, "# A second worker of this group. Give it a REST address of its own:")
	fmt.Fprintln(p.out, "# millrace distributed --config listeners=http://127.0.0.1:8084 THIS-FILE")
	for _, k := range slices.Sorted(maps.Keys(of)) {
		value := strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(of[k])
		if _, err := fmt.Fprintf(p.out, "%s=%s\n", k, value); err != nil {
			return err
		}
	}
	return nil
}

// onCluster reports whether everything goes to a cluster and no log is embedded.
func (p *process) onCluster() bool { return strings.TrimSpace(p.worker["bootstrap.servers"]) != "" }

// roots are the folders whose files connectors may open. The worker's own
// properties, and the files that they name, are readable under none of them.
func (p *process) roots(properties map[string]string) (*runtime.FileRoots, error) {
	roots := p.fileRoots
	if len(roots) == 0 {
		roots = runtime.FileRootsOf(properties)
	}
	if len(roots) == 0 && p.data == "" {
		roots = []string{"."}
	}
	if len(roots) == 0 {
		files := filepath.Join(p.data, "files")
		if err := os.MkdirAll(files, 0o750); err != nil {
			return nil, err
		}
		roots = []string{".", files}
	}
	hidden := append(runtime.OwnFiles(properties), p.workerPath...)
	if p.data != "" {
		hidden = append(hidden, filepath.Join(p.data, "log"))
	}
	return runtime.NewFileRoots(roots, hidden)
}
