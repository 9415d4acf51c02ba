// Package loggers sets what a worker logs while it runs, as Connect's /admin/loggers does.
//
// A logger is a file of ours: what log/slog writes from runtime/worker/source.go belongs to the logger
// millrace.runtime.worker.source, which lies below millrace.runtime.worker, millrace.runtime and millrace. Nobody has to name
// one: the place of the call does, or the attribute "logger" where that says something else. The loggers that users of Connect
// know (org.apache.kafka.connect.runtime.WorkerSourceTask) are second names of ours, in names.go. All that a connector and its
// tasks log belongs, too, to the logger connector:NAME.
//
// A level that is set holds for the logger and all below it, whatever was set for those before: as in Connect, where setting a
// level sets it for each logger below. So of all levels that were set for a record's loggers the last one decides, and a rule of
// precedence between two names of one logger is not needed. Nothing outlives the process.
package loggers
