package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"millrace/connectors"
)

// The known failures.
var (
	reasonUnreachable = &connectors.Reason{Code: "postgres.unreachable", Retry: connectors.RetryHelps,
		Doc:    "The server cannot be reached, is starting, stopping or full, or the connection to it broke.",
		Remedy: "check that the server runs and that database.hostname and database.port lead to it; the task tries again by itself"}
	reasonLogin = &connectors.Reason{Code: "postgres.login", Retry: connectors.RetryUnknown,
		Doc:    "The server refuses the user: a wrong password, no such user, or no line in pg_hba.conf that lets it in.",
		Remedy: "correct database.user and database.password, or add a line to pg_hba.conf and reload the server"}
	reasonTLS = &connectors.Reason{Code: "postgres.tls", Retry: connectors.RetryUnknown,
		Doc:    "An encrypted connection does not come about as database.sslmode wants it: the server offers none, or its certificate, or ours, is not accepted.",
		Remedy: "give the authority that signed the server's certificate in database.sslrootcert and the host by a name that the certificate has; or turn ssl on at the server; or choose another database.sslmode"}
	reasonDatabase = &connectors.Reason{Code: "postgres.no_database", Retry: connectors.RetryUnknown,
		Doc:    "There is no database of that name on the server.",
		Remedy: "correct database.dbname, or create the database"}
	reasonWALLevel = &connectors.Reason{Code: "postgres.wal_level", Retry: connectors.RetryNever,
		Doc:    "The server does not write what logical decoding needs into its log.",
		Remedy: "ALTER SYSTEM SET wal_level = 'logical', then restart the server"}
	reasonRights = &connectors.Reason{Code: "postgres.rights", Retry: connectors.RetryUnknown,
		Doc:    "The user lacks a right: REPLICATION for the slot, SELECT on a captured table, ownership or superuser for the publication.",
		Remedy: "grant what is missing"}
	reasonSlotLost = &connectors.Reason{Code: "postgres.slot_lost", Retry: connectors.RetryNever,
		Doc:    "The slot that kept the connector's place is gone, was invalidated, or is ahead of the stored position: changes between that position and now cannot be read any more.",
		Remedy: "stop the connector, delete its offsets (DELETE /connectors/<name>/offsets) and resume it with snapshot.mode=initial for a new snapshot"}
	reasonSlotFull = &connectors.Reason{Code: "postgres.slot_full", Retry: connectors.RetryUnknown,
		Doc:    "The server keeps more of its log for the slot than slot.retained.wal.limit.bytes allows, and the task does not get away from it: the log is behind, the task was stopped for long, a snapshot runs for long, or a transaction has been open on the server for long.",
		Remedy: "see why the connector does not keep up (its status, its log), or raise slot.retained.wal.limit.bytes; if the server's disk is in danger, drop the slot and take a new snapshot"}
	reasonAhead = &connectors.Reason{Code: "postgres.position_ahead", Retry: connectors.RetryNever,
		Doc:    "The stored position lies beyond the end of the server's log: it is another server, or one that was restored from a backup or took over without its last changes. What it writes up to that position would be passed over.",
		Remedy: "check that the host is the right one; if it is, stop the connector, delete its offsets (DELETE /connectors/<name>/offsets) and resume it with snapshot.mode=initial for a new snapshot"}
	reasonSlotInUse = &connectors.Reason{Code: "postgres.slot_in_use", Retry: connectors.RetryUnknown,
		Doc:    "Another connection reads the slot. A slot serves one reader.",
		Remedy: "stop the other reader, or give this connector a slot.name of its own"}
	reasonSlotForeign = &connectors.Reason{Code: "postgres.slot_foreign", Retry: connectors.RetryNever,
		Doc:    "The slot exists, but belongs to another database, another decoding plugin, or physical replication.",
		Remedy: "give this connector a slot.name of its own, or drop the slot if nobody needs it: SELECT pg_drop_replication_slot('<name>')"}
	reasonSlotLimit = &connectors.Reason{Code: "postgres.slot_limit", Retry: connectors.RetryUnknown,
		Doc:    "The server has no free replication slot or sender.",
		Remedy: "drop unused slots (SELECT * FROM pg_replication_slots), or raise max_replication_slots and max_wal_senders and restart the server"}
	reasonPublication = &connectors.Reason{Code: "postgres.no_publication", Retry: connectors.RetryUnknown,
		Doc:    "The publication does not exist, and publication.autocreate.mode=disabled leaves creating it to you.",
		Remedy: "CREATE PUBLICATION <name> FOR TABLE …, or set publication.autocreate.mode to filtered"}
	reasonData = &connectors.Reason{Code: "postgres.value", Retry: connectors.RetryNever,
		Doc:    "A value of a row cannot be read or has no place in the record model.",
		Remedy: "leave the column out with column.exclude.list, or go on without such changes with event.processing.failure.handling.mode=warn"}
	reasonTables = &connectors.Reason{Code: "postgres.tables", Retry: connectors.RetryNever,
		Doc:    "The lists of tables match none that can be captured as asked.",
		Remedy: "correct table.include.list, or set publish.via.partition.root=true for partitioned tables"}

	reasonIdentity = &connectors.Reason{Code: "postgres.replica_identity", Retry: connectors.RetryUnknown,
		Doc:    "A replica identity that replica.identity.autoset.values asks for cannot be set: the index is missing or does not fit, or the table belongs to another user.",
		Remedy: "CREATE UNIQUE INDEX <name> ON <table> (<columns that are NOT NULL>), or choose FULL in replica.identity.autoset.values"}
	reasonLocked = &connectors.Reason{Code: "postgres.locked", Retry: connectors.RetryHelps,
		Doc:    "A table could not be locked, or read, within the time for locks: another session changes its shape, or waits for that.",
		Remedy: "end the session that holds the lock (SELECT pid, query FROM pg_stat_activity WHERE pid IN (SELECT pid FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted)), or raise snapshot.lock.timeout.ms; the task tries again by itself"}

	reasons = []*connectors.Reason{reasonUnreachable, reasonLogin, reasonTLS, reasonDatabase, reasonWALLevel, reasonRights, reasonSlotLost, reasonSlotFull, reasonAhead,
		reasonSlotInUse, reasonSlotForeign, reasonSlotLimit, reasonPublication, reasonData, reasonTables, reasonLocked, reasonIdentity}
)

// sqlState is the SQLSTATE of a server's error, or "".
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// names reports whether a server's error names a thing. Its words are in the language of the server; names are what they are.
func names(err error, thing string) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && strings.Contains(e.Message, thing)
}

const reading = "read the stream of changes"

// classifyStream is classify for what the server says while it sends changes: it looks the publication up with the
// first of them.
func (s *settings) classifyStream(err error) error {
	if sqlState(err) == "42704" && names(err, s.publication) {
		return connectors.Failed(reasonPublication, err, reading, "")
	}
	return s.classify(err, reading)
}

// classify gives an error of the driver or the server its reason. doing is what was
// being done, as the beginning of a sentence.
func (s *settings) classify(err error, doing string) error {
	if err == nil || connectors.FailureOf(err) != nil {
		return err
	}
	if connectors.RetryOf(err) == connectors.RetryNever { // of our own files and settings
		return fmt.Errorf("%s: %w", doing, err)
	}
	fail := func(r *connectors.Reason, remedy string) error {
		if r.Retry == connectors.RetryHelps && s.retries == 0 {
			return connectors.BadConfig(connectors.Failed(r, err, doing, remedy))
		}
		return connectors.Failed(r, err, doing, remedy)
	}
	code := sqlState(err)
	switch {
	case code == "28P01" || code == "28000":
		return fail(reasonLogin, "")
	case code == "3D000":
		return fail(reasonDatabase, "")
	case code == "42501":
		return fail(reasonRights, "")
	case code == "55006":
		return fail(reasonSlotInUse, "")
	case code == "53400":
		return fail(reasonSlotLimit, "")
	case code == "42704" && names(err, s.slot):
		return fail(reasonSlotLost, "")
	case code == "55000" && names(err, "wal_level"):
		return fail(reasonWALLevel, "")
	case code == "55000" && names(err, s.slot):
		return fail(reasonSlotLost, "")
	case code == "55P03":
		return fail(reasonLocked, "")
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "57P"), code == "53300", code == "57014",
		code == "40001", code == "40P01", code == "25P03", code == "25P04", code == "57P05":
		return fail(reasonUnreachable, "")
	case code != "":
		return fmt.Errorf("%s: %w", doing, err)
	}
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		alert   tls.AlertError
	)
	if errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &invalid) || errors.As(err, &alert) || errors.Is(err, errNoTLS) {
		return fail(reasonTLS, "")
	}
	var ne net.Error
	var ce *pgconn.ConnectError
	if errors.As(err, &ne) || errors.As(err, &ce) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) || errors.Is(err, pgconn.ErrConnClosed) {
		return fail(reasonUnreachable, "")
	}
	return fmt.Errorf("%s: %w", doing, err)
}
