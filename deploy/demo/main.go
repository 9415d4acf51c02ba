// Command demo shows the main job with real servers: it starts a PostgreSQL and a search server under build/, starts
// Millrace, gives it three configurations over REST, changes rows, and shows the events as they arrive and where they end.
// Then everything keeps running for whoever wants to try something, until Ctrl-C.
//
//	demo [-once] [-search opensearch|elasticsearch] [-bin bin/millrace] [-dir build/demo]
//
// With -once it ends by itself; its exit status is 0 only if every row, change and delete arrived in the topic, the index
// and the file. make demo runs it.
package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/deploy/drive"
	"millrace/deploy/peers/run"
)

//go:embed connectors
var connectors embed.FS

const (
	topic    = "shop.public.orders"
	password = "shop-secret"
)

type demo struct {
	*screen
	bin, dir, kind string
	once           bool

	pgDir    string // under dir, unless the user postgres cannot get there
	postgres *run.Server
	search   *run.Server
	millrace *drive.Millrace
	conn     *pgx.Conn
	topic    *reader
	want     expected
	closers  []func() error
}

func main() {
	d := new(demo)
	flag.BoolVar(&d.once, "once", false, "end after the story; the exit status tells whether all arrived everywhere")
	flag.StringVar(&d.kind, "search", "opensearch", "opensearch or elasticsearch")
	flag.StringVar(&d.bin, "bin", "bin/millrace", "the binary")
	flag.StringVar(&d.dir, "dir", "build/demo", "the folder for everything that runs; emptied first")
	flag.Parse()
	d.screen = newScreen(os.Stdout, d.once)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := d.story(ctx)
	interrupted := ctx.Err() != nil
	stop() // a second Ctrl-C ends us at once, and the servers with us
	if err != nil && interrupted {
		err = nil
	}
	if closing := d.close(); closing != nil {
		err = errors.Join(err, fmt.Errorf("clean up: %w", closing))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		if d.millrace != nil {
			fmt.Fprintf(os.Stderr, "what Millrace said is in %s\n", d.millrace.Log())
		}
		os.Exit(1)
	}
	if interrupted && d.once {
		os.Exit(130)
	}
}

func (d *demo) onClose(f func() error) { d.closers = append(d.closers, f) }

func (d *demo) close() error {
	if len(d.closers) > 1 {
		d.print("\nStopping Millrace, %s and PostgreSQL …", title(d.kind))
	}
	var errs []error
	for i := len(d.closers) - 1; i >= 0; i-- {
		errs = append(errs, d.closers[i]())
	}
	return errors.Join(errs...)
}

func (d *demo) story(ctx context.Context) error {
	if d.kind != "opensearch" && d.kind != "elasticsearch" {
		return fmt.Errorf("-search is opensearch or elasticsearch, not %q", d.kind)
	}
	d.print("%s\nThe changes of a PostgreSQL table go into a topic, and from there into a search index and a file:\none binary, three configurations.", d.paint(bold, "Millrace"))
	for _, part := range []func(context.Context) error{d.prepare, d.servers, d.start, d.configure, d.statements, d.burst, d.results} {
		if err := part(ctx); err != nil {
			return err
		}
		d.pause(time.Second)
	}
	if d.once {
		return nil
	}
	return d.stay(ctx)
}

// prepare makes the folder and installs what is missing on this machine.
func (d *demo) prepare(ctx context.Context) error {
	var err error
	if d.dir, err = filepath.Abs(d.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(d.dir), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(d.dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	d.onClose(lock.Close)
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("another demo runs in %s; stop it, or choose another folder with -dir", d.dir)
	}
	if err := os.RemoveAll(d.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(d.dir, "files"), 0o755); err != nil {
		return err
	}
	if err := os.Chmod(d.dir, 0o755); err != nil {
		return err
	}
	d.pgDir = filepath.Join(d.dir, "postgres")
	if err := run.Passable(d.dir); err != nil {
		// A checkout below /root, say: its folder is closed to the user postgres.
		other, err := run.NewDir()
		if err != nil {
			return err
		}
		d.onClose(other.Remove)
		d.pgDir = filepath.Join(other.Path, "postgres")
	}
	d.heading("Real servers")
	log, err := os.Create(filepath.Join(d.dir, "install.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	for _, kind := range []string{"postgres", d.kind} {
		if _, err := run.Install(ctx, kind, d.progress(log)); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) servers(ctx context.Context) error {
	d.print("    %s", d.paint(dim, "starting PostgreSQL and "+title(d.kind)+" …"))
	type started struct {
		server *run.Server
		took   time.Duration
		err    error
	}
	launch := func(f func() (*run.Server, error)) <-chan started {
		c := make(chan started, 1)
		go func() {
			began := time.Now()
			s, err := f()
			c <- started{s, time.Since(began), err}
		}()
		return c
	}
	// The role shop has a password; the superuser, who only makes that role, comes in without one.
	hba := []string{"host all postgres 127.0.0.1/32 trust", "host all all 127.0.0.1/32 scram-sha-256"}
	pg := launch(func() (*run.Server, error) {
		return run.Postgres(ctx, d.pgDir, run.PostgresOptions{HBA: hba, Durable: true})
	})
	es := launch(func() (*run.Server, error) {
		return run.Search(ctx, d.kind, filepath.Join(d.dir, d.kind), "")
	})
	a, b := <-pg, <-es
	for _, s := range []started{a, b} {
		if s.server != nil {
			d.onClose(s.server.Stop)
		}
	}
	if err := errors.Join(a.err, b.err); err != nil {
		return err
	}
	d.postgres, d.search = a.server, b.server
	var err error
	if d.conn, err = d.shop(ctx); err != nil {
		return err
	}
	d.onClose(func() error { return d.conn.Close(context.Background()) })
	var pgVersion string
	if err := d.conn.QueryRow(ctx, "SHOW server_version").Scan(&pgVersion); err != nil {
		return err
	}
	pgVersion, _, _ = strings.Cut(pgVersion, " ")
	text, err := request(ctx, http.MethodGet, "http://"+d.search.Addr+"/")
	if err != nil {
		return err
	}
	var about struct{ Version struct{ Number string } }
	if err := json.Unmarshal(text, &about); err != nil {
		return err
	}
	d.print("    %-22s %s  %s", "PostgreSQL "+pgVersion, d.paint(cyan, d.dsn()), d.paint(dim, short(a.took)))
	d.print("    %-22s %s  %s", title(d.kind)+" "+about.Version.Number, d.paint(cyan, "http://"+d.search.Addr), d.paint(dim, short(b.took)))
	return nil
}

func (d *demo) dsn() string { return run.PostgresDSN(d.postgres.Addr, "shop", password, "shop") }

// shop makes the database with its owner, who may replicate, and the table with its first rows.
func (d *demo) shop(ctx context.Context) (*pgx.Conn, error) {
	admin, err := pgx.Connect(ctx, run.PostgresDSN(d.postgres.Addr, "postgres", "", "postgres"))
	if err != nil {
		return nil, err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	for _, sql := range []string{"CREATE ROLE shop LOGIN REPLICATION PASSWORD '" + password + "'", "CREATE DATABASE shop OWNER shop"} {
		if _, err := admin.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
	}
	c, err := pgx.Connect(ctx, d.dsn())
	if err != nil {
		return nil, err
	}
	for _, sql := range []string{
		`CREATE TABLE public.orders (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, customer text NOT NULL, item text NOT NULL,
			quantity int NOT NULL, price numeric(10,2) NOT NULL, status text NOT NULL DEFAULT 'new', placed timestamptz NOT NULL DEFAULT now())`,
		// With the old row in the WAL an update can show what it changed.
		`ALTER TABLE orders REPLICA IDENTITY FULL`,
		`INSERT INTO orders (customer, item, quantity, price) VALUES
			('Ada', 'loom cards', 200, 0.05), ('Grace', 'moth repellent', 1, 4.90), ('Edsger', 'fountain pen', 2, 38.00)`,
	} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", sql, err), c.Close(ctx))
		}
	}
	d.want.read = 3
	return c, nil
}

func (d *demo) start(ctx context.Context) error {
	d.heading("Millrace")
	var err error
	d.millrace, err = drive.Start(ctx, drive.Options{Bin: d.bin, Dir: filepath.Join(d.dir, "millrace"), RESTPort: 8083, KafkaPort: 9092, RegistryPort: 8081,
		Args: []string{"--file-root", filepath.Join(d.dir, "files")}})
	if err != nil {
		return err
	}
	d.onClose(d.millrace.Stop)
	d.print("    %s %s %s", d.paint(dim, "$"), d.bin, strings.Join(d.relative(d.millrace.Args), " "))
	d.print("    %-22s %s  %s", "REST, as Connect's", d.paint(cyan, d.millrace.REST), d.paint(dim, short(d.millrace.Took)+" after its start"))
	d.print("    %-22s %s", "Kafka protocol", d.paint(cyan, d.millrace.Kafka))
	return nil
}

// relative shortens folders for the eye.
func (d *demo) relative(args []string) (out []string) {
	here, err := os.Getwd()
	for _, a := range args {
		if rel, relErr := filepath.Rel(here, a); err == nil && relErr == nil && filepath.IsAbs(a) && !strings.HasPrefix(rel, "..") {
			a = rel
		}
		out = append(out, a)
	}
	return out
}

// configure posts the three configurations, as anybody would with curl.
func (d *demo) configure(ctx context.Context) error {
	d.heading("Three configurations, posted to %s/connectors", d.millrace.REST)
	values := map[string]any{"PostgresPort": d.postgres.Port, "Password": password, "SearchURL": "http://" + d.search.Addr, "File": d.file()}
	entries, err := connectors.ReadDir("connectors")
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		t, err := template.ParseFS(connectors, "connectors/"+e.Name())
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := t.Execute(&text, values); err != nil {
			return err
		}
		var body struct {
			Name   string          `json:"name"`
			Config json.RawMessage `json:"config"`
		}
		if err := json.Unmarshal(text.Bytes(), &body); err != nil {
			return fmt.Errorf("%s: %w", e.Name(), err)
		}
		d.indented(text.String())
		if _, err := d.millrace.Call(ctx, http.MethodPost, "/connectors", body); err != nil {
			return err
		}
		names = append(names, body.Name)
		d.pause(500 * time.Millisecond)
	}
	for _, name := range names {
		if err := d.millrace.Await(ctx, name, "RUNNING"); err != nil {
			return err
		}
		d.print("    %s %s", d.paint(green, "RUNNING"), name)
	}
	if d.topic, err = follow(ctx, d.millrace.Kafka, topic); err != nil {
		return err
	}
	d.heading("Rows that are there already become events: the snapshot")
	all, err := d.topic.wait(ctx, 0, d.want.read)
	if err != nil {
		return err
	}
	for n := range all {
		d.print("    %s", d.line(n, &all[n]))
	}
	return nil
}

func (d *demo) file() string { return filepath.Join(d.dir, "files", "orders.jsonl") }

// execute runs a statement and waits for its events. It returns those and how long after the commit the last one was here.
func (d *demo) execute(ctx context.Context, sql string) ([]record, int, time.Duration, error) {
	from := d.want.records()
	tag, err := d.conn.Exec(ctx, sql)
	committed := time.Now()
	if err != nil {
		return nil, 0, 0, fmt.Errorf("%s: %w", sql, err)
	}
	n := int(tag.RowsAffected())
	switch {
	case tag.Insert():
		d.want.created += n
	case tag.Update():
		d.want.updated += n
	case tag.Delete():
		d.want.deleted += n
	}
	got, err := d.topic.wait(ctx, from, d.want.records()-from)
	if err != nil {
		return nil, 0, 0, err
	}
	return got, from, max(0, got[len(got)-1].seen.Sub(committed)), nil
}

func (d *demo) statements(ctx context.Context) error {
	d.heading("Rows are written, changed and deleted; the events arrive in %s", topic)
	for _, sql := range []string{
		"INSERT INTO orders (customer, item, quantity, price) VALUES ('Barbara', 'abstract data type', 1, 19.74)",
		"UPDATE orders SET status = 'paid' WHERE customer IN ('Ada', 'Grace')",
		"UPDATE orders SET quantity = quantity + 1, price = 36.50 WHERE customer = 'Edsger'",
		"DELETE FROM orders WHERE customer = 'Grace'",
	} {
		d.print("    %s %s", d.paint(dim, "shop=>"), d.paint(bold, sql))
		got, from, after, err := d.execute(ctx, sql)
		if err != nil {
			return err
		}
		for n := range got {
			late := ""
			if n == len(got)-1 {
				late = d.paint(dim, "   "+short(after)+" after the commit")
			}
			d.print("    %s%s", d.line(from+n, &got[n]), late)
		}
		d.pause(1200 * time.Millisecond)
	}
	return nil
}

// burst does the same with thousands of rows, which are only counted on the screen.
func (d *demo) burst(ctx context.Context) error {
	d.heading("And in bulk")
	for _, sql := range []string{
		"INSERT INTO orders (customer, item, quantity, price) SELECT 'customer ' || n % 97, 'item ' || n % 13, 1 + n % 5, n / 7.0 FROM generate_series(1, 5000) n",
		"UPDATE orders SET status = 'shipped' WHERE id % 2 = 0",
		"DELETE FROM orders WHERE id % 5 = 1 AND id > 100",
	} {
		d.print("    %s %s", d.paint(dim, "shop=>"), d.paint(bold, sql))
		got, from, after, err := d.execute(ctx, sql)
		if err != nil {
			return err
		}
		d.print("    %s, the last one %s after the commit", d.paint(green, things(len(got), "record")), short(after))
		d.print("    %s", d.line(from+len(got)-1, &got[len(got)-1]))
		d.pause(700 * time.Millisecond)
	}
	return nil
}

// results shows what has arrived where, and checks all of it.
func (d *demo) results(ctx context.Context) error {
	table, err := readTable(ctx, d.conn)
	if err != nil {
		return err
	}
	all := d.topic.have()
	if err := checkTopic(all, d.want, table); err != nil {
		return fmt.Errorf("the topic does not tell the table's story: %w", err)
	}
	url := "http://" + d.search.Addr
	var index rows
	if err := eventually(ctx, func() (err error) {
		if index, err = readIndex(ctx, url, topic); err != nil {
			return err
		}
		return table.differences(index)
	}); err != nil {
		return fmt.Errorf("the search index is not the table: %w", err)
	}
	if err := eventually(ctx, func() error { return checkFile(d.file(), all) }); err != nil {
		return fmt.Errorf("the file %s is not the topic: %w", d.file(), err)
	}
	d.heading("Found in %s", title(d.kind))
	text, err := request(ctx, http.MethodGet, url+"/"+topic+"/_doc/1?pretty")
	if err != nil {
		return err
	}
	d.print("    %s curl '%s/%s/_doc/1?pretty'", d.paint(dim, "$"), url, topic)
	d.indented(string(text))
	d.heading("And in the file")
	file := d.relative([]string{d.file()})[0]
	d.print("    %s head -n 1 %s", d.paint(dim, "$"), file)
	d.indented(string(all[0].value))
	d.heading("Everything arrived")
	tick := d.paint(green, "✓")
	d.print("    %s the topic   %s: %s read, %s created, %s updated, %s deleted, each delete with its tombstone", tick, things(len(all), "record"),
		count(d.want.read), count(d.want.created), count(d.want.updated), count(d.want.deleted))
	d.print("    %s the index   %s, equal to the table's rows in every column", tick, things(len(index), "document"))
	d.print("    %s the file    %s, equal to the topic's records", tick, things(len(all), "line"))
	return nil
}

// stay keeps everything running and shows what is changed from other terminals.
func (d *demo) stay(ctx context.Context) error {
	d.heading("All of it keeps running until Ctrl-C. From another terminal:")
	file := d.relative([]string{d.file()})[0]
	d.indented(fmt.Sprintf(`psql '%s'          %s
curl '%s/connectors?expand=status'
curl 'http://%s/%s/_search?q=customer:Ada&pretty'
kcat -C -b %s -t %s          %s
tail -f %s`,
		d.dsn(), d.paint(dim, "UPDATE orders SET status = 'lost' WHERE id = 1;"), d.millrace.REST, d.search.Addr, topic,
		d.millrace.Kafka, topic, d.paint(dim, "or any other Kafka client"), file))
	d.print("\n    What is changed there arrives here:")
	d.topic.tell(func(n int, r *record) { d.print("    %s", d.line(n, r)) })
	watch := time.NewTicker(time.Second)
	defer watch.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watch.C:
		}
		for _, s := range []*run.Server{d.postgres, d.search, d.millrace.Server} {
			if s.Pid() == 0 {
				return fmt.Errorf("%s has ended by itself; the end of its log:\n%s", s.Name, last(s.Log()))
			}
		}
	}
}

func last(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		if _, err := f.Seek(max(0, info.Size()-2000), io.SeekStart); err != nil {
			return err.Error()
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func title(kind string) string {
	if kind == "opensearch" {
		return "OpenSearch"
	}
	return "Elasticsearch"
}
