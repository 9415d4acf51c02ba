package postgres

import (
	"math"
	"strconv"

	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/envelope"
)

// The numbers of Postgres's own types, which never change (pg_type.dat).
const (
	oidBool, oidBytea, oidChar, oidName, oidInt8, oidInt2, oidInt4, oidText, oidOID = 16, 17, 18, 19, 20, 21, 23, 25, 26
	oidJSON, oidXML, oidPoint, oidCIDR, oidFloat4, oidFloat8                        = 114, 142, 600, 650, 700, 701
	oidMacaddr8, oidMoney, oidMacaddr, oidInet, oidBpchar, oidVarchar               = 774, 790, 829, 869, 1042, 1043
	oidDate, oidTime, oidTimestamp, oidTimestamptz, oidInterval, oidTimetz          = 1082, 1083, 1114, 1184, 1186, 1266
	oidBit, oidVarbit, oidNumeric, oidUUID, oidTsvector, oidJSONB                   = 1560, 1562, 1700, 2950, 3614, 3802
)

// A typeInfo is what the catalog says of a type.
type typeInfo struct {
	oid      uint32
	name     string
	kind     byte // pg_type.typtype: b base, c composite, d domain, e enum, p pseudo, r range, m multirange
	category byte // pg_type.typcategory: A is an array
	elem     uint32
	delim    byte // between the elements of its arrays
	base     uint32
	baseMod  int32
	labels   []string // of an enum, in order
}

// A mapping is what a column's type becomes.
type mapping struct {
	schema *schema.Builder // without optionality and default
	decode func(s *schema.Schema) decoder
	// text says that the column is text that masks may change; length is the
	// declared length, or 0.
	text   bool
	length int
	binary bool // it comes in the form of binary.handling.mode
}

func plain(d decoder) func(*schema.Schema) decoder {
	return func(*schema.Schema) decoder { return d }
}

// mapType finds what a column of a type becomes; false: there is no mapping, and the
// column is left out.
func (s *settings) mapType(types map[uint32]*typeInfo, oid uint32, mod int32) (mapping, bool) {
	t := types[oid]
	for depth := 0; t != nil && t.kind == 'd'; depth++ {
		if mod < 0 {
			mod = t.baseMod
		}
		oid = t.base
		if t = types[oid]; depth > 32 {
			return mapping{}, false
		}
	}
	str := func(name string) mapping {
		b := schema.New(schema.String)
		if name != "" {
			b = envelope.Semantic(schema.String, name)
		}
		return mapping{schema: b, decode: plain(decodeText), text: name == ""}
	}
	switch oid {
	case oidBool:
		return mapping{schema: schema.New(schema.Bool), decode: plain(decodeBool)}, true
	case oidInt2:
		return mapping{schema: schema.New(schema.Int16), decode: plain(decodeInt16)}, true
	case oidInt4:
		return mapping{schema: schema.New(schema.Int32), decode: plain(decodeInt32)}, true
	case oidInt8, oidOID:
		return mapping{schema: schema.New(schema.Int64), decode: plain(decodeInt64)}, true
	case oidFloat4:
		return mapping{schema: schema.New(schema.Float32), decode: plain(decodeFloat32)}, true
	case oidFloat8:
		return mapping{schema: schema.New(schema.Float64), decode: plain(decodeFloat64)}, true
	case oidNumeric:
		return s.mapNumeric(mod), true
	case oidMoney:
		return s.mapMoney(), true
	case oidText, oidName, oidChar, oidInet, oidCIDR, oidMacaddr, oidMacaddr8:
		return str(""), true
	case oidVarchar, oidBpchar:
		m := str("")
		m.length = max(0, int(mod)-4)
		return m, true
	case oidUUID:
		return str(envelope.UUIDName), true
	case oidJSON, oidJSONB:
		return str(envelope.JSONName), true
	case oidXML:
		return str(envelope.XMLName), true
	case oidTsvector:
		return str(envelope.TsvectorName), true
	case oidBytea:
		return mapping{schema: s.binarySchema(), decode: plain(bytea(s.binary)), binary: true}, true
	case oidDate:
		return s.mapDate(), true
	case oidTime:
		return s.mapTime(precision(mod)), true
	case oidTimestamp:
		return s.mapTimestamp(precision(mod)), true
	case oidTimestamptz:
		return mapping{schema: envelope.Semantic(schema.String, envelope.ZonedTimestampName), decode: plain(zonedTimestamp(precision(mod)))}, true
	case oidTimetz:
		return mapping{schema: envelope.Semantic(schema.String, envelope.ZonedTimeName), decode: plain(zonedTime)}, true
	case oidInterval:
		if s.intervalText {
			return mapping{schema: envelope.Semantic(schema.String, envelope.IntervalName), decode: plain(intervalText)}, true
		}
		return mapping{schema: envelope.Semantic(schema.Int64, envelope.MicroDurationName), decode: plain(intervalMicros)}, true
	case oidBit, oidVarbit:
		n := int(mod)
		switch {
		case oid == oidBit && n == 1:
			return mapping{schema: schema.New(schema.Bool), decode: plain(decodeBool)}, true
		case n < 0:
			n = math.MaxInt32
		}
		return mapping{schema: envelope.Bits(n), decode: plain(decodeBits)}, true
	case oidPoint:
		return mapping{schema: envelope.Point(), decode: decodePoint}, true
	}
	switch {
	case t == nil:
	case t.kind == 'e':
		return mapping{schema: envelope.Enum(t.labels), decode: plain(decodeText)}, true
	case t.kind == 'r':
		return str(""), true
	case t.category == 'A' && t.elem != 0:
		if m, ok := s.mapArray(types, t.elem, mod); ok {
			return m, true
		}
	case t.name == "citext", t.name == "isbn", t.name == "isbn13":
		return str(""), true
	case t.name == "ltree":
		return str(envelope.LtreeName), true
	case t.name == "hstore" && s.hstoreMap:
		return mapping{schema: schema.MapOf(schema.StringSchema, schema.OptionalString), decode: plain(hstoreMap)}, true
	case t.name == "hstore":
		return mapping{schema: envelope.Semantic(schema.String, envelope.JSONName), decode: plain(hstoreJSON)}, true
	}
	if s.unknown {
		return mapping{schema: s.binarySchema(), decode: plain(opaque(s.binary)), binary: true}, true
	}
	return mapping{}, false
}

// precision is that of times and timestamps; 6 where none is declared.
func precision(mod int32) int {
	if mod < 0 || mod > 6 {
		return 6
	}
	return int(mod)
}

func (s *settings) binarySchema() *schema.Builder {
	if s.binary == cdc.BinaryBytes {
		return schema.New(schema.Bytes)
	}
	return schema.New(schema.String)
}

func (s *settings) mapNumeric(mod int32) mapping {
	switch s.decimals {
	case "string":
		return mapping{schema: schema.New(schema.String), decode: plain(decimalText)}
	case "double":
		return mapping{schema: schema.New(schema.Float64), decode: plain(decodeFloat64)}
	}
	if mod < 4 {
		return mapping{schema: envelope.VariableScaleDecimal(), decode: variableDecimal}
	}
	prec := (mod - 4) >> 16 & 0xffff
	scale := ((mod-4)&0x7ff ^ 1024) - 1024 // eleven bits with a sign
	b := schema.DecimalOf(scale).Param(schema.PrecisionParam, strconv.Itoa(int(prec)))
	return mapping{schema: b, decode: plain(fixedDecimal(int(scale)))}
}

func (s *settings) mapMoney() mapping {
	switch s.decimals {
	case "string":
		return mapping{schema: schema.New(schema.String), decode: plain(moneyText(s.moneyDigits))}
	case "double":
		return mapping{schema: schema.New(schema.Float64), decode: plain(moneyDouble(s.moneyDigits))}
	}
	return mapping{schema: schema.DecimalOf(int32(s.moneyDigits)), decode: plain(moneyDecimal(s.moneyDigits))}
}

func int32Of(n int64) schema.Value { return schema.Int32Value(int32(n)) }

func (s *settings) mapDate() mapping {
	switch s.times {
	case "connect":
		return mapping{schema: schema.DateOf(), decode: plain(dateDecoder(func(n int32) schema.Value { return schema.DateValue(int64(n)) }))}
	case "isostring":
		return mapping{schema: envelope.Semantic(schema.String, envelope.IsoDateName), decode: plain(isoDate)}
	}
	return mapping{schema: envelope.Semantic(schema.Int32, envelope.DateName), decode: plain(dateDecoder(schema.Int32Value))}
}

func (s *settings) mapTime(prec int) mapping {
	switch s.times {
	case "connect":
		return mapping{schema: schema.TimeOf(), decode: plain(timeDecoder(1e3, schema.TimeValue))}
	case "isostring":
		return mapping{schema: envelope.Semantic(schema.String, envelope.IsoTimeName), decode: plain(isoTime)}
	case "nanoseconds":
		return mapping{schema: envelope.Semantic(schema.Int64, envelope.NanoTimeName), decode: plain(timeDecoder(nanosPerSec, schema.Int64Value))}
	case "adaptive":
		if prec <= 3 {
			return mapping{schema: envelope.Semantic(schema.Int32, envelope.TimeName), decode: plain(timeDecoder(1e3, int32Of))}
		}
	}
	return mapping{schema: envelope.Semantic(schema.Int64, envelope.MicroTimeName), decode: plain(timeDecoder(1e6, schema.Int64Value))}
}

func (s *settings) mapTimestamp(prec int) mapping {
	switch s.times {
	case "connect":
		return mapping{schema: schema.TimestampOf(), decode: plain(timestampDecoder(1e3, schema.TimestampValue))}
	case "isostring":
		return mapping{schema: envelope.Semantic(schema.String, envelope.IsoTimestampName), decode: plain(isoTimestamp(-1, false))}
	case "nanoseconds":
		return mapping{schema: envelope.Semantic(schema.Int64, envelope.NanoTimestampName), decode: plain(timestampDecoder(nanosPerSec, schema.Int64Value))}
	case "adaptive", "adaptive_time_microseconds":
		if prec <= 3 {
			return mapping{schema: envelope.Semantic(schema.Int64, envelope.TimestampName), decode: plain(timestampDecoder(1e3, schema.Int64Value))}
		}
	}
	return mapping{schema: envelope.Semantic(schema.Int64, envelope.MicroTimestampName), decode: plain(timestampDecoder(1e6, schema.Int64Value))}
}

// mapArray finds what arrays of a type become. Elements may be null, but for those
// of enums, which Debezium declares so.
func (s *settings) mapArray(types map[uint32]*typeInfo, oid uint32, mod int32) (mapping, bool) {
	switch oid {
	case oidMoney, oidInterval, oidXML, oidPoint, oidBit, oidVarbit, oidTimetz, oidTsvector: // as Debezium has it
		if !s.unknown {
			return mapping{}, false
		}
		return mapping{schema: s.binarySchema(), decode: plain(opaque(s.binary)), binary: true}, true
	}
	inner, ok := s.mapType(types, oid, mod)
	t := types[oid]
	if !ok || t != nil && (t.category == 'A' || t.kind == 'c') {
		return mapping{}, false
	}
	delim := byte(',')
	if t != nil && t.delim != 0 {
		delim = t.delim
	}
	elem, err := inner.schema.SetOptional(t == nil || t.kind != 'e').TryBuild()
	if err != nil {
		return mapping{}, false
	}
	return mapping{schema: schema.ArrayOf(elem), decode: plain(array(inner.decode(elem), delim))}, true
}

// held is what stands for a large value that an update left alone: the placeholder in
// the form of the column's schema. Numbers hold its bytes: each element of an array
// one of them, a decimal all of them.
func (s *settings) held(sc *schema.Schema) schema.Value {
	text := string(s.placeholder)
	switch sc.ValueKind() {
	case schema.String:
		return schema.StringValue(text)
	case schema.Bytes:
		return schema.BytesValue(s.placeholder)
	case schema.Decimal:
		return schema.DecimalBytes(s.placeholder, sc.Scale())
	case schema.Map:
		return schema.MapValue([]schema.Entry{{Key: schema.StringValue(text), Value: schema.StringValue(text)}})
	case schema.Struct:
		f := make([]schema.Value, len(sc.Fields()))
		for i, part := range sc.Fields() {
			switch part.Schema.Kind() {
			case schema.Bytes:
				f[i] = schema.BytesValue(s.placeholder)
			default:
				f[i] = zeroOf(part.Schema)
			}
		}
		return schema.StructValue(sc, f)
	case schema.Array:
		elem := sc.Elem()
		var of func(b byte) schema.Value
		switch elem.ValueKind() {
		case schema.Int16:
			of = func(b byte) schema.Value { return schema.Int16Value(int16(b)) }
		case schema.Int32:
			of = func(b byte) schema.Value { return schema.Int32Value(int32(b)) }
		case schema.Int64:
			of = func(b byte) schema.Value { return schema.Int64Value(int64(b)) }
		case schema.Float32:
			of = func(b byte) schema.Value { return schema.Float32Value(float32(b)) }
		case schema.Float64:
			of = func(b byte) schema.Value { return schema.Float64Value(float64(b)) }
		case schema.Bool:
			of = func(b byte) schema.Value { return schema.BoolValue(b&1 == 1) }
		case schema.Date:
			of = func(b byte) schema.Value { return schema.DateValue(int64(b)) }
		case schema.Time:
			of = func(b byte) schema.Value { return schema.TimeValue(int64(b)) }
		case schema.Timestamp:
			of = func(b byte) schema.Value { return schema.TimestampValue(int64(b)) }
		default:
			return schema.ArrayValue([]schema.Value{s.held(elem)})
		}
		vals := make([]schema.Value, len(s.placeholder))
		for i, b := range s.placeholder {
			vals[i] = of(b)
		}
		return schema.ArrayValue(vals)
	}
	return zeroOf(sc) // never stored out of line
}

// zeroOf is the value of a required column that has none, as in the old row of a
// delete, which holds the key alone: what Debezium falls back to.
func zeroOf(s *schema.Schema) schema.Value {
	switch s.ValueKind() {
	case schema.Bool:
		return schema.BoolValue(false)
	case schema.Int8:
		return schema.Int8Value(0)
	case schema.Int16:
		return schema.Int16Value(0)
	case schema.Int32:
		return schema.Int32Value(0)
	case schema.Int64:
		return schema.Int64Value(0)
	case schema.Float32:
		return schema.Float32Value(0)
	case schema.Float64:
		return schema.Float64Value(0)
	case schema.String:
		return schema.StringValue(zeroText(s.Name()))
	case schema.Bytes:
		return schema.BytesValue(nil)
	case schema.Decimal:
		return schema.DecimalInt64(0, s.Scale())
	case schema.Date:
		return schema.DateValue(0)
	case schema.Time:
		return schema.TimeValue(0)
	case schema.Timestamp:
		return schema.TimestampValue(0)
	case schema.Array:
		return schema.ArrayValue(nil)
	case schema.Map:
		return schema.MapValue(nil)
	case schema.Struct:
		f := make([]schema.Value, len(s.Fields()))
		for i, part := range s.Fields() {
			if !part.Schema.Optional() {
				f[i] = zeroOf(part.Schema)
			}
		}
		return schema.StructValue(s, f)
	}
	return schema.Value{}
}

// zeroText is a semantic type's zero where its schema is text.
func zeroText(name string) string {
	switch name {
	case envelope.ZonedTimestampName:
		return "1970-01-01T00:00:00.000000Z"
	case envelope.ZonedTimeName, envelope.IsoTimeName:
		return "00:00:00Z"
	case envelope.IsoDateName:
		return "1970-01-01Z"
	case envelope.IsoTimestampName:
		return "1970-01-01T00:00:00Z"
	case envelope.IntervalName:
		return "P0Y0M0DT0H0M0S"
	case envelope.JSONName:
		return "{}"
	}
	return ""
}
