package log

// Compact compacts all partitions that are dirty enough, now, and says how many that were.
func (l *Log) Compact() (n int) {
	for l.store.CompactDirtiest() {
		n++
	}
	return n
}
