// Package schematest makes random schemas and data for property tests.
package schematest
