package herder

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/log"
	"millrace/runtime"
	"millrace/runtime/settings"
	"millrace/runtime/store"
)

// ClusterID is the log's id.
func (h *Herder) ClusterID() string { return h.cfg.Log.ClusterID() }

// WorkerID is what statuses call this worker: its advertised host and port.
func (h *Herder) WorkerID() string { return h.workerID }

// healthLimit is how long the loop may take to answer before it counts as stuck.
const healthLimit = 10 * time.Second

// Health says whether the worker has joined its group, whether its loop answers, and
// how the log is: one that works with a worry leaves the worker healthy.
func (h *Herder) Health(ctx context.Context) runtime.Health {
	select {
	case <-h.done:
		return runtime.Health{Status: "unhealthy", Message: "Worker has shut down."}
	case <-h.ready:
	default:
		return runtime.Health{Status: "starting", Message: "Worker is still starting up: it joins the group " + h.cfg.Worker.GroupID + "."}
	}
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	joined := false
	if err := h.peek(ctx, func() { joined = h.joined }); err != nil {
		return runtime.Health{Status: "unhealthy", Message: "Worker does not answer: " + err.Error()}
	}
	l := h.cfg.Log.Health(ctx)
	if l.State == log.Red { // before the group's state, which may well follow from it
		return runtime.Health{Status: "unhealthy", Message: "The log does not work: " + l.Message + "."}
	}
	if !joined {
		return runtime.Health{Status: "unhealthy", Message: "Worker is not counted in by the group " + h.cfg.Worker.GroupID + " and tries to join again."}
	}
	ok := runtime.Health{Status: "healthy", Message: "Worker has completed startup and is ready to handle requests."}
	if l.State == log.Yellow {
		ok.Message += " The log has a worry: " + l.Message + "."
	}
	return ok
}

// Connectors are the connectors' names, sorted.
func (h *Herder) Connectors(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(h.configs.Now().Connectors)), nil
}

func (h *Herder) connector(name string) (*store.Connector, error) {
	if c := h.configs.Now().Connectors[name]; c != nil {
		return c, nil
	}
	return nil, runtime.NotFound("Connector %s not found", name)
}

// Connector is a connector with its tasks.
func (h *Herder) Connector(_ context.Context, name string) (runtime.ConnectorInfo, error) {
	c, err := h.connector(name)
	if err != nil {
		return runtime.ConnectorInfo{}, err
	}
	return h.info(c), nil
}

func (h *Herder) info(c *store.Connector) runtime.ConnectorInfo {
	i := runtime.ConnectorInfo{Name: c.Name, Config: h.shown(c.Config), Tasks: []runtime.TaskID{}, Type: h.typeOf(c.Config)}
	for n := range c.Tasks {
		i.Tasks = append(i.Tasks, runtime.TaskID{Connector: c.Name, Task: n})
	}
	return i
}

func (h *Herder) typeOf(conf map[string]string) runtime.Type { return h.validator.Type(conf) }

// Config is a connector's configuration, as it was given.
func (h *Herder) Config(_ context.Context, name string) (map[string]string, error) {
	c, err := h.connector(name)
	if err != nil {
		return nil, err
	}
	return h.shown(c.Config), nil
}

// Tasks are a connector's tasks with their configurations.
func (h *Herder) Tasks(_ context.Context, name string) ([]runtime.TaskInfo, error) {
	c, err := h.connector(name)
	if err != nil {
		return nil, err
	}
	out := []runtime.TaskInfo{}
	for n, t := range c.Tasks {
		out = append(out, runtime.TaskInfo{ID: runtime.TaskID{Connector: name, Task: n}, Config: h.shownTask(c.Config, t)})
	}
	return out, nil
}

// mustLead refuses what only the leader may do, and says who leads.
func (h *Herder) mustLead(ctx context.Context) error {
	var err error
	if e := h.peek(ctx, func() {
		switch {
		case h.ending:
			err = runtime.Conflict("the worker is shutting down")
		case !h.joined:
			err = runtime.Conflict("Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway.")
		case !h.at.Leader:
			err = &runtime.ForwardError{URL: h.leaderURL, ConflictError: runtime.ConflictError{
				Msg: fmt.Sprintf("only the leader of the group can do that: it is the worker at %s", h.leaderURL)}}
		}
	}); e != nil {
		return e
	}
	return err
}

// PutConfig validates a configuration and stores it. See rest.Herder.
func (h *Herder) PutConfig(ctx context.Context, name string, conf map[string]string, initial runtime.TargetState, allowReplace bool) (runtime.ConnectorInfo, bool, error) {
	return h.putConfig(ctx, name, conf, initial, func(now *store.Connector) error {
		if now != nil && !allowReplace {
			return &runtime.ExistsError{Name: name}
		}
		return nil
	})
}

// putConfig is PutConfig; allow is asked at last, while nobody else writes, about the
// connector as it is now, nil for none.
func (h *Herder) putConfig(ctx context.Context, name string, conf map[string]string, initial runtime.TargetState, allow func(now *store.Connector) error) (runtime.ConnectorInfo, bool, error) {
	none := runtime.ConnectorInfo{}
	if own, ok := conf[settings.Name.Name]; ok && own != name {
		return none, false, runtime.BadRequest("Connector name configuration (%s) doesn't match connector name in the URL (%s)", own, name)
	}
	if err := h.mustLead(ctx); err != nil {
		return none, false, err
	}
	conf, err := h.kept(name, conf)
	if err != nil {
		return none, false, err
	}
	conf[settings.Name.Name] = name
	infos, err := h.validator.Validate(ctx, conf)
	if err != nil {
		return none, false, err
	}
	if text := settings.ErrorText(infos); text != "" {
		return none, false, runtime.BadRequest("%s", text)
	}
	group, err := h.sinkGroup(ctx, name, conf)
	if err != nil {
		return none, false, err
	}
	if h.typeOf(conf) == runtime.SinkType && group == h.cfg.Worker.GroupID {
		return none, false, runtime.BadRequest("Consumer group for sink connector named %s conflicts with Connect worker group %s", name, group)
	}
	release, err := h.lockConfigs(ctx)
	if err != nil {
		return none, false, err
	}
	defer release()
	was := h.configs.Now().Connectors[name]
	if err := allow(was); err != nil {
		return none, false, err
	}
	if err := h.configs.PutConnector(ctx, name, conf, initial); err != nil {
		return none, false, err
	}
	c, err := h.connector(name)
	if err != nil {
		return none, false, err // deleted at once
	}
	return h.info(c), was == nil, nil
}

// Delete removes a connector. Its offsets stay, as in Connect.
func (h *Herder) Delete(ctx context.Context, name string) error {
	release, err := h.lockAsLeader(ctx)
	if err != nil {
		return err
	}
	defer release()
	if _, err := h.connector(name); err != nil {
		return err
	}
	return h.configs.RemoveConnector(ctx, name)
}

// SetTargetState says what a connector shall do. Stopping takes its tasks away, which
// only the leader may.
func (h *Herder) SetTargetState(ctx context.Context, name string, target runtime.TargetState) error {
	if _, err := h.connector(name); err != nil {
		return runtime.NotFound("Unknown connector %s", name)
	}
	if target == runtime.StoppedTarget {
		if err := h.mustLead(ctx); err != nil {
			return err
		}
	}
	release, err := h.lockConfigs(ctx)
	if err != nil {
		return err
	}
	defer release()
	if _, err := h.connector(name); err != nil {
		return runtime.NotFound("Unknown connector %s", name)
	}
	return h.configs.PutTarget(ctx, name, target)
}

// owner runs f where this worker has the part, or says who has it.
func (h *Herder) owner(ctx context.Context, has func(work) bool, f func()) error {
	var err error
	if e := h.do(ctx, func() {
		switch {
		case !h.joined:
			err = runtime.Conflict("Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway.")
		case has(h.mine):
			f()
		case !h.at.Leader:
			err = &runtime.ForwardError{URL: h.leaderURL, ConflictError: runtime.ConflictError{
				Msg: "another worker runs it; the leader knows which: it is the worker at " + h.leaderURL}}
		default:
			err = runtime.Conflict("Cannot complete request because the connector or task is not assigned to a worker; the group is rebalancing")
			for id, w := range h.owners {
				if has(w) {
					err = &runtime.ForwardError{URL: h.urls[id], ConflictError: runtime.ConflictError{Msg: "the worker at " + h.urls[id] + " runs it"}}
				}
			}
		}
	}); e != nil {
		return e
	}
	return err
}

// RestartConnector restarts the connector alone.
func (h *Herder) RestartConnector(ctx context.Context, name string) error {
	if _, err := h.connector(name); err != nil {
		return runtime.NotFound("Unknown connector: %s", name)
	}
	return h.owner(ctx, func(w work) bool { return w.hasConnector(name) }, func() {
		if s := h.conns[name]; s != nil {
			h.restartConnector(name, s)
		}
	})
}

// RestartTask restarts one task.
func (h *Herder) RestartTask(ctx context.Context, id runtime.TaskID) error {
	c := h.configs.Now().Connectors[id.Connector]
	switch {
	case c == nil:
		return runtime.NotFound("Unknown connector: %s", id.Connector)
	case id.Task < 0 || id.Task >= len(c.Tasks):
		return runtime.NotFound("Unknown task: %s", id)
	}
	return h.owner(ctx, func(w work) bool { return w.hasTask(id) }, func() {
		if s := h.tasks[id]; s != nil {
			h.restartTask(id, s, h.configs.Now())
		}
	})
}

// Restart has every worker restart its parts of a connector. This worker's own are no
// longer shown as running when it returns; others hear of it by the topic.
func (h *Herder) Restart(ctx context.Context, name string, includeTasks, onlyFailed bool) (runtime.Status, error) {
	if _, err := h.connector(name); err != nil {
		return runtime.Status{}, runtime.NotFound("Unknown connector: %s", name)
	}
	if err := h.mustLead(ctx); err != nil {
		return runtime.Status{}, err
	}
	if err := h.rebalanced(ctx); err != nil {
		return runtime.Status{}, err
	}
	st, err := h.Status(ctx, name)
	if err != nil {
		return st, err
	}
	any := false
	mark := func(p *runtime.PartStatus) {
		if !onlyFailed || p.State == runtime.Failed {
			p.State, any = runtime.Restarting, true
		}
	}
	mark(&st.Connector)
	if includeTasks {
		for i := range st.Tasks {
			mark(&st.Tasks[i].PartStatus)
		}
	}
	if !any && !onlyFailed {
		return st, nil
	}
	release, err := h.lockConfigs(ctx)
	if err != nil {
		return st, err
	}
	defer release()
	if err := h.configs.PutRestart(ctx, store.Restart{Connector: name, IncludeTasks: includeTasks, OnlyFailed: onlyFailed}); err != nil {
		return st, err
	}
	return st, h.peek(ctx, func() {}) // the loop has heard of it once it comes to this
}

// rebalanceWait is how long a request waits for a rebalance that is under way.
const rebalanceWait = 5 * time.Second

// rebalanced waits until no rebalance is under way. Where it takes long, as when a member is gone, that is a conflict.
func (h *Herder) rebalanced(ctx context.Context) error {
	taken := make(chan struct{})
	if err := h.peek(ctx, func() {
		if h.joining {
			h.whenTaken = append(h.whenTaken, func() { close(taken) })
		} else {
			close(taken)
		}
	}); err != nil {
		return err
	}
	timeout := time.NewTimer(rebalanceWait)
	defer timeout.Stop()
	select {
	case <-taken:
		return nil
	case <-timeout.C:
		return runtime.Conflict("Cannot complete request momentarily because the group of workers rebalances, for more than %v already: it waits for all its members. Try again", rebalanceWait)
	case <-ctx.Done():
		return ctx.Err()
	case <-h.done:
		return runtime.Conflict("the worker is shutting down")
	}
}

// Validate describes every setting of a configuration and what is wrong with it.
func (h *Herder) Validate(ctx context.Context, conf map[string]string) (runtime.ConfigInfos, error) {
	if kept, err := h.kept(conf[settings.Name.Name], conf); err == nil {
		conf = kept // where nothing is stored, validation tells what else there is to tell
	}
	return h.validator.Validate(ctx, conf)
}

// Plugins lists the plugins.
func (h *Herder) Plugins(connectorsOnly bool) []runtime.PluginInfo {
	return settings.Plugins(h.cfg.Plugins, connectorsOnly)
}

// PluginConfig describes the settings of a plugin.
func (h *Herder) PluginConfig(_ context.Context, plugin string) ([]runtime.KeyInfo, error) {
	return settings.PluginConfig(h.cfg.Plugins, plugin)
}
