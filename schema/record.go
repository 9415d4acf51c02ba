package schema

// NoTimestamp and NoPartition stand where a record has none.
const (
	NoTimestamp int64 = -1
	NoPartition int32 = -1
)

// A Record is one record on its way: from a source through transforms to a
// converter, or from a converter through transforms to a sink.
//
// A nil schema with a non-null value is schemaless data; a nil schema with a null
// value is a plain null; a schema with a null value is a typed null.
//
// Records are passed by value. Whoever keeps one past the call that brought it
// keeps what it shares: see Clone.
type Record struct {
	Topic       string
	Partition   int32 // NoPartition: the partitioner chooses
	Timestamp   int64 // milliseconds since the epoch, or NoTimestamp
	KeySchema   *Schema
	Key         Value
	ValueSchema *Schema
	Value       Value
	Headers     []Header // must not be changed in place; see WithHeader

	// Origin says where a sink's record came from, whatever transforms have made of
	// its topic since. It is nil in sources.
	Origin *Origin
}

// Origin is where a sink's record lies in the log, and its bytes as they lie there.
type Origin struct {
	Topic         string
	Partition     int32
	Offset        int64
	Timestamp     int64
	LogAppendTime bool
	Key, Value    []byte // nil is null; shared with the fetched batch
	Headers       []RawHeader
}

// A RawHeader is a header as it lies in the log.
type RawHeader struct {
	Key   string
	Value []byte // nil is null
}

// A Header is a record's header. Keys may repeat, order counts.
type Header struct {
	Key    string
	Schema *Schema
	Value  Value
}

// Header is the last header of this key, as Connect's lastWithName, and whether
// there is one.
func (r *Record) Header(key string) (Header, bool) {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if r.Headers[i].Key == key {
			return r.Headers[i], true
		}
	}
	return Header{}, false
}

// WithHeaders replaces the headers by the old ones and the new ones behind them, in
// a slice of its own: records of a batch may share one slice of headers.
func (r *Record) WithHeaders(h ...Header) {
	all := make([]Header, 0, len(r.Headers)+len(h))
	r.Headers = append(append(all, r.Headers...), h...)
}
