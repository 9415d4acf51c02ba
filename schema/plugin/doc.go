// Package plugin is how a component introduces itself: a plain value with its
// names, its documentation and its settings. There is no global registry; a binary
// has a list of such values, and a Table finds one in it by any of its names.
package plugin
