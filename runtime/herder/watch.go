package herder

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/runtime/settings"
	"millrace/runtime/store"
	"millrace/runtime/worker"
	"millrace/schema/config"
)

// How the watchdog looks.
const (
	watchMost  = 5 * time.Second       // between two looks
	watchLeast = 20 * time.Millisecond // for those who set a time limit of less than a second
	// showAfter is how long a task must have got no further to be shown as stalled; half
	// the time limit where that is less.
	showAfter = time.Minute
	// probeLimit is how long the log may take to say where topics end.
	probeLimit = 5 * time.Second
)

// watchTask is a task as the watchdog sees it.
type watchTask struct {
	id    runtime.TaskID
	run   *worker.Task // nil: it has failed
	meter *worker.Meter
	limit time.Duration // 0: it is not restarted
}

// watch looks at all tasks from time to time, until the herder stops: is one of them
// running without getting on although it has something to do?
func (h *Herder) watch(ctx context.Context) {
	watches := map[runtime.TaskID]*worker.Watch{}
	runs := map[runtime.TaskID]*worker.Task{}
	usual := watchMost
	if limit := h.cfg.Worker.StallTimeout; limit > 0 {
		usual = max(watchLeast, min(usual, limit/10))
	}
	wait := usual
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		wait = usual
		var tasks []watchTask
		if h.peek(ctx, func() {
			for id, s := range h.tasks {
				if !s.stopping {
					tasks = append(tasks, watchTask{id: id, run: s.run, meter: s.meter, limit: s.limit})
				}
			}
		}) != nil {
			continue
		}
		h.probe(ctx, tasks)
		present := map[runtime.TaskID]bool{}
		for _, t := range tasks {
			present[t.id] = true
			if t.limit > 0 {
				wait = max(watchLeast, min(wait, t.limit/10))
			}
			if t.run == nil {
				continue
			}
			if runs[t.id] != t.run {
				runs[t.id], watches[t.id] = t.run, t.run.Watch()
			}
			looking, cancel := context.WithTimeout(ctx, probeLimit)
			stall := watches[t.id].Look(looking)
			cancel()
			if ctx.Err() != nil {
				return
			}
			h.judge(t, stall)
		}
		for id := range runs {
			if !present[id] {
				delete(runs, id)
				delete(watches, id)
			}
		}
	}
}

// judge decides about what a look at a task has found.
func (h *Herder) judge(t watchTask, stall *worker.Stall) {
	show := showAfter
	if t.limit > 0 {
		show = min(show, t.limit/2)
	}
	if stall != nil && time.Since(stall.Since) < show {
		stall = nil
	}
	over := stall != nil && t.limit > 0 && time.Since(stall.Since) >= t.limit
	h.mail.put(func() { h.stalled(t, stall, over) }, over)
}

// stalled notes in the loop whether a task has stalled, and restarts it where that has
// lasted for too long.
func (h *Herder) stalled(t watchTask, stall *worker.Stall, over bool) {
	s := h.tasks[t.id]
	if s == nil || s.run != t.run || s.stopping {
		return
	}
	lg := h.lg.With("connector", t.id.Connector, "task", t.id.Task)
	switch {
	case stall == nil && s.stall != nil:
		lg.Info("the task gets on again", "code", s.stall.Reason.Code, "for", time.Since(s.stall.Since).Round(time.Second))
	case stall != nil && (s.stall == nil || s.stall.Reason != stall.Reason):
		lg.Warn("the task runs, but gets no further", "code", stall.Reason.Code, "why", stall.Cause, "since", stall.Since.UTC().Truncate(time.Second),
			"remedy", stall.Reason.Remedy, "restart", restartText(t.limit))
	}
	s.stall = stall
	if !over || h.ending {
		return
	}
	s.stopping = true
	s.stalls++
	err := stall.Error(t.limit)
	lg.Error("the task is restarted: it got no further for too long", "err", err)
	go func() { // as stopTasks does it
		worker.StopAll([]*worker.Task{t.run}, h.cfg.Worker.TaskGrace)
		h.mail.post(func() {
			if h.tasks[t.id] != s || s.run != t.run {
				return
			}
			s.stopping = false
			h.taskFailed(t.run, s, err)
		})
	}()
}

func restartText(limit time.Duration) string {
	if limit == 0 {
		return "never: task.stall.timeout.ms is 0"
	}
	return "after " + limit.String() + " without progress"
}

// probe asks the log for the ends of the partitions whose tasks do not learn them by
// reading: lag grows also where nobody reads.
func (h *Herder) probe(ctx context.Context, tasks []watchTask) {
	topics := map[string]bool{}
	parts := make([][]connectors.TopicPartition, len(tasks))
	for i, t := range tasks {
		parts[i] = t.meter.Lagging()
		for _, tp := range parts[i] {
			topics[tp.Topic] = true
		}
	}
	if len(topics) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	ends, err := h.ends(ctx, topics)
	if err != nil {
		h.lg.Debug("the ends of topics are not known", "err", err)
	}
	for i, t := range tasks {
		for _, tp := range parts[i] {
			if e, ok := ends.Lookup(tp.Topic, tp.Partition); ok && e.Err == nil {
				t.meter.SetEnd(tp, e.Offset)
			}
		}
	}
}

// ends are where what is committed of topics ends. Where some cannot be had there are
// the others, and an error.
func (h *Herder) ends(ctx context.Context, topics map[string]bool) (kadm.ListedOffsets, error) {
	names := make([]string, 0, len(topics))
	for name := range topics {
		names = append(names, name)
	}
	ends, err := h.cfg.Log.Admin().ListCommittedOffsets(ctx, names...)
	var partial *kadm.ShardErrors
	if err != nil && !errors.As(err, &partial) {
		return nil, err
	}
	return ends, err
}

var stallDef = config.Define(settings.StallTimeout)

// stallLimit is after which time without progress a connector's tasks are restarted.
func (h *Herder) stallLimit(c *store.Connector) time.Duration {
	if v, errs := stallDef.Parse(c.Config); len(errs) == 0 && settings.StallTimeout.Has(v) {
		return settings.StallTimeout.Get(v)
	}
	return h.cfg.Worker.StallTimeout
}
