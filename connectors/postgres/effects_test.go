package postgres

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
)

// settingsOf are what a configuration comes to.
func settingsOf(t *testing.T, conf map[string]string) *settings {
	t.Helper()
	v, errs := definition.Parse(conf)
	if len(errs) == 0 {
		var s *settings
		if s, errs = parse(v); len(errs) == 0 {
			return s
		}
	}
	t.Fatal(errs)
	return nil
}

// once takes a snapshot alone and returns its records by table, as text.
func (d *database) once(more ...string) map[string]string {
	d.Helper()
	r := d.start(d.config(append([]string{"snapshot.mode", "initial_only"}, more...)...), nil)
	r.WaitFor("the snapshot", func() bool { p := r.Task.(*task).scan.Progress(); return p != nil && p.State == "completed" })
	r.WaitFor("its offset", func() bool {
		v, _ := r.Offsets.Stored(context.Background(), r.Task.(*task).partition)
		p, ok, err := parsePosition(v)
		return err == nil && ok && !p.snapshot
	})
	r.Stop()
	out := map[string]string{}
	for _, rec := range r.Records() {
		src := rec.Value.Get("source")
		name := src.Get("schema").Str() + "." + src.Get("table").Str()
		out[name] = strings.TrimSpace(out[name] + " " + text(rec.Value.Get("after")))
	}
	return out
}

// TestKeysOfTheSnapshot: what a snapshot shows of settings.
func TestKeysOfTheSnapshot(t *testing.T) {
	d := newDatabase(t)
	d.exec(`CREATE SCHEMA s`, `CREATE TABLE s.a (id int PRIMARY KEY, "x-y" money)`, `CREATE TABLE b (id int PRIMARY KEY)`, `CREATE TABLE c (id int PRIMARY KEY)`,
		`INSERT INTO s.a VALUES (1, 2.5)`, `INSERT INTO b VALUES (2)`, `INSERT INTO c VALUES (3)`)
	for _, c := range []struct {
		name string
		conf []string
		want map[string]string
	}{
		{"all", nil, map[string]string{"s.a": "id:1", "public.b": "{id:2}", "public.c": "{id:3}"}},
		{"table.exclude.list", []string{"table.exclude.list", `public\.b,s\..*`}, map[string]string{"public.c": "{id:3}"}},
		{"schema.exclude.list", []string{"schema.exclude.list", "pub.*"}, map[string]string{"s.a": ""}},
		{"field.name.adjustment.mode", []string{"field.name.adjustment.mode", "avro", "schema.include.list", "s"}, map[string]string{"s.a": "x_y"}},
		{"schema.name.adjustment.mode alone", []string{"schema.name.adjustment.mode", "avro", "schema.include.list", "s"}, map[string]string{"s.a": "x-y"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &database{t, d.server, d.name, d.conn}
			got := d.once(c.conf...)
			if len(got) != len(c.want) {
				t.Errorf("tables %v", got)
			}
			for table, want := range c.want {
				if row, ok := got[table]; !ok || !strings.Contains(row, want) {
					t.Errorf("%s: %q, want %q in it", table, row, want)
				}
			}
		})
	}
	// table.ignore.builtin
	if got := d.once("table.include.list", "information_schema.sql_sizing"); len(got) != 0 {
		t.Errorf("tables of the server's own are captured: %v", got)
	}
	if got := d.once("table.include.list", "information_schema.sql_sizing", "table.ignore.builtin", "false"); len(got) != 1 {
		t.Errorf("table.ignore.builtin=false: %d tables", len(got))
	}
	// money.fraction.digits
	for digits, want := range map[string]int{"2": 2, "0": 0, "4": 4} {
		r := d.start(d.config("snapshot.mode", "initial_only", "money.fraction.digits", digits, "table.include.list", "s.a", "decimal.handling.mode", "precise"), nil)
		r.WaitFor("the row", func() bool { return r.Count() == 1 })
		r.Stop()
		f := r.Records()[0].Value.Get("after").Schema().Fields()[1].Schema
		if got, _ := f.Param("scale"); got != strconv.Itoa(want) {
			t.Errorf("money.fraction.digits=%s: scale %q", digits, got)
		}
	}
	// guardrail.collections.max and guardrail.collections.limit.action
	if got := d.once("guardrail.collections.max", "2", "guardrail.collections.limit.action", "warn"); len(got) != 3 {
		t.Errorf("a guardrail that warns: %v", got)
	}
	if got := d.once("guardrail.collections.max", "3", "guardrail.collections.limit.action", "fail"); len(got) != 3 {
		t.Errorf("a guardrail that is kept: %v", got)
	}
	err := d.start(d.config("guardrail.collections.max", "2", "guardrail.collections.limit.action", "fail"), nil).Wait()
	if err == nil || !strings.Contains(err.Error(), "3 tables") || connectors.RetryOf(err) != connectors.RetryNever {
		t.Errorf("a guardrail that is broken: %v", err)
	}
}

// TestKeysOfTheStream: what a stream shows of settings.
func TestKeysOfTheStream(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, big text, k int)", "ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
	conf := d.config("tombstones.on.delete", "false", "unavailable.value.placeholder", "hex:2d2d", "message.prefix.exclude.list", "no.*", "heartbeat.interval.ms", "50", "heartbeat.topics.prefix", "beats",
		"xmin.fetch.interval.ms", "20", "provide.transaction.metadata", "true", "topic.transaction", "tx", "plugin.name", "decoderbufs", "slot.stream.params", "binary=false", "snapshot.mode", "no_data")
	store := &connectortest.OffsetStore{}
	r := d.streaming(conf, store)
	r.WaitFor("a heartbeat, before which the slot's xmin was read", func() bool { return len(on(r.Records(), "beats.p")) > 0 })
	d.exec("INSERT INTO t VALUES (1, repeat('x', 9000), 1)", "UPDATE t SET k = 2", "DELETE FROM t", "SELECT pg_logical_emit_message(true, 'nothing', 'a')", "SELECT pg_logical_emit_message(true, 'yes', 'b')")
	r.WaitFor("all of it", func() bool { return len(on(r.Records(), "p.message")) >= 1 && len(on(r.Records(), "p.tx")) >= 8 })
	r.Stop()
	rs := on(r.Records(), "p.public.t")
	if got := ops(rs); got != "c1 u1 d1" {
		t.Errorf("tombstones.on.delete=false: %s", got)
	}
	if got := rs[1].Value.Get("after").Get("big").Str(); got != "--" {
		t.Errorf("unavailable.value.placeholder: %q", got)
	}
	if m := on(r.Records(), "p.message"); len(m) != 1 || m[0].Key.Get("prefix").Str() != "yes" {
		t.Errorf("message.prefix.exclude.list: %v", lines(m))
	}
	if x := rs[2].Value.Get("source").Get("xmin"); x.IsNull() || x.Int() <= 0 {
		t.Errorf("xmin.fetch.interval.ms: source block %v", rs[2].Value.Get("source"))
	}
	v, err := store.Stored(context.Background(), r.Task.(*task).partition)
	if x, ok := v.Lookup("xmin"); err != nil || !ok || x.Int() <= 0 {
		t.Errorf("xmin.fetch.interval.ms: the offset has no xmin: %v, %v", v, err)
	}
	if plugin := d.text("SELECT plugin FROM pg_replication_slots WHERE slot_name = '" + d.name + "'"); plugin != "pgoutput" {
		t.Errorf("plugin.name=decoderbufs made a slot of %s", plugin)
	}
	// The older name of heartbeat.topics.prefix, which gives way to it.
	if s := settingsOf(t, d.config("topic.heartbeat.prefix", "old")); s.heartbeatTopic != "old.p" {
		t.Errorf("topic.heartbeat.prefix: %s", s.heartbeatTopic)
	}
	if s := settingsOf(t, d.config("topic.heartbeat.prefix", "old", "heartbeat.topics.prefix", "new")); s.heartbeatTopic != "new.p" {
		t.Errorf("heartbeat.topics.prefix beside its older name: %s", s.heartbeatTopic)
	}
}

// TestPositionsThatAreNotConfirmed: flush.lsn.source=false and lsn.flush.mode=manual leave the
// slot where it is.
func TestPositionsThatAreNotConfirmed(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY)")
	for i, c := range []struct {
		conf  []string
		moves bool
	}{
		{[]string{"lsn.flush.mode", "connector"}, true}, {[]string{"lsn.flush.mode", "connector_and_driver"}, true},
		{[]string{"lsn.flush.mode", "manual"}, false}, {[]string{"flush.lsn.source", "false"}, false},
	} {
		t.Run(strings.Join(c.conf, "="), func(t *testing.T) {
			d := &database{t, d.server, d.name, d.conn}
			slot := d.name + strconv.Itoa(i)
			at := func() string {
				return d.text("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '" + slot + "'")
			}
			r := d.streaming(d.config(append(c.conf, "slot.name", slot, "status.update.interval.ms", "20", "snapshot.mode", "no_data")...), nil)
			before := at()
			d.exec(fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
			r.WaitFor("the row", func() bool { return r.Count() == 1 })
			if c.moves {
				r.WaitFor("the slot to move on", func() bool { return at() != before })
			} else {
				// Whoever confirms does so within a second of the commit: more reports than that go out.
				sent := r.Task.(*task).confirmed.Load()
				r.WaitFor("some reports", func() bool {
					return d.text("SELECT count(*) FROM pg_stat_replication s JOIN pg_replication_slots r ON r.active_pid = s.pid WHERE r.slot_name = '"+slot+"' AND s.write_lsn > '"+before+"'") == "1"
				})
				if sent != 0 || at() != before {
					t.Errorf("the slot moved from %s to %s", before, at())
				}
			}
			r.Stop()
		})
	}
}

// TestKeysOfConnections: statements at the beginning, the limit of a query, keeping TCP alive.
func TestKeysOfConnections(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE marks (v text)")
	ctx := context.Background()
	s := settingsOf(t, d.config("database.initial.statements", "INSERT INTO marks VALUES ('a;;b'); SET search_path = nowhere", "database.query.timeout.ms", "200"))
	c, err := s.open(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if got := d.text("SELECT string_agg(v, ',') FROM marks"); got != "a;b" {
		t.Errorf("database.initial.statements: %q", got)
	}
	rows, err := c.query(ctx, "SHOW search_path")
	if err != nil || rows[0][0].text != "nowhere" {
		t.Errorf("database.initial.statements: %v, %v", rows, err)
	}
	began := time.Now()
	if _, err := c.query(ctx, "SELECT pg_sleep(60)"); err == nil || time.Since(began) > 30*time.Second {
		t.Errorf("database.query.timeout.ms=200: %v after %v", err, time.Since(began))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, want := range []bool{true, false} {
		cfg, err := settingsOf(t, d.config("database.tcpKeepAlive", strconv.FormatBool(want))).config(false)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := cfg.DialFunc(ctx, "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var on int
		var failed error
		if err := raw.Control(func(fd uintptr) {
			on, failed = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
		}); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		if (on != 0) != want {
			t.Errorf("database.tcpKeepAlive=%t: SO_KEEPALIVE is %d", want, on)
		}
		conn.Close()
	}
}

// TestCommandsOfSlots: slot.failover and slot.stream.params in the server's commands.
func TestCommandsOfSlots(t *testing.T) {
	conf := map[string]string{"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d", "slot.name": "s", "slot.failover": "true", "slot.stream.params": "origin=none;x=it's"}
	s := settingsOf(t, conf)
	for _, c := range []struct {
		version   int
		temporary bool
		want      string
	}{
		{180001, false, `CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput (SNAPSHOT 'export', FAILOVER true)`},
		{180001, true, `CREATE_REPLICATION_SLOT "s" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'export')`},
		{160004, false, `CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput (SNAPSHOT 'export')`},
		{140010, false, `CREATE_REPLICATION_SLOT "s" LOGICAL pgoutput EXPORT_SNAPSHOT`},
	} {
		if got := s.createSQL(c.version, "s", c.temporary); got != c.want {
			t.Errorf("%d: %s, want %s", c.version, got, c.want)
		}
	}
	s.failover = false
	if got := s.createSQL(180001, "s", false); strings.Contains(got, "FAILOVER") {
		t.Errorf("without slot.failover: %s", got)
	}
	if got := s.startSQL(160000, 16); !strings.Contains(got, `"origin" 'none', "x" 'it''s'`) {
		t.Errorf("slot.stream.params: %s", got)
	}
}

// TestQueueBytes: max.queue.size.in.bytes bounds what waits while the log is behind.
func TestQueueBytes(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1, 5000) n")
	r := d.start(d.config("snapshot.mode", "initial_only", "max.queue.size.in.bytes", "100000", "max.batch.size", "10"), nil, connectortest.Blocked)
	use := func() float64 {
		return connectortest.Figures(r.Task.(*task).Samples())["CurrentQueueSizeInBytes snapshot"]
	}
	r.WaitFor("the queue to fill", func() bool { return use() > 80000 })
	if got := connectortest.Figures(r.Task.(*task).Samples())["MaxQueueSizeInBytes snapshot"]; got != 100000 || use() > 100000 {
		t.Errorf("%v bytes wait, of at most %v", use(), got)
	}
	r.Open()
	r.WaitFor("all rows", func() bool { return r.Count() == 5000 })
	r.Stop()
}

// TestRetries: errors.max.retries of restarts in a row, as the worker counts them.
func TestRetries(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	for _, c := range []struct {
		most     string
		restarts int
		want     connectors.Retry
	}{
		{"-1", 1000, connectors.RetryHelps}, {"0", 0, connectors.RetryNever}, {"2", 0, connectors.RetryHelps}, {"2", 1, connectors.RetryHelps}, {"2", 2, connectors.RetryNever},
	} {
		v, errs := definition.Parse(map[string]string{"topic.prefix": "p", "database.hostname": "127.0.0.1", "database.port": strconv.Itoa(port), "database.user": "u", "database.dbname": "d", "errors.max.retries": c.most})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		tk, err := newTask(connectors.Context{Restarts: c.restarts}, v)
		if err != nil {
			t.Fatal(err)
		}
		err = tk.Run(context.Background(), nowhere{})
		if f := connectors.FailureOf(err); f == nil || f.Reason != reasonUnreachable || connectors.RetryOf(err) != c.want {
			t.Errorf("errors.max.retries=%s after %d restarts: %v (%v), want %v", c.most, c.restarts, err, connectors.RetryOf(err), c.want)
		}
	}
}

type nowhere struct{}

func (nowhere) Emit(context.Context, connectors.Batch) error { return nil }

// TestNotices: what has no meaning is told, by name or by its family, with the reason.
func TestNotices(t *testing.T) {
	v, errs := definition.Parse(map[string]string{"driver.loginTimeout": "1", "signal.kafka.topic": "x", "signal.consumer.a.b": "1", "signal.file": "f", "snapshot.max.threads": "4", "snapshot.fetch.size": "7", "openlineage.integration.enabled": "true"})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var got []string
	for _, n := range v.Ignored() {
		got = append(got, n.Key)
		if n.Reason == "" {
			t.Errorf("%s: no reason", n.Key)
		}
	}
	if want := []string{"driver.loginTimeout", "openlineage.integration.enabled", "signal.consumer.a.b", "signal.file", "signal.kafka.topic", "snapshot.fetch.size", "snapshot.max.threads"}; !slices.Equal(got, want) {
		t.Errorf("told of %v, want %v", got, want)
	}
	if u := v.Undeclared(); len(u) > 0 {
		t.Errorf("unknown: %v", u)
	}
}
