package registry

import (
	"fmt"
	"strings"
)

// Names of the types of schemas, as they stand in requests and records. A request without one means AVRO.
const (
	TypeAvro     = "AVRO"
	TypeJSON     = "JSON"
	TypeProtobuf = "PROTOBUF"
)

// Type is one type of schemas, such as Avro: what the registry must know of it, and all that it does know. A Type is used by many
// goroutines at once.
type Type interface {
	// Name is the type's name in requests and records: AVRO.
	Name() string

	// Parse reads a schema. The error says what is wrong and where, in words for whoever wrote the schema; it does not repeat the
	// schema. Time and memory are bounded by o.Limits, whatever the text holds.
	Parse(text string, o ParseOptions) (Schema, error)
}

// ParseOptions is what parsing depends on, besides the text.
type ParseOptions struct {
	// Dependencies are the schemas that the text refers to, and those that they refer to: each stands behind what it needs itself,
	// and no name comes twice.
	Dependencies []Dependency

	// New is set for what is registered now: defaults and names are validated. What is stored already is read as leniently as the
	// original reads it, for it was accepted once.
	New bool

	// Limits bound the schema. Zero fields mean those of DefaultLimits.
	Limits Limits
}

// Dependency is a schema under the name by which another refers to it: Avro's full name, the path of an import, a $ref.
type Dependency struct {
	Name string
	Text string
}

// Limits bound what a schema may hold, together with its dependencies.
type Limits struct {
	Bytes int // of text
	Depth int // of arrays and objects within each other
	Nodes int // types, fields, symbols and branches
}

// DefaultLimits are those of the registry: far above what a schema of a table needs, and low enough that two schemas are compared
// in less than a second.
var DefaultLimits = Limits{Bytes: 4 << 20, Depth: 256, Nodes: 100_000}

// OrDefault fills what is zero.
func (l Limits) OrDefault() Limits {
	if l.Bytes == 0 {
		l.Bytes = DefaultLimits.Bytes
	}
	if l.Depth == 0 {
		l.Depth = DefaultLimits.Depth
	}
	if l.Nodes == 0 {
		l.Nodes = DefaultLimits.Nodes
	}
	return l
}

// Schema is a schema that was parsed. It is immutable, and used by many goroutines at once.
type Schema interface {
	// Canonical is the text that is stored and answered: printed anew, without white space, with everything that the author wrote
	// (documentation, defaults, aliases, properties). Two texts are the same schema when their canonical ones are equal.
	// Parse(Canonical()) with the same dependencies is this schema again, and has the same canonical text.
	Canonical() string

	// Normalized is the text that is stored with normalize=true. Parsing it gives a schema whose normalized text is itself.
	Normalized() string

	// Resolved is the text with every dependency written out where it is used first. Without dependencies it is Canonical().
	Resolved() string

	// Name is the full name of the type at the root, or the kind of a type that has no name (AVRO: "string").
	Name() string

	// Format answers the text in a format of the type's own, asked for with ?format=; false when there is no such format. The
	// empty name and "resolved" are not asked: those are Canonical and Resolved.
	Format(name string) (string, bool)

	// Reads judges whether data written with written, which is a schema of the same type, can be read with this one, and says why
	// not; none means that it can. reader and writer are the words for the two in descriptions: "new" and "old" when the schema at
	// hand reads, "old" and "new" when an older version reads it.
	Reads(written Schema, reader, writer string) []Incompatibility
}

// Tagger is a Schema that can carry tags at parts of it (confluent:tags in Avro).
type Tagger interface {
	// Tagged is the schema with tags added at and removed from parts. The error says which part there is not.
	Tagged(add, remove []EntityTags) (Schema, error)
	// Tags are the tags of all parts that have some, in the order of the parts in the schema.
	Tags() []EntityTags
}

// EntityTags are tags of one part of a schema.
type EntityTags struct {
	Path string   // such as "n.R.a": the record's full name and the field
	Kind string   // sr_record or sr_field
	Tags []string // not empty
}

// Incompatibility is one reason why one schema cannot read what another wrote.
type Incompatibility struct {
	Kind        string // READER_FIELD_MISSING_DEFAULT_VALUE; empty where the two could not be compared
	Path        string // where in the reader, such as /fields/1
	Description string // a sentence with the path in it
	Info        string // such as the field's name
}

// String is the original's text of it, in verbose answers and in errors. One without a kind is its description.
func (i Incompatibility) String() string {
	if i.Kind == "" {
		return i.Description
	}
	return fmt.Sprintf("{errorType:'%s', description:'%s', additionalInfo:'%s'}", i.Kind, i.Description, i.Info)
}

// Level is how versions of a subject must fit together.
type Level string

// The levels.
const (
	None               Level = "NONE"
	Backward           Level = "BACKWARD"
	BackwardTransitive Level = "BACKWARD_TRANSITIVE"
	Forward            Level = "FORWARD"
	ForwardTransitive  Level = "FORWARD_TRANSITIVE"
	Full               Level = "FULL"
	FullTransitive     Level = "FULL_TRANSITIVE"
)

// Levels are all, in the original's order.
var Levels = []Level{None, Backward, BackwardTransitive, Forward, ForwardTransitive, Full, FullTransitive}

// ParseLevel reads a level in any case.
func ParseLevel(s string) (Level, bool) {
	for _, l := range Levels {
		if strings.EqualFold(s, string(l)) {
			return l, true
		}
	}
	return "", false
}

// Transitive levels look at all versions, the others at the newest.
func (l Level) Transitive() bool {
	return l == BackwardTransitive || l == ForwardTransitive || l == FullTransitive
}

// Version is an earlier version to which a schema is compared.
type Version struct {
	Number int
	Schema Schema
}

// CheckCompatibility judges s against earlier versions of its subject, oldest first, at level: the messages of the first version
// (counted from the newest) with which it does not fit, in the original's words and order, or none.
func CheckCompatibility(s Schema, level Level, earlier []Version) []string {
	if level == None {
		return nil
	}
	for i := len(earlier) - 1; i >= 0; i-- {
		old := earlier[i]
		var messages []string
		// The original lists what an older reader misses first. It names the older version behind what it lists last, where there
		// is such: behind what an older reader misses only when nothing else was asked.
		if level != Backward && level != BackwardTransitive {
			for _, one := range old.Schema.Reads(s, "old", "new") {
				messages = append(messages, one.String())
			}
		}
		name := len(messages) > 0 && (level == Forward || level == ForwardTransitive)
		if level != Forward && level != ForwardTransitive {
			for _, one := range s.Reads(old.Schema, "new", "old") {
				messages = append(messages, one.String())
				name = true
			}
		}
		if name {
			messages = append(messages, fmt.Sprintf("{oldSchemaVersion: %d}", old.Number), oldSchema(old.Schema.Canonical()))
		}
		if len(messages) > 0 {
			return messages
		}
		if !level.Transitive() {
			return nil
		}
	}
	return nil
}

// mostOfOld is how much of an older version's text a message holds, in characters.
const mostOfOld = 10 << 10

func oldSchema(text string) string {
	if len(text) > mostOfOld {
		n := 0
		for i := range text {
			if n++; n > mostOfOld {
				return fmt.Sprintf("{oldSchema: <truncated> '%s...'}", text[:i])
			}
		}
	}
	return fmt.Sprintf("{oldSchema: '%s'}", text)
}
