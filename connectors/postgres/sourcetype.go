package postgres

import (
	"math"

	"millrace/connectors/cdc"
)

// sourceType is what is told of a column's type, or nil if nothing is to be. Lengths and
// scales are those of Debezium in a stream, which are the JDBC driver's.
func (s *settings) sourceType(types map[uint32]*typeInfo, rel *relation, c relColumn, comment string) *cdc.SourceType {
	name := ""
	if t := types[c.typ]; t != nil {
		name = t.name
	}
	if !s.told.Match(rel.schema, rel.name, c.name, name) {
		return nil
	}
	told := cdc.SourceType{Name: c.name, Type: name, HasScale: true}
	if s.comments {
		told.Comment = comment
	}
	oid, mod, _ := root(types, c.typ, c.mod)
	if t := types[oid]; t != nil && t.category == 'A' && t.elem != 0 && oid != oidInt2Vector && oid != oidOIDVector {
		oid = t.elem
	}
	told.Length, told.Scale = lengthOf(oid, int(mod))
	return &told
}

// lengthOf is the length and the scale of a type with a modifier, -1 being none.
func lengthOf(oid uint32, mod int) (length, scale int) {
	fraction, point := 6, 7 // of a time: digits, and what they take with their point
	if mod >= 0 && mod <= 6 {
		if fraction, point = mod, mod+1; mod == 0 {
			point = 0
		} else if mod == 1 {
			point = 3 // the driver's own
		}
	}
	switch oid {
	case oidInt2:
		return 5, 0
	case oidInt4, oidOID:
		return 10, 0
	case oidInt8:
		return 19, 0
	case oidFloat4:
		return 8, 8
	case oidFloat8:
		return 17, 17
	case oidBool, oidChar:
		return 1, 0
	case oidNumeric:
		if mod < 4 {
			return 131089, 0
		}
		return numericModifier(int32(mod))
	case oidBpchar, oidVarchar:
		if mod >= 4 {
			return mod - 4, 0
		}
	case oidDate:
		return 13, 0
	case oidTime:
		return 8 + point, fraction
	case oidTimetz:
		return 14 + point, fraction
	case oidTimestamp:
		return 22 + point, fraction
	case oidTimestamptz:
		return 28 + point, fraction
	case oidInterval:
		if mod < 0 {
			return 49, 6
		}
		return 49, mod & 0xffff
	case oidBit, oidVarbit:
		if mod >= 0 {
			return mod, 0
		}
	}
	return math.MaxInt32, 0
}
