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
	name, err := Param(r, "name")
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
	c, err := schemaless()
	return func(v schema.Value) (json.RawMessage, error) {
		out, null, err := c.Encode(nil, &converters.Message{}, nil, v)
		if null {
			out = []byte("null")
		}
		return out, err
	}, err
}

func schemaless() (converters.Converter, error) {
	c, errs := converters.JSON.Make(map[string]string{"schemas.enable": "false"}, false)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return c, nil
}

// alterRequest is the body of PATCH offsets. A part that is missing is told from null.
type alterRequest struct {
	Offsets []offsetBody `json:"offsets"`
}

// messageBody tells what was done.
type messageBody struct {
	Message string `json:"message"`
}

// maxOffsets bounds what one request may set.
const maxOffsets = 10_000

func (s *Server) alterOffsets(r *http.Request) (any, error) {
	name, err := Param(r, "name")
	if err != nil {
		return nil, err
	}
	var body alterRequest
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	switch {
	case len(body.Offsets) == 0:
		return nil, runtime.BadRequest("Partitions / offsets need to be provided for an alter offsets request")
	case len(body.Offsets) > maxOffsets:
		return nil, runtime.BadRequest("%d offsets are too many for one request; send at most %d", len(body.Offsets), maxOffsets)
	}
	c, err := schemaless()
	if err != nil {
		return nil, err
	}
	offsets := make([]runtime.OffsetInfo, len(body.Offsets))
	for i, o := range body.Offsets {
		if o.Partition == nil || o.Offset == nil {
			return nil, runtime.BadRequest("offset %d: give both, \"partition\" and \"offset\"; null as the offset removes it", i+1)
		}
		if _, offsets[i].Partition, err = c.Decode(&converters.Message{}, o.Partition); err != nil {
			return nil, runtime.BadRequest("offset %d: partition: %s", i+1, err)
		}
		if _, offsets[i].Offset, err = c.Decode(&converters.Message{}, o.Offset); err != nil {
			return nil, runtime.BadRequest("offset %d: offset: %s", i+1, err)
		}
	}
	done, err := s.herder.AlterOffsets(r.Context(), name, offsets)
	return changed("altered", done), err
}

func (s *Server) resetOffsets(r *http.Request) (any, error) {
	name, err := Param(r, "name")
	if err != nil {
		return nil, err
	}
	done, err := s.herder.ResetOffsets(r.Context(), name)
	return changed("reset", done), err
}

// changed is Connect's text about offsets that were altered or reset.
func changed(how string, done bool) messageBody {
	if done {
		return messageBody{"The offsets for this connector have been " + how + " successfully"}
	}
	return messageBody{"The Connect framework-managed offsets for this connector have been " + how + " successfully. However, if this connector manages offsets externally, " +
		"they will need to be manually " + how + " in the system that the connector uses."}
}
