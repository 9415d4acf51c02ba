package peers

import (
	"encoding/json"
	"net/http"
	"time"

	"context"
	"github.com/twmb/franz-go/pkg/kgo"
	"testing"
)

func TestPostgresHasLogicalDecodingAndADatabaseForEachTest(t *testing.T) {
	pg := Postgres(t)
	a, b := pg.NewDatabase(t), pg.NewDatabase(t)
	if a == b {
		t.Fatalf("two databases with the name %s", a)
	}
	c := pg.Connect(t, a)
	var level, slots string
	ctx := context.Background()
	if err := c.QueryRow(ctx, "SELECT current_setting('wal_level'), current_setting('max_replication_slots')").Scan(&level, &slots); err != nil {
		t.Fatal(err)
	}
	if level != "logical" || slots != "100" {
		t.Errorf("wal_level %s with %s slots, want logical with 100", level, slots)
	}
	// A slot that the test forgets does not keep its database from being dropped.
	pg.Exec(t, b, "SELECT pg_create_logical_replication_slot('"+b+"', 'pgoutput')")
}

func TestKafkaTakesARecordAndGivesItBack(t *testing.T) {
	k := Kafka(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	topic := Unique(t, "t")
	c, err := kgo.NewClient(kgo.SeedBrokers(k.Addr), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics(topic), kgo.DefaultProduceTopic(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.ProduceSync(ctx, &kgo.Record{Value: []byte("hello")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for {
		fs := c.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fs.Records() {
			if string(r.Value) != "hello" {
				t.Fatalf("got %q", r.Value)
			}
			return
		}
	}
}

func TestSearchServersSayWhatTheyAre(t *testing.T) {
	for _, row := range []struct {
		name, version, distribution string
		start                       func(testing.TB) *SearchServer
	}{
		{"OpenSearch", "2.19.6", "opensearch", OpenSearch},
		{"Elasticsearch", "8.18.4", "", Elasticsearch},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := row.start(t)
			var body struct {
				Version struct{ Number, Distribution string }
			}
			resp, err := http.Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
				t.Fatal(err)
			}
			if body.Version.Number != row.version || body.Version.Distribution != row.distribution {
				t.Errorf("got %+v, want %s %s", body.Version, row.version, row.distribution)
			}
		})
	}
}
