package broker

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/broker/auth"
	"millrace/log/internal/wire"
)

// SaslHandshake, key 17, versions 0 and 1: after version 1 messages come in SaslAuthenticate, after 0 bare, each behind
// its size. SaslAuthenticate, key 36, versions 0 to 2: 1 added the session's lifetime, 2 flexible encoding.
//
// A client on a listener with SASL is nobody until it has proved a name. Until then it may ask for versions and sign in,
// in requests of at most 1 MiB, and all of it must be done within Options.SignInTime. Signing in again (KIP-368) must
// prove the same name in the same way; what it is not done in time for is refused by closing the connection.

// signIn is where a connection's client stands.
type signIn struct {
	known    bool           // a name was proved
	exchange *auth.Exchange // under way, nil for none
	raw      bool           // messages come without a header
	denied   bool           // the connection ends with the answer
	with     string         // the mechanism of the proof
	until    time.Time      // when the proof is worth nothing any more; zero for never
	tooLate  *time.Timer    // ends the connection when it takes too long
}

// errTurnedAway ends a connection after its last answer.
var errTurnedAway = errors.New("sign-in failed")

// deniedPause is what a wrong password costs its sender, as with Kafka.
const deniedPause = 100 * time.Millisecond

// welcome does what comes before the first request.
func (c *conn) welcome() error {
	if c.at.TLS == nil && !c.at.SASL {
		return nil
	}
	tooLate := time.AfterFunc(c.srv.opt.SignInTime, func() {
		c.srv.trouble("connection closed: the client did not sign in in time", "peer", c.peer(), "listener", c.at.Name, "limit", c.srv.opt.SignInTime)
		c.close()
	})
	if c.at.TLS != nil {
		t := tls.Server(c.raw, c.at.TLS)
		if err := t.HandshakeContext(c.ctx); err != nil {
			tooLate.Stop()
			c.srv.stats.denied.Add(1)
			return fmt.Errorf("TLS: %w%s", err, tlsHint(err))
		}
		c.nc = t
		if name := t.ConnectionState().ServerName; c.reached && name != "" {
			c.at.Host = name // the one for which it has checked our certificate
		}
		if chain := t.ConnectionState().VerifiedChains; len(chain) > 0 {
			c.principal = "User:" + subject(chain[0][0])
		}
	}
	if !c.at.SASL {
		tooLate.Stop()
		return nil
	}
	c.principal = "User:ANONYMOUS"
	c.signIn = &signIn{tooLate: tooLate}
	return nil
}

// subject is a certificate's name as Java writes it (RFC 2253), in the certificate's own order.
func subject(c *x509.Certificate) string {
	var names pkix.RDNSequence
	if _, err := asn1.Unmarshal(c.RawSubject, &names); err != nil {
		return c.Subject.String()
	}
	return names.String()
}

// tlsHint is what to look at, for the errors that people meet first.
func tlsHint(err error) string {
	text := err.Error()
	var rh tls.RecordHeaderError
	switch {
	case errors.As(err, &rh):
		return ": the client does not speak TLS; look at its security.protocol"
	case strings.Contains(text, "unknown certificate authority"), strings.Contains(text, "bad certificate"), strings.Contains(text, "certificate unknown"), strings.Contains(text, "unknown certificate"):
		return ": the client does not trust our certificate; give it the authority's in its trust store"
	case strings.Contains(text, "bad record MAC"): // OpenSSL sends its complaint in the clear
		return ": the client has broken off, most often since it does not trust our certificate; give it the authority's in its trust store"
	case strings.Contains(text, "expired certificate"):
		return ": the client says that our certificate has expired; renew it"
	case strings.Contains(text, "didn't provide a certificate"):
		return ": this listener lets in only clients with a certificate; look at the client's key store"
	case strings.Contains(text, "signed by unknown authority"):
		return ": the client's certificate is from an authority that this listener does not trust"
	case strings.Contains(text, "has expired or is not yet valid"):
		return ": the client's certificate is out of date; renew it"
	}
	return ""
}

// known reports whether the client may ask for everything.
func (c *conn) known() bool { return c.signIn == nil || c.signIn.known }

// admits refuses what a client may not ask for as long as it is nobody, or no longer somebody.
func (c *conn) admits(h wire.Header) error {
	if c.signIn == nil || h.Key == wire.ApiVersions || h.Key == wire.SaslHandshake || h.Key == wire.SaslAuthenticate {
		return nil
	}
	switch {
	case !c.signIn.known:
		return fmt.Errorf("%s before signing in: look at the client's security.protocol and sasl.mechanism", wire.Name(h.Key))
	case !c.signIn.until.IsZero() && !time.Now().Before(c.signIn.until):
		return fmt.Errorf("%s after the session ended: the client must sign in again every %s", wire.Name(h.Key), c.srv.opt.Reauth)
	}
	return nil
}

func (s *Server) saslHandshake(c *call, req *kmsg.SASLHandshakeRequest) kmsg.Response {
	resp := kmsg.NewPtrSASLHandshakeResponse()
	in := c.conn.signIn
	if in == nil || in.known && s.opt.Reauth == 0 {
		resp.ErrorCode = kerr.IllegalSaslState.Code
		return resp
	}
	resp.SupportedMechanisms = slices.Clone(s.opt.Mechanisms)
	switch {
	case in.exchange != nil:
		resp.ErrorCode = kerr.IllegalSaslState.Code
	case !slices.Contains(s.opt.Mechanisms, req.Mechanism):
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		s.trouble("sign-in failed: the client asks for a mechanism that is not offered", "peer", c.conn.peer(), "mechanism", shortened(req.Mechanism), "offered", strings.Join(s.opt.Mechanisms, ","))
	case in.known && req.Mechanism != in.with:
		resp.ErrorCode = kerr.IllegalSaslState.Code
	default:
		in.exchange = s.auth.Begin(req.Mechanism)
		in.raw = req.Version == 0 && !in.known
		return resp
	}
	c.conn.turnAway()
	return resp
}

func (s *Server) saslAuthenticate(c *call, req *kmsg.SASLAuthenticateRequest) kmsg.Response {
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	in := c.conn.signIn
	if in == nil || in.exchange == nil {
		text := "no exchange was begun with SaslHandshake"
		if in == nil || in.known {
			text = "SaslAuthenticate request received after successful authentication"
		}
		resp.ErrorCode, resp.ErrorMessage = kerr.IllegalSaslState.Code, &text
		if in != nil && !in.known {
			c.conn.turnAway()
		}
		return resp
	}
	with := in.exchange.Mechanism()
	answer, err := c.conn.prove(req.SASLAuthBytes)
	if err != nil {
		text := "Authentication failed during authentication due to invalid credentials with SASL mechanism " + with
		if with == auth.Plain {
			text = "Authentication failed: Invalid username or password"
		}
		resp.ErrorCode, resp.ErrorMessage = kerr.SaslAuthenticationFailed.Code, &text
		return resp
	}
	resp.SASLAuthBytes = answer
	if in.exchange == nil && req.Version >= 1 {
		resp.SessionLifetimeMillis = s.opt.Reauth.Milliseconds()
	}
	return resp
}

// prove takes the client's next message. When its name is proved the exchange is over.
func (c *conn) prove(token []byte) (answer []byte, err error) {
	in, s := c.signIn, c.srv
	answer, done, err := in.exchange.Next(c.ctx, token)
	if err == nil && done && in.known && c.principal != "User:"+in.exchange.User() {
		err = errors.New("a connection cannot change its user")
	}
	if err != nil {
		s.stats.denied.Add(1)
		s.trouble("sign-in failed", "peer", c.peer(), "listener", c.at.Name, "mechanism", in.exchange.Mechanism(), "user", shortened(in.exchange.Claimed()), "error", err)
		c.turnAway()
		c.pause(deniedPause)
		return nil, err
	}
	if !done {
		return answer, nil
	}
	s.stats.signedIn.Add(1)
	in.with, in.raw = in.exchange.Mechanism(), false
	c.principal, in.known, in.exchange = "User:"+in.exchange.User(), true, nil
	in.tooLate.Stop()
	if s.opt.Reauth > 0 {
		in.until = time.Now().Add(s.opt.Reauth)
	}
	return answer, nil
}

// turnAway ends the connection after the answer under way.
func (c *conn) turnAway() { c.signIn.denied = true }

func (c *conn) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	case <-c.srv.stop.Done():
	}
}

// rawToken takes one message that comes bare, and answers it so.
func (c *conn) rawToken(r *wire.Reader, lim wire.Limits) error {
	token, err := r.Token(lim)
	switch {
	case c.srv.stopping():
		return errStopping
	case err != nil:
		return err
	}
	answer, err := c.prove(token)
	if err != nil {
		return errTurnedAway // there is no answer that could say so
	}
	call := c.newCall(wire.Header{Key: wire.SaslAuthenticate})
	if err := c.push(call); err != nil {
		return err
	}
	call.later(func(w *wire.Writer) error {
		_, err := w.W.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
		return err
	})
	return nil
}

// shortened is a text from a stranger as a log line may hold it.
func shortened(s string) string {
	const most = 64
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

// quota limits lines that strangers cause, so that nobody fills the disk with them.
type quota struct {
	mu      sync.Mutex // guards the fields below
	since   time.Time
	written int
	left    int // out, of this period
}

const (
	troublePeriod = 10 * time.Second
	troubleLines  = 20
)

// take reports whether a line may be written, and how many were not in the last period.
func (q *quota) take(now time.Time) (ok bool, before int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Sub(q.since) >= troublePeriod {
		before, q.since, q.written, q.left = q.left, now, 0, 0
	}
	if q.written == troubleLines {
		q.left++
		return false, before
	}
	q.written++
	return true, before
}

// trouble logs what a client did wrong or could not do.
func (s *Server) trouble(msg string, attrs ...any) {
	ok, before := s.troubles.take(time.Now())
	if before > 0 {
		s.lg.Warn("more troubles with clients were not logged", "lines", before)
	}
	if ok {
		s.lg.Warn(msg, attrs...)
	}
}
