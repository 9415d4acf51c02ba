package herder

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/runtime/member"
	"millrace/runtime/worker"
	"millrace/schema"
)

// mostPartitions is for how many partitions of one sink task there are series.
const mostPartitions = 1000

// scrapeLimit is how long a scrape waits for the loop.
const scrapeLimit = 10 * time.Second

// tally is what the herder counts of itself.
type tally struct {
	conns, tasks starts
	group        *worker.ClientMeter
	began        time.Time

	mu        sync.Mutex // guards the fields below
	joining   time.Time  // since when the worker joins its group; zero: it has
	joined    time.Time  // when it last had
	completed int64
	took      worker.Recent // ms
}

// starts counts starts and what became of them.
type starts struct{ attempts, ok, failed atomic.Int64 }

func (s *starts) shares() (ok, failed float64) {
	n := float64(max(s.attempts.Load(), 1))
	return float64(s.ok.Load()) / n, float64(s.failed.Load()) / n
}

// rebalance notes that a rebalance has begun, or has ended.
func (t *tally) rebalance(ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	switch {
	case !ended:
		if t.joining.IsZero() {
			t.joining = now
		}
	case !t.joining.IsZero():
		t.took.Add(float64(now.Sub(t.joining)) / float64(time.Millisecond))
		t.completed++
		t.joining, t.joined = time.Time{}, now
	}
}

// Collector makes the metrics of this worker, its connectors, tasks and clients, when
// it is asked. It belongs to one registry and needs no Unregister. It describes nothing in
// advance: one metric may have several names.
func (h *Herder) Collector() prometheus.Collector {
	names := map[*metric][]spelling{}
	for _, m := range table {
		names[m] = m.spellings(h.cfg.Worker.MetricNames)
	}
	return &collector{h, names}
}

type collector struct {
	h     *Herder
	names map[*metric][]spelling
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// shownTask is what the loop knows of a task.
type shownTask struct {
	id       runtime.TaskID
	meter    *worker.Meter
	stall    *worker.Stall
	restarts int
	stalls   int64
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
	defer cancel()
	h, e := c.h, &emitter{to, c.names, map[string]bool{}}
	var (
		at       member.Membership
		mine     work
		leader   string
		conns    []string
		tasks    []shownTask
		isJoined bool
	)
	if err := h.peek(ctx, func() {
		at, mine, leader, isJoined = h.at, h.mine, h.leaderURL, h.joined
		for name := range h.conns {
			conns = append(conns, name)
		}
		for id, s := range h.tasks {
			tasks = append(tasks, shownTask{id, s.meter, s.stall, s.restarts, s.stalls})
		}
	}); err != nil {
		to <- prometheus.NewInvalidMetric(prometheus.NewDesc("millrace_worker", "The worker's state.", nil, nil), err)
		return
	}
	h.collectWorker(e, conns, tasks)
	h.collectGroup(e, at, mine, leader, isJoined)
	snap := h.configs.Now()
	for _, name := range conns {
		conn := snap.Connectors[name]
		st, ok := h.statuses.Connector(name)
		if conn == nil || !ok {
			continue // deleted
		}
		e.say(connectorStatus, strings.ToLower(string(st.State)), name)
		e.say(connectorType, string(h.typeOf(conn.Config)), name)
		if info, err := h.worker.Find(conn.Class()); err == nil {
			e.say(connectorClass, info.Class, name)
			e.say(connectorVersion, info.Version, name)
		} else {
			e.say(connectorClass, conn.Class(), name)
		}
	}
	counts := map[string]map[runtime.State]int{}
	for _, name := range conns {
		if snap.Connectors[name] != nil {
			counts[name] = map[runtime.State]int{}
		}
	}
	taken := map[string]map[string]bool{} // partitions that tasks have, by connector
	samples := askAll(ctx, tasks)
	figures := make([]worker.Figures, len(tasks))
	for i, t := range tasks {
		figures[i] = t.meter.Figures()
		for _, p := range figures[i].Parts {
			if p.Assigned {
				if taken[t.id.Connector] == nil {
					taken[t.id.Connector] = map[string]bool{}
				}
				taken[t.id.Connector][p.String()] = true
			}
		}
	}
	for i, t := range tasks {
		conn := snap.Connectors[t.id.Connector]
		if conn == nil || t.id.Task >= len(conn.Tasks) {
			continue
		}
		st, _ := h.statuses.Task(t.id)
		if counts[t.id.Connector] == nil {
			counts[t.id.Connector] = map[runtime.State]int{}
		}
		counts[t.id.Connector][st.State]++
		e.task(t, st.State, figures[i], taken[t.id.Connector])
		for _, s := range samples[i] {
			e.sample(s)
		}
	}
	for name, by := range counts {
		total := 0
		for _, n := range by {
			total += n
		}
		for m, v := range map[*metric]int{totalTasks: total, runningTasks: by[runtime.Running], pausedTasks: by[runtime.Paused], failedTasks: by[runtime.Failed],
			unassignedTasks: by[runtime.Unassigned], restartingTasks: by[runtime.Restarting], destroyedTasks: 0} {
			e.put(m, float64(v), name)
		}
	}
}

// sampleLimit is how long a scrape waits for what tasks say of themselves.
const sampleLimit = time.Second

// askAll are the samples of the tasks' own, all asked at once: one that hangs costs the
// others nothing.
func askAll(ctx context.Context, tasks []shownTask) [][]connectors.Sample {
	ctx, cancel := context.WithTimeout(ctx, sampleLimit)
	defer cancel()
	out := make([][]connectors.Sample, len(tasks))
	var wg sync.WaitGroup
	for i, t := range tasks {
		wg.Go(func() { out[i] = t.meter.Samples(ctx) })
	}
	wg.Wait()
	return out
}

func (h *Herder) collectWorker(e *emitter, conns []string, tasks []shownTask) {
	t := &h.tally
	e.put(connectorCount, float64(len(conns)))
	e.put(taskCount, float64(len(tasks)))
	count := func(m *metric, n *atomic.Int64) { e.put(m, float64(n.Load())) }
	count(connStarts, &t.conns.attempts)
	count(connStarted, &t.conns.ok)
	count(connNotStarted, &t.conns.failed)
	ok, failed := t.conns.shares()
	e.put(connStartedShare, ok)
	e.put(connFailedShare, failed)
	count(taskStarts, &t.tasks.attempts)
	count(taskStarted, &t.tasks.ok)
	count(taskNotStarted, &t.tasks.failed)
	ok, failed = t.tasks.shares()
	e.put(taskStartedShare, ok)
	e.put(taskFailedShare, failed)

	id := t.group.ID
	f := t.group.Figures()
	e.put(connectIn, float64(f.In), id)
	e.put(connectOut, float64(f.Out), id)
	e.put(connectConnections, float64(f.Connections), id)
	e.put(connectInRate, f.InRate, id)
	e.put(connectOutRate, f.OutRate, id)
	e.put(connectRequestRate, f.RequestRate, id)
	e.put(connectResponseRate, f.ResponseRate, id)
	e.put(connectIORate, f.RequestRate+f.ResponseRate, id)
	e.say(appVersion, schema.ConnectVersion, id)
	e.put(appStarted, seconds(t.began), id)
	e.say(appStartedText, strconv.FormatInt(t.began.UnixMilli(), 10), id)
	admin, connections := h.cfg.Log.AdminConnections()
	e.put(adminConnections, float64(connections), admin)
}

func (h *Herder) collectGroup(e *emitter, at member.Membership, mine work, leader string, joined bool) {
	t := &h.tally
	e.put(assignedConnectors, float64(len(mine.connectors)), t.group.ID)
	e.put(assignedTasks, float64(len(mine.tasks)), t.group.ID)
	t.mu.Lock()
	joining, last, completed := !t.joining.IsZero(), t.joined, t.completed
	t.mu.Unlock()
	e.put(rebalancing, truth(joining || !joined))
	e.put(rebalances, float64(completed))
	took := t.took.Read()
	e.put(rebalanceAvg, avg(took))
	e.put(rebalanceMax, most(took))
	since := -1.0 // Connect's word for never
	if !last.IsZero() {
		since = float64(time.Since(last).Milliseconds())
	}
	e.put(sinceLastRebalance, since)
	e.put(epoch, float64(at.Generation))
	e.say(leaderName, leader)
	e.say(protocolName, at.Protocol)
}

// task sends one task's metrics. taken are the partitions that tasks of its connector
// have: what a failed task had is another's by then.
func (e *emitter) task(t shownTask, st runtime.State, f worker.Figures, taken map[string]bool) {
	id := []string{t.id.Connector, strconv.Itoa(t.id.Task)}
	put := func(m *metric, v float64) { e.put(m, v, id...) }
	e.say(taskStatus, strings.ToLower(string(st)), id...)
	put(runningRatio, f.Running)
	put(pauseRatio, f.Paused)
	put(batchAvg, avg(f.BatchSize))
	put(batchMax, most(f.BatchSize))
	put(commitAvg, avg(f.CommitTime))
	put(commitMax, most(f.CommitTime))
	put(commitSuccess, f.CommitSuccess)
	put(commitFailure, f.CommitFails)
	put(stalledMetric, truth(t.stall != nil))
	long := 0.0
	if t.stall != nil {
		long = time.Since(t.stall.Since).Seconds()
	}
	put(stalledSince, long)
	put(restartsInARow, float64(t.restarts))
	put(automaticStalled, float64(t.stalls))
	if !f.Moved.IsZero() {
		put(lastProgress, seconds(f.Moved))
	}
	switch f.Type {
	case runtime.SourceType:
		put(sourcePolled, float64(f.Polled))
		put(sourcePollRate, f.PollRate)
		put(sourceWritten, float64(f.Written))
		put(sourceWriteRate, f.WriteRate)
		put(sourcePollAvg, avg(f.PollTime))
		put(sourcePollMax, most(f.PollTime))
		put(sourceActive, float64(f.Active))
		put(sourceActiveAvg, avg(f.ActiveOf))
		put(sourceActiveMax, most(f.ActiveOf))
		put(transactionMin, least(f.Transaction))
		put(transactionMax, most(f.Transaction))
		put(transactionAvg, avg(f.Transaction))
	case runtime.SinkType:
		put(sinkRead, float64(f.Polled))
		put(sinkReadRate, f.PollRate)
		put(sinkSent, float64(f.Written))
		put(sinkSendRate, f.WriteRate)
		put(putAvg, avg(f.PutTime))
		put(putMax, most(f.PutTime))
		put(sinkActive, float64(f.Active))
		put(sinkActiveAvg, avg(f.ActiveOf))
		put(sinkActiveMax, most(f.ActiveOf))
		put(sinkPartitions, float64(f.Assigned))
		put(sinkCommitSeq, float64(f.Seq))
		put(sinkCommitRate, f.CommitRate)
		put(sinkCommits, float64(f.Commits))
		put(sinkSkipRate, f.SkipRate)
		put(sinkSkips, float64(f.Skipped))
		lag := int64(-1)
		for _, p := range f.Parts {
			if p.Assigned || !taken[p.String()] {
				lag = max(lag, p.Lag)
			}
		}
		if lag >= 0 {
			put(sinkLagMax, float64(lag))
		}
	}
	put(recordFailures, float64(f.Errors.Failures))
	put(recordErrors, float64(f.Errors.Errors))
	put(recordsSkipped, float64(f.Errors.Skipped))
	put(recordRetries, float64(f.Errors.Retries))
	put(errorsLogged, float64(f.Errors.Logged))
	put(deadLetters, float64(f.Errors.DeadLetters))
	put(deadLettersFailed, float64(f.Errors.DeadLettersFailed))
	at := 0.0
	if !f.Errors.Last.IsZero() {
		at = float64(f.Errors.Last.UnixMilli())
	}
	put(lastErrorAt, at)
	for _, cl := range t.meter.Clients() {
		switch cl.Kind {
		case worker.ProducerClient:
			e.producer(cl, f)
		case worker.ConsumerClient:
			e.consumer(cl, f, taken)
		}
	}
}

func (e *emitter) producer(cl *worker.ClientMeter, f worker.Figures) {
	c := cl.Figures()
	put := func(m *metric, v float64) { e.put(m, v, cl.ID) }
	put(producerConnections, float64(c.Connections))
	put(producerIn, float64(c.In))
	put(producerOut, float64(c.Out))
	put(producerBatch, avg(c.BatchSize))
	put(producerRecord, avg(c.RecordSize))
	put(producerRequest, avg(c.RequestSize))
	put(producerCompression, avg(c.Compression))
	put(producerLatency, avg(c.Latency))
	put(producerInFlight, float64(c.InFlight))
	put(producerMetadata, age(c.MetadataAge))
	if f.Type == runtime.SourceType {
		put(producerBuffer, float64(max(0, runtime.MaxInFlight-f.Buffered)))
		put(producerWait, min(1, f.BufferWait.PerSecond()/1000))
	}
	put(producerSent, float64(c.Sent))
	put(producerErrors, float64(c.Failed))
	put(producerRequests, float64(c.Requests))
	put(producerResponses, float64(c.Responses))
	e.say(producerAppVersion, schema.ConnectVersion, cl.ID)
	e.put(producerAppStarted, seconds(cl.Began), cl.ID)
	e.say(producerAppText, strconv.FormatInt(cl.Began.UnixMilli(), 10), cl.ID)
}

func (e *emitter) consumer(cl *worker.ClientMeter, f worker.Figures, taken map[string]bool) {
	c := cl.Figures()
	put := func(m *metric, v float64) { e.put(m, v, cl.ID) }
	put(consumerConnections, float64(c.Connections))
	put(consumerIn, float64(c.In))
	put(consumerOut, float64(c.Out))
	put(consumerPollAge, age(c.PollAge))
	put(consumerPollAvg, avg(c.BetweenPolls))
	put(consumerPollMax, most(c.BetweenPolls))
	put(consumerIdle, avg(c.IdleShare))
	put(consumerFetched, float64(c.Records))
	put(consumerBytes, float64(c.Bytes))
	put(consumerFetches, float64(c.Fetches))
	put(consumerFetchAvg, avg(c.FetchTime))
	put(consumerFetchMax, most(c.FetchTime))
	put(consumerFetchSize, avg(c.FetchSize))
	put(consumerCommitAvg, avg(c.GroupCommit))
	put(consumerCommitRate, c.CommitRate)
	put(consumerRebalances, c.Rebalances)
	put(consumerNoRebalances, c.RebalancesFailed)
	e.say(consumerAppVersion, schema.ConnectVersion, cl.ID)
	e.put(consumerAppStarted, seconds(cl.Began), cl.ID)
	e.say(consumerAppText, strconv.FormatInt(cl.Began.UnixMilli(), 10), cl.ID)
	n := 0
	for _, p := range f.Parts {
		if n++; n > mostPartitions {
			break
		}
		if !p.Assigned && taken[p.String()] {
			continue
		}
		partition := strconv.Itoa(int(p.Partition))
		if p.End >= 0 {
			e.put(consumerLag, float64(max(0, p.End-p.Position)), cl.ID, p.Topic, partition)
		}
		e.put(consumerLead, float64(max(0, p.Position-p.Start)), cl.ID, p.Topic, partition)
	}
}

func avg(s worker.Summary) float64 {
	v, ok := s.Avg()
	if !ok {
		return math.NaN()
	}
	return v
}

func most(s worker.Summary) float64 {
	if s.Count == 0 {
		return math.NaN()
	}
	return s.Max
}

func least(s worker.Summary) float64 {
	if s.Count == 0 {
		return math.NaN()
	}
	return s.Min
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// age is seconds; NaN for what never was.
func age(d time.Duration) float64 {
	if d < 0 {
		return math.NaN()
	}
	return d.Seconds()
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
