package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/schema/config"
)

// checkServer reports what of the server stands in the way.
func (s *settings) checkServer(ctx context.Context, c *session) error {
	if c.version < 120000 {
		return connectors.BadConfig(fmt.Errorf("the server is Postgres %d; versions 12 and newer are supported; upgrade it", c.version/10000))
	}
	if !s.snapshot.Stream {
		return nil
	}
	level, err := c.setting(ctx, "wal_level")
	if err != nil {
		return err
	}
	if level != "logical" {
		return connectors.Failed(reasonWALLevel, nil, fmt.Sprintf("wal_level is %q, must be \"logical\"", level), "")
	}
	return nil
}

// checkTables reports what of the captured tables stands in the way.
func (s *settings) checkTables(tables []catalogTable, roots []string) error {
	if len(tables) == 0 && len(roots) > 0 {
		return connectors.Failed(reasonTables, nil,
			fmt.Sprintf("only partitioned tables are captured (%s), and their changes come under their partitions' names", strings.Join(roots, ", ")),
			"set publish.via.partition.root=true, or include the partitions in table.include.list")
	}
	if s.guardrail > 0 && s.guardrailFails && len(tables) > s.guardrail {
		return connectors.BadConfig(fmt.Errorf("%d tables are captured, and guardrail.collections.max=%d with guardrail.collections.limit.action=fail forbids that; narrow table.include.list or raise the limit", len(tables), s.guardrail))
	}
	return nil
}

// Validate looks at the configuration as a whole and then at the server. Each error
// stands at the key that mends it.
func (src *source) Validate(ctx context.Context) []*config.Error {
	s, errs := parse(src.v)
	if len(errs) > 0 {
		return errs
	}
	if s.checkTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.checkTimeout)
		defer cancel()
	}
	c, err := s.open(ctx, src.cc.Files)
	if err != nil {
		return []*config.Error{atKey(err, keyDatabaseHostname.Name)}
	}
	defer c.close()
	add := func(key string, err error) {
		if err != nil {
			errs = append(errs, atKey(err, key))
		}
	}
	add(keyDatabaseHostname.Name, s.checkServer(ctx, c))
	if s.snapshot.Stream {
		add(keyDatabaseUser.Name, s.checkRights(ctx, c))
	}
	all, err := c.listTables(ctx, s.ignoreBuiltin)
	if err != nil {
		add(keyDatabaseUser.Name, err)
		return errs
	}
	tables, roots := s.captured(all)
	add(cdc.KeyTableIncludeList.Name, s.checkTables(tables, roots))
	if len(tables) == 0 && len(roots) == 0 && (s.tables.Include != nil || s.tables.IncludeSchemas != nil) {
		key := cdc.KeyTableIncludeList.Name
		if s.tables.Include == nil {
			key = keySchemaIncludeList.Name
		}
		errs = append(errs, &config.Error{Key: key, Value: src.v.Raw[key], Reason: fmt.Sprintf(
			"no table of database %q matches; the patterns must match the whole name <schema>.<table>, such as public.orders", s.database)})
	}
	add(cdc.KeyTableIncludeList.Name, s.checkSelect(ctx, c, tables))
	if !s.snapshot.Stream { // no slot, no publication
		return errs
	}
	if st, err := c.slotState(ctx); err != nil {
		add(keySlotName.Name, err)
	} else if st != nil {
		if err := s.fit(st); !s.rereads(err) {
			add(keySlotName.Name, err)
		}
		if st.active && !src.ours(ctx, c, st) {
			add(keySlotName.Name, connectors.Failed(reasonSlotInUse, nil, fmt.Sprintf("slot %q is read by the server's process %s", s.slot, st.pid), ""))
		}
	}
	add(keyReplicaIdentityAutosetValues.Name, s.checkIdentities(ctx, c, tables))
	add(keyPublicationName.Name, s.checkPublication(ctx, c, tables))
	return errs
}

// ours reports whether the slot's reader is a task of this kind for the same slot: a
// running connector may be validated again.
func (src *source) ours(ctx context.Context, c *session, st *slotState) bool {
	rows, err := c.query(ctx, "SELECT application_name FROM pg_catalog.pg_stat_activity WHERE pid = "+st.pid)
	return err == nil && len(rows) == 1 && rows[0][0].text == c.s.application()
}

// checkRights reports what the user may not do.
func (s *settings) checkRights(ctx context.Context, c *session) error {
	rows, err := c.query(ctx, "SELECT rolreplication, rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user")
	if err != nil {
		return s.classify(err, "read the user's rights")
	}
	if len(rows) != 1 {
		return nil
	}
	replication, super := rows[0][0].text == "t", rows[0][1].text == "t"
	if !replication && !super {
		// Managed services give the right through membership of a role instead.
		rows, err := c.query(ctx, `SELECT count(*) FROM pg_catalog.pg_roles r WHERE (r.rolreplication OR r.rolname IN ('rds_replication', 'rds_superuser', 'cloudsqlsuperuser', 'azure_pg_admin'))
			AND pg_catalog.pg_has_role(current_user, r.oid, 'member')`)
		if err != nil || rows[0][0].text == "0" {
			return connectors.Failed(reasonRights, err, fmt.Sprintf("user %q lacks the right REPLICATION", s.user), fmt.Sprintf("ALTER ROLE %s REPLICATION", quoteName(s.user)))
		}
	}
	if s.publicationMode == "all_tables" && !super {
		rows, err := c.query(ctx, "SELECT 1 FROM pg_catalog.pg_publication WHERE pubname = "+quoteText(s.publication))
		if err == nil && len(rows) == 0 {
			return connectors.Failed(reasonRights, nil, fmt.Sprintf("user %q cannot create publication %q for all tables, which only a superuser may", s.user, s.publication),
				fmt.Sprintf("set publication.autocreate.mode=filtered, or have a superuser run CREATE PUBLICATION %s FOR ALL TABLES", quoteName(s.publication)))
		}
	}
	return nil
}

// checkSelect reports captured tables that the user may not read.
func (s *settings) checkSelect(ctx context.Context, c *session, tables []catalogTable) error {
	if !s.snapshot.Reads(false) || len(tables) == 0 {
		return nil
	}
	rows, err := c.query(ctx, `SELECT c.oid::regclass FROM pg_catalog.pg_class c WHERE c.oid IN (`+oidList(tables)+`)
		AND NOT (pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE') AND (pg_catalog.has_table_privilege(c.oid, 'SELECT') OR pg_catalog.has_any_column_privilege(c.oid, 'SELECT'))) ORDER BY 1 LIMIT 5`)
	if err != nil {
		return s.classify(err, "read the user's rights")
	}
	if len(rows) == 0 {
		return nil
	}
	var names []string
	for _, r := range rows {
		names = append(names, r[0].text)
	}
	list := strings.Join(names, ", ")
	return connectors.Failed(reasonRights, nil, fmt.Sprintf("user %q may not read %s", s.user, list),
		fmt.Sprintf("GRANT SELECT ON %s TO %s (and USAGE on the schema)", list, quoteName(s.user)))
}

// checkPublication reports a publication that must exist and does not, or that the user may
// not make.
func (s *settings) checkPublication(ctx context.Context, c *session, tables []catalogTable) error {
	if s.publicationMode == "filtered" && len(tables) > 0 {
		return s.checkMayPublish(ctx, c, tables)
	}
	if s.publicationMode != "disabled" {
		return nil
	}
	return s.preparePublication(ctx, c, tables) // changes nothing in this mode
}

// checkMayPublish reports what the user lacks for making the publication of the captured tables.
func (s *settings) checkMayPublish(ctx context.Context, c *session, tables []catalogTable) error {
	rows, err := c.query(ctx, `SELECT 1 FROM pg_catalog.pg_publication WHERE pubname = `+quoteText(s.publication))
	if err != nil {
		return s.classify(err, "look for the publication")
	}
	if len(rows) > 0 {
		return nil
	}
	rows, err = c.query(ctx, `SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')`)
	if err != nil {
		return s.classify(err, "read the user's rights")
	}
	make := "CREATE PUBLICATION " + quoteName(s.publication) + " FOR TABLE …"
	if rows[0][0].text != "t" {
		return connectors.Failed(reasonRights, nil, fmt.Sprintf("user %q cannot create publication %q in database %q", s.user, s.publication, s.database),
			fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s, or have the tables' owner run %s and set publication.autocreate.mode=disabled", quoteName(s.database), quoteName(s.user), make))
	}
	rows, err = c.query(ctx, `SELECT c.oid::regclass FROM pg_catalog.pg_class c WHERE c.oid IN (`+oidList(tables)+`) AND NOT pg_catalog.pg_has_role(c.relowner, 'USAGE') ORDER BY 1 LIMIT 5`)
	if err != nil {
		return s.classify(err, "read the owners of the captured tables")
	}
	if len(rows) == 0 {
		return nil
	}
	var names []string
	for _, r := range rows {
		names = append(names, r[0].text)
	}
	return connectors.Failed(reasonRights, nil, fmt.Sprintf("user %q does not own %s, and only a table's owner may publish it", s.user, strings.Join(names, ", ")),
		fmt.Sprintf("have the owner run %s and set publication.autocreate.mode=disabled", make))
}

// atKey puts an error at the key whose change mends it; where, unless its reason says
// better.
func atKey(err error, where string) *config.Error {
	e := &config.Error{Key: where, Reason: err.Error()}
	var cfg *config.Error
	if errors.As(err, &cfg) {
		return cfg
	}
	if f := connectors.FailureOf(err); f != nil {
		switch f.Reason {
		case reasonLogin:
			e.Key = keyDatabaseUser.Name
		case reasonDatabase:
			e.Key = keyDatabaseDbname.Name
		case reasonSlotForeign, reasonSlotLost, reasonSlotInUse, reasonSlotLimit:
			e.Key = keySlotName.Name
		case reasonPublication:
			e.Key = keyPublicationName.Name
		}
	}
	e.Text = "Error while validating connector config: " + e.Reason
	return e
}
