package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/cmd/client"
)

func (k *connectorsCmd) pauseCommand() *cobra.Command {
	return k.stateCommand("pause", "Pause connectors: tasks and connections stay, nothing moves", "PAUSED", func(ctx context.Context, name string) error { return k.rest.Pause(ctx, name) })
}

func (k *connectorsCmd) resumeCommand() *cobra.Command {
	return k.stateCommand("resume", "Set paused or stopped connectors going again", "RUNNING", func(ctx context.Context, name string) error { return k.rest.Resume(ctx, name) })
}

func (k *connectorsCmd) stopCommand() *cobra.Command {
	return k.stateCommand("stop", "Stop connectors: tasks end and let go of their connections", "STOPPED", func(ctx context.Context, name string) error { return k.rest.Stop(ctx, name) })
}

func (k *connectorsCmd) pickFlags(c *cobra.Command) {
	c.Flags().BoolVar(&k.failed, "failed", false, "those that have failed")
	c.Flags().BoolVar(&k.all, "all", false, "all connectors")
}

func (k *connectorsCmd) stateCommand(verb, short, goal string, do func(context.Context, string) error) *cobra.Command {
	c := &cobra.Command{
		Use: verb + " NAME … | --failed | --all", Short: short, ValidArgsFunction: k.completeNames,
		Example: "  millrace connectors " + verb + " shop\n  millrace connectors " + verb + " --all --no-wait",
		RunE: k.run(func(ctx context.Context, names []string) error {
			names, err := k.pick(ctx, names)
			if err != nil {
				return err
			}
			for _, name := range names {
				if err := do(ctx, name); err != nil {
					return err
				}
			}
			for _, name := range names {
				if err := k.reached(ctx, name, goal); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	k.pickFlags(c)
	k.waitFlags(c)
	return c
}

// pick are the connectors that the arguments and flags name.
func (k *connectorsCmd) pick(ctx context.Context, names []string) ([]string, error) {
	ways := 0
	for _, given := range []bool{len(names) > 0, k.failed, k.all} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, usage(errors.New("name connectors, or say --failed or --all where the command has them"))
	}
	if len(names) > 0 {
		return names, nil
	}
	if k.curl {
		return nil, usage(errors.New("--curl needs the connectors' names"))
	}
	all, err := k.rest.List(ctx)
	if err != nil {
		return nil, err
	}
	for name, e := range all {
		if h, _ := worst(e.Status); k.all || h.word == "FAILED" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		what := "no connector has failed"
		if k.all {
			what = "there are no connectors"
		}
		k.note(what)
	}
	return names, nil
}

func (k *connectorsCmd) restartCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "restart NAME … | --failed | --all", Short: "Restart connectors and their tasks", ValidArgsFunction: k.completeNames,
		Long:    "Restarts the connector and all its tasks, or what the flags name, and waits until they run.",
		Example: "  millrace connectors restart shop --only-failed\n  millrace connectors restart shop --task 0",
		RunE:    k.run(k.restart),
	}
	k.pickFlags(c)
	k.waitFlags(c)
	c.Flags().IntVar(&k.task, "task", -1, "only this task")
	c.Flags().BoolVar(&k.onlyFailed, "only-failed", false, "only what has failed")
	c.Flags().BoolVar(&k.onlySelf, "connector-only", false, "only the connector, not its tasks")
	c.MarkFlagsMutuallyExclusive("task", "only-failed", "connector-only")
	return c
}

func (k *connectorsCmd) restart(ctx context.Context, names []string) error {
	names, err := k.pick(ctx, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		switch {
		case k.task >= 0:
			err = k.rest.RestartTask(ctx, name, k.task)
		case k.onlySelf:
			err = k.rest.Restart(ctx, name, false, false)
		default:
			err = k.rest.Restart(ctx, name, true, k.onlyFailed || k.failed)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := k.reached(ctx, name, ""); err != nil {
			return err
		}
	}
	return nil
}

// settleTime is how long a failure may be the one from before what was asked.
const settleTime = 3 * time.Second

// reached waits until a connector is in the state, "" for the one it is set to, and
// says so. A failure that stays is an answer too: no, with its reason.
func (k *connectorsCmd) reached(ctx context.Context, name, goal string) error {
	if k.curl || k.noWait {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.wait)
	defer cancel()
	began := time.Now()
	var last client.Status
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		s, err := k.rest.Status(ctx, name)
		var refused *client.Error
		switch {
		case err == nil:
			last = s
			if done(s, goal) {
				return k.say("%s is %s%s", printable(name), s.Connector.State, tasksOf(s))
			}
			if h, _ := worst(s); h.word == "FAILED" && time.Since(began) > min(settleTime, k.wait/2) {
				k.explain(s, "")
				return no("%s has failed", printable(name))
			}
		case errors.As(err, &refused) && refused.Status == http.StatusNotFound: // not reported yet
		case ctx.Err() == nil:
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return no("%s is %s after %v; it goes on, see: millrace connectors status %s", printable(name), now(last), k.wait, printable(name))
		}
	}
}

// done reports whether the connector is where it shall be, with all its tasks.
func done(s client.Status, goal string) bool {
	c := s.Connector.State
	if goal == "" {
		goal = c
		if goal != "RUNNING" && goal != "PAUSED" && goal != "STOPPED" {
			return false
		}
	}
	if c != goal || goal == "RUNNING" && len(s.Tasks) == 0 || goal == "STOPPED" && len(s.Tasks) > 0 {
		return false
	}
	for _, t := range s.Tasks {
		if t.State != goal {
			return false
		}
	}
	return true
}

func tasksOf(s client.Status) string {
	if len(s.Tasks) == 0 {
		return ""
	}
	return ", with " + count(len(s.Tasks), "task")
}

func now(s client.Status) string {
	if s.Connector.State == "" {
		return "not started"
	}
	states := []string{s.Connector.State}
	for _, t := range s.Tasks {
		states = append(states, fmt.Sprintf("task %d %s", t.ID, t.State))
	}
	return strings.Join(states, ", ")
}
