package postgres

import (
	"context"
	"testing"

	"millrace/connectors/connectortest"
)

// TestMetrics: Debezium's figures of a snapshot and of a stream, with the keys
// custom.metric.tags and statistics.metrics.enabled.
func TestMetrics(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE a (id int PRIMARY KEY, v int)", "CREATE TABLE b (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)", "ALTER TABLE a REPLICA IDENTITY FULL",
		"INSERT INTO a SELECT n, n FROM generate_series(1, 3000) n", "INSERT INTO b VALUES (1)", "ANALYZE a, b")
	conf := d.config("table.include.list", "public.a,public.b", "publication.autocreate.mode", "all_tables", "custom.metric.tags", "env=prod", "statistics.metrics.enabled", "false",
		"skip.messages.without.change", "true", "skipped.operations", "d")
	store := &connectortest.OffsetStore{}
	r := d.streaming(conf, store)
	d.exec("INSERT INTO a VALUES (-1, 0)", "UPDATE a SET v = 1 WHERE id = -1", "UPDATE a SET v = 1 WHERE id = -1", "DELETE FROM a WHERE id = -1", "INSERT INTO other VALUES (1)", "INSERT INTO b VALUES (2)")
	want := map[string]float64{
		"TotalTableCount snapshot prod": 2, "RemainingTableCount snapshot prod": 0, "SnapshotCompleted snapshot prod": 1, "SnapshotRunning snapshot prod": 0,
		"RowsScanned snapshot prod public.a": 3000, "RowsScanned snapshot prod public.b": 1, "TotalNumberOfEventsSeen snapshot prod": 3001,
		"TotalNumberOfCreateEventsSeen streaming prod": 2, "TotalNumberOfUpdateEventsSeen streaming prod": 1, "NumberOfUnchangedEventsSkipped streaming prod": 1,
		"TotalNumberOfDeleteEventsSeen streaming prod": 0, "NumberOfEventsFiltered streaming prod": 2, "TotalNumberOfEventsSeen streaming prod": 6,
		"NumberOfCommittedTransactions streaming prod": 6, "Connected streaming prod": 1, "QueueTotalCapacity streaming prod": 8192, "QueueRemainingCapacity streaming prod": 8192,
	}
	got := map[string]float64{}
	r.WaitFor("the figures", func() bool {
		got = connectortest.Figures(r.Task.(*task).Samples())
		for k, v := range want {
			if got[k] != v {
				return false
			}
		}
		return true
	})
	if v := got["MilliSecondsBehindSource streaming prod"]; v < 0 {
		t.Errorf("MilliSecondsBehindSource is %v", v)
	}
	if _, there := got["MilliSecondsBehindSourceP99 streaming prod"]; there {
		t.Error("statistics.metrics.enabled=false leaves percentiles there")
	}
	p := r.Task.(*task).Progress(context.Background())
	if p.Snapshot == nil || p.Snapshot.State != "completed" || p.Snapshot.Rows != 3001 || len(p.Snapshot.Tables) != 2 || p.Snapshot.Tables[0].Expected != 3000 || p.Snapshot.Tables[0].State != "done" {
		t.Errorf("%+v", p.Snapshot)
	}
	r.Stop()
	if v := connectortest.Figures(r.Task.(*task).Samples())["Connected streaming prod"]; v != 0 {
		t.Error("a task that has ended is connected")
	}
	// The second run resumes: it takes no snapshot.
	r = d.start(conf, store)
	r.WaitFor("the stream", func() bool { return connectortest.Figures(r.Task.(*task).Samples())["Connected streaming prod"] == 1 })
	if got := connectortest.Figures(r.Task.(*task).Samples()); got["SnapshotSkipped snapshot prod"] != 1 || got["TotalTableCount snapshot prod"] != 0 {
		t.Errorf("a task that resumes has SnapshotSkipped %v", got["SnapshotSkipped snapshot prod"])
	}
}
