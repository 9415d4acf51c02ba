package herder

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/runtime/store"
	"millrace/runtime/tolerance"
)

// A plan is made by the worker that has the connector and written by the leader alone, so that with exactly-once delivery nobody who was
// overtaken writes one. Another worker hands its plan to the leader, as Connect's workers do.

const (
	planLimit = time.Minute      // in which a plan must be stored, over rebalances and changes of the leader
	handLimit = 20 * time.Second // for one request to the leader
)

// errOvertaken says that a plan is of no use any more.
var errOvertaken = context.Canceled

// storePlan stores task configurations where they are not those that are stored, or were made for another configuration.
func (h *Herder) storePlan(ctx context.Context, planned *store.Connector, tasks []map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, planLimit)
	defer cancel()
	var last error
	for try := 0; ; try++ {
		err := h.tryPlan(ctx, planned, tasks)
		if err == nil || errors.Is(err, errOvertaken) {
			return err
		}
		if ctx.Err() == nil {
			last = err
		}
		if try == 0 {
			h.lg.Debug("a plan is not stored yet", "connector", planned.Name, "err", err)
		}
		select {
		case <-time.After(tolerance.Backoff(try, 100*time.Millisecond, 5*time.Second)):
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return connectors.Retriable(fmt.Errorf("store the plan of connector %s: %w", planned.Name, cmp.Or(last, err)))
		}
	}
}

func (h *Herder) tryPlan(ctx context.Context, planned *store.Connector, tasks []map[string]string) error {
	err := h.writePlan(ctx, planned, tasks)
	// Others write here while the leader, which may be slow, is asked.
	if leader := (*runtime.ForwardError)(nil); errors.As(err, &leader) {
		return h.handPlan(ctx, leader.URL, planned, tasks)
	}
	return err
}

// writePlan stores a plan as the leader, or says who that is.
func (h *Herder) writePlan(ctx context.Context, planned *store.Connector, tasks []map[string]string) error {
	release, err := h.lockConfigs(ctx)
	if err != nil {
		return err
	}
	defer release()
	c := h.configs.Now().Connectors[planned.Name]
	if c == nil || c.Version != planned.Version || c.Target == runtime.StoppedTarget {
		return errOvertaken
	}
	same := !c.Inconsistent && c.TasksVersion >= 0 && slices.EqualFunc(c.Tasks, tasks, maps.Equal) &&
		(c.Applied == nil || maps.Equal(c.Applied, c.Config))
	if same {
		return nil
	}
	if err := h.mustLead(ctx); err != nil {
		return err
	}
	return h.configs.PutTasks(ctx, c.Name, tasks)
}

// handPlan has the leader store a plan, and returns when this worker knows it, too.
func (h *Herder) handPlan(ctx context.Context, leader string, planned *store.Connector, tasks []map[string]string) error {
	body, err := json.Marshal(tasks)
	if err != nil {
		return err
	}
	s, err := h.Sign(body)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, handLimit)
	defer cancel()
	if err := h.cfg.PutTasks(limited, leader, planned.Name, planned.Version, body, s); err != nil {
		return fmt.Errorf("hand the plan to the group's leader at %s: %w", leader, err)
	}
	return h.configs.ReadToEnd(limited)
}

// PutTasks stores the task configurations that another worker, which runs the connector, has planned for the configuration of a version, -1
// where it does not say. body is the request's, which the signature is of.
func (h *Herder) PutTasks(ctx context.Context, name string, version int64, tasks []map[string]string, body []byte, s runtime.Signature) error {
	if err := h.Verify(body, s); err != nil {
		return err
	}
	release, err := h.lockAsLeader(ctx)
	if err != nil {
		return err
	}
	defer release()
	if c := h.configs.Now().Connectors[name]; c == nil || c.Version < version {
		if err := h.configs.ReadToEnd(ctx); err != nil {
			return err
		}
	}
	c, err := h.connector(name)
	if err != nil {
		return err
	}
	switch {
	case c.Target == runtime.StoppedTarget:
		return runtime.Conflict("connector %s was stopped meanwhile", name)
	case version >= 0 && c.Version != version:
		return runtime.Conflict("connector %s has another configuration than the one that was planned", name)
	}
	return h.configs.PutTasks(ctx, name, tasks)
}
