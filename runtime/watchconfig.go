package runtime

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/schema/config"
)

// The conventions of metrics' names that existing dashboards ask for.
const (
	StrimziNames   = "strimzi"   // jmx_exporter's example and Strimzi's rules
	ConfluentNames = "confluent" // Confluent's monitoring stacks
	ReporterNames  = "reporter"  // Strimzi's metrics reporter
	DebeziumNames  = "debezium"  // Debezium's monitoring examples
)

var metricConventions = []string{StrimziNames, ConfluentNames, ReporterNames, DebeziumNames}

// DefaultStallTimeout is how long a task may get no further while it has something to do.
const DefaultStallTimeout = 10 * time.Minute

// The settings of what watches over tasks.
var (
	metricNames = config.Key[[]string]{Name: "metrics.names", Doc: "Conventions of the metrics' names at /metrics: strimzi, confluent, reporter, debezium. Several add up, each costs its series.",
		Default: []string{StrimziNames}, Importance: config.Low, Check: knownConventions}
	metricTopics = config.Key[bool]{Name: "metrics.topics", Doc: "Whether the log's metrics are given by topic and partition, too, as existing dashboards ask for them. A log of thousands of partitions is better off without.",
		Default: true, Importance: config.Low}
	stallTimeout = config.Key[time.Duration]{Name: "task.stall.timeout.ms", Doc: "Time after which a running task that gets no further, although it has something to do, is restarted; 0 for never. A connector may have its own.",
		Default: DefaultStallTimeout, Importance: config.Low, Check: config.AtLeast(time.Duration(0))}
)

var watchDef = config.Define(metricNames, metricTopics, stallTimeout)

func knownConventions(names []string) error {
	for _, n := range names {
		if !slices.Contains(metricConventions, strings.TrimSpace(n)) {
			return fmt.Errorf("%q is no convention of metrics' names; there are %s", n, strings.Join(metricConventions, ", "))
		}
	}
	return nil
}
