//go:build synctests

package log_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log"
	"millrace/log/logtest"
)

// A cable is a client's way to the log, which can be cut and mended.
type cable struct {
	dial func(context.Context, string, string) (net.Conn, error)

	mu    sync.Mutex // guards the fields below
	cut   bool
	conns []net.Conn
}

func newCable(t testing.TB, l *log.Log) *cable {
	t.Helper()
	cl, err := kgo.NewClient(l.ClientOpts()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	return &cable{dial: cl.OptValue(kgo.Dialer).(func(context.Context, string, string) (net.Conn, error))}
}

func (c *cable) opts(l *log.Log) []kgo.Opt {
	return append(l.ClientOpts(), kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.cut {
			return nil, errors.New("the cable is cut")
		}
		conn, err := c.dial(ctx, network, addr)
		if err == nil {
			c.conns = append(c.conns, conn)
		}
		return conn, err
	}))
}

func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// simulated waits in fake time until ok, and says how long that took.
func simulated(t *testing.T, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if ok() {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			t.Fatalf("after %s still not: %s", limit, what)
		}
	}
}

func TestSimConsumersTakeOverFromOneThatFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := logtest.New(t)
		adm := kadm.NewClient(client(t, l.ClientOpts()...))
		if _, err := adm.CreateTopic(t.Context(), 6, 1, nil, "t"); err != nil {
			t.Fatal(err)
		}
		const session = 45 * time.Second
		owned := func() (n []int) {
			g := described(t, adm, "g")
			if g.State != "Stable" {
				return nil
			}
			for _, m := range g.Members {
				n = append(n, 0)
				if c, ok := m.Assigned.AsConsumer(); ok {
					for _, top := range c.Topics {
						n[len(n)-1] += len(top.Partitions)
					}
				}
			}
			slices.Sort(n)
			return n
		}
		var members sync.WaitGroup
		defer members.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		cables := []*cable{newCable(t, l), newCable(t, l), newCable(t, l)}
		for _, c := range cables {
			cl := client(t, append(c.opts(l), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.Balancers(kgo.RangeBalancer()), kgo.SessionTimeout(session))...)
			members.Go(func() {
				for ctx.Err() == nil {
					cl.PollFetches(ctx)
				}
			})
		}
		simulated(t, time.Minute, "three share", func() bool { return slices.Equal(owned(), []int{2, 2, 2}) })

		cables[1].set(true)
		took := simulated(t, 5*time.Minute, "two share", func() bool { return slices.Equal(owned(), []int{3, 3}) })
		// It is given up when its session ends, counted from its last heartbeat, and the others join with their next.
		if took < session-4*time.Second || took > session+10*time.Second {
			t.Errorf("the two had everything after %s", took)
		}
		cables[1].set(false)
		simulated(t, 5*time.Minute, "three share again", func() bool { return slices.Equal(owned(), []int{2, 2, 2}) })

		// Nothing happens, for hours.
		before := described(t, adm, "g")
		time.Sleep(5 * time.Hour)
		after := described(t, adm, "g")
		for i := range before.Members {
			if before.Members[i].MemberID != after.Members[i].MemberID {
				t.Errorf("member %s became %s", before.Members[i].MemberID, after.Members[i].MemberID)
			}
		}
		stop()
	})
}

// simWorker does what a Connect worker does: join, sync, heartbeat; it notes its share.
type simWorker struct {
	name string
	cl   *kgo.Client

	mu     sync.Mutex // guards the fields below
	share  string
	gen    int32
	joined int
}

func (w *simWorker) run(ctx context.Context) {
	const group = "workers"
	id := ""
	for ctx.Err() == nil {
		join := kmsg.NewPtrJoinGroupRequest()
		join.Group, join.MemberID, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = group, id, "connect", 10_000, 60_000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = "sessioned", []byte(w.name)
		join.Protocols = append(join.Protocols, p)
		j, err := join.RequestWith(ctx, w.cl)
		if err != nil {
			w.set("", 0)
			time.Sleep(time.Second)
			continue
		}
		switch j.ErrorCode {
		case 0:
		case kerr.UnknownMemberID.Code:
			id = ""
			continue
		default:
			id = j.MemberID
			continue
		}
		id = j.MemberID
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Group, sync.MemberID, sync.Generation = group, id, j.Generation
		for i, m := range j.Members {
			share := ""
			for task := i; task < 6; task += len(j.Members) {
				share += fmt.Sprint(task)
			}
			sync.GroupAssignment = append(sync.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: []byte(share)})
		}
		s, err := sync.RequestWith(ctx, w.cl)
		if err != nil || s.ErrorCode != 0 {
			continue
		}
		w.mu.Lock()
		w.joined++
		w.mu.Unlock()
		w.set(string(s.MemberAssignment), j.Generation)
		last := time.Now()
		for {
			select {
			case <-ctx.Done():
				(&kmsg.LeaveGroupRequest{Group: group, MemberID: id, Members: []kmsg.LeaveGroupRequestMember{{MemberID: id}}}).RequestWith(context.WithoutCancel(ctx), w.cl)
				w.set("", 0)
				return
			case <-time.After(3 * time.Second):
			}
			h, err := (&kmsg.HeartbeatRequest{Group: group, MemberID: id, Generation: j.Generation}).RequestWith(ctx, w.cl)
			if err == nil && h.ErrorCode == 0 {
				last = time.Now()
				continue
			}
			if err != nil && time.Since(last) < 10*time.Second {
				continue
			}
			// The group has moved on, or it is out of reach for a session: the tasks end before others start them.
			w.set("", 0)
			if err == nil && h.ErrorCode == kerr.UnknownMemberID.Code {
				id = ""
			}
			break
		}
	}
}

func (w *simWorker) set(share string, gen int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.share, w.gen = share, gen
}

func (w *simWorker) get() (string, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.share, w.joined
}

func TestSimWorkerThatWasCutOffComesBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := logtest.New(t)
		var running sync.WaitGroup
		defer running.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var ws []*simWorker
		var cables []*cable
		for i := range 3 {
			c := newCable(t, l)
			w := &simWorker{name: fmt.Sprint("w", i), cl: client(t, append(c.opts(l), kgo.RequestRetries(0), kgo.RetryTimeout(2*time.Second))...)}
			ws, cables = append(ws, w), append(cables, c)
			running.Go(func() { w.run(ctx) })
		}
		shares := func() []string {
			var s []string
			for _, w := range ws {
				share, _ := w.get()
				s = append(s, share)
			}
			slices.Sort(s)
			return s
		}
		even := func() bool { return slices.Equal(shares(), []string{"03", "14", "25"}) }
		// No worker waits for others that may come: this takes heartbeats, not delays.
		if took := simulated(t, time.Minute, "three share", even); took > 10*time.Second {
			t.Errorf("three workers shared after %s", took)
		}
		_, before := ws[0].get()

		cables[1].set(true)
		simulated(t, time.Minute, "two share", func() bool { return slices.Equal(shares(), []string{"", "024", "135"}) })
		time.Sleep(30 * time.Second)
		if share, _ := ws[1].get(); share != "" {
			t.Errorf("the one that is cut off still runs %q", share)
		}
		_, without := ws[0].get()
		if without != before+1 {
			t.Errorf("its going took %d rebalances", without-before)
		}
		cables[1].set(false)
		simulated(t, time.Minute, "three share again", even)
		time.Sleep(time.Hour)
		if !even() {
			t.Errorf("an hour later: %q", shares())
		}
		if _, now := ws[0].get(); now-without > 2 {
			t.Errorf("its return took %d rebalances", now-without)
		}
		stop()
	})
}
