package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// An Owner is what a member acts for. Its methods are called by the member's
// goroutine and may block for as long as ctx lives.
type Owner interface {
	// Standing is what the member reports when it joins, by protocol, after a generation under
	// the protocol last ("" for none). Whatever must be given up before a rebalance is given up by then.
	Standing(ctx context.Context, last string) (metadata func(protocol string) []byte, err error)
	// Lead makes every member's assignment of what the members reported.
	Lead(ctx context.Context, at Membership, members map[string][]byte) (map[string][]byte, error)
	// Assigned is called with what the member was assigned.
	Assigned(ctx context.Context, at Membership, assignment []byte) error
	// Lost is called when the group no longer counts the member in: whatever it runs
	// may already run elsewhere.
	Lost(why error)
}

// Membership is the member's place in a generation.
type Membership struct {
	ID         string
	Generation int32
	Protocol   string
	Leader     bool
}

// Config is what a Member needs.
type Config struct {
	Client    *kgo.Client
	Type      string // of the protocol: connect, sr
	Group     string
	Protocols []string
	Session   time.Duration
	Heartbeat time.Duration
	Rebalance time.Duration
	Logger    *slog.Logger
	Owner     Owner
	Failed    func(error) // hears of each error that puts the member out, before the owner does; may be nil
}

// A Member takes part in a group: it joins, reports, heartbeats and leaves. Run is its one goroutine.
type Member struct {
	Config
	rejoin chan struct{} // of one: join again soon
	until  atomic.Pointer[time.Time]
}

// New makes a member that has not joined yet.
func New(c Config) *Member { return &Member{Config: c, rejoin: make(chan struct{}, 1)} }

// Counted reports whether the group still counts the member in, as far as can be known here: a session has
// not passed since the coordinator's last word. It is true at most until Lost is called, and turns false by
// itself: a process that was halted, and goes on, finds out before anything of it runs that waits for a clock.
func (m *Member) Counted() bool {
	until := m.until.Load()
	return until != nil && time.Now().Before(*until)
}

// heard notes that the coordinator counted the member in after a request was sent. When the answer came says nothing: a process that was
// halted reads answers from before.
func (m *Member) heard(sent time.Time) {
	until := sent.Add(m.Session)
	for {
		was := m.until.Load()
		if was != nil && was.After(until) || m.until.CompareAndSwap(was, &until) {
			return
		}
	}
}

// A member that is out tries again after firstPause, then after twice that, up to mostPause.
const (
	firstPause = 250 * time.Millisecond
	mostPause  = 4 * time.Second
)

// RequestRejoin makes the member join again, which begins a rebalance where it leads
// or what it reports has changed. It never blocks.
func (m *Member) RequestRejoin() {
	select {
	case m.rejoin <- struct{}{}:
	default:
	}
}

// Run is a member's life, until ctx ends; then it leaves the group, for which it has
// the time of leave.
func (m *Member) Run(ctx context.Context, leave time.Duration) {
	var at Membership
	defer func() {
		if at.ID == "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leave)
		defer cancel()
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group, req.MemberID = m.Group, at.ID
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = at.ID
		req.Members = append(req.Members, one)
		if _, err := req.RequestWith(ctx, m.Client); err != nil {
			m.Logger.Warn("leave the group", "group", m.Group, "err", err)
		}
	}()
	pause := firstPause
	for ctx.Err() == nil {
		joined, err := m.join(ctx, at)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			at, pause = joined, firstPause
			err = m.stay(ctx, at)
		}
		if errors.Is(err, errRejoin) || ctx.Err() != nil {
			at.ID, at.Protocol = joined.ID, joined.Protocol
			continue
		}
		var needed *memberIDRequired
		if errors.As(err, &needed) {
			at.ID = needed.id
			continue
		}
		m.until.Store(nil)
		if m.Failed != nil {
			m.Failed(err)
		}
		// Whatever it was, we can no longer be sure to be counted in.
		m.Owner.Lost(err)
		m.Logger.Warn("the group does not count this process in; it joins again", "group", m.Group, "err", err)
		switch {
		case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID):
			at, pause = Membership{}, firstPause // that was a word of the coordinator
		default:
			at = Membership{ID: at.ID, Protocol: at.Protocol}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, mostPause)
		}
	}
}

// errRejoin ends a stay because a rebalance has begun or is wanted.
var errRejoin = errors.New("rebalance")

type memberIDRequired struct{ id string }

func (e *memberIDRequired) Error() string { return "the coordinator wants to see the id it gave" }

// join brings the member into the group's next generation and hands over what it was assigned.
func (m *Member) join(ctx context.Context, last Membership) (Membership, error) {
	select { // what was wanted until now is served by this
	case <-m.rejoin:
	default:
	}
	metadata, err := m.Owner.Standing(ctx, last.Protocol)
	if err != nil {
		return last, fmt.Errorf("join group %s: %w", m.Group, err)
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = m.Group, last.ID, m.Type
	req.SessionTimeoutMillis = int32(m.Session.Milliseconds())
	req.RebalanceTimeoutMillis = int32(m.Rebalance.Milliseconds())
	for _, name := range m.Protocols {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, metadata(name)
		req.Protocols = append(req.Protocols, p)
	}
	if last.Generation > 0 {
		watching, stop := context.WithCancel(ctx)
		defer stop()
		go m.watch(watching, last)
	}
	resp, err := req.RequestWith(ctx, m.Client)
	if err != nil {
		return last, fmt.Errorf("join group %s: %w", m.Group, err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		if errors.Is(err, kerr.MemberIDRequired) {
			return last, &memberIDRequired{resp.MemberID}
		}
		return last, fmt.Errorf("join group %s: %w", m.Group, err)
	}
	now := Membership{ID: resp.MemberID, Generation: resp.Generation, Leader: resp.LeaderID == resp.MemberID}
	if resp.Protocol != nil {
		now.Protocol = *resp.Protocol
	}

	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = m.Group, now.ID, now.Generation
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr(m.Type), kmsg.StringPtr(now.Protocol)
	if now.Leader {
		reported := map[string][]byte{}
		for _, other := range resp.Members {
			reported[other.MemberID] = other.ProtocolMetadata
		}
		all, err := m.Owner.Lead(ctx, now, reported)
		if err != nil {
			return now, fmt.Errorf("lead group %s: %w", m.Group, err)
		}
		for id, a := range all {
			one := kmsg.NewSyncGroupRequestGroupAssignment()
			one.MemberID, one.MemberAssignment = id, a
			sync.GroupAssignment = append(sync.GroupAssignment, one)
		}
	}
	sent := time.Now()
	synced, err := sync.RequestWith(ctx, m.Client)
	if err != nil {
		return now, fmt.Errorf("sync group %s: %w", m.Group, err)
	}
	switch err := kerr.ErrorForCode(synced.ErrorCode); {
	case errors.Is(err, kerr.RebalanceInProgress):
		return now, errRejoin // another has joined meanwhile; what we own stays
	case err != nil:
		return now, fmt.Errorf("sync group %s: %w", m.Group, err)
	}
	m.heard(sent)
	return now, m.Owner.Assigned(ctx, now, synced.MemberAssignment)
}

// pulse follows whether the coordinator counts the member in.
type pulse struct {
	m      *Member
	at     Membership
	alive  time.Time // when the last heartbeat that was answered was sent
	warned bool      // of this outage
}

// errSilent says that no heartbeat was answered for the session's time.
var errSilent = errors.New("no heartbeat was answered for the group's session timeout")

// beat sends one heartbeat. out says that the session is over: others may run what we
// run. Otherwise err is the coordinator's answer, nil too where there was none.
func (p *pulse) beat(ctx context.Context) (err error, out bool) {
	sent := time.Now()
	limited, cancel := context.WithDeadline(ctx, p.alive.Add(p.m.Session))
	defer cancel()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = p.m.Group, p.at.ID, p.at.Generation
	resp, err := req.RequestWith(limited, p.m.Client)
	switch {
	case ctx.Err() != nil:
		return ctx.Err(), false
	case limited.Err() != nil:
		return fmt.Errorf("%w (%v): %w", errSilent, p.m.Session, errors.Join(err, limited.Err())), true
	case err == nil:
		err = kerr.ErrorForCode(resp.ErrorCode)
		if err == nil || !kerr.IsRetriable(err) || errors.Is(err, kerr.RebalanceInProgress) {
			p.alive, p.warned = sent, false
			if err == nil || errors.Is(err, kerr.RebalanceInProgress) {
				p.m.heard(sent)
			}
			return err, false
		}
	}
	if !p.warned {
		p.warned = true
		p.m.Logger.Warn("heartbeats to the group's coordinator fail; without one for the session timeout this process is no member any more",
			"group", p.m.Group, "session", p.m.Session, "err", err)
	}
	return nil, false
}

// stay heartbeats until the generation ends: with errRejoin where the member shall
// join again and keeps what it owns, with another error where it is out.
func (m *Member) stay(ctx context.Context, at Membership) error {
	tick := time.NewTicker(m.Heartbeat)
	defer tick.Stop()
	p := pulse{m: m, at: at, alive: time.Now()}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.rejoin:
			return errRejoin
		case <-tick.C:
		}
		switch err, out := p.beat(ctx); {
		case out:
			return err
		case errors.Is(err, kerr.RebalanceInProgress):
			return errRejoin
		case err != nil && ctx.Err() == nil:
			return fmt.Errorf("heartbeat to group %s: %w", m.Group, err)
		}
	}
}

// watch heartbeats while the member joins again, which may take as long as the
// slowest member: what runs here goes on meanwhile, but not when the coordinator
// does not answer any more. Any answer will do.
func (m *Member) watch(ctx context.Context, at Membership) {
	tick := time.NewTicker(m.Heartbeat)
	defer tick.Stop()
	p := pulse{m: m, at: at, alive: time.Now()}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err, out := p.beat(ctx); out {
			m.until.Store(nil)
			m.Owner.Lost(err)
			m.RequestRejoin() // what this join reports as owned no longer is
			return
		}
	}
}
