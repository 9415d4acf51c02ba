package mysql

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/envelope"
)

// A decoder makes a value of what the cursor stands at, and moves it behind. What it
// keeps of the bytes it shares. What ends too early sets the cursor's bad.
type decoder func(a *schema.Arena, c *cursor) (schema.Value, error)

// A mapping is what a column's type becomes. Rows come in two forms: row decodes the
// protocol's binary rows, in which a snapshot comes; log makes the decoder of the binary
// log's, given the type's code and metadata of the table map. Both end in the same
// functions, so that snapshot and stream agree.
type mapping struct {
	schema *schema.Builder // without optionality and default
	row    decoder
	log    func(code byte, meta uint16) (decoder, error)
	// text says that the column is text that masks may change; length is the declared
	// length, or 0.
	text   bool
	length int
	large  bool // a row image of NOBLOB may leave it out
	// bind is told the schema once it is whole; nil: nobody needs it.
	bind func(s *schema.Schema)
}

var errPhysical = errors.New("the log has another type there")

// A textChange is what a mask, a hash or a cut makes of a text; nil: there is none.
type textChange func(a *schema.Arena, text []byte) schema.Value

// mapColumn finds what a column becomes.
func (t *task) mapColumn(col *Column, cs charset, change textChange) (mapping, error) {
	s := t.s
	switch col.Type {
	case TinyInt, SmallInt, MediumInt, Int, BigInt:
		return s.mapInteger(col), nil
	case Decimal:
		return s.mapDecimal(col), nil
	case Float, Double:
		return s.mapFloat(col), nil
	case Bit:
		return mapBit(col), nil
	case Date:
		return s.mapDate(col), nil
	case Time:
		return s.mapTime(col), nil
	case DateTime, Timestamp:
		return s.mapDateTime(col), nil
	case Year:
		return mapYear(), nil
	case Char, VarChar, TinyText, Text, MediumText, LongText:
		return mapText(col, cs, change), nil
	case Binary, VarBinary, TinyBlob, Blob, MediumBlob, LongBlob:
		return s.mapBinary(col), nil
	case Enum:
		return mapEnum(col), nil
	case Set:
		return mapSet(col), nil
	case JSON:
		return mapJSON(), nil
	case Geometry:
		return mapGeometry(col), nil
	case Vector:
		return mapVector(), nil
	case UUID, Inet4, Inet6:
		return mapMariaText(col), nil
	}
	return mapping{}, fmt.Errorf("column %q is of the type %q, which is not known", col.Name, col.Full)
}

// whole reads a number of size bytes.
func whole(size int, unsigned bool) func(c *cursor) int64 {
	switch {
	case size == 4 && !unsigned:
		return func(c *cursor) int64 { return int64(int32(c.u32())) }
	case size == 8:
		return func(c *cursor) int64 { return int64(c.u64()) }
	case unsigned:
		return func(c *cursor) int64 { return int64(c.fixed(size)) }
	}
	shift := 64 - 8*size
	return func(c *cursor) int64 { return int64(c.fixed(size)<<shift) >> shift }
}

func (s *settings) mapInteger(col *Column) mapping {
	var b *schema.Builder
	var value func(int64) schema.Value
	unsigned := col.Unsigned || col.Zerofill
	logSize := map[Type]int{TinyInt: 1, SmallInt: 2, MediumInt: 3, Int: 4, BigInt: 8}[col.Type]
	rowSize := logSize
	if rowSize == 3 {
		rowSize = 4
	}
	code := map[Type]byte{TinyInt: codeTiny, SmallInt: codeShort, MediumInt: codeInt24, Int: codeLong, BigInt: codeLongLong}[col.Type]
	switch {
	case col.Type == BigInt && unsigned && s.unsigned == "precise":
		b = schema.DecimalOf(0).Param(schema.PrecisionParam, "20")
		value = func(n int64) schema.Value {
			if n >= 0 {
				return schema.DecimalInt64(n, 0)
			}
			u := uint64(n)
			return schema.DecimalBytes([]byte{0, byte(u >> 56), byte(u >> 48), byte(u >> 40), byte(u >> 32), byte(u >> 24), byte(u >> 16), byte(u >> 8), byte(u)}, 0)
		}
	case col.Type == BigInt && unsigned && s.unsigned == "string":
		b = schema.New(schema.String)
		value = func(n int64) schema.Value { return schema.StringValue(strconv.FormatUint(uint64(n), 10)) }
	case col.Type == BigInt, col.Type == Int && unsigned:
		b, value = schema.New(schema.Int64), schema.Int64Value
	case col.Type == Int, col.Type == MediumInt, col.Type == SmallInt && unsigned:
		b, value = schema.New(schema.Int32), func(n int64) schema.Value { return schema.Int32Value(int32(n)) }
	default:
		b, value = schema.New(schema.Int16), func(n int64) schema.Value { return schema.Int16Value(int16(n)) }
	}
	make := func(size int) decoder {
		read := whole(size, unsigned)
		return func(_ *schema.Arena, c *cursor) (schema.Value, error) { return value(read(c)), nil }
	}
	return mapping{schema: b, row: make(rowSize), log: func(got byte, _ uint16) (decoder, error) {
		if got != code {
			return nil, errPhysical
		}
		return make(logSize), nil
	}}
}

func (s *settings) mapDecimal(col *Column) mapping {
	precision, scale := col.Length, max(col.Scale, 0)
	var b *schema.Builder
	form := func(_ *schema.Arena, v schema.Value) schema.Value { return v }
	switch s.decimals {
	case "string":
		b = schema.New(schema.String)
		form = func(a *schema.Arena, v schema.Value) schema.Value {
			var buf [80]byte
			return a.String(v.AppendDecimalPlain(buf[:0]))
		}
	case "double":
		b = schema.New(schema.Float64)
		form = func(_ *schema.Arena, v schema.Value) schema.Value {
			var buf [80]byte
			f, _ := strconv.ParseFloat(str(v.AppendDecimalPlain(buf[:0])), 64) // 65 digits are in its range
			return schema.Float64Value(f)
		}
	default:
		b = schema.DecimalOf(int32(scale)).Param(schema.PrecisionParam, strconv.Itoa(precision))
	}
	return mapping{schema: b,
		row: func(a *schema.Arena, c *cursor) (schema.Value, error) {
			v, err := decimalOf(c.text(), scale)
			if err != nil || c.bad {
				return schema.Value{}, err
			}
			return form(a, v), nil
		},
		log: func(code byte, meta uint16) (decoder, error) {
			if code != codeNewDecimal || int(meta>>8) != scale || int(meta&0xff) != precision {
				return nil, errPhysical
			}
			return func(a *schema.Arena, c *cursor) (schema.Value, error) {
				v, err := packedDecimal(c, precision, scale)
				if err != nil || c.bad {
					return schema.Value{}, err
				}
				return form(a, v), nil
			}, nil
		}}
}

func (s *settings) mapFloat(col *Column) mapping {
	single := col.Type == Float
	wide := !single || col.Scale >= 0
	b := schema.New(schema.Float32)
	if wide {
		b = schema.New(schema.Float64)
	}
	var d decoder
	switch {
	case !single:
		d = func(_ *schema.Arena, c *cursor) (schema.Value, error) {
			return schema.Float64Value(math.Float64frombits(c.u64())), nil
		}
	case wide:
		d = func(_ *schema.Arena, c *cursor) (schema.Value, error) {
			return schema.Float64Value(float32As64(math.Float32frombits(c.u32()))), nil
		}
	default:
		d = func(_ *schema.Arena, c *cursor) (schema.Value, error) {
			return schema.Float32Value(math.Float32frombits(c.u32())), nil
		}
	}
	return mapping{schema: b, row: d, log: func(code byte, _ uint16) (decoder, error) {
		if single != (code == codeFloat) || !single && code != codeDouble {
			return nil, errPhysical
		}
		return d, nil
	}}
}

func mapBit(col *Column) mapping {
	bits := max(col.Length, 1)
	size := (bits + 7) / 8
	b := envelope.Bits(bits)
	form := func(a *schema.Arena, raw []byte) schema.Value { return littleBits(a, raw, size) }
	if bits == 1 {
		b = schema.New(schema.Bool)
		form = func(_ *schema.Arena, raw []byte) schema.Value {
			return schema.BoolValue(len(raw) > 0 && raw[len(raw)-1]&1 != 0)
		}
	}
	return mapping{schema: b,
		row: func(a *schema.Arena, c *cursor) (schema.Value, error) { return form(a, c.text()), nil },
		log: func(code byte, meta uint16) (decoder, error) {
			if code != codeBit || int(meta>>8)*8+int(meta&0xff) != bits {
				return nil, errPhysical
			}
			return func(a *schema.Arena, c *cursor) (schema.Value, error) { return form(a, c.take(size)), nil }, nil
		}}
}

// nothing stands for a date with a zero in it: null, or the epoch in a column that
// cannot be null.
func nothing(col *Column, epoch schema.Value) schema.Value {
	if col.Nullable {
		return schema.Value{}
	}
	return epoch
}

func (s *settings) mapDate(col *Column) mapping {
	var b *schema.Builder
	var form func(a *schema.Arena, days int64) schema.Value
	switch s.times {
	case "connect":
		b, form = schema.DateOf(), func(_ *schema.Arena, days int64) schema.Value { return schema.DateValue(days) }
	case "isostring":
		b, form = envelope.Semantic(schema.String, envelope.IsoDateName), func(a *schema.Arena, days int64) schema.Value {
			var buf [24]byte
			return a.String(append(cdc.AppendISODate(buf[:0], days), 'Z'))
		}
	default:
		b, form = envelope.Semantic(schema.Int32, envelope.DateName), func(_ *schema.Arena, days int64) schema.Value { return schema.Int32Value(int32(days)) }
	}
	zero := nothing(col, form(&schema.Arena{}, 0))
	of := func(a *schema.Arena, t instant) (schema.Value, error) {
		if t.zero {
			return zero, nil
		}
		if s.timeAdjuster && t.days < year100 {
			t = t.thisCentury()
		}
		return form(a, t.days), nil
	}
	return mapping{schema: b,
		row: func(a *schema.Arena, c *cursor) (schema.Value, error) { return of(a, rowInstant(c)) },
		log: func(code byte, _ uint16) (decoder, error) {
			if code != codeDate {
				return nil, errPhysical
			}
			return func(a *schema.Arena, c *cursor) (schema.Value, error) { return of(a, packedDate(c)) }, nil
		}}
}

// digits is how many digits of a second's fraction a column of times has.
func (c *Column) digits() int { return min(max(c.Length, 0), 6) }

func (s *settings) mapTime(col *Column) mapping {
	var b *schema.Builder
	var form func(a *schema.Arena, us int64) schema.Value
	ofDay := false // beyond one day it cannot say
	switch s.times {
	case "connect":
		b, ofDay = schema.TimeOf(), true
		form = func(_ *schema.Arena, us int64) schema.Value { return schema.TimeValue(us / 1000) }
	case "isostring":
		b, ofDay = envelope.Semantic(schema.String, envelope.IsoTimeName), true
		form = func(a *schema.Arena, us int64) schema.Value {
			var buf [24]byte
			return a.String(append(cdc.AppendTime(buf[:0], us, -1), 'Z'))
		}
	case "nanoseconds":
		b = envelope.Semantic(schema.Int64, envelope.NanoTimeName)
		form = func(_ *schema.Arena, us int64) schema.Value { return schema.Int64Value(us * 1000) }
	default:
		b = envelope.Semantic(schema.Int64, envelope.MicroTimeName)
		form = func(_ *schema.Arena, us int64) schema.Value { return schema.Int64Value(us) }
	}
	zero := nothing(col, form(&schema.Arena{}, 0))
	of := func(a *schema.Arena, us int64) (schema.Value, error) {
		if ofDay && (us < 0 || us >= microsPerDay) {
			return zero, nil
		}
		return form(a, us), nil
	}
	return mapping{schema: b,
		row: func(a *schema.Arena, c *cursor) (schema.Value, error) { return of(a, rowTime(c)) },
		log: func(code byte, meta uint16) (decoder, error) {
			digits := int(meta)
			switch {
			case code == codeTime2 && digits <= 6:
				return func(a *schema.Arena, c *cursor) (schema.Value, error) { return of(a, packedTime(c, digits)) }, nil
			case code == codeTime && col.digits() == 0: // of tables made before MySQL 5.6
				return func(a *schema.Arena, c *cursor) (schema.Value, error) {
					v := int64(int32(c.u24()<<8) >> 8)
					sign := int64(1)
					if v < 0 {
						sign, v = -1, -v
					}
					return of(a, sign*(v/10000*3600+v/100%100*60+v%100)*microsPerSec)
				}, nil
			}
			return nil, errPhysical
		}}
}

// mapDateTime maps DATETIME and TIMESTAMP.
func (s *settings) mapDateTime(col *Column) mapping {
	var b *schema.Builder
	var form func(a *schema.Arena, t instant) schema.Value
	digits := col.digits()
	iso := func(digits int) func(a *schema.Arena, t instant) schema.Value {
		return func(a *schema.Arena, t instant) schema.Value {
			var buf [48]byte
			out := append(cdc.AppendISODate(buf[:0], t.days), 'T')
			return a.String(append(cdc.AppendTime(out, t.us, digits), 'Z'))
		}
	}
	millis := func(t instant) int64 { return t.days*86400_000 + t.us/1000 }
	epoch := schema.Value{}
	switch {
	case col.Type == Timestamp:
		b, form = envelope.Semantic(schema.String, envelope.ZonedTimestampName), iso(digits)
		epoch = schema.StringValue("1970-01-01T00:00:00Z")
	case s.times == "connect":
		b, form = schema.TimestampOf(), func(_ *schema.Arena, t instant) schema.Value { return schema.TimestampValue(millis(t)) }
	case s.times == "isostring":
		b, form = envelope.Semantic(schema.String, envelope.IsoTimestampName), iso(-1)
	case s.times == "nanoseconds":
		b, form = envelope.Semantic(schema.Int64, envelope.NanoTimestampName), func(_ *schema.Arena, t instant) schema.Value { return schema.Int64Value(nanos(t)) }
	case s.times == "microseconds" || digits > 3:
		b, form = envelope.Semantic(schema.Int64, envelope.MicroTimestampName), func(_ *schema.Arena, t instant) schema.Value { return schema.Int64Value(t.micros()) }
	default:
		b, form = envelope.Semantic(schema.Int64, envelope.TimestampName), func(_ *schema.Arena, t instant) schema.Value { return schema.Int64Value(millis(t)) }
	}
	if epoch.IsNull() {
		epoch = form(&schema.Arena{}, instant{})
	}
	zero := nothing(col, epoch)
	of := func(a *schema.Arena, t instant) (schema.Value, error) {
		if t.zero {
			return zero, nil
		}
		if s.timeAdjuster && t.days < year100 {
			t = t.thisCentury()
		}
		return form(a, t), nil
	}
	return mapping{schema: b,
		row: func(a *schema.Arena, c *cursor) (schema.Value, error) { return of(a, rowInstant(c)) },
		log: func(code byte, meta uint16) (decoder, error) {
			n := int(meta)
			stamp := col.Type == Timestamp
			switch {
			case code == codeDateTime2 && !stamp && n <= 6:
				return func(a *schema.Arena, c *cursor) (schema.Value, error) { return of(a, packedDateTime(c, n)) }, nil
			case code == codeTimestamp2 && stamp && n <= 6:
				return func(a *schema.Arena, c *cursor) (schema.Value, error) { return of(a, packedTimestamp(c, n)) }, nil
			case code == codeDateTime && !stamp && digits == 0: // of tables made before MySQL 5.6
				return func(a *schema.Arena, c *cursor) (schema.Value, error) {
					v := int64(c.u64())
					d, h := v/1e6, v%1e6
					return of(a, makeInstant(d/10000, d/100%100, d%100, (h/10000*3600+h/100%100*60+h%100)*microsPerSec))
				}, nil
			case code == codeTimestamp && stamp && digits == 0:
				return func(a *schema.Arena, c *cursor) (schema.Value, error) {
					sec := int64(c.u32())
					return of(a, instant{days: sec / 86400, us: sec % 86400 * microsPerSec, zero: sec == 0})
				}, nil
			}
			return nil, errPhysical
		}}
}

// nanos is the time since the epoch; what 64 bits cannot hold is held to what they can.
func nanos(t instant) int64 {
	const limit = math.MaxInt64 / 1000
	return min(max(t.micros(), -limit), limit) * 1000
}

func mapYear() mapping {
	return mapping{schema: envelope.Semantic(schema.Int32, envelope.YearName),
		row: func(_ *schema.Arena, c *cursor) (schema.Value, error) { return schema.Int32Value(int32(c.u16())), nil },
		log: func(code byte, _ uint16) (decoder, error) {
			if code != codeYear {
				return nil, errPhysical
			}
			return func(_ *schema.Arena, c *cursor) (schema.Value, error) {
				y := int32(c.u8())
				if y > 0 {
					y += 1900
				}
				return schema.Int32Value(y), nil
			}, nil
		}}
}

// logBytes makes the reader of a column's bytes: with a length of one or two bytes for
// VARCHAR and CHAR, of one to four for the others.
func logBytes(code byte, meta uint16) (func(c *cursor) []byte, error) {
	switch code {
	case codeVarChar, codeVarString:
		if meta > 255 {
			return func(c *cursor) []byte { return c.take(int(c.u16())) }, nil
		}
		return func(c *cursor) []byte { return c.take(int(c.u8())) }, nil
	case codeString:
		real, size := stringMeta(meta)
		if real != codeString {
			return nil, errPhysical
		}
		if size > 255 {
			return func(c *cursor) []byte { return c.take(int(c.u16())) }, nil
		}
		return func(c *cursor) []byte { return c.take(int(c.u8())) }, nil
	case codeBlob, codeGeometry, codeJSON, codeVector:
		switch meta {
		case 1:
			return func(c *cursor) []byte { return c.take(int(c.u8())) }, nil
		case 2:
			return func(c *cursor) []byte { return c.take(int(c.u16())) }, nil
		case 3:
			return func(c *cursor) []byte { return c.take(int(c.u24())) }, nil
		case 4:
			return func(c *cursor) []byte { return c.take(int(c.u32())) }, nil
		}
	}
	return nil, errPhysical
}

// stringMeta reads the metadata of the code STRING: the real type, which may be ENUM and
// SET, too, and its size in bytes, whose upper bits hide in the type's.
func stringMeta(meta uint16) (code byte, size int) {
	high, low := byte(meta&0xff), int(meta>>8) // as it stands in the event: type first
	if high == 0 {
		return codeString, low
	}
	if high&0x30 != 0x30 {
		return high | 0x30, low | int(high&0x30^0x30)<<4
	}
	return high, low
}

// mapBytes maps what is bytes in both forms of rows.
func mapBytes(b *schema.Builder, form func(a *schema.Arena, raw []byte) (schema.Value, error), codes ...byte) mapping {
	return mapping{schema: b,
		row: func(a *schema.Arena, c *cursor) (schema.Value, error) {
			raw := c.text()
			if c.bad {
				return schema.Value{}, nil
			}
			return form(a, raw)
		},
		log: func(code byte, meta uint16) (decoder, error) {
			read, err := logBytes(code, meta)
			if err != nil || !slices.Contains(codes, code) {
				return nil, errPhysical
			}
			return func(a *schema.Arena, c *cursor) (schema.Value, error) {
				raw := read(c)
				if c.bad {
					return schema.Value{}, nil
				}
				return form(a, raw)
			}, nil
		}}
}

// mapText maps text, which the protocol brings in UTF-8 and the log in the column's own
// character set.
func mapText(col *Column, cs charset, change textChange) mapping {
	if change == nil {
		change = func(_ *schema.Arena, text []byte) schema.Value { return schema.StringOfBytes(text) }
	}
	m := mapBytes(schema.New(schema.String), func(a *schema.Arena, raw []byte) (schema.Value, error) { return change(a, cs(a, raw)), nil },
		codeVarChar, codeVarString, codeString, codeBlob)
	m.row = func(a *schema.Arena, c *cursor) (schema.Value, error) { return change(a, c.text()), nil }
	m.text, m.length = true, max(col.Length, 0)
	m.large = col.Type != Char && col.Type != VarChar
	return m
}

func (s *settings) mapBinary(col *Column) mapping {
	b := schema.New(schema.Bytes)
	if s.binary != cdc.BinaryBytes {
		b = schema.New(schema.String)
	}
	size := 0
	if col.Type == Binary {
		size = max(col.Length, 1) // the log leaves zeros at the end out
	}
	m := mapBytes(b, func(a *schema.Arena, raw []byte) (schema.Value, error) {
		if len(raw) < size {
			full := a.Bytes(size)
			copy(full, raw)
			raw = full
		}
		return s.binary.Value(a, raw), nil
	}, codeVarChar, codeVarString, codeString, codeBlob)
	m.large = col.Type != Binary && col.Type != VarBinary
	return m
}

// labels are an enumeration's, with their commas escaped, as the schema's parameter has
// them.
func labels(members []string) []string {
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = strings.ReplaceAll(m, ",", `\,`)
	}
	return out
}

func mapEnum(col *Column) mapping {
	values := make([]schema.Value, len(col.Members)+1)
	values[0] = schema.StringValue("") // of a value that was no member
	for i, m := range col.Members {
		values[i+1] = schema.StringValue(m)
	}
	return mapping{schema: envelope.Enum(labels(col.Members)),
		row: func(a *schema.Arena, c *cursor) (schema.Value, error) { return schema.StringOfBytes(c.text()), nil },
		log: func(code byte, meta uint16) (decoder, error) {
			size := 0
			if code == codeString {
				code, size = stringMeta(meta)
			}
			if code != codeEnum || size != 1 && size != 2 {
				return nil, errPhysical
			}
			return func(_ *schema.Arena, c *cursor) (schema.Value, error) {
				i := int(c.fixed(size))
				if i >= len(values) {
					return schema.Value{}, fmt.Errorf("holds member %d of an ENUM of %d", i, len(col.Members))
				}
				return values[i], nil
			}, nil
		}}
}

func mapSet(col *Column) mapping {
	b := envelope.Semantic(schema.String, envelope.EnumSetName).Param(envelope.AllowedParam, strings.Join(labels(col.Members), ","))
	return mapping{schema: b,
		row: func(a *schema.Arena, c *cursor) (schema.Value, error) { return schema.StringOfBytes(c.text()), nil },
		log: func(code byte, meta uint16) (decoder, error) {
			size := 0
			if code == codeString {
				code, size = stringMeta(meta)
			}
			if code != codeSet || size < 1 || size > 8 {
				return nil, errPhysical
			}
			return func(a *schema.Arena, c *cursor) (schema.Value, error) {
				bits := c.fixed(size)
				var buf [128]byte
				out := buf[:0]
				first := true
				for i := 0; bits != 0; i, bits = i+1, bits>>1 {
					if bits&1 == 0 {
						continue
					}
					if i >= len(col.Members) {
						return schema.Value{}, fmt.Errorf("holds member %d of a SET of %d", i+1, len(col.Members))
					}
					if !first {
						out = append(out, ',')
					}
					out, first = append(out, col.Members[i]...), false
				}
				return a.String(out), nil
			}, nil
		}}
}

// mapGeometry maps shapes: a point to its coordinates and its WKB, others to their WKB.
func mapGeometry(col *Column) mapping {
	var sc *schema.Schema
	point := strings.EqualFold(col.Spatial, "POINT")
	b := envelope.Geometry(envelope.GeometryName, "Geometry")
	if point {
		b = envelope.Point()
	}
	m := mapBytes(b, func(a *schema.Arena, raw []byte) (schema.Value, error) {
		srid, wkb, err := splitShape(raw)
		if err != nil {
			return schema.Value{}, err
		}
		var f []schema.Value
		if point {
			x, y, err := pointOf(wkb)
			if err != nil {
				return schema.Value{}, err
			}
			f = a.Values(4)
			f[0], f[1] = schema.Float64Value(x), schema.Float64Value(y)
		} else {
			f = a.Values(2)
		}
		n := len(f)
		f[n-2] = schema.BytesValue(wkb)
		if srid != 0 {
			f[n-1] = schema.Int32Value(int32(srid))
		}
		return a.Struct(sc, f), nil
	}, codeGeometry)
	m.large = true
	m.bind = func(s *schema.Schema) { sc = s }
	return m
}

// mapVector maps VECTOR: its floats, one after the other.
func mapVector() mapping {
	b := schema.ArrayOf(schema.Float32Schema).Name("io.debezium.data.FloatVector").Version(1)
	m := mapBytes(b, func(a *schema.Arena, raw []byte) (schema.Value, error) {
		if len(raw)%4 != 0 {
			return schema.Value{}, errors.New("holds a vector with a broken number")
		}
		c := cursor{b: raw}
		f := a.Values(len(raw) / 4)
		for i := range f {
			f[i] = schema.Float32Value(math.Float32frombits(c.u32()))
		}
		return schema.ArrayValue(f), nil
	}, codeVector, codeBlob, codeVarChar)
	m.large = true
	return m
}
