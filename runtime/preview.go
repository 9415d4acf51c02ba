package runtime

import "millrace/schema"

// A Preview is what a connector's first records become, step by step.
type Preview struct {
	Type    Type
	Records []PreviewedRecord
	// Ended says that there were no more records, rather than that enough were seen.
	Ended bool
}

// A PreviewedRecord is one record on its way through the connector.
type PreviewedRecord struct {
	Where string // in the source, or in the log
	Steps []PreviewStep
}

// A PreviewStep is what one step made of a record. The record is that after the step; where
// the step failed, the one before it.
type PreviewStep struct {
	Name    string // read, decode, transforms.ALIAS, encode
	Class   string // of the transform or converter
	Record  schema.Record
	Passed  bool // a predicate let the record by
	Dropped bool
	Err     error
	// Key and Value are the bytes for the topic, of the step encode.
	Key, Value []byte
}

// The bounds of a preview.
const (
	PreviewRecords    = 3
	MaxPreviewRecords = 100
)
