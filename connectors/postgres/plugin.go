package postgres

import (
	"context"

	"millrace/connectors"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// Source is the Postgres source connector.
var Source = connectors.SourcePlugin{
	Info: plugin.Info{
		Name:    "postgres",
		Class:   "io.debezium.connector.postgresql.PostgresConnector",
		Aliases: []string{"postgresql"},
		Version: schema.DebeziumVersion,
		Doc:     "Captures the rows of a Postgres database and their changes, through logical decoding.",
		Config:  definition,
	},
	TaskClass: "io.debezium.connector.postgresql.PostgresConnectorTask",
	Reasons:   reasons,
	New:       newSource,
	NewTask:   newTask,
}

// A source plans the one task that captures a database.
type source struct {
	v  config.Values
	cc connectors.Context
}

var (
	_ connectors.Validator     = (*source)(nil)
	_ connectors.Guarantees    = (*source)(nil)
	_ connectors.OffsetAlterer = (*source)(nil)
	_ connectors.Checker       = (*source)(nil)
)

func newSource(cc connectors.Context, v config.Values) (connectors.Source, error) {
	return &source{v: v, cc: cc}, nil
}

// Tasks plans one task, whatever max says: a slot has one reader.
func (s *source) Tasks(context.Context, int) ([]map[string]string, error) {
	one := make(map[string]string, len(s.v.Raw))
	for k, v := range s.v.Raw {
		one[k] = v
	}
	return []map[string]string{one}, nil
}

// Check implements connectors.Checker.
func (s *source) Check() []*config.Error {
	_, errs := parse(s.v)
	return errs
}

// ExactlyOnce: a task resumes at the row behind its offset.
func (s *source) ExactlyOnce() bool { return true }

// Boundaries: batches do not mark the database's transactions.
func (s *source) Boundaries() bool { return false }
