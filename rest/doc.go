// Package rest is Connect's REST API over the herder. Routes stand together in
// server.go; a handler decodes, calls the herder and returns a value or an error;
// one function turns errors into statuses.
package rest
