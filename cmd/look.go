package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	"golang.org/x/term"
)

// A look is how answers are written: -o and --color.
type look struct {
	format, color string
	colored       bool
}

var allFormats = []string{"table", "wide", "json", "jsonl", "yaml", "name"}

func (l *look) flags(f *pflag.FlagSet) {
	f.StringVarP(&l.format, "output", "o", "table", "form of the answer: "+strings.Join(allFormats, ", "))
	f.StringVar(&l.color, "color", "auto", "colours on a terminal: auto, always, never")
}

func (l *look) check(out io.Writer, env func(string) string) error {
	if !slices.Contains(allFormats, l.format) {
		return fmt.Errorf("--output %s: want one of %s", l.format, strings.Join(allFormats, ", "))
	}
	switch l.color {
	case "always":
		l.colored = true
	case "never":
	case "auto":
		l.colored = isTTY(out) && env("NO_COLOR") == "" && env("TERM") != "dumb"
	default:
		return fmt.Errorf("--color %s: want auto, always or never", l.color)
	}
	return nil
}

func isTTY(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// people reports whether the answer is for people.
func (l *look) people() bool { return l.format == "table" || l.format == "wide" }

// A table is an answer for people. Its first column names things.
type table struct {
	head []string
	rows [][]string
	wide int // so many columns at the end are shown with -o wide only; 0: none
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write writes a table for people, or the value for programs. list says that the
// value is a list of things, each of which is a line of jsonl.
func (l *look) write(w io.Writer, t *table, value any) error {
	switch l.format {
	case "table", "wide":
		return l.table(w, t)
	case "name":
		for _, row := range t.rows {
			if _, err := fmt.Fprintln(w, row[0]); err != nil {
				return err
			}
		}
		return nil
	}
	return l.value(w, value)
}

func (l *look) table(w io.Writer, t *table) error {
	columns := len(t.head)
	if l.format != "wide" {
		columns -= t.wide
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cells []string) {
		texts := make([]string, columns)
		for i := range texts {
			texts[i] = printable(cells[i])
		}
		fmt.Fprintln(tw, strings.TrimRight(strings.Join(texts, "\t"), " \t"))
	}
	line(t.head)
	for _, row := range t.rows {
		line(row)
	}
	return tw.Flush()
}

// value writes JSON, lines of JSON, or YAML.
func (l *look) value(w io.Writer, v any) error {
	data, err := marshalIndent(v, "  ")
	if err != nil {
		return err
	}
	switch l.format {
	case "jsonl":
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, e := range list {
			line, err := marshalIndent(e, "")
			if err != nil {
				return err
			}
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
		return nil
	case "yaml":
		var plain any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&plain); err != nil {
			return err
		}
		e := yaml.NewEncoder(w)
		e.SetIndent(2)
		if err := e.Encode(yamlNumbers(plain)); err != nil {
			return err
		}
		return e.Close()
	}
	_, err = w.Write(data)
	return err
}

// yamlNumbers turns json.Number, which YAML would quote, into numbers.
func yamlNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case map[string]any:
		for k := range v {
			v[k] = yamlNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = yamlNumbers(v[i])
		}
	}
	return v
}

func marshalIndent(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent != "" {
		e.SetIndent("", indent)
	}
	err := e.Encode(v)
	return b.Bytes(), err
}

// printable is a text that moves no cursor and sets no colour: what a name or record
// holds of control characters is written as an escape.
func printable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || isBidi(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || isBidi(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// printableLines is printable for a text of several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = printable(l)
	}
	return strings.Join(lines, "\n")
}

// isBidi finds what turns the direction of the text after it.
func isBidi(r rune) bool {
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f
}

// ago is a time span as people say it: one unit, rounded down.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// grouped is a number with its thousands apart.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	neg := strings.TrimPrefix(s, "-")
	for i := len(neg) - 3; i > 0; i -= 3 {
		neg = neg[:i] + "," + neg[i:]
	}
	if n < 0 {
		return "-" + neg
	}
	return neg
}

// noun makes a command of commands. What it does not know is an error that offers the
// nearest, and runs nothing.
func noun(c *cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		c.SuggestionsMinimumDistance = 2
		hint := ""
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return fmt.Errorf("there is no %s %s%s", c.CommandPath(), args[0], hint)
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}
