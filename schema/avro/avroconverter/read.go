package avroconverter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"millrace/schema"
	"millrace/schema/avro"
	"millrace/schema/avro/avrodata"
	"millrace/schema/converters"
	"millrace/schema/registry/client"
)

// place is a schema as a topic's records name it: by an id, or by a guid.
type place struct {
	topic string
	id    int32
	guid  [16]byte
}

// reading is what records of one schema in one topic need.
type reading struct {
	schema  *schema.Schema
	decoder *avrodata.Decoder
	raw     bool
}

// Decode reads data whose schema is named in the headers or before it. Nil is null.
func (c *converter) Decode(m *converters.Message, data []byte) (*schema.Schema, schema.Value, error) {
	if data == nil {
		return nil, schema.Value{}, nil
	}
	p := place{topic: m.Topic}
	named := false
	if c.readHeader {
		for i := len(m.Headers) - 1; i >= 0 && !named; i-- {
			if h := m.Headers[i]; h.Key == c.header {
				rest, err := p.read(h.Value)
				if err != nil || len(rest) > 0 {
					return nil, schema.Value{}, &schema.DataError{Reason: fmt.Sprintf("the header %s names no schema: %d bytes", c.header, len(h.Value))}
				}
				named = true
			}
		}
	}
	if !named {
		var err error
		if data, err = p.read(data); err != nil {
			return nil, schema.Value{}, err
		}
	}
	r := c.lastOf
	if r == nil || p != c.last {
		var err error
		if r, err = c.reading(p); err != nil {
			return nil, schema.Value{}, err
		}
	}
	if r.raw {
		return r.schema, rawValue(r.schema, data), nil
	}
	v, err := r.decoder.Value(data)
	if err != nil {
		return nil, schema.Value{}, err
	}
	return r.schema, v, nil
}

// read takes the name of a schema: 0 and an id, or 1 and a guid.
func (p *place) read(data []byte) (rest []byte, err error) {
	switch {
	case len(data) >= 5 && data[0] == 0:
		p.id = int32(binary.BigEndian.Uint32(data[1:]))
		return data[5:], nil
	case len(data) >= 17 && data[0] == 1:
		copy(p.guid[:], data[1:])
		return data[17:], nil
	case len(data) == 0:
		return nil, &schema.DataError{Reason: "no bytes, where Avro has the id of its schema"}
	case data[0] > 1:
		return nil, &schema.DataError{Reason: fmt.Sprintf("Unknown magic byte %#02x: this was not written by an Avro serializer with a schema registry", data[0])}
	}
	return nil, &schema.DataError{Reason: fmt.Sprintf("%d bytes, which are too few for the id of a schema", len(data))}
}

// rawValue is what was written without a length: see appendRaw.
func rawValue(s *schema.Schema, data []byte) schema.Value {
	own := append([]byte{}, data...)
	if s.ValueKind() == schema.Decimal {
		return schema.DecimalBytes(own, s.Scale())
	}
	return schema.BytesValue(own)
}

func (c *converter) reading(p place) (*reading, error) {
	r := c.readers[p]
	if r == nil {
		var err error
		if r, err = c.find(p); err != nil {
			return nil, err
		}
		if len(c.readers) >= c.limit {
			clear(c.readers)
		}
		p.topic = strings.Clone(p.topic)
		c.readers[p] = r
	}
	c.last, c.lastOf = p, r
	return r, nil
}

// find asks the registry for a schema that data names.
func (c *converter) find(p place) (*reading, error) {
	ctx := context.Background() // bounded by the client's limits
	var known client.Known
	var err error
	if p.guid != [16]byte{} {
		g := p.guid
		known, err = c.registry.ByGUID(ctx, fmt.Sprintf("%x-%x-%x-%x-%x", g[0:4], g[4:6], g[6:8], g[8:10], g[10:16]))
	} else {
		known, err = c.registry.ByID(ctx, p.id, p.topic)
	}
	if err != nil {
		return nil, err
	}
	written, err := c.parse(ctx, known)
	if err != nil {
		return nil, err
	}
	if err := mayRead(known); err != nil {
		return nil, err
	}
	if subject, err := c.subject(p.topic, written.Type()); err == nil {
		if err := c.mayStay(ctx, subject); err != nil {
			return nil, err
		}
	}
	version, err := c.version(ctx, p, known, written.Type())
	if err != nil {
		return nil, err
	}
	s, err := c.mapper.ToConnect(written.Type(), version)
	if err != nil {
		return nil, err
	}
	d, err := avrodata.NewDecoder(written.Type(), s)
	if err != nil {
		return nil, err
	}
	return &reading{s, d, written.Type().Kind == avro.Bytes}, nil
}

// version is the schema's number under the topic's subject: the version of the Connect schema, where the Avro schema does not name one.
func (c *converter) version(ctx context.Context, p place, known client.Known, t *avro.Type) (int32, error) {
	if n := t.Prop("connect.version"); n != nil || known.ID == 0 {
		return avrodata.NoVersion, nil
	}
	subject, err := c.subject(p.topic, t)
	if err != nil {
		return avrodata.NoVersion, nil // it was written with another strategy
	}
	uses, err := c.registry.Uses(ctx, known.ID)
	var e *client.Error
	if errors.As(err, &e) && e.Status == 404 {
		return avrodata.NoVersion, nil // a registry without this request, or all versions are deleted
	}
	if err != nil {
		return 0, err
	}
	for _, u := range uses {
		if u.Subject == subject {
			return u.Version, nil
		}
	}
	return avrodata.NoVersion, nil
}
