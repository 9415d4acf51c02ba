package javatext

import (
	"fmt"
	"strings"
	"time"
)

// A SimpleDateFormat is a pattern of java.text.SimpleDateFormat in the time zone
// UTC, with the names and weeks of the locale en-US. It formats moments and reads
// them leniently, as Java does: a 32nd of January is the 1st of February, and what
// stands behind the pattern's end is not looked at. Where Java makes an arbitrary
// date of a text that has not the pattern's form, there is none. It is immutable and safe for
// concurrent use.
type SimpleDateFormat struct {
	pattern string
	parts   []datePart
	century int64 // the first year that two digits can mean
}

// datePart is a letter that is repeated, or text (letter 0).
type datePart struct {
	letter byte
	count  int
	text   string
	abuts  bool // a number with another one right behind it: its width is fixed
}

const dateLetters = "GyYMLwWDdFEuaHkKhmsSzZX"

// NewSimpleDateFormat reads a pattern.
func NewSimpleDateFormat(pattern string) (*SimpleDateFormat, error) {
	f := &SimpleDateFormat{pattern: pattern, century: int64(time.Now().UTC().Year()) - 80}
	text := func(s string) {
		if n := len(f.parts); n > 0 && f.parts[n-1].letter == 0 {
			f.parts[n-1].text += s
		} else {
			f.parts = append(f.parts, datePart{text: s})
		}
	}
	for i := 0; i < len(pattern); {
		c := pattern[i]
		switch {
		case c == '\'':
			if i+1 < len(pattern) && pattern[i+1] == '\'' {
				text("'")
				i += 2
				continue
			}
			i++
			closed := false
			for i < len(pattern) {
				if pattern[i] == '\'' {
					if i+1 < len(pattern) && pattern[i+1] == '\'' {
						text("'")
						i += 2
						continue
					}
					closed = true
					i++
					break
				}
				text(pattern[i : i+1])
				i++
			}
			if !closed {
				return nil, fmt.Errorf("Unterminated quote in the date pattern %q", pattern)
			}
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			if strings.IndexByte(dateLetters, c) < 0 {
				return nil, fmt.Errorf("Illegal pattern character '%c' in the date pattern %q", c, pattern)
			}
			n := 1
			for i+n < len(pattern) && pattern[i+n] == c {
				n++
			}
			if c == 'X' && n > 3 {
				return nil, fmt.Errorf("invalid ISO 8601 format: length=%d in the date pattern %q", n, pattern)
			}
			f.parts = append(f.parts, datePart{letter: c, count: n})
			i += n
		default:
			text(pattern[i : i+1])
			i++
		}
	}
	for i := range f.parts {
		f.parts[i].abuts = i+1 < len(f.parts) && f.parts[i].numeric() && f.parts[i+1].numeric()
	}
	return f, nil
}

// Pattern is the pattern as it was given.
func (f *SimpleDateFormat) Pattern() string { return f.pattern }

// numeric reports whether the part is written with digits.
func (p datePart) numeric() bool {
	switch p.letter {
	case 0, 'G', 'E', 'a', 'z', 'Z', 'X':
		return false
	case 'M', 'L':
		return p.count < 3
	}
	return true
}

var (
	longMonths = [...]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
	longDays   = [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
)

// weekday is 0 for Sunday.
func weekday(day int64) int64 { return day + 4 - FloorDiv(day+4, 7)*7 }

// calendarDays is the day of a date in Java's calendar.
func calendarDays(year int64, month, day int) int64 {
	if d := Days(year, month, day); d >= gregorianStart {
		return d
	}
	return julianDays(year, month, day)
}

// weekOf is the week of the year and the year that it belongs to: weeks begin on
// Sunday, the first is that with the 1st of January.
func weekOf(day, year int64) (week, weekYear int64) {
	next := calendarDays(year+1, 1, 1)
	if day >= next-weekday(next) {
		return 1, year + 1
	}
	first := calendarDays(year, 1, 1)
	return (day-first+weekday(first))/7 + 1, year
}

// Append appends a moment, in milliseconds since 1970.
func (f *SimpleDateFormat) Append(dst []byte, ms int64) []byte {
	day, ofDay := SplitMillis(ms)
	year, month, dom := CalendarDate(day)
	shown := year
	if year <= 0 {
		shown = 1 - year
	}
	hour := ofDay / 3_600_000
	for _, p := range f.parts {
		switch p.letter {
		case 0:
			dst = append(dst, p.text...)
		case 'G':
			if year > 0 {
				dst = append(dst, "AD"...)
			} else {
				dst = append(dst, "BC"...)
			}
		case 'y', 'Y':
			y := shown
			if p.letter == 'Y' {
				_, y = weekOf(day, year)
			}
			if p.count == 2 {
				dst = pad(dst, y%100, 2)
			} else {
				dst = pad(dst, y, p.count)
			}
		case 'M', 'L':
			switch {
			case p.count >= 4:
				dst = append(dst, longMonths[month-1]...)
			case p.count == 3:
				dst = append(dst, months[month-1]...)
			default:
				dst = pad(dst, int64(month), p.count)
			}
		case 'w':
			w, _ := weekOf(day, year)
			dst = pad(dst, w, p.count)
		case 'W':
			dst = pad(dst, (int64(dom)-1+weekday(day-int64(dom)+1))/7+1, p.count)
		case 'D':
			dst = pad(dst, day-calendarDays(year, 1, 1)+1, p.count)
		case 'd':
			dst = pad(dst, int64(dom), p.count)
		case 'F':
			dst = pad(dst, int64(dom-1)/7+1, p.count)
		case 'E':
			name := longDays[weekday(day)]
			if p.count < 4 {
				name = name[:3]
			}
			dst = append(dst, name...)
		case 'u':
			dst = pad(dst, (weekday(day)+6)%7+1, p.count)
		case 'a':
			if hour < 12 {
				dst = append(dst, "AM"...)
			} else {
				dst = append(dst, "PM"...)
			}
		case 'H':
			dst = pad(dst, hour, p.count)
		case 'k':
			dst = pad(dst, (hour+23)%24+1, p.count)
		case 'K':
			dst = pad(dst, hour%12, p.count)
		case 'h':
			dst = pad(dst, (hour+11)%12+1, p.count)
		case 'm':
			dst = pad(dst, ofDay/60_000%60, p.count)
		case 's':
			dst = pad(dst, ofDay/1000%60, p.count)
		case 'S':
			dst = pad(dst, ofDay%1000, p.count)
		case 'z':
			if p.count >= 4 {
				dst = append(dst, "Coordinated Universal Time"...)
			} else {
				dst = append(dst, "UTC"...)
			}
		case 'Z':
			dst = append(dst, "+0000"...)
		case 'X':
			dst = append(dst, 'Z')
		}
	}
	return dst
}
