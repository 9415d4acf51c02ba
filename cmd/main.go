package cmd

import (
	"fmt"
	"os"
	goruntime "runtime"

	"github.com/spf13/cobra"

	"millrace/schema/plugin"
)

// version is Millrace's own; the linker sets it (see Makefile).
var version = "devel"

// Main runs the command line with these plugins and ends the process.
func Main(plugins []plugin.Plugin) {
	if err := root(plugins).Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "millrace:", err)
		os.Exit(1)
	}
}

func root(_ []plugin.Plugin) *cobra.Command {
	c := &cobra.Command{
		Use:           "millrace",
		Short:         "Streams the changes of databases into topics, and topics into search, files and stores.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.AddCommand(versionCommand())
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
