package broker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"millrace/log/broker/auth"
)

// authority makes certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	a := &authority{t: t, pool: x509.NewCertPool()}
	made := a.issue("authority", time.Now().Add(time.Hour))
	a.cert, a.key = made.Leaf, made.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) issue(name string, until time.Time) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{"Millrace"}}, NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: a.cert == nil,
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// server is a listener's TLS.
func (a *authority) server(auth tls.ClientAuthType) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.issue("broker", time.Now().Add(time.Hour))}, ClientAuth: auth, ClientCAs: a.pool, MinVersion: tls.VersionTLS12}
}

func (a *authority) client(own ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: a.pool, Certificates: own, ServerName: "localhost"}
}

// listen adds a listener to a node and returns its address.
func (n *node) listen(at Listener) string {
	n.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	a := l.Addr().(*net.TCPAddr)
	at.Host, at.Port = a.IP.String(), int32(a.Port)
	if err := n.srv.Serve(l, at); err != nil {
		n.t.Fatal(err)
	}
	return a.String()
}

// startSecure runs a broker with a listener of that kind, on which alice and bob may sign in.
func startSecure(t testing.TB, at Listener, change ...func(*Options)) (n *node, addr string) {
	n = start(t, append([]func(*Options){func(o *Options) { o.Mechanisms = auth.Known }}, change...)...)
	if _, err := n.cat.SetPasswords(map[string]string{"alice": "wonderland", "bob": "builder"}); err != nil {
		t.Fatal(err)
	}
	return n, n.listen(at)
}

func (n *node) dialAt(addr string, tc *tls.Config) *wireConn {
	n.t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { nc.Close() })
	if tc != nil {
		nc = tls.Client(nc, tc)
	}
	return &wireConn{t: n.t, nc: nc}
}

// roundTrip produces and consumes with a client of these options.
func (n *node) roundTrip(topic string, opts ...kgo.Opt) error {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(topic), kgo.AllowAutoTopicCreation(), kgo.RecordDeliveryTimeout(20*time.Second), kgo.RequestRetries(1))...)
	if err != nil {
		n.t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		return err
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); err != nil {
		return err
	}
	fs := cl.PollFetches(ctx)
	if err := fs.Err(); err != nil {
		return err
	}
	if fs.NumRecords() != 1 {
		return errors.New("the record did not come back")
	}
	return nil
}

func TestClientsSignIn(t *testing.T) {
	ca := newAuthority(t)
	n, addr := startSecure(t, Listener{TLS: ca.server(tls.NoClientCert), SASL: true})
	mechanisms := map[string]func(user, password string) sasl.Mechanism{
		"PLAIN":         func(u, p string) sasl.Mechanism { return plain.Auth{User: u, Pass: p}.AsMechanism() },
		"SCRAM-SHA-256": func(u, p string) sasl.Mechanism { return scram.Auth{User: u, Pass: p}.AsSha256Mechanism() },
		"SCRAM-SHA-512": func(u, p string) sasl.Mechanism { return scram.Auth{User: u, Pass: p}.AsSha512Mechanism() },
	}
	for name, as := range mechanisms {
		t.Run(name, func(t *testing.T) {
			secure := []kgo.Opt{kgo.SeedBrokers(addr), kgo.DialTLSConfig(ca.client())}
			if err := n.roundTrip("t-"+name, append(secure, kgo.SASL(as("alice", "wonderland")))...); err != nil {
				t.Error(err)
			}
			for _, wrong := range [][2]string{{"alice", "s3cret"}, {"nobody", "s3cret"}, {"bob", "wonderland"}} {
				if err := n.roundTrip("t-"+name, append(secure, kgo.SASL(as(wrong[0], wrong[1])))...); !errors.Is(err, kerr.SaslAuthenticationFailed) {
					t.Errorf("%s with %s: got %v", wrong[0], wrong[1], err)
				}
			}
			if err := n.roundTrip("t-"+name, kgo.SeedBrokers(addr), kgo.SASL(as("alice", "wonderland"))); err == nil {
				t.Error("a client without TLS was let in")
			}
		})
	}
	if err := n.roundTrip("t", kgo.SeedBrokers(addr), kgo.DialTLSConfig(ca.client())); err == nil {
		t.Error("a client that did not sign in was let in")
	}
	lines := n.lg.String()
	for _, want := range []string{`msg="sign-in failed"`, "user=nobody", "mechanism=PLAIN", "does not speak TLS", "before signing in"} {
		if !strings.Contains(lines, want) {
			t.Errorf("the log has no %q:\n%s", want, lines)
		}
	}
	for _, secret := range []string{"s3cret", "wonderland", "builder"} {
		if strings.Contains(lines, secret) {
			t.Errorf("the log shows the password %s:\n%s", secret, lines)
		}
	}
}

func TestClientsShowCertificates(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	n, addr := startSecure(t, Listener{TLS: ca.server(tls.RequireAndVerifyClientCert)})
	at := kgo.SeedBrokers(addr)
	if err := n.roundTrip("t", at, kgo.DialTLSConfig(ca.client(ca.issue("alice", time.Now().Add(time.Hour))))); err != nil {
		t.Errorf("a client with a certificate: %v", err)
	}
	forced := func(c tls.Certificate) *tls.Config {
		conf := ca.client()
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil }
		return conf
	}
	for _, c := range []struct {
		name   string
		client *tls.Config
		line   string
	}{
		{"without one", ca.client(), "only clients with a certificate"},
		{"from another authority", forced(other.issue("alice", time.Now().Add(time.Hour))), "does not trust"},
		{"out of date", forced(ca.issue("alice", time.Now().Add(-time.Hour))), "out of date; renew it"},
		{"who does not trust us", &tls.Config{RootCAs: other.pool, ServerName: "localhost"}, "does not trust our certificate"},
	} {
		if err := n.roundTrip("t", at, kgo.DialTLSConfig(c.client)); err == nil {
			t.Errorf("a client %s was let in", c.name)
		}
		await(t, "the log says what is wrong with a client "+c.name, func() bool { return strings.Contains(n.lg.String(), c.line) })
	}
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

// handshake and authenticate are one step each, by hand.
func handshake(w *wireConn, mechanism string) *kmsg.SASLHandshakeResponse {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Mechanism = mechanism
	return ask[*kmsg.SASLHandshakeResponse](w, req, 1)
}

func authenticate(w *wireConn, token string) *kmsg.SASLAuthenticateResponse {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.SASLAuthBytes = []byte(token)
	return ask[*kmsg.SASLAuthenticateResponse](w, req, 2)
}

const asAlice = "\x00alice\x00wonderland"

// Whoever is nobody yet may ask for versions and sign in, and nothing else.
func TestNobodyGetsNothing(t *testing.T) {
	n, addr := startSecure(t, Listener{SASL: true})
	n.topic("t", 1)
	for key := int16(0); int(key) < len(n.srv.handlers); key++ {
		req := kmsg.RequestForKey(key)
		if n.srv.handlers[key] == nil || req == nil {
			continue
		}
		switch key {
		case 17, 18, 36:
			continue
		}
		w := n.dialAt(addr, nil)
		ask[*kmsg.ApiVersionsResponse](w, kmsg.NewPtrApiVersionsRequest(), 3)
		if got := handshake(w, "PLAIN"); got.ErrorCode != 0 {
			t.Fatalf("handshake: %d", got.ErrorCode)
		}
		w.send(req, req.MaxVersion())
		if !w.closed() {
			t.Errorf("%s was answered before signing in", kmsg.NameForKey(key))
		}
	}
}

func TestSignInByHand(t *testing.T) {
	n, addr := startSecure(t, Listener{SASL: true})
	denied, illegal, unsupported := kerr.SaslAuthenticationFailed.Code, kerr.IllegalSaslState.Code, kerr.UnsupportedSaslMechanism.Code
	t.Run("the mechanisms are told", func(t *testing.T) {
		w := n.dialAt(addr, nil)
		got := handshake(w, "GSSAPI")
		if got.ErrorCode != unsupported || strings.Join(got.SupportedMechanisms, ",") != "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN" {
			t.Errorf("got %+v", got)
		}
		if !w.closed() {
			t.Error("the connection stays open")
		}
	})
	t.Run("a proof without a handshake", func(t *testing.T) {
		w := n.dialAt(addr, nil)
		if got := authenticate(w, asAlice); got.ErrorCode != illegal {
			t.Errorf("got %+v", got)
		}
		if !w.closed() {
			t.Error("the connection stays open")
		}
	})
	t.Run("two handshakes", func(t *testing.T) {
		w := n.dialAt(addr, nil)
		handshake(w, "PLAIN")
		if got := handshake(w, "PLAIN"); got.ErrorCode != illegal {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a wrong password ends the connection", func(t *testing.T) {
		w := n.dialAt(addr, nil)
		handshake(w, "PLAIN")
		got := authenticate(w, "\x00alice\x00wrong")
		if got.ErrorCode != denied || got.ErrorMessage == nil || *got.ErrorMessage != "Authentication failed: Invalid username or password" {
			t.Errorf("got %+v", got)
		}
		if !w.closed() {
			t.Error("the connection stays open")
		}
	})
	t.Run("a wrong proof of SCRAM", func(t *testing.T) {
		w := n.dialAt(addr, nil)
		handshake(w, "SCRAM-SHA-512")
		first := authenticate(w, "n,,n=alice,r=mine")
		nonce, _, _ := strings.Cut(string(first.SASLAuthBytes), ",")
		got := authenticate(w, "c=biws,"+nonce+",p="+strings.Repeat("A", 86)+"==")
		if got.ErrorCode != denied || !strings.Contains(*got.ErrorMessage, "invalid credentials with SASL mechanism SCRAM-SHA-512") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("signed in, everything is answered, and no second sign-in", func(t *testing.T) {
		w := n.dialAt(addr, nil)
		handshake(w, "PLAIN")
		if got := authenticate(w, asAlice); got.ErrorCode != 0 || got.SessionLifetimeMillis != 0 {
			t.Fatalf("got %+v", got)
		}
		ask[*kmsg.MetadataResponse](w, kmsg.NewPtrMetadataRequest(), 12)
		if got := handshake(w, "PLAIN"); got.ErrorCode != illegal {
			t.Errorf("got %+v", got)
		}
		if got := authenticate(w, asAlice); got.ErrorCode != illegal {
			t.Errorf("got %+v", got)
		}
		ask[*kmsg.MetadataResponse](w, kmsg.NewPtrMetadataRequest(), 12)
	})
	t.Run("messages without a header, as the first version has them", func(t *testing.T) {
		w := n.dialAt(addr, nil)
		req := kmsg.NewPtrSASLHandshakeRequest()
		req.Mechanism = "PLAIN"
		ask[*kmsg.SASLHandshakeResponse](w, req, 0)
		w.nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(asAlice))), asAlice...))
		var size [4]byte
		if _, err := io.ReadFull(w.nc, size[:]); err != nil || binary.BigEndian.Uint32(size[:]) != 0 {
			t.Fatalf("got % x, %v", size, err)
		}
		ask[*kmsg.MetadataResponse](w, kmsg.NewPtrMetadataRequest(), 12)
	})
	t.Run("a wrong password without a header", func(t *testing.T) {
		w := n.dialAt(addr, nil)
		req := kmsg.NewPtrSASLHandshakeRequest()
		req.Mechanism = "PLAIN"
		ask[*kmsg.SASLHandshakeResponse](w, req, 0)
		w.nc.Write([]byte("\x00\x00\x00\x0c\x00alice\x00wrong"))
		if !w.closed() {
			t.Error("it was answered")
		}
	})
	t.Run("a request of more than a mebibyte", func(t *testing.T) {
		w := n.dialAt(addr, nil)
		w.nc.Write([]byte{0, 0x10, 0, 1, 0, 36, 0, 2})
		if !w.closed() {
			t.Error("it was waited for")
		}
	})
	t.Run("nobody signs in where nobody has to", func(t *testing.T) {
		w := n.dial()
		if got := handshake(w, "PLAIN"); got.ErrorCode != illegal {
			t.Errorf("got %+v", got)
		}
		if got := authenticate(w, asAlice); got.ErrorCode != illegal {
			t.Errorf("got %+v", got)
		}
	})
}

// A session that ends must be renewed with the same name; what comes later closes the connection.
func TestSessionsEnd(t *testing.T) {
	signedIn := func(n *node, addr string, lifetime int64) *wireConn {
		w := n.dialAt(addr, nil)
		handshake(w, "PLAIN")
		if got := authenticate(w, asAlice); got.SessionLifetimeMillis != lifetime {
			t.Fatalf("got %+v", got)
		}
		return w
	}
	n, addr := startSecure(t, Listener{SASL: true}, func(o *Options) { o.Reauth = time.Hour })
	w := signedIn(n, addr, 3_600_000)
	for range 3 {
		if got := handshake(w, "PLAIN"); got.ErrorCode != 0 {
			t.Fatalf("got %+v", got)
		}
		ask[*kmsg.MetadataResponse](w, kmsg.NewPtrMetadataRequest(), 12) // the old proof holds until then
		if got := authenticate(w, asAlice); got.ErrorCode != 0 || got.SessionLifetimeMillis != 3_600_000 {
			t.Fatalf("got %+v", got)
		}
		ask[*kmsg.MetadataResponse](w, kmsg.NewPtrMetadataRequest(), 12)
	}
	if got := handshake(w, "PLAIN"); got.ErrorCode != 0 {
		t.Fatalf("got %+v", got)
	}
	if got := authenticate(w, "\x00bob\x00builder"); got.ErrorCode != kerr.SaslAuthenticationFailed.Code {
		t.Errorf("a connection became another user's: %+v", got)
	}
	if !w.closed() {
		t.Error("the connection stays open")
	}
	w = signedIn(n, addr, 3_600_000)
	if got := handshake(w, "SCRAM-SHA-256"); got.ErrorCode != kerr.IllegalSaslState.Code {
		t.Errorf("the mechanism was changed: %+v", got)
	}
	n, addr = startSecure(t, Listener{SASL: true}, func(o *Options) { o.Reauth = 300 * time.Millisecond })
	w = signedIn(n, addr, 300)
	for deadline := time.Now().Add(30 * time.Second); ; {
		c := w.send(kmsg.NewPtrMetadataRequest(), 12)
		if w.receive(c, kmsg.NewPtrMetadataResponse(), 12) != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a session never ends")
		}
	}
	await(t, "the log says why", func() bool { return strings.Contains(n.lg.String(), "after the session ended") })
}

// franz-go renews its sessions by itself, and nothing is lost meanwhile.
func TestAClientRenewsItsSession(t *testing.T) {
	n, addr := startSecure(t, Listener{SASL: true}, func(o *Options) { o.Reauth = 3 * time.Second })
	cl := newClient(t, kgo.SeedBrokers(addr), kgo.SASL(scram.Auth{User: "alice", Pass: "wonderland"}.AsSha256Mechanism()), kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation())
	before := n.srv.stats.signedIn.Load()
	await(t, "sessions are renewed", func() bool {
		if err := cl.ProduceSync(within(t), kgo.StringRecord("v")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return n.srv.stats.signedIn.Load() >= before+5
	})
}

// Who takes too long is closed: before TLS, in it, before signing in and in it.
func TestSlowSignInsEnd(t *testing.T) {
	ca := newAuthority(t)
	n, addr := startSecure(t, Listener{TLS: ca.server(tls.NoClientCert), SASL: true}, func(o *Options) { o.SignInTime = 3 * time.Second })
	alice := n.dialAt(addr, ca.client())
	handshake(alice, "PLAIN")
	authenticate(alice, asAlice)
	silent := n.dialAt(addr, nil)
	half := n.dialAt(addr, nil)
	half.nc.Write([]byte{0x16, 3, 1, 0, 200, 1})
	nobody := n.dialAt(addr, ca.client())
	ask[*kmsg.ApiVersionsResponse](nobody, kmsg.NewPtrApiVersionsRequest(), 3)
	begun := n.dialAt(addr, ca.client())
	handshake(begun, "SCRAM-SHA-256")
	authenticate(begun, "n,,n=alice,r=mine")
	for name, w := range map[string]*wireConn{"silent": silent, "in the middle of TLS": half, "nobody": nobody, "in the middle of SCRAM": begun} {
		if !w.closed() {
			t.Errorf("who is %s was not closed", name)
		}
	}
	ask[*kmsg.MetadataResponse](alice, kmsg.NewPtrMetadataRequest(), 12)
	await(t, "each of the four has its line in the log", func() bool { return strings.Count(n.lg.String(), "did not sign in in time") == 4 })
}

// Lines that strangers cause are limited.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	n, addr := startSecure(t, Listener{SASL: true})
	for range 200 {
		w := n.dialAt(addr, nil)
		w.send(kmsg.NewPtrMetadataRequest(), 12)
		if !w.closed() {
			t.Fatal("not closed")
		}
		w.nc.Close()
	}
	if c := strings.Count(n.lg.String(), "before signing in"); c < 1 || c > 10*troubleLines {
		t.Errorf("%d lines", c)
	}
}

func TestUsersAreManagedWhereTheyMayBe(t *testing.T) {
	ca := newAuthority(t)
	n, sasl := startSecure(t, Listener{SASL: true}, func(o *Options) { o.SuperUsers = []string{"User:alice", "User:CN=ops,O=Millrace"} })
	as := func(user, password string) kgo.Opt {
		return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism())
	}
	loopback := n.listen(Listener{Loopback: true})
	outside := n.listen(Listener{})
	mutual := n.listen(Listener{TLS: ca.server(tls.RequireAndVerifyClientCert), Loopback: true})
	certificate := func(name string) kgo.Opt {
		return kgo.DialTLSConfig(ca.client(ca.issue(name, time.Now().Add(time.Hour))))
	}
	for _, c := range []struct {
		name string
		opts []kgo.Opt
		may  bool
	}{
		{"this process", []kgo.Opt{kgo.SeedBrokers("embedded:9092"), kgo.Dialer(n.mem.Dial)}, true},
		{"a super user", []kgo.Opt{kgo.SeedBrokers(sasl), as("alice", "wonderland")}, true},
		{"another user", []kgo.Opt{kgo.SeedBrokers(sasl), as("bob", "builder")}, false},
		{"a super user by certificate", []kgo.Opt{kgo.SeedBrokers(mutual), certificate("ops")}, true},
		{"another certificate, from this machine", []kgo.Opt{kgo.SeedBrokers(mutual), certificate("dev")}, false},
		{"somebody on this machine", []kgo.Opt{kgo.SeedBrokers(loopback)}, true},
		{"somebody from outside", []kgo.Opt{kgo.SeedBrokers(outside)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			adm := kadm.NewClient(newClient(t, c.opts...))
			_, err := adm.DescribeUserSCRAMs(within(t))
			if c.may && err != nil || !c.may && !errors.Is(err, kerr.ClusterAuthorizationFailed) {
				t.Errorf("describe: %v", err)
			}
			got, err := adm.AlterUserSCRAMs(within(t), nil, []kadm.UpsertSCRAM{{User: "mallory", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "x"}})
			if err == nil {
				err = got.Error()
			}
			if c.may && err != nil || !c.may && !errors.Is(err, kerr.ClusterAuthorizationFailed) {
				t.Errorf("alter: %v", err)
			}
			made, err := kadm.NewClient(n.client()).DescribeUserSCRAMs(within(t), "mallory")
			if err != nil {
				t.Fatal(err)
			}
			if (made["mallory"].Err == nil) != c.may {
				t.Errorf("mallory: %v", made["mallory"].Err)
			}
			if c.may {
				if _, err := adm.AlterUserSCRAMs(within(t), []kadm.DeleteSCRAM{{User: "mallory", Mechanism: kadm.ScramSha256}}, nil); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestUsersComeAndGo(t *testing.T) {
	n, addr := startSecure(t, Listener{SASL: true})
	adm := kadm.NewClient(n.client())
	signIn := func(password string) error {
		return n.roundTrip("t-"+password, kgo.SeedBrokers(addr), kgo.SASL(scram.Auth{User: "carol", Pass: password}.AsSha512Mechanism()))
	}
	set := func(password string) {
		t.Helper()
		got, err := adm.AlterUserSCRAMs(within(t), nil, []kadm.UpsertSCRAM{{User: "carol", Mechanism: kadm.ScramSha512, Iterations: 5000, Password: password}})
		if err == nil {
			err = got.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := signIn("one"); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Fatalf("carol was let in before she was made: %v", err)
	}
	set("one")
	if err := signIn("one"); err != nil {
		t.Fatal(err)
	}
	set("two")
	if err := signIn("two"); err != nil {
		t.Fatal(err)
	}
	if err := signIn("one"); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("the old password: %v", err)
	}
	described, err := adm.DescribeUserSCRAMs(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if c := described["carol"]; len(described) != 3 || len(c.CredInfos) != 1 || c.CredInfos[0].Iterations != 5000 || c.CredInfos[0].Mechanism != kadm.ScramSha512 {
		t.Errorf("got %+v", described)
	}
	if len(described["alice"].CredInfos) != 2 {
		t.Errorf("alice has %+v", described["alice"])
	}
	if _, err := adm.AlterUserSCRAMs(within(t), []kadm.DeleteSCRAM{{User: "carol", Mechanism: kadm.ScramSha512}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := signIn("two"); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("a user who is gone: %v", err)
	}
	// By hand: what clients do not let one ask.
	w := n.dialAt(n.listen(Listener{Loopback: true}), nil)
	upsert := func(change func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion)) int16 {
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Mechanism, u.Iterations, u.Salt, u.SaltedPassword = "dave", 1, 4096, []byte("salt"), make([]byte, 32)
		change(&u)
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		req.Upsertions = append(req.Upsertions, u)
		return ask[*kmsg.AlterUserSCRAMCredentialsResponse](w, req, 0).Results[0].ErrorCode
	}
	unacceptable := kerr.UnacceptableCredential.Code
	for _, c := range []struct {
		name   string
		change func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion)
		want   int16
	}{
		{"as it should be", func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) {}, 0},
		{"too few iterations", func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Iterations = 4095 }, unacceptable},
		{"too many iterations", func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Iterations = 16385 }, unacceptable},
		{"no name", func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Name = "" }, unacceptable},
		{"no salt", func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Salt = nil }, unacceptable},
		{"a salt of a megabyte", func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Salt = make([]byte, 1<<20) }, unacceptable},
		{"a short salted password", func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.SaltedPassword = []byte("x") }, unacceptable},
		{"an unknown mechanism", func(u *kmsg.AlterUserSCRAMCredentialsRequestUpsertion) { u.Mechanism = 3 }, kerr.UnsupportedSaslMechanism.Code},
	} {
		if got := upsert(c.change); got != c.want {
			t.Errorf("%s: code %d, want %d", c.name, got, c.want)
		}
	}
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for range 2 {
		d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
		d.Name, d.Mechanism = "dave", 1
		req.Deletions = append(req.Deletions, d)
	}
	d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
	d.Name, d.Mechanism = "erin", 1
	req.Deletions = append(req.Deletions, d)
	results := ask[*kmsg.AlterUserSCRAMCredentialsResponse](w, req, 0).Results
	if len(results) != 2 || results[0].ErrorCode != kerr.DuplicateResource.Code || results[1].ErrorCode != kerr.ResourceNotFound.Code {
		t.Errorf("got %+v", results)
	}
	describe := func(names ...string) []kmsg.DescribeUserSCRAMCredentialsResponseResult {
		req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		for _, name := range names {
			u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
			u.Name = name
			req.Users = append(req.Users, u)
		}
		return ask[*kmsg.DescribeUserSCRAMCredentialsResponse](w, req, 0).Results
	}
	if got := describe("dave", "erin", "dave"); len(got) != 2 || got[0].ErrorCode != kerr.DuplicateResource.Code || got[1].ErrorCode != kerr.ResourceNotFound.Code {
		t.Errorf("got %+v", got)
	}
}
