package mysql

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"software.sslmate.com/src/go-pkcs12"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
)

// TestTLSAndPasswords: every database.ssl.mode on a server with its own certificates, with
// a user of caching_sha2_password who must use TLS and one who need not.
func TestTLSAndPasswords(t *testing.T) {
	server := peers.MySQLOwn(t, peers.MySQLOptions{})
	d := databaseOn(t, server)
	data := d.text("SELECT @@datadir")
	ca := filepath.Join(data, "ca.pem")
	if _, err := os.Stat(ca); err != nil {
		t.Fatalf("the server made no certificates: %v", err)
	}
	d.exec("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	for _, u := range []struct{ name, more string }{{"plain", ""}, {"encrypted", " REQUIRE SSL"}, {"certified", " REQUIRE X509"}} {
		d.exec(fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED WITH caching_sha2_password BY 'p@ss ''word'%s", u.name, u.more),
			fmt.Sprintf("GRANT SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO %s@'%%'", u.name))
	}
	client := filepath.Join(t.TempDir(), "client.pem")
	var both []byte
	for _, f := range []string{"client-cert.pem", "client-key.pem"} {
		part, err := os.ReadFile(filepath.Join(data, f))
		if err != nil {
			t.Fatal(err)
		}
		both = append(append(both, part...), 10)
	}
	if err := os.WriteFile(client, both, 0o600); err != nil {
		t.Fatal(err)
	}
	trust, own, broken := filepath.Join(t.TempDir(), "trust.p12"), filepath.Join(t.TempDir(), "own.p12"), filepath.Join(t.TempDir(), "store.jks")
	writeStores(t, ca, both, trust, own)
	if err := os.WriteFile(broken, []byte("\xfe\xed\xfe\xed\x00\x00\x00\x02"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, user, mode string
		more             []string
		wrong            string // what the error says; empty: there is none
		reason           *connectors.Reason
	}{
		{"no TLS, and a password that is hashed with the server's key", "plain", "disabled", nil, "", nil},
		{"TLS where the server has it", "encrypted", "preferred", nil, "", nil},
		{"TLS that is required", "encrypted", "required", nil, "", nil},
		{"the server's certificate is one of its authority's", "encrypted", "verify_ca", []string{"database.ssl.truststore", ca}, "", nil},
		{"MariaDB's name of the mode", "encrypted", "verify-ca", []string{"database.ssl.truststore", ca}, "", nil},
		{"the client's own certificate", "certified", "required", []string{"database.ssl.keystore", client}, "", nil},
		{"an authority that does not know the server", "encrypted", "verify_ca", nil, "certificate", reasonTLS},
		{"a certificate of another name", "encrypted", "verify_identity", []string{"database.ssl.truststore", ca}, "certificate", reasonTLS},
		{"a user who must use TLS and does not", "encrypted", "disabled", nil, "Access denied", reasonLogin},
		{"a user without the certificate that is asked for", "certified", "required", nil, "Access denied", reasonLogin},
		{"stores of Java", "certified", "verify_ca", []string{"database.ssl.truststore", trust, "database.ssl.truststore.password", "trusted", "database.ssl.keystore", own, "database.ssl.keystore.password", "changeit"}, "", nil},
		{"a trust store with another password", "encrypted", "verify_ca", []string{"database.ssl.truststore", trust, "database.ssl.truststore.password", "other"}, "database.ssl.truststore.password: ", nil},
		{"a key store without its password", "certified", "required", []string{"database.ssl.keystore", own}, "database.ssl.keystore.password: ", nil},
		{"a store that is cut off", "encrypted", "verify_ca", []string{"database.ssl.truststore", broken}, "database.ssl.truststore: ", nil},
		{"a wrong password", "plain", "preferred", []string{"database.password", "wrong"}, "Access denied", reasonLogin},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := d.config(append([]string{"database.user", c.user, "database.password", "p@ss 'word", "database.ssl.mode", c.mode}, c.more...)...)
			if c.wrong != "" {
				conf["snapshot.mode"] = "no_data"
			}
			one := *d
			one.TB = t
			r := one.start(conf, &connectortest.OffsetStore{})
			if c.wrong == "" {
				streaming(r)
				if n := len(on(r.Records(), "p."+d.name+".t")); n != 1 {
					t.Errorf("%d rows", n)
				}
				r.Stop()
				return
			}
			err := r.Wait()
			if err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "p@ss") {
				t.Fatalf("the task ended with %v, want %q", err, c.wrong)
			}
			if f := connectors.FailureOf(err); c.reason != nil && (f == nil || f.Reason != c.reason) {
				t.Errorf("the reason of %v is not %s", err, c.reason.Code)
			}
		})
	}
}

// writeStores makes PKCS12 stores as keytool does: of an authority, and of a client's certificate with its key.
func writeStores(t *testing.T, ca string, client []byte, trust, own string) {
	t.Helper()
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(client, client)
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := pkcs12.Modern.EncodeTrustStore([]*x509.Certificate{authority}, "trusted")
	if err != nil {
		t.Fatal(err)
	}
	key, err := pkcs12.Modern.Encode(pair.PrivateKey, pair.Leaf, nil, "changeit")
	if err != nil {
		t.Fatal(err)
	}
	for path, store := range map[string][]byte{trust: trusted, own: key} {
		if err := os.WriteFile(path, store, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
