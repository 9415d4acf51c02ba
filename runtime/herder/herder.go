package herder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log"
	"millrace/runtime"
	"millrace/runtime/loggers"
	"millrace/runtime/member"
	"millrace/runtime/provider"
	"millrace/runtime/settings"
	"millrace/runtime/store"
	"millrace/runtime/worker"
)

// Config is what a herder needs.
type Config struct {
	Log     *log.Log
	Plugins *runtime.Plugins
	Worker  runtime.WorkerConfig
	Files   *runtime.FileRoots
	Logger  *slog.Logger
	// Levels are what decides what Logger writes, so that clients can change it. Nil: the
	// herder has some of its own around Logger's handler, for itself and all it runs.
	Levels *loggers.Levels
	// AdvertisedURL is where other workers reach this one's API: "http://host:8083/".
	AdvertisedURL string
	// Providers put values in the place of variables in configurations; nil: there are none.
	Providers *provider.Set
	// Registry is the address of this process's own schema registry, for converters that name none; empty: it has none.
	Registry string
	// PutTasks hands a plan to the leader's API at url: POST /connectors/NAME/tasks. version is of the configuration that was planned, body
	// the tasks' configurations as JSON, which s signs.
	PutTasks func(ctx context.Context, url, name string, version int64, body []byte, s runtime.Signature) error
}

// A Herder is this process's part of the group of workers. It implements what the
// REST API asks (rest.Herder); its methods may be called concurrently.
type Herder struct {
	cfg       Config
	lg        *slog.Logger
	levels    *loggers.Levels
	workerID  string // host:port of the advertised URL
	url       string // ending with a slash
	configs   *store.Configs
	statuses  *store.Statuses
	offsets   *store.Offsets
	worker    *worker.Worker
	validator *settings.Validator
	client    *kgo.Client // of the membership
	member    *member.Member

	mail    mailbox
	writing chan struct{} // of one: who holds it writes configurations
	ready   chan struct{}
	failing chan error // of one
	done    chan struct{}

	closing   sync.Once
	stopped   context.Context // ends when Close begins
	stop      context.CancelFunc
	left      chan struct{} // closed when the member has left the group
	watching  sync.WaitGroup
	endMember context.CancelFunc

	tally tally

	state // of the loop alone
}

// mailbox takes what the loop shall do. Posting never blocks.
type mailbox struct {
	wake chan struct{} // of one

	mu      sync.Mutex // guards the fields below
	list    []func()
	changes bool // something in list is more than a look
}

func (m *mailbox) post(f func()) { m.put(f, true) }

func (m *mailbox) put(f func(), changes bool) {
	m.mu.Lock()
	m.list = append(m.list, f)
	m.changes = m.changes || changes
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() (list []func(), changes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list, changes = m.list, m.changes
	m.list, m.changes = nil, false
	return list, changes
}

// Open verifies or makes the internal topics, reads them to their ends and begins to
// join the group; see Ready. It blocks while the log cannot be reached, until ctx
// ends. ctx bounds the opening alone.
func Open(ctx context.Context, c Config) (_ *Herder, err error) {
	u, err := url.Parse(c.AdvertisedURL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("advertised URL %q: want http://host:port/", c.AdvertisedURL)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Levels == nil {
		c.Levels = loggers.New()
		c.Logger = slog.New(c.Levels.Handler(c.Logger.Handler()))
	}
	h := &Herder{
		cfg: c, lg: c.Logger, levels: c.Levels, workerID: u.Host, url: strings.TrimSuffix(c.AdvertisedURL, "/") + "/",
		mail: mailbox{wake: make(chan struct{}, 1)}, writing: make(chan struct{}, 1),
		ready: make(chan struct{}), failing: make(chan error, 1), done: make(chan struct{}), left: make(chan struct{}),
		state: state{conns: map[string]*connSlot{}, tasks: map[runtime.TaskID]*taskSlot{}, fencings: map[string]*fencing{}},
	}
	h.stopped, h.stop = context.WithCancel(context.Background())
	for _, n := range c.Worker.Notices {
		h.lg.Warn("worker setting has no effect", "notice", n)
	}
	var closers []func()
	defer func() {
		if err != nil {
			for _, f := range closers {
				f()
			}
		}
	}()
	if !c.Worker.CreateInternalTopics {
		if err := h.topicsExist(ctx); err != nil {
			return nil, err
		}
	}
	// The three topics are read at once: each costs some round trips.
	var opened sync.WaitGroup
	var errs [3]error
	opened.Go(func() { h.offsets, errs[0] = store.OpenOffsets(ctx, c.Log, c.Worker.OffsetTopic, h.lg) })
	opened.Go(func() { h.statuses, errs[1] = store.OpenStatuses(ctx, c.Log, c.Worker.StatusTopic, h.lg) })
	opened.Go(func() {
		h.configs, errs[2] = store.OpenConfigs(ctx, c.Log, c.Worker.ConfigTopic, c.Worker.TransactionalLeader(), h.lg, store.Changes{
			Changed: func(*store.Snapshot) { h.mail.post(func() {}) },
			Restart: func(r store.Restart) { h.mail.post(func() { h.restartAsked(r) }) },
			Fenced: func(err error) {
				h.lg.Warn("this worker can no longer write configurations, as when another leads; it joins the group again", "transactional.id", c.Worker.LeaderID(), "err", err)
				h.member.RequestRejoin()
			},
			Logger: h.loggerAsked,
		})
	})
	opened.Wait()
	if errs[0] == nil {
		closers = append(closers, h.offsets.Close)
	}
	if errs[1] == nil {
		closers = append(closers, func() { _ = h.statuses.Close(ctx) })
	}
	if errs[2] == nil {
		closers = append(closers, h.configs.Close)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	h.tally.began, h.tally.group = time.Now(), worker.NewClientMeter(worker.GroupClient, "connect-"+h.workerID)
	if err := h.importOffsets(ctx); err != nil {
		return nil, err
	}
	h.client, err = kgo.NewClient(append(c.Log.ClientOpts(), kgo.ClientID(h.tally.group.ID), kgo.WithHooks(h.tally.group))...)
	if err != nil {
		return nil, fmt.Errorf("client of the group of workers: %w", err)
	}
	h.worker = worker.New(worker.Config{
		Log: c.Log, Plugins: c.Plugins, Worker: c.Worker, Files: c.Files, Offsets: h.offsets, Logger: h.lg, Used: h.topicUsed, Providers: c.Providers, Expires: h.expires, Forgotten: &h.statuses.Forgotten, Registry: c.Registry,
		Counted: func() bool { return h.member.Counted() },
	})
	h.validator = &settings.Validator{Plugins: c.Plugins, Worker: c.Worker, Providers: c.Providers, Context: func(name string) connectors.Context { return h.worker.Context(name, -1) },
		ExactlyOnce: c.Worker.ExactlyOnceSources()}
	h.member = member.New(member.Config{
		Client: h.client, Type: "connect", Group: c.Worker.GroupID, Protocols: protocolsFor(c.Worker.Protocol), Session: c.Worker.SessionTimeout,
		Heartbeat: c.Worker.Heartbeat, Rebalance: c.Worker.RebalanceTimeout, Logger: h.lg, Owner: inGroup{h}, Failed: h.membershipFailed,
	})
	var joined context.Context
	joined, h.endMember = context.WithCancel(context.Background())
	h.configs.Live()
	h.statuses.Watch(func(id runtime.TaskID) {
		if c := h.configs.Now().Connectors[id.Connector]; c == nil || id.Task >= len(c.Tasks) { // a worker's late word of what was deleted while it was away
			h.mail.post(func() {})
		}
	})
	h.watching.Go(func() { h.watch(h.stopped) })
	go h.loop()
	go func() {
		defer close(h.left)
		h.member.Run(joined, c.Worker.TaskGrace)
	}()
	return h, nil
}

// importOffsets takes over the offsets of a standalone Connect worker, once: when the
// offset topic holds none.
func (h *Herder) importOffsets(ctx context.Context) error {
	path := h.cfg.Worker.OffsetFile
	if path == "" {
		return nil
	}
	n, done, err := h.offsets.ImportFile(ctx, path)
	switch {
	case err != nil:
		return fmt.Errorf("offset.storage.file.filename: %w; name the old worker's file, or leave the setting out to begin without its offsets", err)
	case n > 0:
		h.lg.Info("offsets of a Connect worker's file are taken over", "file", path, "offsets", n)
	case !done:
		h.lg.Info("offset.storage.file.filename is not read: there are offsets already", "file", path)
	}
	return nil
}

func (h *Herder) topicsExist(ctx context.Context) error {
	for _, t := range []runtime.InternalTopic{h.cfg.Worker.ConfigTopic, h.cfg.Worker.OffsetTopic, h.cfg.Worker.StatusTopic} {
		found, err := h.cfg.Log.Admin().ListTopics(ctx, t.Name)
		if err == nil {
			err = found[t.Name].Err
		}
		if err != nil {
			return fmt.Errorf("internal topic %s: %w; make it with cleanup.policy=compact, or let the worker make it (internal.topics.automatic.creation.enable=true)", t.Name, err)
		}
	}
	return nil
}

// Ready is closed once the worker has its first assignment.
func (h *Herder) Ready() <-chan struct{} { return h.ready }

// Failed receives why the worker cannot become ready: what the group of workers refuses until a setting
// or a right is changed. A worker that was ready once tries on instead, and its health tells.
func (h *Herder) Failed() <-chan error { return h.failing }

func (h *Herder) neverJoins(err error) {
	select {
	case <-h.ready:
		return
	default:
	}
	select {
	case h.failing <- err:
	default: // it was told
	}
}

// Done is closed when Close has ended.
func (h *Herder) Done() <-chan struct{} { return h.done }

// Close stops the tasks within the worker's grace, commits their offsets, leaves the
// group and closes the clients. What ctx cuts short is abandoned.
func (h *Herder) Close(ctx context.Context) error {
	h.closing.Do(h.stop)
	select {
	case <-h.done:
	case <-ctx.Done():
		h.mail.post(h.killAll)
		<-h.done
	}
	return nil
}

// do has the loop run f and waits for it. When it returns an error, f has not run and
// will not: what f writes is the caller's alone again.
func (h *Herder) do(ctx context.Context, f func()) error { return h.have(ctx, f, true) }

// peek is do for an f that changes nothing: the loop has nothing to reconcile after it,
// however many connectors there are.
func (h *Herder) peek(ctx context.Context, f func()) error { return h.have(ctx, f, false) }

func (h *Herder) have(ctx context.Context, f func(), changes bool) error {
	var taken atomic.Bool // by the loop, or by a caller that gave up
	ran := make(chan struct{})
	h.mail.put(func() {
		if taken.CompareAndSwap(false, true) {
			f()
			close(ran)
		}
	}, changes)
	var err error
	select {
	case <-ran:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-h.done:
		err = runtime.Conflict("the worker is shutting down")
	}
	if taken.CompareAndSwap(false, true) {
		return err
	}
	<-ran // it runs at this moment, and never for long
	return nil
}

// loop is the one goroutine that owns the state.
func (h *Herder) loop() {
	every := time.Minute
	if ttl := h.cfg.Worker.SessionKeyTTL; ttl > 0 {
		every = min(every, max(time.Second, ttl))
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	stopped := h.stopped.Done()
	for {
		looks := false
		select {
		case <-h.mail.wake:
			looks = true
		case <-tick.C:
		case <-stopped:
			stopped = nil
			h.ending = true
		}
		list, changes := h.mail.take()
		for _, f := range list {
			f()
		}
		if looks && !changes {
			continue
		}
		h.reconcile()
		if h.ending && len(h.tasks) == 0 && len(h.conns) == 0 {
			break
		}
	}
	h.end()
}

// end leaves the group and closes everything; nothing runs any more.
func (h *Herder) end() {
	h.endMember()
	serving := make(chan struct{})
	go func() { // the member may still wait for an answer of the loop
		defer close(serving)
		for {
			select {
			case <-h.mail.wake:
				list, _ := h.mail.take()
				for _, f := range list {
					f()
				}
			case <-h.left:
				return
			}
		}
	}()
	<-serving
	h.watching.Wait()
	h.client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), h.cfg.Worker.OffsetFlushTimeout)
	defer cancel()
	if err := h.statuses.Close(ctx); err != nil {
		h.lg.Warn("last states are not written", "err", err)
	}
	h.configs.Close()
	h.offsets.Close()
	close(h.done)
}

// topicUsed records that a connector used a topic, unless it was deleted meanwhile.
func (h *Herder) topicUsed(u store.TopicUse) {
	if h.configs.Now().Connectors[u.Connector] != nil {
		h.statuses.PutTopic(u)
	}
}
