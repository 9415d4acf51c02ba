package mysql

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// A record of the history is JSON, as Debezium prints it:
//
//	{
//	  "source" : { "server" : "shop" },
//	  "position" : { "transaction_id"?, "ts_sec", "file", "pos", "gtids"?, "snapshot" or "server_id", "event"? },
//	  "ts_ms" : 1796001113871,
//	  "databaseName" : "inv",
//	  "ddl" : "ALTER TABLE …",
//	  "tableChanges" : [ { "type", "id", "previousId"?, "table"?, "comment"? } ],
//	  "millrace" : { … }?
//	}
//
// What Debezium does not know stands in millrace, which it passes over: settings of the
// session that the reading of a statement hangs on. A snapshot of all definitions (see
// history_snapshot.go) begins with millrace, and is one line.

// historyRecord is what we read of a record.
type historyRecord struct {
	Source   struct{ Server string }
	Position historyPosition
	// DatabaseName is where the statement ran; "" for the server's settings.
	DatabaseName string
	DDL          *string
	Millrace     extras
	tableChanges []byte // read only where they are needed
}

type historyPosition struct {
	TsSec    int64 `json:"ts_sec"`
	File     string
	Pos      int64
	GTIDs    string `json:"gtids"`
	Snapshot any
	ServerID int64 `json:"server_id"`
	Event    int64
}

// place is the position as the stream has it.
func (p historyPosition) place() Place {
	snapshot := p.Snapshot != nil && p.Snapshot != false && p.Snapshot != ""
	return Place{TimeSec: p.TsSec, File: p.File, Pos: p.Pos, Event: p.Event, GTIDs: p.GTIDs, ServerID: uint32(p.ServerID), Snapshot: snapshot}
}

// extras are what a record holds beyond Debezium's.
type extras struct {
	Database           string        `json:"database,omitempty"` // the session's, where it is another one
	SQLMode            uint64        `json:"sqlMode,omitempty"`
	ImplicitTimestamps bool          `json:"implicitTimestamps,omitempty"`
	ServerCollation    string        `json:"serverCollation,omitempty"`
	DatabaseCollation  string        `json:"databaseCollation,omitempty"`
	Snapshot           *snapshotPart `json:"snapshot,omitempty"`
}

type tableChangeJSON struct {
	Type       string
	ID         string
	PreviousID string
	Table      *tableJSON
	Comment    *string
}

type tableJSON struct {
	DefaultCharsetName    *string
	PrimaryKeyColumnNames []string
	Columns               []columnJSON
}

type columnJSON struct {
	Name                   string
	TypeName               string
	CharsetName            *string
	Length, Scale          *int
	Optional               bool
	AutoIncremented        bool
	Comment                *string
	HasDefaultValue        bool
	DefaultValueExpression *string
	EnumValues             []string
}

// A historyEntry is a record to be written.
type historyEntry struct {
	server   string
	place    Place
	tsMs     int64
	database string
	ddl      string
	changes  []TableChange
	comments bool // include.schema.comments
	extras   extras
}

// jsonWriter prints JSON as Jackson's pretty printer does: objects in lines, arrays not.
type jsonWriter struct {
	b     []byte
	depth int
	first bool
}

func (w *jsonWriter) open() {
	w.b = append(w.b, '{')
	w.depth++
	w.first = true
}

func (w *jsonWriter) close() {
	w.depth--
	if w.first {
		w.b = append(w.b, ' ', '}')
	} else {
		w.line()
		w.b = append(w.b, '}')
	}
	w.first = false
}

func (w *jsonWriter) line() {
	w.b = append(w.b, '\n')
	for range w.depth {
		w.b = append(w.b, ' ', ' ')
	}
}

func (w *jsonWriter) key(name string) {
	if !w.first {
		w.b = append(w.b, ',')
	}
	w.first = false
	w.line()
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, `" : `...)
}

func (w *jsonWriter) text(s string) {
	const hexDigits = "0123456789ABCDEF"
	w.b = append(w.b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			w.b = utf8.AppendRune(w.b, r)
			i += n
			continue
		}
		i++
		switch c {
		case '"', '\\':
			w.b = append(w.b, '\\', c)
		case '\n':
			w.b = append(w.b, '\\', 'n')
		case '\r':
			w.b = append(w.b, '\\', 'r')
		case '\t':
			w.b = append(w.b, '\\', 't')
		case '\b':
			w.b = append(w.b, '\\', 'b')
		case '\f':
			w.b = append(w.b, '\\', 'f')
		default:
			if c < ' ' {
				w.b = append(w.b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			} else {
				w.b = append(w.b, c)
			}
		}
	}
	w.b = append(w.b, '"')
}

func (w *jsonWriter) string(key, s string) { w.key(key); w.text(s) }
func (w *jsonWriter) null(key string)      { w.key(key); w.b = append(w.b, "null"...) }
func (w *jsonWriter) int(key string, n int64) {
	w.key(key)
	w.b = strconv.AppendInt(w.b, n, 10)
}
func (w *jsonWriter) bool(key string, v bool) {
	w.key(key)
	w.b = strconv.AppendBool(w.b, v)
}

// texts prints a list of texts in one line.
func (w *jsonWriter) texts(key string, list []string) {
	w.key(key)
	w.list(len(list), func(i int) { w.text(list[i]) })
}

func (w *jsonWriter) list(n int, each func(int)) {
	w.b = append(w.b, '[', ' ')
	for i := range n {
		if i > 0 {
			w.b = append(w.b, ',', ' ')
		}
		each(i)
	}
	if n > 0 {
		w.b = append(w.b, ' ')
	}
	w.b = append(w.b, ']')
}

// print is the record's bytes.
func (e *historyEntry) print() []byte {
	w := &jsonWriter{}
	w.open()
	w.key("source")
	w.open()
	w.string("server", e.server)
	w.close()
	w.key("position")
	w.position(e.place)
	w.int("ts_ms", e.tsMs)
	w.string("databaseName", e.database)
	w.string("ddl", e.ddl)
	w.key("tableChanges")
	w.list(len(e.changes), func(i int) { w.change(&e.changes[i], e.comments) })
	if x := e.extras; x != (extras{}) {
		w.key("millrace")
		w.open()
		if x.Database != "" {
			w.string("database", x.Database)
		}
		if x.SQLMode != 0 {
			w.int("sqlMode", int64(x.SQLMode))
		}
		if x.ImplicitTimestamps {
			w.bool("implicitTimestamps", true)
		}
		if x.ServerCollation != "" {
			w.string("serverCollation", x.ServerCollation)
		}
		if x.DatabaseCollation != "" {
			w.string("databaseCollation", x.DatabaseCollation)
		}
		w.close()
	}
	w.close()
	return w.b
}

func (w *jsonWriter) position(p Place) {
	w.open()
	if p.Transaction != "" {
		w.string("transaction_id", p.Transaction)
	}
	w.int("ts_sec", p.TimeSec)
	w.string("file", p.File)
	w.int("pos", p.Pos)
	if p.GTIDs != "" {
		w.string("gtids", p.GTIDs)
	}
	if p.Snapshot {
		w.string("snapshot", "INITIAL")
	} else {
		w.int("server_id", int64(p.ServerID))
	}
	if p.Event > 0 {
		w.int("event", p.Event)
	}
	w.close()
}

// quotedID is a table's name as Debezium writes it down.
func quotedID(id TableID) string {
	quote := func(s string) string {
		var b []byte
		b = append(b, '"')
		for i := range len(s) {
			if s[i] == '"' {
				b = append(b, '"')
			}
			b = append(b, s[i])
		}
		return string(append(b, '"'))
	}
	return quote(id.Database) + "." + quote(id.Name)
}

// parseQuotedID is the reverse.
func parseQuotedID(s string) (id TableID, ok bool) {
	var parts []string
	for s != "" {
		if s[0] != '"' {
			return id, false
		}
		var b []byte
		i := 1
		for ; i < len(s); i++ {
			if s[i] == '"' {
				if i+1 >= len(s) || s[i+1] != '"' {
					break
				}
				i++
			}
			b = append(b, s[i])
		}
		if i >= len(s) {
			return id, false
		}
		parts = append(parts, string(b))
		if s = s[i+1:]; s != "" {
			if s[0] != '.' {
				return id, false
			}
			s = s[1:]
		}
	}
	if len(parts) != 2 {
		return id, false
	}
	return TableID{parts[0], parts[1]}, true
}

func (w *jsonWriter) change(c *TableChange, comments bool) {
	w.open()
	w.string("type", c.Kind)
	w.string("id", quotedID(c.ID))
	if c.Was != (TableID{}) {
		w.string("previousId", quotedID(c.Was))
	}
	if t := c.Table; t != nil && c.Kind != "DROP" {
		w.key("table")
		w.open()
		w.string("defaultCharsetName", t.Charset)
		w.texts("primaryKeyColumnNames", t.Key())
		w.key("columns")
		columns := t.shownColumns()
		w.list(len(columns), func(i int) { w.column(columns[i], i+1, comments) })
		w.key("attributes")
		w.list(0, nil)
		w.close()
		if comments && t.Comment != "" {
			w.string("comment", t.Comment)
		} else {
			w.null("comment")
		}
	}
	w.close()
}

// shownColumns are the columns without those of MariaDB's own that no statement names.
func (t *Table) shownColumns() []*Column {
	out := make([]*Column, 0, len(t.Columns))
	for i := range t.Columns {
		if !t.Columns[i].typed.implicit {
			out = append(out, &t.Columns[i])
		}
	}
	return out
}

func (w *jsonWriter) column(c *Column, position int, comments bool) {
	w.open()
	w.string("name", c.Name)
	w.int("jdbcType", int64(c.jdbcType()))
	w.string("typeName", c.TypeName)
	w.string("typeExpression", c.TypeName)
	if set := c.shownCharset(); set != "" {
		w.string("charsetName", set)
	} else {
		w.null("charsetName")
	}
	if c.typed.length != NoLength {
		w.int("length", int64(c.typed.length))
	}
	if c.typed.scale != NoLength {
		w.int("scale", int64(c.typed.scale))
	}
	w.int("position", int64(position))
	w.bool("optional", c.Nullable)
	w.bool("autoIncremented", c.AutoIncrement)
	w.bool("generated", c.AutoIncrement) // as Debezium has it: of generated columns it is false
	if comments && c.Comment != "" {
		w.string("comment", c.Comment)
	} else {
		w.null("comment")
	}
	w.bool("hasDefaultValue", c.shownDefault())
	if c.typed.hasDef {
		w.string("defaultValueExpression", c.typed.def)
	}
	w.texts("enumValues", c.typed.members)
	w.close()
}

// shownDefault reports whether the history says that there is a default: also of each
// column that may be null.
func (c *Column) shownDefault() bool { return c.Nullable || c.typed.hasDef }

// shownCharset is the character set as the history names it.
func (c *Column) shownCharset() string {
	switch {
	case !c.Text() && c.Type != Enum && c.Type != Set || c.Type == LongText && c.TypeName == "JSON":
		return ""
	case c.typed.charset != "" && c.typed.charset != "default":
		return c.typed.charset
	}
	return c.Charset
}

// jdbcType is Java's number of the type, by the words it was typed with.
func (c *Column) jdbcType() int {
	if n, ok := jdbcTypes[c.TypeName]; ok {
		return n
	}
	word := c.TypeName
	for i := range len(word) {
		if word[i] == ' ' {
			word = word[:i]
			break
		}
	}
	if n, ok := jdbcTypes[word]; ok {
		return n
	}
	return 1111
}

var jdbcTypes = map[string]int{
	"TINYINT": 5, "INT1": 5, "SMALLINT": 5, "INT2": 5, "MEDIUMINT": 4, "INT3": 4, "MIDDLEINT": 4, "INT": 4, "INTEGER": 4, "INT4": 4, "BIGINT": -5, "INT8": -5,
	"BOOL": 16, "BOOLEAN": 16, "REAL": 7, "DOUBLE": 8, "FLOAT8": 8, "FLOAT": 6, "FLOAT4": 6, "DECIMAL": 3, "DEC": 3, "FIXED": 3, "NUMERIC": 2, "BIT": -7,
	"TIME": 92, "TIMESTAMP": 2014, "DATETIME": 93, "DATE": 91, "YEAR": 4, "BINARY": -2, "VARBINARY": -3, "TINYBLOB": 2004, "BLOB": 2004, "MEDIUMBLOB": 2004,
	"LONGBLOB": 2004, "ENUM": 1, "SET": 1, "CHAR": 1, "CHARACTER": 1, "VARCHAR": 12, "VARCHARACTER": 12, "TINYTEXT": 12, "TEXT": 12, "MEDIUMTEXT": 12, "LONGTEXT": 12,
	"CHAR VARYING": 12, "CHARACTER VARYING": 12, "LONG": 12, "LONG VARCHAR": 12, "LONG VARBINARY": 2004, "NCHAR": -15, "NVARCHAR": -9, "NCHAR VARYING": -9,
	"NCHAR VARCHAR": -9, "NATIONAL VARCHAR": -9, "NATIONAL CHAR": -15, "NATIONAL CHARACTER": -15, "NATIONAL CHAR VARYING": -9, "NATIONAL CHARACTER VARYING": -9,
	"NATIONAL VARCHARACTER": -9, "JSON": 1111,
}

// parseHistory reads a record. The description of its tables, which is nearly all of it,
// is only gone over.
func parseHistory(entry []byte) (*historyRecord, error) {
	var r historyRecord
	err := eachMember(entry, func(key string, raw []byte) error {
		switch key {
		case "source":
			return json.Unmarshal(raw, &r.Source)
		case "position":
			return json.Unmarshal(raw, &r.Position)
		case "databaseName":
			return json.Unmarshal(raw, &r.DatabaseName)
		case "ddl":
			return json.Unmarshal(raw, &r.DDL)
		case "millrace":
			return json.Unmarshal(raw, &r.Millrace)
		case "tableChanges":
			r.tableChanges = raw
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("it is no record of a schema history: %w", err)
	}
	return &r, nil
}

// changes reads the description of the record's tables.
func (r *historyRecord) changes() (list []tableChangeJSON, err error) {
	if len(r.tableChanges) > 0 {
		err = json.Unmarshal(r.tableChanges, &list)
	}
	return list, err
}

var errNoObject = errors.New("it is not JSON, or cut off")

// eachMember calls f with the members of a JSON object, whose values are not looked into.
func eachMember(b []byte, f func(key string, raw []byte) error) error {
	at := 0
	space := func() {
		for at < len(b) && (b[at] == ' ' || b[at] == '\n' || b[at] == '\t' || b[at] == '\r') {
			at++
		}
	}
	text := func() bool { // over a text whose first quote is at hand
		for at++; at < len(b); at++ {
			switch b[at] {
			case '\\':
				at++
			case '"':
				at++
				return true
			}
		}
		return false
	}
	value := func() bool {
		start := at
		for depth := 0; at < len(b); {
			switch c := b[at]; {
			case c == '"':
				if !text() {
					return false
				}
				if depth == 0 {
					return true
				}
				continue
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				if depth == 0 {
					return at > start
				}
				if depth--; depth == 0 {
					at++
					return true
				}
			case c == ',' && depth == 0:
				return at > start
			}
			at++
		}
		return false
	}
	space()
	if at >= len(b) || b[at] != '{' {
		return errNoObject
	}
	at++
	for {
		space()
		if at < len(b) && b[at] == '}' {
			return nil
		}
		start := at
		if at >= len(b) || b[at] != '"' || !text() {
			return errNoObject
		}
		key := string(b[start+1 : at-1])
		space()
		if at >= len(b) || b[at] != ':' {
			return errNoObject
		}
		at++
		space()
		start = at
		if !value() {
			return errNoObject
		}
		if err := f(key, bytes.TrimSpace(b[start:at])); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		space()
		if at < len(b) && b[at] == ',' {
			at++
		}
	}
}

// table rebuilds a definition from a record's own description of it, for where its
// statement cannot be read. Keys beside the one that identifies rows are not in there.
func (j *tableJSON) table(id TableID, d dialect) (*Table, error) {
	t := &Table{ID: id}
	if j.DefaultCharsetName != nil {
		t.Charset, t.Collation = resolveCharset(*j.DefaultCharsetName, "", "", "", d.mariadb)
	}
	for i := range j.Columns {
		col, err := j.Columns[i].column(t, d)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", id, err)
		}
		t.Columns = append(t.Columns, col)
	}
	for _, name := range j.PrimaryKeyColumnNames {
		if t.Column(name) == nil {
			return nil, fmt.Errorf("table %s has no column %s, which its key holds", id, name)
		}
		t.PrimaryKey = append(t.PrimaryKey, name)
	}
	return t, nil
}

// column reads a column's type again out of its words.
func (j *columnJSON) column(t *Table, d dialect) (Column, error) {
	// The length stands behind the words of the type itself, before UNSIGNED and ZEROFILL.
	text, rest := splitTypeWords(j.TypeName)
	switch {
	case len(j.EnumValues) > 0:
		text += "("
		for i, v := range j.EnumValues {
			if i > 0 {
				text += ","
			}
			text += v
		}
		text += ")"
	case j.Length != nil && *j.Length >= 0 && j.Scale != nil:
		text += fmt.Sprintf("(%d,%d)", *j.Length, *j.Scale)
	case j.Length != nil && *j.Length >= 0:
		text += fmt.Sprintf("(%d)", *j.Length)
	}
	d.ansiQuotes, d.noBackslash = false, false
	p := &parser{l: lexer{d: d, text: "c " + text + rest}}
	p.advance()
	p.advance()
	def, err := p.oneColumn()
	if err != nil {
		return Column{}, fmt.Errorf("column %s of the type %q: %w", j.Name, j.TypeName, err)
	}
	def.name, def.null, def.autoIncrement = j.Name, &j.Optional, j.AutoIncremented
	if j.CharsetName != nil {
		def.charset = charsetName(*j.CharsetName)
	}
	if j.Comment != nil {
		def.comment = *j.Comment
	}
	if j.DefaultValueExpression != nil {
		raw := *j.DefaultValueExpression
		def.def = defaultDef{given: true, text: unescape(raw, '\'', true), raw: raw, bare: true}
	}
	return newColumn(&def, t.Charset, t.Collation, d)
}

// splitTypeWords parts the attributes of numbers from the type's own words.
func splitTypeWords(words string) (typ, rest string) {
	for _, w := range []string{" UNSIGNED", " SIGNED", " ZEROFILL"} {
		for i := 0; i+len(w) <= len(words); i++ {
			if words[i:i+len(w)] == w {
				return words[:i], words[i:]
			}
		}
	}
	return words, ""
}

// oneColumn reads a column that stands alone.
func (p *parser) oneColumn() (c columnDef, err error) {
	defer func() {
		if r := recover(); r != nil {
			b, ok := r.(bail)
			if !ok {
				panic(r)
			}
			err = b.err
		}
	}()
	c = p.column()
	if !p.atEnd() {
		p.fail("want the type's end")
	}
	return c, p.l.err
}
