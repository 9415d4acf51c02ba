package herder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// An owner is what a member acts for. Its methods are called by the member's
// goroutine and may block for as long as ctx lives.
type owner interface {
	// standing is what the member reports when it joins under the protocol of the last
	// generation. Whatever must be given up before a rebalance is given up by then.
	standing(ctx context.Context, eager bool) (metadata, error)
	// lead makes every member's assignment.
	lead(ctx context.Context, g ledGroup) (map[string]assignment, error)
	// assigned is called with what the member was assigned.
	assigned(ctx context.Context, m membership, a assignment) error
	// lost is called when the group no longer counts the member in: whatever it runs
	// may already run elsewhere.
	lost(why error)
}

// membership is the member's place in a generation.
type membership struct {
	id         string
	generation int32
	protocol   string
	leader     bool
}

// ledGroup is what a leader is told of its group.
type ledGroup struct {
	membership
	members map[string]metadata
}

// A member takes part in the group of workers: it joins, reports, heartbeats and
// leaves. run is its one goroutine.
type member struct {
	cl        *kgo.Client
	group     string
	protocols []string
	session   time.Duration
	heartbeat time.Duration
	rebalance time.Duration
	lg        *slog.Logger
	owner     owner
	rejoin    chan struct{} // of one: join again soon
	refused   func(error)   // hears why joining again cannot help; may be nil
}

// A member that is out tries again after firstPause, then after twice that, up to mostPause.
const (
	firstPause = 250 * time.Millisecond
	mostPause  = 4 * time.Second
)

// requestRejoin makes the member join again, which begins a rebalance where it leads
// or what it reports has changed. It never blocks.
func (m *member) requestRejoin() {
	select {
	case m.rejoin <- struct{}{}:
	default:
	}
}

// run is a member's life, until ctx ends; then it leaves the group, for which it has
// the time of leave.
func (m *member) run(ctx context.Context, leave time.Duration) {
	var at membership
	defer func() {
		if at.id == "" {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leave)
		defer cancel()
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group, req.MemberID = m.group, at.id
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = at.id
		req.Members = append(req.Members, one)
		if _, err := req.RequestWith(ctx, m.cl); err != nil {
			m.lg.Warn("leave the group of workers", "group", m.group, "err", err)
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
			at.id, at.protocol = joined.id, joined.protocol
			continue
		}
		var needed *memberIDRequired
		if errors.As(err, &needed) {
			at.id = needed.id
			continue
		}
		if why := m.never(err); why != nil && m.refused != nil {
			m.refused(why)
		}
		// Whatever it was, we can no longer be sure to be counted in.
		m.owner.lost(err)
		m.lg.Warn("the group of workers does not count this one in; it joins again", "group", m.group, "err", err)
		switch {
		case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.FencedInstanceID):
			at = membership{}
		default:
			at = membership{id: at.id, protocol: at.protocol}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, mostPause)
		}
	}
}

// never is why joining again cannot help until somebody changes something, nil where it can.
func (m *member) never(err error) error {
	switch {
	case errors.Is(err, kerr.InvalidSessionTimeout):
		return fmt.Errorf("join group %s: session.timeout.ms=%d lies outside of what the cluster's group.min.session.timeout.ms and group.max.session.timeout.ms allow (Kafka's own: 6000 to 1800000); change it: %w",
			m.group, m.session.Milliseconds(), err)
	case errors.Is(err, kerr.InconsistentGroupProtocol):
		return fmt.Errorf("join group %s: its members are no Connect workers, or offer other protocols; choose another group.id (a sink's consumer group cannot be the workers' group), or the connect.protocol that the others have: %w", m.group, err)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("join group %s: the worker has not the right to; grant it, or choose another group.id: %w", m.group, err)
	case errors.Is(err, kerr.InvalidGroupID):
		return fmt.Errorf("join group %.100q: the cluster takes no such group.id; choose another: %w", m.group, err)
	}
	return nil
}

// errRejoin ends a stay because a rebalance has begun or is wanted.
var errRejoin = errors.New("rebalance")

type memberIDRequired struct{ id string }

func (e *memberIDRequired) Error() string { return "the coordinator wants to see the id it gave" }

// join brings the member into the group's next generation and hands over what it was assigned.
func (m *member) join(ctx context.Context, last membership) (membership, error) {
	select { // what was wanted until now is served by this
	case <-m.rejoin:
	default:
	}
	md, err := m.owner.standing(ctx, last.protocol == protoEager)
	if err != nil {
		return last, fmt.Errorf("join group %s: %w", m.group, err)
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = m.group, last.id, "connect"
	req.SessionTimeoutMillis = int32(m.session.Milliseconds())
	req.RebalanceTimeoutMillis = int32(m.rebalance.Milliseconds())
	for _, name := range m.protocols {
		p := kmsg.NewJoinGroupRequestProtocol()
		md.version = versionOf(name)
		if md.allocation != nil {
			a := *md.allocation
			a.version = max(1, md.version)
			md.allocation = &a
		}
		p.Name, p.Metadata = name, appendMetadata(nil, md)
		req.Protocols = append(req.Protocols, p)
	}
	if last.generation > 0 {
		watching, stop := context.WithCancel(ctx)
		defer stop()
		go m.watch(watching, last)
	}
	resp, err := req.RequestWith(ctx, m.cl)
	if err != nil {
		return last, fmt.Errorf("join group %s: %w", m.group, err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		if errors.Is(err, kerr.MemberIDRequired) {
			return last, &memberIDRequired{resp.MemberID}
		}
		return last, fmt.Errorf("join group %s: %w", m.group, err)
	}
	now := membership{id: resp.MemberID, generation: resp.Generation, leader: resp.LeaderID == resp.MemberID}
	if resp.Protocol != nil {
		now.protocol = *resp.Protocol
	}

	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = m.group, now.id, now.generation
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr("connect"), kmsg.StringPtr(now.protocol)
	if now.leader {
		led := ledGroup{membership: now, members: map[string]metadata{}}
		for _, other := range resp.Members {
			md, err := parseMetadata(other.ProtocolMetadata)
			if err != nil {
				return now, fmt.Errorf("lead group %s: member %s: %w", m.group, other.MemberID, err)
			}
			led.members[other.MemberID] = md
		}
		all, err := m.owner.lead(ctx, led)
		if err != nil {
			return now, fmt.Errorf("lead group %s: %w", m.group, err)
		}
		for id, a := range all {
			one := kmsg.NewSyncGroupRequestGroupAssignment()
			one.MemberID, one.MemberAssignment = id, appendAssignment(nil, a)
			sync.GroupAssignment = append(sync.GroupAssignment, one)
		}
	}
	synced, err := sync.RequestWith(ctx, m.cl)
	if err != nil {
		return now, fmt.Errorf("sync group %s: %w", m.group, err)
	}
	switch err := kerr.ErrorForCode(synced.ErrorCode); {
	case errors.Is(err, kerr.RebalanceInProgress):
		return now, errRejoin // another has joined meanwhile; what we own stays
	case err != nil:
		return now, fmt.Errorf("sync group %s: %w", m.group, err)
	}
	a, err := parseAssignment(synced.MemberAssignment)
	if err != nil {
		return now, fmt.Errorf("sync group %s: %w", m.group, err)
	}
	return now, m.owner.assigned(ctx, now, a)
}

// pulse follows whether the coordinator counts the member in.
type pulse struct {
	m      *member
	at     membership
	alive  time.Time // when the last heartbeat that was answered was sent
	warned bool      // of this outage
}

// errSilent says that no heartbeat was answered for the session's time.
var errSilent = errors.New("no heartbeat was answered for the group's session timeout")

// beat sends one heartbeat. out says that the session is over: others may run what we
// run. Otherwise err is the coordinator's answer, nil too where there was none.
func (p *pulse) beat(ctx context.Context) (err error, out bool) {
	sent := time.Now()
	limited, cancel := context.WithDeadline(ctx, p.alive.Add(p.m.session))
	defer cancel()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = p.m.group, p.at.id, p.at.generation
	resp, err := req.RequestWith(limited, p.m.cl)
	switch {
	case ctx.Err() != nil:
		return ctx.Err(), false
	case limited.Err() != nil:
		return fmt.Errorf("%w (%v): %w", errSilent, p.m.session, errors.Join(err, limited.Err())), true
	case err == nil:
		err = kerr.ErrorForCode(resp.ErrorCode)
		if err == nil || !kerr.IsRetriable(err) || errors.Is(err, kerr.RebalanceInProgress) {
			p.alive, p.warned = sent, false
			return err, false
		}
	}
	if !p.warned {
		p.warned = true
		p.m.lg.Warn("heartbeats to the group's coordinator fail; without one for the session timeout the tasks here are abandoned",
			"group", p.m.group, "session", p.m.session, "err", err)
	}
	return nil, false
}

// stay heartbeats until the generation ends: with errRejoin where the member shall
// join again and keeps what it owns, with another error where it is out.
func (m *member) stay(ctx context.Context, at membership) error {
	tick := time.NewTicker(m.heartbeat)
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
			return fmt.Errorf("heartbeat to group %s: %w", m.group, err)
		}
	}
}

// watch heartbeats while the member joins again, which may take as long as the
// slowest member: what runs here goes on meanwhile, but not when the coordinator
// does not answer any more. Any answer will do.
func (m *member) watch(ctx context.Context, at membership) {
	tick := time.NewTicker(m.heartbeat)
	defer tick.Stop()
	p := pulse{m: m, at: at, alive: time.Now()}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err, out := p.beat(ctx); out {
			m.owner.lost(err)
			m.requestRejoin() // what this join reports as owned no longer is
			return
		}
	}
}
