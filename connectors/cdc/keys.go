package cdc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/schema/config"
	"millrace/schema/envelope"
)

// The headings under which forms show the settings that database sources share.
const (
	GroupConnector = "Connector"
	GroupEvents    = "Events"
)

// The settings that mean the same for every database source. Their types, defaults,
// importance and widths are Debezium's; each source lists them in its own order. In the
// names of tables, schema stands for MySQL's database, too.
var (
	KeyEventProcessingFailureHandlingMode = config.Key[string]{Name: "event.processing.failure.handling.mode", Default: "fail", Importance: config.Medium, Group: GroupConnector, Width: config.Short, Check: config.OneOf(FailureModes...), Recommend: Recommend(FailureModes...),
		Doc: "What happens when a change cannot be read: fail stops the task, warn logs and goes on without it, skip and ignore go on."}
	KeyMaxBatchSize = config.Key[int32]{Name: "max.batch.size", Default: 2048, Importance: config.Medium, Group: GroupConnector, Width: config.Short, Check: config.AtLeast[int32](1),
		Doc: "Most records in one batch; 2,000 at most."}
	KeyMaxQueueSize = config.Key[int32]{Name: "max.queue.size", Default: 8192, Importance: config.Medium, Group: GroupConnector, Width: config.Short, Check: config.AtLeast[int32](1),
		Doc: "Most records that wait between the database's reader and the log. Must be larger than max.batch.size."}
	KeyPollInterval = config.Key[int64]{Name: "poll.interval.ms", Default: 500, Importance: config.Medium, Group: GroupConnector, Width: config.Short,
		Doc: "How often a worker asks for records. Here they are handed on as they come."}
	KeyMaxQueueSizeInBytes = config.Key[int64]{Name: "max.queue.size.in.bytes", Importance: config.Medium, Group: GroupConnector, Width: config.Long, Check: config.AtLeast[int64](0),
		Doc: "Most bytes that wait there. 0 stands for 4 MiB."}
	KeySnapshotDelay = config.Key[time.Duration]{Name: "snapshot.delay.ms", Importance: config.Low, Group: GroupConnector, Width: config.MediumW, Check: AtLeastZero,
		Doc: "Milliseconds to wait before the snapshot."}
	KeyStreamingDelay = config.Key[time.Duration]{Name: "streaming.delay.ms", Importance: config.Low, Group: GroupConnector, Width: config.MediumW, Check: AtLeastZero,
		Doc: "Milliseconds to wait after the snapshot before changes are read."}
	KeySnapshotIncludeCollectionList = config.Key[[]string]{Name: "snapshot.include.collection.list", Importance: config.Medium, Group: GroupConnector, Width: config.Long, Check: PatternList,
		Doc: "Tables that a snapshot reads, as regular expressions of schema.table; empty: all captured ones."}
	KeyLegacySnapshotMaxThreads = config.Key[bool]{Name: "legacy.snapshot.max.threads", Importance: config.Low, Group: GroupConnector, Width: config.Short,
		Doc: "Java's older way of sharing a snapshot out among threads."}
	KeyInternalLegacySnapshotMaxThreads = config.Key[bool]{Name: "internal.legacy.snapshot.max.threads", Importance: config.Low, Group: GroupConnector, Order: 13, Width: config.Short,
		Doc: "Java's older way of sharing a snapshot out among threads."}
	KeySnapshotModeCustomName = config.Key[string]{Name: "snapshot.mode.custom.name", Importance: config.Medium, Group: GroupConnector, Width: config.MediumW,
		Doc: "Name of a Java class that decides about snapshots."}
	KeyRetriableRestartConnectorWait = config.Key[int64]{Name: "retriable.restart.connector.wait.ms", Default: 10000, Importance: config.Low, Group: GroupConnector, Width: config.MediumW,
		Doc: "Java's pause before a restart. The worker restarts failed tasks with its own growing pauses."}
	KeyQueryFetchSize = config.Key[int32]{Name: "query.fetch.size", Importance: config.Medium, Group: GroupConnector, Width: config.MediumW,
		Doc: "Rows of one fetch of a query. Queries of the catalogs are read whole."}
	KeyErrorsMaxRetries = config.Key[int32]{Name: "errors.max.retries", Default: -1, Importance: config.Low, Group: GroupConnector, Width: config.MediumW, Check: config.AtLeast[int32](-1),
		Doc: "Automatic restarts in a row after failures that may pass by themselves, such as a lost connection, before the task stays failed; -1: without end. They are counted anew after 10 minutes of running."}
	KeyIncrementalSnapshotWatermarkingStrategy = config.Key[string]{Name: "incremental.snapshot.watermarking.strategy", Default: "INSERT_INSERT", Importance: config.Low, Group: GroupConnector, Width: config.MediumW, Check: config.OneOf("INSERT_INSERT", "INSERT_DELETE"), Recommend: Recommend("insert_insert", "insert_delete"),
		Doc: "How an incremental snapshot marks its windows in the signal table."}
	KeyInternalAdvancedMetricsEnable = config.Key[bool]{Name: "internal.advanced.metrics.enable", Importance: config.Medium, Group: GroupConnector, Width: config.MediumW,
		Doc: "Further JMX metrics."}
	KeyConnectionValidationTimeout = config.Key[time.Duration]{Name: "connection.validation.timeout.ms", Default: 60000 * time.Millisecond, Importance: config.Low, Group: GroupConnector, Width: config.Short, Check: AtLeastZero,
		Doc: "Milliseconds that checking a configuration may take for reaching the database."}
	KeyExecutorShutdownTimeout = config.Key[int64]{Name: "executor.shutdown.timeout.ms", Default: 4000, Importance: config.Medium, Group: GroupConnector, Width: config.MediumW,
		Doc: "Bound on the end of Java's executors."}
	KeyOpenlineageIntegrationEnabled = config.Key[bool]{Name: "openlineage.integration.enabled", Importance: config.Low, Group: GroupConnector, Width: config.Short,
		Doc: "Report to OpenLineage."}
	KeyOpenlineageIntegrationConfigFilePath = config.Key[string]{Name: "openlineage.integration.config.file.path", Default: "./openlineage.yml", Importance: config.Low, Group: GroupConnector, Width: config.Long,
		Doc: "OpenLineage's configuration."}
	KeyOpenlineageIntegrationJobNamespace = config.Key[string]{Name: "openlineage.integration.job.namespace", Importance: config.Low, Group: GroupConnector, Width: config.Long,
		Doc: "OpenLineage's namespace."}
	KeyOpenlineageIntegrationJobDescription = config.Key[string]{Name: "openlineage.integration.job.description", Default: "Debezium change data capture job", Importance: config.Low, Group: GroupConnector, Width: config.Long,
		Doc: "OpenLineage's description."}
	KeyOpenlineageIntegrationJobTags = config.Key[[]string]{Name: "openlineage.integration.job.tags", Importance: config.Low, Group: GroupConnector, Width: config.Long,
		Doc: "OpenLineage's tags."}
	KeyOpenlineageIntegrationJobOwners = config.Key[[]string]{Name: "openlineage.integration.job.owners", Importance: config.Low, Group: GroupConnector, Width: config.Long,
		Doc: "OpenLineage's owners."}
	KeyOpenlineageIntegrationDatasetKafkaBootstrapServers = config.Key[string]{Name: "openlineage.integration.dataset.kafka.bootstrap.servers", Importance: config.Low, Group: GroupConnector, Width: config.Long,
		Doc: "OpenLineage's name of the cluster."}
	KeyExtendedHeadersEnabled = config.Key[bool]{Name: "extended.headers.enabled", Default: true, Importance: config.Low, Group: GroupConnector, Width: config.Short,
		Doc: "Put headers on each change that name the connector, its task and this run."}
	KeyGuardrailCollectionsMax = config.Key[int32]{Name: "guardrail.collections.max", Importance: config.Medium, Group: GroupConnector, Width: config.Short, Check: config.AtLeast[int32](0),
		Doc: "Most tables that may be captured; 0: any number."}
	KeyGuardrailCollectionsLimitAction = config.Key[string]{Name: "guardrail.collections.limit.action", Default: "warn", Importance: config.Medium, Group: GroupConnector, Width: config.Short, Check: config.OneOf("warn", "fail"), Recommend: Recommend("warn", "fail"),
		Doc: "What happens when there are more: warn or fail."}
	KeyCustomSanitizePattern = config.Key[string]{Name: "custom.sanitize.pattern", Default: `.*secret$|.*password$|.*sasl\.jaas\.config$|.*basic\.auth\.user\.info|.*registry\.auth\.client-secret|.*credentials\.json$|.*connectionstring$|.*connection\.string$`, Importance: config.Low, Group: GroupConnector, Width: config.Long,
		Doc: "Keys that Java hides in its logs. Configurations are not logged here."}
	KeyMemoryManagementSchemasClass = config.Key[config.Class]{Name: "memory.management.schemas.class", Default: "io.debezium.relational.ConcurrentMapTableMappingStorage", Importance: config.Low, Group: GroupConnector, Width: config.Long,
		Doc: "Java class that keeps schemas."}
	KeyMemoryManagementTablesClass = config.Key[config.Class]{Name: "memory.management.tables.class", Default: "io.debezium.relational.ConcurrentMapTableMappingStorage", Importance: config.Low, Group: GroupConnector, Width: config.Long,
		Doc: "Java class that keeps tables."}
	KeySnapshotQueryModeCustomName = config.Key[string]{Name: "snapshot.query.mode.custom.name", Importance: config.Medium, Group: GroupConnector, Width: config.MediumW,
		Doc: "Name of a Java class that makes them."}
	KeySchemaNameAdjustmentMode = config.Key[string]{Name: "schema.name.adjustment.mode", Default: "none", Importance: config.Low, Group: GroupConnector, Width: config.MediumW, Check: config.OneOf(envelope.AdjustModes...), Recommend: Recommend(envelope.AdjustModes...),
		Doc: "How schema names are made fit for a converter: none, avro, avro_unicode."}
	KeyIncrementalSnapshotChunkSize = config.Key[int32]{Name: "incremental.snapshot.chunk.size", Default: 1024, Importance: config.Medium, Group: GroupConnector, Width: config.MediumW,
		Doc: "Rows of one chunk of an incremental snapshot."}
	KeyConverters = config.Key[string]{Name: "converters", Importance: config.Low, Group: GroupEvents, Width: config.MediumW, Check: NotGiven("Java converters of column values cannot run here"),
		Doc: "Names of Java converters of column values."}
	KeyPostProcessors = config.Key[string]{Name: "post.processors", Importance: config.Low, Group: GroupEvents, Width: config.MediumW, Check: NotGiven("Java post processors cannot run here"),
		Doc: "Names of Java post processors."}
	KeyTombstonesOnDelete = config.Key[bool]{Name: "tombstones.on.delete", Default: true, Importance: config.Medium, Group: GroupEvents, Width: config.Short,
		Doc: "Send a null value after each delete, so that compaction forgets the key."}
	KeyHeartbeatInterval = config.Key[time.Duration]{Name: "heartbeat.interval.ms", As: config.IntType, Importance: config.Medium, Group: GroupEvents, Width: config.MediumW, Check: AtLeastZero,
		Doc: "Milliseconds between two records in the heartbeat topic; 0: none."}
	KeyHeartbeatTopicsPrefix = config.Key[string]{Name: "heartbeat.topics.prefix", Default: "__debezium-heartbeat", Importance: config.Low, Group: GroupEvents, Width: config.MediumW,
		Doc: "The heartbeat topic is <this>.<topic.prefix>."}
	KeyTopicNamingStrategy = config.Key[config.Class]{Name: "topic.naming.strategy", Default: "io.debezium.schema.SchemaTopicNamingStrategy", Importance: config.Medium, Group: GroupEvents, Width: config.MediumW, Check: DefaultNaming,
		Doc: "Java class that names topics. There is one here, Debezium's default."}
	KeyTransactionMetadataFactory = config.Key[config.Class]{Name: "transaction.metadata.factory", Default: "io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory", Importance: config.Low, Group: GroupEvents, Width: config.MediumW,
		Doc: "Java class that makes transaction metadata."}
	KeyColumnIncludeList = config.Key[[]string]{Name: "column.include.list", Importance: config.Medium, Group: GroupEvents, Width: config.Long, Check: PatternList,
		Doc: "Columns that events hold, as regular expressions of schema.table.column; key columns always are. Not together with column.exclude.list."}
	KeyColumnExcludeList = config.Key[[]string]{Name: "column.exclude.list", Importance: config.Medium, Group: GroupEvents, Width: config.Long, Check: PatternList,
		Doc: "Columns that events leave out, as regular expressions of schema.table.column."}
	KeyTableIncludeList = config.Key[[]string]{Name: "table.include.list", Importance: config.High, Group: GroupEvents, Width: config.Long, Check: PatternList,
		Doc: "Tables to capture, as regular expressions of schema.table that must match the whole name, whatever its case. Not together with table.exclude.list."}
	KeyTableExcludeList = config.Key[[]string]{Name: "table.exclude.list", Importance: config.Medium, Group: GroupEvents, Width: config.Long, Check: PatternList,
		Doc: "Tables to leave out, as regular expressions of schema.table."}
	KeyMessageKeyColumns = config.Key[string]{Name: "message.key.columns", Importance: config.Medium, Group: GroupEvents, Width: config.Long, Check: func(s string) error { _, err := ParseKeyColumns(s); return err },
		Doc: "Keys of tables where they are not the primary key: <schema.table pattern>:<column>,<column>, with semicolons between tables."}
	KeySnapshotSelectStatementOverrides = config.Key[string]{Name: "snapshot.select.statement.overrides", Importance: config.Medium, Group: GroupEvents, Width: config.Long,
		Doc: "Tables of which the snapshot reads what a SELECT of yours gives; the statement stands in snapshot.select.statement.overrides.<schema>.<table>."}
	KeyColumnMaskHashWithSalt = config.Key[string]{Name: "column.mask.hash.([^.]+).with.salt.(.+)", Importance: config.Medium, Group: GroupEvents, Width: config.Long,
		Doc: "column.mask.hash.<algorithm>.with.salt.<salt> = columns, as regular expressions of schema.table.column, whose text is replaced by its hash, as Java serializes it; column.mask.hash.v2.<algorithm>.with.salt.<salt> hashes the text itself."}
	KeyColumnMaskWithDChars = config.Key[string]{Name: "column.mask.with.(d+).chars", Importance: config.Medium, Group: GroupEvents,
		Doc: "column.mask.with.<n>.chars = columns, as regular expressions, whose text is replaced by n asterisks."}
	KeyColumnTruncateToDChars = config.Key[int32]{Name: "column.truncate.to.(d+).chars", NullDefault: true, Importance: config.Medium, Group: GroupEvents,
		Doc: "column.truncate.to.<n>.chars = columns, as regular expressions, whose text is cut to n characters."}
	KeyIncludeSchemaComments = config.Key[bool]{Name: "include.schema.comments", Importance: config.Medium, Group: GroupEvents, Width: config.Short,
		Doc: "Put the comments of columns into the schemas' documentation."}
	KeyInternalSnapshotScanAllColumnsForce = config.Key[bool]{Name: "internal.snapshot.scan.all.columns.force", Importance: config.Low, Group: GroupEvents, Width: config.Short,
		Doc: "For Java's query of changed columns."}
	KeySnapshotTablesOrderByRowCount = config.Key[string]{Name: "snapshot.tables.order.by.row.count", Default: "disabled", Importance: config.Medium, Group: GroupEvents, Check: config.OneOf("disabled", "ascending", "descending"), Recommend: Recommend("disabled", "ascending", "descending"),
		Doc: "Order of the tables in a snapshot: disabled (by name), ascending or descending by the number of rows that the server estimates."}
	KeyHeartbeatActionQuery = config.Key[string]{Name: "heartbeat.action.query", Importance: config.Low, Group: GroupEvents, Width: config.MediumW,
		Doc: "SQL to run with each heartbeat."}
	KeySnapshotMaxThreadsMultiplier = config.Key[int32]{Name: "snapshot.max.threads.multiplier", Default: 1, Importance: config.Medium, Group: GroupConnector, Width: config.Short,
		Doc: "Parts of a table per such connection."}
	KeySnapshotQueryMode = config.Key[string]{Name: "snapshot.query.mode", Default: "select_all", Importance: config.Low, Group: GroupConnector, Width: config.Short, Check: Supported([]string{"select_all"}, "custom"), Recommend: Recommend("select_all"),
		Doc: "How the snapshot's queries are made: select_all."}
	KeySignalDataCollection = config.Key[[]string]{Name: "signal.data.collection", Importance: config.Medium, Group: GroupEvents, Width: config.MediumW, Check: NoList("signals"),
		Doc: "Table in which rows ask for actions, such as an incremental snapshot."}
	KeySignalPollInterval = config.Key[int64]{Name: "signal.poll.interval.ms", Default: 5000, Importance: config.Medium, Group: GroupEvents, Width: config.Short,
		Doc: "How often to look for signals."}
	KeySignalEnabledChannels = config.Key[[]string]{Name: "signal.enabled.channels", Default: []string{"source"}, Importance: config.Medium, Group: GroupEvents, Width: config.Long, Check: OnlySource,
		Doc: "Where signals come from."}
	KeyNotificationEnabledChannels = config.Key[[]string]{Name: "notification.enabled.channels", Importance: config.Medium, Group: GroupEvents, Width: config.Long, Check: NoList("notifications"),
		Doc: "Where notifications about snapshots go."}
	KeyNotificationSinkTopicName = config.Key[string]{Name: "notification.sink.topic.name", Importance: config.High, Group: GroupEvents, Width: config.Long,
		Doc: "Topic of the channel sink."}
	KeyProvideTransactionMetadata = config.Key[bool]{Name: "provide.transaction.metadata", Importance: config.Low, Group: GroupConnector, Width: config.Short,
		Doc: "Send the beginnings and ends of transactions to a topic of their own, and number each change in its transaction."}
	KeySnapshotModeConfigurationBasedSnapshotData = config.Key[bool]{Name: "snapshot.mode.configuration.based.snapshot.data", Importance: config.Medium, Group: GroupConnector, Width: config.MediumW,
		Doc: "For snapshot.mode=configuration_based: whether each start reads the captured rows."}
	KeySnapshotModeConfigurationBasedStartStream = config.Key[bool]{Name: "snapshot.mode.configuration.based.start.stream", Importance: config.Medium, Group: GroupConnector, Width: config.MediumW,
		Doc: "For snapshot.mode=configuration_based: whether changes are read."}
	KeySnapshotModeConfigurationBasedSnapshotOnDataError = config.Key[bool]{Name: "snapshot.mode.configuration.based.snapshot.on.data.error", Importance: config.Medium, Group: GroupConnector, Width: config.MediumW,
		Doc: "For snapshot.mode=configuration_based: whether the rows are read again when the server no longer has what the stored position needs."}
	KeySnapshotModeConfigurationBasedSnapshotSchema = config.Key[bool]{Name: "snapshot.mode.configuration.based.snapshot.schema", Importance: config.Medium, Group: GroupConnector, Width: config.MediumW,
		Doc: "For snapshot.mode=configuration_based: whether each start reads the tables' definitions."}
	KeySnapshotModeConfigurationBasedSnapshotOnSchemaError = config.Key[bool]{Name: "snapshot.mode.configuration.based.snapshot.on.schema.error", Importance: config.Medium, Group: GroupConnector, Width: config.MediumW,
		Doc: "For snapshot.mode=configuration_based: whether the definitions are read again when the history of schemas is lost."}
	KeyInternalLogPositionCheckEnable = config.Key[bool]{Name: "internal.log.position.check.enable", Default: true, Importance: config.Medium, Group: GroupConnector, Width: config.MediumW,
		Doc: "Whether to check at the start that the server still has what the stored position needs. It is always checked."}
	KeyStatisticsMetricsEnabled = config.Key[bool]{Name: "statistics.metrics.enabled", Default: true, Importance: config.Medium, Group: GroupConnector, Width: config.Short,
		Doc: "Whether /metrics has the least, greatest, mean and percentiles of MilliSecondsBehindSource."}
	KeyCustomMetricTags = config.Key[[]string]{Name: "custom.metric.tags", Importance: config.Low, Group: GroupEvents, Width: config.MediumW, Check: func(l []string) error { _, err := ParseTags(l); return err },
		Doc: "Further labels of this connector's metrics debezium_metrics_…: name=value,name=value."}
	KeySnapshotLockTimeout = config.Key[time.Duration]{Name: "snapshot.lock.timeout.ms", Default: 10000 * time.Millisecond, Importance: config.Medium, Group: GroupConnector, Width: config.Long, Check: AtLeastZero,
		Doc: "Milliseconds to wait for a snapshot's locks."}
	KeySnapshotFetchSize = config.Key[int32]{Name: "snapshot.fetch.size", NullDefault: true, Importance: config.Medium, Group: GroupConnector, Width: config.MediumW,
		Doc: "Rows of one fetch. A snapshot takes rows as the server sends them here."}
	KeyReadOnly         = config.Key[bool]{Name: "read.only", Internal: true, Doc: "Write nothing to the database. Only signals would."}
	KeyTopicDelimiter   = config.Key[string]{Name: "topic.delimiter", Default: ".", Internal: true, Doc: "Stands between the parts of a topic's name.", Check: config.NonEmpty}
	KeyFieldAdjust      = config.Key[string]{Name: "field.name.adjustment.mode", Default: "none", Internal: true, Doc: "How field names are made fit for a converter.", Check: config.OneOf(envelope.AdjustModes...)}
	KeyHeartbeatPrefix2 = config.Key[string]{Name: "topic.heartbeat.prefix", Internal: true, Doc: "Older name of heartbeat.topics.prefix."}
)

// IgnoredKeys are settings of every database source that existing configurations hold
// and that have no meaning here, with the reason.
var IgnoredKeys = map[string]string{
	KeyPollInterval.Name:                                       "records are handed on as they come",
	KeyQueryFetchSize.Name:                                     "queries of the catalogs are small and read whole",
	KeyLegacySnapshotMaxThreads.Name:                           "Java's threads",
	KeyInternalLegacySnapshotMaxThreads.Name:                   "Java's threads",
	KeySnapshotModeCustomName.Name:                             "Java classes cannot run here",
	KeySnapshotQueryModeCustomName.Name:                        "Java classes cannot run here",
	KeyRetriableRestartConnectorWait.Name:                      "the worker restarts a failed task itself, with pauses from 1 s to 60 s",
	KeyInternalAdvancedMetricsEnable.Name:                      "JMX metrics",
	KeyExecutorShutdownTimeout.Name:                            "Java's executors",
	KeyOpenlineageIntegrationEnabled.Name:                      "OpenLineage",
	KeyOpenlineageIntegrationConfigFilePath.Name:               "OpenLineage",
	KeyOpenlineageIntegrationJobNamespace.Name:                 "OpenLineage",
	KeyOpenlineageIntegrationJobDescription.Name:               "OpenLineage",
	KeyOpenlineageIntegrationJobTags.Name:                      "OpenLineage",
	KeyOpenlineageIntegrationJobOwners.Name:                    "OpenLineage",
	KeyOpenlineageIntegrationDatasetKafkaBootstrapServers.Name: "OpenLineage",
	KeyCustomSanitizePattern.Name:                              "configurations are not logged, and secrets never shown",
	KeyMemoryManagementSchemasClass.Name:                       "Java classes cannot run here",
	KeyMemoryManagementTablesClass.Name:                        "Java classes cannot run here",
	KeyTransactionMetadataFactory.Name:                         "Java classes cannot run here",
	KeyInternalSnapshotScanAllColumnsForce.Name:                "Java's query of changed columns",
	KeyTopicNamingStrategy.Name:                                "there is one strategy, Debezium's default",
	KeySnapshotMaxThreadsMultiplier.Name:                       "a snapshot reads with one connection",
	KeyIncrementalSnapshotWatermarkingStrategy.Name:            "there are no incremental snapshots without signals",
	KeyIncrementalSnapshotChunkSize.Name:                       "there are no incremental snapshots without signals",
	KeySignalPollInterval.Name:                                 "there are no signals",
	KeyNotificationSinkTopicName.Name:                          "there are no notifications",
	KeyReadOnly.Name:                                           "signals alone would write to the database",
	"sourceinfo.struct.maker":                                  "Java classes cannot run here",
	"topic.cache.size":                                         "names are kept with their tables",
	"queue.provider.type":                                      "the queue is in memory",
}

// RenamedKeys are settings of Debezium 1.x. It ignores them silently; we say what they
// are called now.
var RenamedKeys = map[string]string{
	"database.server.name": "topic.prefix", "drop.tombstones": "tombstones.on.delete",
	"table.whitelist": "table.include.list", "table.blacklist": "table.exclude.list",
	"column.whitelist": "column.include.list", "column.blacklist": "column.exclude.list",
}

// The values of decimal.handling.mode and time.precision.mode.
var (
	DecimalModes = []string{"precise", "string", "double"}
	TimeModes    = []string{"adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"}
)

// Supported refuses values that Debezium has and we do not, and says so.
func Supported(can []string, cannot ...string) func(string) error {
	return func(s string) error {
		if slices.ContainsFunc(cannot, func(c string) bool { return strings.EqualFold(c, s) }) {
			return fmt.Errorf("this value is not supported; use %s", strings.Join(can, " or "))
		}
		return config.OneOf(can...)(s)
	}
}

// Recommend offers all that a setting takes.
func Recommend(values ...string) func(config.Values) []any {
	return func(config.Values) []any {
		out := make([]any, len(values))
		for i, v := range values {
			out[i] = v
		}
		return out
	}
}

// NotGiven refuses a text of what is not supported.
func NotGiven(reason string) func(string) error {
	return func(s string) error {
		if s != "" {
			return fmt.Errorf("%s; leave the key out", reason)
		}
		return nil
	}
}

// NoList refuses a list of what is not supported.
func NoList(what string) func([]string) error {
	return func(l []string) error {
		if len(l) > 0 {
			return fmt.Errorf("%s is not supported; leave the key out", what)
		}
		return nil
	}
}

// OnlySource refuses channels of signals beyond the source itself.
func OnlySource(l []string) error {
	for _, c := range l {
		if c != "source" {
			return fmt.Errorf("the channel %q is not supported; leave the key out", c)
		}
	}
	return nil
}

// OneThread refuses more than one connection of a snapshot.
func OneThread(n int32) error {
	if n != 1 {
		return fmt.Errorf("a snapshot reads with one connection; more are not supported; leave the key out or set 1")
	}
	return nil
}

// DefaultNaming checks topic.naming.strategy.
func DefaultNaming(c config.Class) error {
	switch c {
	case "io.debezium.schema.SchemaTopicNamingStrategy", "io.debezium.schema.DefaultTopicNamingStrategy", "":
		return nil
	}
	return fmt.Errorf("a Java class cannot run here; leave the key out for Debezium's default")
}

// PatternList checks a list of regular expressions as far as its commas allow; what
// holds escaped ones is checked whole by parse.
func PatternList(l []string) error {
	_, err := ParsePatterns(strings.Join(l, ","))
	return err
}

// SplitStatements splits database.initial.statements at single semicolons.
func SplitStatements(text string) []string {
	const twin = "\x00"
	var out []string
	for _, s := range strings.Split(strings.ReplaceAll(text, ";;", twin), ";") {
		if s = strings.TrimSpace(strings.ReplaceAll(s, twin, ";")); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// AtLeastZero refuses negative durations.
func AtLeastZero(d time.Duration) error { return config.AtLeast(time.Duration(0))(d) }

// With is a map with the entries of another added, which win.
func With(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
