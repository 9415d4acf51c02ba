package worker

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// gate lets batches pass, or not while a task is paused.
type gate struct {
	mu   sync.Mutex    // guards open
	open chan struct{} // closed: batches pass
}

func newGate(paused bool) *gate {
	g := &gate{open: make(chan struct{})}
	if !paused {
		close(g.open)
	}
	return g
}

// set closes or opens the gate and reports whether that changed it.
func (g *gate) set(paused bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed() == paused {
		return false
	}
	if paused {
		g.open = make(chan struct{})
	} else {
		close(g.open)
	}
	return true
}

func (g *gate) closed() bool {
	select {
	case <-g.open:
		return false
	default:
		return true
	}
}

// passing is closed while the gate is open.
func (g *gate) passing() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// wait returns when the gate is open.
func (g *gate) wait(ctx, failed context.Context) error {
	select {
	case <-g.passing():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-failed.Done():
		return fmt.Errorf("the task has ended: %w", context.Canceled)
	}
}

// A PanicError is a panic of a connector or converter. It is a bug in this process.
type PanicError struct {
	Where string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("panic in %s: %v; this is a bug, please report it with the stack in the worker's log", e.Where, e.Value)
}

// guard runs f and turns its panic into an error, so that one task's bug leaves the
// others running.
func guard(where string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{where, v, debug.Stack()}
		}
	}()
	return f()
}
