// Package wire is the Kafka protocol's outermost layer as the embedded broker speaks it: frames
// with a memory budget, request headers, the table of served versions, and encoding of answers.
//
// Everything here sees bytes from outside. It promises three things: no input makes it panic, no
// length that a peer claims reserves memory before the bytes have come, and the payload of Produce
// and Fetch passes through without being decoded or copied more than once.
//
// What a request means is the business of package broker.
package wire
