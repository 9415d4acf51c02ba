package group

import (
	"bytes"
	"fmt"
	"time"

	"millrace/log/internal/batch"
)

// image is the last value of each key: what a compacted topic means. Values are parsed once, at the end, and not once per
// commit: the topic of a busy group has a million of them.
type image struct {
	values map[string][]byte
}

func (im *image) add(v batch.View) error {
	if v.IsControl() {
		return nil
	}
	for r, err := range v.Records() {
		if err != nil {
			return err
		}
		if r.Value == nil {
			delete(im.values, string(r.Key))
			continue
		}
		old, ok := im.values[string(r.Key)]
		if ok && len(old) == len(r.Value) {
			copy(old, r.Value) // the usual case: the same partition, a newer offset
			continue
		}
		im.values[string(r.Key)] = bytes.Clone(r.Value)
	}
	return nil
}

// groups makes the groups of an image. Records that cannot be read are reported and left out; they stay in the log.
func (im *image) groups(now time.Time, bad func(key string, err error)) map[string]*group {
	gs := map[string]*group{}
	type stored struct {
		group string
		partition
		offset
	}
	var offsets []stored
	for key, value := range im.values {
		name, p, known, err := parseKey([]byte(key))
		switch {
		case err != nil:
			bad(key, err)
		case !known:
		case p.topic == "":
			g, err := parseGroup(name, value, now)
			if err != nil {
				bad(key, fmt.Errorf("group %q: %w", name, err))
				continue
			}
			gs[name] = g
		default:
			o, err := parseOffset(value)
			if err != nil {
				bad(key, fmt.Errorf("group %q, topic %q, partition %d: %w", name, p.topic, p.partition, err))
				continue
			}
			offsets = append(offsets, stored{name, p, o})
		}
	}
	for _, o := range offsets {
		g := gs[o.group]
		if g == nil {
			g = newGroup(o.group, now)
			gs[o.group] = g
		}
		g.setOffset(o.partition, o.offset)
	}
	return gs
}

// dropEmbedded removes the members that came over the in-memory connection: their process has ended, and nothing should wait
// for their sessions. Others have to share out anew what they had.
func (g *group) dropEmbedded(e *env) {
	var gone []*member
	for _, m := range g.members {
		if m.client.Host == EmbeddedHost {
			gone = append(gone, m)
		}
	}
	g.remove(e, gone)
}

// forgetGone removes the offsets of topics that are gone, or that are no longer the ones that were committed for: a topic made
// anew under an old name starts from its beginning. gone says so for a topic and the id that it had. When the log refuses
// tombstones the offsets go nevertheless; the next start finds them gone again.
func (g *group) forgetGone(e *env, gone func(topic string, id [16]byte) bool) {
	var ps []partition
	for _, p := range g.partitions(g.sortedTopics()...) {
		if gone(p.topic, g.offsets[p.topic][p.partition].topicID) {
			ps = append(ps, p)
		}
	}
	if g.forget(e, ps) != nil {
		g.discard(ps)
	}
}
