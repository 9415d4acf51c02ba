package peers

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	"context"
	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"testing"

	"millrace/deploy/peers/run"
	"millrace/deploy/trial"
)

func TestPostgresHasLogicalDecodingAndADatabaseForEachTest(t *testing.T) {
	pg := Postgres(t)
	a, b := pg.NewDatabase(t), pg.NewDatabase(t)
	if a == b {
		t.Fatalf("two databases with the name %s", a)
	}
	c := pg.Connect(t, a)
	var level, slots string
	ctx := context.Background()
	if err := c.QueryRow(ctx, "SELECT current_setting('wal_level'), current_setting('max_replication_slots')").Scan(&level, &slots); err != nil {
		t.Fatal(err)
	}
	if level != "logical" || slots != "100" {
		t.Errorf("wal_level %s with %s slots, want logical with 100", level, slots)
	}
	// A slot that the test forgets does not keep its database from being dropped.
	pg.Exec(t, b, "SELECT pg_create_logical_replication_slot('"+b+"', 'pgoutput')")
}

func TestEachVersionOfPostgresHasItsExtensions(t *testing.T) {
	for _, row := range []struct{ version, number, extension string }{{"", "15", "postgis"}, {"18", "18", "vector"}} {
		t.Run("PostgreSQL "+row.number, func(t *testing.T) {
			pg := PostgresVersion(t, row.version)
			db := pg.NewDatabase(t)
			for _, e := range []string{row.extension, "hstore", "citext", "ltree", "isn"} {
				pg.Extension(t, db, e)
			}
			var number string
			if err := pg.Connect(t, db).QueryRow(context.Background(), "SHOW server_version").Scan(&number); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(number, row.number+".") {
				t.Errorf("the server's version is %s, want %s", number, row.number)
			}
		})
	}
}

func TestKafkaTakesARecordAndGivesItBack(t *testing.T) {
	k := Kafka(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	topic := Unique(t, "t")
	c, err := kgo.NewClient(kgo.SeedBrokers(k.Addr), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics(topic), kgo.DefaultProduceTopic(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.ProduceSync(ctx, &kgo.Record{Value: []byte("hello")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for {
		fs := c.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fs.Records() {
			if string(r.Value) != "hello" {
				t.Fatalf("got %q", r.Value)
			}
			return
		}
	}
}

func TestSearchServersSayWhatTheyAre(t *testing.T) {
	for _, name := range SearchNames() {
		t.Run(name, func(t *testing.T) {
			s, distribution := Search(t, name), ""
			if strings.HasPrefix(name, "opensearch") {
				distribution = "opensearch"
			}
			var body struct {
				Version struct{ Number, Distribution string }
			}
			resp, err := http.Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
				t.Fatal(err)
			}
			if body.Version.Number != run.SearchVersions[name] || body.Version.Distribution != distribution {
				t.Errorf("got %+v, want %s %s", body.Version, run.SearchVersions[name], distribution)
			}
		})
	}
}

func TestPostgresOfATestsOwnCanBeStoppedKilledAndHalted(t *testing.T) {
	const password = "pass word's"
	pg := PostgresOwn(t, PostgresOptions{
		Settings: map[string]string{"wal_level": "replica"},
		HBA:      []string{"host all all 127.0.0.1/32 scram-sha-256"},
		Password: password,
	})
	db := pg.NewDatabase(t)
	ctx := context.Background()
	if c, err := pgx.Connect(ctx, pg.DSNAs("postgres", "wrong", db)); err == nil {
		_ = c.Close(ctx)
		t.Fatal("a wrong password was taken")
	}
	pg.Exec(t, db, "CREATE TABLE t (n int)")
	count := func(want int) {
		t.Helper()
		var level string
		var n int
		if err := pg.Connect(t, db).QueryRow(ctx, "SELECT current_setting('wal_level'), count(*) FROM t").Scan(&level, &n); err != nil {
			t.Fatal(err)
		}
		if level != "replica" || n != want {
			t.Fatalf("wal_level %s, %d rows; want replica, %d", level, n, want)
		}
	}
	count(0)
	for i, end := range []func(testing.TB){pg.Stop, pg.Kill} {
		pg.Exec(t, db, "INSERT INTO t VALUES (1)", "CHECKPOINT")
		end(t)
		if c, err := pgx.Connect(ctx, pg.DSN(db)); err == nil {
			_ = c.Close(ctx)
			t.Fatal("a server that has ended answers")
		}
		pg.Start(t)
		count(i + 1)
	}
	c := pg.Connect(t, db)
	pg.Halt(t)
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := c.Exec(short, "SELECT 1"); err == nil {
		t.Fatal("a halted server answers")
	}
	pg.Resume(t)
	count(2)
}

func TestKcatReadsWhatKafkasConsoleProducerWrites(t *testing.T) {
	k, kcat, tools := Kafka(t), Kcat(t), KafkaTools(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	topic := Unique(t, "t")
	produce := tools.Command(ctx, "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", k.Addr, "--topic", topic)
	produce.Stdin = strings.NewReader("one\ntwo\n")
	if out, err := produce.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(ctx, kcat, "-q", "-C", "-e", "-b", k.Addr, "-t", topic).Output()
	if err != nil || string(out) != "one\ntwo\n" {
		t.Fatalf("kcat read %q, %v", out, err)
	}
	// Nothing but what the tool prints is on its standard output.
	out, err = tools.Command(ctx, "org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", k.Addr, "--topic", topic).Output()
	if err != nil || string(out) != topic+":0:2\n" {
		t.Fatalf("GetOffsetShell printed %q, %v", out, err)
	}
}

// Each Java server takes several seconds to start, so this is left to make soak.
func TestJavaServersOfATestsOwnKeepTheirDataOverAKill(t *testing.T) {
	if !trial.Soak() {
		t.Skip("run by make soak")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	k, kcat := KafkaOwn(t, "num.partitions=3"), Kcat(t)
	if out, err := exec.CommandContext(ctx, "bash", "-c", "echo hello | "+kcat+" -P -b "+k.Addr+" -t own").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	k.Kill(t)
	if listens(k.Addr) {
		t.Fatal("a killed Kafka listens")
	}
	k.Start(t)
	out, err := exec.CommandContext(ctx, kcat, "-q", "-C", "-e", "-b", k.Addr, "-t", "own", "-f", "%p %s\n").Output()
	if err != nil || !strings.HasSuffix(string(out), " hello\n") {
		t.Fatalf("got %q, %v", out, err)
	}
	for _, name := range []string{"opensearch", "elasticsearch"} {
		s := SearchOwn(t, name, "indexing_pressure.memory.limit: 2kb")
		put := func(body string) int {
			t.Helper()
			req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.URL+"/own/_doc/1?refresh=true", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			return resp.StatusCode
		}
		if got := put(`{"a":"` + strings.Repeat("x", 10_000) + `"}`); got != http.StatusTooManyRequests {
			t.Errorf("a large document: %d, want 429", got)
		}
		if got := put(`{"a":1}`); got != http.StatusCreated {
			t.Errorf("a small document: %d, want 201", got)
		}
		s.Kill(t)
		s.Start(t)
		resp, err := http.Get(s.URL + "/own/_doc/1")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("after the kill the document is gone: %s", resp.Status)
		}
	}
}

func TestMySQLAndMariaDBWriteWholeRowsIntoABinaryLog(t *testing.T) {
	for _, row := range []struct {
		name, version string
		start         func(testing.TB) *MySQLServer
	}{{"MySQL", "9.", MySQL}, {"MariaDB", "10.", MariaDB}} {
		t.Run(row.name, func(t *testing.T) {
			m := row.start(t)
			db := m.NewDatabase(t)
			c := m.Connect(t, db)
			r, err := c.Execute("SELECT VERSION(), @@log_bin, @@binlog_format, @@binlog_row_image, DATABASE(), @@character_set_database")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range 6 {
				s, _ := r.GetString(0, i)
				got = append(got, s)
			}
			if want := []string{"1", "ROW", "FULL", db, "utf8mb4"}; !strings.HasPrefix(got[0], row.version) || !slices.Equal(got[1:], want) {
				t.Errorf("got %q, want %s… and %q", got, row.version, want)
			}
		})
	}
}

func TestMySQLOfATestsOwnKeepsItsDataOverAKill(t *testing.T) {
	m := MySQLOwn(t, MySQLOptions{Settings: map[string]string{"gtid-mode": "OFF", "enforce-gtid-consistency": "OFF"}})
	db := m.NewDatabase(t)
	m.Exec(t, db, "CREATE TABLE t (n INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	m.Kill(t)
	if c, err := m.Open(db); err == nil {
		_ = c.Close()
		t.Fatal("a server that was killed answers")
	}
	m.Start(t)
	r, err := m.Connect(t, db).Execute("SELECT count(*), @@gtid_mode FROM t")
	if err != nil {
		t.Fatal(err)
	}
	n, _ := r.GetInt(0, 0)
	mode, _ := r.GetString(0, 1)
	if n != 1 || mode != "OFF" {
		t.Errorf("%d rows, gtid_mode %s; want 1, OFF", n, mode)
	}
}

func TestPythonHasLibrdkafka(t *testing.T) {
	k, py := Kafka(t), PythonClients(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out := py.Run(ctx, t, `
import sys, confluent_kafka
from confluent_kafka.admin import AdminClient
print(confluent_kafka.version(), len(AdminClient({"bootstrap.servers": sys.argv[1]}).list_topics(timeout=30).brokers))
`, k.Addr)
	if out != "2.16.1 1\n" {
		t.Errorf("got %q", out)
	}
}
