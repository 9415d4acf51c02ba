// Package runtimetest runs workers on an embedded log in one process, with connectors
// made for tests: a source that counts, and fails, panics or ignores its context when
// it is told to; a sink that remembers, and refuses.
package runtimetest
