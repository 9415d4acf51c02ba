package runtime

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/log"
)

const serverPEM = "../schema/config/javatls/testdata/server.pem"

func logSettings(t *testing.T, pairs ...string) LogConfig {
	t.Helper()
	p := distributed()
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i]] = pairs[i+1]
	}
	c, errs := ParseWorker(p)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return c.Log
}

func TestListenersThatOthersReachAskWhoTheyAre(t *testing.T) {
	key := []string{"log.listener.ssl.keystore.location", serverPEM}
	mutual := append([]string{"log.listener.ssl.client.auth", "required", "log.listener.ssl.truststore.location", "../schema/config/javatls/testdata/ca.pem"}, key...)
	wanted := append([]string{"log.listener.ssl.client.auth", "requested", "log.listener.ssl.truststore.location", "../schema/config/javatls/testdata/ca.pem"}, key...)
	for _, c := range []struct {
		name, listeners string
		more            []string
		refused, warned string
	}{
		{"nothing said", "", nil, "", ""},
		{"no port", "none", nil, "", ""},
		{"loopback by name", "localhost:0", nil, "", ""},
		{"loopback of IPv6", "[::1]:0", nil, "", ""},
		{"all addresses", ":9092", nil, "insecure=true", ""},
		{"all addresses of IPv6", "[::]:9092", nil, "insecure=true", ""},
		{"a name", "PLAINTEXT://kafka.example:9092", nil, "insecure=true", ""},
		{"one of two", "PLAINTEXT://127.0.0.1:9092,PLAINTEXT://0.0.0.0:9093", nil, "PLAINTEXT://0.0.0.0:9093", ""},
		{"all addresses, on purpose", ":9092", []string{"insecure", "true"}, "", "insecure=true"},
		{"TLS alone", "SSL://0.0.0.0:9093", key, "client.auth=required", ""},
		{"TLS with certificates of clients that like to", "SSL://0.0.0.0:9093", wanted, "insecure=true", ""},
		{"TLS with certificates of clients", "SSL://0.0.0.0:9093", mutual, "", ""},
		{"SASL over TLS", "SASL_SSL://0.0.0.0:9093", key, "", ""},
		{"SASL without TLS", "SASL_PLAINTEXT://0.0.0.0:9093", nil, "", "SASL_SSL"},
		{"certificates without TLS", "PLAINTEXT://0.0.0.0:9093", mutual, "insecure=true", ""},
		{"TLS without a key", "SASL_SSL://0.0.0.0:9093", nil, "log.listener.ssl.keystore.location", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			pairs := c.more
			if c.listeners != "" {
				pairs = append([]string{"log.listeners", c.listeners}, pairs...)
			}
			var lines bytes.Buffer
			conf, err := logSettings(t, pairs...).Embedded(slog.New(slog.NewTextHandler(&lines, nil)))
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
				t.Fatalf("got %v", err)
			}
			if (c.warned == "") != (lines.Len() == 0) || !strings.Contains(lines.String(), c.warned) {
				t.Errorf("the log says %q, want %q", lines.String(), c.warned)
			}
			if err == nil && strings.Contains(c.listeners, "SSL") && conf.TLS == nil {
				t.Error("there is no TLS")
			}
		})
	}
}

func TestSettingsOfTheLogAreTakenOver(t *testing.T) {
	c := logSettings(t, "log.listeners", "SASL_PLAINTEXT://127.0.0.1:9092,PLAINTEXT://127.0.0.1:9093", "log.advertised.listeners", "SASL_PLAINTEXT://kafka.example:1,PLAINTEXT://127.0.0.1:2",
		"log.listener.sasl.enabled.mechanisms", "PLAIN", "log.listener.sasl.plain.without.tls", "true", "log.super.users", "User:admin; User:CN=ops,O=x",
		"log.connections.max.reauth.ms", "60000", "log.fsync", "interval:50ms", "log.num.partitions", "3", "log.auto.create.topics.enable", "false", "log.max.connections", "7",
		"log.max.connections.per.ip", "5", "log.connections.max.idle.ms", "-1", "log.socket.request.max.bytes", "2097152", "log.queued.max.request.bytes", "3145728", "log.queued.max.response.bytes", "5242880",
		"log.max.partitions", "11", "log.min.free.bytes", "13", "log.ballast.bytes", "-1", "log.scrub.bytes.per.second", "17", "log.on.io.error", "offline", "log.topic.retention.ms", "86400000")
	got, err := c.Embedded(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	want := log.Config{
		Listeners: []string{"SASL_PLAINTEXT://127.0.0.1:9092", "PLAINTEXT://127.0.0.1:9093"}, Advertised: []string{"SASL_PLAINTEXT://kafka.example:1", "PLAINTEXT://127.0.0.1:2"},
		Mechanisms: []string{"PLAIN"}, PlainWithoutTLS: true, SuperUsers: []string{"User:admin", "User:CN=ops,O=x"}, Reauth: time.Minute,
		Fsync: "interval:50ms", Partitions: 3, NoAutoCreate: true, Defaults: map[string]string{"retention.ms": "86400000"},
		Limits: log.Limits{Connections: 7, PerIP: 5, IdleTime: -time.Millisecond, MaxRequest: 2 << 20, RequestMemory: 3 << 20, AnswerMemory: 5 << 20, Partitions: 11, MinFree: 13, Ballast: -1, ScrubRate: 17},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !c.StayOffline {
		t.Errorf("got %+v", c)
	}
	for key, value := range map[string]string{"log.fsync": "sometimes", "log.listeners": "HTTP://x:1", "log.advertised.listeners": "x", "log.listener.sasl.enabled.mechanisms": "GSSAPI",
		"log.super.users": "admin", "log.topic.retention.ms": "soon", "log.topic.retention": "1", "log.connections.max.idle.ms": "0", "log.listener.ssl.client.auth": "maybe"} {
		p := maps.Clone(distributed())
		p[key] = value
		if _, errs := ParseWorker(p); len(errs) != 1 || errs[0].Key != key {
			t.Errorf("%s=%s: got %v", key, value, errs)
		}
	}
}

func TestUsersFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users")
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		want       map[string]string
		fails      string
	}{
		{"users", "# who may\nalice=won=der land \n\n bob = x\n", 0o600, map[string]string{"alice": "won=der land", "bob": " x"}, ""},
		{"nobody", "", 0o600, map[string]string{}, ""},
		{"others may read it", "alice=s3cret", 0o644, nil, "chmod 600"},
		{"a line without a password", "alice=x\ns3cret", 0o600, nil, "line 2: want NAME=PASSWORD"},
		{"an empty password", "alice=", 0o600, nil, "line 1"},
		{"a user twice", "alice=x\nalice=s3cret", 0o600, nil, "line 2: the user stands there twice"},
		{"no name", "=s3cret", 0o600, nil, "line 1"},
		{"a long line", strings.Repeat("s3cret", 1<<16), 0o600, nil, path},
	} {
		t.Run(c.name, func(t *testing.T) {
			os.Remove(path)
			if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
			conf, err := logSettings(t, "log.sasl.users.file", path).Embedded(slog.New(slog.DiscardHandler))
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Fatalf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows a password: %v", err)
			}
			if err == nil && !reflect.DeepEqual(conf.Passwords, c.want) {
				t.Errorf("got %v", conf.Passwords)
			}
		})
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := logSettings(t, "log.sasl.users.file", filepath.Dir(path)).Embedded(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a folder: %v", err)
	}
}

func TestNoConnectorReadsTheLogsSecrets(t *testing.T) {
	c := logSettings(t, "log.sasl.users.file", "users", "log.listener.ssl.keystore.location", serverPEM)
	if got := c.SecretFiles(); !reflect.DeepEqual(got, []string{"users", serverPEM}) {
		t.Errorf("got %v", got)
	}
}
