package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"ravenbot/internal/mcpserve"
)

func tokenFlags(c *call) {
	jsonFlag(c)
	c.flags.Bool("overwrite", false, "with create: take the place of the token of that name")
	c.flags.String("tools", "*", "with create: `NAMES` or patterns of the tools that it may use, with commas between")
}

// tokens makes and revokes the tokens with which other hosts use the bot's tools.
func tokens(ctx context.Context, c *call) error {
	verb := strings.Join(c.args[:min(1, len(c.args))], "")
	switch {
	case verb == "list" && len(c.args) == 1, (verb == "create" || verb == "revoke") && len(c.args) == 2:
	default:
		return misuse("say create NAME, list or revoke NAME")
	}
	d, err := c.running(ctx)
	if err != nil {
		return err
	}
	const path = "/api/v1/auth/mcp-tokens"
	switch verb {
	case "create":
		return createToken(ctx, c, d, path)
	case "revoke":
		res, err := d.do(ctx, http.MethodDelete, path+"/"+url.PathEscape(c.args[1]), nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.Err, "The token %s is revoked.\n", c.args[1])
		return res.Body.Close()
	}
	var list struct {
		Items []mcpserve.Token `json:"items"`
	}
	if err := d.get(ctx, http.MethodGet, path, &list); err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, list)
	}
	t := tabwriter.NewWriter(c.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tTOOLS\tCREATED\tLAST USED")
	for _, k := range list.Items {
		used := "never"
		if !k.Used.IsZero() {
			used = k.Used.Format(time.RFC3339)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", k.Name, strings.Join(k.Tools, ","), k.Created.Format(time.RFC3339), used)
	}
	return t.Flush()
}

func createToken(ctx context.Context, c *call, d *client, path string) error {
	body := map[string]any{"name": c.args[1], "overwrite": c.flags.Lookup("overwrite").Value.String() == "true",
		"tools": strings.Split(c.flags.Lookup("tools").Value.String(), ",")}
	var made struct {
		mcpserve.Token
		Secret string `json:"token"`
	}
	if err := d.send(ctx, http.MethodPost, path, body, &made); err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, made)
	}
	fmt.Fprintln(c.Out, made.Secret)
	fmt.Fprintf(c.Err, "This is shown once. It lets a host use %s at %s/mcp, with the header Authorization: Bearer TOKEN.\n", strings.Join(made.Tools, ", "), d.base)
	return nil
}

// running is the daemon, for commands that need it.
func (c *call) running(ctx context.Context) (*client, error) {
	cfg, err := c.load()
	if err != nil {
		return nil, err
	}
	d, err := daemon(ctx, cfg)
	if errors.Is(err, errNoDaemon) {
		return nil, fmt.Errorf("%w: this needs it; start it with ravenbot run", err)
	}
	return d, err
}
