package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// quoteName quotes an identifier.
func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// quoteText quotes a literal, with standard_conforming_strings on.
func quoteText(text string) string { return `'` + strings.ReplaceAll(text, `'`, `''`) + `'` }

// A catalogTable is a table as the catalog lists it.
type catalogTable struct {
	oid          uint32
	schema, name string
	partitioned  bool // it holds no rows of its own
	partition    bool // it is part of a partitioned table
	rows         float64
}

func (t *catalogTable) String() string { return t.schema + "." + t.name }

func (t *catalogTable) quoted() string { return quoteName(t.schema) + "." + quoteName(t.name) }

// listTables lists all tables that could be captured, by name: those whose changes are
// in the log, so none that are temporary or unlogged.
func (c *session) listTables(ctx context.Context, builtin bool) ([]catalogTable, error) {
	where := ""
	if builtin {
		where = ` AND n.nspname NOT IN ('pg_catalog', 'information_schema')`
	}
	rows, err := c.query(ctx, `SELECT c.oid, n.nspname, c.relname, c.relkind, c.relispartition, c.reltuples
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND n.nspname !~ '^pg_(toast|temp)'`+where+`
		ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"`)
	if err != nil {
		return nil, c.s.classify(err, "list the tables")
	}
	out := make([]catalogTable, len(rows))
	for i, r := range rows {
		oid, _ := strconv.ParseUint(r[0].text, 10, 32)
		n, _ := strconv.ParseFloat(r[5].text, 64)
		out[i] = catalogTable{oid: uint32(oid), schema: r[1].text, name: r[2].text, partitioned: r[3].text == "p", partition: r[4].text == "t", rows: n}
	}
	return out, nil
}

// captured are the tables that the configuration names and whose rows come under
// their own name: with publish.via.partition.root partitioned tables and not their
// partitions, else partitions and not what they are part of.
func (s *settings) captured(all []catalogTable) (out []catalogTable, roots []string) {
	for _, t := range all {
		if !s.tables.Match(t.schema, t.name) {
			continue
		}
		switch {
		case t.partitioned && (!s.viaRoot || t.partition):
			roots = append(roots, t.String())
		case t.partition && s.viaRoot:
		default:
			out = append(out, t)
		}
	}
	return out, roots
}

// describe reads what the catalog knows of a table.
func (c *session) describe(ctx context.Context, oid uint32) (*described, error) {
	id := strconv.FormatUint(uint64(oid), 10)
	comment := "NULL"
	if c.s.comments {
		comment = "pg_catalog.col_description(a.attrelid, a.attnum)"
	}
	rows, err := c.query(ctx, `SELECT a.attname, a.atttypid, a.attnotnull, CASE WHEN a.attgenerated = '' THEN pg_catalog.pg_get_expr(d.adbin, d.adrelid) END, `+comment+`
		FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
		WHERE a.attrelid = `+id+` AND a.attnum > 0 AND NOT a.attisdropped`)
	if err != nil {
		return nil, c.s.classify(err, "read a table's columns")
	}
	d := &described{columns: make(map[string]catColumn, len(rows))}
	for _, r := range rows {
		typ, _ := strconv.ParseUint(r[1].text, 10, 32)
		d.columns[r[0].text] = catColumn{typ: uint32(typ), notNull: r[2].text == "t", def: r[3].text, comment: r[4].text}
	}
	rows, err = c.query(ctx, `SELECT a.attname, i.indisprimary, i.indisreplident
		FROM pg_catalog.pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(num, pos)
		JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.num
		WHERE i.indrelid = `+id+` AND (i.indisprimary OR i.indisreplident) AND k.pos <= i.indnkeyatts ORDER BY i.indexrelid, k.pos`)
	if err != nil {
		return nil, c.s.classify(err, "read a table's keys")
	}
	for _, r := range rows {
		if r[1].text == "t" {
			d.pk = append(d.pk, r[0].text)
		}
		if r[2].text == "t" {
			d.index = append(d.index, r[0].text)
		}
	}
	return d, nil
}

// shapeOf reads a table's shape for a snapshot: the columns that its changes have,
// which are those that the publication lets through, and generated ones only where it says so.
func (c *session) shapeOf(ctx context.Context, t *catalogTable, pub published) (*relation, error) {
	generated := `a.attgenerated = ''`
	if c.version >= 180000 && pub.columns != nil { // a publication can have stored ones there
		generated = `a.attgenerated IN ('', 's')`
	}
	rows, err := c.query(ctx, `SELECT a.attname, a.atttypid, a.atttypmod, c.relreplident
		FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
		WHERE a.attrelid = `+strconv.FormatUint(uint64(t.oid), 10)+` AND a.attnum > 0 AND NOT a.attisdropped AND `+generated+` ORDER BY a.attnum`)
	if err != nil {
		return nil, c.s.classify(err, fmt.Sprintf("read the columns of table %s", t))
	}
	rel := &relation{oid: t.oid, schema: t.schema, name: t.name, identity: 'd'}
	for _, r := range rows {
		typ, _ := strconv.ParseUint(r[1].text, 10, 32)
		mod, _ := strconv.ParseInt(r[2].text, 10, 32)
		rel.identity = r[3].text[0]
		if pub.columns != nil && !slices.Contains(pub.columns, r[0].text) {
			continue
		}
		rel.columns = append(rel.columns, relColumn{name: r[0].text, typ: uint32(typ), mod: int32(mod)})
	}
	return rel, nil
}

// readTypes reads what the catalog knows of types that a column can have, and the
// labels of enums.
func (c *session) readTypes(ctx context.Context) (map[uint32]*typeInfo, error) {
	rows, err := c.query(ctx, `SELECT t.oid, t.typname, t.typtype, t.typcategory, t.typelem, t.typdelim, t.typbasetype, t.typtypmod
		FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
		LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem LEFT JOIN pg_catalog.pg_class ec ON ec.oid = e.typrelid
		WHERE (c.oid IS NULL OR c.relkind = 'c') AND (ec.oid IS NULL OR ec.relkind = 'c')`)
	if err != nil {
		return nil, c.s.classify(err, "read the types")
	}
	types := make(map[uint32]*typeInfo, len(rows))
	num := func(f field) uint32 { n, _ := strconv.ParseUint(f.text, 10, 32); return uint32(n) }
	for _, r := range rows {
		mod, _ := strconv.ParseInt(r[7].text, 10, 32)
		types[num(r[0])] = &typeInfo{oid: num(r[0]), name: r[1].text, kind: r[2].text[0], category: r[3].text[0], elem: num(r[4]),
			delim: r[5].text[0], base: num(r[6]), baseMod: int32(mod)}
	}
	rows, err = c.query(ctx, `SELECT enumtypid, enumlabel FROM pg_catalog.pg_enum ORDER BY enumtypid, enumsortorder`)
	if err != nil {
		return nil, c.s.classify(err, "read the labels of enums")
	}
	for _, r := range rows {
		if t := types[num(r[0])]; t != nil {
			t.labels = append(t.labels, r[1].text)
		}
	}
	return types, nil
}

// knows reports whether types has all that a relation's columns are made of.
func knows(types map[uint32]*typeInfo, rel *relation) bool {
	return !slices.ContainsFunc(rel.columns, func(c relColumn) bool { return types[c.typ] == nil })
}

// A published is what a publication lets through of a table (Postgres 15 and newer):
// some columns, some rows. The snapshot must do the same.
type published struct {
	columns []string // nil: all
	filter  string   // a condition, or ""
}

func (c *session) publishedOf(ctx context.Context, t *catalogTable) (p published, err error) {
	if c.version < 150000 {
		return p, nil
	}
	rows, err := c.query(ctx, `SELECT a.name, p.rowfilter FROM pg_catalog.pg_publication_tables p CROSS JOIN LATERAL unnest(p.attnames) AS a(name)
		WHERE p.pubname = `+quoteText(c.s.publication)+` AND p.schemaname = `+quoteText(t.schema)+` AND p.tablename = `+quoteText(t.name))
	if err != nil {
		return p, c.s.classify(err, fmt.Sprintf("read what publication %q lets through of table %s", c.s.publication, t))
	}
	for _, r := range rows {
		p.columns, p.filter = append(p.columns, r[0].text), r[1].text
	}
	return p, nil
}

// hasEnum reports whether a relation has a column of an enum, or an array of one.
func hasEnum(types map[uint32]*typeInfo, rel *relation) bool {
	enum := func(oid uint32) bool { t := types[oid]; return t != nil && t.kind == 'e' }
	return slices.ContainsFunc(rel.columns, func(c relColumn) bool {
		t := types[c.typ]
		return enum(c.typ) || t != nil && (enum(t.elem) || enum(t.base))
	})
}

// A slotState is what the catalog says of a replication slot.
type slotState struct {
	plugin, database, kind string
	active                 bool
	pid                    string
	confirmed              lsn
	lost                   bool
	failover               bool
}

// slotState looks the slot up; nil: there is none.
func (c *session) slotState(ctx context.Context) (*slotState, error) {
	status, failover := "''", "false"
	if c.version >= 130000 {
		status = "wal_status"
	}
	if c.version >= failoverSince {
		failover = "failover"
	}
	rows, err := c.query(ctx, `SELECT plugin, database, slot_type, active, active_pid, confirmed_flush_lsn, `+status+`, `+failover+`
		FROM pg_catalog.pg_replication_slots WHERE slot_name = `+quoteText(c.s.slot))
	if err != nil {
		return nil, c.s.classify(err, fmt.Sprintf("look for slot %q", c.s.slot))
	}
	if len(rows) == 0 {
		return nil, nil
	}
	r := rows[0]
	st := &slotState{plugin: r[0].text, database: r[1].text, kind: r[2].text, active: r[3].text == "t", pid: r[4].text, lost: r[6].text == "lost", failover: r[7].text == "t"}
	if !r[5].null {
		if st.confirmed, err = parseLSN(r[5].text); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// currentLSN is the end of the server's log: of what it has written, or as a standby
// replayed.
func (c *session) currentLSN(ctx context.Context) (lsn, error) {
	rows, err := c.query(ctx, "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END")
	if err != nil {
		return 0, c.s.classify(err, "ask for the position of the log")
	}
	return parseLSN(rows[0][0].text)
}

// setting is a server setting's value.
func (c *session) setting(ctx context.Context, name string) (string, error) {
	rows, err := c.query(ctx, "SHOW "+name)
	if err != nil {
		return "", c.s.classify(err, "read the setting "+name)
	}
	return rows[0][0].text, nil
}
