package log

import (
	"cmp"
	"context"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/log/broker"
	"millrace/log/broker/group"
	"millrace/log/internal/catalog"
	"millrace/log/internal/measure"
	"millrace/log/internal/store"
)

// metric is one row of the table: its name, what it is, and its labels.
type metric struct {
	kind prometheus.ValueType
	desc *prometheus.Desc
}

var allMetrics []*metric

func declare(kind prometheus.ValueType, name, help string, labels ...string) *metric {
	m := &metric{kind, prometheus.NewDesc(name, help, labels, nil)}
	allMetrics = append(allMetrics, m)
	return m
}

func gauge(name, help string, labels ...string) *metric {
	return declare(prometheus.GaugeValue, name, help, labels...)
}

func counter(name, help string, labels ...string) *metric {
	return declare(prometheus.CounterValue, name, help, labels...)
}

// The metrics, under the names that the usual rules give a Kafka broker's and that kafka-exporter uses. Names in the
// plural of Kafka stand for what one node has: constants, where dashboards and alerts want them to be there.
//
// A total over all topics has an empty label topic, which Prometheus takes for none.
var (
	mMessagesIn     = counter("kafka_server_brokertopicmetrics_messagesin_total", "Records that clients wrote.", "topic")
	mBytesIn        = counter("kafka_server_brokertopicmetrics_bytesin_total", "Bytes of records that clients wrote.", "topic")
	mBytesOut       = counter("kafka_server_brokertopicmetrics_bytesout_total", "Bytes of records that clients read.", "topic")
	mProduces       = counter("kafka_server_brokertopicmetrics_totalproducerequests_total", "Partitions in Produce requests.", "topic")
	mFetches        = counter("kafka_server_brokertopicmetrics_totalfetchrequests_total", "Partitions in Fetch requests.", "topic")
	mFailedProduces = counter("kafka_server_brokertopicmetrics_failedproducerequests_total", "Partitions in Produce requests that were refused.", "topic")
	mFailedFetches  = counter("kafka_server_brokertopicmetrics_failedfetchrequests_total", "Partitions in Fetch requests that were refused.", "topic")

	mRequests = counter("kafka_network_requestmetrics_requests_total", "Requests that were carried out.", "request", "version")
	mErrors   = counter("kafka_network_requestmetrics_errors_total", "Error codes in answers; NONE is success.", "request", "error")
	mTimes    = func() map[string][2]*metric {
		out := map[string][2]*metric{}
		for name, help := range map[string]string{
			"totaltimems":         "Time from a request's last byte to its answer's.",
			"requestqueuetimems":  "Time before a request is worked on; there is no such queue.",
			"localtimems":         "Time in which a request is worked on.",
			"remotetimems":        "Time in which a request waits: for the disk, for records, for others.",
			"responsequeuetimems": "Time before an answer is written; there is no such queue.",
			"responsesendtimems":  "Time in which an answer is written.",
		} {
			full := "kafka_network_requestmetrics_" + name
			out[name] = [2]*metric{
				gauge(full, help+" In milliseconds, of the last five to ten minutes.", "request", "quantile"),
				counter(full+"_count", "Requests in "+full+".", "request"),
			}
		}
		return out
	}()

	mUnderReplicated = gauge("kafka_server_replicamanager_underreplicatedpartitions", "Partitions with fewer replicas than they should have: none, there is one node.")
	mUnderMinISR     = gauge("kafka_server_replicamanager_underminisrpartitioncount", "Partitions below min.insync.replicas: none, there is one node.")
	mOffline         = gauge("kafka_controller_kafkacontroller_offlinepartitionscount", "Partitions that cannot be written: all when the disk has failed.")
	mOfflineDirs     = gauge("kafka_log_logmanager_offlinelogdirectorycount", "Data directories whose disk has failed.")
	mPartitions      = gauge("kafka_server_replicamanager_partitioncount", "Partitions.")
	mLeaders         = gauge("kafka_server_replicamanager_leadercount", "Partitions that this node leads: all.")
	mISRShrinks      = counter("kafka_server_replicamanager_isrshrinks_total", "Replicas that fell behind: none, there is one node.")
	mISRExpands      = counter("kafka_server_replicamanager_isrexpands_total", "Replicas that caught up: none, there is one node.")
	mController      = gauge("kafka_controller_kafkacontroller_activecontrollercount", "Active controllers: this node.")
	mTopics          = gauge("kafka_controller_kafkacontroller_globaltopiccount", "Topics.")
	mAllPartitions   = gauge("kafka_controller_kafkacontroller_globalpartitioncount", "Partitions.")
	mActiveBrokers   = gauge("kafka_controller_kafkacontroller_activebrokercount", "Brokers: one.")
	mFencedBrokers   = gauge("kafka_controller_kafkacontroller_fencedbrokercount", "Fenced brokers: none.")
	mMetadataErrors  = gauge("kafka_controller_kafkacontroller_metadataerrorcount", "Errors in the catalogue: none, or the log would not be open.")
	mUnclean         = counter("kafka_controller_controllerstats_uncleanleaderelections_total", "Unclean elections: none, there is one node.")
	mBrokerState     = gauge("kafka_server_kafkaserver_brokerstate", "3: running.")
	mRequestQueue    = gauge("kafka_network_requestchannel_requestqueuesize", "Large requests that are worked on.")
	mResponseQueue   = gauge("kafka_network_requestchannel_responsequeuesize", "Answers that wait for a thread: none, each connection writes its own.")
	mHandlerIdle     = gauge("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", "Share of the processors that no request is worked on with, since the last look or for a minute.")
	mNetworkIdle     = gauge("kafka_network_socketserver_networkprocessoravgidle_percent", "The same: who works on requests also reads and writes them.")
	mConnections     = gauge("kafka_server_socket_server_metrics_connection_count", "Open connections.", "listener", "networkProcessor")
	mGroups          = gauge("kafka_coordinator_group_groupmetadatamanager_numgroups", "Consumer groups.")
	mGroupsIn        = map[string]*metric{
		"Stable":              gauge("kafka_coordinator_group_groupmetadatamanager_numgroupsstable", "Groups whose members work."),
		"Empty":               gauge("kafka_coordinator_group_groupmetadatamanager_numgroupsempty", "Groups without members."),
		"Dead":                gauge("kafka_coordinator_group_groupmetadatamanager_numgroupsdead", "Groups that are being forgotten."),
		"PreparingRebalance":  gauge("kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance", "Groups that wait for members."),
		"CompletingRebalance": gauge("kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance", "Groups that wait for an assignment."),
	}
	mDiskRead  = gauge("kafka_server_kafkaserver_linux_disk_read_bytes", "Bytes that this process had read from disks.")
	mDiskWrite = gauge("kafka_server_kafkaserver_linux_disk_write_bytes", "Bytes that this process had written to disks.")

	mRaftLeader    = gauge("kafka_server_raftmetrics_current_leader", "The quorum's leader: this node.")
	mRaftEpoch     = gauge("kafka_server_raftmetrics_current_epoch", "The quorum's epoch: a constant.")
	mRaftVote      = gauge("kafka_server_raftmetrics_current_vote", "Whom this node votes for: itself.")
	mRaftHigh      = gauge("kafka_server_raftmetrics_high_watermark", "Durable end of the catalogue.")
	mRaftEnd       = gauge("kafka_server_raftmetrics_log_end_offset", "End of the catalogue.")
	mRaftState     = gauge("kafka_server_raftmetrics_current_state", "What this node is in the quorum.", "current_state")
	mPartUnderMin  = gauge("kafka_cluster_partition_underminisr", "Whether a partition is below min.insync.replicas: no.", "topic", "partition")
	mPartAtMin     = gauge("kafka_cluster_partition_atminisr", "Whether a partition has just min.insync.replicas; there is one replica, and that is what it is meant to have.", "topic", "partition")
	mPartReplicas  = gauge("kafka_cluster_partition_replicascount", "Replicas of a partition.", "topic", "partition")
	mLogSize       = gauge("kafka_log_log_size", "Bytes of a partition.", "topic", "partition")
	mLogStart      = gauge("kafka_log_log_logstartoffset", "First offset of a partition.", "topic", "partition")
	mLogEnd        = gauge("kafka_log_log_logendoffset", "Next offset of a partition.", "topic", "partition")
	mTopicParts    = gauge("kafka_topic_partitions", "Partitions of a topic.", "topic")
	mTopicCurrent  = gauge("kafka_topic_partition_current_offset", "Next offset that consumers will see.", "topic", "partition")
	mTopicOldest   = gauge("kafka_topic_partition_oldest_offset", "First offset.", "topic", "partition")
	mTopicLeader   = gauge("kafka_topic_partition_leader", "Node that leads the partition.", "topic", "partition")
	mTopicReplicas = gauge("kafka_topic_partition_replicas", "Replicas.", "topic", "partition")
	mTopicISR      = gauge("kafka_topic_partition_in_sync_replica", "Replicas that are up to date.", "topic", "partition")
	mTopicPrefers  = gauge("kafka_topic_partition_leader_is_preferred", "Whether the leader is the preferred one.", "topic", "partition")
	mTopicUnder    = gauge("kafka_topic_partition_under_replicated_partition", "Whether replicas are missing: no.", "topic", "partition")

	mLag         = gauge("kafka_consumergroup_lag", "Records between a group's committed offset and the end.", "consumergroup", "topic", "partition")
	mCommitted   = gauge("kafka_consumergroup_current_offset", "A group's committed offset.", "consumergroup", "topic", "partition")
	mLagSum      = gauge("kafka_consumergroup_lag_sum", "Lag of a group in a topic.", "consumergroup", "topic")
	mCommitSum   = gauge("kafka_consumergroup_current_offset_sum", "Committed offsets of a group in a topic, added up.", "consumergroup", "topic")
	mMembers     = gauge("kafka_consumergroup_members", "Members of a group.", "consumergroup")
	mBrokers     = gauge("kafka_brokers", "Brokers.")
	mBrokerInfo  = gauge("kafka_broker_info", "A broker, and where it is.", "id", "address")
	mVersionInfo = gauge("millrace_log_info", "The log, by cluster id and log.fsync.", "cluster", "fsync")
)

// Our own.
var (
	mSyncs         = counter("millrace_log_syncs_total", "Syncs of segments.")
	mSyncSeconds   = counter("millrace_log_sync_seconds_total", "Time that syncs took.")
	mSyncTime      = gauge("millrace_log_sync_seconds", "Time of one sync, of the last five to ten minutes.", "quantile")
	mSyncedBytes   = counter("millrace_log_synced_bytes_total", "Bytes that syncs made durable; by syncs, the bytes of one.")
	mAppended      = counter("millrace_log_appended_bytes_total", "Bytes that were written, by clients and by the log itself.")
	mBatches       = counter("millrace_log_appended_batches_total", "Batches that were written.")
	mDirtyBytes    = gauge("millrace_log_dirty_bytes", "Bytes that are written and not durable yet.")
	mUndurable     = gauge("millrace_log_undurable_records", "Offsets that are written and not durable yet, of all partitions. What notes the end of a transaction stays so until the next one ends, or for 30 s.")
	mStableLag     = gauge("millrace_log_last_stable_lag_records_max", "Most durable offsets of a partition that an open transaction holds back.")
	mOpenTxns      = gauge("millrace_log_open_transactions", "Transactions that are open or being ended.")
	mOldestTxn     = gauge("millrace_log_oldest_transaction_seconds", "Age of the oldest of them.")
	mRequestMemory = gauge("millrace_log_request_memory_bytes", "Bytes in use of the budget of requests that are being received.")
	mAnswerMemory  = gauge("millrace_log_answer_memory_bytes", "Bytes in use of the budget of answers that clients have not taken yet.")
	mRefused       = counter("millrace_log_connections_refused_total", "Connections beyond a limit.")
	mIdled         = counter("millrace_log_connections_idle_closed_total", "Connections that were closed since nothing happened on them.")
	mSignedIn      = counter("millrace_log_authentications_total", "Sign-ins.", "result")
	mPanics        = counter("millrace_log_handler_panics_total", "Requests that met a fault of ours.")
	mCompactions   = counter("millrace_log_compactions_total", "Compactions of partitions.", "result")
	mCompactedIn   = counter("millrace_log_compaction_read_bytes_total", "Bytes that compaction read.")
	mCompactedOut  = counter("millrace_log_compaction_kept_bytes_total", "Bytes that compaction kept.")
	mBacklog       = gauge("millrace_log_compaction_backlog_bytes", "Bytes of compacted topics that no compaction has seen.")
	mRetired       = counter("millrace_log_retention_segments_total", "Segments that retention or clients deleted.")
	mRetiredBytes  = counter("millrace_log_retention_bytes_total", "Bytes that retention or clients deleted.")
	mRecovery      = gauge("millrace_log_recovery_seconds", "Time that the last start spent on recovery; 0 after a clean stop.")
	mScanned       = gauge("millrace_log_recovery_partitions", "Partitions that the last start had to read.")
	mCut           = counter("millrace_log_cut_bytes_total", "Bytes of torn tails that recovery cut off and kept aside.")
	mDamaged       = gauge("millrace_log_damaged_ranges", "Ranges of acknowledged records that cannot be read.")
	mFree          = gauge("millrace_log_disk_free_bytes", "Free bytes of the data directory's disk.")
	mTotal         = gauge("millrace_log_disk_total_bytes", "Size of the data directory's disk.")
	mLow           = gauge("millrace_log_disk_low", "Whether clients' writes are refused for want of space.")
	mBallast       = gauge("millrace_log_ballast", "Whether the ballast is there: 0 means that it was given up for commits and deletions.")
	mSegments      = gauge("millrace_log_segments", "Segments of all partitions.")
	mSize          = gauge("millrace_log_size_bytes", "Bytes of all partitions.")
	mState         = gauge("millrace_log_state", "1 for the log's state.", "state")
)

var quantiles = []float64{0.5, 0.75, 0.95, 0.98, 0.99, 0.999}

var quantileLabels = []string{"0.50", "0.75", "0.95", "0.98", "0.99", "0.999"}

// Collector gives the log's metrics. They are worked out when somebody looks; counting costs requests a few atomic adds.
// With topics, traffic, sizes and offsets are given by topic and partition, too. Of a cluster only its brokers are known.
func (l *Log) Collector(topics bool) prometheus.Collector {
	return &collector{l: l, topics: topics}
}

type collector struct {
	l      *Log
	topics bool

	mu   sync.Mutex // guards the fields below
	at   time.Time  // of the last look that counts for idle
	busy time.Duration
	idle float64
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range allMetrics {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	send := func(m *metric, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
	}
	l := c.l
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	switch {
	case closed:
	case l.store == nil:
		c.cluster(send)
	default:
		st := l.srv.Stats(quantiles...)
		c.requests(send, st)
		c.node(send, st)
		c.partitions(send)
		c.groups(send)
		c.own(send, st)
	}
}

type sender func(m *metric, value float64, labels ...string)

func (c *collector) cluster(send sender) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	m, err := c.l.Admin().BrokerMetadata(ctx)
	if err != nil {
		return // Health says it
	}
	send(mBrokers, float64(len(m.Brokers)))
	for _, b := range m.Brokers {
		send(mBrokerInfo, 1, strconv.Itoa(int(b.NodeID)), Listener{Host: b.Host, Port: int(b.Port)}.Addr())
	}
}

func (c *collector) requests(send sender, st broker.Stats) {
	send(mMessagesIn, float64(st.Records), "")
	send(mBytesIn, float64(st.BytesIn), "")
	send(mBytesOut, float64(st.BytesOut), "")
	send(mProduces, float64(st.Produces), "")
	send(mFetches, float64(st.Fetches), "")
	send(mFailedProduces, float64(st.FailedProduces), "")
	send(mFailedFetches, float64(st.FailedFetches), "")
	for _, k := range st.Kinds {
		c.kind(send, k.Name, k)
		if k.Name == "Fetch" {
			c.kind(send, "FetchConsumer", k)
		}
	}
	for name, n := range st.Connections {
		send(mConnections, float64(n), name, "0")
	}
	idle := c.idleShare(st.Busy)
	send(mHandlerIdle, idle)
	send(mNetworkIdle, idle)
	send(mRequestQueue, float64(st.LargeRequests))
	send(mResponseQueue, 0)
}

func (c *collector) kind(send sender, name string, k broker.KindStats) {
	for _, v := range k.Versions {
		send(mRequests, float64(v.N), name, strconv.Itoa(int(v.What)))
	}
	for _, e := range merged(k.Errors) {
		send(mErrors, float64(e.n), name, e.name)
	}
	none := measure.Summary{Count: k.Total.Count, At: make([]time.Duration, len(quantiles))}
	for what, s := range map[string]measure.Summary{
		"totaltimems": k.Total, "localtimems": k.Local, "remotetimems": k.Remote, "responsesendtimems": k.Send, "requestqueuetimems": none, "responsequeuetimems": none,
	} {
		m := mTimes[what]
		for i, q := range quantileLabels {
			value := math.NaN() // nothing lately
			if s.At != nil {
				value = milliseconds(s.At[i])
			}
			send(m[0], value, name, q)
		}
		send(m[1], float64(s.Count), name)
	}
}

type namedCount struct {
	name string
	n    int64
}

// merged adds up codes that have no name of their own.
func merged(counts []broker.Count) (out []namedCount) {
	for _, c := range counts {
		name := broker.ErrorName(c.What)
		if i := len(out) - 1; i >= 0 && out[i].name == name {
			out[i].n += c.N
			continue
		}
		known := false
		for i := range out {
			if out[i].name == name {
				out[i].n += c.N
				known = true
			}
		}
		if !known {
			out = append(out, namedCount{name, c.N})
		}
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// idleShare is the share of the processors that handlers did not use lately. Looks that follow each other quickly get
// the same answer, so that several who look do not disturb each other.
func (c *collector) idleShare(busy time.Duration) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch took := now.Sub(c.at); {
	case c.at.IsZero():
		c.at, c.busy, c.idle = now, busy, 1
	case took >= 10*time.Second:
		used := float64(busy-c.busy) / (float64(took) * float64(broker.Processors()))
		c.at, c.busy, c.idle = now, busy, max(0, 1-used)
	}
	return c.idle
}

func (c *collector) node(send sender, st broker.Stats) {
	h := c.l.store.Health()
	all, offline, dirs := float64(c.l.cat.Size()), 0.0, 0.0
	if h.Offline != nil {
		offline, dirs = all, 1
	}
	for m, v := range map[*metric]float64{
		mUnderReplicated: 0, mUnderMinISR: 0, mOffline: offline, mOfflineDirs: dirs, mPartitions: all, mLeaders: all, mISRShrinks: 0, mISRExpands: 0,
		mController: 1, mTopics: float64(len(c.l.cat.TopicNames())), mAllPartitions: all, mActiveBrokers: 1, mFencedBrokers: 0, mMetadataErrors: 0, mUnclean: 0, mBrokerState: 3,
		mRaftLeader: 1, mRaftEpoch: 1, mRaftVote: 1, mBrokers: 1,
	} {
		send(m, v)
	}
	if meta := c.l.store.Get(catalog.MetaTopic, 0); meta != nil {
		send(mRaftHigh, float64(meta.HighWatermark()))
		send(mRaftEnd, float64(meta.End()))
	}
	send(mRaftState, 1, "leader")
	send(mBrokerInfo, 1, "1", cmp.Or(c.l.addr, "embedded"))
	send(mVersionInfo, 1, c.l.clusterID, cmp.Or(c.l.cfg.Fsync, "group"))
	if read, written, ok := diskBytes(); ok {
		send(mDiskRead, float64(read))
		send(mDiskWrite, float64(written))
	}
	send(mFree, float64(h.Space.Free))
	send(mTotal, float64(h.Space.Total))
	send(mLow, yes(h.LowSpace))
	send(mBallast, yes(h.Ballast))
	send(mDamaged, float64(len(h.Damaged)))
	send(mState, 1, string(c.l.judge(h).State))
}

func yes(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// partitions sends what the partitions have together and, if asked for, each of them.
func (c *collector) partitions(send sender) {
	var undurable, stable, segments, size int64
	for _, t := range c.l.cat.Topics() {
		var sum [7]int64
		for n := range t.Partitions() {
			p := t.Partition(n)
			end, hw := p.End(), p.HighWatermark()
			undurable += max(0, end-p.Durable())
			stable = max(stable, hw-p.LastStable())
			bytes := p.Size()
			segments, size = segments+int64(p.Segments()), size+bytes
			if !c.topics {
				continue
			}
			tr := p.Traffic()
			for i, n := range []int64{tr.Records.Load(), tr.BytesIn.Load(), tr.BytesOut.Load(), tr.Produces.Load(), tr.Fetches.Load(), tr.FailedProduces.Load(), tr.FailedFetches.Load()} {
				sum[i] += n
			}
			c.partition(send, t.Name, strconv.Itoa(int(n)), p, bytes)
		}
		if c.topics {
			for i, m := range []*metric{mMessagesIn, mBytesIn, mBytesOut, mProduces, mFetches, mFailedProduces, mFailedFetches} {
				send(m, float64(sum[i]), t.Name)
			}
			send(mTopicParts, float64(t.Partitions()), t.Name)
		}
	}
	send(mUndurable, float64(undurable))
	send(mStableLag, float64(stable))
	send(mSegments, float64(segments))
	send(mSize, float64(size))
}

func (c *collector) partition(send sender, topic, n string, p *store.Partition, bytes int64) {
	for m, v := range map[*metric]float64{
		mPartUnderMin: 0, mPartAtMin: 0, mPartReplicas: 1, mLogSize: float64(bytes), mLogStart: float64(p.LogStart()), mLogEnd: float64(p.End()),
		mTopicCurrent: float64(p.HighWatermark()), mTopicOldest: float64(p.LogStart()), mTopicLeader: 1, mTopicReplicas: 1, mTopicISR: 1, mTopicPrefers: 1, mTopicUnder: 0,
	} {
		send(m, v, topic, n)
	}
}

func (c *collector) groups(send sender) {
	states := map[string]int{}
	all := 0
	c.l.groups.Look(func(g group.Seen) {
		all++
		states[g.State]++
		send(mMembers, float64(g.Members), g.Name)
		for topic, offsets := range g.Offsets {
			t := c.l.cat.Topic(topic)
			if t == nil {
				continue // deleted; its offsets expire
			}
			var lags, sum int64
			for n, offset := range offsets {
				p := t.Partition(n)
				if p == nil {
					continue
				}
				lag := max(0, p.HighWatermark()-offset)
				lags, sum = lags+lag, sum+offset
				part := strconv.Itoa(int(n))
				send(mLag, float64(lag), g.Name, topic, part)
				send(mCommitted, float64(offset), g.Name, topic, part)
			}
			send(mLagSum, float64(lags), g.Name, topic)
			send(mCommitSum, float64(sum), g.Name, topic)
		}
	})
	send(mGroups, float64(all))
	for state, m := range mGroupsIn {
		send(m, float64(states[state]))
	}
}

func (c *collector) own(send sender, st broker.Stats) {
	s := c.l.store.Stats(quantiles...)
	for i, q := range quantileLabels {
		value := math.NaN()
		if s.SyncQuantiles != nil {
			value = s.SyncQuantiles[i].Seconds()
		}
		send(mSyncTime, value, q)
	}
	open, oldest := c.l.txns.Open()
	for m, v := range map[*metric]float64{
		mSyncs: float64(s.Syncs), mSyncSeconds: s.SyncTime.Seconds(), mSyncedBytes: float64(s.SyncedBytes), mAppended: float64(s.Bytes), mBatches: float64(s.Batches), mDirtyBytes: float64(s.UnsyncedBytes),
		mOpenTxns: float64(open), mOldestTxn: oldest.Seconds(), mRequestMemory: float64(st.RequestMemory), mAnswerMemory: float64(st.AnswerMemory),
		mRefused: float64(st.Refused), mIdled: float64(st.Idled), mPanics: float64(st.Panics),
		mCompactedIn: float64(s.CompactedIn), mCompactedOut: float64(s.CompactedOut), mBacklog: float64(s.CompactionBacklog), mRetired: float64(s.RetiredSegments), mRetiredBytes: float64(s.RetiredBytes),
		mRecovery: s.Recovery.Seconds(), mScanned: float64(s.ScannedPartitions), mCut: float64(s.CutBytes),
	} {
		send(m, v)
	}
	send(mSignedIn, float64(st.SignedIn), "ok")
	send(mSignedIn, float64(st.Denied), "denied")
	send(mCompactions, float64(s.Compactions), "done")
	send(mCompactions, float64(s.CompactionFailures), "failed")
}
