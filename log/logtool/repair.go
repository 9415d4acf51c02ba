package logtool

import (
	"context"
	"fmt"
	"path/filepath"

	"millrace/log/internal/store"
)

// Repair replaces damaged ranges by markers that readers pass over, and makes bad indexes anew; without yes it only says what it
// would do, and writes nothing. The bytes that it takes out stay in files beside the log. Torn tails are the next start's. The
// report is that of the directory as it was found, with what was done.
func Repair(ctx context.Context, o Options, yes bool) (Report, error) {
	op, err := open(o, yes)
	if err != nil {
		return Report{}, err
	}
	defer op.Close()
	r := op.report()
	if yes {
		did, err := op.RepairState()
		r.Did = did
		if err != nil {
			return r, err
		}
	}
	for i, tp := range op.parts {
		p, found := op.inspect(ctx, i, tp)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		switch {
		case found == nil || p.State == "ok":
		case yes:
			done, err := op.RepairPartition(found)
			p.Did = done.Did
			if err != nil {
				p.Error = err.Error()
			}
		default:
			for _, f := range found.Findings {
				p.Did = append(p.Did, plan(f)...)
			}
		}
		r.add(p)
	}
	r.Bytes = op.bytes
	return r, nil
}

// plan is what a repair would do about a finding.
func plan(f store.Finding) []string {
	switch f.Trouble {
	case store.DamagedHole:
		if f.End > f.Position {
			return []string{fmt.Sprintf("would cut bytes %d to %d, offsets %d to %d, out of %s and keep them in a file beside it", f.Position, f.End, f.From, f.To-1, f.File)}
		}
		return []string{fmt.Sprintf("would mark offsets %d to %d, which no segment holds, as passed in %s", f.From, f.To-1, f.File)}
	case store.BadIndex:
		return []string{fmt.Sprintf("would make %s anew from the log", filepath.Base(f.File))}
	}
	return nil
}

// Failed reports whether a repair left something undone.
func (r Report) Failed() bool {
	for _, p := range r.Partitions {
		if p.Error != "" {
			return true
		}
	}
	return false
}
