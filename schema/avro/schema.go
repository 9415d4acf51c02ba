package avro

import (
	"sync"

	"millrace/schema/registry"
)

// Registry is Avro as a schema registry asks for it.
var Registry registry.Type = registryType{}

type registryType struct{}

func (registryType) Name() string { return registry.TypeAvro }

func (registryType) Parse(text string, o registry.ParseOptions) (registry.Schema, error) {
	s, err := Parse(text, o)
	if err != nil {
		return nil, err // not a nil *Schema in an interface
	}
	return s, nil
}

// A Schema is a schema that was parsed, with its texts. It is immutable, and used by many goroutines at once.
type Schema struct {
	root      *Type
	canonical string
	strict    bool
	limits    registry.Limits
	deps      []registry.Dependency
	known     map[string]bool // the full names of the dependencies' own types, which are mentioned and not written out

	once       sync.Once
	normalized string
}

var (
	_ registry.Schema = (*Schema)(nil)
	_ registry.Tagger = (*Schema)(nil)
)

// Type is the type at the root.
func (s *Schema) Type() *Type { return s.root }

// Canonical is the text that is stored, as Java's Schema.toString prints it.
func (s *Schema) Canonical() string { return s.canonical }

// Normalized is the text that is stored with normalize=true.
func (s *Schema) Normalized() string {
	s.once.Do(func() {
		n := normalizer{done: map[*Type]*Type{}}
		s.normalized = (&Schema{root: n.typ(s.root)}).print(s.known)
	})
	return s.normalized
}

// Resolved is the text with the dependencies' types written out.
func (s *Schema) Resolved() string {
	if len(s.known) == 0 {
		return s.canonical
	}
	return s.print(nil)
}

// Name is the full name of the type at the root, or its kind.
func (s *Schema) Name() string { return s.root.FullName() }

// Format knows no formats of Avro's own.
func (s *Schema) Format(string) (string, bool) { return "", false }

// Reads judges whether this schema reads what written wrote.
func (s *Schema) Reads(written registry.Schema, reader, writer string) []registry.Incompatibility {
	w, ok := written.(*Schema)
	if !ok {
		return []registry.Incompatibility{{Description: "Incompatible because of different schema type"}}
	}
	return Reads(s.root, w.root, reader, writer)
}
