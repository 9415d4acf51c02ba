package worker

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ClientKind is what a client of the log is for.
type ClientKind string

// The kinds of clients.
const (
	ConsumerClient ClientKind = "consumer"
	ProducerClient ClientKind = "producer"
	AdminClient    ClientKind = "admin"
	GroupClient    ClientKind = "connect" // of the group of workers
)

// A ClientMeter counts what a client of the log does; it is a kgo.Hook. Everything is
// added once a connection, a request or a batch of the protocol.
type ClientMeter struct {
	Kind  ClientKind
	ID    string
	Began time.Time

	connections, in, out, requests, responses, inFlight atomic.Int64

	inRate, outRate, requestRate, responseRate Recent
	requestSize, latency                       Recent // bytes; ms

	metadata atomic.Int64 // ns since the epoch: when metadata were last answered

	// Of producers.
	sent, failed          atomic.Int64 // records
	batchSize, recordSize Recent       // bytes
	compression           Recent       // ratio

	// Of consumers.
	fetches, records, bytes      atomic.Int64
	fetchTime, fetchSize         Recent // ms; bytes
	groupCommit                  Recent // ms
	rebalances, rebalancesFailed Recent
	polled                       atomic.Int64 // ns since the epoch: the last poll
	betweenPolls, idleShare      Recent       // ms; ratio
}

// NewClientMeter is a meter for a client that is made now.
func NewClientMeter(kind ClientKind, id string) *ClientMeter {
	return &ClientMeter{Kind: kind, ID: id, Began: time.Now()}
}

// Hooks that franz-go calls.
var (
	_ kgo.HookBrokerConnect       = (*ClientMeter)(nil)
	_ kgo.HookBrokerDisconnect    = (*ClientMeter)(nil)
	_ kgo.HookBrokerWrite         = (*ClientMeter)(nil)
	_ kgo.HookBrokerE2E           = (*ClientMeter)(nil)
	_ kgo.HookProduceBatchWritten = (*ClientMeter)(nil)
	_ kgo.HookFetchBatchRead      = (*ClientMeter)(nil)
	_ kgo.HookGroupManageError    = (*ClientMeter)(nil)
)

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (c *ClientMeter) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		c.connections.Add(1)
	}
}

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect.
func (c *ClientMeter) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { c.connections.Add(-1) }

// OnBrokerWrite implements kgo.HookBrokerWrite.
func (c *ClientMeter) OnBrokerWrite(_ kgo.BrokerMetadata, _ int16, n int, _, _ time.Duration, err error) {
	c.out.Add(int64(n))
	c.outRate.Add(float64(n))
	c.requests.Add(1)
	c.requestRate.Add(1)
	c.requestSize.Add(float64(n))
	if err == nil {
		c.inFlight.Add(1) // OnBrokerE2E follows, whatever comes of it
	}
}

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (c *ClientMeter) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	if e.WriteErr == nil {
		c.inFlight.Add(-1)
	}
	c.in.Add(int64(e.BytesRead))
	c.inRate.Add(float64(e.BytesRead))
	if e.Err() != nil {
		return
	}
	c.responses.Add(1)
	c.responseRate.Add(1)
	c.latency.addMillis(e.DurationE2E())
	switch kmsg.Key(key) {
	case kmsg.Metadata:
		c.metadata.Store(time.Now().UnixNano())
	case kmsg.Fetch:
		c.fetches.Add(1)
		c.fetchTime.addMillis(e.DurationE2E())
		c.fetchSize.Add(float64(e.BytesRead))
	case kmsg.OffsetCommit:
		c.groupCommit.addMillis(e.DurationE2E())
	case kmsg.SyncGroup:
		c.rebalances.Add(1)
	}
}

// OnProduceBatchWritten implements kgo.HookProduceBatchWritten.
func (c *ClientMeter) OnProduceBatchWritten(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.ProduceBatchMetrics) {
	c.sent.Add(int64(m.NumRecords))
	c.batchSize.Add(float64(m.CompressedBytes))
	c.recordSize.Add(float64(m.UncompressedBytes) / float64(max(m.NumRecords, 1)))
	c.compression.Add(float64(m.CompressedBytes) / float64(max(m.UncompressedBytes, 1)))
}

// OnFetchBatchRead implements kgo.HookFetchBatchRead.
func (c *ClientMeter) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	c.bytes.Add(int64(m.CompressedBytes))
}

// OnGroupManageError implements kgo.HookGroupManageError.
func (c *ClientMeter) OnGroupManageError(error) { c.rebalancesFailed.Add(1) }

// poll notes that a poll ended which waited for some time and gave n records.
func (c *ClientMeter) poll(begun time.Time, n int) {
	now := time.Now()
	if was := c.polled.Swap(now.UnixNano()); was > 0 {
		between := now.Sub(time.Unix(0, was))
		c.betweenPolls.addMillis(between)
		if between > 0 {
			c.idleShare.Add(min(1, float64(now.Sub(begun))/float64(between)))
		}
	}
	c.records.Add(int64(n))
}

// refused notes a record that the log did not take.
func (c *ClientMeter) refused() { c.failed.Add(1) }

// ClientFigures are what a client's meter shows at one moment.
type ClientFigures struct {
	Connections, In, Out, Requests, Responses, InFlight int64
	InRate, OutRate, RequestRate, ResponseRate          float64
	RequestSize, Latency                                Summary
	MetadataAge                                         time.Duration // negative: there are none

	Sent, Failed                      int64
	BatchSize, RecordSize             Summary
	Compression                       Summary
	Fetches, Records, Bytes           int64
	FetchTime, FetchSize, GroupCommit Summary
	CommitRate                        float64
	Rebalances, RebalancesFailed      float64       // an hour
	PollAge                           time.Duration // negative: there was none
	BetweenPolls, IdleShare           Summary
}

// Figures reads the meter.
func (c *ClientMeter) Figures() ClientFigures {
	age := func(at int64) time.Duration {
		if at == 0 {
			return -1
		}
		return time.Since(time.Unix(0, at))
	}
	commits := c.groupCommit.Read()
	return ClientFigures{
		Connections: c.connections.Load(), In: c.in.Load(), Out: c.out.Load(), Requests: c.requests.Load(), Responses: c.responses.Load(),
		InFlight: max(0, c.inFlight.Load()), InRate: c.inRate.Read().PerSecond(), OutRate: c.outRate.Read().PerSecond(),
		RequestRate: c.requestRate.Read().PerSecond(), ResponseRate: c.responseRate.Read().PerSecond(),
		RequestSize: c.requestSize.Read(), Latency: c.latency.Read(), MetadataAge: age(c.metadata.Load()),
		Sent: c.sent.Load(), Failed: c.failed.Load(), BatchSize: c.batchSize.Read(), RecordSize: c.recordSize.Read(), Compression: c.compression.Read(),
		Fetches: c.fetches.Load(), Records: c.records.Load(), Bytes: c.bytes.Load(), FetchTime: c.fetchTime.Read(), FetchSize: c.fetchSize.Read(),
		GroupCommit: commits, CommitRate: commits.CountPerSecond(),
		Rebalances: c.rebalances.Read().PerSecond() * 3600, RebalancesFailed: c.rebalancesFailed.Read().PerSecond() * 3600,
		PollAge: age(c.polled.Load()), BetweenPolls: c.betweenPolls.Read(), IdleShare: c.idleShare.Read(),
	}
}
