package runtimetest

import (
	"testing"

	"millrace/log/logtest"
)

// BenchmarkReady is the time from nothing to a worker that has its assignment, on a
// log in memory, internal topics made.
func BenchmarkReady(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		l := logtest.New(b)
		p := Plugins(b)
		b.StartTimer()
		h := Worker(b, l, p)
		b.StopTimer()
		Close(b, h)
		b.StartTimer()
	}
}
