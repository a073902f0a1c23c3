package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// isTerminal reports whether a stream is a terminal, or another device such as /dev/null.
func isTerminal(stream any) bool {
	if shown, ok := stream.(printableWriter); ok {
		stream = shown.w
	}
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// printLogin says how to log in to the chat page. The link gives every right once, so it is made for a terminal alone:
// elsewhere it would stay in a log.
func (c *invocation) printLogin(link func() string) {
	if isTerminal(c.Out) {
		fmt.Fprintf(c.Out, "Open the chat page, once, with: %s\n", link())
		return
	}
	where := " in this folder"
	if filepath.IsAbs(c.config) {
		where = ""
	}
	fmt.Fprintf(c.Out, "For a link that opens the chat page, run%s: ravenbot login%s\n", where, c.configFlag())
}

// printLoginLink prints a link of the running daemon that opens the chat page once.
func printLoginLink(ctx context.Context, c *invocation) error {
	d, cfg, err := c.requireDaemon(ctx)
	if err != nil {
		return err
	}
	var made struct {
		Path string `json:"path"`
	}
	if err := d.requestJSON(ctx, http.MethodPost, "/api/v1/auth/login-links", nil, &made); err != nil {
		return err
	}
	link := strings.TrimRight(cmp.Or(cfg.HTTP.PublicURL.Reveal(), d.base), "/") + made.Path
	if c.json {
		return writeJSON(c.Out, map[string]string{"link": link})
	}
	_, err = fmt.Fprintln(c.Out, link)
	return err
}
