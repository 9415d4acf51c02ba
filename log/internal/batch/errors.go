package batch

import (
	"errors"
	"fmt"
)

// Code is a Kafka error code, as it stands in answers.
type Code int16

// The codes that batches and the store answer with.
const (
	OffsetOutOfRange             Code = 1
	CorruptMessage               Code = 2
	UnknownTopicOrPartition      Code = 3
	MessageTooLarge              Code = 10
	InvalidTopic                 Code = 17
	RecordListTooLarge           Code = 18
	InvalidTimestamp             Code = 32
	PolicyViolation              Code = 44
	UnsupportedForMessageFormat  Code = 43
	OutOfOrderSequence           Code = 45
	DuplicateSequence            Code = 46
	InvalidProducerEpoch         Code = 47
	InvalidTxnState              Code = 48
	TransactionCoordinatorFenced Code = 52
	StorageError                 Code = 56
	UnsupportedCompression       Code = 76
	InvalidRecord                Code = 87
)

// Error is a refusal that the protocol has a code for. Nothing was written.
type Error struct {
	Code   Code
	Reason string // what is wrong with which value; goes into error_message fields
}

func (e *Error) Error() string { return e.Reason }

// CodeOf is the protocol code of err, 0 for nil, and ok=false when err carries
// none: then nothing may be answered in its name (see store.ErrOutcomeUnknown).
func CodeOf(err error) (c Code, ok bool) {
	if err == nil {
		return 0, true
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code, true
	}
	return 0, false
}

func corrupt(format string, a ...any) error {
	return &Error{Code: CorruptMessage, Reason: fmt.Sprintf(format, a...)}
}

func invalid(format string, a ...any) error {
	return &Error{Code: InvalidRecord, Reason: fmt.Sprintf(format, a...)}
}
