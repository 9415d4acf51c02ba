package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"millrace/connectors"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
)

// sink plans copies of one task: partitions are shared out among them.
type sink struct {
	cc   connectors.Context
	v    config.Values
	path string
}

var (
	_ connectors.Validator         = (*sink)(nil)
	_ connectors.SinkOffsetAlterer = (*sink)(nil)
)

// AlterOffsets implements connectors.SinkOffsetAlterer: a file keeps no offsets.
func (s *sink) AlterOffsets(context.Context, map[connectors.TopicPartition]*int64) (bool, error) {
	return true, nil
}

func newSink(cc connectors.Context, v config.Values) (connectors.Sink, error) {
	return &sink{cc: cc, v: v, path: sinkFile.Get(v)}, nil
}

// Tasks plans max tasks with the connector's own settings, as Kafka does.
func (s *sink) Tasks(_ context.Context, max int) ([]map[string]string, error) {
	return connectors.Copies(s.v, max), nil
}

// Validate implements connectors.Validator: is the file one that may be written? Its
// folder need not be there yet.
func (s *sink) Validate(context.Context) []*config.Error {
	if s.path == "" {
		return nil
	}
	return validPath(s.cc.Files, s.path, func(reason string) *config.Error { return sinkFile.Errorf(s.v, "%s", reason) })
}

const (
	writeBytes = 256 << 10 // what one write holds; a longer line is written alone
	holdBytes  = 1 << 20   // what waits while the file cannot be written; then Put takes no more
)

// sinkTask appends lines. Several may append to one file: each write holds whole
// lines and goes to the file's end, so that lines never mix.
type sinkTask struct {
	cc   connectors.Context
	path string

	f     *os.File
	buf   []byte // whole lines that are not written yet; the first may be written in part
	dirty bool   // f holds bytes that no fsync has covered
	parts map[connectors.TopicPartition]bool
	next  map[connectors.TopicPartition]int64 // behind the last record in buf or f
}

// stdout is shared by all tasks of the process.
var stdout sync.Mutex

func newSinkTask(cc connectors.Context, v config.Values) (connectors.SinkTask, error) {
	return &sinkTask{cc: cc, path: sinkFile.Get(v), parts: map[connectors.TopicPartition]bool{}, next: map[connectors.TopicPartition]int64{}}, nil
}

// Open implements connectors.SinkTask.
func (t *sinkTask) Open(_ context.Context, parts []connectors.TopicPartition) (map[connectors.TopicPartition]int64, error) {
	for _, p := range parts {
		t.parts[p] = true
	}
	if t.path == "" || t.f != nil {
		return nil, nil
	}
	return nil, t.open()
}

// open opens the file for appending. Where its last line has no end, since a writer
// was killed, that line gets one: what comes next is delivered again as a whole.
func (t *sinkTask) open() error {
	path, err := allowed(t.cc.Files, t.path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|openFlags, 0o644)
	if err != nil {
		if fi, serr := os.Stat(path); serr == nil && !fi.Mode().IsRegular() {
			return irregular(t.path, fi)
		}
		return t.failed(fmt.Sprintf("Couldn't find or create file '%s' for FileStreamSinkTask", t.path), err)
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = irregular(t.path, fi)
	}
	if err == nil && fi.Size() > 0 {
		var last [1]byte
		if _, err = f.ReadAt(last[:], fi.Size()-1); err == nil && last[0] != '\n' {
			_, err = f.Write([]byte{'\n'})
		}
	}
	if err != nil {
		f.Close()
		return t.failed(fmt.Sprintf("file %q cannot be opened", t.path), err)
	}
	t.f = f
	return nil
}

// Put implements connectors.SinkTask.
func (t *sinkTask) Put(_ context.Context, records []schema.Record) error {
	for i := range records {
		r := &records[i]
		if len(t.buf) >= writeBytes {
			if err := t.write(); err != nil && len(t.buf) >= holdBytes {
				return &connectors.PutError{Taken: i, Err: err}
			}
		}
		t.buf = append(appendText(t.buf, r.Value), '\n')
		t.next[connectors.TopicPartition{Topic: r.Origin.Topic, Partition: r.Origin.Partition}] = r.Origin.Offset + 1
	}
	if err := t.write(); err != nil {
		return &connectors.PutError{Taken: len(records), Err: err}
	}
	return nil
}

// appendText appends a value as Java's println prints it, and "null" for null. Bytes,
// for which Java prints the address of its array, stand as they are.
func appendText(dst []byte, v schema.Value) []byte {
	if v.Kind() == schema.Bytes {
		return append(dst, v.Bytes()...)
	}
	return javatext.AppendValue(dst, v)
}

// write writes buf. What was not written stays in buf, so that a line that was cut
// by a full disk is completed where it was cut.
func (t *sinkTask) write() error {
	if len(t.buf) == 0 {
		return nil
	}
	if t.path == "" {
		stdout.Lock()
		defer stdout.Unlock()
		n, err := os.Stdout.Write(t.buf)
		t.written(n)
		return err
	}
	if err := t.reopenMoved(); err != nil {
		return err
	}
	n, err := t.f.Write(t.buf)
	t.dirty = t.dirty || n > 0
	t.written(n)
	if err != nil {
		return t.failed(fmt.Sprintf("file %q cannot be written", t.path), err)
	}
	return nil
}

func (t *sinkTask) written(n int) {
	if n == len(t.buf) && cap(t.buf) <= 2*holdBytes {
		t.buf = t.buf[:0]
		return
	}
	t.buf = append([]byte(nil), t.buf[n:]...)
}

// reopenMoved opens the file anew where its name leads to another file, or to none.
func (t *sinkTask) reopenMoved() error {
	if t.f == nil {
		return t.open()
	}
	path, err := allowed(t.cc.Files, t.path)
	if err != nil {
		return err
	}
	named, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t.failed(fmt.Sprintf("file %q cannot be found", t.path), err)
	}
	open, oerr := t.f.Stat()
	if err == nil && oerr == nil && os.SameFile(named, open) {
		return nil
	}
	t.cc.Log.Info("the file was moved away; writing to a new one", "file", t.path)
	if err := t.sync(); err != nil { // its lines count as stored
		return err
	}
	t.f.Close()
	t.f = nil
	return t.open()
}

func (t *sinkTask) sync() error {
	if !t.dirty {
		return nil
	}
	if err := t.f.Sync(); err != nil {
		return t.failed(fmt.Sprintf("file %q cannot be synced to disk", t.path), err)
	}
	t.dirty = false
	return nil
}

// Flush implements connectors.SinkTask.
func (t *sinkTask) Flush(context.Context) (map[connectors.TopicPartition]int64, error) {
	if err := t.write(); err != nil {
		return nil, err
	}
	if err := t.sync(); err != nil {
		return nil, err
	}
	done := t.next
	t.next = map[connectors.TopicPartition]int64{}
	return done, nil
}

// Close implements connectors.SinkTask.
func (t *sinkTask) Close(_ context.Context, parts []connectors.TopicPartition, _ bool) error {
	for _, p := range parts {
		delete(t.next, p)
		delete(t.parts, p)
	}
	if len(t.parts) > 0 {
		return nil
	}
	t.buf = nil // nobody counts on it: Flush did not return it
	if t.f == nil {
		return nil
	}
	err := t.f.Close()
	t.f, t.dirty = nil, false
	return err
}

// failed makes the error of a file that cannot be opened or written.
func (t *sinkTask) failed(cause string, err error) error {
	switch {
	case connectors.FailureOf(err) != nil:
		return err
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return connectors.Failed(&full, err, cause, "")
	}
	return connectors.Failed(&unwritable, err, cause, "")
}
