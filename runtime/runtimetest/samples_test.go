package runtimetest

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/log/logtest"
	"millrace/schema/config"
)

// sampling is a source with figures of its own and a snapshot under way. While hang is set it
// does not answer.
type sampling struct {
	name string
	hang *atomic.Bool
	free chan struct{}
}

func (s sampling) Run(ctx context.Context, _ connectors.Out) error {
	<-ctx.Done()
	return nil
}
func (sampling) Commit(context.Context, []connectors.Offset) error { return nil }

func (s sampling) Progress(context.Context) connectors.Progress {
	sn := &connectors.Snapshot{State: "running", Began: time.Now(), Rows: 30}
	for i := range 120 {
		t := connectors.SnapshotTable{Table: fmt.Sprintf("s.t%d", i), State: "waiting", Expected: -1}
		if i < 2 {
			t = connectors.SnapshotTable{Table: t.Table, State: []string{"done", "reading"}[i], Rows: 15, Expected: 40}
		}
		sn.Tables = append(sn.Tables, t)
	}
	return connectors.Progress{Position: "the snapshot", Behind: -1, Snapshot: sn}
}

func (s sampling) Samples() []connectors.Sample {
	if s.hang.Load() {
		<-s.free
	}
	labels := []connectors.Label{{Name: "name", Value: s.name}, {Name: "context", Value: "streaming\xff"}}
	return []connectors.Sample{
		{Name: "debezium_metrics_Own", Help: "One.", Labels: labels, Value: 7},
		{Name: "debezium_metrics_Own", Help: "One.", Labels: labels, Value: 8}, // the same series: the first counts
		{Name: "debezium_metrics_Odd", Help: "NaN.", Labels: labels, Value: math.NaN()},
		{Name: "own_total", Help: "Two.", Total: true, Value: 9},
		{Name: "no name", Help: "Wrong."},
	}
}

func TestFiguresOfAConnectorsOwn(t *testing.T) {
	l := logtest.New(t)
	var hang atomic.Bool
	free := make(chan struct{})
	p := NewSource().Plugin("Sampling")
	p.NewTask = func(cc connectors.Context, _ config.Values) (connectors.SourceTask, error) {
		return sampling{cc.Connector, &hang, free}, nil
	}
	t.Cleanup(func() { close(free) })
	h := Worker(t, l, Plugins(t, p))
	Create(t, h, "a", "connector.class", "Sampling", "topic", "n")
	Create(t, h, "b", "connector.class", "Sampling", "topic", "n")
	families := scrapeAll(h)
	Until(t, "both to run", func() bool {
		families = scrapeAll(h)
		_, a := series(families, "debezium_metrics_Own", "name", "a")
		_, b := series(families, "debezium_metrics_Own", "name", "b")
		return a && b
	})
	if v, ok := series(families, "debezium_metrics_Own", "name", "a", "context", "streaming\uFFFD"); !ok || v != 7 {
		t.Errorf("a's own figure is %v, %t; want the first sample's 7", v, ok)
	}
	if n := len(families["own_total"].GetMetric()); n != 1 {
		t.Errorf("%d series of one name without labels, want 1", n)
	}
	if _, ok := series(families, "kafka_connect_connector_task_status", "connector", "a"); !ok {
		t.Error("a name that is none takes the others with it")
	}
	st, err := h.StatusDetail(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	g := st.Tasks[0].Progress
	if g == nil || g.Reading == nil || g.Reading.Snapshot == nil {
		t.Fatalf("no snapshot in the detail: %+v", g)
	}
	sn := g.Reading.Snapshot
	if sn.State != "running" || sn.Rows != 30 || sn.TableCount != 120 || sn.TablesDone != 1 || len(sn.Tables) != 100 || sn.More != 20 || sn.Began == nil || sn.Ended != nil {
		t.Errorf("%+v", sn)
	}
	if one := sn.Tables[1]; one.State != "reading" || one.Rows != 15 || one.Expected == nil || *one.Expected != 40 || sn.Tables[2].Expected != nil {
		t.Errorf("%+v, %+v", one, sn.Tables[2])
	}
	if len(g.Figures) < 3 || g.Figures[0].Name != "debezium_metrics_Own" || g.Figures[0].Value != 7 || g.Figures[0].Labels["name"] != "a" {
		t.Errorf("figures %+v", g.Figures)
	}
	for _, f := range g.Figures {
		if math.IsNaN(f.Value) {
			t.Errorf("%s: JSON has no NaN", f.Name)
		}
	}
	// A task that hangs costs a scrape a second, and the worker nothing.
	hang.Store(true)
	for range 6 { // more often than may be asked
		families = scrapeAll(h)
	}
	if _, ok := series(families, "debezium_metrics_Own", "name", "a"); ok {
		t.Error("a task that hangs has figures")
	}
	if _, ok := series(families, "kafka_connect_connector_task_status", "connector", "a"); !ok {
		t.Error("a task that hangs takes the worker's metrics with it")
	}
}
