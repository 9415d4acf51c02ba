package debezium_test

import (
	"testing"

	"millrace/schema/plugin"
	"millrace/transforms"
	"millrace/transforms/debezium"
	"millrace/transforms/smttest"
)

func runner(t *testing.T, differences map[string]string) *smttest.Runner {
	ts, err := plugin.NewTable(debezium.All()...)
	if err != nil {
		t.Fatal(err)
	}
	ps, err := plugin.NewTable[transforms.PredicatePlugin]()
	if err != nil {
		t.Fatal(err)
	}
	return &smttest.Runner{Transforms: ts, Predicates: ps, Differences: differences}
}

func TestGolden(t *testing.T) {
	if n := runner(t, nil).Run(t, smttest.Read(t, "../testdata/cases.jsonl.gz")); n < 63 {
		t.Errorf("%d cases compared, too few", n)
	}
}

// TestGoldenUnwrap goes through the keys that the golden cases leave untried; the
// cases were run by Debezium's own class.
func TestGoldenUnwrap(t *testing.T) {
	const (
		structs = "a struct is added with its fields, optional; Debezium makes a schema without fields, which nothing can be written under"
		first   = "what a header drops makes room for what is added, for creates as for deletes"
	)
	r := runner(t, map[string]string{
		"ExtractNewRecordState{add.fields=before} with schemas":                                            structs,
		"ExtractNewRecordState{add.fields=source} with schemas":                                            structs,
		"ExtractNewRecordState{add.headers=source} with schemas":                                           structs,
		"ExtractNewRecordState{add.fields=source.snapshot,ts_ms,source.sequence,transaction} with schemas": structs,
		"ExtractNewRecordState{add.fields.prefix= add.fields=op:name delete.tombstone.handling.mode=rewrite-with-tombstone drop.fields.from.key=true drop.fields.header.name=x drop.fields.keep.schema.compatible=false} with schemas": first,
	})
	r.Errors = map[string]string{
		"cannot be cast to class java.util.List": "should hold a list of field names",
		"Unable to validate config.":             "Value must be one of drop, tombstone",
	}
	if n := r.Run(t, smttest.Read(t, "testdata/unwrap.jsonl.gz")); n < 140 {
		t.Errorf("%d cases compared, too few", n)
	}
}

// TestGoldenMore goes through the other transforms; the cases were run by Debezium's
// own classes.
func TestGoldenMore(t *testing.T) {
	const optional = "a struct that takes a header stays optional; Debezium makes it required, and then fails at the next delete"
	const whole = "the hash of a struct would follow its schema; it is refused"
	r := runner(t, map[string]string{
		"PartitionRouting{partition.hash.function=java partition.payload.fields=change.st partition.topic.num=7} with schemas":   whole,
		"PartitionRouting{partition.hash.function=murmur partition.payload.fields=change.st partition.topic.num=7} with schemas": whole,
		"PartitionRouting{partition.payload.fields=change.st partition.topic.num=7} with schemas":                                whole,
		"PartitionRouting{partition.hash.function=zap partition.payload.fields=change.id partition.topic.num=3} with schemas":    "an unknown hash function is refused, not taken for java",
		"HeaderToValue{fields=after.f headers=h1 operation=copy} with schemas":                                                   optional,
		"HeaderToValue{fields=after.x,after.y headers=h1,n operation=copy} with schemas":                                         optional,
		"HeaderToValue{fields=after.st.z headers=h1 operation=copy} with schemas":                                                optional,
	})
	r.Beyond = map[string]string{
		"Only Struct objects supported for [Updating schema], found: java.util.HashMap": "schemaless keys and values are routed too",
		"Only Struct objects supported for [Header field insertion]":                    "data without a schema takes headers too",
		"Cannot create field because of field name duplication f":                       "a header that a record has twice is taken once, the last",
		"Unprocessable message Struct":                                                  "a path through an image or block that an event does not have is passed over, like any missing field",
	}
	r.Errors = map[string]string{
		"Invalid value null for configuration": "Missing required configuration",
		"Invalid value  for configuration":     "A value is required",
		"The 'operation' value":                "Value must be one of move, copy",
		"Unable to validate config.":           "Invalid regex: Unclosed group|String must be non-empty|Missing required configuration|key.field.replacement must be non-empty",
		"No enum constant":                     "there are CREATE, ALTER, DROP, TRUNCATE and DATABASE",
		"An integer is expected":               "partition.topic.num",
	}
	if n := r.Run(t, smttest.Read(t, "testdata/more.jsonl.gz")); n < 300 {
		t.Errorf("%d cases compared, too few", n)
	}
}

// TestGoldenRouterAndTime goes through the outbox router, the time zones and the
// messages of logical decoding, in the same way.
func TestGoldenRouterAndTime(t *testing.T) {
	const early = "a wrong placement is told when the connector is configured"
	r := runner(t, map[string]string{
		"EventRouter{table.fields.additional.placement=type:zap} with schemas": early,
		"EventRouter{table.fields.additional.placement=type:zap}":              early,
	})
	r.Beyond = map[string]string{
		"Invalid type for ARRAY: class java.lang.String":                "an array of objects is expanded too; Debezium makes its schema and leaves the text under it",
		"Invalid type for STRUCT: class java.lang.String":               "likewise",
		"class java.util.Date cannot be cast to class java.lang.Long":   "Connect's own Timestamp is a timestamp",
		"Invalid include list format":                                   "several fields with ; between, as the reference has them, and rules of both kinds in one list",
		"Invalid exclude list format":                                   "likewise",
		"Text 'infinity' could not be parsed":                           "an infinite time has no zone and stays",
		"Cannot invoke \"org.apache.kafka.connect.data.Schema.name()\"": "a tombstone and schemaless data pass",
		"nope is not a valid field name|on.missing=false":               "table.fields.additional.error.on.missing=false leaves the column out",
		"Unable to find field nope in event|on.missing=false":           "likewise",
	}
	r.Errors = map[string]string{
		"The 'table.op.invalid.behavior' value is invalid":         "Value must be one of warn, error, fatal",
		"The 'table.fields.additional.placement' value is invalid": "is not column:header",
		"A valid regular expressions is expected":                  "Invalid regex: Unclosed group",
		"Invalid value null for configuration":                     "Missing required configuration",
		"Invalid include list format":                              "is no rule",
		"Invalid exclude list format":                              "is no rule",
		"Invalid value for HourOfDay":                              "Text '24:00:00Z' could not be parsed",
		"could not be parsed at index 0":                           "could not be parsed",
		"Not a struct schema":                                      "want a JSON object",
		"Cannot read the array length because":                     "has no content",
		"com.fasterxml.jackson.core.JsonParseException":            "want a JSON object",
		"Unexpected update message received":                       "table.op.invalid.behavior is fatal",
		`because "this.text" is null`:                              "column aggregatetype, which decides the topic, is null",
		"(without logical schema name)":                            "(without logical schema name) for event timestamp",
	}
	if n := r.Run(t, smttest.Read(t, "testdata/router.jsonl.gz")); n < 650 {
		t.Errorf("%d cases compared, too few", n)
	}
}
