package log

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log/broker"
	"millrace/log/broker/auth"
	"millrace/log/broker/group"
	"millrace/log/broker/txn"
	"millrace/log/internal/catalog"
	"millrace/log/internal/memconn"
	"millrace/log/internal/store"
	"millrace/log/internal/vfs"
)

// Log is an open log. Its methods may be called concurrently.
type Log struct {
	cfg       Config
	lg        *slog.Logger
	clusterID string
	opts      []kgo.Opt

	// Of the embedded broker; nil with a cluster.
	store  *store.Store
	cat    *catalog.Catalog
	groups *group.Coordinator
	txns   *txn.Coordinator
	srv    *broker.Server
	mem    *memconn.Listener
	addr   string

	mu     sync.Mutex // guards the fields below
	admin  *kadm.Client
	closed bool

	adminConns connections
}

// connections counts a client's connections; it is a kgo.Hook.
type connections struct{ n atomic.Int64 }

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (c *connections) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		c.n.Add(1)
	}
}

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect.
func (c *connections) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { c.n.Add(-1) }

// AdminConnections are the id of the client that Admin returns, and how many
// connections it has.
func (l *Log) AdminConnections() (id string, n int64) {
	return l.adminID(), l.adminConns.n.Load()
}

func (l *Log) adminID() string { return l.cfg.clientID() + "-admin" }

// Open starts the embedded broker on its data directory, or reaches the cluster. It returns when the
// log can be used. A data directory that another process holds is a *HeldError.
func Open(ctx context.Context, cfg Config) (*Log, error) {
	if len(cfg.Seeds) > 0 {
		return openCluster(ctx, cfg)
	}
	return openEmbedded(cfg)
}

// HeldError says that another process holds the data directory.
type HeldError struct {
	Dir    string
	Holder string // what it wrote about itself, "pid 4711, listening on 127.0.0.1:9092"
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("data directory %s is held by another process (%s): use another directory, or join that process as a worker by setting bootstrap.servers to its Kafka address", e.Dir, e.Holder)
}

func openEmbedded(cfg Config) (_ *Log, err error) {
	l := &Log{cfg: cfg, lg: cfg.logger(), mem: memconn.Listen()}
	mode, every, err := parseFsync(cfg.Fsync)
	if err != nil {
		return nil, err
	}
	if cfg.DataDir == "" {
		return nil, errors.New("the embedded log needs a data directory")
	}
	if mode != store.FsyncGroup {
		l.lg.Warn("acknowledged records may be lost when the machine fails", "log.fsync", cfg.Fsync)
	}
	// Addresses are taken first: a port in use is found out before the directory is recovered.
	if len(cfg.Mechanisms) == 0 {
		cfg.Mechanisms = slices.DeleteFunc(Mechanisms(), func(m string) bool { return m == auth.Plain })
	}
	listeners, err := listen(cfg)
	if err != nil {
		return nil, err
	}
	undo := func() {
		for _, tl := range listeners {
			tl.Close()
		}
	}
	fsys := cfg.FS
	if fsys == nil {
		fsys = vfs.OS{}
	}
	l.store, err = store.Open(fsys, cfg.DataDir, store.Options{
		Fsync: mode, FsyncInterval: every, MaxOpenFiles: cfg.Limits.OpenFiles,
		MinFree: cfg.Limits.MinFree, Ballast: cfg.Limits.Ballast, ScrubRate: cfg.Limits.ScrubRate,
		Logger: l.lg, OnOffline: cfg.OnOffline, Process: holder(listeners),
	})
	if err != nil {
		undo()
		var locked *store.LockedError
		if errors.As(err, &locked) {
			return nil, &HeldError{Dir: locked.Dir, Holder: locked.Holder}
		}
		return nil, fmt.Errorf("open log in %s: %w", cfg.DataDir, err)
	}
	cat, err := catalog.Open(l.store, catalog.Options{Defaults: cfg.Defaults, MaxPartitions: cfg.Limits.Partitions, Logger: l.lg})
	if err != nil {
		undo()
		return nil, errors.Join(fmt.Errorf("open log in %s: %w", cfg.DataDir, err), l.store.Close())
	}
	l.cat, l.clusterID = cat, cat.ClusterID()
	changed, err := cat.SetPasswords(cfg.Passwords)
	if err != nil {
		undo()
		return nil, errors.Join(fmt.Errorf("set passwords of users in %s: %w", cfg.DataDir, err), l.store.Close())
	}
	if len(changed) > 0 {
		l.lg.Info("users have new passwords", "users", strings.Join(changed, ","))
	}
	l.groups, err = broker.OpenGroups(cat, group.Options{Logger: l.lg})
	if err != nil {
		undo()
		return nil, errors.Join(fmt.Errorf("open log in %s: %w", cfg.DataDir, err), l.store.Close())
	}
	l.txns, err = broker.OpenTxns(cat, l.groups, txn.Options{Logger: l.lg})
	if err != nil {
		undo()
		l.groups.Close()
		return nil, errors.Join(fmt.Errorf("open log in %s: %w", cfg.DataDir, err), l.store.Close())
	}
	l.srv = broker.New(broker.Options{
		Store: l.store, Catalog: cat, DataDir: cfg.DataDir, Logger: l.lg,
		MaxRequest: cfg.Limits.MaxRequest, RequestBudget: cfg.Limits.RequestMemory, AnswerBudget: cfg.Limits.AnswerMemory, MaxConnections: cfg.Limits.Connections,
		Partitions: cfg.Partitions, NoAutoCreate: cfg.NoAutoCreate,
		MaxPerIP: cfg.Limits.PerIP, IdleTime: cfg.Limits.IdleTime,
		Mechanisms: cfg.Mechanisms, Reauth: cfg.Reauth, SuperUsers: cfg.SuperUsers,
		Groups: l.groups, Txns: l.txns,
	})
	serve := func(nl net.Listener, at broker.Listener) {
		if e := l.srv.Serve(nl, at); e != nil {
			err = errors.Join(err, e)
		}
	}
	serve(l.mem, broker.Listener{Name: "embedded", Host: "embedded", Port: 9092, InMemory: true})
	for _, tl := range listeners {
		if l.addr == "" {
			l.addr = tl.Addr().String()
		}
		serve(tl, tl.at)
	}
	if err != nil {
		undo()
		err = errors.Join(fmt.Errorf("open log in %s: %w", cfg.DataDir, err), l.srv.Close(context.Background()))
		l.txns.Close()
		l.groups.Close()
		return nil, errors.Join(err, l.store.Close())
	}
	// Metadata costs microseconds here: new topics need not wait for seconds to be noticed.
	l.opts = []kgo.Opt{kgo.SeedBrokers("embedded:9092"), kgo.Dialer(l.mem.Dial), kgo.MetadataMinAge(100 * time.Millisecond)}
	return l, nil
}

// holder is what a second process is told about this one.
func holder(ls []opened) string {
	s := "pid " + strconv.Itoa(pid())
	for i, l := range ls {
		if i == 0 {
			s += ", listening on "
		} else {
			s += ", "
		}
		s += l.Addr().String()
	}
	return s
}

// ClientOpts are the options with which a franz-go client reaches this log. The slice is the caller's.
func (l *Log) ClientOpts() []kgo.Opt { return slices.Clone(l.opts) }

// Admin is a client for administrative requests, shared by all callers. It must not be closed.
func (l *Log) Admin() *kadm.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.admin == nil {
		cl, err := kgo.NewClient(append(l.ClientOpts(), kgo.ClientID(l.adminID()), kgo.WithHooks(&l.adminConns),
			// What was asked for a moment ago may have been made since: answers are not kept for seconds.
			kgo.MetadataMinAge(20*time.Millisecond), kgo.WithLogger(l.clientLog()))...)
		if err != nil {
			// Options were tried when the log was opened.
			panic(fmt.Sprintf("log: client options: %v", err))
		}
		l.admin = kadm.NewClient(cl)
		if l.closed {
			l.admin.Close()
		}
	}
	return l.admin
}

// Addr is the first TCP address that the embedded broker listens on, with the port it really has;
// empty if there is none.
func (l *Log) Addr() string { return l.addr }

// ClusterID is the id that the cluster, or the embedded broker, answers with.
func (l *Log) ClusterID() string { return l.clusterID }

// Embedded reports whether the log is in this process.
func (l *Log) Embedded() bool { return l.srv != nil }

// Close stops the embedded broker: requests that were received are answered until ctx ends, then what
// was written is synced and the directory is marked clean. Clients made from ClientOpts are their
// makers' to close, before.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	admin := l.admin
	l.mu.Unlock()
	if admin != nil {
		admin.Close()
	}
	if l.srv == nil {
		return nil
	}
	err := l.srv.Close(ctx)
	l.txns.Close()
	l.groups.Close()
	if e := l.store.Close(); e != nil {
		err = errors.Join(err, fmt.Errorf("close log in %s: %w", l.cfg.DataDir, e))
	}
	return err
}
