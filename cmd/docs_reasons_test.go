package cmd

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"millrace/connectors"
	"millrace/runtime/worker"
)

// Every declared failure of every plugin, and of the worker, stands in the documentation
// under an anchor of its own, with what to do and whether a retry can help.
func TestEveryReasonIsDocumented(t *testing.T) {
	var out, errs bytes.Buffer
	if code := execute(context.Background(), Plugins(), []string{"docs"}, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	reasons := worker.Reasons()
	for _, p := range Plugins() {
		reasons = append(reasons, reasonsOf(p)...)
	}
	seen := map[*connectors.Reason]bool{}
	for _, r := range reasons {
		if seen[r] {
			continue // a source and a sink share it
		}
		seen[r] = true
		if r.Code == "" || r.Doc == "" || r.Remedy == "" {
			t.Errorf("%+v lacks a part", r)
		}
		line := ""
		for l := range strings.Lines(out.String()) {
			if strings.Contains(l, `<a id="`+r.Code+`"></a>`) {
				line = l
			}
		}
		if !strings.Contains(line, sentence(r.Remedy)) || !strings.Contains(line, "tried again") && !strings.Contains(line, "retry") {
			t.Errorf("%s: %q", r.Code, line)
		}
	}
	if len(seen) < 25 {
		t.Errorf("%d reasons, there are more", len(seen))
	}
}
