package mysql

import (
	"testing"

	"millrace/schema"
)

// FuzzEvents: whatever bytes an event has, reading it ends, and takes no more than they
// announce.
func FuzzEvents(f *testing.F) {
	f.Add(byte(evTableMap), []byte("\x01\x00\x00\x00\x00\x00\x01\x00\x01d\x00\x01t\x00\x02\x03\x0f\x02\x64\x00\x02"))
	f.Add(byte(evWriteRows), []byte("\x01\x00\x00\x00\x00\x00\x01\x00\x02\x00\x02\x03\x00\x01\x00\x00\x00\x01a"))
	f.Add(byte(evQuery), []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00d\x00BEGIN"))
	f.Add(byte(evTaggedGTID), []byte("\x02\x40\x00\x00\x02"))
	f.Add(byte(evPayload), []byte("\x02\x01\x00\x03\x01\x10\x00\x28\xb5\x2f\xfd"))
	f.Add(byte(evMariaGTID), []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40\x01\x00\x00\x00\x02\x00ab"))
	def := &Table{ID: TableID{"d", "t"}, PrimaryKey: []string{"a"}, Columns: []Column{
		{Name: "a", Type: Int, Length: NoLength, Scale: NoLength}, {Name: "b", Type: VarChar, Length: 100, Charset: "utf16", Nullable: true},
		{Name: "c", Type: JSON, Nullable: true}, {Name: "d", Type: Decimal, Length: 20, Scale: 5, Nullable: true}, {Name: "e", Type: Set, Members: []string{"x", "y"}, Nullable: true},
	}}
	tk := &task{s: &settings{prefix: "p"}, charsets: map[string]charset{}}
	tab, err := tk.compile(f.Context(), def)
	if err != nil {
		f.Fatal(err)
	}
	m := &tableMap{codes: []byte{codeLong, codeVarChar, codeJSON, codeNewDecimal, codeString}, meta: []uint16{0, 400, 4, 5<<8 | 20, 1<<8 | codeSet}}
	plan, err := tab.plan(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		switch kind {
		case evTableMap:
			if m, err := parseTableMap(body); err == nil && len(m.codes) == len(tab.columns) {
				_, _ = tab.plan(m)
			}
		case evQuery:
			if q, err := parseQuery(body); err == nil {
				var st Statement
				q.session(&st)
				_, _, _ = xaStatement(q.sql)
			}
		case evGTID:
			_, _ = parseGTID(body)
		case evTaggedGTID:
			_, _ = parseTaggedGTID(body)
		case evMariaGTID:
			_, _, _ = parseMariaGTIDEvent(body, 1)
		case evPayload:
			r := &reader{t: tk}
			_ = r.unpack(header{}, body, 4, func(header, []byte) error { return nil })
		default:
			e, err := parseRows(kind, body)
			if err != nil || e.columns != len(plan.decoder) {
				return
			}
			var a schema.Arena
			part := &partialRow{old: make([][]byte, len(plan.decoder))}
			for range 100 {
				left := len(e.rows.b)
				if left == 0 {
					return
				}
				present := e.after
				if present == nil {
					present = e.before
				}
				if _, err := plan.row(&a, &e.rows, present, full(present, e.columns), schema.Value{}, part); err == errShort {
					return
				}
				part.bits = []byte{1}
			}
		}
	})
}

// FuzzJSON: a document of any bytes is text or an error, and so are changes of one.
func FuzzJSON(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x0d\x00\x0b\x00\x01\x00\x05\x02\x00a"), []byte("\x00\x03$.a\x03\x05\x01\x00"))
	f.Add([]byte("\x0c\x01a"), []byte("\x01\x04$[1]\x03\x04\x01\x00"))
	f.Fuzz(func(t *testing.T, doc, diffs []byte) {
		if _, err := appendJSON(nil, doc); err == nil {
			_, _ = applyJSONDiffs(nil, doc, diffs)
		}
	})
}

// FuzzGTIDs: a set that can be read is spelled so that it reads alike.
func FuzzGTIDs(f *testing.F) {
	f.Add("4317f4a8-ec59-11f1-8520-02fc00000001:1-75:80:tag:1-3", false)
	f.Add("0-1-5,1-2-7", true)
	f.Fuzz(func(t *testing.T, text string, mariadb bool) {
		s, err := parseGTIDs(text, mariadb)
		if err != nil {
			return
		}
		again, err := parseGTIDs(s.String(), mariadb)
		if err != nil || again.String() != s.String() || !again.contains(s) || !s.contains(again) || !s.minus(again).empty() {
			t.Fatalf("%q is spelled %q, which reads as %q (%v)", text, s, again, err)
		}
		if back, err := decodeGTIDs(s.encode()); !mariadb && (err != nil || back.String() != s.String()) {
			t.Errorf("%s becomes %v: %v", s, back, err)
		}
	})
}
