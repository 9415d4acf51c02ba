package javatext

import "strconv"

const (
	// MillisPerDay is the number of milliseconds of a day; Java's days have no leap seconds.
	MillisPerDay = 86_400_000

	// gregorianStart is 1582-10-15 in days since 1970-01-01: Java's Date texts follow
	// the Julian calendar before it.
	gregorianStart = -141_427
)

// Civil is the year, month (1 to 12) and day of a day since 1970-01-01 in the
// proleptic Gregorian calendar. Year 0 is 1 BC.
func Civil(days int64) (year int64, month, day int) {
	z := days + 719_468 // since 0000-03-01
	era := FloorDiv(z, 146_097)
	doe := z - era*146_097
	yoe := (doe - doe/1460 + doe/36_524 - doe/146_096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day, month = int(doy-(153*mp+2)/5)+1, int(mp)+3
	year = yoe + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

// Days is the other way round.
func Days(year int64, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := FloorDiv(year, 400)
	yoe := year - era*400
	doy := int64((153*(month-3)+2)/5 + day - 1)
	return era*146_097 + yoe*365 + yoe/4 - yoe/100 + doy - 719_468
}

// julian is Civil in the Julian calendar.
func julian(days int64) (year int64, month, day int) {
	z := days + 719_470 // since 0000-03-01 of the Julian calendar
	era := FloorDiv(z, 1461)
	doe := z - era*1461
	yoe := min(doe/365, 3)
	doy := doe - 365*yoe
	mp := (5*doy + 2) / 153
	day, month = int(doy-(153*mp+2)/5)+1, int(mp)+3
	year = yoe + era*4
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

func julianDays(year int64, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	doy := int64((153*(month-3)+2)/5 + day - 1)
	era := FloorDiv(year, 4)
	return era*1461 + (year-era*4)*365 + doy - 719_470
}

// CalendarDate is Civil as Java's calendar has it: Julian before 1582-10-15.
func CalendarDate(days int64) (year int64, month, day int) {
	if days < gregorianStart {
		return julian(days)
	}
	return Civil(days)
}

// FloorDiv is a / b, rounded down, as Java's Math.floorDiv.
func FloorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// SplitMillis is a moment's day since 1970-01-01 and millisecond of the day.
func SplitMillis(ms int64) (day, ofDay int64) {
	day = FloorDiv(ms, MillisPerDay)
	return day, ms - day*MillisPerDay
}

func pad(dst []byte, n int64, width int) []byte {
	var room [20]byte
	text := strconv.AppendInt(room[:0], n, 10)
	for range width - len(text) {
		dst = append(dst, '0')
	}
	return append(dst, text...)
}

// AppendDate appends a day as SimpleDateFormat's yyyy-MM-dd: the year of its era,
// with at least four digits.
func AppendDate(dst []byte, days int64) []byte {
	y, m, d := CalendarDate(days)
	if y <= 0 {
		y = 1 - y
	}
	dst = append(pad(dst, y, 4), '-')
	dst = append(pad(dst, int64(m), 2), '-')
	return pad(dst, int64(d), 2)
}

// AppendTime appends a millisecond of the day as HH:mm:ss.SSS'Z'.
func AppendTime(dst []byte, ofDay int64) []byte {
	dst = append(pad(dst, ofDay/3_600_000, 2), ':')
	dst = append(pad(dst, ofDay/60_000%60, 2), ':')
	dst = append(pad(dst, ofDay/1000%60, 2), '.')
	return append(pad(dst, ofDay%1000, 3), 'Z')
}

// AppendTimestamp appends a moment as yyyy-MM-dd'T'HH:mm:ss.SSS'Z'.
func AppendTimestamp(dst []byte, ms int64) []byte {
	day, ofDay := SplitMillis(ms)
	return AppendTime(append(AppendDate(dst, day), 'T'), ofDay)
}

// ParseDate reads what AppendDate writes for the years 0001 to 9999. Days that do
// not exist are refused, though Java's lenient calendar would count on.
func ParseDate(s string) (days int64, ok bool) {
	if len(s) != 10 || s[4] != '-' || s[7] != '-' {
		return 0, false
	}
	y, ok1 := number(s[:4])
	m, ok2 := number(s[5:7])
	d, ok3 := number(s[8:])
	if !ok1 || !ok2 || !ok3 || y == 0 || m < 1 || m > 12 || d < 1 || d > 31 {
		return 0, false
	}
	days = Days(int64(y), m, d)
	if days < gregorianStart {
		days = julianDays(int64(y), m, d)
	}
	if gy, gm, gd := CalendarDate(days); gy != int64(y) || gm != m || gd != d {
		return 0, false
	}
	return days, true
}

// ParseTime reads what AppendTime writes.
func ParseTime(s string) (ofDay int64, ok bool) {
	if len(s) != 13 || s[2] != ':' || s[5] != ':' || s[8] != '.' || s[12] != 'Z' {
		return 0, false
	}
	h, ok1 := number(s[:2])
	m, ok2 := number(s[3:5])
	sec, ok3 := number(s[6:8])
	ms, ok4 := number(s[9:12])
	if !ok1 || !ok2 || !ok3 || !ok4 || h > 23 || m > 59 || sec > 59 {
		return 0, false
	}
	return int64(h)*3_600_000 + int64(m)*60_000 + int64(sec)*1000 + int64(ms), true
}

// ParseTimestamp reads what AppendTimestamp writes.
func ParseTimestamp(s string) (ms int64, ok bool) {
	if len(s) != 24 || s[10] != 'T' {
		return 0, false
	}
	d, ok1 := ParseDate(s[:10])
	t, ok2 := ParseTime(s[11:])
	return d*MillisPerDay + t, ok1 && ok2
}

func number(s string) (n int, ok bool) {
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int(c)
	}
	return n, true
}

var (
	weekdays = [...]string{"Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"} // of day 0, 1, …
	months   = [...]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}
)

// AppendDateString appends a moment as java.util.Date.toString prints it in UTC:
// "Thu Feb 29 12:34:56 UTC 2024".
func AppendDateString(dst []byte, ms int64) []byte {
	day, ofDay := SplitMillis(ms)
	y, m, d := CalendarDate(day)
	if y <= 0 {
		y = 1 - y
	}
	dst = append(dst, weekdays[day-FloorDiv(day, 7)*7]...)
	dst = append(append(append(dst, ' '), months[m-1]...), ' ')
	dst = append(pad(dst, int64(d), 2), ' ')
	dst = append(pad(dst, ofDay/3_600_000, 2), ':')
	dst = append(pad(dst, ofDay/60_000%60, 2), ':')
	dst = append(pad(dst, ofDay/1000%60, 2), " UTC "...)
	return strconv.AppendInt(dst, y, 10)
}
