package cmd_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/peers"
	"millrace/deploy/peers/run"
)

// A secureKafka is a real Kafka with a listener for each way to reach it. Its certificate is for 127.0.0.1.
type secureKafka struct {
	*peers.KafkaServer
	stores string // folder of keys and certificates; their password is "changeit"
	key    *rsa.PrivateKey
}

// newSecureKafka knows alice and bob, whose passwords are "of alice" and "of bob".
func newSecureKafka(t *testing.T) *secureKafka {
	t.Helper()
	stores, err := filepath.Abs("../schema/config/javatls/testdata")
	if err != nil {
		t.Fatal(err)
	}
	k := &secureKafka{stores: stores}
	if k.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys.json")
	text := fmt.Sprintf(`{"keys":[{"kty":"RSA","use":"sig","alg":"RS256","kid":"1","n":%q,"e":%q}]}`,
		base64.RawURLEncoding.EncodeToString(k.key.N.Bytes()), base64.RawURLEncoding.EncodeToString(big.NewInt(int64(k.key.E)).Bytes()))
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k.KafkaServer = peers.KafkaOwn(t, strings.NewReplacer("STORES", stores, "KEYS", "file://"+keys).Replace(`
ssl.keystore.location=STORES/server.jks
ssl.keystore.password=changeit
ssl.truststore.location=STORES/trust.jks
ssl.truststore.password=changeit
listener.name.mutual.ssl.client.auth=required
listener.name.login.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="of alice" user_bob="of bob";
listener.name.login.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.login.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.clear.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.clear.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.tokens.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.tokens.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.tokens.oauthbearer.sasl.server.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
listener.name.tokens.oauthbearer.sasl.oauthbearer.jwks.endpoint.url=KEYS
listener.name.tokens.oauthbearer.sasl.oauthbearer.expected.audience=kafka
listener.name.tokens.oauthbearer.sasl.oauthbearer.expected.issuer=test
listener.name.unsigned.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.unsigned.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
`), run.KafkaListener{Name: "TLS", Protocol: "SSL"}, run.KafkaListener{Name: "MUTUAL", Protocol: "SSL"}, run.KafkaListener{Name: "LOGIN", Protocol: "SASL_SSL"},
		run.KafkaListener{Name: "CLEAR", Protocol: "SASL_PLAINTEXT"}, run.KafkaListener{Name: "TOKENS", Protocol: "SASL_SSL"}, run.KafkaListener{Name: "UNSIGNED", Protocol: "SASL_PLAINTEXT"})
	admin := k.admin(t)
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		var users []kadm.UpsertSCRAM
		for _, user := range []string{"alice", "bob"} {
			users = append(users, kadm.UpsertSCRAM{User: user, Mechanism: mechanism, Iterations: 4096, Password: "of " + user})
		}
		answers, err := admin.AlterUserSCRAMs(t.Context(), nil, users)
		if err == nil {
			err = answers.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// admin may do everything, over the listener without any security.
func (k *secureKafka) admin(t *testing.T) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.Addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// token is one of a user that the listener TOKENS takes.
func (k *secureKafka) token(t testing.TB, user string) string {
	t.Helper()
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Error(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	now := time.Now()
	text := part(map[string]string{"alg": "RS256", "typ": "JWT", "kid": "1"}) + "." +
		part(map[string]any{"sub": user, "aud": "kafka", "iss": "test", "scope": "all", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()})
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, k.key, crypto.SHA256, sum[:])
	if err != nil {
		t.Error(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig)
}

// tokenServer gives tokens to the client "shop" with the secret "s3cret".
func (k *secureKafka) tokenServer(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, secret, _ := r.BasicAuth(); id != "shop" || secret != "s3cret" || r.FormValue("grant_type") != "client_credentials" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client"}`)
			return
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"access_token": k.token(t, "shop"), "token_type": "bearer", "expires_in": 3600}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

const (
	plainLogin = "org.apache.kafka.common.security.plain.PlainLoginModule"
	scramLogin = "org.apache.kafka.common.security.scram.ScramLoginModule"
	oauthLogin = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
)

func login(module, user, password string) string {
	return fmt.Sprintf("%s required username=%q password=%q;", module, user, password)
}

// and are the settings of m and the pairs.
func and(m map[string]string, pairs ...string) map[string]string {
	return with(maps.Clone(m), pairs...)
}

// Every way to reach a secured cluster, and how each of them can be wrong, as a real Kafka sees it: --check says in a few seconds what to correct.
func TestTheConnectionToASecureCluster(t *testing.T) {
	k := newSecureKafka(t)
	store := func(name string) string { return filepath.Join(k.stores, name) }
	trust := map[string]string{"ssl.truststore.location": store("trust.jks"), "ssl.truststore.password": "changeit"}
	tls := and(trust, "security.protocol", "SSL")
	mutual := and(tls, "ssl.keystore.password", "changeit")
	signIn := and(trust, "security.protocol", "SASL_SSL")
	plain := and(signIn, "sasl.mechanism", "PLAIN")
	scram := and(signIn, "sasl.mechanism", "SCRAM-SHA-512")
	alice := login(scramLogin, "alice", "of alice")
	oauth := and(signIn, "sasl.mechanism", "OAUTHBEARER", "sasl.jaas.config", oauthLogin+" required;",
		"sasl.login.callback.handler.class", "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler")
	asked := and(oauth, "sasl.oauthbearer.token.endpoint.url", k.tokenServer(t),
		"sasl.oauthbearer.client.credentials.client.id", "shop", "sasl.oauthbearer.client.credentials.client.secret", "s3cret")
	kept := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(kept, []byte(k.token(t, "shop")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	unsigned := map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
		"sasl.jaas.config": oauthLogin + ` required unsecuredLoginStringClaim_sub="shop";`}
	authority, err := os.ReadFile(store("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	const right = "The settings are right, and the cluster "
	for _, c := range []struct {
		name, listener string
		settings       map[string]string
		says           []string
	}{
		{"TLS, the authority in a JKS store", "TLS", tls, []string{right}},
		{"in a PKCS12 store", "TLS", and(tls, "ssl.truststore.location", store("trust.p12"), "ssl.truststore.type", "PKCS12"), []string{right}},
		{"in a PEM file", "TLS", map[string]string{"security.protocol": "SSL", "ssl.truststore.location": store("ca.pem"), "ssl.truststore.type": "PEM"}, []string{right}},
		{"in the settings", "TLS", map[string]string{"security.protocol": "ssl", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": strings.ReplaceAll(string(authority), "\n", "\\n")}, []string{right}},
		{"another authority", "TLS", map[string]string{"security.protocol": "SSL", "ssl.truststore.location": store("other.pem")}, []string{"ssl.truststore.location"}},
		{"no authority", "TLS", map[string]string{"security.protocol": "SSL"}, []string{"ssl.truststore.location"}},
		{"a wrong password of the store", "TLS", and(tls, "ssl.truststore.password", "s3cret"), []string{"ssl.truststore.password"}},
		{"a certificate from a PKCS12 store", "MUTUAL", and(mutual, "ssl.keystore.location", store("client.p12"), "ssl.keystore.type", "PKCS12"), []string{right}},
		{"a certificate from a PEM file", "MUTUAL", and(tls, "ssl.keystore.location", store("client.pem"), "ssl.keystore.type", "PEM"), []string{right}},
		{"no certificate where one is wanted", "MUTUAL", tls, []string{"ssl.keystore.location"}},
		{"PLAIN", "LOGIN", and(plain, "sasl.jaas.config", login(plainLogin, "alice", "of alice")), []string{right}},
		{"SCRAM-SHA-256", "LOGIN", and(scram, "sasl.mechanism", "SCRAM-SHA-256", "sasl.jaas.config", alice), []string{right}},
		{"SCRAM-SHA-512", "LOGIN", and(scram, "sasl.jaas.config", alice), []string{right}},
		{"SCRAM without TLS", "CLEAR", map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": alice}, []string{right}},
		{"a wrong password of PLAIN", "LOGIN", and(plain, "sasl.jaas.config", login(plainLogin, "alice", "s3cret")), []string{"sasl.jaas.config"}},
		{"a wrong password of SCRAM", "LOGIN", and(scram, "sasl.jaas.config", login(scramLogin, "alice", "s3cret")), []string{"sasl.jaas.config"}},
		{"an unknown user", "LOGIN", and(scram, "sasl.jaas.config", login(scramLogin, "mallory", "s3cret")), []string{"sasl.jaas.config"}},
		{"a mechanism that the listener has not", "CLEAR", map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login(plainLogin, "alice", "s3cret")}, []string{"sasl.mechanism"}},
		{"tokens of a server", "TOKENS", asked, []string{right}},
		{"a token in a file", "TOKENS", and(oauth, "sasl.oauthbearer.token.endpoint.url", "file://"+kept), []string{right}},
		{"a file that is not there", "TOKENS", and(oauth, "sasl.oauthbearer.token.endpoint.url", "file:///nowhere/token"), []string{"sasl.oauthbearer.token.endpoint.url", "no such file"}},
		{"a wrong secret", "TOKENS", and(asked, "sasl.oauthbearer.client.credentials.client.secret", "s3cret too"), []string{"invalid_client", "sasl.oauthbearer.client.credentials.client.secret"}},
		{"no server of tokens", "TOKENS", and(asked, "sasl.oauthbearer.token.endpoint.url", "http://127.0.0.1:1/token"), []string{"sasl.oauthbearer.token.endpoint.url"}},
		{"an unsigned token", "UNSIGNED", unsigned, []string{right}},
		{"an unsigned token where signed ones are wanted", "TOKENS", and(signIn, "sasl.mechanism", "OAUTHBEARER", "sasl.jaas.config", unsigned["sasl.jaas.config"]), []string{"sasl.jaas.config"}},
		{"Kerberos", "LOGIN", and(signIn, "sasl.mechanism", "GSSAPI"), []string{"sasl.mechanism", "PLAIN, SCRAM-SHA-256"}},
		{"a class that is not ours", "LOGIN", and(scram, "sasl.jaas.config", alice, "sasl.login.callback.handler.class", "com.example.Login"), []string{"sasl.login.callback.handler.class", "com.example.Login"}},
		{"no TLS where there is TLS", "TLS", nil, []string{"security.protocol"}},
		{"TLS where there is none", "", tls, []string{"security.protocol"}},
		{"nobody signs in where one must", "CLEAR", nil, []string{"security.protocol"}},
		{"somebody signs in where nobody is asked", "", map[string]string{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": alice}, []string{"security.protocol"}},
		{"TLS is wanted and SASL as well", "LOGIN", tls, []string{"security.protocol"}},
		{"SASL in clear where there is TLS", "LOGIN", and(scram, "security.protocol", "SASL_PLAINTEXT", "sasl.jaas.config", alice), []string{"security.protocol"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := k.Addr
			if c.listener != "" {
				addr = k.Listeners[c.listener]
			}
			r := newGroup(t, addr, 1, c.settings)[0]
			r.args = []string{"distributed", "--check", "worker.properties"}
			status, said := r.fails(t)
			if well := slices.Contains(c.says, right); (status == 0) != well {
				t.Errorf("exit status %d", status)
			}
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q", want)
				}
			}
			noSecrets(t, said)
		})
	}
	t.Run("connectors sign in as somebody else", func(t *testing.T) { connectorsSignIn(t, k, and(scram, "sasl.jaas.config", alice)) })
}

func noSecrets(t *testing.T, said string) {
	t.Helper()
	for _, secret := range []string{"of alice", "of bob", "s3cret", "changeit"} {
		if strings.Contains(said, secret) {
			t.Errorf("the secret %q is told", secret)
		}
	}
}

// connectorsSignIn has alice's worker run connectors on a topic that is bob's alone: as the worker they may not use it, as bob they may.
func connectorsSignIn(t *testing.T, k *secureKafka, worker map[string]string) {
	topic := peers.Unique(t, "bobs")
	admin := k.admin(t)
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	answers, err := admin.CreateACLs(t.Context(), kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpAll).Allow("User:bob").AllowHosts())
	if err == nil && len(answers) > 0 {
		err = answers[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	// The worker's own settings make consumers bob; producers are whoever their connector says.
	settings := and(worker, "consumer.sasl.jaas.config", login(scramLogin, "bob", "of bob"), "exactly.once.source.support", "enabled")
	r := newGroup(t, k.Listeners["LOGIN"], 1, settings)[0]
	in, out := filepath.Join(r.dir, "in.txt"), filepath.Join(r.dir, "out.txt")
	appendTo(t, in, "one\ntwo\n")
	p := r.start(t)
	as := func(conf map[string]string, password string) map[string]string {
		for _, client := range []string{"producer", "admin"} {
			conf[client+".override.sasl.jaas.config"] = login(scramLogin, "bob", password)
		}
		return conf
	}
	p.create("alice", fileSource(in, topic))
	p.create("nobody", as(fileSource(in, topic), "s3cret"))
	p.create("bob", as(fileSource(in, topic), "of bob"))
	p.create("sink", fileSink(out, topic))
	p.until("bob's lines are in the file", time.Minute, func() (bool, string) {
		got := strings.Join(lines(out), ",")
		return got == "one,two", got
	})
	for name, says := range map[string]string{"alice": "TOPIC_AUTHORIZATION_FAILED", "nobody": "SASL_AUTHENTICATION_FAILED"} {
		p.until(name+"'s task has failed", time.Minute, func() (bool, string) {
			s, err := p.status(name)
			if err != nil || len(s.Tasks) != 1 {
				return false, fmt.Sprint(s, err)
			}
			return s.Tasks[0].State == "FAILED" && strings.Contains(s.Tasks[0].Trace, says), fmt.Sprintf("%+v", s)
		})
	}
	if status := p.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	noSecrets(t, p.log.String())
	// What a group can, one worker can.
	alone := newRuns(t, "--config", "bootstrap.servers="+k.Listeners["LOGIN"])
	for key, value := range worker {
		alone.args = append(alone.args, "--config", key+"="+value)
	}
	if status := alone.start(t).stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
