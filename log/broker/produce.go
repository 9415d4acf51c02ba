package broker

import (
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/log/broker/txn"
	"millrace/log/internal/batch"
	"millrace/log/internal/catalog"
	"millrace/log/internal/store"
	"millrace/log/internal/wire"
)

// Produce, key 0, versions 3 to 13; 0 to 2 are announced, since librdkafka detects features by them,
// and refused when used. 5 added the log start offset, 8 the reason of a refusal, 9 flexible
// encoding, 13 topic ids. Left out: the errors of single records (batches are taken or refused whole),
// the current leader (there is one node).

// produced is a Produce request on its way from the append to the answer.
type produced struct {
	req   wire.ProduceRequest
	parts []wire.Produced
	waits []durableWait
	views []batch.View
	kicks store.Kicks
	names []byte // the topics' names: the frame is gone when the answer is written
}

type durableWait struct {
	p   *store.Partition
	end int64
}

var producedPool = sync.Pool{New: func() any { return new(produced) }}

func (d *produced) free() {
	clear(d.waits)
	clear(d.views[:cap(d.views)])
	clear(d.parts)
	// Names and records alias a frame that is given back.
	clear(d.req.Topics)
	clear(d.req.Parts)
	producedPool.Put(d)
}

func (s *Server) produce(c *call) {
	d := producedPool.Get().(*produced)
	if err := d.req.Parse(c.h.Version, c.body); err != nil {
		d.free()
		c.drop(fmt.Errorf("%s version %d: %w", wire.Name(c.h.Key), c.h.Version, err))
		return
	}
	if err := s.append(c, d); err != nil {
		// Some of it may be on disk or not: no answer is true, the client's retry decides.
		d.free()
		c.drop(err)
		return
	}
	acks := d.req.Acks
	if acks == 0 {
		err := d.failed()
		d.free()
		if err != nil {
			c.drop(err) // there is no answer that could carry it
			return
		}
		c.silent()
		return
	}
	d.keepNames()
	c.later(func(w *wire.Writer) error {
		defer d.free()
		if acks < 0 {
			for _, x := range d.waits {
				if err := x.p.WaitDurable(c.ctx, x.end); err != nil {
					return err
				}
			}
		}
		return w.Raw(c.h, func(b []byte) []byte { return wire.AppendProduce(b, c.h.Version, d.req.Topics, d.parts) })
	})
}

// append writes every partition's records. It fails only when an outcome is unknown.
func (s *Server) append(c *call, d *produced) error {
	d.parts, d.waits = d.parts[:0], d.waits[:0]
	defer d.kicks.Start()
	w, err := s.holdTxn(c, d)
	if err != nil {
		return err
	}
	defer w.release()
	for i := range d.req.Topics {
		t := &d.req.Topics[i]
		topic, missing := s.produceTopic(c, t)
		for _, part := range d.req.Parts[t.From:t.To] {
			r := wire.Produced{Partition: part.Partition, Base: -1, LogAppendTime: -1, LogStart: -1}
			if err := s.appendPart(c, d, &w, topic, missing, part, &r); err != nil {
				code, ok := batch.CodeOf(err)
				var ke *kerr.Error
				switch {
				case ok:
					r.Code = int16(code)
				case errors.As(err, &ke):
					r.Code = ke.Code
				default:
					return err
				}
				r.Reason = err.Error()
			}
			s.stats.produced(topic, part, r.Code)
			d.parts = append(d.parts, r)
		}
	}
	return nil
}

// produceTopic finds a topic that is written to, or says how its absence is answered.
func (s *Server) produceTopic(c *call, t *wire.ProduceTopic) (topic *catalog.Topic, missing *kerr.Error) {
	if c.h.Version >= 13 {
		return s.cat.TopicByID(t.ID), kerr.UnknownTopicID
	}
	return s.cat.TopicBytes(t.Name), kerr.UnknownTopicOrPartition
}

func (s *Server) appendPart(c *call, d *produced, w *txnWrite, topic *catalog.Topic, missing *kerr.Error, part wire.ProducePart, r *wire.Produced) error {
	var p *store.Partition
	switch {
	case c.h.Version < 3:
		return kerr.UnsupportedVersion
	case d.req.Acks < -1 || d.req.Acks > 1:
		return kerr.InvalidRequiredAcks
	case topic == nil:
		return missing
	case catalog.IsInternal(topic.Name):
		return &catalog.Error{Code: kerr.InvalidTopicException, Reason: "topic " + topic.Name + " is written by the log itself"}
	}
	if p = topic.Partition(part.Partition); p == nil {
		return kerr.UnknownTopicOrPartition
	}
	views, err := batch.Split(d.views[:0], part.Records)
	d.views = views
	if err != nil {
		return err
	}
	if len(views) == 0 {
		return &batch.Error{Code: batch.InvalidRecord, Reason: "there are no records for partition " + topic.Name}
	}
	for _, v := range views {
		if v.Transactional() {
			if err := w.admits(c.h.Version, v, txn.Partition{Topic: topic.Name, Partition: part.Partition}); err != nil {
				return err
			}
		}
		if len(views) > 1 && v.HasProducer() {
			return &batch.Error{Code: batch.InvalidRecord, Reason: "an idempotent producer sends one batch per partition and request"}
		}
	}
	a, err := p.Append(views, store.AppendOpts{Origin: store.FromClient, Kicks: &d.kicks})
	if err != nil {
		r.LogStart = logStartOf(p, err)
		return err
	}
	r.Base, r.LogAppendTime, r.LogStart = a.Base, a.Timestamp, a.LogStart
	if !a.Duplicate {
		s.stats.written(p, views, len(part.Records))
	}
	d.waits = append(d.waits, durableWait{p, a.End})
	return nil
}

// logStartOf is the log start that goes with a refusal: Kafka tells it when the records were looked at.
func logStartOf(p *store.Partition, err error) int64 {
	switch code, _ := batch.CodeOf(err); code {
	case batch.InvalidRecord, batch.InvalidTimestamp, batch.OutOfOrderSequence, batch.InvalidProducerEpoch, batch.InvalidTxnState:
		return p.LogStart()
	}
	return -1
}

// failed is the first refusal among the partitions.
func (d *produced) failed() error {
	for _, p := range d.parts {
		if p.Code != 0 {
			return fmt.Errorf("produce without acknowledgement, partition %d: %s", p.Partition, p.Reason)
		}
	}
	return nil
}

func (d *produced) keepNames() {
	d.names = d.names[:0]
	for _, t := range d.req.Topics {
		d.names = append(d.names, t.Name...)
	}
	at := 0
	for i := range d.req.Topics {
		t := &d.req.Topics[i]
		n := len(t.Name)
		t.Name = d.names[at : at+n]
		at += n
	}
}
