package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"millrace/cmd/client"
)

func (k *connectorsCmd) previewCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "preview NAME | -f FILE", Short: "Show what the first records become at each step, and write nothing", Args: cobra.MaximumNArgs(1), ValidArgsFunction: k.completeNames,
		Long: "A source is really read, and nothing is left where it reads; a sink reads its topics from their beginnings, outside of any group. Each record is\n" +
			"shown as it is read, after each transform, and as it would be written. Exit status 1 when a step fails. A Connect of the JVM has no preview.",
		Example: "  millrace connectors preview -f shop.json\n  millrace connectors preview orders-search --records 10 -o json",
		RunE:    k.run(k.preview),
	}
	k.fileFlag(c)
	c.Flags().IntVar(&k.records, "records", 3, "how many records")
	return c
}

func (k *connectorsCmd) preview(ctx context.Context, args []string) error {
	req := client.PreviewRequest{Records: k.records}
	switch {
	case len(args) == 1 && len(k.files) == 0:
		// A name, or a file as in examples of other tools.
		if _, err := os.Stat(args[0]); err == nil && strings.ContainsAny(args[0], "./") {
			k.files = []string{args[0]}
			return k.preview(ctx, nil)
		}
		req.Name = args[0]
	case len(args) == 0 && len(k.files) == 1:
		docs, err := readDocuments(k.files, k.in)
		if err != nil {
			return badFile(err)
		}
		if len(docs) != 1 {
			return usage(fmt.Errorf("%s holds %d connectors; a preview is of one", k.files[0], len(docs)))
		}
		req.Name, req.Config = docs[0].name, docs[0].config
	default:
		return usage(errors.New("name a connector, or a file with -f"))
	}
	p, raw, err := k.rest.Preview(ctx, req)
	var refused *client.Error
	if errors.As(err, &refused) && (refused.Status == 405 || refused.Status == 404 && strings.HasPrefix(refused.Message, "HTTP 404")) {
		return exitError{exitServer, fmt.Errorf("%s has no preview: it is a Connect of the JVM, or an older Millrace", k.rest.URL())}
	}
	if err != nil || k.curl {
		return err
	}
	failed := 0
	for _, r := range p.Records {
		for _, s := range r.Steps {
			if s.Error != "" {
				failed++
			}
		}
	}
	if k.look.people() {
		k.showPreview(p)
	} else if err := k.look.value(k.out, raw); err != nil {
		return err
	}
	if failed > 0 {
		return no("%s of %d cannot go through", count(failed, "record"), len(p.Records))
	}
	return nil
}

func (k *connectorsCmd) showPreview(p client.Preview) {
	if len(p.Records) == 0 {
		fmt.Fprintln(k.out, "No records to preview.")
		return
	}
	for i, r := range p.Records {
		if i > 0 {
			fmt.Fprintln(k.out)
		}
		fmt.Fprintf(k.out, "record %d   %s\n", i+1, printable(r.Where))
		for j, s := range r.Steps {
			name := strings.TrimPrefix(s.Name, "transforms.")
			switch {
			case s.Error != "":
				fmt.Fprintf(k.out, "  %-10s ✗ %s\n             %s\n", name, printable(s.Class), printable(s.Error))
			case s.Dropped:
				fmt.Fprintf(k.out, "  %-10s dropped by %s\n", name, printable(s.Class))
			case s.Passed:
				fmt.Fprintf(k.out, "  %-10s not for this record (predicate)\n", name)
			case j > 0 && same(s, r.Steps[j-1]):
				fmt.Fprintf(k.out, "  %-10s unchanged\n", name)
			default:
				fmt.Fprintf(k.out, "  %-10s %s   key %s\n             %s\n", name, printable(s.Topic), printable(compactJSON(s.Key)), printable(compactJSON(s.Value)))
			}
		}
	}
	if p.Ended {
		fmt.Fprintln(k.out, "\nThere are no more records.")
	}
}

// same reports whether a step shows what the one before it shows.
func same(a, b client.PreviewStep) bool {
	return a.Topic == b.Topic && compactJSON(a.Key) == compactJSON(b.Key) && compactJSON(a.Value) == compactJSON(b.Value) && string(a.Headers) == string(b.Headers)
}
