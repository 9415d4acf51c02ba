package log

// Settle is for tests whose client has a way of its own to end its transactions.
var Settle = settle

// Compact compacts all partitions that are dirty enough, now, and says how many that were.
func (l *Log) Compact() (n int) {
	for l.store.CompactDirtiest() {
		n++
	}
	return n
}
