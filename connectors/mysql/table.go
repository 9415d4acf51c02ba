package mysql

import (
	"context"
	"strings"
	"time"

	"millrace/schema"
)

// A TableID names a table.
type TableID struct{ Database, Name string }

// String is database.name.
func (id TableID) String() string { return id.Database + "." + id.Name }

// A Table is one version of a table's definition. It is immutable once it was handed
// out: a statement that changes a table makes a new one, so that a pointer stands for a
// version.
type Table struct {
	ID                 TableID
	Charset, Collation string // the defaults of its columns
	Comment            string
	Sequence           bool     // MariaDB keeps a sequence in it: its rows are no data
	Columns            []Column // in the order of the rows in the log; generated and invisible ones are among them
	PrimaryKey         []string // the columns' names in the key's order; nil: there is none
	UniqueKeys         []Key    // in the order of their definition, without the primary key
}

// A Key is a unique key.
type Key struct {
	Name    string
	Columns []string // in the key's order; "" for a part that is an expression
	Prefix  bool     // a part holds only the front of a column

	lengths []int // of those fronts, as they were asked for; 0: a whole column
}

// Column is the named column, whatever the case of its name, or nil.
func (t *Table) Column(name string) *Column {
	for i := range t.Columns {
		if strings.EqualFold(t.Columns[i].Name, name) {
			return &t.Columns[i]
		}
	}
	return nil
}

// Key is what identifies a row: the primary key, else the first unique key all of whose
// columns are whole and cannot be null. nil: there is none.
func (t *Table) Key() []string {
	if len(t.PrimaryKey) > 0 {
		return t.PrimaryKey
	}
next:
	for _, k := range t.UniqueKeys {
		if k.Prefix || len(k.Columns) == 0 {
			continue
		}
		for _, name := range k.Columns {
			if c := t.Column(name); c == nil || c.Nullable {
				continue next
			}
		}
		return k.Columns
	}
	return nil
}

// A Type is a column's type without its attributes. Synonyms have one value: BOOLEAN is
// TinyInt of length 1, INTEGER is Int, NUMERIC is Decimal, REAL is Double.
type Type uint8

// The types.
const (
	TypeUnknown Type = iota
	TinyInt
	SmallInt
	MediumInt
	Int
	BigInt
	Decimal
	Float
	Double
	Bit
	Date
	Time
	DateTime
	Timestamp
	Year
	Char
	VarChar
	TinyText
	Text
	MediumText
	LongText
	Binary
	VarBinary
	TinyBlob
	Blob
	MediumBlob
	LongBlob
	Enum
	Set
	JSON
	Geometry // any, with GEOMETRY, POINT and so on in Spatial
	Vector
	UUID  // MariaDB's
	Inet4 // MariaDB's
	Inet6 // MariaDB's
)

// NoLength stands where a type has no length, scale or SRID.
const NoLength = -1

// A Column is one column of one version of a table.
type Column struct {
	Name string
	Type Type
	// TypeName is the type as Debezium's history spells it: upper case, without length
	// and members, with UNSIGNED and ZEROFILL: "INT UNSIGNED", "VARCHAR", "POINT".
	TypeName string
	// Full is the whole type as information_schema's COLUMN_TYPE says it: lower case,
	// "int unsigned", "varchar(50)", "enum('a','b')".
	Full string

	// Length is what stands in parentheses: characters of texts, bytes of binaries, bits
	// of BIT, digits of DECIMAL and FLOAT, the display width of integers, digits of a
	// second's fraction of times, VECTOR's dimensions. Char and Binary without one have 1,
	// Decimal 10, Bit 1, Vector 2048; else NoLength.
	Length int
	// Scale is the digits behind the point of Decimal (0 where it is not given), Float
	// and Double; else NoLength.
	Scale int

	Unsigned, Zerofill bool
	Nullable           bool // false for columns of the primary key, too
	AutoIncrement      bool
	Generated, Stored  bool // Stored: a generated column's values are kept
	Invisible          bool
	Comment            string

	HasDefault  bool
	Default     string // a literal's text, unquoted; an expression's text where DefaultExpr; "" with DefaultNull
	DefaultNull bool   // DEFAULT NULL, said or implied
	DefaultExpr bool   // CURRENT_TIMESTAMP, (1 + 2): no literal
	// DefaultBytes says that Default is the bytes of x'…' or b'…', of a number the highest first.
	DefaultBytes bool

	Charset, Collation string   // of texts, Enum and Set; else ""
	Members            []string // of Enum and Set, in their order, decoded to UTF-8
	Spatial            string   // of Geometry: "POINT", "POLYGON", …, "GEOMETRY"
	SRID               int      // of Geometry, else NoLength

	typed typed
}

// typed is what the history says of a column in the words of the statement that made it.
type typed struct {
	length, scale int // NoLength: none
	charset       string
	members       []string // with their quotes
	def           string   // the default without its outer quotes
	hasDef        bool
	stamp         bool // of a system-versioned table: since when or until when the row was so
	implicit      bool // such a column which the server adds itself
}

// Text reports whether values are text in a character set.
func (c *Column) Text() bool {
	switch c.Type {
	case Char, VarChar, TinyText, Text, MediumText, LongText:
		return true
	}
	return false
}

// A Place is where in the log a statement stands, as the history's records say it.
type Place struct {
	TimeSec int64 // of the event, in seconds; in a snapshot, of the snapshot
	File    string
	// Pos and Event are what the offset behind the statement says: the end of its event; in a transaction,
	// the transaction's start and the number of its events up to here.
	Pos, Event  int64
	GTIDs       string // the set executed before it; "" without GTIDs
	ServerID    uint32 // 0 in a snapshot
	Snapshot    bool
	Transaction string // the id of the transaction it stands in, with provide.transaction.metadata
}

// A Statement is a statement of the log that is no row: DDL, above all.
type Statement struct {
	Database string // the session's default database
	SQL      string
	// What the session's settings were, as far as the log says it. Collation ids; 0: not said.
	ClientCharset, ConnCollation, ServerCollation uint16
	DBCollation                                   uint16 // of the default database, where the log says it
	SQLMode                                       uint64
	// Whether a TIMESTAMP column that says nothing is nullable (1) or not (-1); 0: not said.
	// Of MySQL's Q_EXPLICIT_DEFAULTS_FOR_TIMESTAMP, MariaDB's flag in Q_FLAGS2.
	ExplicitTimestamps int8
	ErrorCode          uint16 // what it failed with on the server, or 0
	Place              Place
	At                 time.Time // of processing: ts_ms
}

// A TableChange is what a statement did to one table.
type TableChange struct {
	Kind  string  // CREATE, ALTER, DROP, TRUNCATE
	ID    TableID // after the statement
	Was   TableID // before a rename; else the zero TableID
	Table *Table  // after the statement; nil for DROP
}

// Applied is what a statement did.
type Applied struct {
	Changes []TableChange // in their order; empty: it changed no table
	// Records are those of the schema change topic, where include.schema.changes asks for
	// them and the statement concerns what is captured. Their source block is the one
	// that Apply was given.
	Records []schema.Record
	// MovesRows is a clause that changes rows of captured tables without events: EXCHANGE
	// PARTITION, TRUNCATE PARTITION, … "" for none. The stream warns.
	MovesRows string
	// RowsOf is a captured table that a statement names which changes rows: they are not in the log.
	RowsOf TableID
}

// An InitialSchema is what a snapshot read of the server's definitions, under its lock.
type InitialSchema struct {
	Charset, Collation string // of the server
	Databases          []InitialDatabase
	Place              Place
	At                 time.Time
}

// An InitialDatabase is one database with those of its tables whose definitions are
// kept.
type InitialDatabase struct {
	Name               string
	Charset, Collation string
	Tables             []InitialTable
}

// An InitialTable is a table and what SHOW CREATE TABLE prints for it. An empty Create
// drops the table from the history alone.
type InitialTable struct{ Name, Create string }

// A Source makes the source block of a schema change record: db and table may be "".
type SourceOf func(db, table string) schema.Value

// Schemas knows the tables as they are at the stream's position. One goroutine uses it.
type Schemas interface {
	// Recover reads the history up to where the stream resumes. An empty history is an
	// error that says how to rebuild it.
	Recover(ctx context.Context, upTo Place) error
	// Rewind goes back to a place: what was applied of statements behind it will come again.
	Rewind(ctx context.Context, upTo Place) error
	// Begin takes the definitions that a snapshot read and writes them down. emit takes the
	// records of the schema change topic, one by one in their order.
	Begin(ctx context.Context, s InitialSchema, source SourceOf, emit func(schema.Record) error) error
	// Table is the definition that holds now, or nil where none is known.
	Table(id TableID) *Table
	// Apply follows a statement and writes it down before it returns. What cannot be
	// parsed and is not known to be harmless is an error with position and remedy.
	Apply(ctx context.Context, s Statement, source SourceOf) (Applied, error)
}
