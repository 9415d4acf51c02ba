package cmd_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/deploy/peers"
)

// TestOneLargeTransactionInFlatMemory sends one transaction of the database through the whole process: its rows must come once each,
// in order, in memory that would not hold a half of them.
func TestOneLargeTransactionInFlatMemory(t *testing.T) {
	pg := peers.Postgres(t)
	peers.Kcat(t)
	const rows, most = 100_000, 110 // MiB; the rows of the transaction alone take some 140
	db := pg.NewDatabase(t)
	pg.Exec(t, db, "CREATE TABLE large (id int PRIMARY KEY, n int, note text)")
	p := newRuns(t).start(t)
	source := pgSource(pg, db, "public.large")
	source["snapshot.fetch.size"] = "7"
	p.create("pg", source)
	p.running("pg", 1)
	if s := p.log.String(); !strings.Contains(s, "a connector's setting has no effect") || !strings.Contains(s, "snapshot.fetch.size") {
		t.Error("the log does not tell that snapshot.fetch.size has no effect")
	}
	// The connector may be in its snapshot still: either way the rows are there once.
	pg.Exec(t, db, "INSERT INTO large VALUES (0, 0, 'the stream runs')")
	keys := func(from string) []byte {
		out, err := exec.Command(peers.Kcat(t), "-b", p.kafka, "-t", "shop.public.large", "-C", "-e", "-q", "-o", from, "-f", "%k\n", "-X", "isolation.level=read_committed").Output()
		if err != nil {
			return []byte(err.Error())
		}
		return out
	}
	p.until("the first row is in the topic", time.Minute, func() (bool, string) {
		out := keys("beginning")
		return string(out) == "{\"id\":0}\n", string(out)
	})
	pg.Exec(t, db, fmt.Sprintf("INSERT INTO large SELECT g, g %% 1000, repeat(md5(g::text), 3) FROM generate_series(1, %d) g", rows))
	last := []byte("{\"id\":" + strconv.Itoa(rows) + "}\n")
	p.until("the last row is in the topic", 3*time.Minute, func() (bool, string) {
		out := keys("-5")
		return bytes.HasSuffix(out, last), string(out)
	})
	id := 0
	for line := range bytes.Lines(keys("beginning")) {
		if want := "{\"id\":" + strconv.Itoa(id) + "}\n"; string(line) != want {
			t.Fatalf("record %d has the key %q, want %q", id, line, want)
		}
		id++
	}
	if id != rows+1 {
		t.Errorf("%d records, want %d", id, rows+1)
	}
	peak := p.peakMiB()
	t.Logf("largest memory of the process: %d MiB", peak)
	if peak > most {
		t.Errorf("largest memory of the process: %d MiB, want at most %d", peak, most)
	}
}
