package runtimetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/runtime/herder"
)

// With exactly-once delivery the leader writes all configurations, in transactions, which fence whoever led before it. A plan that another worker
// has made is none of that worker's to write: the leader does, when it is handed on.
func TestTheLeaderWritesThePlansOfAll(t *testing.T) {
	l := logtest.New(t)
	var pool []*herder.Herder
	for range 3 {
		pool = append(pool, Worker(t, l, Plugins(t, NewSource().Plugin("Numbers")), "exactly.once.source.support", "enabled"))
	}
	leader := pool[0]
	const connectors = 6
	all := func(f func(name string) bool) bool {
		for i := range connectors {
			if !f(fmt.Sprintf("c%d", i)) {
				return false
			}
		}
		return true
	}
	for i := range connectors {
		Create(t, leader, fmt.Sprintf("c%d", i), "connector.class", "Numbers", "topic", fmt.Sprintf("t%d", i), "count", "10")
	}
	run := func(tasks int) {
		t.Helper()
		Until(t, fmt.Sprintf("all connectors to run %d tasks", tasks), func() bool {
			return all(func(name string) bool { return len(owners(leader, name)) == tasks })
		})
	}
	run(1)
	Until(t, "the others to have connectors", func() bool {
		elsewhere := 0
		all(func(name string) bool {
			if st, err := leader.Status(context.Background(), name); err == nil && st.Connector.WorkerID != leader.WorkerID() {
				elsewhere++
			}
			return true
		})
		return elsewhere >= 2
	})
	// A new plan of each, wherever it is made.
	for i := range connectors {
		Create(t, leader, fmt.Sprintf("c%d", i), "connector.class", "Numbers", "topic", fmt.Sprintf("t%d", i), "count", "10", "tasks", "2", "tasks.max", "2")
	}
	run(2)
	checked := 0
	for _, r := range Records(t, l, "connect-configs") {
		checked++
		if !r.Attrs.IsTransactional() {
			t.Errorf("%s at %d is written outside of the leader's transactions", r.Key, r.Offset)
		}
	}
	if least := connectors * (2 + 3 + 2); checked < least { // configurations, tasks, commits
		t.Errorf("only %d records were looked at, want %d at least", checked, least)
	}
}

// What the leader makes of a plan that is handed to it.
func TestPlansThatComeTooLate(t *testing.T) {
	l := logtest.New(t)
	plugins := Plugins(t, NewSource().Plugin("Numbers"))
	leader, other := Worker(t, l, plugins), Worker(t, l, plugins)
	settings := []string{"connector.class", "Numbers", "topic", "t", "count", "10"}
	Create(t, leader, "c", settings...)
	AwaitState(t, leader, "c", 0, runtime.Running)
	version := func() int64 {
		at := int64(-1)
		for _, r := range Records(t, l, "connect-configs") {
			if string(r.Key) == "connector-c" {
				at = r.Offset
			}
		}
		return at
	}
	first := version()
	Create(t, leader, "c", append(settings, "batch", "7")...)
	Until(t, "the plan of the second configuration", func() bool {
		tasks, err := leader.Tasks(context.Background(), "c")
		return err == nil && len(tasks) == 1 && tasks[0].Config["batch"] == "7"
	})
	plan := []map[string]string{{"task.class": "late", "topic": "late"}}
	body, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	hand := func(to *herder.Herder, version int64, change func(*runtime.Signature)) error {
		t.Helper()
		s, err := other.Sign(body)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(&s)
		}
		return to.PutTasks(context.Background(), "c", version, plan, body, s)
	}
	if err := hand(leader, first, nil); err == nil || !strings.Contains(err.Error(), "another configuration") || !errors.As(err, new(*runtime.ConflictError)) {
		t.Errorf("a plan of the former configuration: %v", err)
	}
	if err := hand(leader, version()+1000, nil); err == nil || !strings.Contains(err.Error(), "another configuration") {
		t.Errorf("a plan of a configuration that there is not: %v", err)
	}
	if err := hand(leader, version(), func(s *runtime.Signature) { s.MAC[0]++ }); !errors.As(err, new(*runtime.ForbiddenError)) {
		t.Errorf("a wrong signature: %v", err)
	}
	if err := hand(other, version(), nil); !errors.As(err, new(*runtime.ForwardError)) {
		t.Errorf("a worker that does not lead: %v", err)
	}
	if tasks, err := leader.Tasks(context.Background(), "c"); err != nil || tasks[0].Config["topic"] != "t" {
		t.Errorf("the tasks are %v, %v", tasks, err)
	}
}
