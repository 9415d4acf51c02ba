package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/cmd/client"
)

const (
	defaultRegistry = "http://127.0.0.1:8081"
	maxSchemaFile   = 8 << 20
)

// schemasCmd is what the verbs of `millrace schemas` share.
type schemasCmd struct {
	remote
	registry string
	schemas  *client.Client

	// Flags of the verbs.
	deleted, permanent, normalize, yes, force bool
	confirm, file, typ, version               string
	references                                []string
}

func schemasCommand() *cobra.Command {
	k := &schemasCmd{}
	c := noun(&cobra.Command{
		Use: "schemas", Aliases: []string{"schema"}, Short: "See, check and change schemas",
		Long: "Speaks to a schema registry, Millrace's or Confluent's. Where it is is asked of the worker's REST API unless --registry says it.\n" +
			"Exit status: 0 done, 1 the answer is no, 2 usage, 3 not found, 4 conflict, 5 nobody answers, 6 not allowed, 7 the server failed.",
		Example: "  millrace schemas list\n  millrace schemas check shop-value -f order.avsc",
	})
	k.flags(c.PersistentFlags())
	c.PersistentFlags().StringVar(&k.registry, "registry", "", "address of the schema registry (default MILLRACE_REGISTRY, the context's, what the worker says, or "+defaultRegistry+")")
	c.AddCommand(k.listCommand(), k.getCommand(), k.registerCommand(), k.checkCommand(), k.diffCommand(), k.deleteCommand(), k.restoreCommand(), k.compatCommand(), k.modeCommand())
	return c
}

// run makes a command's RunE of a function that speaks to the registry.
func (k *schemasCmd) run(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return k.remote.run(func(ctx context.Context, args []string) error {
		if err := k.connect(ctx); err != nil {
			return err
		}
		return f(ctx, args)
	})
}

func (k *schemasCmd) connect(ctx context.Context) (err error) {
	o := k.options
	o.Registry = true
	if o.URL = cmp.Or(k.registry, k.env("MILLRACE_REGISTRY"), k.at.Registry); o.URL == "" {
		o.URL = k.discovered(ctx)
	}
	if k.schemas, err = client.New(o); err != nil {
		return usage(err)
	}
	return nil
}

// discovered asks the worker where its registry is. A Connect of the JVM does not say, and requests that are only printed ask nobody.
func (k *schemasCmd) discovered(ctx context.Context) string {
	if k.curl {
		return defaultRegistry
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if root, err := k.rest.Root(ctx); err == nil && root.Registry != "" {
		return root.Registry
	}
	return defaultRegistry
}

func (k *schemasCmd) completeSubjects(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || k.open(c) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionTime)
	defer cancel()
	if k.connect(ctx) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := k.schemas.Subjects(ctx, "", false) // none where the registry is away
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (k *schemasCmd) listCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "list [PREFIX]", Aliases: []string{"ls"}, Short: "List the subjects", Args: cobra.MaximumNArgs(1),
		Example: "  millrace schemas list\n  millrace schemas list shop. --deleted -o json",
		RunE:    k.run(k.list),
	}
	c.Flags().BoolVar(&k.deleted, "deleted", false, "also deleted ones")
	return c
}

// subjectRow is a subject in a list. Its JSON is ours.
type subjectRow struct {
	Subject  string `json:"subject"`
	Latest   int    `json:"latest,omitempty"`
	Versions int    `json:"versions"`
	ID       int    `json:"id,omitempty"`
	Type     string `json:"schemaType,omitempty"`
	Deleted  bool   `json:"deleted,omitempty"`
}

func (k *schemasCmd) list(ctx context.Context, args []string) error {
	prefix := ""
	if len(args) > 0 {
		prefix = args[0]
	}
	names, err := k.schemas.Subjects(ctx, prefix, k.deleted)
	if err != nil || k.curl {
		return err
	}
	if k.look.people() && len(names) == 0 {
		return k.say("No subjects.")
	}
	t := &table{head: []string{"SUBJECT", "VERSIONS", "LATEST", "ID", "TYPE"}}
	values := []any{}
	for _, name := range names {
		if k.look.format == "name" {
			t.add(name)
			continue
		}
		row, err := k.row(ctx, name)
		if err != nil {
			return err
		}
		latest, id := strconv.Itoa(row.Latest), strconv.Itoa(row.ID)
		if row.Deleted {
			latest, id = "deleted", "-"
		}
		t.add(name, strconv.Itoa(row.Versions), latest, id, cmp.Or(row.Type, "AVRO"))
		values = append(values, row)
	}
	return k.look.write(k.out, t, values)
}

func (k *schemasCmd) row(ctx context.Context, name string) (subjectRow, error) {
	row := subjectRow{Subject: name}
	versions, err := k.schemas.Versions(ctx, name, k.deleted)
	if err != nil {
		return row, err
	}
	row.Versions = len(versions)
	latest, err := k.schemas.SchemaVersion(ctx, name, "latest", false)
	var refused *client.Error
	switch {
	case errors.As(err, &refused) && refused.Status == 404:
		row.Deleted = true
		return row, nil
	case err != nil:
		return row, err
	}
	row.Latest, row.ID, row.Type = latest.Version, latest.ID, cmp.Or(latest.Type, "AVRO")
	return row, nil
}

func (k *schemasCmd) getCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "get SUBJECT [VERSION]", Short: "Print a schema", Args: cobra.RangeArgs(1, 2), ValidArgsFunction: k.completeSubjects,
		Long:    "Prints the schema of a version, the latest unless it is named: its text, or with -o json all that the registry says of it.\nID:NUMBER in place of a subject is the schema of an id.",
		Example: "  millrace schemas get shop-value > order.avsc\n  millrace schemas get shop-value 3 -o json\n  millrace schemas get id:7",
		RunE: k.run(func(ctx context.Context, args []string) error {
			s, err := k.found(ctx, args)
			if err != nil || k.curl {
				return err
			}
			if k.look.people() {
				_, err := fmt.Fprintln(k.out, printableLines(pretty(s.Schema)))
				return err
			}
			return k.look.write(k.out, &table{head: []string{"SUBJECT"}, rows: [][]string{{s.Subject}}}, s)
		}),
	}
	c.Flags().BoolVar(&k.deleted, "deleted", false, "also a deleted one")
	return c
}

// found is the version that arguments name.
func (k *schemasCmd) found(ctx context.Context, args []string) (client.Schema, error) {
	if id, ok := strings.CutPrefix(strings.ToLower(args[0]), "id:"); ok && len(args) == 1 {
		return k.schemas.SchemaOfID(ctx, id)
	}
	version := "latest"
	if len(args) > 1 {
		version = args[1]
	}
	return k.schemas.SchemaVersion(ctx, args[0], version, k.deleted)
}

// pretty is a schema as people read it: JSON indented, other texts as they are.
func pretty(text string) string {
	var v json.RawMessage
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return text
	}
	return string(b)
}

// schemaFlags are those of a schema that a command sends.
func (k *schemasCmd) schemaFlags(c *cobra.Command) {
	c.Flags().StringVarP(&k.file, "file", "f", "", "file of the schema, or - for standard input")
	c.Flags().StringVar(&k.typ, "type", "AVRO", "type of the schema: AVRO, or what the registry else knows")
	c.Flags().StringArrayVar(&k.references, "reference", nil, "a schema that this one needs, NAME=SUBJECT@VERSION; repeatable")
}

// wanted is the schema of the flags.
func (k *schemasCmd) wanted() (s client.NewSchema, err error) {
	var data []byte
	if k.file == "" {
		return s, usage(errors.New("name the schema's file with -f, or - for standard input"))
	}
	if k.file == "-" {
		data, err = io.ReadAll(io.LimitReader(k.in, maxSchemaFile+1))
	} else {
		var f *os.File
		if f, err = os.Open(k.file); err == nil {
			data, err = io.ReadAll(io.LimitReader(f, maxSchemaFile+1))
			f.Close()
		}
	}
	switch {
	case err != nil:
		return s, usage(err)
	case len(data) > maxSchemaFile:
		return s, usage(fmt.Errorf("%s has more than %d MiB", k.file, maxSchemaFile>>20))
	case strings.TrimSpace(string(data)) == "":
		return s, usage(fmt.Errorf("%s is empty", k.file))
	}
	s.Schema = string(data)
	if !strings.EqualFold(k.typ, "AVRO") {
		s.Type = strings.ToUpper(k.typ)
	}
	for _, r := range k.references {
		name, at, ok := strings.Cut(r, "=")
		i := strings.LastIndex(at, "@")
		if !ok || i < 0 {
			return s, usage(fmt.Errorf("--reference %s: want NAME=SUBJECT@VERSION", r))
		}
		n, err := strconv.Atoi(at[i+1:])
		if at[i+1:] == "latest" {
			n, err = -1, nil
		}
		if err != nil {
			return s, usage(fmt.Errorf("--reference %s: %q is no version", r, at[i+1:]))
		}
		s.References = append(s.References, client.Reference{Name: name, Subject: at[:i], Version: n})
	}
	return s, nil
}

func (k *schemasCmd) registerCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "register SUBJECT -f FILE", Short: "Make a schema a subject's next version, unless it is one already", Args: cobra.ExactArgs(1), ValidArgsFunction: k.completeSubjects,
		Example: "  millrace schemas register shop-value -f order.avsc\n  millrace schemas register user-value -f user.avsc --reference com.example.Address=address@2",
		RunE: k.run(func(ctx context.Context, args []string) error {
			s, err := k.wanted()
			if err != nil {
				return err
			}
			out, err := k.schemas.Register(ctx, args[0], s, k.normalize)
			var refused *client.Error
			if errors.As(err, &refused) && refused.Status == 409 {
				// The registry's one line of it is for programs; asked again it says it in pieces.
				if why, err := k.schemas.Compatible(ctx, args[0], "", s); err == nil && !why.Compatible {
					return k.incompatible(args[0], "nothing was registered", why)
				}
				return noError{refused}
			}
			if err != nil || k.curl {
				return err
			}
			if out.Version == 0 { // an older registry tells the id alone
				if found, err := k.schemas.LookUp(ctx, args[0], s); err == nil {
					out.Version = found.Version
				}
			}
			out.Subject = args[0]
			if k.look.people() {
				return k.say("%s version %d, id %d", printable(args[0]), out.Version, out.ID)
			}
			return k.look.write(k.out, &table{head: []string{"SUBJECT"}, rows: [][]string{{args[0]}}}, out)
		}),
	}
	k.schemaFlags(c)
	c.Flags().BoolVar(&k.normalize, "normalize", false, "store it in the form in which the order of properties does not matter")
	return c
}

func (k *schemasCmd) checkCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "check SUBJECT -f FILE", Short: "Say whether a schema fits to a subject's versions, and why not", Args: cobra.ExactArgs(1), ValidArgsFunction: k.completeSubjects,
		Long:    "Asks what a registration would ask, and registers nothing. Exit status 1 when the schema does not fit.",
		Example: "  millrace schemas check shop-value -f order.avsc\n  millrace schemas check shop-value -f order.avsc --version 3",
		RunE: k.run(func(ctx context.Context, args []string) error {
			s, err := k.wanted()
			if err != nil {
				return err
			}
			why, err := k.schemas.Compatible(ctx, args[0], k.version, s)
			if err != nil || k.curl {
				return err
			}
			if !k.look.people() {
				if err := k.look.write(k.out, &table{head: []string{"SUBJECT"}, rows: [][]string{{args[0]}}}, why); err != nil {
					return err
				}
			}
			if !why.Compatible {
				return k.incompatible(args[0], "", why)
			}
			if k.look.people() {
				return k.say("%s: the schema fits", printable(args[0]))
			}
			return nil
		}),
	}
	k.schemaFlags(c)
	c.Flags().StringVar(&k.version, "version", "", "against this version alone, a number or latest; otherwise as a registration would")
	return c
}

func (k *schemasCmd) dangerFlags(c *cobra.Command) {
	c.Flags().BoolVarP(&k.yes, "yes", "y", false, "do not ask")
	c.Flags().StringVar(&k.confirm, "confirm", "", "name of the context, where it asks for it")
}

func (k *schemasCmd) deleteCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "delete SUBJECT", Short: "Delete a subject, or one of its versions", Args: cobra.ExactArgs(1), ValidArgsFunction: k.completeSubjects,
		Long: "Deletes a subject's versions: they are listed no more and nothing is compared with them, data that was written with them can still be\n" +
			"read, and `restore` brings them back. --permanent removes for good what was deleted before.",
		Example: "  millrace schemas delete shop-value --version 3\n  millrace schemas delete shop-value --permanent --yes",
		RunE:    k.run(k.remove),
	}
	c.Flags().StringVar(&k.version, "version", "", "this version alone, a number or latest")
	c.Flags().BoolVar(&k.permanent, "permanent", false, "for good; it must be deleted already")
	k.dangerFlags(c)
	return c
}

func (k *schemasCmd) remove(ctx context.Context, args []string) error {
	what := "subject " + printable(args[0])
	if k.version != "" {
		what = "version " + printable(k.version) + " of " + what
	}
	impact := "delete " + what + ": data that was written with it can still be read"
	if k.permanent {
		impact = "delete " + what + " for good: it cannot be restored"
	}
	if err := k.ask(impact, k.yes, k.confirm); err != nil {
		return err
	}
	var numbers []int
	var err error
	if k.version != "" {
		var n int
		n, err = k.schemas.DeleteVersion(ctx, args[0], k.version, k.permanent)
		numbers = []int{n}
	} else {
		numbers, err = k.schemas.DeleteSubject(ctx, args[0], k.permanent)
	}
	if err != nil || k.curl {
		return err
	}
	if k.look.people() {
		return k.say("deleted %s: versions %s", printable(args[0]), strings.Trim(fmt.Sprint(numbers), "[]"))
	}
	return k.look.write(k.out, &table{head: []string{"SUBJECT"}, rows: [][]string{{args[0]}}}, map[string]any{"subject": args[0], "versions": numbers})
}

func (k *schemasCmd) restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use: "restore SUBJECT VERSION", Short: "Register a deleted version's schema again: it becomes the newest", Args: cobra.ExactArgs(2), ValidArgsFunction: k.completeSubjects,
		Example: "  millrace schemas restore shop-value 3",
		RunE: k.run(func(ctx context.Context, args []string) error {
			old, err := k.schemas.SchemaVersion(ctx, args[0], args[1], true)
			if err != nil || k.curl {
				return err
			}
			if !old.Deleted {
				return no("version %s of %s is not deleted", printable(args[1]), printable(args[0]))
			}
			out, err := k.schemas.Register(ctx, args[0], client.NewSchema{Schema: old.Schema, Type: old.Type, References: old.References, Metadata: old.Metadata, RuleSet: old.RuleSet}, false)
			if err != nil {
				return err
			}
			return k.say("%s version %s is back as version %d, id %d", printable(args[0]), printable(args[1]), out.Version, out.ID)
		}),
	}
}

// settingCommand makes get and set of a setting of a subject, or of the registry.
func (k *schemasCmd) settingCommand(use, short, value, example string, get func(ctx context.Context, subject string) (string, error), set func(ctx context.Context, subject, value string) error) *cobra.Command {
	c := noun(&cobra.Command{Use: use, Short: short, Example: example})
	c.AddCommand(&cobra.Command{
		Use: "get [SUBJECT]", Short: "Print it: the subject's, what it inherits, or the registry's", Args: cobra.MaximumNArgs(1), ValidArgsFunction: k.completeSubjects,
		Example: "  millrace schemas " + use + " get shop-value",
		RunE: k.run(func(ctx context.Context, args []string) error {
			v, err := get(ctx, strings.Join(args, ""))
			if err != nil || k.curl {
				return err
			}
			return k.look.write(k.out, &table{head: []string{strings.ToUpper(use)}, rows: [][]string{{v}}}, map[string]string{use: v})
		}),
	})
	s := &cobra.Command{
		Use: "set [SUBJECT] " + value, Short: "Set it for the subject, or for the registry", Args: cobra.RangeArgs(1, 2), ValidArgsFunction: k.completeSubjects,
		Example: example,
		RunE: k.run(func(ctx context.Context, args []string) error {
			subject, v, whose := "", args[len(args)-1], "the registry"
			if len(args) == 2 {
				subject, whose = args[0], args[0]
			}
			if err := set(ctx, subject, strings.ToUpper(v)); err != nil || k.curl {
				return err
			}
			return k.say("%s of %s is %s", use, printable(whose), printable(strings.ToUpper(v)))
		}),
	}
	if use == "mode" {
		s.Flags().BoolVar(&k.force, "force", false, "IMPORT even where there are subjects")
	}
	c.AddCommand(s)
	return c
}

func (k *schemasCmd) compatCommand() *cobra.Command {
	return k.settingCommand("compat", "See and set how versions must fit together", "LEVEL", "  millrace schemas compat set shop-value FULL\n  millrace schemas compat set BACKWARD_TRANSITIVE",
		func(ctx context.Context, subject string) (string, error) {
			c, err := k.schemas.SchemaConfig(ctx, subject)
			level, _ := c["compatibilityLevel"].(string)
			return level, err
		},
		func(ctx context.Context, subject, level string) error { return k.schemas.SetLevel(ctx, subject, level) })
}

func (k *schemasCmd) modeCommand() *cobra.Command {
	return k.settingCommand("mode", "See and set what may be done: READWRITE, READONLY, IMPORT", "MODE", "  millrace schemas mode set shop-value READONLY\n  millrace schemas mode set READWRITE",
		func(ctx context.Context, subject string) (string, error) { return k.schemas.Mode(ctx, subject) },
		func(ctx context.Context, subject, mode string) error {
			return k.schemas.SetMode(ctx, subject, mode, k.force)
		})
}
