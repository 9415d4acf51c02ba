package postgres

import (
	"regexp"
	"strings"

	"millrace/schema"
)

var (
	casts    = regexp.MustCompile(`^(::[\w\s."\[\](),]+)*$`)
	literal  = regexp.MustCompile(`^(?:E|B)?'((?:[^']|'')*)'`)
	number   = regexp.MustCompile(`^\(?(-?[0-9.]+(?:e[+-]?[0-9]+)?)\)?`)
	function = regexp.MustCompile(`(?s)^\(?[\w."]+\(.*\)|^(?:CURRENT_(?:TIMESTAMP|TIME|DATE)|LOCALTIME|LOCALTIMESTAMP)(?:\(\d+\))?$`)
)

// defaultOf reads a default's expression as the catalog prints it, for types of which
// Debezium sends defaults. A constant is kept; what begins with a function stands as
// the type's zero, since its value is not known before the row is there. All else is
// no default.
func defaultOf(expr string, m mapping, s *schema.Schema) (schema.Value, bool) {
	if expr == "" || !m.defaults || s.ValueKind() == schema.Struct {
		return schema.Value{}, false
	}
	text, rest := "", ""
	if c := literal.FindStringSubmatch(expr); c != nil {
		text, rest = strings.ReplaceAll(c[1], "''", "'"), expr[len(c[0]):]
		if expr[0] == 'E' {
			text = strings.ReplaceAll(text, `\\`, `\`)
		}
	} else if c := number.FindStringSubmatch(expr); c != nil {
		text, rest = c[1], expr[len(c[0]):]
	} else if word, cast, _ := strings.Cut(expr, "::"); word == "true" || word == "false" {
		text = word[:1]
		if cast != "" {
			rest = "::" + cast
		}
	} else if function.MatchString(expr) {
		text = m.generated
	} else {
		return schema.Value{}, false
	}
	if !casts.MatchString(rest) || text == "NaN" && m.decimal {
		return schema.Value{}, false
	}
	v, err := m.decode(s)(&schema.Arena{}, []byte(text))
	return v, err == nil
}
