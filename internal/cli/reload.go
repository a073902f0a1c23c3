package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"ravenbot/internal/app"
)

// pollInterval is how often the files of the configuration are looked at: a look costs
// two system calls, and works on every file system.
const pollInterval = time.Second

// fileStamp tells one state of the configuration's files from another.
type fileStamp struct {
	config, env time.Time
	sizes       [2]int64
}

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

// watchConfig takes the configuration up again when it is asked to, and when its files
// have changed and then stayed as they are for one look. A bad file keeps what
// there is at work.
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
			taken = c.stampFiles()
			c.reload(a, lg)
		case <-look.C:
			now := c.stampFiles()
			if now == seen && now != taken && now.sizes[0] > 0 {
				taken = now
				c.reload(a, lg)
			}
			seen = now
		}
	}
}

// reload reads the files and has the bot take them up.
func (c *invocation) reload(a *app.App, lg *slog.Logger) {
	cfg, err := c.loadConfig()
	if err == nil {
		err = a.Reload(cfg)
	}
	if err != nil {
		lg.Error("configuration not reloaded; what was there before goes on", "error", err)
	}
}
