package mysql

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"millrace/connectors"
)

// A fileJournal is a history in a file, one record a line, as Debezium's
// FileSchemaHistory keeps it.
type fileJournal struct {
	path string
	mu   sync.Mutex // one writer at a time
}

func openFileJournal(files connectors.Files, path string) (connectors.Journal, error) {
	if files != nil {
		checked, err := files.Check(path)
		if err != nil {
			return nil, connectors.BadConfig(err)
		}
		path = checked
	}
	return &fileJournal{path: path}, nil
}

// Append implements connectors.Journal.
func (j *fileJournal) Append(_ context.Context, entries ...[]byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	f, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := lastLine(f)
	if err != nil {
		return err
	}
	var out []byte
	for _, e := range entries {
		line, err := oneLine(e)
		if err != nil {
			return err
		}
		out = append(append(out, line...), '\n')
	}
	if _, err := f.WriteAt(out, end); err != nil {
		return err
	}
	return f.Sync()
}

// lastLine is where the file's last whole line ends. A line that a crash cut off is
// overwritten.
func lastLine(f *os.File) (int64, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		n := min(end, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return 0, nil
}

// oneLine is a record without line feeds; those of its texts are escaped already, so that
// all there are stand between its parts.
func oneLine(e []byte) ([]byte, error) {
	if bytes.IndexByte(e, '\n') < 0 {
		return e, nil
	}
	return bytes.ReplaceAll(e, []byte{'\n'}, []byte{' '}), nil
}

// longestLine bounds a record of a file.
const longestLine = 256 << 20

// Replay implements connectors.Journal.
func (j *fileJournal) Replay(ctx context.Context, each func([]byte) error) error {
	f, err := os.Open(j.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := lastLine(f)
	if err != nil {
		return err
	}
	r := bufio.NewScanner(io.NewSectionReader(f, 0, end))
	r.Buffer(make([]byte, 0, 64<<10), longestLine)
	for r.Scan() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := each(r.Bytes()); err != nil {
			return err
		}
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("%s: %w", j.path, err)
	}
	return nil
}
