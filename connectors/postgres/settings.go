package postgres

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/schema/config"
)

// Settings that Debezium accepts but does not list.
var (
	keyMoneyDigits    = config.Key[int32]{Name: "money.fraction.digits", Default: 2, Internal: true, Doc: "Digits behind the point of MONEY.", Check: config.Between[int32](0, 18)}
	keyOffsetMismatch = config.Key[string]{Name: "offset.mismatch.strategy", Default: "fail", Internal: true, Doc: "What to do when the slot is ahead of the stored position, so that changes between them are gone: fail, trust_offset (the same), no_validation, trust_slot and trust_greater_lsn (go on behind the gap, with a warning).", Check: config.OneOf("fail", "no_validation", "trust_offset", "trust_slot", "trust_greater_lsn")}
	keySkipUnchanged  = config.Key[bool]{Name: "skip.messages.without.change", Internal: true, Doc: "Leave out updates that change no captured column; needs REPLICA IDENTITY FULL."}
	keyWatchInterval  = config.Key[time.Duration]{Name: "slot.watch.interval.ms", Default: 10 * time.Second, Internal: true, Check: cdc.AtLeastZero,
		Doc: "Milliseconds between two looks at what the server keeps for the slot; 0: never."}
	keyRetainLimit = config.Key[int64]{Name: "slot.retained.wal.limit.bytes", Internal: true, Check: config.AtLeast[int64](0),
		Doc: "Most bytes of its log that the server shall keep for the slot; at four fifths of it a warning is logged. 0: no limit, and a warning at 1 GiB and each doubling."}
	keyRetainAction = config.Key[string]{Name: "slot.retained.wal.action", Default: retainWarn, Internal: true, Check: config.OneOf(retainWarn, retainFail, retainDrop),
		Doc: "What is done at that limit when a task does not get away from it: warn logs; fail stops the task; drop stops it and drops the slot, so that the server's disk is safe and a new snapshot is needed."}
	keyTopicTransaction = config.Key[string]{Name: "topic.transaction", Default: "transaction", Internal: true, Doc: "Last part of the name of the topic that provide.transaction.metadata fills.", Check: config.NonEmpty}

	internalKeys = []config.Field{cdc.KeyReadOnly, cdc.KeyTopicDelimiter, cdc.KeyFieldAdjust, keyMoneyDigits, keyOffsetMismatch, keySkipUnchanged, keyTopicTransaction, cdc.KeyHeartbeatPrefix2, keyWatchInterval, keyRetainLimit, keyRetainAction}
)

// ignored are the settings that existing configurations hold and that have no
// meaning here. They are accepted with a notice.
var ignored = cdc.With(cdc.IgnoredKeys, map[string]string{
	keyDatabaseSslfactory.Name:                                      "Java's TLS sockets: database.sslmode and the certificates' files do the same",
	keyLsnFlushTimeout.Name:                                         "confirming a position never blocks",
	keyLsnFlushTimeoutAction.Name:                                   "confirming a position never blocks",
	cdc.KeySnapshotFetchSize.Name:                                   "a snapshot streams with COPY, in memory that does not depend on it",
	keySnapshotMaxThreads.Name:                                      "a snapshot reads one table after the other with one connection",
	keySnapshotLockingModeCustomName.Name:                           "Java classes cannot run here",
	cdc.KeySnapshotModeConfigurationBasedSnapshotSchema.Name:        "the shapes of tables are read whenever they are needed",
	cdc.KeySnapshotModeConfigurationBasedSnapshotOnSchemaError.Name: "there is no history of schemas that could be wrong: the stream announces the shapes of tables",
	cdc.KeyInternalLogPositionCheckEnable.Name:                      "the slot's position is always checked",
	keySchemaRefreshMode.Name:                                       "a table's shape is the one that the stream announces",

	"driver.*":                               "Java's database driver",
	"openlineage.integration.*":              "OpenLineage",
	"database.history.*":                     "a Postgres connector keeps no history of schemas",
	"schema.history.internal.*":              "a Postgres connector keeps no history of schemas",
	"signal.kafka.*":                         "there are no signals",
	"signal.consumer.*":                      "there are no signals",
	"signal.file":                            "there are no signals",
	"event.converting.failure.handling.mode": "event.processing.failure.handling.mode says it",
})

// renamed are settings of Debezium 1.x.
var renamed = cdc.With(cdc.RenamedKeys, map[string]string{
	"slot.drop_on_stop": "slot.drop.on.stop", "schema.whitelist": "schema.include.list", "schema.blacklist": "schema.exclude.list",
})

// noModes are the values of snapshot.mode that other databases alone have.
var noModes = map[string]string{
	"recovery":             "this rebuilds a history of schemas, which a Postgres connector does not have; use no_data",
	"schema_only_recovery": "this rebuilds a history of schemas, which a Postgres connector does not have; use no_data",
}

var (
	publicationModes = []string{"disabled", "all_tables", "filtered", "no_tables"}
)

// placeholderBytes is unavailable.value.placeholder: text, or hex:… for bytes.
func placeholderBytes(s string) ([]byte, error) {
	if digits, ok := strings.CutPrefix(s, "hex:"); ok {
		b, err := hex.DecodeString(digits)
		if err != nil {
			return nil, fmt.Errorf("behind hex: stands no hexadecimal number")
		}
		return b, nil
	}
	return []byte(s), nil
}

// A param is one of slot.stream.params.
type param struct{ name, value string }

var paramName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func parseParams(text string) ([]param, error) {
	var out []param
	for _, p := range strings.Split(text, ";") {
		if p = strings.TrimSpace(p); p == "" {
			continue
		}
		name, value, ok := strings.Cut(p, "=")
		if !ok || !paramName.MatchString(name) {
			return nil, fmt.Errorf("%q is not of the form name=value", p)
		}
		if reason := ownParams[strings.ToLower(name)]; reason != "" && value != "false" && value != "off" {
			return nil, fmt.Errorf("%s cannot be set: %s; leave it out", name, reason)
		}
		out = append(out, param{name, value})
	}
	return out, nil
}

// ownParams are options of the decoding plugin that are not for the user to turn on.
var ownParams = map[string]string{
	"proto_version": "the connector sets it", "messages": "the connector sets it", "publication_names": "publication.name says it",
	"binary": "columns are read as text", "streaming": "transactions are read once they are committed", "two_phase": "transactions are read once they are committed",
}

// An identity is one rule of replica.identity.autoset.values.
type identityRule struct {
	tables cdc.Patterns
	clause string // FULL, DEFAULT, NOTHING
	index  string // the index's name, where the clause is USING INDEX
}

func parseIdentities(text string) ([]identityRule, error) {
	var out []identityRule
	for _, p := range cdc.SplitPatterns(text) {
		colon := strings.LastIndexByte(p, ':')
		if colon < 1 {
			return nil, fmt.Errorf("%q is not of the form <schema.table>:<identity>", p)
		}
		tables, err := cdc.ParsePatterns(strings.ReplaceAll(p[:colon], ",", `\,`))
		if err != nil {
			return nil, err
		}
		words := strings.Fields(p[colon+1:])
		r := identityRule{tables: tables}
		switch {
		case len(words) == 1 && slices.Contains([]string{"FULL", "DEFAULT", "NOTHING"}, strings.ToUpper(words[0])):
			r.clause = strings.ToUpper(words[0])
		case len(words) == 2 && strings.EqualFold(words[0], "INDEX"):
			r.clause, r.index = "USING INDEX", words[1]
		default:
			return nil, fmt.Errorf("%q is none of FULL, DEFAULT, NOTHING, INDEX <name>", p[colon+1:])
		}
		out = append(out, r)
	}
	return out, nil
}

// settings is a configuration, read once.
type settings struct {
	prefix   string
	host     string
	port     int
	user     string
	password config.Password
	database string

	sslMode, sslCert, sslKey, sslRootCert string
	sslPassword                           config.Password
	tcpKeepAlive                          bool
	initial                               []string
	queryTimeout                          time.Duration

	slot, publication, publicationMode string
	dropSlot, failover, viaRoot        bool
	slotWait                           time.Duration
	streamParams                       []param
	identities                         []identityRule
	statusInterval                     time.Duration
	confirm                            bool
	mismatch                           string
	watchEvery                         time.Duration // 0: the slot is not watched
	retainLimit                        int64         // bytes; 0: none
	retainAction                       string

	snapshot                      cdc.SnapshotMode
	isolation                     string
	snapshotDelay, streamingDelay time.Duration
	snapshotTables                cdc.Patterns
	selects                       map[string]string // schema.table → SELECT
	lockTables                    bool
	lockTimeout                   time.Duration
	tableOrder                    string

	tables         cdc.Tables
	ignoreBuiltin  bool
	columns        cdc.Columns
	keys           cdc.KeyColumns
	texts          []cdc.TextRule
	reselect       *cdc.Reselect
	prefixInclude  cdc.Patterns
	prefixExclude  cdc.Patterns
	guardrail      int
	guardrailFails bool

	naming       cdc.Naming
	decimals     string
	times        string
	binary       cdc.BinaryMode
	hstoreMap    bool
	intervalText bool
	moneyDigits  int
	unknown      bool
	comments     bool
	told         cdc.Propagate
	placeholder  []byte

	tombstones, headers bool
	skip                cdc.Operations
	skipUnchanged       bool
	failure             string
	maxBatch            int
	maxQueue            int
	maxQueueBytes       int
	retries             cdc.Retries

	txTopic    string // of transactions' metadata; empty: none is sent
	statistics bool
	tags       []connectors.Label

	xminEvery       time.Duration // 0: never
	heartbeat       time.Duration
	heartbeatTopic  string
	heartbeatAction string
	checkTimeout    time.Duration
}

// String names the settings and shows none, so that no message shows a secret.
func (s *settings) String() string { return "settings of " + s.prefix }

// parse reads a configuration and reports what is wrong with it beyond what each
// key's own check finds, in Debezium's words where it has some.
func parse(v config.Values) (*settings, []*config.Error) {
	r := &cdc.Reading{Values: v}
	r.Add(cdc.CheckPrefix(keyTopicPrefix, v))
	s := &settings{
		prefix: keyTopicPrefix.Get(v), host: r.Require(keyDatabaseHostname), port: int(keyDatabasePort.Get(v)),
		user: r.Require(keyDatabaseUser), password: keyDatabasePassword.Get(v), database: r.Require(keyDatabaseDbname),
		sslMode: strings.ToLower(keyDatabaseSslmode.Get(v)), sslCert: keyDatabaseSslcert.Get(v), sslKey: keyDatabaseSslkey.Get(v),
		sslRootCert: keyDatabaseSslrootcert.Get(v), sslPassword: keyDatabaseSslpassword.Get(v), tcpKeepAlive: keyDatabaseTcpKeepAlive.Get(v),
		initial: cdc.SplitStatements(keyDatabaseInitialStatements.Get(v)), queryTimeout: keyDatabaseQueryTimeout.Get(v),
		slot: keySlotName.Get(v), publication: keyPublicationName.Get(v), publicationMode: strings.ToLower(keyPublicationAutocreateMode.Get(v)),
		dropSlot: keySlotDropOnStop.Get(v), failover: keySlotFailover.Get(v), viaRoot: keyPublishViaPartitionRoot.Get(v),
		slotWait: time.Duration(keySlotMaxRetries.Get(v)) * keySlotRetryDelay.Get(v), statusInterval: keyStatusUpdateInterval.Get(v),
		confirm: keyFlushLsnSource.Get(v) && !strings.EqualFold(keyLsnFlushMode.Get(v), "manual"), mismatch: strings.ToLower(keyOffsetMismatch.Get(v)),
		watchEvery: keyWatchInterval.Get(v), retainLimit: keyRetainLimit.Get(v), retainAction: strings.ToLower(keyRetainAction.Get(v)),
		isolation: strings.ToLower(keySnapshotIsolationMode.Get(v)), snapshotDelay: cdc.KeySnapshotDelay.Get(v), streamingDelay: cdc.KeyStreamingDelay.Get(v),
		lockTables: strings.EqualFold(keySnapshotLockingMode.Get(v), "shared"), lockTimeout: cdc.KeySnapshotLockTimeout.Get(v),
		tableOrder: strings.ToLower(cdc.KeySnapshotTablesOrderByRowCount.Get(v)), ignoreBuiltin: keyTableIgnoreBuiltin.Get(v),
		guardrail: int(cdc.KeyGuardrailCollectionsMax.Get(v)), guardrailFails: strings.EqualFold(cdc.KeyGuardrailCollectionsLimitAction.Get(v), "fail"),
		decimals: strings.ToLower(keyDecimalHandlingMode.Get(v)), times: strings.ToLower(keyTimePrecisionMode.Get(v)),
		binary:    cdc.BinaryModeOf(keyBinaryHandlingMode.Get(v)),
		hstoreMap: strings.EqualFold(keyHstoreHandlingMode.Get(v), "map"), intervalText: strings.EqualFold(keyIntervalHandlingMode.Get(v), "string"),
		moneyDigits: int(keyMoneyDigits.Get(v)), unknown: keyIncludeUnknownDatatypes.Get(v), comments: cdc.KeyIncludeSchemaComments.Get(v),
		tombstones: cdc.KeyTombstonesOnDelete.Get(v), headers: cdc.KeyExtendedHeadersEnabled.Get(v), skipUnchanged: keySkipUnchanged.Get(v),
		failure: strings.ToLower(cdc.KeyEventProcessingFailureHandlingMode.Get(v)), maxBatch: int(cdc.KeyMaxBatchSize.Get(v)), maxQueue: int(cdc.KeyMaxQueueSize.Get(v)),
		maxQueueBytes: int(cdc.KeyMaxQueueSizeInBytes.Get(v)), retries: cdc.Retries(cdc.KeyErrorsMaxRetries.Get(v)),
		xminEvery: keyXminFetchInterval.Get(v), heartbeat: cdc.KeyHeartbeatInterval.Get(v), heartbeatAction: cdc.KeyHeartbeatActionQuery.Get(v), checkTimeout: cdc.KeyConnectionValidationTimeout.Get(v),
		statistics: cdc.KeyStatisticsMetricsEnabled.Get(v),
	}
	if p := keyPluginName.Get(v); p != "pgoutput" && p != "decoderbufs" {
		r.Add(cdc.Invalid(keyPluginName.Name, p, "Value must be one of decoderbufs, pgoutput"))
	}
	if !slotName.MatchString(s.slot) {
		r.Add(cdc.Invalid(keySlotName.Name, s.slot, "Valid replication slot name must contain only digits, lowercase characters and underscores with length <= 63"))
	}
	var err error
	s.snapshot, err = cdc.ParseSnapshotMode(keySnapshotMode.Get(v), cdc.SnapshotFlags{Data: cdc.KeySnapshotModeConfigurationBasedSnapshotData.Get(v),
		Stream: cdc.KeySnapshotModeConfigurationBasedStartStream.Get(v), OnDataError: cdc.KeySnapshotModeConfigurationBasedSnapshotOnDataError.Get(v)}, noModes)
	if err != nil {
		r.Add(&config.Error{Key: keySnapshotMode.Name, Value: keySnapshotMode.Get(v), Reason: err.Error()})
	}
	if s.publication == "" {
		r.Add(cdc.Missing(keyPublicationName.Name))
	}
	r.Queue(s.maxQueue, s.maxBatch)
	for _, pair := range [][2]string{
		{cdc.KeyTableIncludeList.Name, cdc.KeyTableExcludeList.Name}, {keySchemaIncludeList.Name, keySchemaExcludeList.Name},
		{cdc.KeyColumnIncludeList.Name, cdc.KeyColumnExcludeList.Name}, {keyMessagePrefixIncludeList.Name, keyMessagePrefixExcludeList.Name},
	} {
		r.Exclusive(pair[0], pair[1])
	}
	patterns := r.Patterns
	s.tables = cdc.Tables{
		Include: patterns(cdc.KeyTableIncludeList.Name), Exclude: patterns(cdc.KeyTableExcludeList.Name),
		IncludeSchemas: patterns(keySchemaIncludeList.Name), ExcludeSchemas: patterns(keySchemaExcludeList.Name),
	}
	s.columns = cdc.Columns{Include: patterns(cdc.KeyColumnIncludeList.Name), Exclude: patterns(cdc.KeyColumnExcludeList.Name)}
	s.told = cdc.Propagate{Columns: patterns(keyColumnPropagateSourceType.Name), Types: patterns(keyDatatypePropagateSourceType.Name)}
	s.snapshotTables = patterns(cdc.KeySnapshotIncludeCollectionList.Name)
	s.prefixInclude, s.prefixExclude = patterns(keyMessagePrefixIncludeList.Name), patterns(keyMessagePrefixExcludeList.Name)

	reselect, bad := cdc.ParseReselect(keyPostProcessors.Get(v), v.Raw)
	r.Add(bad)
	s.reselect = reselect

	// What follows was checked by the keys already, so it cannot fail.
	s.tags, _ = cdc.ParseTags(cdc.KeyCustomMetricTags.Get(v))
	s.streamParams, _ = parseParams(keySlotStreamParams.Get(v))
	s.identities, _ = parseIdentities(keyReplicaIdentityAutosetValues.Get(v))
	s.keys, _ = cdc.ParseKeyColumns(cdc.KeyMessageKeyColumns.Get(v))
	s.skip, _ = cdc.ParseOperations(keySkippedOperations.Get(v))
	s.placeholder, _ = placeholderBytes(keyUnavailableValuePlaceholder.Get(v))
	s.naming = r.Naming(s.prefix, cdc.KeyTopicDelimiter.Get(v), cdc.KeySchemaNameAdjustmentMode.Get(v), cdc.KeyFieldAdjust.Get(v))
	if cdc.KeyProvideTransactionMetadata.Get(v) {
		s.txTopic = s.naming.Topic(keyTopicTransaction.Get(v))
	}
	s.heartbeatTopic = r.HeartbeatTopic(s.naming, cdc.KeyHeartbeatTopicsPrefix.Get(v), cdc.KeyHeartbeatPrefix2.Get(v))
	if s.statusInterval <= 0 {
		s.statusInterval = 10 * time.Second
	}
	s.selects, s.texts = r.Selects(cdc.KeySnapshotSelectStatementOverrides.Get(v)), r.TextRules(renamed)
	return s, r.Errs
}

var slotName = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)
