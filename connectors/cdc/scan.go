package cdc

import (
	"fmt"
	"sync"
	"time"

	"millrace/connectors"
)

// The states of a snapshot and of a table in it, as statuses show them.
const (
	ScanRunning   = "running"
	ScanCompleted = "completed"
	ScanAborted   = "aborted"
	ScanSkipped   = "skipped"

	TableWaiting = "waiting"
	TableReading = "reading"
	TableDone    = "done"
)

// A Scan is how far a task's snapshot is. Those who read tables move it on, several of
// them at a time if they like; others look at any time. The zero Scan is of a task
// that has not decided yet whether it takes one.
type Scan struct {
	mu     sync.Mutex // guards what follows
	state  string     // "": none yet
	began  time.Time
	ended  time.Time
	rows   int64
	tables []connectors.SnapshotTable
	index  map[string]int
	done   int
}

// Begin notes that a snapshot of these tables begins; expected is what the source
// estimates of each one's rows, negative where it cannot.
func (s *Scan) Begin(tables []string, expected func(i int) int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.began, s.ended, s.rows, s.done = ScanRunning, time.Now(), time.Time{}, 0, 0
	s.tables, s.index = make([]connectors.SnapshotTable, len(tables)), make(map[string]int, len(tables))
	for i, name := range tables {
		s.tables[i] = connectors.SnapshotTable{Table: name, State: TableWaiting, Expected: expected(i)}
		s.index[name] = i
	}
}

// Skip notes that none is taken: it was not asked for, or was taken before.
func (s *Scan) Skip() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = ScanSkipped
}

// End notes that the snapshot is complete, or was broken off.
func (s *Scan) End(complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != ScanRunning {
		return
	}
	s.state, s.ended = ScanAborted, time.Now()
	if complete {
		s.state = ScanCompleted
	}
}

// Read notes that so many more rows of a table were read. It is called for batches,
// not for rows.
func (s *Scan) Read(table string, rows int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.index[table]
	if !ok {
		return
	}
	t := &s.tables[i]
	if t.State == TableWaiting {
		t.State = TableReading
	}
	t.Rows += rows
	s.rows += rows
}

// Done notes that a table was read to its end.
func (s *Scan) Done(table string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.index[table]; ok && s.tables[i].State != TableDone {
		s.tables[i].State = TableDone
		s.done++
	}
}

// Progress is the snapshot for all to read, with tables of its own; nil: none was taken,
// and none is known to be left out.
func (s *Scan) Progress() *connectors.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == "" {
		return nil
	}
	return &connectors.Snapshot{State: s.state, Began: s.began, Ended: s.ended, Rows: s.rows, Tables: append([]connectors.SnapshotTable(nil), s.tables...)}
}

// Standing is where a task stands that reads no stream at the moment.
func Standing(sn *connectors.Snapshot, mode SnapshotMode) string {
	if sn != nil && sn.State == ScanRunning {
		for _, t := range sn.Tables {
			if t.State == TableReading {
				return fmt.Sprintf("the snapshot of table %s, after %d rows", t.Table, t.Rows)
			}
		}
		return "the snapshot"
	}
	if !mode.Stream && mode.Name != "" {
		return "the end: snapshot.mode=" + mode.Name + " reads no changes"
	}
	return "on the way to the server"
}

// Running reports whether the snapshot is under way, and the rows read so far.
func (s *Scan) Running() (running bool, rows int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == ScanRunning, s.rows
}
