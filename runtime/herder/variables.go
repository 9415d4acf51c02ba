package herder

import (
	"context"
	"time"

	"millrace/runtime"
)

// sinkGroup is the consumer group of a sink, whose configuration may hold variables.
func (h *Herder) sinkGroup(ctx context.Context, name string, conf map[string]string) (string, error) {
	r, errs := h.cfg.Providers.Resolve(ctx, conf)
	for _, e := range errs {
		return "", e
	}
	return h.cfg.Worker.SinkGroup(name, r.Values), nil
}

// leastTTL keeps a provider whose values expire at once from having its connectors restart all the time.
const leastTTL = time.Second

// expires has a connector (task -1) or task restarted once the values that it runs on no longer hold. What runs
// then must be what runs now: a part that was restarted meanwhile has newer values, and a time of its own.
func (h *Herder) expires(id runtime.TaskID, after time.Duration) {
	after = max(after, leastTTL)
	h.mail.post(func() { // it may be called from what the loop is about to know
		generation := h.startedAt(id)
		time.AfterFunc(after, func() {
			h.mail.post(func() {
				if generation.IsZero() || !h.startedAt(id).Equal(generation) || h.ending {
					return
				}
				h.lg.Info("a config provider's values have expired: what runs on them is restarted", "connector", id.Connector, "task", id.Task, "after", after)
				if id.Task < 0 {
					h.restartConnector(id.Connector, h.conns[id.Connector])
					return
				}
				h.restartTask(id, h.tasks[id], h.configs.Now())
			})
		})
	})
}

// startedAt is when a part that is here was started last, zero where it is not.
func (h *Herder) startedAt(id runtime.TaskID) time.Time {
	if id.Task < 0 {
		if s := h.conns[id.Connector]; s != nil {
			return s.started
		}
		return time.Time{}
	}
	if s := h.tasks[id]; s != nil && !s.stopping {
		return s.started
	}
	return time.Time{}
}
