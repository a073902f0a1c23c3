package cli

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"ravenbot/internal/app"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/ops/watchdog"
)

// newLogger returns a logger as configured. What libraries print through the standard log goes to the debug level, and
// stays so for the whole process.
func newLogger(w io.Writer, c config.Log) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // checked by config
	o := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(w, o)
	if c.Format == "json" {
		h = slog.NewJSONHandler(w, o)
	}
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(h, slog.LevelDebug).Writer())
	return slog.New(h)
}

// runDaemon runs the daemon until ctx ends, which is no error.
func runDaemon(ctx context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	token, created, err := cfg.AdminToken()
	if err != nil {
		return err
	}
	lg := newLogger(c.Err, cfg.Log)
	c.tuneCollector(lg)
	// After the configuration was read, and before any tool server starts.
	if err := closeProcess(); err != nil {
		lg.Warn("secrets are not closed to tool servers", "error", err)
	}
	if err := c.checkTimeZone(); err != nil {
		lg.Warn("time zone not known", "remedy", timeZoneRemedy, "error", err)
	}
	w := newWatchdog(lg)
	defer w.Close()
	// Also where the bot cannot start, and ctx does not end.
	running, stop := context.WithCancel(ctx)
	var reaping sync.WaitGroup
	defer func() { stop(); reaping.Wait() }()
	reaping.Go(func() { watchdog.ReapOrphans(running) })
	o := app.Options{
		Config:  cfg,
		Token:   token.Reveal(),
		Version: version,
		Log:     lg,
		Now:     time.Now,
		ReadPDF: readPDF,
		Watcher: w,
	}
	if created {
		lg.Info("admin token created", "file", cfg.TokenPath())
	}
	if models := cfg.AskedModels(); len(models) > 0 {
		// A request at each start would cost money, and say nothing of the next minute.
		lg.Info("models are first asked at a message or a digest; ravenbot doctor asks each for one word", "models", models)
	}
	if cfg.UsesPostgres() {
		return c.runReplica(ctx, o)
	}
	return c.runApp(ctx, o)
}

// runApp runs the bot until ctx ends.
func (c *invocation) runApp(ctx context.Context, o app.Options) error {
	a, err := app.New(o)
	if err != nil {
		return err
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { c.watchConfig(watching, hangup, a, o.Log); close(watched) }()
	// A reload must not reach the bot while it is being closed.
	defer func() { signal.Stop(hangup); stop(); <-watched }()
	// Listen before Run: a second daemon on the same port ends before it touches any platform.
	if err = a.Listen(); err == nil {
		c.printLogin(a.LoginLink)
		err = a.Run(ctx)
	}
	o.Log.Info("stopped")
	return errors.Join(err, a.Close())
}
