package store

import (
	"fmt"
	"math"

	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest epoch that is not
// above the asked one, and the offset where it ended; -1, -1 if unknown.
func (p *Partition) EndOffsetForEpoch(epoch int32) (int32, int64) {
	p.epochMu.Lock()
	defer p.epochMu.Unlock()
	es := p.epochs
	if epoch < 0 || len(es) == 0 || epoch > es[len(es)-1].epoch {
		return -1, -1
	}
	for i := len(es) - 1; i >= 0; i-- {
		if es[i].epoch > epoch {
			continue
		}
		if i == len(es)-1 {
			return es[i].epoch, p.end.Load()
		}
		return es[i].epoch, es[i+1].start
	}
	return epoch, es[0].start
}

// loadEpochs reads leader-epoch-checkpoint. A missing or bad one is made anew from the batches' headers.
func (p *Partition) loadEpochs(segs []*segment) error {
	b, err := vfs.ReadFile(p.s.fs, p.file(epochFile), maxStateFile)
	if err == nil {
		p.epochs, err = parseEpochs(b)
	}
	if err == nil && len(p.epochs) > 0 {
		p.epoch.Store(p.epochs[len(p.epochs)-1].epoch)
		return nil
	}
	if err == nil {
		err = fmt.Errorf("no epochs")
	}
	p.s.lg.Warn("leader epochs are missing; made anew from the log", "partition", p.tp.String(), "cause", err)
	p.epochs = []epochStart{{0, 0}}
	for _, s := range segs {
		err := s.each(0, s.size.Load(), func(_ int64, h batch.View) (bool, error) {
			if e := h.LeaderEpoch(); e > p.epochs[len(p.epochs)-1].epoch {
				p.epochs = append(p.epochs, epochStart{e, h.BaseOffset()})
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return p.writeEpochs()
}

func (p *Partition) writeEpochs() error {
	p.epoch.Store(p.epochs[len(p.epochs)-1].epoch)
	if err := vfs.WriteFileAtomic(p.s.fs, p.file(epochFile), encodeEpochs(p.epochs)); err != nil {
		return err
	}
	return p.s.fs.SyncDir(p.dir)
}

// bumpEpoch begins a new leader epoch at end, so that clients which saw what was cut off notice.
// Durable when it returns; no batch has the new epoch before.
func (p *Partition) bumpEpoch(end int64) error {
	p.epochMu.Lock()
	defer p.epochMu.Unlock()
	last := p.epochs[len(p.epochs)-1].epoch
	if last == math.MaxInt32 {
		return fmt.Errorf("%v: leader epochs are used up", p.tp)
	}
	for len(p.epochs) > 0 && p.epochs[len(p.epochs)-1].start >= end && len(p.epochs) > 1 {
		p.epochs = p.epochs[:len(p.epochs)-1]
	}
	if n := len(p.epochs); p.epochs[n-1].start > end {
		p.epochs[n-1].start = end
	}
	p.epochs = append(p.epochs, epochStart{last + 1, end})
	return p.writeEpochs()
}
