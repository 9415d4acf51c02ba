package connectortest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"millrace/schema"
)

// Op is what an event of a database source says: c, u, d, r and so on, or "tombstone".
func Op(r schema.Record) string {
	if r.Value.IsNull() {
		return "tombstone"
	}
	return r.Value.Get("op").Str()
}

// A Change is what a test expects of an event of a table with the columns id, its key, and v.
type Change struct {
	Op    string
	ID, V int64
}

// ChangeOf is the change that an event tells.
func ChangeOf(r schema.Record) Change {
	c := Change{Op: Op(r), ID: r.Key.Get("id").Int()}
	if after := r.Value.Get("after"); !after.IsNull() {
		c.V = after.Get("v").Int()
	}
	return c
}

// CompareChanges returns the first difference.
func CompareChanges(got, want []Change) error {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("change %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d changes, want %d", len(got), len(want))
	}
	return nil
}

// Rows are the rows of such a table as a test writes them, and the changes that it makes. Next starts at 1.
type Rows struct {
	Rnd  *rand.Rand
	Next int64   // id of the next new row
	Live []int64 // ids that are there
	V    int64   // value of what is written now
	Want []Change
}

// Insert notes that the next row was inserted.
func (w *Rows) Insert() {
	w.Want = append(w.Want, Change{"c", w.Next, w.V})
	w.Live = append(w.Live, w.Next)
	w.Next++
}

// Update notes that a row was updated.
func (w *Rows) Update(id int64) { w.Want = append(w.Want, Change{"u", id, w.V}) }

// Delete notes that a row was deleted.
func (w *Rows) Delete(id int64) {
	w.Want = append(w.Want, Change{Op: "d", ID: id}, Change{Op: "tombstone", ID: id})
	w.Live = slices.DeleteFunc(w.Live, func(l int64) bool { return l == id })
}

// Begin returns what takes back all that is noted from now on: for a transaction that is rolled back.
func (w *Rows) Begin() (undo func()) {
	kept, live, next := len(w.Want), slices.Clone(w.Live), w.Next
	return func() { w.Want, w.Live, w.Next = w.Want[:kept], live, next }
}

// Some are at most n of the rows, by chance.
func (w *Rows) Some(n int) []int64 {
	ids := slices.Clone(w.Live)
	w.Rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:min(n, len(ids))]
}

// Transactions read records with the metadata of transactions, of the topic p.transaction: each event lies between the
// beginning and the end of its transaction, which number and count what is there.
type Transactions struct {
	Space string                 // field of source blocks that names what tables are in: "schema", "db"
	ID    func(id string) string // what of an id is the transaction's own; nil: all

	Open  string // the transaction's id; empty: none
	Ended int

	counts map[string]int // by collection
	total  int
}

// Take reads a record. event says that it is one of a table's.
func (c *Transactions) Take(r schema.Record) (event bool, err error) {
	own := func(v schema.Value) string {
		if c.ID != nil {
			return c.ID(v.Str())
		}
		return v.Str()
	}
	if r.Topic == "p.transaction" {
		id := own(r.Key.Get("id"))
		switch status := r.Value.Get("status").Str(); {
		case status == "BEGIN" && c.Open == "":
			c.Open, c.counts, c.total = id, map[string]int{}, 0
		case status == "END" && c.Open == id:
			if n := r.Value.Get("event_count").Int(); n != int64(c.total) {
				return false, fmt.Errorf("transaction %s ends with %d events, %d came", id, n, c.total)
			}
			for _, t := range r.Value.Get("data_collections").Elems() {
				if name := t.Get("data_collection").Str(); t.Get("event_count").Int() != int64(c.counts[name]) {
					return false, fmt.Errorf("transaction %s ends with %d events of %s, %d came", id, t.Get("event_count").Int(), name, c.counts[name])
				}
			}
			c.Open = ""
			c.Ended++
		default:
			return false, fmt.Errorf("%s of transaction %s while %q is open", status, id, c.Open)
		}
		return false, nil
	}
	if r.Value.IsNull() {
		return true, nil // a tombstone is not numbered
	}
	c.total++
	src, tx := r.Value.Get("source"), r.Value.Get("transaction")
	name := src.Get(c.Space).Str() + "." + src.Get("table").Str()
	c.counts[name]++
	id, number, within := own(tx.Get("id")), tx.Get("total_order").Int(), tx.Get("data_collection_order").Int()
	if id != c.Open || number != int64(c.total) || within != int64(c.counts[name]) {
		return true, fmt.Errorf("an event is number %d, and %d of %s, of transaction %q; want number %d, and %d, of %q", number, within, name, id, c.total, c.counts[name], c.Open)
	}
	return true, nil
}
