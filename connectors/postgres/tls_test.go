package postgres

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/deploy/peers"
)

// An authority signs certificates.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir, name string) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, dir: dir, key: key, cert: &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}}
	a.write(name+".pem", "CERTIFICATE", a.sign(a.cert, &key.PublicKey))
	return a
}

func (a *authority) sign(c *x509.Certificate, key *ecdsa.PublicKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func (a *authority) write(name, kind string, der []byte) {
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// issue writes <name>.pem and <name>.key, and the key in the DER form as <name>.pk8.
func (a *authority) issue(name string, hosts ...string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: hosts}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		}
	}
	a.write(name+".pem", "CERTIFICATE", a.sign(c, &key.PublicKey))
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".key", "PRIVATE KEY", der)
	if err := os.WriteFile(filepath.Join(a.dir, name+".pk8"), der, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// TestEncryption: each sslmode against users whom the server lets in with TLS alone,
// without it alone, or by a client's certificate alone.
func TestEncryption(t *testing.T) {
	peers.Postgres(t) // which brings the user postgres and openssl
	dir, err := os.MkdirTemp("", "tls")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ca := newAuthority(t, dir, "ca")
	newAuthority(t, dir, "other")
	ca.issue("server", "localhost") // not 127.0.0.1
	ca.issue("bycert")
	if os.Getuid() == 0 { // the server runs as another user then
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		for _, f := range []string{"server.pem", "server.key", "ca.pem"} {
			if err := os.Chown(filepath.Join(dir, f), uid, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	hba := []string{"host all postgres 127.0.0.1/32 trust", "host replication postgres 127.0.0.1/32 trust", "host all postgres ::1/128 trust"}
	for _, net := range []string{"127.0.0.1/32", "::1/128"} {
		hba = append(hba, "hostssl all tls "+net+" trust", "hostnossl all plain "+net+" trust", "hostssl all bycert "+net+" cert")
	}
	server := peers.PostgresOwn(t, peers.PostgresOptions{HBA: hba, Settings: map[string]string{
		"ssl": "on", "ssl_cert_file": at("server.pem"), "ssl_key_file": at("server.key"), "ssl_ca_file": at("ca.pem")}})
	d := databaseOn(t, server)
	for _, role := range []string{"tls", "plain", "bycert"} {
		d.exec("CREATE ROLE " + role + " LOGIN REPLICATION")
	}
	encrypted := filepath.Join(dir, "encrypted.key")
	openssl := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("openssl", args...).CombinedOutput(); err != nil {
			t.Fatalf("openssl: %v\n%s", err, out)
		}
	}
	openssl("pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", at("bycert.key"), "-passout", "pass:"+secret, "-out", encrypted)
	openssl("pkcs8", "-topk8", "-v2", "des3", "-v2prf", "hmacWithSHA1", "-outform", "DER", "-in", at("bycert.key"), "-passout", "pass:"+secret, "-out", at("encrypted.pk8"))
	cert := func(key string, more ...string) []string {
		return append([]string{"database.sslcert", at("bycert.pem"), "database.sslkey", at(key)}, more...)
	}
	for _, c := range []struct {
		name, user, mode string
		more             []string
		wrong            string // a word of the error; empty: it works
	}{
		{"disable, where TLS is wanted", "tls", "disable", nil, "pg_hba.conf"},
		{"disable", "plain", "disable", nil, ""},
		{"allow tries without TLS, then with it", "tls", "allow", nil, ""},
		{"allow", "plain", "allow", nil, ""},
		{"prefer", "tls", "prefer", nil, ""},
		{"prefer tries with TLS, then without it", "plain", "prefer", nil, ""},
		{"require", "tls", "require", nil, ""},
		{"require, where TLS is not let in", "plain", "require", nil, "pg_hba.conf"},
		{"require with another authority", "tls", "require", []string{"database.sslrootcert", at("other.pem")}, "certificate"},
		{"verify-ca", "tls", "verify-ca", []string{"database.sslrootcert", at("ca.pem")}, ""},
		{"verify-ca with another authority", "tls", "verify-ca", []string{"database.sslrootcert", at("other.pem")}, "certificate"},
		{"verify-full by a name that the certificate lacks", "tls", "verify-full", []string{"database.sslrootcert", at("ca.pem")}, "127.0.0.1"},
		{"verify-full by its name", "tls", "verify-full", []string{"database.sslrootcert", at("ca.pem"), "database.hostname", "localhost"}, ""},
		{"a certificate is wanted and there is none", "bycert", "require", nil, "certificate"},
		{"a client's certificate", "bycert", "require", cert("bycert.key"), ""},
		{"its key as Java's driver wants it", "bycert", "require", cert("bycert.pk8"), ""},
		{"an encrypted key", "bycert", "require", cert("encrypted.key", "database.sslpassword", secret), ""},
		{"an encrypted key as Java's driver wants it", "bycert", "require", cert("encrypted.pk8", "database.sslpassword", secret), ""},
		{"an encrypted key with another password", "bycert", "require", cert("encrypted.key", "database.sslpassword", "wrong"), "database.sslpassword"},
		{"a certificate without its key", "bycert", "require", []string{"database.sslcert", at("bycert.pem")}, "database.sslkey"},
		{"a file that is not there", "bycert", "require", cert("absent.key"), "absent.key"},
		{"a file that holds no key", "bycert", "require", cert("ca.pem"), "database.sslkey"},
		{"an authority's file that holds none", "tls", "verify-ca", []string{"database.sslrootcert", at("bycert.key")}, "database.sslrootcert"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, errs := Source.Config.Parse(d.config(append([]string{"database.user", c.user, "database.sslmode", c.mode}, c.more...)...))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			s, errs := parse(v)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			se, err := s.open(t.Context(), nil)
			if err == nil {
				rows, asked := se.query(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
				se.close()
				if asked != nil || (rows[0][0].text == "t") != (c.user != "plain") {
					t.Errorf("encrypted: %v (%v)", rows, asked)
				}
			}
			conn, _, again := s.openReplication(t.Context(), nil)
			if again == nil {
				_ = conn.Close(t.Context())
			}
			for _, err := range []error{err, again} {
				switch {
				case c.wrong == "" && err != nil:
					t.Errorf("%v", err)
				case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
					t.Errorf("the error %v has not the word %q", err, c.wrong)
				case err != nil && strings.Contains(err.Error(), secret):
					t.Errorf("the password is in the error: %v", err)
				case err != nil && connectors.RetryOf(err) == connectors.RetryHelps:
					t.Errorf("an error that does not pass by itself is said to: %v", err)
				}
			}
		})
	}
}

// FuzzKeys: any bytes where an encrypted key belongs.
func FuzzKeys(f *testing.F) {
	f.Add([]byte{0x30, 0x03, 0x02, 0x01, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = decryptPKCS8(b, "password")
	})
}
