package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/store"
)

// The format of the tables is a number in the database. The rule for a change: a new table, and a new
// column with a default that an older version may leave alone, need a file in migrations with the next
// number; so does every other change. Files are never changed. A version opens databases of its own number
// and of all before it, which it brings to its own, one file a transaction, and refuses later ones.

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations returns the SQL that brings the tables to format 1, 2 and so on.
func migrations() ([]string, error) {
	files, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	var list []string
	for i, f := range files { // by name
		if want := fmt.Sprintf("%04d.sql", i+1); f.Name() != want {
			return nil, fmt.Errorf("the migration %s is not %s", f.Name(), want)
		}
		text, err := fs.ReadFile(migrationFiles, "migrations/"+f.Name())
		if err != nil {
			return nil, err
		}
		list = append(list, string(text))
	}
	return list, nil
}

// maxMigration bounds one step of a migration, which may rewrite a large table.
const maxMigration = 30 * time.Minute

// migrate brings the tables to the format of this version. Processes that start at the same time wait for
// one another at the row that holds the number.
func (db *DB) migrate(ctx context.Context) error {
	if err := db.checkServer(ctx); err != nil {
		return err
	}
	steps, err := migrations()
	if err != nil {
		return fmt.Errorf("read the migrations of the store: %w", err)
	}
	format, err := db.readFormat(ctx)
	if err != nil {
		return err
	}
	if format < 0 {
		if err := db.createFormat(ctx); err != nil {
			return err
		}
	}
	for format < len(steps) {
		if format, err = db.migrateOnce(ctx, steps); err != nil {
			return fmt.Errorf("bring the store %s to a newer format: %w", db.name, db.explain(err))
		}
	}
	if format > len(steps) {
		return &store.NewerError{Path: db.name, Format: format, Known: len(steps)}
	}
	return nil
}

// isOlder reports whether there are tables, of a format that migrate changes.
func (db *DB) isOlder(ctx context.Context) (bool, error) {
	steps, err := migrations()
	if err != nil {
		return false, err
	}
	format, err := db.readFormat(ctx)
	return format >= 0 && format < len(steps), err
}

// readFormat returns the format of the tables; -1: there are none.
func (db *DB) readFormat(ctx context.Context) (format int, err error) {
	err = db.read(ctx, func(ctx context.Context) error {
		err := db.pool.QueryRow(ctx, `select number from ravenbot.format`).Scan(&format)
		// An undefined schema or table, or a first start that another process has not finished.
		if isCode(err, "3F000", "42P01") || errors.Is(err, pgx.ErrNoRows) {
			format, err = -1, nil
		}
		return err
	})
	return format, err
}

// isCode reports whether the server returned one of some errors.
func isCode(err error, codes ...string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && slices.Contains(codes, refused.Code)
}

// createFormat creates the schema and the row with the number of the format.
func (db *DB) createFormat(ctx context.Context) error {
	return db.retry(ctx, db.timeout, func(ctx context.Context) error {
		// Creating a schema that is there needs the right to create one all the same.
		var exists bool
		err := db.pool.QueryRow(ctx, `select exists (select from pg_namespace where nspname = 'ravenbot')`).Scan(&exists)
		if err == nil && !exists {
			_, err = db.pool.Exec(ctx, `create schema if not exists ravenbot`)
		}
		if err == nil {
			_, err = db.pool.Exec(ctx, `create table if not exists ravenbot.format (
				one boolean primary key default true check (one),
				number int not null,
				state text not null default 'ready'
			); insert into ravenbot.format (number) values (0) on conflict do nothing`)
		}
		// Of several processes that create the same thing at once, PostgreSQL lets all but one fail.
		if isCode(err, "23505", "42P06", "42P07", "42710", "XX000") {
			return &conflictError{err}
		}
		return err
	})
}

// migrateOnce takes the next step, in a transaction of its own, and returns the format that the tables have then.
func (db *DB) migrateOnce(ctx context.Context, steps []string) (format int, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxMigration)
	defer cancel()
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	err = pgx.BeginTxFunc(ctx, db.pool, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, limitTx, "0", "0"); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `select number from ravenbot.format for update`).Scan(&format); err != nil {
			return err
		}
		if format >= len(steps) {
			return nil // another process was first
		}
		if _, err := tx.Exec(ctx, steps[format]); err != nil {
			return err
		}
		format++
		_, err := tx.Exec(ctx, `update ravenbot.format set number = $1`, format)
		return err
	})
	return format, err
}

// ready is the state of a store that daemons may use; incomplete that of one that a migration from another
// store has not filled yet.
const (
	ready      = "ready"
	incomplete = "incomplete"
)

// checkState returns an error where daemons may not use the tables: they are gone, a later version has
// changed them, or a migration from another store was cut off.
func (db *DB) checkState(ctx context.Context) error {
	steps, err := migrations()
	if err != nil {
		return err
	}
	var format int
	var state string
	err = db.read(ctx, func(ctx context.Context) error {
		return db.pool.QueryRow(ctx, `select number, state from ravenbot.format`).Scan(&format, &state)
	})
	switch {
	case err != nil:
		return err
	case format > len(steps):
		return &store.NewerError{Path: db.name, Format: format, Known: len(steps)}
	case state != ready:
		return &store.DamagedError{Path: db.name, What: "a migration into it was cut off",
			Remedy: "run ravenbot store migrate again, which begins from the start"}
	}
	return nil
}
