package avroconverter

import (
	"os"
	"strings"
	"testing"
)

func TestTheGuideNamesEverySetting(t *testing.T) {
	guide, err := os.ReadFile("../../../deploy/docs/avro.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range Plugin.Config.Infos() {
		if !i.Internal && !strings.HasPrefix(i.Name, "schema.registry.ssl.") && !strings.Contains(string(guide), "`"+i.Name) {
			t.Errorf("deploy/docs/avro.md does not name %s", i.Name)
		}
	}
}
