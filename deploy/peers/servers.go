package peers

import (
	"context"
	"maps"
	"slices"
	"testing"

	"millrace/deploy/peers/run"
	"millrace/deploy/trial"
)

// A KafkaServer is one node of Apache Kafka 4.4. Topics are made by the first use, with one partition.
type KafkaServer struct {
	// Addr is host:port, what bootstrap.servers takes.
	Addr string
	// Listeners are the addresses of further listeners, by their names.
	Listeners map[string]string
	*Control
}

// Kafka is the Kafka that all tests of the run share.
func Kafka(t testing.TB) *KafkaServer {
	t.Helper()
	return &KafkaServer{Addr: shared(t, "kafka")}
}

// KafkaOwn is a Kafka for this test alone; settings are further lines of its server's properties.
func KafkaOwn(t testing.TB, settings string, listeners ...run.KafkaListener) *KafkaServer {
	t.Helper()
	c := own(t, "kafka", func(ctx context.Context, dir string) (*run.Server, error) {
		return run.Kafka(ctx, dir, settings, listeners...)
	})
	return &KafkaServer{Addr: c.server.Addr, Listeners: c.server.Listeners, Control: c}
}

// A SearchServer is one node of OpenSearch or Elasticsearch, over plain HTTP, without authentication. An index with
// replicas stays yellow on it.
type SearchServer struct {
	// URL is its address, http://127.0.0.1:PORT.
	URL string
	*Control
}

// SearchNames are the search servers that this run tests: of each kind the usual one, and all of run.SearchVersions in a soak.
func SearchNames() []string {
	if trial.Soak() {
		return slices.Sorted(maps.Keys(run.SearchVersions))
	}
	return []string{"elasticsearch", "opensearch"}
}

// Search is the server of that name in run.SearchVersions that all tests of the run share.
func Search(t testing.TB, name string) *SearchServer {
	t.Helper()
	return &SearchServer{URL: "http://" + shared(t, name)}
}

// SearchOwn is such a server for this test alone; settings are further lines of its configuration, e.g.
// "indexing_pressure.memory.limit: 2kb", which makes it refuse larger bulk requests with 429.
func SearchOwn(t testing.TB, name, settings string) *SearchServer {
	t.Helper()
	c := own(t, name, func(ctx context.Context, dir string) (*run.Server, error) {
		return run.Search(ctx, name, dir, settings)
	})
	return &SearchServer{URL: "http://" + c.server.Addr, Control: c}
}

// A ConnectServer is a distributed worker of Apache Kafka Connect 4.3.
type ConnectServer struct {
	// URL is the address of its REST interface, http://127.0.0.1:PORT.
	URL string
	*Control
}

// Connect is a worker for this test alone, on a Kafka, with its file connectors and what o asks for.
func Connect(t testing.TB, bootstrap string, o run.ConnectOptions) *ConnectServer {
	t.Helper()
	c := own(t, "connect", func(ctx context.Context, dir string) (*run.Server, error) { return run.Connect(ctx, dir, bootstrap, o) })
	return &ConnectServer{URL: "http://" + c.server.Addr, Control: c}
}

// Apicurio is an empty Apicurio Registry for this test alone. It is fetched (160 MB) when it is first asked for.
func Apicurio(t testing.TB) (url string) {
	t.Helper()
	return "http://" + own(t, "apicurio", run.Apicurio).server.Addr + run.ApicurioPath
}
