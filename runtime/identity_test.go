package runtime

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestIdentitiesOfClients: a client is who the worker is, but for what the worker's settings for such clients change, and over them a connector's.
func TestIdentitiesOfClients(t *testing.T) {
	const plain = "plain.PlainLoginModule"
	ca, err := os.ReadFile(stores + "ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	below := t.TempDir()
	for _, name := range []string{"ca.pem", "other.pem"} {
		b, err := os.ReadFile(stores + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(below, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	files, err := NewFileRoots([]string{below}, []string{filepath.Join(below, "other.pem")})
	if err != nil {
		t.Fatal(err)
	}
	worker := map[string]string{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas(plain, "worker", "s3cret"),
		"ssl.truststore.location": stores + "trust.jks", "ssl.truststore.password": "changeit"}
	const oauthModule = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
	tokens := map[string]string{"producer.sasl.mechanism": "OAUTHBEARER", "producer.sasl.jaas.config": oauthModule, "producer.sasl.oauthbearer.token.endpoint.url": "https://own/token",
		"producer.sasl.oauthbearer.client.credentials.client.id": "worker", "producer.sasl.oauthbearer.client.credentials.client.secret": "s3cret"}
	for _, c := range []struct {
		name      string
		own       map[string]string // of the worker, beside its identity
		connector map[string]string
		user      string // who signs in; "" where the client is who the worker is
		wrong     string // the key that is wrong
		says      string
	}{
		{"nothing is given", nil, map[string]string{"producer.override.linger.ms": "5"}, "", "", ""},
		{"the same is given, as Connect wants it", map[string]string{"producer.security.protocol": " SASL_SSL", "producer.sasl.jaas.config": worker["sasl.jaas.config"]}, nil, "", "", ""},
		{"another kind of client is somebody else", map[string]string{"consumer.sasl.jaas.config": jaas(plain, "c", "s3cret")}, map[string]string{"admin.override.sasl.jaas.config": jaas(plain, "a", "s3cret")}, "", "", ""},
		{"producers are somebody else", map[string]string{"producer.sasl.jaas.config": jaas(plain, "p", "s3cret")}, nil, "p", "", ""},
		{"a connector's producer is", nil, map[string]string{"producer.override.sasl.jaas.config": jaas(plain, "o", "s3cret")}, "o", "", ""},
		{"a connector goes before the worker", map[string]string{"producer.sasl.jaas.config": jaas(plain, "p", "s3cret")}, map[string]string{"producer.override.sasl.jaas.config": jaas(plain, "o", "s3cret")}, "o", "", ""},
		{"a store as text for one in a file", map[string]string{"producer.ssl.truststore.certificates": string(ca)}, nil, "worker", "", ""},
		{"a file for a store as text", map[string]string{"producer.ssl.truststore.certificates": string(ca)}, map[string]string{"producer.override.ssl.truststore.location": filepath.Join(below, "ca.pem")}, "worker", "", ""},
		{"a store that is not there", map[string]string{"producer.ssl.truststore.location": "nope"}, nil, "", "producer.ssl.truststore.location", "no such file"},
		{"a password that the worker had", map[string]string{"producer.ssl.truststore.password": "s3cret"}, nil, "", "producer.ssl.truststore.password", "does not open it"},
		{"a connector's file that none may open", nil, map[string]string{"producer.override.ssl.truststore.location": filepath.Join(below, "other.pem")}, "", "producer.override.ssl.truststore.location", ""},
		{"a connector's file outside", nil, map[string]string{"producer.override.ssl.truststore.location": stores + "ca.pem"}, "", "producer.override.ssl.truststore.location", ""},
		{"a connector's token outside", nil, map[string]string{"producer.override.sasl.mechanism": "OAUTHBEARER", "producer.override.sasl.oauthbearer.token.endpoint.url": "file:///etc/hostname",
			"producer.override.sasl.jaas.config": oauthModule}, "", "producer.override.sasl.oauthbearer.token.endpoint.url", ""},
		{"a connector's server of tokens, with the worker's credentials", tokens, map[string]string{"producer.override.sasl.oauthbearer.token.endpoint.url": "https://other/token"},
			"", "producer.override.sasl.oauthbearer.token.endpoint.url", "not for another server"},
		{"a connector's server of tokens, with half of the worker's credentials", tokens, map[string]string{"producer.override.sasl.oauthbearer.token.endpoint.url": "https://other/token",
			"producer.override.sasl.oauthbearer.client.credentials.client.id": "o"}, "", "producer.override.sasl.oauthbearer.token.endpoint.url", "not for another server"},
		{"a connector's server of tokens, with a login that has none", tokens, map[string]string{"producer.override.sasl.oauthbearer.token.endpoint.url": "https://other/token",
			"producer.override.sasl.jaas.config": oauthModule}, "", "producer.override.sasl.oauthbearer.token.endpoint.url", "not for another server"},
		{"a mechanism that does not fit the worker's login", nil, map[string]string{"producer.override.sasl.mechanism": "SCRAM-SHA-512"}, "", "sasl.jaas.config", "needs ScramLoginModule"},
		{"Kerberos", nil, map[string]string{"producer.override.sasl.mechanism": "GSSAPI"}, "", "producer.override.sasl.mechanism", "no Kerberos"},
		{"another cluster", nil, map[string]string{"producer.override.bootstrap.servers": "other:9092"}, "", "producer.override.bootstrap.servers", "cluster of its own"},
		{"the same cluster", nil, map[string]string{"producer.override.bootstrap.servers": distributed()["bootstrap.servers"]}, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := distributed()
			for _, m := range []map[string]string{worker, c.own} {
				for k, v := range m {
					p[k] = v
				}
			}
			w, errs := ParseWorker(p)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			client, errs := w.ClientOverrides(Producer, c.connector)
			if client.Identity != nil && len(errs) == 0 {
				_, errs = client.Identity.Options(files, slog.New(slog.DiscardHandler))
			}
			if c.wrong != "" {
				if len(errs) != 1 || errs[0].Key != c.wrong || !strings.Contains(errs[0].Error(), c.says) || strings.Contains(errs[0].Error(), "s3cret") {
					t.Errorf("got %v", errs)
				}
				return
			}
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if (client.Identity == nil) != (c.user == "") {
				t.Fatalf("identity %v, want %q", client.Identity, c.user)
			}
			if c.user == "" {
				return
			}
			m, wrong := client.Identity.signIn(nil, files, slog.New(slog.DiscardHandler))
			if wrong != nil {
				t.Fatal(wrong)
			}
			_, message, err := m.Authenticate(t.Context(), "broker:9092")
			if err != nil || !slices.Contains(strings.Split(string(message), "\x00"), c.user) {
				t.Errorf("%q signs in, want %s: %v", message, c.user, err)
			}
		})
	}
}
