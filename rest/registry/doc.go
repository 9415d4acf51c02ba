// Package registry serves the REST API of the Confluent Schema Registry over an instance of runtime/registry: the same paths, parameters,
// bodies, statuses and error codes. Handlers decode, call and encode. What changes something is decided by the instance that writes:
// requests that come to another are handed on to it as they are, and its answer is handed back.
package registry
