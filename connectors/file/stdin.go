package file

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"millrace/connectors"
	"millrace/schema"
)

// A stdin shares the process's standard input among the tasks that read it one
// after the other. Reading it cannot be interrupted, so one goroutine reads it for as
// long as the process lives, from the first use on, and keeps what no task has taken.
type stdin struct {
	in    io.Reader
	once  sync.Once
	lines chan []byte // each is a run of whole lines; closed at the end
	back  chan []byte // what a task could not hand on
}

var processStdin = newStdin(os.Stdin)

func newStdin(in io.Reader) *stdin {
	return &stdin{in: in, lines: make(chan []byte), back: make(chan []byte, 1)}
}

func (s *stdin) pump() {
	defer close(s.lines)
	var begun []byte
	for {
		room := make([]byte, len(begun)+64<<10)
		copy(room, begun)
		n, err := s.in.Read(room[len(begun):])
		room = room[:len(begun)+n]
		if err != nil || len(room) > maxLine {
			if len(room) > 0 { // the last line has no newline
				s.lines <- append(room, '\n')
			}
			if err != nil {
				return
			}
			begun = nil
			continue
		}
		end := 0
		for at := 0; ; {
			_, next, ok := cutLine(room[at:], 0)
			if !ok {
				break
			}
			at += next
			end = at
		}
		begun = room[end:]
		if end > 0 {
			s.lines <- room[:end:end]
		}
	}
}

// runStdin emits the lines of standard input. They have no offsets: as with Kafka,
// what was read and not delivered when the process ends is lost.
func (t *sourceTask) runStdin(ctx context.Context, out connectors.Out) error {
	t.in.once.Do(func() { go t.in.pump() })
	lines := t.in.lines
	for {
		var chunk []byte
		select {
		case chunk = <-t.in.back:
		default:
			var ok bool
			select {
			case <-ctx.Done():
				return nil
			case chunk = <-t.in.back:
			case chunk, ok = <-lines:
				if !ok {
					lines = nil // the end: nothing more will come
					continue
				}
			}
		}
		for len(chunk) > 0 {
			now := time.Now().UnixMilli()
			records := make([]schema.Record, 0, min(t.batch, 64))
			at := 0
			for len(records) < t.batch {
				line, next, ok := cutLine(chunk[at:], 0)
				if !ok {
					break
				}
				records = append(records, t.record(line[:len(line):len(line)], now))
				at += next
			}
			if at == 0 { // a lone \r at the very end
				break
			}
			if err := out.Emit(ctx, connectors.Batch{Records: records}); err != nil {
				t.in.back <- chunk
				return ended(ctx, err)
			}
			chunk = chunk[at:]
		}
	}
}
