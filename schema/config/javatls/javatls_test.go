package javatls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/schema/config"
)

const password = "changeit"

func settings(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out["ssl."+pairs[i]] = pairs[i+1]
	}
	return out
}

func testdata(name string) string { return filepath.Join("testdata", name) }

func text(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(testdata(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func listener(t testing.TB, pairs ...string) *Material {
	t.Helper()
	m, errs := Below("ssl.").ReadListener(settings(pairs...), nil, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return m
}

func client(t testing.TB, pairs ...string) *Material {
	t.Helper()
	m, errs := Below("ssl.").ReadClient(settings(pairs...), nil, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return m
}

// meet makes a connection between the two and returns what both sides know of it.
func meet(t testing.TB, server, client *tls.Config, host string) (seenByServer, seenByClient tls.ConnectionState, err error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type accepted struct {
		state tls.ConnectionState
		err   error
	}
	done := make(chan accepted, 1)
	go func() {
		nc, err := l.Accept()
		if err != nil {
			done <- accepted{err: err}
			return
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(30 * time.Second))
		c := tls.Server(nc, server)
		err = c.Handshake()
		if err == nil {
			_, err = c.Write([]byte("hello"))
		}
		done <- accepted{c.ConnectionState(), err}
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(30 * time.Second))
	client = client.Clone()
	client.ServerName = host
	c := tls.Client(nc, client)
	if err = c.Handshake(); err == nil {
		_, err = io.ReadFull(c, make([]byte, 5)) // a server's refusal of TLS 1.3 comes after the handshake
	}
	nc.Close()
	s := <-done
	return s.state, c.ConnectionState(), err
}

func TestEveryKindOfStoreIsRead(t *testing.T) {
	trust := client(t, "truststore.location", testdata("ca.pem"), "truststore.type", "PEM").ClientTLS()
	for _, c := range []struct {
		name  string
		pairs []string
	}{
		{"PEM in a file", []string{"keystore.location", testdata("server.pem"), "keystore.type", "PEM"}},
		{"PEM in a file with an encrypted key", []string{"keystore.location", testdata("sealed.pem"), "keystore.type", "PEM", "key.password", password}},
		{"PEM with a key encrypted with triple DES and HMAC-SHA1", []string{"keystore.location", testdata("sealed3.pem"), "keystore.type", "PEM", "key.password", password}},
		{"PEM in the settings", []string{"keystore.key", text(t, "server.pem"), "keystore.certificate.chain", text(t, "server.pem"), "keystore.type", "PEM"}},
		{"PEM on one line, as properties files have it", []string{"keystore.key", oneLine(text(t, "server.pem")), "keystore.certificate.chain", oneLine(text(t, "server.pem"))}},
		{"OpenSSL's PKCS12", []string{"keystore.location", testdata("server.p12"), "keystore.type", "PKCS12", "keystore.password", password}},
		{"Java's PKCS12, declared as JKS", []string{"keystore.location", testdata("java.p12"), "keystore.password", password}},
		{"JKS", []string{"keystore.location", testdata("server.jks"), "keystore.password", password}},
		{"JKS whose key has a password of its own", []string{"keystore.location", testdata("key.jks"), "keystore.password", password, "key.password", "keypass"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, state, err := meet(t, listener(t, c.pairs...).ListenerTLS(), trust, "localhost")
			if err != nil {
				t.Fatal(err)
			}
			if got := state.PeerCertificates[0].Subject.String(); got != "CN=server,O=Millrace" {
				t.Errorf("the server is %s", got)
			}
		})
	}
	server := listener(t, "keystore.location", testdata("server.pem")).ListenerTLS()
	for _, c := range []struct {
		name  string
		pairs []string
	}{
		{"trust in PEM text", []string{"truststore.certificates", oneLine(text(t, "ca.pem"))}},
		{"trust in PKCS12", []string{"truststore.location", testdata("trust.p12"), "truststore.password", password}},
		{"trust in JKS", []string{"truststore.location", testdata("trust.jks"), "truststore.password", password}},
		{"trust in JKS without its password, as Java allows", []string{"truststore.location", testdata("trust.jks")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := meet(t, server, client(t, c.pairs...).ClientTLS(), "localhost"); err != nil {
				t.Error(err)
			}
		})
	}
}

// oneLine is how PEM stands on one line.
func oneLine(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", " ") }

func TestWhatIsWrongIsNamed(t *testing.T) {
	for _, c := range []struct {
		name   string
		listen bool
		pairs  []string
		key    string
		want   string
	}{
		{"no key", true, nil, "keystore.location", "needs a key and its certificate"},
		{"a missing file", true, []string{"keystore.location", "testdata/none.pem"}, "keystore.location", "no such file"},
		{"a folder", true, []string{"keystore.location", "testdata"}, "keystore.location", "no regular file"},
		{"a device", true, []string{"keystore.location", "/dev/zero"}, "keystore.location", "no regular file"},
		{"a file of something else", true, []string{"keystore.location", "doc.go"}, "keystore.location", "neither PEM nor"},
		{"a wrong password of JKS", true, []string{"keystore.location", testdata("server.jks"), "keystore.password", "s3cret"}, "keystore.password", "does not open"},
		{"a wrong password of PKCS12", true, []string{"keystore.location", testdata("server.p12"), "keystore.password", "s3cret"}, "keystore.password", "does not open"},
		{"a wrong password of a JKS key", true, []string{"keystore.location", testdata("key.jks"), "keystore.password", password}, "keystore.password", "ssl.key.password"},
		{"a wrong password of a PEM key", true, []string{"keystore.location", testdata("sealed.pem"), "key.password", "s3cret"}, "keystore.password", "does not open"},
		{"no password of a PEM key", true, []string{"keystore.location", testdata("sealed.pem")}, "keystore.location", "no password is given"},
		{"a key sealed with scrypt", true, []string{"keystore.location", testdata("scrypt.pem"), "key.password", password}, "keystore.location", "openssl pkcs8"},
		{"a JCEKS store", true, []string{"keystore.location", testdata("trust.jceks"), "keystore.password", password}, "keystore.location", "keytool -importkeystore"},
		{"a store without a key", true, []string{"keystore.location", testdata("trust.jks"), "keystore.password", password}, "keystore.location", "no private key"},
		{"certificates without a key", true, []string{"keystore.location", testdata("ca.pem")}, "keystore.location", "no private key"},
		{"a key without its certificate", true, []string{"keystore.key", text(t, "server.pem"), "keystore.certificate.chain", text(t, "other.pem")}, "keystore.key", "no certificate belongs to the key"},
		{"half a key", true, []string{"keystore.key", text(t, "server.pem")}, "keystore.certificate.chain", "belong together"},
		{"two keys", true, []string{"keystore.key", text(t, "server.pem"), "keystore.certificate.chain", text(t, "server.pem"), "keystore.location", testdata("server.pem")}, "keystore.location", "give one of them"},
		{"an unknown type", true, []string{"keystore.location", testdata("server.pem"), "keystore.type", "BCFKS"}, "keystore.type", "keytool -importkeystore"},
		{"client certificates from any authority", true, []string{"keystore.location", testdata("server.pem"), "client.auth", "required"}, "truststore.location", "authorities that vouch"},
		{"an old version", false, []string{"enabled.protocols", "TLSv1.1,TLSv1.2"}, "enabled.protocols", "broken"},
		{"versions that contradict each other", false, []string{"enabled.protocols", "TLSv1.3", "protocol", "TLSv1.2"}, "enabled.protocols", "none of them"},
		{"a weak suite", false, []string{"cipher.suites", "TLS_RSA_WITH_RC4_128_SHA"}, "cipher.suites", "weak"},
		{"an unknown suite", false, []string{"cipher.suites", "TLS_NONSENSE"}, "cipher.suites", "not known"},
		{"an empty trust store", false, []string{"truststore.location", testdata("server.jks"), "truststore.password", password}, "truststore.location", "no trusted certificate"},
		{"trust that is no PEM", false, []string{"truststore.certificates", "s3cret"}, "truststore.certificates", "no certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var errs []*config.Error
			if c.listen {
				_, errs = Below("ssl.").ReadListener(settings(c.pairs...), nil, nil)
			} else {
				_, errs = Below("ssl.").ReadClient(settings(c.pairs...), nil, nil)
			}
			if len(errs) != 1 || errs[0].Key != "ssl."+c.key || !strings.Contains(errs[0].Error(), c.want) {
				t.Fatalf("got %v, want %q about ssl.%s", errs, c.want, c.key)
			}
			if s := errs[0].Error(); strings.Contains(s, "s3cret") || strings.Contains(s, password) || strings.Contains(s, "PRIVATE KEY-----") {
				t.Errorf("the error shows a secret: %s", s)
			}
		})
	}
}

func TestCertificatesOfClients(t *testing.T) {
	server := func(auth string) *tls.Config {
		return listener(t, "keystore.location", testdata("server.p12"), "keystore.password", password, "client.auth", auth, "truststore.location", testdata("ca.pem")).ListenerTLS()
	}
	alice := client(t, "truststore.location", testdata("ca.pem"), "keystore.location", testdata("client.p12"), "keystore.password", password).ClientTLS()
	nobody := client(t, "truststore.location", testdata("ca.pem")).ClientTLS()
	stranger := client(t, "truststore.location", testdata("ca.pem")).ClientTLS()
	forged, _, _ := selfSigned(t, "alice", time.Now().Add(time.Hour))
	stranger.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &forged, nil } // whatever is asked for
	for _, c := range []struct {
		name, auth string
		client     *tls.Config
		ok         bool
		known      string
	}{
		{"required and shown", "required", alice, true, `CN=alice,OU=Sales\, North,O=Millrace`},
		{"required and not shown", "required", nobody, false, ""},
		{"required and from another authority", "required", stranger, false, ""},
		{"requested and shown", "requested", alice, true, `CN=alice,OU=Sales\, North,O=Millrace`},
		{"requested and not shown", "requested", nobody, true, ""},
		{"requested and from another authority", "requested", stranger, false, ""},
		{"not asked for", "none", alice, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen, _, err := meet(t, server(c.auth), c.client, "localhost")
			if (err == nil) != c.ok {
				t.Fatalf("got %v", err)
			}
			got := ""
			if len(seen.PeerCertificates) > 0 && err == nil {
				got = seen.PeerCertificates[0].Subject.String()
			}
			if got != c.known {
				t.Errorf("the server knows %q, want %q", got, c.known)
			}
		})
	}
}

func TestServersAreChecked(t *testing.T) {
	server := listener(t, "keystore.location", testdata("server.pem")).ListenerTLS()
	for _, c := range []struct {
		name, host string
		pairs      []string
		ok         bool
	}{
		{"a host that the certificate names", "localhost", []string{"truststore.location", testdata("ca.pem")}, true},
		{"another host", "elsewhere.example", []string{"truststore.location", testdata("ca.pem")}, false},
		{"another host, unchecked", "elsewhere.example", []string{"truststore.location", testdata("ca.pem"), "endpoint.identification.algorithm", ""}, true},
		{"another authority", "localhost", []string{"truststore.location", testdata("other.pem")}, false},
		{"another authority, host unchecked", "localhost", []string{"truststore.location", testdata("other.pem"), "endpoint.identification.algorithm", ""}, false},
		{"the system's authorities", "localhost", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := meet(t, server, client(t, c.pairs...).ClientTLS(), c.host); (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestVersionsAreKept(t *testing.T) {
	both := []string{"keystore.location", testdata("server.pem")}
	trust := client(t, "truststore.location", testdata("ca.pem")).ClientTLS()
	for _, c := range []struct {
		name     string
		pairs    []string
		low, top uint16
		want     uint16
	}{
		{"the best that both speak", nil, tls.VersionTLS10, tls.VersionTLS13, tls.VersionTLS13},
		{"1.2 where the client has no more", nil, tls.VersionTLS10, tls.VersionTLS12, tls.VersionTLS12},
		{"1.1 never", nil, tls.VersionTLS10, tls.VersionTLS11, 0},
		{"1.3 alone", []string{"enabled.protocols", "TLSv1.3"}, tls.VersionTLS10, tls.VersionTLS12, 0},
		{"1.2 alone", []string{"enabled.protocols", "TLSv1.2"}, tls.VersionTLS10, tls.VersionTLS13, tls.VersionTLS12},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := trust.Clone()
			conf.MinVersion, conf.MaxVersion = c.low, c.top
			_, state, err := meet(t, listener(t, append(c.pairs, both...)...).ListenerTLS(), conf, "localhost")
			if (err == nil) != (c.want != 0) || err == nil && state.Version != c.want {
				t.Errorf("got version %x and %v", state.Version, err)
			}
		})
	}
}

// What a file holds when a connection is made counts, and a file that cannot be read changes nothing.
func TestRenewedFilesAreSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.pem")
	write := func(b []byte) {
		t.Helper()
		tmp := path + ".new"
		if err := os.WriteFile(tmp, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, path); err != nil {
			t.Fatal(err)
		}
	}
	_, first, firstRoots := selfSigned(t, "localhost", time.Now().Add(time.Hour))
	_, second, secondRoots := selfSigned(t, "localhost", time.Now().Add(-time.Hour))
	write(first)
	var lines lockedBuffer
	m, errs := Below("ssl.").ReadListener(settings("keystore.location", path), nil, slog.New(slog.NewTextHandler(&lines, nil)))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	conf := m.ListenerTLS()
	serves := func(roots *x509.CertPool) bool {
		_, _, err := meet(t, conf, &tls.Config{RootCAs: roots, Time: func() time.Time { return time.Now().Add(-2 * time.Hour) }}, "localhost")
		return err == nil
	}
	if !serves(firstRoots) {
		t.Fatal("the first certificate is not served")
	}
	write([]byte("half written"))
	await(t, "the broken file is reported", func() bool {
		serves(firstRoots)
		return strings.Contains(lines.String(), "those of before stay in use")
	})
	if !serves(firstRoots) {
		t.Error("a file that cannot be read has stopped the listener")
	}
	write(second)
	await(t, "the second certificate is served", func() bool { return serves(secondRoots) })
	if serves(firstRoots) {
		t.Error("the first certificate is served still")
	}
	if !strings.Contains(lines.String(), "certificates were renewed") || !strings.Contains(lines.String(), "has expired") {
		t.Errorf("the log says\n%s", lines.String())
	}
	if strings.Count(lines.String(), "cannot be read") != 1 {
		t.Errorf("the broken file is reported again and again:\n%s", lines.String())
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A hostile store neither crashes the process nor makes it take more memory than its size allows.
func FuzzStores(f *testing.F) {
	for _, name := range []string{"server.jks", "key.jks", "trust.jks", "sealed.pem", "sealed3.pem", "server.pem", "ca.pem"} {
		f.Add([]byte(text(f, name)), password)
	}
	huge := []byte(text(f, "server.jks"))
	copy(huge[8:], []byte{0xff, 0xff, 0xff, 0xff})
	f.Add(huge, "")
	f.Fuzz(func(t *testing.T, b []byte, pw string) {
		if kind(b) == "PKCS12" {
			return // the library's own
		}
		identities(b, pw, "")
		authorities(b, pw)
		openPBES2(b, pw)
		openJKSKey(b, pw)
	})
}
