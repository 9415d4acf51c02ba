package runtimetest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"millrace/log"
)

// checkNumbers checks what at-least-once promises of a counting task's topic: no
// number is missing, none is before a smaller one that was not there yet. count is how
// many there are at least.
func checkNumbers(t testing.TB, l *log.Log, topic string, count int) (duplicates int) {
	t.Helper()
	next := map[string]int64{}
	total := 0
	for _, r := range Records(t, l, topic) {
		n, err := strconv.ParseInt(strings.Trim(string(r.Value), `"v`), 10, 64)
		if err != nil {
			t.Fatalf("%s: value %q", topic, r.Value)
		}
		key := fmt.Sprintf("%s/%d", r.Key, r.Partition)
		switch {
		case n == next[key]:
			next[key]++
			total++
		case n > next[key]:
			t.Fatalf("%s: key %s: record %d comes after %d", topic, r.Key, n, next[key]-1)
		default:
			duplicates++
		}
	}
	if total < count {
		t.Fatalf("%s has %d different records, want %d", topic, total, count)
	}
	return duplicates
}
