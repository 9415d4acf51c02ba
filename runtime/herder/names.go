package herder

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/connectors"
	"millrace/runtime"
)

// A family is a group of Connect's metrics, an MBean type there. Each convention of
// names makes its own beginning of it, and the labels beside.
type family struct {
	short string   // of jmx_exporter's example and Strimzi, the default
	long  string   // of Confluent's rules and of Strimzi's reporter
	label []string // labels, in the default's spelling
	text  bool     // Confluent's rules give all texts of the family one name
	only  string   // the one long convention that has it; "" for both
}

// The families, in the order of Connect's documentation.
var (
	workerFamily      = &family{short: "kafka_connect_worker_", long: "kafka_connect_connect_worker_metrics_"}
	perConnector      = &family{short: "kafka_connect_worker_", long: "kafka_connect_connect_worker_metrics_", label: []string{"connector"}}
	rebalanceFamily   = &family{short: "kafka_connect_worker_rebalance_", long: "kafka_connect_connect_worker_rebalance_metrics_"}
	coordinatorFamily = &family{short: "kafka_connect_coordinator_", long: "kafka_connect_connect_coordinator_metrics_", label: []string{"clientid"}}
	groupFamily       = &family{short: "kafka_connect_", long: "kafka_connect_connect_metrics_", label: []string{"clientid"}}
	connectorFamily   = &family{short: "kafka_connect_connector_", long: "kafka_connect_connector_metrics_", label: []string{"connector"}, text: true}
	taskFamily        = &family{short: "kafka_connect_connector_task_", long: "kafka_connect_connector_task_metrics_", label: []string{"connector", "task"}, text: true}
	sourceFamily      = &family{short: "kafka_connect_source_task_", long: "kafka_connect_source_task_metrics_", label: []string{"connector", "task"}}
	sinkFamily        = &family{short: "kafka_connect_sink_task_", long: "kafka_connect_sink_task_metrics_", label: []string{"connector", "task"}}
	errorFamily       = &family{short: "kafka_connect_task_error_", long: "kafka_connect_task_error_metrics_", label: []string{"connector", "task"}}
	consumerFamily    = &family{short: "kafka_consumer_", long: "kafka_consumer_consumer_metrics_", label: []string{"clientid"}}
	fetchFamily       = &family{short: "kafka_consumer_fetch_manager_", long: "kafka_consumer_consumer_fetch_manager_metrics_", label: []string{"clientid"}}
	partitionFamily   = &family{short: "kafka_consumer_fetch_manager_", long: "kafka_consumer_consumer_fetch_manager_metrics_", label: []string{"clientid", "topic", "partition"}}
	consumerGroup     = &family{short: "kafka_consumer_coordinator_", long: "kafka_consumer_consumer_coordinator_metrics_", label: []string{"clientid"}}
	producerFamily    = &family{short: "kafka_producer_", long: "kafka_producer_producer_metrics_", label: []string{"clientid"}}
	adminFamily       = &family{short: "kafka_admin_client_", long: "kafka_admin_client_admin_client_metrics_", label: []string{"clientid"}, only: runtime.ReporterNames}
	connectApp        = &family{short: "kafka_connect_", long: "kafka_connect_app_info", label: []string{"clientid"}, text: true}
	consumerApp       = &family{short: "kafka_consumer_", long: "kafka_consumer_app_info", label: []string{"clientid"}, text: true}
	producerApp       = &family{short: "kafka_producer_", long: "kafka_producer_app_info", label: []string{"clientid"}, text: true}
	ownFamily         = &family{short: "millrace_connector_task_", label: []string{"connector", "task"}}
)

// A metric is one row of the table: what it is called within its family, and what it
// means. One with info is a series of constant 1 that has a text as a label.
type metric struct {
	*family
	name string
	kind prometheus.ValueType
	info string // name of the label that holds the text; "" for a number
	help string
}

// label is a metric's or convention's name of a client's id.
const shortID, longID, debeziumID = "clientid", "client_id", "client"

// A spelling is a metric's name and labels under one convention.
type spelling struct {
	desc  *prometheus.Desc
	fixed []string // values of labels that the convention adds, after the metric's own
}

// spellings are a metric's names under conventions.
func (m *metric) spellings(conventions []string) []spelling {
	var out []spelling
	seen := map[string]bool{}
	help := m.help
	add := func(name, id string, fixed ...string) { // fixed: pairs
		labels := slices.Clone(m.label)
		for i, l := range labels {
			if l == shortID {
				labels[i] = id
			}
		}
		if m.info != "" {
			labels = append(labels, m.info)
		}
		var values []string
		for i := 0; i < len(fixed); i += 2 {
			labels, values = append(labels, fixed[i]), append(values, fixed[i+1])
		}
		key := fmt.Sprint(name, labels)
		if seen[key] {
			return
		}
		seen[key] = true
		out = append(out, spelling{prometheus.NewDesc(name, help, labels, nil), values})
	}
	for _, c := range conventions {
		switch {
		case m.family == ownFamily:
			add(m.short+m.name, shortID)
		case c == runtime.StrimziNames:
			if m.name != "" {
				add(m.short+m.name, shortID)
			}
		case c == runtime.DebeziumNames:
			switch m.family {
			case workerFamily:
				add("kafka_connect_worker_metrics_"+m.name, debeziumID)
			case groupFamily:
				add("kafka_connect_metrics_"+m.name, debeziumID)
			}
		case m.long == "" || m.only != "" && m.only != c:
		case m.info == "" && strings.HasSuffix(m.long, "_app_info"): // a label there
		default:
			if m.text && c == runtime.ConfluentNames && m.info != "" {
				help = "What it is: a series for each attribute." // one name, one help
			}
			m.longNames(c, add)
			help = m.help
		}
	}
	return out
}

// longNames adds the names of the conventions that spell out the MBean's type. A name
// that ends as counters do is also given without the ending: newer exporters cut it.
func (m *metric) longNames(c string, add func(name, id string, fixed ...string)) {
	var fixed []string
	if c == runtime.ConfluentNames {
		switch m.family {
		case workerFamily:
			fixed = []string{"connector", "aggregate"}
		case consumerFamily, fetchFamily, partitionFamily, consumerGroup:
			fixed = []string{"client_type", "consumer"}
		case producerFamily:
			fixed = []string{"client_type", "producer"}
		}
	}
	name := m.long + m.name
	switch {
	case strings.HasSuffix(m.long, "_app_info"):
		name = m.long
		add(strings.TrimSuffix(name, "_info"), longID, fixed...)
	case m.info != "" && c == runtime.ReporterNames:
		name += "_info"
	case m.info != "" && m.text:
		name = strings.TrimSuffix(m.long, "_")
	}
	add(name, longID, fixed...)
	if cut, ok := strings.CutSuffix(name, "_total"); ok && m.family != workerFamily {
		add(cut, longID, fixed...)
	}
}

// An emitter sends samples under the conventions that are asked for.
type emitter struct {
	to    chan<- prometheus.Metric
	names map[*metric][]spelling
	seen  map[string]bool // of the samples of connectors' own
}

// sample sends a figure of a connector's own. A scrape may hold a series once: of two connectors
// that call theirs alike the second has none.
func (e *emitter) sample(s connectors.Sample) {
	names, values := make([]string, len(s.Labels)), make([]string, len(s.Labels))
	key := strconv.Quote(s.Name)
	for i, l := range s.Labels {
		names[i], values[i] = l.Name, strings.ToValidUTF8(l.Value, "\uFFFD")
		key += strconv.Quote(l.Name) + strconv.Quote(values[i])
	}
	if e.seen[key] {
		return
	}
	e.seen[key] = true
	kind := gauge
	if s.Total {
		kind = counter
	}
	m, err := prometheus.NewConstMetric(prometheus.NewDesc(s.Name, s.Help, names, nil), kind, s.Value, values...)
	if err != nil { // a name or label that is none: the connector's bug, which the scrape shows
		m = prometheus.NewInvalidMetric(prometheus.NewDesc("millrace_connector_sample", "A figure of a connector's own.", nil, nil), err)
	}
	e.to <- m
}

// put sends a number. labels are the values of the family's labels.
func (e *emitter) put(m *metric, v float64, labels ...string) {
	for _, s := range e.names[m] {
		e.to <- prometheus.MustNewConstMetric(s.desc, m.kind, v, append(slices.Clip(labels), s.fixed...)...)
	}
}

// say sends a text.
func (e *emitter) say(m *metric, text string, labels ...string) {
	if text != "" {
		e.put(m, 1, append(slices.Clip(labels), text)...)
	}
}
