package mysql

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"millrace/connectors"
)

// A session is a connection for queries. Its time zone is UTC, and it speaks utf8mb4.
// One goroutine uses it.
type session struct {
	c  *client.Conn
	s  *settings
	sv server
}

// A server is what its variables say about it.
type server struct {
	version string // "9.7.4", "10.11.14-MariaDB-…"
	number  int    // 90704, 101114
	mariadb bool
	gtids   bool // it numbers all transactions (gtid_mode=ON), so that they tell where a reader stands
	logBin  bool
	format  string
	image   string
	id      uint32
}

// connect opens a connection and signs in.
func (s *settings) connect(ctx context.Context, files connectors.Files) (*client.Conn, error) {
	addr := net.JoinHostPort(s.host, strconv.Itoa(s.port))
	conf, err := s.tls(files)
	if err != nil {
		return nil, err
	}
	c, err := s.dial(ctx, addr, conf)
	if s.sslMode == "preferred" && errors.Is(err, errNoTLS) {
		return s.dial(ctx, addr, nil)
	}
	return c, err
}

// open opens a session and looks at the server.
func (s *settings) open(ctx context.Context, files connectors.Files) (*session, error) {
	c, err := s.connect(ctx, files)
	if err != nil {
		return nil, err
	}
	ss := &session{c: c, s: s}
	if err := ss.begin(ctx); err != nil {
		ss.close()
		return nil, err
	}
	return ss, nil
}

func (ss *session) begin(ctx context.Context) error {
	// A full log may hold a connection for long: the server must not take it for dead.
	write, read := cmp.Or(ss.s.netWrite, 3600), cmp.Or(ss.s.netRead, 3600)
	set := fmt.Sprintf("SET NAMES utf8mb4, time_zone = '+00:00', sql_mode = '', net_write_timeout = %d, net_read_timeout = %d, wait_timeout = 86400", write, read)
	for _, sql := range append([]string{set}, ss.s.initial...) {
		if err := ss.exec(ctx, sql); err != nil {
			return err
		}
	}
	rows, err := ss.query(ctx, "SELECT VERSION(), @@global.log_bin, @@global.binlog_format, @@global.binlog_row_image, @@global.server_id")
	if err != nil {
		return err
	}
	r := rows[0]
	sv := server{version: r[0].text, logBin: r[1].text == "1", format: r[2].text, image: r[3].text}
	id, _ := strconv.ParseUint(r[4].text, 10, 32)
	sv.id = uint32(id)
	sv.number = versionNumber(sv.version)
	sv.mariadb = strings.Contains(strings.ToLower(sv.version), "mariadb")
	if sv.mariadb {
		sv.gtids = true
	} else {
		rows, err := ss.query(ctx, "SELECT @@global.gtid_mode")
		if err != nil {
			return err
		}
		sv.gtids = strings.EqualFold(rows[0][0].text, "ON")
	}
	ss.sv = sv
	return nil
}

// versionNumber is 90704 of "9.7.4-log".
func versionNumber(s string) int {
	n := 0
	rest := strings.TrimPrefix(s, "5.5.5-") // as older clients are told of MariaDB
	for range 3 {
		end := 0
		for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
			end++
		}
		part, _ := strconv.Atoi(rest[:end])
		n = n*100 + part
		rest = strings.TrimPrefix(rest[end:], ".")
	}
	return n
}

func (ss *session) close() { _ = ss.c.Close() }

// cut ends what another goroutine is doing with the session. The driver's own Close is not made for that.
func (ss *session) cut() { _ = ss.c.Conn.Conn.Close() }

// A field of a result; null stands apart from "".
type field struct {
	text string
	null bool
}

// query runs a statement and returns its rows, which must be few. ctx's end closes the
// connection.
func (ss *session) query(ctx context.Context, sql string) ([][]field, error) {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if ss.s.queryTimeout > 0 {
		limited, cancel = context.WithTimeout(ctx, ss.s.queryTimeout)
	}
	defer cancel()
	stop := context.AfterFunc(limited, ss.cut)
	r, err := ss.c.Execute(sql)
	if !stop() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, ss.s.classify(limited.Err(), fmt.Sprintf("run %s within %s (%s)", clip(sql), ss.s.queryTimeout, keyDatabaseQueryTimeout.Name))
	}
	if err != nil {
		return nil, ss.s.classify(err, "run "+clip(sql))
	}
	if r.Resultset == nil {
		return nil, nil
	}
	out := make([][]field, 0, len(r.Values))
	for _, row := range r.Values {
		fs := make([]field, len(row))
		for i := range row {
			fs[i].null = row[i].Type == mysql.FieldValueTypeNull
			switch row[i].Type {
			case mysql.FieldValueTypeString:
				fs[i].text = string(row[i].AsString())
			case mysql.FieldValueTypeUnsigned:
				fs[i].text = strconv.FormatUint(row[i].AsUint64(), 10)
			case mysql.FieldValueTypeSigned:
				fs[i].text = strconv.FormatInt(row[i].AsInt64(), 10)
			case mysql.FieldValueTypeFloat:
				fs[i].text = strconv.FormatFloat(row[i].AsFloat64(), 'g', -1, 64)
			}
		}
		out = append(out, fs)
	}
	r.Close()
	return out, nil
}

func (ss *session) exec(ctx context.Context, sql string) error {
	_, err := ss.query(ctx, sql)
	return err
}

// clip is the front of a statement for messages.
func clip(sql string) string {
	if len(sql) > 120 {
		return sql[:120] + "…"
	}
	return sql
}

// quoteName quotes a name for SQL, quoteText a text.
func quoteName(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }
func quoteText(s string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", "''") + "'"
}

func (id TableID) quoted() string { return quoteName(id.Database) + "." + quoteName(id.Name) }

// A place of the log and what was executed before it.
type logPlace struct {
	file  string
	pos   int64
	gtids *gtidSet
}

// place asks where the log ends.
func (ss *session) place(ctx context.Context) (logPlace, error) {
	sql := "SHOW BINARY LOG STATUS"
	if ss.sv.mariadb || ss.sv.number < 80200 {
		sql = "SHOW MASTER STATUS"
	}
	rows, err := ss.query(ctx, sql)
	if err != nil {
		return logPlace{}, err
	}
	if len(rows) == 0 || len(rows[0]) < 2 {
		return logPlace{}, connectors.Failed(reasonNoLog, nil, fmt.Sprintf("the server %s writes no binary log", ss.s.host), "")
	}
	p := logPlace{file: rows[0][0].text}
	if p.pos, err = strconv.ParseInt(rows[0][1].text, 10, 64); err != nil {
		return p, fmt.Errorf("the position of the binary log: %w", err)
	}
	text := ""
	if ss.sv.mariadb {
		rows, err := ss.query(ctx, "SELECT @@global.gtid_binlog_pos")
		if err != nil {
			return p, err
		}
		text = rows[0][0].text
	} else if ss.sv.gtids && len(rows[0]) > 4 {
		text = rows[0][4].text
	}
	p.gtids, err = parseGTIDs(text, ss.sv.mariadb)
	return p, err
}

// beginSnapshot begins a transaction that sees the tables as they are, and returns the place of the log where it stands. Where their rows are
// held, nothing comes between the two. Where they are not, the server's own word is taken, if it has one (MariaDB, Percona Server), else a
// place before the transaction: what is committed in between is read and comes again, and nothing is lost.
func (ss *session) beginSnapshot(ctx context.Context, held bool) (p logPlace, err error) {
	if !held {
		if p, err = ss.place(ctx); err != nil {
			return p, err
		}
	}
	if err := ss.exec(ctx, "START TRANSACTION WITH CONSISTENT SNAPSHOT"); err != nil {
		return p, err
	}
	if held {
		return ss.place(ctx)
	}
	exact, known, err := ss.snapshotPlace(ctx)
	if err != nil || known {
		return exact, err
	}
	return p, nil
}

// snapshotPlace is where the open snapshot stands in the log, as some servers say.
func (ss *session) snapshotPlace(ctx context.Context) (p logPlace, known bool, err error) {
	rows, err := ss.query(ctx, "SHOW STATUS LIKE 'binlog_snapshot_%'")
	if err != nil {
		return p, false, err
	}
	status := map[string]string{}
	for _, r := range rows {
		status[strings.ToLower(r[0].text)] = r[1].text
	}
	if p.file = status["binlog_snapshot_file"]; p.file == "" {
		return p, false, nil
	}
	if p.pos, err = strconv.ParseInt(status["binlog_snapshot_position"], 10, 64); err != nil {
		return p, false, fmt.Errorf("the position of the snapshot in the binary log: %w", err)
	}
	gtids, told := status["binlog_snapshot_gtid_executed"]
	switch {
	case ss.sv.mariadb:
		rows, err := ss.query(ctx, fmt.Sprintf("SELECT BINLOG_GTID_POS(%s, %d)", quoteText(p.file), p.pos))
		if err != nil {
			return p, false, err
		}
		gtids = rows[0][0].text
	case !ss.sv.gtids:
		gtids = ""
	case !told:
		return p, false, nil
	}
	if p.gtids, err = parseGTIDs(gtids, ss.sv.mariadb); err != nil {
		return p, false, fmt.Errorf("the transactions that the snapshot sees: %w", err)
	}
	return p, true, nil
}

// register makes this reader known to the server.
func (w *wire) register(serverID uint32) error {
	host, _ := os.Hostname()
	if err := w.send(registerCommand(serverID, host)); err != nil {
		return err
	}
	p, _, err := w.packet(time.Now().Add(30 * time.Second))
	if err == nil && len(p) > 0 && p[0] == 0xff {
		err = serverError(p)
	}
	return err
}

// dump begins to read the log: where the server numbers transactions and set is given,
// all that is not in set, else from a place of a file. toEnd: up to its present end.
func (s *settings) dump(ctx context.Context, files connectors.Files, file string, pos int64, set *gtidSet, toEnd bool) (*wire, server, error) {
	ss, err := s.open(ctx, files)
	if err != nil {
		return nil, server{}, err
	}
	w, err := ss.dump(ctx, file, pos, set, toEnd)
	if err != nil {
		ss.close()
	}
	return w, ss.sv, err
}

func (ss *session) dump(ctx context.Context, file string, pos int64, set *gtidSet, toEnd bool) (*wire, error) {
	s := ss.s
	if !ss.sv.gtids {
		set = nil
	}
	serverID := s.serverID
	period := min(max(s.silence/4, 50*time.Millisecond), 5*time.Second)
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	uuid := quoteText(formatUUID([16]byte(id)))
	set1 := fmt.Sprintf("SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum, @master_heartbeat_period = %[1]d, @source_heartbeat_period = %[1]d, @slave_uuid = %[2]s, @replica_uuid = %[2]s", period.Nanoseconds(), uuid)
	if ss.sv.mariadb {
		set1 += ", @mariadb_slave_capability = 4, net_write_timeout = 3600" // seconds: nothing is read while a transaction is read ahead
		if set != nil {
			set1 += ", @slave_connect_state = " + quoteText(set.String()) + ", @slave_gtid_strict_mode = 1"
		}
	}
	if err := ss.exec(ctx, set1); err != nil {
		return nil, err
	}
	w := newWire(ss.c.Conn.Conn)
	var command []byte
	flags := uint16(0)
	if toEnd { // as mysqlbinlog does: nobody who is to be listed, and the end is told
		serverID, flags = 0, 1
	} else if err := w.register(serverID); err != nil {
		return nil, s.classify(err, "register as a reader of the binary log")
	}
	if ss.sv.mariadb && s.query {
		flags |= 2 // send the statements of rows
	}
	switch {
	case set != nil && ss.sv.mariadb:
		command = dumpCommand("", 4, flags, serverID)
	case set != nil:
		command = dumpGTIDCommand(set, serverID)
	default:
		if pos > 1<<32-1 {
			return nil, connectors.Failed(reasonLogLost, nil, fmt.Sprintf("the position %d of %s lies beyond 4 GiB, where the server cannot be asked to begin without GTIDs", pos, file),
				"switch GTIDs on (gtid_mode=ON), or delete the connector's offsets for a new snapshot; keep max_binlog_size and transactions below 4 GiB")
		}
		command = dumpCommand(file, uint32(max(pos, 4)), flags, serverID)
	}
	if err := w.send(command); err != nil {
		return nil, s.classify(err, "ask for the binary log")
	}
	return w, nil
}
