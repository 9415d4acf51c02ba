package logtool

import (
	"context"
	"fmt"
	"strconv"

	"millrace/log/internal/store"
)

// Report is what Verify, or Repair, found.
type Report struct {
	Dir        string            `json:"dir"`
	Clean      bool              `json:"cleanStop"` // the last process stopped in order
	OK         bool              `json:"ok"`
	Partitions []PartitionReport `json:"partitions"`
	Findings   []Finding         `json:"findings,omitempty"` // that concern the directory, not one partition
	Did        []string          `json:"did,omitempty"`      // by Repair
	Bytes      int64             `json:"bytes"`
}

// PartitionReport is one partition.
type PartitionReport struct {
	Partition string    `json:"partition"`
	State     string    `json:"state"` // ok, or the worst trouble
	LogStart  int64     `json:"logStart"`
	Next      int64     `json:"nextOffset"`
	Segments  int       `json:"segments"`
	Batches   int64     `json:"batches"`
	Records   int64     `json:"records"`
	Bytes     int64     `json:"bytes"`
	Findings  []Finding `json:"findings,omitempty"`
	Notes     []string  `json:"notes,omitempty"`
	Did       []string  `json:"did,omitempty"`
	Error     string    `json:"error,omitempty"` // why it could not be read, or repaired
}

// Finding is one trouble. Offsets run from From up to, without, To; bytes likewise. -1 is for what is not known.
type Finding struct {
	Trouble  string `json:"trouble"`
	File     string `json:"file"`
	Position int64  `json:"position"`
	End      int64  `json:"end"`
	From     int64  `json:"fromOffset"`
	To       int64  `json:"toOffset"`
	Reason   string `json:"reason"`
	Known    bool   `json:"known,omitempty"` // the log itself has found it before
	Remedy   string `json:"remedy"`
}

// remedies say what becomes of a trouble.
var remedies = map[store.Trouble]string{
	store.TornTail:    "none needed: it was never acknowledged, and the next start cuts it off and keeps the bytes in a file",
	store.BadIndex:    "millrace log repair makes it anew from the log",
	store.BadState:    "none needed: the next start does without it",
	store.DamagedHole: "restore the file from a copy, or cut the range out with millrace log repair: its records are lost then, and all others are read",
}

// worst is the order of troubles.
var worst = []store.Trouble{store.DamagedHole, store.BadIndex, store.TornTail, store.BadState}

func finding(f store.Finding) Finding {
	return Finding{string(f.Trouble), f.File, f.Position, f.End, f.From, f.To, f.Reason, f.Known, remedies[f.Trouble]}
}

// String is the finding on one line: what, where, why.
func (f Finding) String() string {
	where := f.File
	if f.End > 0 {
		where += " bytes " + strconv.FormatInt(f.Position, 10) + "-" + strconv.FormatInt(f.End, 10)
	}
	what := f.Trouble
	if f.From >= 0 {
		what += " at offset " + strconv.FormatInt(f.From, 10)
		if f.To > f.From+1 {
			what = f.Trouble + " at offsets " + strconv.FormatInt(f.From, 10) + "-" + strconv.FormatInt(f.To-1, 10)
		}
	}
	return fmt.Sprintf("%s: %s: %s", what, where, f.Reason)
}

// Verify reads partitions whole: checksums, order of offsets, indexes, state files. What is found is in the report; the error
// says what kept it from looking. Report.OK is false when there is any finding, or a partition that could not be read.
func Verify(ctx context.Context, o Options) (Report, error) {
	op, err := open(o, false)
	if err != nil {
		return Report{}, err
	}
	defer op.Close()
	r := op.report()
	for i, tp := range op.parts {
		p, _ := op.inspect(ctx, i, tp)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		r.add(p)
	}
	r.Bytes = op.bytes
	return r, nil
}

func (op *opened) report() Report {
	r := Report{Dir: op.dir, Clean: op.Clean, OK: true}
	for _, f := range op.Findings {
		r.Findings = append(r.Findings, finding(f))
		r.OK = false
	}
	return r
}

func (r *Report) add(p PartitionReport) {
	r.Partitions = append(r.Partitions, p)
	r.OK = r.OK && p.State == "ok"
}

// inspect reads one partition. Its failure is in the report: the others are read all the same.
func (op *opened) inspect(ctx context.Context, i int, tp store.TopicPartition) (PartitionReport, *store.Inspected) {
	p := PartitionReport{Partition: tp.String(), State: "ok"}
	found, err := op.Inspect(tp, op.progress(ctx, i, tp))
	if err != nil {
		p.State, p.Error = "unreadable", err.Error()
		return p, nil
	}
	p.LogStart, p.Next, p.Bytes, p.Segments, p.Notes = found.LogStart, found.Next, found.Bytes, len(found.Segments), found.Notes
	for _, s := range found.Segments {
		p.Batches += s.Batches
		p.Records += s.Records
	}
	for _, f := range found.Findings {
		p.Findings = append(p.Findings, finding(f))
	}
	for _, t := range worst {
		for _, f := range found.Findings {
			if f.Trouble == t && p.State == "ok" {
				p.State = string(t)
			}
		}
	}
	return p, found
}
