package cmd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"millrace/log"
	"millrace/log/logtest"
)

// selfSigned is a key and a certificate for 127.0.0.1 as PEM, and what trusts it.
func selfSigned(t *testing.T) (identity, trusted string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "registry"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	trusted = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(trusted))
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})) + trusted, trusted, pool
}

var (
	registryAt = regexp.MustCompile(`registry=(https://\S+)`)
	writerIs   = regexp.MustCompile(`joined the group of schema registries.* generation=(\d+) writer=("this one"|\S+)`)
)

// registries are workers on one cluster with a registry each, behind TLS and a sign-in.
type registries struct {
	t      *testing.T
	client *http.Client
	all    map[string]*process // by the registry's address
}

// ask is the status and body of a request to one of them; signed says with a sign-in.
func (r *registries) ask(url, method, path, body string, signed bool) (int, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	if signed {
		req.SetBasicAuth("ada", "s3cret")
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// register registers a schema at one of them, however often it takes while they agree on who writes, and answers its id.
func (r *registries) register(url, subject string, n int) (id int) {
	r.t.Helper()
	schema, _ := json.Marshal(fmt.Sprintf(`{"type":"record","name":"R%d","fields":[]}`, n))
	r.all[url].until("a schema is registered at "+url, 2*time.Minute, func() (bool, string) {
		status, body := r.ask(url, "POST", "/subjects/"+subject+"/versions", `{"schema":`+string(schema)+`}`, true)
		var got struct{ ID int }
		if status == 200 && json.Unmarshal([]byte(body), &got) == nil {
			id = got.ID
			return true, ""
		}
		if status < 500 {
			r.t.Fatalf("a write while nobody writes: %d %s", status, body)
		}
		return false, body
	})
	return id
}

// writer waits until another one than before writes, and answers its address: what is said of the group's latest generation. One
// that goes on writing says nothing of the generations that follow, but the others do.
func (r *registries) writer(before string) (url string) {
	r.t.Helper()
	for _, p := range r.all {
		p.until("one of the registries writes", time.Minute, func() (bool, string) {
			url = r.said()
			return url != "" && url != before, url
		})
		break
	}
	return url
}

// said is who writes by the latest generation of which any of their logs tells; empty: none does.
func (r *registries) said() (url string) {
	r.t.Helper()
	latest := -1
	for own, p := range r.all {
		for _, m := range writerIs.FindAllStringSubmatch(p.log.String(), -1) {
			generation, err := strconv.Atoi(m[1])
			if err != nil {
				r.t.Fatal(err)
			}
			if generation <= latest {
				continue
			}
			latest, url = generation, m[2]
			if url == `"this one"` {
				url = own
			}
		}
	}
	return url
}

// Three workers with a registry each, on one cluster, behind TLS and users: any of them takes writes, the one that writes is killed, reads go on
// meanwhile, another takes over, no id is given twice and none is lost. Nobody reads or writes without a sign-in.
func TestRegistriesOfAClusterOutliveTheirWriter(t *testing.T) {
	l := logtest.New(t, func(c *log.Config) { c.Listeners = []string{"127.0.0.1:0"} })
	dir := t.TempDir()
	identity, trusted, pool := selfSigned(t)
	hash, err := bcrypt.GenerateFromPassword([]byte("s3cret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"server.pem": identity, "trust.pem": trusted, "users": "ada:" + string(hash) + "\n"} {
		appendTo(t, filepath.Join(dir, name), text)
	}
	r := &registries{t, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: time.Minute}, map[string]*process{}}
	var started []*process
	for i := range 3 {
		own := &runs{dir: t.TempDir(), args: []string{"standalone", "--data", filepath.Join(dir, fmt.Sprint("data", i)), "--rest", "127.0.0.1:0"}}
		for _, setting := range []string{
			"bootstrap.servers=" + l.Addr(), "group.id=registries", "rest.auth=basic", "rest.auth.file=" + filepath.Join(dir, "users"),
			"schema.registry.listeners=https://127.0.0.1:0", "schema.registry.kafkagroup.session.timeout.ms=6000", "schema.registry.kafkagroup.heartbeat.interval.ms=200",
			"listeners.https.ssl.keystore.type=PEM", "listeners.https.ssl.keystore.location=" + filepath.Join(dir, "server.pem"),
			"listeners.https.ssl.truststore.type=PEM", "listeners.https.ssl.truststore.location=" + filepath.Join(dir, "trust.pem"),
		} {
			own.args = append(own.args, "--config", setting)
		}
		started = append(started, own.spawn(t))
	}
	for _, p := range started { // at once: each that comes later would have the others agree anew
		p.until("a worker with a registry is ready", time.Minute, func() (bool, string) {
			m := registryAt.FindStringSubmatch(p.log.String())
			if m != nil {
				r.all[m[1]] = p
			}
			return m != nil, p.log.String()
		})
	}

	ids := map[int]int{} // by schema
	next := 0
	registerAtAll := func() {
		t.Helper()
		for url := range r.all {
			ids[next] = r.register(url, fmt.Sprintf("s%d", next), next)
			next++
		}
	}
	registerAtAll()
	for url := range r.all {
		for _, path := range []string{"/subjects", "/schemas/ids/1"} {
			if status, body := r.ask(url, "GET", path, "", false); status != 401 {
				t.Errorf("GET %s without a sign-in: %d %s", path, status, body)
			}
		}
		if status, body := r.ask(url, "POST", "/subjects/x/versions", `{"schema":"\"int\""}`, false); status != 401 {
			t.Errorf("a write without a sign-in: %d %s", status, body)
		}
	}

	killed := r.writer("")
	if r.all[killed] == nil {
		t.Fatalf("%s writes, which is none of %v", killed, slices.Collect(maps.Keys(r.all)))
	}
	r.all[killed].kill()
	delete(r.all, killed)
	for url := range r.all {
		for n, id := range ids {
			if status, body := r.ask(url, "GET", fmt.Sprintf("/schemas/ids/%d", id), "", true); status != 200 || !strings.Contains(body, fmt.Sprintf("R%d", n)) {
				t.Errorf("at %s, while nobody writes, the schema %d: %d %s", url, n, status, body)
			}
		}
	}
	registerAtAll()
	if now := r.writer(killed); r.all[now] == nil {
		t.Errorf("after %s was killed, %s writes, which is none of %v", killed, now, slices.Collect(maps.Keys(r.all)))
	}

	seen := map[int]bool{}
	for n, id := range ids {
		if id < 1 || id > len(ids) || seen[id] {
			t.Errorf("the schema %d has the id %d, which is another's or beyond all", n, id)
		}
		seen[id] = true
		for url := range r.all {
			r.all[url].until("each instance knows each schema", time.Minute, func() (bool, string) {
				status, body := r.ask(url, "GET", fmt.Sprintf("/schemas/ids/%d", id), "", true)
				return status == 200 && strings.Contains(body, fmt.Sprintf("R%d", n)), body
			})
		}
	}
	for _, p := range r.all {
		if strings.Contains(p.log.String(), "s3cret") {
			t.Error("the log holds a password")
		}
	}
}
