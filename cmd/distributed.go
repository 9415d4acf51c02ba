package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"millrace/log"
	"millrace/schema/plugin"
)

func distributedCommand(plugins []plugin.Plugin) *cobra.Command {
	p := &process{plugins: plugins, distributed: true, flagGiven: func(string) bool { return false }}
	check := false
	c := &cobra.Command{
		Use:   "distributed worker.properties",
		Short: "Run one worker of a group that shares connectors over a Kafka cluster",
		Long: "Runs a worker of the group that the properties name, as connect-distributed does with the same file. Connectors, their offsets and states are\n" +
			"in the cluster's topics; workers share the connectors and their tasks, and take over those of one that ends.",
		Example: "  millrace distributed --check worker.properties\n  millrace distributed worker.properties --config listeners=http://127.0.0.1:8084",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d files are given; give one, the worker's properties", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			p.out = c.OutOrStdout()
			if err := p.readFiles(args); err != nil {
				return usage(err)
			}
			if len(p.connectors) > 0 {
				return usage(fmt.Errorf("%s is a connector; the workers of a group take connectors over REST: millrace connectors create %s", args[0], args[0]))
			}
			if check {
				return p.check(c.Context())
			}
			return p.run(c.Context())
		},
	}
	f := c.Flags()
	f.BoolVar(&check, "check", false, "say what is wrong with the properties, which have no effect and whether the cluster answers, and start nothing")
	f.StringArrayVar(&p.settings, "config", nil, "a worker setting, key=value; repeatable, goes before the file's")
	return c
}

// checkLimit is how long the cluster may take to answer.
const checkLimit = 30 * time.Second

// check reads the settings and asks the cluster for its id.
func (p *process) check(ctx context.Context) (err error) {
	w := parts{}
	if err := p.configure(ctx, &w); err != nil {
		return err
	}
	worker := w.loaded.Worker
	for _, n := range worker.Notices {
		fmt.Fprintln(p.out, n)
	}
	conf, err := p.logConfig(worker, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	l, err := log.Open(ctx, conf)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close(context.WithoutCancel(ctx))) }()
	if h := l.Health(ctx); h.State == log.Red {
		return fmt.Errorf("the cluster of bootstrap.servers: %s", h.Message)
	}
	identities, _ := ownIdentities(worker, p.lg) // logConfig has told what is wrong with them
	for kind, opts := range identities {
		as, err := l.As(ctx, opts)
		if err != nil {
			return fmt.Errorf("sign in as connectors' clients do (%s.*): %w", kind, err)
		}
		if err := as.Close(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(p.out, "The settings are right, and the cluster %s answers. A worker started with them joins the group %s.\n", l.ClusterID(), worker.GroupID)
	return nil
}
