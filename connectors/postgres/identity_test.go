package postgres

import (
	"context"
	"strings"
	"testing"
)

// TestTablesWithoutIdentity: those of which the server refuses updates once they are published.
func TestTablesWithoutIdentity(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE keyed (id int PRIMARY KEY)", "CREATE TABLE bare (id int)", "CREATE TABLE whole (id int)", "ALTER TABLE whole REPLICA IDENTITY FULL",
		"CREATE TABLE nothing (id int PRIMARY KEY)", "ALTER TABLE nothing REPLICA IDENTITY NOTHING", "INSERT INTO bare VALUES (1)",
		"CREATE PUBLICATION all_of_it FOR ALL TABLES", "CREATE PUBLICATION inserts FOR ALL TABLES WITH (publish = 'insert')")
	ctx := context.Background()
	for publication, want := range map[string]string{"all_of_it": "public.bare public.nothing", "inserts": "", "none": ""} {
		s := settingsOf(t, d.config("publication.name", publication))
		c, err := s.open(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		tables, err := c.listTables(ctx, true)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.withoutIdentity(ctx, c, tables)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v, want %q", publication, got, err, want)
		}
	}
	if _, err := d.conn.Exec(ctx, "UPDATE bare SET id = 2"); err == nil {
		t.Error("the server does not refuse it, so nobody need be warned")
	}
}
