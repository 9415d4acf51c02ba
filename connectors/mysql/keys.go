package mysql

import (
	"time"

	"millrace/connectors/cdc"
	"millrace/schema/config"
)

// The headings under which forms show the settings, as Debezium has them.
const (
	groupMySQL   = "MySQL"
	groupHistory = "History Storage"
)

// The settings of both connectors, in the order of listings. Their types, defaults,
// importance and widths are Debezium's. What a value of them cannot do here its Check
// refuses, and what has no meaning at all is in ignored.
var (
	keyTopicPrefix = config.Key[string]{Name: "topic.prefix", Importance: config.High, Group: groupMySQL, Width: config.MediumW,
		Doc: "Names this server in everything that is sent: topics are called <prefix>.<database>.<table>, and the stored position belongs to it. Letters, digits, dots, hyphens and underscores. Must differ from every other connector's."}
	keyDatabaseHostname = config.Key[string]{Name: "database.hostname", Importance: config.High, Group: groupMySQL, Width: config.MediumW,
		Doc: "Host name or address of the server."}
	keyDatabasePort = config.Key[int32]{Name: "database.port", Default: 3306, Importance: config.High, Group: groupMySQL, Width: config.Short, Check: config.Between[int32](1, 65535),
		Doc: "Port of the server."}
	keyDatabaseUser = config.Key[string]{Name: "database.user", Importance: config.High, Group: groupMySQL, Width: config.Short,
		Doc: "User to connect as. It needs REPLICATION SLAVE and REPLICATION CLIENT, SELECT on the captured tables, and for snapshots RELOAD or LOCK TABLES."}
	keyDatabasePassword = config.Key[config.Password]{Name: "database.password", Importance: config.High, Group: groupMySQL, Width: config.Short,
		Doc: "The user's password."}
	keyDatabaseQueryTimeout = config.Key[time.Duration]{Name: "database.query.timeout.ms", Default: 600000 * time.Millisecond, As: config.IntType, Importance: config.Low, Group: groupMySQL, Check: cdc.AtLeastZero,
		Doc: "Longest time of one query of the catalogs, in milliseconds; 0 sets no limit. Reading a table in a snapshot has none."}
	keyDatabaseInitialStatements = config.Key[string]{Name: "database.initial.statements", Importance: config.Low, Group: groupMySQL, Width: config.Long,
		Doc: "SQL to run on every connection for queries once it stands, separated by semicolons; two semicolons are one of a statement's own."}
	keyDatabaseServerID = config.Key[int64]{Name: "database.server.id", NullDefault: true, Importance: config.High, Group: groupMySQL, Width: config.Long, Check: config.Between[int64](1, 1<<32-1),
		Doc: "Number under which the connector reads the binary log, as a replica does. Must differ from those of all servers, replicas and other connectors."}
	keyDatabaseServerIDOffset = config.Key[int64]{Name: "database.server.id.offset", Default: 10000, Importance: config.High, Group: groupMySQL, Width: config.Long,
		Doc: "What Java adds to that number for further connections."}
	keyDatabaseSslKeystore = config.Key[string]{Name: "database.ssl.keystore", Importance: config.Medium, Group: groupMySQL, Width: config.Long,
		Doc: "File with the client's key and certificate: a JKS or PKCS12 store, or PEM."}
	keyDatabaseSslKeystorePassword = config.Key[config.Password]{Name: "database.ssl.keystore.password", Importance: config.Medium, Group: groupMySQL, Width: config.MediumW,
		Doc: "Password of the key store and its key."}
	keyDatabaseSslTruststore = config.Key[string]{Name: "database.ssl.truststore", Importance: config.Medium, Group: groupMySQL, Width: config.Long,
		Doc: "File with the certificates of trusted authorities: a JKS or PKCS12 store, or PEM. Without one, the system's authorities are trusted."}
	keyDatabaseSslTruststorePassword = config.Key[config.Password]{Name: "database.ssl.truststore.password", Importance: config.Medium, Group: groupMySQL, Width: config.MediumW,
		Doc: "Password of the trust store."}
	keyDatabaseJdbcDriver = config.Key[config.Class]{Name: "database.jdbc.driver", Default: "com.mysql.cj.jdbc.Driver", Importance: config.Low, Group: groupMySQL, Width: config.MediumW,
		Doc: "Java class of the driver. Has no meaning here."}
	keyDatabaseProtocol = config.Key[string]{Name: "database.protocol", Default: "jdbc:mysql", Importance: config.Low, Group: groupMySQL, Width: config.MediumW,
		Doc: "Java's name of the protocol. Has no meaning here."}
	keyDatabaseSslMode = config.Key[string]{Name: "database.ssl.mode", Default: "preferred", Importance: config.Medium, Group: groupMySQL, Width: config.MediumW, Check: config.OneOf(sslModes...), Recommend: cdc.Recommend(sslModes[:5]...),
		Doc: "Whether to use TLS: disabled; preferred (where the server has it); required; verify_ca (its certificate must be good); verify_identity (the host name, too)."}
	keySkippedOperations = config.Key[[]string]{Name: "skipped.operations", Default: []string{"t"}, Importance: config.Low, Group: cdc.GroupConnector, Width: config.Short, Check: func(l []string) error { _, err := cdc.ParseOperations(l); return err },
		Doc: "Operations that are not sent: c, u, d, t (truncate), or none."}
	keySnapshotMaxThreads = config.Key[int32]{Name: "snapshot.max.threads", Default: 1, Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short, Check: cdc.OneThread,
		Doc: "Connections that read a snapshot side by side."}
	keyInternalLegacySnapshotMaxThreads = config.Key[bool]{Name: "internal.legacy.snapshot.max.threads", Importance: config.Low, Group: cdc.GroupConnector, Order: 14, Width: config.Short,
		Doc: "Java's older way of sharing a snapshot out among threads."}
	keyDecimalHandlingMode = config.Key[string]{Name: "decimal.handling.mode", Default: "precise", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short, Check: config.OneOf(cdc.DecimalModes...), Recommend: cdc.Recommend(cdc.DecimalModes...),
		Doc: "How DECIMAL is sent: precise (Decimal), string, or double, which may round."}
	keyConnectTimeout = config.Key[time.Duration]{Name: "connect.timeout.ms", Default: 30000 * time.Millisecond, As: config.IntType, Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short, Check: config.AtLeast(time.Millisecond),
		Doc: "Milliseconds that reaching the server and logging in may take."}
	keyConnectKeepAlive = config.Key[bool]{Name: "connect.keep.alive", Default: true, Importance: config.Low, Group: cdc.GroupConnector, Width: config.Short,
		Doc: "Whether TCP keeps idle connections alive, and a lost connection to the binary log is replaced at once."}
	keyConnectKeepAliveInterval = config.Key[time.Duration]{Name: "connect.keep.alive.interval.ms", Default: 60000 * time.Millisecond, Importance: config.Low, Group: cdc.GroupConnector, Width: config.Short, Check: config.AtLeast(time.Millisecond),
		Doc: "A connection to the binary log on which nothing came for so many milliseconds, not even the server's heartbeat, is taken for lost."}
	keyUseNongracefulDisconnect = config.Key[bool]{Name: "use.nongraceful.disconnect", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short,
		Doc: "How Java closes a connection."}
	keyBinlogNetWriteTimeout = config.Key[int64]{Name: "binlog.net.write.timeout", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short, Check: config.Between[int64](0, 31536000),
		Doc: "Seconds that the server waits for us to take an event before it ends the connection; 0: ten minutes, or the server's own value where that is longer."}
	keyBinlogNetReadTimeout = config.Key[int64]{Name: "binlog.net.read.timeout", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short, Check: config.Between[int64](0, 31536000),
		Doc: "The server's net_read_timeout of that connection, in seconds; 0: the server's own value."}
	keySnapshotMode = config.Key[string]{Name: "snapshot.mode", Default: "initial", Importance: config.Low, Group: cdc.GroupConnector, Width: config.Short, Check: cdc.CheckSnapshotMode(noModes), Recommend: cdc.Recommend(snapshotModes...),
		Doc: "initial reads definitions and rows once, before the changes; no_data definitions only; always reads all at each start; initial_only stops behind the rows; when_needed reads anew when the stored position is no longer in the server's logs; recovery rebuilds a lost schema history from the definitions as they are now; configuration_based does what snapshot.mode.configuration.based.* say."}
	keyBigintUnsignedHandlingMode = config.Key[string]{Name: "bigint.unsigned.handling.mode", Default: "long", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short, Check: config.OneOf("long", "precise", "string"), Recommend: cdc.Recommend("long", "precise"),
		Doc: "How BIGINT UNSIGNED is sent: long (values above 9223372036854775807 come out negative), precise (Decimal) or string."}
	keyTimePrecisionMode = config.Key[string]{Name: "time.precision.mode", Default: "adaptive_time_microseconds", Importance: config.Medium, Group: cdc.GroupConnector, Width: config.Short, Check: cdc.Supported(timeModes, "adaptive"), Recommend: cdc.Recommend(timeModes...),
		Doc: "How dates and times without zone are sent: adaptive_time_microseconds (unit by the column's precision, TIME in microseconds), connect (milliseconds), isostring, microseconds, nanoseconds."}
	keyEnableTimeAdjuster = config.Key[bool]{Name: "enable.time.adjuster", Default: true, Importance: config.Low, Group: cdc.GroupConnector, Width: config.Short,
		Doc: "Take years below 100 in dates for years from 1970 to 2069."}
	keyMinRowCountToStreamResults = config.Key[int32]{Name: "min.row.count.to.stream.results", Default: 1000, Importance: config.Low, Group: cdc.GroupConnector, Width: config.MediumW,
		Doc: "Rows from which on Java reads a table's rows one by one. It is always done here."}
	keyIncrementalSnapshotAllowSchemaChanges = config.Key[bool]{Name: "incremental.snapshot.allow.schema.changes", Importance: config.Low, Group: cdc.GroupConnector, Width: config.Short,
		Doc: "Let definitions change while an incremental snapshot runs."}
	keySnapshotLockingMode = config.Key[string]{Name: "snapshot.locking.mode", Default: "minimal", Importance: config.Low, Group: cdc.GroupConnector, Width: config.Short, Check: cdc.Supported(lockingModes, "custom"), Recommend: cdc.Recommend(lockingModes[:5]...),
		Doc: "minimal takes a lock only while position and definitions are read; extended holds it while rows are read, too; none takes none; minimal_at_least_once reads rows without one transaction; minimal_percona takes Percona Server's backup lock in its place, under which rows still change, and where the user lacks the right for it locks the captured tables; minimal_percona_no_table_locks never does the latter. Both are refused on another server."}
	keyDdlParserType = config.Key[string]{Name: "ddl.parser.type", Default: "default", Importance: config.Low, Group: cdc.GroupConnector, Width: config.Short, Check: config.OneOf("default", "legacy"), Recommend: cdc.Recommend("default", "legacy"),
		Doc: "Which of Java's parsers reads DDL. There is one here."}
	keySchemaHistoryInternal = config.Key[config.Class]{Name: "schema.history.internal", Default: kafkaHistory, Importance: config.Low, Group: groupHistory, Width: config.Long, Visible: func(config.Values) bool { return false }, Check: supportedHistory,
		Doc: "Where the history of the tables' definitions is kept: the class KafkaSchemaHistory stands for a topic, FileSchemaHistory for a file."}
	keySchemaHistorySkipUnparseable = config.Key[bool]{Name: "schema.history.internal.skip.unparseable.ddl", Importance: config.Low, Group: groupHistory, Width: config.Short,
		Doc: "Go on behind a statement that cannot be read, with a warning, instead of stopping. Rows of the tables that it changed may then come out wrong or stop the task."}
	keySchemaHistoryCapturedTables = config.Key[bool]{Name: "schema.history.internal.store.only.captured.tables.ddl", Importance: config.Low, Group: groupHistory, Width: config.Short,
		Doc: "Keep the definitions of captured tables alone. A table that is captured later then needs a new snapshot."}
	keySchemaHistoryCapturedDatabases = config.Key[bool]{Name: "schema.history.internal.store.only.captured.databases.ddl", Importance: config.Low, Group: groupHistory, Width: config.Short,
		Doc: "Keep the definitions of the tables of captured databases alone."}
	keyIncludeSchemaChanges = config.Key[bool]{Name: "include.schema.changes", Default: true, Importance: config.Medium, Group: cdc.GroupEvents, Width: config.Short,
		Doc: "Send the statements that change captured tables to the topic <topic.prefix>."}
	keyColumnPropagateSourceType = config.Key[[]string]{Name: "column.propagate.source.type", Importance: config.Medium, Group: cdc.GroupEvents, Check: cdc.PatternList,
		Doc: "Columns, as regular expressions of database.table.column, whose original type, length and scale become parameters of their schema."}
	keyDatatypePropagateSourceType = config.Key[[]string]{Name: "datatype.propagate.source.type", Importance: config.Medium, Group: cdc.GroupEvents, Check: cdc.PatternList,
		Doc: "The same for columns of these types, as regular expressions of database.table.TYPE."}
	keyIncludeQuery = config.Key[bool]{Name: "include.query", Importance: config.Medium, Group: cdc.GroupEvents, Width: config.Short,
		Doc: "Put the text of the statement that changed a row into the source block. The server must log it: binlog_rows_query_log_events (MySQL), binlog_annotate_row_events (MariaDB)."}
	keyTableIgnoreBuiltin = config.Key[bool]{Name: "table.ignore.builtin", Default: true, Importance: config.Low, Group: cdc.GroupEvents, Width: config.Short, Dependents: []string{"database.include.list"},
		Doc: "Leave out the tables of the server itself: mysql, performance_schema, sys, information_schema."}
	keyDatabaseIncludeList = config.Key[[]string]{Name: "database.include.list", Importance: config.High, Group: cdc.GroupEvents, Width: config.Long, Dependents: []string{"table.include.list"}, Check: cdc.PatternList,
		Doc: "Databases to capture, as regular expressions. Not together with database.exclude.list."}
	keyDatabaseExcludeList = config.Key[[]string]{Name: "database.exclude.list", Importance: config.Medium, Group: cdc.GroupEvents, Width: config.Long, Check: cdc.PatternList,
		Doc: "Databases to leave out, as regular expressions."}
	keyBinlogBufferSize = config.Key[int32]{Name: "binlog.buffer.size", Importance: config.Medium, Group: cdc.GroupEvents, Width: config.MediumW, Check: config.AtLeast[int32](0),
		Doc: "Events that Java holds back until their transaction has ended."}
	keyEventDeserializationFailureHandlingMode = config.Key[string]{Name: "event.deserialization.failure.handling.mode", Default: "fail", Importance: config.Medium, Group: cdc.GroupEvents, Width: config.Short, Check: config.OneOf(cdc.FailureModes...), Recommend: cdc.Recommend(cdc.FailureModes...),
		Doc: "Older name of event.processing.failure.handling.mode, which wins."}
	keyInconsistentSchemaHandlingMode = config.Key[string]{Name: "inconsistent.schema.handling.mode", Default: "fail", Importance: config.Medium, Group: cdc.GroupEvents, Width: config.Short, Check: config.OneOf(cdc.FailureModes...), Recommend: cdc.Recommend(cdc.FailureModes...),
		Doc: "What happens with rows of a captured table whose definition is not in the history or does not fit them: fail stops the task, warn leaves them out with a warning, skip and ignore leave them out."}
	keyGtidSourceFilterDmlEvents = config.Key[bool]{Name: "gtid.source.filter.dml.events", Default: true, Importance: config.Medium, Group: cdc.GroupEvents, Width: config.Short,
		Doc: "Leave out the rows of transactions whose origin gtid.source.includes or excludes leaves out."}
	keyGtidIgnoreOnRecovery = config.Key[bool]{Name: "gtid.ignore.on.recovery", Importance: config.Low, Group: cdc.GroupEvents, Width: config.Short,
		Doc: "Go on by file and position at a start, also where the server has GTIDs."}
	keyGtidSourceIncludes = config.Key[[]string]{Name: "gtid.source.includes", Importance: config.High, Group: cdc.GroupEvents, Width: config.Long, Dependents: []string{"table.include.list"}, Check: cdc.PatternList,
		Doc: "Origins (MySQL: server UUIDs; MariaDB: domain-server), as regular expressions, whose GTIDs count for the position. Not together with gtid.source.excludes."}
	keyGtidSourceExcludes = config.Key[string]{Name: "gtid.source.excludes", Importance: config.Medium, Group: cdc.GroupEvents, Width: config.Long, Visible: func(config.Values) bool { return false }, Check: func(s string) error { _, err := cdc.ParsePatterns(s); return err },
		Doc: "Origins whose GTIDs do not count."}
	keySourceinfoStructMaker = config.Key[config.Class]{Name: "sourceinfo.struct.maker", Default: "io.debezium.connector.mysql.MySqlSourceInfoStructMaker", Importance: config.Low, Group: cdc.GroupEvents, Width: config.MediumW,
		Doc: "Java class that makes the source block."}
)

// The settings that MariaDB's connector has otherwise.
var (
	keyMariaDBSslMode = config.Key[string]{Name: "database.ssl.mode", Default: "disable", Importance: config.Medium, Group: groupMySQL, Width: config.MediumW, Check: config.OneOf(sslModes...), Recommend: cdc.Recommend(sslModes[5:]...),
		Doc: "Whether to use TLS: disable; trust (without looking at the certificate); verify-ca (it must be good); verify-full (the host name, too). MySQL's names are taken, too."}
	keyMariaDBSnapshotLockingMode = config.Key[string]{Name: "snapshot.locking.mode", Default: "minimal", Importance: config.Low, Group: cdc.GroupConnector, Width: config.Short, Check: cdc.Supported(mariadbLockingModes, "custom"), Recommend: cdc.Recommend(mariadbLockingModes[:3]...),
		Doc: "minimal takes a lock only while position and definitions are read; extended holds it while rows are read, too; none takes none; minimal_at_least_once reads rows without one transaction."}
	keyMariaDBJdbcDriver = config.Key[config.Class]{Name: "database.jdbc.driver", Default: "org.mariadb.jdbc.Driver", Importance: config.Low, Group: groupMySQL, Width: config.MediumW,
		Doc: "Java class of the driver. Has no meaning here."}
	keyMariaDBProtocol = config.Key[string]{Name: "database.protocol", Default: "jdbc:mariadb", Importance: config.Low, Group: groupMySQL, Width: config.MediumW,
		Doc: "Java's name of the protocol. Has no meaning here."}
	keyMariaDBSourceinfoStructMaker = config.Key[config.Class]{Name: "sourceinfo.struct.maker", Default: "io.debezium.connector.mariadb.MariaDbSourceInfoStructMaker", Importance: config.Low, Group: cdc.GroupEvents, Width: config.MediumW,
		Doc: "Java class that makes the source block."}
)

// fields are the settings in the order of listings, with those that differ between the
// connectors put in.
func fields(driver, protocol, sslMode, locking, maker config.Field) []config.Field {
	return []config.Field{
		keyTopicPrefix, keyDatabaseHostname, keyDatabasePort, keyDatabaseUser, keyDatabasePassword, keyDatabaseQueryTimeout,
		keyDatabaseInitialStatements, keyDatabaseServerID, keyDatabaseServerIDOffset, keyDatabaseSslKeystore, keyDatabaseSslKeystorePassword,
		keyDatabaseSslTruststore, keyDatabaseSslTruststorePassword, driver, protocol, sslMode,
		cdc.KeyEventProcessingFailureHandlingMode, cdc.KeyMaxBatchSize, cdc.KeyMaxQueueSize, cdc.KeyPollInterval, cdc.KeyMaxQueueSizeInBytes, cdc.KeyProvideTransactionMetadata,
		keySkippedOperations, cdc.KeySnapshotDelay, cdc.KeyStreamingDelay, cdc.KeySnapshotIncludeCollectionList, cdc.KeySnapshotFetchSize, keySnapshotMaxThreads,
		cdc.KeySnapshotMaxThreadsMultiplier, cdc.KeyLegacySnapshotMaxThreads, keyInternalLegacySnapshotMaxThreads, cdc.KeySnapshotModeCustomName,
		cdc.KeySnapshotModeConfigurationBasedSnapshotData, cdc.KeySnapshotModeConfigurationBasedSnapshotSchema, cdc.KeySnapshotModeConfigurationBasedStartStream,
		cdc.KeySnapshotModeConfigurationBasedSnapshotOnSchemaError, cdc.KeySnapshotModeConfigurationBasedSnapshotOnDataError, cdc.KeyRetriableRestartConnectorWait,
		cdc.KeyQueryFetchSize, cdc.KeyErrorsMaxRetries, cdc.KeyIncrementalSnapshotWatermarkingStrategy, cdc.KeyInternalLogPositionCheckEnable, cdc.KeyInternalAdvancedMetricsEnable,
		cdc.KeyConnectionValidationTimeout, cdc.KeyExecutorShutdownTimeout, cdc.KeyOpenlineageIntegrationEnabled, cdc.KeyOpenlineageIntegrationConfigFilePath,
		cdc.KeyOpenlineageIntegrationJobNamespace, cdc.KeyOpenlineageIntegrationJobDescription, cdc.KeyOpenlineageIntegrationJobTags, cdc.KeyOpenlineageIntegrationJobOwners,
		cdc.KeyOpenlineageIntegrationDatasetKafkaBootstrapServers, cdc.KeyExtendedHeadersEnabled, cdc.KeyGuardrailCollectionsMax, cdc.KeyGuardrailCollectionsLimitAction,
		cdc.KeyCustomSanitizePattern, cdc.KeyStatisticsMetricsEnabled, keyDecimalHandlingMode, cdc.KeySnapshotLockTimeout, cdc.KeyMemoryManagementSchemasClass,
		cdc.KeyMemoryManagementTablesClass, keyConnectTimeout, keyConnectKeepAlive, keyConnectKeepAliveInterval, keyUseNongracefulDisconnect,
		keyBinlogNetWriteTimeout, keyBinlogNetReadTimeout, keySnapshotMode, cdc.KeySnapshotQueryMode, cdc.KeySnapshotQueryModeCustomName, keyBigintUnsignedHandlingMode,
		keyTimePrecisionMode, keyEnableTimeAdjuster, cdc.KeySchemaNameAdjustmentMode, keyMinRowCountToStreamResults, cdc.KeyIncrementalSnapshotChunkSize,
		keyIncrementalSnapshotAllowSchemaChanges, locking, keyDdlParserType,
		keySchemaHistoryInternal, keySchemaHistorySkipUnparseable, keySchemaHistoryCapturedTables, keySchemaHistoryCapturedDatabases,
		cdc.KeyConverters, cdc.KeyPostProcessors, cdc.KeyTombstonesOnDelete, cdc.KeyHeartbeatInterval, cdc.KeyHeartbeatTopicsPrefix, cdc.KeySignalDataCollection, cdc.KeySignalPollInterval,
		cdc.KeySignalEnabledChannels, cdc.KeyTopicNamingStrategy, cdc.KeyNotificationEnabledChannels, cdc.KeyNotificationSinkTopicName, cdc.KeyTransactionMetadataFactory,
		cdc.KeyCustomMetricTags, cdc.KeyColumnIncludeList, cdc.KeyColumnExcludeList, cdc.KeyTableIncludeList, cdc.KeyTableExcludeList, cdc.KeyMessageKeyColumns,
		cdc.KeySnapshotSelectStatementOverrides, cdc.KeyColumnMaskHashWithSalt, cdc.KeyColumnMaskWithDChars, cdc.KeyColumnTruncateToDChars, keyIncludeSchemaChanges,
		cdc.KeyIncludeSchemaComments, keyColumnPropagateSourceType, keyDatatypePropagateSourceType, cdc.KeyInternalSnapshotScanAllColumnsForce,
		cdc.KeySnapshotTablesOrderByRowCount, cdc.KeyHeartbeatActionQuery, keyIncludeQuery, keyTableIgnoreBuiltin, keyDatabaseIncludeList, keyDatabaseExcludeList,
		keyBinlogBufferSize, keyEventDeserializationFailureHandlingMode, keyInconsistentSchemaHandlingMode, keyGtidSourceFilterDmlEvents,
		keyGtidIgnoreOnRecovery, keyGtidSourceIncludes, keyGtidSourceExcludes, maker,
	}
}

var (
	definition = config.Define(fields(keyDatabaseJdbcDriver, keyDatabaseProtocol, keyDatabaseSslMode, keySnapshotLockingMode, keySourceinfoStructMaker)...).
			With(internalKeys...).Ignoring(ignored).OrderedFrom(1)
	mariadbDefinition = config.Define(fields(keyMariaDBJdbcDriver, keyMariaDBProtocol, keyMariaDBSslMode, keyMariaDBSnapshotLockingMode, keyMariaDBSourceinfoStructMaker)...).
				With(internalKeys...).Ignoring(ignored).OrderedFrom(1)
)
