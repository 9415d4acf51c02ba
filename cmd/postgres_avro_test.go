package cmd_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/deploy/peers"
)

// cases/postgres/6 and 7, as far as they concern what is behind the source: the event of a TRUNCATE, which has no key and no row,
// goes through Avro and is dropped by the transform that takes rows out; a renamed column is a version of its own in the registry.
func TestTruncatesAndRenamesGoThroughAvro(t *testing.T) {
	pg := peers.Postgres(t)
	db := pg.NewDatabase(t)
	pg.Exec(t, db, "CREATE TABLE ta (id int PRIMARY KEY, v int)", "CREATE TABLE tb (id int PRIMARY KEY)", "INSERT INTO ta VALUES (1, 10)")
	r := newRuns(t)
	p := r.start(t)
	p.create("pg", with(pgSource(pg, db, "public.ta,public.tb"), "skipped.operations", "none", "key.converter", avroClass, "value.converter", avroClass))
	p.create("sink", with(fileSink("out.txt", "shop.public.ta"), "key.converter", avroClass, "value.converter", avroClass,
		"transforms", "unwrap", "transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState"))
	rows := func(want ...string) {
		t.Helper()
		p.until(fmt.Sprintf("the file has %v", want), 2*time.Minute, func() (bool, string) {
			got := lines(filepath.Join(r.dir, "out.txt"))
			return slices.Equal(got, want), strings.Join(got, " | ")
		})
	}
	rows("Struct{id=1,v=10}")
	pg.Exec(t, db, "TRUNCATE ta, tb", "INSERT INTO ta VALUES (2, 20)", "ALTER TABLE ta RENAME v TO w", "INSERT INTO ta VALUES (3, 30)")
	rows("Struct{id=1,v=10}", "Struct{id=2,v=20}", "Struct{id=3,w=30}")
	p.running("pg", 1)
	p.running("sink", 1)
	registry := regexp.MustCompile(`registry=(http://\S+)`).FindStringSubmatch(p.log.String())
	if registry == nil {
		t.Fatal("the worker does not say where its registry is")
	}
	resp, err := http.Get(registry[1] + "/subjects/shop.public.ta-value/versions")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "[1,2]" {
		t.Errorf("the registry has the versions %s (%v), want one for each name of the column", body, err)
	}
}
