package herder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"millrace/runtime"
	"millrace/runtime/store"
	"millrace/runtime/tolerance"
)

// With exactly-once delivery tasks of a new plan start only after the producers of the
// former plan's tasks are fenced: one of those may live on somewhere, cut off, and
// another task may now have its part of the source. The leader fences as soon as it
// sees a plan without a fencing, says so with a record, and everybody waits for that
// record. A plan that is not new needs none: a task that starts takes its own
// transactional id over.

// fencing is a connector's fencing that is under way, or waits to be tried again.
type fencing struct{ tries int }

// mostFencePause is the longest pause between two tries to fence.
const mostFencePause = 30 * time.Second

// mustFence reports whether a connector's tasks have to wait for a fencing.
func (h *Herder) mustFence(c *store.Connector) bool {
	return h.cfg.Worker.ExactlyOnceSources() && c.PendingFencing() && h.typeOf(c.Config) == runtime.SourceType
}

// producersLeft is how many transactional ids a connector's next tasks must not meet.
// A single task before and after has the same id: it takes that over itself.
func producersLeft(c *store.Connector) int {
	if c.FencedTasks == 1 && len(c.Tasks) == 1 {
		return 0
	}
	return max(0, c.FencedTasks)
}

// reconcileFencing is the leader's care for plans that are not fenced yet.
func (h *Herder) reconcileFencing(snap *store.Snapshot) {
	for name, c := range snap.Connectors {
		if len(c.Tasks) == 0 || c.Target == runtime.StoppedTarget || !h.mustFence(c) || h.fencings[name] != nil {
			continue
		}
		if producersLeft(c) > 0 && h.runsOther(name, c.TasksVersion) {
			continue // those here may still end in order
		}
		h.fencings[name] = &fencing{}
		h.fence(name, h.fencings[name])
	}
}

// runsOther reports whether tasks of a connector run here that another plan made.
func (h *Herder) runsOther(name string, version int64) bool {
	for id, s := range h.tasks {
		if id.Connector == name && s.version != version {
			return true
		}
	}
	return false
}

// fence fences in the background. What fails is tried again for as long as this worker leads.
func (h *Herder) fence(name string, f *fencing) {
	go func() {
		err := h.fenceNow(h.stopped, name)
		h.mail.post(func() {
			if err == nil || h.stopped.Err() != nil {
				delete(h.fencings, name)
				return
			}
			wait := tolerance.Backoff(f.tries, time.Second, mostFencePause)
			f.tries++
			h.lg.Error("the producers of a connector's former tasks could not be fenced; its tasks wait", "connector", name, "again", wait, "err", err)
			h.showWaiting(name, err)
			time.AfterFunc(wait, func() {
				h.mail.post(func() {
					c := h.configs.Now().Connectors[name]
					if !h.at.Leader || h.ending || c == nil || len(c.Tasks) == 0 || !h.mustFence(c) {
						delete(h.fencings, name)
						return
					}
					h.fence(name, f)
				})
			})
		})
	}()
}

// showWaiting says in the states of tasks that wait here why they do.
func (h *Herder) showWaiting(name string, err error) {
	c := h.configs.Now().Connectors[name]
	if c == nil {
		return
	}
	for n := range c.Tasks {
		id := runtime.TaskID{Connector: name, Task: n}
		if h.mine.hasTask(id) && h.tasks[id] == nil {
			h.statuses.PutTask(id, store.Status{State: runtime.Failed, WorkerID: h.workerID, Generation: h.at.Generation,
				Trace: "the producers of the connector's former tasks could not be fenced, as exactly-once delivery needs: " + err.Error() + "; it is tried again"})
		}
	}
}

// fenceNow fences the producers of a connector's former tasks where it must, and says
// so in the config topic. Without exactly-once delivery it does nothing.
func (h *Herder) fenceNow(ctx context.Context, name string) error {
	release, err := h.lockConfigs(ctx)
	if err != nil {
		return err
	}
	defer release()
	return h.fenceLocked(ctx, name)
}

// fenceLocked is fenceNow for whoever writes configurations.
func (h *Herder) fenceLocked(ctx context.Context, name string) error {
	c := h.configs.Now().Connectors[name]
	if c == nil || !h.mustFence(c) {
		return nil
	}
	if err := h.fenceProducers(ctx, name, producersLeft(c)); err != nil {
		return err
	}
	return h.configs.PutFencing(ctx, name, len(c.Tasks))
}

// fenceLimit bounds the fencing of a connector's producers.
const fenceLimit = 30 * time.Second

// fenceProducers takes the transactional ids of a connector's first n tasks over: what
// they have begun is aborted, and they cannot begin anything more.
func (h *Herder) fenceProducers(ctx context.Context, name string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, fenceLimit)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range n {
		id := h.cfg.Worker.TransactionalID(runtime.TaskID{Connector: name, Task: i})
		g.Go(func() error { return h.fenceProducer(ctx, id) })
	}
	return g.Wait()
}

func (h *Herder) fenceProducer(ctx context.Context, id string) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = &id
	req.TransactionTimeoutMillis = 1 // nobody will write with it
	req.ProducerID, req.ProducerEpoch = -1, -1
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		resp, err := req.RequestWith(ctx, h.client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			return nil
		}
		if !kerr.IsRetriable(err) && !errors.Is(err, kerr.ConcurrentTransactions) {
			return fmt.Errorf("fence transactional id %s: %w", id, err)
		}
		select { // the coordinator still ends what the last holder began
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("fence transactional id %s: %w (%w)", id, err, ctx.Err())
		}
	}
}
