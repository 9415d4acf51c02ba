package cdc

import (
	"fmt"
	"strconv"
	"strings"

	"millrace/schema/config"
)

// A Reselect is Debezium's post processor that reads from the table what an event of a
// create or an update lacks: values that the server did not send, and nulls.
type Reselect struct {
	include, exclude Patterns // of schema.table:column

	Unavailable bool // values that were not sent
	Null        bool // nulls
	EventKey    bool // rows are found by the event's key, not the table's
	Fail        bool // an error stops the task; else it is logged and the event goes as it is
}

const reselectClass = "io.debezium.processors.reselect.ReselectColumnsPostProcessor"

// ParseReselect reads the post processors that list names, with their own settings
// <name>.type and <name>.… of raw. Others than this one are Java's and refused. Nil:
// there is none.
func ParseReselect(list []string, raw map[string]string) (*Reselect, *config.Error) {
	var out *Reselect
	for _, name := range list {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		at := func(key string) string { return name + "." + key }
		fail := func(key, reason string) *config.Error {
			return &config.Error{Key: key, Value: raw[key], Reason: reason}
		}
		switch class := strings.TrimSpace(raw[at("type")]); class {
		case reselectClass:
		case "":
			return nil, fail("post.processors", fmt.Sprintf("there is no key %s with the class of the post processor", at("type")))
		default:
			return nil, fail(at("type"), "a Java post processor cannot run here; the one that is known is "+reselectClass)
		}
		if out != nil {
			return nil, fail("post.processors", "two post processors that reselect columns; give one with both lists")
		}
		out = &Reselect{Unavailable: true, Null: true}
		for key, into := range map[string]*Patterns{"reselect.columns.include.list": &out.include, "reselect.columns.exclude.list": &out.exclude} {
			p, err := ParsePatterns(raw[at(key)])
			if err != nil {
				return nil, fail(at(key), err.Error())
			}
			*into = p
		}
		if out.include != nil && out.exclude != nil {
			return nil, fail(at("reselect.columns.exclude.list"), fmt.Sprintf("%q is already specified; give one of the two", at("reselect.columns.include.list")))
		}
		for key, into := range map[string]*bool{"reselect.unavailable.values": &out.Unavailable, "reselect.null.values": &out.Null, "reselect.use.event.key": &out.EventKey} {
			if text := strings.TrimSpace(raw[at(key)]); text != "" {
				b, err := strconv.ParseBool(strings.ToLower(text))
				if err != nil {
					return nil, fail(at(key), "want true or false")
				}
				*into = b
			}
		}
		switch mode := strings.ToLower(strings.TrimSpace(raw[at("reselect.error.handling.mode")])); mode {
		case "", "warn":
		case "fail":
			out.Fail = true
		default:
			return nil, fail(at("reselect.error.handling.mode"), "want WARN or FAIL")
		}
	}
	return out, nil
}

// Wants reports whether a column's value is read where it lacks. A pattern may name it
// schema.table:column, as Debezium has it, or with a dot, as all other lists do.
func (r *Reselect) Wants(schema, table, column string) bool {
	if r == nil {
		return false
	}
	in := func(p Patterns) bool {
		return p.Match(schema+"."+table+":"+column) || p.Match(schema+"."+table+"."+column)
	}
	if r.include != nil {
		return in(r.include)
	}
	return !in(r.exclude)
}
