package broker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

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

	began   time.Time    // when it was received
	handled atomic.Int64 // nanoseconds that the handler took; 0 as long as it runs
	turn    atomic.Bool  // it holds one of its transport's large
	waiting atomic.Int64 // bytes that it holds of its transport's waiting
	isOver  atomic.Bool
}

// takeTurn waits until few enough large requests are worked on.
func (c *call) takeTurn() error {
	select {
	case c.conn.srv.transport(c.conn.at).large <- struct{}{}:
		c.turn.Store(true)
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

// giveTurn ends takeTurn, if it was called. Calling it again does nothing.
func (c *call) giveTurn() {
	if c.turn.CompareAndSwap(true, false) {
		<-c.conn.srv.transport(c.conn.at).large
	}
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

// decodedSize is how large a request is at most when it is decoded, in its bytes.
const decodedSize = 25

// waitingMemory bounds the large requests that wait for something to happen.
const waitingMemory = 512 << 20

// wait goes from working on a request to waiting with it.
func (c *call) wait(size int) error {
	c.giveTurn()
	if size <= largeRequest {
		return nil
	}
	t, n := c.conn.srv.transport(c.conn.at), int64(size)*decodedSize
	c.waiting.Store(n)
	now := t.waiting.Add(n)
	if c.isOver.Load() { // answered meanwhile: over may have come too early
		c.over()
		return nil
	}
	if now > waitingMemory {
		return fmt.Errorf("%s of %d bytes: too many large requests wait; ask for less at a time", wire.Name(c.h.Key), size)
	}
	return nil
}

// over gives back what a call holds once nobody works on it any more.
func (c *call) over() {
	c.isOver.Store(true)
	c.giveTurn()
	if n := c.waiting.Swap(0); n > 0 {
		c.conn.srv.transport(c.conn.at).waiting.Add(-n)
	}
}

// inTurn makes a handler of a function whose answer may be large whatever the request: it is made when it can be written,
// so that a client who takes no answers holds one and not a queue of them.
func inTurn[Q kmsg.Request](f func(c *call, req Q) kmsg.Response) handler {
	return func(c *call) {
		c.later(func(w *wire.Writer) error {
			if !c.turn.Load() && c.conn.srv.cat.Size() > manyPartitions {
				if err := c.takeTurn(); err != nil {
					return err
				}
			}
			resp := f(c, c.req.(Q))
			c.conn.srv.stats.answer(c.h, resp)
			return w.Answer(c.h, resp)
		})
	}
}

// manyPartitions make answers about all of them large.
const manyPartitions = 2000
