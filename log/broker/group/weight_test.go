package group

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestWhatMembersSayIsBounded(t *testing.T) {
	log := &memLog{}
	c, err := Open(log, newTopics("t"), Options{Limits: Limits{MaxMemory: 20_000}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rejoin := func(group, id string, size int) (int16, string) {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.MemberID, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 3, group, id, "connect", 30_000, 30_000
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "p", Metadata: make([]byte, size)}}
		answer := make(chan *kmsg.JoinGroupResponse, 1)
		c.JoinGroup(Client{ID: "c", Host: "/h"}, req, func(r *kmsg.JoinGroupResponse, err error) { answer <- r })
		r := <-answer
		return r.ErrorCode, r.MemberID
	}
	join := func(group string) (code int16, id string) { return rejoin(group, "", 6_000) }
	beat := func(group string, epoch int32) int16 {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, group, "m", epoch
		if epoch == joining {
			req.RebalanceTimeoutMillis, req.Topics = 60_000, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			for i := range 30 {
				req.SubscribedTopicNames = append(req.SubscribedTopicNames, fmt.Sprint(strings.Repeat("n", 200), i))
			}
		}
		answer := make(chan *kmsg.ConsumerGroupHeartbeatResponse, 1)
		c.ConsumerGroupHeartbeat(Client{ID: "c", Host: "/h"}, req, func(r *kmsg.ConsumerGroupHeartbeatResponse, err error) { answer <- r })
		return (<-answer).ErrorCode
	}
	code, first := join("a")
	if code != 0 {
		t.Fatalf("the first: %v", kerr.ErrorForCode(code))
	}
	if code := beat("b", joining); code != 0 {
		t.Fatalf("the second, in another group: %v", kerr.ErrorForCode(code))
	}
	if code, _ := join("c"); code != kerr.GroupMaxSizeReached.Code {
		t.Errorf("a third: %v", kerr.ErrorForCode(code))
	}
	if code := beat("d", joining); code != kerr.GroupMaxSizeReached.Code {
		t.Errorf("a third of the other kind: %v", kerr.ErrorForCode(code))
	}
	if code := beat("b", 2); code != 0 {
		t.Errorf("who is in stays in: %v", kerr.ErrorForCode(code))
	}
	if code, _ := rejoin("a", first, 6_000); code != 0 {
		t.Errorf("who is in may say the same again: %v", kerr.ErrorForCode(code))
	}
	if code, _ := rejoin("a", first, 16_000); code != kerr.GroupMaxSizeReached.Code {
		t.Errorf("who is in may not say more than there is room for: %v", kerr.ErrorForCode(code))
	}
	// Whoever leaves makes room.
	left := make(chan error, 1)
	c.LeaveGroup(&kmsg.LeaveGroupRequest{Version: 2, Group: "a", MemberID: first}, func(r *kmsg.LeaveGroupResponse, err error) { left <- kerr.ErrorForCode(r.ErrorCode) })
	if err := <-left; err != nil {
		t.Fatal(err)
	}
	if code, _ := join("c"); code != 0 {
		t.Errorf("after one has left: %v", kerr.ErrorForCode(code))
	}
	if code := beat("b", leaving); code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	if code := beat("d", joining); code != 0 {
		t.Errorf("after the other has left: %v", kerr.ErrorForCode(code))
	}
}

// weighed compares the sum that a coordinator keeps with what its groups weigh.
func weighed(c *Coordinator) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := int64(0)
	for _, s := range c.slots {
		s.mu.Lock()
		sum += s.g.weight()
		s.mu.Unlock()
	}
	if kept := c.weight.Load(); kept != sum {
		return fmt.Errorf("members weigh %d bytes, %d are counted", sum, kept)
	}
	return nil
}
