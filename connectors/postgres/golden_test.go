package postgres

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"millrace/connectors/connectortest"
	"millrace/schema"
)

// What differs from run to run: golden/README.md's list, and the database's name.
func goldenMask(db string) connectortest.Mask {
	return connectortest.NumberMask("ts_ms", "ts_us", "ts_ns", "lsn", "txId", "xmin").And(`"id":"\d+:\d+"`, `"id":"0:0"`).
		And(`"sequence":"\[(?:null|\\"\d+\\"),\\"\d+\\"\]"`, `"sequence":"[]"`).And(`"db":"`+db+`"`, `"db":"golden"`)
}

var (
	messageCollectionOfJava = regexp.MustCompile(`"data_collection":"io\.debezium\.connector\.postgresql\.LogicalDecodingMessageMonitor\$[^"]*"`)
	generatedValue          = regexp.MustCompile(`,"c_generated":(?:null|-?\d+)`)
)

// The differences on purpose (deploy/docs/differences.md).
func differences() []connectortest.Difference {
	return []connectortest.Difference{
		{Why: "generated columns are in neither snapshot nor stream", Count: map[string]int{"pgdefault": 6, "pgnoschema": 6, "pgconnect": 6, "pgnano": 6, "pgiso": 6, "pgmisc": 6}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			if !strings.HasSuffix(g.Topic, ".inv.alltypes") || g.Value == nil {
				return false, false
			}
			before := string(g.Value)
			s := strings.ReplaceAll(before, `,{"type":"int32","optional":true,"field":"c_generated"}`, "")
			g.Value = connectortest.GoldenBytes(generatedValue.ReplaceAllString(s, ""))
			return string(g.Value) != before, false
		}},
		{Why: "a snapshot reads a partitioned table's rows once, under the partitions' names", Count: map[string]int{"pgdefault": 2, "pgnoschema": 2, "pgconnect": 2}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			root := strings.HasSuffix(g.Topic, ".inv.part") && g.Topic != "pgmisc.inv.part"
			return root, root
		}},
		{Why: "BC and infinite dates are in the snapshot what they are in the stream", Count: map[string]int{"pgdefault": 2, "pgnoschema": 2, "pgconnect": 2, "pgnano": 2, "pgiso": 2, "pgmisc": 2}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			return g.Replace(`"c_date":-703383`, `"c_date":-735160`, `"c_date":-622191234`, `"c_date":-2147472692`,
				`"c_date":"0044-03-15Z"`, `"c_date":"-0043-03-15Z"`, `"c_date":"+292278994-08-16Z"`, `"c_date":"-5877611-06-21Z"`), false
		}},
		{Why: "logical messages have a name in the metadata of transactions", Count: map[string]int{"pgmisc": 1}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			s := messageCollectionOfJava.ReplaceAllString(string(g.Value), `"data_collection":"message"`)
			touched := s != string(g.Value)
			if touched {
				g.Value = connectortest.GoldenBytes(s)
			}
			return touched, false
		}},
		{Why: "the metadata of a transaction has its tables in the order of their first events, not of a hash", Count: map[string]int{"pgmisc": 1}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			const one, two = `{"data_collection":"inv.trunc1","event_count":1}`, `{"data_collection":"inv.trunc2","event_count":1}`
			return g.Replace(two+","+one, one+","+two), false
		}},
		{Why: "with publish.via.partition.root a snapshot reads a partitioned table's rows once, under the root's name", Count: map[string]int{"pgmisc": 2}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			leaf := strings.HasPrefix(g.Topic, "pgmisc.inv.part_")
			return leaf, leaf
		}},
		{Why: "a text default with a quote is whole", Count: map[string]int{"pgdefault": 4, "pgconnect": 4}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			return g.Replace(`"default":"x","field":"n_text"`, `"default":"x'y","field":"n_text"`), false
		}},
		{Why: "bytea that was not sent is the placeholder in the form of binary.handling.mode, never null", Count: map[string]int{"pgconnect": 2}, Apply: func(g *connectortest.GoldenRecord) (bool, bool) {
			if !strings.HasPrefix(g.Topic, "pgconnect.inv.toasted") || !strings.Contains(string(g.Value), `"op":"u"`) {
				return false, false
			}
			return g.Replace(`"bigb":null`, `"bigb":"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="`), false
		}},
	}
}

func TestGoldenRecords(t *testing.T) {
	d := newDatabase(t)
	readScript := func(name string) []string {
		text, err := os.ReadFile("testdata/golden/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return script(string(text))
	}
	var configs map[string]map[string]string
	text, err := os.ReadFile("testdata/golden/configs.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &configs); err != nil {
		t.Fatal(err)
	}
	d.exec(readScript("setup.sql")...)
	names := []string{"pgdefault", "pgnoschema", "pgconnect", "pgnano", "pgiso", "pgmisc"}
	runs, stores := map[string]*connectortest.SourceRun{}, map[string]*connectortest.OffsetStore{}
	start := func(name string) *connectortest.SourceRun {
		conf := configs[name]
		conf["name"] = name
		conf["database.hostname"], conf["database.port"], conf["database.dbname"] = d.server.Host, strconv.Itoa(d.server.Port), d.name
		conf["slot.name"] = d.name + "_" + name
		if stores[name] == nil {
			stores[name] = &connectortest.OffsetStore{}
		}
		return d.start(conf, stores[name])
	}
	got := map[string][]schema.Record{}
	for _, name := range names {
		runs[name] = start(name)
		runs[name].WaitFor("the snapshot's last record", func() bool {
			rs := runs[name].Records()
			return len(rs) > 0 && rs[len(rs)-1].Value.Get("source").Get("snapshot").Str() == "last"
		})
		// The stream is read once all of it is written: what the catalog adds to a table's
		// shape is then what it was in the golden run, too.
		snapshotDone(runs[name])
		runs[name].Stop()
		got[name] = runs[name].Records()
	}
	d.exec(readScript("stream.sql")...)
	for _, name := range names {
		r := start(name)
		r.WaitFor("the last insert", func() bool {
			if name == "pgiso" { // its publication was made before inv.late was
				rs := r.Records()
				return len(rs) > 0 && rs[len(rs)-1].Value.IsNull() && rs[len(rs)-1].Key.Get("id").Int() == 2
			}
			late := on(r.Records(), name+".inv.late")
			if name == "pgmisc" {
				if tx := on(r.Records(), "pgmisc.transaction"); len(tx) < 74 || tx[73].Value.Get("status").Str() != "END" {
					return false // the last insert's transaction ends behind it
				}
			}
			return len(late) > 0 && late[len(late)-1].Key.Get("id").Int() == 1000
		})
		r.Stop()
		got[name] = append(got[name], r.Records()...)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) { compareGolden(t, name, got[name], configs[name], d.name) })
	}
}

func compareGolden(t *testing.T, name string, records []schema.Record, conf map[string]string, db string) {
	want := connectortest.ReadGolden(t, "testdata/golden/"+name+".jsonl")
	listed := 0
	for topic, lines := range want {
		listed += len(lines)
		if strings.HasPrefix(topic, "__debezium-heartbeat.") { // how many there are is a matter of time
			records = exactly(records, topic, len(lines))
		}
	}
	if n := map[string]int{"pgdefault": 85, "pgnoschema": 85, "pgconnect": 85, "pgnano": 23, "pgiso": 18, "pgmisc": 152}[name]; listed != n {
		t.Errorf("%s has %d records, want %d", name, listed, n)
	}
	connectortest.CompareGolden(t, name, want, records, conf, goldenMask(db), differences())
}

// exactly is records with n of a topic, where there is one: the first ones, or the first one again and again.
func exactly(records []schema.Record, topic string, n int) (out []schema.Record) {
	var first *schema.Record
	for _, r := range records {
		if r.Topic == topic {
			if n == 0 {
				continue
			}
			n--
			if first == nil {
				first = &r
			}
		}
		out = append(out, r)
	}
	for ; first != nil && n > 0; n-- {
		out = append(out, *first)
	}
	return out
}
