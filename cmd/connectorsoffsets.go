package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/cmd/client"
)

func (k *connectorsCmd) offsetsCommand() *cobra.Command {
	c := noun(&cobra.Command{
		Use: "offsets", Short: "See, set and reset where a connector stands",
		Example: "  millrace connectors offsets get shop\n  millrace connectors offsets reset shop --stop",
	})
	get := &cobra.Command{
		Use: "get NAME", Short: "Print where a connector stands", Args: cobra.ExactArgs(1), ValidArgsFunction: k.completeNames,
		Example: "  millrace connectors offsets get shop\n  millrace connectors offsets get shop -o json > offsets.json",
		RunE:    k.run(k.getOffsets),
	}
	set := &cobra.Command{
		Use: "set NAME -f FILE | --partition JSON --offset JSON", Short: "Set where a connector goes on", Args: cobra.ExactArgs(1), ValidArgsFunction: k.completeNames,
		Long: "Takes what `offsets get -o json` prints. An offset of null forgets that partition. The connector has to be stopped; --stop stops it\n" +
			"and puts it back to what it was afterwards.",
		Example: "  millrace connectors offsets set shop -f offsets.json\n" +
			`  millrace connectors offsets set search --stop --partition '{"kafka_topic":"orders","kafka_partition":0}' --offset '{"kafka_offset":5}'`,
		RunE: k.run(k.setOffsets),
	}
	set.Flags().StringArrayVarP(&k.files, "file", "f", nil, "file of offsets, JSON, or - for standard input")
	set.Flags().StringVar(&k.partition, "partition", "", "the partition, JSON")
	set.Flags().StringVar(&k.offset, "offset", "", "its offset, JSON; null forgets it")
	reset := &cobra.Command{
		Use: "reset NAME", Short: "Forget where a connector stands: it begins anew", Args: cobra.ExactArgs(1), ValidArgsFunction: k.completeNames,
		Example: "  millrace connectors offsets reset shop --stop",
		RunE:    k.run(k.resetOffsets),
	}
	for _, c := range []*cobra.Command{set, reset} {
		k.dangerFlags(c)
		c.Flags().BoolVar(&k.stopFirst, "stop", false, "stop the connector before, and set it going again after, if it runs")
		c.Flags().DurationVar(&k.wait, "wait", 30*time.Second, "longest wait until it has stopped")
	}
	c.AddCommand(get, set, reset)
	return c
}

func (k *connectorsCmd) getOffsets(ctx context.Context, args []string) error {
	o, err := k.rest.Offsets(ctx, args[0])
	if err != nil || k.curl {
		return err
	}
	if k.look.people() && len(o.Offsets) == 0 {
		return k.say("%s has no offsets yet.", printable(args[0]))
	}
	t := &table{head: []string{"PARTITION", "OFFSET"}}
	for _, e := range o.Offsets {
		t.add(compactJSON(e.Partition), compactJSON(e.Offset))
	}
	return k.look.write(k.out, t, o)
}

func compactJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// wantedOffsets are those of the file or the flags.
func (k *connectorsCmd) wantedOffsets() (client.Offsets, error) {
	var o client.Offsets
	switch {
	case len(k.files) == 1 && k.partition == "" && k.offset == "":
		var data []byte
		var err error
		if k.files[0] == "-" {
			data, err = io.ReadAll(io.LimitReader(k.in, maxDocument))
		} else {
			data, err = os.ReadFile(k.files[0])
		}
		if err != nil {
			return o, err
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&o); err != nil {
			return o, noError{fmt.Errorf(`%s: %w; want {"offsets":[{"partition":{…},"offset":{…}}]}`, k.files[0], err)}
		}
		return o, nil
	case len(k.files) == 0 && k.partition != "" && k.offset != "":
		for flag, text := range map[string]string{"--partition": k.partition, "--offset": k.offset} {
			if !json.Valid([]byte(text)) {
				return o, usage(fmt.Errorf("%s %s is no JSON", flag, text))
			}
		}
		o.Offsets = []client.Offset{{Partition: json.RawMessage(k.partition), Offset: json.RawMessage(k.offset)}}
		return o, nil
	}
	return o, usage(errors.New("give -f FILE, or --partition and --offset"))
}

func (k *connectorsCmd) setOffsets(ctx context.Context, args []string) error {
	o, err := k.wantedOffsets()
	if err != nil {
		return err
	}
	if k.curl {
		_, err := k.rest.SetOffsets(ctx, args[0], o)
		return err
	}
	return k.whileStopped(ctx, args[0], "set "+count(len(o.Offsets), "offset")+" of "+args[0]+": records are sent again or skipped", func() (string, error) {
		return k.rest.SetOffsets(ctx, args[0], o)
	})
}

func (k *connectorsCmd) resetOffsets(ctx context.Context, args []string) error {
	if k.curl {
		_, err := k.rest.ResetOffsets(ctx, args[0])
		return err
	}
	return k.whileStopped(ctx, args[0], "forget all offsets of "+args[0]+": it begins anew, and what it sent is sent again", func() (string, error) {
		return k.rest.ResetOffsets(ctx, args[0])
	})
}

// whileStopped changes offsets of a connector that is stopped, or that --stop lets it
// stop; then it is put back to what it was, also when the change was refused.
func (k *connectorsCmd) whileStopped(ctx context.Context, name, impact string, do func() (string, error)) (err error) {
	s, err := k.rest.Status(ctx, name)
	if err != nil {
		return err
	}
	before := s.Connector.State
	if before != "STOPPED" && !k.stopFirst {
		return exitError{exitConflict, fmt.Errorf("%s is %s: stop it first (millrace connectors stop %s), or add --stop", printable(name), before, printable(name))}
	}
	if err := k.ask(impact, k.yes, k.confirm); err != nil {
		return err
	}
	if before != "STOPPED" {
		if err := k.rest.Stop(ctx, name); err != nil {
			return err
		}
		defer func() {
			back := k.rest.Resume
			if before == "PAUSED" {
				back = k.rest.Pause
			}
			// Also after an interruption: who asked for a moment's stop gets no more than that.
			err = errors.Join(err, back(context.WithoutCancel(ctx), name))
		}()
		if err := k.reached(ctx, name, "STOPPED"); err != nil {
			return err
		}
	}
	message, err := do()
	if err != nil {
		return err
	}
	return k.say("%s", printable(strings.TrimSpace(message)))
}
