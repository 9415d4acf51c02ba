package mysql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"

	"millrace/connectors"
)

// The known failures.
var (
	reasonUnreachable = &connectors.Reason{Code: "mysql.unreachable", Retry: connectors.RetryHelps,
		Doc:    "The server cannot be reached, is starting, stopping or full, or the connection to it broke.",
		Remedy: "check that the server runs and that database.hostname and database.port lead to it; the task tries again by itself"}
	reasonLogin = &connectors.Reason{Code: "mysql.login", Retry: connectors.RetryUnknown,
		Doc:    "The server refuses the user: a wrong password, no such user, a host it may not come from, or a way of signing in that is not supported.",
		Remedy: "correct database.user and database.password; SHOW GRANTS FOR the user shows from where it may come"}
	reasonTLS = &connectors.Reason{Code: "mysql.tls", Retry: connectors.RetryNever,
		Doc:    "The connection cannot be encrypted as database.ssl.mode asks: the server has no TLS, or its certificate does not pass.",
		Remedy: "correct database.ssl.mode and the certificates"}
	reasonRights = &connectors.Reason{Code: "mysql.rights", Retry: connectors.RetryUnknown,
		Doc:    "The user lacks a right: REPLICATION SLAVE and REPLICATION CLIENT for the binary log, SELECT on captured tables, RELOAD for the snapshot's lock.",
		Remedy: "GRANT SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO the user"}
	reasonNoLog = &connectors.Reason{Code: "mysql.no_binlog", Retry: connectors.RetryNever,
		Doc:    "The server writes no binary log, or not one of rows.",
		Remedy: "start the server with --log-bin and binlog_format=ROW"}
	reasonLogLost = &connectors.Reason{Code: "mysql.position_lost", Retry: connectors.RetryNever,
		Doc:    "The server no longer has the part of its binary log in which the connector stands: it was purged, or this is another server.",
		Remedy: "stop the connector, delete its offsets (DELETE /connectors/<name>/offsets) and resume it for a new snapshot, or set snapshot.mode=when_needed; keep more of the log with binlog_expire_logs_seconds"}
	reasonServerID = &connectors.Reason{Code: "mysql.server_id", Retry: connectors.RetryUnknown,
		Doc:    "Another reader of the server's binary log has the same number, and the two end each other's connections.",
		Remedy: "give this connector a database.server.id of its own"}
	reasonRowImage = &connectors.Reason{Code: "mysql.row_image", Retry: connectors.RetryNever,
		Doc:    "A row in the binary log lacks columns: it was written with a binlog_row_image other than FULL.",
		Remedy: "SET GLOBAL binlog_row_image = 'FULL', and no session may change it; then delete the connector's offsets for a new snapshot"}
	reasonData = &connectors.Reason{Code: "mysql.value", Retry: connectors.RetryNever,
		Doc:    "A value of a row cannot be read or has no place in the record model.",
		Remedy: "leave the column out with column.exclude.list, or go on without such changes with event.processing.failure.handling.mode=warn"}
	reasonSchema = &connectors.Reason{Code: "mysql.schema", Retry: connectors.RetryNever,
		Doc:    "A row does not fit the definition of its table that is known: its columns would be mistaken for others.",
		Remedy: "run with snapshot.mode=recovery to read the definitions anew, if no table changed since the stored position; else delete the connector's offsets for a new snapshot"}
	reasonDDL = &connectors.Reason{Code: "mysql.ddl", Retry: connectors.RetryNever,
		Doc:    "A statement in the binary log changes a captured table and cannot be followed, and the server has logged more since, so that the table as it is now may have changed again.",
		Remedy: "delete the connector's offsets for a new snapshot; or set schema.history.internal.skip.unparseable.ddl=true if the statement changes no column, or schema.history.internal.ddl.filter to a pattern that matches it"}
	reasonHistory = &connectors.Reason{Code: "mysql.history", Retry: connectors.RetryNever,
		Doc:    "The history of the tables' definitions is missing or cannot be read: rows between the stored position and now cannot be told apart into columns.",
		Remedy: "run once with snapshot.mode=recovery to read the definitions anew, if no table changed since the stored position; else delete the connector's offsets for a new snapshot"}
	reasonXA = &connectors.Reason{Code: "mysql.xa", Retry: connectors.RetryNever,
		Doc:    "A prepared transaction (XA) was decided whose rows cannot be read again.",
		Remedy: "delete the connector's offsets for a new snapshot"}
	reasonLog = &connectors.Reason{Code: "mysql.binlog", Retry: connectors.RetryNever,
		Doc:    "The binary log is damaged, or holds what this reader does not know.",
		Remedy: "check the server's log with mysqlbinlog --verify-binlog-checksum; go on behind it with a new snapshot"}

	reasons = []*connectors.Reason{reasonUnreachable, reasonLogin, reasonTLS, reasonRights, reasonNoLog, reasonLogLost, reasonServerID,
		reasonRowImage, reasonData, reasonSchema, reasonDDL, reasonHistory, reasonXA, reasonLog}
)

// Numbers of the server's errors.
const (
	erDBAccessDenied, erAccessDenied, erSpecificAccessDenied, erTableAccessDenied = 1044, 1045, 1227, 1142
	erColumnAccessDenied, erTooManyConnections, erHostNotPrivileged               = 1143, 1040, 1130
	erServerShutdown, erQueryInterrupted, erLockWaitTimeout, erDeadlock           = 1053, 1317, 1205, 1213
	erBinlogFatal, erKilled, erNewAbort, erNetReadTimeout, erNetWriteTimeout      = 1236, 3169, 1152, 1159, 1161
	erAccessDeniedNoPassword, erAuthPlugin, erMustChangePassword, erLockTimeout   = 1698, 1251, 1820, 3572
	erQueryTimeout, erStatementTimeout, erOptionPreventsStatement, erSameServerID = 3024, 1969, 1290, 4052
	erUserLimit, erTooManyUserConnections, erConnectionKilled, erIdle, erNetRead  = 1226, 1203, 1927, 4031, 1158
	erAccountLocked, erMustChangePasswordLogin, erPluginMissing                   = 3118, 1862, 1524
	erSecureTransport, erPurgedGTIDs, erSyntax                                    = 3159, 1789, 1064
)

// errorCode is the number of a server's error, or 0.
func errorCode(err error) uint16 {
	var e *mysql.MyError
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// classify gives an error of the driver or the server its reason. doing is what was
// being done, as the beginning of a sentence.
func (s *settings) classify(err error, doing string) error {
	if err == nil || connectors.FailureOf(err) != nil {
		return err
	}
	fail := func(r *connectors.Reason, remedy string) error {
		if r == reasonUnreachable && s.retries == 0 {
			return connectors.BadConfig(connectors.Failed(r, err, doing, remedy))
		}
		return connectors.Failed(r, err, doing, remedy)
	}
	switch code := errorCode(err); code {
	case 0:
	case erAccessDenied, erAccessDeniedNoPassword, erHostNotPrivileged, erAuthPlugin, erMustChangePassword,
		erAccountLocked, erMustChangePasswordLogin, erPluginMissing:
		return fail(reasonLogin, "")
	case erDBAccessDenied, erSpecificAccessDenied, erTableAccessDenied, erColumnAccessDenied:
		return fail(reasonRights, "")
	case erSecureTransport:
		return fail(reasonTLS, "set database.ssl.mode=required")
	case erPurgedGTIDs:
		return fail(reasonLogLost, "")
	case erSameServerID:
		return fail(reasonServerID, "")
	case erBinlogFatal:
		text := err.Error()
		switch {
		case strings.Contains(text, "same server_uuid") || strings.Contains(text, "same server_id") || strings.Contains(text, "same server uuid"):
			return fail(reasonServerID, "")
		case strings.Contains(text, "Binary log is not open"):
			return fail(reasonNoLog, "")
		case strings.Contains(text, "error reading log event") || strings.Contains(text, "event read from binlog did not pass crc") || strings.Contains(text, "bogus data"):
			return fail(reasonLog, "")
		}
		return fail(reasonLogLost, "")
	case erTooManyConnections, erServerShutdown, erQueryInterrupted, erLockWaitTimeout, erDeadlock, erKilled, erNewAbort,
		erNetReadTimeout, erNetWriteTimeout, erLockTimeout, erQueryTimeout, erStatementTimeout, erOptionPreventsStatement,
		erUserLimit, erTooManyUserConnections, erConnectionKilled, erIdle, erNetRead:
		return fail(reasonUnreachable, "")
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
	if lost(err) {
		return fail(reasonUnreachable, "")
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// lost reports whether an error is about the connection and not what was said over it.
func lost(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, mysql.ErrBadConn) ||
		errors.Is(err, errGreeting) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}
