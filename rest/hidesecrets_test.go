package rest_test

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestSecretsAreHiddenWhereTheWorkerSaysSo: rest.hide.secrets masks them in every call that returns configurations,
// and what comes back with the mask keeps them.
func TestSecretsAreHiddenWhereTheWorkerSaysSo(t *testing.T) {
	const password = "hunter2-and-more"
	for _, hide := range []string{"true", "false"} {
		t.Run("rest.hide.secrets="+hide, func(t *testing.T) {
			var got sync.Map
			var runs atomic.Int32
			t.Setenv("TELL_REF", "referenced")
			w := startWorkerWith(t, map[string]string{"rest.hide.secrets": hide, "config.providers": "env", "config.providers.env.class": "env"}, slog.New(slog.DiscardHandler), tell(&got, &runs))
			conf := map[string]string{"connector.class": "tell", "how": "run", "text": "shown", "password": password, "producer.override.client.id": "me",
				"undeclared.api.token": password, "undeclared.topic": "shown-too", "other.password": "${env:TELL_REF}"}
			var answers strings.Builder
			call := func(method, path string, body any) string {
				status, answer := w.call(t, method, path, body)
				if status/100 != 2 {
					t.Fatalf("%s %s: %d %s", method, path, status, answer)
				}
				answers.WriteString(answer)
				return answer
			}
			call("POST", "/connectors", map[string]any{"name": "c", "config": conf})
			w.until(t, "it runs", func() bool { _, ok := got.Load("c"); return ok })
			for _, path := range []string{"/connectors/c", "/connectors/c/config", "/connectors/c/tasks", "/connectors?expand=info"} {
				if answer := call("GET", path, nil); strings.Contains(answer, password) != (hide == "false") || !strings.Contains(answer, "shown-too") || !strings.Contains(answer, "${env:TELL_REF}") {
					t.Errorf("%s: %s", path, answer)
				}
			}
			masked := map[string]string{}
			for k, v := range conf {
				masked[k] = v
			}
			masked["password"], masked["undeclared.api.token"], masked["text"] = "[hidden]", "[hidden]", "changed"
			before := runs.Load()
			call("PUT", "/connectors/c/config", masked)
			w.until(t, "it runs with the change", func() bool {
				v, _ := got.Load("c")
				text, _ := v.(string)
				return runs.Load() > before && text == "changed|"+password+"|url://"+password+"/"
			})
			call("PATCH", "/connectors/c/config", map[string]string{"text": "patched", "password": "[hidden]"})
			w.until(t, "a patch keeps it, too", func() bool {
				v, _ := got.Load("c")
				text, _ := v.(string)
				return text == "patched|"+password+"|url://"+password+"/"
			})
			if hide == "true" && strings.Contains(answers.String(), password) {
				t.Error("an answer shows the password")
			}
			if status, answer := w.call(t, "PUT", "/connectors/new/config", masked); status != http.StatusBadRequest || !strings.Contains(answer, "configuration password") {
				t.Errorf("nothing to keep: %d %s", status, answer)
			}
			delete(masked, "undeclared.api.token")
			masked["text"] = "[hidden]" // no secret: the text itself
			if status, answer := w.call(t, "PUT", "/connectors/c/config", masked); status != http.StatusOK || !strings.Contains(answer, `"text":"[hidden]"`) {
				t.Errorf("a text that looks like the mask: %d %s", status, answer)
			}
		})
	}
}
