package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"ravenbot/adapters/terminal"
	"ravenbot/internal/app"
	"ravenbot/internal/core/text"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
)

func previewFlags(c *invocation) {
	jsonFlag(c)
	c.flags.Bool("explain", false, "say for every item why it is or is not posted")
}

// openLocal opens the store and returns a bot that is not running and that nothing outside can reach. The caller closes
// it. It returns an error that wraps *store.InUseError where another process has the store open.
func openLocal(c *invocation, cfg *config.Config) (*app.App, error) {
	// Only warnings: the log would hide the output of a short command.
	lg := slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	a, err := app.New(app.Options{
		Config:  cfg,
		Version: version,
		Log:     lg,
		Now:     time.Now,
		Local:   true,
		ReadPDF: readPDF,
		Watcher: newWatchdog(lg),
	})
	return a, c.explainInUse(cfg, err)
}

// loadDigests returns the digests of the running daemon, or those of the store when none runs.
func (c *invocation) loadDigests(ctx context.Context, cfg *config.Config) ([]digest.Info, error) {
	var list struct{ Items []digest.Info }
	d, err := findDaemon(ctx, cfg)
	switch {
	case err == nil:
		list.Items, err = requestList[digest.Info](ctx, d, "/api/v1/digests")
	case errors.Is(err, errNoDaemon):
		var a *app.App
		if a, err = openLocal(c, cfg); err != nil {
			return nil, err
		}
		list.Items, err = a.Digests().List(ctx)
		err = errors.Join(err, a.Close())
	}
	return list.Items, err
}

// listDigests prints the digests with their next and last run.
func listDigests(ctx context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	list, err := c.loadDigests(ctx, cfg)
	if err != nil {
		return err
	}
	if c.json {
		return writeItems(c.Out, list)
	}
	t := tabwriter.NewWriter(c.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSCHEDULE\tNEXT\tLAST\tFEEDS\tPOSTS TO")
	for _, i := range list {
		next, last := "never", "never"
		switch {
		case i.Paused:
			next = "paused"
		// Such a digest has no schedule, so Next is nil.
		case i.OnNew:
			next = "as items come"
		}
		if i.Next != nil {
			next = i.Next.Format(time.RFC3339)
		}
		if i.Last != nil {
			last = fmt.Sprintf("%s (%d items)", i.Last.Due.Format(time.RFC3339), i.Last.Posted)
			if !i.Last.OK {
				last = fmt.Sprintf("%s (failed: %s)", i.Last.Due.Format(time.RFC3339), text.OneLine(i.Last.Note))
			}
		}
		fmt.Fprintf(t, "%s\t%s %s\t%s\t%s\t%d\t%s\n", i.Name, i.Schedule, i.Timezone, next, last, len(i.Feeds),
			strings.Join(i.Post, " "))
	}
	return t.Flush()
}

// previewDigest prints what a digest would post.
func previewDigest(ctx context.Context, c *invocation) error {
	name := c.args[0]
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	var p digest.Preview
	d, err := findDaemon(ctx, cfg)
	switch {
	case err == nil:
		err = d.requestJSON(ctx, http.MethodPost, "/api/v1/digests/"+url.PathEscape(name)+"/preview", nil, &p)
		for _, f := range p.Faults { // a bot in this process logs them itself
			fmt.Fprintf(c.Err, "warning: %s\n", f)
		}
	case errors.Is(err, errNoDaemon):
		var a *app.App
		if a, err = openLocal(c, cfg); err != nil {
			return err
		}
		p, err = a.Digests().Preview(ctx, name)
		if errors.Is(err, digest.ErrUnknown) {
			err = fmt.Errorf("there is no digest %q; ravenbot digest list shows those there are", name)
		}
		err = errors.Join(err, a.Close())
	}
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, p)
	}
	writePreview(c.Out, p)
	if c.flagOn("explain") {
		fmt.Fprintln(c.Out)
		t := tabwriter.NewWriter(c.Out, 0, 4, 2, ' ', 0)
		for _, v := range p.Items {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", v.Verdict, v.Title, v.Link, v.Why())
		}
		return t.Flush()
	}
	return nil
}

// writePreview prints the post of a preview, or that there would be none.
func writePreview(w io.Writer, p digest.Preview) {
	if p.Draft.Text == "" {
		fmt.Fprintln(w, "Nothing new: nothing would be posted.")
		return
	}
	fmt.Fprintln(w, terminal.Text(p.Draft))
}

// runDigest has the daemon post a digest now. It fails where none runs, because this process is connected to no
// platform.
func runDigest(ctx context.Context, c *invocation) error {
	name := c.args[0]
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	d, err := findDaemon(ctx, cfg)
	if err != nil {
		return fmt.Errorf("%w; only the running bot can post a digest: start it with ravenbot run", err)
	}
	var r store.Run
	if err := d.requestJSON(ctx, http.MethodPost, "/api/v1/digests/"+url.PathEscape(name)+"/run", nil, &r); err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, r)
	}
	// The note says which feeds failed; what could be read was posted all the same.
	if r.Note != "" {
		fmt.Fprintf(c.Err, "warning: %s\n", r.Note)
	}
	if r.Posted == 0 {
		fmt.Fprintf(c.Out, "%s: nothing new since the last run.\n", name)
		return nil
	}
	fmt.Fprintf(c.Out, "%s: items posted: %d.\n", name, r.Posted)
	return nil
}
