// Package runtime is the vocabulary of the worker pool: the ids, states and
// statuses of connectors and tasks, and the errors on which callers branch. What
// does the work stands in the folders below: worker runs this process's tasks,
// herder shares them out among workers, store keeps configurations, offsets and
// statuses in the log, settings knows what every connector's configuration has,
// provider puts secrets into it, tolerance retries and tolerates, loggers sets levels.
//
// It also reads the worker's own properties: those of its log, its cluster, its API and
// its clients, with what Java's clients know beside what has an effect here.
package runtime
