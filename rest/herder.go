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
	Offsets(ctx context.Context, name string) ([]runtime.OffsetInfo, error)

	// PutConfig validates and stores a configuration. With allowReplace false a
	// connector of that name is an ExistsError. initial is "" for the state it has, or
	// STARTED for a new one. created says that there was none before.
	PutConfig(ctx context.Context, name string, config map[string]string, initial runtime.TargetState, allowReplace bool) (info runtime.ConnectorInfo, created bool, err error)
	Delete(ctx context.Context, name string) error
	SetTargetState(ctx context.Context, name string, state runtime.TargetState) error
	// RestartConnector restarts the connector alone.
	RestartConnector(ctx context.Context, name string) error
	// Restart restarts what the flags name; the status it returns shows what restarts.
	Restart(ctx context.Context, name string, includeTasks, onlyFailed bool) (runtime.Status, error)
	RestartTask(ctx context.Context, id runtime.TaskID) error

	Validate(ctx context.Context, config map[string]string) (runtime.ConfigInfos, error)
	Plugins(connectorsOnly bool) []runtime.PluginInfo
	PluginConfig(ctx context.Context, plugin string) ([]runtime.KeyInfo, error)
}
