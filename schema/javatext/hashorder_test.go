package javatext

import (
	"fmt"
	"slices"
	"testing"
)

func TestHashOrder(t *testing.T) {
	var numbers []string
	for i := range 13 {
		numbers = append(numbers, fmt.Sprint(i))
	}
	for _, c := range []struct {
		name     string
		in, want []string
	}{
		{"nothing stays nothing", nil, nil},
		{"single letters go by their code, modulo 16", []string{"q", "p", "b", "a"}, []string{"p", "q", "a", "b"}},
		{"equal hashes keep their order", []string{"BB", "Aa"}, []string{"BB", "Aa"}},
		{"equal hashes keep their order, the other way round", []string{"Aa", "BB"}, []string{"Aa", "BB"}},
		{"the upper half of a hash counts", []string{"name", "file", "topic"}, []string{"file", "name", "topic"}},
		{"more than twelve entries have 32 buckets: 10 to 12, whose hashes are 1567 to 1569, fall on 31, 0 and 1",
			numbers, []string{"11", "12", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}},
		// As two units the face is in bucket 8; as one code point it would be in bucket 1, before "e" in 5.
		{"characters outside of the basic plane are two of Java's", []string{"😀", "e"}, []string{"e", "😀"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := HashOrder(slices.Clone(c.in), func(s string) string { return s })
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
