package hdfs

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/deploy/trial"
)

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
