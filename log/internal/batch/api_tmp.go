package batch

import "iter"

// Codec is a compression of Kafka's.
type Codec int8

const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// Limits of decompression: the larger of the two holds.
const (
	MaxExpansion = 64       // decompressed bytes per compressed byte
	MaxInflated  = 64 << 20 // bytes
)

// Header is one record header. Value nil is null.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record. Key and Value nil are null. Slices alias the batch when
// it is uncompressed, else a buffer that belongs to the caller of Records.
type Record struct {
	Offset    int64
	Timestamp int64 // ms; the batch's max timestamp when the log stamped it
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Check says what Validate looks at beyond header, size and checksum.
type Check struct {
	MaxBytes int  // largest batch; 0: no limit
	Keys     bool // every record has a key (compacted topics); opens compressed batches
	Producer bool // the batch comes from a client: no control batch, base offset and counts as clients write them
}

// Validate checks one batch as a broker must before it stores it: length,
// checksum, magic, codec, offset delta against count, producer fields, and the
// records themselves when they are uncompressed. Errors are *Error.
func (v View) Validate(c Check) error { panic("soon") }

// Records iterates over the records of a data or control batch. Decompression is
// bounded. A bad record ends it with an *Error of CorruptMessage.
func (v View) Records() iter.Seq2[Record, error] { panic("soon") }

// Marker is what a control batch says about a transaction.
type Marker struct {
	Commit           bool // else abort
	CoordinatorEpoch int32
}

// Marker decodes a control batch that ends a transaction. ok is false for other
// control types; a malformed one is an *Error of CorruptMessage.
func (v View) Marker() (m Marker, ok bool, err error) { panic("soon") }

// NewMarker builds the control batch that ends a transaction of a producer.
func NewMarker(producerID int64, epoch int16, m Marker, timestamp int64) View { panic("soon") }

// Producer identifies the writer of a batch; the zero value is not "none", use NoProducerInfo.
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32
}

// Options of Build.
type Options struct {
	Codec         Codec
	Producer      *Producer // nil: no producer id
	Transactional bool
	BaseOffset    int64
	LeaderEpoch   int32
}

// Build makes one batch of records, whose Offset fields are ignored (they count
// up from BaseOffset). Timestamps are in ms. At least one record is needed.
func Build(o Options, records ...Record) View { panic("soon") }
