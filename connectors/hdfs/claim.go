package hdfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/colinmarc/hdfs/v2"

	"millrace/connectors"
	"millrace/connectors/warehouse"
)

// claimPrefix begins the names of claims, which are folders beside where Confluent's sink has its log.
const claimPrefix = "millrace-"

// open claims partitions, ends what tasks before this one left unfinished, and returns where to go on: behind the last record that is
// visible. A partition of which nothing is visible is left out. moving is called now and then.
func (t *target) open(ctx context.Context, parts []connectors.TopicPartition, moving func()) (map[connectors.TopicPartition]int64, error) {
	claims := map[connectors.TopicPartition]*claim{}
	byTopic := map[string][]connectors.TopicPartition{}
	for _, tp := range parts {
		c := &claim{}
		if err := t.with(ctx, fmt.Sprintf("claim %v", tp), func(l *link) error { return t.take(l, tp, c, moving) }); err != nil {
			return nil, err
		}
		claims[tp] = c
		byTopic[tp.Topic] = append(byTopic[tp.Topic], tp)
	}
	for topic, of := range byTopic {
		var seen map[connectors.TopicPartition]int64
		if err := t.with(ctx, fmt.Sprintf("look for files of topic %q", topic), func(l *link) (err error) {
			seen, err = t.scan(l, topic, of, moving)
			return err
		}); err != nil {
			return nil, err
		}
		for tp, next := range seen {
			claims[tp].next = max(claims[tp].next, next)
		}
	}
	start := map[connectors.TopicPartition]int64{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for tp, c := range claims {
		t.claims[tp] = c
		if c.next > 0 {
			start[tp] = c.next
		}
	}
	return start, nil
}

// forget gives claims up, in this process; their folders stay for whoever has the partitions next.
func (t *target) forget(parts []connectors.TopicPartition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tp := range parts {
		delete(t.claims, tp)
	}
}

// logs is the folder of a partition's claims.
func (t *target) logs(tp connectors.TopicPartition) (string, error) {
	dir, err := expand(logsDir.Get(t.v), tp.Topic, t.regex)
	return path.Join(t.cluster.folder+"/", dir, tp.Topic, fmt.Sprint(tp.Partition)), err
}

// take is claim, whose folder may be taken away meanwhile.
func (t *target) take(l *link, tp connectors.TopicPartition, c *claim, moving func()) error {
	err := t.claim(l, tp, c, moving)
	return t.unlessGone(l, c.dir, err)
}

// claim makes a new claim and moves those that are there into it. From that move on, which the NameNode does at once or not at all, their
// tasks cannot publish a commit: the folder they would move it to is gone. What they have published is brought to its end.
func (t *target) claim(l *link, tp connectors.TopicPartition, c *claim, moving func()) error {
	logs, err := t.logs(tp)
	if err != nil {
		return err
	}
	topics, err := expand(t.topics, tp.Topic, t.regex)
	if err != nil {
		return err
	}
	id := newID()
	temps := path.Join(t.cluster.folder+"/", topics, "+tmp", tp.Topic, fmt.Sprint(tp.Partition))
	dir, tmp := logs+"/"+claimPrefix+id, temps+"/"+id
	if err := l.MkdirAll(dir, t.dirs); err != nil {
		return err
	}
	c.dir, c.tmp = dir, tmp // from now on others may take it
	if err := l.MkdirAll(tmp, t.dirs); err != nil {
		return err
	}
	for _, dir := range []string{dir, tmp} {
		if err := fit(l, dir); err != nil {
			return err
		}
	}
	there, err := l.ReadDir(logs)
	if err != nil {
		return err
	}
	for _, old := range there {
		name := old.Name()
		if !old.IsDir() || !strings.HasPrefix(name, claimPrefix) || name == path.Base(c.dir) {
			continue
		}
		err := l.Rename(logs+"/"+name, c.dir+"/"+name)
		if errors.Is(err, fs.ErrNotExist) { // another takes it at the same time; only one of the two will be able to publish
			continue
		}
		if err != nil {
			return err
		}
	}
	if c.next, err = t.inherit(l, c.dir, moving); err != nil {
		return err
	}
	if err := t.applyConfluent(l, logs, moving); err != nil {
		return err
	}
	if err := t.note(l, c.dir, c.next); err != nil {
		return err
	}
	if err := removeOthers(l, c.dir, claimPrefix, ""); err != nil {
		return err
	}
	return removeOthers(l, temps, "", id)
}

// fit refuses a folder whose files are laid out in a way that the client does not know.
func fit(l *link, dir string) error {
	is, err := l.Stat(dir)
	if err != nil {
		return err
	}
	if status, ok := is.Sys().(*hdfs.FileStatus); ok && status.GetEcPolicy() != nil && !strings.EqualFold(status.GetEcPolicy().GetName(), "replication") {
		return connectors.Failed(&unfit, nil, fmt.Sprintf("files in %q are erasure-coded (%s)", dir, status.GetEcPolicy().GetName()), "")
	}
	return nil
}

// note says in a claim's folder up to where its partition is written, where it does not say so yet.
func (t *target) note(l *link, dir string, next int64) error {
	if next == 0 {
		return nil
	}
	err := l.Mkdir(fmt.Sprintf("%s/%s%d", dir, donePrefix, next), t.dirs)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// inherit brings to its end the commit of a claim, and those of claims that were moved into it, and returns the offset behind what they
// made visible.
func (t *target) inherit(l *link, dir string, moving func()) (next int64, err error) {
	there, err := l.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, sub := range there {
		name, n := sub.Name(), int64(0)
		if number, ok := strings.CutPrefix(name, donePrefix); ok {
			n = offsetOf(number)
		} else if number, ok := strings.CutPrefix(name, commitPrefix); ok {
			if n = offsetOf(number); n > 0 {
				err = t.carryOut(l, dir, name, moving)
			}
		} else if strings.HasPrefix(name, claimPrefix) {
			if n, err = t.inherit(l, dir+"/"+name, moving); n == 0 && err == nil { // of a task that died at once: it is not to be met again
				err = l.RemoveAll(dir + "/" + name)
			}
		}
		if err != nil {
			return 0, err
		}
		next = max(next, n)
	}
	return next, nil
}

// offsetOf is the offset in the name of a commit; 0 where there is none.
func offsetOf(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// removeOthers removes what lies in a folder and begins with prefix, but for keep.
func removeOthers(l *link, dir, prefix, keep string) error {
	there, err := l.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, sub := range there {
		if name := sub.Name(); strings.HasPrefix(name, prefix) && name != keep {
			if err := l.RemoveAll(dir + "/" + name); err != nil {
				return err
			}
		}
	}
	return nil
}

// scan returns for partitions of a topic the offset behind the last record that a file's name tells of.
func (t *target) scan(l *link, topic string, parts []connectors.TopicPartition, moving func()) (map[connectors.TopicPartition]int64, error) {
	dir, err := expand(t.topics, topic, t.regex)
	if err != nil {
		return nil, err
	}
	next := map[connectors.TopicPartition]int64{}
	others, example := 0, ""
	err = t.walk(l, path.Join(t.cluster.folder+"/", dir, topic), func(name string) error {
		moving()
		partition, end, ok := warehouse.ParseName(t.v, topic, path.Base(name))
		if !ok {
			others, example = others+1, name
			return nil
		}
		for _, tp := range parts {
			if tp.Partition == partition {
				next[tp] = max(next[tp], end+1)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if others > 0 {
		t.lg.Info("files whose names tell no offsets are left alone", "topic", topic, "files", others, "one", example)
	}
	return next, nil
}
