package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/deploy/drive"
	"millrace/deploy/peers/run"
)

// The same table as of PostgreSQL, in MySQL's types.
const (
	mysqlTable = `CREATE TABLE rows_ (id bigint PRIMARY KEY, k int, amount decimal(12,2), name varchar(40), created datetime(3),
		active boolean, score double, note varchar(200))`
	mysqlFill = `INSERT INTO rows_ WITH RECURSIVE s (g) AS (SELECT %[1]d UNION ALL SELECT g + 1 FROM s WHERE g < %[2]d) SELECT g, g %% 1000, (g %% 100000) / 7.0,
		concat('customer ', left(sha2(g, 256), 20)), '2024-01-01' + INTERVAL g SECOND, g %% 3 = 0, g / 3.0, repeat(left(sha2(g + 1, 256), 32), 3) FROM s`
	mysqlUpdate = `UPDATE rows_ SET k = k + 1, amount = amount + 1, note = concat('updated ', substr(note, 9)) WHERE id BETWEEN %d AND %d`
)

// myBench is one MySQL with the table.
type myBench struct {
	*bench
	server *run.Server
	conn   *client.Conn
}

// onMySQL runs f with a MySQL that has the table.
func (b *bench) onMySQL(ctx context.Context, f func(p *myBench) error) (err error) {
	p := &myBench{bench: b}
	settings := map[string]string{"innodb-buffer-pool-size": "256M", "innodb-redo-log-capacity": "512M"}
	if p.server, err = run.MySQL(ctx, filepath.Join(b.dir, "mysql"), run.MySQLOptions{Settings: settings, Durable: true}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.server.Close()) }()
	if p.conn, err = client.Connect(p.server.Addr, "root", "", ""); err != nil {
		return err
	}
	defer p.conn.Close()
	for _, sql := range []string{"SET SESSION cte_max_recursion_depth = 100000000, sql_log_bin = 0", "CREATE DATABASE bench", "USE bench", mysqlTable} {
		if _, err := p.conn.Execute(sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	for a := 1; a <= b.rows; a += 100_000 {
		if _, err := p.conn.Execute(fmt.Sprintf(mysqlFill, a, min(a+99_999, b.rows))); err != nil {
			return err
		}
	}
	// A server without any transaction in its log makes Debezium's client fail.
	for _, sql := range []string{"SET SESSION sql_log_bin = 1", "CREATE DATABASE logged"} {
		if _, err := p.conn.Execute(sql); err != nil {
			return err
		}
	}
	b.print("MySQL %s, %d rows of 8 columns, %d updates in transactions of %d", p.conn.GetServerVersion(), b.rows, b.updates, perTransaction)
	return f(p)
}

// mysql measures a snapshot beside the stock client's unbuffered SELECT, and the stream beside mysqlbinlog and beside
// go-mysql's decoding of the same log into values of Go, and what one large transaction takes.
func (b *bench) mysql(ctx context.Context) error {
	return b.onMySQL(ctx, func(p *myBench) error {
		var selects, snapshots, reads, decodes, streams []side
		for i := range b.pairs {
			pair, err := p.pair(ctx, i)
			if err != nil {
				return fmt.Errorf("pair %d: %w", i+1, err)
			}
			selects, snapshots = append(selects, pair.copy), append(snapshots, pair.snapshot)
			reads, decodes, streams = append(reads, pair.read), append(decodes, pair.decode), append(streams, pair.stream)
		}
		b.compare("MySQL snapshot", "rows", b.rows, snapshots, "SELECT by the stock client, unbuffered", selects, 0.35)
		b.compare("MySQL stream", "events", b.updates, streams, "go-mysql's decoding", decodes, 0.50)
		b.compare("MySQL stream", "events", b.updates, streams, "mysqlbinlog", reads, 0)
		b.bound("MySQL snapshot", snapshots, 5)
		b.bound("MySQL stream", streams, 2800*time.Millisecond.Seconds())
		return p.transaction(ctx)
	})
}

// mysqlDebezium does the same snapshot and stream once with Debezium's own connector on Kafka Connect and Kafka, whose CPU
// counts as the log's does here.
func (b *bench) mysqlDebezium(ctx context.Context) error {
	return b.onMySQL(ctx, func(p *myBench) (err error) {
		kafka, err := run.Kafka(ctx, filepath.Join(p.dir, "mykafka"), "")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, kafka.Close()) }()
		connect, err := run.Connect(ctx, filepath.Join(p.dir, "myconnect"), kafka.Addr, run.ConnectOptions{Debezium: "mysql"})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, connect.Close()) }()
		m := &drive.Millrace{Server: connect, REST: "http://" + connect.Addr, Kafka: kafka.Addr}
		w, err := p.watch(m, "mydbz")
		if err != nil {
			return err
		}
		defer w.adm.Close()
		w.also, w.counts = []int{kafka.Pid()}, true
		snapshot, err := p.snapshot(ctx, w, 7200)
		if err != nil {
			return err
		}
		if _, err := p.change(ctx, w); err != nil {
			return err
		}
		stream, err := p.stream(ctx, w)
		if err != nil {
			return err
		}
		if err := p.verify(ctx, w, m.Kafka); err != nil {
			return err
		}
		for _, part := range []struct {
			name, unit string
			n          int
			s          side
		}{{"snapshot", "rows", p.rows, snapshot}, {"stream", "events", p.updates, stream}} {
			p.print("Debezium 3.6.1.Final on Kafka Connect, MySQL %s: %.1f s = %.0f %s/s, CPU %.1f s with its broker, VmHWM of the worker %.0f MiB; load %s",
				part.name, part.s.took.Seconds(), float64(part.n)/part.s.took.Seconds(), part.unit, part.s.cpu.Seconds(), part.s.peak, load())
		}
		return nil
	})
}

// bound says what CPU was used, the log's included, and promises no more than a bound.
func (b *bench) bound(what string, all []side, most float64) {
	used := median(cpus(all)).Seconds()
	b.print("%s: %.1f CPU s with its log, median; promised: %.1f", what, used, most)
	b.promise(used <= most, "%s in %.1f CPU s, promised are %.1f", what, used, most)
}

// config is a connector's that captures one table. kafka is where Debezium keeps its history.
func (p *myBench) config(name, table string, id int, kafka string) map[string]string {
	return map[string]string{
		"connector.class": "io.debezium.connector.mysql.MySqlConnector", "tasks.max": "1", "database.hostname": "127.0.0.1",
		"database.port": strconv.Itoa(p.server.Port), "database.user": "root", "database.password": "", "database.server.id": strconv.Itoa(id),
		"database.include.list": "bench", "table.include.list": "bench." + table, "topic.prefix": name,
		"schema.history.internal.kafka.topic": name + "-history", "schema.history.internal.kafka.bootstrap.servers": kafka,
		"key.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter": "org.apache.kafka.connect.json.JsonConverter",
		"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false",
	}
}

// transaction writes one large transaction while the connector is stopped, and lets it through.
func (p *myBench) transaction(ctx context.Context) (err error) {
	m, err := p.millrace(ctx, filepath.Join(p.dir, "mysqllarge"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	k, err := kgo.NewClient(kgo.SeedBrokers(m.Kafka), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		return err
	}
	defer k.Close()
	const name = "mylarge"
	w := &watched{m: m, adm: kadm.NewClient(k), name: name, topic: name + ".bench.large"}
	for _, sql := range []string{"CREATE TABLE large (id bigint PRIMARY KEY, n int, note varchar(100))", "INSERT INTO large VALUES (0, 0, 'the snapshot')"} {
		if _, err := p.conn.Execute(sql); err != nil {
			return err
		}
	}
	if _, err := m.Call(ctx, http.MethodPut, "/connectors/"+name+"/config", p.config(name, "large", 7100, m.Kafka)); err != nil {
		return err
	}
	if err := w.wait(ctx, 1); err != nil {
		return err
	}
	if _, err := m.Call(ctx, http.MethodPut, "/connectors/"+name+"/stop", nil); err != nil {
		return err
	}
	if err := m.Await(ctx, name, "STOPPED"); err != nil {
		return err
	}
	if _, err := p.conn.Execute(fmt.Sprintf("INSERT INTO large WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < %d) SELECT g, g %% 1000, repeat(left(sha2(g, 256), 32), 2) FROM s", largeRows)); err != nil {
		return err
	}
	s, err := w.measured(func(time.Time) error {
		if _, err := m.Call(ctx, http.MethodPut, "/connectors/"+name+"/resume", nil); err != nil {
			return err
		}
		return w.wait(ctx, 1+largeRows)
	})
	if err != nil {
		return err
	}
	p.print("MySQL, one transaction of %d rows: %.1f s = %.0f events/s, CPU %.1f s with its log, VmHWM %.0f MiB (promised: %d); load %s",
		largeRows, s.took.Seconds(), largeRows/s.took.Seconds(), s.cpu.Seconds(), s.peak, largeMostMB, load())
	p.promise(s.peak <= largeMostMB, "a transaction of MySQL of %d rows holds %.0f MiB, promised are %d", largeRows, s.peak, largeMostMB)
	return nil
}

type myPair struct{ copy, snapshot, read, decode, stream side }

// pair measures both kinds of work on a new Millrace with an empty log.
func (p *myBench) pair(ctx context.Context, i int) (out myPair, err error) {
	m, err := p.millrace(ctx, filepath.Join(p.dir, fmt.Sprintf("mysqlpair%d", i)))
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	w, err := p.watch(m, fmt.Sprintf("mybench%d", i))
	if err != nil {
		return out, err
	}
	defer w.adm.Close()
	err = inTurns(i, func() error { out.copy, err = p.selected(ctx); return err }, func() error { out.snapshot, err = p.snapshot(ctx, w, 7000+i); return err })
	if err != nil {
		return out, err
	}
	p.printSide(i, "snapshot", "rows", p.rows, out.snapshot, out.copy)
	at, err := p.change(ctx, w)
	if err != nil {
		return out, err
	}
	if out.read, err = p.mysqlbinlog(ctx, at.from); err != nil {
		return out, err
	}
	err = inTurns(i, func() error {
		out.decode, err = p.decoded(ctx, at.from, at.last, at.end, uint32(8000+i))
		return err
	}, func() error { out.stream, err = p.stream(ctx, w); return err })
	if err != nil {
		return out, err
	}
	p.printSide(i, "stream", "events", p.updates, out.stream, out.decode)
	p.print("  pair %d mysqlbinlog --read-from-remote-server: %.2f s, CPU %.1f s", i+1, out.read.took.Seconds(), out.read.cpu.Seconds())
	if err := p.verify(ctx, w, m.Kafka); err != nil {
		return out, err
	}
	_, err = m.Call(ctx, http.MethodDelete, "/connectors/"+w.name, nil)
	return out, err
}

// watch follows a connector of that name, whose client its caller closes.
func (p *myBench) watch(m *drive.Millrace, name string) (*watched, error) {
	k, err := kgo.NewClient(kgo.SeedBrokers(m.Kafka), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		return nil, err
	}
	return &watched{m: m, adm: kadm.NewClient(k), name: name, topic: name + ".bench.rows_"}, nil
}

// snapshot makes the connector and waits for all rows.
func (p *myBench) snapshot(ctx context.Context, w *watched, id int) (side, error) {
	return w.measured(func(time.Time) error {
		if _, err := w.m.Call(ctx, http.MethodPut, "/connectors/"+w.name+"/config", p.config(w.name, "rows_", id, w.m.Kafka)); err != nil {
			return err
		}
		return w.wait(ctx, int64(p.rows))
	})
}

// A logPart is a part of the binary log: from the beginning of a file to a place in one.
type logPart struct {
	from, last string
	end        uint32
}

// change stops the connector where it streams, and changes the rows.
func (p *myBench) change(ctx context.Context, w *watched) (at logPart, err error) {
	// Into streaming: a row behind the snapshot.
	if _, err := p.conn.Execute("UPDATE rows_ SET k = k + 1 WHERE id = 1"); err != nil {
		return at, err
	}
	if err := w.wait(ctx, int64(p.rows)+1); err != nil {
		return at, err
	}
	if _, err := w.m.Call(ctx, http.MethodPut, "/connectors/"+w.name+"/stop", nil); err != nil {
		return at, err
	}
	if err := w.m.Await(ctx, w.name, "STOPPED"); err != nil {
		return at, err
	}
	if _, err := p.conn.Execute("FLUSH BINARY LOGS"); err != nil {
		return at, err
	}
	if at.from, _, err = p.place(); err != nil {
		return at, err
	}
	for a := 1; a <= p.updates; a += perTransaction {
		if _, err := p.conn.Execute(fmt.Sprintf(mysqlUpdate, a, min(a+perTransaction-1, p.updates))); err != nil {
			return at, err
		}
	}
	at.last, at.end, err = p.place()
	return at, err
}

// stream lets the connector send what was changed.
func (p *myBench) stream(ctx context.Context, w *watched) (side, error) {
	before := int64(p.rows) + 1
	var first time.Duration
	s, err := w.measured(func(began time.Time) error {
		if _, err := w.m.Call(ctx, http.MethodPut, "/connectors/"+w.name+"/resume", nil); err != nil {
			return err
		}
		if err := w.wait(ctx, before+1); err != nil {
			return err
		}
		first = time.Since(began)
		return w.wait(ctx, before+int64(p.updates))
	})
	s.first = first
	return s, err
}

// place is where the log ends.
func (p *myBench) place() (file string, pos uint32, err error) {
	r, err := p.conn.Execute("SHOW BINARY LOG STATUS")
	if err != nil {
		return "", 0, err
	}
	defer r.Close()
	if file, err = r.GetString(0, 0); err != nil {
		return "", 0, err
	}
	at, err := r.GetUint(0, 1)
	return file, uint32(at), err
}

// external runs a program and throws its output away.
func external(cmd *exec.Cmd) (side, error) {
	var said strings.Builder
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return side{}, err
	}
	defer null.Close()
	cmd.Stdout, cmd.Stderr = null, &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return side{}, fmt.Errorf("%s: %w: %s", cmd.Path, err, said.String())
	}
	return side{took: time.Since(began), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}

// selected reads the table with the stock client, row by row as they come.
func (p *myBench) selected(ctx context.Context) (side, error) {
	return external(exec.CommandContext(ctx, "mariadb", "--no-defaults", "-h127.0.0.1", "-P"+strconv.Itoa(p.server.Port), "-uroot", "--ssl=0", "--quick", "-N", "-B", "bench", "-e", "SELECT * FROM rows_"))
}

func (p *myBench) mysqlbinlog(ctx context.Context, from string) (side, error) {
	home, err := run.Install(ctx, "mysql", io.Discard)
	if err != nil {
		return side{}, err
	}
	usr := filepath.Join(home, "root", "usr")
	return external(exec.CommandContext(ctx, usr+"/lib64/ld-linux-x86-64.so.2", "--library-path", usr+"/lib/x86_64-linux-gnu:"+usr+"/lib/mysql/private", usr+"/bin/mysqlbinlog",
		"--no-defaults", "--read-from-remote-server", "-h127.0.0.1", "-P"+strconv.Itoa(p.server.Port), "-uroot", "--to-last-log", from))
}

// decoded reads the same log with go-mysql, which decodes it into values of Go, in this process.
func (p *myBench) decoded(ctx context.Context, from, last string, end uint32, id uint32) (side, error) {
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		return side{}, err
	}
	began := time.Now()
	s := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{ServerID: id, Flavor: "mysql", Host: "127.0.0.1", Port: uint16(p.server.Port), User: "root", Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	stream, err := s.StartSync(gomysql.Position{Name: from, Pos: 4})
	if err != nil {
		return side{}, err
	}
	file, rows := from, 0
	for {
		ev, err := stream.GetEvent(ctx)
		if err != nil {
			return side{}, err
		}
		switch e := ev.Event.(type) {
		case *replication.RotateEvent:
			file = string(e.NextLogName)
		case *replication.RowsEvent:
			rows += len(e.Rows) / 2
		}
		if file == last && ev.Header.LogPos >= end {
			break
		}
	}
	out := side{took: time.Since(began)}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		return side{}, err
	}
	out.cpu = time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	if rows != p.updates {
		return out, fmt.Errorf("go-mysql read %d updates, want %d", rows, p.updates)
	}
	return out, nil
}

// verify applies the topic's events in order and compares the outcome with the table.
func (p *myBench) verify(ctx context.Context, w *watched, kafka string) error {
	table := make(image, p.rows)
	var result gomysql.Result
	err := p.conn.ExecuteSelectStreaming("SELECT id, k, CAST(amount AS CHAR), name, CAST(ROUND(UNIX_TIMESTAMP(CONVERT_TZ(created, '+00:00', @@time_zone)) * 1000) AS SIGNED), active, score, note FROM rows_", &result, func(f []gomysql.FieldValue) error {
		id := f[0].AsInt64()
		if id < 1 || id > int64(p.rows) {
			return fmt.Errorf("id %d out of place", id)
		}
		score, err := strconv.ParseFloat(number(f[6]), 64)
		r := row{ID: id, K: f[1].AsInt64(), Amount: string(f[2].AsString()), Name: string(f[3].AsString()), Created: time.UnixMilli(f[4].AsInt64()), Active: f[5].AsInt64() != 0, Score: score, Note: string(f[7].AsString())}
		table[id-1] = r.sum()
		return err
	}, nil)
	if err != nil {
		return fmt.Errorf("read the table: %w", err)
	}
	want := p.rows + 1 + p.updates
	c, err := kgo.NewClient(kgo.SeedBrokers(kafka), kgo.ConsumeTopics(w.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer c.Close()
	topic, k := make(image, p.rows), make([]int64, p.rows)
	for n := 0; n < want; {
		fetches := c.PollFetches(ctx)
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			return err
		}
		for _, rec := range fetches.Records() {
			r, op, err := mysqlRow(rec.Value)
			if err != nil {
				return fmt.Errorf("offset %d: %w: %s", rec.Offset, err, rec.Value)
			}
			at := r.ID - 1
			switch {
			case at < 0 || at >= int64(p.rows) || !bytes.Equal(rec.Key, fmt.Appendf(nil, `{"id":%d}`, r.ID)):
				return fmt.Errorf("offset %d: key %s with id %d", rec.Offset, rec.Key, r.ID)
			case n < p.rows && (op != "r" || topic[at] != 0):
				return fmt.Errorf("offset %d: op %s of id %d inside the snapshot, or twice", rec.Offset, op, r.ID)
			case n >= p.rows && (op != "u" || r.K != k[at]+1):
				return fmt.Errorf("offset %d: op %s and k of id %d is %d after %d: an update is missing, doubled or out of order", rec.Offset, op, r.ID, r.K, k[at])
			}
			topic[at], k[at] = r.sum(), r.K
			n++
		}
	}
	for i := range table {
		if table[i] != topic[i] {
			return fmt.Errorf("row %d differs between the table and %s", i+1, w.topic)
		}
	}
	p.print("  read back: %d events, checksum of the rows %016x in %s and %016x in the table", want, topic.total(), w.topic, table.total())
	return nil
}

func number(f gomysql.FieldValue) string {
	if f.Type == gomysql.FieldValueTypeFloat {
		return strconv.FormatFloat(f.AsFloat64(), 'g', -1, 64)
	}
	return string(f.AsString())
}

func mysqlRow(value []byte) (*row, string, error) {
	var e struct {
		Op    string
		After *struct {
			ID, K   int64
			Amount  string
			Name    string
			Created int64
			Active  int
			Score   float64
			Note    string
		}
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return nil, "", err
	}
	if e.After == nil {
		return nil, "", errors.New("no after")
	}
	unscaled, err := base64.StdEncoding.DecodeString(e.After.Amount)
	if err != nil || len(unscaled) == 0 {
		return nil, "", fmt.Errorf("amount %q is no decimal: %w", e.After.Amount, err)
	}
	a := e.After
	return &row{ID: a.ID, K: a.K, Amount: decimal(unscaled, 2), Name: a.Name, Created: time.UnixMilli(a.Created), Active: a.Active != 0, Score: a.Score, Note: a.Note}, e.Op, nil
}
