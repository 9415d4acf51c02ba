package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kbin"
)

// ProduceRequest is a Produce body of versions 0 to 13, taken apart without copying: names and
// records alias the frame. It can be reused.
type ProduceRequest struct {
	TransactionalID []byte // nil: none
	Acks            int16
	Topics          []ProduceTopic
	Parts           []ProducePart
}

// ProduceTopic names a topic, by id from version 13 on, and its range in Parts.
type ProduceTopic struct {
	Name     []byte
	ID       [16]byte
	From, To int
}

// ProducePart is one partition's records.
type ProducePart struct {
	Partition int32
	Records   []byte // nil when null
}

var errCutOff = errors.New("body is cut off")

// Parse reads a body. Memory grows only with bytes that are there.
func (r *ProduceRequest) Parse(version int16, body []byte) error {
	flexible := version >= 9
	b := kbin.Reader{Src: body}
	*r = ProduceRequest{Topics: r.Topics[:0], Parts: r.Parts[:0]}
	if version >= 3 {
		r.TransactionalID = nullableString(&b, flexible)
	}
	r.Acks = b.Int16()
	b.Int32() // timeout: there are no replicas to wait for
	for nt := arrayLen(&b, flexible); nt > 0 && b.Ok(); nt-- {
		t := ProduceTopic{From: len(r.Parts)}
		if version >= 13 {
			t.ID = b.Uuid()
		} else if t.Name = nullableString(&b, flexible); t.Name == nil {
			return errCutOff
		}
		for np := arrayLen(&b, flexible); np > 0 && b.Ok(); np-- {
			p := ProducePart{Partition: b.Int32()}
			if flexible {
				p.Records = b.CompactNullableBytes()
				skipTags(&b)
			} else {
				p.Records = b.NullableBytes()
			}
			r.Parts = append(r.Parts, p)
		}
		if flexible {
			skipTags(&b)
		}
		t.To = len(r.Parts)
		r.Topics = append(r.Topics, t)
	}
	if flexible {
		skipTags(&b)
	}
	if !b.Ok() {
		return errCutOff
	}
	return nil
}

func arrayLen(b *kbin.Reader, flexible bool) int32 {
	if flexible {
		return b.CompactArrayLen()
	}
	return b.ArrayLen()
}

// nullableString reads a string as bytes of the frame; nil when null or cut off.
func nullableString(b *kbin.Reader, flexible bool) []byte {
	if flexible {
		return b.CompactNullableBytes()
	}
	n := b.Int16()
	if n < 0 {
		return nil
	}
	s := b.Span(int(n))
	if s == nil && b.Ok() {
		return []byte{}
	}
	return s
}

// Produced is one partition's answer.
type Produced struct {
	Partition     int32
	Code          int16
	Base          int64 // -1 with a code
	LogAppendTime int64 // ms, -1 when the client's time stands
	LogStart      int64 // -1 with a code
	Reason        string
}

// AppendProduce appends the body of a Produce answer of versions 0 to 13. names are the topics'
// names, or empty from version 13 on.
func AppendProduce(b []byte, version int16, topics []ProduceTopic, parts []Produced) []byte {
	flexible := version >= 9
	b = appendArray(b, flexible, len(topics))
	for i := range topics {
		t := &topics[i]
		switch {
		case version >= 13:
			b = append(b, t.ID[:]...)
		case flexible:
			b = kbin.AppendUvarint(b, uint32(len(t.Name))+1)
			b = append(b, t.Name...)
		default:
			b = kbin.AppendInt16(b, int16(len(t.Name)))
			b = append(b, t.Name...)
		}
		b = appendArray(b, flexible, t.To-t.From)
		for j := t.From; j < t.To; j++ {
			b = parts[j].append(b, version)
		}
		if flexible {
			b = append(b, 0)
		}
	}
	if version >= 1 {
		b = kbin.AppendInt32(b, 0) // throttle time
	}
	if flexible {
		b = append(b, 0)
	}
	return b
}

func (p *Produced) append(b []byte, version int16) []byte {
	flexible := version >= 9
	b = kbin.AppendInt32(b, p.Partition)
	b = kbin.AppendInt16(b, p.Code)
	b = kbin.AppendInt64(b, p.Base)
	if version >= 2 {
		b = kbin.AppendInt64(b, p.LogAppendTime)
	}
	if version >= 5 {
		b = kbin.AppendInt64(b, p.LogStart)
	}
	if version >= 8 {
		b = appendArray(b, flexible, 0) // errors of single records: a batch is refused whole
		var reason *string
		if p.Reason != "" {
			reason = &p.Reason
		}
		if flexible {
			b = kbin.AppendCompactNullableString(b, reason)
		} else {
			b = kbin.AppendNullableString(b, reason)
		}
	}
	if flexible {
		b = append(b, 0)
	}
	return b
}

func appendArray(b []byte, flexible bool, n int) []byte {
	if flexible {
		return kbin.AppendUvarint(b, uint32(n)+1)
	}
	return kbin.AppendInt32(b, int32(n))
}
