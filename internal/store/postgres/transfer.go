package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// OpenSource opens a store to be read as a whole, and keeps daemons from joining its replicas until Close. It returns a
// *store.InUseError where a daemon is connected to the database.
func OpenSource(ctx context.Context, address string, o Options) (*DB, error) {
	db, err := openForMigration(ctx, address, o)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := db.checkState(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), db.Close())
	}
	return db, nil
}

// OpenTarget opens an empty database to be filled with the records of another store, and one that a migration
// has begun to fill, which is emptied. It returns store.ErrExists where there is a store that holds anything,
// and a *store.InUseError where a daemon is connected to it.
func OpenTarget(ctx context.Context, address string, o Options) (*DB, error) {
	db, err := openForMigration(ctx, address, o)
	if err != nil {
		return nil, fmt.Errorf("open store to be filled: %w", err)
	}
	if err := db.begin(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store to be filled: %w", err), db.Close())
	}
	return db, nil
}

// openForMigration connects to a database that no daemon uses, brings its tables to the format of this version, and keeps
// others from it until Close.
func openForMigration(ctx context.Context, address string, o Options) (*DB, error) {
	o.application = migratorName
	db, err := connect(ctx, address, o)
	if err != nil {
		return nil, err
	}
	// First: daemons of the version before would be refused by tables of another format.
	if err = db.checkUnused(ctx); err == nil {
		err = db.migrate(ctx)
	}
	if err == nil {
		err = db.createCollections(ctx)
	}
	if err == nil {
		err = db.joinAlone(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// joinAlone makes this process the only one that may write. It waits until the time of one that was killed is over: a
// migration that was cut off is repeated at once.
func (db *DB) joinAlone(ctx context.Context) error {
	m, err := db.Membership(ctx)
	if err != nil {
		return err
	}
	m.alone = true
	for began := time.Now(); ; {
		_, err := m.Join(ctx, "")
		if _, isInUse := errors.AsType[*store.InUseError](err); !isInUse || time.Since(began) > memberTime {
			return err
		}
		if err := wait(ctx, maxPause); err != nil {
			return err
		}
	}
}

// CheckAlone returns an error where this process was to be the only one, and others have joined meanwhile, since it was
// paused or cut off.
func (db *DB) CheckAlone(ctx context.Context) error {
	if db.members == nil || !db.members.alone {
		return nil
	}
	if err := db.Owned(); err != nil {
		return err
	}
	living, err := db.members.Replicas(ctx)
	for _, r := range living {
		if r.ID != db.owner() {
			return &store.InUseError{Path: db.name, By: r}
		}
	}
	return err
}

// The names by which the server lists the connections of daemons and of migrations.
const (
	daemonName   = "ravenbot"
	migratorName = "ravenbot store migrate"
)

// maxLinger is for how long the connections of a daemon that has ended may still be listed.
const maxLinger = 5 * time.Second

// checkUnused returns a *store.InUseError where a daemon is connected to the database.
func (db *DB) checkUnused(ctx context.Context) error {
	for began := time.Now(); ; {
		var daemons int
		err := db.read(ctx, func(ctx context.Context) error {
			return db.pool.QueryRow(ctx, `select count(*) from pg_stat_activity
				where datname = current_database() and application_name = $1`, daemonName).Scan(&daemons)
		})
		switch {
		case err != nil || daemons == 0:
			return err
		case time.Since(began) > maxLinger:
			return &store.InUseError{Path: db.name}
		}
		if err := wait(ctx, maxPause); err != nil {
			return err
		}
	}
}

// begin marks the store as incomplete, and empties it where it was before.
func (db *DB) begin(ctx context.Context) error {
	return db.write(ctx, func(t *tx) error {
		var state string
		found := map[string]columns{}
		err := t.send(func(b *batch) {
			b.Queue(`select state from ravenbot.format for update`).
				QueryRow(func(row pgx.Row) error { return row.Scan(&state) })
			b.Queue(listCollections).Query(scanCollections(found))
		})
		tables, holdsAny := "ravenbot.numbers", false
		for name := range found {
			tables += ", " + tableOf(&kv.Spec{Name: name})
		}
		if err == nil && state == ready {
			err = t.send(func(b *batch) {
				for _, table := range strings.Split(tables, ", ") {
					b.Queue(`select exists (select from ` + table + `)`).QueryRow(func(row pgx.Row) error {
						var holds bool
						err := row.Scan(&holds)
						holdsAny = holdsAny || holds
						return err
					})
				}
			})
		}
		if err == nil && holdsAny {
			err = fmt.Errorf("%s holds records: %w", db.name, store.ErrExists)
		}
		if err != nil {
			return err
		}
		return t.send(func(b *batch) {
			b.Queue(`update ravenbot.format set state = $1`, incomplete)
			b.Queue(`truncate ` + tables)
			for _, s := range db.specs {
				if !s.Grouped {
					b.Queue(`alter sequence ` + sequenceOf(s) + ` restart`)
				}
			}
		})
	})
}

// Complete marks a store that OpenTarget returned as filled.
func (db *DB) Complete(ctx context.Context) error {
	err := db.write(ctx, func(t *tx) error {
		_, err := t.exec(`update ravenbot.format set state = $1`, ready)
		return err
	})
	if err != nil {
		return fmt.Errorf("complete store: %w", err)
	}
	return nil
}
