package hdfs

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/deploy/trial"
)

// A login that fails for a server that is down may be tried again; one that fails for what is configured waits for somebody.
func TestALoginThatFails(t *testing.T) {
	dir := t.TempDir()
	keys := keytab.New()
	if err := keys.AddEntry("alice", "PEER.TEST", "secret", time.Now(), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		t.Fatal(err)
	}
	b, err := keys.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"alice.keytab": b, "krb5.conf": []byte("[libdefaults]\n default_realm = PEER.TEST\n dns_lookup_kdc = false\n udp_preference_limit = 1\n[realms]\n PEER.TEST = {\n  kdc = 127.0.0.1:1\n }\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KRB5_CONFIG", filepath.Join(dir, "krb5.conf"))
	for _, c := range []struct {
		name, keytab, said string
		want               *connectors.Reason
	}{
		{"no KDC answers", "alice.keytab", "as alice@PEER.TEST", &unreachable},
		{"no keytab", "bob.keytab", "no such file", &unauthorized},
	} {
		v, errs := Sink2.Config.Parse(conf("127.0.0.1:1", "none", "hdfs.authentication.kerberos", "true", "connect.hdfs.principal", "alice@PEER.TEST",
			"connect.hdfs.keytab", filepath.Join(dir, c.keytab), "hdfs.namenode.principal", "hdfs/localhost@PEER.TEST"))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		tt, wrong := newTarget(contextOf(t), v)
		if wrong != nil {
			t.Fatal(wrong)
		}
		err := tt.with(t.Context(), "log in", func(*link) error { return nil })
		if f := connectors.FailureOf(err); f == nil || f.Reason != c.want || !strings.Contains(f.Cause, c.said) {
			t.Errorf("%s: %v", c.name, err)
		}
		if errs = (&sink{contextOf(t), v}).Validate(t.Context()); len(errs) != 1 || errs[0].Key != principal.Name {
			t.Errorf("%s: %v", c.name, errs)
		}
	}
}

// A cluster that wants Kerberos, and encrypts what is sent, takes files of who has the keytab.
func TestKerberos(t *testing.T) {
	protections := []string{"privacy"}
	if trial.Soak() {
		protections = append(protections, "integrity", "authentication")
	}
	for _, protection := range protections {
		t.Run(protection, func(t *testing.T) { testKerberos(t, protection) })
	}
}

func testKerberos(t *testing.T, protection string) {
	s := peers.HDFSOwn(t, peers.HDFSOptions{Kerberos: protection})
	t.Setenv("KRB5_CONFIG", filepath.Join(s.Secure, "krb5.conf"))
	keytab := filepath.Join(s.Secure, "alice.keytab")
	settings := map[string]string{"hdfs.url": "hdfs://" + s.NameNodes[0] + "/tmp/secure", "flush.size": "10", "format.class": "JsonFormat", "hdfs.authentication.kerberos": "true",
		"connect.hdfs.principal": "alice@PEER.TEST", "connect.hdfs.keytab": keytab,
		"hadoop.conf.dir": hadoopFiles(t, []string{"hadoop.security.authentication", "kerberos"}, []string{"dfs.data.transfer.protection", protection, "dfs.namenode.kerberos.principal", "hdfs/localhost@PEER.TEST"})}
	for from := int64(0); from < 40; from += 20 { // the second task finds what the first did
		run := connectortest.NewSinkRun(t, Sink3, nil, settings, true, topic)
		if run.Start[topic] != from {
			t.Errorf("starts at %d, want %d", run.Start[topic], from)
		}
		run.Put(records(from, from+20))
		run.FlushTo(topic, from+20)
		run.Close(false, topic)
	}
	for _, c := range []struct{ name, key, value, want string }{
		{"no such principal", "connect.hdfs.principal", "bob@PEER.TEST", "as bob@PEER.TEST"},
		{"no keytab", "connect.hdfs.keytab", keytab + "x", "no such file"},
		{"another NameNode's principal", "hdfs.namenode.principal", "nn/localhost@PEER.TEST", "nn/localhost"},
	} {
		wrong := maps.Clone(settings)
		wrong[c.key] = c.value
		run := connectortest.NewSinkRun(t, Sink3, nil, wrong, true)
		err := run.Open(topic)
		if f := connectors.FailureOf(err); f == nil || f.Reason != &unauthorized || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
