// Package storage opens the store that the configuration names: a file of bbolt, or a database of
// PostgreSQL that several replicas share.
package storage

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"ravenbot/internal/config"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// Storage is an open store with what keeps copies of it.
type Storage struct {
	store.Engine
	Backups store.Backups
}

// Open opens the configured store, and makes it where none has ever been. It returns
// *store.InUseError where another process has it; of a damaged file the error names the newest backup.
func Open(ctx context.Context, c *config.Config, log *slog.Logger, now func() time.Time) (*Storage, error) {
	db, err := bolt.Open(c.Store.Reveal(), now)
	if err != nil {
		return nil, bolt.SuggestBackup(ctx, c.BackupFolder(), err)
	}
	return &Storage{db, bolt.NewBackups(db, bolt.BackupOptions{
		Folder: c.BackupFolder(),
		Every:  c.Backup.Every.Std(),
		Keep:   c.Backup.Keep,
		Log:    log,
		Now:    now,
	})}, nil
}

// errNoCopies is the answer to who wants a copy of a PostgreSQL store.
var errNoCopies = errors.New("the store is a PostgreSQL database: `pg_dump` makes copies of it, " +
	"and `ravenbot export` writes what people said and made")

// noBackups are the Backups of a store that its own server keeps copies of.
type noBackups struct{}

func (noBackups) Run(context.Context) {}

func (noBackups) Copy(context.Context) (*os.File, error) { return nil, errNoCopies }

func (noBackups) Status() store.BackupStatus { return store.BackupStatus{} }
