package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log"
	"millrace/runtime"
)

// journal is a topic of one partition that is never thrown away. Entries are written
// with a client of the task's: a task that was abandoned writes none.
type journal struct {
	from   *log.Log // to read it
	client *kgo.Client
	topic  string
}

var _ connectors.Journal = (*journal)(nil)

// journals are what a task keeps beyond offsets. Those in the worker's log are written with one client.
type journals struct {
	log     *log.Log
	lg      *slog.Logger
	servers string                      // of the worker's cluster, as they were given
	make    func() (*kgo.Client, error) // makes a client where none is given
	reach   func(context.Context, connectors.JournalPlace) (reached, error)

	mu     sync.Mutex // guards the fields below
	client *kgo.Client
	made   bool
	others []reached
}

// reached is another cluster with a journal: as it is read, as it is written, and a client that writes.
type reached struct {
	from, to *log.Log
	client   *kgo.Client
}

func (r reached) close() {
	if r.client != nil {
		r.client.Close()
	}
	for _, l := range []*log.Log{r.from, r.to} {
		if l != nil {
			_ = l.Close(context.Background()) // of a cluster's nothing can fail
		}
	}
}

func (j *journals) open(ctx context.Context, at connectors.JournalPlace) (connectors.Journal, error) {
	if !j.elsewhere(at) {
		client, err := j.writer()
		if err != nil {
			return nil, err
		}
		return openJournal(ctx, j.log, j.log, client, at.Topic)
	}
	r, err := j.reach(ctx, at)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	j.others = append(j.others, r)
	j.mu.Unlock()
	return openJournal(ctx, r.to, r.from, r.client, at.Topic)
}

// elsewhere reports whether a journal is not to be reached as the worker reaches its log.
func (j *journals) elsewhere(at connectors.JournalPlace) bool {
	notice := func(reason string) {
		j.lg.Info("settings of a journal's servers and clients have no effect", "topic", at.Topic, "servers", strings.Join(at.Servers, ","), "reason", reason)
	}
	switch {
	case len(at.Servers) == 0:
		return false
	case j.log.Embedded():
		notice("the worker keeps its log itself, and the topic is there")
		return false
	case !sameServers(at.Servers, strings.Split(j.servers, ",")) || runtime.HasIdentity(at.Reader.Settings) || runtime.HasIdentity(at.Writer.Settings):
		return true
	case len(at.Reader.Settings)+len(at.Writer.Settings) > 0:
		notice("the topic is on the worker's own cluster, which is reached as the worker does")
	}
	return false
}

func sameServers(a, b []string) bool {
	set := func(list []string) map[string]bool {
		out := map[string]bool{}
		for _, s := range list {
			out[strings.ToLower(strings.TrimSpace(s))] = true
		}
		return out
	}
	return maps.Equal(set(a), set(b))
}

// reachJournal reaches the cluster that a journal is on, as its settings say.
func (w *Worker) reachJournal(ctx context.Context, at connectors.JournalPlace, id string, limit func(string) int32, m *Meter, lg *slog.Logger) (r reached, err error) {
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	one := func(kind runtime.ClientKind, c connectors.ClientSettings) (*log.Log, runtime.ClientConfig, error) {
		conf, errs := runtime.ClientElsewhere(kind, c)
		if err := wrong(errs); err != nil {
			return nil, conf, err
		}
		opts, errs := conf.Identity.Options(w.cfg.Files, lg)
		if err := wrong(errs); err != nil {
			return nil, conf, err
		}
		notices(lg, conf.Notices)
		l, err := within(ctx, func(ctx context.Context) (*log.Log, error) {
			return log.Open(ctx, log.Config{Seeds: at.Servers, ClientOpts: opts, ClientID: cmp.Or(conf.ClientID, id), Logger: w.cfg.Logger})
		}, fmt.Sprintf("the journal %q is on another cluster, reached with settings %s*", at.Topic, c.Prefix))
		return l, conf, err
	}
	if r.from, _, err = one(runtime.Consumer, at.Reader); err != nil {
		return r, err
	}
	var conf runtime.ClientConfig
	if r.to, conf, err = one(runtime.Producer, at.Writer); err != nil {
		return r, err
	}
	r.client, err = w.producer(r.to, id, conf, limit, m)
	return r, err
}

func (j *journals) writer() (_ *kgo.Client, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.client == nil {
		if j.client, err = j.make(); err != nil {
			return nil, err
		}
		j.made = true
	}
	return j.client, nil
}

func (j *journals) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.made {
		j.client.Close()
	}
	for _, r := range j.others {
		r.close()
	}
}

// openJournal makes or verifies the topic of that name. to and from are the log as it is written and as it is read.
func openJournal(ctx context.Context, to, from *log.Log, client *kgo.Client, topic string) (connectors.Journal, error) {
	err := to.EnsureTopic(ctx, topic, 1, -1, map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"})
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.InvalidTopicException):
		return nil, connectors.BadConfig(err)
	case err != nil && kerr.IsRetriable(err):
		return nil, connectors.Retriable(err)
	case err != nil:
		return nil, err
	}
	return &journal{from, client, topic}, nil
}

// Append implements connectors.Journal.
func (j *journal) Append(ctx context.Context, entries ...[]byte) error {
	rs := make([]*kgo.Record, len(entries))
	for i, e := range entries {
		rs[i] = &kgo.Record{Topic: j.topic, Partition: 0, Value: e}
	}
	if err := j.client.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		return connectors.Retriable(fmt.Errorf("write to topic %q: %w", j.topic, err))
	}
	return nil
}

// Replay implements connectors.Journal.
func (j *journal) Replay(ctx context.Context, each func(entry []byte) error) error {
	starts, err := j.from.Admin().ListStartOffsets(ctx, j.topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return connectors.Retriable(fmt.Errorf("read topic %q: %w", j.topic, err))
	}
	ends, err := j.from.Admin().ListCommittedOffsets(ctx, j.topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return connectors.Retriable(fmt.Errorf("read topic %q: %w", j.topic, err))
	}
	s, _ := starts.Lookup(j.topic, 0)
	e, _ := ends.Lookup(j.topic, 0)
	at, end := s.Offset, e.Offset
	if at >= end {
		return nil
	}
	cl, err := kgo.NewClient(append(j.from.ClientOpts(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.topic: {0: kgo.NewOffset().At(at)}}))...)
	if err != nil {
		return fmt.Errorf("client of topic %q: %w", j.topic, err)
	}
	defer cl.Close()
	for at < end {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var failed error
		fetches.EachError(func(_ string, _ int32, err error) {
			if failed == nil && !kerr.IsRetriable(err) {
				failed = connectors.Retriable(fmt.Errorf("read topic %q: %w", j.topic, err))
			}
		})
		fetches.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			if failed == nil && r.Offset < end && !r.Attrs.IsControl() {
				failed = each(r.Value)
			}
		})
		if failed != nil {
			return failed
		}
	}
	return nil
}
