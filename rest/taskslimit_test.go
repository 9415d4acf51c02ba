package rest_test

import (
	"log/slog"
	"strings"
	"testing"
)

// TestOneConnectorGetsNoMoreTasksThanTheWorkerAllows whatever its tasks.max says: each task holds memory.
func TestOneConnectorGetsNoMoreTasksThanTheWorkerAllows(t *testing.T) {
	w := startWorkerWith(t, map[string]string{"tasks.max.limit": "3"}, slog.New(slog.DiscardHandler))
	for name, want := range map[string]int{"few": 2, "many": 3} {
		asked := map[string]string{"few": "2", "many": "900"}[name]
		status, answer := w.call(t, "PUT", "/connectors/"+name+"/config", map[string]string{"connector.class": "FileStreamSink", "topics": "t", "file": w.dir + "/out", "tasks.max": asked})
		if status/100 != 2 {
			t.Fatalf("%d %s", status, answer)
		}
		w.until(t, name+" has its tasks", func() bool {
			_, answer := w.call(t, "GET", "/connectors/"+name+"/status", nil)
			return strings.Count(answer, `"RUNNING"`) == want+1
		})
		if _, answer := w.call(t, "GET", "/connectors/"+name+"/tasks", nil); strings.Count(answer, `"id":`) != want {
			t.Errorf("tasks.max=%s gives %s, want %d tasks", asked, answer, want)
		}
	}
}
