package mysql

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// tokenKind is what a token of SQL is.
type tokenKind uint8

const (
	tokenEnd    tokenKind = iota
	tokenWord             // a keyword or an unquoted name
	tokenName             // a quoted name
	tokenString           // 'text', also N'…', _utf8mb4'…', and "…" without ANSI_QUOTES
	tokenNumber           // 12, 1.5, 1e3
	tokenHex              // x'…' and 0x…
	tokenBits             // b'…' and 0b…
	tokenMark             // one character of punctuation
)

// A token is a piece of SQL. text of strings and quoted names is without quotes and
// escapes.
type token struct {
	kind     tokenKind
	text     string
	pos, end int // where it stands in the statement
	closed   int // where the last version comment before it ended
}

// is reports whether the token is a keyword, whatever its case.
func (t token) is(word string) bool { return t.kind == tokenWord && strings.EqualFold(t.text, word) }

// mark reports whether the token is that character.
func (t token) mark(c byte) bool { return t.kind == tokenMark && t.text[0] == c }

// A dialect is what the reading of SQL hangs on beside the text.
type dialect struct {
	mariadb        bool
	version        int  // 90704 is MySQL 9.7.4, 101106 is MariaDB 10.11.6; 0: not known, the newest
	ansiQuotes     bool // "…" is a name
	noBackslash    bool // \ is no escape
	realIsFloat    bool
	oracle         bool // MariaDB's sql_mode=ORACLE
	lowerCase      bool // names of tables and databases are kept in lower case
	implicitStamps bool // TIMESTAMP columns are NOT NULL where they do not say otherwise
	anyVersion     bool // read every version comment: the text is the server's own

	// What the session's settings were, where the log says it.
	server   databaseDef // what a database has that says nothing
	database string      // the default database
	inherits databaseDef // and what its tables have that say nothing
}

// Bits of sql_mode, as the log has them.
const (
	modeRealAsFloat = 1 << 0
	modeANSIQuotes  = 1 << 2
	modeOracle      = 1 << 9 // MariaDB's
	modeNoBackslash = 1 << 20

	newestVersion     = 999999
	mariadbSkipsFrom  = 50700 // MariaDB leaves alone what MySQL says to versions from 5.7 on
	mariadbSkipsUntil = 99999
)

func (d dialect) withMode(mode uint64) dialect {
	d.realIsFloat = mode&modeRealAsFloat != 0
	d.ansiQuotes = mode&modeANSIQuotes != 0
	d.noBackslash = mode&modeNoBackslash != 0
	d.oracle = d.mariadb && mode&modeOracle != 0
	return d
}

var (
	errUnclosedString  = errors.New("a text does not end")
	errUnclosedName    = errors.New("a quoted name does not end")
	errUnclosedComment = errors.New("a comment does not end")
)

// A lexer splits SQL into tokens, one at a time.
type lexer struct {
	d     dialect
	text  string
	at    int
	hints int // how deep in version comments that count
	shut  int // where the last of them ended
	err   error
}

// next is the next token; tokenEnd at the end and behind what cannot be read.
func (l *lexer) next() token {
	l.space()
	closed := l.shut
	t := l.token()
	t.closed = closed
	return t
}

func (l *lexer) token() token {
	if l.err != nil || l.at >= len(l.text) {
		return token{kind: tokenEnd, pos: l.at, end: l.at}
	}
	start := l.at
	done := func(k tokenKind, text string) token { return token{kind: k, text: text, pos: start, end: l.at} }
	switch c := l.text[l.at]; {
	case c == '`':
		text, ok := l.quoted('`', false)
		if !ok {
			l.err = errUnclosedName
		}
		return done(tokenName, text)
	case c == '"' && l.d.ansiQuotes:
		text, ok := l.quoted('"', false)
		if !ok {
			l.err = errUnclosedName
		}
		return done(tokenName, text)
	case c == '\'' || c == '"':
		return done(tokenString, l.string())
	case isDigit(c), c == '.' && l.at+1 < len(l.text) && isDigit(l.text[l.at+1]) && !l.nameBefore(start):
		return l.number(start)
	case isWord(c):
		return l.word(start)
	default:
		_, n := utf8.DecodeRuneInString(l.text[l.at:])
		l.at += n
		return done(tokenMark, l.text[start:l.at])
	}
}

// nameBefore reports whether a name ends right at that place, so that a point behind it
// parts names and begins no number.
func (l *lexer) nameBefore(at int) bool {
	return at > 0 && (isWord(l.text[at-1]) || l.text[at-1] == '`' || l.text[at-1] == '"')
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c == '_' || c == '$' || c >= 0x80
}

// space goes over blanks and comments. What a version comment holds is read as if it
// were not in one, where the version asks for it.
func (l *lexer) space() {
	for l.at < len(l.text) && l.err == nil {
		rest := l.text[l.at:]
		switch {
		case rest[0] <= ' ':
			l.at++
		case rest[0] == '#', strings.HasPrefix(rest, "--") && (len(rest) == 2 || rest[2] <= ' '):
			if i := strings.IndexByte(rest, '\n'); i >= 0 {
				l.at += i + 1
			} else {
				l.at = len(l.text)
			}
		case l.hints > 0 && strings.HasPrefix(rest, "*/"):
			l.hints--
			l.at += 2
			l.shut = l.at
		case strings.HasPrefix(rest, "/*"):
			l.comment(rest)
		default:
			return
		}
	}
}

func (l *lexer) comment(rest string) {
	head, mariadb := 3, false
	switch {
	case strings.HasPrefix(rest, "/*!"):
	case strings.HasPrefix(rest, "/*M!"):
		head, mariadb = 4, true
	default:
		end := strings.Index(rest[2:], "*/")
		if end < 0 {
			l.err = errUnclosedComment
			return
		}
		l.at += end + 4
		return
	}
	digits := 0
	for digits < 6 && head+digits < len(rest) && isDigit(rest[head+digits]) {
		digits++
	}
	version := 0
	if digits < 5 {
		digits = 0 // no version
	} else {
		for _, c := range rest[head : head+digits] {
			version = 10*version + int(c-'0')
		}
	}
	if l.counts(version, mariadb) {
		l.hints++
		l.at += head + digits
		return
	}
	// The server logs what it has left alone with a blank for the mark, and nested ones as
	// they were.
	depth := 1
	for i := 2; i+1 < len(rest); i++ {
		switch rest[i : i+2] {
		case "*/":
			if depth--; depth == 0 {
				l.at += i + 2
				return
			}
			i++
		case "/*":
			depth++
			i++
		}
	}
	l.err = errUnclosedComment
}

// counts reports whether the server reads a version comment.
func (l *lexer) counts(version int, mariadb bool) bool {
	if mariadb && !l.d.mariadb {
		return false
	}
	if version == 0 || l.d.anyVersion {
		return true
	}
	if l.d.mariadb && !mariadb && version >= mariadbSkipsFrom && version <= mariadbSkipsUntil {
		return false
	}
	have := l.d.version
	if have == 0 {
		have = newestVersion
	}
	return version <= have
}

// quoted reads up to the closing quote; a quote within is written twice.
func (l *lexer) quoted(quote byte, backslash bool) (string, bool) {
	l.at++
	start, plain := l.at, true
	for l.at < len(l.text) {
		switch c := l.text[l.at]; {
		case c == '\\' && backslash:
			plain = false
			l.at++
			if l.at < len(l.text) {
				l.at++
			}
		case c == quote && l.at+1 < len(l.text) && l.text[l.at+1] == quote:
			plain = false
			l.at += 2
		case c == quote:
			text := l.text[start:l.at]
			l.at++
			if !plain {
				text = unescape(text, quote, backslash)
			}
			return text, true
		default:
			l.at++
		}
	}
	return l.text[start:], false
}

// unescape resolves doubled quotes, and escapes as MySQL knows them.
func unescape(text string, quote byte, backslash bool) string {
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == quote && i+1 < len(text) && text[i+1] == quote:
			i++
		case c == '\\' && backslash && i+1 < len(text):
			i++
			switch c = text[i]; c {
			case '0':
				c = 0
			case 'b':
				c = '\b'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'Z':
				c = 26
			case '%', '_':
				b.WriteByte('\\')
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// string reads a text and those that follow it at once: 'a' 'b' is one.
func (l *lexer) string() string {
	text, ok := l.quoted(l.text[l.at], !l.d.noBackslash)
	if !ok {
		l.err = errUnclosedString
		return text
	}
	var all strings.Builder
	for {
		at, hints := l.at, l.hints
		l.space()
		if l.err != nil || l.at >= len(l.text) || l.text[l.at] != '\'' && (l.text[l.at] != '"' || l.d.ansiQuotes) {
			l.at, l.hints = at, hints
			if all.Len() > 0 {
				return all.String()
			}
			return text
		}
		if all.Len() == 0 {
			all.WriteString(text)
		}
		more, ok := l.quoted(l.text[l.at], !l.d.noBackslash)
		if !ok {
			l.err = errUnclosedString
			return text
		}
		all.WriteString(more)
	}
}

// number reads a number, or a name that begins with digits.
func (l *lexer) number(start int) token {
	done := func(k tokenKind, text string) token { return token{kind: k, text: text, pos: start, end: l.at} }
	rest := l.text[start:]
	if len(rest) > 2 && rest[0] == '0' && (rest[1] == 'x' || rest[1] == 'b') {
		n := 2
		digits := "0123456789abcdefABCDEF"
		kind := tokenHex
		if rest[1] == 'b' {
			digits, kind = "01", tokenBits
		}
		for n < len(rest) && strings.IndexByte(digits, rest[n]) >= 0 {
			n++
		}
		if n > 2 && (n == len(rest) || !isWord(rest[n])) {
			l.at += n
			return done(kind, rest[2:n])
		}
	}
	n := 0
	for n < len(rest) && isDigit(rest[n]) {
		n++
	}
	if n < len(rest) && n > 0 && isWord(rest[n]) {
		if e := exponent(rest[n:]); e > 0 {
			l.at += n + e
			return done(tokenNumber, rest[:n+e])
		}
		return l.word(start) // 1st, 2024_orders
	}
	if n < len(rest) && rest[n] == '.' {
		m := n + 1
		for m < len(rest) && isDigit(rest[m]) {
			m++
		}
		n = m + exponent(rest[m:])
	}
	l.at += n
	return done(tokenNumber, rest[:n])
}

// exponent is the length of e12, E-3 and so on at the front of a text, or 0.
func exponent(s string) int {
	if len(s) < 2 || s[0] != 'e' && s[0] != 'E' {
		return 0
	}
	n := 1
	if s[n] == '+' || s[n] == '-' {
		n++
	}
	from := n
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	if n == from || n < len(s) && isWord(s[n]) {
		return 0
	}
	return n
}

// word reads a keyword or an unquoted name, and the texts that begin like one: x'0f',
// b'01', N'…', _latin1'…'.
func (l *lexer) word(start int) token {
	for l.at < len(l.text) && isWord(l.text[l.at]) {
		l.at++
	}
	word := l.text[start:l.at]
	if l.at < len(l.text) && l.text[l.at] == '\'' {
		switch {
		case len(word) == 1 && (word[0] == 'x' || word[0] == 'X'):
			return token{kind: tokenHex, text: l.string(), pos: start, end: l.at}
		case len(word) == 1 && (word[0] == 'b' || word[0] == 'B'):
			return token{kind: tokenBits, text: l.string(), pos: start, end: l.at}
		case len(word) == 1 && (word[0] == 'n' || word[0] == 'N'):
			return token{kind: tokenString, text: l.string(), pos: start, end: l.at}
		}
	}
	if word[0] == '_' && knownCharset(word[1:]) {
		at, hints := l.at, l.hints
		l.space()
		if l.err == nil && l.at < len(l.text) {
			switch c := l.text[l.at]; {
			case c == '\'' || c == '"' && !l.d.ansiQuotes:
				return token{kind: tokenString, text: l.string(), pos: start, end: l.at}
			case c == 'x' || c == 'X' || c == 'b' || c == 'B' || c == '0':
				if t := l.next(); t.kind == tokenHex || t.kind == tokenBits {
					t.pos = start
					return t
				}
			}
		}
		l.at, l.hints = at, hints
	}
	return token{kind: tokenWord, text: word, pos: start, end: l.at}
}
