package client

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Info is a connector: its configuration and tasks.
type Info struct {
	Name   string            `json:"name"`
	Config map[string]string `json:"config"`
	Tasks  []TaskID          `json:"tasks"`
	Type   string            `json:"type"` // source, sink, unknown
}

// TaskID names a task.
type TaskID struct {
	Connector string `json:"connector"`
	Task      int    `json:"task"`
}

// Status is what a connector and its tasks do.
type Status struct {
	Name      string `json:"name"`
	Connector Part   `json:"connector"`
	Tasks     []Task `json:"tasks"`
	Type      string `json:"type"`
}

// Part is the state of a connector, or of a task.
type Part struct {
	State    string `json:"state"`
	WorkerID string `json:"worker_id"`
	Version  string `json:"version,omitempty"`
	Trace    string `json:"trace,omitempty"`
	Detail
}

// Detail is what Millrace adds on demand; a JVM worker says none of it.
type Detail struct {
	NoAnswer    string          `json:"no_answer,omitempty"` // why the part's worker does not say more than its state
	Reason      *Reason         `json:"reason,omitempty"`
	Restarts    int             `json:"restarts,omitempty"`
	NextRestart *time.Time      `json:"next_restart,omitempty"`
	Since       *time.Time      `json:"since,omitempty"`
	Stalled     *Stall          `json:"stalled,omitempty"`
	Lag         *int64          `json:"lag,omitempty"`
	Position    json.RawMessage `json:"position,omitempty"`
}

// Reason is why something failed, and what to do.
type Reason struct {
	Code    string `json:"code"`
	Summary string `json:"summary"`
	Remedy  string `json:"remedy,omitempty"`
	Retry   string `json:"retry"`
}

// Stall is what keeps a running task from getting on.
type Stall struct {
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// Task is the state of one task.
type Task struct {
	ID int `json:"id"`
	Part
}

// Expanded is a connector of the list with all about it.
type Expanded struct {
	Info   Info   `json:"info"`
	Status Status `json:"status"`
}

// Root is who answers.
type Root struct {
	Version   string `json:"version"`
	Commit    string `json:"commit"`
	ClusterID string `json:"kafka_cluster_id"`
	Kafka     string `json:"kafka"`    // bootstrap address, from Millrace alone
	Registry  string `json:"registry"` // address of its schema registry, from Millrace alone
	// Topics are those in which the worker keeps its state, from Millrace alone.
	Topics []string `json:"internal_topics"`
}

// Root asks who answers, and where its Kafka port is.
func (c *Client) Root(ctx context.Context) (r Root, err error) {
	err = c.call(ctx, http.MethodGet, "/?detail=full", nil, &r)
	return r, err
}

// List is all connectors by name. A connector that has no status yet has none.
func (c *Client) List(ctx context.Context) (map[string]Expanded, error) {
	var out map[string]Expanded
	err := c.call(ctx, http.MethodGet, "/connectors?expand=info&expand=status&detail=full", nil, &out)
	return out, err
}

// Names are the connectors' names.
func (c *Client) Names(ctx context.Context) (names []string, err error) {
	err = c.call(ctx, http.MethodGet, "/connectors", nil, &names)
	return names, err
}

// Connector is one connector.
func (c *Client) Connector(ctx context.Context, name string) (i Info, err error) {
	err = c.call(ctx, http.MethodGet, path("connectors", name), nil, &i)
	return i, err
}

// Status is one connector's state, with what Millrace adds.
func (c *Client) Status(ctx context.Context, name string) (s Status, err error) {
	err = c.call(ctx, http.MethodGet, path("connectors", name, "status")+"?detail=full", nil, &s)
	return s, err
}

type createBody struct {
	Name    string            `json:"name"`
	Config  map[string]string `json:"config"`
	Initial string            `json:"initial_state,omitempty"`
}

// Create makes a connector; one of that name is an Error with status 409.
func (c *Client) Create(ctx context.Context, name string, config map[string]string, initial string) (i Info, err error) {
	err = c.call(ctx, http.MethodPost, "/connectors", createBody{name, config, initial}, &i)
	return i, err
}

// Put makes or replaces a connector.
func (c *Client) Put(ctx context.Context, name string, config map[string]string) (i Info, err error) {
	err = c.call(ctx, http.MethodPut, path("connectors", name, "config"), config, &i)
	return i, err
}

// Delete removes a connector.
func (c *Client) Delete(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, path("connectors", name), nil, nil)
}

// Pause, Resume and Stop set what a connector shall do.
func (c *Client) Pause(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPut, path("connectors", name, "pause"), nil, nil)
}

// Resume sets a connector and its tasks going.
func (c *Client) Resume(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPut, path("connectors", name, "resume"), nil, nil)
}

// Stop ends a connector's tasks.
func (c *Client) Stop(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPut, path("connectors", name, "stop"), nil, nil)
}

// Restart restarts the connector, and its tasks as the flags say.
func (c *Client) Restart(ctx context.Context, name string, includeTasks, onlyFailed bool) error {
	q := url.Values{"includeTasks": {strconv.FormatBool(includeTasks)}, "onlyFailed": {strconv.FormatBool(onlyFailed)}}
	return c.call(ctx, http.MethodPost, path("connectors", name, "restart")+"?"+q.Encode(), nil, nil)
}

// RestartTask restarts one task.
func (c *Client) RestartTask(ctx context.Context, name string, task int) error {
	return c.call(ctx, http.MethodPost, path("connectors", name, "tasks", strconv.Itoa(task), "restart"), nil, nil)
}

// Offset is where a connector stands in one source partition, or topic partition.
type Offset struct {
	Partition json.RawMessage `json:"partition"`
	Offset    json.RawMessage `json:"offset"`
}

// Offsets are where a connector stands, and what to set.
type Offsets struct {
	Offsets []Offset `json:"offsets"`
}

// Offsets asks where a connector stands.
func (c *Client) Offsets(ctx context.Context, name string) (o Offsets, err error) {
	err = c.call(ctx, http.MethodGet, path("connectors", name, "offsets"), nil, &o)
	return o, err
}

type message struct {
	Message string `json:"message"`
}

// SetOffsets alters the offsets of a stopped connector; it returns the server's words.
func (c *Client) SetOffsets(ctx context.Context, name string, o Offsets) (string, error) {
	var m message
	err := c.call(ctx, http.MethodPatch, path("connectors", name, "offsets"), o, &m)
	return m.Message, err
}

// ResetOffsets forgets all offsets of a stopped connector.
func (c *Client) ResetOffsets(ctx context.Context, name string) (string, error) {
	var m message
	err := c.call(ctx, http.MethodDelete, path("connectors", name, "offsets"), nil, &m)
	return m.Message, err
}

// Plugin is one entry of the list of plugins.
type Plugin struct {
	Class   string `json:"class"`
	Type    string `json:"type"`
	Version string `json:"version,omitempty"`
}

// Plugins lists all kinds.
func (c *Client) Plugins(ctx context.Context) (p []Plugin, err error) {
	err = c.call(ctx, http.MethodGet, "/connector-plugins?connectorsOnly=false", nil, &p)
	return p, err
}

// Key is a setting that a plugin declares.
type Key struct {
	Name         string  `json:"name"`
	Type         string  `json:"type"`
	Required     bool    `json:"required"`
	Default      *string `json:"default_value"`
	Importance   string  `json:"importance"`
	Doc          string  `json:"documentation"`
	Group        *string `json:"group"`
	OrderInGroup int     `json:"order_in_group"`
}

// ConfigKeys are a plugin's settings.
func (c *Client) ConfigKeys(ctx context.Context, plugin string) (k []Key, err error) {
	err = c.call(ctx, http.MethodGet, path("connector-plugins", plugin, "config"), nil, &k)
	return k, err
}

// Validation is what a worker says of a configuration.
type Validation struct {
	Name       string   `json:"name"`
	ErrorCount int      `json:"error_count"`
	Groups     []string `json:"groups"`
	Configs    []struct {
		Definition Key `json:"definition"`
		Value      struct {
			Name   string   `json:"name"`
			Value  *string  `json:"value"`
			Errors []string `json:"errors"`
		} `json:"value"`
	} `json:"configs"`
	Ignored []struct {
		Name   string `json:"name"`
		Reason string `json:"reason"`
	} `json:"ignored"` // settings that are accepted and have no effect; an older worker and Connect tell of none
}

// Validate has a worker check a configuration, which must hold connector.class.
func (c *Client) Validate(ctx context.Context, config map[string]string) (v Validation, raw json.RawMessage, err error) {
	class := config["connector.class"]
	if err = c.call(ctx, http.MethodPut, path("connector-plugins", class, "config", "validate"), config, &raw); err != nil || c.Printing() {
		return v, raw, err
	}
	err = json.Unmarshal(raw, &v)
	return v, raw, err
}

// Raw is any answer of a GET as JSON: numbers are json.Number.
func (c *Client) Raw(ctx context.Context, path string) (any, error) {
	var raw json.RawMessage
	if err := c.call(ctx, http.MethodGet, path, nil, &raw); err != nil || raw == nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// Path is a path of parts, each of them encoded, for Raw.
func Path(parts ...string) string { return path(parts...) }

// PreviewRequest asks what the first records of a configuration, or of the connector
// called name, become.
type PreviewRequest struct {
	Name    string            `json:"name,omitempty"`
	Config  map[string]string `json:"config,omitempty"`
	Records int               `json:"records"`
}

// Preview is what they become.
type Preview struct {
	Type    string `json:"type"`
	Ended   bool   `json:"ended"`
	Records []struct {
		Where string        `json:"where"`
		Steps []PreviewStep `json:"steps"`
	} `json:"records"`
}

// PreviewStep is what one step made of a record.
type PreviewStep struct {
	Name    string          `json:"name"`
	Class   string          `json:"class"`
	Topic   string          `json:"topic"`
	Key     json.RawMessage `json:"key"`
	Value   json.RawMessage `json:"value"`
	Headers json.RawMessage `json:"headers"`
	Passed  bool            `json:"passed"`
	Dropped bool            `json:"dropped"`
	Error   string          `json:"error"`
}

// Preview has a worker run the first records through the chain. Only Millrace can.
func (c *Client) Preview(ctx context.Context, r PreviewRequest) (p Preview, raw json.RawMessage, err error) {
	if err = c.call(ctx, http.MethodPost, "/connectors/preview", r, &raw); err != nil || c.Printing() {
		return p, raw, err
	}
	err = json.Unmarshal(raw, &p)
	return p, raw, err
}
