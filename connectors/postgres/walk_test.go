package postgres

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// effects is, for each setting of Debezium's that is honoured, the test that turns red without
// its effect.
var effects = map[string]string{
	"binary.handling.mode":                            "TestSnapshotAndStreamAgree",
	"column.exclude.list":                             "TestSettingsThatShapeRows",
	"column.include.list":                             "TestSettingsThatShapeRows",
	"column.mask.hash.([^.]+).with.salt.(.+)":         "TestSettingsThatShapeRows",
	"column.mask.with.(d+).chars":                     "TestSettingsThatShapeRows",
	"column.propagate.source.type":                    "TestGoldenTypes",
	"column.truncate.to.(d+).chars":                   "TestSettingsThatShapeRows",
	"connection.validation.timeout.ms":                "TestValidateTimesOut",
	"custom.metric.tags":                              "TestMetrics",
	"database.dbname":                                 "TestValidateServer",
	"database.hostname":                               "TestValidateSettings",
	"database.initial.statements":                     "TestKeysOfConnections",
	"database.password":                               "TestValidateServer",
	"database.port":                                   "TestValidateSettings",
	"database.query.timeout.ms":                       "TestKeysOfConnections",
	"database.sslcert":                                "TestEncryption",
	"database.sslkey":                                 "TestEncryption",
	"database.sslmode":                                "TestEncryption",
	"database.sslpassword":                            "TestEncryption",
	"database.sslrootcert":                            "TestEncryption",
	"database.tcpKeepAlive":                           "TestKeysOfConnections",
	"database.user":                                   "TestValidateServer",
	"datatype.propagate.source.type":                  "TestGoldenTypes",
	"decimal.handling.mode":                           "TestSnapshotAndStreamAgree",
	"errors.max.retries":                              "TestRetries",
	"event.processing.failure.handling.mode":          "TestUnreadableValues",
	"extended.headers.enabled":                        "TestSettingsThatShapeRows",
	"flush.lsn.source":                                "TestPositionsThatAreNotConfirmed",
	"guardrail.collections.limit.action":              "TestKeysOfTheSnapshot",
	"guardrail.collections.max":                       "TestKeysOfTheSnapshot",
	"heartbeat.action.query":                          "TestMessagesAndHeartbeats",
	"heartbeat.interval.ms":                           "TestMessagesAndHeartbeats",
	"heartbeat.topics.prefix":                         "TestKeysOfTheStream",
	"hstore.handling.mode":                            "TestSnapshotAndStreamAgree",
	"include.schema.comments":                         "TestSettingsThatShapeRows",
	"include.unknown.datatypes":                       "TestSnapshotAndStreamAgree",
	"interval.handling.mode":                          "TestSnapshotAndStreamAgree",
	"lsn.flush.mode":                                  "TestPositionsThatAreNotConfirmed",
	"max.batch.size":                                  "TestQueueBytes",
	"max.queue.size":                                  "TestIsolationMode",
	"max.queue.size.in.bytes":                         "TestQueueBytes",
	"message.key.columns":                             "TestSettingsThatShapeRows",
	"message.prefix.exclude.list":                     "TestKeysOfTheStream",
	"message.prefix.include.list":                     "TestMessagesAndHeartbeats",
	"plugin.name":                                     "TestKeysOfTheStream",
	"post.processors":                                 "TestReselection",
	"provide.transaction.metadata":                    "TestKeysOfTheStream",
	"publication.autocreate.mode":                     "TestPublicationModes",
	"publication.name":                                "TestPublicationModes",
	"publish.via.partition.root":                      "TestPartitionRoot",
	"replica.identity.autoset.values":                 "TestReplicaIdentities",
	"schema.exclude.list":                             "TestKeysOfTheSnapshot",
	"schema.include.list":                             "TestValidateServer",
	"schema.name.adjustment.mode":                     "TestSettingsThatShapeRows",
	"skipped.operations":                              "TestTruncate",
	"slot.drop.on.stop":                               "TestSlotIsDroppedOnStop",
	"slot.failover":                                   "TestFailoverSlots",
	"slot.max.retries":                                "TestValidateServer",
	"slot.name":                                       "TestValidateServer",
	"slot.retry.delay.ms":                             "TestValidateServer",
	"slot.stream.params":                              "TestKeysOfTheStream",
	"snapshot.delay.ms":                               "TestDelays",
	"snapshot.include.collection.list":                "TestOrderOfTables",
	"snapshot.isolation.mode":                         "TestIsolationMode",
	"snapshot.lock.timeout.ms":                        "TestLockTimeout",
	"snapshot.locking.mode":                           "TestLockTimeout",
	"snapshot.mode":                                   "TestSnapshotMode",
	"snapshot.mode.configuration.based.snapshot.data": "TestSnapshotMode",
	"snapshot.mode.configuration.based.snapshot.on.data.error": "TestSnapshotMode",
	"snapshot.mode.configuration.based.start.stream":           "TestSnapshotMode",
	"snapshot.select.statement.overrides":                      "TestSettingsThatShapeRows",
	"snapshot.tables.order.by.row.count":                       "TestOrderOfTables",
	"statistics.metrics.enabled":                               "TestMetrics",
	"status.update.interval.ms":                                "TestSilentServer",
	"streaming.delay.ms":                                       "TestDelays",
	"table.exclude.list":                                       "TestKeysOfTheSnapshot",
	"table.ignore.builtin":                                     "TestKeysOfTheSnapshot",
	"table.include.list":                                       "TestOrderOfTables",
	"time.precision.mode":                                      "TestSnapshotAndStreamAgree",
	"tombstones.on.delete":                                     "TestKeysOfTheStream",
	"topic.prefix":                                             "TestSettingsThatShapeRows",
	"unavailable.value.placeholder":                            "TestKeysOfTheStream",
	"xmin.fetch.interval.ms":                                   "TestKeysOfTheStream",
	"skip.messages.without.change":                             "TestMetrics",
	"field.name.adjustment.mode":                               "TestKeysOfTheSnapshot",
	"money.fraction.digits":                                    "TestKeysOfTheSnapshot",
	"offset.mismatch.strategy":                                 "TestSlotThatIsGone",
	"topic.delimiter":                                          "TestSettingsThatShapeRows",
	"topic.transaction":                                        "TestKeysOfTheStream",
	"topic.heartbeat.prefix":                                   "TestKeysOfTheStream",
	"column.mask.hash.v2.*":                                    "TestSettingsThatShapeRows",
}

// refuses are the settings whose every use, or one of whose values, is refused, with what cannot be
// done; TestRefusals and TestValidateSettings show it.
var refuses = map[string]string{
	"converters":                    "Java's converters",
	"notification.enabled.channels": "notifications",
	"signal.data.collection":        "signals",
	"signal.enabled.channels":       "signals of other channels than the source",
	"snapshot.query.mode":           "a Java class that makes queries",
}

// inGolden are settings that only golden files give.
var inGolden = map[string]string{"column.propagate.source.type": "types-default.jsonl", "datatype.propagate.source.type": "types-connect.jsonl"}

// TestEverySettingOfDebeziums walks over all settings that Debezium knows: each is honoured, and a
// test shows its effect; or it is told of as ignored, with the reason; or what it asks for is
// refused.
func TestEverySettingOfDebeziums(t *testing.T) {
	tests := map[string]string{}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, fn := range strings.Split(string(text), "\nfunc ") {
			if name, _, ok := strings.Cut(fn, "(t *testing.T) {"); ok && strings.HasPrefix(name, "Test") {
				tests[strings.TrimSuffix(name, "(")] = fn
			}
		}
	}
	declared := func(key string) bool {
		v, _ := definition.Parse(map[string]string{key: "1"})
		return len(v.Undeclared()) == 0
	}
	list, err := os.ReadFile("testdata/keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	family := regexp.MustCompile(`\(.*$|\*$`) // what follows a family's beginning
	honoured, ignores, refused, older := 0, 0, 0, 0
	seen := map[string]bool{}
	for _, key := range strings.Fields(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(string(list), "")) {
		seen[key] = true
		test, has := effects[key]
		switch {
		case renamed[key] != "":
			older++
		case ignored[key] != "":
			ignores++
			if has {
				t.Errorf("%s is ignored (%s), and yet %s shows its effect", key, ignored[key], test)
			}
		case refuses[key] != "":
			refused++
			if !strings.Contains(tests["TestRefusals"]+tests["TestValidateSettings"], `"`+key+`"`) {
				t.Errorf("%s: no test of its refusal", key)
			}
		case !declared(key) && !strings.HasSuffix(key, "*"):
			t.Errorf("%s is neither declared nor told of as ignored", key)
		case !has:
			t.Errorf("%s: no test of its effect is named", key)
		default:
			honoured++
			body := tests[test]
			if body == "" {
				t.Errorf("%s: there is no test %s", key, test)
			}
			if file := inGolden[key]; file != "" {
				text, err := os.ReadFile("testdata/types/" + file)
				if err != nil {
					t.Fatal(err)
				}
				body = string(text[:min(len(text), 4096)])
			}
			if start := family.ReplaceAllString(key, ""); !strings.Contains(body, `"`+start) {
				t.Errorf("%s: %s does not give it", key, test)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(effects)) {
		if !seen[key] {
			t.Errorf("%s is no setting of Debezium's", key)
		}
	}
	if len(seen) != 140 {
		t.Errorf("%d settings in the list, want 140", len(seen))
	}
	t.Logf("%d settings: %d are honoured, %d ignored with a reason, %d refuse what cannot be done, %d have another name now", len(seen), honoured, ignores, refused, older)
}
