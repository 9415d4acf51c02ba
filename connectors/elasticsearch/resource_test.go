package elasticsearch

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

var logStream = []string{"data.stream.type", "logs", "data.stream.dataset", "shop"}

func TestWhereATopicsDocumentsGo(t *testing.T) {
	long := strings.Repeat("ä", 60)
	for _, c := range []struct {
		name        string
		pairs       []string
		topic, want string
		fails       string
	}{
		{"an index by the topic's name", nil, "Orders", "orders", ""},
		{"a data stream", logStream, "Orders", "logs-shop-orders", ""},
		{"a namespace of its own", append([]string{"data.stream.namespace", "EU_${topic}_x"}, logStream...), "Orders", "logs-shop-eu_orders_x", ""},
		{"one namespace for all", append([]string{"data.stream.namespace", "prod"}, logStream...), "Orders", "logs-shop-prod", ""},
		{"a long topic is cut at the end of a character", logStream, long, "logs-shop-" + strings.Repeat("ä", 50), ""},
		{"a topic that makes no namespace", logStream, "a-b", "", "data.stream.namespace"},
		{"what was made elsewhere", []string{"external.resource.usage", "alias_index", "topic.to.external.resource.mapping", "Orders:Sales, b:c"}, "Orders", "Sales", ""},
		{"a topic without a resource", []string{"external.resource.usage", "index", "topic.to.external.resource.mapping", "a:b"}, "Orders", "", "add Orders:RESOURCE"},
	} {
		v, errs := Sink.Config.Parse(conf("http://x", c.pairs...))
		if errs = append(errs, crossRules(v)...); len(errs) > 0 {
			t.Errorf("%s: %v", c.name, errs)
			continue
		}
		got, err := newResources(v).name(c.topic)
		if got != c.want || (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func TestDocumentsOfADataStream(t *testing.T) {
	ts := schema.NewStruct("").Field("at", schema.TimestampOf().Build()).Field("opt", schema.OptionalString).Field("n", schema.Int32Schema).Build()
	own := schema.NewStruct("").Field("@timestamp", schema.StringSchema).Field("n", schema.Int32Schema).Build()
	only := schema.NewStruct("").Field("@timestamp", schema.StringSchema).Build()
	outer := schema.NewStruct("").Field("inner", own).Build()
	at := schema.StructValue(ts, []schema.Value{schema.TimestampValue(1_700_000_000_000), {}, schema.Int32Value(1)})
	owned := schema.StructValue(own, []schema.Value{str("2026-01-02"), schema.Int32Value(1)})
	for _, c := range []struct {
		name   string
		stamps []string
		v      schema.Value
		millis int64
		want   string
		fails  string
	}{
		{"the record's timestamp", nil, at, 5, `{"@timestamp":5,"at":1700000000000,"opt":null,"n":1}`, ""},
		{"a field", []string{"none", "at"}, at, 5, `{"@timestamp":1700000000000,"at":1700000000000,"opt":null,"n":1}`, ""},
		{"a null field is none", []string{"opt", "n"}, at, 5, `{"@timestamp":1,"at":1700000000000,"opt":null,"n":1}`, ""},
		{"no such field", []string{"x", "opt"}, at, 5, "", "none of the fields x, opt"},
		{"the value's own gives way", nil, owned, 5, `{"@timestamp":5,"n":1}`, ""},
		{"the value's own", []string{"@timestamp"}, owned, 5, `{"@timestamp":"2026-01-02","n":1}`, ""},
		{"nothing else", []string{"@timestamp"}, schema.StructValue(only, []schema.Value{str("2026-01-02")}), 5, `{"@timestamp":"2026-01-02"}`, ""},
		{"one that is further down stays", nil, schema.StructValue(outer, []schema.Value{owned}), 5, `{"@timestamp":5,"inner":{"@timestamp":"2026-01-02","n":1}}`, ""},
		{"no schema", []string{"t"}, entries(str("a"), schema.Int64Value(1), str("t"), schema.Int64Value(9)), 5, `{"@timestamp":9,"a":1,"t":9}`, ""},
		{"no schema, the map's own", nil, entries(str("@timestamp"), schema.Int64Value(1)), 5, `{"@timestamp":5}`, ""},
		{"no timestamp at all", nil, at, schema.NoTimestamp, "", "no timestamp"},
	} {
		e := encoder{compact: true, stamps: c.stamps}
		got, err := e.streamDocument([]byte("x"), nil, c.v, c.millis)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %s, %v", c.name, got, err)
			}
			continue
		}
		if err != nil || string(got) != "x"+c.want || !json.Valid(got[1:]) {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
}

func TestRulesOfDataStreamsAndResources(t *testing.T) {
	external := []string{"external.resource.usage", "INDEX", "topic.to.external.resource.mapping", "orders:o"}
	for _, c := range []struct {
		name  string
		pairs []string
		key   string
		want  string
	}{
		{"a type without a dataset", []string{"data.stream.type", "logs"}, "data.stream.dataset", "set both"},
		{"a dataset without a type", []string{"data.stream.dataset", "d"}, "data.stream.type", "set logs, metrics"},
		{"changes", append([]string{"write.method", "upsert"}, logStream...), "write.method", "set insert"},
		{"deletes", append([]string{"behavior.on.null.values", "delete"}, logStream...), "behavior.on.null.values", "no deletes"},
		{"a part that ends a name's part", []string{"data.stream.type", "logs", "data.stream.dataset", "a-b"}, "data.stream.dataset", "holds"},
		{"a timestamp for indices", []string{"data.stream.timestamp.field", "at"}, "data.stream.timestamp.field", "data streams alone"},
		{"both ways", append(slices.Clone(external), logStream...), "external.resource.usage", "set disabled"},
		{"a usage without pairs", []string{"external.resource.usage", "index"}, "topic.to.external.resource.mapping", "set both"},
		{"pairs without a usage", external[2:], "topic.to.external.resource.mapping", "set both"},
		{"no pair", append(slices.Clone(external[:3]), "orders"), "topic.to.external.resource.mapping", "topic:resource"},
		{"a topic twice", append(slices.Clone(external[:3]), "a:b,a:c"), "topic.to.external.resource.mapping", "leave one"},
		{"too many", append(slices.Clone(external[:3]), "a:b,orders:c", "max.external.resource.mappings", "1"), "topic.to.external.resource.mapping", "2 pairs"},
		{"a topic of the connector's has none", append(slices.Clone(external), "topics", "orders, b"), "topic.to.external.resource.mapping", "add b:RESOURCE"},
		{"two ways to sign in", []string{"connection.username", "u", "connection.password", "p", "connection.api.key", "s3cret"}, "connection.api.key", "one of them"},
	} {
		v, errs := Sink.Config.Parse(conf("http://x", c.pairs...))
		if len(errs) == 0 {
			errs = crossRules(v)
		}
		if len(errs) != 1 || errs[0].Key != c.key || !strings.Contains(errs[0].Error(), c.want) || strings.Contains(errs[0].Error(), "s3cret") {
			t.Errorf("%s: %v", c.name, errs)
		}
	}
}

func TestAnAPIKeySignsIn(t *testing.T) {
	s := newStub(t)
	var refused atomic.Int32
	s.before = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if strings.EqualFold(r.Header.Get("Authorization"), "ApiKey aWQ6a2V5") {
			return false
		}
		refused.Add(1)
		w.WriteHeader(401)
		io.WriteString(w, `{"error":{"type":"security_exception","reason":"unable to find apikey"}}`)
		return true
	}
	put(t, s, []string{"connection.api.key", "aWQ6a2V5"}, doc("a", "1"))
	if refused.Load() != 0 || s.source("orders", "a") == "" {
		t.Errorf("%d refused, stored %q", refused.Load(), s.source("orders", "a"))
	}
	v, _ := Sink.Config.Parse(conf(s.URL, "connection.api.key", "wr0ng"))
	made, _ := Sink.New(connectors.Context{}, v)
	errs := made.(connectors.Validator).Validate(t.Context())
	if len(errs) != 1 || errs[0].Key != "connection.api.key" || strings.Contains(errs[0].Error(), "wr0ng") {
		t.Errorf("%v", errs)
	}
}

// A stream's documents are created once: what comes again changes nothing.
func TestServersDataStream(t *testing.T) {
	onServers(t, func(t *testing.T, url, topic string) {
		if strings.Contains(t.Name(), "elasticsearch7") {
			t.Skip("Elastic publishes no data streams for this peer of Elasticsearch 7")
		}
		set := peers.Unique(t, "set")
		set = strings.ReplaceAll(set, "-", "_")
		topic = strings.ReplaceAll(topic, "-", "_")
		name := "logs-" + set + "-" + strings.ToLower(topic)
		template := `{"index_patterns":["logs-` + set + `-*"],"data_stream":{},"priority":500}`
		if searchServerHas(t, url, "/_data_stream") { // else the first document makes the stream
			run, part := sinkOn(t, url, topic, "data.stream.type", "logs", "data.stream.dataset", set)
			_, err := run.TryPut([]schema.Record{on(doc("a", "1"), topic, 0)})
			if f := connectors.FailureOf(err); f == nil || f.Reason != &noTemplate || !strings.Contains(f.Error(), name) {
				t.Errorf("without a template: %v", err)
			}
			run.Close(true, part)
		}
		call(t, "PUT", url+"/_index_template/"+set, template)
		stream := []string{"data.stream.type", "logs", "data.stream.dataset", set, "behavior.on.null.values", "ignore"}
		for round, pairs := range [][]string{stream, append(slices.Clone(stream), "data.stream.timestamp.field", "absent,n")} {
			run, part := sinkOn(t, url, topic, pairs...)
			records := []schema.Record{on(doc("a", "1"), topic, 0), on(tomb("a"), topic, 1), on(doc("b", "2"), topic, 2)}
			if round > 0 {
				records = append(records, on(doc("c", "3"), topic, 3))
			}
			for i := range records {
				records[i].Timestamp = 1_700_000_000_000
			}
			run.Put(records)
			run.FlushTo(part, int64(len(records)))
			run.Close(false, part)
			if got := run.Reported(); len(got) != 1 || connectors.FailureOf(got[0].Cause).Reason != &nullValue {
				t.Fatalf("reported %v, want the null value", got)
			}
		}
		got := searchTexts(t, url, name)
		if slices.Sort(got); !slices.Equal(got, []string{"1", "2", "3"}) {
			t.Errorf("stored %q", got)
		}
		var early struct{ Count int }
		if err := json.Unmarshal(call(t, "POST", url+"/"+name+"/_count", `{"query":{"range":{"@timestamp":{"lte":1}}}}`), &early); err != nil || early.Count != 1 {
			t.Errorf("%d documents have the time that their field says, want 1 (%v)", early.Count, err)
		}
		var answer map[string]any
		if err := json.Unmarshal(call(t, "GET", url+"/"+name+"/_mapping", ""), &answer); err != nil {
			t.Fatal(err)
		}
		for backing := range answer {
			if !strings.HasPrefix(backing, ".ds-"+name) {
				t.Errorf("the documents went to %q, and not to a data stream", backing)
			}
		}
	})
}

// searchServerHas reports whether a GET of the path is answered with 200.
func searchServerHas(tb testing.TB, url, path string) bool {
	tb.Helper()
	resp, err := http.Get(url + path)
	if err != nil {
		tb.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func TestServersAlias(t *testing.T) {
	onServers(t, func(t *testing.T, url, topic string) {
		index, alias := strings.ToLower(topic)+"_real", strings.ToLower(topic)+"_alias"
		pairs := []string{"external.resource.usage", "alias_index", "topic.to.external.resource.mapping", topic + ":" + alias}
		check := func() []string {
			v, _ := Sink.Config.Parse(conf(url, pairs...))
			s, _ := Sink.New(connectors.Context{}, v)
			var keys []string
			for _, e := range s.(connectors.Validator).Validate(context.Background()) {
				keys = append(keys, e.Key+": "+e.Reason)
			}
			return keys
		}
		if got := check(); len(got) != 1 || !strings.Contains(got[0], "no alias") {
			t.Errorf("before the alias is there: %q", got)
		}
		part := connectors.TopicPartition{Topic: topic}
		run := connectortest.NewSinkRun(t, Sink, nil, conf(url, pairs...), false, part)
		_, err := run.TryPut([]schema.Record{on(doc("a", "1"), topic, 0)})
		if f := connectors.FailureOf(err); f == nil || f.Reason != &noResource {
			t.Errorf("before the alias is there: %v", err)
		}
		run.Close(true, part)

		call(t, "PUT", url+"/"+index, `{"aliases":{"`+alias+`":{}}}`)
		if got := check(); len(got) != 0 {
			t.Errorf("%q", got)
		}
		run = connectortest.NewSinkRun(t, Sink, nil, conf(url, pairs...), false, part)
		run.Put([]schema.Record{on(doc("a", "1"), topic, 0)})
		run.FlushTo(part, 1)
		run.Close(false, part)
		if source, version := lookup(t, url, index, "a"); source["text"] != "1" || version != 0 {
			t.Errorf("stored %v, version %d", source, version)
		}
	})
}
