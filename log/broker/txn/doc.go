// Package txn is the coordinator of transactions: it gives producers with a transactional id their producer id and epoch, keeps
// which partitions a transaction has written to, and ends it for all of them together. Both flows of the protocol are served: the
// older one, in which a producer names its partitions before it writes to them (TV1), and the newer one, in which writing adds them
// and every transaction has an epoch of its own (TV2).
//
// State is kept in the topic __transaction_state, one record per transactional id, in Kafka's format (format.go). A transition is a
// plain function of the state (state.go, end.go); its record is written while the id's mutex is held, so that records stand in the
// log in the order in which the state changed. Answers leave when the record is durable, but for the records that a start can do
// without: that a transaction has begun which has an epoch of its own, and that one is complete. The next decision's sync makes them durable.
//
// A transaction ends in this order: the decision (PrepareCommit, PrepareAbort) is durable; then markers go to all its partitions
// and its offsets count or go, and one parallel sync makes that durable; then its end is noted (Complete…) and answered. A crash in
// between repeats the markers at the next start.
//
// Whoever writes to a partition in a transaction does so while it holds the transaction (Hold), so that it can neither end meanwhile
// nor be written to when it has ended: there are no transactions that nobody will end. What a loss of power can leave behind, data
// whose transaction's record was lost, is found at the start, by its producer and epoch, and taken into its transaction or aborted
// (load.go).
//
// Transactions that came over the in-memory connection belonged to the process that ended; they are aborted at the start, and
// their producers fenced.
package txn
