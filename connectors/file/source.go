package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync/atomic"
	"time"

	"millrace/connectors"
	"millrace/schema"
	"millrace/schema/config"
)

// source plans the one task of a file.
type source struct {
	cc   connectors.Context
	v    config.Values
	path string
}

var (
	_ connectors.Validator     = (*source)(nil)
	_ connectors.OffsetAlterer = (*source)(nil)
	_ connectors.Guarantees    = (*source)(nil)

	_ connectors.ProgressTeller = (*sourceTask)(nil)
)

func newSource(cc connectors.Context, v config.Values) (connectors.Source, error) {
	return &source{cc: cc, v: v, path: sourceFile.Get(v)}, nil
}

// Tasks plans one task, with the connector's own settings as Kafka does.
func (s *source) Tasks(context.Context, int) ([]map[string]string, error) {
	return []map[string]string{maps.Clone(s.v.Raw)}, nil
}

// Validate implements connectors.Validator: is the file one that may be read? It
// need not be there yet.
func (s *source) Validate(context.Context) []*config.Error {
	if s.path == "" {
		return nil
	}
	return validPath(s.cc.Files, s.path, func(reason string) *config.Error { return sourceFile.Errorf(s.v, "%s", reason) })
}

func validPath(files connectors.Files, path string, wrong func(reason string) *config.Error) []*config.Error {
	abs, err := allowed(files, path)
	if err != nil {
		return []*config.Error{wrong(err.Error())}
	}
	if fi, err := os.Stat(abs); err == nil && !fi.Mode().IsRegular() {
		return []*config.Error{wrong(irregular(path, fi).Error())}
	}
	return nil
}

func irregular(path string, fi os.FileInfo) error {
	what := "a device"
	switch {
	case fi.IsDir():
		what = "a directory"
	case fi.Mode()&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case fi.Mode()&fs.ModeSocket != 0:
		what = "a socket"
	}
	return connectors.Failed(&notRegular, nil, fmt.Sprintf("file %q is %s", path, what), "")
}

// ExactlyOnce implements connectors.Guarantees: a file is resumed at its offset,
// standard input cannot be.
func (s *source) ExactlyOnce() bool { return s.path != "" }

// Boundaries implements connectors.Guarantees.
func (s *source) Boundaries() bool { return false }

// AlterOffsets implements connectors.OffsetAlterer with Kafka's rules and texts, and
// with ours for what we store beside the position. A null offset may be anything's, so
// that garbage can be removed.
func (s *source) AlterOffsets(_ context.Context, offsets []connectors.Offset) (bool, error) {
	if s.path == "" {
		return false, kafkaText("Offsets cannot be modified if the 'file' configuration is unspecified. " +
			"This is because stdin is used for input and offsets are not tracked.")
	}
	for _, o := range offsets {
		if o.Position.IsNull() {
			continue
		}
		if err := alterable(o); err != nil {
			return false, err
		}
	}
	return true, nil
}

func alterable(o connectors.Offset) error {
	pos, ok := o.Position.Lookup(positionKey)
	switch {
	case !ok:
		return kafkaText("Offset objects should either be null or contain the key 'position'")
	case !isInteger(pos):
		return kafkaText("The value for the 'position' key in the offset is expected to be a Long value")
	case pos.Int() < 0:
		return kafkaText("The value for the 'position' key in the offset should be a non-negative value")
	case o.Partition.IsNull():
		return kafkaText("Partition objects cannot be null")
	}
	if name, ok := o.Partition.Lookup(filenameKey); !ok {
		return kafkaText("Partition objects should contain the key 'filename'")
	} else if name.Kind() != schema.String {
		return kafkaText("The value for the 'filename' key in the partition is expected to be a text")
	}
	if len(o.Partition.Entries()) > 1 {
		return kafkaText("Partition objects should contain the key 'filename' and no other")
	}
	if ino, ok := o.Position.Lookup(inodeKey); ok && !isInteger(ino) {
		return kafkaText("The value for the 'inode' key in the offset is expected to be a Long value")
	}
	if print, ok := o.Position.Lookup(fingerprintKey); ok {
		if _, ok := parseFingerprint(print.Str()); print.Kind() != schema.String || !ok {
			return kafkaText("The value for the 'fingerprint' key in the offset is expected to be a fingerprint as it was stored; leave it out and the file at hand is taken")
		}
	}
	return nil
}

// A kafkaText is an error in the words that Kafka's own connector has for it.
type kafkaText string

func (k kafkaText) Error() string { return string(k) }

// sourceTask reads one file, or standard input.
type sourceTask struct {
	cc    connectors.Context
	path  string // as configured: it is in the source partition
	topic string
	batch int
	in    *stdin
	times times

	reading  atomic.Pointer[os.File] // what is read now; nil while there is nothing
	position atomic.Int64            // in it, of the next byte to read
	taken    atomic.Uint64           // bytes, of all files
}

// times are what tests shorten.
type times struct {
	poll  time.Duration // between two looks at a file that has nothing new
	grace time.Duration // how long a rotated file is watched once the new one has lines
}

func newSourceTask(cc connectors.Context, v config.Values) (connectors.SourceTask, error) {
	return &sourceTask{
		cc: cc, path: sourceFile.Get(v), topic: topic.Get(v), in: processStdin,
		batch: min(max(int(batchSize.Get(v)), 1), connectors.MaxBatchRecords),
		times: times{poll: 100 * time.Millisecond, grace: time.Second},
	}, nil
}

// Commit implements connectors.SourceTask: a file forgets nothing.
func (t *sourceTask) Commit(context.Context, []connectors.Offset) error { return nil }

// Progress implements connectors.ProgressTeller: what the file holds behind what was read of it.
func (t *sourceTask) Progress(context.Context) connectors.Progress {
	p := connectors.Progress{At: t.taken.Load(), Behind: -1}
	f := t.reading.Load()
	if f == nil {
		if t.path != "" {
			p.Position = fmt.Sprintf("file %q, which is not there", t.path)
			p.Behind = 0
		}
		return p
	}
	at := t.position.Load()
	p.Position = fmt.Sprintf("byte %d of %q", at, f.Name())
	if fi, err := f.Stat(); err == nil { // it may be closed at this moment
		p.Behind = max(0, fi.Size()-at)
	}
	return p
}

// Run implements connectors.SourceTask.
func (t *sourceTask) Run(ctx context.Context, out connectors.Out) error {
	if t.path == "" {
		return t.runStdin(ctx, out)
	}
	f := &follower{task: t, lg: t.cc.Log.With("file", t.path), partition: filePartition(t.path), times: t.times}
	defer f.close()
	if t.cc.Offsets != nil {
		stored, err := t.cc.Offsets.Stored(ctx, f.partition)
		if err != nil {
			return fmt.Errorf("read the stored offset of file %q: %w", t.path, err)
		}
		if !stored.IsNull() {
			p, err := placeOf(stored)
			if err != nil {
				return connectors.BadConfig(fmt.Errorf("file %q: %w; set the connector's offset or remove it", t.path, err))
			}
			f.resume = &p
		}
	}
	return f.run(ctx, out)
}

// Preview reads the file once, from its start. Standard input is not looked at, since what
// is read of it would be gone.
func (t *sourceTask) Preview(ctx context.Context, out connectors.Out) error {
	if t.path == "" {
		return connectors.BadConfig(errors.New("standard input cannot be previewed: what is read of it is gone; name a file"))
	}
	f := &follower{task: t, lg: t.cc.Log.With("file", t.path), partition: filePartition(t.path), times: t.times, once: true}
	defer f.close()
	return f.run(ctx, out)
}

func filePartition(path string) schema.Value {
	return schema.MapValue([]schema.Entry{{Key: schema.StringValue(filenameKey), Value: schema.StringValue(path)}})
}

// record is a line's record. Kafka gives it the time at which it was read.
func (t *sourceTask) record(line []byte, now int64) schema.Record {
	return schema.Record{
		Topic: t.topic, Partition: schema.NoPartition, Timestamp: now,
		ValueSchema: schema.StringSchema, Value: validText(line),
	}
}
