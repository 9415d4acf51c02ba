package runtime

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/log"
	"millrace/log/logtest"
	"millrace/schema/config/javatls"
)

const stores = "../schema/config/javatls/testdata/"

func clusterConfig(t testing.TB, pairs ...string) ClusterConfig {
	t.Helper()
	p := distributed()
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i]] = pairs[i+1]
	}
	c, errs := ParseWorker(p)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return c.Cluster
}

// secureCluster is a log that asks who one is. Its certificate is for localhost and 127.0.0.1.
func secureCluster(t *testing.T) (sasl, mutual string) {
	m, errs := javatls.Below("ssl.").ReadListener(map[string]string{"ssl.keystore.location": stores + "server.pem", "ssl.truststore.location": stores + "ca.pem", "ssl.client.auth": "requested"}, nil, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	l := logtest.New(t, func(c *log.Config) {
		c.Listeners, c.TLS, c.Mechanisms = []string{"SASL_SSL://127.0.0.1:0"}, m.ListenerTLS(), log.Mechanisms()
		c.Passwords = map[string]string{`al"ice`: `won\der;land`}
	})
	m, errs = javatls.Below("ssl.").ReadListener(map[string]string{"ssl.keystore.location": stores + "server.pem", "ssl.truststore.location": stores + "ca.pem", "ssl.client.auth": "required"}, nil, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	other := logtest.New(t, func(c *log.Config) { c.Listeners, c.TLS = []string{"SSL://127.0.0.1:0"}, m.ListenerTLS() })
	return l.Addr(), other.Addr()
}

func jaas(module, user, password string) string {
	quote := func(s string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"` }
	return "org.apache.kafka.common.security." + module + " required username=" + quote(user) + " password=" + quote(password) + ";"
}

func TestTheWorkerSignsInAtItsCluster(t *testing.T) {
	sasl, mutual := secureCluster(t)
	const plain, scram = "plain.PlainLoginModule", "scram.ScramLoginModule"
	alice, secret := `al"ice`, `won\der;land`
	trust := []string{"ssl.truststore.location", stores + "trust.jks", "ssl.truststore.password", "changeit"}
	with := func(more ...string) []string {
		return append(append([]string{"security.protocol", "SASL_SSL"}, trust...), more...)
	}
	for _, c := range []struct {
		name, seed string
		pairs      []string
		fails      string
	}{
		{"PLAIN", sasl, with("sasl.mechanism", "PLAIN", "sasl.jaas.config", jaas(plain, alice, secret)), ""},
		{"SCRAM-SHA-256", sasl, with("sasl.mechanism", "SCRAM-SHA-256", "sasl.jaas.config", jaas(scram, alice, secret)), ""},
		{"SCRAM-SHA-512", sasl, with("sasl.mechanism", "SCRAM-SHA-512", "sasl.jaas.config", jaas(scram, alice, secret)), ""},
		{"a wrong password", sasl, with("sasl.mechanism", "PLAIN", "sasl.jaas.config", jaas(plain, alice, "s3cret")), "check sasl.mechanism and sasl.jaas.config"},
		{"a wrong password of SCRAM", sasl, with("sasl.mechanism", "SCRAM-SHA-256", "sasl.jaas.config", jaas(scram, alice, "s3cret")), "check sasl.mechanism and sasl.jaas.config"},
		{"options in the name", sasl, with("sasl.mechanism", "PLAIN", "sasl.jaas.config", jaas(plain, `x" password="won\der;land" username="al"ice`, "s3cret")), "check sasl.mechanism and sasl.jaas.config"},
		{"a certificate", mutual, append([]string{"security.protocol", "SSL", "ssl.keystore.location", stores + "client.p12", "ssl.keystore.password", "changeit"}, trust...), ""},
		{"no certificate", mutual, append([]string{"security.protocol", "SSL"}, trust...), "ssl.keystore.location"},
		{"an authority that is not trusted", mutual, []string{"security.protocol", "SSL", "ssl.truststore.location", stores + "other.pem"}, "ssl.truststore.location"},
		{"no TLS", sasl, []string{"security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", "SCRAM-SHA-256", "sasl.jaas.config", jaas(scram, alice, secret)}, "security.protocol"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var lines bytes.Buffer
			lg := slog.New(slog.NewTextHandler(&lines, nil))
			opts, errs := clusterConfig(t, c.pairs...).Options(nil, lg)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			l, err := log.Open(ctx, log.Config{Seeds: []string{c.seed}, ClientOpts: opts, Logger: lg})
			if err == nil {
				defer l.Close(ctx)
			}
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Fatalf("got %v\n%s", err, lines.String())
			}
			for _, hidden := range []string{"s3cret", secret} {
				if err != nil && strings.Contains(err.Error(), hidden) || strings.Contains(lines.String(), hidden) {
					t.Errorf("a password is shown: %v\n%s", err, lines.String())
				}
			}
		})
	}
}

func TestIdentitiesThatAreNone(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs []string
		key   string
		want  string
	}{
		{"no mechanism", []string{"security.protocol", "SASL_SSL"}, "sasl.mechanism", "no Kerberos"},
		{"Kerberos", []string{"security.protocol", "SASL_SSL", "sasl.mechanism", "GSSAPI"}, "sasl.mechanism", "no Kerberos"},
		{"no login", []string{"security.protocol", "SASL_SSL", "sasl.mechanism", "PLAIN"}, "sasl.jaas.config", "needs a user"},
		{"another's module", []string{"security.protocol", "SASL_SSL", "sasl.mechanism", "PLAIN", "sasl.jaas.config", jaas("scram.ScramLoginModule", "u", "s3cret")}, "sasl.jaas.config", "needs PlainLoginModule"},
		{"no password", []string{"security.protocol", "SASL_SSL", "sasl.mechanism", "PLAIN", "sasl.jaas.config", jaas("plain.PlainLoginModule", "u", "")}, "sasl.jaas.config", "needs a user"},
		{"no endpoint", []string{"security.protocol", "SASL_SSL", "sasl.mechanism", "OAUTHBEARER"}, "sasl.oauthbearer.token.endpoint.url", "address that gives tokens"},
		{"an endpoint that is a file", []string{"security.protocol", "SASL_SSL", "sasl.mechanism", "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url", "file:///nowhere/token"}, "sasl.oauthbearer.token.endpoint.url", "no such file"},
		{"an endpoint that is none", []string{"security.protocol", "SASL_SSL", "sasl.mechanism", "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url", "ftp://x/token"}, "sasl.oauthbearer.token.endpoint.url", "http or https"},
		{"no client", []string{"security.protocol", "SASL_SSL", "sasl.mechanism", "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url", "https://x"}, "sasl.oauthbearer.client.credentials.client.id", "client.secret"},
		{"a missing store", []string{"security.protocol", "SSL", "ssl.truststore.location", "nope"}, "ssl.truststore.location", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, errs := clusterConfig(t, c.pairs...).Options(nil, slog.New(slog.DiscardHandler))
			if len(errs) != 1 || errs[0].Key != c.key || !strings.Contains(errs[0].Error(), c.want) || strings.Contains(errs[0].Error(), "s3cret") {
				t.Errorf("got %v", errs)
			}
		})
	}
	for key, value := range map[string]string{"sasl.jaas.config": "com.sun.security.auth.module.JndiLoginModule required x=y;", "security.protocol": "TLS", "ssl.enabled.protocols": "SSLv3",
		"sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler", "producer.bootstrap.servers": "other:9092", "admin.sasl.login.class": "com.example.Login"} {
		p := distributed()
		p[key] = value
		if _, errs := ParseWorker(p); len(errs) != 1 || errs[0].Key != key {
			t.Errorf("%s: got %v", key, errs)
		}
	}
}

func TestTokensAreAskedForAndKept(t *testing.T) {
	var asked, life atomic.Int64
	var reply atomic.Value
	life.Store(3600)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		user, password, _ := r.BasicAuth()
		body, _ := io.ReadAll(r.Body)
		if text, ok := reply.Load().(string); ok && text != "" {
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, text)
			return
		}
		if user != "id%2F1" || password != "s3cret%3A" || string(body) != "grant_type=client_credentials&scope=kafka" || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"access_token": "token" + string(rune('0'+n)), "expires_in": life.Load()})
	}))
	defer srv.Close()
	c := clusterConfig(t, "security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url", srv.URL,
		"sasl.oauthbearer.client.credentials.client.id", "id/1", "sasl.oauthbearer.client.credentials.client.secret", "s3cret:", "sasl.oauthbearer.scope", "kafka",
		"sasl.jaas.config", `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required extension_traceId="7";`)
	m, err := c.signIn(nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first := func() (string, error) {
		_, message, err := m.Authenticate(t.Context(), "broker:9092")
		return string(message), err
	}
	for range 2 {
		got, err := first()
		if err != nil || !strings.Contains(got, "auth=Bearer token1\x01") || !strings.Contains(got, "traceId=7") {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times for one token", asked.Load())
	}
	life.Store(1) // out of date at once
	m, err = c.signIn(nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	first()
	if got, err := first(); err != nil || !strings.Contains(got, "token3") {
		t.Errorf("got %q, %v", got, err)
	}
	reply.Store(`{"error":"invalid_client"}`)
	if _, err := first(); err == nil || !strings.Contains(err.Error(), "invalid_client") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
	reply.Store(strings.Repeat("<html>", 10))
	if _, err := first(); err == nil || !strings.Contains(err.Error(), "401 Unauthorized") {
		t.Errorf("got %v", err)
	}
}

func TestUnsignedTokens(t *testing.T) {
	c := clusterConfig(t, "security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", "OAUTHBEARER", "sasl.jaas.config", `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="alice";`)
	m, errs := c.signIn(nil, nil, slog.New(slog.DiscardHandler))
	if errs != nil {
		t.Fatal(errs)
	}
	_, message, err := m.Authenticate(t.Context(), "broker:9092")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(message), "Bearer ")
	parts := strings.Split(strings.TrimRight(rest, "\x01"), ".")
	if len(parts) != 3 || parts[2] != "" {
		t.Fatalf("got %q", message)
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || !strings.Contains(string(claims), `"sub":"alice"`) {
		t.Errorf("got %s, %v", claims, err)
	}
}
