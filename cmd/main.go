package cmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	goruntime "runtime"
	"slices"

	"github.com/spf13/cobra"

	"millrace/runtime/loggers"
	"millrace/schema/plugin"
)

// version is Millrace's own; the linker sets it (see Makefile).
var version = "devel"

// Exit statuses, as the documentation lists them.
const (
	exitNo          = 1   // the answer is no: invalid, unhealthy, not reached in time, cannot start
	exitUsage       = 2   // the command line is wrong
	exitNotFound    = 3   // there is no such thing
	exitConflict    = 4   // it exists, is in another state, or the workers did not settle in time
	exitUnreachable = 5   // nobody answers
	exitForbidden   = 6   // not allowed
	exitServer      = 7   // the server failed, or cannot do it
	exitIO          = 74  // the log's disk failed
	exitInterrupted = 130 // by a signal
)

// A usageError is a mistake in the command line itself.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(err error) error { return usageError{err} }

// An ioError is a failed disk of the log.
type ioError struct{ error }

func (e ioError) Unwrap() error { return e.error }

// Main runs the command line with these plugins and ends the process.
func Main(plugins []plugin.Plugin) {
	os.Exit(execute(context.Background(), plugins, os.Args[1:], os.Stdout, os.Stderr))
}

// execute is Main without the process.
func execute(ctx context.Context, plugins []plugin.Plugin, args []string, stdout, stderr io.Writer) int {
	c := root(plugins)
	c.SetArgs(args)
	c.SetOut(stdout)
	c.SetErr(stderr)
	err := c.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	status := exitOf(err)
	if status == exitInterrupted {
		return status
	}
	fmt.Fprintln(stderr, "error:", printableLines(err.Error()))
	if status == exitUsage {
		fmt.Fprintln(stderr, "See: millrace help")
	}
	return status
}

func root(plugins []plugin.Plugin) *cobra.Command {
	c := &cobra.Command{
		Use:   "millrace",
		Short: "Streams the changes of databases and files into topics, and topics into search and files.",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },

		SilenceUsage: true, SilenceErrors: true, SuggestionsMinimumDistance: 2,
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	c.AddCommand(standaloneCommand(plugins), distributedCommand(plugins), connectorsCommand(plugins), pluginsCommand(), healthCommand(), topicsCommand(), schemasCommand(), logCommand(), docsCommand(plugins), versionCommand())
	argumentsAreUsage(c)
	return c
}

// argumentsAreUsage makes wrong arguments of a command and those below it usage errors. An empty one is what a script's unset
// variable leaves: as a part of an address it would name all connectors.
func argumentsAreUsage(c *cobra.Command) {
	args := c.Args
	if args == nil && !c.HasSubCommands() {
		args = cobra.ArbitraryArgs
	}
	if args != nil {
		c.Args = func(c *cobra.Command, a []string) error {
			if err := args(c, a); err != nil {
				return usage(err)
			}
			if slices.Contains(a, "") {
				return usage(fmt.Errorf("an argument of %s is empty; give a name", c.CommandPath()))
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		argumentsAreUsage(sub)
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "millrace %s (%s, %s/%s)\n", version, goruntime.Version(), goruntime.GOOS, goruntime.GOARCH)
			return err
		},
	}
}

// newLogger writes the process's log as text lines, as the levels say, which clients of
// the API may change.
func newLogger(w io.Writer) (*slog.Logger, *loggers.Levels) {
	l := loggers.New()
	return slog.New(l.Handler(slog.NewTextHandler(w, &slog.HandlerOptions{Level: loggers.Trace}))), l
}
