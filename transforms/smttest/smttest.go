package smttest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/converters"
	"millrace/schema/plugin"
	"millrace/transforms"
)

// A Case is one line of a file of cases.
type Case struct {
	Class   string
	Config  map[string]string
	Schemas bool
	Record  struct {
		Topic      string
		Partition  *int32
		Timestamp  *int64
		Key, Value json.RawMessage
		Headers    [][2]string
	}
	Result Result
}

// A Result is what the original made of a case.
type Result struct {
	Topic          *string
	Partition      *int32
	Timestamp      *int64
	Key, Value     json.RawMessage
	Headers        [][2]json.RawMessage
	Dropped        bool
	Test           *bool
	Error, Message string
	Stage          string
}

// Read reads a gzipped file of cases; lines about headers alone are left out.
func Read(t testing.TB, file string) []Case {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []Case
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var c Case
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Class != "" {
			out = append(out, c)
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// Converter makes the JSON converter with these settings.
func Converter(t testing.TB, settings ...string) converters.Converter {
	t.Helper()
	raw := map[string]string{}
	for i := 0; i < len(settings); i += 2 {
		raw[settings[i]] = settings[i+1]
	}
	c, errs := converters.JSON.Make(raw, false)
	for _, err := range errs {
		t.Fatal(err)
	}
	return c
}

// A Runner runs cases.
type Runner struct {
	Transforms  plugin.Table[transforms.Plugin]
	Predicates  plugin.Table[transforms.PredicatePlugin]
	Differences map[string]string // what differs on purpose: class and configuration as Name has it → why
	Beyond      map[string]string // part of an original's message, where ours has no error on purpose, and behind a | part of the case's name → why
	Errors      map[string]string // part of an original's message → part of ours, or several with | between, where ours says it better

	with, without converters.Converter
	beyond        map[string]int
	header        converters.HeaderConverter
}

// objectName is how Java prints an object that has no text: its class and an address.
var objectName = regexp.MustCompile(`[\w.$]+@[0-9a-f]+`)

// Name is what a case is called in messages and in the list of differences.
func (c *Case) Name() string {
	keys := make([]string, 0, len(c.Config))
	for k, v := range c.Config {
		keys = append(keys, k+"="+v)
	}
	slices.Sort(keys)
	name := c.Class[strings.LastIndexByte(c.Class, '.')+1:] + "{" + strings.Join(keys, " ") + "}"
	if c.Schemas {
		name += " with schemas"
	}
	return name
}

// Run runs the cases of the classes that the runner has, prints how many it
// compared and skipped per class, and returns how many it compared.
func (r *Runner) Run(t *testing.T, cases []Case) (compared int) {
	r.with, r.without = Converter(t), Converter(t, "schemas.enable", "false")
	h, errs := converters.SimpleHeader.MakeHeader(nil)
	if errs != nil {
		t.Fatal(errs)
	}
	r.header, r.beyond = h, map[string]int{}
	counts := map[string][3]int{}
	used := map[string]bool{}
	for i := range cases {
		c := &cases[i]
		n := counts[c.Class]
		tr, isTransform := r.Transforms.Find(c.Class)
		pr, isPredicate := r.Predicates.Find(c.Class)
		switch {
		case !isTransform && !isPredicate:
			n[1]++
		case r.Differences[c.Name()] != "":
			used[c.Name()] = true
			n[2]++
		default:
			n[0]++
			compared++
			r.one(t, c, tr, pr, isPredicate)
		}
		counts[c.Class] = n
	}
	classes := make([]string, 0, len(counts))
	for class := range counts {
		classes = append(classes, class)
	}
	slices.Sort(classes)
	for _, class := range classes {
		n := counts[class]
		t.Logf("%s: %d compared, %d skipped (not built), %d differ on purpose", class, n[0], n[1], n[2])
	}
	for theirs := range r.Beyond {
		if r.beyond[theirs] == 0 {
			t.Errorf("the listed difference %q is no case's error, or an error of ours too", theirs)
		}
	}
	for name := range r.Differences {
		if !used[name] {
			t.Errorf("the listed difference %q is no case", name)
		}
	}
	return compared
}

func (r *Runner) one(t *testing.T, c *Case, tr transforms.Plugin, pr transforms.PredicatePlugin, predicate bool) {
	t.Helper()
	rec, err := r.record(c)
	if err != nil {
		t.Errorf("%s: the case's record: %v", c.Name(), err)
		return
	}
	want := c.Result
	failed := func(err error) {
		for theirs, ours := range r.Errors {
			said := func(part string) bool { return strings.Contains(err.Error(), part) }
			if strings.Contains(want.Message, theirs) && slices.ContainsFunc(strings.Split(ours, "|"), said) {
				return
			}
		}
		if want.Error == "" {
			t.Errorf("%s: %v; the original has no error", c.Name(), err)
		} else if !strings.Contains(err.Error(), objectName.ReplaceAllString(want.Message, "")) {
			t.Errorf("%s: the error is\n %v\nthe original's is\n %s", c.Name(), err, want.Message)
		}
	}
	if predicate {
		v, errs := pr.Config.Parse(c.Config)
		if len(errs) > 0 {
			failed(errs[0])
			return
		}
		p, err := pr.New(v)
		if err != nil {
			failed(err)
			return
		}
		if got, err := p.Test(&rec); err != nil || want.Test == nil || got != *want.Test {
			t.Errorf("%s: %v, %v", c.Name(), got, err)
		}
		return
	}
	v, errs := tr.Config.Parse(c.Config)
	if len(errs) > 0 {
		failed(errs[0])
		return
	}
	tf, err := tr.New(v)
	if err != nil {
		failed(err)
		return
	}
	out, keep, err := tf.Apply(rec)
	if err != nil {
		failed(err)
		return
	}
	if !keep {
		if !want.Dropped {
			t.Errorf("%s: dropped; the original keeps it", c.Name())
		}
		return
	}
	for half, of := range map[string]struct {
		s *schema.Schema
		v schema.Value
	}{"key": {out.KeySchema, out.Key}, "value": {out.ValueSchema, out.Value}} {
		if err := schema.Validate(of.s, of.v); err != nil {
			t.Errorf("%s: its %s is what its schema forbids: %v", c.Name(), half, err)
		}
	}
	got, err := r.written(&out)
	if err != nil {
		if want.Stage != "JsonConverter" {
			t.Errorf("%s: cannot be written: %v", c.Name(), err)
		} else {
			failed(err)
		}
		return
	}
	for theirs := range r.Beyond {
		message, name, _ := strings.Cut(theirs, "|")
		if want.Error != "" && strings.Contains(want.Message, message) && strings.Contains(c.Name(), name) {
			r.beyond[theirs]++
			return
		}
	}
	if want.Error != "" || want.Dropped {
		t.Errorf("%s: no error, and not dropped; the original: %s dropped=%v", c.Name(), want.Message, want.Dropped)
		return
	}
	for _, p := range []struct {
		what      string
		got, want any
	}{
		{"topic", got.Topic, want.Topic}, {"partition", got.Partition, want.Partition}, {"timestamp", got.Timestamp, want.Timestamp},
		{"key", got.Key, want.Key}, {"value", got.Value, want.Value}, {"headers", got.Headers, want.Headers},
	} {
		a, _ := json.Marshal(p.got)
		b, _ := json.Marshal(p.want)
		if why := Differ(a, b); why != "" {
			t.Errorf("%s: its %s differs: %s\n got %s\nwant %s", c.Name(), p.what, why, a, b)
		}
	}
}

func (r *Runner) in(text json.RawMessage, schemas bool) (*schema.Schema, schema.Value, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, schema.Value{}, nil
	}
	var inner string
	if json.Unmarshal(text, &inner) == nil && strings.HasPrefix(inner, "{") {
		text = []byte(inner)
	}
	if schemas {
		return r.with.Decode(nil, text)
	}
	return r.without.Decode(nil, text)
}

func (r *Runner) record(c *Case) (rec schema.Record, err error) {
	rec = schema.Record{Topic: c.Record.Topic, Partition: schema.NoPartition, Timestamp: schema.NoTimestamp}
	if rec.Topic == "" {
		rec.Topic = "topic"
	}
	if c.Record.Partition != nil {
		rec.Partition = *c.Record.Partition
	}
	if c.Record.Timestamp != nil {
		rec.Timestamp = *c.Record.Timestamp
	}
	if rec.KeySchema, rec.Key, err = r.in(c.Record.Key, c.Schemas); err != nil {
		return rec, err
	}
	if rec.ValueSchema, rec.Value, err = r.in(c.Record.Value, c.Schemas); err != nil {
		return rec, err
	}
	for _, h := range c.Record.Headers {
		s, v, err := r.header.DecodeHeader("t", h[0], []byte(h[1]))
		if err != nil {
			return rec, err
		}
		rec.WithHeaders(schema.Header{Key: h[0], Schema: s, Value: v})
	}
	return rec, nil
}

func (r *Runner) out(s *schema.Schema, v schema.Value) (json.RawMessage, error) {
	c := r.with
	if s == nil {
		c = r.without
	}
	text, null, err := c.Encode(nil, nil, s, v)
	if null {
		text = []byte("null")
	}
	return text, err
}

func (r *Runner) written(rec *schema.Record) (out Result, err error) {
	out.Topic = &rec.Topic
	if rec.Partition != schema.NoPartition {
		out.Partition = &rec.Partition
	}
	if rec.Timestamp != schema.NoTimestamp {
		out.Timestamp = &rec.Timestamp
	}
	if out.Key, err = r.out(rec.KeySchema, rec.Key); err != nil {
		return out, err
	}
	if out.Value, err = r.out(rec.ValueSchema, rec.Value); err != nil {
		return out, err
	}
	out.Headers = [][2]json.RawMessage{}
	for _, h := range rec.Headers {
		v, err := r.out(h.Schema, h.Value)
		if err != nil {
			return out, err
		}
		out.Headers = append(out.Headers, [2]json.RawMessage{[]byte(strconv.Quote(h.Key)), v})
	}
	return out, nil
}

// Differ says where two JSON texts differ, "" where they are the same: numbers by
// value, objects without order.
func Differ(a, b []byte) string {
	var x, y any
	for _, p := range []struct {
		text []byte
		to   *any
	}{{a, &x}, {b, &y}} {
		d := json.NewDecoder(bytes.NewReader(p.text))
		d.UseNumber()
		if err := d.Decode(p.to); err != nil {
			return err.Error()
		}
	}
	return differ("", x, y)
}

func differ(at string, x, y any) string {
	switch x := x.(type) {
	case map[string]any:
		y, ok := y.(map[string]any)
		if !ok {
			return at + ": an object, and not"
		}
		for k := range y {
			if _, ok := x[k]; !ok {
				return fmt.Sprintf("%s.%s is missing", at, k)
			}
		}
		for k, v := range x {
			w, ok := y[k]
			if !ok {
				return fmt.Sprintf("%s.%s should not be there", at, k)
			}
			if why := differ(at+"."+k, v, w); why != "" {
				return why
			}
		}
		return ""
	case []any:
		y, ok := y.([]any)
		if !ok || len(x) != len(y) {
			return at + ": another length"
		}
		for i := range x {
			if why := differ(fmt.Sprintf("%s[%d]", at, i), x[i], y[i]); why != "" {
				return why
			}
		}
		return ""
	case json.Number:
		y, ok := y.(json.Number)
		if ok && x == y {
			return ""
		}
		f, err1 := x.Float64()
		g, err2 := y.Float64()
		whole := !strings.ContainsAny(string(x)+string(y), ".eE")
		if ok && !whole && err1 == nil && err2 == nil {
			// Java 17 prints some floats with a digit more than they need.
			short := len(strings.Trim(string(y), "-")) <= 14 && strings.Contains(string(y), "E") && float32(f) == float32(g)
			if f == g || short {
				return ""
			}
		}
		return fmt.Sprintf("%s: %s, and not %v", at, x, y)
	}
	if x != y {
		return fmt.Sprintf("%s: %v, and not %v", at, x, y)
	}
	return ""
}
