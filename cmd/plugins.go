package cmd

import (
	"millrace/connectors/elasticsearch"
	"millrace/connectors/file"
	"millrace/connectors/hdfs"
	"millrace/connectors/mysql"
	"millrace/connectors/postgres"
	"millrace/connectors/s3"
	"millrace/runtime/provider"
	"millrace/schema/avro/avroconverter"
	"millrace/schema/converters"
	"millrace/schema/plugin"
	"millrace/transforms"
	"millrace/transforms/debezium"
)

// Plugins are what ships in the binary. A binary with a connector of its own
// appends to them: see the package's documentation.
func Plugins() []plugin.Plugin {
	list := []plugin.Plugin{postgres.Source, mysql.Source, mysql.MariaDB, file.Source, file.Sink, elasticsearch.Sink, s3.Sink, s3.Aiven, hdfs.Sink2, hdfs.Sink3}
	for _, p := range append(converters.All(), avroconverter.Plugin) {
		list = append(list, p)
	}
	for _, p := range append(transforms.All(), debezium.All()...) {
		list = append(list, p)
	}
	for _, p := range transforms.Predicates() {
		list = append(list, p)
	}
	for _, p := range provider.All() {
		list = append(list, p)
	}
	return list
}
