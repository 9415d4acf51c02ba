package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/connectors"
	"millrace/deploy/peers"
	"millrace/log"
	"millrace/log/logtest"
	"millrace/runtime"
	"millrace/runtime/herder"
	"millrace/runtime/settings"
)

// A stage is a log with names on it that no other test has.
type stage struct {
	*log.Log
	name  string
	exact []string // settings of a worker that delivers exactly once
}

func (s stage) topic(name string) string { return s.name + "-" + name }

// onLogs runs a test with exactly-once delivery on a real cluster and on the embedded log.
func onLogs(t *testing.T, test func(t *testing.T, s stage)) {
	t.Run("embedded", func(t *testing.T) { test(t, newStage(t, logtest.New(t))) })
	t.Run("cluster", func(t *testing.T) {
		l, err := log.Open(t.Context(), log.Config{Seeds: []string{peers.Kafka(t).Addr}, Logger: Logger(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close(context.Background()) })
		test(t, newStage(t, l))
	})
}

func newStage(t *testing.T, l *log.Log) stage {
	s := stage{Log: l, name: strings.ReplaceAll(peers.Unique(t, "eos"), "_", "-")}
	s.exact = []string{"exactly.once.source.support", "enabled", "group.id", s.name, "config.storage.topic", s.topic("configs"),
		"offset.storage.topic", s.topic("offsets"), "status.storage.topic", s.topic("status"), "auto.restart", "false"}
	return s
}

func (s stage) worker(t *testing.T, source *Source, more ...string) *herder.Herder {
	t.Helper()
	return Worker(t, s.Log, Plugins(t, source.Plugin("Numbers")), slices.Concat(s.exact, more)...)
}

// numbers checks that a topic's committed records are v0, v1 … each once and in order,
// and returns how many there are.
func (s stage) numbers(t *testing.T, topic string) int {
	t.Helper()
	rs := Committed(t, s.Log, topic)
	for i, r := range rs {
		if string(r.Value) != fmt.Sprintf(`"v%d"`, i) {
			t.Fatalf("committed record %d (offset %d) is %s, want v%d", i, r.Offset, r.Value, i)
		}
	}
	return len(rs)
}

func TestExactlyOnceWhateverEndsATask(t *testing.T) {
	onLogs(t, func(t *testing.T, s stage) {
		topic := s.topic("n")
		ends := []struct {
			name string
			end  func(src *Source, h *herder.Herder)
		}{
			{"a worker is closed in order", func(_ *Source, h *herder.Herder) { Close(t, h) }},
			{"a worker is cut short", func(_ *Source, h *herder.Herder) {
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				_ = h.Close(ctx)
			}},
			{"a source ignores that it is stopped", func(src *Source, h *herder.Herder) {
				src.Deaf.Store(true)
				Close(t, h)
			}},
			{"a source fails", func(src *Source, h *herder.Herder) {
				src.FailNow.Store(true)
				AwaitState(t, h, "c", 0, runtime.Failed)
				Close(t, h)
			}},
			{"a task is restarted", func(src *Source, h *herder.Herder) {
				for range 3 {
					runs := src.Runs.Load()
					if err := h.RestartTask(t.Context(), runtime.TaskID{Connector: "c"}); err != nil {
						t.Fatal(err)
					}
					Until(t, "the next run", func() bool { return src.Runs.Load() > runs })
				}
				Close(t, h)
			}},
		}
		had := 0
		for round, end := range slices.Concat(ends, ends) {
			src := NewSource()
			src.Pause.Store(int64(200 * time.Microsecond))
			h := s.worker(t, src, "task.shutdown.graceful.timeout.ms", "500")
			if round == 0 {
				Create(t, h, "c", "connector.class", "Numbers", "topic", topic, "batch", "7")
			}
			Until(t, "some records", func() bool { return src.Emitted.Load() > 2000 })
			end.end(src, h)
			n := s.numbers(t, topic)
			if n <= had {
				t.Errorf("%s: %d records are committed, there were %d before", end.name, n, had)
			}
			t.Logf("%s: %d records are committed, of %d in the topic", end.name, n, len(Records(t, s.Log, topic)))
			had = n
		}
	})
}

func TestTransactionsEndAtTheirBoundaries(t *testing.T) {
	onLogs(t, func(t *testing.T, s stage) {
		t.Run("a batch that nothing follows is committed at once", func(t *testing.T) {
			s, src := newStage(t, s.Log), NewSource()
			src.Pause.Store(int64(time.Hour))
			h := s.worker(t, src, "offset.flush.interval.ms", "3600000")
			defer Close(t, h)
			topic := s.topic("slow")
			Create(t, h, "slow", "connector.class", "Numbers", "topic", topic)
			Until(t, "the commit", func() bool { return src.Committed("slow", 0) == 10 })
			if got := Markers(t, s.Log, topic); !slices.Equal(got, []bool{true}) {
				t.Errorf("transactions %v, want one that is committed", got)
			}
		})
		t.Run("batches of a fast source share transactions", func(t *testing.T) {
			s, src := newStage(t, s.Log), NewSource()
			h := s.worker(t, src)
			defer Close(t, h)
			topic := s.topic("fast")
			Create(t, h, "fast", "connector.class", "Numbers", "topic", topic, "count", "30000", "batch", "5")
			Until(t, "the commit", func() bool { return src.Committed("fast", 0) == 30000 })
			markers := len(Markers(t, s.Log, topic))
			if markers > 3000 {
				t.Errorf("%d transactions for 6,000 batches", markers)
			}
			t.Logf("%d transactions for 6,000 batches", markers)
			if n := s.numbers(t, topic); n != 30000 {
				t.Errorf("%d records", n)
			}
		})
		t.Run("an interval goes over many batches", func(t *testing.T) {
			s, src := newStage(t, s.Log), NewSource()
			src.Pause.Store(int64(10 * time.Millisecond))
			h := s.worker(t, src)
			defer Close(t, h)
			topic := s.topic("interval")
			Create(t, h, "interval", "connector.class", "Numbers", "topic", topic, "count", "1000", "transaction.boundary", "interval", "transaction.boundary.interval.ms", "500")
			Until(t, "the commit", func() bool { return src.Committed("interval", 0) == 1000 })
			if got := Markers(t, s.Log, topic); len(got) < 2 || len(got) > 30 {
				t.Errorf("%d transactions for 100 batches in a second and more, want one each half second", len(got))
			}
			if n := s.numbers(t, topic); n != 1000 {
				t.Errorf("%d records", n)
			}
		})
		t.Run("the connector says where transactions end, and which are aborted", func(t *testing.T) {
			s, src := newStage(t, s.Log), NewSource()
			src.Txn = func(n int64) connectors.Txn { // n records so far, 10 a batch
				switch n % 100 {
				case 50:
					return connectors.TxnCommit
				case 0:
					return connectors.TxnAbort
				}
				return connectors.TxnNone
			}
			h := s.worker(t, src)
			defer Close(t, h)
			topic := s.topic("connector")
			// 370 records: 350 are in transactions that ended, 20 in one that did not.
			Create(t, h, "conn", "connector.class", "Numbers", "topic", topic, "count", "370", "transaction.boundary", "connector")
			Until(t, "the commit", func() bool { return src.Committed("conn", 0) == 350 })
			check := func(total int64) {
				t.Helper()
				var want []string
				for i := range total {
					if i%100 < 50 {
						want = append(want, fmt.Sprintf(`"v%d"`, i))
					}
				}
				if got := Committed(t, s.Log, topic); !slices.Equal(valuesOf(got), want) {
					t.Errorf("committed: %v", valuesOf(got))
				}
			}
			check(350)
			if err := h.RestartTask(t.Context(), runtime.TaskID{Connector: "conn"}); err != nil {
				t.Fatal(err)
			}
			Until(t, "the next run", func() bool { return len(src.Starts()) == 2 })
			if at := src.Starts()[1]; at != 350 {
				t.Errorf("the next run begins at %d, want 350: the aborted are not read again, those of the open transaction are", at)
			}
			Until(t, "the records once more", func() bool { return src.Emitted.Load() == 390 })
			check(350)
		})
	})
}

func valuesOf(rs []*kgo.Record) []string {
	out := make([]string, len(rs))
	for i, r := range rs {
		out[i] = string(r.Value)
	}
	return out
}

// producer is a producer of a task, as another process might have it.
func (s stage) producer(t *testing.T, id string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(s.ClientOpts(), kgo.TransactionalID(id), kgo.TransactionTimeout(time.Minute))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// begin opens a transaction with a record in it.
func (s stage) begin(t *testing.T, cl *kgo.Client, topic string) {
	t.Helper()
	if err := s.EnsureTopic(t.Context(), topic, 1, -1, nil); err != nil {
		t.Fatal(err)
	}
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("zombie")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestATaskThatIsFencedFailsAndWritesNothingMore(t *testing.T) {
	onLogs(t, func(t *testing.T, s stage) {
		src := NewSource()
		src.Pause.Store(int64(5 * time.Millisecond))
		h := s.worker(t, src)
		topic := s.topic("n")
		Create(t, h, "c", "connector.class", "Numbers", "topic", topic)
		Until(t, "some records", func() bool { return src.Committed("c", 0) > 100 })
		other := s.producer(t, s.name+"-c-0")
		if _, _, err := other.ProducerID(t.Context()); err != nil {
			t.Fatal(err)
		}
		had := s.numbers(t, topic)
		AwaitState(t, h, "c", 0, runtime.Failed)
		st, err := h.Status(t.Context(), "c")
		if err != nil {
			t.Fatal(err)
		}
		if f := st.Tasks[0].Failure; f == nil || f.Code != "worker.task_fenced" || !strings.Contains(st.Tasks[0].Trace, s.name+"-c-0") {
			t.Errorf("the failure does not say what happened: %+v %s", f, st.Tasks[0].Trace)
		}
		s.begin(t, other, s.topic("other"))
		if err := log.EndTransaction(t.Context(), other, kgo.TryCommit); err != nil {
			t.Errorf("whoever took over cannot write: %v", err)
		}
		if n := s.numbers(t, topic); n != had {
			t.Errorf("%d records were committed after the task was fenced", n-had)
		}
		// A restart takes over in turn, and goes on where the committed records end.
		if err := h.RestartTask(t.Context(), runtime.TaskID{Connector: "c"}); err != nil {
			t.Fatal(err)
		}
		Until(t, "more records", func() bool { return s.numbers(t, topic) > had })
	})
}

// fencingRecords are the values of a connector's tasks-fencing records.
func (s stage) fencingRecords(t *testing.T, name string) []string {
	t.Helper()
	var out []string
	for _, r := range Committed(t, s.Log, s.topic("configs")) {
		if string(r.Key) == "tasks-fencing-"+name {
			out = append(out, string(r.Value))
		}
	}
	return out
}

func TestANewPlanFencesTheProducersOfTheFormer(t *testing.T) {
	onLogs(t, func(t *testing.T, s stage) {
		src := NewSource()
		h := s.worker(t, src)
		conf := func(tasks string) []string {
			return []string{"connector.class", "Numbers", "topic", s.topic("n"), "count", "10", "tasks.max", tasks, "tasks", tasks}
		}
		wrote := func(records ...string) {
			t.Helper()
			Until(t, fmt.Sprintf("the records %v (are %v)", records, s.fencingRecords(t, "c")), func() bool { return slices.Equal(s.fencingRecords(t, "c"), records) })
		}
		Create(t, h, "c", conf("3")...)
		AwaitState(t, h, "c", 2, runtime.Running)
		wrote(`{"task-count":3}`)

		// A task of three is alive elsewhere when there is one alone.
		zombie := s.producer(t, s.name+"-c-2")
		s.begin(t, zombie, s.topic("n"))
		Create(t, h, "c", conf("1")...)
		wrote(`{"task-count":3}`, `{"task-count":1}`)
		if err := log.EndTransaction(t.Context(), zombie, kgo.TryCommit); !log.Fenced(err) {
			t.Errorf("a task of the former plan can still commit: %v", err)
		}
		AwaitState(t, h, "c", 0, runtime.Running)

		// From one to one nothing has to be fenced: the task itself takes over.
		runs := src.Runs.Load()
		Create(t, h, "c", append(conf("1"), "value", "w")...)
		wrote(`{"task-count":3}`, `{"task-count":1}`, `{"task-count":1}`)
		Until(t, "the next run", func() bool { return src.Runs.Load() > runs })

		// Stopped, and its offsets are to be set: what lives elsewhere is fenced before.
		if err := h.SetTargetState(t.Context(), "c", runtime.StoppedTarget); err != nil {
			t.Fatal(err)
		}
		AwaitState(t, h, "c", -1, runtime.Stopped)
		zombie = s.producer(t, s.name+"-c-0")
		s.begin(t, zombie, s.topic("n"))
		if _, err := h.ResetOffsets(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		wrote(`{"task-count":3}`, `{"task-count":1}`, `{"task-count":1}`, `{"task-count":0}`)
		if err := log.EndTransaction(t.Context(), zombie, kgo.TryCommit); !log.Fenced(err) {
			t.Errorf("a task of the stopped connector can still commit: %v", err)
		}
		if _, err := h.ResetOffsets(t.Context(), "c"); err != nil || len(s.fencingRecords(t, "c")) != 4 {
			t.Errorf("what is fenced was fenced again: %v", err)
		}

		// A worker that comes later has nothing to fence.
		if err := h.SetTargetState(t.Context(), "c", runtime.Started); err != nil {
			t.Fatal(err)
		}
		AwaitState(t, h, "c", 0, runtime.Running)
		Close(t, h)
		h = s.worker(t, src)
		runs = src.Runs.Load()
		Until(t, "the run after the restart", func() bool { return src.Runs.Load() > runs-1 && State(h, "c", 0) == runtime.Running })
		if got := s.fencingRecords(t, "c"); len(got) != 5 {
			t.Errorf("records after a restart: %v", got)
		}
		if sawTwo := slices.ContainsFunc(Committed(t, s.Log, s.topic("n")), func(r *kgo.Record) bool { return string(r.Value) == "zombie" }); sawTwo {
			t.Error("a zombie's record is committed")
		}
	})
}

func TestTheLeaderIsTheOnlyWriterOfConfigurations(t *testing.T) {
	for _, support := range []string{"enabled", "preparing"} {
		t.Run(support, func(t *testing.T) {
			onLogs(t, func(t *testing.T, s stage) {
				h := s.worker(t, NewSource(), "exactly.once.source.support", support)
				conf := []string{"connector.class", "Numbers", "topic", s.topic("n"), "count", "1"}
				Create(t, h, "a", conf...)
				AwaitState(t, h, "a", 0, runtime.Running)
				for _, r := range Records(t, s.Log, s.topic("configs")) {
					if !r.Attrs.IsTransactional() {
						t.Errorf("%s was not written in a transaction", r.Key)
					}
				}
				// Another worker has become the leader without this one knowing.
				other := s.producer(t, "connect-cluster-"+s.name)
				if _, _, err := other.ProducerID(t.Context()); err != nil {
					t.Fatal(err)
				}
				settings := map[string]string{}
				for i := 0; i < len(conf); i += 2 {
					settings[conf[i]] = conf[i+1]
				}
				_, _, err := h.PutConfig(t.Context(), "b", settings, "", true)
				if !errors.As(err, new(*runtime.ConflictError)) {
					t.Fatalf("an old leader wrote: %v", err)
				}
				// It joins again, is told that it leads, and takes over.
				Until(t, "the write to succeed", func() bool {
					_, _, err := h.PutConfig(t.Context(), "b", settings, "", true)
					return err == nil
				})
				AwaitState(t, h, "b", 0, runtime.Running)
			})
		})
	}
}

func TestOffsetsOfOwnTopicsAreInTheTransaction(t *testing.T) {
	onLogs(t, func(t *testing.T, s stage) {
		src := NewSource()
		h := s.worker(t, src)
		Create(t, h, "c", "connector.class", "Numbers", "topic", s.topic("n"), "count", "20", "offsets.storage.topic", s.topic("own"), "exactly.once.support", "required")
		Until(t, "the commit", func() bool { return src.Committed("c", 0) == 20 })
		for _, topic := range []string{s.topic("own"), s.topic("offsets")} {
			rs := Committed(t, s.Log, topic)
			if len(rs) == 0 || string(rs[len(rs)-1].Key) != `["c",{"task":0}]` || string(rs[len(rs)-1].Value) != `{"n":20}` {
				t.Fatalf("%s: %v", topic, rs)
			}
			if !rs[len(rs)-1].Attrs.IsTransactional() {
				t.Errorf("%s: the offset is in no transaction", topic)
			}
		}
	})
}

func TestRecordsThatTheLogDoesNotTakeAreToleratedInTransactions(t *testing.T) {
	onLogs(t, func(t *testing.T, s stage) {
		topic := s.topic("small")
		small := "200"
		if err := s.EnsureTopic(t.Context(), topic, 1, -1, map[string]string{"max.message.bytes": small}); err != nil {
			t.Fatal(err)
		}
		src := NewSource()
		h := s.worker(t, src)
		// v0 … v9 fit; with the long text none does.
		conf := map[string]string{"connector.class": "Numbers", "topic": topic, "count": "20"}
		put := func(name string, more map[string]string) {
			t.Helper()
			c := maps.Clone(conf)
			maps.Copy(c, more)
			if _, _, err := h.PutConfig(t.Context(), name, c, "", true); err != nil {
				t.Fatal(err)
			}
		}
		put("none", map[string]string{"value": strings.Repeat("x", 300)})
		AwaitState(t, h, "none", 0, runtime.Failed)
		if st, _ := h.Status(t.Context(), "none"); !strings.Contains(st.Tasks[0].Trace, "larger than topic "+topic+" takes (200 bytes)") {
			t.Errorf("trace: %s", st.Tasks[0].Trace)
		}
		put("all", map[string]string{"value": strings.Repeat("x", 300), "errors.tolerance": "all"})
		Until(t, "the offset to advance", func() bool { return src.Committed("all", 0) == 20 })
		if rs := Committed(t, s.Log, topic); len(rs) != 0 {
			t.Errorf("%d records", len(rs))
		}
		if at := src.Committed("none", 0); at != 0 {
			t.Errorf("under tolerance none the offset moved to %d", at)
		}
	})
}

// A compacted topic takes no record without a key. A log refuses the whole batch, and a
// transaction with it: so it is found out before.
func TestRecordsWithoutKeysForACompactedTopic(t *testing.T) {
	onLogs(t, func(t *testing.T, s stage) {
		topic := s.topic("compacted")
		if err := s.EnsureTopic(t.Context(), topic, 1, -1, map[string]string{"cleanup.policy": "compact"}); err != nil {
			t.Fatal(err)
		}
		src := NewSource()
		src.Keyless.Store(true)
		h := s.worker(t, src)
		conf := []string{"connector.class", "Numbers", "topic", topic, "count", "20"}
		Create(t, h, "c", conf...)
		AwaitState(t, h, "c", 0, runtime.Failed)
		if st, _ := h.Status(t.Context(), "c"); !strings.Contains(st.Tasks[0].Trace, "topic "+topic+" is compacted and takes no record without a key") {
			t.Errorf("trace: %s", st.Tasks[0].Trace)
		}
		Create(t, h, "c", append(conf, "errors.tolerance", "all")...)
		Until(t, "the offset to pass them", func() bool { return src.Committed("c", 0) == 20 })
		src.Keyless.Store(false)
		Create(t, h, "c", append(conf, "errors.tolerance", "all", "count", "30")...)
		Until(t, "the offset to pass those with keys", func() bool { return src.Committed("c", 0) == 30 })
		if got := valuesOf(Committed(t, s.Log, topic)); len(got) != 10 || got[0] != `"v20"` {
			t.Errorf("committed: %v", got)
		}
	})
}

// A topic takes less than it did when the task looked. The batch that it refuses may
// hold records that it takes one by one: none of them is skipped, the next run knows.
func TestATopicsLimitThatSank(t *testing.T) {
	onLogs(t, func(t *testing.T, s stage) {
		topic := s.topic("n")
		src := NewSource()
		src.Pause.Store(int64(20 * time.Millisecond))
		src.Value = func(n int64) string { // one of five is large
			if n%5 == 0 {
				return fmt.Sprintf("v%d%s", n, strings.Repeat("x", 300))
			}
			return fmt.Sprintf("v%d", n)
		}
		h := s.worker(t, src)
		Create(t, h, "c", "connector.class", "Numbers", "topic", topic, "errors.tolerance", "all")
		Until(t, "some records", func() bool { return src.Committed("c", 0) > 20 })
		if rs, err := s.Admin().AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr("250")}}, topic); err != nil || rs[0].Err != nil {
			t.Fatal(err, rs)
		}
		AwaitState(t, h, "c", 0, runtime.Failed)
		if st, _ := h.Status(t.Context(), "c"); !strings.Contains(st.Tasks[0].Trace, "takes smaller batches than when the task began") || st.Tasks[0].Failure.Retry != "helps" {
			t.Errorf("trace: %+v", st.Tasks[0])
		}
		had, at := len(Committed(t, s.Log, topic)), src.Committed("c", 0)
		if int64(had) != at {
			t.Errorf("%d records are committed, and offset %d", had, at)
		}
		if err := h.RestartTask(t.Context(), runtime.TaskID{Connector: "c"}); err != nil {
			t.Fatal(err)
		}
		Until(t, "the next run to go on", func() bool { return src.Committed("c", 0) > at+50 })
		Close(t, h)
		end := src.Committed("c", 0)
		var want []string
		for n := range end {
			if n < at || n%5 != 0 {
				want = append(want, `"`+src.Value(n)+`"`)
			}
		}
		if got := valuesOf(Committed(t, s.Log, topic)); !slices.Equal(got, want) {
			t.Errorf("%d records, want the %d of which none is too large since offset %d", len(got), len(want), at)
		}
	})
}

func TestExactlyOnceIsCheckedBeforeAConnectorIsMade(t *testing.T) {
	for _, c := range []struct {
		name, support string
		source        *Source
		conf          map[string]string
		key, want     string
	}{
		{"required, but the worker cannot", "disabled", NewSource(), map[string]string{"exactly.once.support": "required"},
			"exactly.once.support", "This worker does not have exactly-once source support enabled."},
		{"required, but the worker only prepares", "preparing", NewSource(), map[string]string{"exactly.once.support": "required"},
			"exactly.once.support", "This worker does not have exactly-once source support enabled."},
		{"a connector that has no boundaries of its own", "enabled", NewSource(), map[string]string{"transaction.boundary": "connector"},
			"transaction.boundary", "The connector does not support connector-defined transaction boundaries with the given configuration. Please reconfigure it to use a different transaction boundary definition."},
		{"required and possible", "enabled", NewSource(), map[string]string{"exactly.once.support": "required", "transaction.boundary": "interval"}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := validatorOf(t, c.support, c.source)
			conf := map[string]string{"name": "c", "connector.class": "Numbers", "topic": "t"}
			maps.Copy(conf, c.conf)
			infos, err := v.Validate(t.Context(), conf)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]string{}
			for _, i := range infos.Configs {
				if len(i.Value.Errors) > 0 {
					got[i.Value.Name] = i.Value.Errors
				}
			}
			want := map[string][]string{}
			if c.key != "" {
				want[c.key] = []string{c.want}
			}
			if !maps.EqualFunc(got, want, slices.Equal) {
				t.Errorf("errors %v, want %v", got, want)
			}
		})
	}
}

// validatorOf validates as a worker of that support would.
func validatorOf(t *testing.T, support string, src *Source) *settings.Validator {
	w, errs := runtime.ParseWorker(runtime.WithDefaults(map[string]string{"exactly.once.source.support": support}, runtime.StandaloneDefaults()))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return &settings.Validator{Plugins: Plugins(t, src.Plugin("Numbers")), Worker: w, ExactlyOnce: w.ExactlyOnceSources(),
		Context: func(name string) connectors.Context { return connectors.Context{Connector: name, Task: -1} }}
}
