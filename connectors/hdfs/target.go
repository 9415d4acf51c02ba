package hdfs

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/colinmarc/hdfs/v2"
	"golang.org/x/sync/errgroup"

	"millrace/connectors"
	"millrace/connectors/warehouse"
	"millrace/schema/config"
	"millrace/schema/javatext"
)

const (
	atOnce    = 4                // files of one Commit that are under way
	closeTime = 60 * time.Second // for DataNodes to report a file's last block
	writeSize = 256 << 10
	pageSize  = 1000 // names of a folder that are held at once: one may have millions

	// What lies in a claim: the files of the commit that is under way, and what is left of the last one that came to its end. The number
	// behind is the offset behind their records.
	commitPrefix = "commit-"
	donePrefix   = "done-"
)

// target makes files visible in HDFS. Its methods may be called concurrently.
type target struct {
	lg          *slog.Logger
	cluster     *cluster
	v           config.Values
	topics      string // topics.dir as it is set
	regex       *javatext.Regexp
	replication int   // 0: the cluster's
	blockSize   int64 // 0: the cluster's
	files, dirs fs.FileMode
	page        int // pageSize

	mu     sync.Mutex // guards the fields below
	cur    *link
	tries  int // links that were made
	claims map[connectors.TopicPartition]*claim

	dialing sync.Mutex // one goroutine makes a link, and the others wait for it
}

// A claim is what a task has of a partition. It is used by one goroutine at a time.
type claim struct {
	dir    string // holds commits; whoever moves it away has the partition
	tmp    string // folder of files that are not visible yet
	next   int64  // behind what is visible
	unsure bool   // a commit failed on its way
}

func newTarget(cc connectors.Context, v config.Values) (*target, *config.Error) {
	c, wrong := newCluster(cc, v)
	if wrong != nil {
		return nil, wrong
	}
	mask := c.conf.umask()
	t := &target{lg: cc.Log, cluster: c, v: v, topics: strings.Trim(warehouse.TopicFolder(v, ""), "/"), claims: map[connectors.TopicPartition]*claim{},
		blockSize: c.conf.size("dfs.blocksize"), replication: int(min(c.conf.size("dfs.replication"), 512)), files: 0o666 &^ mask, dirs: 0o777 &^ mask, page: pageSize}
	if topicRegex.Get(v) != "" {
		var err error
		if t.regex, err = compileTopic(topicRegex.Get(v)); err != nil {
			return nil, topicRegex.Errorf(v, "%v", err)
		}
	}
	return t, nil
}

// Close implements warehouse.Target.
func (t *target) Close() {
	t.mu.Lock()
	l := t.cur
	t.cur = nil
	t.mu.Unlock()
	if l != nil {
		l.shut()
	}
}

// with does something with a link, of which it takes another where the last one broke. It ends with ctx.
func (t *target) with(ctx context.Context, doing string, f func(l *link) error) error {
	l, err := t.link(ctx)
	if err == nil {
		stop := context.AfterFunc(ctx, l.shut)
		err = f(l)
		stop()
		if broken(err) || ctx.Err() != nil {
			t.drop(l)
		}
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return failure(doing, err)
}

func (t *target) link(ctx context.Context) (*link, error) {
	t.dialing.Lock()
	defer t.dialing.Unlock()
	t.mu.Lock()
	l, n := t.cur, t.tries
	t.mu.Unlock()
	if l != nil {
		return l, nil
	}
	l, err := t.cluster.connect(ctx, n)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cur = l
	if err != nil {
		t.cur = nil
		t.tries++
	}
	return t.cur, err
}

// drop ends a link that is of no use any more.
func (t *target) drop(l *link) {
	t.mu.Lock()
	if t.cur == l {
		t.cur = nil
		t.tries++ // the next one begins with another NameNode
	}
	t.mu.Unlock()
	l.shut()
}

// Commit implements warehouse.Target.
func (t *target) Commit(ctx context.Context, tp connectors.TopicPartition, files []warehouse.File, moving func()) error {
	t.mu.Lock()
	c := t.claims[tp]
	t.mu.Unlock()
	if c == nil {
		return connectors.Failed(&takenOver, nil, fmt.Sprintf("commit files of %v, which this task has no claim to", tp), "")
	}
	return t.with(ctx, fmt.Sprintf("commit %d files of %v", len(files), tp), func(l *link) error {
		first, next := files[0].First, int64(0)
		for i := range files {
			first, next = min(first, files[i].First), max(next, files[i].Last+1)
		}
		if c.unsure {
			if err := t.settle(l, c, moving); err != nil {
				return err
			}
			if c.next >= next {
				return nil // an earlier attempt did it
			}
		}
		if first < c.next {
			return warehouse.OffsetsBehind(fmt.Sprintf("records of %v from offset %d on come, and what is visible goes up to %d", tp, first, c.next-1))
		}
		c.unsure = true
		stage := c.tmp + "/" + newID()
		names, err := t.plan(l, c, stage, files)
		if err != nil {
			return t.unlessGone(l, c.dir, err)
		}
		if err := t.writeAll(ctx, l, files, names, moving); err != nil {
			return t.unlessGone(l, c.dir, err)
		}
		commit := fmt.Sprintf("%s%d", commitPrefix, next)
		if err := l.Rename(stage, c.dir+"/"+commit); err != nil {
			return t.unlessGone(l, c.dir, err)
		}
		if err := t.carryOut(l, c.dir, commit, moving); err != nil {
			return t.unlessGone(l, c.dir, err)
		}
		c.next, c.unsure = next, false
		return nil
	})
}

// settle finds out how far a commit came that failed, and brings it to its end where it was published.
func (t *target) settle(l *link, c *claim, moving func()) error {
	next, err := t.inherit(l, c.dir, moving)
	if err != nil {
		return t.unlessGone(l, c.dir, err)
	}
	c.next = max(c.next, next)
	if err := l.RemoveAll(c.tmp); err != nil {
		return err
	}
	c.unsure = false
	return nil
}

// unlessGone is err, or what it means where a claim's folder is not there any more: the NameNode has many words for files that went with
// it. dir is empty as long as there is no claim.
func (t *target) unlessGone(l *link, dir string, err error) error {
	if f := connectors.FailureOf(failure("", err)); dir != "" && f != nil && f.Reason == &refused {
		if _, there := l.Stat(dir); errors.Is(there, fs.ErrNotExist) {
			return gone(dir)
		}
	}
	return err
}

func gone(dir string) error {
	return connectors.Failed(&takenOver, nil, fmt.Sprintf("the folder %q, which is this task's claim, is gone", dir), "")
}

// plan returns where files lie below stage until they are visible, each under its final path, and makes sure that those are free.
func (t *target) plan(l *link, c *claim, stage string, files []warehouse.File) ([]string, error) {
	names, made := make([]string, len(files)), map[string]bool{}
	for i := range files {
		final, err := t.final(files[i].NameWithEnd())
		if err != nil {
			return nil, err
		}
		if base := path.Base(final); len(base) > warehouse.MaxSegment {
			return nil, connectors.BadConfig(fmt.Errorf("the file's name %.60q… has %d bytes, and HDFS takes %d; shorten the topic's name with a transform", base, len(base), warehouse.MaxSegment))
		}
		switch _, err := l.Stat(final); {
		case err == nil:
			// It may be of the task that has the partition now.
			if _, err := l.Stat(c.dir); errors.Is(err, fs.ErrNotExist) {
				return nil, gone(c.dir)
			}
			return nil, connectors.Failed(&foreign, nil, fmt.Sprintf("file %q is there already", final), "")
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		names[i] = stage + final
		if dir := path.Dir(names[i]); !made[dir] {
			if err := l.MkdirAll(dir, t.dirs); err != nil {
				return nil, err
			}
			made[dir] = true
		}
	}
	return names, nil
}

// final is the path of a file that the engine calls name: topics.dir, topic, …
func (t *target) final(name string) (string, error) {
	rest := name
	if t.topics != "" {
		rest = name[len(t.topics)+1:]
	}
	topic, _, _ := strings.Cut(rest, "/")
	dir, err := expand(t.topics, topic, t.regex)
	if err != nil {
		return "", err
	}
	return path.Join(t.cluster.folder+"/", dir, rest), nil
}

// writeAll writes files under those names, several at once.
func (t *target) writeAll(ctx context.Context, l *link, files []warehouse.File, names []string, moving func()) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range files {
		g.Go(func() error {
			if ctx.Err() != nil { // another failed
				return ctx.Err()
			}
			return t.write(l, names[i], io.NewSectionReader(files[i].Body, 0, files[i].Size), files[i].Size, moving)
		})
	}
	return g.Wait()
}

// write makes a file of what body gives, and returns when DataNodes have it and the NameNode knows.
func (t *target) write(l *link, name string, body io.Reader, size int64, moving func()) error {
	l.warm.Lock()
	if l.hot {
		l.warm.Unlock()
	} else {
		defer func() {
			l.hot = true
			l.warm.Unlock()
		}()
	}
	w, err := t.create(l, name)
	if err != nil {
		return err
	}
	if _, err := io.CopyBuffer(told{w, moving}, local{body}, make([]byte, min(writeSize, size+1))); err != nil {
		if broken(err) {
			l.shut() // it is of no further use, and nothing is to wait for it
		}
		_ = w.Close() // ends the client's goroutines
		return err
	}
	if err := closeFile(w); err != nil {
		return err
	}
	is, err := l.Stat(name)
	if err != nil {
		return err
	}
	if is.Size() != size {
		return connectors.Failed(&unavailable, nil, fmt.Sprintf("file %q has %d bytes after %d were written", name, is.Size(), size), "")
	}
	moving()
	return nil
}

// local is a reader whose errors are not HDFS's.
type local struct{ io.Reader }

func (l local) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = localError{err}
	}
	return n, err
}

// told is a writer that says when something was written; it hides what else the file can do from io.Copy.
type told struct {
	w      io.Writer
	moving func()
}

func (t told) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	t.moving()
	return n, err
}

// create makes an empty file in a folder that is there.
func (t *target) create(l *link, name string) (*hdfs.FileWriter, error) {
	d, err := l.ServerDefaults()
	if err != nil {
		return nil, err
	}
	replication, blockSize := t.replication, t.blockSize
	if replication == 0 {
		replication = d.Replication
	}
	if blockSize == 0 {
		blockSize = d.BlockSize
	}
	return l.CreateFile(name, replication, blockSize, t.files)
}

// closeFile closes a file, as often as the NameNode wants to hear of its last block first.
func closeFile(w *hdfs.FileWriter) error {
	for pause, end := 5*time.Millisecond, time.Now().Add(closeTime); ; pause = min(2*pause, time.Second) {
		err := w.Close()
		if !hdfs.IsErrReplicating(err) {
			return err
		}
		if time.Now().After(end) {
			return connectors.Failed(&unavailable, nil, fmt.Sprintf("the NameNode does not hear of a file's last block within %s", closeTime), "")
		}
		time.Sleep(pause)
	}
}

// carryOut makes a claim's commit visible, as far as it is not, and says by its name that it is done.
func (t *target) carryOut(l *link, dir, commit string, moving func()) error {
	root := dir + "/" + commit
	if err := t.walk(l, root, func(name string) error {
		moving()
		return t.show(l, name, name[len(root):])
	}); err != nil {
		return err
	}
	done := donePrefix + commit[len(commitPrefix):]
	if err := l.Rename(root, dir+"/"+done); err != nil {
		return err
	}
	return removeOthers(l, dir, donePrefix, done)
}

// walk calls f with every file below a folder. One that is not there, or not any more, has none.
func (t *target) walk(l *link, dir string, f func(name string) error) error {
	d, err := l.Open(dir)
	for err == nil {
		var page []fs.FileInfo
		page, err = d.Readdir(t.page)
		for _, e := range page {
			name := dir + "/" + e.Name()
			if e.IsDir() {
				err = t.walk(l, name, f)
			} else {
				err = f(name)
			}
			if err != nil {
				return err
			}
		}
	}
	if err == io.EOF || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// show gives a file its final name, if it has not got it.
func (t *target) show(l *link, name, final string) error {
	if _, err := l.Stat(final); err == nil { // the client would overwrite it
		if _, err := l.Stat(name); errors.Is(err, fs.ErrNotExist) { // another has just made it visible
			return nil
		}
		return connectors.Failed(&foreign, nil, fmt.Sprintf("file %q is there already, and is to be made of %q", final, name), "")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := l.MkdirAll(path.Dir(final), t.dirs); err != nil {
		return err
	}
	err := l.Rename(name, final)
	if errors.Is(err, fs.ErrNotExist) {
		if _, there := l.Stat(final); there == nil {
			return nil
		}
	}
	return err
}

func newID() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return hex.EncodeToString(b[:])
}
