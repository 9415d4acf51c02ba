package logtool

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"unicode/utf8"

	"millrace/log/internal/batch"
	"millrace/log/internal/catalog"
	"millrace/log/internal/store"
)

// DumpOptions say what of a partition is shown.
type DumpOptions struct {
	From, To int64 // offsets; batches with any of [From, To) are shown. To 0: no end
	Batches  bool  // headers
	Records  bool  // and what is in them
	Files    bool  // indexes, snapshots of producers, state files
}

// Item is one thing that Dump shows; one of its pointers is set.
type Item struct {
	Partition string `json:"partition"`
	File      string `json:"file"`
	Batch     *Batch `json:"batch,omitempty"`
	Bad       *Bad   `json:"bad,omitempty"`
	State     *State `json:"state,omitempty"`
}

// Batch is a batch's header as it stands in the file; the checksum was right.
type Batch struct {
	Position       int64    `json:"position"`
	Size           int64    `json:"size"`
	BaseOffset     int64    `json:"baseOffset"`
	LastOffset     int64    `json:"lastOffset"`
	Count          int32    `json:"count"`
	BaseSequence   int32    `json:"baseSequence"`
	LastSequence   int32    `json:"lastSequence"`
	ProducerID     int64    `json:"producerId"`
	ProducerEpoch  int16    `json:"producerEpoch"`
	LeaderEpoch    int32    `json:"partitionLeaderEpoch"`
	Transactional  bool     `json:"isTransactional"`
	Control        bool     `json:"isControl"`
	Marker         string   `json:"endTxnMarker,omitempty"` // COMMIT or ABORT
	DeleteHorizon  *int64   `json:"deleteHorizonMs,omitempty"`
	LogAppendTime  bool     `json:"logAppendTime"`
	BaseTimestamp  int64    `json:"baseTimestamp"`
	MaxTimestamp   int64    `json:"maxTimestamp"`
	Codec          string   `json:"compresscodec"`
	CRC            uint32   `json:"crc"`
	Records        []Record `json:"records,omitempty"`
	RecordsProblem string   `json:"recordsProblem,omitempty"` // why they cannot be shown
}

// Record is one record. Bytes that are no text stand in the fields with Base64.
type Record struct {
	Offset      int64    `json:"offset"`
	Timestamp   int64    `json:"timestamp"`
	Key         *string  `json:"key"`
	KeyBase64   string   `json:"keyBase64,omitempty"`
	Value       *string  `json:"value"`
	ValueBase64 string   `json:"valueBase64,omitempty"`
	Headers     []Header `json:"headers,omitempty"`
}

// Header is a record's header.
type Header struct {
	Key         string  `json:"key"`
	Value       *string `json:"value"`
	ValueBase64 string  `json:"valueBase64,omitempty"`
}

// Bad is a range of a log file that is no batch.
type Bad struct {
	Position int64  `json:"position"`
	End      int64  `json:"end"`
	Reason   string `json:"reason"`
}

// State is a file beside the log.
type State struct {
	Kind      string        `json:"kind"`
	Index     []IndexEntry  `json:"index,omitempty"`
	Times     []TimeEntry   `json:"timeindex,omitempty"`
	Aborted   []AbortedTxn  `json:"txnindex,omitempty"`
	Producers []ProducerRow `json:"producers,omitempty"`
	Text      string        `json:"text,omitempty"`
	Problem   string        `json:"problem,omitempty"`
}

// IndexEntry says at which byte the batch begins that ends with an offset.
type IndexEntry struct {
	Offset   int64 `json:"offset"`
	Position int64 `json:"position"`
}

// TimeEntry says which timestamp is the largest up to an offset.
type TimeEntry struct {
	Timestamp int64 `json:"timestamp"`
	Offset    int64 `json:"offset"`
}

// AbortedTxn is an aborted transaction.
type AbortedTxn struct {
	ProducerID       int64 `json:"producerId"`
	FirstOffset      int64 `json:"firstOffset"`
	LastOffset       int64 `json:"lastOffset"`
	LastStableOffset int64 `json:"lastStableOffset"`
}

// ProducerRow is what a snapshot says of a producer.
type ProducerRow struct {
	ProducerID       int64       `json:"producerId"`
	ProducerEpoch    int16       `json:"producerEpoch"`
	CoordinatorEpoch int32       `json:"coordinatorEpoch"`
	TxnFirstOffset   int64       `json:"currentTxnFirstOffset"`
	LastTimestamp    int64       `json:"lastTimestamp"`
	LastSequence     int32       `json:"lastSequence"`
	Window           []SentBatch `json:"window,omitempty"` // .pwin: the last batches, oldest first
}

// SentBatch is a batch by which a retry is recognised.
type SentBatch struct {
	FirstSequence int32 `json:"firstSequence"`
	LastSequence  int32 `json:"lastSequence"`
	FirstOffset   int64 `json:"firstOffset"`
	Timestamp     int64 `json:"timestamp"`
}

// maxShown is the largest batch whose records are shown.
const maxShown = 128 << 20

// Dump hands everything that was asked for to show, partition by partition: batches in the order of the log, then files by name.
func Dump(ctx context.Context, o Options, d DumpOptions, show func(Item) error) error {
	op, err := open(o, false)
	if err != nil {
		return err
	}
	defer op.Close()
	to := d.To
	if to <= 0 {
		to = math.MaxInt64
	}
	for i, tp := range op.parts {
		read := op.progress(ctx, i, tp)
		if d.Batches || d.Records {
			whole := int64(0)
			if d.Records {
				whole = maxShown
			}
			err := op.EachBatch(tp, d.From, to, whole, func(file string, pos, end int64, v batch.View, reason string) (bool, error) {
				if err := read(end - pos); err != nil {
					return false, err
				}
				it := Item{Partition: tp.String(), File: file}
				if v == nil {
					it.Bad = &Bad{pos, end, reason}
				} else {
					it.Batch = header(v, pos)
					if d.Records {
						records(it.Batch, v, tp.Topic == catalog.MetaTopic)
					}
				}
				return true, show(it)
			})
			if err != nil {
				return fmt.Errorf("dump %v: %w", tp, err)
			}
		}
		if !d.Files {
			continue
		}
		err := op.EachFile(tp, func(c store.FileContents) (bool, error) {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			return true, show(Item{Partition: tp.String(), File: c.Name, State: state(c)})
		})
		if err != nil {
			return fmt.Errorf("dump %v: %w", tp, err)
		}
	}
	return nil
}

func header(v batch.View, pos int64) *Batch {
	b := &Batch{
		Position: pos, Size: int64(v.Size()), BaseOffset: v.BaseOffset(), LastOffset: v.LastOffset(), Count: v.Count(),
		BaseSequence: v.BaseSequence(), LastSequence: v.LastSequence(), ProducerID: v.ProducerID(), ProducerEpoch: v.ProducerEpoch(),
		LeaderEpoch: v.LeaderEpoch(), Transactional: v.Transactional(), Control: v.IsControl(), LogAppendTime: v.LogAppendTime(),
		BaseTimestamp: v.BaseTimestamp(), MaxTimestamp: v.MaxTimestamp(), Codec: v.Codec().String(), CRC: v.CRC(),
	}
	if v.HasDeleteHorizon() {
		h := v.DeleteHorizon()
		b.DeleteHorizon = &h
	}
	if v.IsControl() && len(v) == v.Size() {
		if m, ok, err := v.Marker(); ok && err == nil {
			b.Marker = "ABORT"
			if m.Commit {
				b.Marker = "COMMIT"
			}
		}
	}
	return b
}

// records puts a batch's records into b; of the catalogue's not those that let others in: what is shown here ends up in tickets.
func records(b *Batch, v batch.View, catalogue bool) {
	if len(v) != v.Size() {
		b.RecordsProblem = fmt.Sprintf("a batch of %d bytes is too large to be shown", v.Size())
		return
	}
	for r, err := range v.Records() {
		if err != nil {
			b.RecordsProblem = err.Error()
			return
		}
		out := Record{Offset: r.Offset, Timestamp: r.Timestamp}
		out.Key, out.KeyBase64 = text(r.Key)
		if catalogue && r.Value != nil && catalog.Hidden(r.Key) {
			r.Value = []byte("[hidden]")
		}
		out.Value, out.ValueBase64 = text(r.Value)
		for _, h := range r.Headers {
			s, b64 := text(h.Value)
			out.Headers = append(out.Headers, Header{h.Key, s, b64})
		}
		b.Records = append(b.Records, out)
	}
}

// text is bytes as a string when they are one, else in base64; nil for null.
func text(b []byte) (s *string, b64 string) {
	if b == nil {
		return nil, ""
	}
	if utf8.Valid(b) {
		t := string(b)
		return &t, ""
	}
	return nil, base64.StdEncoding.EncodeToString(b)
}

func state(c store.FileContents) *State {
	s := &State{Kind: c.Kind, Text: c.Text}
	if c.Err != nil {
		s.Problem = c.Err.Error()
	}
	for _, e := range c.Index {
		s.Index = append(s.Index, IndexEntry(e))
	}
	for _, e := range c.Times {
		s.Times = append(s.Times, TimeEntry(e))
	}
	for _, e := range c.Aborted {
		s.Aborted = append(s.Aborted, AbortedTxn{e.ProducerID, e.First, e.Last, e.LastStable})
	}
	for _, p := range c.Producers {
		row := ProducerRow{p.ID, p.Epoch, p.CoordinatorEpoch, p.TxnFirst, p.LastTimestamp, p.LastSequence, nil}
		for _, w := range c.Windows[p.ID] {
			row.Window = append(row.Window, SentBatch(w))
		}
		s.Producers = append(s.Producers, row)
	}
	return s
}
