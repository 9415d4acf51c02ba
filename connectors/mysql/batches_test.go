package mysql

import (
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/schema"
)

// TestNoBatchKeepsAnotherAlive: once a batch is in the log its memory is free, whatever became of the rows behind it, of a snapshot
// and of a transaction.
func TestNoBatchKeepsAnotherAlive(t *testing.T) {
	d := newDatabase(t)
	const rows = 4000 // of which a batch takes some 200
	insert := func(from int) {
		var values []string
		for i := range rows {
			values = append(values, fmt.Sprintf("(%d, repeat('x', 2000))", from+i))
		}
		d.exec("INSERT INTO large VALUES " + strings.Join(values, ", "))
	}
	d.exec("CREATE TABLE large (id int PRIMARY KEY, filler varchar(2000))")
	insert(1)
	var mu sync.Mutex
	var before []weak.Pointer[schema.Value] // into the memory of the batches before the last two
	var last, held connectors.Batch
	r := d.start(d.config("table.include.list", d.name+".large", "include.schema.changes", "false"), nil, connectortest.Consume(func(b connectors.Batch) {
		mu.Lock()
		defer mu.Unlock()
		if len(b.Records) < 100 {
			return // small ones share memory
		}
		if n := len(held.Records); n > 0 {
			before = append(before, weak.Make(&held.Records[0].Value.Fields()[0]), weak.Make(&held.Records[n-1].Value.Fields()[0]))
		}
		held, last = last, b
	}))
	alive := func() (n, of int) {
		goruntime.GC()
		mu.Lock()
		defer mu.Unlock()
		for _, p := range before {
			if p.Value() != nil {
				n++
			}
		}
		return n, len(before)
	}
	for round, from := range []string{"the snapshot", "the transaction"} {
		if round > 0 {
			insert(rows + 1)
		}
		r.WaitFor("all rows of "+from, func() bool { return r.Count() == (round+1)*rows })
		n, of := alive()
		for end := time.Now().Add(30 * time.Second); n > 0 && time.Now().Before(end); n, of = alive() {
			time.Sleep(10 * time.Millisecond)
		}
		if n > 0 || round == 0 && of < 10 { // batches of a stream may be small, which share memory
			t.Errorf("of %d places in the batches of %s, %d are kept by what follows", of, from, n)
		}
		mu.Lock()
		before = before[:0]
		mu.Unlock()
	}
}
