package loggers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"millrace/runtime"
)

func newLogger(l *Levels) (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(l.Handler(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.Level(-100)}))), &b
}

// here is the logger of this file.
const here = "millrace.runtime.loggers.loggers_test"

func TestLevelsDecideWhatIsWritten(t *testing.T) {
	for _, c := range []struct {
		name string
		set  []string // logger, level, …
		want string   // the levels that are then written, in short
	}{
		{"nothing was set", nil, "I W E"},
		{"the root", []string{"root", "DEBUG"}, "D I W E"},
		{"the root is silent", []string{"root", "OFF"}, ""},
		{"the file's own logger", []string{here, "WARN"}, "W E"},
		{"its package", []string{"millrace.runtime.loggers", "trace"}, "T D I W E"},
		{"another package", []string{"millrace.rest", "TRACE"}, "I W E"},
		{"what only begins alike", []string{"millrace.run", "TRACE"}, "I W E"},
		{"the later one of two holds, the closer one first", []string{here, "DEBUG", "millrace", "ERROR"}, "E"},
		{"the later one of two holds, the closer one last", []string{"millrace", "ERROR", here, "DEBUG"}, "D I W E"},
		{"setting the root overrules all", []string{here, "DEBUG", "root", "WARN"}, "W E"},
		{"a connector", []string{"connector:shop", "DEBUG"}, "D I W E"},
		{"another connector, whose name begins alike", []string{"connector:sho", "DEBUG"}, "I W E"},
		{"a connector after its package", []string{here, "DEBUG", "connector:shop", "ERROR"}, "E"},
		{"ALL", []string{"root", "ALL"}, "T D I W E"},
		{"FATAL", []string{"root", "FATAL"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := New()
			lg, out := newLogger(l)
			lg = lg.With("connector", "shop")
			lg.Error("so that this file is known")
			out.Reset()
			for i := 0; i < len(c.set); i += 2 {
				if _, err := l.Set(c.set[i], c.set[i+1]); err != nil {
					t.Fatal(err)
				}
			}
			for _, at := range []struct {
				short string
				level slog.Level
			}{{"T", Trace}, {"D", slog.LevelDebug}, {"I", slog.LevelInfo}, {"W", slog.LevelWarn}, {"E", slog.LevelError}} {
				lg.Log(t.Context(), at.level, "level-"+at.short)
			}
			var got []string
			for line := range strings.Lines(out.String()) {
				_, rest, _ := strings.Cut(line, "level-")
				got = append(got, rest[:1])
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("written: %q, want %q\n%s", s, c.want, out)
			}
		})
	}
}

func TestJavaNamesAreOurLoggers(t *testing.T) {
	l := New()
	var b bytes.Buffer
	worker := slog.New(l.Handler(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.Level(-100)}))).With("logger", "millrace.runtime.worker.source")
	for _, c := range []struct {
		set, level string
		on         bool
		affected   []string
	}{
		{"org.apache.kafka.connect.runtime.WorkerSourceTask", "DEBUG", true, []string{"org.apache.kafka.connect.runtime.WorkerSourceTask"}},
		{"org.apache.kafka.connect.runtime.errors", "INFO", true, []string{"org.apache.kafka.connect.runtime.errors.LogReporter"}},
		{"millrace.runtime.worker", "INFO", false, []string{"millrace.runtime.worker", "millrace.runtime.worker.sink", "millrace.runtime.worker.source"}},
		{"org.apache.kafka.connect.runtime.WorkerSinkTask", "DEBUG", false, []string{"org.apache.kafka.connect.runtime.WorkerSinkTask"}},
		{"org.apache.kafka", "DEBUG", true, nil},
		{"a.b", "INFO", true, []string{}},
	} {
		affected, err := l.Set(c.set, c.level)
		if err != nil {
			t.Fatal(err)
		}
		if on := worker.Enabled(t.Context(), slog.LevelDebug); on != c.on {
			t.Errorf("after %s=%s: debug %v, want %v", c.set, c.level, on, c.on)
		}
		if c.affected != nil && !slices.Equal(affected, c.affected) {
			t.Errorf("%s affected %v, want %v", c.set, affected, c.affected)
		}
	}
	for own, java := range javaNames {
		for _, j := range java {
			if !slices.Contains(namesOf(j), own) {
				t.Errorf("%s is not a name of %s", j, own)
			}
		}
	}
}

func TestWhatClientsSee(t *testing.T) {
	l := New()
	for name, want := range map[string]string{"root": "INFO", "millrace": "INFO", "org.apache.kafka.connect": "INFO", "org.apache.kafka.connect.runtime.WorkerSourceTask": "INFO"} {
		if got, err := l.Get(name); err != nil || got.Level != want || got.Modified != nil {
			t.Errorf("%s: %v %v, want %s, never modified", name, got, err, want)
		}
	}
	var notFound *runtime.NotFoundError
	for _, name := range []string{"no.such.logger", "", "mill", "connector:x"} {
		if _, err := l.Get(name); !errors.As(err, &notFound) {
			t.Errorf("%q: %v, want not found", name, err)
		}
	}
	if _, err := l.Set("root", "LOUD"); !errors.As(err, &notFound) || err.Error() != "invalid log level 'LOUD'." {
		t.Errorf("a level that does not exist: %v", err)
	}
	if _, err := l.Set("millrace.runtime", "debug"); err != nil {
		t.Fatal(err)
	}
	all := l.All()
	for name, want := range map[string]string{"root": "INFO", "millrace.runtime.worker": "DEBUG", "org.apache.kafka.connect.runtime.Worker": "DEBUG", "millrace.rest": "INFO", Clients: "INFO"} {
		if got := all[name]; got.Level != want || (got.Modified != nil) != (want == "DEBUG") {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
	}
}

func TestBelowInfoLinesNameTheirLogger(t *testing.T) {
	l := New()
	lg, out := newLogger(l)
	if _, err := l.Set("root", "DEBUG"); err != nil {
		t.Fatal(err)
	}
	lg.Debug("a")
	lg.Info("b")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "logger="+here) || strings.Contains(lines[1], "logger=") {
		t.Errorf("written:\n%s", out)
	}
}

func TestNoMoreLevelsThanThereIsRoomFor(t *testing.T) {
	l := New()
	var refused error
	for i := 0; i < 2*maxSettings && refused == nil; i++ {
		_, refused = l.Set(fmt.Sprintf("connector:c%d", i), "DEBUG")
	}
	if refused == nil || len(l.now.Load().byName) > maxSettings {
		t.Errorf("%d levels, refused: %v", len(l.now.Load().byName), refused)
	}
	if got, err := l.Set(connectorPrefix+strings.Repeat("x", 1<<20), "DEBUG"); err != nil || len(got) != 0 {
		t.Errorf("a name that no connector can have: %d affected, %v", len(got), err)
	}
	if _, err := l.Set(Root, "INFO"); err != nil || len(l.now.Load().byName) != 1 {
		t.Errorf("setting the root leaves %d levels (%v)", len(l.now.Load().byName), err)
	}
}

func TestLevelsChangeWhileOthersLog(t *testing.T) {
	l := New()
	lg, _ := newLogger(l)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 200 {
				lg.Debug("x", "i", i)
			}
		})
		all.Go(func() {
			for i := range 200 {
				if _, err := l.Set(here, []string{"DEBUG", "OFF"}[i%2]); err != nil {
					t.Error(err)
				}
				l.All()
			}
		})
	}
	all.Wait()
}

// BenchmarkSilent is what a debug line costs that nobody wants.
func BenchmarkSilent(b *testing.B) {
	lg := slog.New(New().Handler(slog.DiscardHandler))
	for b.Loop() {
		lg.LogAttrs(context.Background(), slog.LevelDebug, "x")
	}
}
