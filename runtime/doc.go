// Package runtime is the vocabulary of the worker pool: the ids, states and
// statuses of connectors and tasks, and the errors on which callers branch. What
// does the work stands in the folders below: worker runs this process's tasks,
// herder shares them out among workers, store keeps configurations, offsets and
// statuses in the log.
package runtime
