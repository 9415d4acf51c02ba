package mysql

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// A history grows with each statement. Now and then all definitions are written into it
// as they are, so that a start reads statements from there on alone: records of one line
// each that begin with millrace, which Debezium passes over since they hold no statement.
// They belong together by their id, and count once all are there.

// snapshotPart is one of the records.
type snapshotPart struct {
	ID        int64                `json:"id"`
	Part      int                  `json:"part"` // from 0
	Of        int                  `json:"of"`
	Charset   string               `json:"charset,omitempty"`
	Collation string               `json:"collation,omitempty"`
	Databases map[string][2]string `json:"databases,omitempty"` // character set and collation
	Tables    []tableState         `json:"tables,omitempty"`
}

// tableState is a whole definition.
type tableState struct {
	ID                 TableID       `json:"id"`
	Charset, Collation string        `json:",omitempty"`
	Comment            string        `json:",omitempty"`
	Sequence           bool          `json:",omitempty"`
	Columns            []columnState `json:"columns"`
	PrimaryKey         []string      `json:",omitempty"`
	UniqueKeys         []keyState    `json:",omitempty"`
}

type columnState struct {
	Column
	L, S       int      // typed lengths
	Cs         string   `json:",omitempty"`
	M          []string `json:",omitempty"`
	D          string   `json:",omitempty"`
	H, St, Imp bool     `json:",omitempty"`
}

type keyState struct {
	Key
	Lengths []int
}

func (t *Table) state() tableState {
	s := tableState{ID: t.ID, Charset: t.Charset, Collation: t.Collation, Comment: t.Comment, Sequence: t.Sequence, PrimaryKey: t.PrimaryKey}
	for _, c := range t.Columns {
		s.Columns = append(s.Columns, columnState{Column: c, L: c.typed.length, S: c.typed.scale, Cs: c.typed.charset, M: c.typed.members,
			D: c.typed.def, H: c.typed.hasDef, St: c.typed.stamp, Imp: c.typed.implicit})
	}
	for _, k := range t.UniqueKeys {
		s.UniqueKeys = append(s.UniqueKeys, keyState{k, k.lengths})
	}
	return s
}

func (s *tableState) table() *Table {
	t := &Table{ID: s.ID, Charset: s.Charset, Collation: s.Collation, Comment: s.Comment, Sequence: s.Sequence, PrimaryKey: s.PrimaryKey}
	for _, c := range s.Columns {
		col := c.Column
		col.typed = typed{length: c.L, scale: c.S, charset: c.Cs, members: c.M, def: c.D, hasDef: c.H, stamp: c.St, implicit: c.Imp}
		t.Columns = append(t.Columns, col)
	}
	for _, k := range s.UniqueKeys {
		key := k.Key
		key.lengths = k.Lengths
		for len(key.lengths) < len(key.Columns) {
			key.lengths = append(key.lengths, 0)
		}
		t.UniqueKeys = append(t.UniqueKeys, key)
	}
	return t
}

// snapshotMark is how such a record begins.
var snapshotMark = []byte(`{"millrace":{"snapshot":`)

func isSnapshot(entry []byte) bool { return bytes.HasPrefix(entry, snapshotMark) }

// partBytes is about how long a part is. A record of a topic may have a megabyte.
const partBytes = 256 << 10

// snapshot prints all definitions as they stand at a place.
func (c *catalog) snapshot(server string, at Place, id, tsMs int64) ([][]byte, error) {
	type line struct {
		Millrace extras            `json:"millrace"`
		Source   map[string]string `json:"source"`
		Position json.RawMessage   `json:"position"`
		TsMs     int64             `json:"ts_ms"`
		Database string            `json:"databaseName"`
	}
	pos := &jsonWriter{}
	pos.position(at)
	var groups [][]tableState
	size := partBytes
	for _, key := range slices.SortedFunc(maps.Keys(c.tables), compareIDs) {
		s := c.tables[key].state()
		one, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		if size+len(one) > partBytes {
			groups, size = append(groups, nil), 0
		}
		size += len(one)
		groups[len(groups)-1] = append(groups[len(groups)-1], s)
	}
	if len(groups) == 0 {
		groups = [][]tableState{nil}
	}
	var out [][]byte
	for i, tables := range groups {
		p := &snapshotPart{ID: id, Part: i, Of: len(groups), Tables: tables}
		if i == 0 {
			p.Charset, p.Collation, p.Databases = c.charset, c.collation, map[string][2]string{}
			for name, d := range c.databases {
				p.Databases[name] = [2]string{d.charset, d.collation}
			}
		}
		b, err := json.Marshal(line{Millrace: extras{Snapshot: p}, Source: map[string]string{"server": server}, Position: pos.b, TsMs: tsMs})
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// restore takes a snapshot's parts over.
func (c *catalog) restore(parts []*snapshotPart) {
	c.databases, c.tables = map[string]databaseDef{}, map[TableID]*Table{}
	for _, p := range parts {
		if p.Part == 0 {
			c.charset, c.collation = p.Charset, p.Collation
			for name, d := range p.Databases {
				c.databases[name] = databaseDef{d[0], d[1]}
			}
		}
		for i := range p.Tables {
			t := p.Tables[i].table()
			c.tables[t.ID] = t
		}
	}
}
