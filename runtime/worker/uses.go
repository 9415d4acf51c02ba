package worker

import "sync/atomic"

// uses reports each topic that a task uses once, and anew after a client has had the
// topics forgotten. It belongs to one goroutine. A nil uses reports nothing.
type uses struct {
	report    func(topic string)
	forgotten *atomic.Int64 // moves when topics of any connector are forgotten; may be nil
	at        int64
	told      map[string]bool
}

// stale reports whether topics may have been forgotten since the last call.
func (u *uses) stale() bool {
	if u == nil || u.forgotten == nil {
		return false
	}
	now := u.forgotten.Load()
	if now == u.at {
		return false
	}
	u.at = now
	clear(u.told)
	return true
}

func (u *uses) topic(name string) {
	if u == nil || u.told[name] {
		return
	}
	if u.told == nil {
		u.told = map[string]bool{}
	}
	u.told[name] = true
	u.report(name)
}
