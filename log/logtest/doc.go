// Package logtest is an embedded log for tests of other packages: no ports, no files, faults on demand.
package logtest
