package runtime

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/schema"
)

// A TaskID names a task.
type TaskID struct {
	Connector string `json:"connector"`
	Task      int    `json:"task"`
}

func (id TaskID) String() string { return fmt.Sprintf("%s-%d", id.Connector, id.Task) }

// State is what a connector or task does, as clients see it.
type State string

// Connect's states.
const (
	Unassigned State = "UNASSIGNED"
	Running    State = "RUNNING"
	Paused     State = "PAUSED"
	Failed     State = "FAILED"
	Restarting State = "RESTARTING"
	Stopped    State = "STOPPED"
)

// MaxNameBytes bounds the name of a connector. Assignments, group names and client
// ids hold it behind a length of 16 bits: a longer one would cut every worker of the
// group off, and again at each start.
const MaxNameBytes = 1024

// TargetState is what a connector shall do, as the config topic spells it.
type TargetState string

// Connect's target states. Connect's clients write RUNNING for Started.
const (
	Started       TargetState = "STARTED"
	PausedTarget  TargetState = "PAUSED"
	StoppedTarget TargetState = "STOPPED"
)

// InitialState reads the state in which a client wants a new connector: RUNNING,
// PAUSED or STOPPED, in any case. Anything else is a BadRequestError.
func InitialState(text string) (TargetState, error) {
	switch strings.ToUpper(text) {
	case "RUNNING":
		return Started, nil
	case "PAUSED":
		return PausedTarget, nil
	case "STOPPED":
		return StoppedTarget, nil
	}
	return "", BadRequest("initial_state %q is none of RUNNING, PAUSED, STOPPED", text)
}

// Type is a connector's kind.
type Type string

// Connect's types of connectors.
const (
	SourceType  Type = "source"
	SinkType    Type = "sink"
	UnknownType Type = "unknown"
)

// ConnectorInfo is a connector as Connect's REST shows it.
type ConnectorInfo struct {
	Name   string            `json:"name"`
	Config map[string]string `json:"config"`
	Tasks  []TaskID          `json:"tasks"`
	Type   Type              `json:"type"`
}

// TaskInfo is a task with its configuration.
type TaskInfo struct {
	ID     TaskID            `json:"id"`
	Config map[string]string `json:"config"`
}

// Status is the state of a connector and its tasks.
type Status struct {
	Name      string
	Type      Type
	Connector PartStatus
	Tasks     []TaskStatus // by id
}

// TaskStatus is the state of a task.
type TaskStatus struct {
	ID int
	PartStatus
}

// PartStatus is the state of a connector or of one task.
type PartStatus struct {
	State    State
	WorkerID string
	Version  string // of the plugin; "" where unknown
	Trace    string // why it failed; "" otherwise
	// What follows is shown only with detail. It is known of this worker's own parts alone.
	Here     bool           // the part is this worker's: what follows is known
	Since    time.Time      // of the state, or of the start that led to it; zero: unknown
	Failure  *FailureDetail // why it failed; nil otherwise
	Restarts int            // automatic restarts in a row
	Most     int            // of them, until it is given up; 0: without end, or none at all
	Next     time.Time      // of the next automatic restart; zero for none
	GivesUp  time.Time      // when the last one is at the earliest; zero: never, or it has
	Stall    *StallDetail   // a task that runs and gets no further
	Progress *TaskProgress  // of a task; nil where it was not asked for, or never ran here
}

// FailureDetail is why a part failed. The code of a failure that no connector has
// declared is UnknownReason.
type FailureDetail struct {
	Code    string    `json:"code"`
	Summary string    `json:"summary"`
	Since   time.Time `json:"since"`
	Remedy  string    `json:"remedy,omitempty"`
	Retry   string    `json:"retry"` // "helps", "unknown", "never"
}

// UnknownReason is the code of a failure whose reason nobody has declared.
const UnknownReason = "unknown"

// StallDetail is why a task that runs gets no further.
type StallDetail struct {
	Code    string     `json:"code"`
	Reason  string     `json:"reason"` // a sentence
	Since   time.Time  `json:"since"`
	Remedy  string     `json:"remedy"`
	Restart *time.Time `json:"restart_at,omitempty"` // nil: it is not restarted for it
}

// TaskProgress is where a task is.
type TaskProgress struct {
	Moved   time.Time       // when it last got on
	Lag     int64           // of a sink, records; -1: unknown
	Offsets []OffsetInfo    // of a source: what is stored
	Parts   []PartProgress  // of a sink
	More    int             // offsets or partitions beyond those
	Reading *SourceProgress // of a source that can tell
	Figures []Figure        // the connector's own, as /metrics has them
}

// A Figure is one of a connector's own metrics.
type Figure struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value"`
}

// SourceProgress is where a source reads, as it says itself.
type SourceProgress struct {
	Position string            `json:"position"`
	Behind   *int64            `json:"behind_bytes,omitempty"` // nil: unknown
	Snapshot *SnapshotProgress `json:"snapshot,omitempty"`
}

// SnapshotProgress is how far a source's snapshot is.
type SnapshotProgress struct {
	State      string          `json:"state"` // "running", "completed", "aborted", "skipped"
	Began      *time.Time      `json:"began,omitempty"`
	Ended      *time.Time      `json:"ended,omitempty"`
	Seconds    float64         `json:"seconds"` // that it took, or takes so far
	Rows       int64           `json:"rows"`
	TableCount int             `json:"tables_total"`
	TablesDone int             `json:"tables_done"`
	Tables     []SnapshotTable `json:"tables"`
	More       int             `json:"more,omitempty"` // tables beyond those
}

// SnapshotTable is how far a snapshot is with one table.
type SnapshotTable struct {
	Table    string `json:"table"`
	State    string `json:"state"` // "waiting", "reading", "done"
	Rows     int64  `json:"rows"`
	Expected *int64 `json:"rows_expected,omitempty"` // as the source estimates; nil: it cannot say
}

// PartProgress is where a sink task is in a partition.
type PartProgress struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Position  int64  `json:"position"`            // of the next record to read
	Done      int64  `json:"done"`                // behind what the target has taken
	Committed *int64 `json:"committed,omitempty"` // nil: nothing is
	End       *int64 `json:"end,omitempty"`       // of what may be read; nil: unknown
	Lag       *int64 `json:"lag,omitempty"`       // End - Done
}

// OffsetInfo is the position of a source partition, or of a topic partition of a sink.
type OffsetInfo struct {
	Partition, Offset schema.Value
}

// A Signature is what a worker proves a request to another with: an HMAC of the body
// under the group's session key.
type Signature struct {
	Algorithm string // "HmacSHA256"
	MAC       []byte
}

// A NotFoundError names what there is none of. Its text is Connect's.
type NotFoundError struct{ Msg string }

func (e *NotFoundError) Error() string { return e.Msg }

// An ExistsError says that a connector of that name exists.
type ExistsError struct{ Name string }

func (e *ExistsError) Error() string { return fmt.Sprintf("Connector %s already exists", e.Name) }

// A BadRequestError says what is wrong with what a client sent.
type BadRequestError struct{ Msg string }

func (e *BadRequestError) Error() string { return e.Msg }

// A ConflictError says why a request cannot be served now: workers are settling.
// Clients try again.
type ConflictError struct{ Msg string }

func (e *ConflictError) Error() string { return e.Msg }

// A ForbiddenError says what the worker's settings, or a missing proof, forbid.
type ForbiddenError struct{ Msg string }

func (e *ForbiddenError) Error() string { return e.Msg }

// An UnavailableError says what the worker does not have yet. Clients try again.
type UnavailableError struct{ Msg string }

func (e *UnavailableError) Error() string { return e.Msg }

// A ForwardError is a ConflictError for whom cannot forward: another worker must serve
// the request, the one whose API is at URL; "" where that is not known now.
type ForwardError struct {
	URL string
	ConflictError
}

// Unwrap makes it a ConflictError.
func (e *ForwardError) Unwrap() error { return &e.ConflictError }

// NotFound, BadRequest and Conflict make errors with a formatted text.
func NotFound(format string, a ...any) error   { return &NotFoundError{fmt.Sprintf(format, a...)} }
func BadRequest(format string, a ...any) error { return &BadRequestError{fmt.Sprintf(format, a...)} }
func Conflict(format string, a ...any) error   { return &ConflictError{fmt.Sprintf(format, a...)} }

// ConfigInfos is the answer to a validation.
type ConfigInfos struct {
	Name       string       `json:"name"`
	ErrorCount int          `json:"error_count"`
	Groups     []string     `json:"groups"`
	Configs    []ConfigInfo `json:"configs"`

	// Ignored are the given settings of the connector that have no effect, which Connect's answer has not; none where all have one.
	Ignored []IgnoredSetting `json:"ignored,omitempty"`
}

// IgnoredSetting is a setting that is accepted and has no effect, with the reason.
type IgnoredSetting struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// ConfigInfo is one setting of a validation: what it is and what was given.
type ConfigInfo struct {
	Definition *KeyInfo  `json:"definition"` // nil for a client's setting that nobody knows
	Value      ValueInfo `json:"value"`
}

// KeyInfo describes a setting.
type KeyInfo struct {
	Name          string   `json:"name"`
	Type          string   `json:"type"`
	Required      bool     `json:"required"`
	DefaultValue  *string  `json:"default_value"`
	Importance    string   `json:"importance"`
	Documentation string   `json:"documentation"`
	Group         *string  `json:"group"`
	OrderInGroup  int      `json:"order_in_group"`
	Width         string   `json:"width"`
	DisplayName   string   `json:"display_name"`
	Dependents    []string `json:"dependents"`
}

// ValueInfo is a setting's value and what is wrong with it.
type ValueInfo struct {
	Name              string   `json:"name"`
	Value             *string  `json:"value"`
	RecommendedValues []string `json:"recommended_values"`
	Errors            []string `json:"errors"`
	Visible           bool     `json:"visible"`
}

// PluginInfo is a plugin as lists show it.
type PluginInfo struct {
	Class   string `json:"class"`
	Type    string `json:"type"` // source, sink, transformation, predicate, converter, header_converter
	Version string `json:"version,omitempty"`

	Names []string `json:"-"` // all names by which users may call it
}

// Is reports whether name is one of the plugin's.
func (p PluginInfo) Is(name string) bool { return slices.Contains(p.Names, name) }

// Health is what a worker says of itself.
type Health struct {
	Status  string `json:"status"` // healthy, starting, unhealthy
	Message string `json:"message"`
}

// LoggerLevel is what a logger writes: TRACE, DEBUG, INFO, WARN, ERROR, FATAL or OFF and
// what is above it.
type LoggerLevel struct {
	Level    string `json:"level"`
	Modified *int64 `json:"last_modified"` // ms since the epoch; nil where nobody set it
}
