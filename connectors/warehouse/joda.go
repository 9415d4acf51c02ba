package warehouse

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A pathFormat is a pattern of Joda-Time's DateTimeFormat, in which path.format is written. Its texts are English.
// Source: the documentation of org.joda.time.format.DateTimeFormat.
type pathFormat struct{ parts []pathPart }

// A pathPart is a field of a time, or literal text.
type pathPart struct {
	letter byte // 0: literal
	n      int  // how often the letter stands there
	text   string
}

// parsePathFormat reads a pattern.
func parsePathFormat(pattern string) (pathFormat, error) {
	var f pathFormat
	literal := func(s string) {
		if last := len(f.parts) - 1; last >= 0 && f.parts[last].letter == 0 {
			f.parts[last].text += s
		} else {
			f.parts = append(f.parts, pathPart{text: s})
		}
	}
	for i := 0; i < len(pattern); {
		c := pattern[i]
		switch {
		case c == '\'':
			end := i + 1
			var text strings.Builder
			for ; end < len(pattern); end++ {
				if pattern[end] == '\'' {
					if end+1 < len(pattern) && pattern[end+1] == '\'' { // two are one
						end++
					} else {
						break
					}
				}
				text.WriteByte(pattern[end])
			}
			if i+1 < len(pattern) && pattern[i+1] == '\'' { // outside of a quotation, too
				literal("'")
				i += 2
				continue
			}
			literal(text.String())
			i = end + 1
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			n := 1
			for i+n < len(pattern) && pattern[i+n] == c {
				n++
			}
			switch {
			case c == 'z':
				return f, fmt.Errorf("%q holds z: names of time zones are not known here; use Z (+0200), ZZ (+02:00) or ZZZ (Europe/Berlin)", pattern)
			case !strings.ContainsRune("GCYxweEyDMdaKhHkmsSZ", rune(c)):
				return f, fmt.Errorf("%q holds the letter %c, which names no field of a time; put text between apostrophes: 'year'=YYYY", pattern, c)
			case n > 9:
				return f, fmt.Errorf("%q holds %d times %c; at most 9 have a meaning", pattern, n, c)
			}
			f.parts = append(f.parts, pathPart{letter: c, n: n})
			i += n
		default:
			literal(pattern[i : i+1])
			i++
		}
	}
	return f, nil
}

// append appends t in its location.
func (f pathFormat) append(dst []byte, t time.Time) []byte {
	for _, p := range f.parts {
		switch p.letter {
		case 0:
			dst = append(dst, p.text...)
		case 'G':
			if t.Year() > 0 {
				dst = append(dst, "AD"...)
			} else {
				dst = append(dst, "BC"...)
			}
		case 'C':
			dst = padded(dst, yearOfEra(t)/100, p.n)
		case 'Y':
			if p.n == 2 {
				dst = year(dst, t.Year(), 2)
			} else {
				dst = year(dst, yearOfEra(t), p.n)
			}
		case 'y':
			dst = year(dst, t.Year(), p.n)
		case 'x':
			y, _ := t.ISOWeek()
			dst = year(dst, y, p.n)
		case 'w':
			_, w := t.ISOWeek()
			dst = padded(dst, w, p.n)
		case 'e':
			dst = padded(dst, (int(t.Weekday())+6)%7+1, p.n)
		case 'E':
			dst = word(dst, t.Weekday().String(), p.n)
		case 'D':
			dst = padded(dst, t.YearDay(), p.n)
		case 'M':
			if p.n >= 3 {
				dst = word(dst, t.Month().String(), p.n)
			} else {
				dst = padded(dst, int(t.Month()), p.n)
			}
		case 'd':
			dst = padded(dst, t.Day(), p.n)
		case 'a':
			if t.Hour() < 12 {
				dst = append(dst, "AM"...)
			} else {
				dst = append(dst, "PM"...)
			}
		case 'K':
			dst = padded(dst, t.Hour()%12, p.n)
		case 'h':
			dst = padded(dst, (t.Hour()+11)%12+1, p.n)
		case 'H':
			dst = padded(dst, t.Hour(), p.n)
		case 'k':
			dst = padded(dst, (t.Hour()+23)%24+1, p.n)
		case 'm':
			dst = padded(dst, t.Minute(), p.n)
		case 's':
			dst = padded(dst, t.Second(), p.n)
		case 'S':
			digits := fmt.Sprintf("%09d", t.Nanosecond())
			dst = append(dst, digits[:p.n]...)
		case 'Z':
			dst = zone(dst, t, p.n)
		}
	}
	return dst
}

func yearOfEra(t time.Time) int {
	if y := t.Year(); y > 0 {
		return y
	} else {
		return 1 - y
	}
}

// year appends a year: of two letters its last two digits, else at least n digits.
func year(dst []byte, y, n int) []byte {
	if n == 2 {
		if y < 0 {
			y = -y
		}
		return padded(dst, y%100, 2)
	}
	return padded(dst, y, n)
}

// padded appends v with at least n digits; a sign is none.
func padded(dst []byte, v, n int) []byte {
	if v < 0 {
		dst, v = append(dst, '-'), -v
	}
	text := strconv.Itoa(v)
	for i := len(text); i < n; i++ {
		dst = append(dst, '0')
	}
	return append(dst, text...)
}

// word appends a name: of four letters or more the whole, else its first three characters.
func word(dst []byte, name string, n int) []byte {
	if n < 4 {
		name = name[:3]
	}
	return append(dst, name...)
}

func zone(dst []byte, t time.Time, n int) []byte {
	if n >= 3 {
		return append(dst, t.Location().String()...)
	}
	_, off := t.Zone()
	sign := byte('+')
	if off < 0 {
		sign, off = '-', -off
	}
	dst = padded(append(dst, sign), off/3600, 2)
	if n == 2 {
		dst = append(dst, ':')
	}
	return padded(dst, off/60%60, 2)
}
