package javatext

import (
	"slices"
	"strings"
	"unicode"
)

// A set is a set of characters: ranges in order, apart from each other.
type set struct{ ranges []span }

type span struct{ lo, hi rune }

func (s *set) add(lo, hi rune) {
	s.ranges = append(s.ranges, span{lo, hi})
	s.tidy()
}

func (s *set) union(o set) {
	s.ranges = append(s.ranges, o.ranges...)
	s.tidy()
}

func (s *set) tidy() {
	slices.SortFunc(s.ranges, func(a, b span) int { return int(a.lo - b.lo) })
	out := s.ranges[:0]
	for _, r := range s.ranges {
		if n := len(out); n > 0 && r.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, r.hi)
			continue
		}
		out = append(out, r)
	}
	s.ranges = out
}

func (s set) not() set {
	var out set
	next := rune(0)
	for _, r := range s.ranges {
		if r.lo > next {
			out.ranges = append(out.ranges, span{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= unicode.MaxRune {
		out.ranges = append(out.ranges, span{next, unicode.MaxRune})
	}
	return out
}

func (s set) and(o set) set {
	n := s.not()
	n.union(o.not())
	return n.not()
}

// fold adds the other case of what is in the set: of ASCII letters, or of all.
func (s *set) fold(all bool) {
	var more []span
	for _, r := range s.ranges {
		for c := max(r.lo, 'A'); c <= min(r.hi, 'z'); c++ {
			if u := c &^ 0x20; u >= 'A' && u <= 'Z' {
				more = append(more, span{c ^ 0x20, c ^ 0x20})
			}
		}
		if all && r.hi-r.lo < 0x3000 { // larger ranges hold both cases anyway
			for c := r.lo; c <= r.hi; c++ {
				for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
					more = append(more, span{f, f})
				}
			}
		}
	}
	s.ranges = append(s.ranges, more...)
	s.tidy()
}

func (s set) piece(negated bool) piece {
	if negated {
		s = s.not()
	}
	if len(s.ranges) == 0 { // nothing matches
		return piece{slow: `(?!)`}
	}
	var fast, slow strings.Builder
	fast.WriteByte('[')
	slow.WriteByte('[')
	for _, r := range s.ranges {
		f, sl := quote(r.lo)
		fast.WriteString(f)
		slow.WriteString(sl)
		if r.hi > r.lo {
			f, sl = quote(r.hi)
			fast.WriteString("-" + f)
			slow.WriteString("-" + sl)
		}
	}
	return piece{fast: fast.String() + "]", slow: slow.String() + "]", simple: true}
}

func ranges(pairs ...rune) set {
	var s set
	for i := 0; i < len(pairs); i += 2 {
		s.ranges = append(s.ranges, span{pairs[i], pairs[i+1]})
	}
	s.tidy()
	return s
}

var (
	digits     = ranges('0', '9')
	wordChars  = ranges('a', 'z', 'A', 'Z', '_', '_', '0', '9')
	spaces     = ranges('\t', '\r', ' ', ' ')
	horizontal = ranges(' ', ' ', '\t', '\t', 0xA0, 0xA0, 0x1680, 0x1680, 0x180E, 0x180E, 0x2000, 0x200A, 0x202F, 0x202F, 0x205F, 0x205F, 0x3000, 0x3000)
	vertical   = ranges('\n', '\r', 0x85, 0x85, 0x2028, 0x2029)
)

// posix are Java's ASCII classes.
var posix = map[string]set{
	"Lower": ranges('a', 'z'), "Upper": ranges('A', 'Z'), "ASCII": ranges(0, 0x7F), "Alpha": ranges('a', 'z', 'A', 'Z'), "Digit": digits,
	"Alnum": ranges('a', 'z', 'A', 'Z', '0', '9'), "Punct": ranges('!', '/', ':', '@', '[', '`', '{', '~'), "Graph": ranges('!', '~'), "Print": ranges(' ', '~'),
	"Blank": ranges(' ', ' ', '\t', '\t'), "Cntrl": ranges(0, 0x1F, 0x7F, 0x7F), "XDigit": ranges('0', '9', 'a', 'f', 'A', 'F'), "Space": spaces,
}

func tableSet(t *unicode.RangeTable) set {
	var s set
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			s.ranges = append(s.ranges, span{lo, hi})
			return
		}
		for c := lo; c <= hi; c += stride {
			s.ranges = append(s.ranges, span{c, c})
		}
	}
	for _, r := range t.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range t.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	s.tidy()
	return s
}

// binaryClasses are Java's properties under Is….
var binaryClasses = map[string]*unicode.RangeTable{
	"Letter": unicode.L, "Digit": unicode.Nd, "Uppercase": unicode.Upper, "Lowercase": unicode.Lower,
	"Titlecase": unicode.Title, "Punctuation": unicode.P, "Control": unicode.Cc, "White_Space": unicode.White_Space, "Ideographic": unicode.Ideographic,
}

// property is the set of \p{name}.
func property(name string) (set, bool) {
	if s, ok := posix[name]; ok {
		return s, true
	}
	short := name
	for _, prefix := range []string{"gc=", "general_category=", "Is", "script=", "sc="} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			short = rest
			break
		}
	}
	if short != name && strings.HasPrefix(name, "Is") {
		if t := binaryClasses[short]; t != nil {
			return tableSet(t), true
		}
	}
	if t := unicode.Categories[short]; t != nil {
		return tableSet(t), true
	}
	for script, t := range unicode.Scripts {
		if short != name && strings.EqualFold(script, short) {
			return tableSet(t), true
		}
	}
	return set{}, false
}
