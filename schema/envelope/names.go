package envelope

// The operations of an event, as its field op spells them.
const (
	Create   = "c"
	Update   = "u"
	Delete   = "d"
	Read     = "r" // a row of a snapshot
	Truncate = "t"
	Message  = "m" // a logical message of Postgres
)

// The fields of an envelope.
const (
	BeforeField      = "before"
	AfterField       = "after"
	SourceField      = "source"
	TransactionField = "transaction"
	OpField          = "op"
	MillisField      = "ts_ms"
	MicrosField      = "ts_us"
	NanosField       = "ts_ns"
)

// Where an event stands in a snapshot, as source.snapshot spells it.
const (
	SnapshotTrue               = "true"
	SnapshotFirst              = "first"
	SnapshotFirstInTable       = "first_in_data_collection"
	SnapshotLastInTable        = "last_in_data_collection"
	SnapshotLast               = "last"
	SnapshotFalse              = "false"
	SnapshotIncremental        = "incremental"
	snapshotAllowed            = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
	envelopeVersion      int32 = 2
)

// The headers of change events.
const (
	HeaderNewKey        = "__debezium.newkey" // on the delete of a row whose key changes
	HeaderOldKey        = "__debezium.oldkey" // on the create that follows it
	HeaderLogicalName   = "__debezium.context.connectorLogicalName"
	HeaderTaskID        = "__debezium.context.taskId"
	HeaderConnectorName = "__debezium.context.connectorName"
	HeaderRunID         = "__debezium.context.runId"
)

// The endings of the schemas' names behind the topic's.
const (
	KeySuffix      = ".Key"
	ValueSuffix    = ".Value"
	EnvelopeSuffix = ".Envelope"
)
