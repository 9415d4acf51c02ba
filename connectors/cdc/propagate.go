package cdc

import (
	"strconv"
	"strings"

	"millrace/schema"
)

// Parameters of a field's schema that tell what its column is in the database.
const (
	SourceTypeParam    = "__debezium.source.column.type"
	SourceLengthParam  = "__debezium.source.column.length"
	SourceScaleParam   = "__debezium.source.column.scale"
	SourceCommentParam = "__debezium.source.column.comment"
	SourceNameParam    = "__debezium.source.column.name"
)

// A SourceType is what column.propagate.source.type and datatype.propagate.source.type
// tell of a column.
type SourceType struct {
	Name    string // of the column
	Type    string // as the database calls it; told in upper case
	Length  int    // -1: there is none
	Scale   int    // meant only with HasScale
	Comment string // "": there is none

	HasScale bool
}

// Tell adds the parameters to the schema of the column's field.
func (t SourceType) Tell(b *schema.Builder) {
	b.Param(SourceTypeParam, strings.ToUpper(t.Type))
	if t.Length >= 0 {
		b.Param(SourceLengthParam, strconv.Itoa(t.Length))
	}
	if t.HasScale {
		b.Param(SourceScaleParam, strconv.Itoa(t.Scale))
	}
	if t.Comment != "" {
		b.Param(SourceCommentParam, t.Comment)
	}
	b.Param(SourceNameParam, t.Name)
}

// Untold is a field's schema without what Tell added, as keys have it.
func Untold(s *schema.Schema) *schema.Schema {
	if _, told := s.Param(SourceNameParam); !told {
		return s
	}
	b := schema.From(s)
	for _, f := range s.Fields() {
		b.Field(f.Name, f.Schema)
	}
	for _, p := range []string{SourceTypeParam, SourceLengthParam, SourceScaleParam, SourceCommentParam, SourceNameParam} {
		b.NoParam(p)
	}
	return b.Build()
}

// Propagate are the two settings: lists of columns and of columns' types.
type Propagate struct {
	Columns Patterns // of schema.table.column
	Types   Patterns // of schema.table.type
}

// Match reports whether the type of a column is told.
func (p Propagate) Match(schema, table, column, typ string) bool {
	prefix := schema + "." + table + "."
	return p.Columns.Match(prefix+column) || p.Types.Match(prefix+typ)
}
