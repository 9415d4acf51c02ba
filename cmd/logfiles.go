package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"millrace/log/logtool"
)

// logCmd is what the verbs of `millrace log` share. They look at files and ask no worker.
type logCmd struct {
	look       look
	partitions []string
	yes        bool
	dump       logtool.DumpOptions
	only       []string
	bar        *progressLine
}

func logCommand() *cobra.Command {
	k := &logCmd{}
	c := noun(&cobra.Command{
		Use: "log", Short: "Verify, show and repair the data directory of a stopped log",
		Long: "Reads the files of an embedded log that no process serves: DIR is its data directory (DATA/log), the worker's that holds it, or one\n" +
			"partition's inside. Nothing is written, but by repair with --yes.",
		Example: "  millrace log verify data\n  millrace log dump data/log --partition orders-0 --from 4711 --records",
	})
	k.look.flags(c.PersistentFlags())
	c.PersistentFlags().StringSliceVar(&k.partitions, "partition", nil, "topic-N, or a topic with all of its partitions; repeatable (default: all)")
	c.AddCommand(k.verifyCommand(), k.dumpCommand(), k.repairCommand())
	return c
}

// directory is the one argument of a verb.
func directory(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s wants one directory, the log's: %s DIR", c.CommandPath(), c.CommandPath())
	}
	return nil
}

// run makes a command's RunE of one that looks at a directory.
func (k *logCmd) run(f func(ctx context.Context, c *cobra.Command, o logtool.Options) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := k.look.check(c.OutOrStdout(), os.Getenv); err != nil {
			return usage(err)
		}
		k.bar = &progressLine{w: c.ErrOrStderr(), on: isTTY(c.ErrOrStderr()) && os.Getenv("TERM") != "dumb" && os.Getenv("ACCESSIBLE") == ""}
		err := f(ctx, c, logtool.Options{
			Dir: args[0], Partitions: k.partitions, Progress: k.bar.show,
			Process: fmt.Sprintf("%s, pid %d", c.CommandPath(), os.Getpid()),
		})
		k.bar.end()
		if err != nil && ctx.Err() != nil && c.Context().Err() == nil {
			return errInterrupted
		}
		var inUse *logtool.InUseError
		var none *logtool.NotFoundError
		var coded exitError
		switch {
		case err == nil || errors.As(err, &coded):
			return err
		case errors.As(err, &inUse):
			return exitError{exitConflict, err}
		case errors.As(err, &none):
			return exitError{exitNotFound, err}
		}
		return exitError{exitServer, err}
	}
}

func (k *logCmd) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify DIR", Short: "Read every byte and say per partition what is wrong, and where",
		Long: "Checks every batch's checksum and place, gaps between segments, indexes and state files. A partition is ok, or has a torn tail\n" +
			"(unacknowledged bytes that a crash left), a hole (acknowledged data that is not what was written) or an index mismatch.\n" +
			"Exit status: 0 all is well, 1 something was found, 3 no such directory, 4 a process has it.",
		Example: "  millrace log verify data\n  millrace log verify data/log --partition orders -o json",
		Args:    directory,
		RunE: k.run(func(ctx context.Context, c *cobra.Command, o logtool.Options) error {
			r, err := logtool.Verify(ctx, o)
			if err != nil {
				return err
			}
			if err := k.report(c.OutOrStdout(), r); err != nil {
				return err
			}
			if !r.OK {
				return exitError{exitNo, fmt.Errorf("%s is not in order: %s", r.Dir, summary(r))}
			}
			return nil
		}),
	}
}

func (k *logCmd) repairCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "repair DIR", Short: "Cut damaged ranges out of the log, and make bad indexes anew; with --yes",
		Long: "Without --yes it says what it would do and writes nothing. A damaged range is replaced by a marker that consumers pass over; its\n" +
			"bytes are kept in a file beside the log (SEGMENT.cut-TIME). Take a copy of the directory first. Torn tails need no repair.\n" +
			"Exit status: 0 nothing is left to do, 1 there is something to repair, 3 no such directory, 4 a process has it, 7 a part cannot be repaired.",
		Example: "  millrace log repair data\n  millrace log repair data --partition orders-0 --yes",
		Args:    directory,
		RunE: k.run(func(ctx context.Context, c *cobra.Command, o logtool.Options) error {
			r, err := logtool.Repair(ctx, o, k.yes)
			if err != nil {
				return err
			}
			if err := k.report(c.OutOrStdout(), r); err != nil {
				return err
			}
			switch {
			case r.Failed():
				return exitError{exitServer, fmt.Errorf("%s is not repaired: %s", r.Dir, summary(r))}
			case !k.yes && did(r) > 0:
				return exitError{exitNo, errors.New("nothing was changed; add --yes to do it, after taking a copy of the directory")}
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&k.yes, "yes", false, "do it")
	return c
}

func did(r logtool.Report) int {
	n := len(r.Did)
	for _, p := range r.Partitions {
		n += len(p.Did)
	}
	return n
}

// summary counts what was found: "2 partitions with a hole, 1 with a torn tail".
func summary(r logtool.Report) string {
	var parts []string
	counts := map[string]int{}
	var order []string
	for _, p := range r.Partitions {
		if p.State != "ok" {
			if counts[p.State]++; counts[p.State] == 1 {
				order = append(order, p.State)
			}
		}
	}
	slices.Sort(order)
	for _, s := range order {
		parts = append(parts, fmt.Sprintf("%s with %s", count(counts[s], "partition"), s))
	}
	if len(r.Findings) > 0 {
		parts = append(parts, count(len(r.Findings), "bad state file")+" of the directory")
	}
	return strings.Join(parts, ", ")
}

// report writes what was found: a line a partition, and under it its troubles.
func (k *logCmd) report(w io.Writer, r logtool.Report) error {
	k.bar.end()
	if !k.look.people() {
		if k.look.format == "name" || k.look.format == "jsonl" {
			var list []any
			t := &table{}
			for _, p := range r.Partitions {
				list = append(list, p)
				t.add(p.Partition)
			}
			return k.look.write(w, t, list)
		}
		return k.look.value(w, r)
	}
	t := &table{head: []string{"PARTITION", "STATE", "OFFSETS", "RECORDS", "SIZE", "SEGMENTS", "BATCHES"}, wide: 2}
	for _, p := range r.Partitions {
		offsets := "none"
		if p.Next > p.LogStart {
			offsets = fmt.Sprintf("%d-%d", p.LogStart, p.Next-1)
		}
		t.add(p.Partition, p.State, offsets, strconv.FormatInt(p.Records, 10), sizeOf(p.Bytes), strconv.Itoa(p.Segments), strconv.FormatInt(p.Batches, 10))
	}
	if err := k.look.table(w, t); err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	told := func(of string, fs []logtool.Finding, notes, did []string, failed string) {
		if len(fs)+len(did) == 0 && failed == "" && (len(notes) == 0 || k.look.format != "wide") {
			return
		}
		fmt.Fprintf(b, "\n%s\n", printable(of))
		for _, f := range fs {
			fmt.Fprintf(b, "  %s\n", printable(f.String()))
			if len(did) == 0 {
				fmt.Fprintf(b, "    remedy: %s\n", f.Remedy)
			}
		}
		for _, d := range did {
			fmt.Fprintf(b, "  %s\n", printable(d))
		}
		if failed != "" {
			fmt.Fprintf(b, "  failed: %s\n", printable(failed))
		}
		if k.look.format == "wide" {
			for _, n := range notes {
				fmt.Fprintf(b, "  note: %s\n", printable(n))
			}
		}
	}
	told(r.Dir, r.Findings, nil, r.Did, "")
	for _, p := range r.Partitions {
		told(p.Partition, p.Findings, p.Notes, p.Did, p.Error)
	}
	return b.Flush()
}

func (k *logCmd) dumpCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "dump DIR", Short: "Show batches, records, indexes and snapshots as they stand in the files",
		Long: "A line a batch, and under it with --records its records; then what --only asks for: " + strings.Join(dumpParts, ", ") + ".\n" +
			"With -o jsonl a JSON object a line, with -o json one list. Bytes that are no batch are shown with where and why, and passed over.",
		Example: "  millrace log dump data --partition orders-0 --from 4711 --to 4720 --records\n  millrace log dump data --partition orders --only files -o jsonl",
		Args:    directory,
		RunE: k.run(func(ctx context.Context, c *cobra.Command, o logtool.Options) error {
			for _, p := range k.only {
				if !slices.Contains(dumpParts, p) {
					return exitError{exitUsage, fmt.Errorf("--only %s: want %s", p, strings.Join(dumpParts, " or "))}
				}
			}
			k.dump.Batches, k.dump.Files = slices.Contains(k.only, "batches"), slices.Contains(k.only, "files")
			if k.dump.To > 0 && k.dump.To <= k.dump.From {
				return exitError{exitUsage, fmt.Errorf("--to %d is not behind --from %d", k.dump.To, k.dump.From)}
			}
			w := bufio.NewWriterSize(c.OutOrStdout(), 64<<10)
			if isTTY(c.OutOrStdout()) {
				k.bar.on = false // one terminal shows the other
			}
			show, end, err := k.shower(w)
			if err != nil {
				return err
			}
			err = logtool.Dump(ctx, o, k.dump, show)
			return errors.Join(err, end(), w.Flush())
		}),
	}
	c.Flags().Int64Var(&k.dump.From, "from", 0, "first offset")
	c.Flags().Int64Var(&k.dump.To, "to", 0, "offset behind the last (default: the end)")
	c.Flags().BoolVar(&k.dump.Records, "records", false, "with the records: this shows data")
	c.Flags().StringSliceVar(&k.only, "only", dumpParts, "what is shown: batches, files (indexes, snapshots of producers, state files)")
	return c
}

var dumpParts = []string{"batches", "files"}

// shower writes the items of a dump as they come; end closes what was begun.
func (k *logCmd) shower(w *bufio.Writer) (show func(logtool.Item) error, end func() error, err error) {
	nothing := func() error { return nil }
	switch k.look.format {
	case "table", "wide":
		file := ""
		return func(it logtool.Item) error {
			if it.File != file {
				file = it.File
				fmt.Fprintf(w, "%s\n", printable(file))
			}
			return showItem(w, it)
		}, nothing, nil
	case "jsonl":
		return func(it logtool.Item) error {
			line, err := marshalIndent(it, "")
			if err == nil {
				_, err = w.Write(line)
			}
			return err
		}, nothing, nil
	case "json":
		n := 0
		return func(it logtool.Item) error {
				text, err := marshalIndent(it, "  ")
				if err != nil {
					return err
				}
				before := ",\n"
				if n == 0 {
					before = "[\n"
				}
				n++
				_, err = w.WriteString(before + strings.TrimRight(string(text), "\n"))
				return err
			}, func() error {
				if n == 0 {
					w.WriteString("[")
				}
				_, err := w.WriteString("\n]\n")
				return err
			}, nil
	}
	return nil, nil, exitError{exitUsage, fmt.Errorf("-o %s: a dump is written as table, wide, json or jsonl", k.look.format)}
}

func showItem(w *bufio.Writer, it logtool.Item) error {
	switch {
	case it.Bad != nil:
		fmt.Fprintf(w, "  ! bytes %d-%d are no batch: %s\n", it.Bad.Position, it.Bad.End, printable(it.Bad.Reason))
	case it.Batch != nil:
		showBatch(w, it.Batch)
	case it.State != nil:
		showState(w, it.State)
	}
	return nil
}

func stamp(ms int64) string {
	if ms < 0 {
		return "no time"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

func showBatch(w *bufio.Writer, b *logtool.Batch) {
	fmt.Fprintf(w, "  offsets %d-%d  at %d  %d bytes  %s  %s  %s  epoch %d  crc %08x", b.BaseOffset, b.LastOffset, b.Position, b.Size,
		count(int(b.Count), "record"), b.Codec, stamp(b.MaxTimestamp), b.LeaderEpoch, b.CRC)
	if b.LogAppendTime {
		w.WriteString("  log append time")
	}
	if b.ProducerID >= 0 {
		fmt.Fprintf(w, "  producer %d epoch %d", b.ProducerID, b.ProducerEpoch)
		if b.BaseSequence >= 0 {
			fmt.Fprintf(w, " sequence %d-%d", b.BaseSequence, b.LastSequence)
		}
	}
	if b.Transactional && !b.Control {
		w.WriteString("  transactional")
	}
	if b.Control {
		fmt.Fprintf(w, "  control %s", b.Marker)
	}
	if b.DeleteHorizon != nil {
		fmt.Fprintf(w, "  deletes kept until %s", stamp(*b.DeleteHorizon))
	}
	w.WriteByte('\n')
	for _, r := range b.Records {
		fmt.Fprintf(w, "    %d  %s  %s: %s", r.Offset, stamp(r.Timestamp), shown(r.Key, r.KeyBase64), shown(r.Value, r.ValueBase64))
		for _, h := range r.Headers {
			fmt.Fprintf(w, "  [%s=%s]", printable(h.Key), shown(h.Value, h.ValueBase64))
		}
		w.WriteByte('\n')
	}
	if b.RecordsProblem != "" {
		fmt.Fprintf(w, "    ! %s\n", printable(b.RecordsProblem))
	}
}

// shown is a key or value: text as it is, other bytes in base64.
func shown(s *string, b64 string) string {
	switch {
	case b64 != "":
		return "base64:" + b64
	case s == nil:
		return "null"
	}
	return printable(*s)
}

func showState(w *bufio.Writer, s *logtool.State) {
	if s.Problem != "" {
		fmt.Fprintf(w, "  ! %s\n", printable(s.Problem))
	}
	for _, e := range s.Index {
		fmt.Fprintf(w, "  offset %d  at %d\n", e.Offset, e.Position)
	}
	for _, e := range s.Times {
		fmt.Fprintf(w, "  %s  offset %d\n", stamp(e.Timestamp), e.Offset)
	}
	for _, e := range s.Aborted {
		fmt.Fprintf(w, "  aborted: producer %d  offsets %d-%d  last stable %d\n", e.ProducerID, e.FirstOffset, e.LastOffset, e.LastStableOffset)
	}
	for _, p := range s.Producers {
		fmt.Fprintf(w, "  producer %d epoch %d  last sequence %d  %s", p.ProducerID, p.ProducerEpoch, p.LastSequence, stamp(p.LastTimestamp))
		if p.TxnFirstOffset >= 0 {
			fmt.Fprintf(w, "  transaction open since offset %d", p.TxnFirstOffset)
		}
		w.WriteByte('\n')
		for _, b := range p.Window {
			fmt.Fprintf(w, "    sequence %d-%d  offset %d\n", b.FirstSequence, b.LastSequence, b.FirstOffset)
		}
	}
	for line := range strings.Lines(s.Text) {
		fmt.Fprintf(w, "  %s\n", printable(strings.TrimRight(line, "\n")))
	}
}

// progressLine tells on a terminal how far the work is, beside the data.
type progressLine struct {
	w    io.Writer
	on   bool
	last time.Time
	long int
}

func (b *progressLine) show(p logtool.Progress) {
	if !b.on || time.Since(b.last) < 200*time.Millisecond {
		return
	}
	b.last = time.Now()
	text := fmt.Sprintf("%s (%d of %d), %s read", printable(p.Partition), p.Done+1, p.Total, sizeOf(p.Bytes))
	fmt.Fprintf(b.w, "\r%-*s", b.long, text)
	b.long = max(b.long, len(text))
}

func (b *progressLine) end() {
	if b.long > 0 {
		fmt.Fprintf(b.w, "\r%*s\r", b.long, "")
		b.long = 0
	}
}
