package cdc

import (
	"strings"
	"unicode/utf16"

	"millrace/schema/envelope"
)

// Naming makes the names of topics and schemas, as Debezium's default strategy does.
type Naming struct {
	Prefix    string            // topic.prefix
	Delimiter string            // topic.delimiter
	Schemas   envelope.Adjuster // schema.name.adjustment.mode
	Fields    envelope.Adjuster // field.name.adjustment.mode
}

// Topic is the topic of a collection, given the parts of its name below the prefix.
// Characters that a topic may not have become underscores, one for each UTF-16 unit.
func (n Naming) Topic(parts ...string) string {
	return sanitize(n.Prefix + n.Delimiter + strings.Join(parts, n.Delimiter))
}

func sanitize(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			b.WriteRune(r)
		default:
			b.WriteString("__"[:max(1, utf16.RuneLen(r))])
		}
	}
	return b.String()
}
