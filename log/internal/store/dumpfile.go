package store

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"millrace/log/internal/vfs"
)

// Contents of a partition's small files, for people who look at them.

// IndexEntry is an entry of an offset index.
type IndexEntry struct{ Offset, Position int64 }

// TimeEntry is an entry of a time index.
type TimeEntry struct{ Timestamp, Offset int64 }

// AbortedEntry is an entry of an index of aborted transactions.
type AbortedEntry struct{ ProducerID, First, Last, LastStable int64 }

// SentBatch is a batch that a producer sent.
type SentBatch struct {
	FirstSequence, LastSequence int32
	FirstOffset, Timestamp      int64
}

// FileContents is what one file holds; of the slices one is set. Err says that it is not well-formed.
type FileContents struct {
	Name      string
	Kind      string // index, timeindex, txnindex, snapshot, pwin, or text
	Index     []IndexEntry
	Times     []TimeEntry
	Aborted   []AbortedEntry
	Producers []ProducerInfo
	Windows   map[int64][]SentBatch // of pwin, by producer
	Text      string
	Err       error
}

// EachFile calls f for every file of a partition but the logs, in the order of their names, until it returns false.
func (in *Inspector) EachFile(tp TopicPartition, f func(FileContents) (bool, error)) error {
	p := in.s.newPartition(tp)
	i := &inspection{p: p, out: &Inspected{TopicPartition: tp}}
	if err := i.list(); err != nil {
		return err
	}
	for _, name := range sortedNames(i.files) {
		c, ok := p.contents(name)
		if !ok {
			continue
		}
		if more, err := f(c); err != nil || !more {
			return err
		}
	}
	return nil
}

func (p *Partition) contents(name string) (c FileContents, ok bool) {
	c = FileContents{Name: name, Kind: strings.TrimPrefix(filepath.Ext(name), ".")}
	limit := int64(maxStateFile)
	read := func() []byte {
		b, err := vfs.ReadFile(p.s.fs, p.file(name), limit)
		c.Err = err
		return b
	}
	base, _ := parseOffsetName(name, filepath.Ext(name))
	switch "." + c.Kind {
	case indexSuffix:
		for b := read(); len(b) >= indexEntry; b = b[indexEntry:] {
			c.Index = append(c.Index, IndexEntry{base + int64(be.Uint32(b)), int64(be.Uint32(b[4:]))})
		}
	case timeSuffix:
		for b := read(); len(b) >= timeEntry; b = b[timeEntry:] {
			c.Times = append(c.Times, TimeEntry{int64(be.Uint64(b)), base + int64(be.Uint32(b[8:]))})
		}
	case txnSuffix:
		b := read()
		as, err := parseAborted(b)
		if c.Err == nil {
			c.Err = err
		}
		for _, a := range as {
			c.Aborted = append(c.Aborted, AbortedEntry{a.producer, a.first, a.last, a.stable})
		}
	case snapshotSuffix, pwinSuffix:
		m, err := map[int64]*producer(nil), error(nil)
		if "."+c.Kind == snapshotSuffix {
			if b := read(); c.Err == nil {
				m, err = parseSnapshot(b)
			}
		} else if m, _, err = p.readSnapshot(base); err == nil {
			c.Windows = map[int64][]SentBatch{}
		}
		if c.Err == nil {
			c.Err = err
		}
		for id, e := range m {
			i := ProducerInfo{ID: id, Epoch: e.epoch, LastSequence: -1, LastTimestamp: e.timestamp, CoordinatorEpoch: e.coordEpoch, TxnFirst: e.txnFirst}
			if e.n > 0 {
				i.LastSequence = e.window[e.n-1].lastSeq
			}
			c.Producers = append(c.Producers, i)
			if c.Windows != nil {
				for _, w := range e.window[:e.n] {
					c.Windows[id] = append(c.Windows[id], SentBatch{w.firstSeq, w.lastSeq, w.firstOffset, w.timestamp})
				}
			}
		}
		slices.SortFunc(c.Producers, func(a, b ProducerInfo) int { return cmp.Compare(a.ID, b.ID) })
	default:
		if name != metadataFile && name != epochFile && name != damagedFile {
			return c, false
		}
		c.Kind, limit = "text", 1<<20
		c.Text = string(read())
	}
	return c, true
}
