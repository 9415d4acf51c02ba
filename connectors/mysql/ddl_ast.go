package mysql

// A statement is what a piece of DDL says, before it is applied to the tables as they
// are. Names of tables are whole: the default database is put in.
type statement interface{}

type (
	createTable struct {
		id                     TableID
		orReplace, ifNotExists bool
		like                   *TableID
		def                    tableDef
		query                  bool // AS SELECT: further columns come out of a query
	}
	alterTable struct {
		id    TableID
		specs []alterSpec
		opts  tableOptions
	}
	renameTables struct{ pairs []renamePair }
	dropTables   struct {
		ids            []TableID
		prefix, suffix string // what stands around the names: "DROP TABLE IF EXISTS ", " CASCADE"
	}
	// truncateTable also stands for nothing but itself.
	truncateTable struct{ id TableID }
	createIndex   struct {
		id  TableID
		key keyDef
	}
	dropIndex struct {
		id   TableID
		name string
	}
	createDatabase struct {
		name               string
		charset, collation string
		alter, ifNotExists bool
	}
	dropDatabase struct{ name string }
	useDatabase  struct{ name string }
	// setServer is SET character_set_server=…, collation_server=…, as the history's first
	// record has it.
	setServer struct{ charset, collation string }
	// otherStatement changes no table.
	otherStatement struct{ head string }
)

// A renamePair is one TO of RENAME TABLE; text is its own part of the statement.
type renamePair struct {
	from, to TableID
	text     string
}

// A tableDef is the list in parentheses of CREATE TABLE, and the options behind it.
type tableDef struct {
	columns []columnDef
	keys    []keyDef
	opts    tableOptions
}

// tableOptions are the options that say something about columns.
type tableOptions struct {
	charset, collation string
	comment            *string
	sequence           bool   // MariaDB keeps a sequence in it
	versioned          *bool  // WITH SYSTEM VERSIONING, or without
	moves              string // a clause that changes rows without events
}

// A keyDef is a primary or unique key; others are left out.
type keyDef struct {
	primary bool
	unique  bool
	name    string
	columns []keyPart
}

type keyPart struct {
	column string // "": an expression
	length int    // of the column's front; 0: all of it
}

// alterKind is what a clause of ALTER TABLE does.
type alterKind uint8

const (
	alterAddColumn     alterKind = iota // def, first, after
	alterAddKey                         // key
	alterDropColumn                     // name
	alterDropKey                        // name
	alterDropPrimary                    //
	alterDropAny                        // DROP CONSTRAINT name: a key, or none of ours
	alterChangeColumn                   // name, def, first, after
	alterRenameColumn                   // name, to
	alterRenameKey                      // name, to
	alterRenameTable                    // table
	alterSetDefault                     // name, def's default
	alterDropDefault                    // name
	alterVisible                        // name, invisible
	alterConvert                        // charset, collation
	alterDropPeriod                     // SYSTEM VERSIONING and its columns
	alterPartitionTo                    // table: a partition becomes a table of its own
	alterTableToPart                    // table: it becomes a partition
	alterAddVersioning                  //
	alterNothing                        // what IF EXISTS left out
)

// An alterSpec is one clause of ALTER TABLE.
type alterSpec struct {
	kind               alterKind
	name, to           string
	ifExists           bool // IF EXISTS, or IF NOT EXISTS of what is added
	def                columnDef
	first              bool
	after              string
	key                keyDef
	ofColumn           bool // the key is part of a column's definition
	table              TableID
	invisible          bool
	charset, collation string
}

// A columnDef is a column as it was typed, before the table's character set and the keys
// have their say.
type columnDef struct {
	name string
	typ  Type
	// words is the type as it was typed, in upper case: INTEGER UNSIGNED, NATIONAL VARCHAR.
	words           string
	length, scale   int // as typed; NoLength
	unsigned        bool
	zerofill        bool
	national        bool
	byteString      bool // CHAR BYTE: a binary type
	binaryAttribute bool // BINARY behind a text type: the _bin collation
	charset         string
	collation       string
	members         []string
	rawMembers      []string // with their quotes
	spatial         string
	srid            int

	null          *bool
	autoIncrement bool
	serial        bool
	generated     bool
	stored        bool
	rowStamp      bool // ROW START, ROW END
	invisible     bool
	comment       string
	primary       bool
	unique        bool

	def defaultDef
}

// keys are those that a column's own definition asks for.
func (c *columnDef) keys() (out []keyDef) {
	part := []keyPart{{column: c.name}}
	if c.primary {
		out = append(out, keyDef{primary: true, name: "PRIMARY", columns: part})
	}
	if c.unique || c.serial {
		out = append(out, keyDef{unique: true, columns: part})
	}
	return out
}

// A defaultDef is a column's DEFAULT.
type defaultDef struct {
	given bool
	null  bool
	text  string // a literal's value, an expression's text
	bytes bool   // text is the bytes of x'…' or b'…'
	expr  bool
	now   bool   // CURRENT_TIMESTAMP and its like
	raw   string // a literal as Debezium's history has it: without its outer quotes
	bare  bool   // raw is there
}

// replaceTables are tables as the server prints them, in place of a statement that cannot
// be followed.
type replaceTables struct {
	tables []createTable
	texts  []string
	gone   []TableID
}
