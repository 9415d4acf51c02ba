package javatext

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// matchLimit ends a match that backtracks without end: an expression like (a+)+b
// takes a time that doubles with each character.
const matchLimit = time.Second

// A Regexp is a regular expression of Java (java.util.regex). Where it is in the
// subset that RE2 matches alike it runs there, in time linear to the text; else, and
// for texts of several lines, it runs on a backtracking engine, and each match may
// take a second at most. It is safe for concurrent use.
type Regexp struct {
	pattern  string
	groups   int            // capturing groups, without the whole
	names    map[string]int // of named groups
	nullable bool           // it can match nothing
	fast     *regexp.Regexp // nil: not in the subset
	whole    *regexp.Regexp // fast, anchored at both ends
	slow     *regexp2.Regexp
	slowAll  *regexp2.Regexp
}

// A SyntaxError says what is wrong with an expression and where, as Java does.
type SyntaxError struct {
	Pattern string
	Index   int // in characters; -1: nowhere in particular
	Reason  string
}

func (e *SyntaxError) Error() string {
	if e.Index < 0 {
		return e.Reason + "\n" + e.Pattern
	}
	text := fmt.Sprintf("%s near index %d\n%s", e.Reason, e.Index, e.Pattern)
	if e.Index < utf8.RuneCountInString(e.Pattern) {
		text += "\n" + strings.Repeat(" ", e.Index) + "^"
	}
	return text
}

// Compile compiles an expression; errors are *SyntaxError.
func Compile(pattern string) (*Regexp, error) {
	t := translator{pattern: []rune(pattern), names: map[string]int{}}
	out, err := t.all()
	if err != nil {
		return nil, err
	}
	r := &Regexp{pattern: pattern, groups: t.groups, names: t.names, nullable: out.nullable}
	const opts = regexp2.None
	if r.slow, err = regexp2.Compile(out.slow, opts); err == nil {
		r.slowAll, err = regexp2.Compile(`\A(?:`+out.slow+`)\z`, opts)
	}
	if err != nil {
		return nil, &SyntaxError{pattern, -1, err.Error()}
	}
	r.slow.MatchTimeout, r.slowAll.MatchTimeout = matchLimit, matchLimit
	if out.simple {
		fast, err1 := regexp.Compile(out.fast)
		whole, err2 := regexp.Compile(`\A(?:` + out.fast + `)\z`)
		if err1 == nil && err2 == nil { // too large for RE2 is not too large for us
			r.fast, r.whole = fast, whole
		}
	}
	return r, nil
}

// String is the expression as it was given.
func (r *Regexp) String() string { return r.pattern }

// plainText reports whether both engines match s alike: it has no line terminators,
// before which $ matches in Java.
func plainText(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= 0x20 && c < utf8.RuneSelf {
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch r {
		case '\n', '\r', 0x85, 0x2028, 0x2029, utf8.RuneError:
			return false
		}
		i += size - 1
	}
	return true
}

// MatchWhole reports whether the expression matches the whole of s, as Java's
// Matcher.matches. An error says that the time limit was reached.
func (r *Regexp) MatchWhole(s string) (bool, error) {
	if r.whole != nil && plainText(s) {
		return r.whole.MatchString(s), nil
	}
	ok, err := r.slowAll.MatchString(s)
	if err != nil {
		return false, r.limit(s)
	}
	return ok, nil
}

// Find reports whether the expression matches anywhere in s, as Java's Matcher.find.
func (r *Regexp) Find(s string) (bool, error) {
	if r.fast != nil && plainText(s) {
		return r.fast.MatchString(s), nil
	}
	ok, err := r.slow.MatchString(s)
	if err != nil {
		return false, r.limit(s)
	}
	return ok, nil
}

func (r *Regexp) limit(s string) error {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return fmt.Errorf("the regular expression %q took longer than %v on %q; write it without nested repetitions", r.pattern, matchLimit, s)
}

// A Replacement is a text with references to the groups of one expression.
type Replacement struct {
	r     *Regexp
	parts []replacementPart
}

type replacementPart struct {
	text  string
	group int // -1: text alone
}

// Replacement reads a replacement as Java's Matcher does: $1 and ${name} are
// groups, a backslash takes the next character as it is. A group that the
// expression has not is an error.
func (r *Regexp) Replacement(text string) (*Replacement, error) {
	out := &Replacement{r: r}
	var plain strings.Builder
	group := func(n int) {
		if plain.Len() > 0 {
			out.parts = append(out.parts, replacementPart{plain.String(), -1})
			plain.Reset()
		}
		out.parts = append(out.parts, replacementPart{"", n})
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\\':
			if i++; i == len(text) {
				return nil, fmt.Errorf("the replacement %q ends in a backslash: character to be escaped is missing", text)
			}
			plain.WriteByte(text[i])
		case '$':
			if i++; i == len(text) {
				return nil, fmt.Errorf("the replacement %q ends in a dollar sign: Illegal group reference: group index is missing; write \\$ for the sign itself", text)
			}
			if text[i] == '{' {
				end := strings.IndexByte(text[i:], '}')
				if end < 0 {
					return nil, fmt.Errorf("the replacement %q: named capturing group is missing trailing '}'", text)
				}
				name := text[i+1 : i+end]
				n, ok := r.names[name]
				if !ok {
					return nil, fmt.Errorf("the replacement %q: No group with name {%s} in the expression %q", text, name, r.pattern)
				}
				group(n)
				i += end
				continue
			}
			if text[i] < '0' || text[i] > '9' {
				return nil, fmt.Errorf("the replacement %q: Illegal group reference behind the dollar sign; write \\$ for the sign itself", text)
			}
			n := int(text[i] - '0')
			if n > r.groups {
				return nil, fmt.Errorf("the replacement %q: No group %d in the expression %q, which has %d", text, n, r.pattern, r.groups)
			}
			// More digits belong to the number as long as there is such a group.
			for i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9' {
				next := n*10 + int(text[i+1]-'0')
				if next > r.groups {
					break
				}
				n = next
				i++
			}
			group(n)
		default:
			plain.WriteByte(c)
		}
	}
	if plain.Len() > 0 {
		out.parts = append(out.parts, replacementPart{plain.String(), -1})
	}
	return out, nil
}

// ReplaceFirst replaces the first match in s, as Java's Matcher.replaceFirst; where
// nothing matches, s comes back. Who replaces often compiles the replacement once.
func (r *Regexp) ReplaceFirst(s, replacement string) (string, error) {
	with, err := r.Replacement(replacement)
	if err != nil {
		return "", err
	}
	return with.First(s)
}

// ReplaceAll replaces every match in s, as Java's Matcher.replaceAll.
func (r *Regexp) ReplaceAll(s, replacement string) (string, error) {
	with, err := r.Replacement(replacement)
	if err != nil {
		return "", err
	}
	return with.All(s)
}

// First is s with the first match replaced.
func (w *Replacement) First(s string) (string, error) { return w.replace(s, 1) }

// All is s with every match replaced.
func (w *Replacement) All(s string) (string, error) { return w.replace(s, -1) }

func (w *Replacement) replace(s string, n int) (string, error) {
	r := w.r
	// Go leaves out an empty match that follows another one at once, Java does not.
	if r.fast != nil && plainText(s) && (n == 1 || !r.nullable) {
		var out []byte
		done := 0
		for _, at := range r.fast.FindAllStringSubmatchIndex(s, n) {
			out = append(out, s[done:at[0]]...)
			for _, p := range w.parts {
				out = append(out, p.text...)
				if p.group >= 0 && at[2*p.group] >= 0 {
					out = append(out, s[at[2*p.group]:at[2*p.group+1]]...)
				}
			}
			done = at[1]
		}
		if out == nil && done == 0 {
			return s, nil
		}
		return string(append(out, s[done:]...)), nil
	}
	m, err := r.slow.FindStringMatch(s)
	if err != nil {
		return "", r.limit(s)
	}
	if m == nil {
		return s, nil
	}
	runes := []rune(s)
	var out []byte
	done := 0
	for ; m != nil && n != 0; n-- {
		out = append(out, string(runes[done:m.Index])...)
		for _, p := range w.parts {
			out = append(out, p.text...)
			if p.group >= 0 {
				if g := m.GroupByNumber(p.group); g != nil {
					out = append(out, g.String()...)
				}
			}
		}
		done = m.Index + m.Length
		if m, err = r.slow.FindNextMatch(m); err != nil {
			return "", r.limit(s)
		}
	}
	return string(append(out, string(runes[done:])...)), nil
}

// CheckPattern is a check for settings that hold an expression, with Connect's words.
func CheckPattern(text string) error {
	if _, err := Compile(text); err != nil {
		return fmt.Errorf("Invalid regex: %w", err)
	}
	return nil
}
