package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/log"
	"millrace/runtime"
	"millrace/runtime/settings"
	"millrace/runtime/tolerance"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/javatext"
)

// Preview runs the first records of a configuration, which is valid, through its chain.
// Nothing is written: no topic, no offset, no group, and sources leave nothing where they
// read. What a step cannot do with a record stands in the answer; an error concerns the
// whole.
func (w *Worker) Preview(ctx context.Context, name string, conf map[string]string, records int) (runtime.Preview, error) {
	r, err := w.resolve(ctx, runtime.TaskID{Connector: name, Task: -1}, conf)
	if err != nil {
		return runtime.Preview{}, err
	}
	secrets := r.Secrets()
	p, err := w.hiding(secrets).preview(ctx, name, r.Values, records)
	for i := range p.Records {
		for j := range p.Records[i].Steps {
			p.Records[i].Steps[j].Err = secrets.Error(p.Records[i].Steps[j].Err)
		}
	}
	return p, secrets.Error(err)
}

func (w *Worker) preview(ctx context.Context, name string, conf map[string]string, records int) (p runtime.Preview, err error) {
	info, err := w.Find(conf[settings.ConnectorClass.Name])
	if err != nil {
		return p, err
	}
	def := settings.Source
	if info.Type == runtime.SinkType {
		def = settings.Sink
	}
	v, err := parse(def, conf)
	if err != nil {
		return p, err
	}
	sh, err := w.shaper(v, conf, nil)
	if err != nil {
		return p, err
	}
	p.Type = info.Type
	if info.Type == runtime.SinkType {
		err = w.previewSink(ctx, v, sh, records, &p)
	} else {
		err = w.previewSource(ctx, name, conf, info, sh, records, &p)
	}
	return p, err
}

// errEnough ends the reading of a preview that has all its records.
var errEnough = errors.New("the preview has its records")

// previewOut takes a preview's records.
type previewOut struct {
	records int
	each    func(r schema.Record, where string)
}

func (o *previewOut) Emit(ctx context.Context, b connectors.Batch) error {
	for i := range b.Records {
		if o.records == 0 {
			return errEnough
		}
		o.records--
		where := ""
		if b.Describe != nil {
			where = b.Describe(i)
		}
		o.each(b.Records[i], where)
	}
	if o.records == 0 {
		return errEnough
	}
	return ctx.Err()
}

func (w *Worker) previewSource(ctx context.Context, name string, conf map[string]string, info Info, sh *shaper, records int, p *runtime.Preview) error {
	plans, err := w.plan(ctx, name, conf)
	if err != nil {
		return err
	}
	if len(plans) == 0 {
		p.Ended = true
		return nil
	}
	own, err := parse(info.config, plans[0])
	if err != nil {
		return err
	}
	plugin, _ := w.cfg.Plugins.Sources.Find(info.Class)
	out := &previewOut{records: records, each: func(r schema.Record, where string) {
		steps := []runtime.PreviewStep{{Name: "read", Class: info.Class, Record: r}}
		steps, r, ok := sh.trace(steps, r)
		if ok {
			steps = append(steps, sh.traceEncode(r))
		}
		p.Records = append(p.Records, runtime.PreviewedRecord{Where: where, Steps: steps})
	}}
	err = guard("preview of connector "+name, func() error {
		cc := w.Context(name, 0)
		cc.Offsets = noOffsets{}
		task, err := plugin.NewTask(cc, own)
		if err != nil {
			return err
		}
		reader, ok := task.(connectors.Previewer)
		if !ok {
			return runtime.BadRequest("connectors of class %s cannot be previewed: they cannot be read without leaving something behind", info.Class)
		}
		return reader.Preview(ctx, out)
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err == nil:
		p.Ended = ctx.Err() == nil
	}
	return err
}

// noOffsets are those of a connector that has never run.
type noOffsets struct{}

func (noOffsets) Stored(context.Context, schema.Value) (schema.Value, error) {
	return schema.Value{}, nil
}
func (noOffsets) All(context.Context) ([]connectors.Offset, error) { return nil, nil }

// trace passes a record through the chain. ok is false where it goes no further.
func (sh *shaper) trace(steps []runtime.PreviewStep, r schema.Record) ([]runtime.PreviewStep, schema.Record, bool) {
	if sh.chain == nil {
		return steps, r, true
	}
	for _, t := range sh.chain.Trace(r) {
		steps = append(steps, runtime.PreviewStep{Name: "transforms." + t.Alias, Class: t.Class, Record: t.Out, Passed: t.Passed, Dropped: t.Dropped, Err: t.Err})
		if t.Dropped || t.Err != nil {
			return steps, t.Out, false
		}
		r = t.Out
	}
	return steps, r, true
}

// traceEncode converts a record as it would be written.
func (sh *shaper) traceEncode(r schema.Record) runtime.PreviewStep {
	step := runtime.PreviewStep{Name: "encode", Class: sh.valueClass, Record: r}
	s := &slab{}
	s.reset()
	s.grow(1)
	kr := s.next()
	if err := sh.encode(s, kr, &r); err != nil {
		var at *tolerance.StageError
		if errors.As(err, &at) {
			step.Class = at.Class
		}
		step.Err = err
		return step
	}
	step.Key, step.Value = kr.Key, kr.Value
	return step
}

// previewSink reads the topics from their beginnings, one after the other, outside of any
// group.
func (w *Worker) previewSink(ctx context.Context, v config.Values, sh *shaper, records int, p *runtime.Preview) error {
	topics, err := w.sinkTopics(ctx, v)
	if err != nil {
		return err
	}
	ends, err := w.cfg.Log.Admin().ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return fmt.Errorf("where the topics end: %w", err)
	}
	starts, err := w.cfg.Log.Admin().ListStartOffsets(ctx, topics...)
	if err != nil {
		return fmt.Errorf("where the topics begin: %w", err)
	}
	left, at := map[string]map[int32]int64{}, map[string]map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) {
		if start, ok := starts.Lookup(end.Topic, end.Partition); ok && end.Err == nil && start.Err == nil && start.Offset < end.Offset {
			if left[end.Topic] == nil {
				left[end.Topic], at[end.Topic] = map[int32]int64{}, map[int32]kgo.Offset{}
			}
			left[end.Topic][end.Partition] = end.Offset
			at[end.Topic][end.Partition] = kgo.NewOffset().At(start.Offset)
		}
	})
	if len(left) == 0 {
		p.Ended = true
		return nil
	}
	cl, err := kgo.NewClient(append(w.cfg.Log.ClientOpts(), kgo.ClientID("connect-preview"), kgo.WithLogger(log.ClientLog(w.cfg.Logger)), kgo.ConsumePartitions(at),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxBytes(4<<20), kgo.MaxConcurrentFetches(1))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for len(p.Records) < records {
		f := cl.PollRecords(ctx, 200)
		if ctx.Err() != nil {
			return nil
		}
		for _, e := range f.Errors() {
			return fmt.Errorf("read topic %s, partition %d: %w", e.Topic, e.Partition, e.Err)
		}
		for it := f.RecordIter(); !it.Done() && len(p.Records) < records; {
			kr := it.Next()
			end, waited := left[kr.Topic][kr.Partition]
			if waited && kr.Offset < end && !kr.Attrs.IsControl() {
				p.Records = append(p.Records, sh.previewRecord(kr))
			}
			if waited && kr.Offset+1 >= end {
				if delete(left[kr.Topic], kr.Partition); len(left[kr.Topic]) == 0 {
					delete(left, kr.Topic)
				}
			}
		}
		if len(left) == 0 {
			p.Ended = len(p.Records) < records
			return nil
		}
	}
	return nil
}

func (sh *shaper) previewRecord(kr *kgo.Record) runtime.PreviewedRecord {
	o := &schema.Origin{}
	fill(o, kr)
	out := runtime.PreviewedRecord{Where: whereOf(o)}
	var r schema.Record
	decode := runtime.PreviewStep{Name: "decode", Class: sh.valueClass}
	if err := sh.decodeOnce(kr, o, &r); err != nil {
		var at *tolerance.StageError
		if errors.As(err, &at) {
			decode.Class, decode.Err = at.Class, fmt.Errorf("%s: %w", at.Stage, at.Err)
		}
		decode.Key, decode.Value = kr.Key, kr.Value
		decode.Record = schema.Record{Topic: kr.Topic, Partition: kr.Partition, Timestamp: o.Timestamp}
		out.Steps = append(out.Steps, decode)
		return out
	}
	decode.Record = r
	out.Steps, _, _ = sh.trace(append(out.Steps, decode), r)
	return out
}

// sinkTopics are the topics that a sink reads and that are there.
func (w *Worker) sinkTopics(ctx context.Context, v config.Values) ([]string, error) {
	wanted := map[string]bool{}
	for _, t := range settings.Topics.Get(v) {
		wanted[t] = true
	}
	var re *javatext.Regexp
	if pattern := settings.TopicsRegex.Get(v); pattern != "" {
		var err error
		if re, err = javatext.Compile(pattern); err != nil {
			return nil, connectors.BadConfig(err)
		}
	}
	all, err := w.cfg.Log.Admin().ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the topics: %w", err)
	}
	var out []string
	for _, t := range all.Names() {
		ok := wanted[t]
		if !ok && re != nil {
			if ok, err = re.MatchWhole(t); err != nil {
				return nil, err
			}
		}
		if ok {
			out = append(out, t)
		}
	}
	return out, nil
}
