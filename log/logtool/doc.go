// Package logtool looks at the data directory of an embedded log that no process serves: it verifies every byte, shows what is
// there, and repairs what recovery must not touch by itself. Verify and Dump write nothing at all, not even into the directory's
// lock file; Repair keeps every byte that it takes out. All of them refuse a directory that a process has.
//
// The formats are those of package store (log/DESIGN.md, sections 3 and 5); what the files hold may be anything.
package logtool
