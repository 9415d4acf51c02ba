package cdc

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/connectors"
)

var tagName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// mostTags bounds custom.metric.tags.
const mostTags = 20

// ParseTags reads custom.metric.tags, a list of name=value, as further labels.
func ParseTags(list []string) (out []connectors.Label, err error) {
	taken := map[string]bool{"plugin": true, "name": true, "context": true, "table": true}
	for _, s := range list {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		name, value, ok := strings.Cut(s, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok || !tagName.MatchString(name) || strings.HasPrefix(name, "__"):
			return nil, fmt.Errorf("%q is not of the form name=value, with a name of letters, digits and underscores", s)
		case taken[name]:
			return nil, fmt.Errorf("the label %q is there already; choose another name", name)
		case len(out) == mostTags:
			return nil, fmt.Errorf("there are more than %d", mostTags)
		}
		taken[name] = true
		out = append(out, connectors.Label{Name: name, Value: value})
	}
	return out, nil
}

// A Tally is what was seen of a source since it was last given to its Metrics.
type Tally struct {
	Creates, Updates, Deletes int64
	Others                    int64 // reads, truncations, messages
	Filtered                  int64 // left out by the lists of tables, or by skipped.operations
	Erroneous                 int64 // could not be read and were left out
	Unchanged                 int64 // updates that change nothing, left out
	Commits                   int64 // transactions to their end
	Rollbacks                 int64

	// At is when the last of them was made in the source, in microseconds since 1970; 0:
	// unknown.
	At int64
}

func (t *Tally) add(o *Tally) {
	t.Creates += o.Creates
	t.Updates += o.Updates
	t.Deletes += o.Deletes
	t.Others += o.Others
	t.Filtered += o.Filtered
	t.Erroneous += o.Erroneous
	t.Unchanged += o.Unchanged
	t.Commits += o.Commits
	t.Rollbacks += o.Rollbacks
}

// events are all that were seen, whatever came of them.
func (t *Tally) events() int64 {
	return t.Creates + t.Updates + t.Deletes + t.Others + t.Filtered + t.Erroneous + t.Unchanged
}

// Metrics are Debezium's figures of one task, under the names that the usual rules of its
// JMX exporter give them. The goroutines that read give them what they saw, in batches;
// scrapes look at any time.
type Metrics struct {
	// Plugin is the database, as MBeans' domains call it: "postgres". Name is
	// topic.prefix. Tags are custom.metric.tags.
	Plugin, Name string
	Tags         []connectors.Label
	// Statistics has the least, greatest, mean and percentiles of the lag, too.
	Statistics bool
	// Scan is the snapshot of which they tell.
	Scan *Scan

	mu        sync.Mutex // guards what follows
	queue     *Queue     // nil: not yet
	connected bool
	snapshot  seenEvents
	streaming seenEvents
	lag       lag
}

// seenEvents are one context's.
type seenEvents struct {
	total Tally
	last  time.Time // zero: none yet
}

// Queue has the fill of the task's queue shown.
func (m *Metrics) Queue(q *Queue) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = q
}

// Connected notes whether the stream of changes is read.
func (m *Metrics) Connected(yes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connected = yes
}

// Snapshotted takes what a snapshot's reader saw, and empties it.
func (m *Metrics) Snapshotted(t *Tally) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.snapshot.take(t)
}

// Streamed takes what the stream's reader saw, and empties it.
func (m *Metrics) Streamed(t *Tally) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.events() > 0 && t.At != 0 {
		m.lag.add(max(0, time.Now().UnixMicro()-t.At) / 1000)
	}
	m.streaming.take(t)
}

func (s *seenEvents) take(t *Tally) {
	if t.events() > 0 {
		s.last = time.Now()
	}
	s.total.add(t)
	*t = Tally{}
}

// lagKept is of how many lags the percentiles are.
const lagKept = 1024

// A lag is how long after their making events were read, in milliseconds.
type lag struct {
	n                 int64
	last, least, most int64
	sum               float64
	recent            [lagKept]int64 // a ring
}

func (l *lag) add(ms int64) {
	if l.n == 0 {
		l.least, l.most = ms, ms
	}
	l.last, l.least, l.most = ms, min(l.least, ms), max(l.most, ms)
	l.sum += float64(ms)
	l.recent[l.n%lagKept] = ms
	l.n++
}

// MostTables bounds the series of RowsScanned: of a snapshot with more tables, those read
// last are left out, and its total is in TotalNumberOfEventsSeen.
const MostTables = 1000

// A gathering puts samples together.
type gathering struct {
	base []connectors.Label
	out  []connectors.Sample
}

func (g *gathering) put(name, help string, v float64, more ...connectors.Label) {
	g.out = append(g.out, connectors.Sample{Name: "debezium_metrics_" + name, Help: help, Labels: append(slices.Clip(g.base), more...), Value: v})
}

func (g *gathering) truth(name, help string, v bool) {
	f := 0.0
	if v {
		f = 1
	}
	g.put(name, help, f)
}

// Rollbacks is how many transactions were rolled back.
func (m *Metrics) Rollbacks() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.streaming.total.Rollbacks
}

// A Figure is one that a database has beside those of all, in one context.
type Figure struct {
	Context, Name, Help string
	Value               float64
}

// Samples are the figures of both contexts, and further ones.
func (m *Metrics) Samples(more ...Figure) []connectors.Sample {
	sn := m.Scan.Progress()
	m.mu.Lock()
	defer m.mu.Unlock()
	g := &gathering{m.labels("snapshot"), make([]connectors.Sample, 0, 64)}
	m.common(g, &m.snapshot)
	m.scan(g, sn)
	g.base = m.labels("streaming")
	m.common(g, &m.streaming)
	g.truth("Connected", "1 while the stream of changes is read.", m.connected)
	behind := int64(-1)
	if m.lag.n > 0 {
		behind = m.lag.last
	}
	g.put("MilliSecondsBehindSource", "How long after its making the last event was read; -1: none was.", float64(behind))
	if m.Statistics {
		m.lag.statistics(g)
	}
	g.put("NumberOfCommittedTransactions", "Transactions read to their end.", float64(m.streaming.total.Commits))
	g.put("NumberOfUnchangedEventsSkipped", "Updates left out because they change nothing that is captured.", float64(m.streaming.total.Unchanged))
	for _, f := range more {
		g.base = m.labels(f.Context)
		g.put(f.Name, f.Help, f.Value)
	}
	return g.out
}

func (m *Metrics) labels(context string) []connectors.Label {
	return append([]connectors.Label{{Name: "plugin", Value: m.Plugin}, {Name: "name", Value: m.Name}, {Name: "context", Value: context}}, m.Tags...)
}

// common are the figures that both contexts have.
func (m *Metrics) common(g *gathering, s *seenEvents) {
	t := &s.total
	g.put("TotalNumberOfEventsSeen", "Events read from the source.", float64(t.events()))
	g.put("NumberOfEventsFiltered", "Events left out by the lists of what is captured.", float64(t.Filtered))
	g.put("NumberOfErroneousEvents", "Events left out because they could not be read.", float64(t.Erroneous))
	g.put("TotalNumberOfCreateEventsSeen", "Inserts read.", float64(t.Creates))
	g.put("TotalNumberOfUpdateEventsSeen", "Updates read.", float64(t.Updates))
	g.put("TotalNumberOfDeleteEventsSeen", "Deletes read.", float64(t.Deletes))
	since := -1.0
	if !s.last.IsZero() {
		since = float64(time.Since(s.last).Milliseconds())
	}
	g.put("MilliSecondsSinceLastEvent", "Milliseconds since the last event was read; -1: none was.", since)
	var use QueueUse
	if m.queue != nil {
		use = m.queue.Use()
	}
	g.put("QueueTotalCapacity", "Records that may wait between the database's reader and the log.", float64(use.MaxRecords))
	g.put("QueueRemainingCapacity", "Records for which there is room there.", float64(max(0, use.MaxRecords-use.Records)))
	g.put("MaxQueueSizeInBytes", "Bytes that may wait there.", float64(use.MaxBytes))
	g.put("CurrentQueueSizeInBytes", "Bytes that wait there.", float64(use.Bytes))
}

// scan are the figures of a snapshot; nil: there is none.
func (m *Metrics) scan(g *gathering, sn *connectors.Snapshot) {
	if sn == nil {
		sn = &connectors.Snapshot{}
	}
	remaining, took := 0, 0.0
	for _, t := range sn.Tables {
		if t.State != TableDone {
			remaining++
		}
	}
	if !sn.Began.IsZero() {
		end := sn.Ended
		if end.IsZero() {
			end = time.Now()
		}
		took = end.Sub(sn.Began).Truncate(time.Second).Seconds()
	}
	g.put("TotalTableCount", "Tables of the snapshot.", float64(len(sn.Tables)))
	g.put("RemainingTableCount", "Tables that the snapshot has not read to their end.", float64(remaining))
	g.truth("SnapshotRunning", "1 while the snapshot is read.", sn.State == ScanRunning)
	g.truth("SnapshotPaused", "1 while the snapshot is paused.", false)
	g.truth("SnapshotAborted", "1 where the snapshot was broken off.", sn.State == ScanAborted)
	g.truth("SnapshotCompleted", "1 where the snapshot is complete.", sn.State == ScanCompleted)
	g.truth("SnapshotSkipped", "1 where no snapshot was taken.", sn.State == ScanSkipped)
	g.put("SnapshotDurationInSeconds", "Seconds that the snapshot took, or takes so far.", took)
	g.put("SnapshotPausedDurationInSeconds", "Seconds for which the snapshot was paused.", 0)
	for i, t := range sn.Tables {
		if i == MostTables {
			break
		}
		g.put("RowsScanned", "Rows of the table that the snapshot has read.", float64(t.Rows), connectors.Label{Name: "table", Value: t.Table})
	}
}

// statistics are those of statistics.metrics.enabled.
func (l *lag) statistics(g *gathering) {
	least, most, mean := int64(-1), int64(-1), -1.0
	if l.n > 0 {
		least, most, mean = l.least, l.most, l.sum/float64(l.n)
	}
	const behind = "MilliSecondsBehindSource"
	g.put(behind+"MinValue", "The least of MilliSecondsBehindSource; -1: none yet.", float64(least))
	g.put(behind+"MaxValue", "The greatest of MilliSecondsBehindSource; -1: none yet.", float64(most))
	g.put(behind+"AverageValue", "The mean of MilliSecondsBehindSource; -1: none yet.", mean)
	recent := slices.Clone(l.recent[:min(l.n, lagKept)])
	slices.Sort(recent)
	for _, p := range []struct {
		name  string
		share int
	}{{"P50", 50}, {"P95", 95}, {"P99", 99}} {
		v := int64(-1)
		if len(recent) > 0 {
			v = recent[(len(recent)-1)*p.share/100]
		}
		g.put(behind+p.name, "A percentile of MilliSecondsBehindSource, of late; -1: none yet.", float64(v))
	}
}
