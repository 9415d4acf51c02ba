package group

// Seen is what a group is like at one moment.
type Seen struct {
	Name    string
	State   string // in the protocol's words
	Members int
	Offsets map[string]map[int32]int64 // committed, by topic and partition
}

// Look shows every group, one after the other, in the order of their names. It stops when the coordinator is closed.
func (c *Coordinator) Look(each func(Seen)) {
	for _, name := range c.names() {
		var out Seen
		ok, err := c.with(name, false, func(s *slot, e *env) {
			g := s.g
			out = Seen{Name: g.name, State: string(g.now()), Members: len(g.members), Offsets: make(map[string]map[int32]int64, len(g.offsets))}
			if g.consumer != nil {
				out.Members = len(g.consumer.members)
			}
			for topic, ps := range g.offsets {
				of := make(map[int32]int64, len(ps))
				for n, o := range ps {
					of[n] = o.offset
				}
				out.Offsets[topic] = of
			}
		})
		if err != nil {
			return
		}
		if ok {
			each(out)
		}
	}
}
