// Package storage opens the configured store: a bbolt file, or a PostgreSQL database that several replicas share.
package storage

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"time"

	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
	"ravenbot/internal/store/kv"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/records"
	"ravenbot/internal/store/seal"
)

// Storage is an open store with what keeps copies of it.
type Storage struct {
	store.Engine
	Backups store.Backups
	// ID names a store that several daemons use, of all that there are; "" where that cannot be told.
	ID string
}

// DB returns the store below the records, for collections that other packages own.
func (s *Storage) DB() kv.DB { return s.Engine.(kv.DB) }

var _, _ kv.DB = (*records.Store)(nil), (*Database)(nil) // the engines of a Storage

// Status returns what /api/v1/status answers of the store.
func (s *Storage) Status() any {
	status := struct {
		Bytes      int64              `json:"bytes"`
		Free       int64              `json:"freeBytes"`
		Commits    uint64             `json:"commits"` // since the start
		Checked    time.Time          `json:"checked"` // when all of it was last read
		LastBackup store.BackupStatus `json:"lastBackup"`
		Clock      string             `json:"clock,omitempty"` // what is wrong with that of this machine
		Error      string             `json:"error,omitempty"`
	}{Commits: s.Commits(), Checked: s.Checked(), LastBackup: s.Backups.Status(), Clock: s.Clock()}
	var err error
	if status.Bytes, status.Free, err = s.Size(); err == nil {
		err = s.Health()
	}
	if err != nil {
		status.Error = err.Error()
	}
	return status
}

// Open opens the configured store, and makes it where none has ever been. It returns
// *store.InUseError where another process has it; of a damaged file the error names the newest backup.
func Open(ctx context.Context, c *config.Config, log *slog.Logger, now func() time.Time) (*Storage, error) {
	if !c.UsesPostgres() {
		return openFile(ctx, c, log, now)
	}
	db, err := postgres.OpenAlone(ctx, c.Store.Reveal(), postgres.Options{Now: now, Log: log, Specs: records.Specs()})
	if err != nil {
		return nil, err
	}
	return &Storage{Engine: records.New(db), Backups: noBackups{}}, nil
}

// openFile opens the store in a file. The error of a damaged one names the newest backup that is
// good.
func openFile(ctx context.Context, c *config.Config, log *slog.Logger, now func() time.Time) (*Storage, error) {
	db, err := bolt.Open(c.Store.Reveal(), now)
	if err != nil {
		return nil, bolt.SuggestBackup(ctx, c.BackupFolder(), err)
	}
	return &Storage{Engine: records.New(db), Backups: bolt.NewBackups(db, bolt.BackupOptions{
		Folder: c.BackupFolder(),
		Every:  c.Backup.Every.Std(),
		Keep:   c.Backup.Keep,
		Log:    log,
		Now:    now,
	})}, nil
}

// OpenFile opens the store in a file without keeping copies of it. The errors are those of bolt.Open.
func OpenFile(path string, now func() time.Time) (*records.Store, error) {
	db, err := bolt.Open(path, now)
	if err != nil {
		return nil, err
	}
	return records.New(db), nil
}

// Database is an open store in a PostgreSQL database.
type Database struct {
	*records.Shared
	db *postgres.DB
}

// OpenDatabase opens the store in a database. The errors are those of postgres.Open.
func OpenDatabase(ctx context.Context, address string, o postgres.Options) (*Database, error) {
	o.Specs = records.Specs()
	db, err := postgres.Open(ctx, address, o)
	if err != nil {
		return nil, err
	}
	return &Database{records.NewShared(db), db}, nil
}

// Membership returns the part of this process among those that use the database. Call it before any other method.
func (d *Database) Membership(ctx context.Context) (store.Membership, error) {
	m, err := d.db.Membership(ctx)
	if err != nil {
		return nil, err
	}
	return records.Membership{Membership: m, Store: d.Shared}, nil
}

// Shared is an open store that several daemons use. Nothing is written before this process is a member.
type Shared struct {
	Storage
	Membership store.Membership
	Address    net.Addr // of this machine, towards the database
	// Now is the clock that all daemons go by: that of the database.
	Now func() time.Time
}

// OpenShared opens a PostgreSQL store, and makes its tables where there are none.
func OpenShared(ctx context.Context, c *config.Config, log *slog.Logger, now func() time.Time) (*Shared, error) {
	d, err := OpenDatabase(ctx, c.Store.Reveal(), postgres.Options{Now: now, Log: log})
	if err != nil {
		return nil, err
	}
	membership, err := d.Membership(ctx)
	var address net.Addr
	var id string
	if err == nil {
		address, err = d.db.LocalAddr(ctx)
	}
	if err == nil {
		id, err = d.db.ID(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return &Shared{Storage{Engine: d, Backups: noBackups{}, ID: id}, membership, address, d.Now}, nil
}

// CheckShared looks whether a replica can use the configured database, with the errors of OpenShared and OpenBox, and
// changes nothing. It returns a remark on what the next start would change or on the clock of this machine, or "".
func CheckShared(ctx context.Context, c *config.Config) (remark string, err error) {
	o := postgres.Options{Log: slog.New(slog.DiscardHandler)}
	// Tables that are not as this version needs them would be changed by Open.
	if remark, err = postgres.Check(ctx, c.Store.Reveal(), o); err != nil || remark != "" {
		return remark, err
	}
	key, err := configuredKey(c, seal.ReadKey)
	if errors.Is(err, fs.ErrNotExist) {
		// As the start does: the key is right where the database has none.
		key, err = seal.NewKey(), nil
	}
	if err != nil {
		return "", err
	}
	box, err := seal.NewBox(key)
	if err != nil {
		return "", err
	}
	db, err := OpenDatabase(ctx, c.Store.Reveal(), o)
	if err != nil {
		return "", err
	}
	return db.Clock(), errors.Join(seal.CompareKey(ctx, db, box), db.Close())
}

// configuredKey returns the key of the configuration, or the one that read finds in the file next to the store.
func configuredKey(c *config.Config, read func(path string) ([]byte, error)) ([]byte, error) {
	if text := c.StoreKey.Reveal(); text != "" {
		return seal.ParseKey(text)
	}
	return read(c.StorePath() + keySuffix)
}

// keySuffix is added to the store's path for the file with the key that its secrets are encrypted with.
const keySuffix = ".key"

// OpenBox returns what encrypts secrets in the store, with the configured key or the one in the file next to it. Of a
// shared store it returns an error where the key is another one than that of the first process.
func OpenBox(ctx context.Context, c *config.Config, s store.Store) (*seal.Box, error) {
	key, err := configuredKey(c, seal.LoadKey)
	if err != nil {
		return nil, err
	}
	box, err := seal.NewBox(key)
	if err != nil || !c.UsesPostgres() {
		return box, err
	}
	return box, seal.CheckKey(ctx, s, box)
}

// noCopiesError is the answer to who wants a copy of a PostgreSQL store.
type noCopiesError struct{}

func (noCopiesError) Error() string {
	return "the store is a PostgreSQL database: `pg_dump` makes copies of it, and `ravenbot export` writes what people " +
		"said and made"
}

// BadInput reports true: there is nothing wrong with the store.
func (noCopiesError) BadInput() bool { return true }

// noBackups are the Backups of a store that its own server keeps copies of.
type noBackups struct{}

// Run returns at once: the operator backs up the database.
func (noBackups) Run(context.Context) {}

// Copy returns a noCopiesError, which says what to use instead.
func (noBackups) Copy(context.Context) (*os.File, error) { return nil, noCopiesError{} }

// Make returns a noCopiesError.
func (noBackups) Make(context.Context) error { return noCopiesError{} }

// List returns nothing.
func (noBackups) List() []store.BackupStatus { return nil }

// Status returns the zero status: there is no folder.
func (noBackups) Status() store.BackupStatus { return store.BackupStatus{} }
