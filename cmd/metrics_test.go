package cmd

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestMetricsAreTextWhateverAClientPrefers(t *testing.T) {
	c := prometheus.NewGauge(prometheus.GaugeOpts{Name: "kafka_connect_task_error_total_retries", Help: "x"})
	n := prometheus.NewCounter(prometheus.CounterOpts{Name: "kafka_without_ending", Help: "x"})
	h := metricsHandler(slog.New(slog.DiscardHandler), c, n)
	for _, accept := range []string{"", "application/openmetrics-text; version=1.0.0", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "*/*"} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("Accept %q: %d %s", accept, w.Code, w.Header().Get("Content-Type"))
		}
		for _, line := range []string{"\nkafka_without_ending 0\n", "\nkafka_connect_task_error_total_retries 0\n", "\ngo_goroutines ", "\nprocess_open_fds ", "\nprocess_cpu_seconds_total ", "\nmillrace_build_info{version="} {
			if !strings.Contains(w.Body.String(), line) {
				t.Errorf("Accept %q: no %q", accept, line)
			}
		}
	}
}
