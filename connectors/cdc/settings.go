package cdc

import (
	"fmt"
	"regexp"

	"millrace/connectors"
	"millrace/schema/config"
)

// FailureModes are the values of event.processing.failure.handling.mode: stop the
// task, log and go on without the change, go on.
var FailureModes = []string{"fail", "warn", "skip", "ignore"}

var prefixPattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// CheckPrefix reports what is wrong with a topic.prefix, in Debezium's words.
func CheckPrefix(k config.Key[string], v config.Values) *config.Error {
	p := k.Get(v)
	switch {
	case p == "":
		return Missing(k.Name)
	case !prefixPattern.MatchString(p):
		return Invalid(k.Name, p, p+" has invalid format (only the underscore, hyphen, dot and alphanumeric characters are allowed)")
	}
	return nil
}

// Missing is Debezium's error about a setting that a connector cannot do without.
func Missing(key string) *config.Error { return Invalid(key, "", "A value is required") }

// Invalid is an error about a setting in Debezium's words.
func Invalid(key, value, reason string) *config.Error {
	return &config.Error{Key: key, Value: value, Reason: reason, Text: fmt.Sprintf("The '%s' value is invalid: %s", key, reason)}
}

// Retries is errors.max.retries: how many automatic restarts in a row there are of a task that
// fails for reasons that may pass; negative: any number.
type Retries int

// Limit marks an error as one that no retry helps against, where a run after so many restarts
// in a row was the last.
func (n Retries) Limit(err error, restarts int) error {
	if n < 0 || restarts < int(n) || !connectors.IsRetriable(err) {
		return err
	}
	return connectors.BadConfig(fmt.Errorf("%w; it is not tried again: errors.max.retries=%d", err, int(n)))
}
