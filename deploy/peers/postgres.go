package peers

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/deploy/peers/run"
)

// A PostgresServer is PostgreSQL (Debian's, 15 in Debian 12, or 18) with wal_level=logical, 100 replication slots, 100 WAL
// senders and 300 connections, unless it was started with other settings.
type PostgresServer struct {
	Host string
	Port int
	// User is the superuser, postgres; Password is empty unless PostgresOwn was given one.
	User, Password string
	*Control
}

// PostgresOptions say how a server of a test's own differs: Version, Settings, HBA lines, the superuser's Password, Durable.
type PostgresOptions = run.PostgresOptions

// PostgresEnv is the variable that says which version the tests get that ask for none: 18, or nothing for Debian's own.
const PostgresEnv = "MILLRACE_POSTGRES"

// Postgres is the server that all tests of the run share. It trusts everybody who connects from this machine. Roles are
// the server's, not a database's: name them with Unique and drop them.
func Postgres(t testing.TB) *PostgresServer {
	t.Helper()
	return PostgresVersion(t, os.Getenv(PostgresEnv))
}

// PostgresVersion is the shared server of a version: "" for Debian's own, which has PostGIS, or "18", which has pgvector.
func PostgresVersion(t testing.TB, version string) *PostgresServer {
	t.Helper()
	return postgresAt(t, shared(t, "postgres"+version), "")
}

// Extension makes an extension in a database. Where the server does not have it the test is skipped, or fails if peers
// are required.
func (p *PostgresServer) Extension(t testing.TB, db, name string) {
	t.Helper()
	if err := p.exec(db, "CREATE EXTENSION IF NOT EXISTS "+name); err != nil {
		missing(t, "extension "+name+" for PostgreSQL", err)
	}
}

// PostgresOwn is a server for this test alone, which it may stop, kill, halt and start again.
func PostgresOwn(t testing.TB, o PostgresOptions) *PostgresServer {
	t.Helper()
	if o.Version == "" {
		o.Version = os.Getenv(PostgresEnv)
	}
	c := own(t, "postgres"+o.Version, func(ctx context.Context, dir string) (*run.Server, error) { return run.Postgres(ctx, dir, o) })
	p := postgresAt(t, c.server.Addr, o.Password)
	p.Control = c
	return p
}

func postgresAt(t testing.TB, addr, password string) *PostgresServer {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return &PostgresServer{Host: host, Port: n, User: "postgres", Password: password}
}

// DSN is the address of database db for the superuser, as pgx and libpq take it.
func (p *PostgresServer) DSN(db string) string { return p.DSNAs(p.User, p.Password, db) }

// DSNAs is the address of database db for another user.
func (p *PostgresServer) DSNAs(user, password, db string) string {
	return run.PostgresDSN(net.JoinHostPort(p.Host, strconv.Itoa(p.Port)), user, password, db)
}

// Connect opens a connection to database db as the superuser, closed at the test's end.
func (p *PostgresServer) Connect(t testing.TB, db string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, p.DSN(db))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// Exec runs statements in database db as the superuser, each string in one implicit transaction.
func (p *PostgresServer) Exec(t testing.TB, db string, statements ...string) {
	t.Helper()
	if err := p.exec(db, statements...); err != nil {
		t.Fatal(err)
	}
}

func (p *PostgresServer) exec(db string, statements ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, p.DSN(db))
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for _, s := range statements {
		if _, err := c.PgConn().Exec(ctx, s).ReadAll(); err != nil {
			return fmt.Errorf("%.200s: %w", s, err)
		}
	}
	return nil
}

// NewDatabase makes an empty database and returns its name. At the test's end its slots, its connections and it are
// dropped; a server that does not answer then (a test left it stopped) is let be.
func (p *PostgresServer) NewDatabase(t testing.TB) string {
	t.Helper()
	name := Unique(t, "t")
	p.Exec(t, "postgres", "CREATE DATABASE "+name+" TEMPLATE template0")
	t.Cleanup(func() {
		if p.Control != nil {
			if p.Control.server.Pid() == 0 {
				return
			}
			p.Control.Resume(t)
		}
		if err := p.dropDatabase(name); err != nil {
			t.Errorf("drop database %s: %v", name, err)
		}
	})
	return name
}

// dropDatabase tries for a while: a WAL sender that was told to end holds its slot until it has.
func (p *PostgresServer) dropDatabase(name string) error {
	var err error
	for range 100 {
		err = p.exec("postgres",
			"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = '"+name+"' AND active",
			"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '"+name+"' AND NOT active",
			"DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		if err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}
