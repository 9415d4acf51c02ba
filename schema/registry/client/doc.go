// Package client asks a schema registry over HTTP, as Confluent's clients do: several addresses, basic and bearer sign-in, TLS. What
// fails for a cause that may pass is tried again, at each address, with growing pauses; then the error says that it may pass.
package client
