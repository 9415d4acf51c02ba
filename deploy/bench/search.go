package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/elastic/go-elasticsearch/v8"
	"github.com/elastic/go-elasticsearch/v8/esutil"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"millrace/deploy/drive"
	"millrace/deploy/peers/run"
)

// The figures of documents: a topic's records become bulk requests, beside esutil's BulkIndexer, which has the same documents ready-made in memory. Once
// against a server that only answers, so that the client's cost is what shows, and once against Elasticsearch.

const (
	searchDocs     = 1_000_000 // for the server that only answers
	searchRealDocs = 200_000
)

// saleDocument is the document of row i, and the text that the topic has of it.
func saleDocument(b []byte, i int64) []byte {
	b = append(b, `{"id":`...)
	b = strconv.AppendInt(b, i, 10)
	b = append(b, `,"customer":"customer-`...)
	b = strconv.AppendInt(b, i%50_000, 10)
	b = append(b, `","country":"`...)
	b = append(b, []string{"DE", "FR", "US", "GB", "IT"}[i%5]...)
	b = append(b, `","amount":`...)
	b = strconv.AppendFloat(b, float64(i)*1.25, 'f', -1, 64)
	b = append(b, `,"at":`...)
	b = strconv.AppendInt(b, 1_700_000_000_000+i*7, 10)
	b = append(b, `,"count":`...)
	b = strconv.AppendInt(b, i%100, 10)
	b = append(b, `,"note":"some note that is longer `...)
	b = strconv.AppendInt(b, i, 10)
	b = append(b, `","paid":`...)
	b = strconv.AppendBool(b, i%2 == 0)
	return append(b, '}')
}

// fillDocuments writes the documents of n rows into a topic of one partition.
func fillDocuments(ctx context.Context, m *drive.Millrace, topic string, n int64) error {
	if err := makeTopic(ctx, m.Kafka, topic, 1, nil); err != nil {
		return err
	}
	cl, err := kafkaClient(m.Kafka)
	if err != nil {
		return err
	}
	defer cl.Close()
	var failed atomic.Pointer[error]
	for i := range n {
		cl.Produce(ctx, &kgo.Record{Topic: topic, Key: strconv.AppendInt(nil, i, 10), Value: saleDocument(nil, i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// A nullServer answers bulk requests as a server does that stores all, and counts what came.
type nullServer struct{ docs, bytes atomic.Int64 } // bytes of documents alone

// What the sink asks for in answers, and BulkIndexer here, too, which is quicker with it than by itself.
const (
	bulkAnswer = "errors,items.*.status,items.*.error"
	answerItem = `{"index":{"status":201}},`
)

// answerItems are enough for the largest request.
var answerItems = strings.Repeat(answerItem, 60_000)

func (s *nullServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	w.Header().Set("Content-Type", "application/json")
	if !strings.HasSuffix(r.URL.Path, "/_bulk") {
		_, _ = io.WriteString(w, `{"version":{"number":"8.18.4"},"sales":{"mappings":{"properties":{"id":{"type":"long"}}}}}`)
		return
	}
	in, lines, size := bufio.NewReaderSize(r.Body, 64<<10), 0, 0
	for {
		b, err := in.ReadSlice('\n')
		if lines%2 == 1 {
			size += len(b)
		}
		if err == bufio.ErrBufferFull {
			continue
		} else if err != nil {
			break
		}
		lines++
	}
	n := lines / 2
	if asked := r.URL.Query().Get("filter_path"); asked != bulkAnswer {
		http.Error(w, "the answer is made for the filter_path "+bulkAnswer+", not "+asked, http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, `{"errors":false,"items":[`)
	_, _ = io.WriteString(w, strings.TrimSuffix(answerItems[:n*len(answerItem)], ","))
	_, _ = io.WriteString(w, "]}")
	s.docs.Add(int64(n))
	s.bytes.Add(int64(size - n))
}

// bulkIndexer is esutil's BulkIndexer alone, in a process of its own: it makes n documents first, and then indexes them with ids and versions as the
// sink has them. It prints what that took.
func bulkIndexer(ctx context.Context, url, index string, n int64) error {
	ids, docs := make([]string, n), make([][]byte, n)
	for i := range n {
		ids[i], docs[i] = strconv.FormatInt(i, 10), saleDocument(nil, i)
	}
	cl, err := elasticsearch.NewClient(elasticsearch.Config{Addresses: []string{url}})
	if err != nil {
		return err
	}
	before, err := cpu(os.Getpid())
	if err != nil {
		return err
	}
	start := time.Now()
	bulk, err := esutil.NewBulkIndexer(esutil.BulkIndexerConfig{Client: cl, Index: index, FilterPath: strings.Split(bulkAnswer, ",")})
	if err != nil {
		return err
	}
	for i := range n {
		if err := bulk.Add(ctx, esutil.BulkIndexerItem{Action: "index", DocumentID: ids[i], Version: &i, VersionType: "external", Body: bytes.NewReader(docs[i])}); err != nil {
			return err
		}
	}
	if err := bulk.Close(ctx); err != nil {
		return err
	}
	took := time.Since(start)
	after, err := cpu(os.Getpid())
	if err != nil {
		return err
	}
	if s := bulk.Stats(); s.NumFailed > 0 || s.NumFlushed != uint64(n) {
		return fmt.Errorf("BulkIndexer stored %d of %d documents, %d failed", s.NumFlushed, n, s.NumFailed)
	}
	return json.NewEncoder(os.Stdout).Encode(spent{took, after - before})
}

// spent is the time that something took.
type spent struct{ Wall, CPU time.Duration }

// runBulkIndexer runs bulkIndexer.
func runBulkIndexer(ctx context.Context, url, index string, n int64) (t spent, err error) {
	self, err := os.Executable()
	if err != nil {
		return t, err
	}
	cmd := exec.CommandContext(ctx, self, bulkIndexerCommand, url, index, strconv.FormatInt(n, 10))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return t, fmt.Errorf("BulkIndexer: %w", err)
	}
	return t, json.Unmarshal(out, &t)
}

const bulkIndexerCommand = "bulk-indexer"

// runSearchSink runs the connector on the topic until stored says that all n documents are there.
func runSearchSink(ctx context.Context, m *drive.Millrace, name, url, topic, index string, n int64, stored func() (int64, error)) (t spent, err error) {
	conf := map[string]string{"connector.class": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector", "topics": topic, "tasks.max": "1", "connection.url": url,
		"key.converter": "org.apache.kafka.connect.storage.StringConverter", "transforms": "route", "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
		"transforms.route.regex": ".*", "transforms.route.replacement": index, "read.timeout.ms": "60000"}
	before, err := cpu(m.Pid())
	if err != nil {
		return t, err
	}
	start := time.Now()
	if _, err := m.Call(ctx, http.MethodPost, "/connectors", map[string]any{"name": name, "config": conf}); err != nil {
		return t, err
	}
	for deadline := start.Add(10 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		have, err := stored()
		if err != nil {
			return t, err
		}
		if have >= n {
			break
		}
		if time.Now().After(deadline) {
			return t, fmt.Errorf("%d of %d documents after ten minutes", have, n)
		}
	}
	t.Wall = time.Since(start)
	after, err := cpu(m.Pid())
	if err != nil {
		return t, err
	}
	t.CPU = after - before
	_, err = m.Call(ctx, http.MethodDelete, "/connectors/"+name, nil)
	return t, err
}

func (b *bench) search(ctx context.Context) (err error) {
	m, err := b.millrace(ctx, filepath.Join(b.dir, "search-millrace"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := fillDocuments(ctx, m, "documents", searchDocs); err != nil {
		return err
	}
	if err := b.searchNull(ctx, m); err != nil {
		return err
	}
	return b.searchReal(ctx, m)
}

// searchPair measures both, in changing order, and prints them.
func (b *bench) searchPair(pair int, what string, n int64, ours, peer func() (spent, error)) (o, p spent, err error) {
	for i := range 2 {
		if (i == 0) == (pair%2 == 0) {
			o, err = ours()
		} else {
			p, err = peer()
		}
		if err != nil {
			return o, p, err
		}
	}
	b.print("  pair %d %s, %d documents: topic to bulk requests %.2f s, CPU %.2f s with the log; BulkIndexer alone %.2f s, CPU %.2f s; load %s", pair+1, what, n,
		o.Wall.Seconds(), o.CPU.Seconds(), p.Wall.Seconds(), p.CPU.Seconds(), load())
	return o, p, nil
}

// searchFigure prints the medians of pairs and what is promised of them.
func (b *bench) searchFigure(what string, n int64, ours, peers []spent) {
	var walls, shares, cpus []float64
	for i := range ours {
		walls = append(walls, ours[i].Wall.Seconds())
		shares = append(shares, 100*peers[i].Wall.Seconds()/ours[i].Wall.Seconds())
		cpus = append(cpus, ours[i].CPU.Seconds()/peers[i].CPU.Seconds())
	}
	b.print("topic to bulk requests, %s, medians of %d pairs: %.0f documents/s, %.0f %% of BulkIndexer's rate for the same documents ready-made (promised: 90), CPU %.2f × its", what, len(ours),
		float64(n)/median(walls), median(shares), median(cpus))
	b.promise(median(shares) >= 90, "%s: %.0f %% of BulkIndexer's rate, promised are 90", what, median(shares))
}

func (b *bench) searchNull(ctx context.Context, m *drive.Millrace) error {
	null := new(nullServer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: null}
	var serving errgroup.Group
	serving.Go(func() error { return server.Serve(l) })
	defer func() { _ = server.Close(); _ = serving.Wait() }()
	url := "http://" + l.Addr().String()
	var size int64
	for i := range int64(searchDocs) {
		size += int64(len(saleDocument(nil, i)))
	}
	same := func() error {
		if docs, got := null.docs.Load(), null.bytes.Load(); docs != searchDocs || got != size {
			return fmt.Errorf("%d documents of %d bytes came, want %d of %d", docs, got, searchDocs, size)
		}
		return nil
	}
	var ours, peers []spent
	for i := range b.pairs {
		o, p, err := b.searchPair(i, "to a server that only answers", searchDocs, func() (spent, error) {
			null.docs.Store(0)
			null.bytes.Store(0)
			t, err := runSearchSink(ctx, m, fmt.Sprintf("null%d", i), url, "documents", "sales", searchDocs, func() (int64, error) { return null.docs.Load(), nil })
			if err == nil {
				err = same()
			}
			return t, err
		}, func() (spent, error) {
			null.docs.Store(0)
			null.bytes.Store(0)
			t, err := runBulkIndexer(ctx, url, "sales", searchDocs)
			if err == nil {
				err = same()
			}
			return t, err
		})
		if err != nil {
			return err
		}
		ours, peers = append(ours, o), append(peers, p)
	}
	b.searchFigure("to a server that only answers", searchDocs, ours, peers)
	return nil
}

func (b *bench) searchReal(ctx context.Context, m *drive.Millrace) (err error) {
	server, err := run.Search(ctx, "elasticsearch", filepath.Join(b.dir, "elasticsearch"), "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if err := fillDocuments(ctx, m, "fewer", searchRealDocs); err != nil {
		return err
	}
	url := "http://" + server.Addr
	var ours, peers []spent
	for i := range b.pairs {
		o, p, err := b.searchPair(i, "to Elasticsearch "+run.SearchVersions["elasticsearch"], searchRealDocs, func() (spent, error) {
			index := fmt.Sprintf("ours%d", i)
			t, err := runSearchSink(ctx, m, index, url, "fewer", index, searchRealDocs, func() (int64, error) { return operations(ctx, url, index) })
			if err == nil {
				err = sums(ctx, url, index)
			}
			return t, err
		}, func() (spent, error) {
			index := fmt.Sprintf("peers%d", i)
			t, err := runBulkIndexer(ctx, url, index, searchRealDocs)
			if err == nil {
				err = sums(ctx, url, index)
			}
			return t, err
		})
		if err != nil {
			return err
		}
		ours, peers = append(ours, o), append(peers, p)
	}
	b.searchFigure("to Elasticsearch", searchRealDocs, ours, peers)
	return nil
}

// ask is a request to a search server; a missing index is no answer and no error.
func ask(ctx context.Context, method, url, body string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusNotFound:
		return nil
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s: %.300s", method, url, resp.Status, text)
	}
	return json.Unmarshal(text, answer)
}

// operations is how many documents an index has taken so far, for which it needs no refresh.
func operations(ctx context.Context, url, index string) (int64, error) {
	var stats struct {
		Indices map[string]struct {
			Primaries struct {
				Indexing struct {
					Total int64 `json:"index_total"`
				}
			}
		}
	}
	err := ask(ctx, http.MethodGet, url+"/"+index+"/_stats/indexing", "", &stats)
	return stats.Indices[index].Primaries.Indexing.Total, err
}

// sums checks what an index holds in the end: so many documents, and all ids.
func sums(ctx context.Context, url, index string) error {
	var refreshed, found struct {
		Hits         struct{ Total struct{ Value int64 } }
		Aggregations struct{ IDs struct{ Value float64 } }
	}
	if err := ask(ctx, http.MethodPost, url+"/"+index+"/_refresh", "", &refreshed); err != nil {
		return err
	}
	if err := ask(ctx, http.MethodPost, url+"/"+index+"/_search", `{"size":0,"track_total_hits":true,"aggs":{"IDs":{"sum":{"field":"id"}}}}`, &found); err != nil {
		return err
	}
	if want := float64(searchRealDocs) * (searchRealDocs - 1) / 2; found.Hits.Total.Value != searchRealDocs || found.Aggregations.IDs.Value != want {
		return fmt.Errorf("%s holds %d documents with ids of %.0f in all, want %d with %.0f", index, found.Hits.Total.Value, found.Aggregations.IDs.Value, searchRealDocs, want)
	}
	return nil
}
