package broker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/log/internal/batch"
)

// codeOf is the protocol's code of an error. Those that it has no name for come from the disk.
// UNKNOWN_SERVER_ERROR is never answered: clients retry it in ways that duplicate (KAFKA-14034).
func codeOf(err error) int16 {
	if err == nil {
		return 0
	}
	if code, ok := batch.CodeOf(err); ok {
		return int16(code)
	}
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return ke.Code
	}
	return kerr.KafkaStorageError.Code
}

// refusal is the code and the text that answer an error; 0 and nil for none.
func refusal(err error) (int16, *string) {
	if err == nil {
		return 0, nil
	}
	text := err.Error()
	var ke *kerr.Error
	if errors.As(err, &ke) && error(ke) == err {
		text = ke.Description
	}
	return codeOf(err), &text
}
