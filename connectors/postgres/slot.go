package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"millrace/connectors"
)

// A madeSlot is a slot that was just created: where its changes begin, and the name
// of the snapshot that stands exactly there.
type madeSlot struct {
	begins   lsn
	snapshot string
}

// createSlot creates a logical slot on a connection for replication. Its snapshot
// can be used until the connection's next command.
func (s *settings) createSlot(ctx context.Context, conn *pgconn.PgConn, version int, name string, temporary bool) (madeSlot, error) {
	sql := s.createSQL(version, name, temporary)
	rows, err := readRows(conn.Exec(ctx, sql))
	if err != nil {
		return madeSlot{}, s.classify(err, fmt.Sprintf("create slot %q", name))
	}
	if len(rows) != 1 || len(rows[0]) < 3 {
		return madeSlot{}, fmt.Errorf("create slot %q: the server answered in an unknown form", name)
	}
	at, err := parseLSN(rows[0][1].text)
	return madeSlot{at, rows[0][2].text}, err
}

// slotWord is after what time the first word comes of a slot that the server does not make yet.
const slotWord = 3 * time.Second

// makeSlot is createSlot, and tells what it waits for: a server makes a slot once all transactions have ended that wrote when it was asked.
func (t *task) makeSlot(ctx context.Context, c *session, conn *pgconn.PgConn, name string, temporary bool) (made madeSlot, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		made, err = t.s.createSlot(ctx, conn, c.version, name, temporary)
	}()
	for wait := slotWord; ; wait = min(2*wait, time.Minute) {
		timer := time.NewTimer(wait)
		select {
		case <-done:
			timer.Stop()
			return made, err
		case <-timer.C:
		}
		open, e := c.writers(ctx)
		t.lg.Warn("the server has not made the slot yet: it waits for the transactions to end that wrote when it was asked (on a standby, for word of those on the primary, which pg_log_standby_snapshot() gives there)",
			"slot", name, "open", open, "error", e)
	}
}

// writers are the oldest transactions that have written and are open, of any database.
func (c *session) writers(ctx context.Context) ([]string, error) {
	rows, err := c.query(ctx, `SELECT who FROM (SELECT xact_start AS since, 'pid ' || pid || ' of ' || usename || ' since ' || xact_start::text AS who FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL
		UNION ALL SELECT prepared, 'prepared ' || gid || ' of ' || owner || ' since ' || prepared::text FROM pg_catalog.pg_prepared_xacts) w ORDER BY since LIMIT 5`)
	if err != nil {
		return nil, c.s.classify(err, "look for open transactions")
	}
	var out []string
	for _, r := range rows {
		out = append(out, r[0].text)
	}
	return out, nil
}

// createSQL is the command that creates a slot and exports its snapshot.
func (s *settings) createSQL(version int, name string, temporary bool) string {
	sql := "CREATE_REPLICATION_SLOT " + quoteName(name)
	if temporary {
		sql += " TEMPORARY"
	}
	sql += " LOGICAL pgoutput "
	switch {
	case version >= failoverSince && s.failover && !temporary:
		sql += "(SNAPSHOT 'export', FAILOVER true)"
	case version >= 150000:
		sql += "(SNAPSHOT 'export')"
	default:
		sql += "EXPORT_SNAPSHOT"
	}
	return sql
}

// failoverSince is the version from which on standby servers can keep slots in step.
const failoverSince = 170000

// withoutFailover is why slot.failover has no effect, with the remedy; "" where it has one, or is not asked for.
func (s *settings) withoutFailover(version int, st *slotState) string {
	switch {
	case !s.failover || st != nil && st.failover:
		return ""
	case version < failoverSince:
		return "standby servers keep slots in step from Postgres 17 on, and this server is older: after a failover the slot is gone"
	case st != nil:
		return "the slot was created without it: stop the connector and run ALTER_REPLICATION_SLOT " + quoteName(s.slot) + " (FAILOVER true) on a connection for replication (psql \"dbname=… replication=database\")"
	}
	return ""
}

// dropSlot drops the slot after an orderly stop.
func (t *task) dropSlot() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := t.s.open(ctx, t.cc.Files)
	if err == nil {
		defer c.close()
		for { // the server may not have noticed yet that we let go
			if _, err = c.query(ctx, "SELECT pg_catalog.pg_drop_replication_slot("+quoteText(t.s.slot)+")"); sqlState(err) != "55006" {
				break
			}
			if !pause(ctx, 50*time.Millisecond) {
				break
			}
		}
	}
	if err != nil && sqlState(err) != "42704" {
		t.lg.Warn("slot not dropped", "slot", t.s.slot, "error", err)
	}
}

// pause waits and reports whether ctx still lasts.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// fit reports why a slot cannot be used, or nil.
func (s *settings) fit(st *slotState) error {
	switch {
	case st.kind != "logical":
		return connectors.Failed(reasonSlotForeign, nil, fmt.Sprintf("slot %q is a %s one", s.slot, st.kind), "")
	case st.plugin != "pgoutput":
		return connectors.Failed(reasonSlotForeign, nil, fmt.Sprintf("slot %q decodes with plugin %q, want pgoutput", s.slot, st.plugin), "")
	case st.database != s.database:
		return connectors.Failed(reasonSlotForeign, nil, fmt.Sprintf("slot %q belongs to database %q, not %q", s.slot, st.database, s.database), "")
	case st.lost:
		return connectors.Failed(reasonSlotLost, nil, fmt.Sprintf("slot %q was invalidated by the server: it had to keep more of the log than max_slot_wal_keep_size allows, or stood idle too long", s.slot), "")
	}
	return nil
}

// behind reports as an error that the slot has let go of what comes after a stored
// position.
func (s *settings) behind(st *slotState, p position) error {
	if st.confirmed <= p.commit {
		return nil
	}
	cause := fmt.Sprintf("slot %q is confirmed up to %s, but the stored position is %s: the changes between are gone", s.slot, st.confirmed, p.commit)
	switch s.mismatch {
	case "no_validation", "trust_slot", "trust_greater_lsn":
		return nil
	}
	return connectors.Failed(reasonSlotLost, nil, cause, "")
}

// beyond reports as an error that a stored position lies beyond the end of the server's
// log: what the server writes up to there would be taken for known.
func (s *settings) beyond(ctx context.Context, c *session, p position) (bool, error) {
	l, err := c.lookAtSlot(ctx)
	if err != nil || p.commit <= l.end+1 { // a message outside of transactions is followed by its own place
		return false, err
	}
	if s.mismatch == "trust_slot" {
		return true, nil
	}
	return true, connectors.Failed(reasonAhead, nil, fmt.Sprintf("the stored position %s lies beyond the end of the server's log, %s", p.commit, l.end), "")
}

// preparePublication does what publication.autocreate.mode says.
func (s *settings) preparePublication(ctx context.Context, c *session, tables []catalogTable) error {
	viaRoot := "false"
	if c.version >= 130000 {
		viaRoot = "pubviaroot"
	}
	rows, err := c.query(ctx, "SELECT puballtables, "+viaRoot+" FROM pg_catalog.pg_publication WHERE pubname = "+quoteText(s.publication))
	if err != nil {
		return s.classify(err, "look for the publication")
	}
	exists := len(rows) > 0
	if exists && s.publicationMode != "filtered" {
		if err := s.checkRoot(tables, rows[0][1].text == "t"); err != nil {
			return err
		}
	}
	name := quoteName(s.publication)
	with := ""
	if s.viaRoot && c.version >= 130000 {
		with = " WITH (publish_via_partition_root = true)"
	}
	var sql string
	switch s.publicationMode {
	case "disabled":
		if !exists {
			return connectors.Failed(reasonPublication, nil, fmt.Sprintf("there is no publication %q in database %q", s.publication, s.database), "")
		}
		return nil
	case "all_tables":
		sql = "CREATE PUBLICATION " + name + " FOR ALL TABLES" + with
	case "no_tables":
		sql = "CREATE PUBLICATION " + name + with
	case "filtered":
		if len(tables) == 0 {
			return connectors.Failed(reasonTables, nil, fmt.Sprintf("publication %q cannot be made for the captured tables: there are none", s.publication), "")
		}
		names := make([]string, len(tables))
		for i, t := range tables {
			names[i] = t.quoted()
		}
		list := strings.Join(names, ", ")
		if !exists {
			sql = "CREATE PUBLICATION " + name + " FOR TABLE " + list + with
			break
		}
		if rows[0][0].text == "t" {
			return connectors.Failed(reasonPublication, nil, fmt.Sprintf("publication %q is for all tables and cannot be narrowed to the captured ones", s.publication),
				"drop it, give this connector a publication.name of its own, or set publication.autocreate.mode=all_tables")
		}
		return s.alterPublication(ctx, c, tables)
	}
	if exists {
		return nil
	}
	if _, err := c.query(ctx, sql); err != nil && sqlState(err) != "42710" { // somebody else made it just now
		return s.classify(err, fmt.Sprintf("create publication %q", s.publication))
	}
	return nil
}

// checkRoot reports a publication that sends changes of partitions under another name
// than the one under which they are captured: none would come, in silence.
func (s *settings) checkRoot(tables []catalogTable, root bool) error {
	i := slices.IndexFunc(tables, func(t catalogTable) bool { return s.viaRoot && t.partitioned || !s.viaRoot && t.partition })
	if i < 0 || root == s.viaRoot {
		return nil
	}
	return connectors.Failed(reasonPublication, nil,
		fmt.Sprintf("publication %q has publish_via_partition_root=%t, so changes of %s would not come under that name", s.publication, root, &tables[i]),
		fmt.Sprintf("ALTER PUBLICATION %s SET (publish_via_partition_root = %t), or set publish.via.partition.root=%t", quoteName(s.publication), s.viaRoot, root))
}

// unpublished are the captured tables whose changes the publication does not send.
func (s *settings) unpublished(ctx context.Context, c *session, tables []catalogTable) ([]string, error) {
	rows, err := c.query(ctx, "SELECT schemaname, tablename FROM pg_catalog.pg_publication_tables WHERE pubname = "+quoteText(s.publication))
	if err != nil {
		return nil, s.classify(err, "read the publication's tables")
	}
	sent := make(map[string]bool, len(rows))
	for _, r := range rows {
		sent[r[0].text+"."+r[1].text] = true
	}
	var out []string
	for _, t := range tables {
		if !sent[t.String()] {
			out = append(out, t.String())
		}
	}
	return out, nil
}

// alterPublication sets a publication's tables where they differ: without need it
// would want the ownership of all of them at each start.
func (s *settings) alterPublication(ctx context.Context, c *session, tables []catalogTable) error {
	rows, err := c.query(ctx, `SELECT r.prrelid, n.nspname, c.relname FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
		JOIN pg_catalog.pg_class c ON c.oid = r.prrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = `+quoteText(s.publication))
	if err != nil {
		return s.classify(err, "read the publication's tables")
	}
	var have, names, want, add, drop []string
	for _, r := range rows {
		have, names = append(have, r[0].text), append(names, quoteName(r[1].text)+"."+quoteName(r[2].text))
	}
	for _, t := range tables {
		want = append(want, fmt.Sprint(t.oid))
	}
	// What is in it already stays as it is: it may have a list of columns or a filter.
	for _, t := range tables {
		if !slices.Contains(have, fmt.Sprint(t.oid)) {
			add = append(add, t.quoted())
		}
	}
	for i, oid := range have {
		if !slices.Contains(want, oid) {
			drop = append(drop, names[i])
		}
	}
	for _, change := range []struct {
		verb   string
		tables []string
	}{{"ADD", add}, {"DROP", drop}} {
		if len(change.tables) == 0 {
			continue
		}
		if _, err := c.query(ctx, "ALTER PUBLICATION "+quoteName(s.publication)+" "+change.verb+" TABLE "+strings.Join(change.tables, ", ")); err != nil {
			return s.classify(err, fmt.Sprintf("set the tables of publication %q", s.publication))
		}
	}
	if s.viaRoot && c.version >= 130000 {
		if _, err := c.query(ctx, "ALTER PUBLICATION "+quoteName(s.publication)+" SET (publish_via_partition_root = true)"); err != nil {
			return s.classify(err, fmt.Sprintf("set the options of publication %q", s.publication))
		}
	}
	return nil
}

// setIdentities does what replica.identity.autoset.values says, where it is not so
// already.
func (s *settings) setIdentities(ctx context.Context, c *session, tables []catalogTable) error {
	letter := map[string]string{"DEFAULT": "d", "NOTHING": "n", "FULL": "f"}
	for i := range tables {
		t := &tables[i]
		r := s.ruleOf(t)
		if r == nil {
			continue
		}
		if r.index == "" {
			rows, err := c.query(ctx, fmt.Sprintf("SELECT relreplident FROM pg_catalog.pg_class WHERE oid = %d", t.oid))
			if err != nil {
				return s.classify(err, "read a replica identity")
			}
			if len(rows) == 1 && rows[0][0].text == letter[r.clause] {
				continue
			}
		}
		if _, err := c.query(ctx, r.sql(t)); err != nil {
			return s.classify(err, fmt.Sprintf("set the replica identity of table %s", t))
		}
	}
	return nil
}

// startSQL is the command that starts streaming at a position.
func (s *settings) startSQL(version int, at lsn) string {
	var b strings.Builder
	fmt.Fprintf(&b, "START_REPLICATION SLOT %s LOGICAL %s (\"proto_version\" '1', \"publication_names\" %s", quoteName(s.slot), at, quoteText(quoteName(s.publication)))
	if version >= 140000 {
		b.WriteString(", \"messages\" 'true'")
	}
	for _, p := range s.streamParams {
		fmt.Fprintf(&b, ", %s %s", quoteName(p.name), quoteText(p.value))
	}
	b.WriteString(")")
	return b.String()
}
