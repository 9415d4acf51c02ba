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
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/wire"
)

const (
	inFlight   = 8                // answers that may be outstanding on a connection
	writeStall = 60 * time.Second // a peer that takes nothing for so long is gone
)

// conn is one client connection.
type conn struct {
	srv       *Server
	nc        net.Conn
	at        Listener // where the client came in
	id        int64
	principal string
	clientID  string          // of the last request; the reader's
	ctx       context.Context // ends when the connection is to be closed
	cancel    context.CancelCauseFunc
	queue     chan *call
	unread    chan struct{} // closed when no more requests are read and no handler runs
	once      sync.Once
}

// serve runs the connection until either side is done with it.
func (c *conn) serve() {
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.writeAnswers()
	}()
	err := c.readRequests()
	close(c.queue)
	close(c.unread)
	if err != nil && !quiet(err) {
		c.srv.lg.Warn("connection closed", "peer", c.nc.RemoteAddr().String(), "error", err)
	}
	if !errors.Is(err, errStopping) && !errors.Is(err, io.EOF) {
		// Nobody waits for answers any more; waits for durability end.
		c.cancel(err)
	}
	<-written
	c.cancel(err)
	c.close()
}

// close ends both goroutines' I/O.
func (c *conn) close() { c.once.Do(func() { c.nc.Close() }) }

var errStopping = errors.New("the log is closing")

// quiet errors are the ordinary ends of a connection.
func quiet(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, net.ErrClosed) || errors.Is(err, errStopping) ||
		errors.Is(err, context.Canceled) || isReset(err)
}

func (c *conn) readRequests() error {
	r := wire.NewReader(c.nc)
	lim := wire.Limits{MaxRequest: c.srv.opt.MaxRequest, Budget: c.srv.budget(c.at)}
	for {
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
	c.clientID = h.ClientID
	call := c.newCall(h)
	if h.Key == wire.Produce {
		call.body = body
	} else {
		call.req = kmsg.RequestForKey(h.Key)
		call.req.SetVersion(h.Version)
		if err := c.decode(call.req, body, len(f.Bytes)); err != nil {
			return fmt.Errorf("%s version %d: %w", wire.Name(h.Key), h.Version, err)
		}
	}
	if err := c.push(call); err != nil {
		return err
	}
	c.srv.stats.request(h.Key)
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
	call.body = nil
	return nil
}

// decode unpacks a body. Decoded forms are up to 25 times as large as their bytes, so bodies that are
// not small are unpacked one at a time.
func (c *conn) decode(req kmsg.Request, body []byte, size int) error {
	if size > 64<<10 {
		c.srv.unpacking.Lock()
		defer c.srv.unpacking.Unlock()
	}
	return req.ReadFrom(body)
}

func (c *conn) newCall(h wire.Header) *call {
	return &call{ctx: c.ctx, conn: c, h: h, ended: make(chan struct{})}
}

func (c *conn) push(call *call) error {
	select {
	case c.queue <- call:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

// writeAnswers answers calls in the order of their requests.
func (c *conn) writeAnswers() {
	w := &wire.Writer{W: stallWriter{c.nc}}
	for call := range c.queue {
		if err := c.answer(call, w); err != nil {
			if !quiet(err) {
				c.srv.lg.Warn("connection closed", "peer", c.nc.RemoteAddr().String(), "request", wire.Name(call.h.Key), "error", err)
			}
			c.cancel(err)
			c.close() // the reader fails and closes the queue
			for range c.queue {
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

// stallWriter fails when a write makes no progress. Large answers come in pieces, so the limit is on
// a piece and not on the answer.
type stallWriter struct{ nc net.Conn }

func (s stallWriter) Write(b []byte) (int, error) {
	s.nc.SetWriteDeadline(time.Now().Add(writeStall))
	return s.nc.Write(b)
}
