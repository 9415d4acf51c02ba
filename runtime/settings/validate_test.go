package settings_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"millrace/connectors"
	"millrace/connectors/elasticsearch"
	"millrace/connectors/file"
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

// TestValidateEqualsConnect compares whole answers with those of a real worker;
// texts for people and lists of what is installed are ours.
func TestValidateEqualsConnect(t *testing.T) {
	files, err := filepath.Glob("../../rest/testdata/connect-rest/0*-validate-*.json")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var x struct {
			Request  struct{ Body string }
			Response struct {
				Status int
				Body   string
			}
		}
		if err := json.Unmarshal(data, &x); err != nil {
			t.Fatal(err)
		}
		switch name[:3] {
		case "021": // transforms that are not here
			continue
		case "028": // client settings are not among those that are described
			continue
		}
		if x.Response.Status != 200 {
			continue
		}
		compared++
		t.Run(name, func(t *testing.T) {
			var raw map[string]string
			if err := json.Unmarshal([]byte(x.Request.Body), &raw); err != nil {
				t.Fatal(err)
			}
			got, err := validator(t).Validate(t.Context(), raw)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			g, w := normal(t, text), normal(t, []byte(x.Response.Body))
			if g["error_count"] != w["error_count"] || !reflect.DeepEqual(g["groups"], w["groups"]) || g["name"] != w["name"] {
				t.Errorf("errors %v, want %v; groups %v, want %v", g["error_count"], w["error_count"], g["groups"], w["groups"])
			}
			gs, ws := g["configs"].([]any), w["configs"].([]any)
			for i := range min(len(gs), len(ws)) {
				if !reflect.DeepEqual(gs[i], ws[i]) {
					t.Errorf("setting %d:\ngot  %v\nwant %v", i, gs[i], ws[i])
				}
			}
			if len(gs) != len(ws) {
				t.Errorf("%d settings, want %d", len(gs), len(ws))
			}
		})
	}
	if compared != 7 {
		t.Errorf("%d answers compared, want 7", compared)
	}
}

func normal(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	for _, c := range v["configs"].([]any) {
		d := c.(map[string]any)["definition"].(map[string]any)
		delete(d, "documentation")
		delete(d, "display_name")
		delete(c.(map[string]any)["value"].(map[string]any), "recommended_values")
	}
	return v
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

func TestANameThatNoFrameHoldsIsRefused(t *testing.T) {
	for n, wrong := range map[int]bool{runtime.MaxNameBytes: false, runtime.MaxNameBytes + 1: true} {
		infos, err := validator(t).Validate(t.Context(), map[string]string{"name": strings.Repeat("n", n),
			"connector.class": "FileStreamSource", "file": "/tmp/x", "topic": "t"})
		if err != nil {
			t.Fatal(err)
		}
		if got := infos.ErrorCount > 0; got != wrong || wrong && !strings.Contains(settings.ErrorText(infos), "at most 1024 bytes") {
			t.Errorf("a name of %d bytes: %s", n, settings.ErrorText(infos))
		}
	}
}
