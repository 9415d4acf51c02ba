package group

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func comparePartitions(a, b partition) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}

// delete removes the group and its offsets, if it has no members.
func (g *group) delete(e *env) int16 {
	if g.now() != empty {
		return kerr.NonEmptyGroup.Code
	}
	var records []record
	for _, p := range g.allPartitions() {
		records = append(records, offsetTombstone(g.name, p))
	}
	records = append(records, g.tombstones()...)
	if len(records) > 0 {
		if err := e.append(records); err != nil {
			return kerr.CoordinatorNotAvailable.Code
		}
	}
	g.become(e, dead)
	return 0
}

// deleteOffsets removes single offsets. Of a group with members only those of topics that none of them reads can go: they
// would come back with the next commit. The answer has one code per partition, and a code for the whole when nothing can go.
func (g *group) deleteOffsets(e *env, ps []partition) (codes []int16, whole int16) {
	var used map[string]bool
	if g.now() != empty {
		if g.protocolType != "consumer" {
			return nil, kerr.NonEmptyGroup.Code
		}
		var ok bool
		if used, ok = g.subscribed(); !ok {
			return nil, kerr.NonEmptyGroup.Code
		}
	}
	codes = make([]int16, len(ps))
	var free []partition
	for i, p := range ps {
		if used[p.topic] {
			codes[i] = kerr.GroupSubscribedToTopic.Code
			continue
		}
		free = append(free, p)
	}
	if err := g.forget(e, free); err != nil {
		return nil, kerr.CoordinatorNotAvailable.Code
	}
	return codes, 0
}

// subscribed lists the topics that members of a consumer group read. It is the only place where metadata is looked into;
// ok is false when a member's cannot be read.
func (g *group) subscribed() (topics map[string]bool, ok bool) {
	topics = map[string]bool{}
	if g.consumer != nil {
		for _, m := range g.consumer.members {
			for _, t := range g.consumer.subscription(m) {
				topics[t] = true
			}
		}
		return topics, true
	}
	for _, m := range g.members {
		for _, p := range m.protocols {
			var s kmsg.ConsumerMemberMetadata
			if err := s.ReadFrom(slices.Clone(p.metadata)); err != nil {
				return nil, false
			}
			for _, t := range s.Topics {
				topics[t] = true
			}
		}
	}
	return topics, true
}

type described struct {
	state        state
	protocolType string
	protocol     string
	members      []describedMember
}

type describedMember struct {
	id, instance       string
	client             Client
	metadata, assigned []byte
}

// describe tells what an operator sees. The protocol and what members say for it are shown in a stable group; otherwise the next
// protocol is not known. Shares are shown as they were handed out last.
func (g *group) describe() described {
	d := described{state: g.state, protocolType: g.protocolType}
	if g.state == stable {
		d.protocol = g.protocol
	}
	for _, m := range g.members {
		dm := describedMember{id: m.id, instance: m.instance, client: m.client, assigned: m.assigned}
		if g.state == stable {
			dm.metadata = m.metadata(g.protocol)
		}
		d.members = append(d.members, dm)
	}
	return d
}
