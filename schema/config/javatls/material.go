package javatls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/schema/config"
)

// A Material is what one place's settings lead to. Its methods may be called concurrently.
type Material struct {
	k      Keys
	v      config.Values
	open   Open
	lg     *slog.Logger
	listen bool

	mu      sync.Mutex // guards the fields below
	looked  time.Time
	stamps  map[string]stamp // of the files, as they were when loaded
	loaded  *loaded
	lastErr string // of a renewal, so that it is told once
}

// loaded is what the files and texts hold. It is immutable.
type loaded struct {
	own     []tls.Certificate
	trusted *x509.CertPool // nil: the system's
}

// stamp tells one state of a file from another.
type stamp struct {
	size int64
	at   time.Time
}

func stampOf(fi fs.FileInfo) stamp { return stamp{fi.Size(), fi.ModTime()} }

// lookAgain is how often files are looked at, at most.
const lookAgain = time.Second

// ReadClient reads a client's settings: those of k in raw. Errors name the key, the reason and the remedy; none holds a
// secret. lg is told when a renewed file cannot be read, and may be nil.
func (k Keys) ReadClient(raw map[string]string, open Open, lg *slog.Logger) (*Material, []*config.Error) {
	return k.read(raw, open, lg, false)
}

// ReadListener reads a listener's settings. A listener needs a key of its own.
func (k Keys) ReadListener(raw map[string]string, open Open, lg *slog.Logger) (*Material, []*config.Error) {
	return k.read(raw, open, lg, true)
}

func (k Keys) read(raw map[string]string, open Open, lg *slog.Logger, listen bool) (*Material, []*config.Error) {
	def := k.Client()
	if listen {
		def = k.Listener()
	}
	v, errs := def.Parse(raw)
	if len(errs) > 0 {
		return nil, errs
	}
	if lg == nil {
		lg = slog.New(slog.DiscardHandler)
	}
	m := &Material{k: k, v: v, open: open, lg: lg, listen: listen, looked: time.Now()}
	if errs := m.contradictions(); len(errs) > 0 {
		return nil, errs
	}
	l, stamps, err := m.load()
	if err != nil {
		return nil, []*config.Error{err}
	}
	m.loaded, m.stamps = l, stamps
	return m, nil
}

func (m *Material) contradictions() (errs []*config.Error) {
	k, v := m.k, m.v
	wrong := func(e *config.Error) { errs = append(errs, e) }
	has := func(name config.Key[string]) bool { return name.Get(v) != "" }
	hasTrust := k.trustText.Get(v).Reveal() != ""
	hasKey, hasChain := k.privateKey.Get(v).Reveal() != "", k.keyText.Get(v).Reveal() != ""
	if hasKey != hasChain {
		missing := k.keyText
		if hasChain {
			missing = k.privateKey
		}
		wrong(missing.Errorf(v, "%s and %s belong together; give both", k.privateKey.Name, k.keyText.Name))
	}
	if has(k.keyLocation) && (hasKey || hasChain) {
		wrong(k.keyLocation.Errorf(v, "the key is given in %s, too; give one of them", k.privateKey.Name))
	}
	if has(k.trustLocation) && hasTrust {
		wrong(k.trustLocation.Errorf(v, "the certificates are given in %s, too; give one of them", k.trustText.Name))
	}
	if m.lowest() > m.highest() {
		wrong(k.protocols.Errorf(v, "none of them is as low as %s=%s", k.protocol.Name, k.protocol.Get(v)))
	}
	if !m.listen {
		return errs
	}
	if !has(k.keyLocation) && !hasKey && !hasChain {
		wrong(k.keyLocation.Errorf(v, "a listener with TLS needs a key and its certificate: name a JKS, PKCS12 or PEM file, or give %s and %s", k.privateKey.Name, k.keyText.Name))
	}
	if m.clientAuth() != tls.NoClientCert && !has(k.trustLocation) && !hasTrust {
		// Whoever has a certificate from any public authority would be let in.
		wrong(k.trustLocation.Errorf(v, "%s=%s needs the authorities that vouch for clients: name a file, or give %s", k.clientAuth.Name, k.clientAuth.Get(v), k.trustText.Name))
	}
	return errs
}

func (m *Material) lowest() uint16 {
	list := m.k.protocols.Get(m.v)
	if slices.Contains(list, "TLSv1.2") {
		return tls.VersionTLS12
	}
	return tls.VersionTLS13
}

func (m *Material) highest() uint16 {
	if !slices.Contains(m.k.protocols.Get(m.v), "TLSv1.3") {
		return tls.VersionTLS12
	}
	return byName[m.k.protocol.Get(m.v)]
}

func (m *Material) clientAuth() tls.ClientAuthType {
	switch strings.ToLower(m.k.clientAuth.Get(m.v)) {
	case "requested":
		return tls.VerifyClientCertIfGiven
	case "required":
		return tls.RequireAndVerifyClientCert
	}
	return tls.NoClientCert
}

// load reads files and texts.
func (m *Material) load() (*loaded, map[string]stamp, *config.Error) {
	k, v := m.k, m.v
	l, stamps := &loaded{}, map[string]stamp{}
	file := func(key config.Key[string]) ([]byte, *config.Error) {
		path := key.Get(v)
		b, st, err := read(m.open, path)
		if err != nil {
			var pe *fs.PathError
			if errors.As(err, &pe) {
				err = pe.Err
			}
			return nil, key.Errorf(v, "the file cannot be read: %v", err)
		}
		stamps[path] = st
		return b, nil
	}
	var err error
	switch {
	case k.keyLocation.Get(v) != "":
		b, wrong := file(k.keyLocation)
		if wrong != nil {
			return nil, nil, wrong
		}
		l.own, err = identities(b, k.keyStorePassword.Get(v).Reveal(), k.keyPassword.Get(v).Reveal())
		if errors.Is(err, errPassword) {
			return nil, nil, k.keyStorePassword.Errorf(v, "%s: %v; look at %s, too", k.keyLocation.Get(v), err, k.keyPassword.Name)
		}
		if err != nil {
			return nil, nil, k.keyLocation.Errorf(v, "%v", err)
		}
	case k.privateKey.Get(v).Reveal() != "":
		id, err := pemIdentity([]byte(k.privateKey.Get(v).Reveal()), []byte(k.keyText.Get(v).Reveal()), k.keyPassword.Get(v).Reveal())
		if errors.Is(err, errPassword) {
			return nil, nil, k.keyPassword.Errorf(v, "the key of %s: %v", k.privateKey.Name, err)
		}
		if err != nil {
			return nil, nil, k.privateKey.Errorf(v, "with %s: %v", k.keyText.Name, err)
		}
		l.own = []tls.Certificate{id}
	}
	var trusted []*x509.Certificate
	switch {
	case k.trustLocation.Get(v) != "":
		b, wrong := file(k.trustLocation)
		if wrong != nil {
			return nil, nil, wrong
		}
		trusted, err = authorities(b, k.trustPassword.Get(v).Reveal())
		if errors.Is(err, errPassword) {
			return nil, nil, k.trustPassword.Errorf(v, "%s: %v", k.trustLocation.Get(v), err)
		}
		if err != nil {
			return nil, nil, k.trustLocation.Errorf(v, "%v", err)
		}
	case k.trustText.Get(v).Reveal() != "":
		if trusted, err = pemCertificates([]byte(k.trustText.Get(v).Reveal())); err != nil {
			return nil, nil, k.trustText.Errorf(v, "%v", err)
		}
	}
	if trusted != nil {
		l.trusted = x509.NewCertPool()
		for _, c := range trusted {
			l.trusted.AddCert(c)
		}
	}
	return l, stamps, nil
}

// current is what the files hold now. A renewed file that cannot be read leaves what was.
func (m *Material) current() *loaded {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.stamps) == 0 || time.Since(m.looked) < lookAgain {
		return m.loaded
	}
	m.looked = time.Now()
	if !m.changed() {
		return m.loaded
	}
	l, stamps, wrong := m.load()
	if wrong != nil {
		if text := wrong.Error(); text != m.lastErr {
			m.lastErr = text
			m.lg.Error("renewed certificates cannot be read; those of before stay in use", "setting", wrong.Key, "error", wrong)
		}
		return m.loaded
	}
	m.loaded, m.stamps, m.lastErr = l, stamps, ""
	m.lg.Info("certificates were renewed", "settings", m.k.prefix+"*", "files", len(stamps))
	m.expired()
	return l
}

func (m *Material) changed() bool {
	for path, was := range m.stamps {
		open := m.open
		if open == nil {
			open = os.Open
		}
		f, err := open(path)
		if err != nil {
			return true
		}
		fi, err := f.Stat()
		f.Close()
		if err != nil || stampOf(fi) != was {
			return true
		}
	}
	return false
}

// Expired logs a warning when a certificate of our own is out of date, or not in date yet.
func (m *Material) Expired() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expired()
}

func (m *Material) expired() {
	now := time.Now()
	for _, c := range m.loaded.own {
		switch {
		case now.After(c.Leaf.NotAfter):
			m.lg.Warn("our certificate has expired: nobody who checks it will connect; renew it", "settings", m.k.prefix+"*", "subject", c.Leaf.Subject.String(), "expired", c.Leaf.NotAfter)
		case now.Before(c.Leaf.NotBefore):
			m.lg.Warn("our certificate is not valid yet: nobody who checks it will connect; look at this machine's clock", "settings", m.k.prefix+"*", "subject", c.Leaf.Subject.String(), "valid from", c.Leaf.NotBefore)
		}
	}
}

func (m *Material) base() *tls.Config {
	ids, err := suiteIDs(m.k.ciphers.Get(m.v))
	if err != nil {
		panic(err) // checked when it was read
	}
	return &tls.Config{MinVersion: m.lowest(), MaxVersion: m.highest(), CipherSuites: ids}
}

// ListenerTLS is the configuration of a listener. Connections that are made after files have changed see what they
// hold then; it serves as long as the listener does.
func (m *Material) ListenerTLS() *tls.Config {
	of := func(l *loaded) *tls.Config {
		c := m.base()
		c.Certificates, c.ClientAuth, c.ClientCAs = l.own, m.clientAuth(), l.trusted
		return c
	}
	m.mu.Lock()
	last := m.loaded
	m.mu.Unlock()
	c := of(last)
	var mu sync.Mutex // guards last and made
	made := c.Clone() // kept, so that session tickets of one connection are known to the next
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := m.current()
		mu.Lock()
		defer mu.Unlock()
		if now != last {
			last, made = now, of(now)
		}
		return made, nil
	}
	return c
}

// AsksClients reports whether a listener asks its clients for certificates, and whether it takes none without.
func (m *Material) AsksClients() (asks, requires bool) {
	a := m.clientAuth()
	return a != tls.NoClientCert, a == tls.RequireAndVerifyClientCert
}

// ClientTLS is the configuration of a client as the files are now. A client that lives long asks for each connection.
func (m *Material) ClientTLS() *tls.Config {
	l := m.current()
	c := m.base()
	c.RootCAs = l.trusted
	if len(l.own) > 0 {
		own := l.own
		c.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			for i := range own {
				if asked.SupportsCertificate(&own[i]) == nil {
					return &own[i], nil
				}
			}
			// Like Java's, the first is shown even where the server does not name its authority.
			return &own[0], nil
		}
	}
	if m.k.hostCheck.Get(m.v) == "" {
		SkipHostNames(c)
	}
	return c
}

// SkipHostNames makes c, whose authorities are set already, check the server's authority and not its host name: what
// an empty ssl.endpoint.identification.algorithm means.
func SkipHostNames(c *tls.Config) {
	roots := c.RootCAs
	c.InsecureSkipVerify = true // VerifyConnection below does what is to be checked
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the server sent no certificate")
		}
		between := x509.NewCertPool()
		for _, p := range s.PeerCertificates[1:] {
			between.AddCert(p)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		if err != nil {
			return fmt.Errorf("tls: failed to verify certificate: %w", err)
		}
		return nil
	}
}
