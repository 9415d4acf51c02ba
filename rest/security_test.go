package rest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"millrace/runtime"
)

func hashOf(t testing.TB, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

func writeFile(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFilesOfUsers(t *testing.T) {
	h := hashOf(t, "secret")
	for _, row := range []struct {
		name, text string
		says       string // "" where it is right
	}{
		{"one user", "ada:" + h + "\n", ""},
		{"as Apache's htpasswd writes it", "ada:$2y$" + h[4:] + "\n", ""},
		{"several, comments, empty lines, Windows's line ends", "# users\r\n\r\nada:" + h + "\r\nbob:" + h, ""},
		{"a name with spaces and other scripts", "ada lövelace:" + h, ""},
		{"nothing", "", "names no user"},
		{"comments alone", "# ada\n", "names no user"},
		{"no colon", "ada\n", "line 1 is not NAME:HASH"},
		{"no name", ":" + h, "line 1 has no user's name"},
		{"a user twice", "ada:" + h + "\nada:" + h, `line 2: user "ada" is there already`},
		{"a password in clear", "ada:secret-in-clear\n", `user "ada" is not hashed with bcrypt; make the line with htpasswd -nB ada`},
		{"MD5", "ada:$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/", "not hashed with bcrypt"},
		{"SHA", "ada:{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE=", "not hashed with bcrypt"},
		{"crypt", "ada:rqXexS6ZhobKA", "not hashed with bcrypt"},
		{"a cost that would take hours", "ada:" + h[:4] + "31" + h[6:], "cost of 31"},
		{"a cost that is no number", "ada:" + h[:4] + "xx" + h[6:], "not hashed with bcrypt"},
		{"a hash cut short", "ada:" + h[:40], "not hashed with bcrypt"},
		{"a hash with more behind it", "ada:" + h + ":more", "not hashed with bcrypt"},
		{"a hash of other letters", "ada:" + h[:30] + "!" + h[31:], "not hashed with bcrypt"},
		{"not UTF-8", "\xff\xfe:" + h, "not UTF-8"},
		{"a zero byte in a hash", "ada:" + h[:59] + "\x00", "bcrypt"},
		{"more than there may be", strings.Repeat("#"+strings.Repeat("x", 1<<20)+"\n", 5), "more than"},
		{"binary", "\x7fELF\x00\x00:\x00", "bcrypt"},
	} {
		t.Run(row.name, func(t *testing.T) {
			u, err := OpenUsers(writeFile(t, filepath.Join(t.TempDir(), "users"), row.text), slog.New(slog.DiscardHandler))
			if row.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				name := "ada"
				if strings.HasPrefix(row.text, "ada l") {
					name = "ada lövelace"
				}
				if !u.SignsIn(t.Context(), name, "secret") || u.SignsIn(t.Context(), name, "Secret") || u.SignsIn(t.Context(), "eve", "secret") || u.SignsIn(t.Context(), name, "") || u.SignsIn(t.Context(), "", "") {
					t.Error("the wrong ones sign in")
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), row.says) {
				t.Fatalf("%v, want %q", err, row.says)
			}
			for _, secret := range []string{"secret-in-clear", "HqJZimcKQ", h[10:]} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%v shows a secret", err)
				}
			}
		})
	}
	for _, path := range []string{"/no/such/file", t.TempDir(), "/dev/zero"} {
		if _, err := OpenUsers(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func FuzzParseUsers(f *testing.F) {
	f.Add([]byte("ada:$2a$04$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234\n#x\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		users, err := parseUsers(b)
		if (err == nil) == (len(users) == 0) {
			t.Errorf("%q: %v, %v", b, users, err)
		}
	})
}

// TestUsersAreReadAnew: who is new signs in, who is gone no longer does, even if he did a moment ago; a file that is
// wrong changes nothing.
func TestUsersAreReadAnew(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "users"), "ada:"+hashOf(t, "one")+"\n")
	u, err := OpenUsers(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now := func(name, password string) bool {
		u.mu.Lock()
		u.looked = time.Time{} // a second has passed
		u.mu.Unlock()
		return u.SignsIn(t.Context(), name, password)
	}
	for range 2 { // the second time she is remembered
		if !now("ada", "one") {
			t.Fatal("ada does not sign in")
		}
	}
	writeFile(t, path, "ada:"+hashOf(t, "two")+"\nbob:"+hashOf(t, "three")+"\n")
	if now("ada", "one") || !now("ada", "two") || !now("bob", "three") {
		t.Error("the file's change is not seen")
	}
	writeFile(t, path, "bob:broken\n")
	if !now("ada", "two") || !now("bob", "three") {
		t.Error("a wrong file put users out")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if !now("bob", "three") {
		t.Error("a missing file put users out")
	}
	writeFile(t, path, "bob:"+hashOf(t, "three")+"\n")
	if now("ada", "two") || !now("bob", "three") {
		t.Error("ada signs in, and is gone")
	}
	var several sync.WaitGroup
	for range 20 {
		several.Go(func() {
			if !u.SignsIn(t.Context(), "bob", "three") || u.SignsIn(t.Context(), "bob", "four") {
				t.Error("many at once")
			}
		})
	}
	several.Wait()
}

// authority is a self-made one.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
}

// issue is a key and its certificate as one PEM text.
func (a *authority) issue(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b})) + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// serve serves the listeners of some properties until the test ends.
func serve(t *testing.T, properties map[string]string) *Listeners {
	t.Helper()
	ls, err := listen(t, properties)
	if err != nil {
		t.Fatal(err)
	}
	ctx, done := t.Context(), make(chan error, 1)
	go func() {
		done <- ls.Serve(ctx, Config{Herder: fakeHerder{delete: func(string) error { return runtime.NotFound("none") }}, Log: slog.New(slog.DiscardHandler)})
	}()
	t.Cleanup(func() { <-done })
	return ls
}

func TestHTTPS(t *testing.T) {
	dir := t.TempDir()
	ca, other := newAuthority(t), newAuthority(t)
	server := writeFile(t, filepath.Join(dir, "server.pem"), ca.issue(t, "server"))
	trust := writeFile(t, filepath.Join(dir, "ca.pem"), ca.pem)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	client := func(t *testing.T, roots *x509.CertPool, own string) *http.Client {
		t.Helper()
		c := &tls.Config{RootCAs: roots}
		if own != "" {
			cert, err := tls.X509KeyPair([]byte(own), []byte(own))
			if err != nil {
				t.Fatal(err)
			}
			c.Certificates = []tls.Certificate{cert}
		}
		tr := &http.Transport{TLSClientConfig: c}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr, Timeout: time.Minute}
	}
	status := func(c *http.Client, url string) int {
		r, err := c.Get(url + "/connectors/x/none")
		if err != nil {
			return 0
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode
	}
	t.Run("http and https side by side, the fallback to ssl.*", func(t *testing.T) {
		for _, prefix := range []string{"listeners.https.ssl.", "ssl."} {
			ls := serve(t, map[string]string{"listeners": "https://127.0.0.1:0,http://127.0.0.1:0", prefix + "keystore.location": server})
			if !strings.HasPrefix(ls.URL(), "https://") || !strings.HasPrefix(ls.Advertised(), "http://") {
				t.Errorf("%s advertised as %s", ls.URL(), ls.Advertised())
			}
			if got := status(client(t, pool, ""), ls.URL()); got != 404 {
				t.Errorf("%sstatus %d", prefix, got)
			}
			if got := status(client(t, nil, ""), ls.URL()); got != 0 {
				t.Errorf("a client that does not know the authority is answered: %d", got)
			}
			if got := status(http.DefaultClient, "http://"+ls.list[1].Addr().String()); got != 404 {
				t.Errorf("http: status %d", got)
			}
			if got := status(http.DefaultClient, "http://"+ls.list[0].Addr().String()); got != 400 {
				t.Errorf("http spoken to https: %d", got)
			}
		}
	})
	t.Run("a client must show a certificate", func(t *testing.T) {
		ls := serve(t, map[string]string{"listeners": "https://127.0.0.1:0", "listeners.https.ssl.keystore.location": server,
			"listeners.https.ssl.truststore.location": trust, "listeners.https.ssl.client.auth": "required"})
		if got := status(client(t, pool, ""), ls.URL()); got != 0 {
			t.Errorf("without one: %d", got)
		}
		if got := status(client(t, pool, other.issue(t, "eve")), ls.URL()); got != 0 {
			t.Errorf("with one of another authority: %d", got)
		}
		if got := status(client(t, pool, ca.issue(t, "ada")), ls.URL()); got != 404 {
			t.Errorf("with one: %d", got)
		}
	})
	t.Run("the administration has TLS of its own", func(t *testing.T) {
		ls := serve(t, map[string]string{"listeners": "http://127.0.0.1:0", "admin.listeners": "https://127.0.0.1:0", "admin.listeners.https.ssl.keystore.location": server,
			"listeners.https.ssl.keystore.location": "/no/such/file"})
		if got := status(client(t, pool, ""), "https://"+ls.list[1].Addr().String()); got != 404 {
			t.Errorf("status %d", got)
		}
	})
	users := writeFile(t, filepath.Join(dir, "users"), "ada:"+hashOf(t, "secret")+"\n")
	for _, row := range []struct {
		name       string
		properties map[string]string
		says       string // "" where it opens
	}{
		{"https without a key", map[string]string{"listeners": "https://127.0.0.1:0"}, "keystore.location"},
		{"a key that is not there", map[string]string{"listeners": "https://127.0.0.1:0", "listeners.https.ssl.keystore.location": "/no/such/file"}, "listeners.https.ssl.keystore.location"},
		{"open to others with certificates", map[string]string{"listeners": "https://0.0.0.0:0", "listeners.https.ssl.keystore.location": server, "listeners.https.ssl.truststore.location": trust, "listeners.https.ssl.client.auth": "required"}, ""},
		{"open to others, certificates wished for", map[string]string{"listeners": "https://0.0.0.0:0", "listeners.https.ssl.keystore.location": server, "listeners.https.ssl.truststore.location": trust, "listeners.https.ssl.client.auth": "requested"}, "insecure=true"},
		{"open to others without a sign-in", map[string]string{"listeners": "https://0.0.0.0:0", "listeners.https.ssl.keystore.location": server}, "rest.auth=basic"},
		{"open to others with one", map[string]string{"listeners": "https://0.0.0.0:0", "listeners.https.ssl.keystore.location": server, "rest.auth": "basic", "rest.auth.file": users}, ""},
		{"open to others with Connect's extension", map[string]string{"listeners": "http://0.0.0.0:0", "rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension", "rest.auth.file": users}, ""},
		{"the extension without our file", map[string]string{"rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"}, "java.security.auth.login.config"},
		{"another extension", map[string]string{"rest.extension.classes": "com.example.Auth"}, "rest.auth=basic"},
		{"a sign-in without a file", map[string]string{"rest.auth": "basic"}, "rest.auth.file"},
		{"a file without a sign-in", map[string]string{"rest.auth.file": users}, "rest.auth=basic"},
		{"a file that is not there", map[string]string{"rest.auth": "basic", "rest.auth.file": "/no/such/users"}, "/no/such/users"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := listen(t, row.properties)
			if row.says == "" && err != nil || row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says)) {
				t.Errorf("%v, want %q", err, row.says)
			}
		})
	}
}

// ask is a raw request, with the headers a browser would send.
func ask(t *testing.T, method, url string, headers map[string]string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range headers {
		if k == "user" {
			name, password, _ := strings.Cut(v, ":")
			r.SetBasicAuth(name, password)
			continue
		}
		r.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res
}

func TestWhoSignsIn(t *testing.T) {
	users := writeFile(t, filepath.Join(t.TempDir(), "users"), "ada:"+hashOf(t, "secret")+"\n")
	ls := serve(t, map[string]string{"listeners": "http://127.0.0.1:0", "rest.auth": "basic", "rest.auth.file": users, "access.control.allow.origin": "https://ui.example"})
	for _, row := range []struct {
		name, method, path string
		headers            map[string]string
		status             int
	}{
		{"nobody", "DELETE", "/connectors/x", nil, 401},
		{"ada", "DELETE", "/connectors/x", map[string]string{"user": "ada:secret"}, 404},
		{"ada again", "DELETE", "/connectors/x", map[string]string{"user": "ada:secret"}, 404},
		{"a wrong password", "DELETE", "/connectors/x", map[string]string{"user": "ada:Secret"}, 401},
		{"a user that there is not", "DELETE", "/connectors/x", map[string]string{"user": "eve:secret"}, 401},
		{"another scheme", "DELETE", "/connectors/x", map[string]string{"Authorization": "Bearer ada:secret"}, 401},
		{"damaged base64", "DELETE", "/connectors/x", map[string]string{"Authorization": "Basic ?"}, 401},
		{"the health", "GET", "/health", nil, 401},
		{"metrics", "GET", "/metrics", nil, 401},
		{"a path that there is not", "GET", "/nothing", nil, 401},
		{"a page of another origin, even with a password", "DELETE", "/connectors/x", map[string]string{"user": "ada:secret", "Origin": "https://evil.example"}, 403},
		{"a browser's question before the real request carries no password", "OPTIONS", "/connectors/x", map[string]string{"Origin": "https://ui.example", "Access-Control-Request-Method": "POST"}, 204},
		{"a plain OPTIONS does", "OPTIONS", "/connectors", nil, 401},
		{"something that only looks like a call between workers", "POST", "/connectors/x/tasks/0/restart", nil, 401},
		{"another method", "GET", "/connectors/x/tasks", nil, 401},
		{"no name", "POST", "/connectors//tasks", nil, 401},
		{"a name with an encoded slash is one name", "DELETE", "/connectors/x%2Ftasks", nil, 401},
	} {
		t.Run(row.name, func(t *testing.T) {
			res := ask(t, row.method, ls.URL()+row.path, row.headers)
			if res.StatusCode != row.status {
				t.Errorf("status %d, want %d", res.StatusCode, row.status)
			}
			if challenged := res.Header.Get("WWW-Authenticate") != ""; challenged != (res.StatusCode == 401) {
				t.Errorf("challenge %q", res.Header.Get("WWW-Authenticate"))
			}
		})
	}
	// Calls between workers are signed, and need no password: what they are without a signature is not for here to say.
	for _, row := range [][2]string{{"POST", "/connectors/x/tasks"}, {"PUT", "/connectors/x/fence"}} {
		if !internalCall(row[0], row[1]) {
			t.Errorf("%s %s is a call between workers", row[0], row[1])
		}
	}
}

func TestPagesOfOtherOrigins(t *testing.T) {
	const preflight = "Access-Control-Request-Method"
	for _, row := range []struct {
		name           string
		origins        string
		methods        string
		method         string
		headers        map[string]string
		status         int
		allowed        string // origin
		allowedMethods string
	}{
		{"nothing is set: no page may read", "", "", "GET", map[string]string{"Origin": "https://ui.example"}, 404, "", ""},
		{"nothing is set: no page may act", "", "", "DELETE", map[string]string{"Origin": "https://ui.example"}, 403, "", ""},
		{"a trusted page acts", "https://ui.example", "", "DELETE", map[string]string{"Origin": "https://ui.example", "Sec-Fetch-Site": "cross-site"}, 404, "https://ui.example", ""},
		{"a trusted page's question, Chrome's", "https://ui.example", "", "OPTIONS", map[string]string{"Origin": "https://ui.example", preflight: "POST", "Access-Control-Request-Headers": "content-type", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "empty"}, 204, "https://ui.example", "GET, POST, HEAD"},
		{"a method that is not let in", "https://ui.example", "", "OPTIONS", map[string]string{"Origin": "https://ui.example", preflight: "DELETE"}, 204, "https://ui.example", ""},
		{"methods of one's own, in small letters", "https://ui.example", "get,delete", "OPTIONS", map[string]string{"Origin": "https://ui.example", preflight: "DELETE"}, 204, "https://ui.example", "GET, DELETE"},
		{"another page's question", "https://ui.example", "", "OPTIONS", map[string]string{"Origin": "https://evil.example", preflight: "POST"}, 200, "", ""},
		{"another page acts", "https://ui.example", "", "DELETE", map[string]string{"Origin": "https://evil.example"}, 403, "", ""},
		{"another port is another origin", "https://ui.example", "", "DELETE", map[string]string{"Origin": "https://ui.example:8443"}, 403, "", ""},
		{"another scheme is another origin", "https://ui.example", "", "DELETE", map[string]string{"Origin": "http://ui.example"}, 403, "", ""},
		{"a name that begins alike", "https://ui.example", "", "DELETE", map[string]string{"Origin": "https://ui.example.evil.example"}, 403, "", ""},
		{"part of a name", "https://*.example", "", "DELETE", map[string]string{"Origin": "https://a.b.example"}, 404, "https://a.b.example", ""},
		{"part of a name takes no more", "https://*.example", "", "DELETE", map[string]string{"Origin": "https://evil.test/.example"}, 403, "", ""},
		{"a sandboxed page", "https://*", "", "DELETE", map[string]string{"Origin": "null"}, 403, "", ""},
		{"everybody reads", "*", "", "GET", map[string]string{"Origin": "https://any.example"}, 404, "*", ""},
		{"everybody reads, and does not act", "*", "GET,POST,DELETE", "DELETE", map[string]string{"Origin": "https://any.example"}, 403, "*", ""},
		{"everybody's question about acting", "*", "GET,POST,DELETE", "OPTIONS", map[string]string{"Origin": "https://any.example", preflight: "DELETE"}, 204, "*", ""},
		{"everybody reads, one acts", "*,https://ui.example", "", "DELETE", map[string]string{"Origin": "https://ui.example"}, 404, "https://ui.example", ""},
		{"no browser", "https://ui.example", "", "DELETE", nil, 404, "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			ls := serve(t, map[string]string{"listeners": "http://127.0.0.1:0", "access.control.allow.origin": row.origins, "access.control.allow.methods": row.methods})
			path := "/connectors/x"
			if row.method == "GET" {
				path = "/connectors/x/none"
			}
			res := ask(t, row.method, ls.URL()+path, row.headers)
			if res.StatusCode != row.status {
				t.Errorf("status %d, want %d", res.StatusCode, row.status)
			}
			if got := res.Header.Get("Access-Control-Allow-Origin"); got != row.allowed {
				t.Errorf("allowed origin %q, want %q", got, row.allowed)
			}
			if got := res.Header.Get("Access-Control-Allow-Methods"); got != row.allowedMethods {
				t.Errorf("allowed methods %q, want %q", got, row.allowedMethods)
			}
			if credentials := res.Header.Get("Access-Control-Allow-Credentials"); (credentials != "") != (row.allowed != "" && row.allowed != "*") {
				t.Errorf("credentials %q for origin %q", credentials, row.allowed)
			}
			if row.allowed != "" && !strings.Contains(strings.Join(res.Header.Values("Vary"), ","), "Origin") {
				t.Error("a cache would give one origin's answer to another")
			}
		})
	}
	ls := serve(t, map[string]string{"listeners": "http://127.0.0.1:0", "access.control.allow.origin": "https://ui.example"})
	res := ask(t, "OPTIONS", ls.URL()+"/connectors", map[string]string{"Origin": "https://ui.example", preflight: "POST", "Access-Control-Request-Private-Network": "true"})
	if res.Header.Get("Access-Control-Allow-Private-Network") != "true" {
		t.Error("a page on the network outside may not ask this machine")
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	ls := serve(t, map[string]string{"listeners": "http://127.0.0.1:0", "response.http.headers.config": `set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store, must-revalidate", setDate Expires: 31540000000, add X-Two: a, add X-Two: b, set Content-Security-Policy: default-src 'self'; img-src https://x.example:8443`})
	for _, path := range []string{"/connectors/x", "/nothing"} {
		res := ask(t, "DELETE", ls.URL()+path, nil)
		h := res.Header
		if h.Get("X-Frame-Options") != "DENY" || h.Get("Cache-Control") != "no-cache, no-store, must-revalidate" || len(h.Values("X-Two")) != 2 || !strings.HasSuffix(h.Get("Content-Security-Policy"), ":8443") {
			t.Errorf("%v", h)
		}
		if at, err := http.ParseTime(h.Get("Expires")); err != nil || time.Until(at) < 364*24*time.Hour {
			t.Errorf("Expires %q", h.Get("Expires"))
		}
	}
	for text, says := range map[string]string{
		"set X": "ACTION NAME:VALUE", "put X: y": "set, add, setDate, addDate", "set X Y: z": "no name of a header", "set : z": "no name of a header",
		"setDate Expires: soon": "milliseconds", `set "X: y`: "quote is not closed", "set X: a\r\nSet-Cookie: evil=1": "line breaks", "set X\r\nY: z": "no name of a header",
		"set Dåte: x": "no name of a header",
	} {
		if _, err := listen(t, map[string]string{"listeners": "http://127.0.0.1:0", "response.http.headers.config": text}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	for key, values := range map[string][]string{
		"access.control.allow.origin":  {"ui.example", "https://ui.example/path", "ftp://x", "https://u@x", "https://x\r\ny"},
		"access.control.allow.methods": {"BREW", "GET POST"},
	} {
		for _, v := range values {
			if _, err := listen(t, map[string]string{"listeners": "http://127.0.0.1:0", key: v}); err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("%s=%q: %v", key, v, err)
			}
		}
	}
}

// TestAFloodOfConnectionsLeavesTheServerAnswering: those beyond the bound are closed, and others are served once there is room.
func TestAFloodOfConnectionsLeavesTheServerAnswering(t *testing.T) {
	ls := serve(t, map[string]string{"listeners": "http://127.0.0.1:0"})
	addr := ls.list[0].Addr().String()
	var conns []net.Conn
	for range maxConnections + 50 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			break
		}
		conns = append(conns, c)
	}
	if len(conns) < maxConnections {
		t.Skipf("only %d connections can be made here", len(conns))
	}
	_ = conns[len(conns)-1].SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := conns[len(conns)-1].Read(make([]byte, 1)); err == nil || strings.Contains(fmt.Sprint(err), "timeout") {
		t.Errorf("a connection beyond the bound stays open: %v", err)
	}
	for _, c := range conns {
		c.Close()
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		r, err := http.Get("http://" + addr + "/nothing")
		if err == nil {
			r.Body.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
