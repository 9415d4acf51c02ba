package javatext

import "strconv"

// setFlags takes the letters behind (? and the colon or parenthesis behind them.
// scoped says that a group with those flags follows.
func (t *translator) setFlags() (scoped bool, err error) {
	on := true
	for {
		if !t.more() {
			return false, t.fail(t.pos, "Unknown inline modifier")
		}
		c := t.peek()
		at := t.pos
		t.pos++
		switch c {
		case 'i':
			t.flags.fold = on
		case 'u':
			t.flags.unicode = on
		case 's':
			t.flags.dotAll = on
		case 'm':
			t.flags.multi = on
		case 'x':
			t.flags.comments = on
		case 'd':
			t.flags.unixLines = on
		case '-':
			if !on {
				return false, t.fail(at, "Unknown inline modifier")
			}
			on = false
		case ':':
			return true, nil
		case ')':
			return false, nil
		case 'U':
			return false, t.fail(at, "The flag U (UNICODE_CHARACTER_CLASS) is not supported; name the classes you mean, as in \\p{L}")
		default:
			return false, t.fail(at, "Unknown inline modifier")
		}
	}
}

// escape takes an escape outside of classes.
func (t *translator) escape() (piece, error) {
	start := t.pos
	if t.pos+1 >= len(t.pattern) {
		return piece{}, t.fail(t.pos+1, "Unexpected internal error")
	}
	switch c := t.pattern[t.pos+1]; c {
	case 'Q':
		t.pos += 2
		out := piece{simple: true}
		n := 0
		for t.more() && !t.has(`\E`) {
			p := t.literal(t.peek())
			out.fast, out.slow = out.fast+p.fast, out.slow+p.slow
			out.simple = out.simple && p.simple
			t.pos++
			n++
			// A quantifier behind the quotation repeats its last character alone.
			if t.pos+2 < len(t.pattern) && t.has(`\E`) && n > 1 {
				switch t.pattern[t.pos+2] {
				case '*', '+', '?', '{':
					t.pos += 2
					last, err := t.repeated(p)
					if err != nil {
						return out, err
					}
					out.fast = out.fast[:len(out.fast)-len(p.fast)] + last.fast
					out.slow = out.slow[:len(out.slow)-len(p.slow)] + last.slow
					out.simple = out.simple && last.simple
					return out, nil
				}
			}
		}
		if t.has(`\E`) {
			t.pos += 2
		}
		out.nullable = n == 0
		if n == 0 {
			out.fast, out.slow = "(?:)", "(?:)"
		}
		return out, nil
	case 'E':
		t.pos += 2
		return piece{simple: true, nullable: true, fast: "(?:)", slow: "(?:)"}, nil
	case 'A':
		t.pos += 2
		return piece{fast: `\A`, slow: `\A`, simple: true, nullable: true}, nil
	case 'z':
		t.pos += 2
		return piece{fast: `\z`, slow: `\z`, simple: true, nullable: true}, nil
	case 'Z':
		t.pos += 2
		multi := t.flags.multi
		t.flags.multi = false
		p := t.end()
		t.flags.multi = multi
		return p, nil
	case 'G':
		t.pos += 2
		return piece{slow: `\G`, nullable: true}, nil
	case 'b':
		t.pos += 2
		return piece{fast: `\b`, slow: `(?:(?<=[a-zA-Z_0-9])(?![a-zA-Z_0-9])|(?<![a-zA-Z_0-9])(?=[a-zA-Z_0-9]))`, simple: true, nullable: true}, nil
	case 'B':
		t.pos += 2
		return piece{fast: `\B`, slow: `(?:(?<=[a-zA-Z_0-9])(?=[a-zA-Z_0-9])|(?<![a-zA-Z_0-9])(?![a-zA-Z_0-9]))`, simple: true, nullable: true}, nil
	case 'R':
		t.pos += 2
		return piece{slow: `(?:\r\n|[\n\x0B\f\r\u0085\u2028\u2029])`}, nil
	case 'k':
		t.pos += 2
		if t.peek() != '<' {
			return piece{}, t.fail(t.pos, "\\k is not followed by '<' for named capturing group")
		}
		t.pos++
		name, err := t.groupName()
		if err != nil {
			return piece{}, err
		}
		n, ok := t.names[name]
		if !ok {
			return piece{}, t.fail(t.pos-1, "named capturing group <%s> does not exist", name)
		}
		return t.backReference(n), nil
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		n := int(c - '0')
		t.pos += 2
		for t.more() && t.peek() >= '0' && t.peek() <= '9' && n*10+int(t.peek()-'0') <= t.groups {
			n = n*10 + int(t.peek()-'0')
			t.pos++
		}
		if n > t.groups {
			return piece{}, t.fail(start, "The group %d that is referred to does not exist", n)
		}
		return t.backReference(n), nil
	}
	if s, ok, err := t.classEscape(); ok || err != nil {
		return s.piece(false), err
	}
	c, err := t.charEscape()
	return t.literal(c), err
}

func (t *translator) backReference(n int) piece {
	ref := "(?:\\" + strconv.Itoa(n) + ")"
	if t.flags.fold {
		ref = "(?i:\\" + strconv.Itoa(n) + ")"
	}
	return piece{slow: ref, nullable: true}
}

// classEscape takes an escape that stands for a set; the position is at the
// backslash and stays there where it is none.
func (t *translator) classEscape() (set, bool, error) {
	if t.pos+1 >= len(t.pattern) {
		return set{}, false, nil
	}
	var s set
	c := t.pattern[t.pos+1]
	switch c {
	case 'd', 'D':
		s = digits
	case 'w', 'W':
		s = wordChars
	case 's', 'S':
		s = spaces
	case 'h', 'H':
		s = horizontal
	case 'v', 'V':
		s = vertical
	case 'p', 'P':
		t.pos += 2
		if !t.more() {
			return s, false, t.fail(t.pos, "Unknown character property")
		}
		name := string(t.peek())
		t.pos++
		if name == "{" {
			from := t.pos
			for t.more() && t.peek() != '}' {
				t.pos++
			}
			if !t.more() {
				return s, false, t.fail(t.pos, "Unclosed character family")
			}
			name = string(t.pattern[from:t.pos])
			t.pos++
		}
		s, ok := property(name)
		if !ok {
			return s, false, t.fail(t.pos-1, "Unknown character property name {%s}", name)
		}
		if c == 'P' {
			s = s.not()
		}
		return s, true, nil
	default:
		return s, false, nil
	}
	t.pos += 2
	if c < 'a' {
		s = s.not()
	}
	return s, true, nil
}

// charEscape takes an escape that stands for one character.
func (t *translator) charEscape() (rune, error) {
	start := t.pos
	t.pos++
	if !t.more() {
		return 0, t.fail(t.pos, "Unexpected internal error")
	}
	c := t.peek()
	t.pos++
	switch c {
	case 't':
		return '\t', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 'f':
		return '\f', nil
	case 'a':
		return 7, nil
	case 'e':
		return 27, nil
	case 'c':
		if !t.more() {
			return 0, t.fail(t.pos, "Illegal control escape sequence")
		}
		t.pos++
		return t.pattern[t.pos-1] ^ 64, nil
	case '0':
		var n rune
		digits := 0
		for t.more() && digits < 3 && t.peek() >= '0' && t.peek() <= '7' && n*8+t.peek()-'0' <= 0377 {
			n = n*8 + t.peek() - '0'
			t.pos++
			digits++
		}
		if digits == 0 {
			return 0, t.fail(t.pos, "Illegal octal escape sequence")
		}
		return n, nil
	case 'x':
		if t.peek() == '{' {
			t.pos++
			n, ok := t.hex(1, 6)
			if !ok || t.peek() != '}' || n > 0x10FFFF {
				return 0, t.fail(t.pos, "Illegal hexadecimal escape sequence")
			}
			t.pos++
			return n, nil
		}
		n, ok := t.hex(2, 2)
		if !ok {
			return 0, t.fail(t.pos, "Illegal hexadecimal escape sequence")
		}
		return n, nil
	case 'u':
		n, ok := t.hex(4, 4)
		if !ok {
			return 0, t.fail(t.pos, "Illegal Unicode escape sequence")
		}
		if n >= 0xD800 && n < 0xDC00 && t.has(`\u`) {
			back := t.pos
			t.pos += 2
			if low, ok := t.hex(4, 4); ok && low >= 0xDC00 && low < 0xE000 {
				return 0x10000 + (n-0xD800)<<10 + (low - 0xDC00), nil
			}
			t.pos = back
		}
		return n, nil
	}
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '1' && c <= '9' {
		return 0, t.fail(start+1, "Illegal/unsupported escape sequence")
	}
	return c, nil
}

func (t *translator) hex(least, most int) (n rune, ok bool) {
	count := 0
	for t.more() && count < most {
		d, err := strconv.ParseUint(string(t.peek()), 16, 8)
		if err != nil {
			break
		}
		n = n<<4 | rune(d)
		t.pos++
		count++
	}
	return n, count >= least
}

// class takes a class in brackets.
func (t *translator) class() (piece, error) {
	s, err := t.classSet()
	if err != nil {
		return piece{}, err
	}
	return s.piece(false), nil
}

func (t *translator) classSet() (set, error) {
	if t.depth++; t.depth > maxNesting {
		return set{}, t.fail(t.pos, "Groups nested deeper than %d", maxNesting)
	}
	defer func() { t.depth-- }()
	t.pos++
	negated := false
	if t.peek() == '^' {
		negated = true
		t.pos++
	}
	var left, s set
	intersect, empty := false, true
	for {
		if !t.more() {
			return s, t.fail(len(t.pattern)-1, "Unclosed character class")
		}
		c := t.peek()
		switch {
		case t.flags.comments && t.skipComment():
			continue
		case c == ']' && !empty:
			t.pos++
			if intersect {
				s = left.and(s)
			}
			if negated {
				s = s.not()
			}
			return s, nil
		case c == '[':
			inner, err := t.classSet()
			if err != nil {
				return s, err
			}
			s.union(inner)
		case t.has("&&"):
			t.pos += 2
			if intersect {
				s = left.and(s)
			}
			left, s, intersect, empty = s, set{}, true, true
			if t.peek() == ']' {
				return s, t.fail(t.pos, "Bad class syntax")
			}
			continue
		case t.has(`\Q`):
			t.pos += 2
			for t.more() && !t.has(`\E`) {
				t.addRange(&s, t.peek(), t.peek())
				t.pos++
			}
			if t.more() {
				t.pos += 2
			}
		default:
			if err := t.classItem(&s); err != nil {
				return s, err
			}
		}
		empty = false
	}
}

func (t *translator) addRange(s *set, lo, hi rune) {
	one := ranges(lo, hi)
	if t.flags.fold {
		one.fold(t.flags.unicode)
	}
	s.union(one)
}

// classItem takes a character, a range or an escape inside a class.
func (t *translator) classItem(s *set) error {
	one := func() (rune, error) {
		if t.peek() == '\\' {
			return t.charEscape()
		}
		t.pos++
		return t.pattern[t.pos-1], nil
	}
	if t.peek() == '\\' {
		if in, ok, err := t.classEscape(); ok || err != nil {
			s.union(in)
			return err
		}
	}
	lo, err := one()
	if err != nil {
		return err
	}
	hi := lo
	if t.peek() == '-' && t.pos+1 < len(t.pattern) && t.pattern[t.pos+1] != ']' && t.pattern[t.pos+1] != '[' {
		t.pos++
		at := t.pos
		if hi, err = one(); err != nil {
			return err
		}
		if hi < lo {
			return t.fail(at, "Illegal character range")
		}
	}
	t.addRange(s, lo, hi)
	return nil
}
