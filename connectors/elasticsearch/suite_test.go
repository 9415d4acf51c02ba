package elasticsearch

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

var docSchema = schema.NewStruct("doc").Field("text", schema.StringSchema).Field("n", schema.OptionalInt64).Build()

func doc(key, text string) schema.Record {
	return schema.Record{KeySchema: schema.StringSchema, Key: schema.StringValue(key), ValueSchema: docSchema,
		Value: schema.StructValue(docSchema, []schema.Value{schema.StringValue(text), schema.Int64Value(1)})}
}

// conf are settings for a server with more from pairs.
func conf(url string, pairs ...string) map[string]string {
	m := map[string]string{"connection.url": url, "retry.backoff.ms": "5", "max.retries": "2", "errors.tolerance": "all", "read.timeout.ms": "30000"}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func TestSuiteOnStub(t *testing.T) {
	connectortest.Sink(t, connectortest.SinkCase{Plugin: Sink, New: func(tb testing.TB) connectortest.SinkTarget {
		s := newStub(tb)
		return connectortest.SinkTarget{
			Config: conf(s.URL), Record: doc, Idempotent: true,
			Stored: func(testing.TB) []string { return s.texts("suite", "text") },
			Break: func(testing.TB) func() {
				s.set(func() {
					s.before = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool { w.WriteHeader(503); return true }
				})
				return func() { s.set(func() { s.before = nil }) }
			},
			Poison: func() schema.Record { return doc("p", "poison") },
		}
	}})
}

// TestSuiteOnServers runs the suite against the real servers, and one by one what
// only they can tell.
func TestSuiteOnServers(t *testing.T) {
	for _, name := range peers.SearchNames() {
		t.Run(name, func(t *testing.T) {
			server := peers.Search(t, name)
			connectortest.Sink(t, connectortest.SinkCase{Plugin: Sink, New: func(tb testing.TB) connectortest.SinkTarget {
				topic := peers.Unique(tb, "es")
				return connectortest.SinkTarget{
					Config: conf(server.URL), Topic: topic, Record: doc, Idempotent: true,
					Stored: func(tb testing.TB) []string { return searchTexts(tb, server.URL, topic) },
					Break: func(tb testing.TB) func() {
						block := func(value string) {
							call(tb, "PUT", server.URL+"/"+topic+"/_settings", `{"index.blocks.write":`+value+`}`)
						}
						block("true")
						return func() { block("null") }
					},
					Poison: func() schema.Record {
						r := doc("p", "x") // the index maps n as long
						r.ValueSchema = nil
						r.Value = schema.MapValue([]schema.Entry{{Key: schema.StringValue("n"), Value: schema.StringValue("no number")}})
						return r
					},
				}
			}})
		})
	}
}

// call is a request to a server that must succeed.
func call(tb testing.TB, method, url, body string) []byte {
	tb.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		tb.Fatalf("%s %s: %d %s %v", method, url, resp.StatusCode, text, err)
	}
	return text
}

// searchTexts are the field text of all documents of an index.
func searchTexts(tb testing.TB, server, index string) []string {
	tb.Helper()
	call(tb, "POST", server+"/"+url.PathEscape(index)+"/_refresh", "")
	var answer struct {
		Hits struct {
			Total struct{ Value int }
			Hits  []struct {
				Source struct{ Text string } `json:"_source"`
			}
		}
	}
	text := call(tb, "POST", server+"/"+url.PathEscape(index)+"/_search", `{"size":10000,"track_total_hits":true,"query":{"match_all":{}}}`)
	if err := json.Unmarshal(text, &answer); err != nil {
		tb.Fatal(err)
	}
	if answer.Hits.Total.Value != len(answer.Hits.Hits) {
		tb.Fatalf("%d of %d documents came", len(answer.Hits.Hits), answer.Hits.Total.Value)
	}
	var out []string
	for _, h := range answer.Hits.Hits {
		out = append(out, h.Source.Text)
	}
	return out
}
