package mysql

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
)

// A standIn stands between a connector and a server, and may send the server another statement than it was given.
type standIn struct {
	net.Listener
	server  string
	mu      sync.Mutex // guards what each uses
	each    func(sql string) string
	running sync.WaitGroup
}

// standBefore makes a stand-in of a server. each is called for every statement, one at a time.
func standBefore(t *testing.T, server *peers.MySQLServer, each func(sql string) string) *standIn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &standIn{Listener: l, server: net.JoinHostPort(server.Host, strconv.Itoa(server.Port)), each: each}
	s.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.running.Go(func() { s.relay(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.running.Wait()
	})
	return s
}

// config is a connector's that goes to the stand-in.
func (s *standIn) config(d *database, more ...string) map[string]string {
	port := s.Addr().(*net.TCPAddr).Port
	tls := "disabled"
	if d.server.MariaDB {
		tls = "disable"
	}
	return d.config(append(more, "database.hostname", "127.0.0.1", "database.port", strconv.Itoa(port), "database.ssl.mode", tls)...)
}

func (s *standIn) relay(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", s.server)
	if err != nil {
		return
	}
	defer up.Close()
	s.running.Go(func() {
		_, _ = io.Copy(c, up)
		c.Close()
	})
	head := make([]byte, 4)
	for {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		p := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
		if _, err := io.ReadFull(c, p); err != nil {
			return
		}
		if head[3] == 0 && len(p) > 0 && p[0] == comQuery {
			sql, attributes := strings.CutPrefix(string(p[1:]), "\x00\x01") // MySQL's clients say first that a statement has none
			s.mu.Lock()
			sql = s.each(sql)
			s.mu.Unlock()
			if p = p[:1]; attributes {
				p = p[:3]
			}
			p = append(p, sql...)
		}
		out := binary.LittleEndian.AppendUint32(nil, uint32(len(p))|uint32(head[3])<<24)
		if _, err := up.Write(append(out, p...)); err != nil {
			return
		}
	}
}

// ask runs a statement of a hook, on whose goroutine no test may be ended.
func ask(t *testing.T, c *client.Conn, sql string) (first string) {
	r, err := c.Execute(sql)
	if err != nil {
		t.Errorf("%s: %v", sql, err)
		return ""
	}
	defer r.Close()
	if r.Resultset == nil {
		return ""
	}
	var out []string
	for i := range min(2, r.ColumnNumber()) {
		v, err := r.GetString(0, i)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
		}
		out = append(out, v)
	}
	return strings.Join(out, ":")
}

// TestWhatIsCommittedWhileASnapshotBegins: a row that is committed right before a snapshot's transaction begins, and one right behind it, where no
// lock keeps them away. None is lost, and none comes twice where the server says where the snapshot stands.
func TestWhatIsCommittedWhileASnapshotBegins(t *testing.T) {
	for _, c := range []struct {
		name, mode       string
		mariadb, percona bool
		want             []string
	}{
		{"MySQL without a lock", "none", false, false, []string{"r 1", "r 2", "c 2", "c 3", "c 4"}},
		{"MariaDB without a lock", "none", true, false, []string{"r 1", "r 2", "c 3", "c 4"}},
		{"Percona Server's backup lock", "minimal_percona", false, true, []string{"r 1", "r 2", "c 3", "c 4"}},
		{"the same and no others", "minimal_percona_no_table_locks", false, true, []string{"r 1", "r 2", "c 3", "c 4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			of := peers.MySQL
			if c.mariadb {
				of = peers.MariaDB
			}
			d := databaseOn(t, of(t))
			d.exec("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
			writer := d.server.Connect(t, d.name)
			var locks []string
			status, begun, written := "", false, false
			s := standBefore(t, d.server, func(sql string) string {
				switch {
				case strings.HasPrefix(sql, "START TRANSACTION"):
					ask(t, writer, "INSERT INTO t VALUES (2)")
					if c.percona {
						file, pos, _ := strings.Cut(ask(t, writer, "SHOW BINARY LOG STATUS"), ":")
						status = fmt.Sprintf("SELECT 'Binlog_snapshot_file', '%s' UNION ALL SELECT 'Binlog_snapshot_position', '%s' UNION ALL SELECT 'Binlog_snapshot_gtid_executed', '%s'",
							file, pos, ask(t, writer, "SELECT @@global.gtid_executed"))
					}
					begun = true
				case begun && !written:
					written = true
					ask(t, writer, "INSERT INTO t VALUES (3)")
				}
				switch {
				case c.percona && sql == "LOCK TABLES FOR BACKUP":
					locks = append(locks, sql)
					return "DO 0"
				case sql == "UNLOCK TABLES", strings.HasPrefix(sql, "LOCK TABLES"), strings.HasPrefix(sql, "FLUSH TABLES"):
					locks = append(locks, sql)
				case c.percona && strings.HasPrefix(sql, "SHOW STATUS"):
					return status
				}
				return sql
			})
			r := d.start(s.config(d, "snapshot.locking.mode", c.mode), nil)
			streaming(r)
			d.exec("INSERT INTO t VALUES (4)")
			topic := "p." + d.name + ".t"
			last := func() bool {
				all := on(r.Records(), topic)
				return len(all) > 0 && all[len(all)-1].Key.Get("id").Int() == 4
			}
			r.WaitFor("the last row", last)
			r.Stop()
			var got []string
			for _, rec := range on(r.Records(), topic) {
				got = append(got, fmt.Sprintf("%s %d", op(rec), rec.Key.Get("id").Int()))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			want := []string(nil)
			if c.percona {
				want = []string{"LOCK TABLES FOR BACKUP", "UNLOCK TABLES"}
			}
			if !slices.Equal(locks, want) {
				t.Errorf("the locks %q, want %q", locks, want)
			}
		})
	}
}

// TestBackupLocks: a server without Percona's backup lock is refused, when the connector is validated and when it starts; a user without the right for
// it gets locks of the tables, unless the mode rules them out.
func TestBackupLocks(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id INT PRIMARY KEY)")
	for _, mode := range []string{lockPercona, lockPerconaOnly} {
		conf := d.config("snapshot.locking.mode", mode)
		one(t, validate(t, d.plugin(), conf), "snapshot.locking.mode", mode, "Percona Server", "snapshot.locking.mode=minimal")
		err := d.start(conf, nil).Wait()
		if err == nil || connectors.IsRetriable(err) || !strings.Contains(err.Error(), "set snapshot.locking.mode=minimal") {
			t.Errorf("%s: the task ended with %v", mode, err)
		}
		denied := false
		s := standBefore(t, d.server, func(sql string) string {
			if sql == "LOCK TABLES FOR BACKUP" {
				return "SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = 1227, MESSAGE_TEXT = 'Access denied; you need the BACKUP_ADMIN privilege'"
			}
			denied = denied || strings.HasPrefix(sql, "LOCK TABLES ")
			return sql
		})
		r := d.start(s.config(d, "snapshot.locking.mode", mode), &connectortest.OffsetStore{})
		if mode == lockPercona {
			streaming(r)
			r.Stop()
			s.mu.Lock()
			if !denied {
				t.Error("the tables were not locked one by one")
			}
			s.mu.Unlock()
			continue
		}
		err = r.Wait()
		if f := connectors.FailureOf(err); f == nil || f.Reason != reasonRights || !strings.Contains(err.Error(), "GRANT BACKUP_ADMIN") {
			t.Errorf("%s: the task ended with %v", mode, err)
		}
	}
}

// TestALargePacketIsASignOfLife: the parts of a packet that takes long count as they come, so that a slow line is not taken for a dead server.
func TestALargePacketIsASignOfLife(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	const size = readBuffer + 100
	w := newWire(ours)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = theirs.Write(append([]byte{byte(size & 0xff), byte(size >> 8 & 0xff), byte(size >> 16), 0}, make([]byte, 1000)...))
	}()
	p, _, err := w.packet(time.Now().Add(time.Second))
	<-sent
	if err != errIdle || p != nil || w.received == 0 || w.received > 1000 {
		t.Fatalf("%d bytes, %v, of which %d are counted; want a part that is counted", len(p), err, w.received)
	}
	before := w.received
	go func() { _, _ = theirs.Write(make([]byte, size-1000)) }()
	if p, owned, err := w.packet(time.Now().Add(time.Minute)); err != nil || !owned || len(p) != size || w.received <= before {
		t.Errorf("%d bytes, %v, %d are counted", len(p), err, w.received)
	}
}
