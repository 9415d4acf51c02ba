package log_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log"
	"millrace/log/logtest"
)

// scrape is what a log's collector gives, by name and labels: `name{a="b"}`. The registry checks names, types and labels.
func scrape(t testing.TB, l *log.Log, topics bool) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(l.Collector(topics)); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, lp := range m.Label {
				if lp.GetValue() != "" {
					labels = append(labels, fmt.Sprintf("%s=%q", lp.GetName(), lp.GetValue()))
				}
			}
			key := f.GetName()
			if labels != nil {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			out[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			if wantCounter := strings.HasSuffix(f.GetName(), "_total") || strings.HasSuffix(f.GetName(), "_count") && strings.Contains(f.GetName(), "requestmetrics"); (f.GetType() == dto.MetricType_COUNTER) != wantCounter {
				t.Errorf("%s is a %v", f.GetName(), f.GetType())
			}
		}
	}
	return out
}

func TestMetricsTellWhatHappened(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	l := logtest.New(t, func(c *log.Config) { c.Listeners = []string{"127.0.0.1:0"} })
	cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.DefaultProduceTopic("t"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := adm.CreateTopic(ctx, 2, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	var rs []*kgo.Record
	for range 10 {
		value := make([]byte, 1000)
		rand.Read(value) // what cannot be compressed
		rs = append(rs, &kgo.Record{Topic: "t", Partition: 0, Value: value})
	}
	manual, err := kgo.NewClient(append(l.ClientOpts(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer manual.Close()
	if err := manual.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	reader, err := kgo.NewClient(append(l.ClientOpts(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(0)}}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for n := 0; n < 10; {
		fs := reader.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		n += fs.NumRecords()
	}
	offsets := kadm.Offsets{}
	offsets.AddOffset("t", 0, 4, -1)
	if err := adm.CommitAllOffsets(ctx, "g", offsets); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteTopic(ctx, "none"); err == nil {
		t.Fatal("deleted")
	}
	if _, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl); err != nil {
		t.Fatal(err)
	}
	has := func(got map[string]float64, want map[string]float64) {
		t.Helper()
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if v, ok := got[name]; !ok || v != want[name] {
				t.Errorf("%s is %v (%v), want %v", name, v, ok, want[name])
			}
		}
	}
	var got map[string]float64
	for deadline := time.Now().Add(30 * time.Second); ; { // an answer is counted when it is written
		got = scrape(t, l, false)
		if got[`kafka_network_requestmetrics_errors_total{error="UNKNOWN_TOPIC_OR_PARTITION",request="DeleteTopics"}`] == 1 && got[`kafka_network_requestmetrics_totaltimems_count{request="Fetch"}`] > 0 || time.Now().After(deadline) {
			break
		}
	}
	has(got, map[string]float64{
		`kafka_server_brokertopicmetrics_messagesin_total`:                                                     10,
		`kafka_network_requestmetrics_errors_total{error="UNKNOWN_TOPIC_OR_PARTITION",request="DeleteTopics"}`: 1,
		`kafka_network_requestmetrics_errors_total{error="NONE",request="CreateTopics"}`:                       1,
		`kafka_server_replicamanager_underreplicatedpartitions`:                                                0,
		`kafka_server_replicamanager_underminisrpartitioncount`:                                                0,
		`kafka_controller_kafkacontroller_offlinepartitionscount`:                                              0,
		`kafka_log_logmanager_offlinelogdirectorycount`:                                                        0,
		`kafka_controller_kafkacontroller_activecontrollercount`:                                               1,
		`kafka_consumergroup_lag{consumergroup="g",partition="0",topic="t"}`:                                   6,
		`kafka_consumergroup_current_offset{consumergroup="g",partition="0",topic="t"}`:                        4,
		`kafka_consumergroup_lag_sum{consumergroup="g",topic="t"}`:                                             6,
		`kafka_consumergroup_current_offset_sum{consumergroup="g",topic="t"}`:                                  4,
		`kafka_consumergroup_members{consumergroup="g"}`:                                                       0,
		`kafka_coordinator_group_groupmetadatamanager_numgroups`:                                               1,
		`kafka_coordinator_group_groupmetadatamanager_numgroupsempty`:                                          1,
		`kafka_server_kafkaserver_brokerstate`:                                                                 3,
		`kafka_brokers`:                                                                                        1,
		`millrace_log_dirty_bytes`:                                                                             0,
		`millrace_log_undurable_records`:                                                                       0,
		`millrace_log_damaged_ranges`:                                                                          0,
		`millrace_log_open_transactions`:                                                                       0,
		`millrace_log_recovery_seconds`:                                                                        0,
		`millrace_log_state{state="green"}`:                                                                    1,
	})
	for _, name := range []string{`kafka_server_brokertopicmetrics_bytesin_total`, `kafka_server_brokertopicmetrics_bytesout_total`, `millrace_log_synced_bytes_total`, `millrace_log_appended_bytes_total`, `millrace_log_size_bytes`} {
		if got[name] < 10_000 || got[name] > 30_000 {
			t.Errorf("%s is %v, want a little more than 10000", name, got[name])
		}
	}
	for _, name := range []string{`millrace_log_syncs_total`, `millrace_log_sync_seconds{quantile="0.99"}`, `kafka_network_requestmetrics_totaltimems{quantile="0.999",request="Produce"}`,
		`kafka_network_requestmetrics_totaltimems_count{request="Fetch"}`, `kafka_network_requestmetrics_totaltimems_count{request="FetchConsumer"}`, `kafka_server_socket_server_metrics_connection_count{listener="embedded",networkProcessor="0"}`,
		`kafka_server_brokertopicmetrics_totalfetchrequests_total`, `kafka_server_replicamanager_partitioncount`} {
		if !(got[name] > 0) {
			t.Errorf("%s is %v", name, got[name])
		}
	}
	if v, ok := got[`kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT-`+l.Addr()[strings.LastIndex(l.Addr(), ":")+1:]+`",networkProcessor="0"}`]; !ok || v != 0 {
		t.Errorf("a listener without connections: %v, %v", v, ok)
	}
	for name := range got {
		if strings.Contains(name, `topic="`) && !strings.HasPrefix(name, "kafka_consumergroup_") {
			t.Errorf("%s has a topic, and nobody asked for it", name)
		}
	}
	byTopic := scrape(t, l, true)
	has(byTopic, map[string]float64{
		`kafka_server_brokertopicmetrics_messagesin_total`:                          10,
		`kafka_server_brokertopicmetrics_messagesin_total{topic="t"}`:               10,
		`kafka_server_brokertopicmetrics_failedproducerequests_total{topic="t"}`:    0,
		`kafka_log_log_logendoffset{partition="0",topic="t"}`:                       10,
		`kafka_log_log_logendoffset{partition="1",topic="t"}`:                       0,
		`kafka_topic_partitions{topic="t"}`:                                         2,
		`kafka_topic_partition_under_replicated_partition{partition="1",topic="t"}`: 0,
		`kafka_topic_partition_current_offset{partition="0",topic="t"}`:             10,
		`kafka_cluster_partition_replicascount{partition="0",topic="t"}`:            1,
	})
	if v := byTopic[`kafka_server_brokertopicmetrics_bytesout_total{topic="t"}`]; v < 10_000 {
		t.Errorf("bytes out of t: %v", v)
	}
	// A topic that is gone takes its series along; the totals only rise.
	if _, err := adm.DeleteTopic(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	after := scrape(t, l, true)
	if after[`kafka_server_brokertopicmetrics_messagesin_total`] != 10 {
		t.Error("a total went down")
	}
	for name := range after {
		if strings.Contains(name, `topic="t"`) {
			t.Errorf("%s is there still", name)
		}
	}
}

func TestMetricsOfABrokenDisk(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	disk := logtest.NewDisk()
	l := disk.Open(t)
	cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.AllowAutoTopicCreation(), kgo.RecordRetries(0), kgo.RecordDeliveryTimeout(10*time.Second))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t"}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	disk.FailSyncs(errors.New("input/output error"))
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t"}).FirstErr(); err == nil {
		t.Fatal("acknowledged by a broken disk")
	}
	got := scrape(t, l, false)
	if got[`kafka_log_logmanager_offlinelogdirectorycount`] != 1 || got[`kafka_controller_kafkacontroller_offlinepartitionscount`] != got[`kafka_server_replicamanager_partitioncount`] ||
		got[`millrace_log_state{state="red"}`] != 1 || !(got[`millrace_log_undurable_records`] >= 1) || !(got[`millrace_log_dirty_bytes`] > 0) {
		t.Errorf("directories %v, partitions %v, red %v, not durable %v, %v bytes", got[`kafka_log_logmanager_offlinelogdirectorycount`], got[`kafka_controller_kafkacontroller_offlinepartitionscount`],
			got[`millrace_log_state{state="red"}`], got[`millrace_log_undurable_records`], got[`millrace_log_dirty_bytes`])
	}
}

func TestMetricsOfAnIdleLogAreThere(t *testing.T) {
	l := logtest.New(t)
	got := scrape(t, l, false)
	if v, ok := got[`millrace_log_sync_seconds{quantile="0.99"}`]; ok && math.IsInf(v, 0) {
		t.Error("a quantile is infinite")
	}
	if len(got) < 70 {
		t.Errorf("%d series", len(got))
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := scrape(t, l, true); len(got) != 0 {
		t.Errorf("a closed log gives %v", got)
	}
}

func BenchmarkScrape(b *testing.B) {
	l := logtest.New(b)
	if _, err := l.Admin().CreateTopic(b.Context(), 200, 1, nil, "t"); err != nil {
		b.Fatal(err)
	}
	for _, topics := range []bool{false, true} {
		b.Run(fmt.Sprintf("topics=%v", topics), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				scrape(b, l, topics)
			}
		})
	}
}
