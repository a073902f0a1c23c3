package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"ravenbot/internal/app"
)

// pollInterval is how often the files of the configuration are checked. A check costs two system calls, and unlike
// file notifications it works on every file system.
const pollInterval = time.Second

// fileStamp identifies a state of the configuration's files.
type fileStamp struct {
	config, env time.Time
	sizes       [2]int64
}

// stampFiles returns the present stamp. A file that is missing counts as empty.
func (c *invocation) stampFiles() fileStamp {
	var s fileStamp
	for i, path := range []string{c.config, filepath.Join(filepath.Dir(c.config), ".env")} {
		info, err := os.Stat(path)
		if err != nil {
			continue // gone for a moment, while an editor replaces it
		}
		s.sizes[i] = info.Size()
		if i == 0 {
			s.config = info.ModTime()
		} else {
			s.env = info.ModTime()
		}
	}
	return s
}

// watchConfig reloads the configuration on hangup, and when its files have changed and then stayed the same
// for one interval. A configuration that is wrong is not used.
func (c *invocation) watchConfig(ctx context.Context, hangup <-chan os.Signal, a *app.App, lg *slog.Logger) {
	taken := c.stampFiles()
	seen := taken
	look := time.NewTicker(pollInterval)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			// Stamped before the files are read: a change in between is noticed at the next look.
			taken = c.stampFiles()
			c.reload(a, lg)
		case <-look.C:
			now := c.stampFiles()
			// Editors write in several steps: wait until the files rest, and skip one that is empty.
			if now == seen && now != taken && now.sizes[0] > 0 {
				taken = now
				c.reload(a, lg)
			}
			seen = now
		}
	}
}

// reload loads the configuration and applies it to the running bot. Where either fails, it logs the error, and the bot
// keeps the previous configuration.
func (c *invocation) reload(a *app.App, lg *slog.Logger) {
	cfg, err := c.loadConfig()
	if err == nil {
		err = a.Reload(cfg)
	}
	if err != nil {
		lg.Error("configuration not reloaded, the previous one stays in use", "error", err)
	}
}
