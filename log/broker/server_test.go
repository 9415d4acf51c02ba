package broker

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/broker/group"
	"millrace/log/broker/txn"
	"millrace/log/internal/catalog"
	"millrace/log/internal/memconn"
	"millrace/log/internal/store"
	"millrace/log/internal/vfs"
)

// node is a broker under test, on a file system in memory.
type node struct {
	t    testing.TB
	fs   *vfs.Mem
	hold atomic.Pointer[gate] // of syncs
	srv  *Server
	cat  *catalog.Catalog
	st   *store.Store
	mem  *memconn.Listener
	tcp  string
	lg   *logBuffer

	stop func()
}

// logBuffer keeps what the broker logs.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs a broker that listens in memory and on a free TCP port.
func start(t testing.TB, change ...func(*Options)) *node { return startOn(t, vfs.NewMem(), change...) }

func startOn(t testing.TB, fs *vfs.Mem, change ...func(*Options)) *node {
	n := &node{t: t, fs: fs}
	return n.start(fs, "/log", change)
}

// startOnDisk runs a broker on the real file system.
func startOnDisk(t testing.TB, change ...func(*Options)) *node {
	n := &node{t: t}
	return n.start(vfs.OS{}, t.TempDir(), change)
}

func (n *node) start(fs vfs.FS, dir string, change []func(*Options)) *node {
	t := n.t
	t.Helper()
	n.lg, n.mem = &logBuffer{}, memconn.Listen()
	lg := slog.New(slog.NewTextHandler(n.lg, nil))
	var err error
	if n.st, err = store.Open(gateFS{fs, &n.hold}, dir, store.Options{MinFree: -1, Ballast: -1, Logger: lg}); err != nil {
		t.Fatal(err)
	}
	if n.cat, err = catalog.Open(n.st, catalog.Options{Logger: lg}); err != nil {
		t.Fatal(err)
	}
	groups, err := OpenGroups(n.cat, group.Options{Logger: lg})
	if err != nil {
		t.Fatal(err)
	}
	txns, err := OpenTxns(n.cat, groups, txn.Options{Logger: lg})
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{Store: n.st, Catalog: n.cat, Groups: groups, Txns: txns, DataDir: dir, Logger: lg}
	for _, f := range change {
		f(&opt)
	}
	n.srv = New(opt)
	if err := n.srv.Serve(n.mem, Listener{Host: "embedded", Port: 9092, InMemory: true}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := l.Addr().(*net.TCPAddr)
	n.tcp = a.String()
	if err := n.srv.Serve(l, Listener{Host: a.IP.String(), Port: int32(a.Port)}); err != nil {
		t.Fatal(err)
	}
	n.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := n.srv.Close(ctx); err != nil {
			t.Error(err)
		}
		txns.Close()
		groups.Close()
		if err := n.st.Close(); err != nil {
			t.Error(err)
		}
		if p := n.srv.stats.panics.Load(); p != 0 {
			t.Errorf("%d handlers panicked:\n%s", p, n.lg)
		}
	})
	t.Cleanup(n.stop)
	return n
}

// transports are the ways to reach a node.
func (n *node) transports() map[string][]kgo.Opt {
	return map[string][]kgo.Opt{
		"in memory": {kgo.SeedBrokers("embedded:9092"), kgo.Dialer(n.mem.Dial)},
		"over TCP":  {kgo.SeedBrokers(n.tcp)},
	}
}

func (n *node) client(opts ...kgo.Opt) *kgo.Client {
	n.t.Helper()
	return newClient(n.t, append(n.transports()["in memory"], opts...)...)
}

func newClient(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func (n *node) topic(name string, partitions int32, configs ...string) {
	n.t.Helper()
	c := map[string]*string{}
	for i := 0; i < len(configs); i += 2 {
		c[configs[i]] = &configs[i+1]
	}
	if _, err := kadm.NewClient(n.client()).CreateTopic(within(n.t), partitions, 1, c, name); err != nil {
		n.t.Fatal(err)
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// wireConn speaks the protocol by hand: it can say what no client would.
type wireConn struct {
	t    testing.TB
	nc   net.Conn
	next int32
}

func (n *node) dial() *wireConn {
	n.t.Helper()
	nc, err := net.Dial("tcp", n.tcp)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { nc.Close() })
	return &wireConn{t: n.t, nc: nc}
}

// frame is a request with its size, as it goes over the wire.
func frame(req kmsg.Request, version int16, correlation int32) []byte {
	req.SetVersion(version)
	return rawFrame(req.Key(), version, correlation, req.IsFlexible(), req.AppendTo(nil))
}

func rawFrame(key, version int16, correlation int32, flexible bool, body []byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 0}, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = binary.BigEndian.AppendUint16(b, 4)
	b = append(b, "test"...)
	if flexible {
		b = append(b, 0)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func (w *wireConn) send(req kmsg.Request, version int16) (correlation int32) {
	w.t.Helper()
	w.next++
	if _, err := w.nc.Write(frame(req, version, w.next)); err != nil {
		w.t.Fatal(err)
	}
	return w.next
}

// receive reads the next answer, which must be to that request.
func (w *wireConn) receive(correlation int32, resp kmsg.Response, version int16) error {
	w.nc.SetReadDeadline(time.Now().Add(60 * time.Second))
	var size [4]byte
	if _, err := io.ReadFull(w.nc, size[:]); err != nil {
		return err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.nc, b); err != nil {
		return err
	}
	if got := int32(binary.BigEndian.Uint32(b)); got != correlation {
		w.t.Errorf("answer to request %d, want %d", got, correlation)
	}
	b = b[4:]
	resp.SetVersion(version)
	if resp.IsFlexible() && resp.Key() != 18 {
		b = b[1:]
	}
	return resp.ReadFrom(b)
}

// ask sends a request and reads its answer.
func ask[R kmsg.Response](w *wireConn, req kmsg.Request, version int16) R {
	w.t.Helper()
	resp := req.ResponseKind()
	if err := w.receive(w.send(req, version), resp, version); err != nil {
		w.t.Fatalf("%s version %d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp.(R)
}

// closed reports whether the broker closes the connection without a further answer.
func (w *wireConn) closed() bool {
	w.nc.SetReadDeadline(time.Now().Add(60 * time.Second))
	n, err := w.nc.Read(make([]byte, 1))
	var ne net.Error
	return n == 0 && err != nil && !(errorsAs(err, &ne) && ne.Timeout())
}
