package log

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"millrace/log/internal/store"
)

func pid() int { return os.Getpid() }

// State of a log, as a traffic light.
type State string

// The states.
const (
	Green  State = "green"
	Yellow State = "yellow" // it works, and somebody should look
	Red    State = "red"    // it does not work
)

// Health is a log's state and why it is so; Message is empty when green.
type Health struct {
	State   State
	Message string
}

// Health looks at the log. With a cluster it asks the cluster, for two seconds at most.
func (l *Log) Health(ctx context.Context) Health {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return Health{Red, "the log is closed"}
	}
	if l.store == nil {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if _, err := l.Admin().BrokerMetadata(ctx); err != nil {
			return Health{Red, fmt.Sprintf("cluster %s does not answer: %v", strings.Join(l.cfg.Seeds, ","), err)}
		}
		return Health{State: Green}
	}
	return l.judge(l.store.Health())
}

// judge is what the store's state means for who uses the log.
func (l *Log) judge(h store.Health) Health {
	if h.Offline != nil {
		return Health{Red, fmt.Sprintf("data directory %s is offline, restart after the disk is repaired: %v", l.cfg.DataDir, h.Offline)}
	}
	var worries []string
	for _, d := range h.Damaged {
		worries = append(worries, fmt.Sprintf("offsets %d to %d of %s-%d are damaged (%s at byte %d)", d.From, d.To-1, d.Topic, d.Partition, d.File, d.Position))
	}
	if h.LowSpace {
		worries = append(worries, fmt.Sprintf("disk of %s has %d MiB left, writes to topics are refused: free space or lower retention.ms", l.cfg.DataDir, h.Space.Free>>20))
	}
	if h.WeakFsync != "" {
		worries = append(worries, fmt.Sprintf("log.fsync is %s: acknowledged records may be lost when the machine fails", l.cfg.Fsync))
	}
	if worries != nil {
		return Health{Yellow, strings.Join(worries, "; ")}
	}
	return Health{State: Green}
}

// Ready reports whether the log can be written and read.
func (l *Log) Ready(ctx context.Context) bool { return l.Health(ctx).State != Red }
