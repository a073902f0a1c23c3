package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"time"

	"ravenbot/internal/config"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

func backupFlags(c *invocation) {
	c.flags.Bool("overwrite", false, "take the place of a FILE that is there")
}

func backup(ctx context.Context, c *invocation) error {
	file := c.args[0]
	over := c.flagOn("overwrite")
	if _, err := os.Lstat(file); !over && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%s is there already: name another file, or say --overwrite", file))
	}
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	if !over {
		err = copyStore(ctx, c, cfg, file)
	} else if err = copyStore(ctx, c, cfg, file+".new"); err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s holds a copy of the store, %d bytes, and was read as a whole.\n", file, info.Size())
	return nil
}

// copyStore has the running daemon make a copy of its store, or makes one here.
func copyStore(ctx context.Context, c *invocation, cfg *config.Config, file string) error {
	d, err := findDaemon(ctx, cfg)
	if errors.Is(err, errNoDaemon) {
		return c.explainInUse(cfg, bolt.SuggestBackup(ctx, cfg.BackupFolder(), bolt.BackupFile(ctx, cfg.Store.Reveal(), file)))
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

// explainInUse says of a store that is in use and whose daemon was not found where that may
// be.
func (c *invocation) explainInUse(cfg *config.Config, err error) error {
	var inUse *store.InUseError
	if errors.As(err, &inUse) {
		return fmt.Errorf("%w. If that is a running ravenbot, it does not answer at %s, the http.listen of %s", err,
			cfg.HTTP.Listen, c.config)
	}
	return err
}

func restore(ctx context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	path := cfg.Store.Reveal()
	switch _, err := findDaemon(ctx, cfg); {
	case err == nil:
		return &store.InUseError{Path: path}
	case !errors.Is(err, errNoDaemon):
		return err
	}
	kept, err := bolt.Restore(ctx, c.args[0], path, time.Now())
	if err != nil {
		return c.explainInUse(cfg, err)
	}
	fmt.Fprintf(c.Out, "%s is the store of %s again.\n", path, c.args[0])
	if kept != "" {
		fmt.Fprintf(c.Out, "What it was before is kept as %s.\n", kept)
	}
	return nil
}
