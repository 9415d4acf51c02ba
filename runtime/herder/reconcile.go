package herder

import (
	"context"
	"errors"
	"time"

	"millrace/runtime"
	"millrace/runtime/member"
	"millrace/runtime/settings"
	"millrace/runtime/store"
	"millrace/runtime/worker"
	"millrace/schema/config"
)

// state is what the loop owns.
type state struct {
	at        member.Membership
	joined    bool // a member of the group, with an assignment
	mine      work // what is assigned to this worker
	leaderID  string
	leaderURL string
	ending    bool
	readied   bool

	conns map[string]*connSlot
	tasks map[runtime.TaskID]*taskSlot

	joins    int      // that were begun
	whenGone bool     // join again once all that is not ours has stopped
	joining  bool     // a join is under way
	whenIdle []func() // to be called when nothing runs
	// whenTaken are to be called when the next assignment is taken.
	whenTaken []func()

	// Of the leader:
	plan        plan
	ledFor      work              // what was assigned in all
	urls        map[string]string // of the members
	owners      map[string]work   // what each has
	holding     []work            // what members said they have, or were given, when it last led
	keyUnderWay bool
	fencings    map[string]*fencing
}

// outcome is what became of a part that failed, or of its restarts.
type outcome struct {
	err      error
	restarts int       // automatic ones in a row
	next     time.Time // of the next one; zero for none
	timer    *time.Timer
	started  time.Time
	failed   time.Time // when err was
	failures int       // ever; tells one failure from another
}

func (o *outcome) forget() {
	if o.timer != nil {
		o.timer.Stop()
	}
	o.timer, o.err, o.next = nil, nil, time.Time{}
}

// connSlot is a connector that is assigned here.
type connSlot struct {
	version int64 // of the configuration that was planned, or is being; -1: plan anew
	planner context.CancelFunc
	planned bool // the plan of version was made and stored
	shown   runtime.State
	outcome
}

// taskSlot is a task that is assigned here.
type taskSlot struct {
	version  int64 // of the task configurations that it runs
	run      *worker.Task
	stopping bool
	ended    bool // failed; run is nil
	begun    bool // the run has said that it runs

	meter  *worker.Meter // of all runs
	limit  time.Duration // without progress, until it is restarted; 0: never
	stall  *worker.Stall // the run gets no further; nil where it does
	stalls int64         // restarts because of it
	outcome
}

// reconcile makes what runs equal to what is assigned and configured. It starts what
// is missing, stops what is too much, and never waits.
func (h *Herder) reconcile() {
	snap := h.configs.Now()
	want := h.mine
	if h.ending || !h.joined {
		want = work{}
	}
	h.reconcileConnectors(snap, want)
	h.reconcileTasks(snap, want)
	if h.whenGone && !h.holdsOther() {
		h.whenGone = false
		h.member.RequestRejoin()
	}
	if len(h.tasks) == 0 && len(h.conns) == 0 {
		for _, f := range h.whenIdle {
			f()
		}
		h.whenIdle = nil
	}
	if !h.joined || h.ending {
		return
	}
	if h.at.Leader {
		h.reconcileGroup(snap)
	}
	if !h.readied {
		h.readied = true
		close(h.ready)
	}
}

// holdsOther reports whether something still runs that is not assigned here.
func (h *Herder) holdsOther() bool { return !h.leftovers().empty() }

// leftovers are what still runs and is not assigned here.
func (h *Herder) leftovers() work {
	var w work
	for name := range h.conns {
		if !h.mine.hasConnector(name) {
			w.connectors = append(w.connectors, name)
		}
	}
	for id := range h.tasks {
		if !h.mine.hasTask(id) {
			w.tasks = append(w.tasks, id)
		}
	}
	return w.normal()
}

// reconcileGroup is the leader's care for the group: work that came or went is
// assigned, states of what is no more are removed.
func (h *Herder) reconcileGroup(snap *store.Snapshot) {
	if now := configured(snap); !now.equal(h.ledFor) {
		h.ledFor = now
		h.member.RequestRejoin()
	}
	conns, tasks := h.statuses.Known()
	for _, name := range conns {
		if snap.Connectors[name] == nil && h.conns[name] == nil {
			h.statuses.RemoveConnector(name)
		}
	}
	for _, id := range tasks {
		if c := snap.Connectors[id.Connector]; (c == nil || id.Task >= len(c.Tasks)) && h.tasks[id] == nil {
			h.statuses.RemoveTask(id)
		}
	}
	h.refreshSessionKey()
	h.reconcileFencing(snap)
}

func (h *Herder) reconcileConnectors(snap *store.Snapshot, want work) {
	for name, s := range h.conns {
		if want.hasConnector(name) && snap.Connectors[name] != nil {
			continue
		}
		s.forget()
		if s.planner != nil {
			s.planner()
		}
		delete(h.conns, name)
		if snap.Connectors[name] != nil {
			h.reportConnector(name, runtime.Unassigned, nil, snap)
		}
	}
	for _, name := range want.connectors {
		c := snap.Connectors[name]
		if c == nil {
			continue
		}
		s := h.conns[name]
		if s == nil {
			s = &connSlot{version: -1}
			h.conns[name] = s
		}
		show := func(st runtime.State) {
			if s.shown != st {
				s.shown = st
				h.reportConnector(name, st, nil, snap)
			}
		}
		changed := s.version >= 0 && s.version != c.Version
		if changed && s.err != nil {
			s.restarts = 0
			s.forget()
		}
		switch c.Target {
		case runtime.StoppedTarget:
			if s.planner != nil {
				s.planner()
				s.planner = nil
			}
			s.version, s.planned = -1, false
			s.forget()
			show(runtime.Stopped)
		case runtime.PausedTarget:
			if s.err == nil {
				show(runtime.Paused) // a plan is made when it goes on
			}
		default:
			switch {
			case s.err != nil, s.planner != nil && s.version == c.Version:
			case s.version != c.Version || !s.planned || c.Inconsistent:
				h.planTasks(s, c)
			default:
				show(runtime.Running)
			}
		}
	}
}

// planTasks has a connector plan its tasks and stores the plan where it differs.
func (h *Herder) planTasks(s *connSlot, c *store.Connector) {
	if s.planner != nil {
		s.planner()
	}
	ctx, cancel := context.WithCancel(h.stopped)
	s.planner, s.version, s.planned, s.started = cancel, c.Version, false, time.Now()
	h.tally.conns.attempts.Add(1)
	go func() {
		defer cancel()
		tasks, err := h.worker.Plan(ctx, c.Name, c.Config)
		if err == nil {
			err = h.storePlan(ctx, c, tasks)
		}
		h.mail.post(func() {
			if h.conns[c.Name] != s || s.version != c.Version || ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return // overtaken
			}
			s.planner = nil
			if err == nil {
				h.tally.conns.ok.Add(1)
				s.planned = true
				s.shown = runtime.Running
				h.reportConnector(c.Name, runtime.Running, nil, h.configs.Now())
				return
			}
			h.tally.conns.failed.Add(1)
			h.lg.Error("connector failed", "connector", c.Name, "err", err)
			s.shown = runtime.Failed
			h.reportConnector(c.Name, runtime.Failed, err, h.configs.Now())
			h.failed(&s.outcome, err, c, func() {
				if h.conns[c.Name] == s && s.err != nil {
					s.forget()
					s.version = -1
				}
			})
		})
	}()
}

// lockAsLeader is lockConfigs for what only the leader may do.
func (h *Herder) lockAsLeader(ctx context.Context) (release func(), err error) {
	if err := h.mustLead(ctx); err != nil {
		return nil, err
	}
	return h.lockConfigs(ctx)
}

// lockConfigs makes the caller the one who writes configurations.
func (h *Herder) lockConfigs(ctx context.Context) (release func(), err error) {
	select {
	case h.writing <- struct{}{}:
		return func() { <-h.writing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *Herder) reconcileTasks(snap *store.Snapshot, want work) {
	var stop []*worker.Task
	for id, s := range h.tasks {
		c := snap.Connectors[id.Connector]
		if want.hasTask(id) && c != nil && id.Task < len(c.Tasks) && c.TasksVersion == s.version && c.Target != runtime.StoppedTarget {
			continue
		}
		switch {
		case s.stopping:
		case s.run != nil:
			s.stopping = true
			stop = append(stop, s.run)
		default:
			s.forget()
			delete(h.tasks, id)
			h.gone(id, snap)
		}
	}
	if len(stop) > 0 {
		h.stopTasks(stop)
	}
	for _, id := range want.tasks {
		c := snap.Connectors[id.Connector]
		if c == nil || id.Task >= len(c.Tasks) || c.Target == runtime.StoppedTarget {
			continue
		}
		s := h.tasks[id]
		switch {
		case (s == nil || s.run == nil && !s.ended) && h.mustFence(c): // the leader's record comes
		case s == nil:
			s = &taskSlot{version: c.TasksVersion}
			h.tasks[id] = s
			h.startTask(id, s, c)
		case s.version != c.TasksVersion || s.stopping:
		case s.run == nil && !s.ended:
			h.startTask(id, s, c)
		case s.run != nil:
			s.run.SetPaused(c.Target == runtime.PausedTarget)
		}
	}
}

// stopTasks stops tasks together, in the background.
func (h *Herder) stopTasks(tasks []*worker.Task) {
	go func() {
		for _, t := range worker.StopAll(tasks, h.cfg.Worker.TaskGrace) {
			h.lg.Warn("task did not end within task.shutdown.graceful.timeout.ms and is abandoned; what it had not committed is read again", "connector", t.ID.Connector, "task", t.ID.Task)
		}
		h.mail.post(func() {
			snap := h.configs.Now()
			for _, t := range tasks {
				s := h.tasks[t.ID]
				if s == nil || s.run != t {
					continue
				}
				s.forget()
				delete(h.tasks, t.ID)
				h.gone(t.ID, snap)
			}
		})
	}()
}

// gone reports that a task no longer runs here, where it still exists.
func (h *Herder) gone(id runtime.TaskID, snap *store.Snapshot) {
	if c := snap.Connectors[id.Connector]; c != nil && id.Task < len(c.Tasks) {
		h.statuses.PutTask(id, store.Status{State: runtime.Unassigned, WorkerID: h.workerID, Generation: h.at.Generation})
	}
}

func (h *Herder) startTask(id runtime.TaskID, s *taskSlot, c *store.Connector) {
	s.stopping, s.ended, s.begun, s.stall, s.started = false, false, false, nil, time.Now()
	if s.meter == nil {
		s.meter = &worker.Meter{}
	}
	s.limit = h.stallLimit(c)
	h.tally.tasks.attempts.Add(1)
	s.run = h.worker.Start(worker.TaskSpec{
		ID: id, Meter: s.meter, Restarts: s.restarts, Connector: c.Config, Task: c.Tasks[id.Task], Paused: c.Target == runtime.PausedTarget,
		State: func(t *worker.Task, st runtime.State, err error) {
			h.mail.post(func() { h.taskState(t, st, err) })
		},
	})
}

// taskState hears of a task's states.
func (h *Herder) taskState(t *worker.Task, st runtime.State, err error) {
	s := h.tasks[t.ID]
	if s == nil || s.run != t {
		return // abandoned, or overtaken
	}
	if s.stopping {
		return // what follows says more
	}
	if st == runtime.Failed {
		h.taskFailed(t, s, err)
		return
	}
	if !s.begun {
		s.begun = true
		h.tally.tasks.ok.Add(1)
	}
	h.statuses.PutTask(t.ID, store.Status{State: st, WorkerID: h.workerID, Generation: h.at.Generation, Version: t.Version})
}

// taskFailed has a task's run that is over count as failed, and restarted where that
// can help.
func (h *Herder) taskFailed(t *worker.Task, s *taskSlot, err error) {
	if !s.begun {
		h.tally.tasks.failed.Add(1)
	}
	t.Meter.Is(runtime.Failed)
	h.statuses.PutTask(t.ID, store.Status{State: runtime.Failed, WorkerID: h.workerID, Generation: h.at.Generation, Version: t.Version, Trace: err.Error()})
	s.run, s.ended, s.stall = nil, true, nil
	c := h.configs.Now().Connectors[t.ID.Connector]
	if c == nil {
		return
	}
	h.failed(&s.outcome, err, c, func() {
		if h.tasks[t.ID] == s && s.ended {
			s.forget()
			s.ended = false
		}
	})
}

// wantsRestart reports whether a connector's parts may be restarted by themselves.
func wantsRestart(conf map[string]string) bool {
	v, _ := autoRestart.Parse(conf)
	return settings.AutoRestart.Get(v)
}

var autoRestart = config.Define(settings.AutoRestart)

// failed remembers a failure and has again called, in the loop, when it is time to try
// once more.
func (h *Herder) failed(o *outcome, err error, c *store.Connector, again func()) {
	if !o.started.IsZero() && time.Since(o.started) >= forgiven {
		o.restarts = 0
	}
	o.err, o.failed = err, time.Now()
	o.failures++
	this := o.failures
	if !h.cfg.Worker.AutoRestart || !wantsRestart(c.Config) {
		return
	}
	wait, ok := nextRestart(err, o.restarts)
	if !ok {
		return
	}
	o.next = time.Now().Add(wait)
	o.timer = time.AfterFunc(wait, func() {
		h.mail.post(func() {
			if o.err != nil && o.failures == this {
				o.restarts++
				again()
			}
		})
	})
}

func (h *Herder) reportConnector(name string, st runtime.State, err error, snap *store.Snapshot) {
	report := store.Status{State: st, WorkerID: h.workerID, Generation: h.at.Generation}
	if err != nil {
		report.Trace = err.Error()
	}
	if c := snap.Connectors[name]; c != nil && st != runtime.Unassigned {
		if info, err := h.worker.Find(c.Class()); err == nil {
			report.Version = info.Version
		}
	}
	h.statuses.PutConnector(name, report)
}

// killAll abandons all that runs here, at once.
func (h *Herder) killAll() {
	for _, s := range h.tasks {
		s.forget()
		if s.run != nil {
			s.run.Kill()
		}
	}
	for _, s := range h.conns {
		s.forget()
		if s.planner != nil {
			s.planner()
		}
	}
	clear(h.tasks)
	clear(h.conns)
}

// restartAsked restarts this worker's parts of a connector, as a client wants.
func (h *Herder) restartAsked(r store.Restart) {
	snap := h.configs.Now()
	if s := h.conns[r.Connector]; s != nil && (!r.OnlyFailed || s.err != nil) {
		h.restartConnector(r.Connector, s)
	}
	if !r.IncludeTasks {
		return
	}
	for id, s := range h.tasks {
		if id.Connector == r.Connector && (!r.OnlyFailed || s.ended) {
			h.restartTask(id, s, snap)
		}
	}
}

func (h *Herder) restartConnector(name string, s *connSlot) {
	s.forget()
	s.restarts = 0
	if c := h.configs.Now().Connectors[name]; c == nil || c.Target == runtime.StoppedTarget {
		return
	}
	s.version, s.planned, s.shown = -1, false, ""
	h.reportConnector(name, runtime.Restarting, nil, h.configs.Now())
}

// restartTask stops a task where it runs; the next reconciliation starts it.
func (h *Herder) restartTask(id runtime.TaskID, s *taskSlot, snap *store.Snapshot) {
	s.forget()
	s.restarts = 0
	report := store.Status{State: runtime.Restarting, WorkerID: h.workerID, Generation: h.at.Generation}
	if s.run == nil {
		s.ended = false
		h.statuses.PutTask(id, report)
		return
	}
	if !s.stopping {
		s.stopping = true
		h.statuses.PutTask(id, report)
		h.stopTasks([]*worker.Task{s.run})
	}
}
