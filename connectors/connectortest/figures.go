package connectortest

import (
	"strings"

	"millrace/connectors"
)

// Figures are a task's samples of Debezium's metrics, by name, context and further labels, separated by spaces.
func Figures(samples []connectors.Sample) map[string]float64 {
	out := map[string]float64{}
	for _, s := range samples {
		key := strings.TrimPrefix(s.Name, "debezium_metrics_")
		for _, l := range s.Labels {
			if l.Name != "plugin" && l.Name != "name" {
				key += " " + l.Value
			}
		}
		out[key] = s.Value
	}
	return out
}
