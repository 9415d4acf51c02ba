// Package signin is how Java's clients are told to sign in: a login module in JAAS
// form, and tokens that a server gives for a client's credentials (OAuth 2.0). Clients
// of Kafka and of a schema registry share it.
package signin
