package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log"
	"millrace/runtime"
	"millrace/runtime/member"
	"millrace/schema/registry"
)

// Config is what an Instance needs.
type Config struct {
	Log      *log.Log
	Settings runtime.RegistryConfig
	Types    []registry.Type // of schemas that can be registered
	URL      string          // by which other instances reach this one: http://host:port
	Logger   *slog.Logger
}

// Instance is this process's registry. Its methods may be called concurrently; reads go to Rules.
type Instance struct {
	cfg    Config
	lg     *slog.Logger
	me     identity
	rules  *registry.Registry
	table  *log.Table
	client *kgo.Client // of the membership
	member *member.Member
	ops    chan *op

	leave   context.CancelFunc
	stop    context.CancelFunc
	stopped context.Context
	running sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	leader  *identity  // nil: unknown
	writer  *log.TableWriter
	changed chan struct{} // closed and replaced when leader or writer change
	epoch   int           // of writer: counts takeovers
}

// Times of the group, and of who waits for it.
const (
	leaveTime = 3 * time.Second
	// leaderWait is how long a write waits for the group to agree on who writes. It is over in milliseconds but when that one is gone.
	leaderWait = 3 * time.Second
)

// Open reads the topic to its end, makes it where there is none, and begins to join the group. It blocks while the log cannot be
// reached, until ctx ends. ctx bounds the opening alone.
func Open(ctx context.Context, c Config) (*Instance, error) {
	me, err := identityOf(c.URL, c.Settings.Eligible)
	if err != nil {
		return nil, fmt.Errorf("schema registry: %w", err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	i := &Instance{cfg: c, lg: c.Logger, me: me, ops: make(chan *op), changed: make(chan struct{})}
	rules := c.Settings.Rules
	rules.Types = c.Types
	i.rules = registry.New(registry.NewState(i.lg), rules)
	t := c.Settings.Topic
	i.table, err = c.Log.OpenTable(ctx, log.TableOptions{Topic: t.Name, Partitions: 1, Replication: t.Replication, Configs: t.Settings, Apply: i.apply})
	if err != nil {
		return nil, fmt.Errorf("schema registry (schema.registry.kafkastore.topic): %w", err)
	}
	i.client, err = kgo.NewClient(append(c.Log.ClientOpts(), kgo.ClientID("schema-registry-"+me.Host+"-"+fmt.Sprint(me.Port)), kgo.WithLogger(log.ClientLog(i.lg)))...)
	if err != nil {
		i.table.Close()
		return nil, fmt.Errorf("client of the schema registry's group: %w", err)
	}
	i.member = member.New(member.Config{Client: i.client, Type: protocolType, Group: c.Settings.GroupID, Protocols: []string{protocolName},
		Session: c.Settings.Session, Heartbeat: c.Settings.Heartbeat, Rebalance: c.Settings.Rebalance, Logger: i.lg, Owner: inGroup{i}, Failed: i.membershipFailed})
	i.stopped, i.stop = context.WithCancel(context.Background())
	var joined context.Context
	joined, i.leave = context.WithCancel(context.Background())
	i.running.Go(func() { i.member.Run(joined, leaveTime) })
	i.running.Go(i.write)
	return i, nil
}

// Close leaves the group and ends the instance. Writes that are under way fail or are finished.
func (i *Instance) Close() {
	i.stop()
	i.leave()
	i.running.Wait()
	i.follow(nil)
	i.client.Close()
	i.table.Close()
}

// Rules are the registry's rules over what the topic says.
func (i *Instance) Rules() *registry.Registry { return i.rules }

// GroupID is the group in which instances agree on the one that writes.
func (i *Instance) GroupID() string { return i.cfg.Settings.GroupID }

// ClusterID is the log's.
func (i *Instance) ClusterID() string { return i.cfg.Log.ClusterID() }

func (i *Instance) apply(records []*kgo.Record) {
	out := make([]registry.Record, len(records))
	for n, r := range records {
		out[n] = registry.Record{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp.UnixMilli(), Offset: r.Offset}
	}
	i.rules.Apply(out)
}

// ErrNoLeader says that nobody is known who could write.
var ErrNoLeader = errors.New("no instance of the registry is known that may write")

// ErrNotLeader says that this instance does not write, or no more.
var ErrNotLeader = errors.New("this instance of the registry does not write")

// Leader is the address of the instance that writes, and whether it is this one. Where none is known it waits a little.
func (i *Instance) Leader(ctx context.Context) (url string, self bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaderWait)
	defer cancel()
	for {
		i.mu.Lock()
		leader, writer, changed := i.leader, i.writer, i.changed
		i.mu.Unlock()
		switch {
		case writer != nil:
			return i.me.url(), true, nil
		case leader != nil && leader.url() != i.me.url():
			return leader.url(), false, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", false, ErrNoLeader
		case <-i.stopped.Done():
			return "", false, ErrNoLeader
		}
	}
}

// Leads reports whether this instance writes.
func (i *Instance) Leads() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.writer != nil
}

// follow makes another instance, or nobody, the one that writes.
func (i *Instance) follow(leader *identity) { i.become(leader, nil) }

func (i *Instance) become(leader *identity, w *log.TableWriter) {
	i.mu.Lock()
	old := i.writer
	i.leader, i.writer = leader, w
	i.epoch++
	close(i.changed)
	i.changed = make(chan struct{})
	i.mu.Unlock()
	if old != nil && old != w {
		old.Close()
	}
}

// membershipFailed tells what joining again cannot help, until somebody changes something. Reads are served meanwhile.
func (i *Instance) membershipFailed(err error) {
	group := i.cfg.Settings.GroupID
	switch {
	case errors.Is(err, kerr.InvalidSessionTimeout):
		i.lg.Error("the schema registry cannot join its group, so that nobody may write here: schema.registry.kafkagroup.session.timeout.ms lies outside of what the cluster allows (Kafka's own: 6000 to 1800000); change it",
			"group", group, "session", i.cfg.Settings.Session)
	case errors.Is(err, kerr.InconsistentGroupProtocol):
		i.lg.Error("the schema registry cannot join its group, so that nobody may write here: its members are no schema registries; choose another schema.registry.group.id", "group", group)
	case errors.Is(err, kerr.GroupAuthorizationFailed), errors.Is(err, kerr.InvalidGroupID):
		i.lg.Error("the schema registry may not join its group, so that nobody may write here: grant it, or choose another schema.registry.group.id", "group", group, "err", err)
	}
}

// inGroup is an instance as its membership calls it.
type inGroup struct{ i *Instance }

// Standing implements member.Owner. Whoever writes goes on while the group agrees anew: who takes over fences it.
func (g inGroup) Standing(context.Context, string) (func(string) []byte, error) {
	me := g.i.me
	me.Leader = g.i.Leads()
	return func(string) []byte { return encode(me) }, nil
}

// Lead implements member.Owner.
func (g inGroup) Lead(_ context.Context, _ member.Membership, reported map[string][]byte) (map[string][]byte, error) {
	members := map[string]identity{}
	for id, b := range reported {
		m, err := decode[identity](b)
		if err != nil {
			return nil, fmt.Errorf("what member %s says of itself: %w", id, err)
		}
		members[id] = m
	}
	a := encode(elect(members))
	out := map[string][]byte{}
	for id := range members {
		out[id] = a
	}
	return out, nil
}

// Assigned implements member.Owner.
func (g inGroup) Assigned(ctx context.Context, at member.Membership, b []byte) error {
	i := g.i
	a, err := decode[assignment](b)
	if err != nil {
		return fmt.Errorf("the assignment of group %s: %w", i.cfg.Settings.GroupID, err)
	}
	switch {
	case a.Error == duplicateURLs:
		// So it is, too, until the group notices that this process's predecessor is gone; then it agrees anew.
		i.follow(nil)
		i.lg.Error("two instances of the schema registry have one address, so that none may write; if no former process of this one is still counted in, give each its own with schema.registry.listeners or schema.registry.host.name",
			"group", i.cfg.Settings.GroupID, "address", i.me.url())
		return nil
	case a.Error != 0:
		i.follow(nil)
		return fmt.Errorf("the assignment of group %s has the error %d, which this registry does not know", i.cfg.Settings.GroupID, a.Error)
	case a.Leader == nil:
		i.follow(nil)
		i.lg.Warn("no instance of the schema registry may write (schema.registry.leader.eligibility); reads are served", "group", i.cfg.Settings.GroupID)
		return nil
	case a.Leader.url() != i.me.url():
		i.follow(a.Leader)
		i.lg.Info("joined the group of schema registries", "group", i.cfg.Settings.GroupID, "generation", at.Generation, "writer", a.Leader.url())
		return nil
	case i.Leads():
		return nil
	}
	return i.lead(ctx, at)
}

// lead makes this instance the one that writes: whoever did is fenced, and all that it wrote is read before anything is decided.
func (i *Instance) lead(ctx context.Context, at member.Membership) error {
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	w, err := i.table.OpenWriter(limited, "schema-registry-"+i.cfg.Settings.GroupID)
	if err == nil {
		if err = i.table.ReadToEnd(limited); err != nil {
			w.Close()
		}
	}
	if err != nil {
		i.follow(nil)
		return fmt.Errorf("become the schema registry that writes: %w", err)
	}
	me := i.me
	i.become(&me, w)
	i.lg.Info("joined the group of schema registries", "group", i.cfg.Settings.GroupID, "generation", at.Generation, "writer", "this one")
	return nil
}

// Lost implements member.Owner: another instance may write already, which fences this one when it begins.
func (g inGroup) Lost(error) { g.i.follow(nil) }
