package runtime

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/runtime/provider"
	"millrace/schema/config"
)

// The worker's settings, in Connect's spelling. Those of the listeners and of the
// log belong to whoever serves them and are listed in passedOn.
var (
	groupID           = config.Key[string]{Name: "group.id", Doc: "Name of the group of workers that share connectors. It must differ from the consumer group of every sink.", Required: true, Importance: config.High, Check: config.NonEmpty}
	configTopic       = config.Key[string]{Name: "config.storage.topic", Doc: "Topic that keeps connectors' and tasks' configurations. It has one partition.", Required: true, Importance: config.High, Check: config.NonEmpty}
	configReplication = config.Key[int16]{Name: "config.storage.replication.factor", Doc: "Replication factor with which the config topic is made; -1 for the cluster's default.", Default: 3, Importance: config.Low, Check: replication}
	offsetTopic       = config.Key[string]{Name: "offset.storage.topic", Doc: "Topic that keeps the offsets of sources.", Required: true, Importance: config.High, Check: config.NonEmpty}
	offsetPartitions  = config.Key[int32]{Name: "offset.storage.partitions", Doc: "Number of partitions with which the offset topic is made; -1 for the cluster's default.", Default: 25, Importance: config.Low, Check: partitionCount}
	offsetReplication = config.Key[int16]{Name: "offset.storage.replication.factor", Doc: "Replication factor with which the offset topic is made; -1 for the cluster's default.", Default: 3, Importance: config.Low, Check: replication}
	statusTopic       = config.Key[string]{Name: "status.storage.topic", Doc: "Topic that keeps the states of connectors and tasks.", Required: true, Importance: config.High, Check: config.NonEmpty}
	statusPartitions  = config.Key[int32]{Name: "status.storage.partitions", Doc: "Number of partitions with which the status topic is made; -1 for the cluster's default.", Default: 5, Importance: config.Low, Check: partitionCount}
	statusReplication = config.Key[int16]{Name: "status.storage.replication.factor", Doc: "Replication factor with which the status topic is made; -1 for the cluster's default.", Default: 3, Importance: config.Low, Check: replication}
	createTopics      = config.Key[bool]{Name: "internal.topics.automatic.creation.enable", Doc: "Whether the three internal topics are made where they do not exist.", Default: true, Importance: config.Low}

	keyConverter    = config.Key[config.Class]{Name: "key.converter", Doc: "Converter of keys for connectors that name none.", Required: true, Importance: config.High}
	valueConverter  = config.Key[config.Class]{Name: "value.converter", Doc: "Converter of values for connectors that name none.", Required: true, Importance: config.High}
	headerConverter = config.Key[config.Class]{Name: "header.converter", Doc: "Converter of headers for connectors that name none.", Default: "org.apache.kafka.connect.storage.SimpleHeaderConverter", Importance: config.Low}

	sessionTimeout   = config.Key[time.Duration]{Name: "session.timeout.ms", Doc: "Time without a heartbeat after which the group takes a worker for dead.", As: config.IntType, Default: 10 * time.Second, Importance: config.High, Check: config.AtLeast(time.Millisecond)}
	heartbeat        = config.Key[time.Duration]{Name: "heartbeat.interval.ms", Doc: "Time between two heartbeats to the group's coordinator.", As: config.IntType, Default: 3 * time.Second, Importance: config.High, Check: config.AtLeast(time.Millisecond)}
	rebalanceTimeout = config.Key[time.Duration]{Name: "rebalance.timeout.ms", Doc: "Time in which every worker must join again once a rebalance has begun.", As: config.IntType, Default: time.Minute, Importance: config.High, Check: config.AtLeast(time.Millisecond)}
	syncTimeout      = config.Key[time.Duration]{Name: "worker.sync.timeout.ms", Doc: "Time in which a worker reads the config topic up to where its assignment was made; after it the worker leaves the group.", As: config.IntType, Default: 3 * time.Second, Check: config.AtLeast(time.Millisecond)}
	unsyncBackoff    = config.Key[time.Duration]{Name: "worker.unsync.backoff.ms", Doc: "Time that a worker which could not catch up waits before it joins again.", As: config.IntType, Default: 5 * time.Minute, Check: config.AtLeast(time.Duration(0))}
	rebalanceDelay   = config.Key[time.Duration]{Name: "scheduled.rebalance.max.delay.ms", Doc: "Time for which the work of a worker that left waits for its return before others take it.", As: config.IntType, Default: 5 * time.Minute, Importance: config.Low, Check: config.AtLeast(time.Duration(0))}
	keyTTL           = config.Key[time.Duration]{Name: "inter.worker.key.ttl.ms", Doc: "Time after which the leader makes a new key for the requests between workers; 0 for never.", Default: time.Hour, Importance: config.Low, Check: config.AtLeast(time.Duration(0))}
	connectProtocol  = config.Key[string]{Name: "connect.protocol", Doc: "Highest version of the group protocol that is offered: sessioned, compatible or eager.", Default: "sessioned", Importance: config.Low, Check: config.OneOf("eager", "compatible", "sessioned")}

	offsetFile    = config.Key[string]{Name: "offset.storage.file.filename", Doc: "File in which a standalone Connect worker kept its offsets: they are taken over at the start, once, when offset.storage.topic holds none yet.", EmptyDefault: true, Importance: config.Low}
	flushInterval = config.Key[time.Duration]{Name: "offset.flush.interval.ms", Doc: "Time between two commits of offsets.", Default: time.Minute, Importance: config.Low, Check: config.AtLeast(time.Millisecond)}
	flushTimeout  = config.Key[time.Duration]{Name: "offset.flush.timeout.ms", Doc: "Time that a commit of offsets may take before it is given up and tried again with the next.", Default: 5 * time.Second, Importance: config.Low, Check: config.AtLeast(time.Millisecond)}
	taskGrace     = config.Key[time.Duration]{Name: "task.shutdown.graceful.timeout.ms", Doc: "Time in which all tasks that stop together may finish what they began.", Default: 5 * time.Second, Importance: config.Low, Check: config.AtLeast(time.Duration(0))}

	exactlyOnce = config.Key[string]{Name: "exactly.once.source.support", Doc: "Whether sources' records and their offsets are written in one transaction: disabled, enabled, or preparing, through which all workers of a group go from the one to the other.", Default: "disabled", Importance: config.High, Check: config.OneOf("disabled", "preparing", "enabled")}

	topicCreation = config.Key[bool]{Name: "topic.creation.enable", Doc: "Whether source connectors' topic.creation.* settings are honoured.", Default: true, Importance: config.Low}
	topicTracking = config.Key[bool]{Name: "topic.tracking.enable", Doc: "Whether the topics that each connector uses are recorded.", Default: true, Importance: config.Low}
	trackingReset = config.Key[bool]{Name: "topic.tracking.allow.reset", Doc: "Whether clients may forget the topics that a connector used.", Default: true, Importance: config.Low}
	autoRestart   = config.Key[bool]{Name: "auto.restart", Doc: "Whether connectors and tasks that failed are restarted by themselves where that can help.", Default: true}
	tasksLimit    = config.Key[int32]{Name: "tasks.max.limit", Doc: "Most tasks that one connector gets, whatever its tasks.max says: each task holds memory. A tasks.max above 1000 is refused in any case.", Default: 1000, Importance: config.Low, Check: config.AtLeast[int32](1)}
	fileRoots     = config.Key[[]string]{Name: "file.roots", Doc: "Folders whose files connectors may open. Default: the working directory and the folder files in the data directory."}
)

var workerDef = config.Define(groupID, configTopic, configReplication, offsetTopic, offsetPartitions, offsetReplication,
	statusTopic, statusPartitions, statusReplication, createTopics, keyConverter, valueConverter, headerConverter,
	sessionTimeout, heartbeat, rebalanceTimeout, syncTimeout, unsyncBackoff, rebalanceDelay, connectProtocol, keyTTL,
	offsetFile, flushInterval, flushTimeout, taskGrace, exactlyOnce, topicCreation, topicTracking, trackingReset, overridePolicy, overrideAllowlist, autoRestart, tasksLimit, fileRoots).
	Merge(restDef).Merge(registryDef).Merge(logDef).Merge(clusterDef).Merge(watchDef).
	Ignoring(map[string]string{
		"plugin.path":               "plugins are part of the binary",
		"plugin.discovery":          "plugins are part of the binary",
		"metric.reporters":          "GET /metrics serves all metrics",
		"metrics.num.samples":       "what is measured of late covers two windows of 30 s",
		"metrics.sample.window.ms":  "what is measured of late covers two windows of 30 s",
		"metrics.recording.level":   "all metrics are always recorded",
		"auto.include.jmx.reporter": "there is no JMX",
		"client.dns.lookup":         "every address of a name is tried",
		"internal.key.converter":    "internal topics always hold JSON without schemas",
		"internal.value.converter":  "internal topics always hold JSON without schemas",
		"inter.worker.key.size":     "the algorithm's own size is used",
	})

// WorkerSettings are all settings that are declared for a worker, for documentation.
func WorkerSettings() config.Def { return workerDef.Merge(provider.Settings) }

// passedOn are keys that other parts of the process read, and beginnings of such keys, which
// end in a point. Whatever nobody reads is reported: above all an identity, a sign-in or a
// guarantee that an operator believes in must not be dropped without a word.
var passedOn = []string{"bootstrap.servers", "config.providers", provider.Prefix, "producer.", "consumer.", "admin.", "key.converter.", "value.converter.",
	"header.converter.", "config.storage.", "offset.storage.", "status.storage.", topicDefaults, "ssl.client.auth"}

func isPassedOn(key string) bool {
	return slices.ContainsFunc(passedOn, func(p string) bool {
		return key == p || strings.HasSuffix(p, ".") && strings.HasPrefix(key, p)
	})
}

// WorkerConfig is a worker's configuration, read and checked. It is immutable.
type WorkerConfig struct {
	GroupID                                       string
	ConfigTopic, OffsetTopic, StatusTopic         InternalTopic
	CreateInternalTopics                          bool
	SessionTimeout, Heartbeat, RebalanceTimeout   time.Duration
	SyncTimeout, UnsyncBackoff, RebalanceDelay    time.Duration
	Protocol                                      string        // sessioned, compatible or eager
	SessionKeyTTL                                 time.Duration // 0: never
	OffsetFlushInterval, OffsetFlushTimeout       time.Duration
	TaskGrace                                     time.Duration
	ExactlyOnce                                   string // disabled, preparing or enabled
	TopicCreation, TopicTracking, TrackingReset   bool
	OverridePolicy                                string   // a name or class of a policy; "" is All
	OverrideAllowlist                             []string // client settings that the policy Allowlist lets through
	KeyConverter, ValueConverter, HeaderConverter string   // class or alias; their settings are in Properties
	AutoRestart                                   bool
	TasksMax                                      int           // of one connector; see TasksLimit
	StallTimeout                                  time.Duration // 0: never
	MetricNames                                   []string
	MetricTopics                                  bool // the log's metrics by topic, too
	FileRoots                                     []string
	REST                                          RESTConfig
	Registry                                      RegistryConfig
	Log                                           LogConfig
	Cluster                                       ClusterConfig
	Properties                                    map[string]string // everything as given
	OffsetFile                                    string            // of a standalone Connect worker, whose offsets are taken over once; "" for none
	Notices                                       []string          // keys that are ignored or unknown, with reasons
}

// TasksLimit is the most tasks that one connector gets.
func (c WorkerConfig) TasksLimit() int {
	if c.TasksMax < 1 {
		return int(tasksLimit.Default)
	}
	return c.TasksMax
}

// InternalTopic is how an internal topic is made where it does not exist.
type InternalTopic struct {
	Name        string
	Partitions  int32 // -1: the cluster's default
	Replication int16 // -1: the cluster's default
	Settings    map[string]string
}

// StandaloneDefaults are what a worker on the embedded log starts with where its
// properties say nothing.
func StandaloneDefaults() map[string]string {
	return map[string]string{
		groupID.Name: "millrace", configTopic.Name: "connect-configs", offsetTopic.Name: "connect-offsets", statusTopic.Name: "connect-status",
		configReplication.Name: "1", offsetReplication.Name: "1", statusReplication.Name: "1", registryReplication.Name: "1", offsetPartitions.Name: "1", statusPartitions.Name: "1",
		keyConverter.Name: "org.apache.kafka.connect.json.JsonConverter", "key.converter.schemas.enable": "false",
		valueConverter.Name: "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
		rebalanceDelay.Name: "0", flushInterval.Name: "1000", exactlyOnce.Name: "enabled",
	}
}

// DistributedDefaults are what differs from Connect's own defaults for a worker of a group on a cluster: it listens to this machine alone, and
// the registry, which Connect has none of, is there where it is asked for.
func DistributedDefaults() map[string]string {
	return map[string]string{registryListeners.Name: "none"}
}

// WithDefaults is the properties with those of defaults that they do not give. A
// converter that the properties name themselves takes no settings from the defaults.
func WithDefaults(properties, defaults map[string]string) map[string]string {
	out := maps.Clone(defaults)
	for _, half := range []string{keyConverter.Name, valueConverter.Name, headerConverter.Name} {
		if _, own := properties[half]; own {
			maps.DeleteFunc(out, func(k, _ string) bool { return strings.HasPrefix(k, half+".") })
		}
	}
	maps.Copy(out, properties)
	return out
}

// ParseWorker reads a worker's properties and reports every wrong key.
func ParseWorker(properties map[string]string) (WorkerConfig, []*config.Error) {
	v, errs := workerDef.Parse(properties)
	c := WorkerConfig{
		GroupID:              groupID.Get(v),
		ConfigTopic:          InternalTopic{configTopic.Get(v), 1, configReplication.Get(v), topicSettings(properties, "config.storage.")},
		OffsetTopic:          InternalTopic{offsetTopic.Get(v), offsetPartitions.Get(v), offsetReplication.Get(v), topicSettings(properties, "offset.storage.")},
		StatusTopic:          InternalTopic{statusTopic.Get(v), statusPartitions.Get(v), statusReplication.Get(v), topicSettings(properties, "status.storage.")},
		CreateInternalTopics: createTopics.Get(v),
		SessionTimeout:       sessionTimeout.Get(v), Heartbeat: heartbeat.Get(v), RebalanceTimeout: rebalanceTimeout.Get(v),
		SyncTimeout: syncTimeout.Get(v), UnsyncBackoff: unsyncBackoff.Get(v), RebalanceDelay: rebalanceDelay.Get(v),
		Protocol:            strings.ToLower(connectProtocol.Get(v)),
		SessionKeyTTL:       keyTTL.Get(v),
		OffsetFlushInterval: flushInterval.Get(v), OffsetFlushTimeout: flushTimeout.Get(v), TaskGrace: taskGrace.Get(v),
		OffsetFile:    offsetFile.Get(v),
		ExactlyOnce:   strings.ToLower(exactlyOnce.Get(v)),
		TopicCreation: topicCreation.Get(v), TopicTracking: topicTracking.Get(v), TrackingReset: trackingReset.Get(v),
		OverridePolicy: overridePolicy.Get(v), OverrideAllowlist: overrideAllowlist.Get(v),
		KeyConverter: string(keyConverter.Get(v)), ValueConverter: string(valueConverter.Get(v)), HeaderConverter: string(headerConverter.Get(v)),
		AutoRestart: autoRestart.Get(v), TasksMax: int(tasksLimit.Get(v)), StallTimeout: stallTimeout.Get(v), MetricNames: metricNames.Get(v), MetricTopics: metricTopics.Get(v),
		FileRoots:  fileRoots.Get(v),
		Properties: maps.Clone(properties),
	}
	logConfig, wrong := parseLog(v, c.Properties)
	c.Log, c.Cluster = logConfig, parseCluster(v, c.Properties)
	errs = append(errs, wrong...)
	var restErrs []*config.Error
	c.REST, restErrs = parseREST(v)
	errs = append(errs, restErrs...)
	c.Registry, wrong = parseRegistry(v)
	errs = append(errs, wrong...)
	if len(errs) == 0 && c.Heartbeat >= c.SessionTimeout {
		errs = append(errs, heartbeat.Errorf(v, "must be shorter than session.timeout.ms (%d); a third of it is usual", c.SessionTimeout.Milliseconds()))
	}
	topics := map[string]string{}
	for _, t := range []config.Key[string]{configTopic, offsetTopic, statusTopic} {
		name := t.Get(v)
		if other, twice := topics[name]; twice && name != "" {
			errs = append(errs, t.Errorf(v, "%s names the same topic; each internal topic needs one of its own", other))
		}
		topics[name] = t.Name
	}
	for _, kind := range []ClientKind{Producer, Consumer, Admin} {
		own, wrong := c.ClientOverrides(kind, nil)
		errs = append(errs, wrong...)
		c.Notices = append(c.Notices, own.Notices...)
	}
	ignored := workerDef.Ignored()
	for _, k := range slices.Sorted(maps.Keys(properties)) {
		if why := ignored[k]; why != "" {
			c.Notices = append(c.Notices, fmt.Sprintf("%s is ignored: %s", k, why))
		}
	}
	for _, k := range v.Undeclared() {
		if !isPassedOn(k) {
			c.Notices = append(c.Notices, k+" is no setting that this worker has and is ignored")
		}
	}
	return c, errs
}

// ExactlyOnceSources reports whether source tasks write in transactions.
func (c WorkerConfig) ExactlyOnceSources() bool { return c.ExactlyOnce == "enabled" }

// TransactionalLeader reports whether the leader of the group writes in transactions.
func (c WorkerConfig) TransactionalLeader() bool { return c.ExactlyOnce != "disabled" }

// LeaderID is the transactional id of the group's leader, as in Connect.
func (c WorkerConfig) LeaderID() string { return "connect-cluster-" + c.GroupID }

// TransactionalID is a source task's transactional id, as in Connect.
func (c WorkerConfig) TransactionalID(id TaskID) string { return c.GroupID + "-" + id.String() }

// topicSettings are the topic settings below a prefix, without those of our own and
// without cleanup.policy, which is always compact.
func topicSettings(properties map[string]string, prefix string) map[string]string {
	out := map[string]string{}
	for k, v := range properties {
		name, ok := strings.CutPrefix(k, prefix)
		if ok && !slices.Contains([]string{"topic", "partitions", "replication.factor", "cleanup.policy", "file.filename"}, name) {
			out[name] = v
		}
	}
	return out
}

func replication(n int16) error {
	if n < 1 && n != -1 {
		return fmt.Errorf("Replication factor must be a positive number, or -1 to use the broker's default")
	}
	return nil
}

func partitionCount(n int32) error {
	if n < 1 && n != -1 {
		return fmt.Errorf("Number of partitions must be a positive number, or -1 to use the broker's default")
	}
	return nil
}
