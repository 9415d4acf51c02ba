package settings

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"millrace/runtime"
	"millrace/schema/config"
	"millrace/transforms"
)

// The groups under which Connect lists the settings.
const (
	common      = "Common"
	errorsGroup = "Error Handling"
)

// The settings of every connector, in Connect's order.
var (
	Name            = config.Key[string]{Name: "name", Doc: "Name of the connector, unique among those that the workers share.", Required: true, Importance: config.High, Group: common, Order: 1, Width: config.MediumW, Display: "Connector name", Check: connectorName}
	ConnectorClass  = config.Key[string]{Name: "connector.class", Doc: "Class of the connector, as plugin lists show it, or one of its short names.", Required: true, Importance: config.High, Group: common, Order: 2, Width: config.Long, Display: "Connector class"}
	PluginVersion   = config.Key[string]{Name: "connector.plugin.version", Doc: "Version of the connector: that of the binary, the only one there is.", Group: common, Order: 3, Width: config.MediumW, Display: "Connector version"}
	TasksMax        = config.Key[int32]{Name: "tasks.max", Doc: "Largest number of tasks that the connector may make.", Default: 1, Importance: config.High, Group: common, Order: 4, Width: config.Short, Display: "Tasks max", Check: config.AtLeast[int32](1)}
	TasksMaxEnforce = config.Key[bool]{Name: "tasks.max.enforce", Doc: "Whether a connector that makes more tasks than tasks.max fails.", Default: true, Importance: config.Low, Group: common, Order: 5, Width: config.Short, Display: "Enforce tasks max"}

	KeyConverter    = config.Key[config.Class]{Name: "key.converter", Doc: "Converter of keys, in place of the worker's.", Importance: config.Low, Group: common, Order: 6, Width: config.Short, Display: "Key converter class"}
	ValueConverter  = config.Key[config.Class]{Name: "value.converter", Doc: "Converter of values, in place of the worker's.", Importance: config.Low, Group: common, Order: 8, Width: config.Short, Display: "Value converter class"}
	HeaderConverter = config.Key[config.Class]{Name: "header.converter", Doc: "Converter of headers, in place of the worker's.", Importance: config.Low, Group: common, Order: 10, Width: config.Short, Display: "Header converter class"}

	keyConverterVersion    = converterVersion("key", 7)
	valueConverterVersion  = converterVersion("value", 9)
	headerConverterVersion = converterVersion("header", 11)

	Transforms   = config.Key[[]string]{Name: "transforms", Doc: "Names of the transforms, in the order in which they are applied; each has its settings under transforms.NAME.", EmptyDefault: true, Importance: config.Low, Group: "Transforms", Order: 12, Width: config.Long, Display: "Transforms", Check: aliases}
	Predicates   = config.Key[[]string]{Name: "predicates", Doc: "Names of the predicates that transforms refer to; each has its settings under predicates.NAME.", EmptyDefault: true, Importance: config.Low, Group: "Predicates", Order: 13, Width: config.Long, Display: "Predicates", Check: aliases}
	ConfigReload = config.Key[string]{Name: "config.action.reload", Doc: "What happens when a config provider's value changes: none, or restart the connector.", Default: "restart", Importance: config.Low, Group: common, Order: 14, Width: config.MediumW, Display: "Reload Action", Check: oneOf("none", "restart")}

	AutoRestart = config.Key[bool]{Name: "auto.restart", Doc: "Whether a part that failed is restarted by itself where that can help. It goes beyond Connect, and is in no listing.", Default: true, Internal: true}

	StallTimeout = config.Key[time.Duration]{Name: "task.stall.timeout.ms", Doc: "Time after which a running task that gets no further, although it has something to do, is restarted; 0 for never, the worker's where not given. It goes beyond Connect, and is in no listing.", NullDefault: true, Internal: true, Check: config.AtLeast(time.Duration(0))}

	ErrorsRetryTimeout       = config.Key[time.Duration]{Name: "errors.retry.timeout", Doc: "Milliseconds for which an operation that may succeed is tried again; 0 for none, -1 for ever.", Group: errorsGroup, Order: 1, Width: config.MediumW, Display: "Retry Timeout for Errors"}
	ErrorsRetryDelayMax      = config.Key[time.Duration]{Name: "errors.retry.delay.max.ms", Doc: "Longest time between two tries.", Default: time.Minute, Group: errorsGroup, Order: 2, Width: config.MediumW, Display: "Maximum Delay Between Retries for Errors"}
	ErrorsTolerance          = config.Key[string]{Name: "errors.tolerance", Doc: "none: a record that cannot be converted, transformed or written fails the task. all: it is skipped, and reported where errors.log.enable or a dead-letter topic says so.", Default: "none", Group: errorsGroup, Order: 3, Width: config.Short, Display: "Error Tolerance", Check: oneOf("none", "all")}
	ErrorsLogEnable          = config.Key[bool]{Name: "errors.log.enable", Doc: "Whether each error, and what was being done, is logged.", Group: errorsGroup, Order: 4, Width: config.Short, Display: "Log Errors"}
	ErrorsLogIncludeMessages = config.Key[bool]{Name: "errors.log.include.messages", Doc: "Whether the record is logged with its error: topic, partition, offset and timestamp of a sink's, the position of a source's.", Group: errorsGroup, Order: 5, Width: config.Short, Display: "Log Error Details"}
)

// The settings of sources alone.
var (
	TopicCreationGroups = config.Key[[]string]{Name: "topic.creation.groups", Doc: "Names of groups of topics that are created with settings of their own, under topic.creation.NAME.", EmptyDefault: true, Importance: config.Low, Group: "Topic Creation", Order: 1, Width: config.Long, Display: "Topic Creation Groups", Check: aliases}
	ExactlyOnce         = config.Key[string]{Name: "exactly.once.support", Doc: "requested: exactly once where the worker and the connector can. required: refuse the configuration where they cannot.", Default: "requested", Group: "Exactly Once Support", Order: 2, Width: config.Short, Display: "Exactly once support", Check: oneOf("requested", "required")}
	TransactionBoundary = config.Key[string]{Name: "transaction.boundary", Doc: "What ends a transaction with exactly-once delivery: each poll, an interval, or the connector.", Default: "poll", Group: "Exactly Once Support", Order: 3, Width: config.Short, Display: "Transaction Boundary", Check: oneOf("poll", "interval", "connector")}
	TransactionInterval = config.Key[time.Duration]{Name: "transaction.boundary.interval.ms", Doc: "Length of a transaction under transaction.boundary=interval; the worker's offset.flush.interval.ms where not given.", NullDefault: true, Importance: config.Low, Group: "Exactly Once Support", Order: 4, Width: config.Short, Display: "Transaction boundary interval", Check: config.AtLeast(time.Duration(0))}
	OffsetsTopic        = config.Key[string]{Name: "offsets.storage.topic", Doc: "Topic that keeps this connector's offsets, in place of the worker's.", Importance: config.Low, Group: "offsets.topic", Order: 1, Width: config.Long, Display: "Offsets topic", Check: config.NonEmpty}
)

// The settings of sinks alone.
var (
	Topics                = config.Key[[]string]{Name: "topics", Doc: "Topics to read, separated by commas.", EmptyDefault: true, Importance: config.High, Group: common, Order: 4, Width: config.Long, Display: "Topics"}
	TopicsRegex           = config.Key[string]{Name: "topics.regex", Doc: "Regular expression, in Java's syntax, that the names of all topics to read match whole.", EmptyDefault: true, Importance: config.High, Group: common, Order: 4, Width: config.Long, Display: "Topics regex"}
	DeadLetterTopic       = config.Key[string]{Name: "errors.deadletterqueue.topic.name", Doc: "Topic that takes the records which errors.tolerance=all skips; none where empty.", EmptyDefault: true, Group: errorsGroup, Order: 6, Width: config.MediumW, Display: "Dead Letter Queue Topic Name"}
	DeadLetterReplication = config.Key[int16]{Name: "errors.deadletterqueue.topic.replication.factor", Doc: "Replication factor with which the dead-letter topic is made; -1 for the cluster's default. The embedded log takes every value for 1.", Default: 3, Group: errorsGroup, Order: 7, Width: config.MediumW, Display: "Dead Letter Queue Topic Replication Factor"}
	DeadLetterContext     = config.Key[bool]{Name: "errors.deadletterqueue.context.headers.enable", Doc: "Whether dead letters tell in headers where they failed and why.", Group: errorsGroup, Order: 8, Width: config.MediumW, Display: "Enable Error Context Headers"}
)

var (
	shared = config.Define(Name, ConnectorClass, PluginVersion, TasksMax, TasksMaxEnforce,
		KeyConverter, keyConverterVersion, ValueConverter, valueConverterVersion, HeaderConverter, headerConverterVersion,
		Transforms, Predicates, ConfigReload, AutoRestart, StallTimeout,
		ErrorsRetryTimeout, ErrorsRetryDelayMax, ErrorsTolerance, ErrorsLogEnable, ErrorsLogIncludeMessages)

	// Source and Sink are the settings that every source and every sink has.
	Source = shared.With(TopicCreationGroups, ExactlyOnce, TransactionBoundary, TransactionInterval, OffsetsTopic)
	Sink   = shared.With(Topics, TopicsRegex, DeadLetterTopic, DeadLetterReplication, DeadLetterContext)
)

func converterVersion(half string, order int) config.Key[string] {
	return config.Key[string]{Name: half + ".converter.plugin.version", Doc: "Version of the converter: that of the binary, the only one there is.", Importance: config.Low,
		Group: common, Order: order, Width: config.Short, Display: strings.ToUpper(half[:1]) + half[1:] + " converter version"}
}

func connectorName(name string) error {
	if name == "" {
		return errors.New("String may not be empty")
	}
	if len(name) > runtime.MaxNameBytes {
		return fmt.Errorf("a name has at most %d bytes, this one has %d", runtime.MaxNameBytes, len(name))
	}
	var control []string
	for _, r := range name {
		if unicode.IsControl(r) {
			control = append(control, fmt.Sprint(int(r)))
		}
	}
	if control != nil {
		return fmt.Errorf("String may not contain control sequences but had the following ASCII chars: %s", strings.Join(control, ", "))
	}
	return nil
}

func oneOf(allowed ...string) func(string) error {
	return func(s string) error {
		for _, a := range allowed {
			if strings.EqualFold(a, s) {
				return nil
			}
		}
		return fmt.Errorf("String must be one of: %s", strings.Join(allowed, ", "))
	}
}

func aliases(names []string) error {
	if len(names) > transforms.MaxAliases {
		return errors.New(transforms.TooManyAliases(len(names)))
	}
	seen := map[string]bool{}
	for _, n := range names {
		switch {
		case n == "":
			return errors.New("Empty alias provided.")
		case seen[n]:
			return errors.New("Duplicate alias provided.")
		}
		seen[n] = true
	}
	return nil
}
