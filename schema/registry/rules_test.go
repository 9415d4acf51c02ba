package registry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"millrace/schema/avro"
	"millrace/schema/registry"
)

// world is a registry whose topic is a slice.
type world struct {
	t       *testing.T
	r       *registry.Registry
	records []registry.Record
}

var settings = registry.Settings{Types: []registry.Type{avro.Registry}, ValidateNewSchemas: true}

func newWorld(t *testing.T) *world {
	return &world{t: t, r: registry.New(registry.NewState(slog.New(slog.DiscardHandler)), settings)}
}

// restart reads the topic anew; compacted says that of each key its last record alone is left.
func (w *world) restart(compacted bool) {
	w.r = registry.New(registry.NewState(slog.New(slog.DiscardHandler)), settings)
	records := w.records
	if compacted {
		last := map[string]int{}
		for i, r := range records {
			last[string(r.Key)] = i
		}
		records = nil
		for i, r := range w.records {
			if last[string(r.Key)] == i && r.Value != nil {
				records = append(records, r)
			}
		}
		w.records = records
	}
	w.r.Apply(records)
}

// decide applies what f decides.
func decide[V any](w *world, f func(*registry.Batch) (V, error)) (V, error) {
	w.t.Helper()
	b := w.r.NewBatch()
	v, err := f(b)
	if err != nil {
		return v, err
	}
	for i := range b.Records {
		b.Records[i].Offset, b.Records[i].Timestamp = int64(len(w.records)+i), int64(1000+len(w.records)+i)
	}
	w.records = append(w.records, b.Records...)
	w.r.Apply(b.Records)
	return v, nil
}

func (w *world) register(subject, text string, change ...func(*registry.Request)) (registry.Entry, error) {
	w.t.Helper()
	q := &registry.Request{Schema: text}
	for _, f := range change {
		f(q)
	}
	return decide(w, func(b *registry.Batch) (registry.Entry, error) {
		return b.Register(&registry.Registration{Subject: subject, Request: q})
	})
}

func (w *world) mustRegister(subject, text string, change ...func(*registry.Request)) registry.Entry {
	w.t.Helper()
	e, err := w.register(subject, text, change...)
	if err != nil {
		w.t.Fatalf("register %s: %v", subject, err)
	}
	return e
}

func (w *world) config(subject, body string) {
	w.t.Helper()
	if _, err := w.putConfig(subject, body); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) putConfig(subject, body string) (registry.Config, error) {
	w.t.Helper()
	c := new(registry.ConfigChange)
	if err := json.Unmarshal([]byte(body), c); err != nil {
		w.t.Fatal(err)
	}
	return decide(w, func(b *registry.Batch) (registry.Config, error) { return b.PutConfig(subject, c) })
}

func (w *world) deleteVersion(subject string, n int, permanent bool) error {
	_, err := decide(w, func(b *registry.Batch) (int32, error) { return b.DeleteVersion(subject, n, permanent) })
	return err
}

func (w *world) deleteSubject(subject string, permanent bool) ([]int32, error) {
	return decide(w, func(b *registry.Batch) ([]int32, error) { return b.DeleteSubject(subject, permanent) })
}

func (w *world) mode(subject string, m registry.Mode, force bool) error {
	_, err := decide(w, func(b *registry.Batch) (struct{}, error) { return struct{}{}, b.PutMode(subject, m, force) })
	return err
}

func (w *world) versions(subject string, f registry.Filter) []int32 {
	w.t.Helper()
	n, err := w.r.Versions(subject, f, false, registry.Page{})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func codeOf(err error) int {
	var e *registry.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

func wantCode(t *testing.T, what string, err error, code int) {
	t.Helper()
	if codeOf(err) != code {
		t.Errorf("%s: %v, want code %d", what, err, code)
	}
}

func wantVersion(t *testing.T, what string, e registry.Entry, id, version int32) {
	t.Helper()
	if e.ID == nil || *e.ID != id || e.Version != version {
		got := int32(-1)
		if e.ID != nil {
			got = *e.ID
		}
		t.Errorf("%s: id %d, version %d; want id %d, version %d", what, got, e.Version, id, version)
	}
}

const (
	intSchema    = `"int"`
	stringSchema = `"string"`
)

// What a restart finds must be what was there before it, whether the topic was compacted or not.
func TestDeletedAndRegisteredAgainTheIDsStay(t *testing.T) {
	for _, mode := range []string{"one run", "restarts", "restarts with compaction"} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t)
			step := func() {
				if mode != "one run" {
					w.restart(mode == "restarts with compaction")
				}
				if len(w.versions2("s")) > 0 {
					if _, err := w.r.ByID(1, "", false); err != nil {
						t.Errorf("id 1 is gone: %v", err)
					}
				}
			}
			w.config("", `{"compatibility":"NONE"}`)
			wantVersion(t, "int", w.mustRegister("s", intSchema), 1, 1)
			step()
			wantVersion(t, "string", w.mustRegister("s", stringSchema), 2, 2)
			step()
			wantCode(t, "permanent before soft", w.deleteVersion("s", 1, true), registry.CodeVersionNotSoftDeleted)
			for n := 1; n <= 2; n++ {
				if err := w.deleteVersion("s", n, false); err != nil {
					t.Fatal(err)
				}
				step()
			}
			wantVersion(t, "int again", w.mustRegister("s", intSchema), 1, 3)
			step()
			if got := w.versions("s", registry.Filter{}); !slices.Equal(got, []int32{3}) {
				t.Errorf("versions %v, want [3]", got)
			}
			if got := w.versions("s", registry.Filter{Deleted: true}); !slices.Equal(got, []int32{2, 3}) {
				t.Errorf("versions with the deleted ones %v, want [2 3]", got)
			}
			_, err := w.deleteSubject("s", true)
			wantCode(t, "permanent before soft", err, registry.CodeSubjectNotSoftDeleted)
			if got, err := w.deleteSubject("s", false); err != nil || !slices.Equal(got, []int32{3}) {
				t.Errorf("deleted %v, %v", got, err)
			}
			step()
			_, err = w.deleteSubject("s", false)
			wantCode(t, "soft twice", err, registry.CodeSubjectSoftDeleted)
			if got, err := w.deleteSubject("s", true); err != nil || !slices.Equal(got, []int32{2, 3}) {
				t.Errorf("deleted for good %v, %v", got, err)
			}
			step()
			for id, want := range map[int32]string{1: intSchema, 2: stringSchema} {
				if e, err := w.r.ByID(id, "", false); err != nil || e.Schema != want {
					t.Errorf("id %d after all was deleted for good: %q, %v", id, e.Schema, err)
				}
			}
			if got := w.r.Subjects(registry.AllContexts, registry.Filter{Deleted: true}, registry.Page{}); len(got) != 0 {
				t.Errorf("subjects %v, want none", got)
			}
			wantVersion(t, "boolean", w.mustRegister("s", `"boolean"`), 3, 1)
			step()
			wantVersion(t, "int", w.mustRegister("s", intSchema), 1, 2)
			step()
			wantVersion(t, "int elsewhere", w.mustRegister("other", intSchema), 1, 1)
			step()
			if got, err := w.r.VersionsOf(1, "", false, registry.Page{}); err != nil || fmt.Sprint(got) != "[{other 1} {s 2}]" {
				t.Errorf("versions of id 1: %v, %v", got, err)
			}
		})
	}
}

// versions2 are a subject's versions with the deleted ones, none where there is no subject.
func (w *world) versions2(subject string) []int32 {
	n, _ := w.r.Versions(subject, registry.Filter{Deleted: true}, false, registry.Page{})
	return n
}

func record(fields ...string) string {
	return `{"type":"record","name":"R","namespace":"n","fields":[` + strings.Join(fields, ",") + `]}`
}

const (
	fieldA        = `{"name":"a","type":"int"}`
	fieldB        = `{"name":"b","type":"string"}`
	fieldBDefault = `{"name":"b","type":"string","default":""}`
)

func TestAnIncompatibleChangeInsideOfAnythingIsRefused(t *testing.T) {
	for name, around := range map[string]string{
		"a union":           `["null",%s]`,
		"a record's field":  `{"type":"record","name":"Outer","fields":[{"name":"x","type":["null",%s]}]}`,
		"an array":          `{"type":"array","items":["null",%s]}`,
		"a map":             `{"type":"map","values":["null",%s]}`,
		"a recursive union": `{"type":"record","name":"List","fields":[{"name":"v","type":["null",%s]},{"name":"next","type":["null","List"]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustRegister("s", fmt.Sprintf(around, record(fieldA)))
			bad, good := fmt.Sprintf(around, record(fieldA, fieldB)), fmt.Sprintf(around, record(fieldA, fieldBDefault))
			messages, err := w.r.Compatible("s", registry.Latest, &registry.Request{Schema: bad}, false)
			if err != nil || len(messages) == 0 || !strings.Contains(messages[0], "MISSING_UNION_BRANCH") {
				t.Errorf("without default: %v, %v", messages, err)
			}
			_, err = w.register("s", bad)
			wantCode(t, "without default", err, registry.CodeIncompatible)
			if messages, err := w.r.Compatible("s", registry.Latest, &registry.Request{Schema: good}, false); err != nil || len(messages) > 0 {
				t.Errorf("with default: %v, %v", messages, err)
			}
			w.mustRegister("s", good)
		})
	}
}

func TestAliasesOfFieldsAndRecordsAreFollowed(t *testing.T) {
	renamed := record(`{"name":"b","type":"int","aliases":["a"]}`)
	other := `{"type":"record","name":"R2","namespace":"n","aliases":["R"],"fields":[` + fieldA + `]}`
	for _, row := range []struct {
		name, old, candidate string
		backward, forward    bool
	}{
		{"a field with an alias", record(fieldA), renamed, true, false},
		{"a record with an alias", record(fieldA), other, true, false},
		{"a record with an alias in a union", `["null",` + record(fieldA) + `]`, `["null",` + other + `]`, true, false},
		{"a field without an alias", record(fieldA), record(`{"name":"b","type":"int"}`), false, false},
	} {
		for level, want := range map[string]bool{"BACKWARD": row.backward, "FORWARD": row.forward} {
			if level == "FORWARD" && strings.HasPrefix(row.name, "a record") {
				continue // the case says nothing of these
			}
			t.Run(row.name+" "+level, func(t *testing.T) {
				w := newWorld(t)
				w.config("s", `{"compatibility":"`+level+`"}`)
				w.mustRegister("s", row.old)
				messages, err := w.r.Compatible("s", registry.Latest, &registry.Request{Schema: row.candidate}, false)
				if err != nil || (len(messages) == 0) != want {
					t.Errorf("%v, %v; want compatible %v", messages, err, want)
				}
			})
		}
	}
}

func TestWhichTextsAreTheSameSchema(t *testing.T) {
	const base = `{"type":"record","name":"n.R","fields":[{"name":"a","type":"int","doc":"d","default":1}]}`
	for _, row := range []struct {
		name, text string
		same       bool
	}{
		{"white space and CRLF", "{\r\n  \"type\": \"record\",\r\n  \"name\": \"n.R\",\r\n  \"fields\": [ {\"name\": \"a\", \"type\": \"int\", \"doc\": \"d\", \"default\": 1} ]\r\n}", true},
		{"the order of attributes", `{"fields":[{"default":1,"doc":"d","type":"int","name":"a"}],"name":"n.R","type":"record"}`, true},
		{"the name in two parts", `{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"int","doc":"d","default":1}]}`, true},
		{"a primitive as an object", `{"type":"record","name":"n.R","fields":[{"name":"a","type":{"type":"int"},"doc":"d","default":1}]}`, true},
		{"another doc", strings.Replace(base, `"d"`, `"e"`, 1), false},
		{"another default", strings.Replace(base, `:1}`, `:2}`, 1), false},
		{"an alias", strings.Replace(base, `"default"`, `"aliases":["z"],"default"`, 1), false},
		{"a property", strings.Replace(base, `"default"`, `"x":"y","default"`, 1), false},
		{"another order of fields", `{"type":"record","name":"n.R","fields":[{"name":"b","type":"int","default":1},{"name":"a","type":"int","doc":"d","default":1}]}`, false},
	} {
		for _, normalize := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, normalize %v", row.name, normalize), func(t *testing.T) {
				w := newWorld(t)
				w.config("", `{"compatibility":"NONE"}`)
				post := func(text string) registry.Entry {
					e, err := decide(w, func(b *registry.Batch) (registry.Entry, error) {
						return b.Register(&registry.Registration{Subject: "s", Request: &registry.Request{Schema: text}, Normalize: normalize})
					})
					if err != nil {
						t.Fatal(err)
					}
					return e
				}
				text := base
				if strings.Contains(row.name, "order of fields") {
					text = `{"type":"record","name":"n.R","fields":[{"name":"a","type":"int","doc":"d","default":1},{"name":"b","type":"int","default":1}]}`
				}
				first, second := post(text), post(row.text)
				if same := *first.ID == *second.ID && first.Version == second.Version; same != row.same {
					t.Errorf("ids %d and %d, versions %d and %d; want the same: %v", *first.ID, *second.ID, first.Version, second.Version, row.same)
				}
				stored, err := w.r.ByID(1, "", false)
				if err != nil {
					t.Fatal(err)
				}
				for _, keeps := range []string{`"doc":"d"`, `"default":1`} {
					if !strings.Contains(stored.Schema, keeps) {
						t.Errorf("the stored text %s has lost %s", stored.Schema, keeps)
					}
				}
			})
		}
	}
}

func TestOddNamesOfSubjectsAreNames(t *testing.T) {
	w := newWorld(t)
	names := []string{"a", "a/b", "a%2Fb", ":.ctx:x", "ü ñ", "..", strings.Repeat("long", 75), "{x}", "a?b#c"}
	for _, n := range names {
		w.mustRegister(n, intSchema)
	}
	w.restart(true)
	got := w.r.Subjects(registry.AllContexts, registry.Filter{}, registry.Page{})
	want := slices.Sorted(slices.Values(names))
	if !slices.Equal(got, want) {
		t.Errorf("subjects %q, want %q", got, want)
	}
	if _, err := w.deleteSubject("a/b", false); err != nil {
		t.Fatal(err)
	}
	if got := w.r.Subjects(registry.AllContexts, registry.Filter{}, registry.Page{}); len(got) != len(names)-1 || slices.Contains(got, "a/b") {
		t.Errorf("after the deletion %q", got)
	}
	for _, bad := range []string{"a\nb", "__GLOBAL", "__EMPTY", ":.ctx:__EMPTY", ":.__GLOBAL:x", "\x7f", strings.Repeat("x", 5000)} {
		wantCode(t, fmt.Sprintf("%.20q", bad), registry.CheckRequest(bad, &registry.Request{}), registry.CodeInvalidSubject)
	}
}

func TestIDsAreNumberedInEachContext(t *testing.T) {
	w := newWorld(t)
	wantVersion(t, "default", w.mustRegister("s", intSchema), 1, 1)
	wantVersion(t, "another context", w.mustRegister(":.ctx:s", stringSchema), 1, 1)
	wantVersion(t, "the same there", w.mustRegister(":.ctx:t", intSchema), 2, 1)
	if got := w.r.Contexts("", registry.Page{}); !slices.Equal(got, []string{".", ".ctx"}) {
		t.Errorf("contexts %v", got)
	}
	if e, err := w.r.ByID(1, ":.ctx:", false); err != nil || e.Schema != stringSchema {
		t.Errorf("id 1 of the context: %v, %v", e, err)
	}
	if e, err := w.r.ByID(2, "t", false); err != nil || e.Schema != intSchema || e.Subject != ":.ctx:t" {
		t.Errorf("a subject that is in another context: %v, %v", e, err)
	}
	if e, err := w.r.Version("t", 1, false); err != nil || e.Subject != ":.ctx:t" {
		t.Errorf("a version that is in another context: %v, %v", e, err)
	}
	for prefix, want := range map[string]string{"": "[s]", ":*:": "[:.ctx:s :.ctx:t s]", ":.ctx:": "[:.ctx:s :.ctx:t]", ":.c": "[:.ctx:s :.ctx:t]", ":*:t": "[:.ctx:t]", "s": "[s]", "x": "[]"} {
		if got := fmt.Sprint(w.r.Subjects(prefix, registry.Filter{}, registry.Page{})); got != want {
			t.Errorf("subjects of %q: %s, want %s", prefix, got, want)
		}
	}
	one, _ := w.r.Version("s", 1, false)
	ids := w.r.IDsOf(one.GUID)
	if fmt.Sprint(ids) != "[{. 1} {.ctx 2}]" {
		t.Errorf("ids of the guid: %v", ids)
	}
	if e, err := w.r.ByGUID(one.GUID); err != nil || e.Schema != intSchema {
		t.Errorf("by guid: %v, %v", e, err)
	}
	// A context with subjects stays; an empty one goes.
	drop := func() error {
		_, err := decide(w, func(b *registry.Batch) (struct{}, error) { return struct{}{}, b.DeleteContext(".ctx") })
		return err
	}
	wantCode(t, "a context with subjects", drop(), registry.CodeContextNotEmpty)
	for _, s := range []string{":.ctx:s", ":.ctx:t"} {
		for _, permanent := range []bool{false, true} {
			if _, err := w.deleteSubject(s, permanent); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := drop(); err != nil {
		t.Fatal(err)
	}
	if got := w.r.Contexts("", registry.Page{}); !slices.Equal(got, []string{"."}) {
		t.Errorf("contexts %v", got)
	}
	wantVersion(t, "the context again", w.mustRegister(":.ctx:new", `"long"`), 3, 1)
}

func TestModesSayWhatMayBeDone(t *testing.T) {
	w := newWorld(t)
	w.mustRegister("s", intSchema)
	withID := func(id, version int32) func(*registry.Request) {
		return func(q *registry.Request) { q.ID, q.Version = &id, &version }
	}
	_, err := w.register("s", stringSchema, withID(7, 3))
	wantCode(t, "an id outside of import mode", err, registry.CodeOperationNotPermitted)
	wantCode(t, "import with subjects", w.mode("", registry.Import, false), registry.CodeOperationNotPermitted)
	wantCode(t, "no mode", w.mode("", "SOMETIMES", false), registry.CodeInvalidMode)
	wantCode(t, "forward for a subject", w.mode("s", registry.Forwarding, false), registry.CodeInvalidMode)
	if err := w.mode("s", registry.ReadOnly, false); err != nil {
		t.Fatal(err)
	}
	_, err = w.register("s", stringSchema)
	wantCode(t, "register read-only", err, registry.CodeOperationNotPermitted)
	_, err = w.deleteSubject("s", false)
	wantCode(t, "delete read-only", err, registry.CodeOperationNotPermitted)
	_, err = w.putConfig("s", `{"compatibility":"NONE"}`)
	wantCode(t, "configure read-only", err, registry.CodeOperationNotPermitted)
	if err := w.mode("s", "readwrite", false); err != nil {
		t.Fatal(err)
	}
	if err := w.mode("", registry.ReadOnlyOverride, false); err != nil {
		t.Fatal(err)
	}
	if m, err := w.r.Mode("s", true); err != nil || m != registry.ReadOnlyOverride {
		t.Errorf("mode %s, %v: the override goes before the subject's own", m, err)
	}
	if _, err := decide(w, func(b *registry.Batch) (registry.Mode, error) { return b.DeleteMode("", true) }); err != nil {
		t.Fatal(err)
	}
	_, err = w.r.Mode("s", false)
	wantCode(t, "a mode that is gone", err, registry.CodeNoSubjectMode)

	if err := w.mode("imp", registry.Import, false); err != nil {
		t.Fatal(err)
	}
	wantVersion(t, "imported", w.mustRegister("imp", stringSchema, withID(70, 30)), 70, 30)
	_, err = w.register("imp", `"long"`, withID(70, 31))
	wantCode(t, "an id that another schema has", err, registry.CodeIDDoesNotMatch)
	_, err = w.register("imp", `"long"`)
	wantCode(t, "no id in import mode", err, registry.CodeOperationNotPermitted)
	wantVersion(t, "the next id", w.mustRegister("t", `"long"`), 71, 1)
}

func TestImportForgetsWhatWasDeleted(t *testing.T) {
	w := newWorld(t)
	w.mustRegister("s", intSchema)
	for _, permanent := range []bool{false, true} {
		if _, err := w.deleteSubject("s", permanent); err != nil {
			t.Fatal(err)
		}
	}
	w.mustRegister("t", stringSchema)
	if _, err := w.deleteSubject("t", false); err != nil {
		t.Fatal(err)
	}
	if err := w.mode("", registry.Import, false); err != nil {
		t.Fatal(err)
	}
	id, v := int32(1), int32(5)
	wantVersion(t, "another schema under a former id", w.mustRegister("t", `"double"`, func(q *registry.Request) { q.ID, q.Version = &id, &v }), 1, 5)
	w.restart(true)
	if e, err := w.r.ByID(1, "", false); err != nil || e.Schema != `"double"` {
		t.Errorf("id 1: %v, %v", e, err)
	}
}

func TestReferencesAreResolvedAndGuarded(t *testing.T) {
	w := newWorld(t)
	w.mustRegister("addr", `{"type":"record","name":"Addr","namespace":"n","fields":[{"name":"city","type":"string"}]}`)
	user := `{"type":"record","name":"User","namespace":"n","fields":[{"name":"at","type":"n.Addr"}]}`
	ref := func(version int32) func(*registry.Request) {
		return func(q *registry.Request) {
			q.References = []registry.Reference{{Name: "n.Addr", Subject: "addr", Version: version}}
		}
	}
	_, err := w.register("user", user)
	wantCode(t, "no reference", err, registry.CodeInvalidSchema)
	_, err = w.register("user", user, ref(9))
	wantCode(t, "a reference to nothing", err, registry.CodeInvalidSchema)
	e := w.mustRegister("user", user, ref(registry.Latest))
	if len(e.References) != 1 || e.References[0].Version != 1 {
		t.Errorf("references %v: the latest is stored as a number", e.References)
	}
	wantVersion(t, "the same with a number", w.mustRegister("user", user, ref(1)), 2, 1)
	resolved := `{"type":"record","name":"User","namespace":"n","fields":[{"name":"at","type":{"type":"record","name":"Addr","fields":[{"name":"city","type":"string"}]}}]}`
	got, err := w.r.LookUp("user", &registry.Request{Schema: resolved}, false, false)
	if err != nil {
		t.Fatal(err)
	}
	wantVersion(t, "looked up with the reference written out", got, 2, 1)
	if ids, err := w.r.ReferencedBy("addr", 1, false, registry.Page{}); err != nil || !slices.Equal(ids, []int32{2}) {
		t.Errorf("referenced by %v, %v", ids, err)
	}
	wantCode(t, "delete what is referenced", w.deleteVersion("addr", 1, false), registry.CodeReferenceExists)
	_, err = w.deleteSubject("addr", false)
	wantCode(t, "delete the subject of what is referenced", err, registry.CodeReferenceExists)
	if _, err := w.deleteSubject("user", false); err != nil {
		t.Fatal(err)
	}
	if _, err := w.deleteSubject("addr", false); err != nil {
		t.Fatal(err)
	}
	_, err = w.deleteSubject("addr", true)
	wantCode(t, "delete for good what a deleted version refers to", err, registry.CodeReferenceExists)
	if _, err := w.deleteSubject("user", true); err != nil {
		t.Fatal(err)
	}
	if _, err := w.deleteSubject("addr", true); err != nil {
		t.Fatal(err)
	}
}

func TestMetadataAndRulesAreInheritedAndMerged(t *testing.T) {
	w := newWorld(t)
	w.config("s", `{"defaultMetadata":{"properties":{"team":"a","x":"1"}},"overrideMetadata":{"properties":{"x":"2"}},
		"defaultRuleSet":{"domainRules":[{"name":"r","type":"CEL","mode":"WRITE","kind":"CONDITION"}]}}`)
	e := w.mustRegister("s", record(fieldA), func(q *registry.Request) {
		q.Metadata = &registry.Metadata{Properties: map[string]string{"own": "y"}}
	})
	if got := fmt.Sprint(e.Metadata.Properties); got != "map[own:y team:a x:2]" {
		t.Errorf("properties %s", got)
	}
	if e.RuleSet == nil || len(e.RuleSet.DomainRules) != 1 || e.RuleSet.DomainRules[0].Name != "r" {
		t.Errorf("rules %+v", e.RuleSet)
	}
	again := w.mustRegister("s", record(fieldA))
	wantVersion(t, "without metadata it has those of the version before", again, 1, 1)
	if got, err := w.r.LookUp("s", &registry.Request{Schema: record(fieldA)}, false, false); err != nil || got.Version != 1 {
		t.Errorf("looked up without metadata: %v, %v", got, err)
	}
	two := w.mustRegister("s", record(fieldA, fieldBDefault))
	if got := fmt.Sprint(two.Metadata.Properties); got != "map[own:y team:a x:2]" {
		t.Errorf("the next version's properties %s", got)
	}
	if got, err := w.r.WithMetadata("s", map[string]string{"own": "y", "x": "2"}, false); err != nil || got.Version != 2 {
		t.Errorf("latest with metadata: %v, %v", got, err)
	}
	_, err := w.r.WithMetadata("s", map[string]string{"own": "z"}, false)
	wantCode(t, "no such metadata", err, registry.CodeSchemaNotFound)
	_, err = w.putConfig("s", `{"defaultRuleSet":{"domainRules":[{"name":"1r","type":"CEL","mode":"WRITE"}]}}`)
	wantCode(t, "a rule with an illegal name", err, registry.CodeInvalidRuleSet)
	_, err = w.putConfig("s", `{"compatibility":"SOMETIMES"}`)
	wantCode(t, "no level", err, registry.CodeInvalidCompatibility)
}

func TestCompatibilityGroupsAreComparedAmongThemselves(t *testing.T) {
	w := newWorld(t)
	w.config("s", `{"compatibilityGroup":"major","compatibility":"BACKWARD_TRANSITIVE"}`)
	major := func(n string) func(*registry.Request) {
		return func(q *registry.Request) { q.Metadata = &registry.Metadata{Properties: map[string]string{"major": n}} }
	}
	w.mustRegister("s", record(fieldA), major("1"))
	w.mustRegister("s", record(fieldB), major("2"))
	_, err := w.register("s", record(`{"name":"c","type":"int"}`), major("1"))
	wantCode(t, "incompatible within its group", err, registry.CodeIncompatible)
	w.mustRegister("s", record(fieldA, `{"name":"c","type":"int","default":0}`), major("1"))
}

func TestConfigurationsAreInheritedFieldByField(t *testing.T) {
	w := newWorld(t)
	w.config("", `{"compatibility":"FULL","normalize":true}`)
	w.config("s", `{"compatibilityGroup":"g"}`)
	c, err := w.r.Config("s", true)
	if err != nil || c.Compatibility != registry.Backward || c.Normalize == nil || !*c.Normalize {
		t.Errorf("in scope %+v, %v", c, err)
	}
	if c, err := w.r.Config("t", true); err != nil || c.Compatibility != registry.Full {
		t.Errorf("inherited %+v, %v", c, err)
	}
	_, err = w.r.Config("t", false)
	wantCode(t, "none of its own", err, registry.CodeNoSubjectConfig)
	w.config("s", `{"compatibilityGroup":null,"compatibility":"none"}`)
	if c, _ := w.r.Config("s", false); c.CompatibilityGroup != nil || c.Compatibility != registry.None {
		t.Errorf("null removes a field: %+v", c)
	}
	if c, err := decide(w, func(b *registry.Batch) (registry.Config, error) { return b.DeleteConfig("s") }); err != nil || c.Compatibility != registry.None {
		t.Errorf("deleted %+v, %v", c, err)
	}
	_, err = decide(w, func(b *registry.Batch) (registry.Config, error) { return b.DeleteConfig("s") })
	wantCode(t, "deleted twice", err, registry.CodeSubjectNotFound)
	w.config(":.ctx:", `{"compatibility":"FORWARD"}`)
	if c, _ := w.r.Config(":.ctx:x", true); c.Compatibility != registry.Forward {
		t.Errorf("of the context: %+v", c)
	}
	w.config(":.__GLOBAL:", `{"compatibility":"FULL_TRANSITIVE"}`)
	if c, _ := w.r.Config(":.other:x", true); c.Compatibility != registry.FullTransitive {
		t.Errorf("of all contexts: %+v", c)
	}
}

func TestABatchTakesRegistrationsOfDifferentSubjects(t *testing.T) {
	w := newWorld(t)
	b := w.r.NewBatch()
	post := func(subject, text string) (registry.Entry, error) {
		return b.Register(&registry.Registration{Subject: subject, Request: &registry.Request{Schema: text}})
	}
	one, _ := post("a", intSchema)
	two, _ := post("b", stringSchema)
	three, _ := post("c", intSchema)
	wantVersion(t, "the first", one, 1, 1)
	wantVersion(t, "the second", two, 2, 1)
	wantVersion(t, "the first's schema elsewhere", three, 1, 1)
	if _, err := post("a", `"long"`); !errors.Is(err, registry.ErrLater) {
		t.Errorf("a subject twice: %v", err)
	}
	w.r.Apply(b.Records)
	if got, err := w.r.VersionsOf(1, "", false, registry.Page{}); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

// What is left out of a topic is told, and the rest is served.
func TestRecordsThatCannotBeReadAreLeftOut(t *testing.T) {
	w := newWorld(t)
	w.mustRegister("s", intSchema)
	for _, r := range []registry.Record{
		{Key: nil}, {Key: []byte("{")}, {Key: []byte(`"text"`)}, {Key: []byte(`{"keytype":"LATER","magic":9}`)},
		{Key: []byte(`{"keytype":"SCHEMA","subject":null,"version":1,"magic":1}`), Value: []byte("{}")},
		{Key: []byte(`{"keytype":"SCHEMA","subject":"x","version":1,"magic":7}`), Value: []byte("{}")},
		{Key: []byte(`{"keytype":"SCHEMA","subject":"x","version":-1,"magic":1}`), Value: []byte("{}")},
		{Key: []byte(`{"keytype":"SCHEMA","subject":"x","version":1,"magic":1}`), Value: []byte("[]")},
		{Key: []byte(`{"keytype":"SCHEMA","subject":"dup","version":1,"magic":1}`), Value: []byte(`{"subject":"dup","version":1,"id":1,"schema":"\"bytes\"","deleted":false}`)},
		{Key: []byte(`{"keytype":"MODE","subject":"s","magic":0}`), Value: []byte(`{"mode":"NEVER"}`)},
		{Key: []byte(`{"keytype":"CONFIG","subject":"s","magic":0}`), Value: []byte(`7`)},
		{Key: []byte(`{"keytype":"DELETE_SUBJECT","subject":null,"magic":0}`), Value: []byte(`{}`)},
		{Key: []byte(`{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}`), Value: []byte(`{}`)},
	} {
		w.r.Apply([]registry.Record{r})
	}
	if got := w.r.Subjects(registry.AllContexts, registry.Filter{Deleted: true}, registry.Page{}); fmt.Sprint(got) != "[s]" {
		t.Errorf("subjects %v", got)
	}
	if e, err := w.r.ByID(1, "", false); err != nil || e.Schema != intSchema {
		t.Errorf("id 1: %v, %v", e, err)
	}
}
