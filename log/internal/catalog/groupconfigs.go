package catalog

import (
	"maps"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// GroupConfigs lists the configurations of Kafka 4.4 that consumer groups of the newer protocol have, by name. A group need not
// be there to have them.
var GroupConfigs = []Config{
	{"consumer.assignment.interval.ms", "group.consumer.assignment.interval.ms", Int, "0", "Accepted; assignments are made at once.", between(0, 15_000), nil},
	{"consumer.assignor.offload.enable", "group.consumer.assignor.offload.enable", Bool, "false", "Accepted; assignments are made at once.", nil, nil},
	{"consumer.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms", Int, "5000", "How often members are told to be heard of.", between(5_000, 15_000), nil},
	{"consumer.session.timeout.ms", "group.consumer.session.timeout.ms", Int, "45000", "How long a member may not be heard of before it is given up.", between(45_000, 60_000), nil},
}

// FromGroup is the source of what is set on a group.
const FromGroup Source = 8

// maxGroupConfigs bounds how many groups can have settings.
const maxGroupConfigs = 10_000

// FindGroupConfig returns a declaration by its name, nil if there is none.
func FindGroupConfig(name string) *Config {
	for i := range GroupConfigs {
		if GroupConfigs[i].Name == name {
			return &GroupConfigs[i]
		}
	}
	return nil
}

func checkGroupConfigs(configs map[string]string) error {
	for name, v := range configs {
		d := FindGroupConfig(name)
		if d == nil {
			return refuse(kerr.InvalidConfig, "unknown group config name: %s", name)
		}
		if err := d.Check(v); err != nil {
			return refuse(kerr.InvalidConfig, "%s", err)
		}
	}
	return nil
}

// GroupConfig returns what is set on a group, nil if nothing is. It must not be changed.
func (c *Catalog) GroupConfig(group string) map[string]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.groups[group]
}

// GroupNumber is the number that a group's configuration has in effect.
func (c *Catalog) GroupNumber(group, name string) int64 {
	v, ok := c.GroupConfig(group)[name]
	if !ok {
		v = FindGroupConfig(name).Default
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64) // checked when it was set
	return n
}

// AlterGroupConfigs changes what is set on a group and returns when that is durable; with dryRun it only checks. Errors are those of
// AlterConfigs.
func (c *Catalog) AlterGroupConfigs(group string, dryRun bool, change func(set map[string]string) error) error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	set := maps.Clone(c.GroupConfig(group))
	if set == nil {
		set = map[string]string{}
	}
	if err := change(set); err != nil {
		return err
	}
	if err := checkGroupConfigs(set); err != nil {
		return err
	}
	c.mu.RLock()
	full := c.groups[group] == nil && len(c.groups) >= maxGroupConfigs
	c.mu.RUnlock()
	switch {
	case full:
		return refuse(kerr.PolicyViolation, "%d groups have settings already, and no more can", maxGroupConfigs)
	case dryRun:
		return nil
	}
	r := record{key: groupPrefix + group}
	if len(set) > 0 {
		r.value = encode(groupRecord{set})
	}
	if err := c.write(r); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(set) == 0 {
		delete(c.groups, group)
	} else {
		c.groups[group] = set
	}
	return nil
}
