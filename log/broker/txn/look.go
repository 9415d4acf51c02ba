package txn

import "time"

// Open tells how many transactions are open or being ended, and for how long the oldest of them is.
func (c *Coordinator) Open() (n int, oldest time.Duration) {
	now := c.nowMs()
	for _, s := range c.all() {
		s.mu.Lock()
		t, gone := s.t, s.gone
		s.mu.Unlock()
		if gone || t.start < 0 || t.state != ongoing && !t.preparing() {
			continue
		}
		n++
		oldest = max(oldest, time.Duration(now-t.start)*time.Millisecond)
	}
	return n, oldest
}
