package broker

import (
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/broker/group"
	"millrace/log/internal/catalog"
	"millrace/log/internal/wire"
)

// The group requests: JoinGroup (key 11), SyncGroup (14), Heartbeat (12), LeaveGroup (13), OffsetCommit (8), OffsetFetch (9),
// OffsetDelete (47), DescribeGroups (15), ListGroups (16), DeleteGroups (42), ConsumerGroupHeartbeat (68), ConsumerGroupDescribe (69). Package group has their rules and says what each
// version added; here they are connected.

// OpenGroups reads the groups of a catalogue's store, and makes their topic if it is missing. The server that gets them
// must be closed before they are.
func OpenGroups(cat *catalog.Catalog, o group.Options) (*group.Coordinator, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	t := cat.Topic(group.Topic)
	if t == nil {
		var err error
		if t, err = cat.Create(catalog.Spec{Name: group.Topic, Partitions: 1, Configs: internalConfigs()}); err != nil {
			return nil, fmt.Errorf("create %s: %w", group.Topic, err)
		}
	}
	o.ConsumerTimes = func(name string) (session, heartbeat time.Duration) {
		ms := func(config string) time.Duration {
			return time.Duration(cat.GroupNumber(name, config)) * time.Millisecond
		}
		return ms("consumer.session.timeout.ms"), ms("consumer.heartbeat.interval.ms")
	}
	return group.Open(t.Partition(0), topics{cat}, o)
}

// topics shows the catalogue to the coordinator.
type topics struct{ cat *catalog.Catalog }

func (t topics) TopicByName(name string) (id [16]byte, partitions int32, ok bool) {
	if topic := t.cat.Topic(name); topic != nil {
		return topic.ID, topic.Partitions(), true
	}
	return id, 0, false
}

func (t topics) TopicByID(id [16]byte) (string, bool) {
	if topic := t.cat.TopicByID(id); topic != nil {
		return topic.Name, true
	}
	return "", false
}

func (t topics) TopicNames() []string { return t.cat.TopicNames() }

func (t topics) Changes() int64 { return t.cat.Changes() }

func (s *Server) groupHandlers() map[int16]handler {
	g := s.opt.Groups
	if g == nil {
		return nil
	}
	return map[int16]handler{
		wire.JoinGroup: func(c *call) {
			g.JoinGroup(c.client(), c.req.(*kmsg.JoinGroupRequest), answer[*kmsg.JoinGroupResponse](c))
		},
		wire.GroupHeartbeat848: func(c *call) {
			g.ConsumerGroupHeartbeat(c.client(), c.req.(*kmsg.ConsumerGroupHeartbeatRequest), answer[*kmsg.ConsumerGroupHeartbeatResponse](c))
		},
		wire.GroupDescribe848: waits(g.ConsumerGroupDescribe),
		wire.Heartbeat: func(c *call) {
			answer[*kmsg.HeartbeatResponse](c)(g.Heartbeat(c.req.(*kmsg.HeartbeatRequest)))
		},
		wire.DescribeGroups: func(c *call) {
			answer[*kmsg.DescribeGroupsResponse](c)(g.DescribeGroups(c.req.(*kmsg.DescribeGroupsRequest)))
		},
		wire.ListGroups: func(c *call) {
			answer[*kmsg.ListGroupsResponse](c)(g.ListGroups(c.req.(*kmsg.ListGroupsRequest)))
		},
		wire.SyncGroup:    waits(g.SyncGroup),
		wire.LeaveGroup:   waits(g.LeaveGroup),
		wire.OffsetCommit: waits(g.OffsetCommit),
		wire.OffsetFetch:  waits(g.OffsetFetch),
		wire.OffsetDelete: waits(g.OffsetDelete),
		wire.DeleteGroups: waits(g.DeleteGroups),
	}
}

// waits makes a handler of a method that answers later.
func waits[Q kmsg.Request, R kmsg.Response](f func(req Q, done func(R, error))) handler {
	return func(c *call) { f(c.req.(Q), answer[R](c)) }
}

// answer ends the call with a response; with an error there is no true one.
func answer[R kmsg.Response](c *call) func(R, error) {
	return func(resp R, err error) {
		if err != nil {
			c.drop(err)
			return
		}
		c.reply(resp)
	}
}

// client is who sent the call, as groups know it.
func (c *call) client() group.Client {
	cl := group.Client{ID: c.h.ClientID, Host: group.EmbeddedHost}
	if !c.conn.at.InMemory {
		host := c.conn.nc.RemoteAddr().String()
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		cl.Host = "/" + host
	}
	return cl
}
