package rest

import (
	"encoding/json"
	"fmt"
	"net/http"

	"millrace/runtime"
	"millrace/schema"
	"millrace/schema/converters"
)

func (s *Server) connectorOffsets(r *http.Request) (any, error) {
	name, err := param(r, "name")
	if err != nil {
		return nil, err
	}
	offsets, err := s.herder.Offsets(r.Context(), name)
	if err != nil {
		return nil, err
	}
	return newOffsetsBody(offsets)
}

// offsetsBody is a connector's offsets as Connect shows them: for each source
// partition, or topic partition of a sink, where it stands.
type offsetsBody struct {
	Offsets []offsetBody `json:"offsets"`
}

type offsetBody struct {
	Partition json.RawMessage `json:"partition"`
	Offset    json.RawMessage `json:"offset"`
}

func newOffsetsBody(offsets []runtime.OffsetInfo) (offsetsBody, error) {
	b := offsetsBody{Offsets: []offsetBody{}}
	encode, err := schemalessJSON()
	if err != nil {
		return b, err
	}
	for _, o := range offsets {
		partition, err := encode(o.Partition)
		if err != nil {
			return b, fmt.Errorf("source partition: %w", err)
		}
		offset, err := encode(o.Offset)
		if err != nil {
			return b, fmt.Errorf("offset of %s: %w", partition, err)
		}
		b.Offsets = append(b.Offsets, offsetBody{partition, offset})
	}
	return b, nil
}

// schemalessJSON makes an encoder of schemaless data, that of the offset topic.
func schemalessJSON() (func(schema.Value) (json.RawMessage, error), error) {
	v, errs := converters.JSON.Config.Parse(map[string]string{"schemas.enable": "false", "converter.type": "value"})
	if len(errs) > 0 {
		return nil, errs[0]
	}
	c, err := converters.JSON.New(v, false)
	if err != nil {
		return nil, err
	}
	return func(v schema.Value) (json.RawMessage, error) {
		out, null, err := c.Encode(nil, &converters.Message{}, nil, v)
		if null {
			out = []byte("null")
		}
		return out, err
	}, nil
}
