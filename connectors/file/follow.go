package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"millrace/connectors"
	"millrace/schema"
)

const (
	chunkBytes = connectors.MaxBatchBytes / 2
	maxLine    = 64 << 20 // far beyond what a record can be; the log's own limit comes first
)

// A follower reads one file and what rotation makes of it. It is used by the
// goroutine of its task.
//
// buf holds, in this order, the bytes before pos that a fingerprint needs, and the
// line that has begun at pos and has no end yet.
type follower struct {
	task      *sourceTask
	lg        *slog.Logger
	partition schema.Value
	times     times

	resume *place // where to start, until a file is open
	once   bool   // the end of the file is the end of the work

	f       *os.File
	name    string   // what f was called when it was opened
	rotated bool     // f is not the configured path's file any more
	queue   []string // rotated files that come after f, oldest first

	buf     []byte
	pos     int64 // where the first line that was not emitted starts
	before  int   // buf[:before] stands before pos
	scanned int   // the begun line has no end in its first bytes
	head    fingerprint
	fresh   time.Time // since when the new file of a rotated one has lines
	warned  bool      // about a file that is not there

	still os.FileInfo // of f, as it was when there was nothing to do; nil: look closely
}

// readPos is the next byte to read.
func (f *follower) readPos() int64 { return f.pos + int64(len(f.buf)-f.before) }

func (f *follower) close() {
	f.task.reading.Store(nil)
	if f.f != nil {
		f.f.Close()
		f.f = nil
	}
}

func (f *follower) run(ctx context.Context, out connectors.Out) error {
	for ctx.Err() == nil {
		if f.quiet() {
			f.pause(ctx)
			continue
		}
		if f.f == nil {
			ok, err := f.open()
			if err != nil {
				return err
			}
			if !ok {
				if f.once {
					return nil
				}
				f.pause(ctx)
				continue
			}
		}
		n, err := f.read()
		switch {
		case err != nil:
			return err
		case n > 0:
			if err := f.emit(ctx, out, false); err != nil {
				return ended(ctx, err)
			}
			continue
		case f.once:
			return nil
		}
		again, err := f.atEnd(ctx, out)
		if err != nil {
			return ended(ctx, err)
		}
		if !again {
			f.pause(ctx)
		}
	}
	return nil
}

// pause waits for the next moment to look.
func (f *follower) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-looks.next(f.times.poll):
	}
}

// looks are the moments at which the followers of this process look. They are the same for all: hundreds that wake up one by
// one would cost more than what they do.
var looks moments

type moments struct {
	mu    sync.Mutex
	comes map[time.Duration]chan struct{} // closed at the moment, by what is between two. There are none that nobody waits for
}

// next is closed at the next moment.
func (m *moments) next(every time.Duration) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.comes[every]
	if c == nil {
		if m.comes == nil {
			m.comes = map[time.Duration]chan struct{}{}
		}
		c = make(chan struct{})
		m.comes[every] = c
		time.AfterFunc(every, func() {
			m.mu.Lock()
			delete(m.comes, every)
			m.mu.Unlock()
			close(c)
		})
	}
	return c
}

// ended is nil where err only says that ctx has ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// open opens the next file: one that is queued, the file of the stored place, or
// the configured path. It reports whether there is one.
func (f *follower) open() (bool, error) {
	path, err := allowed(f.task.cc.Files, f.task.path)
	if err != nil {
		return false, err
	}
	if len(f.queue) > 0 {
		next := f.queue[0]
		f.queue = f.queue[1:]
		file, _, err := openRegular(next)
		if errors.Is(err, fs.ErrNotExist) {
			f.lg.Warn("a rotated file is gone before it was read", "rotated", next)
			return f.open()
		}
		if err != nil {
			return false, f.failed(next, err)
		}
		f.start(file, next, true, 0)
		return true, nil
	}
	file, fi, err := openRegular(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, f.failed(path, err)
	}
	if f.resume != nil {
		return f.reopen(path, file, fi)
	}
	if file == nil {
		if !f.warned {
			f.warned = true
			f.lg.Warn("file does not exist yet; waiting for it")
		}
		return false, nil
	}
	f.start(file, path, false, 0)
	return true, nil
}

// reopen finds the file of the stored place: the path's own, which may not be there
// (file is nil), or one that rotation has renamed or copied.
func (f *follower) reopen(path string, file *os.File, fi os.FileInfo) (bool, error) {
	p, known := *f.resume, false
	if file != nil {
		same, err := p.matches(file)
		if err != nil {
			file.Close()
			return false, f.failed(path, err)
		}
		if same && fi.Size() >= p.pos && (!p.print.known() || p.inode == 0 || p.inode == inodeOf(fi)) {
			return true, f.startAt(file, path, false, p.pos)
		}
		// The same beginning under another inode: a copy that was put in the file's place, or a
		// new file that begins as the old one did, which is then beside it.
		known = same
	}
	if p.print.known() {
		old, name, err := findRotated(f.task.cc.Files, path, p, fi, known)
		if err != nil {
			return false, f.failed(path, err)
		}
		if old == nil && known {
			return true, f.startAt(file, path, false, p.pos)
		}
		if old != nil {
			if file != nil {
				file.Close()
			}
			f.lg.Info("the file was rotated while nobody read it; reading on in the old one", "rotated", name, "position", p.pos)
			return true, f.startAt(old, name, true, p.pos)
		}
	}
	if file == nil { // neither: the file may come back, or be restored
		if !f.warned {
			f.warned = true
			f.lg.Warn("file does not exist; waiting for it", "position", p.pos)
		}
		return false, nil
	}
	f.lg.Warn("the file is not the one that was read: it was truncated, rewritten or replaced, and the old one is not beside it; "+
		"reading from its beginning", "position", p.pos, "size", fi.Size())
	f.start(file, path, false, 0)
	return true, nil
}

// start begins to read file at pos.
func (f *follower) start(file *os.File, name string, rotated bool, pos int64) {
	f.close()
	f.f, f.name, f.rotated, f.pos = file, name, rotated, pos
	f.buf, f.before, f.scanned, f.head, f.fresh = nil, 0, 0, fingerprint{}, time.Time{}
	f.resume, f.warned, f.still = nil, false, nil
	f.task.position.Store(pos)
	f.task.reading.Store(file)
}

// startAt is start with the bytes before pos read again, for later fingerprints.
func (f *follower) startAt(file *os.File, name string, rotated bool, pos int64) error {
	f.start(file, name, rotated, pos)
	f.buf = make([]byte, min(pos, tailBytes))
	f.before = len(f.buf)
	if _, err := file.ReadAt(f.buf, pos-int64(len(f.buf))); err != nil {
		return f.failed(name, err)
	}
	return nil
}

// read reads what comes next into buf and returns how much that was. Nothing is
// taken from a file that no longer holds what was read of it: n is 0 then, and
// atEnd sees why.
func (f *follower) read() (n int, err error) {
	fi, err := f.f.Stat()
	if err != nil {
		return 0, f.failed(f.name, err)
	}
	at := f.readPos()
	size := fi.Size() - at
	if size <= 0 {
		return 0, nil
	}
	begun := len(f.buf) - f.before
	if begun >= maxLine {
		return 0, f.tooLong()
	}
	// A long line at least doubles what is read, so that it is copied a few times only.
	want := int(min(size, int64(max(chunkBytes, begun))))
	grown := make([]byte, len(f.buf)+want)
	copy(grown, f.buf)
	n, err = f.f.ReadAt(grown[len(f.buf):], at)
	if err != nil && err != io.EOF {
		return 0, f.failed(f.name, err)
	}
	// Asked after the read: what was truncated and written anew before it is not taken.
	if same, err := f.same(); err != nil || !same {
		return 0, err
	}
	f.buf = grown[:len(f.buf)+n]
	f.task.position.Store(f.readPos())
	f.task.taken.Add(uint64(n))
	return n, nil
}

// same reports whether the bytes before readPos are still those that were read.
func (f *follower) same() (bool, error) {
	ok, err := holds(f.f, f.readPos(), f.buf[max(0, len(f.buf)-tailBytes):])
	if err != nil {
		return false, f.failed(f.name, err)
	}
	return ok, nil
}

// emit hands on the whole lines in buf, and with last the begun one, too.
func (f *follower) emit(ctx context.Context, out connectors.Out, last bool) error {
	var (
		now     = time.Now().UnixMilli()
		rest    = f.buf[f.before:]
		at      = 0 // in rest: the first byte that is in no batch
		size    int
		records []schema.Record
		starts  []int64
	)
	flush := func() error {
		if len(records) == 0 {
			return nil
		}
		p, err := f.placeAt(f.pos+int64(at), f.buf[:f.before+at])
		if err != nil {
			return err
		}
		where, lines := f.task.path, starts
		err = out.Emit(ctx, connectors.Batch{
			Records:  records,
			Offsets:  []connectors.Offset{{Partition: f.partition, Position: p.stored()}},
			Describe: func(i int) string { return fmt.Sprintf("file %q, byte %d", where, lines[i]) },
		})
		if err != nil {
			return err
		}
		f.advance(at)
		rest, at, size, records, starts = f.buf[f.before:], 0, 0, nil, nil
		return nil
	}
	for {
		line, next, ok := cutLine(rest[at:], f.scanned)
		if !ok {
			if !last || at == len(rest) {
				break
			}
			line, next = rest[at:], len(rest)-at // a rotated file's last line has no newline
			if line[len(line)-1] == '\r' {
				line = line[:len(line)-1]
			}
		}
		if len(records) == f.task.batch || len(records) > 0 && size+len(line) > connectors.MaxBatchBytes {
			if err := flush(); err != nil {
				return err
			}
			line = rest[:len(line)] // the same bytes, by their new place
		}
		if records == nil {
			guess := min(f.task.batch, (len(rest)-at)/(len(line)+1)+1)
			records, starts = make([]schema.Record, 0, guess), make([]int64, 0, guess)
		}
		records = append(records, f.task.record(line[:len(line):len(line)], now))
		starts = append(starts, f.pos+int64(at))
		size += len(line)
		at += next
		f.scanned = 0
	}
	if err := flush(); err != nil {
		return err
	}
	if rest := f.buf[f.before:]; len(rest) > 0 && rest[len(rest)-1] == '\r' {
		f.scanned = len(rest) - 1
	} else {
		f.scanned = len(rest)
	}
	return nil
}

// advance moves pos over n bytes and keeps before it what a fingerprint needs. buf
// keeps its bytes: records share them.
func (f *follower) advance(n int) {
	f.pos += int64(n)
	f.before += n
	if f.before > tailBytes {
		f.buf = f.buf[f.before-tailBytes:]
		f.before = tailBytes
	}
}

// placeAt is the position pos with its fingerprint; upTo are bytes that end at pos.
func (f *follower) placeAt(pos int64, upTo []byte) (place, error) {
	tail := upTo[max(0, len(upTo)-tailBytes):]
	if want := min(pos, headBytes); f.head.headLen < want {
		b := make([]byte, want)
		if _, err := f.f.ReadAt(b, 0); err != nil && err != io.EOF {
			return place{}, f.failed(f.name, err)
		}
		f.head = fingerprint{headLen: want, head: hashOf(b)}
	}
	p := place{pos: pos, print: f.head}
	p.print.tailLen, p.print.tail = int64(len(tail)), hashOf(tail)
	if fi, err := f.f.Stat(); err == nil {
		p.inode = inodeOf(fi)
	}
	return p, nil
}

// settled is how old a file's last change must be to be told from the next by its time.
const settled = 2 * time.Second

// quiet reports whether the file is as it was when there was nothing to do, and still is the
// configured path's: a look that costs little, since hundreds of files may be followed. While
// the file is open nothing else gets its inode.
func (f *follower) quiet() bool {
	if f.still == nil {
		return false
	}
	if untouched(f.task.path, f.still) {
		return true
	}
	f.still = nil
	return false
}

// atEnd looks why nothing more could be read: the file has grown no further, was
// truncated, or has been rotated. It reports whether to read again at once.
func (f *follower) atEnd(ctx context.Context, out connectors.Out) (again bool, err error) {
	fi, err := f.f.Stat()
	if err != nil {
		return false, f.failed(f.name, err)
	}
	same, err := f.same()
	if err != nil {
		return false, err
	}
	path, err := allowed(f.task.cc.Files, f.task.path)
	if err != nil {
		return false, err
	}
	if !same {
		return true, f.truncated(path, fi)
	}
	current, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil // renamed or deleted: whoever has it open may still write
	case err != nil:
		return false, f.failed(path, err)
	case os.SameFile(fi, current):
		f.rotated, f.fresh = false, time.Time{}
		if fi.Size() > f.readPos() {
			return true, nil
		}
		f.still = nil
		if time.Since(fi.ModTime()) > settled {
			f.still = fi
		}
		return false, nil
	case fi.Size() > f.readPos():
		return true, nil // grew between the two looks
	}
	// Rotated. Until the new file has lines the writer may be busy with the old one, and
	// for a while longer where several write.
	f.rotated = true
	if len(f.queue) == 0 {
		if f.queue, err = rotatedAfter(f.task.cc.Files, path, f.f, current); err != nil {
			return false, f.failed(path, err)
		}
	}
	if current.Size() == 0 && len(f.queue) == 0 {
		return false, nil
	}
	if f.fresh.IsZero() {
		f.fresh = time.Now()
	}
	if time.Since(f.fresh) < f.times.grace {
		return false, nil
	}
	if err := f.emit(ctx, out, true); err != nil {
		return false, err
	}
	f.lg.Info("the file was rotated; the old one is read to its end", "position", f.pos, "more", len(f.queue))
	f.close()
	return true, nil
}

// truncated goes on where the lines are that were read up to now and no longer stand
// in the open file: in a copy beside it, if one was made, then in the file itself.
func (f *follower) truncated(path string, fi os.FileInfo) error {
	p := place{pos: f.pos, print: f.head}
	tail := f.buf[max(0, f.before-tailBytes):f.before]
	p.print.tailLen, p.print.tail = int64(len(tail)), hashOf(tail)
	if p.pos > 0 && f.head.headLen > 0 {
		old, name, err := findRotated(f.task.cc.Files, path, p, fi, false)
		if err != nil {
			return f.failed(path, err)
		}
		if old != nil {
			f.lg.Info("the file was copied and truncated; reading the copy to its end", "copy", name, "position", p.pos)
			return f.startAt(old, name, true, p.pos)
		}
	}
	if f.rotated { // what was rotated away and then truncated holds nothing for us
		f.lg.Warn("a rotated file was truncated before it was read to its end", "rotated", f.name, "position", f.pos)
		f.close()
		return nil
	}
	f.lg.Warn("the file was truncated or rewritten; reading from its beginning. Lines that were written just before may be lost",
		"position", f.readPos(), "size", fi.Size())
	file, name := f.f, f.name
	f.f = nil // start would close it
	f.start(file, name, false, 0)
	return nil
}

// tooLong says where a line stands that no record can hold, and where it ends.
func (f *follower) tooLong() error {
	remedy := ""
	room := make([]byte, chunkBytes)
	for at := f.readPos(); ; {
		n, err := f.f.ReadAt(room, at)
		for i, c := range room[:n] {
			if c == '\n' {
				remedy = fmt.Sprintf("stop the connector and set its offset to {%q: %d}, behind the line", positionKey, at+int64(i)+1)
				break
			}
		}
		if at += int64(n); remedy != "" || n == 0 || err != nil {
			break
		}
	}
	return connectors.Failed(&longLine, nil,
		fmt.Sprintf("file %q: the line at byte %d is longer than %d MiB", f.task.path, f.pos, maxLine>>20), remedy)
}

func (f *follower) failed(path string, err error) error {
	if connectors.FailureOf(err) != nil {
		return err
	}
	return connectors.Failed(&unreadable, err, fmt.Sprintf("file %q (%s) cannot be read", f.task.path, filepath.Base(path)), "")
}
