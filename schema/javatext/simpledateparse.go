package javatext

import (
	"math"
	"strings"
)

// dateFields are what a text says; nil is nothing.
type dateFields struct {
	year, month, day, dayOfYear   *int64
	hour, hour12, minute, sec, ms *int64
	pm, bc                        bool
	offset                        int64 // of the zone, milliseconds
}

// Parse reads a moment, and reports whether the text has the pattern's form.
func (f *SimpleDateFormat) Parse(s string) (ms int64, ok bool) {
	var d dateFields
	pos := 0
	for i := 0; i < len(f.parts); i++ {
		p := f.parts[i]
		if p.letter == 0 {
			if !strings.HasPrefix(s[pos:], p.text) {
				return 0, false
			}
			pos += len(p.text)
			continue
		}
		for pos < len(s) && (s[pos] == ' ' || s[pos] == '\t') {
			pos++
		}
		if pos, ok = f.field(&d, p, s, pos); !ok {
			return 0, false
		}
	}
	if pos == 0 { // as in Java: nothing was read
		return 0, false
	}
	return d.millis(), true
}

// field reads one part at pos and returns the position behind it.
func (f *SimpleDateFormat) field(d *dateFields, p datePart, s string, pos int) (int, bool) {
	name := func(names []string) (int, int, bool) {
		best, at := -1, 0
		for i, n := range names {
			if len(s)-pos >= len(n) && strings.EqualFold(s[pos:pos+len(n)], n) && (best < 0 || len(n) > len(names[best])) {
				best, at = i, pos+len(n)
			}
		}
		return best, at, best >= 0
	}
	if !p.numeric() {
		switch p.letter {
		case 'G':
			i, at, ok := name([]string{"BC", "AD"})
			d.bc = i == 0
			return at, ok
		case 'a':
			i, at, ok := name([]string{"AM", "PM"})
			d.pm = i == 1
			return at, ok
		case 'E':
			_, at, ok := name(longDays[:]) // the date says which day it is
			if !ok {
				short := make([]string, 7)
				for i, n := range longDays {
					short[i] = n[:3]
				}
				_, at, ok = name(short)
			}
			return at, ok
		case 'M', 'L':
			i, at, ok := name(longMonths[:])
			if !ok {
				i, at, ok = name(months[:])
			}
			m := int64(i + 1)
			d.month = &m
			return at, ok
		}
		offset, at, ok := zone(p, s, pos)
		d.offset = offset
		return at, ok
	}
	start := pos
	negative := false
	if pos < len(s) && s[pos] == '-' && !p.abuts {
		negative = true
		pos++
	}
	digits := 0
	var n int64
	for pos < len(s) && s[pos] >= '0' && s[pos] <= '9' && (!p.abuts || digits < p.count) && digits < 18 {
		n = n*10 + int64(s[pos]-'0')
		pos++
		digits++
	}
	// Java reads "2024-02-29" by yyyyMMdd as the 2nd of December 2023, and numbers
	// beyond 32 bits as any date at all. Here they have not the pattern's form.
	if digits == 0 || p.abuts && digits < p.count || n > math.MaxInt32 {
		return start, false
	}
	if negative {
		n = -n
	}
	switch p.letter {
	case 'y':
		if p.count <= 2 && digits == 2 && !negative { // within 80 years before now and 20 after
			n += f.century - f.century%100
			if n < f.century {
				n += 100
			}
		}
		d.year = &n
	case 'M', 'L':
		d.month = &n
	case 'd':
		d.day = &n
	case 'D':
		d.dayOfYear = &n
	case 'H':
		d.hour = &n
	case 'k':
		if n == 24 {
			n = 0
		}
		d.hour = &n
	case 'K':
		d.hour12 = &n
	case 'h':
		if n == 12 {
			n = 0
		}
		d.hour12 = &n
	case 'm':
		d.minute = &n
	case 's':
		d.sec = &n
	case 'S':
		d.ms = &n
	default: // weeks and days of weeks say nothing that a date would not say
		return start, false
	}
	return pos, true
}

// zones are the names that are read, with their offsets in hours.
var zones = map[string]int64{
	"UTC": 0, "GMT": 0, "Z": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "WET": 0, "WEST": 1, "MSK": 3, "JST": 9,
	"Coordinated Universal Time": 0, "Greenwich Mean Time": 0,
}

// zone reads a time zone: a name, GMT+h:mm, +hhmm, or for X the forms of ISO 8601.
func zone(p datePart, s string, pos int) (ms int64, at int, ok bool) {
	rest := s[pos:]
	if p.letter == 'X' {
		if strings.HasPrefix(rest, "Z") {
			return 0, pos + 1, true
		}
		return offset(rest, pos, map[int]string{1: "hh", 2: "hhmm", 3: "hh:mm"}[p.count])
	}
	best := ""
	for n := range zones {
		if n != "Z" && len(n) > len(best) && len(rest) >= len(n) && strings.EqualFold(rest[:len(n)], n) {
			best = n
		}
	}
	if best != "" {
		if at := pos + len(best); best == "GMT" && at < len(s) && (s[at] == '+' || s[at] == '-') {
			return offset(s[at:], at, "h:mm")
		}
		return zones[best] * 3_600_000, pos + len(best), true
	}
	return offset(rest, pos, "hhmm")
}

// offset reads a sign and an offset of the form.
func offset(s string, pos int, form string) (ms int64, at int, ok bool) {
	if s == "" || s[0] != '+' && s[0] != '-' {
		return 0, pos, false
	}
	i := 1
	take := func(least, most int) (n int64, ok bool) {
		count := 0
		for i < len(s) && count < most && s[i] >= '0' && s[i] <= '9' {
			n = n*10 + int64(s[i]-'0')
			i++
			count++
		}
		return n, count >= least
	}
	least := 2
	if form == "h:mm" {
		least = 1
	}
	h, ok := take(least, 2)
	if !ok || h > 23 {
		return 0, pos, false
	}
	var m int64
	if form != "hh" {
		colon := strings.Contains(form, ":")
		if colon {
			if i >= len(s) || s[i] != ':' {
				return 0, pos, false
			}
			i++
		}
		if m, ok = take(2, 2); !ok || m > 59 {
			return 0, pos, false
		}
	}
	ms = h*3_600_000 + m*60_000
	if s[0] == '-' {
		ms = -ms
	}
	return ms, pos + i, true
}

// millis is the moment that the fields mean, what is missing being that of
// 1970-01-01T00:00:00Z, and what is too large counted on.
func (d *dateFields) millis() int64 {
	or := func(n *int64, other int64) int64 {
		if n == nil {
			return other
		}
		return *n
	}
	year := or(d.year, 1970)
	if d.bc {
		year = 1 - year
	}
	month := or(d.month, 1) - 1
	year += FloorDiv(month, 12)
	month -= FloorDiv(month, 12) * 12
	day := calendarDays(year, int(month)+1, 1) + or(d.day, 1) - 1
	if d.dayOfYear != nil && d.day == nil && d.month == nil {
		day = calendarDays(year, 1, 1) + *d.dayOfYear - 1
	}
	hour := or(d.hour, 0)
	if d.hour == nil {
		hour = or(d.hour12, 0)
		if d.pm {
			hour += 12
		}
	}
	return day*MillisPerDay + hour*3_600_000 + or(d.minute, 0)*60_000 + or(d.sec, 0)*1000 + or(d.ms, 0) - d.offset
}
