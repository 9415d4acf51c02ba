package cdc

import (
	"strconv"

	"millrace/schema/javatext"
)

// AppendISODate writes a date, in days since 1970-01-01, as Java's ISO formats do: four
// digits, a sign before years beyond them.
func AppendISODate(dst []byte, days int64) []byte {
	y, m, d := javatext.Civil(days)
	switch {
	case y < 0:
		dst = append(dst, '-')
		y = -y
	case y > 9999:
		dst = append(dst, '+')
	}
	for p := int64(1000); p > 1 && y < p; p /= 10 {
		dst = append(dst, '0')
	}
	dst = strconv.AppendInt(dst, y, 10)
	return append(dst, '-', '0'+byte(m/10), '0'+byte(m%10), '-', '0'+byte(d/10), '0'+byte(d%10))
}

// AppendTime writes the time of a day, in microseconds, as HH:MM:SS and a fraction of so
// many digits; -1: as many as needed.
func AppendTime(dst []byte, us int64, digits int) []byte {
	s, frac := us/1e6, us%1e6
	two := func(n int64) { dst = append(dst, '0'+byte(n/10), '0'+byte(n%10)) }
	two(s / 3600)
	dst = append(dst, ':')
	two(s / 60 % 60)
	dst = append(dst, ':')
	two(s % 60)
	if digits == 0 || digits < 0 && frac == 0 {
		return dst
	}
	dst = append(dst, '.')
	for unit, n := int64(100_000), 0; unit > 0 && (digits < 0 && frac > 0 || n < digits); unit, n = unit/10, n+1 {
		dst = append(dst, '0'+byte(frac/unit))
		frac %= unit
	}
	return dst
}
