package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func story(t *testing.T, lines ...string) []record {
	t.Helper()
	var all []record
	for _, line := range lines {
		key, value, _ := strings.Cut(line, " ")
		var b []byte
		if value != "" {
			b = []byte(value)
		}
		r, err := parse([]byte(key), b)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, *r)
	}
	return all
}

func row(id int, status string) string {
	return fmt.Sprintf(`{"id":%d,"status":%q,"price":9.80,"placed":"2026-11-30T10:00:00.5Z"}`, id, status)
}

// One row is read and updated, one created, one created and deleted.
func whole(t *testing.T) ([]record, expected, rows) {
	all := story(t,
		`1 {"op":"r","after":`+row(1, "new")+`}`,
		`2 {"op":"c","after":`+row(2, "new")+`}`,
		`3 {"op":"c","after":`+row(3, "new")+`}`,
		`1 {"op":"u","before":`+row(1, "new")+`,"after":`+row(1, "paid")+`}`,
		`3 {"op":"d","before":`+row(3, "new")+`,"after":null}`,
		`3`)
	table := rows{}
	for id, status := range map[int]string{1: "paid", 2: "new"} {
		// As the table's own JSON has it: another zone, another way to write the number.
		columns, err := decode([]byte(fmt.Sprintf(`{"id":%d,"status":%q,"price":9.8,"placed":"2026-11-30T11:00:00.500000+01:00"}`, id, status)))
		if err != nil {
			t.Fatal(err)
		}
		table[fmt.Sprint(id)] = comparable(columns)
	}
	return all, expected{read: 1, created: 2, updated: 1, deleted: 1}, table
}

func TestTheTopicIsHeldAgainstStatementsAndTable(t *testing.T) {
	all, want, table := whole(t)
	if err := checkTopic(all, want, table); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, says string
		spoil      func() ([]record, expected, rows)
	}{
		{"an update is missing", "events", func() ([]record, expected, rows) {
			all, want, table := whole(t)
			return append(all[:3:3], all[4:]...), want, table
		}},
		{"a tombstone is missing", "0 tombstones", func() ([]record, expected, rows) {
			all, want, table := whole(t)
			return all[:5], want, table
		}},
		{"a tombstone has another key", "without its delete", func() ([]record, expected, rows) {
			all, want, table := whole(t)
			all[5].key = []byte("2")
			return all, want, table
		}},
		{"a column differs", "row 2 is", func() ([]record, expected, rows) {
			all, want, table := whole(t)
			all[1].after["status"] = "paid"
			return all, want, table
		}},
		{"a row too few in the table", "row 2 should not be there", func() ([]record, expected, rows) {
			all, want, table := whole(t)
			delete(table, "2")
			return all, want, table
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := checkTopic(row.spoil()); err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTheFileIsHeldAgainstTheTopic(t *testing.T) {
	all, _, _ := whole(t)
	var right strings.Builder
	for _, r := range all {
		if r.value == nil {
			right.WriteString("null\n")
		} else {
			right.WriteString(string(r.value) + "\n")
		}
	}
	for _, row := range []struct{ name, text, says string }{
		{"every record is a line", right.String(), ""},
		{"the last line is missing", strings.TrimSuffix(right.String(), "null\n"), "5 lines for 6 records"},
		{"the last line has no end", strings.TrimSuffix(right.String(), "\n"), "5 lines for 6 records"},
		{"a line is doubled", right.String() + "null\n", "7 lines for 6 records"},
		{"a line is another", strings.Replace(right.String(), "paid", "lost", 1), "line 4 is"},
	} {
		t.Run(row.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "orders.jsonl")
			if err := os.WriteFile(name, []byte(row.text), 0o644); err != nil {
				t.Fatal(err)
			}
			err := checkFile(name, all)
			if row.says == "" && err != nil || row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says)) {
				t.Errorf("got %v", err)
			}
		})
	}
}
