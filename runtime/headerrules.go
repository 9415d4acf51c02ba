package runtime

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A HeaderRule is one rule of response.http.headers.config.
type HeaderRule struct {
	Add   bool // beside what is there; else in its place
	Name  string
	Value string
	// Date says that the value is a time: so far from the moment of the answer.
	Date  bool
	After time.Duration
}

// Apply puts the rule's header into an answer's.
func (r HeaderRule) Apply(h http.Header, now time.Time) {
	value := r.Value
	if r.Date {
		value = now.Add(r.After).UTC().Format(http.TimeFormat)
	}
	if r.Add {
		h.Add(r.Name, value)
		return
	}
	h.Set(r.Name, value)
}

// parseHeaderRules reads rules as Connect has them: ACTION NAME:VALUE, separated by commas, in quotes where they hold
// some. Actions are set, add, setDate and addDate, whose value is a number of milliseconds.
func parseHeaderRules(text string) ([]HeaderRule, error) {
	var out []HeaderRule
	parts, err := splitQuoted(text)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		action, header, ok := strings.Cut(part, " ")
		name, value, colon := strings.Cut(strings.TrimSpace(header), ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !colon {
			return nil, fmt.Errorf("rule %q is not of the form ACTION NAME:VALUE", part)
		}
		r := HeaderRule{Name: name, Value: value}
		switch strings.ToLower(action) {
		case "set":
		case "add":
			r.Add = true
		case "setdate":
			r.Date = true
		case "adddate":
			r.Add, r.Date = true, true
		default:
			return nil, fmt.Errorf("rule %q: the action must be one of set, add, setDate, addDate", part)
		}
		if !isToken(name) {
			return nil, fmt.Errorf("rule %q: %q is no name of a header", part, name)
		}
		if i := strings.IndexFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7F }); i >= 0 {
			return nil, fmt.Errorf("rule for header %s: a value has no line breaks or other control characters", name)
		}
		if r.Date {
			ms, err := strconv.ParseInt(value, 10, 64)
			if err != nil || ms > int64(1<<62)/int64(time.Millisecond) || ms < -int64(1<<62)/int64(time.Millisecond) {
				return nil, fmt.Errorf("rule %q: the value must be a number of milliseconds", part)
			}
			r.After = time.Duration(ms) * time.Millisecond
		}
		out = append(out, r)
	}
	return out, nil
}

func isToken(s string) bool {
	return s != "" && strings.Trim(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// splitQuoted splits at commas outside of double quotes, which it removes; two of them in quotes are one.
func splitQuoted(text string) ([]string, error) {
	var out []string
	var b strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' && quoted && i+1 < len(text) && text[i+1] == '"':
			b.WriteByte('"')
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			out = append(out, b.String())
			b.Reset()
		default:
			b.WriteByte(c)
		}
	}
	if quoted {
		return nil, errors.New("a quote is not closed")
	}
	return append(out, b.String()), nil
}
