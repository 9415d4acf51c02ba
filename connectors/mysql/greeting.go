package mysql

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"millrace/connectors"
)

// The driver's errors about a handshake have no types. So the greeting is read before the driver sees it, and how far a
// handshake came says what its failure is about.

// A greeting is a connection whose first packet, the server's greeting, was looked at.
type greeting struct {
	net.Conn
	first     []byte // as much of the packet as was not read yet
	encrypted bool   // the server has proved who it is, as far as it was asked to
}

// Read implements net.Conn.
func (g *greeting) Read(p []byte) (int, error) {
	if len(g.first) > 0 {
		n := copy(p, g.first)
		g.first = g.first[n:]
		return n, nil
	}
	return g.Conn.Read(p)
}

var (
	errNoTLS    = errors.New("the server does not offer TLS")
	errGreeting = errors.New("what answers there does not greet as a MySQL server does")
)

// maxGreeting is far more than any server says.
const maxGreeting = 4 << 10

// greet reads the greeting. encrypt: TLS is wanted; a server without it is errNoTLS.
func greet(conn net.Conn, encrypt bool) (*greeting, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, err
	}
	n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	if n == 0 || n > maxGreeting || head[3] != 0 {
		return nil, errGreeting
	}
	packet := append(head, make([]byte, n)...)
	if _, err := io.ReadFull(conn, packet[4:]); err != nil {
		return nil, err
	}
	if packet[4] == mysql.ERR_HEADER { // a host that is blocked, too many connections
		return nil, serverError(packet[4:])
	}
	offers, ok := parseGreeting(packet[4:])
	switch {
	case !ok:
		return nil, errGreeting
	case encrypt && offers&mysql.CLIENT_SSL == 0:
		return nil, errNoTLS
	}
	return &greeting{Conn: conn, first: packet}, nil
}

// parseGreeting reads what a server can do out of its greeting (HandshakeV10).
func parseGreeting(p []byte) (offers uint32, ok bool) {
	if p[0] != mysql.ClassicProtocolVersion {
		return 0, false
	}
	_, rest, ok := bytes.Cut(p[1:], []byte{0}) // the server's version
	const before = 4 + 8 + 1                   // the connection's number, 8 bytes of a salt, a zero
	if !ok || len(rest) < before+2 {
		return 0, false
	}
	return uint32(binary.LittleEndian.Uint16(rest[before:])), true // its lower half
}

// signIn is the driver's handshake. What a server says that is none makes it panic.
func signIn(ctx context.Context, addr, user, password string, dial client.Dialer, options ...client.Option) (c *client.Conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			c, err = nil, fmt.Errorf("%w: %v", errGreeting, p)
		}
	}()
	return client.ConnectWithDialer(ctx, "tcp", addr, user, password, "", dial, options...)
}

// dial connects and signs in, over TLS where there is a configuration of it.
func (s *settings) dial(ctx context.Context, addr string, conf *tls.Config) (*client.Conn, error) {
	doing := fmt.Sprintf("connect to %s as %q", addr, s.user)
	limited := ctx
	if s.connectTimeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, s.connectTimeout)
		defer cancel()
	}
	// The driver's handshake knows no context: closing the socket ends it.
	stop := func() bool { return true }
	var g *greeting
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
		if g, err = greet(conn, conf != nil); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return g, nil
	}
	c, err := signIn(limited, addr, s.user, s.password.Reveal(), dial, func(c *client.Conn) error {
		c.UnsetCapability(mysql.CLIENT_DEPRECATE_EOF) // what snapshot.go reads by itself ends as it always did
		c.SetAttributes(map[string]string{"program_name": "millrace"})
		if conf != nil {
			c.SetTLSConfig(noting(conf, &g))
		}
		return nil
	})
	if !stop() && err == nil {
		_ = c.Close()
		err = limited.Err()
	}
	if err != nil && g != nil {
		_ = g.Close()
	}
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		err = errors.Join(context.Cause(limited), err)
	}
	return nil, s.refused(err, doing, g, conf != nil)
}

// noting is a configuration that notes in a greeting when the handshake has come through.
func noting(conf *tls.Config, g **greeting) *tls.Config {
	conf = conf.Clone()
	before := conf.VerifyConnection
	conf.VerifyConnection = func(cs tls.ConnectionState) error {
		if before != nil {
			if err := before(cs); err != nil {
				return err
			}
		}
		(*g).encrypted = true
		return nil
	}
	return conf
}

// refused gives an error of a handshake its reason. g is nil where the server was not reached, or did not greet.
func (s *settings) refused(err error, doing string, g *greeting, encrypt bool) error {
	var alert *net.OpError
	switch {
	case errors.Is(err, errNoTLS):
		return connectors.Failed(reasonTLS, err, doing, "")
	case errors.As(err, &alert) && (alert.Op == "remote error" || alert.Op == "local error"): // crypto/tls's, about alerts
		return connectors.Failed(reasonTLS, err, doing, "")
	case g == nil || errorCode(err) != 0 || lost(err):
		return s.classify(err, doing)
	case encrypt && !g.encrypted:
		return connectors.Failed(reasonTLS, err, doing, "")
	}
	return connectors.Failed(reasonLogin, err, doing, "") // a way of signing in that the driver does not know
}
