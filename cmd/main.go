package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	goruntime "runtime"

	"github.com/spf13/cobra"

	"millrace/schema/plugin"
)

// version is Millrace's own; the linker sets it (see Makefile).
var version = "devel"

// Exit statuses, as the documentation lists them.
const (
	exitNo    = 1  // the answer is no: a setting is wrong, a part cannot start
	exitUsage = 2  // the command line is wrong
	exitIO    = 74 // the log's disk failed
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
	fmt.Fprintln(stderr, "error:", err)
	var u usageError
	if errors.As(err, &u) {
		fmt.Fprintln(stderr, "See: millrace help")
		return exitUsage
	}
	var disk ioError
	if errors.As(err, &disk) {
		return exitIO
	}
	return exitNo
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
	c.AddCommand(standaloneCommand(plugins), docsCommand(plugins), versionCommand())
	for _, sub := range c.Commands() {
		if args := sub.Args; args != nil {
			sub.Args = func(c *cobra.Command, a []string) error {
				if err := args(c, a); err != nil {
					return usage(err)
				}
				return nil
			}
		}
	}
	return c
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

// newLogger writes the process's log as text lines.
func newLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo}))
}
