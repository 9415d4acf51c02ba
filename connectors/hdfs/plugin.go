package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"millrace/connectors"
	"millrace/connectors/warehouse"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// Sink2 and Sink3 are the HDFS sink connector under the names of Confluent's connectors for HDFS 2 and 3. They are the same: the
// protocol did not change.
var (
	Sink2 = sinkPlugin("hdfs", "io.confluent.connect.hdfs.HdfsSink", "10.2.0")
	Sink3 = sinkPlugin("hdfs3", "io.confluent.connect.hdfs3.Hdfs3Sink", "1.1.0")
)

func sinkPlugin(name, class, version string) connectors.SinkPlugin {
	return connectors.SinkPlugin{
		Info: plugin.Info{
			Name:    name,
			Class:   class + "Connector",
			Version: version,
			Doc:     "Writes records as files of HDFS.",
			Config:  settings,
		},
		TaskClass: class + "Task",
		Reasons:   reasons,
		New:       func(cc connectors.Context, v config.Values) (connectors.Sink, error) { return &sink{cc, v}, nil },
		NewTask:   newTask,
	}
}

type sink struct {
	cc connectors.Context
	v  config.Values
}

var (
	_ connectors.Validator         = (*sink)(nil)
	_ connectors.SinkOffsetAlterer = (*sink)(nil)
	_ connectors.Checker           = (*sink)(nil)
)

// Check implements connectors.Checker.
func (s *sink) Check() []*config.Error { return crossRules(s.v) }

// Tasks plans max copies: partitions are shared out among them.
func (s *sink) Tasks(_ context.Context, max int) ([]map[string]string, error) {
	return connectors.Copies(s.v, max), nil
}

// Validate implements connectors.Validator: do the keys fit together, does the cluster answer, may the user look at it?
func (s *sink) Validate(ctx context.Context) []*config.Error {
	if errs := crossRules(s.v); len(errs) > 0 {
		return errs
	}
	t, wrong := newTarget(s.cc, s.v)
	if wrong != nil {
		return []*config.Error{wrong}
	}
	defer t.Close()
	err := t.with(ctx, fmt.Sprintf("look at %q", t.cluster.folder+"/"), func(l *link) error {
		_, err := l.Stat(t.cluster.folder + "/")
		if errors.Is(err, fs.ErrNotExist) { // it is made
			err = nil
		}
		return err
	})
	if err == nil {
		return nil
	}
	key := hdfsURL
	var login *loginError
	switch f := connectors.FailureOf(err); {
	case errors.As(err, &login) || f != nil && f.Reason == &unauthorized && kerberos.Get(s.v):
		key = principal
	case !hdfsURL.Has(s.v) && storeURL.Has(s.v):
		key = storeURL
	case url(s.v) == "":
		key = confDir
	}
	return []*config.Error{key.Errorf(s.v, "%v", err)}
}

// AlterOffsets implements connectors.SinkOffsetAlterer. Files say up to where their partition is written: the connector can be told to go
// on behind them, and not before their end.
func (s *sink) AlterOffsets(ctx context.Context, offsets map[connectors.TopicPartition]*int64) (bool, error) {
	t, wrong := newTarget(s.cc, s.v)
	if wrong != nil {
		return false, wrong
	}
	defer t.Close()
	for tp, to := range offsets {
		if err := t.alter(ctx, tp, to); err != nil {
			return false, err
		}
	}
	return true, nil
}

// alter makes to the place where a partition goes on, or forgets it where to is nil.
func (t *target) alter(ctx context.Context, tp connectors.TopicPartition, to *int64) error {
	var refusal error // nothing that HDFS said
	err := t.with(ctx, fmt.Sprintf("alter the offset of %v", tp), func(l *link) error {
		seen, err := t.scan(l, tp.Topic, []connectors.TopicPartition{tp}, func() {})
		if err != nil {
			return err
		}
		if files := seen[tp]; files > 0 && (to == nil || *to < files) {
			refusal = fmt.Errorf("files of %v hold its records up to offset %d, and their names say where the connector goes on; move them away first, or give %d or more", tp, files-1, files)
			return nil
		}
		c := &claim{}
		if err := t.take(l, tp, c, func() {}); err != nil {
			return err
		}
		if err := removeOthers(l, c.dir, donePrefix, ""); err != nil || to == nil {
			return err
		}
		return t.note(l, c.dir, *to)
	})
	if err == nil {
		err = refusal
	}
	return err
}

// task is a warehouse.Task that claims its partitions.
type task struct {
	*warehouse.Task
	cc connectors.Context
	t  *target
}

func newTask(cc connectors.Context, v config.Values) (connectors.SinkTask, error) {
	if errs := crossRules(v); len(errs) > 0 {
		return nil, connectors.BadConfig(errs[0])
	}
	out := &task{cc: cc}
	var err error
	out.Task, err = warehouse.NewTask(cc, v, warehouse.Options{}, func(context.Context) (warehouse.Target, error) {
		t, wrong := newTarget(cc, v)
		if wrong != nil {
			return nil, connectors.BadConfig(wrong)
		}
		out.t = t
		return t, nil
	})
	return out, err
}

// Open implements connectors.SinkTask.
func (t *task) Open(ctx context.Context, parts []connectors.TopicPartition) (map[connectors.TopicPartition]int64, error) {
	if _, err := t.Task.Open(ctx, parts); err != nil {
		return nil, err
	}
	moving := func() {
		if t.cc.Moving != nil {
			t.cc.Moving()
		}
	}
	start, err := t.t.open(ctx, parts, moving)
	if err != nil {
		return nil, errors.Join(err, t.Close(ctx, parts, true))
	}
	return start, nil
}

// Close implements connectors.SinkTask.
func (t *task) Close(ctx context.Context, parts []connectors.TopicPartition, lost bool) error {
	err := t.Task.Close(ctx, parts, lost)
	if t.t != nil {
		t.t.forget(parts)
	}
	return err
}
