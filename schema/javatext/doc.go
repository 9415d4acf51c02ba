// Package javatext holds Java's texts: how Java prints floating-point numbers and
// how its regular expressions match and replace. Users' patterns and numbers that
// readers compare as text come through here, so that they are what they were with
// the originals.
//
// Nothing else in Millrace compiles a user's pattern.
package javatext
