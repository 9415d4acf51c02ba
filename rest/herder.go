package rest

import (
	"context"

	"millrace/runtime"
)

// Herder is what the API asks of the worker pool. All methods may be called
// concurrently, block until done or ctx ends, and return the errors of package
// runtime: NotFoundError, ExistsError, BadRequestError, ConflictError.
type Herder interface {
	ClusterID() string // of the log
	WorkerID() string
	Health(ctx context.Context) runtime.Health

	Connectors(ctx context.Context) ([]string, error)
	Connector(ctx context.Context, name string) (runtime.ConnectorInfo, error)
	Config(ctx context.Context, name string) (map[string]string, error)
	Tasks(ctx context.Context, name string) ([]runtime.TaskInfo, error)
	Status(ctx context.Context, name string) (runtime.Status, error)
	TaskStatus(ctx context.Context, id runtime.TaskID) (runtime.TaskStatus, error)
	// StatusDetail and TaskStatusDetail are these with the progress of the worker's own tasks.
	StatusDetail(ctx context.Context, name string) (runtime.Status, error)
	TaskStatusDetail(ctx context.Context, id runtime.TaskID) (runtime.TaskStatus, error)
	Offsets(ctx context.Context, name string) ([]runtime.OffsetInfo, error)
	// AlterOffsets and ResetOffsets change the offsets of a stopped connector. done says
	// that the connector keeps none of its own elsewhere.
	AlterOffsets(ctx context.Context, name string, offsets []runtime.OffsetInfo) (done bool, err error)
	ResetOffsets(ctx context.Context, name string) (done bool, err error)
	// Topics are those that a connector used; they and ForgetTopics are a ForbiddenError
	// where the worker does not track them.
	Topics(ctx context.Context, name string) ([]string, error)
	ForgetTopics(ctx context.Context, name string) error

	// PutConfig validates and stores a configuration. With allowReplace false a
	// connector of that name is an ExistsError. initial is "" for the state it has, or
	// STARTED for a new one. created says that there was none before.
	PutConfig(ctx context.Context, name string, config map[string]string, initial runtime.TargetState, allowReplace bool) (info runtime.ConnectorInfo, created bool, err error)
	// PatchConfig merges settings into a stored configuration; a null removes one.
	PatchConfig(ctx context.Context, name string, patch runtime.FlatConfig) (runtime.ConnectorInfo, error)
	Delete(ctx context.Context, name string) error
	SetTargetState(ctx context.Context, name string, state runtime.TargetState) error
	// RestartConnector restarts the connector alone.
	RestartConnector(ctx context.Context, name string) error
	// Restart restarts what the flags name; the status it returns shows what restarts.
	Restart(ctx context.Context, name string, includeTasks, onlyFailed bool) (runtime.Status, error)
	RestartTask(ctx context.Context, id runtime.TaskID) error

	// PutTasks and Fence are what another worker of the group asks its leader. body is the
	// request's, which the signature is of; version is of the configuration that was planned, -1 where it is not said.
	PutTasks(ctx context.Context, name string, version int64, tasks []map[string]string, body []byte, s runtime.Signature) error
	Fence(ctx context.Context, name string, body []byte, s runtime.Signature) error
	// Sign signs what goes to another worker of the group. VerifyWorker refuses what none of them has signed.
	Sign(body []byte) (runtime.Signature, error)
	VerifyWorker(body []byte, s runtime.Signature) error
	// WorkerURL is the address, ending in a slash, of the API of the worker that statuses call so.
	WorkerURL(workerID string) (string, error)

	// Loggers are the levels of this worker's loggers; SetLogger returns the names of those
	// that it set, SetClusterLogger sets them on all workers.
	Loggers() map[string]runtime.LoggerLevel
	Logger(name string) (runtime.LoggerLevel, error)
	SetLogger(name, level string) ([]string, error)
	SetClusterLogger(ctx context.Context, name, level string) error

	// Preview runs the first records of a configuration, nil for the named connector's
	// own, through its chain and writes nothing.
	Preview(ctx context.Context, name string, config map[string]string, records int) (runtime.Preview, error)

	Validate(ctx context.Context, config map[string]string) (runtime.ConfigInfos, error)
	Plugins(connectorsOnly bool) []runtime.PluginInfo
	PluginConfig(ctx context.Context, plugin string) ([]runtime.KeyInfo, error)
}
