package mysql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/schema/config"
)

var _ connectors.Validator = (*source)(nil)

// The oldest servers, and the shortest time that their logs should be kept.
const (
	oldestMySQL, oldestMariaDB = 80000, 100500
	shortestRetention          = 3600 // seconds
	mostProbed                 = 500  // tables whose rights are looked at
)

// Validate looks at the configuration as a whole and then at the server. Each error
// stands at the key that mends it.
func (src *source) Validate(ctx context.Context) []*config.Error {
	s, errs := parse(src.v, src.mariadb)
	if len(errs) > 0 {
		return errs
	}
	if s.history.file != "" && src.cc.Files != nil {
		if _, err := src.cc.Files.Check(s.history.file); err != nil {
			errs = append(errs, &config.Error{Key: keyHistoryFile.Name, Value: s.history.file, Reason: err.Error()})
		}
	}
	if s.checkTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.checkTimeout)
		defer cancel()
	}
	ss, err := s.open(ctx, src.cc.Files)
	if err != nil {
		return append(errs, atKey(err, keyDatabaseHostname.Name))
	}
	defer ss.close()
	add := func(key string, err error) {
		if err != nil {
			errs = append(errs, atKey(err, key))
		}
	}
	if err := ss.fit(); err != nil {
		return append(errs, atKey(err, keyDatabaseHostname.Name))
	}
	add(keyDatabaseHostname.Name, ss.checkVersion())
	add(keyDatabaseHostname.Name, ss.checkRowImage())
	add(keyDatabaseHostname.Name, ss.checkRetention(ctx))
	add(keyDatabaseServerID.Name, ss.checkServerID(ctx))
	add(keyDatabaseUser.Name, ss.checkGrants(ctx))
	if !ss.sv.gtids && (s.gtidIncludes != nil || s.gtidExcludes != nil) {
		key := keyGtidSourceIncludes.Name
		if s.gtidIncludes == nil {
			key = keyGtidSourceExcludes.Name
		}
		add(key, fmt.Errorf("the server %s numbers no transactions, so none can be chosen by its origin; set gtid_mode=ON and enforce_gtid_consistency=ON on the server, or leave the key out", s.host))
	}
	if s.query {
		add(keyIncludeQuery.Name, ss.checkQueries(ctx))
	}
	if s.backupLocks() {
		add(keySnapshotLockingMode.Name, ss.checkBackupLocks(ctx))
	}
	tables, err := (&task{s: s}).listTables(ctx, ss, s.captures)
	if err != nil {
		add(keyDatabaseUser.Name, err)
		return errs
	}
	tables = slices.DeleteFunc(tables, func(t snapshotTable) bool { return t.sequence })
	if len(tables) == 0 && (s.tables.Include != nil || s.tables.IncludeSchemas != nil) {
		key := cdc.KeyTableIncludeList.Name
		if s.tables.Include == nil {
			key = keyDatabaseIncludeList.Name
		}
		errs = append(errs, &config.Error{Key: key, Value: src.v.Raw[key], Reason: fmt.Sprintf(
			"no table that the user %q may see matches; the patterns must match the whole name <database>.<table>, such as shop.orders, or GRANT SELECT on the tables to the user", s.user)})
	}
	if s.guardrail > 0 && s.guardrailFails && len(tables) > s.guardrail {
		add(cdc.KeyTableIncludeList.Name, connectors.BadConfig(fmt.Errorf("%d tables are captured, and guardrail.collections.max=%d with guardrail.collections.limit.action=fail forbids that; narrow table.include.list or raise the limit", len(tables), s.guardrail)))
	}
	add(cdc.KeyTableIncludeList.Name, ss.checkSelect(ctx, tables))
	return errs
}

// checkVersion reports a server that is too old.
func (ss *session) checkVersion() error {
	oldest, name := oldestMySQL, "MySQL 8.0"
	if ss.sv.mariadb {
		oldest, name = oldestMariaDB, "MariaDB 10.5"
	}
	if ss.sv.number < oldest {
		return connectors.BadConfig(fmt.Errorf("the server %s is %s %s; %s and newer are supported; upgrade it", ss.s.host, ss.s.product(), ss.sv.version, name))
	}
	return nil
}

// checkRowImage reports rows that are logged in part. NOBLOB leaves out what did not
// change, and can be made up for.
func (ss *session) checkRowImage() error {
	if image := ss.sv.image; strings.EqualFold(image, "MINIMAL") {
		return connectors.Failed(reasonRowImage, nil, fmt.Sprintf("binlog_row_image of the server %s is %q, must be \"FULL\"", ss.s.host, image),
			"SET GLOBAL binlog_row_image = 'FULL', and in the server's configuration; sessions that are open keep their own value until they connect again")
	}
	return nil
}

// checkRetention reports a log that is kept too shortly for a pause of the connector.
func (ss *session) checkRetention(ctx context.Context) error {
	rows, err := ss.query(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('binlog_expire_logs_seconds', 'expire_logs_days')")
	if err != nil {
		return ss.s.classify(err, "read how long the server keeps its binary log")
	}
	seconds := 0.0
	for _, r := range rows {
		n, err := strconv.ParseFloat(r[1].text, 64)
		if err != nil {
			continue
		}
		if r[0].text == "expire_logs_days" {
			n *= 86400
		}
		seconds = max(seconds, n) // 0: it is kept without end
	}
	if seconds == 0 || seconds >= shortestRetention {
		return nil
	}
	return fmt.Errorf("the server %s keeps its binary log for %.0f seconds only: a connector that is stopped for longer loses its position; SET GLOBAL binlog_expire_logs_seconds = 604800, and in the server's configuration", ss.s.host, seconds)
}

// checkServerID reports a number that somebody else has.
func (ss *session) checkServerID(ctx context.Context) error {
	id := ss.s.serverID
	if id == ss.sv.id {
		return connectors.Failed(reasonServerID, nil, fmt.Sprintf("database.server.id=%d is the number of the server %s itself (@@server_id)", id, ss.s.host), "give this connector a database.server.id that no server, replica or other connector has")
	}
	sql := "SHOW REPLICAS"
	if ss.sv.mariadb || ss.sv.number < 80022 {
		sql = "SHOW SLAVE HOSTS"
	}
	rows, err := ss.query(ctx, sql)
	if err != nil {
		return nil // without the right to see them; checkGrants speaks of rights
	}
	here, _ := os.Hostname() // a running task of this worker is no other reader
	for _, r := range rows {
		if len(r) > 1 && r[0].text == strconv.FormatUint(uint64(id), 10) && r[1].text != here {
			return connectors.Failed(reasonServerID, nil, fmt.Sprintf("database.server.id=%d is in use: the server's list of replicas (%s) has it for the host %q", id, sql, r[1].text), "")
		}
	}
	return nil
}

// checkGrants reports what the user may not do.
func (ss *session) checkGrants(ctx context.Context) error {
	grants, err := ss.grants(ctx)
	if err != nil {
		return ss.s.classify(err, "read the user's rights")
	}
	has := func(rights ...string) bool {
		for _, g := range grants {
			if slices.Contains(rights, g) {
				return true
			}
		}
		return slices.Contains(grants, "ALL PRIVILEGES") || slices.Contains(grants, "ALL")
	}
	var missing []string
	if !has("REPLICATION SLAVE", "REPLICATION REPLICA") {
		missing = append(missing, "REPLICATION SLAVE")
	}
	switch {
	case ss.sv.mariadb && !has("BINLOG MONITOR", "REPLICATION CLIENT", "SUPER"):
		missing = append(missing, "BINLOG MONITOR")
	case !ss.sv.mariadb && !has("REPLICATION CLIENT", "SUPER"):
		missing = append(missing, "REPLICATION CLIENT")
	}
	if ss.s.lockingMode != "none" && !ss.s.backupLocks() && !has("RELOAD", "FLUSH_TABLES", "LOCK TABLES") && !ss.locksTables(ctx) {
		missing = append(missing, "RELOAD")
	}
	if len(missing) == 0 {
		return nil
	}
	who := "CURRENT_USER()"
	if rows, err := ss.query(ctx, "SELECT CURRENT_USER()"); err == nil && len(rows) == 1 {
		name, host, _ := strings.Cut(rows[0][0].text, "@")
		who = quoteText(name) + "@" + quoteText(host)
	}
	list := strings.Join(missing, ", ")
	return connectors.Failed(reasonRights, nil, fmt.Sprintf("the user %q lacks %s", ss.s.user, list), fmt.Sprintf("GRANT %s ON *.* TO %s", list, who))
}

// grants are the user's rights on all databases, in capitals, roles in force included.
func (ss *session) grants(ctx context.Context) ([]string, error) {
	sql := "SHOW GRANTS"
	if !ss.sv.mariadb {
		if rows, err := ss.query(ctx, "SELECT CURRENT_ROLE()"); err == nil && rows[0][0].text != "NONE" && rows[0][0].text != "" {
			sql = "SHOW GRANTS FOR CURRENT_USER() USING " + rows[0][0].text
		}
	}
	rows, err := ss.query(ctx, sql)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range rows {
		text := strings.ToUpper(r[0].text)
		rest, ok := strings.CutPrefix(text, "GRANT ")
		list, on, ok2 := strings.Cut(rest, " ON ")
		if !ok || !ok2 || !strings.HasPrefix(on, "*.*") {
			continue
		}
		for _, right := range strings.Split(list, ",") {
			out = append(out, strings.TrimSpace(right))
		}
	}
	return out, nil
}

// locksTables reports whether the user may lock a database's tables one by one.
func (ss *session) locksTables(ctx context.Context) bool {
	rows, err := ss.query(ctx, "SHOW GRANTS")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(rows, func(r []field) bool {
		rights, on, _ := strings.Cut(strings.ToUpper(r[0].text), " ON ")
		return on != "" && (strings.Contains(rights, "LOCK TABLES") || strings.HasPrefix(rights, "GRANT ALL"))
	})
}

// checkBackupLocks reports a server without them, and a user who may not take them. Preparing the statement takes no lock.
func (ss *session) checkBackupLocks(ctx context.Context) error {
	err := ss.exec(ctx, "PREPARE millrace FROM "+quoteText(backupLock))
	if errorCode(err) == erSyntax {
		return ss.noBackupLocks()
	}
	grants, err := ss.grants(ctx)
	if err != nil {
		return ss.s.classify(err, "read the user's rights")
	}
	if slices.ContainsFunc(grants, func(g string) bool { return g == "BACKUP_ADMIN" || g == "ALL" || g == "ALL PRIVILEGES" }) ||
		ss.s.lockingMode == lockPercona && ss.locksTables(ctx) {
		return nil
	}
	return connectors.Failed(reasonRights, nil, fmt.Sprintf("the user %q lacks BACKUP_ADMIN", ss.s.user), "GRANT BACKUP_ADMIN ON *.* TO the user")
}

// checkQueries reports a server that does not log the statements of rows.
func (ss *session) checkQueries(ctx context.Context) error {
	name := "binlog_rows_query_log_events"
	if ss.sv.mariadb {
		name = "binlog_annotate_row_events"
	}
	rows, err := ss.query(ctx, "SELECT @@global."+name)
	if err != nil {
		return ss.s.classify(err, "read "+name)
	}
	if rows[0][0].text == "1" {
		return nil
	}
	return fmt.Errorf("the server %s does not log the statements that change rows; SET GLOBAL %s = ON, and in the server's configuration, or set include.query=false", ss.s.host, name)
}

// checkSelect reports captured tables that the user may not read.
func (ss *session) checkSelect(ctx context.Context, tables []snapshotTable) error {
	var hidden []string
	for _, t := range tables[:min(len(tables), mostProbed)] {
		_, err := ss.query(ctx, "SELECT * FROM "+t.id.quoted()+" LIMIT 0")
		switch code := errorCode(err); {
		case code == erTableAccessDenied || code == erColumnAccessDenied || code == erDBAccessDenied:
			hidden = append(hidden, t.id.String())
		case err != nil && ctx.Err() != nil:
			return ss.s.classify(err, "look at the captured tables")
		}
	}
	if len(hidden) == 0 {
		return nil
	}
	more := ""
	if len(hidden) > 5 {
		more = fmt.Sprintf(" and %d more", len(hidden)-5)
		hidden = hidden[:5]
	}
	return connectors.Failed(reasonRights, nil, fmt.Sprintf("the user %q may not read all columns of %s%s", ss.s.user, strings.Join(hidden, ", "), more), "GRANT SELECT on the tables to the user, or leave them out of table.include.list")
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
		case reasonTLS:
			e.Key = "database.ssl.mode"
		case reasonServerID:
			e.Key = keyDatabaseServerID.Name
		}
	}
	e.Text = "Error while validating connector config: " + e.Reason
	return e
}
