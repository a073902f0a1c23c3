package postgres

import (
	"context"
	"testing"
)

// OnCommit has fn called with the next write transaction, when it begins.
func (db *DB) OnCommit(fn func()) {
	db.guard = func(*batch) {
		db.guard = nil
		fn()
	}
}

// Reconnect has every statement from now on use a new connection.
func (db *DB) Reconnect() { db.pool.Reset() }

// Count returns the number of rows of a table.
func (db *DB) Count(t *testing.T, table string) (n int) {
	t.Helper()
	if err := db.pool.QueryRow(t.Context(), "select count(*) from ravenbot."+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// SessionState says what a connection keeps from one transaction to the next.
func (db *DB) SessionState(t *testing.T) (state string) {
	t.Helper()
	err := db.pool.QueryRow(t.Context(), `select (select count(*) from pg_prepared_statements) || ' prepared, limits '
		|| current_setting('statement_timeout') || ' and '
		|| current_setting('idle_in_transaction_session_timeout')`).Scan(&state)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// MigrateBy brings the tables of a store to a format behind that of this version, by SQL.
func MigrateBy(ctx context.Context, db *DB, step string) error {
	steps, err := migrations()
	if err == nil {
		_, err = db.migrateOnce(ctx, append(steps, step))
	}
	return err
}
