package settings_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"millrace/connectors"
	"millrace/connectors/elasticsearch"
	"millrace/connectors/file"
	"millrace/connectors/mysql"
	"millrace/connectors/postgres"
	"millrace/runtime"
	"millrace/runtime/settings"
	"millrace/schema/converters"
	"millrace/schema/plugin"
	"millrace/transforms"
)

func validator(t *testing.T) *settings.Validator {
	t.Helper()
	list := []plugin.Plugin{file.Source, file.Sink}
	for _, p := range converters.All() {
		list = append(list, p)
	}
	for _, p := range transforms.All() {
		list = append(list, p)
	}
	for _, p := range transforms.Predicates() {
		list = append(list, p)
	}
	plugins, err := runtime.NewPlugins(list...)
	if err != nil {
		t.Fatal(err)
	}
	worker, errs := runtime.ParseWorker(runtime.StandaloneDefaults())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	roots, err := runtime.NewFileRoots([]string{"/"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &settings.Validator{Plugins: plugins, Worker: worker,
		Context: func(name string) connectors.Context {
			return connectors.Context{Connector: name, Task: -1, Files: roots}
		}}
}

func TestValidationHidesWhatAKeyHides(t *testing.T) {
	d := validator(t)
	plugins, err := runtime.NewPlugins(append([]plugin.Plugin{elasticsearch.Sink}, converterPlugins()...)...)
	if err != nil {
		t.Fatal(err)
	}
	d.Plugins = plugins
	infos, err := d.Validate(t.Context(), map[string]string{"name": "e", "topics": "t", "connection.url": "ftp://u:s3cret@h:1",
		"connector.class": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector", "connection.password": "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(infos)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(body); strings.Contains(s, "s3cret") || !strings.Contains(s, `ftp://u:[hidden]@h:1`) {
		t.Errorf("want the address without its password, have %s", s)
	}
}

func converterPlugins() []plugin.Plugin {
	var list []plugin.Plugin
	for _, p := range converters.All() {
		list = append(list, p)
	}
	return list
}

// Whoever gives any of the settings that a source accepts and ignores is told so by the validation, with the reason.
func TestSettingsWithoutEffectAreTold(t *testing.T) {
	for _, source := range []connectors.SourcePlugin{postgres.Source, mysql.Source} {
		d := validator(t)
		plugins, err := runtime.NewPlugins(append([]plugin.Plugin{source}, converterPlugins()...)...)
		if err != nil {
			t.Fatal(err)
		}
		d.Plugins = plugins
		conf, want := map[string]string{"connector.class": source.Class}, map[string]string{}
		for key, reason := range source.Config.Ignored() {
			key = strings.Replace(key, "*", "one.of.them", 1)
			conf[key], want[key] = "1", reason
		}
		infos, err := d.Validate(t.Context(), conf)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range infos.Ignored {
			if want[i.Name] == "" || want[i.Name] != i.Reason {
				t.Errorf("%s: told of %s: %q, want %q", source.Name, i.Name, i.Reason, want[i.Name])
			}
			delete(want, i.Name)
		}
		if len(want) > 0 || len(infos.Ignored) < 40 {
			t.Errorf("%s: %d settings are told of, and not %v", source.Name, len(infos.Ignored), want)
		}
		body, err := json.Marshal(infos)
		if err != nil || !strings.Contains(string(body), `"ignored":[{"name":`) {
			t.Errorf("%s: the answer does not hold them: %v", source.Name, err)
		}
	}
}

func TestANameThatNoFrameHoldsIsRefused(t *testing.T) {
	for n, wrong := range map[int]bool{runtime.MaxNameBytes: false, runtime.MaxNameBytes + 1: true} {
		infos, err := validator(t).Validate(t.Context(), map[string]string{"name": strings.Repeat("n", n),
			"connector.class": "FileStreamSource", "file": filepath.Join(t.TempDir(), "x"), "topic": "t"})
		if err != nil {
			t.Fatal(err)
		}
		if got := infos.ErrorCount > 0; got != wrong || wrong && !strings.Contains(settings.ErrorText(infos), "at most 1024 bytes") {
			t.Errorf("a name of %d bytes: %s", n, settings.ErrorText(infos))
		}
	}
}

func TestTopicsThatCannotBeAreRefused(t *testing.T) {
	source := map[string]string{"name": "n", "connector.class": "FileStreamSource", "file": filepath.Join(t.TempDir(), "x"), "topic": "t"}
	sink := map[string]string{"name": "n", "connector.class": "FileStreamSink", "file": filepath.Join(t.TempDir(), "x"), "topics": "t"}
	for _, c := range []struct {
		conf       map[string]string
		key, value string
		words      string // "" where it is right
	}{
		{sink, "topics", "bad name", "letters of ASCII"}, {sink, "topics", "a,connect-configs", "worker's own"}, {sink, "topics", "..", "no topic can"}, {sink, "topics", "a,b.c-d_e", ""},
		{sink, "topics", strings.Repeat("x", 250), "at most 249"}, {sink, "errors.deadletterqueue.topic.name", "connect-offsets", "worker's own"}, {sink, "errors.deadletterqueue.topic.name", "ü", "letters of ASCII"},
		{sink, "errors.deadletterqueue.topic.name", "dlq", ""}, {source, "offsets.storage.topic", "bad name", "letters of ASCII"}, {source, "offsets.storage.topic", "connect-status", "worker's own"},
		{source, "offsets.storage.topic", "connect-offsets", ""}, {source, "offsets.storage.topic", "own", ""}, {source, "topic.creation.default.partitions", "x", "Number of partitions"},
	} {
		conf := map[string]string{c.key: c.value}
		for k, v := range c.conf {
			if k != c.key {
				conf[k] = v
			}
		}
		infos, err := validator(t).Validate(t.Context(), conf)
		if err != nil {
			t.Fatal(err)
		}
		if text := settings.ErrorText(infos); (c.words == "") != (text == "") || !strings.Contains(text, c.words) {
			t.Errorf("%s=%.40s: %q, want %q", c.key, c.value, text, c.words)
		}
	}
}

// A few MiB of names would otherwise be described with all classes each, in gigabytes.
func TestALongListOfAliasesIsRefusedAndNotDescribed(t *testing.T) {
	long := strings.Repeat("a,", 1<<20) + "a"
	for _, key := range []string{"transforms", "predicates", "topic.creation.groups"} {
		infos, err := validator(t).Validate(t.Context(), map[string]string{"name": "n", "connector.class": "FileStreamSource", "file": filepath.Join(t.TempDir(), "x"), "topic": "t", key: long})
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, c := range infos.Configs {
			if c.Value.Name == key {
				said = c.Value.Errors
			}
		}
		if len(said) != 1 || !strings.Contains(said[0], "The list has 1048577 names; 500 are allowed.") {
			t.Errorf("%s: have %d errors, the first %.100q", key, len(said), said)
		}
		if len(infos.Configs) > 100 {
			t.Errorf("%s: the answer describes %d settings", key, len(infos.Configs))
		}
	}
}
