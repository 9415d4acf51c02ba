package cmd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/runtime/provider"
	"millrace/runtime/settings"
	"millrace/runtime/worker"
	"millrace/schema/config"
	"millrace/schema/converters"
	"millrace/schema/plugin"
	"millrace/transforms"
)

func docsCommand(plugins []plugin.Plugin) *cobra.Command {
	return &cobra.Command{
		Use:     "docs [plugin … | connector | worker]",
		Short:   "Print every setting of the plugins, of all connectors and of a worker, or of those named, as Markdown",
		Example: "  millrace docs postgres\n  millrace docs > settings.md",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "worker" {
				return writeWorkerDocs(c.OutOrStdout())
			}
			if len(args) == 1 && args[0] == "connector" {
				return writeConnectorDocs(c.OutOrStdout())
			}
			wanted := plugins
			if len(args) > 0 {
				wanted = nil
				for _, name := range args {
					found := slices.DeleteFunc(slices.Clone(plugins), func(p plugin.Plugin) bool {
						return !slices.Contains(p.Describe().Names(), name)
					})
					if len(found) == 0 {
						return fmt.Errorf("no plugin is called %q; there are %s; and connector, worker", name, strings.Join(shortNames(plugins), ", "))
					}
					wanted = append(wanted, found...)
				}
			}
			if err := writeDocs(c.OutOrStdout(), wanted); err != nil || len(args) > 0 {
				return err
			}
			if err := writeConnectorDocs(c.OutOrStdout()); err != nil {
				return err
			}
			if err := writeTaskReasons(c.OutOrStdout()); err != nil {
				return err
			}
			return writeWorkerDocs(c.OutOrStdout())
		},
	}
}

// writeConnectorDocs writes the settings that every connector has beside its own.
func writeConnectorDocs(w io.Writer) error {
	var b strings.Builder
	b.WriteString("## source connectors\n\nSettings of every source, beside its own.\n\n")
	writeSettings(&b, settings.Source)
	b.WriteString("## sink connectors\n\nSettings of every sink, beside its own.\n\n")
	writeSettings(&b, settings.Sink)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeWorkerDocs writes the settings of a worker, and those of its connectors' clients.
func writeWorkerDocs(w io.Writer) error {
	var b strings.Builder
	b.WriteString("## worker\n\nSettings of a worker: in its properties file, or with --config KEY=VALUE.\n\n")
	writeSettings(&b, runtime.WorkerSettings())
	for _, kind := range []runtime.ClientKind{runtime.Producer, runtime.Consumer, runtime.Admin} {
		fmt.Fprintf(&b, "## %s clients\n\nSettings of connectors' %ss: behind `%s.` in a worker's properties, and behind `%s.override.` in a connector's configuration.\n\n", kind, kind, kind, kind)
		writeSettings(&b, runtime.ClientSettings(kind))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func shortNames(plugins []plugin.Plugin) []string {
	var out []string
	for _, p := range plugins {
		out = append(out, p.Describe().Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// writeDocs writes one section a plugin, by kind and name.
func writeDocs(w io.Writer, plugins []plugin.Plugin) error {
	plugins = slices.Clone(plugins)
	slices.SortStableFunc(plugins, func(a, b plugin.Plugin) int {
		return cmp.Or(cmp.Compare(kindOf(a), kindOf(b)), cmp.Compare(a.Describe().Name, b.Describe().Name))
	})
	var b strings.Builder
	for _, p := range plugins {
		i := p.Describe()
		_, kind, _ := strings.Cut(kindOf(p), " ")
		fmt.Fprintf(&b, "## %s (%s)\n\n%s\n\n", i.Name, kind, i.Doc)
		if i.Class != "" {
			fmt.Fprintf(&b, "Class `%s`.\n\n", i.Class)
		}
		writeSettings(&b, i.Config)
		writeReasons(&b, reasonsOf(p))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTaskReasons writes the section of the failures that any connector's task may have.
func writeTaskReasons(w io.Writer) error {
	var b strings.Builder
	b.WriteString("## Failures of any task\n\nThe worker finds these itself, whatever the connector.\n\n")
	writeReasons(&b, worker.Reasons())
	_, err := io.WriteString(w, b.String())
	return err
}

// writeReasons lists known failures. Each has an anchor of its own, its code: a status, an
// alert or a message can point there.
func writeReasons(b *strings.Builder, reasons []*connectors.Reason) {
	if len(reasons) == 0 {
		return
	}
	retries := map[connectors.Retry]string{
		connectors.RetryHelps:   "It is tried again until it succeeds.",
		connectors.RetryUnknown: "It is tried again ten times at most.",
		connectors.RetryNever:   "A retry cannot help.",
	}
	for _, r := range reasons {
		fmt.Fprintf(b, "- <a id=\"%s\"></a>Failure `%s`: %s Remedy: %s %s\n", r.Code, r.Code, sentence(r.Doc), sentence(r.Remedy), retries[r.Retry])
	}
	b.WriteByte('\n')
}

func writeSettings(b *strings.Builder, def config.Def) {
	infos := def.Infos()
	// A required internal setting is the worker's own to give.
	internals := slices.DeleteFunc(def.Internals(), func(i config.Info) bool { return i.Required })
	if len(infos)+len(internals) == 0 {
		b.WriteString("No settings.\n\n")
		return
	}
	if len(infos) > 0 {
		writeTable(b, infos)
	}
	if len(internals) > 0 {
		b.WriteString("Not in the listings of the REST API, as the original's are not, or since the original does not have them:\n\n")
		writeTable(b, internals)
	}
	ignored := def.Ignored()
	for _, k := range sortedKeys(ignored) {
		fmt.Fprintf(b, "- `%s` is accepted and ignored: %s\n", k, sentence(ignored[k]))
	}
	if len(ignored) > 0 {
		b.WriteByte('\n')
	}
}

func writeTable(b *strings.Builder, infos []config.Info) {
	b.WriteString("| setting | type | default | importance | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, i := range infos {
		text, has := i.DefaultText()
		switch {
		case i.Required:
			text = "required"
		case !has:
			text = "none"
		case text == "":
			text = "empty"
		default:
			text = "`" + text + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", i.Name, strings.ToLower(string(i.Type)), cell(text), strings.ToLower(string(i.Importance)), cell(i.Doc))
	}
	b.WriteByte('\n')
}

// cell is text that a table's cell can hold.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}

func sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// kindOf is the kind of a plugin, behind its place in the order of sections.
func kindOf(p plugin.Plugin) string {
	switch p.(type) {
	case connectors.SourcePlugin:
		return "1 source connector"
	case connectors.SinkPlugin:
		return "2 sink connector"
	case transforms.Plugin:
		return "3 transform"
	case transforms.PredicatePlugin:
		return "4 predicate"
	case converters.Plugin:
		return "5 converter"
	case provider.Plugin:
		return "6 config provider"
	}
	return "7 plugin"
}

func reasonsOf(p plugin.Plugin) []*connectors.Reason {
	switch p := p.(type) {
	case connectors.SourcePlugin:
		return p.Reasons
	case connectors.SinkPlugin:
		return p.Reasons
	}
	return nil
}
