// Package javatext holds Java's texts: how Java prints floating-point numbers, how its
// date formats print and parse, how its regular expressions match and replace, and in
// which order its maps are printed. Users' patterns and what readers compare as text
// come through here, so that they are what they were with the originals.
//
// Nothing else in Millrace compiles a user's pattern.
package javatext
