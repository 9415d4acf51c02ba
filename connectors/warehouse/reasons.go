package warehouse

import (
	"fmt"

	"millrace/connectors"
	"millrace/schema"
)

// The known failures of files, wherever they are stored.
var (
	nullValue = connectors.Reason{Code: "files.null_value", Retry: connectors.RetryNever,
		Doc:    "A record has a null value, and behavior.on.null.values says fail.",
		Remedy: "set behavior.on.null.values=ignore, or send such records to a dead-letter topic (errors.tolerance=all)"}
	badRecord = connectors.Reason{Code: "files.bad_record", Retry: connectors.RetryNever,
		Doc:    "A record goes into no file: its folder or its time cannot be made, or its value does not fit the format.",
		Remedy: "change the records with a transform, or send them to a dead-letter topic (errors.tolerance=all)"}
	offsetsBehind = connectors.Reason{Code: "files.offsets_behind", Retry: connectors.RetryNever,
		Doc:    "Records come whose offsets lie before the end of what was written: the topic was made anew, or lost its end.",
		Remedy: "move the partition's files away and reset the connector's offsets: then it writes the topic from its beginning"}
)

// Reasons are the failures that a connector which writes files lists beside its own.
var Reasons = []*connectors.Reason{&nullValue, &badRecord, &offsetsBehind}

// OffsetsBehind is the failure of a topic whose offsets begin again: what is written of them are not the records that come.
func OffsetsBehind(cause string) error {
	return connectors.Failed(&offsetsBehind, nil, cause+": the topic was made anew, or lost its end", "")
}

// noFile is the data error of a record that goes into no file.
func noFile(r *schema.Record, err error) error {
	return connectors.Failed(&badRecord, err, fmt.Sprintf("the record at %s goes into no file: %v", where(r), err), "")
}

// where is the record's place in the log, for messages.
func where(r *schema.Record) string {
	return fmt.Sprintf("%s-%d @ %d", r.Origin.Topic, r.Origin.Partition, r.Origin.Offset)
}

// maxName bounds a file's name with its folders, in bytes: S3 takes no longer keys.
const maxName = 1024

func checkName(name string) error {
	if len(name) > maxName {
		return &schema.DataError{Reason: fmt.Sprintf("its file's name %.60q… has %d bytes, and may have %d", name, len(name), maxName)}
	}
	return nil
}
