package app

import (
	"context"
	"errors"
	"path/filepath"

	"ravenbot/internal/admin"
	"ravenbot/internal/store/bolt"
)

// openStore opens the store; a damaged one names the backup to go back to.
func openStore(o Options) (*bolt.DB, error) {
	db, err := bolt.Open(o.Config.Store.Reveal(), o.Now)
	if err != nil {
		return nil, bolt.WayBack(context.Background(), o.Config.BackupFolder(), err)
	}
	return db, nil
}

func backupsOf(db *bolt.DB, o Options) *bolt.Backups {
	return bolt.NewBackups(db, bolt.BackupOptions{Folder: o.Config.BackupFolder(), Every: o.Config.Backup.Every.Std(),
		Keep: o.Config.Backup.Keep, Log: o.Log, Now: o.Now})
}

// copyStore makes a copy of the store for the API.
func (a *App) copyStore(ctx context.Context) (admin.Copy, error) {
	f, err := a.backups.Copy(ctx)
	if err != nil {
		return admin.Copy{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return admin.Copy{}, errors.Join(err, f.Close())
	}
	return admin.Copy{ReadCloser: f, Name: filepath.Base(a.conf().Store.Reveal()), Bytes: info.Size()}, nil
}

// storeStatus is what /api/v1/status tells of the store.
func (a *App) storeStatus() any {
	status := struct {
		Bytes      int64             `json:"bytes"`
		Free       int64             `json:"freeBytes"`
		Commits    uint64            `json:"commits"` // since the start
		LastBackup bolt.BackupStatus `json:"lastBackup"`
		Error      string            `json:"error,omitempty"`
	}{Commits: a.store.Commits(), LastBackup: a.backups.Status()}
	var err error
	if status.Bytes, status.Free, err = a.store.Size(); err != nil {
		status.Error = err.Error()
	}
	return status
}
