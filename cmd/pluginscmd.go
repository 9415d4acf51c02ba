package cmd

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func pluginsCommand() *cobra.Command {
	r := &remote{}
	c := noun(&cobra.Command{
		Use: "plugins", Aliases: []string{"plugin"}, Short: "See what a worker can run",
		Example: "  millrace plugins list\n  millrace plugins describe PostgresConnector",
	})
	r.flags(c.PersistentFlags())
	var kind string
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the worker's plugins", Args: cobra.NoArgs,
		Example: "  millrace plugins list --kind sink",
		RunE: r.run(func(ctx context.Context, _ []string) error {
			raw, err := r.rest.Raw(ctx, "/connector-plugins?connectorsOnly=false")
			if err != nil || r.curl {
				return err
			}
			var picked []any
			t := &table{head: []string{"CLASS", "KIND", "VERSION"}}
			all, _ := raw.([]any)
			for _, e := range all {
				p, _ := e.(map[string]any)
				class, _ := p["class"].(string)
				typ, _ := p["type"].(string)
				version, _ := p["version"].(string)
				if kind == "" || strings.EqualFold(kind, typ) {
					t.add(class, typ, version)
					picked = append(picked, e)
				}
			}
			return r.look.write(r.out, t, picked)
		}),
	}
	list.Flags().StringVar(&kind, "kind", "", "only those of that kind: source, sink, transformation, predicate, converter, header_converter")
	describe := &cobra.Command{
		Use: "describe PLUGIN", Short: "List a plugin's settings as the worker knows them", Args: cobra.ExactArgs(1),
		Example: "  millrace plugins describe PostgresConnector\n  millrace plugins describe io.debezium.transforms.ExtractNewRecordState -o json",
		RunE: r.run(func(ctx context.Context, args []string) error {
			keys, err := r.rest.ConfigKeys(ctx, args[0])
			if err != nil || r.curl {
				return err
			}
			t := &table{head: []string{"SETTING", "TYPE", "DEFAULT", "IMPORTANCE", "DESCRIPTION"}, wide: 1}
			for _, k := range keys {
				def := "(required)"
				if k.Default != nil {
					def = *k.Default
				} else if !k.Required {
					def = "-"
				}
				t.add(k.Name, k.Type, def, strings.ToLower(k.Importance), k.Doc)
			}
			return r.look.write(r.out, t, keys)
		}),
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 || r.open(c) != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			ctx, cancel := context.WithTimeout(c.Context(), completionTime)
			defer cancel()
			var names []string
			plugins, err := r.rest.Plugins(ctx)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, p := range plugins {
				names = append(names, p.Class)
			}
			slices.Sort(names)
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.AddCommand(list, describe)
	return c
}
