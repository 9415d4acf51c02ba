package worker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"millrace/runtime"
	"millrace/runtime/settings"
	"millrace/schema/avro/avroconverter"
	"millrace/schema/converters"
	"millrace/schema/plugin"
	"millrace/transforms/debezium"
)

// Settings of transforms and converters that are accepted without effect are told of, each with its reason.
func TestSettingsWithoutEffectAreToldOf(t *testing.T) {
	list := []plugin.Plugin{avroconverter.Plugin}
	for _, c := range converters.All() {
		list = append(list, c)
	}
	for _, p := range debezium.All() {
		list = append(list, p)
	}
	plugins, err := runtime.NewPlugins(list...)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.cfg.Plugins = plugins
	conf := map[string]string{
		"name": "s", "connector.class": "memory", "topics": "t", "transforms": "unwrap", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
		"value.converter": "io.confluent.connect.avro.AvroConverter", "value.converter.schema.registry.url": "http://registry.example", "value.converter.max.schemas.per.subject": "5",
		"value.converter.rule.executors.enc.class": "x", "value.converter.basic.auth.credentials.source": "USER_INFO", "value.converter.basic.auth.user.info": "u:s3cret",
		"key.converter": "org.apache.kafka.connect.storage.StringConverter",
	}
	want := []string{"value.converter.max.schemas.per.subject", "value.converter.rule.executors.enc.class"}
	for key := range debezium.ExtractNewRecordState.Config.Ignored() {
		conf["transforms.unwrap."+key] = "x"
		want = append(want, "transforms.unwrap."+key)
	}
	if len(want) == 2 {
		t.Fatal("the transform ignores nothing: take another for this test")
	}
	v, err := parse(settings.Sink, conf)
	if err != nil {
		t.Fatal(err)
	}
	sh, err := b.shaper(v, conf, nil)
	if err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	sh.notices(slog.New(slog.NewTextHandler(&told, nil)))
	lines := strings.Split(strings.TrimSpace(told.String()), "\n")
	for _, key := range want {
		if n := strings.Count(told.String(), "setting="+key+" reason="); n != 1 {
			t.Errorf("%s is told of %d times", key, n)
		}
	}
	if len(lines) != len(want) || strings.Contains(told.String(), "s3cret") {
		t.Errorf("told of %d settings, want %d:\n%s", len(lines), len(want), told.String())
	}
}
