package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/wire"
)

const (
	inFlight   = 8                // answers that may be outstanding on a connection
	writeStall = 60 * time.Second // a peer that takes nothing for so long is gone
	tightStall = 10 * time.Second // … when memory is short
	writePiece = 256 << 10        // what must be taken in that time
)

// conn is one client connection.
type conn struct {
	srv       *Server
	nc        net.Conn // over TLS where the listener has it
	raw       net.Conn // below TLS
	at        Listener // where the client came in
	reached   bool     // at.Host is the address that the client reached
	id        int64
	principal string
	signIn    *signIn      // on listeners with SASL; the reader's
	clientID  string       // of the last request; the reader's
	pushed    atomic.Int64 // calls, and how many of them were answered
	answered  atomic.Int64
	active    atomic.Int64    // unix nanoseconds of the last request or answer
	ctx       context.Context // ends when the connection is to be closed
	cancel    context.CancelCauseFunc
	queue     chan *call
	unread    chan struct{} // closed when no more requests are read and no handler runs
	once      sync.Once
}

// serve runs the connection until either side is done with it.
func (c *conn) serve() {
	defer c.close()
	if err := c.welcome(); err != nil {
		c.cancel(err)
		if !quiet(err) {
			c.srv.trouble("connection closed", "peer", c.peer(), "listener", c.at.Name, "error", err)
		}
		return
	}
	if c.signIn != nil {
		defer c.signIn.tooLate.Stop()
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.writeAnswers()
	}()
	err := c.readRequests()
	if !errors.Is(err, errStopping) && !errors.Is(err, io.EOF) && !errors.Is(err, errTurnedAway) {
		// Nobody waits for answers any more; waits for durability end.
		c.cancel(err)
	}
	close(c.queue)
	close(c.unread)
	if err != nil && !quiet(err) {
		c.srv.trouble("connection closed", "peer", c.peer(), "principal", c.principal, "error", err)
	}
	<-written
	c.cancel(err)
	if c.nc != c.raw {
		c.raw.SetWriteDeadline(time.Now().Add(time.Second)) // for TLS's goodbye
		c.nc.Close()
	}
}

// close ends both goroutines' I/O.
func (c *conn) close() { c.once.Do(func() { c.raw.Close() }) }

func (c *conn) peer() string { return c.raw.RemoteAddr().String() }

var errStopping = errors.New("the log is closing")

// quiet errors are the ordinary ends of a connection.
func quiet(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) || errors.Is(err, errStopping) ||
		errors.Is(err, context.Canceled) || errors.Is(err, errTurnedAway) || errors.Is(err, wire.ErrIdle) || isReset(err)
}

func (c *conn) readRequests() error {
	r := wire.NewReader(c.nc)
	lim := wire.Limits{MaxRequest: c.srv.opt.MaxRequest, Budget: c.srv.transport(c.at).requests}
	if !c.at.InMemory && c.srv.opt.IdleTime > 0 {
		lim.KeepOpen, lim.Stopped = c.keepOpen, c.srv.stopping
	}
	for {
		lim.MaxRequest = c.srv.opt.MaxRequest
		if !c.known() {
			lim.MaxRequest = min(lim.MaxRequest, wire.BeforeSignIn)
			if c.signIn.raw {
				if err := c.rawToken(r, lim); err != nil {
					return err
				}
				continue
			}
		}
		f, err := r.Next(c.ctx, lim)
		if c.srv.stopping() {
			f.Release()
			return errStopping
		}
		var refused *wire.Refused
		switch {
		case errors.As(err, &refused) && refused.Key == wire.ApiVersions && refused.Version > 0:
			call := c.newCall(wire.Header{Key: refused.Key, Correlation: refused.Correlation})
			if err := c.push(call); err != nil {
				return err
			}
			call.reply(tooNew())
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("request makes no progress: %w", err)
		case err != nil:
			return err
		}
		if err := c.request(&f); err != nil {
			return err
		}
	}
}

// request carries out one request. The frame is released when its handler is done with it.
func (c *conn) request(f *wire.Frame) error {
	defer f.Release()
	h, body, err := wire.ParseHeader(f.Bytes, c.clientID)
	if err != nil {
		return err
	}
	serve := c.srv.handlers[h.Key]
	if serve == nil {
		return fmt.Errorf("%s is not served", wire.Name(h.Key))
	}
	if err := c.admits(h); err != nil {
		return err
	}
	c.clientID = h.ClientID
	call := c.newCall(h)
	if h.Key == wire.Produce {
		call.body = body
	} else {
		call.req = kmsg.RequestForKey(h.Key)
		call.req.SetVersion(h.Version)
		if len(f.Bytes) > largeRequest {
			if err := call.takeTurn(); err != nil {
				return err
			}
		}
		if err := call.req.ReadFrom(body); err != nil {
			call.giveTurn()
			return fmt.Errorf("%s version %d: %w", wire.Name(h.Key), h.Version, err)
		}
	}
	if err := c.push(call); err != nil {
		call.giveTurn()
		return err
	}
	c.srv.stats.kind(h.Key).received.Add(1)
	func() {
		// A bug in a handler costs this connection, not the process. Stores change their state
		// only after a write succeeded, so a panic leaves no partition half changed.
		defer func() {
			if p := recover(); p != nil {
				c.srv.panicked(h, p, debug.Stack())
				call.drop(fmt.Errorf("%s version %d: internal error", wire.Name(h.Key), h.Version))
			}
		}()
		serve(call)
	}()
	call.handled.Store(int64(time.Since(call.began)))
	call.body = nil
	switch h.Key {
	case wire.Fetch, wire.JoinGroup, wire.SyncGroup, wire.Heartbeat, wire.GroupHeartbeat848:
		// It may be answered much later, because of somebody else. What is decoded stays until then.
		if err := call.wait(len(f.Bytes)); err != nil {
			return err
		}
	}
	if c.signIn != nil && c.signIn.denied {
		return errTurnedAway
	}
	return nil
}

// largeRequest is the size from which a request has to wait for its turn to be decoded.
const largeRequest = 64 << 10

func (c *conn) newCall(h wire.Header) *call {
	return &call{ctx: c.ctx, conn: c, h: h, ended: make(chan struct{}), began: time.Now()}
}

func (c *conn) push(call *call) error {
	c.pushed.Add(1)
	c.active.Store(call.began.UnixNano())
	select {
	case c.queue <- call:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

// writeAnswers answers calls in the order of their requests.
func (c *conn) writeAnswers() {
	t := c.srv.transport(c.at)
	w := &wire.Writer{W: &stallWriter{nc: c.nc, t: t}, Memory: t.answers}
	for call := range c.queue {
		err := c.answer(call, w)
		call.over()
		now := time.Now()
		c.srv.stats.count(call, now, w.W.(*stallWriter).reset())
		c.active.Store(now.UnixNano())
		c.answered.Add(1)
		if err != nil {
			if !quiet(err) {
				c.srv.trouble("connection closed", "peer", c.peer(), "request", wire.Name(call.h.Key), "error", err)
			}
			c.cancel(err)
			c.close() // the reader fails and closes the queue
			for call := range c.queue {
				call.over()
			}
			return
		}
	}
}

func (c *conn) answer(call *call, w *wire.Writer) (err error) {
	if err := c.await(call); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			c.srv.panicked(call.h, p, debug.Stack())
			err = fmt.Errorf("%s version %d: internal error", wire.Name(call.h.Key), call.h.Version)
		}
	}()
	switch {
	case call.err != nil:
		return call.err
	case call.write != nil:
		return call.write(w)
	default:
		c.srv.stats.answer(call.h, call.resp)
		return w.Answer(call.h, call.resp)
	}
}

// lastGrace is what calls get that somebody ends later, when no more requests come on a connection.
const lastGrace = 200 * time.Millisecond

// await waits until the call ended. When the peer has nothing more to say, or the server stops, a call
// that somebody may end much later (a join that waits for other members) is given up.
func (c *conn) await(call *call) error {
	select {
	case <-call.ended:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-c.unread:
	}
	grace := time.NewTimer(lastGrace)
	defer grace.Stop()
	select {
	case <-call.ended:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-grace.C:
		return errStopping
	}
}

// keepOpen says until when to wait for a next request: a connection is idle when nothing was asked and nothing answered
// for a while, and nobody waits for an answer.
func (c *conn) keepOpen() time.Time {
	now := time.Now()
	if c.pushed.Load() > c.answered.Load() {
		return now.Add(c.srv.opt.IdleTime)
	}
	if until := time.Unix(0, c.active.Load()).Add(c.srv.opt.IdleTime); until.After(now) {
		return until
	}
	c.srv.stats.idled.Add(1)
	return time.Time{}
}

// stallWriter fails when a write makes no progress. Large answers come in pieces, so the limit is on a piece and not on
// the answer. It is short when others wait for what slow peers hold.
type stallWriter struct {
	nc   net.Conn
	t    *transport
	took time.Duration // in writes of this answer
}

// reset returns the time that writes have taken, and begins anew.
func (s *stallWriter) reset() time.Duration {
	took := s.took
	s.took = 0
	return took
}

func (s *stallWriter) Write(b []byte) (n int, err error) {
	for n < len(b) {
		stall := writeStall
		if s.t.tight() {
			stall = tightStall
		}
		began := time.Now()
		s.nc.SetWriteDeadline(began.Add(stall))
		k, err := s.nc.Write(b[n:min(len(b), n+writePiece)])
		s.took += time.Since(began)
		n += k
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
