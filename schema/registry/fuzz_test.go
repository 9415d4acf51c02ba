package registry_test

import (
	"log/slog"
	"testing"

	"millrace/schema/registry"
)

// FuzzRecords reads anything as records of the topic, twice the same, and asks for everything there is.
func FuzzRecords(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}`, `{"subject":"s","version":1,"id":1,"schema":"\"int\"","deleted":false}`},
		{`{"keytype":"SCHEMA","subject":":.c:__EMPTY","version":1,"magic":1}`, `{"subject":"s","version":1,"id":1,"schema":"\"int\"","deleted":true}`},
		{`{"keytype":"CONFIG","subject":null,"magic":0}`, `{"compatibilityLevel":"FULL","alias":"x"}`},
		{`{"keytype":"MODE","subject":"s","magic":0}`, `{"mode":"IMPORT"}`},
		{`{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}`, `{"subject":"s","version":1}`},
		{`{"keytype":"CLEAR_SUBJECT","subject":null,"magic":0}`, `{"subject":null}`},
		{`{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}`, `{"tenant":"default","context":".c"}`},
		{`{"keytype":"NOOP","magic":0}`, ``},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]), seed[1] == "")
	}
	f.Fuzz(func(t *testing.T, key, value []byte, null bool) {
		r := registry.New(registry.NewState(slog.New(slog.DiscardHandler)), settings)
		base := []registry.Record{
			{Key: []byte(`{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}`), Value: []byte(`{"subject":"s","version":1,"id":1,"schema":"\"int\"","deleted":false}`)},
			{Key: []byte(`{"keytype":"SCHEMA","subject":"t","version":1,"magic":1}`), Value: []byte(`{"subject":"t","version":1,"id":1,"schema":"\"int\"","references":[{"name":"n","subject":"s","version":1}],"deleted":false}`)},
		}
		if null {
			value = nil
		}
		r.Apply(append(base, registry.Record{Key: key, Value: value}, registry.Record{Key: key, Value: value}))
		for _, name := range r.Subjects(registry.AllContexts, registry.Filter{Deleted: true}, registry.Page{}) {
			numbers, err := r.Versions(name, registry.Filter{Deleted: true}, false, registry.Page{})
			if err != nil {
				t.Errorf("subject %q is listed and has no versions: %v", name, err)
			}
			for _, n := range numbers {
				e, err := r.Version(name, int(n), true)
				if err != nil || e.Version != n {
					t.Errorf("version %d of %q: %v, %v", n, name, e, err)
				}
			}
		}
		_ = r.Schemas(registry.Search{Prefix: registry.AllContexts, Aliases: true, Deleted: true})
		_, _ = r.LookUp("s", &registry.Request{Schema: `"int"`}, false, true)
		b := r.NewBatch()
		_, _ = b.Register(&registry.Registration{Subject: "s", Request: &registry.Request{Schema: `"long"`}})
		_, _ = b.DeleteSubject("s", false)
		_ = b.PutMode("", registry.Import, false)
	})
}
