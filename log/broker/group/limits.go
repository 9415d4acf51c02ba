package group

import "time"

// Limits bound what clients may ask for. The zero value of a field means its default.
type Limits struct {
	MinSession      time.Duration // group.min.session.timeout.ms, 6 s
	MaxSession      time.Duration // group.max.session.timeout.ms, 30 min
	MaxMembers      int           // group.max.size, 10,000 members and ids handed out
	MaxMemory       int64         // bytes that all members say of themselves, 256 MiB: protocols, subscriptions, shares
	MaxMetadata     int           // offset.metadata.max.bytes, 4096
	OffsetRetention time.Duration // offsets.retention.minutes, 7 days
	ExpireEvery     time.Duration // offsets.retention.check.interval.ms, 10 min

	// A first rebalance of a consumer group ends InitialQuiet after the last join and InitialMost after the first:
	// group.initial.rebalance.delay.ms, which has one value (3 s) in Kafka. Workers (connect) and registries (sr) never wait.
	InitialQuiet time.Duration // 3 ms
	InitialMost  time.Duration // 100 ms
}

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&l.MinSession, 6*time.Second)
	set(&l.MaxSession, 30*time.Minute)
	set(&l.OffsetRetention, 7*24*time.Hour)
	set(&l.ExpireEvery, 10*time.Minute)
	set(&l.InitialQuiet, 3*time.Millisecond)
	set(&l.InitialMost, 100*time.Millisecond)
	if l.MaxMembers == 0 {
		l.MaxMembers = 10_000
	}
	if l.MaxMemory == 0 {
		l.MaxMemory = 256 << 20
	}
	if l.MaxMetadata == 0 {
		l.MaxMetadata = 4096
	}
	return l
}

// initialDelay is how long a first rebalance waits for more members: after each one, and in all.
func (l *Limits) initialDelay(protocolType string) (quiet, most time.Duration) {
	switch protocolType {
	case "connect", "sr":
		return 0, 0
	}
	return l.InitialQuiet, l.InitialMost
}
