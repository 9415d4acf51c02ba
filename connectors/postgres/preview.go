package postgres

import (
	"context"
	"errors"

	"millrace/connectors"
	"millrace/connectors/cdc"
)

// Preview reads the captured tables as a snapshot would, in a transaction that only
// reads and ends with it: no slot and no publication is made, and nothing is locked.
func (t *task) Preview(parent context.Context, out connectors.Out) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	queue := cdc.NewQueue(t.s.maxQueue, t.s.maxQueueBytes)
	emitted := make(chan error, 1)
	go func() {
		defer cancel() // who has seen enough ends the reading
		emitted <- queue.Emit(ctx, out)
	}()
	err := t.readPreview(ctx, queue)
	if err != nil {
		cancel()
	}
	queue.Close()
	refused := <-emitted
	switch {
	case parent.Err() != nil:
		return nil
	case refused != nil && !errors.Is(refused, context.Canceled):
		return refused
	}
	return err
}

func (t *task) readPreview(ctx context.Context, queue *cdc.Queue) error {
	s := t.s
	c, err := s.open(ctx, t.cc.Files)
	if err != nil {
		return err
	}
	defer c.close()
	all, err := c.listTables(ctx, s.ignoreBuiltin)
	if err != nil {
		return err
	}
	tables, roots := s.captured(all)
	if err := s.checkTables(tables, roots); err != nil {
		return err
	}
	if _, err := c.query(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return s.classify(err, "begin the preview's transaction")
	}
	at, err := c.currentLSN(ctx)
	if err != nil {
		return err
	}
	_, err = t.readSnapshot(ctx, queue, c, s.snapshotOf(tables), at)
	return err
}
