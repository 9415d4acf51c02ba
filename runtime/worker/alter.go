package worker

import (
	"context"

	"millrace/connectors"
	"millrace/runtime"
	"millrace/schema/config"
)

// AlterOffsets asks a source connector whether it agrees to offsets that a client wants
// to set, and whether that is all there is to do; see connectors.OffsetAlterer.
func (w *Worker) AlterOffsets(ctx context.Context, name string, conf map[string]string, offsets []connectors.Offset) (done bool, err error) {
	err = w.ask(ctx, name, conf, func(made any) error {
		if a, ok := made.(connectors.OffsetAlterer); ok {
			done, err = a.AlterOffsets(ctx, offsets)
		}
		return err
	})
	return done, err
}

// AlterSinkOffsets is AlterOffsets for a sink; see connectors.SinkOffsetAlterer.
func (w *Worker) AlterSinkOffsets(ctx context.Context, name string, conf map[string]string, offsets map[connectors.TopicPartition]*int64) (done bool, err error) {
	err = w.ask(ctx, name, conf, func(made any) error {
		if a, ok := made.(connectors.SinkOffsetAlterer); ok {
			done, err = a.AlterOffsets(ctx, offsets)
		}
		return err
	})
	return done, err
}

// ask makes a connector and asks it something. Its panic is an error.
func (w *Worker) ask(ctx context.Context, name string, conf map[string]string, question func(made any) error) error {
	r, err := w.resolve(ctx, runtime.TaskID{Connector: name, Task: -1}, conf)
	if err != nil {
		return err
	}
	secrets := r.Secrets()
	return secrets.Error(w.hiding(secrets).askResolved(name, r.Values, question))
}

func (w *Worker) askResolved(name string, conf map[string]string, question func(made any) error) error {
	info, err := w.Find(conf["connector.class"])
	if err != nil {
		return err
	}
	own, err := parse(info.config, conf)
	if err != nil {
		return err
	}
	return guard("connector "+name, func() error {
		made, err := w.make(info, w.Context(name, -1), own)
		if err != nil {
			return err
		}
		return question(made)
	})
}

// make makes a connector of a plugin: a connectors.Source or a connectors.Sink.
func (w *Worker) make(info Info, cc connectors.Context, own config.Values) (any, error) {
	if p, ok := w.cfg.Plugins.Sources.Find(info.Class); ok {
		return p.New(cc, own)
	}
	p, _ := w.cfg.Plugins.Sinks.Find(info.Class)
	return p.New(cc, own)
}
