package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// OnCommit has fn called with the next write transaction, when it begins.
func (db *DB) OnCommit(fn func()) {
	db.guard = func(*pgx.Batch) {
		db.guard = nil
		fn()
	}
}

// Count returns the number of rows of a table.
func (db *DB) Count(t *testing.T, table string) (n int) {
	t.Helper()
	if err := db.pool.QueryRow(t.Context(), "select count(*) from ravenbot."+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
