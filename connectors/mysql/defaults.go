package mysql

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"millrace/schema"
	"millrace/schema/envelope"
)

// placeholder stands for a large value that a row image leaves out.
const placeholder = "__debezium_unavailable_value"

// held is the placeholder in the form of a column's schema.
func (s *settings) held(c *Column, sc *schema.Schema) schema.Value {
	switch c.Type {
	case TinyBlob, Blob, MediumBlob, LongBlob:
		return s.binary.Value(&schema.Arena{}, []byte(placeholder))
	case Geometry:
		f := make([]schema.Value, len(sc.Fields()))
		for i, part := range sc.Fields() {
			switch {
			case part.Schema.Kind() == schema.Bytes:
				f[i] = schema.BytesValue([]byte(placeholder))
			case !part.Schema.Optional():
				f[i] = schema.Float64Value(0)
			}
		}
		return schema.StructValue(sc, f)
	case Vector:
		f := make([]schema.Value, len(placeholder))
		for i := range f {
			f[i] = schema.Float32Value(float32(placeholder[i]))
		}
		return schema.ArrayValue(f)
	}
	return schema.StringValue(placeholder)
}

// defaultOf is a column's default as its schema has it; null: none that is a constant.
// It is made by the decoder of the protocol's rows, of a row that holds the default.
func (s *settings) defaultOf(c *Column, sc *schema.Schema, m mapping) (schema.Value, error) {
	text := c.Default
	if c.DefaultExpr {
		// As Debezium has it: the time of the insert is the epoch where it must be some.
		if (c.Type == Timestamp || c.Type == DateTime) && !c.Nullable {
			if sc.Name() == envelope.ZonedTimestampName {
				return schema.StringValue("1970-01-01T00:00:00Z"), nil
			}
			return m.row(&schema.Arena{}, &cursor{b: []byte{4, 0xb2, 0x07, 1, 1}})
		}
		return schema.Value{}, nil
	}
	raw, err := rowBytes(c, text)
	if err != nil {
		return schema.Value{}, err
	}
	cur := cursor{b: raw}
	if m.bind != nil {
		m.bind(sc)
	}
	v, err := m.row(&schema.Arena{}, &cur)
	if cur.bad {
		return schema.Value{}, errShort
	}
	return v, err
}

// rowBytes makes what the protocol's binary row holds for a literal.
func rowBytes(c *Column, text string) ([]byte, error) {
	counted := func(b []byte) []byte {
		n := len(b)
		switch {
		case n < 251:
			return append([]byte{byte(n)}, b...)
		case n < 1<<16:
			return append([]byte{0xfc, byte(n), byte(n >> 8)}, b...)
		}
		return append([]byte{0xfd, byte(n), byte(n >> 8), byte(n >> 16)}, b...)
	}
	number := func(size int, n uint64) []byte {
		out := make([]byte, size)
		for i := range out {
			out[i] = byte(n >> (8 * i))
		}
		return out
	}
	switch c.Type {
	case TinyInt, SmallInt, MediumInt, Int, BigInt, Year:
		size := map[Type]int{TinyInt: 1, SmallInt: 2, MediumInt: 4, Int: 4, BigInt: 8, Year: 2}[c.Type]
		switch strings.ToLower(text) {
		case "true":
			text = "1"
		case "false":
			text = "0"
		}
		if c.DefaultBytes {
			n := uint64(0)
			for _, b := range []byte(text) {
				n = n<<8 | uint64(b)
			}
			return number(size, n), nil
		}
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return number(size, uint64(i)), nil
		}
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			return number(size, u), nil
		}
		f, err := strconv.ParseFloat(text, 64) // DEFAULT 1.0, which the server rounds
		return number(size, uint64(int64(math.Round(f)))), err
	case Float:
		f, err := strconv.ParseFloat(text, 32)
		return number(4, uint64(math.Float32bits(float32(f)))), err
	case Double:
		f, err := strconv.ParseFloat(text, 64)
		return number(8, math.Float64bits(f)), err
	case Decimal:
		v, err := schema.ParseDecimal(text)
		if err != nil {
			return nil, err
		}
		v, ok := v.Rescale(int32(max(c.Scale, 0)))
		if !ok {
			return nil, errNumber
		}
		return counted(v.AppendDecimalPlain(nil)), nil
	case Bit:
		raw := []byte(text)
		if !c.DefaultBytes {
			base := 10
			if strings.Trim(text, "01") == "" {
				base = 2 // Debezium's history has b'101' as 101
			}
			n, err := strconv.ParseUint(text, base, 64)
			if err != nil {
				return nil, err
			}
			raw = []byte{byte(n >> 56), byte(n >> 48), byte(n >> 40), byte(n >> 32), byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
		}
		return counted(raw), nil
	case Date, DateTime, Timestamp:
		return literalDate(text)
	case Time:
		return literalTime(text)
	}
	return counted([]byte(text)), nil
}

// literalDate makes the protocol's form of '2020-01-02', with a time or without.
func literalDate(text string) ([]byte, error) {
	var y, m, d, h, mi, sec int
	date, clock, _ := strings.Cut(strings.Replace(text, "T", " ", 1), " ")
	if _, err := fmt.Sscanf(date, "%d-%d-%d", &y, &m, &d); err != nil {
		return nil, fmt.Errorf("%q is no date", text)
	}
	us := 0
	if clock != "" {
		whole, frac, _ := strings.Cut(clock, ".")
		if _, err := fmt.Sscanf(whole, "%d:%d:%d", &h, &mi, &sec); err != nil {
			return nil, fmt.Errorf("%q is no time", text)
		}
		us, _ = strconv.Atoi((frac + "000000")[:6])
	}
	return []byte{11, byte(y), byte(y >> 8), byte(m), byte(d), byte(h), byte(mi), byte(sec), byte(us), byte(us >> 8), byte(us >> 16), byte(us >> 24)}, nil
}

// literalTime makes the protocol's form of '-12:34:56.7'.
func literalTime(text string) ([]byte, error) {
	rest, neg := strings.CutPrefix(text, "-")
	whole, frac, _ := strings.Cut(rest, ".")
	var h, mi, sec int
	if strings.Count(whole, ":") == 2 {
		if _, err := fmt.Sscanf(whole, "%d:%d:%d", &h, &mi, &sec); err != nil {
			return nil, fmt.Errorf("%q is no time", text)
		}
	} else if n, err := strconv.Atoi(whole); err == nil {
		h, mi, sec = n/10000, n/100%100, n%100
	} else {
		return nil, fmt.Errorf("%q is no time", text)
	}
	us, _ := strconv.Atoi((frac + "000000")[:6])
	sign := byte(0)
	if neg {
		sign = 1
	}
	days := h / 24
	return []byte{12, sign, byte(days), byte(days >> 8), 0, 0, byte(h % 24), byte(mi), byte(sec), byte(us), byte(us >> 8), byte(us >> 16), byte(us >> 24)}, nil
}
