package cdc

import (
	"fmt"
	"strings"

	"millrace/schema/javatext"
)

// SplitPatterns splits a list of regular expressions at its commas; \, is a comma
// of an expression's own.
func SplitPatterns(list string) []string {
	var out []string
	var b strings.Builder
	end := func() {
		if p := strings.TrimSpace(b.String()); p != "" {
			out = append(out, p)
		}
		b.Reset()
	}
	for i := 0; i < len(list); i++ {
		switch {
		case list[i] == '\\' && i+1 < len(list) && list[i+1] == ',':
			b.WriteByte(',')
			i++
		case list[i] == ',':
			end()
		default:
			b.WriteByte(list[i])
		}
	}
	end()
	return out
}

// Patterns is a list of regular expressions, each of which must match a whole name,
// whatever its case.
type Patterns []*javatext.Regexp

// ParsePatterns compiles a comma-separated list. The zero Patterns are of an empty one.
func ParsePatterns(list string) (Patterns, error) {
	var out Patterns
	for _, p := range SplitPatterns(list) {
		re, err := compile(p)
		if err != nil {
			return nil, err
		}
		out = append(out, re)
	}
	return out, nil
}

func compile(pattern string) (*javatext.Regexp, error) { return javatext.Compile("(?i)" + pattern) }

// Match reports whether one of the expressions matches the whole name.
func (p Patterns) Match(name string) bool {
	for _, re := range p {
		if whole(re, name) {
			return true
		}
	}
	return false
}

// whole reports whether an expression matches a whole name. One that takes longer
// than its limit over a name does not match it.
func whole(re *javatext.Regexp, name string) bool {
	ok, err := re.MatchWhole(name)
	return ok && err == nil
}

// Tables says which tables are captured. At most one list of each pair is set.
type Tables struct {
	IncludeSchemas, ExcludeSchemas Patterns // of schemas (MySQL: databases)
	Include, Exclude               Patterns // of schema.table
}

// Match reports whether a table is captured.
func (t Tables) Match(schema, table string) bool {
	switch {
	case t.IncludeSchemas != nil && !t.IncludeSchemas.Match(schema), t.ExcludeSchemas.Match(schema):
		return false
	case t.Include != nil:
		return t.Include.Match(schema + "." + table)
	}
	return !t.Exclude.Match(schema + "." + table)
}

// Columns says which columns events hold. At most one list is set.
type Columns struct{ Include, Exclude Patterns } // of schema.table.column

// Match reports whether events hold a column. Columns of the key always stay; that
// is the caller's to see to.
func (c Columns) Match(schema, table, column string) bool {
	name := schema + "." + table + "." + column
	if c.Include != nil {
		return c.Include.Match(name)
	}
	return !c.Exclude.Match(name)
}

// KeyColumns are the keys that message.key.columns gives to tables.
type KeyColumns []keyRule

type keyRule struct {
	table   *javatext.Regexp
	columns []string
}

// ParseKeyColumns reads "table pattern:column,column;…".
func ParseKeyColumns(text string) (KeyColumns, error) {
	var out KeyColumns
	for _, part := range strings.Split(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		colon := strings.LastIndexByte(part, ':')
		if colon <= 0 || colon == len(part)-1 {
			return nil, fmt.Errorf("%q is not of the form <table>:<column>,<column>", part)
		}
		re, err := compile(strings.TrimSpace(part[:colon]))
		if err != nil {
			return nil, err
		}
		r := keyRule{table: re}
		for _, c := range strings.Split(part[colon+1:], ",") {
			r.columns = append(r.columns, strings.TrimSpace(c))
		}
		out = append(out, r)
	}
	return out, nil
}

// Of are the columns of the table's key, or nil where no rule names the table. The
// first rule that does holds.
func (k KeyColumns) Of(schema, table string) []string {
	for _, r := range k {
		if whole(r.table, schema+"."+table) {
			return r.columns
		}
	}
	return nil
}
