package mysql

import (
	"context"
	"strings"
	"testing"

	"millrace/connectors/connectortest"
)

// TestMetrics: Debezium's figures of a snapshot and of a stream, and the progress of both, with the keys
// custom.metric.tags and statistics.metrics.enabled.
func TestMetrics(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE a (id int PRIMARY KEY, v int)", "CREATE TABLE b (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)",
		"SET SESSION cte_max_recursion_depth = 10000", "INSERT INTO a WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < 3000) SELECT g, g FROM s", "INSERT INTO b VALUES (1)")
	conf := d.config("table.include.list", d.name+".a,"+d.name+".b", "custom.metric.tags", "env=prod", "statistics.metrics.enabled", "false", "skip.messages.without.change", "true",
		"skipped.operations", "d")
	store := &connectortest.OffsetStore{}
	r := d.start(conf, store)
	streaming(r)
	figures := func() map[string]float64 { return connectortest.Figures(r.Task.(*task).Samples()) }
	r.WaitFor("the stream", func() bool { return figures()["Connected streaming prod"] == 1 })
	d.exec("INSERT INTO a VALUES (-1, 0)", "UPDATE a SET v = 1 WHERE id = -1", "DELETE FROM a WHERE id = -1", "INSERT INTO other VALUES (1)", "INSERT INTO b VALUES (2), (3)")
	want := map[string]float64{
		"TotalTableCount snapshot prod": 2, "RemainingTableCount snapshot prod": 0, "SnapshotCompleted snapshot prod": 1, "SnapshotRunning snapshot prod": 0, "HoldingGlobalLock snapshot prod": 0,
		"RowsScanned snapshot prod " + d.name + ".a": 3000, "RowsScanned snapshot prod " + d.name + ".b": 1, "TotalNumberOfEventsSeen snapshot prod": 3001,
		"TotalNumberOfCreateEventsSeen streaming prod": 3, "TotalNumberOfUpdateEventsSeen streaming prod": 1, "TotalNumberOfDeleteEventsSeen streaming prod": 0,
		"NumberOfDisconnects streaming prod": 0, "NumberOfSkippedEvents streaming prod": 0, "NumberOfRolledBackTransactions streaming prod": 0,
		"QueueTotalCapacity streaming prod": 8192, "QueueRemainingCapacity streaming prod": 8192,
	}
	got := map[string]float64{}
	r.WaitFor("the figures", func() bool {
		got = figures()
		for k, v := range want {
			if got[k] != v {
				return false
			}
		}
		return got["NumberOfCommittedTransactions streaming prod"] >= 5 && got["NumberOfEventsFiltered streaming prod"] >= 2
	})
	if got["BinlogPosition streaming prod"] <= 4 || got["MilliSecondsBehindSource streaming prod"] < 0 {
		t.Errorf("BinlogPosition is %v, MilliSecondsBehindSource %v", got["BinlogPosition streaming prod"], got["MilliSecondsBehindSource streaming prod"])
	}
	if _, there := got["MilliSecondsBehindSourceP99 streaming prod"]; there {
		t.Error("statistics.metrics.enabled=false leaves percentiles there")
	}
	p := r.Task.(*task).Progress(context.Background())
	if p.Snapshot == nil || p.Snapshot.State != "completed" || p.Snapshot.Rows != 3001 || len(p.Snapshot.Tables) != 2 || p.Snapshot.Tables[0].Expected < 0 || p.Snapshot.Tables[0].State != "done" {
		t.Errorf("%+v", p.Snapshot)
	}
	if !strings.Contains(p.Position, ":") {
		t.Errorf("the stream is at %q", p.Position)
	}
	r.Stop()
	if got := figures(); got["Connected streaming prod"] != 0 {
		t.Error("a task that has ended is connected")
	}
	// The second run resumes: it takes no snapshot.
	r = d.start(conf, store)
	r.WaitFor("the stream", func() bool { return figures()["Connected streaming prod"] == 1 })
	if got := figures(); got["SnapshotSkipped snapshot prod"] != 1 || got["TotalTableCount snapshot prod"] != 0 {
		t.Errorf("a task that resumes has SnapshotSkipped %v", got["SnapshotSkipped snapshot prod"])
	}
}
