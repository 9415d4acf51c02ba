package cdc

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/schema"
)

// sampled are samples by name, context and table.
func sampled(t *testing.T, samples []connectors.Sample) map[string]float64 {
	t.Helper()
	out, help := map[string]float64{}, map[string]string{}
	for _, s := range samples {
		name := strings.TrimPrefix(s.Name, "debezium_metrics_")
		if name == s.Name || s.Help == "" || !strings.HasSuffix(s.Help, ".") {
			t.Errorf("%s has the help %q", s.Name, s.Help)
		}
		if help[name] != "" && help[name] != s.Help && !strings.HasPrefix(name, "MilliSecondsBehindSourceP") {
			t.Errorf("%s has two helps", s.Name)
		}
		help[name] = s.Help
		key := name
		for _, l := range s.Labels[2:] {
			key += " " + l.Value
		}
		if _, twice := out[key]; twice {
			t.Errorf("%s is there twice", key)
		}
		out[key] = s.Value
	}
	return out
}

func expectSamples(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			t.Errorf("%s is %v (%t), want %v", k, g, ok, v)
		}
	}
}

// TestMetricNames: every attribute that dashboards know, in its context.
func TestMetricNames(t *testing.T) {
	m := Metrics{Plugin: "postgres", Name: "p", Statistics: true, Scan: &Scan{}}
	got := sampled(t, m.Samples())
	both := []string{"TotalNumberOfEventsSeen", "NumberOfEventsFiltered", "NumberOfErroneousEvents", "TotalNumberOfCreateEventsSeen",
		"TotalNumberOfUpdateEventsSeen", "TotalNumberOfDeleteEventsSeen", "MilliSecondsSinceLastEvent", "QueueTotalCapacity",
		"QueueRemainingCapacity", "MaxQueueSizeInBytes", "CurrentQueueSizeInBytes"}
	streaming := []string{"Connected", "MilliSecondsBehindSource", "MilliSecondsBehindSourceMinValue", "MilliSecondsBehindSourceMaxValue",
		"MilliSecondsBehindSourceAverageValue", "MilliSecondsBehindSourceP50", "MilliSecondsBehindSourceP95", "MilliSecondsBehindSourceP99",
		"NumberOfCommittedTransactions", "NumberOfUnchangedEventsSkipped"}
	snapshot := []string{"TotalTableCount", "RemainingTableCount", "SnapshotRunning", "SnapshotPaused", "SnapshotAborted", "SnapshotCompleted",
		"SnapshotSkipped", "SnapshotDurationInSeconds", "SnapshotPausedDurationInSeconds"}
	n := 0
	for context, names := range map[string][]string{"snapshot": slices.Concat(both, snapshot), "streaming": slices.Concat(both, streaming)} {
		for _, name := range names {
			n++
			v, ok := got[name+" "+context]
			if !ok {
				t.Errorf("%s of %s is missing", name, context)
			}
			none := 0.0
			if strings.HasPrefix(name, "MilliSeconds") {
				none = -1
			}
			if v != none {
				t.Errorf("%s of %s is %v before there is anything", name, context, v)
			}
		}
	}
	if n != len(got) {
		t.Errorf("%d samples, %d are known", len(got), n)
	}
	m.Statistics = false
	if less := m.Samples(); len(less) != n-6 {
		t.Errorf("without statistics there are %d samples, want %d", len(less), n-6)
	}
}

func TestMetricsOfAStream(t *testing.T) {
	m := Metrics{Scan: &Scan{}, Statistics: true}
	q := NewQueue(100, 1000)
	q.Offer(connectors.Batch{Records: make([]schema.Record, 30)}, 400)
	m.Queue(q)
	m.Connected(true)
	now := time.Now().UnixMicro()
	for i := range 100 {
		m.Streamed(&Tally{Creates: 1, At: now - int64(100-i)*1e6})
	}
	tally := Tally{Updates: 2, Deletes: 3, Others: 4, Filtered: 5, Erroneous: 6, Unchanged: 7, Commits: 8, At: now - 200e6}
	m.Streamed(&tally)
	if tally != (Tally{}) {
		t.Errorf("the tally is not emptied: %+v", tally)
	}
	m.Streamed(&Tally{Commits: 1, At: now - 900e6}) // no event: it has no lag
	got := sampled(t, m.Samples())
	expectSamples(t, got, map[string]float64{
		"TotalNumberOfEventsSeen streaming": 127, "TotalNumberOfCreateEventsSeen streaming": 100, "TotalNumberOfUpdateEventsSeen streaming": 2,
		"TotalNumberOfDeleteEventsSeen streaming": 3, "NumberOfEventsFiltered streaming": 5, "NumberOfErroneousEvents streaming": 6,
		"NumberOfUnchangedEventsSkipped streaming": 7, "NumberOfCommittedTransactions streaming": 9, "Connected streaming": 1,
		"QueueTotalCapacity streaming": 100, "QueueRemainingCapacity streaming": 70, "MaxQueueSizeInBytes streaming": 1000, "CurrentQueueSizeInBytes streaming": 400,
		"TotalNumberOfEventsSeen snapshot": 0, "MilliSecondsSinceLastEvent snapshot": -1,
	})
	// What passed since now is added to each lag: as much as this test has taken.
	took := float64(time.Now().UnixMicro()-now)/1000 + 1
	for name, want := range map[string]float64{"": 200000, "MinValue": 1000, "MaxValue": 200000, "P50": 51000, "P95": 96000, "P99": 100000, "AverageValue": 5250000.0 / 101} {
		if g := got["MilliSecondsBehindSource"+name+" streaming"]; g < want-1 || g > want+took {
			t.Errorf("MilliSecondsBehindSource%s is %v, want %v to %v", name, g, want, want+took)
		}
	}
	if g := got["MilliSecondsSinceLastEvent streaming"]; g < 0 || g > took {
		t.Errorf("the last event was %v ms ago", g)
	}
	// Percentiles are of late: what is long past has gone from them.
	for range lagKept {
		m.Streamed(&Tally{Creates: 1, At: time.Now().UnixMicro() + 3600e6}) // the source's clock is ahead
	}
	got = sampled(t, m.Samples())
	expectSamples(t, got, map[string]float64{"MilliSecondsBehindSource streaming": 0, "MilliSecondsBehindSourceP99 streaming": 0, "MilliSecondsBehindSourceMinValue streaming": 0})
	if got["MilliSecondsBehindSourceMaxValue streaming"] < 200000 {
		t.Error("the greatest is forgotten")
	}
}

func TestMetricsOfASnapshot(t *testing.T) {
	s := &Scan{}
	m := Metrics{Plugin: "postgres", Name: "shop", Tags: []connectors.Label{{Name: "env", Value: "x"}}, Scan: s}
	if s.Progress() != nil {
		t.Error("a task that has not decided has a snapshot")
	}
	s.Begin([]string{"a.b", "a.c"}, func(i int) int64 { return int64(i)*10 - 1 })
	s.Read("a.b", 0)
	s.Read("a.b", 5)
	m.Snapshotted(&Tally{Others: 5})
	states := func() string {
		p := s.Progress()
		text := p.State
		for _, t := range p.Tables {
			text += fmt.Sprintf(" %s:%s:%d/%d", t.Table, t.State, t.Rows, t.Expected)
		}
		return fmt.Sprint(text, " ", p.Rows)
	}
	check := func(want string, more map[string]float64) {
		t.Helper()
		if got := states(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		all := map[string]float64{}
		for k, v := range more {
			name, table, _ := strings.Cut(k, " ")
			key := name + " snapshot x"
			if table != "" {
				key += " " + table
			}
			all[key] = v
		}
		expectSamples(t, sampled(t, m.Samples()), all)
	}
	check("running a.b:reading:5/-1 a.c:waiting:0/9 5", map[string]float64{"SnapshotRunning": 1, "TotalTableCount": 2, "RemainingTableCount": 2,
		"RowsScanned a.b": 5, "RowsScanned a.c": 0, "TotalNumberOfEventsSeen": 5, "SnapshotCompleted": 0})
	s.Done("a.b")
	s.Done("a.b") // twice is once
	s.Read("a.c", 3)
	s.Read("a.nothing", 3)
	s.Done("a.nothing")
	check("running a.b:done:5/-1 a.c:reading:3/9 8", map[string]float64{"RemainingTableCount": 1, "RowsScanned a.c": 3})
	s.Done("a.c")
	s.End(true)
	s.End(false) // it has ended
	check("completed a.b:done:5/-1 a.c:done:3/9 8", map[string]float64{"SnapshotRunning": 0, "SnapshotCompleted": 1, "RemainingTableCount": 0})
	s.Begin([]string{"a.c"}, func(int) int64 { return -1 })
	s.End(false)
	check("aborted a.c:waiting:0/-1 0", map[string]float64{"SnapshotAborted": 1, "SnapshotCompleted": 0, "TotalTableCount": 1})
	s.Skip()
	check("skipped a.c:waiting:0/-1 0", map[string]float64{"SnapshotSkipped": 1, "SnapshotAborted": 0})
}

// TestRowsScannedIsBounded: a snapshot of very many tables does not flood a scrape.
func TestRowsScannedIsBounded(t *testing.T) {
	s := &Scan{}
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprintf("s.t%d", i)
	}
	s.Begin(names, func(int) int64 { return -1 })
	m := Metrics{Scan: s}
	n := 0
	for _, one := range m.Samples() {
		if one.Name == "debezium_metrics_RowsScanned" {
			n++
		}
	}
	if n != MostTables {
		t.Errorf("%d series, want %d", n, MostTables)
	}
}

func TestTags(t *testing.T) {
	got, err := ParseTags([]string{" env = prod ", "", "team=a=b", "empty="})
	if want := []connectors.Label{{Name: "env", Value: "prod"}, {Name: "team", Value: "a=b"}, {Name: "empty", Value: ""}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"x", "a-b=c", "=c", "name=x", "table=x", "__x=1", "1a=b"} {
		if _, err := ParseTags([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := ParseTags([]string{"a=1", "a=2"}); err == nil {
		t.Error("a name is taken twice")
	}
	many := make([]string, 30)
	for i := range many {
		many[i] = fmt.Sprintf("t%d=x", i)
	}
	if _, err := ParseTags(many); err == nil {
		t.Error("any number of tags is taken")
	}
}
