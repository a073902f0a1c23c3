package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/store"
)

// Check looks whether a database can be opened, with the errors of Open, and changes nothing in it. It returns a remark
// on what the next start would change, or "".
func Check(ctx context.Context, address string, o Options) (remark string, err error) {
	db, err := connect(ctx, address, o)
	if err != nil {
		return "", err
	}
	defer db.pool.Close()
	if remark, err = db.checkDatabase(ctx); err != nil {
		return "", fmt.Errorf("look at store: %w", err)
	}
	return remark, nil
}

// checkDatabase is Check of a database that is connected.
func (db *DB) checkDatabase(ctx context.Context) (remark string, err error) {
	if err := db.checkServer(ctx); err != nil {
		return "", err
	}
	format, err := db.readFormat(ctx)
	if err != nil {
		return "", err
	}
	steps, err := migrations()
	switch {
	case err != nil:
		return "", err
	case format > len(steps):
		return "", &store.NewerError{Path: db.name, Format: format, Known: len(steps)}
	case format < 0:
		return "the first start makes its tables", db.checkRights(ctx)
	case format < len(steps):
		return fmt.Sprintf("the next start of this version brings its tables from format %d to %d, which stops replicas of "+
			"the version before", format, len(steps)), db.checkRights(ctx)
	}
	return "", db.checkState(ctx)
}

// checkRights returns an error where the user may not make tables.
func (db *DB) checkRights(ctx context.Context) error {
	var may bool
	err := db.read(ctx, func(ctx context.Context) error {
		return db.pool.QueryRow(ctx, `select coalesce(
			(select has_schema_privilege(oid, 'CREATE') from pg_namespace where nspname = 'ravenbot'),
			has_database_privilege(current_database(), 'CREATE'))`).Scan(&may)
	})
	if err == nil && !may {
		err = db.explain(&pgconn.PgError{Severity: "ERROR", Code: "42501", Message: "permission denied to create tables"})
	}
	return err
}
