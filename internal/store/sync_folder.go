package store

import (
	"errors"
	"os"
	"syscall"
)

// SyncFolder makes the names of the files in a folder durable, where the system can do that. It returns an error where
// the folder cannot be opened, or the disk fails.
func SyncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if !errors.Is(err, syscall.EIO) {
		err = nil // not every file system supports it for folders
	}
	return errors.Join(err, f.Close())
}
