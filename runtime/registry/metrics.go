package registry

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics, under the names that dashboards of the original use. schemas_created stands under the name that newer exporters give it, too.
var (
	registeredCount = prometheus.NewDesc("kafka_schema_registry_registered_count", "Schemas that have an id.", nil, nil)
	schemasCreated  = prometheus.NewDesc("kafka_schema_registry_schemas_created", "Versions registered, as far as the topic tells.", []string{"schema_type"}, nil)
	schemas         = prometheus.NewDesc("kafka_schema_registry_schemas", "Versions registered, as far as the topic tells.", []string{"schema_type"}, nil)
	schemasDeleted  = prometheus.NewDesc("kafka_schema_registry_schemas_deleted", "Versions deleted, as far as the topic tells.", []string{"schema_type"}, nil)
	role            = prometheus.NewDesc("kafka_schema_registry_master_slave_role", "1 on the instance that writes, 0 on others.", nil, nil)
)

type collector struct{ i *Instance }

// Collector collects the registry's metrics.
func (i *Instance) Collector() prometheus.Collector { return collector{i} }

// Describe implements prometheus.Collector.
func (collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{registeredCount, schemasCreated, schemas, schemasDeleted, role} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	byType, registered := c.i.rules.Counts()
	put(registeredCount, float64(registered))
	for typ, n := range byType {
		label := strings.ToLower(typ)
		put(schemasCreated, float64(n.Created), label)
		put(schemas, float64(n.Created), label)
		put(schemasDeleted, float64(n.Deleted), label)
	}
	leads := 0.0
	if c.i.Leads() {
		leads = 1
	}
	put(role, leads)
}
