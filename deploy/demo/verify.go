package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// expected counts what the statements must have caused in the topic.
type expected struct{ read, created, updated, deleted int }

func (e expected) records() int { return e.read + e.created + e.updated + 2*e.deleted }

// rows are a table, an applied topic or an index: by id the columns, made comparable.
type rows map[string]map[string]string

func comparable(columns map[string]any) map[string]string {
	out := map[string]string{}
	for name, v := range columns {
		text := fmt.Sprint(v)
		switch n, is := v.(json.Number); {
		case is:
			if f, err := n.Float64(); err == nil { // 9.80 and 9.8 are one price
				text = fmt.Sprint(f)
			}
		case name == "placed":
			if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
				text = t.UTC().Format(time.RFC3339Nano)
			}
		}
		out[name] = text
	}
	return out
}

// differences says in words where other is not want, at most a few.
func (want rows) differences(other rows) error {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(want)) {
		switch got := other[id]; {
		case got == nil:
			errs = append(errs, fmt.Errorf("row %s is missing", id))
		case !maps.Equal(got, want[id]):
			errs = append(errs, fmt.Errorf("row %s is %v, want %v", id, got, want[id]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(other)) {
		if want[id] == nil {
			errs = append(errs, fmt.Errorf("row %s should not be there", id))
		}
	}
	if len(errs) > 5 {
		errs = append(errs[:5], fmt.Errorf("and %d differences more", len(errs)-5))
	}
	return errors.Join(errs...)
}

func readTable(ctx context.Context, c *pgx.Conn) (rows, error) {
	found, err := c.Query(ctx, "SELECT id::text, to_jsonb(orders)::text FROM orders")
	if err != nil {
		return nil, err
	}
	out := rows{}
	var id, text string
	_, err = pgx.ForEachRow(found, []any{&id, &text}, func() error {
		columns, err := decode([]byte(text))
		out[id] = comparable(columns)
		return err
	})
	return out, err
}

func decode(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var columns map[string]any
	return columns, d.Decode(&columns)
}

// checkTopic holds the topic against the statements' counts and against the table.
func checkTopic(all []record, want expected, table rows) error {
	var got expected
	tombstones, state := 0, rows{}
	for n, r := range all {
		switch r.op {
		case "r":
			got.read++
		case "c":
			got.created++
		case "u":
			got.updated++
		case "d":
			got.deleted++
			delete(state, fmt.Sprint(r.before["id"]))
		case "":
			tombstones++
			if n == 0 || all[n-1].op != "d" || !bytes.Equal(all[n-1].key, r.key) {
				return fmt.Errorf("record %d is a tombstone for %s without its delete before it", n, r.key)
			}
		default:
			return fmt.Errorf("record %d has op %q", n, r.op)
		}
		if r.after != nil {
			state[fmt.Sprint(r.after["id"])] = comparable(r.after)
		}
	}
	if got != want || tombstones != want.deleted {
		return fmt.Errorf("events %+v with %d tombstones, want %+v", got, tombstones, want)
	}
	return table.differences(state)
}

// readIndex returns every document of the index.
func readIndex(ctx context.Context, url, index string) (rows, error) {
	if _, err := request(ctx, http.MethodPost, url+"/"+index+"/_refresh"); err != nil {
		return nil, err
	}
	text, err := request(ctx, http.MethodGet, url+"/"+index+"/_search?size=10000")
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var answer struct {
		Hits struct {
			Hits []struct {
				ID     string         `json:"_id"`
				Source map[string]any `json:"_source"`
			}
		}
	}
	if err := d.Decode(&answer); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	out := rows{}
	for _, h := range answer.Hits.Hits {
		if fmt.Sprint(h.Source["id"]) != h.ID {
			return nil, fmt.Errorf("document %s holds row %v", h.ID, h.Source["id"])
		}
		out[h.ID] = comparable(h.Source)
	}
	return out, nil
}

// checkFile holds the file's lines against the topic's records, one for one.
func checkFile(name string, all []record) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(string(text), "\n")
	lines = lines[:len(lines)-1] // what follows the last line's end
	for n, r := range all {
		if n >= len(lines) {
			break
		}
		want := string(r.value)
		if r.value == nil {
			want = "null"
		}
		if got := strings.TrimSuffix(lines[n], "\n"); got != want {
			return fmt.Errorf("line %d is %q, the topic has %q there", n+1, got, want)
		}
	}
	if len(lines) != len(all) {
		return fmt.Errorf("%d lines for %d records", len(lines), len(all))
	}
	return nil
}

// eventually tries check until it finds nothing wrong, and returns what it found last.
func eventually(ctx context.Context, check func() error) error {
	for deadline := time.Now().Add(time.Minute); ; {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func request(ctx context.Context, method, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, text)
	}
	return text, nil
}
