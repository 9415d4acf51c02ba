package rest

import (
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"millrace/runtime"
	"millrace/schema"
	"millrace/schema/converters"
)

// previewRequest is the body of POST /connectors/preview: a configuration, or the name of
// a connector whose own is meant.
type previewRequest struct {
	Name    string              `json:"name,omitempty"`
	Config  *runtime.FlatConfig `json:"config,omitempty"`
	Records *int                `json:"records,omitempty"`
}

type previewBody struct {
	Type    runtime.Type        `json:"type"`
	Records []previewRecordBody `json:"records"`
	// Ended says that there are no more records than these.
	Ended bool `json:"ended"`
}

type previewRecordBody struct {
	Where string            `json:"where"`
	Steps []previewStepBody `json:"steps"`
}

type previewStepBody struct {
	Name        string              `json:"name"`
	Class       string              `json:"class"`
	Topic       string              `json:"topic"`
	Partition   *int32              `json:"partition,omitempty"`
	Timestamp   *int64              `json:"timestamp,omitempty"`
	Key         json.RawMessage     `json:"key"`
	Value       json.RawMessage     `json:"value"`
	KeySchema   json.RawMessage     `json:"key_schema,omitempty"`
	ValueSchema json.RawMessage     `json:"value_schema,omitempty"`
	Headers     []previewHeaderBody `json:"headers,omitempty"`
	Passed      bool                `json:"passed,omitempty"` // a predicate let the record by
	Dropped     bool                `json:"dropped,omitempty"`
	Error       string              `json:"error,omitempty"`
}

type previewHeaderBody struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

func (s *Server) preview(r *http.Request) (any, error) {
	var body previewRequest
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	records := runtime.PreviewRecords
	if body.Records != nil {
		records = *body.Records
	}
	if records < 1 || records > runtime.MaxPreviewRecords {
		return nil, runtime.BadRequest("records is %d; want 1 to %d", records, runtime.MaxPreviewRecords)
	}
	var config map[string]string
	switch {
	case body.Config != nil:
		var err error
		if config, err = required(body.Config); err != nil {
			return nil, err
		}
	case body.Name == "":
		return nil, runtime.BadRequest(`send "config", or the "name" of a connector`)
	}
	p, err := s.herder.Preview(r.Context(), body.Name, config, records)
	if err != nil {
		return nil, err
	}
	return newPreviewBody(p)
}

// previewer shows records as JSON.
type previewer struct{ plain, withSchema converters.Converter }

func newPreviewBody(p runtime.Preview) (previewBody, error) {
	b := previewBody{Type: p.Type, Ended: p.Ended, Records: []previewRecordBody{}}
	var show previewer
	for to, enable := range map[*converters.Converter]string{&show.plain: "false", &show.withSchema: "true"} {
		c, errs := converters.JSON.Make(map[string]string{"schemas.enable": enable, "decimal.format": "NUMERIC"}, false)
		if len(errs) > 0 {
			return b, errs[0]
		}
		*to = c
	}
	for _, r := range p.Records {
		rb := previewRecordBody{Where: r.Where, Steps: []previewStepBody{}}
		for _, st := range r.Steps {
			rb.Steps = append(rb.Steps, show.step(st))
		}
		b.Records = append(b.Records, rb)
	}
	return b, nil
}

func (show previewer) step(st runtime.PreviewStep) previewStepBody {
	r := &st.Record
	b := previewStepBody{Name: st.Name, Class: st.Class, Topic: r.Topic, Passed: st.Passed, Dropped: st.Dropped, Key: json.RawMessage("null"), Value: json.RawMessage("null")}
	if r.Partition != schema.NoPartition {
		b.Partition = &r.Partition
	}
	if r.Timestamp != schema.NoTimestamp {
		b.Timestamp = &r.Timestamp
	}
	if st.Err != nil {
		b.Error = st.Err.Error()
	}
	if st.Key != nil || st.Value != nil || st.Name == "encode" {
		b.Key, b.Value = showBytes(st.Key), showBytes(st.Value)
		return b
	}
	b.Key, b.KeySchema = show.half(r.KeySchema, r.Key)
	b.Value, b.ValueSchema = show.half(r.ValueSchema, r.Value)
	for _, h := range r.Headers {
		v, _ := show.half(h.Schema, h.Value)
		b.Headers = append(b.Headers, previewHeaderBody{h.Key, v})
	}
	return b
}

// half is a key or value as JSON, with its schema as Connect writes it.
func (show previewer) half(s *schema.Schema, v schema.Value) (value, of json.RawMessage) {
	value, null, err := show.plain.Encode(nil, &converters.Message{}, s, v)
	switch {
	case err != nil:
		value, _ = json.Marshal("(cannot be shown as JSON: " + err.Error() + ")")
	case null:
		value = json.RawMessage("null")
	}
	if s == nil {
		return value, nil
	}
	whole, null, err := show.withSchema.Encode(nil, &converters.Message{}, s, v)
	var split struct {
		Schema json.RawMessage `json:"schema"`
	}
	if err == nil && !null && json.Unmarshal(whole, &split) == nil {
		of = split.Schema
	}
	return value, of
}

// showBytes are bytes for a topic: the JSON or text that they are, else base64.
func showBytes(b []byte) json.RawMessage {
	switch {
	case b == nil:
		return json.RawMessage("null")
	case json.Valid(b):
		return b
	case utf8.Valid(b):
		text, _ := json.Marshal(string(b))
		return text
	}
	text, _ := json.Marshal(map[string][]byte{"base64": b})
	return text
}
