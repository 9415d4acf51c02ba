package postgres

import (
	"time"

	"millrace/connectors/cdc"
	"millrace/schema/config"
)

// The headings under which forms show the settings, as Debezium has them.
const (
	groupPostgres = "Postgres"
)

// The settings, in the order of listings. Their types, defaults, importance and
// widths are Debezium's. What a value of them cannot do here its Check refuses, and
// what has no meaning at all is in ignored.
var (
	keyTopicPrefix = config.Key[string]{Name: "topic.prefix", Importance: config.High, Group: groupPostgres, Width: config.MediumW,
		Doc: "Names this database in everything that is sent: topics are called <prefix>.<schema>.<table>, and the stored position belongs to it. Letters, digits, dots, hyphens and underscores. Must differ from every other connector's."}
	keyDatabaseHostname = config.Key[string]{Name: "database.hostname", Importance: config.High, Group: groupPostgres, Width: config.MediumW,
		Doc: "Host name or address of the database server."}
	keyDatabasePort = config.Key[int32]{Name: "database.port", Default: 5432, Importance: config.High, Group: groupPostgres, Width: config.Short, Check: config.Between[int32](1, 65535),
		Doc: "Port of the database server."}
	keyDatabaseUser = config.Key[string]{Name: "database.user", Importance: config.High, Group: groupPostgres, Width: config.Short,
		Doc: "User to connect as. It needs the rights LOGIN and REPLICATION, and SELECT on the captured tables."}
	keyDatabasePassword = config.Key[config.Password]{Name: "database.password", Importance: config.High, Group: groupPostgres, Width: config.Short,
		Doc: "The user's password."}
	keyDatabaseDbname = config.Key[string]{Name: "database.dbname", Importance: config.High, Group: groupPostgres, Width: config.MediumW,
		Doc: "Database whose changes are captured."}
	keyDatabaseQueryTimeout = config.Key[time.Duration]{Name: "database.query.timeout.ms", Default: 600000 * time.Millisecond, As: config.IntType, Importance: config.Low, Group: groupPostgres, Check: cdc.AtLeastZero,
		Doc: "Longest time of one query of the catalogs, in milliseconds; 0 sets no limit. Reading a table in a snapshot has none."}
	keyPluginName = config.Key[string]{Name: "plugin.name", Default: "decoderbufs", Importance: config.Medium, Group: groupPostgres, Width: config.MediumW, Recommend: cdc.Recommend("decoderbufs", "pgoutput"),
		Doc: "Logical decoding plugin. Changes are read with pgoutput, which every server has; decoderbufs, the default of Debezium, means pgoutput, too."}
	keySlotName = config.Key[string]{Name: "slot.name", Default: "debezium", Importance: config.Medium, Group: groupPostgres, Width: config.MediumW,
		Doc: "Replication slot that keeps this connector's place. It is created where it is missing. Digits, lower-case letters, underscores."}
	keyPublicationName = config.Key[string]{Name: "publication.name", Default: "dbz_publication", Importance: config.Medium, Group: groupPostgres, Width: config.MediumW,
		Doc: "Publication that says which tables' changes the server sends."}
	keyPublicationAutocreateMode = config.Key[string]{Name: "publication.autocreate.mode", Default: "all_tables", Importance: config.Medium, Group: groupPostgres, Width: config.MediumW, Check: config.OneOf(publicationModes...), Recommend: cdc.Recommend(publicationModes...),
		Doc: "What is done about the publication at the start: disabled uses one that exists; all_tables creates a missing one for all tables (which needs a superuser); filtered creates it, or changes it, to hold exactly the captured tables; no_tables creates a missing one without tables."}
	keyReplicaIdentityAutosetValues = config.Key[string]{Name: "replica.identity.autoset.values", Importance: config.Medium, Group: groupPostgres, Width: config.Long, Check: func(s string) error { _, err := parseIdentities(s); return err },
		Doc: "Replica identities to set at the start: <schema.table pattern>:FULL, DEFAULT, NOTHING or INDEX <name>, separated by commas. Needs the tables' ownership."}
	keySlotDropOnStop = config.Key[bool]{Name: "slot.drop.on.stop", Importance: config.Medium, Group: groupPostgres,
		Doc: "Drop the slot on an orderly stop. What changes until the next start is then lost."}
	keySlotFailover = config.Key[bool]{Name: "slot.failover", Importance: config.Medium, Group: groupPostgres,
		Doc: "Create the slot so that standby servers keep it in step (Postgres 17 and newer)."}
	keySlotStreamParams = config.Key[string]{Name: "slot.stream.params", Importance: config.Low, Group: groupPostgres, Width: config.Long, Check: func(s string) error { _, err := parseParams(s); return err },
		Doc: "Further options of the decoding plugin: name=value;name=value."}
	keyDatabaseInitialStatements = config.Key[string]{Name: "database.initial.statements", Importance: config.Low, Group: groupPostgres, Width: config.Long,
		Doc: "SQL to run on every connection for queries once it stands, separated by semicolons; two semicolons are one of a statement's own."}
	keyDatabaseSslmode = config.Key[string]{Name: "database.sslmode", Default: "prefer", Importance: config.Medium, Group: groupPostgres, Width: config.MediumW, Check: config.OneOf("disable", "allow", "prefer", "require", "verify-ca", "verify-full"), Recommend: cdc.Recommend("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
		Doc: "Whether to use TLS: disable, allow, prefer, require, verify-ca (the certificate must be good), verify-full (the host name, too)."}
	keyDatabaseSslcert = config.Key[string]{Name: "database.sslcert", Importance: config.Medium, Group: groupPostgres, Width: config.Long,
		Doc: "File with the client's certificate."}
	keyDatabaseSslpassword = config.Key[config.Password]{Name: "database.sslpassword", Importance: config.Medium, Group: groupPostgres, Width: config.MediumW,
		Doc: "Password of the client's key."}
	keyDatabaseSslrootcert = config.Key[string]{Name: "database.sslrootcert", Importance: config.Medium, Group: groupPostgres, Width: config.Long,
		Doc: "File with the certificates of trusted authorities."}
	keyDatabaseSslkey = config.Key[string]{Name: "database.sslkey", Importance: config.Medium, Group: groupPostgres, Width: config.Long,
		Doc: "File with the client's key."}
	keySlotMaxRetries = config.Key[int32]{Name: "slot.max.retries", Default: 6, Importance: config.Low, Group: groupPostgres, Check: config.AtLeast[int32](0),
		Doc: "How often to try for a slot that somebody else still reads."}
	keySlotRetryDelay = config.Key[time.Duration]{Name: "slot.retry.delay.ms", Default: 10000 * time.Millisecond, Importance: config.Low, Group: groupPostgres, Check: cdc.AtLeastZero,
		Doc: "Milliseconds that stand for one such try: together they bound the wait."}
	keyDatabaseSslfactory = config.Key[string]{Name: "database.sslfactory", Importance: config.Medium, Group: groupPostgres, Width: config.Long,
		Doc: "Java class that makes TLS sockets. Has no meaning here."}
	keyStatusUpdateInterval = config.Key[time.Duration]{Name: "status.update.interval.ms", Default: 10000 * time.Millisecond, As: config.IntType, Importance: config.Medium, Group: groupPostgres, Width: config.Short, Check: cdc.AtLeastZero,
		Doc: "Milliseconds between two reports of our position to the server."}
	keyLsnFlushTimeout = config.Key[int64]{Name: "lsn.flush.timeout.ms", Default: 30000, Importance: config.Medium, Group: groupPostgres, Width: config.Short,
		Doc: "Bound on confirming a position. Confirming never blocks here."}
	keyLsnFlushTimeoutAction = config.Key[string]{Name: "lsn.flush.timeout.action", Default: "fail", Importance: config.Medium, Group: groupPostgres, Width: config.MediumW, Check: config.OneOf("fail", "warn", "ignore"), Recommend: cdc.Recommend("fail", "warn", "ignore"),
		Doc: "What happens at that bound."}
	keyDatabaseTcpKeepAlive = config.Key[bool]{Name: "database.tcpKeepAlive", Default: true, Importance: config.Medium, Group: groupPostgres, Width: config.Short,
		Doc: "Whether TCP keeps idle connections alive."}
	keyXminFetchInterval = config.Key[time.Duration]{Name: "xmin.fetch.interval.ms", Importance: config.Medium, Group: groupPostgres, Width: config.Short, Check: cdc.AtLeastZero,
		Doc: "Milliseconds between two looks at the slot's xmin, which is then part of the source block; 0: never."}
	keySkippedOperations = config.Key[[]string]{Name: "skipped.operations", Default: []string{"t"}, Importance: config.Low, Group: groupPostgres, Width: config.Short, Check: func(l []string) error { _, err := cdc.ParseOperations(l); return err },
		Doc: "Operations that are not sent: c, u, d, t (truncate), or none."}
	keyLsnFlushMode = config.Key[string]{Name: "lsn.flush.mode", Importance: config.Low, Group: groupPostgres, Width: config.Short, Check: config.OneOf("connector", "manual", "connector_and_driver"), Recommend: cdc.Recommend("connector", "manual", "connector_and_driver"),
		Doc: "connector confirms to the slot what the log has stored, and moves on with the server while nothing captured changes; connector_and_driver is the same; manual confirms nothing."}
	keyFlushLsnSource = config.Key[bool]{Name: "flush.lsn.source", Default: true, Importance: config.Low, Group: groupPostgres, Width: config.Short,
		Doc: "false is lsn.flush.mode=manual."}
	keySnapshotMaxThreads = config.Key[int32]{Name: "snapshot.max.threads", Default: 1, Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short, Check: config.AtLeast[int32](1),
		Doc: "Connections that read a snapshot side by side. There is one here, whatever this says."}
	keyDecimalHandlingMode = config.Key[string]{Name: "decimal.handling.mode", Default: "precise", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short, Check: config.OneOf(cdc.DecimalModes...), Recommend: cdc.Recommend(cdc.DecimalModes...),
		Doc: "How NUMERIC and MONEY are sent: precise (Decimal), string, or double, which may round."}
	keyTimePrecisionMode = config.Key[string]{Name: "time.precision.mode", Default: "adaptive", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short, Check: config.OneOf(cdc.TimeModes...), Recommend: cdc.Recommend(cdc.TimeModes...),
		Doc: "How dates and times without zone are sent: adaptive (unit by the column's precision), adaptive_time_microseconds, connect (milliseconds), isostring, microseconds, nanoseconds."}
	keySnapshotMode = config.Key[string]{Name: "snapshot.mode", Default: "initial", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short, Check: cdc.CheckSnapshotMode(noModes), Recommend: cdc.Recommend(cdc.SnapshotModes...),
		Doc: "When the captured rows themselves are read: initial, once, before the changes; initial_only, once, and then no changes; always, at every start; no_data (older: never, schema_only), not at all; when_needed, as initial, and again when the slot no longer has what the stored position needs; configuration_based, as the switches snapshot.mode.configuration.based.… say."}
	keySnapshotIsolationMode = config.Key[string]{Name: "snapshot.isolation.mode", Default: "serializable", Importance: config.Low, Group: cdc.GroupConnector, Width: config.Short, Check: config.OneOf("serializable", "repeatable_read", "read_committed", "read_uncommitted"), Recommend: cdc.Recommend("serializable", "repeatable_read", "read_committed", "read_uncommitted"),
		Doc: "Isolation of the snapshot's transaction. serializable and repeatable_read: all tables stand exactly where the slot begins (which the server gives to repeatable-read transactions; without a stream behind it, serializable is one). read_committed and read_uncommitted: each table stands where its reading begins, and what changed since the slot's beginning is sent again behind it; so no old row versions are kept for as long as the whole snapshot takes."}
	keySnapshotLockingModeCustomName = config.Key[string]{Name: "snapshot.locking.mode.custom.name", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.MediumW,
		Doc: "Name of a Java class that locks."}
	keySnapshotLockingMode = config.Key[string]{Name: "snapshot.locking.mode", Default: "none", Importance: config.Low, Group: cdc.GroupConnector, Width: config.Short, Check: cdc.Supported([]string{"none", "shared"}, "custom"), Recommend: cdc.Recommend("none", "shared"),
		Doc: "none takes no locks beyond a query's own; shared keeps the tables' shape with ACCESS SHARE locks while the snapshot runs."}
	keyHstoreHandlingMode = config.Key[string]{Name: "hstore.handling.mode", Default: "json", Importance: config.Low, Group: cdc.GroupConnector, Width: config.MediumW, Check: config.OneOf("json", "map"), Recommend: cdc.Recommend("json", "map"),
		Doc: "How HSTORE is sent: json (text) or map."}
	keyBinaryHandlingMode = config.Key[string]{Name: "binary.handling.mode", Default: "bytes", Importance: config.Low, Group: cdc.GroupConnector, Width: config.MediumW, Check: config.OneOf(cdc.BinaryModes...), Recommend: cdc.Recommend(cdc.BinaryModes...),
		Doc: "How BYTEA is sent: bytes, base64, base64-url-safe or hex."}
	keyIntervalHandlingMode = config.Key[string]{Name: "interval.handling.mode", Default: "numeric", Importance: config.Low, Group: cdc.GroupConnector, Width: config.MediumW, Check: config.OneOf("numeric", "string"), Recommend: cdc.Recommend("numeric", "string"),
		Doc: "How INTERVAL is sent: numeric (microseconds, a month being 30.4375 days) or string (ISO 8601)."}
	keySchemaRefreshMode = config.Key[string]{Name: "schema.refresh.mode", Default: "columns_diff", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short, Check: config.OneOf("columns_diff", "columns_diff_exclude_unchanged_toast"), Recommend: cdc.Recommend("columns_diff", "columns_diff_exclude_unchanged_toast"),
		Doc: "When Java reads a table's shape again. Here the shape is always the one that the stream itself announces."}
	keyUnavailableValuePlaceholder = config.Key[string]{Name: "unavailable.value.placeholder", Default: "__debezium_unavailable_value", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.MediumW, Check: func(s string) error { _, err := placeholderBytes(s); return err },
		Doc: "Stands for a large value that an update left alone and the server therefore does not send. hex:… gives bytes."}
	keyMessagePrefixIncludeList = config.Key[[]string]{Name: "message.prefix.include.list", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Long, Check: cdc.PatternList,
		Doc: "Prefixes of logical messages to send, as regular expressions; empty: all."}
	keyMessagePrefixExcludeList = config.Key[[]string]{Name: "message.prefix.exclude.list", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Long, Check: cdc.PatternList,
		Doc: "Prefixes of logical messages to leave out."}
	keyPublishViaPartitionRoot = config.Key[bool]{Name: "publish.via.partition.root", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short,
		Doc: "Send changes of partitions under their partitioned table's name."}
	keyPostProcessors = config.Key[[]string]{Name: "post.processors", NullDefault: true, As: config.StringType, Importance: config.Low, Group: cdc.GroupEvents, Width: config.MediumW,
		Doc: "Names of post processors; <name>.type says which. io.debezium.processors.reselect.ReselectColumnsPostProcessor reads large values that the server did not send, and nulls, from the table; others are Java's and refused."}
	keyTableIgnoreBuiltin = config.Key[bool]{Name: "table.ignore.builtin", Default: true, Importance: config.Low, Group: cdc.GroupEvents, Width: config.Short,
		Doc: "Leave out the tables of Postgres itself."}
	keySchemaIncludeList = config.Key[[]string]{Name: "schema.include.list", Importance: config.High, Group: cdc.GroupEvents, Width: config.Long, Dependents: []string{"table.include.list"}, Check: cdc.PatternList,
		Doc: "Schemas to capture, as regular expressions. Not together with schema.exclude.list."}
	keySchemaExcludeList = config.Key[[]string]{Name: "schema.exclude.list", Importance: config.Medium, Group: cdc.GroupEvents, Width: config.Long, Visible: func(config.Values) bool { return false }, Check: cdc.PatternList,
		Doc: "Schemas to leave out, as regular expressions."}
	keyColumnPropagateSourceType = config.Key[[]string]{Name: "column.propagate.source.type", Importance: config.Medium, Group: cdc.GroupEvents, Check: cdc.PatternList,
		Doc: "Columns, as regular expressions of schema.table.column, whose original type, length, scale and name become parameters of their schema."}
	keyDatatypePropagateSourceType = config.Key[[]string]{Name: "datatype.propagate.source.type", Importance: config.Medium, Group: cdc.GroupEvents, Check: cdc.PatternList,
		Doc: "The same for columns of these types, as regular expressions of schema.table.type, such as inv.orders.numeric."}
	keyIncludeUnknownDatatypes = config.Key[bool]{Name: "include.unknown.datatypes", Importance: config.Medium, Group: cdc.GroupEvents, Width: config.Short,
		Doc: "Send columns of types that have no mapping, as the bytes of their text."}
	keySourceinfoStructMaker = config.Key[config.Class]{Name: "sourceinfo.struct.maker", Default: "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker", Importance: config.Low, Group: cdc.GroupEvents, Width: config.MediumW,
		Doc: "Java class that makes the source block."}
)

var definition = config.Define(
	keyTopicPrefix, keyDatabaseHostname, keyDatabasePort, keyDatabaseUser,
	keyDatabasePassword, keyDatabaseDbname, keyDatabaseQueryTimeout, keyPluginName,
	keySlotName, keyPublicationName, keyPublicationAutocreateMode, keyReplicaIdentityAutosetValues,
	keySlotDropOnStop, keySlotFailover, keySlotStreamParams, keyDatabaseInitialStatements,
	keyDatabaseSslmode, keyDatabaseSslcert, keyDatabaseSslpassword, keyDatabaseSslrootcert,
	keyDatabaseSslkey, keySlotMaxRetries, keySlotRetryDelay, keyDatabaseSslfactory,
	keyStatusUpdateInterval, keyLsnFlushTimeout, keyLsnFlushTimeoutAction, keyDatabaseTcpKeepAlive,
	keyXminFetchInterval, keySkippedOperations, keyLsnFlushMode, keyFlushLsnSource,
	cdc.KeyEventProcessingFailureHandlingMode, cdc.KeyMaxBatchSize, cdc.KeyMaxQueueSize, cdc.KeyPollInterval,
	cdc.KeyMaxQueueSizeInBytes, cdc.KeyProvideTransactionMetadata, cdc.KeySnapshotDelay, cdc.KeyStreamingDelay,
	cdc.KeySnapshotIncludeCollectionList, cdc.KeySnapshotFetchSize, keySnapshotMaxThreads, cdc.KeySnapshotMaxThreadsMultiplier,
	cdc.KeyLegacySnapshotMaxThreads, cdc.KeyInternalLegacySnapshotMaxThreads, cdc.KeySnapshotModeCustomName, cdc.KeySnapshotModeConfigurationBasedSnapshotData,
	cdc.KeySnapshotModeConfigurationBasedSnapshotSchema, cdc.KeySnapshotModeConfigurationBasedStartStream, cdc.KeySnapshotModeConfigurationBasedSnapshotOnSchemaError, cdc.KeySnapshotModeConfigurationBasedSnapshotOnDataError,
	cdc.KeyRetriableRestartConnectorWait, cdc.KeyQueryFetchSize, cdc.KeyErrorsMaxRetries, cdc.KeyIncrementalSnapshotWatermarkingStrategy,
	cdc.KeyInternalLogPositionCheckEnable, cdc.KeyInternalAdvancedMetricsEnable, cdc.KeyConnectionValidationTimeout, cdc.KeyExecutorShutdownTimeout,
	cdc.KeyOpenlineageIntegrationEnabled, cdc.KeyOpenlineageIntegrationConfigFilePath, cdc.KeyOpenlineageIntegrationJobNamespace, cdc.KeyOpenlineageIntegrationJobDescription,
	cdc.KeyOpenlineageIntegrationJobTags, cdc.KeyOpenlineageIntegrationJobOwners, cdc.KeyOpenlineageIntegrationDatasetKafkaBootstrapServers, cdc.KeyExtendedHeadersEnabled,
	cdc.KeyGuardrailCollectionsMax, cdc.KeyGuardrailCollectionsLimitAction, cdc.KeyCustomSanitizePattern, cdc.KeyStatisticsMetricsEnabled,
	keyDecimalHandlingMode, keyTimePrecisionMode, cdc.KeySnapshotLockTimeout, cdc.KeyMemoryManagementSchemasClass,
	cdc.KeyMemoryManagementTablesClass, keySnapshotMode, keySnapshotIsolationMode, cdc.KeySnapshotQueryMode,
	cdc.KeySnapshotQueryModeCustomName, keySnapshotLockingModeCustomName, keySnapshotLockingMode, keyHstoreHandlingMode,
	keyBinaryHandlingMode, cdc.KeySchemaNameAdjustmentMode, keyIntervalHandlingMode, keySchemaRefreshMode,
	cdc.KeyIncrementalSnapshotChunkSize, keyUnavailableValuePlaceholder, keyMessagePrefixIncludeList, keyMessagePrefixExcludeList,
	keyPublishViaPartitionRoot, cdc.KeyConverters, keyPostProcessors, cdc.KeyTombstonesOnDelete,
	cdc.KeyHeartbeatInterval, cdc.KeyHeartbeatTopicsPrefix, cdc.KeySignalDataCollection, cdc.KeySignalPollInterval,
	cdc.KeySignalEnabledChannels, cdc.KeyTopicNamingStrategy, cdc.KeyNotificationEnabledChannels, cdc.KeyNotificationSinkTopicName,
	cdc.KeyTransactionMetadataFactory, cdc.KeyCustomMetricTags, cdc.KeyColumnIncludeList, cdc.KeyColumnExcludeList,
	cdc.KeyTableIncludeList, cdc.KeyTableExcludeList, keyTableIgnoreBuiltin, keySchemaIncludeList,
	keySchemaExcludeList, cdc.KeyMessageKeyColumns, cdc.KeySnapshotSelectStatementOverrides, cdc.KeyColumnMaskHashWithSalt,
	cdc.KeyColumnMaskWithDChars, cdc.KeyColumnTruncateToDChars, cdc.KeyIncludeSchemaComments, keyColumnPropagateSourceType,
	keyDatatypePropagateSourceType, cdc.KeyInternalSnapshotScanAllColumnsForce, cdc.KeySnapshotTablesOrderByRowCount, cdc.KeyHeartbeatActionQuery,
	keyIncludeUnknownDatatypes, keySourceinfoStructMaker,
).With(internalKeys...).Ignoring(ignored).OrderedFrom(1)
