package worker

import (
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// abrupt has the connections of a client end at once when they are closed. Otherwise the system goes on to deliver what was sent on a line
// that was cut: the offsets of a task that was abandoned would reach the log once the line is whole again, over those of the task's next
// owner. A client that is closed in order has had all its answers before.
type abrupt struct{}

var _ kgo.HookBrokerConnect = abrupt{}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (abrupt) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, c net.Conn, err error) {
	if err != nil {
		return
	}
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = secure.NetConn()
	}
	if tcp, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0) // fails only where the connection has ended already
	}
}
