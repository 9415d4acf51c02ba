package javatext

import (
	"slices"
	"unicode/utf16"
)

// HashOrder sorts items, in place, into the order in which a java.util.HashMap that was
// filled with them in the order given is iterated; key is an item's key, a String there.
// Where an original held a map, this order shows in the texts it wrote.
func HashOrder[T any](items []T, key func(T) string) []T {
	size := uint32(16)
	for len(items) > int(size)/4*3 {
		size *= 2
	}
	bucket := func(item T) int {
		var h uint32
		for _, u := range utf16.Encode([]rune(key(item))) {
			h = 31*h + uint32(u)
		}
		return int((h ^ h>>16) & (size - 1))
	}
	slices.SortStableFunc(items, func(a, b T) int { return bucket(a) - bucket(b) })
	return items
}
