package store

import (
	"errors"
	"os"
	"syscall"
)

// SyncFolder makes the names of the files in a folder durable, if the system supports that. It returns an error if it
// cannot open the folder, or the disk fails.
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
