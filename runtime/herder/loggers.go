package herder

import (
	"context"
	"strings"

	"millrace/runtime"
	"millrace/runtime/loggers"
)

// Loggers are the levels of this worker's loggers.
func (h *Herder) Loggers() map[string]runtime.LoggerLevel { return h.levels.All() }

// Logger is the level of one of them.
func (h *Herder) Logger(name string) (runtime.LoggerLevel, error) { return h.levels.Get(name) }

// SetLogger sets the level of a logger and all below it on this worker, and returns
// their names.
func (h *Herder) SetLogger(name, level string) ([]string, error) { return h.levels.Set(name, level) }

// SetClusterLogger sets the level on all workers of the group, through the config topic.
func (h *Herder) SetClusterLogger(ctx context.Context, name, level string) error {
	if !loggers.Valid(level) {
		return loggers.InvalidLevel(level)
	}
	return h.configs.PutLogger(ctx, name, strings.ToUpper(strings.TrimSpace(level)))
}

// loggerAsked does what a worker of the group was asked to do on all of them.
func (h *Herder) loggerAsked(name, level string) {
	if _, err := h.levels.Set(name, level); err != nil {
		h.lg.Warn("the level of a logger, which the config topic sets for all workers, is not taken", "logger", name, "level", level, "err", err)
	}
}
