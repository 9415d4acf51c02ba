package loggers

// Clients is the logger of our Kafka clients' own messages.
const Clients = "org.apache.kafka.clients"

// javaNames are the loggers of Connect, Debezium and Kafka that existing tools set, by
// the logger of ours that logs what they do. A name of ours stands for all below it
// that has no entry of its own.
var javaNames = map[string][]string{
	"millrace.log":                      {"kafka.server.KafkaServer"},
	"millrace.log.broker":               {"kafka.server.KafkaApis"},
	"millrace.log.broker.group":         {"kafka.coordinator.group.GroupCoordinator"},
	"millrace.log.internal.store":       {"kafka.log.UnifiedLog"},
	"millrace.runtime.herder":           {"org.apache.kafka.connect.runtime.distributed.DistributedHerder"},
	"millrace.runtime.herder.member":    {"org.apache.kafka.connect.runtime.distributed.WorkerCoordinator"},
	"millrace.runtime.worker":           {"org.apache.kafka.connect.runtime.Worker"},
	"millrace.runtime.worker.source":    {"org.apache.kafka.connect.runtime.WorkerSourceTask"},
	"millrace.runtime.worker.sink":      {"org.apache.kafka.connect.runtime.WorkerSinkTask"},
	"millrace.runtime.store.config":     {"org.apache.kafka.connect.storage.KafkaConfigBackingStore"},
	"millrace.runtime.store.offset":     {"org.apache.kafka.connect.storage.KafkaOffsetBackingStore"},
	"millrace.runtime.store.status":     {"org.apache.kafka.connect.storage.KafkaStatusBackingStore"},
	"millrace.runtime.tolerance":        {"org.apache.kafka.connect.runtime.errors.LogReporter"},
	"millrace.rest":                     {"org.apache.kafka.connect.runtime.rest.RestServer"},
	"millrace.connectors.file":          {"org.apache.kafka.connect.file.FileStreamSourceTask", "org.apache.kafka.connect.file.FileStreamSinkTask"},
	"millrace.connectors.postgres":      {"io.debezium.connector.postgresql.PostgresConnectorTask"},
	"millrace.connectors.cdc":           {"io.debezium.pipeline.ChangeEventSourceCoordinator"},
	"millrace.connectors.elasticsearch": {"io.confluent.connect.elasticsearch.ElasticsearchSinkTask"},
	"millrace.transforms":               {"org.apache.kafka.connect.transforms.Transformation"},
	Clients:                             nil,
}
