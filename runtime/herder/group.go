package herder

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/runtime/member"
	"millrace/runtime/store"
)

// inGroup is the herder as its membership in the group of workers calls it.
type inGroup struct{ h *Herder }

// Standing implements member.Owner.
func (g inGroup) Standing(ctx context.Context, last string) (func(protocol string) []byte, error) {
	md, err := g.h.standing(ctx, last == protoEager)
	return func(protocol string) []byte {
		md := md
		md.version = versionOf(protocol)
		if md.allocation != nil {
			a := *md.allocation
			a.version = max(1, md.version)
			md.allocation = &a
		}
		return appendMetadata(nil, md)
	}, err
}

// Lead implements member.Owner.
func (g inGroup) Lead(ctx context.Context, at member.Membership, reported map[string][]byte) (map[string][]byte, error) {
	led := ledGroup{Membership: at, members: map[string]metadata{}}
	for id, b := range reported {
		md, err := parseMetadata(b)
		if err != nil {
			return nil, fmt.Errorf("member %s: %w", id, err)
		}
		led.members[id] = md
	}
	all, err := g.h.lead(ctx, led)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(all))
	for id, a := range all {
		out[id] = appendAssignment(nil, a)
	}
	return out, nil
}

// Assigned implements member.Owner.
func (g inGroup) Assigned(ctx context.Context, at member.Membership, b []byte) error {
	a, err := parseAssignment(b)
	if err != nil {
		return fmt.Errorf("the assignment of group %s: %w", g.h.cfg.Worker.GroupID, err)
	}
	return g.h.assigned(ctx, at, a)
}

// Lost implements member.Owner.
func (g inGroup) Lost(why error) { g.h.lost(why) }

// membershipFailed tells what joining again cannot help.
func (h *Herder) membershipFailed(err error) {
	if why := h.never(err); why != nil {
		h.neverJoins(why)
	}
}

// never is why joining again cannot help until somebody changes something, nil where it can.
func (h *Herder) never(err error) error {
	switch {
	case errors.Is(err, kerr.InvalidSessionTimeout):
		return fmt.Errorf("join group %s: session.timeout.ms=%d lies outside of what the cluster's group.min.session.timeout.ms and group.max.session.timeout.ms allow (Kafka's own: 6000 to 1800000); change it: %w",
			h.cfg.Worker.GroupID, h.cfg.Worker.SessionTimeout.Milliseconds(), err)
	case errors.Is(err, kerr.InconsistentGroupProtocol):
		return fmt.Errorf("join group %s: its members are no Connect workers, or offer other protocols; choose another group.id (a sink's consumer group cannot be the workers' group), or the connect.protocol that the others have: %w", h.cfg.Worker.GroupID, err)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("join group %s: the worker has not the right to; grant it, or choose another group.id: %w", h.cfg.Worker.GroupID, err)
	case errors.Is(err, kerr.InvalidGroupID):
		return fmt.Errorf("join group %.100q: the cluster takes no such group.id; choose another: %w", h.cfg.Worker.GroupID, err)
	}
	return nil
}

// ledGroup is what a leader is told of its group.
type ledGroup struct {
	member.Membership
	members map[string]metadata
}

// standing is what the worker reports when it joins. Under the eager protocol everything stops first.
func (h *Herder) standing(ctx context.Context, eager bool) (metadata, error) {
	h.tally.rebalance(false)
	if eager {
		idle := make(chan struct{})
		if err := h.do(ctx, func() {
			h.mine = work{}
			h.whenIdle = append(h.whenIdle, func() { close(idle) })
		}); err != nil {
			return metadata{}, err
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return metadata{}, ctx.Err()
		}
	}
	var m metadata
	err := h.do(ctx, func() {
		h.joins++
		h.joining = true
		h.whenGone = false // this join says what is gone, and what is not is revoked again
		m = metadata{url: h.url, configOffset: h.configs.Now().Offset}
		if h.joined || !h.mine.empty() {
			own := h.mine
			if h.joined {
				// What was revoked and has not ended yet is still held here: another worker's rejoining
				// must not give it away before.
				own = own.plus(h.leftovers())
			}
			m.allocation = &assignment{leader: h.leaderID, leaderURL: h.leaderURL, configOffset: m.configOffset, assigned: own}
		}
	})
	return m, err
}

// configured is all the work there is.
func configured(s *store.Snapshot) work {
	return work{slices.Collect(maps.Keys(s.Connectors)), s.Tasks()}.normal()
}

// lead makes every member's assignment.
func (h *Herder) lead(ctx context.Context, g ledGroup) (map[string]assignment, error) {
	limited, cancel := context.WithTimeout(ctx, h.cfg.Worker.SyncTimeout)
	defer cancel()
	if err := h.configs.ReadToEnd(limited); err != nil {
		return nil, fmt.Errorf("read the config topic: %w", err)
	}
	out := map[string]assignment{}
	err := h.do(ctx, func() {
		snap := h.configs.Now()
		version := versionOf(g.Protocol)
		base := assignment{version: version, leader: g.ID, leaderURL: h.url, configOffset: snap.Offset}
		input := group{now: time.Now(), generation: g.Generation, members: map[string]work{}, configured: configured(snap), maxDelay: h.cfg.Worker.RebalanceDelay}
		h.urls = map[string]string{}
		for id, m := range g.members {
			h.urls[id] = m.url
			if m.configOffset > snap.Offset {
				base.err = errConfigMismatch // it read what we did not: all look again
			}
			if m.allocation != nil {
				input.members[id] = m.allocation.assigned
			} else {
				input.members[id] = work{}
			}
			out[id] = base
		}
		if base.err != errNone {
			for id := range out {
				out[id] = base
			}
			return
		}
		h.ledFor = input.configured
		h.holding = slices.Collect(maps.Values(input.members))
		if version == 0 {
			for id, w := range assignEager(slices.Collect(maps.Keys(g.members)), input.configured) {
				a := out[id]
				a.assigned = w
				out[id] = a
				h.holding = append(h.holding, w)
			}
			return
		}
		var shares map[string]share
		h.plan, shares = assign(h.plan, input)
		for id, s := range shares {
			a := base
			a.assigned, a.revoked, a.delay = s.assigned, s.revoked, s.delay
			out[id] = a
			h.holding = append(h.holding, s.assigned)
		}
		h.owners = map[string]work{}
		maps.Copy(h.owners, h.plan.assigned)
	})
	return out, err
}

var errBehind = errors.New("the config topic could not be read as far as the assignment wants")

// othersSync is what the other members get to take their assignments before this one joins again: who comes too late for his keeps
// what he has, and it takes one rebalance more until it is revoked.
const othersSync = 100 * time.Millisecond

// assigned takes what the worker was assigned.
func (h *Herder) assigned(ctx context.Context, m member.Membership, a assignment) error {
	if a.err == errConfigMismatch {
		h.lg.Info("the leader has not read all configurations; the group assigns again")
		if err := h.configs.ReadToEnd(ctx); err != nil {
			return err
		}
		h.member.RequestRejoin()
		return h.do(ctx, func() { h.at = m })
	}
	// Nothing starts before the configurations that were assigned are known here.
	if h.configs.Now().Offset < a.configOffset {
		limited, cancel := context.WithTimeout(ctx, h.cfg.Worker.SyncTimeout)
		err := h.configs.ReadToEnd(limited)
		cancel()
		if err != nil || h.configs.Now().Offset < a.configOffset {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			h.lost(err)
			h.lg.Error("the config topic could not be read as far as the assignment wants; the worker waits before it joins again",
				"offset", h.configs.Now().Offset, "want", a.configOffset, "wait", h.cfg.Worker.UnsyncBackoff, "err", err)
			select {
			case <-time.After(h.cfg.Worker.UnsyncBackoff):
			case <-ctx.Done():
			}
			return errBehind
		}
	}
	if h.cfg.Worker.TransactionalLeader() {
		if !m.Leader {
			h.configs.Follow()
		} else if err := h.configs.Lead(ctx, h.cfg.Worker.LeaderID()); err != nil {
			return fmt.Errorf("become the group's only writer of configurations: %w", err)
		}
	}
	return h.do(ctx, func() {
		h.at, h.leaderID, h.leaderURL, h.joined, h.joining = m, a.leader, a.leaderURL, true, false
		for _, f := range h.whenTaken {
			f()
		}
		h.whenTaken = nil
		h.tally.rebalance(true)
		if a.version == 0 {
			h.mine = a.assigned
		} else {
			h.mine = h.mine.minus(a.revoked).plus(a.assigned)
			if !a.revoked.empty() {
				// What we gave up is assigned to others once we say that we have it no more.
				joins := h.joins
				time.AfterFunc(othersSync, func() {
					h.mail.post(func() { h.whenGone = h.whenGone || h.joins == joins })
				})
			}
		}
		if a.delay > 0 {
			generation := m.Generation
			time.AfterFunc(a.delay, func() {
				h.mail.post(func() {
					if h.at.Generation == generation {
						h.member.RequestRejoin()
					}
				})
			})
		}
		h.lg.Info("joined the group of workers", "group", h.cfg.Worker.GroupID, "generation", m.Generation, "leader", m.Leader,
			"connectors", len(h.mine.connectors), "tasks", len(h.mine.tasks))
		if m.Leader {
			h.refreshSessionKey()
		}
	})
}

// lost is called when the group counts the worker in no longer: all that runs here may already run elsewhere.
func (h *Herder) lost(why error) {
	killed := make(chan struct{})
	h.mail.post(func() {
		if h.joined && (len(h.tasks) > 0 || len(h.conns) > 0) {
			h.lg.Warn("tasks are abandoned: the group no longer counts this worker in", "tasks", len(h.tasks), "err", why)
		}
		h.killAll()
		h.joined, h.mine, h.plan = false, work{}, plan{}
		close(killed)
	})
	select {
	case <-killed:
	case <-h.done:
	}
}

// refreshSessionKey makes a new key where there is none or it is old. The leader does.
func (h *Herder) refreshSessionKey() {
	k := h.configs.Now().SessionKey
	ttl := h.cfg.Worker.SessionKeyTTL
	if h.cfg.Worker.Protocol != protoSessioned || h.keyUnderWay || k != nil && (ttl == 0 || time.Since(time.UnixMilli(k.Created)) < ttl) {
		return
	}
	h.keyUnderWay = true
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	key := store.SessionKey{Key: base64.StdEncoding.EncodeToString(secret), Algorithm: "HmacSHA256", Created: time.Now().UnixMilli()}
	go func() {
		ctx, cancel := context.WithTimeout(h.stopped, 30*time.Second)
		defer cancel()
		err := h.configs.PutSessionKey(ctx, key)
		h.mail.post(func() {
			h.keyUnderWay = false
			if err != nil && h.stopped.Err() == nil {
				h.lg.Warn("the key for requests between workers could not be stored", "err", err)
			}
		})
	}()
}
