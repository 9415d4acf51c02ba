package warehouse

import (
	"context"
	"io"
	"strings"

	"millrace/connectors"
	"millrace/schema"
)

// A File is a finished file, which is to be made visible.
type File struct {
	Name        string // with folders, parted by /
	First, Last int64  // offsets of its first and last record
	FirstTime   int64  // the first one's time in the log, in milliseconds; schema.NoTimestamp where it has none
	Records     int64
	Size        int64
	Body        io.ReaderAt // Size bytes, for several readers at once

	end, ext string // what NameWithEnd puts before, and behind, the end of Name
}

// NameWithEnd is Name with the offset of the last record behind that of the first one.
func (f *File) NameWithEnd() string { return strings.TrimSuffix(f.Name, f.ext) + f.end + f.ext }

// openFile is a file that takes records, with those beside it.
type openFile struct {
	fileKey
	ms          int64 // time of the first record
	first, last int64
	firstTime   int64 // see File
	records     int64
	size        int64 // of all bodies
	bodies      []*body
}

// A body is what a file holds of a view.
type body struct {
	content
	view        *view
	schema      *schema.Schema // of the first record, or what the others are turned into
	first       int64
	largest     int   // bytes of the largest record
	cuts        []cut // blocks of the content
	projections map[*schema.Schema]*schema.Projection
}

// A fileKey tells a part's open files apart.
type fileKey struct {
	topic      string // as transforms have left it
	folder     string
	tombstones bool
}

// A cut is a part of a body's content that holds whole records.
type cut struct{ records, bytes int64 }

// add appends a record's bytes.
func (o *body) add(b []byte, offset int64) error {
	if _, err := o.Write(b); err != nil {
		return err
	}
	o.largest = max(o.largest, len(b))
	if len(o.cuts) == 0 {
		o.first = offset
	}
	if n := len(o.cuts); n == 0 || o.cuts[n-1].bytes >= blockBytes {
		o.cuts = append(o.cuts, cut{})
	}
	c := &o.cuts[len(o.cuts)-1]
	c.records, c.bytes = c.records+1, c.bytes+int64(len(b))
	return nil
}

// release gives back what the bodies hold.
func (o *openFile) release() {
	for _, b := range o.bodies {
		b.release()
	}
}

// part is a partition of a topic that the task has. Its fields belong to the task's goroutine, those below mu to Task.mu.
type part struct {
	tp      connectors.TopicPartition
	open    map[fileKey]*openFile
	recent  *openFile // that was looked for last; nil: none
	base    int64     // time of the first record in the open files
	latest  int64     // time of the newest one
	current string    // folder by time of the newest one; empty: of none yet
	next    int64     // behind the last record that was taken
	began   int64     // when the first open file was made, for the schedule

	sealed    int  // groups that are not committed
	busy      bool // one of them is being committed
	gone      bool
	committed int64 // offset to commit
	moved     bool
}

// file is the open file of a key; nil where there is none.
func (p *part) file(key fileKey) *openFile {
	if p.recent == nil || p.recent.fileKey != key { // most records go where the one before went
		p.recent = p.open[key]
	}
	return p.recent
}

// A group are the files of a part that become visible together.
type group struct {
	part   *part
	files  []*openFile
	finish [][]finish // of each file's bodies
	end    int64      // offset behind the last record

	// Of one that is under way; guarded by Task.mu.
	withdraw context.CancelFunc // ends the making of its files
	shown    bool               // they are being made visible
}

// release gives back what the group's files hold.
func (g *group) release() {
	for _, f := range g.files {
		f.release()
	}
}
