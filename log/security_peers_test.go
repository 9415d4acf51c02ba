package log_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/deploy/peers"
	"millrace/deploy/trial"
	"millrace/log"
)

// Stores as people have them, with the password "changeit".
const stores = "../schema/config/javatls/testdata"

func store(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(stores, name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

type lockedLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// letIn opens a log whose one listener asks who one is. alice may sign in.
func letIn(t testing.TB, protocol string, change func(*log.Config)) (addr string, lg *lockedLines) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(store(t, "server.pem"), store(t, "server.pem"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(store(t, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("no authority")
	}
	conf := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, MinVersion: tls.VersionTLS12}
	if protocol == "SSL" {
		conf.ClientAuth = tls.RequireAndVerifyClientCert
	}
	lg = &lockedLines{}
	cfg := log.Config{
		DataDir: t.TempDir(), Listeners: []string{protocol + "://127.0.0.1:0"}, TLS: conf, Mechanisms: log.Mechanisms(), PlainWithoutTLS: true,
		Passwords: map[string]string{"alice": "wonderland"}, Limits: log.Limits{MinFree: -1, Ballast: -1}, Logger: slog.New(slog.NewTextHandler(lg, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	l, err := log.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLog(t, l) })
	return l.Addr(), lg
}

func noSecret(t testing.TB, lg *lockedLines) {
	t.Helper()
	for _, secret := range []string{"wonderland", "s3cret"} {
		if strings.Contains(lg.String(), secret) {
			t.Errorf("the log shows %q:\n%s", secret, lg)
		}
	}
}

// onlyInSoak keeps what costs a JVM or two for longer runs.
func onlyInSoak(t *testing.T) {
	t.Helper()
	if !trial.Soak() {
		t.Skip("in make soak (MILLRACE_SOAK=1)")
	}
}

func TestKcatSignsIn(t *testing.T) {
	kcat := peers.Kcat(t)
	try := func(addr string, stdin string, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, kcat, append([]string{"-b", addr, "-m", "2"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	roundTrip := func(t *testing.T, addr string, args ...string) {
		t.Helper()
		in := lines(500, "v%d")
		if out, err := try(addr, in, append(args, "-P", "-t", "t", "-X", "acks=all")...); err != nil {
			t.Fatalf("produce: %v\n%s", err, out)
		}
		if out, err := try(addr, "", append(args, "-C", "-t", "t", "-e", "-q")...); err != nil || out != in {
			t.Errorf("%d bytes came back of %d, %v", len(out), len(in), err)
		}
	}
	refused := func(t *testing.T, addr, want string, args ...string) {
		t.Helper()
		if out, err := try(addr, "", append(args, "-L")...); err == nil || !strings.Contains(out, want) {
			t.Errorf("got %v:\n%s", err, out)
		}
	}
	as := func(protocol, mechanism, user, password string, more ...string) []string {
		return append([]string{"-X", "security.protocol=" + protocol, "-X", "sasl.mechanisms=" + mechanism, "-X", "sasl.username=" + user, "-X", "sasl.password=" + password}, more...)
	}
	trust := []string{"-X", "ssl.ca.location=" + store(t, "ca.pem")}
	for _, with := range [][2]string{{"SASL_SSL", "PLAIN"}, {"SASL_SSL", "SCRAM-SHA-256"}, {"SASL_SSL", "SCRAM-SHA-512"}, {"SASL_PLAINTEXT", "SCRAM-SHA-256"}} {
		protocol, mechanism := with[0], with[1]
		t.Run(protocol+" "+mechanism, func(t *testing.T) {
			addr, lg := letIn(t, protocol, nil)
			roundTrip(t, addr, as(protocol, mechanism, "alice", "wonderland", trust...)...)
			refused(t, addr, "uthentication", as(protocol, mechanism, "alice", "s3cret", trust...)...)
			if !strings.Contains(lg.String(), `msg="sign-in failed"`) || !strings.Contains(lg.String(), "user=alice") {
				t.Errorf("the log says\n%s", lg)
			}
			noSecret(t, lg)
		})
	}
	t.Run("a mechanism that is not offered", func(t *testing.T) {
		addr, lg := letIn(t, "SASL_SSL", func(c *log.Config) { c.Mechanisms = nil })
		refused(t, addr, "Unsupported SASL mechanism", as("SASL_SSL", "PLAIN", "alice", "wonderland", trust...)...)
		if !strings.Contains(lg.String(), "offered=SCRAM-SHA-512,SCRAM-SHA-256") {
			t.Errorf("the log says\n%s", lg)
		}
		noSecret(t, lg)
	})
	t.Run("a certificate", func(t *testing.T) {
		addr, lg := letIn(t, "SSL", nil)
		roundTrip(t, addr, append([]string{"-X", "security.protocol=SSL", "-X", "ssl.certificate.location=" + store(t, "client.pem"), "-X", "ssl.key.location=" + store(t, "client.pem")}, trust...)...)
		refused(t, addr, "SSL", append([]string{"-X", "security.protocol=SSL"}, trust...)...)
		refused(t, addr, "certificate", "-X", "security.protocol=SSL", "-X", "ssl.ca.location="+store(t, "other.pem"))
		for _, want := range []string{"only clients with a certificate", "does not trust our certificate; give it"} {
			if !strings.Contains(lg.String(), want) {
				t.Errorf("the log has no %q:\n%s", want, lg)
			}
		}
	})
}

func TestJavaClientsSignIn(t *testing.T) {
	java := peers.KafkaTools(t)
	try := func(t *testing.T, stdin, class string, args ...string) (string, error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
		defer cancel()
		cmd := java.Command(ctx, class, args...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	settings := func(t *testing.T, format string, args ...any) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "client.properties")
		writeFile(t, path, fmt.Sprintf(format, args...))
		return path
	}
	trust := fmt.Sprintf("ssl.truststore.location=%s\nssl.truststore.password=changeit\nssl.truststore.type=PKCS12\n", store(t, "trust.p12"))
	login := func(t *testing.T, mechanism, module, password string) string {
		return settings(t, "security.protocol=SASL_SSL\nsasl.mechanism=%s\nsasl.jaas.config=org.apache.kafka.common.security.%s required username=\"alice\" password=\"%s\";\n%s", mechanism, module, password, trust)
	}
	const producer, consumer = "org.apache.kafka.tools.ConsoleProducer", "org.apache.kafka.tools.consumer.ConsoleConsumer"
	roundTrip := func(t *testing.T, addr, file string) {
		t.Helper()
		in := lines(200, "v%d")
		if out, err := try(t, in, producer, "--bootstrap-server", addr, "--topic", "t", "--command-config", file); err != nil {
			t.Fatalf("produce: %v\n%s", err, out)
		}
		out, err := try(t, "", consumer, "--bootstrap-server", addr, "--topic", "t", "--from-beginning", "--max-messages", "200", "--timeout-ms", "60000", "--command-config", file)
		if err != nil || strings.Count(out, "v") < 200 {
			t.Errorf("consume: %v\n%s", err, out)
		}
	}
	t.Run("SCRAM over TLS, sessions that end", func(t *testing.T) {
		addr, lg := letIn(t, "SASL_SSL", func(c *log.Config) { c.Reauth = 5 * time.Second })
		roundTrip(t, addr, login(t, "SCRAM-SHA-512", "scram.ScramLoginModule", "wonderland"))
		out, err := try(t, "", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", addr, "--list", "--command-config", login(t, "SCRAM-SHA-512", "scram.ScramLoginModule", "s3cret"))
		if err == nil || !strings.Contains(out, "invalid credentials with SASL mechanism SCRAM-SHA-512") {
			t.Errorf("a wrong password: %v\n%s", err, out)
		}
		noSecret(t, lg)
	})
	t.Run("PLAIN over TLS", func(t *testing.T) {
		onlyInSoak(t)
		addr, lg := letIn(t, "SASL_SSL", nil)
		roundTrip(t, addr, login(t, "PLAIN", "plain.PlainLoginModule", "wonderland"))
		noSecret(t, lg)
	})
	t.Run("a certificate", func(t *testing.T) {
		onlyInSoak(t)
		addr, _ := letIn(t, "SSL", nil)
		roundTrip(t, addr, settings(t, "security.protocol=SSL\nssl.keystore.location=%s\nssl.keystore.password=changeit\nssl.keystore.type=PKCS12\n%s", store(t, "client.p12"), trust))
	})
	t.Run("users are made with Kafka's tool", func(t *testing.T) {
		addr, lg := letIn(t, "SASL_SSL", func(c *log.Config) { c.SuperUsers = []string{"User:alice"} })
		alice := login(t, "SCRAM-SHA-256", "scram.ScramLoginModule", "wonderland")
		configs := "org.apache.kafka.tools.ConfigCommand"
		if out, err := try(t, "", configs, "--bootstrap-server", addr, "--command-config", alice, "--alter", "--entity-type", "users", "--entity-name", "bob", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=s3cret]"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		out, err := try(t, "", configs, "--bootstrap-server", addr, "--command-config", alice, "--describe", "--entity-type", "users", "--entity-name", "bob")
		if err != nil || !strings.Contains(out, "SCRAM-SHA-256=iterations=8192") {
			t.Errorf("%v\n%s", err, out)
		}
		bob := settings(t, "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=\"bob\" password=\"s3cret\";\n%s", trust)
		if out, err := try(t, "", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", addr, "--list", "--command-config", bob); err != nil {
			t.Errorf("bob: %v\n%s", err, out)
		}
		if out, err := try(t, "", configs, "--bootstrap-server", addr, "--command-config", bob, "--alter", "--entity-type", "users", "--entity-name", "alice", "--delete-config", "SCRAM-SHA-256"); err == nil && !strings.Contains(out, "ClusterAuthorization") {
			t.Errorf("bob could remove alice:\n%s", out)
		}
		noSecret(t, lg)
	})
}
