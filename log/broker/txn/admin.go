package txn

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/batch"
	"millrace/log/internal/store"
)

// The requests of administrators. DescribeTransactions 0. ListTransactions 0–2: 1 a least age, 2 a pattern of ids. WriteTxnMarkers
// 1–2, with which they abort a transaction that nobody ends: 2 brought the transaction version, which is not looked at.

// DescribeTransactions carries out a DescribeTransactions request.
func (c *Coordinator) DescribeTransactions(req *kmsg.DescribeTransactionsRequest) *kmsg.DescribeTransactionsResponse {
	resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
	for _, id := range req.TransactionalIDs {
		r := kmsg.NewDescribeTransactionsResponseTransactionState()
		r.TransactionalID = id
		t, ok := c.look(id)
		switch {
		case id == "":
			r.ErrorCode = kerr.InvalidRequest.Code
		case !ok:
			r.ErrorCode = kerr.TransactionalIDNotFound.Code
		default:
			r.State, r.TimeoutMillis, r.StartTimestamp, r.ProducerID, r.ProducerEpoch = t.state.String(), t.timeout, t.start, t.pid, t.epoch
			topics, numbers := listed(t.parts)
			for i, topic := range topics {
				r.Topics = append(r.Topics, kmsg.DescribeTransactionsResponseTransactionStateTopic{Topic: topic, Partitions: numbers[i]})
			}
		}
		resp.TransactionStates = append(resp.TransactionStates, r)
	}
	return resp
}

// look returns the state of an id that was initialised.
func (c *Coordinator) look(id string) (txn, bool) {
	s := c.lock(id)
	if s == nil {
		return txn{}, false
	}
	defer s.mu.Unlock()
	return s.t, s.t.epoch >= 0
}

// stateNamed is the state of a name that requests filter by, whatever its letters' case.
func stateNamed(name string) (state, bool) {
	for s := empty; s <= dead; s++ {
		if strings.EqualFold(name, s.String()) {
			return s, true
		}
	}
	return 0, false
}

// ListTransactions carries out a ListTransactions request.
func (c *Coordinator) ListTransactions(req *kmsg.ListTransactionsRequest) *kmsg.ListTransactionsResponse {
	resp := req.ResponseKind().(*kmsg.ListTransactionsResponse)
	var wanted []state
	for _, name := range req.StateFilters {
		if s, ok := stateNamed(name); ok {
			wanted = append(wanted, s)
		} else {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, name)
		}
	}
	var pattern *regexp.Regexp
	if req.TransactionalIDPattern != nil && *req.TransactionalIDPattern != "" {
		var err error
		if pattern, err = regexp.Compile(`^(?s:` + *req.TransactionalIDPattern + `)$`); err != nil {
			resp.ErrorCode = kerr.InvalidRegularExpression.Code
			return resp
		}
	}
	now := c.nowMs()
	for _, s := range c.all() {
		s.mu.Lock()
		t, gone := s.t, s.gone
		s.mu.Unlock()
		switch {
		case gone || t.epoch < 0,
			len(req.StateFilters) > 0 && !slices.Contains(wanted, t.state),
			len(req.ProducerIDFilters) > 0 && !slices.Contains(req.ProducerIDFilters, t.pid),
			req.Version >= 1 && req.DurationFilterMillis >= 0 && (t.start < 0 || now-t.start <= req.DurationFilterMillis),
			pattern != nil && !pattern.MatchString(t.id):
			continue
		}
		resp.TransactionStates = append(resp.TransactionStates, kmsg.ListTransactionsResponseTransactionState{TransactionalID: t.id, ProducerID: t.pid, TransactionState: t.state.String()})
	}
	slices.SortFunc(resp.TransactionStates, func(a, b kmsg.ListTransactionsResponseTransactionState) int {
		return cmp.Compare(a.TransactionalID, b.TransactionalID)
	})
	return resp
}

// WriteTxnMarkers carries out a WriteTxnMarkers request. The marker of a transaction that is open here would end it in one partition
// and leave the others: to abort it there is to abort it everywhere, and to commit it is not for strangers.
func (c *Coordinator) WriteTxnMarkers(req *kmsg.WriteTxnMarkersRequest, done func(*kmsg.WriteTxnMarkersResponse, error)) {
	resp := req.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	err := c.background(func() {
		m := c.newMarks()
		defer m.kicks.Start() // where it ends early
		for _, q := range req.Markers {
			rm := kmsg.WriteTxnMarkersResponseMarker{ProducerID: q.ProducerID}
			for _, t := range q.Topics {
				rt := kmsg.WriteTxnMarkersResponseMarkerTopic{Topic: t.Topic}
				for _, n := range t.Partitions {
					rp := kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: n}
					var err error
					if rp.ErrorCode, err = c.mark(m, &q, Partition{t.Topic, n}); err != nil {
						done(resp, err)
						return
					}
					rt.Partitions = append(rt.Partitions, rp)
				}
				rm.Topics = append(rm.Topics, rt)
			}
			resp.Markers = append(resp.Markers, rm)
		}
		done(resp, m.wait())
	})
	if err != nil {
		done(resp, err)
	}
}

// mark writes one marker that an administrator asks for.
func (c *Coordinator) mark(m *marks, q *kmsg.WriteTxnMarkersRequestMarker, p Partition) (int16, error) {
	part := c.data.Partition(p.Topic, p.Partition)
	if part == nil || p.Topic == Topic {
		return kerr.UnknownTopicOrPartition.Code, nil
	}
	if q.ProducerID < 0 || q.ProducerEpoch < 0 {
		return kerr.InvalidProducerEpoch.Code, nil
	}
	if s := c.writing(q.ProducerID, q.ProducerEpoch, p); s != nil { // locked
		if s.t.preparing() {
			s.mu.Unlock()
			return kerr.ConcurrentTransactions.Code, nil
		}
		if q.Committed {
			s.mu.Unlock()
			return kerr.InvalidTxnState.Code, nil
		}
		c.lg.Warn("transaction is aborted for an administrator; its producer is fenced", "transactionalId", s.t.id, "producerId", s.t.pid, "producerEpoch", s.t.epoch)
		if err := c.write(s, s.t.fence(c.nowMs()), false); err != nil {
			s.mu.Unlock()
			return codeOf(err), unknown(err)
		}
		return 0, c.settle(s)
	}
	v := batch.NewMarker(q.ProducerID, q.ProducerEpoch, batch.Marker{Commit: q.Committed, CoordinatorEpoch: q.CoordinatorEpoch}, m.now)
	a, err := c.append(p, part, v, store.AppendOpts{})
	if err != nil {
		if code, ok := batch.CodeOf(err); ok {
			return int16(code), nil
		}
		return 0, fmt.Errorf("write the marker of an administrator: %w", err)
	}
	m.written = append(m.written, mark{part, a.End})
	return 0, nil
}

// writing returns the slot, locked, of the transaction in which a producer has written to a partition; nil when there is none.
func (c *Coordinator) writing(pid int64, epoch int16, p Partition) *slot {
	for _, s := range c.all() {
		s.mu.Lock()
		if !s.gone && s.t.pid == pid && epoch >= s.t.epoch && (s.t.state == ongoing || s.t.preparing()) && s.t.has(p) {
			return s
		}
		s.mu.Unlock()
	}
	return nil
}
