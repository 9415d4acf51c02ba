package cmd

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/cmd/client"
	"millrace/log"
)

// defaultKafka is where the embedded log of this machine answers.
const defaultKafka = "127.0.0.1:9092"

// topicsCmd is what the verbs of `millrace topics` share. They speak the Kafka
// protocol, to the embedded log or any cluster.
type topicsCmd struct {
	remote
	kafka   string
	log     *log.Log
	admin   *kadm.Client
	yes     bool
	confirm string
	force   []string // topics

	internal    bool
	partitions  int32
	replication int16
	config      []string
	at          string
	tail        tailFlags
}

func topicsCommand() *cobra.Command {
	k := &topicsCmd{}
	c := noun(&cobra.Command{
		Use: "topics", Aliases: []string{"topic", "t"}, Short: "See and change topics, and read records",
		Long: "Speaks the Kafka protocol with the log of a worker, or with any cluster. Where it listens is asked of the worker's REST API\n" +
			"unless --kafka says it.",
		Example: "  millrace topics list\n  millrace topics tail shop.public.orders --from oldest -n 3",
	})
	k.flags(c.PersistentFlags())
	c.PersistentFlags().StringVar(&k.kafka, "kafka", "", "address of the Kafka protocol (default MILLRACE_KAFKA, the context's, what the worker says, or "+defaultKafka+")")
	if f := c.PersistentFlags().Lookup("curl"); f != nil {
		f.Hidden = true // there is nothing of HTTP in it
	}
	c.AddCommand(k.listCommand(), k.describeCommand(), k.createCommand(), k.deleteCommand(), k.offsetsCommand(), k.tailCommand())
	return c
}

// run makes a command's RunE of a function that speaks to the log.
func (k *topicsCmd) run(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return k.remote.run(func(ctx context.Context, args []string) error {
		if err := k.connect(ctx); err != nil {
			return err
		}
		defer k.log.Close(context.WithoutCancel(ctx))
		return f(ctx, args)
	})
}

func (k *topicsCmd) connect(ctx context.Context) error {
	seeds := cmp.Or(k.kafka, k.env("MILLRACE_KAFKA"), k.remote.at.Kafka)
	if seeds == "" {
		seeds = k.discovered(ctx)
	}
	list := strings.Split(seeds, ",")
	for i, s := range list {
		list[i] = strings.TrimSpace(s)
		if _, _, err := net.SplitHostPort(list[i]); err != nil {
			return usage(fmt.Errorf("--kafka %s: want host:port", s))
		}
	}
	opening, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	l, err := log.Open(opening, log.Config{Seeds: list, ClientID: "millrace-cli", Logger: slog.New(slog.DiscardHandler),
		ClientOpts: []kgo.Opt{kgo.DialTimeout(min(k.timeout, 5*time.Second)), kgo.RetryTimeout(k.timeout), kgo.RequestRetries(2)}})
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return exitError{exitUnreachable, fmt.Errorf("%w; name another address with --kafka", err)}
	}
	k.log, k.admin = l, l.Admin()
	return nil
}

// discovered asks the worker where its log listens. A Connect of the JVM does not say.
func (k *topicsCmd) discovered(ctx context.Context) string {
	return cmp.Or(k.worker(ctx).Kafka, defaultKafka)
}

// worker is what the worker says of itself: nothing where none can be asked.
func (k *topicsCmd) worker(ctx context.Context) client.Root {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	root, _ := k.rest.Root(ctx)
	return root
}

// kafkaError tells what the log refused, with its exit status.
func kafkaError(topic string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return exitError{exitNotFound, fmt.Errorf("there is no topic %q", topic)}
	case errors.Is(err, kerr.TopicAlreadyExists):
		return exitError{exitConflict, fmt.Errorf("topic %q exists already", topic)}
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.SaslAuthenticationFailed):
		return exitError{exitForbidden, fmt.Errorf("topic %q: %w", topic, err)}
	}
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return no("topic %q: %s", topic, strings.ToLower(ke.Message)+": "+ke.Description)
	}
	return fmt.Errorf("topic %q: %w", topic, err)
}

// A topicRow is a topic in a list. Its JSON is ours.
type topicRow struct {
	Name       string `json:"name"`
	Partitions int    `json:"partitions"`
	Replicas   int    `json:"replicas"`
	Records    int64  `json:"records"` // offsets between start and end
	Bytes      int64  `json:"bytes"`   // on disk; -1 unknown
	Internal   bool   `json:"internal"`
}

// internalTopics tells which topics serve the machinery: the broker says so, the name does, or a worker that can be asked.
func (k *topicsCmd) internalTopics(ctx context.Context) func(kadm.TopicDetail) bool {
	names := append([]string{"connect-configs", "connect-offsets", "connect-status", "_schemas"}, k.worker(ctx).Topics...)
	return func(t kadm.TopicDetail) bool {
		return t.IsInternal || strings.HasPrefix(t.Topic, "__") || slices.Contains(names, t.Topic)
	}
}

func (k *topicsCmd) listCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the topics", Args: cobra.NoArgs,
		Example: "  millrace topics list\n  millrace topics list --internal -o name",
		RunE: k.run(func(ctx context.Context, _ []string) error {
			topics, err := k.admin.ListTopicsWithInternal(ctx)
			if err != nil {
				return err
			}
			rows, err := k.rows(ctx, topics)
			if err != nil {
				return err
			}
			rows = slices.DeleteFunc(rows, func(r topicRow) bool { return r.Internal && !k.internal })
			if k.look.people() && len(rows) == 0 {
				return k.say("No topics.")
			}
			t := &table{head: []string{"NAME", "PARTITIONS", "RECORDS", "SIZE", "REPLICAS"}, wide: 1}
			values := []any{}
			for _, r := range rows {
				t.add(r.Name, strconv.Itoa(r.Partitions), grouped(r.Records), sizeOf(r.Bytes), strconv.Itoa(r.Replicas))
				values = append(values, r)
			}
			return k.look.write(k.out, t, values)
		}),
	}
	c.Flags().BoolVar(&k.internal, "internal", false, "also those that the machinery keeps")
	return c
}

func (k *topicsCmd) rows(ctx context.Context, topics kadm.TopicDetails) ([]topicRow, error) {
	names := topics.Names()
	starts, err := k.admin.ListStartOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	ends, err := k.admin.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, err
	}
	sizes := map[string]int64{}
	dirs, dirsErr := k.admin.DescribeAllLogDirs(ctx, nil) // not everyone may ask
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) { sizes[p.Topic] += p.Size })
	})
	var rows []topicRow
	internal := k.internalTopics(ctx)
	for _, t := range topics.Sorted() {
		r := topicRow{Name: t.Topic, Partitions: len(t.Partitions), Replicas: t.Partitions.NumReplicas(), Internal: internal(t), Bytes: -1}
		for p := range t.Partitions {
			start, ok1 := starts.Lookup(t.Topic, p)
			end, ok2 := ends.Lookup(t.Topic, p)
			if ok1 && ok2 && start.Err == nil && end.Err == nil {
				r.Records += end.Offset - start.Offset
			}
		}
		if dirsErr == nil {
			r.Bytes = sizes[t.Topic]
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// sizeOf is a size as people read it.
func sizeOf(n int64) string {
	const units = "KMGTP"
	switch {
	case n < 0:
		return "-"
	case n < 1024:
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1023.95 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[u])
}

// A partitionRow is a partition of a described topic.
type partitionRow struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"`
	Replicas  []int32 `json:"replicas"`
	ISR       []int32 `json:"isr"`
	Start     int64   `json:"start"`
	End       int64   `json:"end"`
	Error     string  `json:"error,omitempty"`
}

type configRow struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

type topicDescription struct {
	Name       string         `json:"name"`
	ID         string         `json:"id"`
	Partitions []partitionRow `json:"partitions"`
	Configs    []configRow    `json:"configs"`
}

func (k *topicsCmd) describeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "describe TOPIC …", Short: "Print partitions and settings", Args: cobra.MinimumNArgs(1), ValidArgsFunction: k.completeTopics,
		Example: "  millrace topics describe shop.public.orders\n  millrace topics describe connect-configs -o json",
		RunE: k.run(func(ctx context.Context, names []string) error {
			var values []any
			for i, name := range names {
				d, err := k.describe(ctx, name)
				if err != nil {
					return err
				}
				values = append(values, d)
				if !k.look.people() {
					continue
				}
				if i > 0 {
					fmt.Fprintln(k.out)
				}
				if err := k.printTopic(d); err != nil {
					return err
				}
			}
			switch {
			case k.look.people():
				return nil
			case k.look.format == "name":
				return k.say("%s", strings.Join(names, "\n"))
			case len(values) == 1:
				return k.look.value(k.out, values[0])
			}
			return k.look.value(k.out, values)
		}),
	}
}

func (k *topicsCmd) describe(ctx context.Context, name string) (topicDescription, error) {
	d := topicDescription{Name: name}
	topics, err := k.admin.ListTopicsWithInternal(ctx, name)
	if err == nil {
		err = topics[name].Err
	}
	if err != nil {
		return d, kafkaError(name, err)
	}
	id := topics[name].ID
	d.ID = base64.RawURLEncoding.EncodeToString(id[:]) // as Java's tools print it
	starts, err := k.admin.ListStartOffsets(ctx, name)
	if err != nil {
		return d, kafkaError(name, err)
	}
	ends, err := k.admin.ListEndOffsets(ctx, name)
	if err != nil {
		return d, kafkaError(name, err)
	}
	for _, p := range topics[name].Partitions.Sorted() {
		row := partitionRow{Partition: p.Partition, Leader: p.Leader, Replicas: p.Replicas, ISR: p.ISR}
		start, _ := starts.Lookup(name, p.Partition)
		end, _ := ends.Lookup(name, p.Partition)
		row.Start, row.End = start.Offset, end.Offset
		if err := cmp.Or(p.Err, start.Err, end.Err); err != nil {
			row.Error = err.Error()
		}
		d.Partitions = append(d.Partitions, row)
	}
	configs, err := k.admin.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return d, kafkaError(name, err)
	}
	for _, c := range configs {
		if c.Err != nil {
			return d, kafkaError(name, c.Err)
		}
		for _, v := range c.Configs {
			value := v.Value
			if v.Sensitive {
				value = nil
			}
			d.Configs = append(d.Configs, configRow{v.Key, value, strings.ToLower(v.Source.String())})
		}
	}
	slices.SortFunc(d.Configs, func(a, b configRow) int { return strings.Compare(a.Name, b.Name) })
	return d, nil
}

func (k *topicsCmd) printTopic(d topicDescription) error {
	if err := k.say("%s  id %s", printable(d.Name), d.ID); err != nil {
		return err
	}
	t := &table{head: []string{"PARTITION", "START", "END", "RECORDS", "LEADER", "REPLICAS", "ISR"}}
	for _, p := range d.Partitions {
		t.add(strconv.Itoa(int(p.Partition)), grouped(p.Start), grouped(p.End), grouped(p.End-p.Start), strconv.Itoa(int(p.Leader)), numbers(p.Replicas), numbers(p.ISR))
	}
	if err := k.look.table(k.out, t); err != nil {
		return err
	}
	set := &table{head: []string{"SETTING", "VALUE", "FROM"}}
	for _, c := range d.Configs {
		if strings.HasPrefix(c.Source, "default") && k.look.format != "wide" {
			continue
		}
		value := "[hidden]"
		if c.Value != nil {
			value = *c.Value
		}
		set.add(c.Name, value, strings.ReplaceAll(c.Source, "_", " "))
	}
	if len(set.rows) == 0 {
		return k.say("All settings have their defaults (-o wide shows them).")
	}
	return k.look.table(k.out, set)
}

func numbers(list []int32) string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = strconv.Itoa(int(n))
	}
	return strings.Join(out, ",")
}

func (k *topicsCmd) createCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "create TOPIC …", Short: "Create topics", Args: cobra.MinimumNArgs(1),
		Example: "  millrace topics create orders --partitions 3\n  millrace topics create prices --config cleanup.policy=compact",
		RunE: k.run(func(ctx context.Context, names []string) error {
			configs := map[string]*string{}
			for _, kv := range k.config {
				key, value, ok := strings.Cut(kv, "=")
				if !ok || key == "" {
					return usage(fmt.Errorf("--config %s: want key=value", kv))
				}
				configs[key] = &value
			}
			for _, name := range names {
				made, err := k.admin.CreateTopic(ctx, k.partitions, k.replication, configs, name)
				if err != nil {
					if made.ErrMessage != "" {
						if status := exitOf(kafkaError(name, err)); status != exitNo {
							return kafkaError(name, err)
						}
						return no("topic %q: %s", name, made.ErrMessage)
					}
					return kafkaError(name, err)
				}
				if err := k.say("created %s", printable(name)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.Flags().Int32VarP(&k.partitions, "partitions", "p", -1, "partitions; -1: the log's default")
	c.Flags().Int16Var(&k.replication, "replication", -1, "replicas; -1: the cluster's default")
	c.Flags().StringArrayVar(&k.config, "config", nil, "a topic setting, key=value; repeatable")
	return c
}

func (k *topicsCmd) deleteCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "delete TOPIC …", Aliases: []string{"rm"}, Short: "Delete topics with all their records", Args: cobra.MinimumNArgs(1), ValidArgsFunction: k.completeTopics,
		Example: "  millrace topics delete orders --yes",
		RunE: k.run(func(ctx context.Context, names []string) error {
			topics, err := k.admin.ListTopicsWithInternal(ctx, names...)
			if err != nil {
				return err
			}
			for _, name := range names {
				if err := topics[name].Err; err != nil {
					return kafkaError(name, err)
				}
			}
			if err := k.spare(ctx, topics); err != nil {
				return err
			}
			rows, err := k.rows(ctx, topics)
			if err != nil {
				return err
			}
			var what []string
			for _, r := range rows {
				what = append(what, fmt.Sprintf("%s (%s records)", r.Name, grouped(r.Records)))
			}
			if err := k.ask("delete "+strings.Join(what, ", ")+" for ever", k.yes, k.confirm); err != nil {
				return err
			}
			for _, name := range names {
				if _, err := k.admin.DeleteTopic(ctx, name); err != nil {
					return kafkaError(name, err)
				}
				if err := k.say("deleted %s", printable(name)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.Flags().StringArrayVar(&k.force, "force", nil, "`TOPIC` that is to be deleted although the machinery keeps its state in it; repeatable")
	c.Flags().BoolVar(&k.yes, "yes", false, "do not ask")
	c.Flags().StringVar(&k.confirm, "confirm", "", "the context's name, where it is guarded and nobody can be asked")
	return c
}

// spare refuses to delete topics that hold the state of workers, of the registry or of the log, but those that --force names.
func (k *topicsCmd) spare(ctx context.Context, topics kadm.TopicDetails) error {
	internal := k.internalTopics(ctx)
	for _, t := range topics.Sorted() {
		if internal(t) && !slices.Contains(k.force, t.Topic) {
			return usage(fmt.Errorf("topic %q holds the state of the machinery, which is lost with it, and what runs on it fails; if that is meant, stop what runs on it and add --force %s", t.Topic, t.Topic))
		}
	}
	return nil
}

// An offsetRow is where a partition stands, and with --at where a moment is.
type offsetRow struct {
	Partition int32  `json:"partition"`
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
	Records   int64  `json:"records"`
	At        *int64 `json:"at,omitempty"`
}

// A readerRow is how far a group has read a partition.
type readerRow struct {
	Group     string `json:"group"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Lag       int64  `json:"lag"`
}

func (k *topicsCmd) offsetsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "offsets TOPIC", Short: "Print where a topic begins and ends, and how far it is read", Args: cobra.ExactArgs(1), ValidArgsFunction: k.completeTopics,
		Example: "  millrace topics offsets orders\n  millrace topics offsets orders --at 2026-11-30T06:00:00Z",
		RunE:    k.run(func(ctx context.Context, args []string) error { return k.offsets(ctx, args[0]) }),
	}
	c.Flags().StringVar(&k.at, "at", "", "also the first offset at or after that moment: RFC 3339, or -5m for five minutes ago")
	return c
}

func (k *topicsCmd) offsets(ctx context.Context, topic string) error {
	d, err := k.describe(ctx, topic)
	if err != nil {
		return err
	}
	var moment kadm.ListedOffsets
	if k.at != "" {
		at, err := momentOf(k.at, time.Now())
		if err != nil {
			return usage(fmt.Errorf("--at %s: %w", k.at, err))
		}
		if moment, err = k.admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topic); err != nil {
			return kafkaError(topic, err)
		}
	}
	out := struct {
		Topic      string      `json:"topic"`
		Partitions []offsetRow `json:"partitions"`
		Readers    []readerRow `json:"readers"`
	}{Topic: topic, Readers: []readerRow{}}
	head := []string{"PARTITION", "START", "END", "RECORDS"}
	if k.at != "" {
		head = append(head, "AT")
	}
	t := &table{head: head}
	for _, p := range d.Partitions {
		row := offsetRow{Partition: p.Partition, Start: p.Start, End: p.End, Records: p.End - p.Start}
		cells := []string{strconv.Itoa(int(p.Partition)), grouped(p.Start), grouped(p.End), grouped(p.End - p.Start)}
		if k.at != "" {
			o, _ := moment.Lookup(topic, p.Partition)
			row.At = &o.Offset
			cells = append(cells, grouped(o.Offset))
		}
		out.Partitions = append(out.Partitions, row)
		t.add(cells...)
	}
	if out.Readers, err = k.readers(ctx, topic, d.Partitions); err != nil {
		return err
	}
	if !k.look.people() {
		return k.look.write(k.out, t, out)
	}
	if err := k.look.table(k.out, t); err != nil || len(out.Readers) == 0 {
		return err
	}
	fmt.Fprintln(k.out)
	by := &table{head: []string{"READ BY", "PARTITION", "OFFSET", "LAG"}}
	for _, r := range out.Readers {
		by.add(r.Group, strconv.Itoa(int(r.Partition)), grouped(r.Offset), grouped(r.Lag))
	}
	return k.look.table(k.out, by)
}

func (k *topicsCmd) readers(ctx context.Context, topic string, parts []partitionRow) ([]readerRow, error) {
	out := []readerRow{}
	groups, err := k.admin.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the groups that read it: %w", err)
	}
	ends := map[int32]int64{}
	for _, p := range parts {
		ends[p.Partition] = p.End
	}
	for _, f := range k.admin.FetchManyOffsets(ctx, groups.Groups()...) {
		for _, o := range f.Fetched[topic] {
			if o.Err == nil && o.At >= 0 {
				out = append(out, readerRow{f.Group, o.Partition, o.At, max(0, ends[o.Partition]-o.At)})
			}
		}
	}
	slices.SortFunc(out, func(a, b readerRow) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), int(a.Partition-b.Partition))
	})
	return out, nil
}

// momentOf reads a moment: RFC 3339, or a span before now as in -5m or -2h30m.
func momentOf(text string, now time.Time) (time.Time, error) {
	if span, ok := strings.CutPrefix(text, "-"); ok {
		d, err := time.ParseDuration(span)
		if err != nil {
			return time.Time{}, errors.New("want a span as in -5m, or a time as in 2026-11-30T06:00:00Z")
		}
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, errors.New("want a time as in 2026-11-30T06:00:00Z, or a span as in -5m")
	}
	return t, nil
}

func (k *topicsCmd) completeTopics(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completionTime)
	defer cancel()
	if k.open(c) != nil || k.connect(ctx) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer k.log.Close(ctx)
	topics, err := k.admin.ListTopics(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(topics.Names(), func(n string) bool { return slices.Contains(args, n) }), cobra.ShellCompDirectiveNoFileComp
}
