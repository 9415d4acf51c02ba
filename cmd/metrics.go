package cmd

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsHandler serves the process's metrics and those of its parts, which are made when
// they are asked for.
func metricsHandler(lg *slog.Logger, parts ...prometheus.Collector) http.Handler {
	reg := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "millrace_build_info", Help: "Version of Millrace; always 1.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build)
	reg.MustRegister(parts...)
	// What one part cannot say leaves the others' to be read.
	h := promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, ErrorLog: promErrors{lg}, MaxRequestsInFlight: 4})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Nothing but the text format, whatever a client would rather have: OpenMetrics gives
		// counters an ending that some of Connect's names lack.
		r = r.Clone(r.Context())
		r.Header.Set("Accept", "text/plain; version=0.0.4")
		h.ServeHTTP(w, r)
	})
}

type promErrors struct{ lg *slog.Logger }

// Println implements promhttp.Logger.
func (p promErrors) Println(v ...any) { p.lg.Error("metrics could not be read in full", "err", v) }
