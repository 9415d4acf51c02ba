package mysql

import (
	"strings"
)

// typeWords are the words that name types. What takes more than one word is in dataType.
var typeWords = map[string]Type{
	"TINYINT": TinyInt, "INT1": TinyInt, "BOOL": TinyInt, "BOOLEAN": TinyInt,
	"SMALLINT": SmallInt, "INT2": SmallInt,
	"MEDIUMINT": MediumInt, "INT3": MediumInt, "MIDDLEINT": MediumInt,
	"INT": Int, "INTEGER": Int, "INT4": Int,
	"BIGINT": BigInt, "INT8": BigInt,
	"DECIMAL": Decimal, "NUMERIC": Decimal, "DEC": Decimal, "FIXED": Decimal, "NUMBER": Decimal,
	"FLOAT": Float, "FLOAT4": Float, "DOUBLE": Double, "FLOAT8": Double, "REAL": Double,
	"BIT": Bit, "DATE": Date, "TIME": Time, "DATETIME": DateTime, "TIMESTAMP": Timestamp, "YEAR": Year,
	"CHAR": Char, "CHARACTER": Char, "NCHAR": Char,
	"VARCHAR": VarChar, "VARCHARACTER": VarChar, "NVARCHAR": VarChar, "VARCHAR2": VarChar, "NVARCHAR2": VarChar,
	"TINYTEXT": TinyText, "TEXT": Text, "MEDIUMTEXT": MediumText, "LONGTEXT": LongText, "CLOB": LongText,
	"BINARY": Binary, "VARBINARY": VarBinary, "RAW": VarBinary,
	"TINYBLOB": TinyBlob, "BLOB": Blob, "MEDIUMBLOB": MediumBlob, "LONGBLOB": LongBlob,
	"ENUM": Enum, "SET": Set, "JSON": JSON, "VECTOR": Vector, "UUID": UUID, "INET4": Inet4, "INET6": Inet6,
	"GEOMETRY": Geometry, "POINT": Geometry, "LINESTRING": Geometry, "POLYGON": Geometry, "MULTIPOINT": Geometry,
	"MULTILINESTRING": Geometry, "MULTIPOLYGON": Geometry, "GEOMETRYCOLLECTION": Geometry, "GEOMCOLLECTION": Geometry,
}

// column reads a column's name, type and attributes.
func (p *parser) column() columnDef {
	c := columnDef{name: p.name(), length: NoLength, scale: NoLength, srid: NoLength}
	p.dataType(&c)
	p.attributes(&c)
	return c
}

func (p *parser) dataType(c *columnDef) {
	var words []string
	word := func() string {
		if p.tok.kind != tokenWord {
			p.fail("want a type")
		}
		w := strings.ToUpper(p.tok.text)
		words = append(words, w)
		p.advance()
		return w
	}
	if p.tok.is("mariadb_schema") && p.peek.mark('.') {
		p.advance()
		p.advance()
	}
	first := word()
	if first == "NATIONAL" {
		c.national = true
		first = word()
	}
	typ, ok := typeWords[first]
	switch {
	case first == "SERIAL":
		c.typ, c.serial, c.unsigned = BigInt, true, true
		c.words = "BIGINT UNSIGNED"
		return
	case first == "LONG":
		typ = MediumText
		switch {
		case p.tok.is("VARBINARY"):
			word()
			typ = MediumBlob
		case p.oneOf("VARCHAR", "VARCHARACTER", "CHAR", "CHARACTER"):
			word()
			if p.tok.is("VARYING") {
				word()
			}
		}
	case !ok:
		panic(bail{&syntaxError{p.tok.pos, first, "this is no type we know"}})
	}
	switch {
	case first == "NCHAR", first == "NVARCHAR":
		c.national = true
	case first == "REAL" && p.l.d.realIsFloat:
		typ = Float
	case first == "VECTOR" && p.l.d.mariadb && !p.tok.mark('('):
		p.fail("want the vector's dimensions")
	}
	if typ == Char {
		switch {
		case p.tok.is("VARYING"), c.national && p.oneOf("VARCHAR", "VARCHARACTER"):
			word()
			typ = VarChar
		}
	}
	if first == "DOUBLE" && p.tok.is("PRECISION") {
		word()
	}
	c.typ = typ
	if typ == Geometry {
		c.spatial = first
		if first == "GEOMCOLLECTION" {
			c.spatial = "GEOMETRYCOLLECTION"
		}
	}
	if p.l.d.oracle {
		// There a DATE has a time, too, and NUMBER without digits is a double.
		switch {
		case first == "DATE":
			c.typ = DateTime
		case first == "NUMBER" && !p.tok.mark('('):
			c.typ = Double
		}
	}
	if first == "BOOL" || first == "BOOLEAN" {
		c.length = 1
		c.words = first
		return
	}
	if p.tok.mark('(') {
		p.dimensions(c)
	}
	for {
		switch {
		case p.tok.is("UNSIGNED"):
			word()
			c.unsigned = true
			continue
		case p.tok.is("SIGNED"):
			word()
			continue
		case p.tok.is("ZEROFILL"):
			word()
			c.unsigned, c.zerofill = true, true
			continue
		}
		break
	}
	c.words = strings.Join(words, " ")
	if c.isTextual() {
		p.charsetClauses(c)
	}
}

// isTextual reports whether a character set may stand behind the type.
func (c *columnDef) isTextual() bool {
	switch c.typ {
	case Char, VarChar, TinyText, Text, MediumText, LongText, Enum, Set:
		return true
	}
	return false
}

// dimensions reads what stands in parentheses behind a type.
func (p *parser) dimensions(c *columnDef) {
	p.expectMark('(')
	switch c.typ {
	case Enum, Set:
		for {
			if p.tok.kind != tokenString && p.tok.kind != tokenHex && p.tok.kind != tokenBits {
				p.fail("want a text")
			}
			text, raw := p.tok.text, p.l.text[p.tok.pos:p.tok.end]
			if p.tok.kind != tokenString {
				text = bytesOf(p.tok)
			}
			c.members = append(c.members, text)
			c.rawMembers = append(c.rawMembers, raw)
			p.advance()
			if !p.acceptMark(',') {
				break
			}
		}
	default:
		n := p.number()
		c.length = n
		if p.acceptMark(',') {
			if p.tok.mark('-') || p.tok.mark('+') {
				p.advance()
			}
			c.scale = p.number()
		}
		_ = p.accept("BYTE") || p.accept("CHAR") // of VARCHAR2
	}
	p.expectMark(')')
}

// bytesOf are the bytes of x'…' and b'…'.
func bytesOf(t token) string {
	digits, base := t.text, 16
	if t.kind == tokenBits {
		base = 2
	}
	width := 2
	if base == 2 {
		width = 8
	}
	for len(digits)%width != 0 {
		digits = "0" + digits
	}
	var b strings.Builder
	for i := 0; i < len(digits); i += width {
		n := 0
		for _, c := range digits[i : i+width] {
			d := strings.IndexRune("0123456789abcdef", c|0x20)
			if c >= '0' && c <= '9' {
				d = int(c - '0')
			}
			n = n*base + max(d, 0)
		}
		b.WriteByte(byte(n))
	}
	return b.String()
}

// charsetClauses reads CHARACTER SET, COLLATE and their older forms right behind a type.
func (p *parser) charsetClauses(c *columnDef) {
	for {
		switch {
		case p.accept("CHARSET"), p.accept("CHARACTER", "SET"), p.accept("CHAR", "SET"):
			p.acceptMark('=')
			c.charset = strings.ToLower(p.nameOrText())
		case p.accept("ASCII"):
			c.charset = "latin1"
		case p.accept("UNICODE"):
			c.charset = "ucs2"
		case p.accept("BYTE"):
			c.byteString = true
		case p.accept("BINARY"):
			c.binaryAttribute = true
		default:
			return
		}
	}
}

// attributes reads what stands behind a column's type, in any order.
func (p *parser) attributes(c *columnDef) {
	yes, no := true, false
	for {
		switch {
		case p.tok.is("NOT") && p.peek.is("NULL"):
			p.advance()
			p.advance()
			c.null = &no
		case p.tok.is("NOT") && (p.peek.is("SECONDARY") || p.peek.is("ENFORCED")):
			p.advance()
			p.advance()
		case p.accept("NULL"):
			c.null = &yes
		case p.accept("DEFAULT"):
			p.defaultValue(c)
		case p.tok.is("ON") && p.peek.is("UPDATE"):
			p.advance()
			p.advance()
			p.name()
			if p.tok.mark('(') {
				p.parens()
			}
		case p.accept("AUTO_INCREMENT"):
			c.autoIncrement = true
		case p.tok.is("SERIAL") && p.peek.is("DEFAULT"):
			p.advance()
			p.advance()
			p.expect("VALUE")
			c.autoIncrement, c.unique, c.null = true, true, &no
		case p.tok.is("UNIQUE"):
			p.advance()
			p.accept("KEY")
			c.unique = true
		case p.tok.is("PRIMARY"):
			p.advance()
			p.accept("KEY")
			c.primary = true
		case p.accept("KEY"):
			c.primary = true
		case p.accept("COMMENT"):
			if p.tok.kind != tokenString {
				p.fail("want a text")
			}
			c.comment = p.tok.text
			p.advance()
		case p.accept("COLLATE"):
			c.collation = strings.ToLower(p.nameOrText())
		case p.oneOf("CHARSET"), p.oneOf("CHARACTER", "CHAR") && p.peek.is("SET"), c.isTextual() && p.oneOf("BINARY", "ASCII", "UNICODE"):
			p.charsetClauses(c)
		case p.oneOf("COLUMN_FORMAT", "STORAGE"):
			p.advance()
			p.name()
		case p.oneOf("ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
			p.advance()
			p.acceptMark('=')
			p.optionValue()
		case p.accept("VISIBLE"):
		case p.accept("INVISIBLE"):
			c.invisible = true
		case p.tok.is("CONSTRAINT"):
			p.advance()
			if !p.tok.is("CHECK") {
				p.name()
			}
		case p.accept("CHECK"):
			p.parens()
			if !p.accept("ENFORCED") && p.tok.is("NOT") && p.peek.is("ENFORCED") {
				p.advance()
				p.advance()
			}
		case p.accept("REFERENCES"):
			p.references()
		case p.accept("SRID"), p.accept("REF_SYSTEM_ID"):
			p.acceptMark('=')
			c.srid = p.number()
		case p.tok.is("GENERATED"):
			p.advance()
			p.accept("ALWAYS")
			p.expect("AS")
			p.generated(c)
		case p.accept("AS"):
			p.generated(c)
		case p.oneOf("WITH", "WITHOUT") && p.peek.is("SYSTEM"):
			p.advance()
			p.advance()
			p.expect("VERSIONING")
		case p.accept("COMPRESSED"):
			if p.acceptMark('=') {
				p.name()
			}
		case p.oneOf("UNSIGNED"):
			p.advance()
			c.unsigned = true
			c.words += " UNSIGNED"
		case p.oneOf("ZEROFILL"):
			p.advance()
			c.unsigned, c.zerofill = true, true
			c.words += " ZEROFILL"
		case p.tok.kind == tokenName && p.peek.mark('='), p.tok.kind == tokenWord && p.peek.mark('='):
			// Options of MariaDB's engines.
			p.advance()
			p.advance()
			p.optionValue()
		default:
			return
		}
	}
}

// generated reads a generated column's expression and how it is kept.
func (p *parser) generated(c *columnDef) {
	if p.accept("ROW") {
		p.name() // START, END
		c.rowStamp = true
		return
	}
	p.parens()
	c.generated = true
	switch {
	case p.accept("STORED"), p.accept("PERSISTENT"):
		c.stored = true
	case p.accept("VIRTUAL"):
	}
}

// references goes over a foreign key's target.
func (p *parser) references() {
	p.table()
	if p.tok.mark('(') {
		p.parens()
	}
	for {
		switch {
		case p.accept("MATCH"):
			p.name()
		case p.tok.is("ON") && (p.peek.is("DELETE") || p.peek.is("UPDATE")):
			p.advance()
			p.advance()
			switch {
			case p.accept("SET", "NULL"), p.accept("SET", "DEFAULT"), p.accept("NO", "ACTION"):
			default:
				p.name()
			}
		default:
			return
		}
	}
}

// defaultValue reads what stands behind DEFAULT.
func (p *parser) defaultValue(c *columnDef) {
	d := defaultDef{given: true}
	sign := ""
	if p.tok.mark('-') || p.tok.mark('+') {
		sign = p.tok.text
		p.advance()
	}
	negative := ""
	if sign == "-" {
		negative = "-"
	}
	switch t := p.tok; {
	case t.kind == tokenString:
		d.text = t.text
		d.raw, d.bare = sign+outerless(p.l.text[t.pos:t.end]), true
		p.advance()
	case t.kind == tokenNumber:
		d.text = negative + t.text
		d.raw, d.bare = sign+t.text, true
		p.advance()
	case t.kind == tokenHex:
		d.text, d.bytes = bytesOf(t), true
		p.advance()
	case t.kind == tokenBits:
		d.text, d.bytes = bytesOf(t), true
		d.raw, d.bare = t.text, true
		p.advance()
	case t.mark('('):
		d.text, d.expr = p.parens(), true
		// MariaDB keeps (5) and ('a') as what they are; so do we with NULL and literals.
		p.literalIn(&d)
	case t.is("NULL"):
		d.null = true
		p.advance()
	case t.is("TRUE"), t.is("FALSE"):
		d.text = "0"
		if t.is("TRUE") {
			d.text = "1"
		}
		d.raw, d.bare = t.text, true
		p.advance()
	case t.is("VALUE") || t.is("ON"):
		p.fail("want a default")
	case t.kind == tokenWord, t.kind == tokenName:
		// CURRENT_TIMESTAMP, NOW(), CURDATE(), NEXT VALUE FOR s, uuid() of MariaDB
		start := t.pos
		d.expr = true
		d.now = p.oneOf("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")
		if p.oneOf("CURRENT_TIMESTAMP", "NOW") {
			d.raw, d.bare = "1970-01-01 00:00:00", true
		} else if d.now {
			d.raw, d.bare = p.tok.text, true
		}
		if p.tok.is("NEXT") && p.peek.is("VALUE") {
			p.advance()
			p.advance()
			p.expect("FOR")
			p.table()
		} else {
			p.advance()
			for p.tok.mark('.') { // db.function(…), db.sequence
				p.advance()
				p.name()
			}
			if p.tok.mark('(') {
				p.parens()
			}
		}
		d.text = p.l.text[start:p.before()]
	default:
		p.fail("want a default")
	}
	c.def = d
}

// literalIn takes a default in parentheses for a literal where it is one alone and the
// server does so, too.
func (p *parser) literalIn(d *defaultDef) {
	if !p.l.d.mariadb {
		return
	}
	inner := &parser{l: lexer{d: p.l.d, text: d.text}}
	inner.advance()
	inner.advance()
	if inner.peek.kind != tokenEnd {
		return
	}
	switch t := inner.tok; {
	case t.kind == tokenString, t.kind == tokenNumber:
		d.text, d.expr = t.text, false
	case t.is("NULL"):
		d.text, d.expr, d.null = "", false, true
	}
}

// outerless is a text literal without its outer quotes, its escapes as they are.
func outerless(raw string) string {
	i := strings.IndexAny(raw, `'"`)
	if i < 0 || len(raw) < i+2 {
		return raw
	}
	return raw[i+1 : len(raw)-1]
}
