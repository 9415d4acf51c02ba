package runtimetest

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/runtime/herder"
	"millrace/schema"
)

// scrape is what Prometheus would read.
func scrape(t testing.TB, h *herder.Herder) map[string]*dto.MetricFamily {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(h.Collector())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range families {
		out[f.GetName()] = f
	}
	return out
}

// scrapeAll is the same where some of it cannot be read.
func scrapeAll(h *herder.Herder) map[string]*dto.MetricFamily {
	reg := prometheus.NewRegistry()
	reg.MustRegister(h.Collector())
	families, _ := reg.Gather()
	out := map[string]*dto.MetricFamily{}
	for _, f := range families {
		out[f.GetName()] = f
	}
	return out
}

// series is the value of the one series with such labels (pairs), and whether there is one.
func series(families map[string]*dto.MetricFamily, name string, labels ...string) (v float64, ok bool) {
	for _, m := range families[name].GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		match := true
		for i := 0; i < len(labels); i += 2 {
			match = match && have[labels[i]] == labels[i+1]
		}
		if match {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue(), true
		}
	}
	return 0, false
}

// busy is a worker with a source, a sink and dead letters, all of which have done something.
func busy(t *testing.T, settings ...string) *herder.Herder {
	l := logtest.New(t)
	source, sink := NewSource(), NewSink()
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers"), sink.Plugin("Memory")), settings...)
	Create(t, h, "from", "connector.class", "Numbers", "topic", "n", "count", "100")
	Until(t, "the source's offset", func() bool { return source.Committed("from", 0) == 100 })
	Create(t, h, "to", "connector.class", "Memory", "topics", "n")
	Until(t, "the sink's offset", func() bool { return committed(t, h, "to", "n", 0) == 100 })
	return h
}

func TestEveryMetricThatDashboardsKnow(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "herder", "testdata", "connect-metrics.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := scrape(t, busy(t))
	missing := herder.MetricsNotEmitted()
	rows := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		rows++
		fields := strings.Fields(lines.Text())
		name, kind, labels := fields[0], fields[1], fields[2:]
		family := got[name]
		if reason := missing[name]; reason != "" {
			if family != nil {
				t.Errorf("%s is there, and on the list of those that are not: %s", name, reason)
			}
			delete(missing, name)
			continue
		}
		if family == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		if is := strings.ToLower(family.GetType().String()); is != kind {
			t.Errorf("%s is a %s, want %s", name, is, kind)
		}
		if family.GetHelp() == "" {
			t.Errorf("%s has no help", name)
		}
		slices.Sort(labels)
		for _, m := range family.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetName())
			}
			if !slices.Equal(have, labels) {
				t.Errorf("%s has the labels %v, want %v", name, have, labels)
			}
		}
	}
	if rows < 120 {
		t.Errorf("%d metrics are compared, there are more", rows)
	}
	for name := range missing {
		t.Errorf("%s is on the list of those that are missing, and nobody asks for it", name)
	}
	t.Logf("%d metrics compared", rows)
}

func TestWhatMetricsSay(t *testing.T) {
	h := busy(t)
	task := []string{"connector", "to", "task", "0"}
	var got map[string]*dto.MetricFamily
	Until(t, "the task to hear of its commit", func() bool {
		got = scrape(t, h)
		n, _ := series(got, "kafka_connect_sink_task_offset_commit_completion_total", task...)
		return n > 0
	})
	for _, c := range []struct {
		name   string
		labels []string
		want   func(float64) bool
	}{
		{"kafka_connect_worker_connector_count", nil, is(2)},
		{"kafka_connect_worker_task_count", nil, is(2)},
		{"kafka_connect_worker_connector_running_task_count", []string{"connector", "to"}, is(1)},
		{"kafka_connect_worker_connector_startup_success_total", nil, is(2)},
		{"kafka_connect_worker_task_startup_success_percentage", nil, is(1)},
		{"kafka_connect_connector_status", []string{"connector", "from", "status", "running"}, is(1)},
		{"kafka_connect_connector_connector_class", []string{"connector", "to", "connector_class", "test.MemoryConnector"}, is(1)},
		{"kafka_connect_connector_connector_type", []string{"connector", "to", "connector_type", "sink"}, is(1)},
		{"kafka_connect_connector_task_status", []string{"connector", "to", "task", "0", "status", "running"}, is(1)},
		{"kafka_connect_source_task_source_record_poll_total", nil, is(100)},
		{"kafka_connect_source_task_source_record_write_total", nil, is(100)},
		{"kafka_connect_source_task_source_record_active_count", nil, is(0)},
		{"kafka_connect_sink_task_sink_record_read_total", task, is(100)},
		{"kafka_connect_sink_task_sink_record_send_total", task, is(100)},
		{"kafka_connect_sink_task_sink_record_active_count", task, is(0)},
		{"kafka_connect_sink_task_sink_record_lag_max", task, is(0)},
		{"kafka_connect_sink_task_partition_count", task, is(1)},
		{"kafka_connect_sink_task_offset_commit_completion_total", task, above(0)},
		{"kafka_connect_connector_task_offset_commit_success_percentage", task, is(1)},
		{"kafka_connect_connector_task_batch_size_max", task, above(0)},
		{"kafka_consumer_fetch_manager_records_lag", []string{"clientid", "connector-consumer-to-0", "topic", "n", "partition", "0"}, is(0)},
		{"kafka_consumer_fetch_manager_records_lead", []string{"topic", "n"}, is(100)},
		{"kafka_consumer_fetch_manager_records_consumed_total", nil, is(100)},
		{"kafka_consumer_fetch_manager_fetch_total", nil, above(0)},
		{"kafka_consumer_connection_count", nil, above(0)},
		{"kafka_producer_record_send_total", []string{"clientid", "connector-producer-from-0"}, above(99)},
		{"kafka_producer_outgoing_byte_total", nil, above(100)},
		{"kafka_producer_buffer_available_bytes", nil, is(runtime.MaxInFlight)},
		{"kafka_connect_worker_rebalance_completed_rebalances_total", nil, above(0)},
		{"kafka_connect_worker_rebalance_rebalancing", nil, is(0)},
		{"kafka_admin_client_connection_count", nil, above(0)},
		{"kafka_connect_connection_count", nil, above(0)},
		{"millrace_connector_task_stalled", task, is(0)},
	} {
		if v, ok := series(got, c.name, c.labels...); !ok || !c.want(v) {
			t.Errorf("%s%v: %v, %v", c.name, c.labels, v, ok)
		}
	}
	if ratio, _ := series(got, "kafka_connect_connector_task_running_ratio", task...); ratio < 0.5 || ratio > 1 {
		t.Errorf("the task ran for %v of its time", ratio)
	}
}

// The ends of transactions come with the records, and a consumer of Java's keeps them to itself.
func TestTheEndsOfTransactionsAreNotCountedAsRecords(t *testing.T) {
	l := logtest.New(t)
	source, sink := NewSource(), NewSink()
	source.Pause.Store(int64(200 * time.Millisecond)) // longer than batches share a transaction
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers"), sink.Plugin("Memory")), "exactly.once.source.support", "enabled")
	Create(t, h, "from", "connector.class", "Numbers", "topic", "n", "count", "30", "batch", "10")
	Until(t, "the source's offset", func() bool { return source.Committed("from", 0) == 30 })
	if ends := Markers(t, l, "n"); len(ends) < 2 {
		t.Fatalf("%d transactions: no end of one is certain to be read before the last record", len(ends))
	}
	Create(t, h, "to", "connector.class", "Memory", "topics", "n")
	Until(t, "the sink's offset", func() bool { return committed(t, h, "to", "n", 0) >= 30 })
	for _, name := range []string{"kafka_consumer_fetch_manager_records_consumed_total", "kafka_connect_sink_task_sink_record_read_total"} {
		if n, ok := series(scrape(t, h), name); !ok || n != 30 {
			t.Errorf("%s is %v (there: %v), want 30", name, n, ok)
		}
	}
}

func is(want float64) func(float64) bool     { return func(v float64) bool { return v == want } }
func above(least float64) func(float64) bool { return func(v float64) bool { return v > least } }

func TestAFailedTaskKeepsItsSeriesAndADeletedConnectorLosesThem(t *testing.T) {
	ctx := context.Background()
	l := logtest.New(t)
	source := NewSource()
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers")), "auto.restart", "false")
	source.FailAt.Store(30)
	Create(t, h, "c", "connector.class", "Numbers", "topic", "n", "count", "100")
	AwaitState(t, h, "c", 0, runtime.Failed)
	polled := func() float64 {
		v, ok := series(scrape(t, h), "kafka_connect_source_task_source_record_poll_total", "connector", "c", "task", "0")
		if !ok {
			return -1
		}
		return v
	}
	if n := polled(); n != 30 {
		t.Errorf("a failed task has polled %v records, want 30", n)
	}
	got := scrape(t, h)
	if v, ok := series(got, "kafka_connect_connector_task_status", "status", "failed"); !ok || v != 1 {
		t.Error("its state is not shown")
	}
	if _, ok := series(got, "kafka_connect_connector_task_status", "status", "running"); ok {
		t.Error("its former state still is")
	}
	source.FailAt.Store(-1)
	if err := h.RestartTask(ctx, runtime.TaskID{Connector: "c"}); err != nil {
		t.Fatal(err)
	}
	Until(t, "the figures to go on where they were", func() bool { return polled() >= 100 })
	if err := h.Delete(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	Until(t, "no series of the connector to be left", func() bool {
		for _, f := range scrape(t, h) {
			for _, m := range f.GetMetric() {
				for _, lb := range m.GetLabel() {
					if lb.GetValue() == "c" || strings.HasSuffix(lb.GetValue(), "-c-0") {
						return false
					}
				}
			}
		}
		return true
	})
}

func TestErrorsAreCounted(t *testing.T) {
	l := logtest.New(t)
	source, sink := NewSource(), NewSink()
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers"), sink.Plugin("Memory")))
	Create(t, h, "from", "connector.class", "Numbers", "topic", "n", "count", "10")
	Until(t, "the records", func() bool { return source.Committed("from", 0) == 10 })
	// Values are strings, which this converter of the sink does not take.
	Create(t, h, "to", "connector.class", "Memory", "topics", "n", "errors.tolerance", "all", "errors.log.enable", "true",
		"errors.deadletterqueue.topic.name", "dead", "value.converter", "org.apache.kafka.connect.converters.LongConverter")
	Until(t, "all to be dead letters", func() bool { return committed(t, h, "to", "n", 0) == 10 })
	got := scrape(t, h)
	for name, want := range map[string]float64{
		"total_record_failures": 10, "total_record_errors": 10, "total_records_skipped": 10, "total_errors_logged": 10, "total_retries": 0,
		"deadletterqueue_produce_requests": 10, "deadletterqueue_produce_failures": 0,
	} {
		if v, ok := series(got, "kafka_connect_task_error_"+name, "connector", "to"); !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	at, _ := series(got, "kafka_connect_task_error_last_error_timestamp", "connector", "to")
	if age := time.Since(time.UnixMilli(int64(at))); age < 0 || age > Wait {
		t.Errorf("the last error was at %v", at)
	}
	if n, _ := series(got, "kafka_connect_sink_task_sink_record_lag_max", "connector", "to"); n != 0 {
		t.Errorf("dead letters count as lag: %v", n)
	}
}

// The conventions add series; the default's stay as they are.
func TestConventionsOfNames(t *testing.T) {
	h := busy(t, "metrics.names", "strimzi,confluent,reporter,debezium")
	got := scrape(t, h)
	for _, c := range []struct {
		name   string
		labels []string
	}{
		{"kafka_connect_worker_task_count", nil},
		{"kafka_connect_connect_worker_metrics_task_count", []string{"connector", "aggregate"}},
		{"kafka_connect_connect_worker_metrics_connector_running_task_count", []string{"connector", "to"}},
		{"kafka_connect_connect_worker_metrics_connector_startup_failure_total", nil},
		{"kafka_connect_worker_metrics_task_count", nil},
		{"kafka_connect_connector_metrics", []string{"connector", "to", "status", "running"}},
		{"kafka_connect_connector_metrics", []string{"connector", "to", "connector_class", "test.MemoryConnector"}},
		{"kafka_connect_connector_metrics_status_info", []string{"connector", "to", "status", "running"}},
		{"kafka_connect_connector_task_metrics_pause_ratio", []string{"connector", "to", "task", "0"}},
		{"kafka_connect_source_task_metrics_source_record_poll_rate", nil},
		{"kafka_connect_connect_worker_rebalance_metrics_completed_rebalances_total", nil},
		{"kafka_connect_connect_worker_rebalance_metrics_completed_rebalances", nil},
		{"kafka_consumer_consumer_metrics_incoming_byte_total", []string{"client_id", "connector-consumer-to-0", "client_type", "consumer"}},
		{"kafka_consumer_consumer_fetch_manager_metrics_records_consumed", []string{"client_id", "connector-consumer-to-0"}},
		{"kafka_producer_producer_metrics_outgoing_byte", []string{"client_id", "connector-producer-from-0"}},
		{"kafka_admin_client_admin_client_metrics_connection_count", nil},
		{"kafka_connect_app", []string{"version", "4.3.1"}},
		{"kafka_connect_app_info", []string{"start_time_ms", ""}},
		{"kafka_connect_metrics_incoming_byte_rate", nil},
	} {
		var labels []string
		for i := 0; i < len(c.labels); i += 2 {
			if c.labels[i+1] != "" {
				labels = append(labels, c.labels[i], c.labels[i+1])
			}
		}
		if _, ok := series(got, c.name, labels...); !ok {
			t.Errorf("%s%v is missing", c.name, c.labels)
		}
	}
	names := slices.Sorted(maps.Keys(got))
	for name := range scrape(t, busy(t)) {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing beside other conventions", name)
		}
	}
	_, errs := runtime.ParseWorker(runtime.WithDefaults(map[string]string{"metrics.names": "jolokia"}, runtime.StandaloneDefaults()))
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "jolokia") {
		t.Errorf("an unknown convention: %v", errs)
	}
}

// Lag grows where nobody reads: a sink that failed, and one that is paused.
func TestLagOfASinkThatDoesNotRead(t *testing.T) {
	ctx := context.Background()
	l := logtest.New(t)
	source, sink := NewSource(), NewSink()
	var broken atomic.Bool
	sink.Refuse = func(*schema.Record) error {
		if broken.Load() {
			return errors.New("the target is broken")
		}
		return nil
	}
	h := Worker(t, l, Plugins(t, source.Plugin("Numbers"), sink.Plugin("Memory")), "auto.restart", "false", "task.stall.timeout.ms", "0")
	Create(t, h, "a", "connector.class", "Numbers", "topic", "n", "count", "10")
	Create(t, h, "to", "connector.class", "Memory", "topics", "n")
	Until(t, "the sink's offset", func() bool { return committed(t, h, "to", "n", 0) == 10 })
	lag := func() float64 {
		v, ok := series(scrape(t, h), "kafka_connect_sink_task_sink_record_lag_max", "connector", "to")
		if !ok {
			return -1
		}
		return v
	}
	if err := h.SetTargetState(ctx, "to", runtime.PausedTarget); err != nil {
		t.Fatal(err)
	}
	AwaitState(t, h, "to", 0, runtime.Paused)
	Until(t, "the poll that was under way to be over", func() bool {
		ago, _ := series(scrape(t, h), "kafka_consumer_last_poll_seconds_ago", "clientid", "connector-consumer-to-0")
		return ago > 2
	})
	Create(t, h, "b", "connector.class", "Numbers", "topic", "n", "count", "7")
	Until(t, "the lag of a paused sink", func() bool { return lag() >= 7 })
	if err := h.SetTargetState(ctx, "to", runtime.Started); err != nil {
		t.Fatal(err)
	}
	Until(t, "no lag", func() bool { return lag() == 0 })
	broken.Store(true)
	Create(t, h, "d", "connector.class", "Numbers", "topic", "n", "count", "5")
	AwaitState(t, h, "to", 0, runtime.Failed)
	Create(t, h, "e", "connector.class", "Numbers", "topic", "n", "count", "3")
	Until(t, "the lag of a failed sink", func() bool { return lag() >= 8 }) // and the ends of transactions
	if n, ok := series(scrape(t, h), "kafka_connect_sink_task_partition_count", "connector", "to"); !ok || n != 0 {
		t.Errorf("a failed task has %s partitions", strconv.FormatFloat(n, 'f', -1, 64))
	}
}
