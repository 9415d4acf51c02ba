// Package settings holds what every connector's configuration has beside the
// connector's own keys (name, tasks, converters, transforms, errors, topics), and
// validates a whole configuration as Connect's clients expect: every key described,
// every wrong one with its reasons, in Connect's order.
//
// The keys are exported: the worker reads a task's configuration through them.
package settings
