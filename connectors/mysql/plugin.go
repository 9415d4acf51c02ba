package mysql

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"millrace/connectors"
	"millrace/connectors/cdc"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// Source is the MySQL source connector.
var Source = connectors.SourcePlugin{
	Info: plugin.Info{
		Name:    "mysql",
		Class:   "io.debezium.connector.mysql.MySqlConnector",
		Version: schema.DebeziumVersion,
		Doc:     "Captures the rows of a MySQL server and their changes, out of its binary log.",
		Config:  definition,
	},
	TaskClass: "io.debezium.connector.mysql.MySqlConnectorTask",
	Reasons:   reasons,
	New: func(cc connectors.Context, v config.Values) (connectors.Source, error) {
		return newSource(cc, v, false)
	},
	NewTask: func(cc connectors.Context, v config.Values) (connectors.SourceTask, error) {
		return newTask(cc, v, false)
	},
}

// MariaDB is the MariaDB source connector.
var MariaDB = connectors.SourcePlugin{
	Info: plugin.Info{
		Name:    "mariadb",
		Class:   "io.debezium.connector.mariadb.MariaDbConnector",
		Version: schema.DebeziumVersion,
		Doc:     "Captures the rows of a MariaDB server and their changes, out of its binary log.",
		Config:  mariadbDefinition,
	},
	TaskClass: "io.debezium.connector.mariadb.MariaDbConnectorTask",
	Reasons:   reasons,
	New:       func(cc connectors.Context, v config.Values) (connectors.Source, error) { return newSource(cc, v, true) },
	NewTask: func(cc connectors.Context, v config.Values) (connectors.SourceTask, error) {
		return newTask(cc, v, true)
	},
}

// A source plans the one task that captures a server.
type source struct {
	v       config.Values
	cc      connectors.Context
	mariadb bool
}

var (
	_ connectors.Guarantees    = (*source)(nil)
	_ connectors.OffsetAlterer = (*source)(nil)
	_ connectors.Checker       = (*source)(nil)
)

func newSource(cc connectors.Context, v config.Values, mariadb bool) (connectors.Source, error) {
	return &source{v: v, cc: cc, mariadb: mariadb}, nil
}

// Tasks plans one task, whatever max says: a server has one log.
func (s *source) Tasks(context.Context, int) ([]map[string]string, error) {
	return []map[string]string{maps.Clone(s.v.Raw)}, nil
}

// Check implements connectors.Checker.
func (s *source) Check() []*config.Error {
	_, errs := parse(s.v, s.mariadb)
	return errs
}

// ExactlyOnce: a task resumes at the row behind its offset.
func (s *source) ExactlyOnce() bool { return true }

// Boundaries: batches do not mark the database's transactions.
func (s *source) Boundaries() bool { return false }

// AlterOffsets implements connectors.OffsetAlterer. The server keeps no position for us.
func (s *source) AlterOffsets(_ context.Context, offsets []connectors.Offset) (bool, error) {
	prefix := strings.TrimSpace(keyTopicPrefix.Get(s.v))
	ours := cdc.ServerPartition(prefix)
	for _, o := range offsets {
		if o.Position.IsNull() {
			continue
		}
		if !schema.EqualValues(o.Partition, ours) {
			return false, fmt.Errorf("the source partition of this connector is {\"server\": %q} and no other: correct the key 'server'", prefix)
		}
		if err := checkOffset(o.Position); err != nil {
			return false, err
		}
	}
	return true, nil
}
