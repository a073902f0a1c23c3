package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// backup copies the store to a file, which must not exist without --overwrite. The copy is checked before it gets its
// name, so that a file of that name is always a whole store.
func backup(ctx context.Context, c *invocation) error {
	file := c.args[0]
	cfg, err := c.checkOverwrite(file)
	if err != nil {
		return err
	}
	if _, err = os.Lstat(file); err == nil {
		err = replaceBackup(ctx, c, cfg, file)
	} else {
		err = copyStore(ctx, c, cfg, file)
	}
	if err != nil {
		return err
	}
	// The size is printed so that an empty copy is noticed.
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s holds a checked copy of the store, %d bytes.\n", file, info.Size())
	return nil
}

// replaceBackup copies the store to a file that is there, which is replaced only once the copy is complete.
func replaceBackup(ctx context.Context, c *invocation, cfg *config.Config, file string) (err error) {
	// A folder of its own: what is left when the program is killed stands in the way of no later backup.
	folder, err := os.MkdirTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	made := filepath.Join(folder, filepath.Base(file))
	if err := copyStore(ctx, c, cfg, made); err != nil {
		return err
	}
	if err := os.Rename(made, file); err != nil {
		return err
	}
	return store.SyncFolder(filepath.Dir(file))
}

// copyStore has the running daemon copy its store, or copies it here when none runs, to a file that must not exist. It
// returns a usage error for a database, and an error that wraps *store.InUseError where another process has the store
// open and does not answer.
func copyStore(ctx context.Context, c *invocation, cfg *config.Config, file string) error {
	path, err := storeFile(cfg, "`pg_dump` makes a backup, and `ravenbot store migrate` makes a file of it")
	if err != nil {
		return err
	}
	d, err := findDaemon(ctx, cfg)
	if errors.Is(err, errNoDaemon) {
		// The store may be locked by a daemon that listens elsewhere; the message says where it was looked for.
		err = bolt.BackupFile(ctx, path, file)
		return c.explainInUse(cfg, bolt.SuggestBackup(ctx, cfg.BackupFolder(), err))
	}
	if err != nil {
		return err
	}
	res, err := d.do(ctx, http.MethodPost, "/api/v1/backup", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return bolt.Receive(ctx, res.Body, file)
}

// explainInUse adds to the error of a store in use where its daemon was looked for. It returns other errors
// as they are.
func (c *invocation) explainInUse(cfg *config.Config, err error) error {
	var inUse *store.InUseError
	if errors.As(err, &inUse) {
		return fmt.Errorf("%w. If that is a running ravenbot, it does not answer at %s, the http.listen of %s", err,
			cfg.HTTP.Listen, c.config)
	}
	return err
}

// restore puts a backup in the place of the store, which is kept under another name. It returns *store.InUseError while
// a daemon runs.
func restore(ctx context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	path, err := storeFile(cfg, "`pg_restore` puts a backup in its place")
	if err != nil {
		return err
	}
	// The daemon would go on writing to the file that was moved away.
	switch _, err := findOwnDaemon(ctx, cfg); {
	case err == nil:
		return &store.InUseError{Path: path}
	case !errors.Is(err, errNoDaemon):
		return err
	}
	kept, err := bolt.Restore(ctx, c.args[0], path, time.Now())
	if err != nil {
		return c.explainInUse(cfg, err)
	}
	fmt.Fprintf(c.Out, "%s now holds the backup %s.\n", path, c.args[0])
	if kept != "" {
		fmt.Fprintf(c.Out, "The previous store is kept as %s.\n", kept)
	}
	return nil
}
