package mysql

import (
	"fmt"
	"slices"
	"strings"
)

// newColumn makes a column of its definition, in a table of that character set.
func newColumn(c *columnDef, tableSet, tableCollation string, d dialect) (Column, error) {
	col := Column{
		Name: c.name, Type: c.typ, TypeName: c.words, Length: c.length, Scale: c.scale, Unsigned: c.unsigned, Zerofill: c.zerofill,
		AutoIncrement: c.autoIncrement || c.serial, Generated: c.generated || c.rowStamp, Stored: c.stored || c.rowStamp, Invisible: c.invisible,
		Comment: c.comment, Members: c.members, Spatial: c.spatial, SRID: c.srid,
		typed: typed{length: c.length, scale: c.scale, charset: c.charset, members: c.rawMembers, stamp: c.rowStamp},
	}
	col.Nullable = c.null == nil && !c.autoIncrement && !c.serial && !c.rowStamp || c.null != nil && *c.null
	if c.typ == JSON && d.mariadb {
		col.Type, col.Charset, col.Collation = LongText, "utf8mb4", "utf8mb4_bin"
		if c.charset != "" || c.collation != "" {
			col.Charset, col.Collation = resolveCharset(c.charset, c.collation, col.Charset, col.Collation, d.mariadb)
		}
	}
	if c.isTextual() {
		set, collation := tableSet, tableCollation
		if c.national {
			set, collation = "utf8mb3", defaultCollation("utf8mb3", d.mariadb)
		}
		set, collation = resolveCharset(c.charset, c.collation, set, collation, d.mariadb)
		if c.binaryAttribute && c.collation == "" {
			collation = binaryCollation(set)
		}
		if c.byteString {
			set = "binary"
		}
		col.setCharset(set, collation)
		if set != "binary" { // the server cuts blanks at the end of members
			col.Members = slices.Clone(c.members)
			for i, m := range col.Members {
				col.Members[i] = strings.TrimRight(m, " ")
			}
		}
	}
	col.dimension(c, d)
	if d.implicitStamps && col.Type == Timestamp && c.null == nil {
		col.Nullable = false
	}
	col.takeDefault(&c.def)
	if (c.primary || c.serial) && col.Nullable {
		col.notNull()
	}
	col.Full = col.full(d)
	if col.Type == TypeUnknown {
		return col, fmt.Errorf("column %s has a type that is not known", c.name)
	}
	return col, nil
}

// setCharset gives a text its character set. In the set binary, texts are binary types.
func (c *Column) setCharset(set, collation string) {
	c.Charset, c.Collation = set, collation
	if set != "binary" {
		return
	}
	binary := map[Type]Type{Char: Binary, VarChar: VarBinary, TinyText: TinyBlob, Text: Blob, MediumText: MediumBlob, LongText: LongBlob}
	if to, ok := binary[c.Type]; ok {
		c.Type, c.Charset, c.Collation = to, "", ""
	}
}

// dimension fills in the lengths that the type has where none was given, and finds the
// type that a length asks for: TEXT(100) is a TINYTEXT.
func (c *Column) dimension(def *columnDef, d dialect) {
	switch c.Type {
	case Bit, Char, Binary:
		if c.Length == NoLength {
			c.Length = 1
		}
	case Vector:
		if c.Length == NoLength {
			c.Length = 2048
		}
	case Decimal:
		if c.Length == NoLength || c.Length == 0 {
			c.Length = 10
		}
		if c.Scale == NoLength {
			c.Scale = 0
		}
	case Float:
		if c.Scale == NoLength && c.Length != NoLength { // FLOAT(p)
			if c.Length > 24 {
				c.Type = Double
			}
			c.Length = NoLength
		}
	case Text, Blob:
		if c.Length > 0 {
			c.Type = blobFor(c.Length*c.wide(), c.Type == Text)
		}
		c.Length = NoLength
	case VarChar, VarBinary:
		if n := c.Length * c.wide(); n > 65535 {
			c.Type, c.Length = blobFor(n, c.Type == VarChar), NoLength
		}
	case TinyInt, SmallInt, MediumInt, Int, BigInt:
		c.Scale = NoLength
	case Time, DateTime, Timestamp:
		if c.Length == 0 {
			c.Length = NoLength
		}
	case Year, TinyText, MediumText, LongText, TinyBlob, MediumBlob, LongBlob, Date, JSON, Geometry:
		c.Length = NoLength
	}
	if c.Type != Decimal && c.Type != Float && c.Type != Double {
		c.Scale = NoLength
	}
	// The history has Debezium's lengths.
	switch {
	case c.Type == Decimal:
		c.typed.length, c.typed.scale = c.Length, c.Scale
	case c.Type == Bit:
		c.typed.length = c.Length
	case c.Type == Enum:
		c.typed.length = 1
	case c.Type == Set:
		c.typed.length = max(0, 2*len(c.Members)-1)
	case def.national && c.Type == Char && c.typed.length == NoLength:
		c.typed.length = 1
	}
}

// wide is how many bytes a character of the column may have.
func (c *Column) wide() int {
	if info, ok := charsets[c.Charset]; ok {
		return info.wide
	}
	return 1
}

// blobFor is the smallest type that holds so many bytes.
func blobFor(bytes int, text bool) Type {
	pick := func(t, b Type) Type {
		if text {
			return t
		}
		return b
	}
	switch {
	case bytes < 1<<8:
		return pick(TinyText, TinyBlob)
	case bytes < 1<<16:
		return pick(Text, Blob)
	case bytes < 1<<24:
		return pick(MediumText, MediumBlob)
	}
	return pick(LongText, LongBlob)
}

// convert applies CONVERT TO CHARACTER SET. A text's type grows where its characters may
// take more bytes than before.
func (c *Column) convert(set, collation string, d dialect) {
	switch c.Type {
	case Char, VarChar, TinyText, Text, MediumText, LongText:
	case Enum, Set:
		if c.Charset == "binary" {
			return
		}
	default:
		return
	}
	was := c.wide()
	if c.typed.charset != "" {
		c.typed.charset = set
	}
	switch text := c.Type; text {
	case TinyText, Text, MediumText, LongText:
		most := map[Type]int{TinyText: 1<<8 - 1, Text: 1<<16 - 1, MediumText: 1<<24 - 1, LongText: 1<<32 - 1}[text]
		c.setCharset(set, collation)
		if c.Text() {
			if t := blobFor(most/was*c.wide(), true); text != LongText {
				c.Type = t
			}
			c.TypeName = map[Type]string{TinyText: "TINYTEXT", Text: "TEXT", MediumText: "MEDIUMTEXT", LongText: "LONGTEXT"}[c.Type]
		}
	default:
		c.setCharset(set, collation)
	}
	c.Full = c.full(d)
}

// takeDefault applies a DEFAULT, or the lack of one.
func (c *Column) takeDefault(def *defaultDef) {
	switch {
	case !def.given:
		if c.Nullable && !c.AutoIncrement {
			c.HasDefault, c.DefaultNull = true, true
		}
		return
	case c.AutoIncrement: // the server forgets it
		return
	case def.null:
		c.HasDefault, c.DefaultNull = true, true
		return
	}
	c.HasDefault, c.Default, c.DefaultExpr, c.DefaultBytes = true, def.text, def.expr, def.bytes
	c.typed.def, c.typed.hasDef = def.raw, def.bare
}

// displayWidths are those that servers print which print any.
var displayWidths = map[Type][2]int{TinyInt: {4, 3}, SmallInt: {6, 5}, MediumInt: {9, 8}, Int: {11, 10}, BigInt: {20, 20}}

// printsWidths reports whether a server prints the widths of integers: MariaDB, and MySQL
// before 8.0.19.
func (d dialect) printsWidths() bool { return d.mariadb || d.version != 0 && d.version < 80019 }

// full is the whole type as information_schema has it.
func (c *Column) full(d dialect) string {
	name := fullNames[c.Type]
	switch c.Type {
	case TinyInt, SmallInt, MediumInt, Int, BigInt:
		width := c.Length
		if width == NoLength && (c.Zerofill || d.printsWidths()) {
			width = displayWidths[c.Type][0]
			if c.Unsigned {
				width = displayWidths[c.Type][1]
			}
		}
		if width != NoLength && (d.printsWidths() || c.Zerofill || c.Type == TinyInt && width == 1 && !c.Unsigned) {
			name += fmt.Sprintf("(%d)", width)
		}
	case Decimal:
		name += fmt.Sprintf("(%d,%d)", c.Length, c.Scale)
	case Float, Double:
		if c.Length != NoLength && c.Scale != NoLength {
			name += fmt.Sprintf("(%d,%d)", c.Length, c.Scale)
		}
	case Year:
		if d.printsWidths() {
			name += "(4)"
		}
	case Enum, Set:
		quoted := make([]string, len(c.Members))
		for i, m := range c.Members {
			quoted[i] = "'" + strings.ReplaceAll(m, "'", "''") + "'"
		}
		name += "(" + strings.Join(quoted, ",") + ")"
	case Geometry:
		name = strings.ToLower(c.Spatial)
		if !d.mariadb && name == "geometrycollection" {
			name = "geomcollection"
		}
	case Bit, Char, VarChar, Binary, VarBinary, Vector, Time, DateTime, Timestamp:
		if c.Length != NoLength {
			name += fmt.Sprintf("(%d)", c.Length)
		}
	}
	if c.Unsigned {
		name += " unsigned"
	}
	if c.Zerofill {
		name += " zerofill"
	}
	return name
}

var fullNames = map[Type]string{
	TinyInt: "tinyint", SmallInt: "smallint", MediumInt: "mediumint", Int: "int", BigInt: "bigint", Decimal: "decimal", Float: "float", Double: "double",
	Bit: "bit", Date: "date", Time: "time", DateTime: "datetime", Timestamp: "timestamp", Year: "year", Char: "char", VarChar: "varchar",
	TinyText: "tinytext", Text: "text", MediumText: "mediumtext", LongText: "longtext", Binary: "binary", VarBinary: "varbinary",
	TinyBlob: "tinyblob", Blob: "blob", MediumBlob: "mediumblob", LongBlob: "longblob", Enum: "enum", Set: "set", JSON: "json",
	Vector: "vector", UUID: "uuid", Inet4: "inet4", Inet6: "inet6",
}

// equal reports whether two tables are defined alike.
func (t *Table) equal(o *Table) bool {
	return t.ID == o.ID && t.Charset == o.Charset && t.Collation == o.Collation && t.Comment == o.Comment && t.Sequence == o.Sequence && slices.Equal(t.PrimaryKey, o.PrimaryKey) &&
		slices.EqualFunc(t.UniqueKeys, o.UniqueKeys, func(a, b Key) bool {
			return a.Name == b.Name && a.Prefix == b.Prefix && slices.Equal(a.Columns, b.Columns)
		}) && slices.EqualFunc(t.Columns, o.Columns, func(a, b Column) bool { return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b) })
}
