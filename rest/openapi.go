package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"

	"millrace/runtime"
	"millrace/schema"
)

// The API's description is made of the table of operations and of the Go types of
// bodies and answers, so that neither a route nor a field can be missing in it.

// A mediaType stands in an op for an answer that is no JSON.
type mediaType string

// An anyObject is an object of which the description says no more.
type anyObject map[string]any

// connectorList is what GET /connectors answers: names, or an object with expand.
type connectorList struct{}

// object is a JSON object of the description.
type object = map[string]any

func (s *Server) openapi(*http.Request) (any, error) {
	text, err := s.description()
	return json.RawMessage(text), err // an error is a mistake in our own table
}

var pathParam = regexp.MustCompile(`\{([a-z]+)\}`)

// describeAPI is the OpenAPI document of the operations.
func describeAPI(ops []op) ([]byte, error) {
	d := describer{schemas: object{}}
	paths := map[string]object{}
	for _, o := range ops {
		path := paths[o.path]
		if path == nil {
			path = object{}
			paths[o.path] = path
			var params []any
			for _, m := range pathParam.FindAllStringSubmatch(o.path, -1) {
				doc, known := pathParams[m[1]]
				if !known {
					return nil, fmt.Errorf("path %s: the part %s is not described", o.path, m[1])
				}
				params = append(params, object{"name": m[1], "in": "path", "required": true, "description": doc, "schema": object{"type": "string"}})
			}
			if params != nil {
				path["parameters"] = params
			}
		}
		path[strings.ToLower(o.method)] = d.operation(o)
	}
	d.schemas["Error"] = object{"type": "object", "required": []string{"error_code", "message"}, "additionalProperties": false,
		"properties": object{"error_code": object{"type": "integer", "description": "The answer's status."}, "message": object{"type": "string"}}}
	return encode(object{
		"openapi": "3.0.3",
		"info": object{"title": "Millrace", "version": schema.ConnectVersion,
			"description": "Kafka Connect's REST API as Millrace serves it. The version is that of Connect whose answers are given."},
		"paths":      paths,
		"components": object{"schemas": d.schemas, "responses": object{"Error": errorResponse("Why the call was refused or failed.")}},
	})
}

func errorResponse(doc string) object {
	return object{"description": doc, "content": object{"application/json": object{"schema": ref("schemas", "Error")}}}
}

func ref(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

type describer struct{ schemas object }

func (d *describer) operation(o op) object {
	out := object{"operationId": o.id, "summary": o.doc, "tags": []string{tag(o.path)}}
	var params []any
	for _, p := range o.query {
		params = append(params, describeParam(p, "query"))
	}
	for _, p := range o.headers {
		params = append(params, describeParam(p, "header"))
	}
	if params != nil {
		out["parameters"] = params
	}
	if o.body != nil {
		out["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": d.of(reflect.TypeOf(o.body))}}}
	}
	answers := object{"default": ref("responses", "Error")}
	for status, body := range o.ok {
		a := object{"description": http.StatusText(status)}
		switch media := body.(type) {
		case nil:
		case mediaType:
			a["content"] = object{string(media): object{"schema": object{"type": "string"}}}
		default:
			a["content"] = object{"application/json": object{"schema": d.of(reflect.TypeOf(body))}}
		}
		if status == http.StatusCreated {
			a["headers"] = object{"Location": object{"required": true, "description": "Where the connector is.", "schema": object{"type": "string"}}}
		}
		answers[fmt.Sprint(status)] = a
	}
	for _, status := range o.also {
		answers[fmt.Sprint(status)] = errorResponse(map[int]string{
			http.StatusNotFound: "There is no such thing.", http.StatusConflict: "It exists, or the workers are settling: try again.",
			http.StatusForbidden: "It is not allowed.", http.StatusServiceUnavailable: "Not yet: try again.",
		}[status])
	}
	out["responses"] = answers
	return out
}

func describeParam(p queryParam, in string) object {
	s := object{"type": "string"}
	if p.values != nil {
		s["enum"] = p.values
	}
	out := object{"name": p.name, "in": in, "description": p.doc, "schema": s}
	if p.many {
		out["schema"] = object{"type": "array", "items": s}
	}
	return out
}

// tag groups operations in tools that show them.
func tag(path string) string {
	switch {
	case strings.HasPrefix(path, "/connector-plugins"):
		return "Plugins"
	case strings.HasPrefix(path, "/connectors"):
		return "Connectors"
	case strings.HasPrefix(path, "/admin"):
		return "Logging"
	}
	return "Worker"
}

// componentNames are what types are called in the description, where not as in Go.
var componentNames = map[reflect.Type]string{
	reflect.TypeFor[statusBody]():    "ConnectorStatus",
	reflect.TypeFor[taskBody]():      "TaskStatus",
	reflect.TypeFor[partBody]():      "PartStatus",
	reflect.TypeFor[expanded]():      "ExpandedConnector",
	reflect.TypeFor[createRequest](): "CreateConnector",
	reflect.TypeFor[offsetsBody]():   "Offsets",
	reflect.TypeFor[offsetBody]():    "Offset",
	reflect.TypeFor[rootBody]():      "WorkerInfo",
}

// of is the schema of a type's JSON. A struct with a name becomes a component.
func (d *describer) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[runtime.FlatConfig]():
		return d.component("Config", func() object { return flatConfig(false) })
	case reflect.TypeFor[configPatch]():
		return d.component("ConfigPatch", func() object { return flatConfig(true) })
	case reflect.TypeFor[connectorList]():
		return object{"oneOf": []any{
			object{"type": "array", "items": object{"type": "string"}},
			object{"type": "object", "additionalProperties": d.of(reflect.TypeFor[expanded]())},
		}}
	case reflect.TypeFor[json.RawMessage]():
		return object{"type": "object", "nullable": true}
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[runtime.State]():
		return enum(runtime.Unassigned, runtime.Running, runtime.Paused, runtime.Failed, runtime.Restarting, runtime.Stopped)
	case reflect.TypeFor[runtime.Type]():
		return enum(runtime.SourceType, runtime.SinkType, runtime.UnknownType)
	}
	switch t.Kind() {
	case reflect.Pointer:
		s := d.of(t.Elem())
		if _, isRef := s["$ref"]; isRef {
			return object{"allOf": []any{s}, "nullable": true}
		}
		s["nullable"] = true
		return s
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": d.of(t.Elem())}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return object{"type": "object"}
		}
		return object{"type": "object", "additionalProperties": d.of(t.Elem())}
	case reflect.Struct:
		name := componentNames[t]
		if name == "" {
			name = t.Name()
		}
		return d.component(name, func() object { return d.structure(t) })
	}
	panic("rest: a body of type " + t.String() + " cannot be described") // found by any test
}

func (d *describer) component(name string, schema func() object) object {
	if _, done := d.schemas[name]; !done {
		d.schemas[name] = object{} // ends recursion
		d.schemas[name] = schema()
	}
	return ref("schemas", name)
}

func (d *describer) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	d.fields(t, properties, &required, false)
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// fields adds a struct's fields as encoding/json writes them: those of embedded
// structs are its own, and behind an embedded pointer they may be missing.
func (d *describer) fields(t reflect.Type, properties object, required *[]string, maybe bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			d.fields(inner, properties, required, maybe || f.Type.Kind() == reflect.Pointer)
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		optional := maybe || strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		ft := f.Type
		if optional && ft.Kind() == reflect.Pointer {
			ft = ft.Elem() // absent, never null
		}
		properties[name] = d.of(ft)
		if !optional {
			*required = append(*required, name)
		}
	}
}

func enum[S ~string](values ...S) object {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return object{"type": "string", "enum": list}
}

// flatConfig is a configuration: texts, or numbers and booleans that are taken as
// texts; with null for a setting that a patch removes.
func flatConfig(nulls bool) object {
	value := object{"oneOf": []any{object{"type": "string"}, object{"type": "number"}, object{"type": "boolean"}}}
	if nulls {
		value["nullable"] = true
	}
	return object{"type": "object", "additionalProperties": value}
}

// configPatch is the body of a PATCH of a configuration.
type configPatch struct{ runtime.FlatConfig }
