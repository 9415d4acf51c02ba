package rest

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"millrace/runtime"
)

// An op is one operation of the API: its route, and what the API's description
// (GET /openapi.json) says of it. A GET serves HEAD, too.
type op struct {
	method, path string
	h            handler
	id, doc      string
	query        []queryParam
	headers      []queryParam // that the call wants beside the usual ones
	body         any          // a value of the body's type; nil for none
	ok           map[int]any  // by status, a value of the answer's type; nil for no body
	also         []int        // errors that belong to this call, beside those of every call
	raw          http.Handler // serves the route itself, with ok's types as media types: text
}

// A queryParam is a parameter of a call.
type queryParam struct {
	name, doc string
	values    []string // all that have a meaning; nil for any text
	many      bool     // may be given several times
}

// What several calls share.
var (
	detailParam = queryParam{name: "detail", doc: "full: also what goes beyond Connect's answer.", values: []string{"full"}}
	yesNo       = []string{"true", "false"}
	signed      = q(queryParam{name: signatureHeader, doc: "The body's HMAC under the session key, in base64."}, queryParam{name: algorithmHeader, doc: "HmacSHA256."})
)

func q(p ...queryParam) []queryParam      { return p }
func ok(status int, body any) map[int]any { return map[int]any{status: body} }
func is(statuses ...int) []int            { return statuses }
func text(media string) map[int]any       { return map[int]any{http.StatusOK: mediaType(media)} }
func flagParam(name, doc string) []queryParam {
	return q(queryParam{name: name, doc: doc, values: yesNo})
}

// ops are all operations, in the order of Connect's reference.
func (s *Server) ops() []op {
	const (
		get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete

		okay, created, accepted, nothing = http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent
		unknown, conflict                = http.StatusNotFound, http.StatusConflict
		forbidden, unavailable           = http.StatusForbidden, http.StatusServiceUnavailable
	)
	ops := []op{
		{method: get, path: "/", h: s.root, id: "root", doc: "The worker's version and the log's id.", query: q(detailParam), ok: ok(okay, rootBody{})},
		{method: get, path: "/health", h: s.health, id: "health", doc: "Whether the worker works: 503 while it starts, 500 when it does not answer or its log does not work.",
			ok: map[int]any{okay: runtime.Health{}, http.StatusServiceUnavailable: runtime.Health{}, http.StatusInternalServerError: runtime.Health{}}},

		{method: get, path: "/connectors", h: s.connectors, id: "listConnectors", doc: "The connectors' names; with expand an object by name.",
			query: q(queryParam{name: "expand", doc: "What to tell of each.", values: []string{"info", "status"}, many: true}, detailParam), ok: ok(okay, connectorList{})},
		{method: post, path: "/connectors", h: s.createConnector, id: "createConnector", doc: "Makes a connector.", body: createRequest{}, ok: ok(created, runtime.ConnectorInfo{}), also: is(conflict)},
		{method: post, path: "/connectors/preview", h: s.preview, id: "previewConnector", doc: "Runs a configuration's first records through its chain and shows each step; nothing is written.", body: previewRequest{}, ok: ok(okay, previewBody{}), also: is(unknown)},
		{method: get, path: "/connectors/{name}", h: s.connector, id: "getConnector", doc: "A connector with its configuration and tasks.", ok: ok(okay, runtime.ConnectorInfo{}), also: is(unknown)},
		{method: get, path: "/connectors/{name}/config", h: s.connectorConfig, id: "getConnectorConfig", doc: "A connector's configuration, as it was given.", ok: ok(okay, map[string]string{}), also: is(unknown)},
		{method: put, path: "/connectors/{name}/config", h: s.putConnectorConfig, id: "putConnectorConfig", doc: "Makes a connector, or replaces its configuration.", body: runtime.FlatConfig{},
			ok: map[int]any{okay: runtime.ConnectorInfo{}, created: runtime.ConnectorInfo{}}, also: is(conflict)},
		{method: patch, path: "/connectors/{name}/config", h: s.patchConnectorConfig, id: "patchConnectorConfig", doc: "Merges settings into a connector's configuration; null removes one.", body: configPatch{}, ok: ok(okay, runtime.ConnectorInfo{}), also: is(unknown, conflict)},
		{method: del, path: "/connectors/{name}", h: s.deleteConnector, id: "deleteConnector", doc: "Deletes a connector. The offsets of a source stay.", ok: ok(nothing, nil), also: is(unknown, conflict)},
		{method: get, path: "/connectors/{name}/status", h: s.connectorStatus, id: "connectorStatus", doc: "The states of a connector and its tasks.", query: q(detailParam), ok: ok(okay, statusBody{}), also: is(unknown)},
		{method: post, path: "/connectors/{name}/restart", h: s.restartConnector, id: "restartConnector", doc: "Restarts a connector (204), or what the parameters name (202).",
			query: append(flagParam("includeTasks", "Its tasks, too."), flagParam("onlyFailed", "Only what has failed.")...), ok: map[int]any{nothing: nil, accepted: statusBody{}}, also: is(unknown, conflict)},
		{method: put, path: "/connectors/{name}/pause", h: s.pauseConnector, id: "pauseConnector", doc: "Pauses a connector and its tasks, which keep what they hold.", ok: ok(accepted, nil), also: is(unknown)},
		{method: put, path: "/connectors/{name}/resume", h: s.resumeConnector, id: "resumeConnector", doc: "Lets a paused or stopped connector go on.", ok: ok(accepted, nil), also: is(unknown)},
		{method: put, path: "/connectors/{name}/stop", h: s.stopConnector, id: "stopConnector", doc: "Stops a connector: its tasks are removed, its offsets can be changed.", ok: ok(nothing, nil), also: is(unknown, conflict)},

		{method: get, path: "/connectors/{name}/tasks", h: s.tasks, id: "listTasks", doc: "A connector's tasks with their configurations.", ok: ok(okay, []runtime.TaskInfo{}), also: is(unknown)},
		{method: get, path: "/connectors/{name}/tasks/{task}/status", h: s.taskStatus, id: "taskStatus", doc: "The state of a task.", query: q(detailParam), ok: ok(okay, taskBody{}), also: is(unknown)},
		{method: post, path: "/connectors/{name}/tasks/{task}/restart", h: s.restartTask, id: "restartTask", doc: "Restarts a task.", ok: ok(nothing, nil), also: is(unknown, conflict)},

		{method: get, path: "/connectors/{name}/offsets", h: s.connectorOffsets, id: "getOffsets", doc: "Where a source's partitions, or a sink's topic partitions, stand.", ok: ok(okay, offsetsBody{}), also: is(unknown)},
		{method: patch, path: "/connectors/{name}/offsets", h: s.alterOffsets, id: "alterOffsets", doc: "Sets offsets of a stopped connector; null removes one.", body: alterRequest{}, ok: ok(okay, messageBody{}), also: is(unknown, conflict)},
		{method: del, path: "/connectors/{name}/offsets", h: s.resetOffsets, id: "resetOffsets", doc: "Removes all offsets of a stopped connector.", ok: ok(okay, messageBody{}), also: is(unknown, conflict)},
		{method: get, path: "/connectors/{name}/topics", h: s.topics, id: "getTopics", doc: "The topics that a connector has used; none of one that does not exist.", ok: ok(okay, map[string]topicsBody{}), also: is(forbidden)},
		{method: put, path: "/connectors/{name}/topics/reset", h: s.resetTopics, id: "resetTopics", doc: "Forgets the topics that a connector has used.", ok: ok(accepted, nil), also: is(forbidden)},

		{method: post, path: "/connectors/{name}/tasks", h: s.putTasks, id: "putTasks", doc: "Between workers: stores the task configurations that the connector's worker has planned.",
			query: q(queryParam{name: versionParam, doc: "Which configuration was planned: the offset of its record."}), headers: signed, body: []map[string]string{}, ok: ok(nothing, nil), also: is(unknown, conflict, forbidden, unavailable)},
		{method: post, path: "/" + partsPath, h: s.parts, id: "workerParts", doc: "Between workers: what the worker knows of its parts of connectors.",
			headers: signed, body: partsRequest{}, ok: ok(okay, map[string]statusBody{}), also: is(forbidden, unavailable)},
		{method: put, path: "/connectors/{name}/fence", h: s.fence, id: "fence", doc: "Between workers: fences the producers of a connector's former tasks.", headers: signed, ok: ok(nothing, nil), also: is(unknown, conflict, forbidden, unavailable)},

		{method: get, path: "/connector-plugins", h: s.plugins, id: "listPlugins", doc: "The plugins of the binary.", query: flagParam("connectorsOnly", "Connectors alone, unless false."), ok: ok(okay, []runtime.PluginInfo{})},
		{method: get, path: "/connector-plugins/{plugin}/config", h: s.pluginConfig, id: "pluginConfig", doc: "A plugin's settings.",
			query: q(queryParam{name: "version", doc: "A version or Maven's range of versions; the binary has one of each plugin."}), ok: ok(okay, []runtime.KeyInfo{}), also: is(unknown)},
		{method: put, path: "/connector-plugins/{plugin}/config/validate", h: s.validate, id: "validateConfig", doc: "Describes every setting of a configuration, and what is wrong with it.", body: runtime.FlatConfig{}, ok: ok(okay, runtime.ConfigInfos{})},

		{method: get, path: "/admin/loggers", h: s.loggers, id: "listLoggers", doc: "The levels of the worker's loggers.", ok: ok(okay, map[string]runtime.LoggerLevel{})},
		{method: get, path: "/admin/loggers/{logger}", h: s.logger, id: "getLogger", doc: "A logger's level.", ok: ok(okay, runtime.LoggerLevel{}), also: is(unknown)},
		{method: put, path: "/admin/loggers/{logger}", h: s.putLogger, id: "putLogger", doc: "Sets the level of a logger and all below it: on this worker (200, their names) or on all (204).",
			query: q(queryParam{name: "scope", doc: "Where.", values: []string{"worker", "cluster"}}), body: levelRequest{}, ok: map[int]any{okay: []string{}, nothing: nil}, also: is(unknown)},

		{method: get, path: "/openapi.json", h: s.openapi, id: "openapi", doc: "This description.", ok: ok(okay, anyObject{})},
	}
	if s.metrics != nil {
		ops = append(ops, op{method: get, path: "/metrics", raw: s.metrics, id: "metrics", doc: "Metrics in Prometheus's text format.", ok: text("text/plain")})
	}
	return ops
}

// pathParams describes the variable parts of the paths.
var pathParams = map[string]string{
	"name":   "A connector's name, percent-encoded: / as %2F.",
	"task":   "A task's number, from 0.",
	"logger": "A logger's name, root, or connector:NAME.",
	"plugin": "A plugin's class, its simple class name, or a short name.",
}

// routes serve the operations.
func (s *Server) routes(ops []op) *chi.Mux {
	r := chi.NewRouter()
	r.Use(EscapedPath, TrailingSlash, options(r), acceptsJSON(r))
	r.NotFound(func(w http.ResponseWriter, _ *http.Request) { writeError(w, httpError(http.StatusNotFound)) })
	r.MethodNotAllowed(func(w http.ResponseWriter, _ *http.Request) { writeError(w, httpError(http.StatusMethodNotAllowed)) })
	for _, o := range ops {
		h := o.raw
		switch {
		case h != nil:
		case o.body != nil:
			h = s.handleBody(o.h)
		default:
			h = s.handle(o.h)
		}
		r.Method(o.method, o.path, h)
		if o.method == http.MethodGet {
			r.Method(http.MethodHead, o.path, h)
		}
	}
	return r
}
