package log

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"millrace/log/broker"
	"millrace/log/broker/auth"
)

// Listener is an address of the embedded broker and how one speaks there.
type Listener struct {
	Protocol string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
	Host     string // empty for all addresses of this machine
	Port     int
}

// ParseListener reads "SASL_SSL://host:port"; without a protocol it is PLAINTEXT.
func ParseListener(s string) (Listener, error) {
	s = strings.TrimSpace(s)
	protocol, addr, ok := strings.Cut(s, "://")
	if !ok {
		protocol, addr = "PLAINTEXT", s
	}
	l := Listener{Protocol: strings.ToUpper(protocol)}
	if !slices.Contains([]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, l.Protocol) {
		return l, fmt.Errorf("listener %s: the protocol must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", s)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return l, fmt.Errorf("listener %s: want HOST:PORT or PROTOCOL://HOST:PORT", s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return l, fmt.Errorf("listener %s: the port must be a number from 0 to 65535", s)
	}
	l.Host, l.Port = host, int(n)
	return l, nil
}

// Addr is HOST:PORT.
func (l Listener) Addr() string { return net.JoinHostPort(l.Host, strconv.Itoa(l.Port)) }

func (l Listener) String() string { return l.Protocol + "://" + l.Addr() }

// TLS reports whether TLS is spoken there.
func (l Listener) TLS() bool { return strings.HasSuffix(l.Protocol, "SSL") }

// SASL reports whether clients sign in there.
func (l Listener) SASL() bool { return strings.HasPrefix(l.Protocol, "SASL") }

// Loopback reports whether only this machine reaches it.
func (l Listener) Loopback() bool {
	ip := net.ParseIP(l.Host)
	return l.Host == "localhost" || ip != nil && ip.IsLoopback()
}

// Mechanisms are the SASL mechanisms that listeners can offer.
func Mechanisms() []string { return slices.Clone(auth.Known) }

// opened is a listener with its port.
type opened struct {
	net.Listener
	at broker.Listener
}

// listen opens the ports of cfg, and refuses what contradicts itself.
func listen(cfg Config) (ls []opened, err error) {
	closeAll := func(err error) ([]opened, error) {
		for _, l := range ls {
			l.Close()
		}
		return nil, err
	}
	if len(cfg.Advertised) > 0 && len(cfg.Advertised) != len(cfg.Listeners) {
		return nil, fmt.Errorf("log.advertised.listeners names %d listeners, and log.listeners %d: name one for each, in the same order", len(cfg.Advertised), len(cfg.Listeners))
	}
	var wants []Listener
	for i, s := range cfg.Listeners {
		w, err := ParseListener(s)
		if err != nil {
			return nil, err
		}
		if w.TLS() && cfg.TLS == nil {
			return nil, fmt.Errorf("listener %s needs a key and its certificate: set log.listener.ssl.keystore.location", w)
		}
		if w.Protocol == "SASL_PLAINTEXT" && slices.Contains(cfg.Mechanisms, auth.Plain) && !w.Loopback() && !cfg.PlainWithoutTLS {
			return nil, fmt.Errorf("listener %s would let PLAIN send passwords that everybody on the way can read: use SASL_SSL, take PLAIN out of log.listener.sasl.enabled.mechanisms, or allow it with log.listener.sasl.plain.without.tls=true", w)
		}
		if len(cfg.Advertised) > 0 {
			a, err := ParseListener(cfg.Advertised[i])
			switch {
			case err != nil:
				return nil, fmt.Errorf("log.advertised.listeners: %w", err)
			case a.Protocol != w.Protocol:
				return nil, fmt.Errorf("log.advertised.listeners: %s stands where log.listeners has %s; the protocols must be the same", a, w)
			case a.Host == "" || net.ParseIP(a.Host).IsUnspecified() || a.Port == 0:
				return nil, fmt.Errorf("log.advertised.listeners: %s is no address that a client can connect to", a)
			}
		}
		wants = append(wants, w)
	}
	for i, w := range wants {
		l, err := net.Listen("tcp", w.Addr())
		if err != nil {
			return closeAll(fmt.Errorf("listen for Kafka clients on %s: %w", w.Addr(), err))
		}
		a := l.Addr().(*net.TCPAddr)
		at := broker.Listener{Name: Listener{w.Protocol, w.Host, a.Port}.String(), Host: a.IP.String(), Port: int32(a.Port), SASL: w.SASL(), Loopback: a.IP.IsLoopback()}
		if w.TLS() {
			at.TLS = cfg.TLS
		}
		switch {
		case len(cfg.Advertised) > 0:
			adv, err := ParseListener(cfg.Advertised[i])
			if err != nil {
				return closeAll(err)
			}
			at.Host, at.Port = adv.Host, int32(adv.Port)
		case a.IP.IsUnspecified():
			at.Host = "" // whatever address the client reached
		case w.TLS() && net.ParseIP(w.Host) == nil:
			at.Host = w.Host // the name that the certificate is for
		}
		ls = append(ls, opened{l, at})
	}
	return ls, nil
}
