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
	oidInt2Vector, oidOIDVector, oidJSON, oidXML, oidPoint                          = 22, 30, 114, 142, 600
	oidLseg, oidPath, oidBox, oidPolygon, oidLine, oidCircle                        = 601, 602, 603, 604, 628, 718
	oidCIDR, oidFloat4, oidFloat8                                                   = 650, 700, 701
	oidInt4Range, oidNumRange, oidTSRange, oidTSTZRange, oidDateRange, oidInt8Range = 3904, 3906, 3908, 3910, 3912, 3926
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
	always bool // optional, whatever the column is
	// zero is what stands for NULL in a required column; nil: its schema's zero.
	zero func(s *schema.Schema) schema.Value
	// held is what stands for a large value that an update left alone; nil: settings.held.
	held func(s *settings) schema.Value
	// Defaults are sent of types with one here: the text of the value that stands for a
	// default that a function makes.
	generated string
	defaults  bool
	decimal   bool // a numeric: NaN is no default
	elements  elementRule
}

// An elementRule says what Debezium makes of arrays of a type.
type elementRule uint8

const (
	elementsRequired elementRule = iota // a null among them has no place
	elementsOptional
	elementsUnknown // they are left out, or sent as their texts
)

func plain(d decoder) func(*schema.Schema) decoder {
	return func(*schema.Schema) decoder { return d }
}

// root resolves domains: the type that they are of, and the modifier that is theirs
// or one of a domain on the way.
func root(types map[uint32]*typeInfo, oid uint32, mod int32) (uint32, int32, bool) {
	for range 32 {
		t := types[oid]
		if t == nil || t.kind != 'd' {
			return oid, mod, true
		}
		if mod < 0 {
			mod = t.baseMod
		}
		oid = t.base
	}
	return oid, mod, false
}

// mapType finds what a column of a type becomes; false: there is no mapping, and the
// column is left out.
func (s *settings) mapType(types map[uint32]*typeInfo, typ uint32, mod int32) (mapping, bool) {
	oid, mod, ok := root(types, typ, mod)
	if !ok {
		return mapping{}, false
	}
	m, ok := s.mapBase(types, oid, mod)
	if t := types[typ]; t != nil && t.kind == 'd' {
		m.defaults = false // as Debezium has it
	}
	if !ok && s.unknown {
		return s.mapUnknown(oid), true
	}
	return m, ok
}

// mapUnknown is a type without a mapping: its text as binary data.
func (s *settings) mapUnknown(oid uint32) mapping {
	m := mapping{schema: s.binarySchema(), decode: plain(opaque(s.binary)), held: heldBinary}
	switch oid {
	case oidLine, oidLseg, oidBox, oidPath, oidPolygon, oidCircle:
		m.decode = plain(shapeText(s.binary))
	}
	return m
}

func textMapping(name string) mapping {
	if name == "" {
		return mapping{schema: schema.New(schema.String), decode: plain(decodeText), text: true}
	}
	return mapping{schema: envelope.Semantic(schema.String, name), decode: plain(decodeText)}
}

func (m mapping) optional() mapping { m.elements = elementsOptional; return m }

// unknownElements says that Debezium knows the type, but no array of it.
func (m mapping) unknownElements() mapping { m.elements = elementsUnknown; return m }

// of says that defaults are sent, and which text stands for one that a function makes.
func (m mapping) of(generated string) mapping {
	m.generated, m.defaults = generated, true
	return m
}

func (s *settings) mapBase(types map[uint32]*typeInfo, oid uint32, mod int32) (mapping, bool) {
	simple := func(k schema.Kind, d decoder) mapping {
		return mapping{schema: schema.New(k), decode: plain(d), elements: elementsOptional}
	}
	switch oid {
	case oidBool:
		return simple(schema.Bool, decodeBool).of("f"), true
	case oidInt2:
		return simple(schema.Int16, decodeInt16).of("0"), true
	case oidInt4:
		return simple(schema.Int32, decodeInt32).of("0"), true
	case oidInt8:
		return simple(schema.Int64, decodeInt64).of("0"), true
	case oidOID:
		return simple(schema.Int64, decodeInt64), true
	case oidFloat4:
		return simple(schema.Float32, decodeFloat32).of("0"), true
	case oidFloat8:
		return simple(schema.Float64, decodeFloat64).of("0"), true
	case oidNumeric:
		m := s.mapNumeric(mod).optional().of("0.0")
		m.decimal = true
		return m, true
	case oidMoney:
		return s.mapMoney().unknownElements(), true
	case oidName:
		return textMapping("").unknownElements(), true
	case oidChar, oidInet, oidCIDR, oidMacaddr, oidMacaddr8,
		oidInt4Range, oidInt8Range, oidNumRange, oidTSRange, oidTSTZRange, oidDateRange:
		return textMapping("").optional(), true
	case oidText:
		return textMapping("").optional().of(""), true
	case oidVarchar, oidBpchar:
		m := textMapping("").optional().of("")
		m.length = max(0, int(mod)-4)
		return m, true
	case oidUUID:
		return textMapping(envelope.UUIDName).optional().of("00000000-0000-0000-0000-000000000000"), true
	case oidJSON, oidJSONB:
		return textMapping(envelope.JSONName).optional().of("{}"), true
	case oidXML:
		return textMapping(envelope.XMLName).unknownElements().of(""), true
	case oidTsvector:
		return textMapping(envelope.TsvectorName), true
	case oidBytea:
		return mapping{schema: s.binarySchema(), decode: plain(bytea(s.binary)), held: heldBinary, elements: elementsOptional}, true
	case oidDate:
		return s.mapDate().optional().of("1970-01-01"), true
	case oidTime:
		return s.mapTime(precision(mod)).optional().of("00:00:00"), true
	case oidTimestamp:
		return s.mapTimestamp(precision(mod)).optional().of("1970-01-01 00:00:00"), true
	case oidTimestamptz:
		m := mapping{schema: envelope.Semantic(schema.String, envelope.ZonedTimestampName), decode: plain(zonedTimestamp(precision(mod)))}
		return m.optional().of("1970-01-01 00:00:00+00"), true
	case oidTimetz:
		return mapping{schema: envelope.Semantic(schema.String, envelope.ZonedTimeName), decode: plain(zonedTime), elements: elementsOptional}, true
	case oidInterval:
		m := mapping{schema: envelope.Semantic(schema.Int64, envelope.MicroDurationName), decode: plain(intervalMicros)}
		if s.intervalText {
			m = mapping{schema: envelope.Semantic(schema.String, envelope.IntervalName), decode: plain(intervalText)}
		}
		return m.unknownElements().of("00:00:00"), true
	case oidBit, oidVarbit:
		if mod == 1 {
			return mapping{schema: schema.New(schema.Bool), decode: plain(decodeBit)}.unknownElements().of("0"), true
		}
		n := int(mod)
		if n < 0 {
			n = math.MaxInt32
		}
		return mapping{schema: envelope.Bits(n), decode: plain(decodeBits)}.unknownElements().of("0"), true
	case oidPoint:
		return mapping{schema: envelope.Point(), decode: decodePoint, zero: zeroPoint}.unknownElements(), true
	case oidInt2Vector:
		return mapping{schema: schema.ArrayOf(schema.Int16Schema), decode: plain(spaced(decodeInt16))}.unknownElements(), true
	case oidOIDVector:
		return mapping{schema: schema.ArrayOf(schema.Int64Schema), decode: plain(spaced(decodeInt64))}.unknownElements(), true
	}
	t := types[oid]
	switch {
	case t == nil:
	case t.kind == 'e':
		return mapping{schema: envelope.Enum(t.labels), decode: plain(decodeText)}.of(""), true
	case t.category == 'A' && t.elem != 0:
		return s.mapArray(types, t.elem, mod)
	case t.kind == 'b':
		return s.mapExtension(t.name)
	}
	return mapping{}, false
}

// mapExtension knows the base types of extensions, by name: their numbers differ from
// database to database.
func (s *settings) mapExtension(name string) (mapping, bool) {
	switch name {
	case "citext":
		return textMapping("").optional(), true
	case "isbn":
		return textMapping(""), true
	case "ltree":
		return textMapping(envelope.LtreeName).optional(), true
	case "hstore":
		if s.hstoreMap {
			return mapping{schema: schema.MapOf(schema.StringSchema, schema.OptionalString), decode: plain(hstoreMap), elements: elementsOptional}, true
		}
		m := textMapping(envelope.JSONName).optional()
		m.decode, m.zero, m.held = plain(hstoreJSON), func(*schema.Schema) schema.Value { return schema.StringValue("{}") }, heldHstore
		return m, true
	case "geometry":
		return mapping{schema: envelope.Geometry(envelope.GeometryName, "Geometry"), decode: decodeGeometry, zero: zeroShape, always: true, elements: elementsOptional}, true
	case "geography":
		return mapping{schema: envelope.Geometry(envelope.GeographyName, "Geography"), decode: decodeGeometry, zero: zeroShape, elements: elementsOptional}, true
	case "vector":
		return mapping{schema: envelope.DoubleVector(), decode: plain(doubleVector)}, true
	case "halfvec":
		return mapping{schema: envelope.FloatVector(), decode: plain(floatVector)}, true
	case "sparsevec":
		return mapping{schema: envelope.SparseDoubleVector(), decode: sparseVector}, true
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
		scale := 0
		if mod >= 4 {
			_, scale = numericModifier(mod)
		}
		return mapping{schema: schema.New(schema.String), decode: plain(decimalText(max(0, scale))), zero: zeroDecimalText(scale)}
	case "double":
		return mapping{schema: schema.New(schema.Float64), decode: plain(decodeFloat64)}
	}
	if mod < 4 {
		return mapping{schema: envelope.VariableScaleDecimal(), decode: variableDecimal, zero: zeroVariable}
	}
	prec, fixed := numericModifier(mod)
	scale := int32(fixed)
	b := schema.DecimalOf(scale).Param(schema.PrecisionParam, strconv.Itoa(prec))
	return mapping{schema: b, decode: plain(fixedDecimal(int(scale)))}
}

// numericModifier is the precision and scale of numeric(p,s).
func numericModifier(mod int32) (precision, scale int) {
	return int((mod - 4) >> 16 & 0xffff), int(((mod-4)&0x7ff ^ 1024) - 1024) // eleven bits with a sign
}

func (s *settings) mapMoney() mapping {
	switch s.decimals {
	case "string":
		return mapping{schema: schema.New(schema.String), decode: plain(moneyText(s.moneyDigits)), zero: zeroDecimalText(s.moneyDigits)}
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

// mapArray finds what arrays of a type become, by what Debezium makes of them: of many
// types elements may be null, of others not, of some it knows none.
func (s *settings) mapArray(types map[uint32]*typeInfo, oid uint32, mod int32) (mapping, bool) {
	inner, delim, ok := mapping{}, byte(','), false
	if t := types[oid]; t == nil || t.kind != 'd' && t.category != 'A' && t.kind != 'c' {
		inner, ok = s.mapBase(types, oid, mod)
		ok = ok && inner.elements != elementsUnknown
		if t != nil && t.delim != 0 {
			delim = t.delim
		}
	}
	if !ok {
		if !s.unknown {
			return mapping{}, false
		}
		inner = s.mapUnknown(oid)
	}
	optional := inner.elements == elementsOptional
	elem, err := inner.schema.SetOptional(optional || inner.always).TryBuild()
	if err != nil {
		return mapping{}, false
	}
	m := mapping{schema: schema.ArrayOf(elem), decode: plain(array(inner.decode(elem), delim, optional)), elements: elementsUnknown}
	if inner.held != nil {
		m.held = func(s *settings) schema.Value { return schema.ArrayValue([]schema.Value{inner.held(s)}) }
	}
	return m, true
}
