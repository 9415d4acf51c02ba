package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"millrace/cmd/client"
)

// A reason of an incompatibility, as registries write it: {errorType:'…', description:'…', additionalInfo:'…'}.
var reasonText = regexp.MustCompile(`(?s)^\{errorType:'(.*?)', description:'(.*)', additionalInfo:'(.*)'\}$`)

// pathText finds the place in a reason's description.
var pathText = regexp.MustCompile(`path '([^']*)'`)

// incompatible tells why a schema does not fit: one line for each place, and the version with which it was compared.
func (k *schemasCmd) incompatible(subject, effect string, c client.Compatibility) error {
	var b strings.Builder
	version, level := "", ""
	var lines []string
	for _, m := range c.Messages {
		if v, ok := between(m, "{oldSchemaVersion: ", "}"); ok {
			version = " version " + v
			continue
		}
		if strings.HasPrefix(m, "{oldSchema:") {
			continue
		}
		if _, after, ok := strings.Cut(m, "compatibility: '"); ok && strings.HasPrefix(m, "{") && !strings.HasPrefix(m, "{errorType") {
			l, _, _ := strings.Cut(after, "'")
			level = " (" + l + ")"
			continue
		}
		if r := reasonText.FindStringSubmatch(m); r != nil {
			place := "/"
			if at := pathText.FindStringSubmatch(r[2]); at != nil {
				place = at[1]
			}
			line := fmt.Sprintf("  %s  %s: %s", printable(place), printable(r[1]), printable(r[2]))
			if r[3] != "" && !strings.Contains(r[2], r[3]) {
				line += " (" + printable(r[3]) + ")"
			}
			lines = append(lines, line)
			continue
		}
		lines = append(lines, "  "+printable(m))
	}
	fmt.Fprintf(&b, "%s: the schema does not fit to%s%s", printable(subject), cmpOr(version, " the versions that there are"), level)
	if effect != "" {
		b.WriteString("; " + effect)
	}
	for _, l := range lines {
		b.WriteString("\n" + l)
	}
	return no("%s", b.String())
}

func cmpOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func between(s, before, after string) (string, bool) {
	if in, ok := strings.CutPrefix(s, before); ok {
		return strings.CutSuffix(in, after)
	}
	return "", false
}

func (k *schemasCmd) diffCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "diff SUBJECT [OLD [NEW]]", Short: "Say what differs between two versions, or a version and a file", Args: cobra.RangeArgs(1, 3), ValidArgsFunction: k.completeSubjects,
		Long: "Compares the latest version with the one before it, with OLD, or OLD with NEW; with -f the latest, or OLD, with a file.\n" +
			"Fields and symbols are found by their names, wherever they stand. Exit status 1 when something differs.",
		Example: "  millrace schemas diff shop-value\n  millrace schemas diff shop-value 1 3\n  millrace schemas diff shop-value -f order.avsc",
		RunE:    k.run(k.diff),
	}
	c.Flags().StringVarP(&k.file, "file", "f", "", "file of a schema to compare with, or - for standard input")
	c.Flags().BoolVar(&k.deleted, "deleted", false, "also deleted versions")
	return c
}

// schemaChange is a place at which two schemas differ.
type schemaChange struct {
	Path string `json:"path"`
	Old  any    `json:"old,omitempty"`
	New  any    `json:"new,omitempty"`
	kind string
}

func (k *schemasCmd) diff(ctx context.Context, args []string) error {
	subject, versions := args[0], args[1:]
	var older, newer client.Schema
	var err error
	switch {
	case k.file != "":
		if len(versions) > 1 {
			return usage(fmt.Errorf("a file is compared with one version, and two are given"))
		}
		s, err := k.wanted()
		if err != nil {
			return err
		}
		newer.Schema = s.Schema
		versions = append(versions, "latest")[:1]
	case len(versions) == 0:
		all, err := k.schemas.Versions(ctx, subject, k.deleted)
		if err != nil || k.curl {
			return err
		}
		if len(all) < 2 {
			return k.say("%s has one version", printable(subject))
		}
		versions = []string{strconv.Itoa(all[len(all)-2]), strconv.Itoa(all[len(all)-1])}
	case len(versions) == 1:
		versions = append(versions, "latest")
	}
	if older, err = k.schemas.SchemaVersion(ctx, subject, versions[0], k.deleted); err != nil {
		return err
	}
	name := "file"
	if k.file == "" {
		if newer, err = k.schemas.SchemaVersion(ctx, subject, versions[1], k.deleted); err != nil {
			return err
		}
		name = strconv.Itoa(newer.Version)
	}
	if k.curl {
		return nil
	}
	changes, err := compareSchemas(older.Schema, newer.Schema)
	if err != nil {
		return err
	}
	head := fmt.Sprintf("%s  %d → %s", printable(subject), older.Version, name)
	if !k.look.people() {
		if err := k.look.write(k.out, &table{head: []string{"SUBJECT"}, rows: [][]string{{subject}}}, map[string]any{"subject": subject, "old": older.Version, "new": name, "changes": changes}); err != nil {
			return err
		}
	} else {
		if len(changes) == 0 {
			return k.say("%s: nothing differs", head)
		}
		_ = k.say("%s", head)
		for _, c := range changes {
			switch c.kind {
			case "+":
				_ = k.say("  + %s  %s", printable(c.Path), printable(shortJSON(c.New)))
			case "-":
				_ = k.say("  - %s  %s", printable(c.Path), printable(shortJSON(c.Old)))
			default:
				_ = k.say("  ~ %s  %s → %s", printable(c.Path), printable(shortJSON(c.Old)), printable(shortJSON(c.New)))
			}
		}
	}
	if len(changes) > 0 {
		return exitError{exitNo, fmt.Errorf("%s: %d places differ", printable(subject), len(changes))}
	}
	return nil
}

const maxShown = 160 // characters of a value

func shortJSON(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it came from JSON
	s := []rune(strings.TrimSpace(b.String()))
	if len(s) > maxShown {
		return string(s[:maxShown]) + "…"
	}
	return string(s)
}

// compareSchemas finds where two schemas differ. Texts that are no JSON are compared line by line, as sets.
func compareSchemas(older, newer string) ([]schemaChange, error) {
	var a, b any
	if json.Unmarshal([]byte(older), &a) != nil || json.Unmarshal([]byte(newer), &b) != nil {
		a, b = linesOf(older), linesOf(newer)
	}
	var out []schemaChange
	compareValues("", a, b, &out)
	return out, nil
}

func linesOf(text string) map[string]any {
	out := map[string]any{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out[line] = true
		}
	}
	return out
}

// compareValues compares JSON. An array of objects with names, and one of texts, is compared by the names.
func compareValues(path string, a, b any, out *[]schemaChange) {
	am, bm := byName(a), byName(b)
	if am == nil || bm == nil {
		if shortEqual(a, b) {
			return
		}
		*out = append(*out, schemaChange{Path: cmpOr(path, "/"), Old: a, New: b, kind: "~"})
		return
	}
	names := slices.Sorted(maps.Keys(am))
	for name := range bm {
		if _, both := am[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		old, had := am[name]
		now, has := bm[name]
		at := path + "/" + name
		switch {
		case !had:
			*out = append(*out, schemaChange{Path: at, New: now, kind: "+"})
		case !has:
			*out = append(*out, schemaChange{Path: at, Old: old, kind: "-"})
		default:
			compareValues(at, old, now, out)
		}
	}
}

// byName are the parts of an object, or of an array whose parts have names of their own; nil for anything else.
func byName(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return v
	case []any:
		out := map[string]any{}
		for i, part := range v {
			name := strconv.Itoa(i)
			switch p := part.(type) {
			case map[string]any:
				if n, ok := p["name"].(string); ok {
					name = n
				}
			case string:
				name = p
			}
			if _, twice := out[name]; twice {
				return nil
			}
			out[name] = part
		}
		return out
	}
	return nil
}

func shortEqual(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
