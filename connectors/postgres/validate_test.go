package postgres

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/deploy/peers"
	"millrace/schema/config"
)

const secret = "s3cr3t-of-the-test"

// validate checks a configuration as the runtime does: keys first, then the connector.
func validate(t *testing.T, conf map[string]string) []*config.Error {
	t.Helper()
	v, errs := Source.Config.Parse(conf)
	if len(errs) == 0 {
		src, err := Source.New(connectors.Context{Task: -1}, v)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		errs = src.(connectors.Validator).Validate(ctx)
	}
	for _, e := range errs {
		if strings.Contains(e.Error()+e.Value+e.Reason, secret) {
			t.Errorf("the password is in the error: %s", e)
		}
	}
	return errs
}

// expect fails unless there is one error, at the key, that holds all the words.
func expect(t *testing.T, errs []*config.Error, key string, words ...string) {
	t.Helper()
	if len(errs) != 1 || errs[0].Key != key {
		t.Fatalf("errors %v, want one at %s", show(errs), key)
	}
	for _, w := range words {
		if !strings.Contains(errs[0].Error(), w) {
			t.Errorf("%q is not in the error: %v", w, errs[0])
		}
	}
}

func show(errs []*config.Error) (out []string) {
	for _, e := range errs {
		out = append(out, e.Key+": "+e.Error())
	}
	return out
}

func with(conf map[string]string, pairs ...string) map[string]string {
	out := map[string]string{}
	for k, v := range conf {
		out[k] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			delete(out, pairs[i])
		} else {
			out[pairs[i]] = pairs[i+1]
		}
	}
	return out
}

// TestValidateSettings needs no server: what is wrong with the settings themselves.
func TestValidateSettings(t *testing.T) {
	good := map[string]string{"topic.prefix": "p", "database.hostname": "127.0.0.1", "database.port": "1", "database.user": "u", "database.dbname": "d", "database.password": secret}
	for _, c := range []struct {
		name  string
		conf  map[string]string
		key   string
		words []string
	}{
		{"a missing prefix, in Debezium's words", with(good, "topic.prefix", ""), "topic.prefix", []string{"The 'topic.prefix' value is invalid: A value is required"}},
		{"a bad prefix", with(good, "topic.prefix", "bad prefix!"), "topic.prefix", []string{"The 'topic.prefix' value is invalid: bad prefix! has invalid format (only the underscore, hyphen, dot and alphanumeric characters are allowed)"}},
		{"a missing host", with(good, "database.hostname", ""), "database.hostname", []string{"The 'database.hostname' value is invalid: A value is required"}},
		{"an unknown plugin", with(good, "plugin.name", "nope"), "plugin.name", []string{"The 'plugin.name' value is invalid: Value must be one of decoderbufs, pgoutput"}},
		{"a bad slot name", with(good, "slot.name", "Bad-Slot"), "slot.name", []string{"The 'slot.name' value is invalid: Valid replication slot name must contain only digits, lowercase characters and underscores with length <= 63"}},
		{"a queue smaller than a batch", with(good, "max.batch.size", "9999999"), "max.queue.size", []string{"The 'max.queue.size' value is invalid: Must be larger than the maximum batch size"}},
		{"two lists that exclude each other", with(good, "table.include.list", "a.b", "table.exclude.list", "a.c"), "table.exclude.list", []string{"table.include.list"}},
		{"a snapshot mode of a Java class", with(good, "snapshot.mode", "custom"), "snapshot.mode", []string{"Java class", "configuration_based"}},
		{"a snapshot mode of another database", with(good, "snapshot.mode", "recovery"), "snapshot.mode", []string{"history of schemas", "no_data"}},
		{"a snapshot mode of old", with(good, "snapshot.mode", "exported"), "snapshot.mode", []string{"initial"}},
		{"a snapshot mode that nobody has", with(good, "snapshot.mode", "x"), "snapshot.mode", []string{"always, initial, initial_only, no_data, when_needed, configuration_based"}},
		{"a mode that does nothing", with(good, "snapshot.mode", "configuration_based"), "snapshot.mode", []string{"snapshot.mode.configuration.based.start.stream"}},
		{"no regular expression", with(good, "table.include.list", "a.(b"), "table.include.list", []string{"(b"}},
		{"signals", with(good, "signal.data.collection", "a.b"), "signal.data.collection", []string{"signals", "not supported"}},
		{"a post processor of Java's", with(good, "post.processors", "p", "p.type", "com.acme.P"), "p.type", []string{"Java"}},
		{"a key of Debezium 1", with(good, "table.whitelist", "a.b"), "table.whitelist", []string{"table.include.list"}},
		{"an override without its statement", with(good, "snapshot.select.statement.overrides", "a.b"), "snapshot.select.statement.overrides", []string{"snapshot.select.statement.overrides.a.b"}},
		{"a mask with an unknown hash", with(good, "column.mask.hash.CRC.with.salt.x", "a.b.c"), "column.mask.hash.CRC.with.salt.x", []string{"CRC", "SHA-256"}},
		{"a bad number", with(good, "database.port", "70000"), "database.port", []string{"65535"}},
		{"a host that refuses", good, "database.hostname", []string{"127.0.0.1:1", "refused", "database.port"}},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, validate(t, c.conf), c.key, c.words...) })
	}
	all := validate(t, map[string]string{})
	var keys []string
	for _, e := range all {
		keys = append(keys, e.Key)
	}
	if want := []string{"topic.prefix", "database.hostname", "database.user", "database.dbname"}; !slices.Equal(keys, want) {
		t.Errorf("without settings: errors at %v, want %v", keys, want)
	}
}

// TestValidateTimesOut: a server that does not answer.
func TestValidateTimesOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	start := time.Now()
	errs := validate(t, map[string]string{"topic.prefix": "p", "database.hostname": "127.0.0.1", "database.port": port, "database.user": "u",
		"database.dbname": "d", "connection.validation.timeout.ms": "500"})
	expect(t, errs, "database.hostname", port)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v with connection.validation.timeout.ms=500", took)
	}
}

// TestValidateServer looks at a real server from a user of little rights.
func TestValidateServer(t *testing.T) {
	server := peers.PostgresOwn(t, peers.PostgresOptions{Password: secret, HBA: []string{"host all all 127.0.0.1/32 scram-sha-256", "host replication all 127.0.0.1/32 scram-sha-256"}})
	d := databaseOn(t, server)
	d.exec("CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE hidden (id int PRIMARY KEY)", "CREATE SCHEMA other", "CREATE TABLE other.o (id int PRIMARY KEY)",
		"CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)", "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)",
		"CREATE ROLE reader LOGIN REPLICATION PASSWORD '"+secret+"'", "CREATE ROLE weak LOGIN PASSWORD '"+secret+"'",
		"GRANT SELECT ON orders TO reader, weak", "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
		"CREATE TABLE mine (id int PRIMARY KEY, u int NOT NULL, n int UNIQUE)", "CREATE UNIQUE INDEX u ON mine (u)", "ALTER TABLE mine OWNER TO reader",
		"SELECT pg_create_logical_replication_slot('foreign_plugin', 'test_decoding')", "SELECT pg_create_physical_replication_slot('physical')")
	good := d.config("database.user", "reader", "database.password", secret, "table.include.list", "public.orders")
	if errs := validate(t, good); len(errs) > 0 {
		t.Fatalf("a good configuration: %v", show(errs))
	}
	for _, c := range []struct {
		name  string
		conf  map[string]string
		key   string
		words []string
	}{
		{"a wrong password", with(good, "database.password", "wrong"), "database.user", []string{"reader", "password authentication failed", "pg_hba.conf"}},
		{"an unknown user", with(good, "database.user", "nobody"), "database.user", []string{"nobody"}},
		{"no such database", with(good, "database.dbname", "nowhere"), "database.dbname", []string{"nowhere", "does not exist", "create the database"}},
		{"no REPLICATION", with(good, "database.user", "weak"), "database.user", []string{"weak", "REPLICATION", `ALTER ROLE "weak" REPLICATION`}},
		{"no SELECT", with(good, "table.include.list", "public.orders,public.hidden"), "table.include.list", []string{"hidden", "GRANT SELECT"}},
		{"a list that matches nothing", with(good, "table.include.list", "orders"), "table.include.list", []string{"no table", "<schema>.<table>"}},
		{"schemas that match nothing", with(good, "table.include.list", "", "schema.include.list", "nothing"), "schema.include.list", []string{"no table"}},
		{"only partitioned tables", with(good, "table.include.list", "public.parts"), "table.include.list", []string{"public.parts", "publish.via.partition.root=true"}},
		{"a publication that must be there", with(good, "publication.name", "mine", "publication.autocreate.mode", "disabled"), "publication.name", []string{`"mine"`, "CREATE PUBLICATION"}},
		{"a publication that only a superuser may make", with(good, "publication.name", "mine"), "database.user", []string{`"mine"`, "publication.autocreate.mode=filtered"}},
		{"a publication for tables of others", with(good, "publication.name", "mine", "publication.autocreate.mode", "filtered"), "publication.name", []string{`"mine"`, "GRANT CREATE ON DATABASE"}},
		{"a replica identity of a table of another", with(good, "replica.identity.autoset.values", "public.orders:FULL"), "replica.identity.autoset.values", []string{"public.orders", `ALTER TABLE "public"."orders" REPLICA IDENTITY FULL`}},
		{"a replica identity without its index", with(good, "table.include.list", "public.mine", "replica.identity.autoset.values", "public.mine:INDEX no"), "replica.identity.autoset.values", []string{`"no"`, "CREATE UNIQUE INDEX"}},
		{"a replica identity of an index that does not fit", with(good, "table.include.list", "public.mine", "replica.identity.autoset.values", "public.mine:INDEX mine_n_key"), "replica.identity.autoset.values", []string{"mine_n_key", "NOT NULL"}},
		{"a slot of another plugin", with(good, "slot.name", "foreign_plugin"), "slot.name", []string{"test_decoding", "pgoutput"}},
		{"a physical slot", with(good, "slot.name", "physical"), "slot.name", []string{"physical"}},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, validate(t, c.conf), c.key, c.words...) })
	}
	for name, conf := range map[string]map[string]string{
		"replica identities that can be set":                     with(good, "table.include.list", "public.mine", "replica.identity.autoset.values", "public.mine:INDEX u"),
		"no REPLICATION, and no slot, for a snapshot alone":      with(good, "database.user", "weak", "snapshot.mode", "initial_only", "slot.name", "physical"),
		"a publication that is there, and tables of another one": with(good, "publication.autocreate.mode", "filtered"),
	} {
		if errs := validate(t, conf); len(errs) > 0 {
			t.Errorf("%s: %v", name, show(errs))
		}
	}
	d.exec("GRANT CREATE ON DATABASE " + d.name + " TO reader")
	expect(t, validate(t, with(good, "publication.name", "mine", "publication.autocreate.mode", "filtered")), "publication.name", "orders", "owner", "CREATE PUBLICATION")
	if errs := validate(t, with(good, "table.include.list", "public.mine", "publication.name", "mine", "publication.autocreate.mode", "filtered")); len(errs) > 0 {
		t.Errorf("a publication of tables of one's own: %v", show(errs))
	}
	t.Run("a slot of another database", func(t *testing.T) {
		other := databaseOn(t, server)
		slot := other.name
		other.exec("SELECT pg_create_logical_replication_slot('" + slot + "', 'pgoutput')")
		expect(t, validate(t, with(good, "slot.name", slot)), "slot.name", other.name)
	})
	t.Run("a slot in use", func(t *testing.T) {
		d.streaming(d.config("database.password", secret, "table.include.list", "public.orders"), nil) // a slot in the making is active, too
		if errs := validate(t, good); len(errs) > 0 {
			t.Errorf("the slot's own running task stands in its way: %v", show(errs))
		}
		second := d.start(with(d.config("database.password", secret, "table.include.list", "public.orders", "slot.max.retries", "1", "slot.retry.delay.ms", "300"), "topic.prefix", "second", "snapshot.mode", "no_data"), nil)
		err := second.Wait()
		if f := connectors.FailureOf(err); f == nil || f.Reason != reasonSlotInUse || connectors.RetryOf(err) != connectors.RetryUnknown {
			t.Errorf("a second reader of the slot said %v, want the reason %s", err, reasonSlotInUse.Code)
		}
	})
}

// TestTaskSaysWhyItFails: the running task marks its errors as the runtime needs it.
func TestTaskSaysWhyItFails(t *testing.T) {
	server := peers.PostgresOwn(t, peers.PostgresOptions{Settings: map[string]string{"wal_level": "replica"}})
	d := databaseOn(t, server)
	d.exec("CREATE ROLE weak LOGIN", "CREATE TABLE t (id int PRIMARY KEY)")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	for _, c := range []struct {
		name   string
		conf   map[string]string
		reason *connectors.Reason
		retry  connectors.Retry
		words  []string
	}{
		{"wal_level", d.config(), reasonWALLevel, connectors.RetryNever, []string{`"replica"`, "ALTER SYSTEM SET wal_level"}},
		{"unreachable", d.config("database.port", strconv.Itoa(port)), reasonUnreachable, connectors.RetryHelps, []string{fmt.Sprint(port)}},
		{"unreachable, with errors.max.retries=0", d.config("database.port", strconv.Itoa(port), "errors.max.retries", "0"), reasonUnreachable, connectors.RetryNever, nil},
		{"no database", d.config("database.dbname", "nowhere"), reasonDatabase, connectors.RetryUnknown, []string{"nowhere"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := d.start(c.conf, nil).Wait()
			f := connectors.FailureOf(err)
			if f == nil || f.Reason != c.reason || connectors.RetryOf(err) != c.retry {
				t.Fatalf("the task said %v (retry %v), want the reason %s (retry %v)", err, connectors.RetryOf(err), c.reason.Code, c.retry)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q is not in the message: %v", w, err)
				}
			}
		})
	}
	expect(t, validate(t, d.config()), "database.hostname", "wal_level", "restart the server")
}
