// Package rest is Connect's REST API over the herder. Routes stand together in
// routes.go; a handler decodes, calls the herder and returns a value or an error;
// one function turns errors into statuses. GET /openapi.json is made of the same table.
//
// The package opens its listeners itself (TLS, users, origins of pages), and bounds what
// it reads before it decodes it. DESIGN.md has the reasons.
package rest
