package store

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The files of a data directory. Integers are big-endian, base offsets in names
// are 20 decimal digits. What Kafka has too is Kafka's format, fixed for ever by
// its tools; the rest is ours and carries a checksum or a version.
//
//	<topic>-<n>/
//	  <base>.log         record batches, back to back
//	  <base>.index       8-byte entries: u32 last offset of a batch - base, u32 its file position
//	  <base>.timeindex   12-byte entries: i64 largest timestamp so far, u32 offset - base of it
//	  <base>.txnindex    34-byte entries, aborted transactions (below)
//	  <offset>.snapshot  state of the producers before offset (below)
//	  <offset>.pwin      ours: the last batches of each producer (below)
//	  synced             ours: i64 base of the active segment, i64 durable position in it, u32 CRC-32C of both
//	  damaged            ours, text: 0, count, lines `from to base position end`
//	  <base>.cleaned, <base>-<end>.swap   a compacted segment on its way in (compact.go)
//	  <base>.cut-<ms>    ours: what recovery cut off
//	  leader-epoch-checkpoint, partition.metadata   text
//	log-start-offset-checkpoint, recovery-point-offset-checkpoint, cleaner-offset-checkpoint   text
//	.lock .clean .ballast .ioerror   ours
const (
	logSuffix      = ".log"
	indexSuffix    = ".index"
	timeSuffix     = ".timeindex"
	txnSuffix      = ".txnindex"
	snapshotSuffix = ".snapshot"
	pwinSuffix     = ".pwin"
	deletedSuffix  = ".deleted"
	cleanedSuffix  = ".cleaned"
	tmpSuffix      = ".tmp"
	cutInfix       = ".cut-"
	deleteMark     = "-delete"

	syncedFile   = "synced"
	damagedFile  = "damaged"
	epochFile    = "leader-epoch-checkpoint"
	metadataFile = "partition.metadata"

	logStartFile      = "log-start-offset-checkpoint"
	recoveryPointFile = "recovery-point-offset-checkpoint"
	lockFile          = ".lock"
	cleanFile         = ".clean"
	ballastFile       = ".ballast"
	ioErrorFile       = ".ioerror"

	indexEntry = 8
	timeEntry  = 12
	txnEntry   = 34
	syncedSize = 20

	// Bounds for reading small state files whole.
	maxStateFile = 256 << 20
)

var (
	be         = binary.BigEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func offsetName(offset int64, suffix string) string {
	return fmt.Sprintf("%020d%s", offset, suffix)
}

// parseOffsetName takes apart `<20 digits><suffix>`.
func parseOffsetName(name, suffix string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}

// parseDirName takes apart `<topic>-<n>`.
func parseDirName(name string) (TopicPartition, bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return TopicPartition{}, false
	}
	n, err := strconv.ParseInt(name[i+1:], 10, 32)
	tp := TopicPartition{name[:i], int32(n)}
	return tp, err == nil && n >= 0 && tp.String() == name && CheckTopicName(tp.Topic) == nil
}

// synced: see above. It is written only after a sync that succeeded, so that it
// is a true lower bound of what was durable.
type syncedMark struct{ base, pos int64 }

func appendSynced(dst []byte, m syncedMark) []byte {
	at := len(dst)
	dst = be.AppendUint64(dst, uint64(m.base))
	dst = be.AppendUint64(dst, uint64(m.pos))
	return be.AppendUint32(dst, crcOf(dst[at:]))
}

func parseSynced(b []byte) (syncedMark, error) {
	if len(b) != syncedSize || crcOf(b[:16]) != be.Uint32(b[16:]) {
		return syncedMark{}, errors.New("bad checksum")
	}
	m := syncedMark{int64(be.Uint64(b)), int64(be.Uint64(b[8:]))}
	if m.base < 0 || m.pos < 0 {
		return syncedMark{}, errors.New("negative position")
	}
	return m, nil
}

// A .txnindex entry:
//
//	i16 version 0 | i64 producer id | i64 first offset | i64 last offset, the marker's | i64 last stable offset then
type abortedTxn struct {
	producer    int64
	first, last int64
	stable      int64
}

func appendAborted(dst []byte, a abortedTxn) []byte {
	dst = be.AppendUint16(dst, 0)
	for _, x := range [...]int64{a.producer, a.first, a.last, a.stable} {
		dst = be.AppendUint64(dst, uint64(x))
	}
	return dst
}

func parseAborted(b []byte) ([]abortedTxn, error) {
	if len(b)%txnEntry != 0 {
		return nil, fmt.Errorf("size %d is not a multiple of %d", len(b), txnEntry)
	}
	out := make([]abortedTxn, 0, len(b)/txnEntry)
	last := int64(-1)
	for ; len(b) > 0; b = b[txnEntry:] {
		if v := be.Uint16(b); v != 0 {
			return nil, fmt.Errorf("version %d, want 0", v)
		}
		a := abortedTxn{int64(be.Uint64(b[2:])), int64(be.Uint64(b[10:])), int64(be.Uint64(b[18:])), int64(be.Uint64(b[26:]))}
		if a.producer < 0 || a.first < 0 || a.last < a.first || a.last <= last {
			return nil, errors.New("entries are not in order")
		}
		last = a.last
		out = append(out, a)
	}
	return out, nil
}

// .snapshot and .pwin begin alike:
//
//	i16 version 1 | u32 CRC-32C of what follows | i32 count | entries
//
// Entry of .snapshot, 46 bytes:
//
//	i64 producer id | i16 epoch | i32 last sequence | i64 last offset | i32 offset delta |
//	i64 timestamp | i32 coordinator epoch | i64 first offset of the open transaction, -1 none
//
// Entry of .pwin, of variable size:
//
//	i64 producer id | i16 epoch | i8 batches, at most 5 | each, oldest first:
//	i32 first sequence | i32 last sequence | i64 first offset | i64 timestamp
const (
	snapshotVersion = 1
	snapshotHeader  = 10
	snapshotEntry   = 46
	pwinEntry       = 11
	pwinBatch       = 24
)

func sealSnapshot(b []byte, count int) []byte {
	be.PutUint16(b, snapshotVersion)
	be.PutUint32(b[6:], uint32(count))
	be.PutUint32(b[2:], crcOf(b[6:]))
	return b
}

func openSnapshot(b []byte) (entries []byte, count int, err error) {
	if len(b) < snapshotHeader {
		return nil, 0, errors.New("too short")
	}
	if v := be.Uint16(b); v != snapshotVersion {
		return nil, 0, fmt.Errorf("version %d, want %d", v, snapshotVersion)
	}
	if got, want := crcOf(b[6:]), be.Uint32(b[2:]); got != want {
		return nil, 0, fmt.Errorf("crc %08x, want %08x", got, want)
	}
	n := int32(be.Uint32(b[6:]))
	if n < 0 || int64(n) > int64(len(b)) {
		return nil, 0, fmt.Errorf("count %d", n)
	}
	return b[snapshotHeader:], int(n), nil
}

// encodeSnapshot makes the contents of .snapshot and .pwin; ids in rising order, so that equal states give equal files.
func encodeSnapshot(m map[int64]*producer) (snapshot, pwin []byte) {
	ids := make([]int64, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	snapshot = make([]byte, snapshotHeader, snapshotHeader+snapshotEntry*len(ids))
	pwin = make([]byte, snapshotHeader, snapshotHeader+(pwinEntry+pwinBatch*windowSize)*len(ids))
	for _, id := range ids {
		e := m[id]
		lastSeq, lastOffset, delta := int32(-1), int64(-1), int32(0)
		if e.n > 0 {
			w := e.window[e.n-1]
			lastSeq, lastOffset, delta = w.lastSeq, w.lastOffset(), w.delta()
		}
		snapshot = be.AppendUint64(snapshot, uint64(id))
		snapshot = be.AppendUint16(snapshot, uint16(e.epoch))
		snapshot = be.AppendUint32(snapshot, uint32(lastSeq))
		snapshot = be.AppendUint64(snapshot, uint64(lastOffset))
		snapshot = be.AppendUint32(snapshot, uint32(delta))
		snapshot = be.AppendUint64(snapshot, uint64(e.timestamp))
		snapshot = be.AppendUint32(snapshot, uint32(e.coordEpoch))
		snapshot = be.AppendUint64(snapshot, uint64(e.txnFirst))

		pwin = be.AppendUint64(pwin, uint64(id))
		pwin = be.AppendUint16(pwin, uint16(e.epoch))
		pwin = append(pwin, byte(e.n))
		for _, w := range e.window[:e.n] {
			pwin = be.AppendUint32(pwin, uint32(w.firstSeq))
			pwin = be.AppendUint32(pwin, uint32(w.lastSeq))
			pwin = be.AppendUint64(pwin, uint64(w.firstOffset))
			pwin = be.AppendUint64(pwin, uint64(w.timestamp))
		}
	}
	return sealSnapshot(snapshot, len(ids)), sealSnapshot(pwin, len(ids))
}

// parseSnapshot reads a .snapshot; windows have the one batch it knows.
func parseSnapshot(b []byte) (map[int64]*producer, error) {
	b, count, err := openSnapshot(b)
	if err != nil {
		return nil, err
	}
	if len(b) != count*snapshotEntry {
		return nil, fmt.Errorf("%d bytes for %d entries", len(b), count)
	}
	m := make(map[int64]*producer, count)
	for ; len(b) > 0; b = b[snapshotEntry:] {
		id := int64(be.Uint64(b))
		e := &producer{
			epoch:      int16(be.Uint16(b[8:])),
			timestamp:  int64(be.Uint64(b[26:])),
			coordEpoch: int32(be.Uint32(b[34:])),
			txnFirst:   int64(be.Uint64(b[38:])),
		}
		lastSeq, lastOffset, delta := int32(be.Uint32(b[10:])), int64(be.Uint64(b[14:])), int32(be.Uint32(b[22:]))
		if id < 0 || m[id] != nil || e.txnFirst < -1 {
			return nil, fmt.Errorf("producer %d: bad entry", id)
		}
		if lastSeq >= 0 {
			if delta < 0 || lastOffset < int64(delta) {
				return nil, fmt.Errorf("producer %d: last offset %d with delta %d", id, lastOffset, delta)
			}
			e.push(produced{firstSeq: subSequence(lastSeq, delta), lastSeq: lastSeq, firstOffset: lastOffset - int64(delta), timestamp: e.timestamp})
		}
		m[id] = e
	}
	return m, nil
}

// mergeWindows fills the windows of m from a .pwin of the same moment. Entries that
// do not fit what m knows are an error: the files are not of one moment then.
func mergeWindows(m map[int64]*producer, b []byte) error {
	b, count, err := openSnapshot(b)
	if err != nil {
		return err
	}
	full := make(map[int64]producer, count)
	for range count {
		if len(b) < pwinEntry {
			return errors.New("too short")
		}
		id, n := int64(be.Uint64(b)), int(b[10])
		old := m[id]
		if _, dup := full[id]; dup || n > windowSize || len(b) < pwinEntry+n*pwinBatch {
			return fmt.Errorf("producer %d: bad entry", id)
		}
		if old == nil { // expired between the writing of the two files
			b = b[pwinEntry+n*pwinBatch:]
			continue
		}
		if int16(be.Uint16(b[8:])) != old.epoch {
			return fmt.Errorf("producer %d: does not fit the snapshot", id)
		}
		e := *old
		e.n = 0
		b = b[pwinEntry:]
		for range n {
			w := produced{int32(be.Uint32(b)), int32(be.Uint32(b[4:])), int64(be.Uint64(b[8:])), int64(be.Uint64(b[16:]))}
			if w.firstSeq < 0 || w.lastSeq < 0 || w.firstOffset < 0 {
				return fmt.Errorf("producer %d: bad batch", id)
			}
			e.push(w)
			b = b[pwinBatch:]
		}
		if (e.n > 0) != (old.n > 0) || e.n > 0 && (e.window[e.n-1].lastSeq != old.window[0].lastSeq || e.window[e.n-1].lastOffset() != old.window[0].lastOffset()) {
			return fmt.Errorf("producer %d: does not fit the snapshot", id)
		}
		full[id] = e
	}
	if len(b) != 0 {
		return errors.New("bytes after the last entry")
	}
	if len(full) != len(m) {
		return fmt.Errorf("%d of the snapshot's %d producers", len(full), len(m))
	}
	for id, e := range full {
		*m[id] = e
	}
	return nil
}

// Text checkpoints:
//
//	0
//	<count>
//	<line> …
func parseLines(b []byte, fields int) ([][]string, error) {
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" {
		return nil, errors.New("no version 0 header")
	}
	n, err := strconv.Atoi(lines[1])
	if err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("count %q for %d lines", lines[1], len(lines)-2)
	}
	out := make([][]string, 0, n)
	for _, l := range lines[2:] {
		f := strings.Fields(l)
		if len(f) != fields {
			return nil, fmt.Errorf("line %q", l)
		}
		out = append(out, f)
	}
	return out, nil
}

func parseInts(fields []string, into ...*int64) error {
	for i, s := range fields {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("number %q", s)
		}
		*into[i] = n
	}
	return nil
}

func encodeOffsets(m map[TopicPartition]int64) []byte {
	tps := make([]TopicPartition, 0, len(m))
	for tp := range m {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, compareTP)
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(tps))
	for _, tp := range tps {
		fmt.Fprintf(&b, "%s %d %d\n", tp.Topic, tp.Partition, m[tp])
	}
	return b.Bytes()
}

func parseOffsets(b []byte) (map[TopicPartition]int64, error) {
	lines, err := parseLines(b, 3)
	if err != nil {
		return nil, err
	}
	m := make(map[TopicPartition]int64, len(lines))
	for _, l := range lines {
		var n, offset int64
		if err := parseInts(l[1:], &n, &offset); err != nil {
			return nil, err
		}
		if n > math.MaxInt32 {
			return nil, fmt.Errorf("partition %d", n)
		}
		m[TopicPartition{l[0], int32(n)}] = offset
	}
	return m, nil
}

func compareTP(a, b TopicPartition) int {
	if c := strings.Compare(a.Topic, b.Topic); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}

// epochStart is a line of leader-epoch-checkpoint: the epoch and its first offset.
type epochStart struct {
	epoch int32
	start int64
}

func encodeEpochs(es []epochStart) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(es))
	for _, e := range es {
		fmt.Fprintf(&b, "%d %d\n", e.epoch, e.start)
	}
	return b.Bytes()
}

func parseEpochs(b []byte) ([]epochStart, error) {
	lines, err := parseLines(b, 2)
	if err != nil {
		return nil, err
	}
	var es []epochStart
	for _, l := range lines {
		var epoch, start int64
		if err := parseInts(l, &epoch, &start); err != nil {
			return nil, err
		}
		if epoch > math.MaxInt32 || len(es) > 0 && (int32(epoch) <= es[len(es)-1].epoch || start < es[len(es)-1].start) {
			return nil, errors.New("epochs are not in order")
		}
		es = append(es, epochStart{int32(epoch), start})
	}
	return es, nil
}

// A hole is a damaged range of a segment: offsets [from, to), bytes [pos, end).
type hole struct {
	from, to int64
	base     int64 // of the segment
	pos, end int64
}

func encodeHoles(hs []hole) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(hs))
	for _, h := range hs {
		fmt.Fprintf(&b, "%d %d %d %d %d\n", h.from, h.to, h.base, h.pos, h.end)
	}
	return b.Bytes()
}

func parseHoles(b []byte) ([]hole, error) {
	lines, err := parseLines(b, 5)
	if err != nil {
		return nil, err
	}
	var hs []hole
	for _, l := range lines {
		var h hole
		if err := parseInts(l, &h.from, &h.to, &h.base, &h.pos, &h.end); err != nil {
			return nil, err
		}
		if h.from >= h.to || h.pos > h.end || h.base > h.from || len(hs) > 0 && hs[len(hs)-1].to > h.from {
			return nil, errors.New("ranges are not in order")
		}
		hs = append(hs, h)
	}
	return hs, nil
}

func encodeMetadata(id [16]byte) []byte {
	return []byte("version: 0\ntopic_id: " + base64.RawURLEncoding.EncodeToString(id[:]))
}

func parseMetadata(b []byte) (id [16]byte, err error) {
	version, ids := "", ""
	for l := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(strings.TrimSpace(l), ":")
		switch k {
		case "version":
			version = strings.TrimSpace(v)
		case "topic_id":
			ids = strings.TrimSpace(v)
		}
	}
	if version != "0" {
		return id, fmt.Errorf("version %q, want 0", version)
	}
	raw, err := base64.RawURLEncoding.DecodeString(ids)
	if err != nil || len(raw) != 16 {
		return id, fmt.Errorf("topic_id %q", ids)
	}
	return [16]byte(raw), nil
}

// .clean says that a stop was clean, and what it left. JSON, the checksum over
// the body's bytes as they stand.
type cleanMarker struct {
	CRC  string          `json:"crc"`
	Body json.RawMessage `json:"body"`
}

type cleanBody struct {
	Version    int              `json:"version"`
	Partitions []cleanPartition `json:"partitions"`
}

type cleanPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Base      int64  `json:"base"` // of the active segment
	Size      int64  `json:"size"` // of the active segment
	End       int64  `json:"end"`
	MaxTime   int64  `json:"maxTime"` // of the active segment, -1 none
	MaxOffset int64  `json:"maxOffset"`
	Producers int    `json:"producers"` // 0: there is no snapshot
}

const cleanVersion = 1

func encodeClean(ps []cleanPartition) ([]byte, error) {
	body, err := json.Marshal(cleanBody{cleanVersion, ps})
	if err != nil {
		return nil, err
	}
	return json.Marshal(cleanMarker{fmt.Sprintf("%08x", crcOf(body)), body})
}

func parseClean(b []byte) (map[TopicPartition]cleanPartition, error) {
	var m cleanMarker
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	if got := fmt.Sprintf("%08x", crcOf(m.Body)); got != m.CRC {
		return nil, fmt.Errorf("crc %s, want %s", got, m.CRC)
	}
	var body cleanBody
	if err := json.Unmarshal(m.Body, &body); err != nil {
		return nil, err
	}
	if body.Version != cleanVersion {
		return nil, fmt.Errorf("version %d, want %d", body.Version, cleanVersion)
	}
	out := make(map[TopicPartition]cleanPartition, len(body.Partitions))
	for _, p := range body.Partitions {
		if p.Base < 0 || p.Size < 0 || p.End < p.Base {
			return nil, fmt.Errorf("partition %s-%d: base %d, size %d, end %d", p.Topic, p.Partition, p.Base, p.Size, p.End)
		}
		out[TopicPartition{p.Topic, p.Partition}] = p
	}
	return out, nil
}
