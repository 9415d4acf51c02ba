package postgres

import (
	"context"
	"fmt"
	"strings"

	"millrace/connectors"
)

// ruleOf is the rule of replica.identity.autoset.values for a table, or nil.
func (s *settings) ruleOf(t *catalogTable) *identityRule {
	for i := range s.identities {
		if s.identities[i].tables.Match(t.String()) {
			return &s.identities[i]
		}
	}
	return nil
}

// sql is the statement that a rule stands for.
func (r *identityRule) sql(t *catalogTable) string {
	sql := "ALTER TABLE " + t.quoted() + " REPLICA IDENTITY " + r.clause
	if r.index != "" {
		sql += " " + quoteName(r.index)
	}
	return sql
}

// oidList is what stands within IN ( … ); there must be a table.
func oidList(tables []catalogTable) string {
	oids := make([]string, len(tables))
	for i, t := range tables {
		oids[i] = fmt.Sprint(t.oid)
	}
	return strings.Join(oids, ", ")
}

// checkIdentities reports a rule of replica.identity.autoset.values that cannot be applied: the
// index is not there or does not fit, or the table is somebody else's.
func (s *settings) checkIdentities(ctx context.Context, c *session, tables []catalogTable) error {
	var ruled []catalogTable
	byOID := map[string]*catalogTable{}
	for i := range tables {
		if s.ruleOf(&tables[i]) != nil {
			ruled = append(ruled, tables[i])
			byOID[fmt.Sprint(tables[i].oid)] = &tables[i]
		}
	}
	if len(ruled) == 0 {
		return nil
	}
	rows, err := c.query(ctx, `SELECT i.indrelid, x.relname, i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
			AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) AND NOT a.attnotnull), i.indisreplident
		FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid WHERE i.indrelid IN (`+oidList(ruled)+`)`)
	if err != nil {
		return s.classify(err, "read the indexes of the captured tables")
	}
	fits, now := map[string]bool{}, map[string]string{} // by table and index
	for _, r := range rows {
		fits[r[0].text+"."+r[1].text] = r[2].text == "t"
		if r[3].text == "t" {
			now[r[0].text] = r[1].text
		}
	}
	rows, err = c.query(ctx, `SELECT oid, relreplident, pg_catalog.pg_has_role(relowner, 'USAGE') FROM pg_catalog.pg_class WHERE oid IN (`+oidList(ruled)+`)`)
	if err != nil {
		return s.classify(err, "read the replica identities of the captured tables")
	}
	for _, r := range rows {
		t := byOID[r[0].text]
		rule := s.ruleOf(t)
		there := map[string]string{"DEFAULT": "d", "NOTHING": "n", "FULL": "f"}[rule.clause] == r[1].text
		if rule.index != "" {
			fit, exists := fits[r[0].text+"."+rule.index]
			switch {
			case !exists:
				return connectors.Failed(reasonIdentity, nil, fmt.Sprintf("table %s has no index %q, which its replica identity is to use", t, rule.index), "")
			case !fit:
				return connectors.Failed(reasonIdentity, nil, fmt.Sprintf("index %q of table %s cannot be its replica identity: it must be unique, whole and not deferrable, of columns that are NOT NULL", rule.index, t), "")
			}
			there = r[1].text == "i" && now[r[0].text] == rule.index
		}
		if !there && r[2].text != "t" {
			return connectors.Failed(reasonIdentity, nil, fmt.Sprintf("table %s is not user %q's own, so its replica identity cannot be set by it", t, s.user),
				"have the table's owner run "+rule.sql(t))
		}
	}
	return nil
}

// withoutIdentity are captured tables of which the server refuses UPDATE and DELETE to everybody,
// since the publication sends such changes and nothing says which row they are about.
func (s *settings) withoutIdentity(ctx context.Context, c *session, tables []catalogTable) ([]string, error) {
	if len(tables) == 0 {
		return nil, nil
	}
	rows, err := c.query(ctx, `SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.oid IN (`+oidList(tables)+`) AND c.relkind = 'r' AND (c.relreplident = 'n' OR c.relreplident = 'd' AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))
		AND EXISTS (SELECT 1 FROM pg_catalog.pg_publication p WHERE p.pubname = `+quoteText(s.publication)+` AND (p.pubupdate OR p.pubdelete))
		ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"`)
	if err != nil {
		return nil, s.classify(err, "read the replica identities of the captured tables")
	}
	var out []string
	for _, r := range rows {
		out = append(out, r[0].text+"."+r[1].text)
	}
	return out, nil
}
