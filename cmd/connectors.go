package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/cmd/client"
	"millrace/connectors"
	"millrace/schema/plugin"
)

// connectorsCmd is what the verbs of `millrace connectors` share.
type connectorsCmd struct {
	remote
	kinds map[string]string // "postgres source" by class name and alias

	// Flags of the verbs.
	watch, verbose       bool
	health, kind, like   string
	yes, all, failed     bool
	confirm              string
	wait                 time.Duration
	noWait, dryRun       bool
	files                []string
	task, records        int
	onlyFailed, onlySelf bool
	partition, offset    string
	stopFirst            bool
}

func connectorsCommand(plugins []plugin.Plugin) *cobra.Command {
	k := &connectorsCmd{kinds: map[string]string{}}
	for _, p := range plugins {
		kind := ""
		switch p.(type) {
		case connectors.SourcePlugin:
			kind = "source"
		case connectors.SinkPlugin:
			kind = "sink"
		default:
			continue
		}
		for _, name := range p.Describe().Names() {
			k.kinds[name] = strings.TrimSuffix(p.Describe().Name, "-"+kind) + " " + kind
		}
	}
	c := noun(&cobra.Command{
		Use: "connectors", Aliases: []string{"connector", "c"},
		Short: "See and change what runs",
		Long: "Speaks to the REST API of a worker, Millrace's or Kafka Connect's. Exit status: 0 done, 1 the answer is no, 2 usage, 3 not found,\n" +
			"4 conflict, 5 nobody answers, 6 not allowed, 7 the server failed or cannot, 130 interrupted.",
		Example: "  millrace connectors list\n  millrace connectors create -f shop.json",
	})
	k.flags(c.PersistentFlags())
	c.AddCommand(k.listCommand(), k.getCommand(), k.statusCommand(), k.createCommand(), k.applyCommand(), k.deleteCommand(), k.validateCommand(), k.previewCommand(),
		k.pauseCommand(), k.resumeCommand(), k.stopCommand(), k.restartCommand(), k.offsetsCommand())
	return c
}

// completionTime is how long a shell waits for what a server knows.
const completionTime = 300 * time.Millisecond

// completeNames offers the connectors' names, from the server, when it answers soon.
func (k *connectorsCmd) completeNames(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completionTime)
	defer cancel()
	k.passwordStdin, k.curl = false, false
	if k.open(c) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, err := k.rest.Names(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) }), cobra.ShellCompDirectiveNoFileComp
}

// kindOf is a class in the words of this product, or its short name.
func (k *connectorsCmd) kindOf(class, typ string) string {
	if kind, ok := k.kinds[class]; ok {
		return kind
	}
	if class == "" {
		return typ
	}
	short := class[strings.LastIndexByte(class, '.')+1:]
	if typ == "" || typ == "unknown" {
		return short
	}
	return short + " " + typ
}

// A health is a connector's or task's state in one word, with its shape.
type health struct {
	word, glyph string
	rank        int // worst first
	color       string
}

var healths = map[string]health{
	"FAILED":     {"FAILED", "▲", 0, "31"},
	"STALLED":    {"STALLED", "◐", 1, "33"},
	"UNASSIGNED": {"UNASSIGNED", "?", 2, "33"},
	"RESTARTING": {"RESTARTING", "◌", 3, "33"},
	"PAUSED":     {"PAUSED", "‖", 4, ""},
	"STOPPED":    {"STOPPED", "□", 5, ""},
	"RUNNING":    {"RUNNING", "●", 6, "32"},
}

func healthOf(state string) health {
	if h, ok := healths[state]; ok {
		return h
	}
	return health{cmp.Or(state, "UNKNOWN"), "?", 2, ""}
}

func partHealth(p client.Part) health {
	if p.State == "RUNNING" && p.Stalled != nil {
		return healths["STALLED"]
	}
	return healthOf(p.State)
}

// worst is the health of a connector with its tasks, and since when.
func worst(s client.Status) (health, *time.Time) {
	h, since := partHealth(s.Connector), s.Connector.Since
	for _, t := range s.Tasks {
		if th := partHealth(t.Part); th.rank < h.rank {
			h, since = th, t.Since
		}
	}
	return h, since
}

func (k *connectorsCmd) show(h health) string { return k.look.paint(h.color, h.glyph+" "+h.word) }

// paint colours what a word and a shape say already.
func (l *look) paint(color, text string) string {
	if !l.colored || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

func (k *connectorsCmd) listCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the connectors, worst first", Args: cobra.NoArgs,
		Example: "  millrace connectors list\n  millrace connectors list --health failed -o name",
		RunE: k.run(func(ctx context.Context, _ []string) error {
			return k.watching(ctx, func() error { return k.list(ctx) })
		}),
	}
	f := c.Flags()
	f.BoolVarP(&k.watch, "watch", "w", false, "go on, and show each change")
	f.StringVar(&k.health, "health", "", "only those of that health: failed, stalled, running, …")
	f.StringVar(&k.kind, "kind", "", "only those whose kind holds this text: source, sink, postgres, …")
	f.StringVarP(&k.like, "like", "l", "", "only those whose name holds this text")
	return c
}

func (k *connectorsCmd) list(ctx context.Context) error {
	all, err := k.rest.List(ctx)
	if err != nil || k.curl {
		return err
	}
	type row struct {
		name  string
		h     health
		since *time.Time
		e     client.Expanded
	}
	var rows []row
	for name, e := range all {
		h, since := worst(e.Status)
		if k.health != "" && !strings.EqualFold(k.health, h.word) ||
			!strings.Contains(name, k.like) || !strings.Contains(k.kindOf(e.Info.Config["connector.class"], e.Info.Type), k.kind) {
			continue
		}
		rows = append(rows, row{name, h, since, e})
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(a.h.rank-b.h.rank, strings.Compare(a.name, b.name)) })
	if k.look.people() && len(rows) == 0 {
		if len(all) > 0 {
			return k.say("None of the %d connectors is like that.", len(all))
		}
		return k.say("No connectors. Make one with: millrace connectors create -f FILE")
	}
	t := &table{head: []string{"NAME", "KIND", "HEALTH", "TASKS", "LAG", "FOR", "STATE", "WORKERS", "TOPICS"}, wide: 3}
	for _, r := range rows {
		running := 0
		for _, task := range r.e.Status.Tasks {
			if task.State == "RUNNING" {
				running++
			}
		}
		t.add(r.name, k.kindOf(r.e.Info.Config["connector.class"], r.e.Info.Type), k.show(r.h),
			fmt.Sprintf("%d/%d", running, len(r.e.Status.Tasks)), lagOf(r.e.Status), forOf(r.since),
			cmp.Or(r.e.Status.Connector.State, "-"), workersOf(r.e.Status), cmp.Or(topicsOf(r.e.Info.Config), "-"))
	}
	if k.look.people() || k.look.format == "name" {
		return k.look.write(k.out, t, nil)
	}
	raw, err := k.rest.Raw(ctx, "/connectors?expand=info&expand=status&detail=full")
	if err != nil {
		return err
	}
	whole, _ := raw.(map[string]any)
	picked := map[string]any{}
	var lines []any
	for _, r := range rows {
		e, _ := whole[r.name].(map[string]any)
		info, _ := e["info"].(map[string]any)
		k.hideIn(ctx, info)
		picked[r.name] = e
		lines = append(lines, e)
	}
	if k.look.format == "jsonl" {
		return k.look.value(k.out, lines)
	}
	return k.look.value(k.out, picked)
}

func (r *remote) say(format string, a ...any) error {
	_, err := fmt.Fprintf(r.out, format+"\n", a...)
	return err
}

func lagOf(s client.Status) string {
	total, known := int64(0), false
	for _, t := range s.Tasks {
		if t.Lag != nil {
			total, known = total+*t.Lag, true
		}
	}
	if !known {
		return "-"
	}
	return grouped(total)
}

func forOf(since *time.Time) string {
	if since == nil || since.IsZero() {
		return "-"
	}
	return ago(time.Since(*since))
}

func workersOf(s client.Status) string {
	workers := []string{}
	for _, t := range s.Tasks {
		workers = append(workers, t.WorkerID)
	}
	if len(workers) == 0 && s.Connector.WorkerID != "" {
		workers = append(workers, s.Connector.WorkerID)
	}
	slices.Sort(workers)
	return cmp.Or(strings.Join(slices.Compact(workers), ","), "-")
}

func topicsOf(conf map[string]string) string {
	return cmp.Or(conf["topics"], conf["topics.regex"], conf["topic"], conf["topic.prefix"])
}

// hideIn hides the secrets of a raw ConnectorInfo, in place.
func (k *connectorsCmd) hideIn(ctx context.Context, info map[string]any) {
	raw, _ := info["config"].(map[string]any)
	conf := make(map[string]string, len(raw))
	for key, v := range raw {
		conf[key], _ = v.(string)
	}
	for key, v := range client.Hide(conf, k.declared(ctx, conf["connector.class"])) {
		raw[key] = v
	}
}

// declared are the keys that the class declares as secrets; none where the server does
// not know it, so that names decide.
func (r *remote) declared(ctx context.Context, class string) map[string]bool {
	if s, ok := r.secrets[class]; ok || class == "" {
		return s
	}
	if r.secrets == nil {
		r.secrets = map[string]map[string]bool{}
	}
	s := map[string]bool{}
	if keys, err := r.rest.ConfigKeys(ctx, class); err == nil {
		for _, key := range keys {
			if key.Type == "PASSWORD" {
				s[key.Name] = true
			}
		}
	}
	r.secrets[class] = s
	return s
}

func (k *connectorsCmd) getCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get NAME …", Short: "Print configurations, without their secrets", Args: cobra.MinimumNArgs(1), ValidArgsFunction: k.completeNames,
		Example: "  millrace connectors get shop\n  millrace connectors get shop -o json > shop.json",
		RunE:    k.run(k.get),
	}
}

func (k *connectorsCmd) get(ctx context.Context, names []string) error {
	var lines []any
	t := &table{head: []string{"CONNECTOR", "SETTING", "VALUE"}}
	for _, name := range names {
		raw, err := k.rest.Raw(ctx, client.Path("connectors", name))
		if err != nil {
			return err
		}
		if k.curl {
			continue
		}
		info, _ := raw.(map[string]any)
		k.hideIn(ctx, info)
		lines = append(lines, info)
		conf, _ := info["config"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(conf)) {
			v, _ := conf[key].(string)
			t.add(name, key, v)
		}
	}
	switch {
	case k.curl:
		return nil
	case k.look.format == "name":
		for _, name := range names {
			if err := k.say("%s", name); err != nil {
				return err
			}
		}
		return nil
	case len(names) == 1 && !k.look.people():
		return k.look.value(k.out, lines[0])
	}
	return k.look.write(k.out, t, lines)
}

func (k *connectorsCmd) statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "status [NAME …]", Short: "Say what runs, what does not, why, and what to do", ValidArgsFunction: k.completeNames,
		Long:    "Without names, of all connectors. Exit status 1 when one of them has failed.",
		Example: "  millrace connectors status shop\n  millrace connectors status shop --watch",
		RunE: k.run(func(ctx context.Context, names []string) error {
			return k.watching(ctx, func() error { return k.status(ctx, names) })
		}),
	}
	c.Flags().BoolVarP(&k.watch, "watch", "w", false, "go on, and show each change")
	c.Flags().BoolVarP(&k.verbose, "verbose", "v", false, "with the traces")
	return c
}

func (k *connectorsCmd) status(ctx context.Context, names []string) error {
	if len(names) == 0 {
		var err error
		if names, err = k.rest.Names(ctx); err != nil || k.curl {
			return err
		}
		slices.Sort(names)
	}
	var raws []any
	t := &table{head: []string{"NAME"}}
	failed := 0
	for _, name := range names {
		raw, err := k.rest.Raw(ctx, client.Path("connectors", name, "status")+"?detail=full")
		if err != nil {
			return err
		}
		if k.curl {
			continue
		}
		var s client.Status
		if err := remarshal(raw, &s); err != nil {
			return err
		}
		if h, _ := worst(s); h.word == "FAILED" {
			failed++
		}
		raws = append(raws, raw)
		t.add(name)
		if !k.look.people() {
			continue
		}
		var kind string
		if info, err := k.rest.Connector(ctx, name); err == nil {
			kind = k.kindOf(info.Config["connector.class"], info.Type)
		}
		k.explain(s, kind)
	}
	switch {
	case k.curl:
		return nil
	case !k.look.people() && len(names) == 1:
		if err := k.look.write(k.out, t, raws[0]); err != nil {
			return err
		}
	case !k.look.people():
		if err := k.look.write(k.out, t, raws); err != nil {
			return err
		}
	case len(names) == 0:
		return k.say("No connectors.")
	}
	if failed > 0 {
		return exitError{exitNo, fmt.Errorf("%s of %d failed", count(failed, "connector"), len(names))}
	}
	return nil
}

// explain writes a connector's state with the reasons and remedies.
func (k *connectorsCmd) explain(s client.Status, kind string) {
	h, since := worst(s)
	head := []string{printable(s.Name), cmp.Or(kind, s.Type), k.show(h)}
	if since != nil {
		head[2] += " for " + ago(time.Since(*since))
	}
	fmt.Fprintln(k.out, strings.Join(head, "  "))
	if s.Connector.State == "FAILED" || s.Connector.Reason != nil {
		k.explainPart("connector", s.Connector)
	}
	for _, t := range s.Tasks {
		k.explainPart(fmt.Sprintf("task %d", t.ID), t.Part)
	}
}

func (k *connectorsCmd) explainPart(what string, p client.Part) {
	line := fmt.Sprintf("  %s   %s   %s", what, partHealth(p).word, printable(p.WorkerID))
	if p.Lag != nil {
		line += fmt.Sprintf("   lag %s", grouped(*p.Lag))
	}
	if p.Reason != nil && p.Reason.Code != "" {
		line += "   " + printable(p.Reason.Code)
	}
	fmt.Fprintln(k.out, line)
	part := func(label, text string) {
		for i, l := range strings.Split(strings.TrimSpace(text), "\n") {
			if i > 0 {
				label = ""
			}
			fmt.Fprintf(k.out, "    %-6s %s\n", label, printable(l))
		}
	}
	switch {
	case p.Stalled != nil && p.State == "RUNNING":
		part("why", p.Stalled.Reason+", for "+ago(time.Since(p.Stalled.Since)))
	case p.Reason != nil:
		part("why", p.Reason.Summary)
		if p.Reason.Remedy != "" {
			part("do", p.Reason.Remedy)
		}
	case p.Trace != "":
		first, _, _ := strings.Cut(p.Trace, "\n")
		part("why", first)
	}
	if p.NoAnswer != "" {
		part("more", p.NoAnswer)
	}
	if p.State == "FAILED" {
		part("retry", retryOf(p))
	}
	if k.verbose && p.Trace != "" {
		part("trace", p.Trace)
	}
}

func retryOf(p client.Part) string {
	switch {
	case p.NextRestart != nil:
		return fmt.Sprintf("in %s, after %s", ago(time.Until(*p.NextRestart)), count(p.Restarts, "restart"))
	case p.Reason != nil && p.Reason.Retry == "never":
		return "none: a retry cannot help"
	case p.Restarts > 0:
		return fmt.Sprintf("no more, after %s", count(p.Restarts, "restart"))
	}
	return "none"
}

func remarshal(from any, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}
