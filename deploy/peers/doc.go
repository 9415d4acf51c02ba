// Package peers gives tests the real servers that Millrace must get along with.
//
//	pg := peers.Postgres(t)                // one server for all test processes of a run
//	db := pg.NewDatabase(t)                // a database of this test's own, dropped at its end
//	conn, err := pgx.Connect(ctx, pg.DSN(db))
//
// The environment decides what a test does that asks for a peer. MILLRACE_PEERS=required, which `make test` sets,
// starts it and fails the test if it cannot be started; MILLRACE_PEERS=try skips the test then; without the variable the
// test is skipped at once, so that a bare `go test` neither installs packages nor starts servers.
//
// Shared servers start with the first test that asks and go when the run ends: under `make test` at once, else when no
// test process has used them for half a minute. Nothing of what a test makes on one may collide with another test's:
// take databases from NewDatabase, name roles, topics, groups and indices with Unique, and change no server setting.
// Servers of a test's own (PostgresOwn, MySQLOwn, MariaDBOwn, KafkaOwn, SearchOwn, HDFSOwn) may be stopped, killed, halted and
// started again; they die with the test process, whatever happens to it.
//
// Only _test.go files import this package.
package peers
