package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/javatext"
)

// What the infinities of dates and timestamps become: Debezium's sentinels of the
// stream.
const (
	infiniteDate    = -2147472692
	negInfiniteDate = -2147472691
	infiniteMicros  = 9223372036825200000
	negInfinite     = -9223372036832400000
)

const (
	microsPerDay = 86_400_000_000
	nanosPerSec  = 1_000_000_000
)

var (
	errTime   = errors.New("is no date or time of the ISO style")
	errBeyond = lossError("does not fit 64 bits of its unit")
	bc        = []byte(" BC")
)

// cutDate reads YYYY-MM-DD at the front of b.
func cutDate(b []byte) (y, m, d int64, rest []byte, ok bool) {
	i := bytes.IndexByte(b, '-')
	if i < 4 || len(b) < i+6 || b[i+3] != '-' {
		return 0, 0, 0, nil, false
	}
	y, ok1 := parseInt(b[:i])
	m, ok2 := twoDigits(b[i+1:])
	d, ok3 := twoDigits(b[i+4:])
	return y, m, d, b[i+6:], ok1 && ok2 && ok3 && m >= 1 && m <= 12 && d >= 1 && d <= 31
}

func twoDigits(b []byte) (int64, bool) {
	if len(b) < 2 || b[0]-'0' > 9 || b[1]-'0' > 9 {
		return 0, false
	}
	return int64(b[0]-'0')*10 + int64(b[1]-'0'), true
}

// cutTime reads HH:MM:SS[.ffffff] at the front of b, in microseconds.
func cutTime(b []byte) (us int64, rest []byte, ok bool) {
	if len(b) < 8 {
		return 0, nil, false
	}
	h, ok1 := twoDigits(b)
	us, rest, ok = cutMinutes(b[2:])
	return h*3600_000_000 + us, rest, ok && ok1 && h <= 24
}

// cutMinutes reads :MM:SS[.ffffff] at the front of b, in microseconds.
func cutMinutes(b []byte) (us int64, rest []byte, ok bool) {
	if len(b) < 6 || b[0] != ':' || b[3] != ':' {
		return 0, nil, false
	}
	m, ok1 := twoDigits(b[1:])
	s, ok2 := twoDigits(b[4:])
	if !ok1 || !ok2 || m > 59 || s > 60 {
		return 0, nil, false
	}
	us = (m*60 + s) * 1e6
	b = b[6:]
	if len(b) > 0 && b[0] == '.' {
		unit := int64(100_000)
		for b = b[1:]; len(b) > 0 && b[0]-'0' <= 9; b = b[1:] {
			us += int64(b[0]-'0') * unit
			unit /= 10
		}
	}
	return us, b, true
}

// dateDays reads a date.
func dateDays(b []byte) (int64, error) {
	switch str(b) {
	case "infinity":
		return infiniteDate, nil
	case "-infinity":
		return negInfiniteDate, nil
	}
	body, isBC := bytes.CutSuffix(b, bc)
	y, m, d, rest, ok := cutDate(body)
	if !ok || len(rest) > 0 {
		return 0, fmt.Errorf("%q %w", clip(b), errTime)
	}
	if isBC {
		y = 1 - y
	}
	return javatext.Days(y, int(m), int(d)), nil
}

// An instant is a timestamp as days and microseconds of the day, which holds all
// that Postgres has, or one of the infinities.
type instant struct {
	days, us int64
	inf      int // -1, 0, 1
}

// parseTimestamp reads YYYY-MM-DD HH:MM:SS[.ffffff][+00][ BC].
func parseTimestamp(b []byte, zoned bool) (instant, error) {
	switch str(b) {
	case "infinity":
		return instant{inf: 1}, nil
	case "-infinity":
		return instant{inf: -1}, nil
	}
	body, isBC := bytes.CutSuffix(b, bc)
	y, m, d, rest, ok := cutDate(body)
	if !ok || len(rest) < 9 || rest[0] != ' ' {
		return instant{}, fmt.Errorf("%q %w", clip(b), errTime)
	}
	us, rest, ok := cutTime(rest[1:])
	var off int64
	if ok && zoned {
		off, ok = parseZone(rest)
	} else if len(rest) > 0 {
		ok = false
	}
	if !ok {
		return instant{}, fmt.Errorf("%q %w", clip(b), errTime)
	}
	if isBC {
		y = 1 - y
	}
	t := instant{days: javatext.Days(y, int(m), int(d)), us: us - off*1e6}
	for ; t.us < 0; t.us += microsPerDay {
		t.days--
	}
	for ; t.us >= microsPerDay; t.us -= microsPerDay {
		t.days++
	}
	return t, nil
}

// parseZone reads +HH[:MM[:SS]] in seconds east of UTC.
func parseZone(b []byte) (int64, bool) {
	if len(b) < 3 || b[0] != '+' && b[0] != '-' {
		return 0, false
	}
	neg, off, unit := b[0] == '-', int64(0), int64(3600)
	for b = b[1:]; ; b = b[3:] {
		n, ok := twoDigits(b)
		if !ok || unit == 0 {
			return 0, false
		}
		off += n * unit
		if unit /= 60; len(b) == 2 {
			break
		}
		if len(b) < 5 || b[2] != ':' {
			return 0, false
		}
	}
	if neg {
		off = -off
	}
	return off, true
}

// in is the instant in units of a second's parts. What does not fit 64 bits is held
// to the largest or smallest number, and false.
func (t instant) in(perSecond int64) (int64, bool) {
	switch {
	case t.inf != 0 && perSecond > 1e6: // the sentinels are of microseconds
		return limit64(t.inf > 0), true
	case t.inf > 0:
		return infiniteMicros / (1e6 / perSecond), true
	case t.inf < 0:
		return negInfinite / (1e6 / perSecond), true
	}
	perDay := perSecond * 86400
	sub := t.us * max(1, perSecond/1e6) / max(1, 1e6/perSecond)
	last := math.MaxInt64/perDay - 1
	switch {
	case t.days == last+1 && sub <= math.MaxInt64-(last+1)*perDay:
	case t.days > last, t.days < -last:
		return limit64(t.days > 0), false
	}
	return t.days*perDay + sub, true
}

func limit64(largest bool) int64 {
	if largest {
		return math.MaxInt64
	}
	return math.MinInt64
}

func dateDecoder(value func(int32) schema.Value) decoder {
	return func(_ *schema.Arena, b []byte) (schema.Value, error) {
		n, err := dateDays(b)
		return value(int32(n)), err
	}
}

func timestampDecoder(perSecond int64, value func(int64) schema.Value) decoder {
	return func(_ *schema.Arena, b []byte) (schema.Value, error) {
		t, err := parseTimestamp(b, false)
		if err != nil {
			return schema.Value{}, err
		}
		n, ok := t.in(perSecond)
		if !ok {
			err = fmt.Errorf("%q %w", clip(b), errBeyond)
		}
		return value(n), err
	}
}

// timeDecoder is of time without zone, in units of a second's parts.
func timeDecoder(perSecond int64, value func(int64) schema.Value) decoder {
	return func(_ *schema.Arena, b []byte) (schema.Value, error) {
		us, rest, ok := cutTime(b)
		if !ok || len(rest) > 0 {
			return schema.Value{}, fmt.Errorf("%q %w", clip(b), errTime)
		}
		if perSecond < 1e6 {
			return value(us / (1e6 / perSecond)), nil
		}
		return value(us * (perSecond / 1e6)), nil
	}
}

// zonedTimestamp is timestamptz: 2024-02-29T10:34:56.789012Z, with the fraction
// digits of the column's precision.
func zonedTimestamp(digits int) decoder { return isoTimestamp(digits, true) }

func isoTimestamp(digits int, zoned bool) decoder {
	return func(a *schema.Arena, b []byte) (schema.Value, error) {
		t, err := parseTimestamp(b, zoned)
		switch {
		case err != nil:
			return schema.Value{}, err
		case t.inf != 0 && zoned:
			return a.String(b), nil
		case t.inf != 0: // the sentinel's own date, as Debezium has it
			n, _ := t.in(1e6)
			t = instant{days: n / microsPerDay, us: n % microsPerDay}
			if t.us < 0 {
				t.days, t.us = t.days-1, t.us+microsPerDay
			}
		}
		var buf [40]byte
		out := append(cdc.AppendISODate(buf[:0], t.days), 'T')
		out = append(cdc.AppendTime(out, t.us, digits), 'Z')
		return a.String(out), nil
	}
}

// zonedTime is timetz, in UTC: 10:34:56.789012Z.
func zonedTime(a *schema.Arena, b []byte) (schema.Value, error) {
	us, rest, ok := cutTime(b)
	off, okZone := parseZone(rest)
	if !ok || !okZone {
		return schema.Value{}, fmt.Errorf("%q %w", clip(b), errTime)
	}
	us -= off * 1e6
	for ; us < 0; us += microsPerDay {
	}
	for ; us > microsPerDay || us == microsPerDay && off != 0; us -= microsPerDay {
	}
	var buf [24]byte
	return a.String(append(cdc.AppendTime(buf[:0], us, -1), 'Z')), nil
}

func isoDate(a *schema.Arena, b []byte) (schema.Value, error) {
	days, err := dateDays(b)
	if err != nil {
		return schema.Value{}, err
	}
	var buf [24]byte
	return a.String(append(cdc.AppendISODate(buf[:0], days), 'Z')), nil
}

func isoTime(a *schema.Arena, b []byte) (schema.Value, error) {
	us, rest, ok := cutTime(b)
	if !ok || len(rest) > 0 {
		return schema.Value{}, fmt.Errorf("%q %w", clip(b), errTime)
	}
	var buf [24]byte
	return a.String(append(cdc.AppendTime(buf[:0], us%microsPerDay, -1), 'Z')), nil // Java has no 24:00
}

// An interval is Postgres's three independent parts.
type interval struct{ months, days, us int64 }

// parseInterval reads the style postgres: 1 year 2 mons -3 days +04:05:06.789.
func parseInterval(b []byte) (iv interval, err error) {
	whole := b
	for len(b) > 0 {
		var w []byte
		if w, b = cutWord(b); bytes.IndexByte(w, ':') >= 0 {
			us, ok := parseClock(w)
			if !ok || len(b) > 0 {
				return iv, notAnInterval(whole)
			}
			iv.us = us
			return iv, nil
		}
		n, ok := parseInt(w)
		if w, b = cutWord(b); !ok || n != int64(int32(n)) {
			return iv, notAnInterval(whole)
		}
		switch str(w) {
		case "year", "years":
			iv.months += n * 12
		case "mon", "mons":
			iv.months += n
		case "day", "days":
			iv.days += n
		default:
			return iv, notAnInterval(whole)
		}
	}
	if len(whole) == 0 {
		return iv, notAnInterval(whole)
	}
	return iv, nil
}

func notAnInterval(b []byte) error {
	return fmt.Errorf("%q is no interval of the postgres style", clip(b))
}

// cutWord takes a word off the front of b, and the space behind it.
func cutWord(b []byte) (word, rest []byte) {
	i := bytes.IndexByte(b, ' ')
	if i < 0 {
		return b, nil
	}
	return b[:i], b[i+1:]
}

// parseClock reads [+-]HH:MM:SS[.ffffff] with hours of any number of digits.
func parseClock(b []byte) (us int64, ok bool) {
	neg := b[0] == '-'
	if neg || b[0] == '+' {
		b = b[1:]
	}
	i := bytes.IndexByte(b, ':')
	if i < 2 {
		return 0, false
	}
	h, ok := parseInt(b[:i])
	if !ok || h < 0 || h > math.MaxInt64/3600_000_000-1 {
		return 0, false
	}
	us, rest, ok := cutMinutes(b[i:])
	if us += h * 3600_000_000; neg {
		us = -us
	}
	return us, ok && len(rest) == 0
}

// micros counts a month as 30.4375 days, as Debezium does, within 64 bits.
func (iv interval) micros() int64 {
	const perMonth = 2_629_800_000_000
	f := float64(iv.months)*perMonth + float64(iv.days)*microsPerDay + float64(iv.us)
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return iv.months*perMonth + iv.days*microsPerDay + iv.us
}

func intervalMicros(_ *schema.Arena, b []byte) (schema.Value, error) {
	iv, err := parseInterval(b)
	return schema.Int64Value(iv.micros()), err
}

// intervalText is interval.handling.mode=string: P1Y2M3DT4H5M6.78S.
func intervalText(a *schema.Arena, b []byte) (schema.Value, error) {
	iv, err := parseInterval(b)
	if err != nil {
		return schema.Value{}, err
	}
	var buf [80]byte
	out := append(buf[:0], 'P')
	part := func(n int64, unit byte) { out = append(strconv.AppendInt(out, n, 10), unit) }
	part(iv.months/12, 'Y')
	part(iv.months%12, 'M')
	part(iv.days, 'D')
	out = append(out, 'T')
	part(iv.us/3600_000_000, 'H')
	part(iv.us/60_000_000%60, 'M')
	rest := iv.us % 60_000_000
	if rest < 0 {
		out = append(out, '-')
		rest = -rest
	}
	out = strconv.AppendInt(out, rest/1e6, 10)
	if frac := rest % 1e6; frac != 0 {
		out = append(out, '.')
		for unit := int64(100_000); frac > 0; unit /= 10 {
			out = append(out, '0'+byte(frac/unit))
			frac %= unit
		}
	}
	return a.String(append(out, 'S')), nil
}
