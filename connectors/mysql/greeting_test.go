package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"millrace/connectors"
	"millrace/deploy/peers"
)

// TestErrorsHaveReasons: an error of the server is known by its number, one of TLS by its type or by where the handshake was.
func TestErrorsHaveReasons(t *testing.T) {
	server := func(code uint16, text string) error {
		return fmt.Errorf("read: %w", &mysql.MyError{Code: code, State: "HY000", Message: text})
	}
	met, proved := &greeting{}, &greeting{encrypted: true}
	for _, c := range []struct {
		name    string
		err     error
		g       *greeting
		encrypt bool
		want    *connectors.Reason // nil: none
	}{
		{"a wrong password", server(1045, "Access denied for user"), met, false, reasonLogin},
		{"a locked account", server(3118, "Account is locked"), met, false, reasonLogin},
		{"a password that is past its time", server(1862, "Your password has expired"), met, false, reasonLogin},
		{"a plugin that the server has not loaded", server(1524, "Plugin is not loaded"), met, false, reasonLogin},
		{"a host that may not come", server(1130, "Host is not allowed"), nil, false, reasonLogin},
		{"a server that insists on TLS", server(3159, "Connections using insecure transport are prohibited"), met, false, reasonTLS},
		{"no right to the log", server(1227, "Access denied; you need the REPLICATION SLAVE privilege"), proved, true, reasonRights},
		{"no right to a table", server(1142, "SELECT command denied"), proved, true, reasonRights},
		{"too many connections, before the greeting", server(1040, "Too many connections"), nil, true, reasonUnreachable},
		{"too many connections of the user", server(1203, "more than max_user_connections"), met, false, reasonUnreachable},
		{"a server that stops", server(1053, "Server shutdown in progress"), met, false, reasonUnreachable},
		{"a session that was ended", server(1927, "Connection was killed"), met, false, reasonUnreachable},
		{"a session that was idle for too long", server(4031, "The client was disconnected"), met, false, reasonUnreachable},
		{"purged transactions", server(1789, "Cannot replicate because the source purged required binary logs"), met, false, reasonLogLost},
		{"a file that is gone", server(1236, "Could not find first log file name in binary log index file"), met, false, reasonLogLost},
		{"a reader with the same number", server(1236, "A slave with the same server_uuid/server_id as this slave has connected"), met, false, reasonServerID},
		{"a log that is broken", server(1236, "bogus data in log event"), met, false, reasonLog},
		{"a text of TLS in an error of the server that is none", server(1064, "x509: tls: does not support TLS"), met, false, nil},
		{"a server without TLS", fmt.Errorf("dial: %w", errNoTLS), nil, true, reasonTLS},
		{"an authority that is not known", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, met, true, reasonTLS},
		{"a certificate of another host", fmt.Errorf("handshake: %w", x509.HostnameError{Certificate: &x509.Certificate{}, Host: "db"}), met, true, reasonTLS},
		{"an answer that is no TLS", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, met, true, reasonTLS},
		{"a version of TLS that is too old, which has no type", errors.New("protocol version"), met, true, reasonTLS},
		{"a certificate of ours that the server refuses behind the handshake", &net.OpError{Op: "remote error", Err: errors.New("bad certificate")}, proved, true, reasonTLS},
		{"a connection that breaks in the handshake", io.EOF, met, true, reasonUnreachable},
		{"a connection that breaks while signing in", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), proved, true, reasonUnreachable},
		{"nobody listens", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, nil, true, reasonUnreachable},
		{"another protocol", errGreeting, nil, true, reasonUnreachable},
		{"a way of signing in that is not known", errors.New("no such way"), proved, true, reasonLogin},
		{"the same without TLS", errors.New("no such way"), met, false, reasonLogin},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := (&settings{retries: -1}).refused(c.err, "connect", c.g, c.encrypt)
			f := connectors.FailureOf(err)
			if c.want == nil && f != nil || c.want != nil && (f == nil || f.Reason != c.want) {
				t.Errorf("%v: %+v, want %+v", err, f, c.want)
			}
			if !errors.Is(err, c.err) {
				t.Errorf("%v hides its cause", err)
			}
		})
	}
}

// TestServerWithoutTLS: a mode that can do without does, and one that cannot says so.
func TestServerWithoutTLS(t *testing.T) {
	d := databaseOn(t, peers.MariaDB(t))
	for mode, want := range map[string]*connectors.Reason{"preferred": nil, "disabled": nil, "trust": reasonTLS, "verify-full": reasonTLS} {
		v, _ := d.plugin().Config.Parse(d.config("database.ssl.mode", mode))
		s, errs := parse(v, true)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		c, err := s.connect(t.Context(), nil)
		if err == nil {
			_ = c.Close()
		}
		if f := connectors.FailureOf(err); want == nil && err != nil || want != nil && (f == nil || f.Reason != want) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// FuzzGreeting: whatever a server says first, there is an error and no panic, though the driver looks at no length.
func FuzzGreeting(f *testing.F) {
	whole := "\x0a9.7.4\x00\x0a\x00\x00\x00ABCDEFGH\x00\xff\xff\xff\x02\x00\xff\xdf\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00IJKLMNOPQRST\x00caching_sha2_password\x00"
	for _, s := range []string{whole, whole[:30], whole[:60], "\x0a", "\x0b\x05\x1a\x00", "\xff\x10\x04Too many connections", "HTTP/1.1 400 Bad Request"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) == 0 || len(p) > maxGreeting {
			return
		}
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() {
			defer theirs.Close()
			if _, err := theirs.Write(append([]byte{byte(len(p)), byte(len(p) >> 8), 0, 0}, p...)); err == nil {
				_, _ = theirs.Read(make([]byte, 4096)) // the answer; then it is gone
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		c, err := signIn(ctx, "db:3306", "u", "p", func(context.Context, string, string) (net.Conn, error) { return greet(ours, false) })
		if err == nil {
			_ = c.Close()
			t.Error("signed in at nobody")
		}
	})
}
