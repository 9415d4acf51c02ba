package envelope

import (
	"strings"

	"millrace/schema"
)

// A View is an event taken apart. What the event does not have is null.
type View struct {
	Op                          string
	Before, After               schema.Value
	Row                         *schema.Schema // of After, and where there is none of Before; nil without a schema
	Source, Transaction, Millis schema.Value
}

// A Reader takes events apart. It keeps what it found out about each schema, so it
// belongs to one task and is used by one goroutine. The zero Reader is ready.
type Reader struct {
	plans schema.Cache[*plan]
}

// plan is where an envelope's fields stand; -1 where it has none of that name. A nil
// plan says that the schema is no envelope's.
type plan struct {
	before, after, source, transaction, op, millis int
	row                                            *schema.Schema
}

// Read takes an event apart. ok is false where the value is none: a schema that
// is not called <name>.Envelope, a schemaless map without the fields op and
// source, a null.
func (r *Reader) Read(s *schema.Schema, v schema.Value) (view View, ok bool) {
	switch {
	case v.Kind() == schema.Map && s == nil:
		return fromMap(v)
	case v.Kind() != schema.Struct:
		return View{}, false
	}
	p, _ := r.plans.Get(v.Schema(), planOf) // planOf never fails
	if p == nil {
		return View{}, false
	}
	at := func(i int) schema.Value {
		if i < 0 {
			return schema.Value{}
		}
		return v.At(i)
	}
	return View{
		Op: at(p.op).Str(), Before: at(p.before), After: at(p.after), Row: p.row,
		Source: at(p.source), Transaction: at(p.transaction), Millis: at(p.millis),
	}, true
}

// Truncates reports whether a record is the event of a table that was emptied: it has no key and no row.
func (r *Reader) Truncates(rec *schema.Record) bool {
	if !rec.Key.IsNull() {
		return false
	}
	event, ok := r.Read(rec.ValueSchema, rec.Value)
	return ok && event.Op == Truncate
}

// IsSchema reports whether s is an envelope's, as Debezium decides it: by its name.
func IsSchema(s *schema.Schema) bool {
	return s != nil && s.Kind() == schema.Struct && strings.HasSuffix(s.Name(), EnvelopeSuffix)
}

func planOf(s *schema.Schema) (*plan, error) {
	if !IsSchema(s) {
		return nil, nil
	}
	p := &plan{
		before: s.Index(BeforeField), after: s.Index(AfterField), source: s.Index(SourceField),
		transaction: s.Index(TransactionField), op: s.Index(OpField), millis: s.Index(MillisField),
	}
	if p.row = s.Field(AfterField); p.row == nil {
		p.row = s.Field(BeforeField)
	}
	return p, nil
}

// fromMap recognises an envelope without a schema by its fields.
func fromMap(v schema.Value) (View, bool) {
	op, hasOp := v.Lookup(OpField)
	source, hasSource := v.Lookup(SourceField)
	before, hasBefore := v.Lookup(BeforeField)
	after, hasAfter := v.Lookup(AfterField)
	if !hasOp || op.Kind() != schema.String || !hasSource || !(hasBefore || hasAfter) {
		return View{}, false
	}
	view := View{Op: op.Str(), Before: before, After: after, Source: source}
	view.Transaction, _ = v.Lookup(TransactionField)
	view.Millis, _ = v.Lookup(MillisField)
	return view, true
}
