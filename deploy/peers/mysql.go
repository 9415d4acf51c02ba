package peers

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	"github.com/go-mysql-org/go-mysql/mysql"

	"millrace/deploy/peers/run"
)

// A MySQLServer is MySQL (Debian sid's) or MariaDB (Debian's) with a binary log of whole rows, MySQL with GTIDs, unless
// it was started with other settings. root has no password.
type MySQLServer struct {
	Host    string
	Port    int
	MariaDB bool
	*Control
}

// MySQLOptions say how a server of a test's own differs: Settings, Durable.
type MySQLOptions = run.MySQLOptions

// MySQL is the server that all tests of the run share. Its binary log holds what all of them write.
func MySQL(t testing.TB) *MySQLServer {
	t.Helper()
	return mysqlAt(t, shared(t, "mysql"), false)
}

// MariaDB is the MariaDB that all tests of the run share.
func MariaDB(t testing.TB) *MySQLServer {
	t.Helper()
	return mysqlAt(t, shared(t, "mariadb"), true)
}

// MySQLOwn is a server for this test alone, which it may stop, kill, halt and start again.
func MySQLOwn(t testing.TB, o MySQLOptions) *MySQLServer {
	t.Helper()
	c := own(t, "mysql", func(ctx context.Context, dir string) (*run.Server, error) { return run.MySQL(ctx, dir, o) })
	m := mysqlAt(t, c.server.Addr, false)
	m.Control = c
	return m
}

// MariaDBOwn is the same of MariaDB.
func MariaDBOwn(t testing.TB, o MySQLOptions) *MySQLServer {
	t.Helper()
	c := own(t, "mariadb", func(ctx context.Context, dir string) (*run.Server, error) { return run.MariaDB(ctx, dir, o) })
	m := mysqlAt(t, c.server.Addr, true)
	m.Control = c
	return m
}

func mysqlAt(t testing.TB, addr string, mariadb bool) *MySQLServer {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return &MySQLServer{Host: host, Port: n, MariaDB: mariadb}
}

// Open connects as root to a database, or to none where db is empty. Its session is that of a client that speaks
// utf8mb4, in UTC.
func (m *MySQLServer) Open(db string) (*client.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.ConnectWithContext(ctx, net.JoinHostPort(m.Host, strconv.Itoa(m.Port)), "root", "", db, 30*time.Second,
		func(c *client.Conn) error { return c.SetCapability(mysql.CLIENT_MULTI_STATEMENTS) })
	if err != nil {
		return nil, err
	}
	if _, err := c.Execute("SET NAMES utf8mb4, time_zone = '+00:00'"); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Connect is Open, closed at the test's end.
func (m *MySQLServer) Connect(t testing.TB, db string) *client.Conn {
	t.Helper()
	c, err := m.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Exec runs statements, each string by itself, in a session of their own.
func (m *MySQLServer) Exec(t testing.TB, db string, statements ...string) {
	t.Helper()
	c, err := m.Open(db)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, s := range statements {
		if _, err := c.Execute(s); err != nil {
			t.Fatalf("%.200s: %v", s, err)
		}
	}
}

// NewDatabase makes an empty database (utf8mb4) and returns its name; it is dropped at the test's end.
func (m *MySQLServer) NewDatabase(t testing.TB) string {
	t.Helper()
	name := Unique(t, "t")
	m.Exec(t, "", "CREATE DATABASE "+name+" DEFAULT CHARACTER SET utf8mb4")
	t.Cleanup(func() {
		if m.Control != nil {
			return // it goes with its server
		}
		if err := m.drop(name); err != nil {
			t.Errorf("drop database %s: %v", name, err)
		}
	})
	return name
}

// drop ends what sessions still hold a lock in the database, or the drop would wait for them.
func (m *MySQLServer) drop(name string) error {
	c, err := m.Open("")
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.Execute("SELECT id FROM information_schema.processlist WHERE db = '" + name + "' AND id <> CONNECTION_ID()")
	if err != nil {
		return err
	}
	for i := range r.RowNumber() {
		id, err := r.GetInt(i, 0)
		if err != nil {
			return err
		}
		_, _ = c.Execute(fmt.Sprintf("KILL %d", id)) // one that has just ended is no loss
	}
	_, err = c.Execute("DROP DATABASE IF EXISTS " + name)
	return err
}
