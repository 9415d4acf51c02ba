package cmd

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// tailFlags say what to read of a topic and how to show it.
type tailFlags struct {
	from, key, grep, decode string
	partition               int32
	n                       int
	toEnd, changes, dirty   bool
}

func (k *topicsCmd) tailCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "tail TOPIC", Short: "Print records, and go on as they come", Args: cobra.ExactArgs(1), ValidArgsFunction: k.completeTopics,
		Long: "From the newest on unless --from says otherwise, until Ctrl-C, -n records, or with --to-end the end as it is now. Records of\n" +
			"transactions that are not committed are not shown. What is read is as it stands in the topic: bytes that no terminal should\n" +
			"act on are written as escapes.",
		Example: "  millrace topics tail shop.public.orders --from oldest -n 3\n  millrace topics tail shop.public.orders --from -5m --changes",
		RunE:    k.run(func(ctx context.Context, args []string) error { return k.read(ctx, args[0]) }),
	}
	f := c.Flags()
	f.StringVar(&k.tail.from, "from", "newest", "where to begin: oldest, newest, -5m, a time as 2026-11-30T06:00:00Z, or @OFFSET")
	f.StringVar(&k.tail.key, "key", "", "only records of that key (its text, or the value of a field of a JSON key)")
	f.StringVar(&k.tail.grep, "grep", "", "only records whose key or value holds that text")
	f.Int32VarP(&k.tail.partition, "partition", "p", -1, "only that partition")
	f.IntVarP(&k.tail.n, "count", "n", 0, "end after so many records")
	f.BoolVar(&k.tail.toEnd, "to-end", false, "end at the end of the topic as it is now")
	f.BoolVar(&k.tail.changes, "changes", false, "show change events as what changed")
	f.StringVar(&k.tail.decode, "decode", "auto", "how to show bytes: auto, json, text, hex")
	f.BoolVar(&k.tail.dirty, "uncommitted", false, "also records of transactions that are open or aborted")
	return c
}

func (k *topicsCmd) read(ctx context.Context, topic string) error {
	t := k.tail
	if !slices.Contains([]string{"auto", "json", "text", "hex"}, t.decode) {
		return usage(fmt.Errorf("--decode %s: want auto, json, text or hex", t.decode))
	}
	if t.n < 0 {
		return usage(fmt.Errorf("-n %d: want a number of records", t.n))
	}
	d, err := k.describe(ctx, topic)
	if err != nil {
		return err
	}
	begin, err := k.begin(ctx, d)
	if err != nil {
		return err
	}
	ends := map[int32]int64{}
	offsets := map[int32]kgo.Offset{}
	for p, at := range begin {
		offsets[p] = kgo.NewOffset().At(at)
	}
	if t.toEnd {
		listed, err := k.admin.ListCommittedOffsets(ctx, topic)
		if t.dirty {
			listed, err = k.admin.ListEndOffsets(ctx, topic)
		}
		if err != nil {
			return kafkaError(topic, err)
		}
		for p, at := range begin {
			if o, ok := listed.Lookup(topic, p); ok && o.Offset > at {
				ends[p] = o.Offset
			}
		}
		if len(ends) == 0 {
			return nil
		}
	}
	isolation := kgo.ReadCommitted()
	if t.dirty {
		isolation = kgo.ReadUncommitted()
	}
	cl, err := kgo.NewClient(append(k.log.ClientOpts(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}),
		kgo.FetchIsolationLevel(isolation), kgo.FetchMaxBytes(8<<20), kgo.MaxConcurrentFetches(1), kgo.KeepControlRecords())...)
	if err != nil {
		return err
	}
	defer cl.Close()
	return k.follow(ctx, cl, ends)
}

// begin is where each wanted partition is read from.
func (k *topicsCmd) begin(ctx context.Context, d topicDescription) (map[int32]int64, error) {
	out := map[int32]int64{}
	for _, p := range d.Partitions {
		if k.tail.partition >= 0 && p.Partition != k.tail.partition {
			continue
		}
		switch from := k.tail.from; {
		case from == "oldest":
			out[p.Partition] = p.Start
		case from == "newest":
			out[p.Partition] = p.End
		case strings.HasPrefix(from, "@"):
			n, err := strconv.ParseInt(from[1:], 10, 64)
			if err != nil || n < 0 {
				return nil, usage(fmt.Errorf("--from %s: want @ and an offset", from))
			}
			if n < p.Start || n > p.End {
				if len(d.Partitions) == 1 || k.tail.partition >= 0 {
					return nil, no("partition %d holds offsets %d to %d; there is no %d", p.Partition, p.Start, p.End, n)
				}
				n = min(max(n, p.Start), p.End)
			}
			out[p.Partition] = n
		default:
			at, err := momentOf(from, time.Now())
			if err != nil {
				return nil, usage(fmt.Errorf("--from %s: %w; or oldest, newest, @OFFSET", from, err))
			}
			listed, err := k.admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), d.Name)
			if err != nil {
				return nil, kafkaError(d.Name, err)
			}
			o, _ := listed.Lookup(d.Name, p.Partition)
			out[p.Partition] = o.Offset
		}
	}
	if len(out) == 0 {
		return nil, exitError{exitNotFound, fmt.Errorf("topic %q has no partition %d; it has %d, from 0", d.Name, k.tail.partition, len(d.Partitions))}
	}
	return out, nil
}

// follow prints what comes. ends are the offsets at which a partition has been read;
// empty: never.
func (k *topicsCmd) follow(ctx context.Context, cl *kgo.Client, ends map[int32]int64) error {
	bounded, shown := len(ends) > 0, 0
	for {
		fetches := cl.PollRecords(ctx, 1000)
		if ctx.Err() != nil {
			return nil // Ctrl-C is how one ends it
		}
		for _, e := range fetches.Errors() {
			return kafkaError(e.Topic, e.Err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			end, waited := ends[r.Partition]
			if bounded && (!waited || r.Offset >= end) {
				delete(ends, r.Partition)
				continue
			}
			if !r.Attrs.IsControl() && k.wanted(r) {
				if err := k.print(r); err != nil {
					return err
				}
				if shown++; shown == k.tail.n {
					return nil
				}
			}
			if bounded && r.Offset+1 >= end {
				delete(ends, r.Partition)
			}
		}
		if bounded && len(ends) == 0 {
			return nil
		}
	}
}

// wanted reports whether a record passes --key and --grep.
func (k *topicsCmd) wanted(r *kgo.Record) bool {
	if k.tail.key != "" && !hasKey(r.Key, k.tail.key) {
		return false
	}
	return k.tail.grep == "" || bytes.Contains(r.Key, []byte(k.tail.grep)) || bytes.Contains(r.Value, []byte(k.tail.grep))
}

// hasKey compares a key with what a person typed: its text, that of a JSON text or
// number, or that of any field of a JSON object.
func hasKey(key []byte, want string) bool {
	if string(key) == want {
		return true
	}
	v, ok := parseJSON(key)
	if !ok {
		return false
	}
	v = payload(v)
	if m, ok := v.(map[string]any); ok {
		for _, f := range m {
			if plain(f) == want {
				return true
			}
		}
		return false
	}
	return plain(v) == want
}

func parseJSON(data []byte) (any, bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return nil, false
	}
	return v, true
}

// payload is what stands inside the schema envelope of Connect's JSON, or the value.
func payload(v any) any {
	if m, ok := v.(map[string]any); ok && len(m) == 2 {
		if _, has := m["schema"]; has {
			if p, has := m["payload"]; has {
				return p
			}
		}
	}
	return v
}

// plain is a JSON value as a person writes it.
func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return "null"
	}
	return plainJSON(v)
}

func (k *topicsCmd) print(r *kgo.Record) error {
	switch {
	case k.look.format == "name":
		return k.say("%d@%d", r.Partition, r.Offset)
	case !k.look.people():
		return k.printRecord(r)
	case k.tail.changes:
		if text, ok := changeOf(r); ok {
			return k.say("%s", printable(text))
		}
	}
	key, value := k.text(r.Key), k.text(r.Value)
	if r.Key == nil {
		key = "-"
	}
	if r.Value == nil {
		value = "(tombstone)"
	}
	return k.say("%s  %d@%d  %s  %s", r.Timestamp.UTC().Format("2006-01-02T15:04:05.000Z"), r.Partition, r.Offset, key, value)
}

// text is bytes as --decode says, on one line.
func (k *topicsCmd) text(data []byte) string {
	switch k.tail.decode {
	case "hex":
		return hex.EncodeToString(data)
	case "text":
		return printable(strings.ToValidUTF8(string(data), "\uFFFD"))
	}
	if v, ok := parseJSON(data); ok {
		return printable(plainJSON(payload(v)))
	}
	if utf8.Valid(data) {
		return printable(string(data))
	}
	return "0x" + hex.EncodeToString(data)
}

func plainJSON(v any) string {
	line, err := marshalIndent(v, "")
	if err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(string(line), "\n")
}

// printRecord writes a record for programs, one after the other.
func (k *topicsCmd) printRecord(r *kgo.Record) error {
	type header struct {
		Key   string `json:"key"`
		Value any    `json:"value"`
	}
	out := struct {
		Topic     string   `json:"topic"`
		Partition int32    `json:"partition"`
		Offset    int64    `json:"offset"`
		Timestamp string   `json:"timestamp"`
		Key       any      `json:"key"`
		Value     any      `json:"value"`
		Headers   []header `json:"headers"`
	}{r.Topic, r.Partition, r.Offset, r.Timestamp.UTC().Format(time.RFC3339Nano), k.jsonValue(r.Key), k.jsonValue(r.Value), []header{}}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, header{h.Key, k.jsonValue(h.Value)})
	}
	l := k.look
	if l.format == "json" {
		l.format = "jsonl" // a list would have to end
	}
	if l.format == "yaml" {
		fmt.Fprintln(k.out, "---")
	}
	return l.value(k.out, out)
}

// jsonValue is bytes as JSON: what they hold, their text, or {"hex": …}.
func (k *topicsCmd) jsonValue(data []byte) any {
	switch {
	case data == nil:
		return nil
	case k.tail.decode == "hex":
		return hex.EncodeToString(data)
	case k.tail.decode != "text":
		if v, ok := parseJSON(data); ok {
			return v
		}
	}
	if utf8.Valid(data) {
		return string(data)
	}
	return map[string]string{"hex": hex.EncodeToString(data)}
}

// changeOf is a change event as what changed: "~ id=7 status new → paid".
func changeOf(r *kgo.Record) (string, bool) {
	if r.Value == nil {
		return "", false
	}
	v, ok := parseJSON(r.Value)
	if !ok {
		return "", false
	}
	e, ok := payload(v).(map[string]any)
	if !ok {
		return "", false
	}
	op, _ := e["op"].(string)
	before, _ := e["before"].(map[string]any)
	after, _ := e["after"].(map[string]any)
	id := keyText(r.Key)
	switch op {
	case "c", "r":
		mark := "+"
		if op == "r" {
			mark = "="
		}
		return strings.TrimSpace(mark + " " + id + " " + fields(after)), after != nil
	case "d":
		return strings.TrimSpace("- " + id + " " + fields(before)), true
	case "u":
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(after)) {
			old, now := plain(after[name]), plain(after[name])
			if before != nil {
				old = plain(before[name])
			}
			if before == nil || old != now {
				if before == nil {
					parts = append(parts, name+" "+now)
				} else {
					parts = append(parts, name+" "+old+" → "+now)
				}
			}
		}
		return strings.TrimSpace("~ " + id + " " + strings.Join(parts, "  ")), true
	case "t":
		source, _ := e["source"].(map[string]any)
		return "x truncated " + plain(source["table"]), true
	}
	return "", false
}

func keyText(key []byte) string {
	if v, ok := parseJSON(key); ok {
		if m, ok := payload(v).(map[string]any); ok {
			return fields(m)
		}
	}
	return string(key)
}

func fields(m map[string]any) string {
	parts := make([]string, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name+"="+plain(m[name]))
	}
	return strings.Join(parts, " ")
}
