// Package line is the faulty network of tests: a proxy that carries connections and, when it is told to, keeps what is sent to itself, brings
// it late, closes one direction, or resets. A Line stands between one process and all that it talks to: it is a client's dialer (Dial), or a
// port in front of a server (Front). Everything works in fake time as well, where Over takes the place of TCP.
package line
