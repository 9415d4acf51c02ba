package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/cmd/client"
	"millrace/runtime"
)

func (k *connectorsCmd) waitFlags(c *cobra.Command) {
	c.Flags().DurationVar(&k.wait, "wait", 30*time.Second, "longest wait until the state is reached")
	c.Flags().BoolVar(&k.noWait, "no-wait", false, "do not wait until the state is reached")
}

func (k *connectorsCmd) fileFlag(c *cobra.Command) {
	c.Flags().StringArrayVarP(&k.files, "file", "f", nil, "file, folder or - for standard input; .json, .properties or YAML; repeatable")
}

func (k *connectorsCmd) createCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "create -f FILE", Short: "Create connectors that are not there yet", Args: cobra.NoArgs,
		Long: "A file holds what Connect's API takes, {\"name\", \"config\", \"initial_state\"}, or a flat map with a name. All are validated before\n" +
			"the first is created. The command waits until they run.",
		Example: "  millrace connectors create -f shop.json\n  millrace connectors create -f - < shop.json",
		RunE:    k.run(func(ctx context.Context, _ []string) error { return k.create(ctx) }),
	}
	k.fileFlag(c)
	k.waitFlags(c)
	return c
}

// goalOf is the state that a file wants.
func goalOf(initial runtime.TargetState) string {
	switch initial {
	case runtime.PausedTarget:
		return "PAUSED"
	case runtime.StoppedTarget:
		return "STOPPED"
	}
	return "RUNNING"
}

func (k *connectorsCmd) create(ctx context.Context) error {
	docs, err := readDocuments(k.files, k.in)
	if err != nil {
		return badFile(err)
	}
	for _, d := range docs {
		for key, v := range d.config {
			if v == client.Hidden {
				return usage(fmt.Errorf("%s: %s is %s: write the value, or a reference to it such as ${env:NAME}", d.path, key, client.Hidden))
			}
		}
	}
	if err := k.validateAll(ctx, docs, "nothing was created"); err != nil {
		return err
	}
	for i, d := range docs {
		initial := ""
		if d.initial != "" {
			initial = goalOf(d.initial)
		}
		if _, err := k.rest.Create(ctx, d.name, d.config, initial); err != nil {
			return k.stoppedAt(err, d, docs[:i], "created")
		}
		if !k.curl {
			k.note("created " + printable(d.name))
		}
	}
	for _, d := range docs {
		if err := k.reached(ctx, d.name, goalOf(d.initial)); err != nil {
			return err
		}
	}
	return nil
}

// badFile makes what is wrong with a file an answer of its own, unless it is a mistake
// in the command line.
func badFile(err error) error {
	var u usageError
	if errors.As(err, &u) {
		return err
	}
	return noError{err}
}

// stoppedAt says what was done before the first refusal.
func (k *connectorsCmd) stoppedAt(err error, d *connectorFile, before []*connectorFile, did string) error {
	if len(before) == 0 {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	names := make([]string, len(before))
	for i, b := range before {
		names[i] = b.name
	}
	return fmt.Errorf("%s: %w (%s before: %s; nothing after)", d.path, err, did, strings.Join(names, ", "))
}

// validateAll has the worker check all files, and tells all that is wrong with them.
func (k *connectorsCmd) validateAll(ctx context.Context, docs []*connectorFile, outcome string) error {
	if k.curl {
		return nil
	}
	wrong := 0
	for _, d := range docs {
		v, _, err := k.rest.Validate(ctx, d.config)
		var refused *client.Error
		switch {
		case errors.As(err, &refused) && refused.Status != http.StatusUnauthorized && refused.Status != http.StatusForbidden && refused.Status != http.StatusConflict:
			// A class that is not there, which an old Connect answers with 500.
			fmt.Fprintf(k.err, "%s: %s\n", d.path, printable(refused.Message))
			wrong++
			continue
		case err != nil:
			return err
		}
		wrong += k.tellErrors(d, v)
	}
	if wrong == 0 {
		return nil
	}
	verb := "are"
	if wrong == 1 {
		verb = "is"
	}
	return no("%s %s wrong, %s", count(wrong, "setting"), verb, outcome)
}

// tellErrors writes what is wrong with a file's settings, and which have no effect, and returns how many are wrong.
func (k *connectorsCmd) tellErrors(d *connectorFile, v client.Validation) int {
	n := 0
	for _, c := range v.Configs {
		if len(c.Value.Errors) == 0 {
			continue
		}
		n++
		for _, e := range c.Value.Errors {
			fmt.Fprintf(k.err, "%s: %s: %s\n", d.path, c.Value.Name, printable(e))
		}
	}
	for _, i := range v.Ignored {
		fmt.Fprintf(k.err, "%s: %s has no effect: %s\n", d.path, printable(i.Name), printable(i.Reason))
	}
	return n
}

func (k *connectorsCmd) validateCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "validate -f FILE", Short: "Have a worker check configurations, and change nothing", Args: cobra.NoArgs,
		Long:    "The worker checks each setting, and where the connector can, that the database or service is reached and ready. Exit status 1 when something is wrong.",
		Example: "  millrace connectors validate -f shop.json\n  millrace connectors validate -f connectors/ -o json",
		RunE:    k.run(func(ctx context.Context, _ []string) error { return k.validate(ctx) }),
	}
	k.fileFlag(c)
	return c
}

func (k *connectorsCmd) validate(ctx context.Context) error {
	docs, err := readDocuments(k.files, k.in)
	if err != nil {
		return badFile(err)
	}
	if k.curl || k.look.people() {
		if err := k.validateAll(ctx, docs, "nothing was changed"); err != nil {
			return err
		}
		for _, d := range docs {
			if k.curl {
				if _, _, err := k.rest.Validate(ctx, d.config); err != nil {
					return err
				}
			} else if err := k.say("%s: %s is valid", d.path, printable(d.name)); err != nil {
				return err
			}
		}
		return nil
	}
	var all []any
	t, wrong := &table{head: []string{"NAME"}}, 0
	for _, d := range docs {
		v, raw, err := k.rest.Validate(ctx, d.config)
		if err != nil {
			return fmt.Errorf("%s: %w", d.path, err)
		}
		wrong += v.ErrorCount
		all = append(all, raw)
		t.add(d.name)
	}
	var value any = all
	if len(all) == 1 {
		value = all[0]
	}
	if err := k.look.write(k.out, t, value); err != nil {
		return err
	}
	if wrong > 0 {
		return no("%s", count(wrong, "error"))
	}
	return nil
}

func (k *connectorsCmd) applyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Make connectors be what the files say", Args: cobra.NoArgs,
		Long: "A file is the whole configuration: what it leaves out is removed. What is the same already is left alone, so that nothing restarts.\n" +
			"A secret that stands as [hidden] keeps its stored value. All files are validated before the first is written.",
		Example: "  millrace connectors apply -f connectors/ --dry-run\n  millrace connectors apply -f shop.json",
		RunE:    k.run(func(ctx context.Context, _ []string) error { return k.apply(ctx) }),
	}
	k.fileFlag(c)
	k.waitFlags(c)
	c.Flags().BoolVar(&k.dryRun, "dry-run", false, "show what would change, and change nothing")
	return c
}

// A change is what apply does to one connector.
type change struct {
	doc    *connectorFile
	exists bool
	stored map[string]string
	lines  []string // what differs
}

func (k *connectorsCmd) apply(ctx context.Context) error {
	docs, err := readDocuments(k.files, k.in)
	if err != nil {
		return badFile(err)
	}
	if k.curl {
		for _, d := range docs {
			if _, err := k.rest.Put(ctx, d.name, d.config); err != nil {
				return err
			}
		}
		return nil
	}
	var changes []*change
	for _, d := range docs {
		c, err := k.compare(ctx, d)
		if err != nil {
			return err
		}
		changes = append(changes, c)
	}
	if err := k.validateAll(ctx, docs, "nothing was changed"); err != nil {
		return err
	}
	done := docs[:0:0]
	for _, c := range changes {
		mark, what := "=", "unchanged"
		switch {
		case !c.exists:
			mark, what = "+", "new, "+strings.ToLower(goalOf(c.doc.initial))
		case len(c.lines) > 0:
			mark, what = "~", count(len(c.lines), "setting")
		}
		if err := k.say("%s %s  %s", mark, printable(c.doc.name), what); err != nil {
			return err
		}
		for _, l := range c.lines {
			if c.exists {
				fmt.Fprintln(k.out, "    "+l)
			}
		}
		if k.dryRun || mark == "=" {
			continue
		}
		if c.exists {
			_, err = k.rest.Put(ctx, c.doc.name, c.doc.config)
		} else {
			_, err = k.rest.Create(ctx, c.doc.name, c.doc.config, goalOf(c.doc.initial))
		}
		if err != nil {
			return k.stoppedAt(err, c.doc, done, "written")
		}
		done = append(done, c.doc)
	}
	if k.dryRun {
		k.note("nothing was changed (--dry-run)")
		return nil
	}
	for _, c := range changes {
		if !c.exists {
			err = k.reached(ctx, c.doc.name, goalOf(c.doc.initial))
		} else if len(c.lines) > 0 {
			err = k.reached(ctx, c.doc.name, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compare finds what a file would change, and fills in the secrets that it keeps.
func (k *connectorsCmd) compare(ctx context.Context, d *connectorFile) (*change, error) {
	c := &change{doc: d}
	info, err := k.rest.Connector(ctx, d.name)
	var refused *client.Error
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
	case err != nil:
		return nil, err
	default:
		c.exists, c.stored = true, info.Config
	}
	for key, v := range d.config {
		if v != client.Hidden {
			continue
		}
		kept, ok := c.stored[key]
		if !ok {
			return nil, usage(fmt.Errorf("%s: %s is %s and there is no stored value to keep: write the value, or a reference to it such as ${env:NAME}", d.path, key, client.Hidden))
		}
		d.config[key] = kept
	}
	wanted := maps.Clone(d.config)
	wanted["name"] = d.name
	declared := k.declared(ctx, d.config["connector.class"])
	old, now := client.Hide(c.stored, declared), client.Hide(wanted, declared)
	for _, key := range slices.Sorted(maps.Keys(union(c.stored, wanted))) {
		a, had := c.stored[key]
		b, has := wanted[key]
		switch {
		case had && has && a != b && old[key] == now[key]:
			c.lines = append(c.lines, fmt.Sprintf("%s  %s (another)", printable(key), now[key]))
		case had && has && a != b:
			c.lines = append(c.lines, fmt.Sprintf("%s  %s → %s", printable(key), printable(old[key]), printable(now[key])))
		case had && !has:
			c.lines = append(c.lines, fmt.Sprintf("%s  %s → (removed)", printable(key), printable(old[key])))
		case !had && has:
			c.lines = append(c.lines, fmt.Sprintf("%s  (none) → %s", printable(key), printable(now[key])))
		}
	}
	return c, nil
}

func union(a, b map[string]string) map[string]bool {
	out := make(map[string]bool, len(a)+len(b))
	for k := range a {
		out[k] = true
	}
	for k := range b {
		out[k] = true
	}
	return out
}

func (k *connectorsCmd) deleteCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "delete NAME … | --all", Aliases: []string{"rm"}, Short: "Delete connectors", ValidArgsFunction: k.completeNames,
		Long:    "Offsets, topics, and what a database keeps (replication slots, publications) stay.",
		Example: "  millrace connectors delete shop\n  millrace connectors delete --all --yes",
		RunE:    k.run(k.delete),
	}
	c.Flags().BoolVar(&k.all, "all", false, "all connectors")
	k.dangerFlags(c)
	k.waitFlags(c)
	return c
}

func (k *connectorsCmd) dangerFlags(c *cobra.Command) {
	c.Flags().BoolVar(&k.yes, "yes", false, "do not ask")
	c.Flags().StringVar(&k.confirm, "confirm", "", "the context's name, where it is guarded and nobody can be asked")
}

func (k *connectorsCmd) delete(ctx context.Context, names []string) error {
	names, err := k.pick(ctx, names)
	if err != nil {
		return err
	}
	for _, name := range names { // nothing is asked about what is not there
		if _, err := k.rest.Connector(ctx, name); err != nil && !k.curl {
			return err
		}
	}
	impact := fmt.Sprintf("delete %s: %s; offsets, topics and replication slots stay", count(len(names), "connector"), strings.Join(names, ", "))
	if err := k.ask(impact, k.yes, k.confirm); err != nil {
		return err
	}
	for _, name := range names {
		if err := k.rest.Delete(ctx, name); err != nil {
			return err
		}
		if !k.curl {
			k.note("deleted " + printable(name))
		}
	}
	return nil
}
