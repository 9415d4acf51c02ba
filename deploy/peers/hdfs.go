package peers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"millrace/deploy/peers/run"
)

// An HDFSServer is Apache Hadoop's HDFS: one DataNode, and one NameNode or two, of which one is active. Who a client says it
// is, it is; permissions are enforced, and /tmp and /user are open to everyone. Blocks may be as small as 512 bytes.
type HDFSServer struct {
	// NameNodes are their addresses, host:port.
	NameNodes []string
	// Secure is the folder of krb5.conf and alice.keytab, where there is Kerberos.
	Secure string
	*Control

	control string
}

// HDFS is the HDFS, of one NameNode, that all tests of the run share.
func HDFS(t testing.TB) *HDFSServer {
	t.Helper()
	return hdfsAt(t, shared(t, "hdfs"))
}

// HDFSOptions say how an HDFS of a test's own differs: NameNodes, Kerberos.
type HDFSOptions = run.HDFSOptions

// HDFSOwn is an HDFS for this test alone. Control ends and starts the whole of it; Do one of its parts.
func HDFSOwn(t testing.TB, o HDFSOptions) *HDFSServer {
	t.Helper()
	c := own(t, "hdfs", func(ctx context.Context, dir string) (*run.Server, error) { return run.HDFS(ctx, dir, o) })
	h := hdfsAt(t, c.server.Addr)
	h.Control, h.Secure = c, filepath.Join(c.server.Dir, "secure")
	return h
}

func hdfsAt(t testing.TB, addr string) *HDFSServer {
	t.Helper()
	h := &HDFSServer{control: addr}
	h.NameNodes = strings.Fields(h.Do(t, "namenodes"))
	return h
}

// Do does something to a part of it, and waits until it is done: "datanode/stop", "datanode/start", "namenode/0/stop",
// "namenode/0/start" (as a standby, where there are two), "namenode/1/active", "namenode/1/standby", "quota/BYTES?/path".
func (h *HDFSServer) Do(t testing.TB, what string) string {
	t.Helper()
	said, err := run.HDFSControl(context.Background(), h.control, what)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// Read is a file as Hadoop itself gives it out, over WebHDFS, through the n-th NameNode.
func (h *HDFSServer) Read(t testing.TB, n int, path string) []byte {
	t.Helper()
	u := url.URL{Scheme: "http", Host: h.Do(t, fmt.Sprintf("webhdfs/%d", n)), Path: "/webhdfs/v1" + path, RawQuery: "op=OPEN"}
	resp, err := http.Get(u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("read %s over WebHDFS: %s, %v: %.300s", path, resp.Status, err, body)
	}
	return body
}
