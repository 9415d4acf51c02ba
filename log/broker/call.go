package broker

import (
	"context"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/wire"
)

// call is one request on its way. The handler, or whoever it hands the call to, ends it with exactly
// one of reply, later, silent and drop; further ends are ignored. The connection answers its calls
// in the order they came, whenever they end.
type call struct {
	ctx  context.Context // ends with the connection
	conn *conn
	h    wire.Header
	req  kmsg.Request // decoded; nil for Produce. Its fields may be kept
	body []byte       // Produce only: valid until the handler returns

	ended   chan struct{} // closed by the first end; what follows is set before
	claimed atomic.Bool   // by the first end
	resp    kmsg.Response
	write   func(w *wire.Writer) error
	err     error
}

// handler carries out one request. It runs on the connection's reader, so the next request of this
// connection is read after it returned: it may write to the log and must not wait for anything slow,
// but end the call later, from another goroutine or through later.
type handler func(c *call)

// reply ends the call with an answer. The version is set here.
func (c *call) reply(resp kmsg.Response) { c.end(func() { c.resp = resp }) }

// later ends the call with a function that the connection's writer runs when all earlier answers are
// out. It may wait (until c.ctx ends) and writes exactly one answer. An error closes the connection.
func (c *call) later(write func(w *wire.Writer) error) { c.end(func() { c.write = write }) }

// silent ends a call that has no answer (acks=0).
func (c *call) silent() {
	c.end(func() { c.write = func(*wire.Writer) error { return nil } })
}

// drop ends the call by closing the connection without an answer: the outcome is unknown, or the
// request was malformed.
func (c *call) drop(err error) { c.end(func() { c.err = err }) }

func (c *call) end(set func()) {
	if c.claimed.CompareAndSwap(false, true) {
		set()
		close(c.ended)
	}
}

// inline makes a handler of a function that has the answer when it returns.
func inline[Q kmsg.Request](f func(c *call, req Q) kmsg.Response) handler {
	return func(c *call) { c.reply(f(c, c.req.(Q))) }
}
