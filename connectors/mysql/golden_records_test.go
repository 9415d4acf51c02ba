package mysql

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
)

// What differs from run to run: golden/README.md's list.
var goldenMask = connectortest.NumberMask("ts_ms", "ts_us", "ts_ns", "pos", "thread", "server_id").
	And(`"gtid":"[^"]*"`, `"gtid":""`).And(`"file":"binlog\.\d+"`, `"file":""`).
	And(`"id":"[0-9a-f-]{36}:\d+"`, `"id":""`)

// The differences on purpose (deploy/docs/differences.md).
func differences() []connectortest.Difference {
	snapshot := func(g *connectortest.GoldenRecord) bool { return strings.Contains(string(g.Value), `"op":"r"`) }
	return []connectortest.Difference{
		{Why: "JSON of a snapshot is written as that of the stream", Count: map[string]int{"mydefault": 2, "mynoschema": 2, "myconnect": 2, "mymisc": 2, "myiso": 1}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			return snapshot(g) && g.Replace(`{\"a\": [1, 2.5, true, null, \"é\"], \"b\": 1, \"d\": 12345678901234567890, \"f\": 1e100, \"s\": \"\"}`,
				`{\"a\":[1,2.5,true,null,\"é\"],\"b\":1,\"d\":12345678901234567890,\"f\":1e100,\"s\":\"\"}`,
				`{\"a\": 1, \"b\": {\"c\": [1, 2, 3]}}`, `{\"a\":1,\"b\":{\"c\":[1,2,3]}}`), false
		}},
		{Why: "a number in JSON keeps its own digits", Count: map[string]int{"mydefault": 2, "mynoschema": 2, "myconnect": 2, "mymisc": 2, "myiso": 2}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			return g.Replace("10000000000000000159028911097599180468360808563945281389781327557747838772170381060813469985856815104", "1e100"), false
		}},
		{Why: "an enum's value is its label", Count: map[string]int{"mydefault": 2, "mynoschema": 2, "myconnect": 2, "mymisc": 2, "myiso": 2}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			return g.Replace(`"c_enum":"b\\,c"`, `"c_enum":"b,c"`), false
		}},
		{Why: "a timestamp's fraction has the digits that the column declares, in snapshots too", Count: map[string]int{"mydefault": 1, "mynoschema": 1, "myconnect": 1, "mymisc": 1, "myiso": 1}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			return snapshot(g) && g.Replace(`"c_ts3":"1970-01-01T00:00:01Z"`, `"c_ts3":"1970-01-01T00:00:01.000Z"`), false
		}},
		{Why: "the year 0 is 0", Count: map[string]int{"mydefault": 2, "mynoschema": 2, "myconnect": 2, "mymisc": 2, "myiso": 2}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			if snapshot(g) {
				return g.Replace(`"c_year":2000`, `"c_year":0`), false
			}
			return g.Replace(`"c_year":1900`, `"c_year":0`), false
		}},
		{Why: "a text default with a quote is whole", Count: map[string]int{"mydefault": 4, "myconnect": 4}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			return g.Replace(`"default":"x''y"`, `"default":"x'y"`), false
		}},
	}
}

func TestGoldenRecords(t *testing.T) {
	server := peers.MySQLOwn(t, peers.MySQLOptions{})
	var configs map[string]map[string]string
	text, err := os.ReadFile("testdata/golden/configs.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &configs); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []string {
		text, err := os.ReadFile("testdata/golden/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return script(string(text))
	}
	server.Exec(t, "", read("setup.sql")...)
	names := []string{"mydefault", "mynoschema", "myconnect", "mymisc", "myiso"}
	runs := map[string]*connectortest.SourceRun{}
	for _, name := range names {
		conf := configs[name]
		conf["name"] = name
		conf["database.hostname"], conf["database.port"] = server.Host, strconv.Itoa(server.Port)
		delete(conf, "heartbeat.interval.ms") // their number is the clock's
		runs[name] = connectortest.StartSource(t, Source, nil, conf, &connectortest.OffsetStore{})
		streaming(runs[name])
	}
	server.Exec(t, "", read("stream.sql")...)
	for _, name := range names {
		r := runs[name]
		r.WaitFor("the last insert", func() bool {
			late := on(r.Records(), name+".inv.late")
			if len(late) == 0 || late[len(late)-1].Key.Get("id").Int() != 1000 {
				return false
			}
			rs := r.Records()
			return name != "mymisc" || rs[len(rs)-1].Topic == "mymisc.transaction" && rs[len(rs)-1].Value.Get("status").Str() == "END"
		})
		r.Stop()
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			want := connectortest.ReadGolden(t, "testdata/golden/"+name+".jsonl")
			for topic := range want {
				if strings.HasPrefix(topic, "__debezium-heartbeat.") {
					delete(want, topic)
				}
			}
			connectortest.CompareGolden(t, name, want, runs[name].Records(), configs[name], goldenMask, differences())
		})
	}
}
