package javatext

import (
	"fmt"
	"strings"
	"unicode"
)

// A translator reads an expression of Java and writes it for both engines. What the
// engines understand otherwise than Java (classes, line ends, word boundaries, the
// numbers of named groups, ignoring case, possessive repetition) is written out in
// what all agree on.
type translator struct {
	pattern []rune
	pos     int
	groups  int
	names   map[string]int
	depth   int
	flags   flags
}

type flags struct{ fold, unicode, dotAll, multi, comments, unixLines bool }

// piece is a part of the expression in both languages.
type piece struct {
	fast, slow string
	simple     bool // fast means the same for plain texts
	nullable   bool // it can match nothing
	captures   bool
}

// maxNesting is how deep groups may nest.
const maxNesting = 200

func (t *translator) fail(at int, format string, args ...any) error {
	return &SyntaxError{string(t.pattern), at, fmt.Sprintf(format, args...)}
}

func (t *translator) more() bool { return t.pos < len(t.pattern) }

// peek is the next character; 0 at the end.
func (t *translator) peek() rune {
	if t.more() {
		return t.pattern[t.pos]
	}
	return 0
}

func (t *translator) has(s string) bool {
	r := []rune(s)
	return len(t.pattern)-t.pos >= len(r) && string(t.pattern[t.pos:t.pos+len(r)]) == s
}

func (t *translator) all() (piece, error) {
	p, err := t.alternatives()
	if err != nil {
		return p, err
	}
	if t.more() { // only a parenthesis ends alternatives
		return p, t.fail(t.pos-1, "Unmatched closing ')'")
	}
	return p, nil
}

func (t *translator) alternatives() (piece, error) {
	if t.depth++; t.depth > maxNesting {
		return piece{}, t.fail(t.pos, "Groups nested deeper than %d", maxNesting)
	}
	defer func() { t.depth-- }()
	saved := t.flags // flags set inside a group end with it
	defer func() { t.flags = saved }()
	out, err := t.sequence()
	for err == nil && t.peek() == '|' && t.more() {
		t.pos++
		var p piece
		p, err = t.sequence()
		out = piece{
			fast: out.fast + "|" + p.fast, slow: out.slow + "|" + p.slow, simple: out.simple && p.simple,
			nullable: out.nullable || p.nullable, captures: out.captures || p.captures,
		}
	}
	return out, err
}

func (t *translator) sequence() (piece, error) {
	var fast, slow strings.Builder
	out := piece{simple: true, nullable: true}
	for t.more() {
		c := t.peek()
		if c == '|' || c == ')' {
			break
		}
		if t.flags.comments && t.skipComment() {
			continue
		}
		p, err := t.atom()
		if err != nil {
			return out, err
		}
		if p, err = t.repeated(p); err != nil {
			return out, err
		}
		fast.WriteString(p.fast)
		slow.WriteString(p.slow)
		out.simple = out.simple && p.simple
		out.nullable = out.nullable && p.nullable
		out.captures = out.captures || p.captures
	}
	out.fast, out.slow = fast.String(), slow.String()
	return out, nil
}

func (t *translator) skipComment() bool {
	switch c := t.peek(); {
	case c == '#':
		for t.more() && t.peek() != '\n' {
			t.pos++
		}
		return true
	case c == ' ' || c >= '\t' && c <= '\r':
		t.pos++
		return true
	}
	return false
}

// repeated takes the quantifier behind an atom, if there is one.
func (t *translator) repeated(p piece) (piece, error) {
	for t.flags.comments && t.more() && t.skipComment() {
	}
	if !t.more() {
		return p, nil
	}
	q := string(t.peek())
	low, high := 0, -1
	switch q {
	case "*":
		t.pos++
	case "+":
		low = 1
		t.pos++
	case "?":
		high = 1
		t.pos++
	case "{":
		var err error
		if q, low, high, err = t.counted(); err != nil {
			return p, err
		}
	default:
		return p, nil
	}
	kind := t.peek()
	if kind == '?' || kind == '+' {
		t.pos++
	}
	// Of a repeated group that can match nothing the engines keep other captures.
	out := piece{simple: p.simple && !(p.nullable && p.captures) && low <= 1000 && high <= 1000, nullable: p.nullable || low == 0, captures: p.captures}
	fast, slow := "(?:"+p.fast+")"+q, "(?:"+p.slow+")"+q
	switch kind {
	case '?':
		fast, slow = fast+"?", slow+"?"
	case '+':
		slow, out.simple = "(?>"+slow+")", false
	}
	out.fast, out.slow = "(?:"+fast+")", "(?:"+slow+")"
	return out, nil
}

// counted takes {n}, {n,} or {n,m}.
func (t *translator) counted() (q string, min, max int, err error) {
	start := t.pos
	t.pos++
	number := func() (n int, ok bool) {
		for t.more() && t.peek() >= '0' && t.peek() <= '9' {
			n = n*10 + int(t.peek()-'0')
			ok = true
			t.pos++
			if n > 1<<20 {
				return n, false
			}
		}
		return n, ok
	}
	var ok bool
	if min, ok = number(); !ok {
		return "", 0, 0, t.fail(start+1, "Illegal repetition")
	}
	max = min
	if t.peek() == ',' {
		t.pos++
		max = -1
		if t.peek() != '}' {
			if max, ok = number(); !ok || max < min {
				return "", 0, 0, t.fail(t.pos, "Illegal repetition range")
			}
		}
	}
	if t.peek() != '}' {
		return "", 0, 0, t.fail(t.pos, "Unclosed counted closure")
	}
	t.pos++
	return string(t.pattern[start:t.pos]), min, max, nil
}

func same(s string) piece { return piece{fast: s, slow: s, simple: true} }

// lineEnds are the characters that end lines in Java.
const lineEnds = `\n\r\u0085\u2028\u2029`

func (t *translator) atom() (piece, error) {
	start := t.pos
	c := t.peek()
	switch c {
	case '(':
		return t.group()
	case '[':
		set, err := t.class()
		return set, err
	case '.':
		t.pos++
		switch {
		case t.flags.dotAll:
			return piece{fast: `(?s:.)`, slow: `[\s\S]`, simple: true}, nil
		case t.flags.unixLines:
			return same(`[^\n]`), nil
		}
		return piece{fast: `[^\n\r\x{85}\x{2028}\x{2029}]`, slow: `[^` + lineEnds + `]`, simple: true}, nil
	case '^':
		t.pos++
		if t.flags.multi {
			return piece{slow: `(?:\A|(?<=[\n\u0085\u2028\u2029]|\r(?!\n))(?!\z))`, nullable: true}, nil
		}
		return piece{fast: `\A`, slow: `\A`, simple: true, nullable: true}, nil
	case '$':
		t.pos++
		return t.end(), nil
	case '*', '+', '?':
		return piece{}, t.fail(start, "Dangling meta character '%c'", c)
	case '{':
		return piece{}, t.fail(start+1, "Illegal repetition")
	case '\\':
		return t.escape()
	}
	t.pos++
	return t.literal(c), nil
}

// end is what $ means.
func (t *translator) end() piece {
	if t.flags.multi {
		return piece{slow: `(?:(?=[\n\r\u0085\u2028\u2029])(?<!\r(?=\n))|\z)`, nullable: true}
	}
	return piece{fast: `\z`, slow: `(?=(?:\r\n|[` + lineEnds + `])?\z)`, simple: true, nullable: true}
}

// quote writes one character so that both engines take it as itself.
func quote(c rune) (fast, slow string) {
	if c < 0x80 && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ' ') {
		return string(c), string(c)
	}
	if c < 0x20 || c > 0xFFFF || c == 0x7F {
		return fmt.Sprintf(`\x{%X}`, c), string(c)
	}
	if c < 0x80 {
		return `\` + string(c), fmt.Sprintf(`\u%04X`, c)
	}
	return fmt.Sprintf(`\x{%X}`, c), fmt.Sprintf(`\u%04X`, c)
}

func (t *translator) literal(c rune) piece {
	if t.flags.fold {
		var s set
		s.add(c, c)
		s.fold(t.flags.unicode)
		if len(s.ranges) > 1 {
			return s.piece(false)
		}
	}
	fast, slow := quote(c)
	return piece{fast: fast, slow: slow, simple: true}
}

func (t *translator) group() (piece, error) {
	outer := t.flags
	t.pos++
	open, capture := "(", true
	pure := true // RE2 has this kind of group
	if t.has("?") {
		t.pos++
		capture = false
		switch {
		case t.has(":"):
			t.pos++
			open = "(?:"
		case t.has("="), t.has("!"), t.has(">"):
			open, pure = "(?"+string(t.peek()), false
			t.pos++
		case t.has("<="), t.has("<!"):
			open, pure = "(?"+string(t.pattern[t.pos:t.pos+2]), false
			t.pos += 2
		case t.has("<"):
			t.pos++
			name, err := t.groupName()
			if err != nil {
				return piece{}, err
			}
			if _, twice := t.names[name]; twice {
				return piece{}, t.fail(t.pos-1, "Named capturing group <%s> is already defined", name)
			}
			t.names[name] = t.groups + 1
			capture = true
		default:
			scoped, err := t.setFlags()
			if err != nil {
				return piece{}, err
			}
			if !scoped {
				return piece{simple: true, nullable: true, fast: "(?:)", slow: "(?:)"}, nil
			}
			open = "(?:"
		}
	}
	if capture {
		t.groups++
	}
	p, err := t.alternatives()
	if err != nil {
		return p, err
	}
	if t.peek() != ')' || !t.more() {
		return p, t.fail(t.pos, "Unclosed group")
	}
	t.pos++
	t.flags = outer
	p.captures = p.captures || capture
	p.fast, p.slow = open+p.fast+")", open+p.slow+")"
	if !pure {
		p.simple = false
		p.nullable = true
	}
	return p, nil
}

func (t *translator) groupName() (string, error) {
	start := t.pos
	for t.more() && (unicode.IsLetter(t.peek()) || t.pos > start && unicode.IsDigit(t.peek())) && t.peek() < 0x80 {
		t.pos++
	}
	if t.pos == start {
		return "", t.fail(t.pos, "capturing group name does not start with a Latin letter")
	}
	if t.peek() != '>' {
		return "", t.fail(t.pos, "named capturing group is missing trailing '>'")
	}
	t.pos++
	return string(t.pattern[start : t.pos-1]), nil
}
