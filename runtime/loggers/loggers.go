package loggers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"millrace/runtime"
)

// Root is the logger above all others.
const Root = "root"

// Trace is below slog's Debug.
const Trace = slog.LevelDebug - 4

// off is above all that is ever logged.
const off = slog.Level(1 << 30)

// levels are the names of levels that clients may set.
var levels = map[string]slog.Level{"ALL": Trace, "TRACE": Trace, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn,
	"ERROR": slog.LevelError, "FATAL": slog.LevelError + 4, "OFF": off}

const (
	connectorPrefix = "connector:"
	maxSettings     = 1000 // loggers that have a level of their own
	maxName         = len(connectorPrefix) + runtime.MaxNameBytes
)

// Levels decide which records are written. They are safe for concurrent use.
type Levels struct {
	now  atomic.Pointer[settings]
	seen sync.Map // of call sites (uintptr): the place's *logger

	mu    sync.Mutex      // held by who changes now or known
	known map[string]bool // names of loggers that there are
}

// settings are all levels that were set. They are immutable.
type settings struct {
	byName map[string]setting
	lowest slog.Level // nothing below is written, whoever logs it
}

type setting struct {
	level    slog.Level
	name     string // of the level
	seq      int    // the later one decides
	modified int64  // ms since the epoch; 0: since the start
}

// A logger is what all records of one place share: the names by which levels are set
// for it.
type logger struct {
	own   string
	names []string // own and its Java names
}

// New makes levels that write what is at or above Info.
func New() *Levels {
	l := &Levels{known: map[string]bool{}}
	for own, java := range javaNames {
		l.known[own] = true
		for _, j := range java {
			l.known[j] = true
		}
	}
	l.now.Store(newSettings(map[string]setting{Root: {level: slog.LevelInfo, name: "INFO"}}))
	return l
}

func newSettings(byName map[string]setting) *settings {
	s := &settings{byName: byName, lowest: off}
	for _, x := range byName {
		s.lowest = min(s.lowest, x.level)
	}
	return s
}

// effective is the level of a logger: of all that were set for it or what is above it,
// the last one.
func (s *settings) effective(names ...string) setting {
	best := s.byName[Root]
	for _, name := range names {
		for at := name; at != ""; at = parent(at) {
			if x, ok := s.byName[at]; ok && x.seq > best.seq {
				best = x
			}
		}
	}
	return best
}

// parent is the logger above, "" where that is the root. A connector's name may hold
// points: it lies below the root alone.
func parent(name string) string {
	i := strings.LastIndexByte(name, '.')
	if i < 0 || strings.HasPrefix(name, connectorPrefix) {
		return ""
	}
	return name[:i]
}

func below(name, ancestor string) bool {
	return name == ancestor || strings.HasPrefix(name, ancestor+".") && !strings.HasPrefix(name, connectorPrefix)
}

// loggerOf is our logger of that name with its Java names: those of the closest entry.
func loggerOf(own string) *logger {
	for at := own; at != ""; at = parent(at) {
		if java, ok := javaNames[at]; ok {
			return &logger{own, append([]string{own}, java...)}
		}
	}
	return &logger{own, []string{own}}
}

// namesOf are all names of the logger that is called name: a Java name stands for ours.
func namesOf(name string) []string {
	for own, java := range javaNames {
		if slices.Contains(java, name) {
			return loggerOf(own).names
		}
	}
	return loggerOf(name).names
}

// Set sets a logger's level, and with it that of all loggers below it, whose names it
// returns. A logger that does not exist has none, and nothing is set. A level that does
// not exist is a runtime.NotFoundError, as in Connect.
func (l *Levels) Set(name, level string) ([]string, error) {
	level = strings.ToUpper(strings.TrimSpace(level))
	to, ok := levels[level]
	if !ok {
		return nil, InvalidLevel(level)
	}
	if len(name) > maxName {
		return []string{}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	affected := []string{}
	for k := range l.known {
		if name == Root || below(k, name) {
			affected = append(affected, k)
		}
	}
	if name == Root || strings.HasPrefix(name, connectorPrefix) && !l.known[name] {
		affected = append(affected, name)
	}
	if len(affected) == 0 {
		return affected, nil
	}
	byName := maps.Clone(l.now.Load().byName)
	seq := 0
	for k, x := range byName {
		seq = max(seq, x.seq)
		if name == Root || below(k, name) {
			delete(byName, k) // overruled
		}
	}
	if len(byName) >= maxSettings {
		return nil, runtime.BadRequest("%d loggers have a level of their own already; set the root's level, which takes it from all of them", len(byName))
	}
	byName[name] = setting{level: to, name: level, seq: seq + 1, modified: time.Now().UnixMilli()}
	l.now.Store(newSettings(byName))
	slices.Sort(affected)
	return affected, nil
}

// InvalidLevel is the error about a level that does not exist.
func InvalidLevel(level string) error { return runtime.NotFound("invalid log level '%.64s'.", level) }

// Valid reports whether there is such a level.
func Valid(level string) bool {
	_, ok := levels[strings.ToUpper(strings.TrimSpace(level))]
	return ok
}

// All are the levels of the root and of the loggers there are.
func (l *Levels) All() map[string]runtime.LoggerLevel {
	l.mu.Lock()
	names := slices.Collect(maps.Keys(l.known))
	l.mu.Unlock()
	s := l.now.Load()
	names = slices.AppendSeq(names, maps.Keys(s.byName))
	out := make(map[string]runtime.LoggerLevel, len(names))
	for _, name := range names {
		out[name] = s.effective(namesOf(name)...).shown()
	}
	return out
}

// Get is a logger's level. One that has neither loggers below it nor a level of its own
// is a runtime.NotFoundError.
func (l *Levels) Get(name string) (runtime.LoggerLevel, error) {
	s := l.now.Load()
	_, there := s.byName[name]
	if !there {
		l.mu.Lock()
		for k := range l.known {
			there = there || below(k, name)
		}
		l.mu.Unlock()
	}
	if !there {
		return runtime.LoggerLevel{}, runtime.NotFound("Logger %s not found.", name)
	}
	return s.effective(namesOf(name)...).shown(), nil
}

func (x setting) shown() runtime.LoggerLevel {
	out := runtime.LoggerLevel{Level: x.name}
	if x.modified != 0 {
		out.Modified = &x.modified
	}
	return out
}

// Handler passes on what the levels let through to next, which must take every level.
func (l *Levels) Handler(next slog.Handler) slog.Handler { return handler{levels: l, next: next} }

type handler struct {
	levels    *Levels
	next      slog.Handler
	logger    *logger // where the attribute says it
	connector string  // connector:NAME, where it is a connector's
	grouped   bool    // attributes are a group's and say nothing to us
}

// Enabled implements slog.Handler. Which place logs is known only with the record.
func (h handler) Enabled(_ context.Context, level slog.Level) bool {
	s := h.levels.now.Load()
	if level < s.lowest {
		return false
	}
	return h.logger == nil || level >= h.level(s, h.logger)
}

func (h handler) level(s *settings, lg *logger) slog.Level {
	if len(s.byName) == 1 {
		return s.byName[Root].level
	}
	at := s.effective(lg.names...)
	if h.connector != "" {
		if x, ok := s.byName[h.connector]; ok && x.seq > at.seq {
			at = x
		}
	}
	return at.level
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	lg := h.logger
	if lg == nil {
		lg = h.levels.place(r.PC)
	}
	if r.Level < h.level(h.levels.now.Load(), lg) {
		return nil
	}
	if r.Level < slog.LevelInfo && h.logger == nil {
		r = r.Clone()
		r.AddAttrs(slog.String("logger", lg.own)) // so that one sees what to silence again
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if h.grouped || a.Value.Kind() != slog.KindString {
			continue
		}
		switch a.Key {
		case "logger":
			h.logger = loggerOf(a.Value.String())
			h.levels.note(h.logger.own)
		case "connector":
			h.connector = connectorPrefix + a.Value.String()
		}
	}
	h.next = h.next.WithAttrs(attrs)
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	h.next, h.grouped = h.next.WithGroup(name), h.grouped || name != ""
	return h
}

var unknown = &logger{own: "unknown", names: []string{"unknown"}}

// place is the logger of a call's place.
func (l *Levels) place(pc uintptr) *logger {
	if pc == 0 {
		return unknown
	}
	if lg, ok := l.seen.Load(pc); ok {
		return lg.(*logger)
	}
	frame, _ := goruntime.CallersFrames([]uintptr{pc}).Next()
	own := nameOf(frame.Function, frame.File)
	lg := loggerOf(own)
	l.note(own)
	l.seen.Store(pc, lg)
	return lg
}

// note makes a logger one that there is.
func (l *Levels) note(own string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[own] = true
}

// nameOf is the logger of a function in a file: its package and the file.
func nameOf(function, file string) string {
	dir, rest := path.Split(function) // "millrace/runtime/", "worker.(*sourceTask).run"
	pkg, _, _ := strings.Cut(rest, ".")
	name := strings.TrimSuffix(path.Base(strings.ReplaceAll(file, `\`, "/")), ".go")
	return fmt.Sprintf("%s%s.%s", strings.ReplaceAll(dir, "/", "."), pkg, name)
}
