// Package herder shares connectors and tasks out among the workers of a group and
// answers for the worker it is part of.
//
// One loop owns the state: what the config topic says, what the group assigned to
// this worker, and what clients ask. Members find each other through the log's group
// coordinator with protocol type connect, in the byte format of Kafka Connect, so
// that a worker of either kind can read the other's metadata. Who gets what is one
// pure function, [assign].
//
// A watchdog looks at the tasks that run here and restarts those that get no further;
// [Herder.Collector] gives Connect's metrics when they are asked for.
package herder
