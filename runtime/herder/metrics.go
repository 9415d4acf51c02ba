package herder

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
	untyped = prometheus.UntypedValue
)

// table is every metric of this package. Names are Connect's attributes with _ for -.
// What only grows is a gauge where Connect's name lacks the _total that counters have.
var table []*metric

func row(f *family, name string, kind prometheus.ValueType, help string) *metric {
	m := &metric{family: f, name: name, kind: kind, help: help}
	table = append(table, m)
	return m
}

func text(f *family, name, help string) *metric {
	m := row(f, name, gauge, help)
	m.info = name
	return m
}

func untypedText(f *family, name, help string) *metric {
	m := text(f, name, help)
	m.kind = untyped
	return m
}

// The worker.
var (
	connectorCount = row(workerFamily, "connector_count", gauge, "Connectors on this worker.")
	taskCount      = row(workerFamily, "task_count", gauge, "Tasks on this worker.")

	connStarts       = row(workerFamily, "connector_startup_attempts_total", counter, "Starts of connectors.")
	connStarted      = row(workerFamily, "connector_startup_success_total", counter, "Starts of connectors that succeeded.")
	connNotStarted   = row(workerFamily, "connector_startup_failure_total", counter, "Starts of connectors that failed.")
	connStartedShare = row(workerFamily, "connector_startup_success_percentage", gauge, "Share of the starts of connectors that succeeded, 0 to 1.")
	connFailedShare  = row(workerFamily, "connector_startup_failure_percentage", gauge, "Share of the starts of connectors that failed, 0 to 1.")
	taskStarts       = row(workerFamily, "task_startup_attempts_total", counter, "Starts of tasks.")
	taskStarted      = row(workerFamily, "task_startup_success_total", counter, "Starts of tasks that succeeded.")
	taskNotStarted   = row(workerFamily, "task_startup_failure_total", counter, "Starts of tasks that failed.")
	taskStartedShare = row(workerFamily, "task_startup_success_percentage", gauge, "Share of the starts of tasks that succeeded, 0 to 1.")
	taskFailedShare  = row(workerFamily, "task_startup_failure_percentage", gauge, "Share of the starts of tasks that failed, 0 to 1.")

	totalTasks      = row(perConnector, "connector_total_task_count", gauge, "This worker's tasks of the connector.")
	runningTasks    = row(perConnector, "connector_running_task_count", gauge, "This worker's tasks of the connector that run.")
	pausedTasks     = row(perConnector, "connector_paused_task_count", gauge, "This worker's tasks of the connector that are paused.")
	failedTasks     = row(perConnector, "connector_failed_task_count", gauge, "This worker's tasks of the connector that have failed.")
	unassignedTasks = row(perConnector, "connector_unassigned_task_count", gauge, "This worker's tasks of the connector that are not assigned.")
	restartingTasks = row(perConnector, "connector_restarting_task_count", gauge, "This worker's tasks of the connector that restart.")
	destroyedTasks  = row(perConnector, "connector_destroyed_task_count", gauge, "This worker's tasks of the connector that are destroyed: none, they are gone.")

	assignedConnectors = row(coordinatorFamily, "assigned_connectors", gauge, "Connectors that the group has assigned to this worker.")
	assignedTasks      = row(coordinatorFamily, "assigned_tasks", gauge, "Tasks that the group has assigned to this worker.")

	rebalancing        = row(rebalanceFamily, "rebalancing", gauge, "1 while the worker joins its group.")
	rebalances         = row(rebalanceFamily, "completed_rebalances_total", counter, "Rebalances that this worker took part in to the end.")
	rebalanceAvg       = row(rebalanceFamily, "rebalance_avg_time_ms", gauge, "Mean duration of a rebalance, of late.")
	rebalanceMax       = row(rebalanceFamily, "rebalance_max_time_ms", gauge, "Longest duration of a rebalance, of late.")
	sinceLastRebalance = row(rebalanceFamily, "time_since_last_rebalance_ms", gauge, "Age of the last rebalance.")
	epoch              = row(rebalanceFamily, "epoch", gauge, "Generation of the group.")
	leaderName         = untypedText(rebalanceFamily, "leader_name", "The group's leader.")
	protocolName       = untypedText(rebalanceFamily, "connect_protocol", "The protocol of the group.")
)

// Connectors and tasks.
var (
	connectorStatus  = text(connectorFamily, "status", "State of the connector.")
	connectorClass   = text(connectorFamily, "connector_class", "Class of the connector.")
	connectorVersion = text(connectorFamily, "connector_version", "Version of the connector.")
	connectorType    = text(connectorFamily, "connector_type", "Kind of the connector: source or sink.")

	taskStatus       = text(taskFamily, "status", "State of the task.")
	runningRatio     = row(taskFamily, "running_ratio", gauge, "Share of the time since its first start here in which the task ran, 0 to 1.")
	pauseRatio       = row(taskFamily, "pause_ratio", gauge, "Share of the time since its first start here in which the task was paused, 0 to 1.")
	batchAvg         = row(taskFamily, "batch_size_avg", gauge, "Mean number of records in a batch, of late.")
	batchMax         = row(taskFamily, "batch_size_max", gauge, "Largest number of records in a batch, of late.")
	commitAvg        = row(taskFamily, "offset_commit_avg_time_ms", gauge, "Mean duration of a commit of offsets, of late.")
	commitMax        = row(taskFamily, "offset_commit_max_time_ms", gauge, "Longest duration of a commit of offsets, of late.")
	commitSuccess    = row(taskFamily, "offset_commit_success_percentage", gauge, "Share of the commits of offsets that succeeded, of late, 0 to 1.")
	commitFailure    = row(taskFamily, "offset_commit_failure_percentage", gauge, "Share of the commits of offsets that failed, of late, 0 to 1.")
	stalledMetric    = row(ownFamily, "stalled", gauge, "1 where the task runs and has something to do, but gets no further; 0 otherwise.")
	stalledSince     = row(ownFamily, "stalled_seconds", gauge, "For how long the task has got no further although it has something to do; 0 where it does.")
	restartsInARow   = row(ownFamily, "automatic_restarts", gauge, "Automatic restarts of the task in a row.")
	lastProgress     = row(ownFamily, "last_progress_timestamp_seconds", gauge, "When the task last got on: a batch, an acknowledgement, a commit.")
	automaticStalled = row(ownFamily, "stall_restarts_total", counter, "Restarts of the task because it had stalled.")

	sourcePolled    = row(sourceFamily, "source_record_poll_total", counter, "Records read from the source.")
	sourcePollRate  = row(sourceFamily, "source_record_poll_rate", gauge, "Records read from the source in a second, of late.")
	sourceWritten   = row(sourceFamily, "source_record_write_total", counter, "Records written to topics, after transforms.")
	sourceWriteRate = row(sourceFamily, "source_record_write_rate", gauge, "Records written to topics in a second, of late.")
	sourcePollAvg   = row(sourceFamily, "poll_batch_avg_time_ms", gauge, "Mean time in which the source made a batch, of late.")
	sourcePollMax   = row(sourceFamily, "poll_batch_max_time_ms", gauge, "Longest time in which the source made a batch, of late.")
	sourceActive    = row(sourceFamily, "source_record_active_count", gauge, "Records read and not yet acknowledged.")
	sourceActiveAvg = row(sourceFamily, "source_record_active_count_avg", gauge, "Mean number of records read and not yet acknowledged, of late.")
	sourceActiveMax = row(sourceFamily, "source_record_active_count_max", gauge, "Largest number of records read and not yet acknowledged, of late.")
	transactionMin  = row(sourceFamily, "transaction_size_min", gauge, "Fewest records in a transaction, of late.")
	transactionMax  = row(sourceFamily, "transaction_size_max", gauge, "Most records in a transaction, of late.")
	transactionAvg  = row(sourceFamily, "transaction_size_avg", gauge, "Mean number of records in a transaction, of late.")

	sinkRead          = row(sinkFamily, "sink_record_read_total", counter, "Records read from topics.")
	sinkReadRate      = row(sinkFamily, "sink_record_read_rate", gauge, "Records read from topics in a second, of late.")
	sinkSent          = row(sinkFamily, "sink_record_send_total", counter, "Records given to the target, after transforms.")
	sinkSendRate      = row(sinkFamily, "sink_record_send_rate", gauge, "Records given to the target in a second, of late.")
	putAvg            = row(sinkFamily, "put_batch_avg_time_ms", gauge, "Mean time in which the target took a batch, of late.")
	putMax            = row(sinkFamily, "put_batch_max_time_ms", gauge, "Longest time in which the target took a batch, of late.")
	sinkActive        = row(sinkFamily, "sink_record_active_count", gauge, "Records put and not yet committed, by offsets.")
	sinkActiveAvg     = row(sinkFamily, "sink_record_active_count_avg", gauge, "Mean number of records put and not yet committed, of late.")
	sinkActiveMax     = row(sinkFamily, "sink_record_active_count_max", gauge, "Largest number of records put and not yet committed, of late.")
	sinkLagMax        = row(sinkFamily, "sink_record_lag_max", gauge, "Records that the target has not taken yet, in the partition where they are most.")
	sinkPartitions    = row(sinkFamily, "partition_count", gauge, "Partitions that the task has.")
	sinkCommitSeq     = row(sinkFamily, "offset_commit_seq_no", gauge, "Number of the last commit of offsets.")
	sinkCommitRate    = row(sinkFamily, "offset_commit_completion_rate", gauge, "Commits of offsets done in a second, of late.")
	sinkCommits       = row(sinkFamily, "offset_commit_completion_total", counter, "Commits of offsets done.")
	sinkSkipRate      = row(sinkFamily, "offset_commit_skip_rate", gauge, "Commits of offsets put off in a second, of late.")
	sinkSkips         = row(sinkFamily, "offset_commit_skip_total", counter, "Commits of offsets put off because what goes before them took too long.")
	recordFailures    = row(errorFamily, "total_record_failures", gauge, "Attempts to transform, convert or write a record that failed.")
	recordErrors      = row(errorFamily, "total_record_errors", gauge, "Records that could not be transformed, converted or written.")
	recordsSkipped    = row(errorFamily, "total_records_skipped", gauge, "Records left out because errors are tolerated.")
	recordRetries     = row(errorFamily, "total_retries", gauge, "Attempts after the first.")
	errorsLogged      = row(errorFamily, "total_errors_logged", gauge, "Errors logged as errors.log.enable wants.")
	deadLetters       = row(errorFamily, "deadletterqueue_produce_requests", gauge, "Records sent to the dead-letter topic.")
	deadLettersFailed = row(errorFamily, "deadletterqueue_produce_failures", gauge, "Records that the dead-letter topic did not take.")
	lastErrorAt       = row(errorFamily, "last_error_timestamp", gauge, "When the last error was, in ms since 1970; 0 for none.")
)

// Clients of the log.
var (
	connectIn           = row(groupFamily, "incoming_byte_total", counter, "Bytes read by the client of the group of workers.")
	connectOut          = row(groupFamily, "outgoing_byte_total", counter, "Bytes written by the client of the group of workers.")
	connectConnections  = row(groupFamily, "connection_count", gauge, "Connections of the client of the group of workers.")
	connectInRate       = row(groupFamily, "incoming_byte_rate", gauge, "Bytes read in a second, of late.")
	connectOutRate      = row(groupFamily, "outgoing_byte_rate", gauge, "Bytes written in a second, of late.")
	connectRequestRate  = row(groupFamily, "request_rate", gauge, "Requests sent in a second, of late.")
	connectResponseRate = row(groupFamily, "response_rate", gauge, "Answers received in a second, of late.")
	connectIORate       = row(groupFamily, "network_io_rate", gauge, "Requests and answers in a second, of late.")

	consumerConnections  = row(consumerFamily, "connection_count", gauge, "Connections of the consumer.")
	consumerIn           = row(consumerFamily, "incoming_byte_total", counter, "Bytes read by the consumer.")
	consumerOut          = row(consumerFamily, "outgoing_byte_total", counter, "Bytes written by the consumer.")
	consumerPollAge      = row(consumerFamily, "last_poll_seconds_ago", gauge, "Time since the last poll.")
	consumerPollAvg      = row(consumerFamily, "time_between_poll_avg", gauge, "Mean time between two polls in ms, of late.")
	consumerPollMax      = row(consumerFamily, "time_between_poll_max", gauge, "Longest time between two polls in ms, of late.")
	consumerIdle         = row(consumerFamily, "poll_idle_ratio_avg", gauge, "Share of the time in which the consumer waits for records, of late, 0 to 1.")
	consumerFetched      = row(fetchFamily, "records_consumed_total", counter, "Records that polls gave.")
	consumerBytes        = row(fetchFamily, "bytes_consumed_total", counter, "Bytes of batches that were fetched.")
	consumerFetches      = row(fetchFamily, "fetch_total", counter, "Fetches.")
	consumerFetchAvg     = row(fetchFamily, "fetch_latency_avg", gauge, "Mean duration of a fetch in ms, of late; a fetch waits for records.")
	consumerFetchMax     = row(fetchFamily, "fetch_latency_max", gauge, "Longest duration of a fetch in ms, of late; a fetch waits for records.")
	consumerFetchSize    = row(fetchFamily, "fetch_size_avg", gauge, "Mean bytes of a fetch's answer, of late.")
	consumerLag          = row(partitionFamily, "records_lag", gauge, "Records of the partition that the consumer has not read yet.")
	consumerLead         = row(partitionFamily, "records_lead", gauge, "Records of the partition that lie before the consumer's position.")
	consumerCommitAvg    = row(consumerGroup, "commit_latency_avg", gauge, "Mean duration of a commit request in ms, of late.")
	consumerCommitRate   = row(consumerGroup, "commit_rate", gauge, "Commit requests in a second, of late.")
	consumerRebalances   = row(consumerGroup, "rebalance_rate_per_hour", gauge, "Rebalances in an hour, at the rate of late.")
	consumerNoRebalances = row(consumerGroup, "failed_rebalance_rate_per_hour", gauge, "Rebalances that failed in an hour, at the rate of late.")

	producerConnections = row(producerFamily, "connection_count", gauge, "Connections of the producer.")
	producerIn          = row(producerFamily, "incoming_byte_total", counter, "Bytes read by the producer.")
	producerOut         = row(producerFamily, "outgoing_byte_total", counter, "Bytes written by the producer.")
	producerBatch       = row(producerFamily, "batch_size_avg", gauge, "Mean bytes of a batch that was written, compressed, of late.")
	producerRecord      = row(producerFamily, "record_size_avg", gauge, "Mean bytes of a record that was written, of late.")
	producerRequest     = row(producerFamily, "request_size_avg", gauge, "Mean bytes of a request, of late.")
	producerCompression = row(producerFamily, "compression_rate_avg", gauge, "Mean size of a batch compressed, by its size before, of late.")
	producerLatency     = row(producerFamily, "request_latency_avg", gauge, "Mean duration of a request in ms, of late.")
	producerInFlight    = row(producerFamily, "requests_in_flight", gauge, "Requests that wait for an answer.")
	producerMetadata    = row(producerFamily, "metadata_age", gauge, "Age of the metadata in s.")
	producerBuffer      = row(producerFamily, "buffer_available_bytes", gauge, "Room for records on their way to the log.")
	producerWait        = row(producerFamily, "bufferpool_wait_ratio", gauge, "Share of the time in which batches wait for room, of late, 0 to 1.")
	producerSent        = row(producerFamily, "record_send_total", counter, "Records that the log has acknowledged.")
	producerErrors      = row(producerFamily, "record_error_total", counter, "Records that the log did not take.")
	producerRequests    = row(producerFamily, "request_total", counter, "Requests.")
	producerResponses   = row(producerFamily, "response_total", counter, "Answers.")

	adminConnections = row(adminFamily, "connection_count", gauge, "Connections of the client for administrative requests.")

	appVersion         = appRow(connectApp, "version_info", "version", "Version and time of the start.")
	appStarted         = row(connectApp, "start_time_seconds", gauge, "When the worker started, in seconds since 1970.")
	appStartedText     = appText(connectApp)
	consumerAppVersion = appRow(consumerApp, "version_info", "version", "Version and time of the start.")
	consumerAppStarted = row(consumerApp, "start_time_seconds", gauge, "When the consumer was made, in seconds since 1970.")
	consumerAppText    = appText(consumerApp)
	producerAppVersion = appRow(producerApp, "version_info", "version", "Version and time of the start.")
	producerAppStarted = row(producerApp, "start_time_seconds", gauge, "When the producer was made, in seconds since 1970.")
	producerAppText    = appText(producerApp)
)

func appRow(f *family, name, label, help string) *metric {
	m := untypedText(f, name, help)
	m.info = label
	return m
}

// appText is the time of the start as the long conventions have it: a label.
func appText(f *family) *metric {
	return appRow(f, "", "start_time_ms", "Version and time of the start.")
}

// notEmitted are metrics of Connect and its clients which existing dashboards know and
// this worker does not have, with the reason.
var notEmitted = map[string]string{
	"kafka_connect_io_ratio":                               "there is no selector whose thread would be busy or idle",
	"kafka_consumer_fetch_manager_fetch_throttle_time_avg": "the client does not learn which request was throttled",
	"kafka_producer_produce_throttle_time_avg":             "the client does not learn which request was throttled",
	"kafka_producer_record_queue_time_avg":                 "it would cost a clock for each record",
	"kafka_producer_record_retry_rate":                     "the client does not tell of its retries",
	"kafka_producer_topic_record_send_total":               "a source may write to any number of topics; the broker counts by topic (kafka_server_brokertopicmetrics_messagesin_total)",
	"kafka_producer_topic_byte_total":                      "a source may write to any number of topics; the broker counts by topic (kafka_server_brokertopicmetrics_bytesin_total)",
}

// MetricsNotEmitted are metrics of Connect which existing dashboards know and this
// worker does not have, each with the reason.
func MetricsNotEmitted() map[string]string { return maps.Clone(notEmitted) }
