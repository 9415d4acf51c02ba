package hdfs

import (
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/colinmarc/hdfs/v2"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

// quiet is a logger that says nothing.
var quiet = slog.New(slog.DiscardHandler)

var topic = connectors.TopicPartition{Topic: "t"}

// conf are settings for a folder of a server with more from pairs.
func conf(address, folder string, pairs ...string) map[string]string {
	m := map[string]string{"hdfs.url": "hdfs://" + address + "/tmp/" + folder, "flush.size": "10", "format.class": "io.confluent.connect.hdfs.json.JsonFormat", "hdfs.user.name": "alice"}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// look is a client to look into a server.
func look(tb testing.TB, address string) *hdfs.Client {
	tb.Helper()
	cl, err := hdfs.NewClient(hdfs.ClientOptions{Addresses: []string{address}, User: "alice"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { cl.Close() })
	return cl
}

// files are all files below a folder of /tmp, by their paths in it.
func files(tb testing.TB, cl *hdfs.Client, folder string) map[string][]byte {
	tb.Helper()
	out := map[string][]byte{}
	root := "/tmp/" + folder
	err := cl.Walk(root, func(name string, info fs.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		b, err := cl.ReadFile(name)
		out[strings.TrimPrefix(name, root+"/")] = b
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// visible are the files of topics.dir, without what is temporary.
func visible(tb testing.TB, cl *hdfs.Client, folder string) map[string][]byte {
	tb.Helper()
	out := map[string][]byte{}
	for name, b := range files(tb, cl, folder) {
		if rest, ok := strings.CutPrefix(name, "topics/"); ok && !strings.HasPrefix(rest, "+tmp/") {
			out[rest] = b
		}
	}
	return out
}

func names(files map[string][]byte) string {
	return strings.Join(slices.Sorted(maps.Keys(files)), " ")
}

func lines(files map[string][]byte) (out []string) {
	for _, b := range files {
		out = append(out, strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")...)
	}
	slices.Sort(out)
	return out
}

func rowAt(offset int64) schema.Record {
	return connectortest.At(schema.Record{Value: schema.MapValue([]schema.Entry{{Key: schema.StringValue("n"), Value: schema.Int64Value(offset)}})}, topic, offset)
}

func records(from, to int64) (out []schema.Record) {
	for o := from; o < to; o++ {
		out = append(out, rowAt(o))
	}
	return out
}

func TestSuite(t *testing.T) {
	server := peers.HDFS(t)
	cl := look(t, server.NameNodes[0])
	connectortest.Sink(t, connectortest.SinkCase{Plugin: Sink3, New: func(tb testing.TB) connectortest.SinkTarget {
		w := newWay(tb, server.NameNodes[0])
		folder := peers.Unique(tb, "suite")
		return connectortest.SinkTarget{
			Idempotent: true,
			Config:     conf(w.addr, folder, "flush.size", "100", "rotate.schedule.interval.ms", "20", "timezone", "UTC", "format.class", "ByteArrayFormat"),
			Record: func(_, text string) schema.Record {
				return schema.Record{ValueSchema: schema.BytesSchema, Value: schema.BytesValue([]byte(text))}
			},
			Stored: func(tb testing.TB) []string { return lines(visible(tb, cl, folder)) },
			Break: func(testing.TB) func() {
				var once sync.Once
				w.at(func(string) verdict { return cutBefore })
				return func() { once.Do(func() { w.at(nil) }) }
			},
			Poison: func() schema.Record { return schema.Record{Value: schema.StringValue("no bytes")} },
		}
	}})
}

func contextOf(testing.TB) connectors.Context { return connectors.Context{Log: quiet} }
