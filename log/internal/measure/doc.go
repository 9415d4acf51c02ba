// Package measure counts durations: one atomic add for each, and everything else when somebody looks.
package measure
