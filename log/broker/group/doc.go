// Package group is the coordinator of consumer groups: classic ones of any protocol type (consumer, connect, sr and whatever a
// client invents; members' metadata and assignments are opaque bytes), and those of the newer consumer protocol, KIP-848, where
// the coordinator assigns (consumers.go says how).
//
// A group is a value of state and deadlines (type group), and the rules are plain functions of that state, an event and the
// time: join.go, sync.go, leave.go, offsets.go, admin.go, consumerheartbeat.go, consumerclassic.go. They take no lock, start no goroutine and read no clock,
// so script tests drive them as they are. Deadlines are part of the state and tick does whatever is due: a timer that
// fires late, early or twice cannot act for a generation that has passed, since its deadline is gone.
//
// Coordinator is the shell around them: one mutex per group, one timer per group, the log. A rule appends its records while
// it holds the mutex (a write to the page cache, never a sync), so that records stand in the log in the order in which the
// state changed. An answer leaves only after everything that its group had written at that moment is durable; nothing is
// told that a power loss could take back.
//
// Groups and offsets live in the topic __consumer_offsets in Kafka's record formats (format.go) and are read at start.
// Members that came over the in-memory connection belonged to the process that ended and are dropped then; members that came
// over TCP stay, and their sessions begin anew.
//
// Left to others: finding the coordinator (there is one), and transactions (package txn; what they commit is in txn.go).
package group
