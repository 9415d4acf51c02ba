package mysql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"millrace/schema"
)

// readTable asks the server for a table's definition as it is now; nil: there is none.
func (ss *session) readTable(ctx context.Context, id TableID) (*Table, error) {
	where := " WHERE TABLE_SCHEMA = " + quoteText(id.Database) + " AND TABLE_NAME = " + quoteText(id.Name)
	rows, err := ss.query(ctx, "SELECT TABLE_COLLATION, TABLE_COMMENT FROM information_schema.TABLES"+where)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	t := &Table{ID: id, Collation: rows[0][0].text, Comment: rows[0][1].text}
	t.Charset, _, _ = strings.Cut(t.Collation, "_")
	srid := "NULL"
	if !ss.sv.mariadb {
		srid = "SRS_ID"
	}
	rows, err = ss.query(ctx, "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, CHARACTER_SET_NAME, COLLATION_NAME, COLUMN_COMMENT, COLUMN_KEY, "+srid+
		" FROM information_schema.COLUMNS"+where+" ORDER BY ORDINAL_POSITION")
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		c := Column{
			Name: r[0].text, Full: r[2].text, Nullable: r[3].text == "YES", Charset: r[6].text, Collation: r[7].text, Comment: r[8].text,
			Length: NoLength, Scale: NoLength, SRID: NoLength,
		}
		if err := c.setType(r[1].text); err != nil {
			return nil, fmt.Errorf("table %s: %w", id, err)
		}
		extra := strings.ToLower(r[5].text)
		c.AutoIncrement = strings.Contains(extra, "auto_increment")
		c.Generated = strings.Contains(extra, "virtual generated") || strings.Contains(extra, "stored generated") || strings.Contains(extra, "persistent generated")
		c.Stored = c.Generated && !strings.Contains(extra, "virtual")
		c.Invisible = strings.Contains(extra, "invisible")
		if !r[10].null {
			c.SRID, _ = strconv.Atoi(r[10].text)
		}
		switch def := r[4]; {
		case c.Generated, c.AutoIncrement:
		case def.null || ss.sv.mariadb && def.text == "NULL":
			c.HasDefault, c.DefaultNull = c.Nullable, c.Nullable
		default:
			c.HasDefault, c.Default = true, def.text
			c.DefaultExpr = strings.Contains(extra, "default_generated")
			if ss.sv.mariadb { // literals are quoted there, all else is an expression or a number
				if text, ok := strings.CutPrefix(def.text, "'"); ok {
					c.Default = strings.ReplaceAll(strings.TrimSuffix(text, "'"), "''", "'")
				} else if _, err := strconv.ParseFloat(def.text, 64); err != nil && !strings.HasPrefix(def.text, "b'") && !strings.HasPrefix(def.text, "x'") {
					c.DefaultExpr = true
				}
			}
		}
		t.Columns = append(t.Columns, c)
	}
	rows, err = ss.query(ctx, "SELECT INDEX_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS"+where+" AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX")
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if r[0].text == "PRIMARY" {
			t.PrimaryKey = append(t.PrimaryKey, r[1].text)
			continue
		}
		n := len(t.UniqueKeys)
		if n == 0 || t.UniqueKeys[n-1].Name != r[0].text {
			t.UniqueKeys = append(t.UniqueKeys, Key{Name: r[0].text})
			n++
		}
		k := &t.UniqueKeys[n-1]
		k.Columns = append(k.Columns, r[1].text)
		k.Prefix = k.Prefix || !r[2].null
	}
	return t, nil
}

var typesByName = map[string]Type{
	"tinyint": TinyInt, "smallint": SmallInt, "mediumint": MediumInt, "int": Int, "bigint": BigInt, "decimal": Decimal, "float": Float, "double": Double,
	"bit": Bit, "date": Date, "time": Time, "datetime": DateTime, "timestamp": Timestamp, "year": Year, "char": Char, "varchar": VarChar,
	"tinytext": TinyText, "text": Text, "mediumtext": MediumText, "longtext": LongText, "binary": Binary, "varbinary": VarBinary,
	"tinyblob": TinyBlob, "blob": Blob, "mediumblob": MediumBlob, "longblob": LongBlob, "enum": Enum, "set": Set, "json": JSON, "vector": Vector,
	"uuid": UUID, "inet4": Inet4, "inet6": Inet6,
	"geometry": Geometry, "point": Geometry, "linestring": Geometry, "polygon": Geometry, "multipoint": Geometry, "multilinestring": Geometry,
	"multipolygon": Geometry, "geomcollection": Geometry, "geometrycollection": Geometry,
}

// setType reads Full, whose word is name.
func (c *Column) setType(name string) error {
	c.Type = typesByName[name]
	if c.Type == TypeUnknown {
		return fmt.Errorf("column %q is of the type %q, which is not known", c.Name, c.Full)
	}
	full := strings.ToLower(c.Full)
	c.Unsigned, c.Zerofill = strings.Contains(full, "unsigned"), strings.Contains(full, "zerofill")
	c.TypeName = strings.ToUpper(name)
	if c.Type == Geometry {
		c.Spatial = c.TypeName
	}
	open, end := strings.IndexByte(c.Full, '('), strings.LastIndexByte(c.Full, ')')
	if open > 0 && end > open {
		inner := c.Full[open+1 : end]
		if c.Type == Enum || c.Type == Set {
			for inner != "" {
				inner = strings.TrimPrefix(inner, ",")
				var member strings.Builder
				i := 1
				for ; i < len(inner); i++ {
					if inner[i] == '\'' {
						if i+1 < len(inner) && inner[i+1] == '\'' {
							i++
						} else {
							break
						}
					}
					member.WriteByte(inner[i])
				}
				c.Members = append(c.Members, member.String())
				inner = inner[min(len(inner), i+1):]
			}
			return nil
		}
		length, scale, two := strings.Cut(inner, ",")
		c.Length, _ = strconv.Atoi(strings.TrimSpace(length))
		if two {
			c.Scale, _ = strconv.Atoi(strings.TrimSpace(scale))
		}
	}
	if c.Type == Decimal && c.Scale == NoLength {
		c.Scale = 0
	}
	return nil
}

// liveSchemas takes the definitions from the server as they are.
type liveSchemas struct {
	t      *task
	tables map[TableID]*Table
}

func (t *task) newSchemas(context.Context) (Schemas, error) {
	return &liveSchemas{t: t, tables: map[TableID]*Table{}}, nil
}

func (l *liveSchemas) read(ctx context.Context) error {
	ss, err := l.t.s.open(ctx, l.t.cc.Files)
	if err != nil {
		return err
	}
	defer ss.close()
	rows, err := ss.query(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'")
	if err != nil {
		return err
	}
	clear(l.tables)
	for _, r := range rows {
		id := TableID{r[0].text, r[1].text}
		if !l.t.s.captures(id) {
			continue
		}
		if l.tables[id], err = ss.readTable(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (l *liveSchemas) Recover(ctx context.Context, _ Place) error { return l.read(ctx) }

func (l *liveSchemas) Begin(ctx context.Context, _ InitialSchema, _ SourceOf) ([]schema.Record, error) {
	return nil, l.read(ctx)
}

func (l *liveSchemas) Table(id TableID) *Table { return l.tables[id] }

func (l *liveSchemas) Apply(ctx context.Context, s Statement, _ SourceOf) (Applied, error) {
	word, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(s.SQL)), " ")
	switch word {
	case "CREATE", "ALTER", "DROP", "RENAME":
		return Applied{}, l.read(ctx)
	}
	return Applied{}, nil
}

func (t *task) recoverSchemas(ctx context.Context, _ *session, pos position) error {
	return t.schemas.Recover(ctx, pos.place())
}
