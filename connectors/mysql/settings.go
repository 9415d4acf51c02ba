package mysql

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/connectors/cdc"
	"millrace/schema/config"
	"millrace/schema/envelope"
)

// settings is a configuration, read once.
type settings struct {
	mariadb  bool // of the class io.debezium.connector.mariadb.MariaDbConnector
	prefix   string
	host     string
	port     int
	user     string
	password config.Password
	serverID uint32

	sslMode        string
	connectTimeout time.Duration
	silence        time.Duration // without a sign of life after which a connection is lost

	snapshotMode, lockingMode     string
	snapshotDelay, streamingDelay time.Duration
	lockTimeout                   time.Duration
	snapshotTables                cdc.Patterns
	selects                       map[string]string // database.table → SELECT
	tableOrder                    string

	tables  cdc.Tables
	columns cdc.Columns
	keys    cdc.KeyColumns
	texts   []cdc.TextRule

	naming        cdc.Naming
	decimals      string
	times         string
	binary        cdc.BinaryMode
	unsigned      string
	comments      bool
	query         bool // the statement goes into the source block
	schemaChanges bool

	tombstones, headers bool
	skip                cdc.Operations
	skipUnchanged       bool
	failure             string
	maxBatch            int
	maxQueue            int
	maxQueueBytes       int
	retry               bool

	heartbeat       time.Duration
	heartbeatTopic  string
	heartbeatAction string
	checkTimeout    time.Duration
}

// String names the settings and shows none, so that no message shows a secret.
func (s *settings) String() string { return "settings of " + s.prefix }

// product is what messages call the server.
func (s *settings) product() string {
	if s.mariadb {
		return "MariaDB"
	}
	return "MySQL"
}

// connector is what source blocks and headers call this connector.
func (s *settings) connector() string { return strings.ToLower(s.product()) }

// parse reads a configuration and reports what is wrong with it beyond what each
// key's own check finds, in Debezium's words where it has some.
func parse(v config.Values, mariadb bool) (*settings, []*config.Error) {
	var errs []*config.Error
	add := func(e *config.Error) {
		if e != nil {
			errs = append(errs, e)
		}
	}
	require := func(k config.Key[string]) string {
		s := k.Get(v)
		if s == "" {
			add(cdc.Missing(k.Name))
		}
		return s
	}
	add(cdc.CheckPrefix(keyTopicPrefix, v))
	s := &settings{
		mariadb: mariadb, prefix: keyTopicPrefix.Get(v), host: require(keyDatabaseHostname), port: int(keyDatabasePort.Get(v)),
		user: require(keyDatabaseUser), password: keyDatabasePassword.Get(v), serverID: uint32(keyDatabaseServerID.Get(v)),
		sslMode: strings.ToLower(keyDatabaseSSLMode.Get(v)), connectTimeout: keyConnectTimeout.Get(v), silence: keyConnectKeepAliveInterval.Get(v),
		snapshotMode: strings.ToLower(keySnapshotMode.Get(v)), lockingMode: strings.ToLower(keySnapshotLockingMode.Get(v)),
		snapshotDelay: cdc.KeySnapshotDelay.Get(v), streamingDelay: cdc.KeyStreamingDelay.Get(v), lockTimeout: keySnapshotLockTimeout.Get(v),
		tableOrder: strings.ToLower(cdc.KeySnapshotTablesOrderByRowCount.Get(v)),
		decimals:   strings.ToLower(keyDecimalHandlingMode.Get(v)), times: strings.ToLower(keyTimePrecisionMode.Get(v)),
		binary: cdc.BinaryModeOf(keyBinaryHandlingMode.Get(v)), unsigned: strings.ToLower(keyBigintUnsignedHandlingMode.Get(v)),
		comments: cdc.KeyIncludeSchemaComments.Get(v), query: keyIncludeQuery.Get(v), schemaChanges: keyIncludeSchemaChanges.Get(v),
		tombstones: cdc.KeyTombstonesOnDelete.Get(v), headers: cdc.KeyExtendedHeadersEnabled.Get(v), skipUnchanged: keySkipUnchanged.Get(v),
		failure: strings.ToLower(cdc.KeyEventProcessingFailureHandlingMode.Get(v)), maxBatch: int(cdc.KeyMaxBatchSize.Get(v)), maxQueue: int(cdc.KeyMaxQueueSize.Get(v)),
		maxQueueBytes: int(cdc.KeyMaxQueueSizeInBytes.Get(v)), retry: cdc.KeyErrorsMaxRetries.Get(v) != 0,
		heartbeat: cdc.KeyHeartbeatInterval.Get(v), heartbeatAction: cdc.KeyHeartbeatActionQuery.Get(v), checkTimeout: cdc.KeyConnectionValidationTimeout.Get(v),
		selects: map[string]string{},
	}
	if s.serverID == 0 {
		s.serverID = uint32(5400 + rand.IntN(1000))
	}
	if s.maxQueue <= s.maxBatch {
		add(cdc.Invalid(cdc.KeyMaxQueueSize.Name, strconv.Itoa(s.maxQueue), "Must be larger than the maximum batch size"))
	}
	for _, pair := range [][2]string{
		{cdc.KeyTableIncludeList.Name, cdc.KeyTableExcludeList.Name}, {keyDatabaseIncludeList.Name, keyDatabaseExcludeList.Name},
		{cdc.KeyColumnIncludeList.Name, cdc.KeyColumnExcludeList.Name},
	} {
		add(cdc.Exclusive(v, pair[0], pair[1]))
	}
	patterns := func(key string) cdc.Patterns {
		p, err := cdc.Patterned(v, key)
		if err != nil {
			add(&config.Error{Key: key, Value: v.Raw[key], Reason: err.Error()})
		}
		return p
	}
	s.tables = cdc.Tables{
		Include: patterns(cdc.KeyTableIncludeList.Name), Exclude: patterns(cdc.KeyTableExcludeList.Name),
		IncludeSchemas: patterns(keyDatabaseIncludeList.Name), ExcludeSchemas: patterns(keyDatabaseExcludeList.Name),
	}
	s.columns = cdc.Columns{Include: patterns(cdc.KeyColumnIncludeList.Name), Exclude: patterns(cdc.KeyColumnExcludeList.Name)}
	s.snapshotTables = patterns(cdc.KeySnapshotIncludeCollectionList.Name)

	// What follows was checked by the keys already, so it cannot fail.
	s.keys, _ = cdc.ParseKeyColumns(cdc.KeyMessageKeyColumns.Get(v))
	s.skip, _ = cdc.ParseOperations(keySkippedOperations.Get(v))
	s.naming = cdc.Naming{Prefix: s.prefix, Delimiter: keyTopicDelimiter.Get(v)}
	s.naming.Schemas, _ = envelope.ParseAdjuster(cdc.KeySchemaNameAdjustmentMode.Get(v))
	s.naming.Fields, _ = envelope.ParseAdjuster(keyFieldAdjust.Get(v))
	s.heartbeatTopic = cdc.KeyHeartbeatTopicsPrefix.Get(v) + s.naming.Delimiter + s.prefix
	for _, t := range cdc.SplitPatterns(cdc.KeySnapshotSelectStatementOverrides.Get(v)) {
		key := cdc.KeySnapshotSelectStatementOverrides.Name + "." + t
		if v.Raw[key] == "" {
			add(&config.Error{Key: cdc.KeySnapshotSelectStatementOverrides.Name, Value: t, Reason: fmt.Sprintf("there is no key %s with the table's SELECT", key)})
		}
		s.selects[t] = v.Raw[key]
	}
	for _, k := range slices.Sorted(maps.Keys(v.Raw)) {
		rule, err := cdc.ParseTextRule(k, v.Raw[k])
		if err != nil {
			add(&config.Error{Key: k, Value: v.Raw[k], Reason: err.Error()})
		}
		if rule != nil {
			s.texts = append(s.texts, *rule)
		}
	}
	return s, errs
}

// systemDatabases are those of the server itself, which are never captured.
var systemDatabases = []string{"mysql", "information_schema", "performance_schema", "sys"}

// captures reports whether events of a table are sent.
func (s *settings) captures(id TableID) bool {
	return !slices.Contains(systemDatabases, strings.ToLower(id.Database)) && s.tables.Match(id.Database, id.Name)
}
