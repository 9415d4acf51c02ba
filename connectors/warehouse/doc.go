// Package warehouse is what the sinks that write files share: into which folder a record goes, what time it has, and how
// folders and files are called. The settings are those of Confluent's storage sinks.
package warehouse
