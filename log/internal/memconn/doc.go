// Package memconn is a network inside the process: buffered connections, a listener and a dialer.
//
// Clients of the embedded broker use it instead of loopback TCP, which costs more than twice as much.
// Waiting is on channels only, so that whole clusters run in the fake time of testing/synctest, and
// an idle connection holds no buffer.
package memconn
