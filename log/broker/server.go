package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/broker/auth"
	"millrace/log/broker/group"
	"millrace/log/broker/txn"
	"millrace/log/internal/catalog"
	"millrace/log/internal/store"
	"millrace/log/internal/wire"
)

// Options of a server. Zero values get their defaults; Store and Catalog are required.
type Options struct {
	Store          *store.Store     // stays the caller's, who closes it after the server
	Catalog        *catalog.Catalog // of that store
	DataDir        string           // as DescribeLogDirs names it
	NodeID         int32            // 1
	MaxRequest     int32            // bytes of one request, 100 MiB
	RequestBudget  int64            // bytes of requests being received, for TCP and for in-memory connections each, 64 MiB
	AnswerBudget   int64            // bytes of answers that clients have not taken yet, for both each, 64 MiB
	Partitions     int32            // of topics that do not say, 1
	NoAutoCreate   bool             // topics are not made by asking for them
	MaxConnections int              // over TCP, 1024
	MaxPerIP       int              // connections over TCP from one address; 0 for no limit of its own
	IdleTime       time.Duration    // after which a connection over TCP without requests is closed, 10 min; negative: never
	SignInTime     time.Duration    // which a client has for TLS and SASL together, 30 s
	Logger         *slog.Logger

	Mechanisms []string      // that listeners with SASL offer: auth.Known
	Reauth     time.Duration // after which clients with SASL must sign in again; 0 for never
	SuperUsers []string      // principals that may see and change users, "User:admin"

	Groups *group.Coordinator // from OpenGroups; stays the caller's. Without it no group request is served
	Txns   *txn.Coordinator   // from OpenTxns, with Groups; stays the caller's. Without it no transaction is served
}

func (o Options) withDefaults() Options {
	if o.NodeID == 0 {
		o.NodeID = 1
	}
	if o.MaxRequest == 0 {
		o.MaxRequest = 100 << 20
	}
	if o.RequestBudget == 0 {
		o.RequestBudget = 64 << 20
	}
	if o.AnswerBudget == 0 {
		o.AnswerBudget = 64 << 20
	}
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 1024
	}
	if o.IdleTime == 0 {
		o.IdleTime = 10 * time.Minute
	}
	if o.SignInTime == 0 {
		o.SignInTime = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Listener says how clients of a listener reach this broker: Metadata names the one a request came
// in on.
type Listener struct {
	Name     string // for logs and metrics, "SASL_SSL://0.0.0.0:9093"
	Host     string // empty: the address that the client reached
	Port     int32
	InMemory bool        // clients in this process
	TLS      *tls.Config // nil: no TLS
	SASL     bool        // clients sign in before anything else
	Loopback bool        // only this machine reaches it
}

// Server is the broker. Its methods may be called concurrently.
type Server struct {
	opt      Options
	st       *store.Store
	cat      *catalog.Catalog
	lg       *slog.Logger
	handlers [kmsg.MaxKey + 1]handler
	stats    stats
	sessions fetchSessions

	overTCP, inMemory transport
	auth              *auth.Server
	supers            map[string]bool
	troubles          quota // lines about clients that cannot get in

	stop     context.Context // ends when Close begins
	stopNow  context.CancelFunc
	life     context.Context // ends when connections must be gone
	kill     context.CancelFunc
	running  sync.WaitGroup // accept loops and connections
	nextConn atomic.Int64

	mu        sync.Mutex // guards the fields below
	conns     map[*conn]struct{}
	listeners map[net.Listener]struct{}
	listening []string // their labels
	tcp       int      // connections over TCP
	perIP     map[netip.Addr]int
	closed    bool
}

// New returns a server without listeners.
func New(opt Options) *Server {
	s := &Server{
		opt:       opt.withDefaults(),
		conns:     map[*conn]struct{}{},
		listeners: map[net.Listener]struct{}{},
		perIP:     map[netip.Addr]int{},
		supers:    map[string]bool{},
	}
	for _, principal := range s.opt.SuperUsers {
		s.supers[principal] = true
	}
	s.lg, s.st, s.cat = s.opt.Logger, s.opt.Store, s.opt.Catalog
	for _, t := range []*transport{&s.overTCP, &s.inMemory} {
		t.requests, t.answers, t.large = wire.NewBudget(s.opt.RequestBudget), wire.NewMemory(s.opt.AnswerBudget), make(chan struct{}, largeRequests)
	}
	s.stop, s.stopNow = context.WithCancel(context.Background())
	s.life, s.kill = context.WithCancel(context.Background())
	s.register()
	return s
}

// transport is what connections of one kind share: those of strangers take nothing from our own.
type transport struct {
	requests *wire.Budget
	answers  *wire.Memory
	waiting  atomic.Int64  // bytes of large requests that wait for something to happen
	large    chan struct{} // held by requests that are large when decoded, or have large answers
}

// largeRequests is how many large requests are worked on at once. Decoded forms are up to 25 times as large as their
// bytes, and answers may be as large.
const largeRequests = 8

func (s *Server) transport(at Listener) *transport {
	if at.InMemory {
		return &s.inMemory
	}
	return &s.overTCP
}

// tight reports whether somebody waits for what slow clients hold.
func (t *transport) tight() bool { return t.answers.Tight() || len(t.large) == cap(t.large) }

func (s *Server) stopping() bool { return s.stop.Err() != nil }

// Serve accepts connections from l in the background until Close. It takes l over.
func (s *Server) Serve(l net.Listener, at Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStopping
	}
	if at.Name == "" {
		at.Name = l.Addr().String()
	}
	if at.SASL && s.auth == nil {
		secret, err := s.cat.Secret()
		if err != nil {
			return fmt.Errorf("prepare sign-in: %w", err)
		}
		s.auth = auth.New(s.cat, secret)
	}
	s.listeners[l] = struct{}{}
	s.listening = append(s.listening, at.label())
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		s.accept(l, at)
	}()
	return nil
}

func (s *Server) accept(l net.Listener, at Listener) {
	for {
		nc, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed) || s.stopping():
			if nc != nil {
				nc.Close()
			}
			return
		case err != nil:
			// Out of descriptors, or a connection that died in the backlog: both pass.
			s.lg.Warn("accept failed", "listener", l.Addr().String(), "error", err)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-s.stop.Done():
			}
			continue
		}
		if !s.start(nc, at) {
			nc.Close()
		}
	}
}

func (s *Server) start(nc net.Conn, at Listener) bool {
	c := &conn{srv: s, nc: nc, raw: nc, at: at, id: s.nextConn.Add(1), principal: "User:ANONYMOUS", queue: make(chan *call, inFlight), unread: make(chan struct{})}
	c.active.Store(time.Now().UnixNano())
	if a, ok := nc.LocalAddr().(*net.TCPAddr); ok && at.Host == "" {
		c.at.Host, c.reached = a.IP.String(), true
	}
	if at.InMemory {
		c.principal = "User:embedded"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	ip := remoteIP(nc)
	if !at.InMemory {
		switch {
		case s.tcp >= s.opt.MaxConnections:
			s.stats.refused.Add(1)
			s.trouble("connection refused: too many are open", "peer", nc.RemoteAddr().String(), "limit", s.opt.MaxConnections)
			return false
		case s.opt.MaxPerIP > 0 && s.perIP[ip] >= s.opt.MaxPerIP:
			s.stats.refused.Add(1)
			s.trouble("connection refused: too many are open from its address", "peer", nc.RemoteAddr().String(), "limit", s.opt.MaxPerIP)
			return false
		}
		s.tcp++
		s.perIP[ip]++
	}
	c.ctx, c.cancel = context.WithCancelCause(s.life)
	s.conns[c] = struct{}{}
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		c.serve()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
		if !at.InMemory {
			s.tcp--
			if s.perIP[ip]--; s.perIP[ip] == 0 {
				delete(s.perIP, ip)
			}
		}
	}()
	return true
}

// remoteIP is who is counted; in-memory connections have none.
func remoteIP(nc net.Conn) netip.Addr {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// Close refuses new work, lets requests that were received be answered until ctx ends, and closes
// all connections. It returns when no goroutine of the server is left.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.stopNow()
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.raw.SetReadDeadline(time.Unix(1, 0)) // ends waits for a next request
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.kill()
		return nil
	case <-ctx.Done():
	}
	s.kill()
	s.mu.Lock()
	for c := range s.conns {
		c.close()
	}
	s.mu.Unlock()
	<-done
	return fmt.Errorf("close broker: %w: some requests were not answered", context.Cause(ctx))
}

func (s *Server) panicked(h wire.Header, p any, stack []byte) {
	s.stats.panics.Add(1)
	s.lg.Error("request handler failed, connection closed", "request", wire.Name(h.Key), "version", h.Version, "panic", fmt.Sprint(p), "stack", string(stack))
}
