package cdc

import (
	"fmt"
	"slices"
	"strings"

	"millrace/schema/config"
	"millrace/schema/javatext"
)

// A SnapshotMode is what snapshot.mode asks for.
type SnapshotMode struct {
	Name   string
	Stream bool // changes are read, behind the snapshot or without one
	Anew   bool // a position at which the source cannot be resumed is answered by a new snapshot

	Rebuild        bool // each start writes the history of shapes anew, from the tables as they are
	RebuildOnError bool // a start does that whose history cannot be read

	every, first bool
}

// Reads reports whether a start reads the tables' rows. complete says that there is a position
// of a stream, or of a snapshot that was read to its end.
func (m SnapshotMode) Reads(complete bool) bool { return m.every || m.first && !complete }

// Every reports whether each start reads the rows, whatever was read before.
func (m SnapshotMode) Every() bool { return m.every }

// SnapshotFlags are the settings snapshot.mode.configuration.based.….
type SnapshotFlags struct{ Data, Stream, OnDataError, OnSchemaError bool }

// snapshotModes are Debezium's modes by name.
var snapshotModes = map[string]SnapshotMode{
	"always":       {Stream: true, every: true},
	"initial":      {Stream: true, first: true},
	"initial_only": {first: true},
	"no_data":      {Stream: true},
	"when_needed":  {Stream: true, Anew: true, first: true},
	"recovery":     {Stream: true, Rebuild: true},
}

// olderModes are names of older versions for modes of today.
var olderModes = map[string]string{"never": "no_data", "schema_only": "no_data", "schema_only_recovery": "recovery"}

// SnapshotModes are the values of snapshot.mode that are offered.
var SnapshotModes = []string{"always", "initial", "initial_only", "no_data", "when_needed", "configuration_based"}

// otherModes are values that are not taken, with what to do instead.
var otherModes = map[string]string{
	"custom":   "a Java class cannot decide about snapshots here; use one of " + strings.Join(SnapshotModes, ", ") + " (configuration_based has a switch for each step)",
	"exported": "this value is called initial now: every snapshot stands where the slot begins",
}

// ParseSnapshotMode reads snapshot.mode. refused are values that the database in
// question cannot do, with what to do instead. An error is about the value; flags are
// read for configuration_based alone, and must ask for something.
func ParseSnapshotMode(name string, flags SnapshotFlags, refused map[string]string) (SnapshotMode, error) {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, no := range []map[string]string{refused, otherModes} {
		if reason := no[name]; reason != "" {
			return SnapshotMode{}, fmt.Errorf("%s", reason)
		}
	}
	if now := olderModes[name]; now != "" {
		name = now
	}
	m, ok := snapshotModes[name]
	switch {
	case name == "configuration_based":
		m = SnapshotMode{Stream: flags.Stream, Anew: flags.OnDataError, RebuildOnError: flags.OnSchemaError, every: flags.Data}
		if !m.Stream && !m.every {
			return m, fmt.Errorf("neither a snapshot nor changes are asked for: set snapshot.mode.configuration.based.snapshot.data or snapshot.mode.configuration.based.start.stream to true")
		}
	case !ok:
		return m, config.OneOf(SnapshotModes...)(name)
	}
	m.Name = name
	return m, nil
}

// CheckSnapshotMode is ParseSnapshotMode's look at the value alone.
func CheckSnapshotMode(refused map[string]string) func(string) error {
	return func(name string) error {
		_, err := ParseSnapshotMode(name, SnapshotFlags{Stream: true}, refused)
		return err
	}
}

// InOrder sorts tables as a snapshot reads them: in the order in which the patterns of
// table.include.list name them; those of one pattern stay in the order they had.
func InOrder[T any](tables []T, include Patterns, name func(T) string) []T {
	rank := make(map[string]int, len(tables))
	for _, t := range tables {
		rank[name(t)] = slices.IndexFunc(include, func(re *javatext.Regexp) bool { return whole(re, name(t)) })
	}
	out := slices.Clone(tables)
	slices.SortStableFunc(out, func(x, y T) int { return rank[name(x)] - rank[name(y)] })
	return out
}
