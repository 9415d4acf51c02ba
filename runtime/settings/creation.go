package settings

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"millrace/schema/config"
	"millrace/schema/javatext"
)

// TopicCreation is how a source's topics are made: the settings topic.creation.GROUP.*.
// The first group whose patterns match a topic decides; the group default takes what
// no other does. The zero TopicCreation makes topics with the log's defaults.
type TopicCreation struct{ groups []creationGroup }

type creationGroup struct {
	include, exclude []*javatext.Regexp
	partitions       int32 // -1: the log's default
	replication      int16 // -1: the log's default
	settings         map[string]*string
}

const creationPrefix = "topic.creation."

// NewTopicCreation reads the settings of a connector for the groups that
// topic.creation.groups names, and reports every wrong one. Without those of the group
// default there is nothing to read, as in Connect.
func NewTopicCreation(names []string, raw map[string]string) (TopicCreation, []*config.Error) {
	var c TopicCreation
	var errs []*config.Error
	fail := func(key, reason string, args ...any) {
		e := &config.Error{Key: key, Value: raw[key], Reason: fmt.Sprintf(reason, args...)}
		if !slices.ContainsFunc(errs, func(o *config.Error) bool { return *o == *e }) { // groups inherit from default
			errs = append(errs, e)
		}
	}
	_, partitions := raw[creationPrefix+"default.partitions"]
	_, replication := raw[creationPrefix+"default.replication.factor"]
	if !partitions && !replication {
		if len(names) > 0 {
			fail(TopicCreationGroups.Name, "it has no effect without topic.creation.default.partitions and topic.creation.default.replication.factor: set both")
		}
		return c, errs
	}
	keys := slices.Sorted(maps.Keys(raw))
	for _, name := range append(append([]string(nil), names...), "default") {
		prefix := creationPrefix + name + "."
		g := creationGroup{partitions: -1, replication: -1, settings: map[string]*string{}}
		// A group takes from default what it does not say itself.
		for _, key := range keys {
			if own, ok := strings.CutPrefix(key, creationPrefix+"default."); ok {
				if _, said := raw[prefix+own]; !said {
					g.set(own, key, raw[key], fail)
				}
			}
		}
		for _, key := range keys {
			own, ok := strings.CutPrefix(key, prefix)
			switch {
			case !ok:
			case own == "include":
				g.include = patterns(key, raw[key], fail)
			case own == "exclude":
				g.exclude = patterns(key, raw[key], fail)
			default:
				g.set(own, key, raw[key], fail)
			}
		}
		if _, given := raw[prefix+"include"]; name != "default" && !given {
			fail(prefix+"include", "a group needs patterns of the topics it is for")
		}
		c.groups = append(c.groups, g)
	}
	return c, errs
}

func (g *creationGroup) set(own, key, value string, fail func(key, reason string, args ...any)) {
	switch own {
	case "include", "exclude": // default takes every topic
	case "partitions":
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 32)
		if err != nil || n < 1 && n != -1 {
			fail(key, "Number of partitions must be a positive number, or -1 to use the broker's default")
		}
		g.partitions = int32(n)
	case "replication.factor":
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 16)
		if err != nil || n < 1 && n != -1 {
			fail(key, "Replication factor must be a positive number, or -1 to use the broker's default")
		}
		g.replication = int16(n)
	default:
		g.settings[own] = &value
	}
}

func patterns(key, value string, fail func(key, reason string, args ...any)) []*javatext.Regexp {
	var out []*javatext.Regexp
	for p := range strings.SplitSeq(value, ",") {
		re, err := javatext.Compile(strings.TrimSpace(p))
		if err != nil {
			fail(key, "%v", err)
			continue
		}
		out = append(out, re)
	}
	return out
}

// Of is how a topic is made.
func (c TopicCreation) Of(topic string) (partitions int32, replication int16, settings map[string]*string, err error) {
	for i, g := range c.groups {
		in, err := anyMatches(g.include, topic)
		if err != nil {
			return 0, 0, nil, err
		}
		out, err := anyMatches(g.exclude, topic)
		if err != nil {
			return 0, 0, nil, err
		}
		if in && !out || i == len(c.groups)-1 {
			return g.partitions, g.replication, g.settings, nil
		}
	}
	return -1, -1, nil, nil
}

func anyMatches(res []*javatext.Regexp, s string) (bool, error) {
	for _, re := range res {
		if ok, err := re.MatchWhole(s); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}
