package elasticsearch

import (
	"log/slog"
	"sync"
	"time"
)

// sayEvery is how often what may concern many records is logged, as a count.
const sayEvery = 10 * time.Second

// conflicts counts changes that the server ignored since it had the document in the
// same or a newer version, or had it at all where documents never change (a data stream). Its methods may be called by several goroutines.
type conflicts struct {
	mu      sync.Mutex
	total   int64
	unsaid  int64
	example string // the first of the unsaid ones
	said    time.Time
}

// add counts one and tells its key and both versions to whoever reads debug lines.
func (c *conflicts) add(lg *slog.Logger, it *item, why *serverError) {
	reason := ""
	if why != nil {
		reason = why.Reason // "[7]: version conflict, current version [500] is higher or equal to the one provided [20]"
	}
	lg.Debug("the document is there and the change was ignored", "index", it.index, "id", it.id, "version", it.version, "server", reason)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total++
	if c.unsaid++; c.unsaid == 1 {
		c.example = describe(it) + ": " + reason
	}
}

// count is how many there were.
func (c *conflicts) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// sometimes logs what was counted, if the last time is long ago.
func (c *conflicts) sometimes(lg *slog.Logger) {
	c.mu.Lock()
	due := c.unsaid > 0 && time.Since(c.said) >= sayEvery
	c.mu.Unlock()
	if due {
		c.flush(lg)
	}
}

// flush logs what was counted.
func (c *conflicts) flush(lg *slog.Logger) {
	c.mu.Lock()
	n, total, example := c.unsaid, c.total, c.example
	c.unsaid, c.example = 0, ""
	c.said = time.Now()
	c.mu.Unlock()
	if n > 0 {
		lg.Warn("changes were ignored: their documents have the same or a newer version. After a restart this is a replay; "+
			"else a key moved between partitions or the topic was made anew (see document.versions), or a key came twice to a data stream (see key.ignore)",
			"ignored", n, "since_start", total, "first", example)
	}
}

// leftOut counts records that are left out as the settings say. It is used by the
// task's goroutine.
type leftOut struct {
	unsaid, total int64
	example       string
	said          time.Time
}

func (l *leftOut) add(where, why string) {
	l.total++
	if l.unsaid++; l.unsaid == 1 {
		l.example = where + ": " + why
	}
}

func (l *leftOut) sometimes(lg *slog.Logger) {
	if l.unsaid > 0 && time.Since(l.said) >= sayEvery {
		l.flush(lg)
	}
}

func (l *leftOut) flush(lg *slog.Logger) {
	if l.unsaid > 0 {
		lg.Info("records were left out", "records", l.unsaid, "since_start", l.total, "first", l.example)
	}
	l.unsaid, l.example, l.said = 0, "", time.Now()
}
