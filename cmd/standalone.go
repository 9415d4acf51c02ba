package cmd

import (
	"github.com/spf13/cobra"

	"millrace/schema/plugin"
)

func standaloneCommand(plugins []plugin.Plugin) *cobra.Command {
	p := &process{plugins: plugins}
	printOnly := false
	c := &cobra.Command{
		Use:   "standalone [worker.properties] [connector file …]",
		Short: "Run a worker with a log of its own, or on a Kafka cluster",
		Long: "Runs a worker: connectors, their REST API, a schema registry and, unless the worker's properties name a cluster with\n" +
			"bootstrap.servers, an embedded log that speaks the Kafka protocol. Files on the command line are a Connect\n" +
			"worker's properties and connectors (.properties or .json), which are stored at every start.",
		Example: "  millrace standalone\n  millrace standalone --data /var/lib/millrace worker.properties shop.json",
		RunE: func(c *cobra.Command, args []string) error {
			p.out, p.flagGiven = c.OutOrStdout(), c.Flags().Changed
			if err := p.readFiles(args); err != nil {
				return usage(err)
			}
			if printOnly {
				return p.printWorkerProperties()
			}
			return p.run(c.Context())
		},
	}
	f := c.Flags()
	f.BoolVar(&printOnly, "print-worker-properties", false, "print the properties with which a second worker joins this one's log and group, and start nothing")
	f.StringVar(&p.data, "data", "millrace-data", "folder that keeps everything: the log and, in its folder files, what file connectors may use")
	f.StringVar(&p.rest, "rest", "127.0.0.1:8083", "address of the REST API")
	f.StringVar(&p.kafka, "kafka", "127.0.0.1:9092", "address at which the embedded log speaks the Kafka protocol, HOST:PORT or as in log.listeners; none for no port")
	f.StringVar(&p.registry, "registry", "127.0.0.1:8081", "address of the schema registry; none for none")
	f.StringArrayVar(&p.fileRoots, "file-root", nil, "folder whose files connectors may open; repeatable, / for all (default: the working directory and DATA/files)")
	f.StringArrayVar(&p.settings, "config", nil, "a worker setting, key=value; repeatable, goes before the file's")
	return c
}
