package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"ravenbot/internal/app"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/testing/sandbox"
)

func sandboxFlags(c *invocation) {
	c.flags.String("listen", "",
		"the `ADDRESS` of the page and the API; without it: 127.0.0.1:8080, or a free port where that is taken")
	c.flags.String("store", "", "keep the store in the folder `DIR`; without it, in a folder that is removed at the end")
}

// runSandbox runs the daemon in a simulated world until it is interrupted. It leaves nothing behind but a
// store that --store names.
func runSandbox(ctx context.Context, c *invocation) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // a terminal that was closed
	defer stop()
	dir, err := os.MkdirTemp("", "ravenbot-sandbox-")
	if err != nil {
		return fmt.Errorf("make a folder for the sandbox: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w, err := sandbox.New()
	if err != nil {
		return err
	}
	defer w.Close()
	path, err := c.writeSandboxConfig(w, dir)
	if err != nil {
		return err
	}
	cfg, err := config.Load(path,
		// No variable of the environment: the sandbox must never see a real token.
		config.Options{Env: func(string) (string, bool) { return "", false }, Checks: configChecks()})
	if err != nil {
		return err
	}
	token, _, err := cfg.AdminToken()
	if err != nil {
		return err
	}
	lg := newLogger(c.Err, cfg.Log)
	c.tuneCollector(lg)
	watch := newWatchdog(lg)
	defer watch.Close()
	a, err := app.New(app.Options{
		Config:  cfg,
		Token:   token.Reveal(),
		Version: version,
		Log:     lg,
		Now:     time.Now,
		ReadPDF: readPDF,
		Watcher: watch,
	})
	if err != nil {
		return err
	}
	if err = a.Listen(); err == nil {
		err = c.runInWorld(ctx, w, a, path)
	}
	return errors.Join(err, a.Close())
}

// writeSandboxConfig writes the configuration of the sandbox and returns its path.
func (c *invocation) writeSandboxConfig(w *sandbox.World, dir string) (string, error) {
	listen := c.flagText("listen")
	if listen == "" {
		listen = freeAddressOr("127.0.0.1:8080")
	}
	store := dir
	if kept := c.flagText("store"); kept != "" {
		var err error
		if store, err = filepath.Abs(kept); err != nil {
			return "", err
		}
		if err := os.MkdirAll(store, 0o700); err != nil {
			return "", fmt.Errorf("make the folder of the store: %w", err)
		}
	}
	text, err := w.Config(listen, filepath.Join(store, "ravenbot.db"))
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "config.json")
	return path, os.WriteFile(path, text, 0o600)
}

// freeAddressOr returns wanted when nobody listens there, and otherwise the same host with port 0, for which the system
// chooses a free port.
func freeAddressOr(wanted string) string {
	l, err := net.Listen("tcp", wanted)
	if err != nil {
		host, _, _ := net.SplitHostPort(wanted)
		return net.JoinHostPort(host, "0")
	}
	// Another program may take the port before the bot does; then the bot reports it.
	_ = l.Close() // nothing was said on it
	return wanted
}

// runInWorld runs the bot and lets a person talk with it. It returns when both have ended.
func (c *invocation) runInWorld(ctx context.Context, w *sandbox.World, a *app.App, path string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	fmt.Fprintf(c.Out, "A simulated world: a Discord, a Slack, a language model that only repeats, and feeds. "+
		"Nothing of it leaves this machine.\n"+
		"Open the chat page, once, with: %s\n"+
		"Other commands reach this bot with --config %s, such as: ravenbot digest list --config %s\n\n%s\n"+
		"Ctrl-C ends it.\n",
		a.LoginLink(), path, path, sandbox.Help)
	var wg sync.WaitGroup
	wg.Go(func() {
		// Before the platforms are connected, nobody would answer what is typed.
		if w.WaitReady(ctx) != nil {
			return // it ends
		}
		fmt.Fprintf(c.Out, "ready: http://%s, platforms discord, slack, web\n", a.Addr())
		terminal, ok := c.In.(*os.File)
		if ok {
			info, err := terminal.Stat()
			ok = err == nil && info.Mode()&os.ModeCharDevice != 0
		}
		w.Talk(ctx, interruptibleReader{ctx, c.In}, c.Out, ok)
	})
	err := a.Run(ctx)
	stop()
	wg.Wait()
	return err
}
