package mysql

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/deploy/peers"
	"millrace/schema/config"
)

// validate checks a configuration as the runtime does: keys first, then the connector.
func validate(t *testing.T, p connectors.SourcePlugin, conf map[string]string) []*config.Error {
	t.Helper()
	v, errs := p.Config.Parse(conf)
	if len(errs) == 0 {
		src, err := p.New(connectors.Context{Task: -1}, v)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		errs = src.(connectors.Validator).Validate(ctx)
	}
	for _, e := range errs {
		if strings.Contains(e.Error()+e.Value+e.Reason, secretOfTest) {
			t.Errorf("the password is in the error: %s", e)
		}
	}
	return errs
}

// one fails unless there is one error, at the key, that holds all the words.
func one(t *testing.T, errs []*config.Error, key string, words ...string) {
	t.Helper()
	var texts []string
	for _, e := range errs {
		texts = append(texts, e.Key+": "+e.Error())
	}
	if len(errs) != 1 || errs[0].Key != key {
		t.Fatalf("errors %q, want one at %s", texts, key)
	}
	for _, w := range words {
		if !strings.Contains(errs[0].Error(), w) {
			t.Errorf("%q is not in the error: %v", w, errs[0])
		}
	}
}

func with(conf map[string]string, pairs ...string) map[string]string {
	out := maps.Clone(conf)
	for i := 0; i < len(pairs); i += 2 {
		if out[pairs[i]] = pairs[i+1]; pairs[i+1] == "" {
			delete(out, pairs[i])
		}
	}
	return out
}

// TestValidateSettings needs no server: what is wrong with the settings themselves.
func TestValidateSettings(t *testing.T) {
	good := map[string]string{"topic.prefix": "p", "database.hostname": "127.0.0.1", "database.port": "1", "database.user": "u", "database.server.id": "5", "database.password": secretOfTest}
	for _, c := range []struct {
		name  string
		conf  map[string]string
		key   string
		words []string
	}{
		{"a missing server id, in Debezium's words", with(good, "database.server.id", ""), "database.server.id", []string{"The 'database.server.id' value is invalid: A value is required"}},
		{"a missing prefix", with(good, "topic.prefix", ""), "topic.prefix", []string{"The 'topic.prefix' value is invalid: A value is required"}},
		{"two lists that exclude each other", with(good, "database.include.list", "a", "database.exclude.list", "b"), "database.exclude.list", []string{"database.include.list"}},
		{"origins both ways", with(good, "gtid.source.includes", "a", "gtid.source.excludes", "b"), "gtid.source.excludes", []string{"gtid.source.includes"}},
		{"a queue smaller than a batch", with(good, "max.batch.size", "9999999"), "max.queue.size", []string{"Must be larger than the maximum batch size"}},
		{"a key of Debezium 1", with(good, "database.history.kafka.topic", "t"), "database.history.kafka.topic", []string{"schema.history.internal.kafka.topic"}},
		{"a history that cannot be kept", with(good, "schema.history.internal", "io.debezium.storage.s3.history.S3SchemaHistory"), "schema.history.internal", []string{"FileSchemaHistory"}},
		{"a history in a file without its name", with(good, "schema.history.internal", fileHistory), "schema.history.internal.file.filename", []string{"A value is required"}},
		{"an override without its statement", with(good, "snapshot.select.statement.overrides", "a.b"), "snapshot.select.statement.overrides", []string{"snapshot.select.statement.overrides.a.b"}},
		{"a host that refuses", good, "database.hostname", []string{"127.0.0.1:1", "refused", "database.port"}},
	} {
		t.Run(c.name, func(t *testing.T) { one(t, validate(t, Source, c.conf), c.key, c.words...) })
	}
	var keys []string
	for _, e := range validate(t, Source, map[string]string{}) {
		keys = append(keys, e.Key)
	}
	if want := []string{"topic.prefix", "database.hostname", "database.user", "database.server.id"}; !slices.Equal(keys, want) {
		t.Errorf("without settings: errors at %v, want %v", keys, want)
	}
}

// TestValidateServer looks at real servers from users of little rights. What it changes of
// a server's settings it changes on one of its own.
func TestValidateServer(t *testing.T) {
	for _, mariadb := range []bool{false, true} {
		name, own := "MySQL", peers.MySQLOwn
		if mariadb {
			name, own = "MariaDB", peers.MariaDBOwn
		}
		t.Run(name, func(t *testing.T) {
			server := own(t, peers.MySQLOptions{})
			d := databaseOn(t, server)
			client := "BINLOG MONITOR"
			if !mariadb {
				client = "REPLICATION CLIENT"
			}
			d.exec("CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE hidden (id int PRIMARY KEY, secret int)")
			user := func(name string, grants ...string) {
				d.exec(fmt.Sprintf("CREATE USER '%s'@'127.0.0.1' IDENTIFIED BY '%s'", name, secretOfTest))
				for _, g := range grants {
					d.exec(fmt.Sprintf("GRANT %s TO '%s'@'127.0.0.1'", g, name))
				}
			}
			user("reader", "REPLICATION SLAVE, "+client+", RELOAD ON *.*", "SELECT ON "+d.name+".orders")
			user("weak", "SELECT ON "+d.name+".orders")
			user("noreload", "REPLICATION SLAVE, "+client+" ON *.*", "SELECT ON "+d.name+".orders")
			user("part", "REPLICATION SLAVE, "+client+", RELOAD ON *.*", "SELECT ON "+d.name+".orders", "SELECT (id) ON "+d.name+".hidden")
			good := with(d.config("database.user", "reader", "database.password", secretOfTest, "table.include.list", d.name+".orders"), "database.hostname", "127.0.0.1")
			check := func(name string, conf map[string]string, key string, words ...string) {
				t.Run(name, func(t *testing.T) { one(t, validate(t, d.plugin(), conf), key, words...) })
			}
			if errs := validate(t, d.plugin(), good); len(errs) > 0 {
				t.Fatalf("a good configuration: %v", errs[0])
			}
			check("a wrong password", with(good, "database.password", "wrong"), "database.user", "reader", "database.password")
			check("no rights", with(good, "database.user", "weak"), "database.user", "weak", "GRANT REPLICATION SLAVE, "+client+", RELOAD ON *.* TO 'weak'@'127.0.0.1'")
			check("no RELOAD", with(good, "database.user", "noreload"), "database.user", "GRANT RELOAD")
			if errs := validate(t, d.plugin(), with(good, "database.user", "noreload", "snapshot.locking.mode", "none")); len(errs) > 0 {
				t.Errorf("without locks RELOAD is not needed: %v", errs[0])
			}
			check("no SELECT on a column", with(good, "database.user", "part", "table.include.list", d.name+".*"), "table.include.list", "hidden", "GRANT SELECT")
			check("a list that matches nothing", with(good, "table.include.list", "orders"), "table.include.list", "no table", "<database>.<table>")
			check("databases that match nothing", with(good, "table.include.list", "", "database.include.list", "nothing"), "database.include.list", "no table")
			check("the server's own number", with(good, "database.server.id", d.text("SELECT @@server_id")), "database.server.id", "@@server_id")
			check("too many tables", with(good, "database.user", "root", "database.password", "", "table.include.list", d.name+".*", "guardrail.collections.max", "1", "guardrail.collections.limit.action", "fail"), "table.include.list", "guardrail.collections.max=1")
			other := Source
			if !mariadb {
				other = MariaDB
			}
			t.Run("the other connector", func(t *testing.T) {
				one(t, validate(t, other, with(good, "database.ssl.mode", "")), "database.hostname", "connector.class="+d.plugin().Class)
			})
			d.exec("SET GLOBAL binlog_row_image = 'MINIMAL'")
			check("rows in part", good, "database.hostname", "SET GLOBAL binlog_row_image = 'FULL'")
			d.exec("SET GLOBAL binlog_row_image = 'FULL'", "SET GLOBAL binlog_expire_logs_seconds = 60")
			check("a log that is kept for a minute", good, "database.hostname", "60 seconds", "SET GLOBAL binlog_expire_logs_seconds")
			d.exec("SET GLOBAL binlog_expire_logs_seconds = 0", "SET GLOBAL binlog_format = 'STATEMENT'")
			check("statements in the log", good, "database.hostname", "binlog_format", "SET GLOBAL binlog_format = 'ROW'")
			d.exec("SET GLOBAL binlog_format = 'ROW'")
			variable := "binlog_rows_query_log_events"
			if mariadb {
				variable = "binlog_annotate_row_events"
			}
			d.exec("SET GLOBAL " + variable + " = OFF")
			check("statements that are not logged beside rows", with(good, "include.query", "true"), "include.query", "SET GLOBAL "+variable)
		})
	}
	t.Run("without GTIDs", func(t *testing.T) {
		d := databaseOn(t, peers.MySQLOwn(t, peers.MySQLOptions{Settings: map[string]string{"gtid-mode": "OFF", "enforce-gtid-consistency": "OFF"}}))
		d.exec("CREATE TABLE t (id int PRIMARY KEY)")
		if errs := validate(t, Source, d.config()); len(errs) > 0 {
			t.Errorf("they are not needed: %v", errs[0])
		}
		one(t, validate(t, Source, d.config("gtid.source.includes", ".*")), "gtid.source.includes", "gtid_mode=ON")
	})
}
