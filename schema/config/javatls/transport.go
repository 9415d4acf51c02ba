package javatls

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

// Secure makes t speak TLS as the settings say, over connections that its DialContext makes
// and within its TLSHandshakeTimeout; both are set.
// Renewed files are seen by the next connection; what goes through a proxy keeps what they
// hold now.
func (m *Material) Secure(t *http.Transport) {
	t.TLSClientConfig = m.ClientTLS()
	dial := t.DialContext
	t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		plain, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conf := m.ClientTLS()
		conf.ServerName = host
		conn := tls.Client(plain, conf)
		shaking, cancel := context.WithTimeout(ctx, t.TLSHandshakeTimeout)
		defer cancel()
		if err := conn.HandshakeContext(shaking); err != nil {
			plain.Close()
			return nil, err
		}
		return conn, nil
	}
}
