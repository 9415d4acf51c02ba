package file

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
)

// A file's source says how much of it is not read: nothing where it is at the end, the
// rest where the log holds it back.
func TestProgress(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "app.log")
	task := &sourceTask{cc: connectors.Context{Log: quiet(), Files: roots(dir)}, path: path, topic: "lines", batch: 1, times: times{poll: time.Millisecond, grace: time.Millisecond}}
	ctx, cancel := context.WithCancel(t.Context())
	held := make(chan struct{}, 1)
	out := holding{held}
	done := make(chan error, 1)
	go func() { done <- task.Run(ctx, out) }()
	t.Cleanup(func() { cancel(); <-done })
	await := func(what string, ok func(p connectors.Progress) bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !ok(task.Progress(ctx)); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", what, task.Progress(ctx))
			}
		}
	}
	await("there is no file", func(p connectors.Progress) bool {
		return p.Behind == 0 && strings.Contains(p.Position, "not there")
	})
	big := strings.Repeat(strings.Repeat("x", 99)+"\n", 4*chunkBytes/100) // several reads
	if err := os.WriteFile(path, []byte(big), 0o600); err != nil {
		t.Fatal(err)
	}
	await("the log takes nothing, and the file goes on", func(p connectors.Progress) bool {
		return p.At == chunkBytes && p.Behind == int64(len(big))-chunkBytes && strings.Contains(p.Position, "app.log")
	})
	close(held) // it takes all now
	await("all is read", func(p connectors.Progress) bool { return p.At == uint64(len(big)) && p.Behind == 0 })
}

// holding takes nothing until it is let go.
type holding struct{ held chan struct{} }

func (h holding) Emit(ctx context.Context, _ connectors.Batch) error {
	select {
	case <-h.held:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
