package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
)

// leave removes members by their own wish or an administrator's, and reports an error code for each.
func (g *group) leave(e *env, who []leaver) []int16 {
	if g.consumer != nil {
		return g.leaveConsumers(e, who)
	}
	codes := make([]int16, len(who))
	var gone []*member
	for i, w := range who {
		if _, ok := g.pending[w.id]; ok && w.instance == "" {
			delete(g.pending, w.id)
			e.weighs = true
			continue
		}
		if w.instance != "" && w.id == "" { // an administrator removes a static member without knowing its id
			if m := g.static(w.instance); m != nil {
				w.id = m.id
			}
		}
		m, code := g.find(w.id, w.instance)
		if codes[i] = code; code == 0 && !slices.Contains(gone, m) {
			gone = append(gone, m)
		}
	}
	g.remove(e, gone)
	g.maybeComplete(e)
	return codes
}

type leaver struct{ id, instance string }

// remove takes members out, and has the others share out what they had.
func (g *group) remove(e *env, gone []*member) {
	if len(gone) == 0 {
		return
	}
	e.weighs = true
	g.members = slices.DeleteFunc(g.members, func(m *member) bool { return slices.Contains(gone, m) })
	for _, m := range gone {
		m.answerJoin(e.now, joinOut{err: kerr.UnknownMemberID.Code, generation: -1, id: m.id})
		m.answerSync(e.now, syncOut{err: kerr.UnknownMemberID.Code})
		if m.id == g.leader {
			g.leader = ""
			if len(g.members) > 0 {
				g.leader = g.members[0].id
			}
		}
	}
	if g.state != preparing {
		g.prepare(e)
	}
	g.maybeComplete(e)
}
