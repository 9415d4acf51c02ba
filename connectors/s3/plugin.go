package s3

import (
	"context"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"millrace/connectors"
	"millrace/connectors/warehouse"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// Sink is the S3 sink connector.
var Sink = connectors.SinkPlugin{
	Info: plugin.Info{
		Name:    "s3",
		Class:   "io.confluent.connect.s3.S3SinkConnector",
		Version: "12.0.0",
		Doc:     "Writes records as objects of S3, and of what speaks its protocol.",
		Config:  settings,
	},
	TaskClass: "io.confluent.connect.s3.S3SinkTask",
	Reasons:   reasons,
	New:       func(cc connectors.Context, v config.Values) (connectors.Sink, error) { return &sink{cc, v}, nil },
	NewTask:   newTask,
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

// AlterOffsets implements connectors.SinkOffsetAlterer: the group's offsets are all there are. Records that are read again
// make the same objects where they begin at the same ones.
func (s *sink) AlterOffsets(context.Context, map[connectors.TopicPartition]*int64) (bool, error) {
	return true, nil
}

// Tasks plans max copies: partitions are shared out among them.
func (s *sink) Tasks(_ context.Context, max int) ([]map[string]string, error) {
	return connectors.Copies(s.v, max), nil
}

// Validate implements connectors.Validator: do the keys fit together, is the bucket there, may it be looked at?
func (s *sink) Validate(ctx context.Context) []*config.Error {
	if errs := crossRules(s.v); len(errs) > 0 {
		return errs
	}
	t, err := newTarget(ctx, s.cc, s.v, false)
	if err == nil {
		_, err = t.cl.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: t.bucket})
	}
	if err == nil {
		return nil
	}
	switch statusOf(err) {
	case http.StatusNotFound:
		return []*config.Error{bucketName.Errorf(s.v, "there is no such bucket; create it, or correct the name")}
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		return []*config.Error{region.Errorf(s.v, "bucket %q is in another region; correct it", bucketName.Get(s.v))}
	case http.StatusForbidden: // it may write and not look
		if accessKey.Get(s.v) == "" {
			return nil
		}
	}
	failed := failure(fmt.Sprintf("look at bucket %q", bucketName.Get(s.v)), err)
	f := connectors.FailureOf(failed)
	switch {
	case f == nil:
	case f.Reason == &unauthorized || f.Reason == &noCredentials:
		return []*config.Error{accessKey.Errorf(s.v, "%v", failed)}
	case f.Reason == &unreachable && storeURL.Get(s.v) != "":
		return []*config.Error{storeURL.Errorf(s.v, "%v", failed)}
	case f.Reason == &unreachable:
		return []*config.Error{region.Errorf(s.v, "%v", failed)}
	}
	return []*config.Error{bucketName.Errorf(s.v, "%v", failed)}
}

// task is a warehouse.Task that clears up behind those before it.
type task struct {
	*warehouse.Task
	v config.Values
	t *target
}

func newTask(cc connectors.Context, v config.Values) (connectors.SinkTask, error) {
	if errs := crossRules(v); len(errs) > 0 {
		return nil, connectors.BadConfig(errs[0])
	}
	out := &task{v: v}
	var err error
	out.Task, err = warehouse.NewTask(cc, v, files(v), func(ctx context.Context) (warehouse.Target, error) {
		t, err := newTarget(ctx, cc, v, !warehouse.Deterministic(v))
		if err != nil {
			return nil, err
		}
		out.t = t
		return t, nil
	})
	return out, err
}

// Open implements connectors.SinkTask.
func (t *task) Open(ctx context.Context, parts []connectors.TopicPartition) (map[connectors.TopicPartition]int64, error) {
	start, err := t.Task.Open(ctx, parts)
	if err != nil {
		return start, err
	}
	byTopic := map[string][]string{}
	for _, tp := range parts {
		byTopic[tp.Topic] = append(byTopic[tp.Topic], warehouse.BasePrefix(t.v, tp))
	}
	for topic, bases := range byTopic {
		t.t.sweep(ctx, warehouse.TopicFolder(t.v, topic), bases)
	}
	return start, nil
}
