// Package broker is the embedded Kafka broker: one node, no replicas, everything acknowledged is on
// stable storage (see ../DESIGN.md).
//
// A Server accepts connections from TCP and in-memory listeners. Each connection has one reader,
// which carries requests out in the order they came, and one writer, which answers in that same
// order. A handler answers at once, or later: the connection goes on reading meanwhile, so that five
// produce requests in flight share one sync. The table of handlers is in apis.go, the versions they
// serve in ../internal/wire, and each request kind has a file of its own.
//
// Hostile input ends its connection and nothing else.
package broker
