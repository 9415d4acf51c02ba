package avrodata

// Options say how schemas are mapped. The zero Options are not the defaults of the converter: see its settings.
type Options struct {
	Enhanced         bool // enums stay enums, and union members have full names
	Scrub            bool // illegal names are made legal
	MetaData         bool // connect.* properties are written and read
	OptionalMapKeys  bool // a map with optional string keys is an Avro map
	FlattenSingleton bool // a union of one branch is that branch
	DiscardDocs      bool // docs and defaults go with Avro's fields alone
	GeneralizedSums  bool // unions and enums in the form of all of Confluent's converters
	KeepNulls        bool // a null field that has a default stays null
}

// The names that Confluent's AvroData gives.
const (
	namespace       = "io.confluent.connect.avro"
	defaultName     = "ConnectDefault"
	defaultFullName = namespace + "." + defaultName
	mapEntry        = "MapEntry"
	keyField        = "key"
	valueField      = "value"

	connectName       = "connect.name"
	connectDoc        = "connect.doc"
	connectRecordDoc  = "connect.record.doc"
	connectEnumDoc    = "connect.enum.doc"
	connectVersion    = "connect.version"
	connectDefault    = "connect.default"
	connectParameters = "connect.parameters"
	connectInternal   = "connect.internal.type"
	connectType       = "connect.type"
	fixedSize         = "connect.fixed.size"

	recordDoc    = namespace + ".record.doc"
	fieldDoc     = namespace + ".field.doc."
	fieldDefault = namespace + ".field.default"
	enumDoc      = namespace + ".enum.doc."
	enumDefault  = namespace + ".enum.default."

	typeUnion = namespace + ".Union"
	typeEnum  = namespace + ".Enum"

	generalUnion       = "org.apache.kafka.connect.data.Union"
	generalEnum        = "org.apache.kafka.connect.data.Enum"
	generalUnionPrefix = "connect_union_"
	generalFieldPrefix = generalUnionPrefix + "field_"

	logicalType      = "logicalType"
	decimal          = "decimal"
	defaultPrecision = 64
)
