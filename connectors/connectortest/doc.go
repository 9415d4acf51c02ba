// Package connectortest holds the suites that every source and every sink passes:
// what the contract in package connectors promises, tried on the connector with a
// real or a stub system behind it.
package connectortest
