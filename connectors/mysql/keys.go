package mysql

import (
	"time"

	"millrace/connectors/cdc"
	"millrace/schema/config"
	"millrace/schema/envelope"
)

// The headings under which forms show the settings.
const (
	groupMySQL     = "MySQL"
	groupConnector = cdc.GroupConnector
	groupEvents    = cdc.GroupEvents
)

var (
	snapshotModes = []string{"always", "initial", "initial_only", "no_data", "when_needed", "recovery", "schema_only", "schema_only_recovery", "never"}
	lockingModes  = []string{"minimal", "minimal_percona", "minimal_percona_no_table_locks", "minimal_at_least_once", "extended", "none"}
	timeModes     = []string{"adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"}
	sslModes      = []string{"disabled", "preferred", "required", "verify_ca", "verify_identity"}
	unsignedModes = []string{"long", "precise", "string"}
)

// The settings, in the order of listings. Their types, defaults, importance and widths
// are Debezium's.
var (
	keyTopicPrefix = config.Key[string]{Name: "topic.prefix", Importance: config.High, Group: groupMySQL, Width: config.MediumW,
		Doc: "Names this server in everything that is sent: topics are called <prefix>.<database>.<table>, and the stored position belongs to it. Letters, digits, dots, hyphens and underscores. Must differ from every other connector's."}
	keyDatabaseHostname = config.Key[string]{Name: "database.hostname", Importance: config.High, Group: groupMySQL, Width: config.MediumW,
		Doc: "Host name or address of the database server."}
	keyDatabasePort = config.Key[int32]{Name: "database.port", Default: 3306, Importance: config.High, Group: groupMySQL, Width: config.Short, Check: config.Between[int32](1, 65535),
		Doc: "Port of the database server."}
	keyDatabaseUser = config.Key[string]{Name: "database.user", Importance: config.High, Group: groupMySQL, Width: config.Short,
		Doc: "User to connect as. It needs the rights SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE and REPLICATION CLIENT."}
	keyDatabasePassword = config.Key[config.Password]{Name: "database.password", Importance: config.High, Group: groupMySQL, Width: config.Short,
		Doc: "The user's password."}
	keyDatabaseServerID = config.Key[int64]{Name: "database.server.id", Importance: config.High, Group: groupMySQL, Width: config.Long, NullDefault: true, Check: config.Between[int64](1, 1<<32-1),
		Doc: "Number that this reader of the binary log has among all replicas of the server; it must be unique. Not given: one between 5400 and 6400 by chance."}
	keyDatabaseSSLMode = config.Key[string]{Name: "database.ssl.mode", Default: "preferred", Importance: config.Medium, Group: groupMySQL, Width: config.MediumW, Check: config.OneOf(sslModes...), Recommend: cdc.Recommend(sslModes...),
		Doc: "Whether to use TLS: disabled, preferred, required, verify_ca (the certificate must be good), verify_identity (the host name, too)."}
	keyConnectTimeout = config.Key[time.Duration]{Name: "connect.timeout.ms", Default: 30000 * time.Millisecond, As: config.IntType, Importance: config.Medium, Group: groupMySQL, Width: config.Short, Check: cdc.AtLeastZero,
		Doc: "Milliseconds that connecting may take."}
	keyConnectKeepAliveInterval = config.Key[time.Duration]{Name: "connect.keep.alive.interval.ms", Default: 60000 * time.Millisecond, Importance: config.Low, Group: groupMySQL, Width: config.Short, Check: cdc.AtLeastZero,
		Doc: "Milliseconds without a sign of life of the server after which the connection is taken for lost."}
	keyDatabaseIncludeList = config.Key[[]string]{Name: "database.include.list", Importance: config.High, Group: groupEvents, Width: config.Long, Check: cdc.PatternList,
		Doc: "Databases to capture, as regular expressions. Not together with database.exclude.list."}
	keyDatabaseExcludeList = config.Key[[]string]{Name: "database.exclude.list", Importance: config.Medium, Group: groupEvents, Width: config.Long, Check: cdc.PatternList,
		Doc: "Databases to leave out, as regular expressions."}
	keySnapshotMode = config.Key[string]{Name: "snapshot.mode", Default: "initial", Importance: config.Low, Group: groupConnector, Width: config.Short, Check: config.OneOf(snapshotModes...), Recommend: cdc.Recommend(snapshotModes...),
		Doc: "When tables are read as a whole."}
	keySnapshotLockingMode = config.Key[string]{Name: "snapshot.locking.mode", Default: "minimal", Importance: config.Low, Group: groupConnector, Width: config.Short, Check: config.OneOf(lockingModes...), Recommend: cdc.Recommend(lockingModes...),
		Doc: "What a snapshot locks."}
	keySnapshotLockTimeout = config.Key[time.Duration]{Name: "snapshot.lock.timeout.ms", Default: 10000 * time.Millisecond, Importance: config.Low, Group: groupConnector, Width: config.MediumW, Check: cdc.AtLeastZero,
		Doc: "Milliseconds to wait for a snapshot's locks."}
	keyDecimalHandlingMode = config.Key[string]{Name: "decimal.handling.mode", Default: "precise", Importance: config.Medium, Group: groupConnector, Width: config.Short, Check: config.OneOf("precise", "double", "string"), Recommend: cdc.Recommend("precise", "double", "string"),
		Doc: "What decimals become: precise numbers, doubles, or text."}
	keyTimePrecisionMode = config.Key[string]{Name: "time.precision.mode", Default: "adaptive_time_microseconds", Importance: config.Medium, Group: groupMySQL, Width: config.MediumW, Check: config.OneOf(timeModes...), Recommend: cdc.Recommend(timeModes...),
		Doc: "What dates and times become."}
	keyBinaryHandlingMode = config.Key[string]{Name: "binary.handling.mode", Default: "bytes", Importance: config.Low, Group: groupConnector, Width: config.Short, Check: config.OneOf(cdc.BinaryModes...), Recommend: cdc.Recommend(cdc.BinaryModes...),
		Doc: "What binary values become: bytes, or text in base64, base64-url-safe or hex."}
	keyBigintUnsignedHandlingMode = config.Key[string]{Name: "bigint.unsigned.handling.mode", Default: "long", Importance: config.Medium, Group: groupMySQL, Width: config.MediumW, Check: config.OneOf(unsignedModes...), Recommend: cdc.Recommend("long", "precise"),
		Doc: "What BIGINT UNSIGNED becomes: long (values from 2^63 on wrap to negative ones), precise, or string."}
	keyIncludeQuery = config.Key[bool]{Name: "include.query", Importance: config.Medium, Group: groupMySQL, Width: config.Short,
		Doc: "Put the statement that made a change into its source block, where the server logs it."}
	keyIncludeSchemaChanges = config.Key[bool]{Name: "include.schema.changes", Default: true, Importance: config.Medium, Group: groupMySQL, Width: config.Short,
		Doc: "Send statements that change tables to the topic <topic.prefix>."}
	keySkippedOperations = config.Key[[]string]{Name: "skipped.operations", Default: []string{"t"}, Importance: config.Low, Group: groupConnector, Width: config.Short, Check: func(l []string) error { _, err := cdc.ParseOperations(l); return err },
		Doc: "Operations that are not sent: c, u, d, t (truncate), or none."}
	keyProvideTransactionMetadata = config.Key[bool]{Name: "provide.transaction.metadata", Importance: config.Low, Group: groupConnector, Width: config.Short, Check: cdc.NotTrue("transaction metadata"),
		Doc: "Send the beginnings and ends of transactions to a topic, and number each change in its own."}
	keyTopicDelimiter = config.Key[string]{Name: "topic.delimiter", Default: ".", Internal: true, Doc: "Stands between the parts of a topic's name.", Check: config.NonEmpty}
	keyFieldAdjust    = config.Key[string]{Name: "field.name.adjustment.mode", Default: "none", Internal: true, Doc: "How field names are made fit for a converter.", Check: config.OneOf(envelope.AdjustModes...)}
	keySkipUnchanged  = config.Key[bool]{Name: "skip.messages.without.change", Internal: true, Doc: "Leave out updates that change no captured column."}

	definition = config.Define(
		keyTopicPrefix, keyDatabaseHostname, keyDatabasePort, keyDatabaseUser, keyDatabasePassword, keyDatabaseServerID, keyDatabaseSSLMode,
		keyConnectTimeout, keyConnectKeepAliveInterval, keyDatabaseIncludeList, keyDatabaseExcludeList, keySnapshotMode, keySnapshotLockingMode, keySnapshotLockTimeout,
		keyDecimalHandlingMode, keyTimePrecisionMode, keyBinaryHandlingMode, keyBigintUnsignedHandlingMode, keyIncludeQuery, keyIncludeSchemaChanges,
		keySkippedOperations, keyProvideTransactionMetadata, keyTopicDelimiter, keyFieldAdjust, keySkipUnchanged,
		cdc.KeyTableIncludeList, cdc.KeyTableExcludeList, cdc.KeyColumnIncludeList, cdc.KeyColumnExcludeList, cdc.KeyMessageKeyColumns,
		cdc.KeyEventProcessingFailureHandlingMode, cdc.KeyMaxBatchSize, cdc.KeyMaxQueueSize, cdc.KeyMaxQueueSizeInBytes, cdc.KeySnapshotDelay, cdc.KeyStreamingDelay,
		cdc.KeySnapshotIncludeCollectionList, cdc.KeySnapshotSelectStatementOverrides, cdc.KeySnapshotTablesOrderByRowCount,
		cdc.KeyExtendedHeadersEnabled, cdc.KeySchemaNameAdjustmentMode, cdc.KeyTombstonesOnDelete, cdc.KeyHeartbeatInterval, cdc.KeyHeartbeatTopicsPrefix,
		cdc.KeyHeartbeatActionQuery, cdc.KeyIncludeSchemaComments, cdc.KeyErrorsMaxRetries, cdc.KeyConnectionValidationTimeout,
	)
)
