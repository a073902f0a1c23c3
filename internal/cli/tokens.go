package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/mcp"
	"ravenbot/internal/mcp/mcpserve"
	"ravenbot/internal/ops/config"
)

func tokenFlags(c *invocation) {
	jsonFlag(c)
	c.flags.Bool("overwrite", false, "take the place of the token of that name")
	c.flags.String("tools", "*", "`NAMES` or patterns of the tools that it may use, with commas between")
}

// tokensPath is where the API keeps the tokens of MCP hosts.
const tokensPath = "/api/v1/auth/mcp-tokens"

// revokeToken revokes a token.
func revokeToken(ctx context.Context, c *invocation) error {
	d, _, err := c.requireDaemon(ctx)
	if err != nil {
		return err
	}
	// The server would take "." and ".." out of the path, but not their codes.
	name := strings.ReplaceAll(url.PathEscape(c.args[0]), ".", "%2E")
	res, err := d.do(ctx, http.MethodDelete, tokensPath+"/"+name, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Err, "The token %s is revoked.\n", c.args[0])
	return res.Body.Close()
}

// listTokens prints the tokens, without their secrets.
func listTokens(ctx context.Context, c *invocation) error {
	d, _, err := c.requireDaemon(ctx)
	if err != nil {
		return err
	}
	var list struct {
		Items []mcpserve.Token `json:"items"`
	}
	if list.Items, err = requestList[mcpserve.Token](ctx, d, tokensPath); err != nil {
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

// warnOfUnknownTools prints a warning for each pattern that matches no tool that the bot or one of its MCP servers has.
func (c *invocation) warnOfUnknownTools(ctx context.Context, d *client, patterns []string) {
	servers, err := requestList[mcp.Status](ctx, d, serversPath)
	if err != nil {
		return // the token was created all the same
	}
	var names []string
	for _, s := range servers {
		names = append(names, s.Name)
	}
	for _, p := range patterns {
		near, isUnknown := config.UnknownTool(p, tool.NativeNames(), names)
		switch {
		case isUnknown && near != "":
			fmt.Fprintf(c.Err, "warning: %q matches no tool: did you mean %q?\n", p, near)
		case isUnknown:
			fmt.Fprintf(c.Err, "warning: %q matches no tool; ravenbot tools list lists them\n", p)
		}
	}
}

// createToken creates a token and prints it. It is never shown again: the daemon keeps a hash. It returns the API's
// error where the name is taken, without --overwrite.
func createToken(ctx context.Context, c *invocation) error {
	d, _, err := c.requireDaemon(ctx)
	if err != nil {
		return err
	}
	body := map[string]any{"name": c.args[0], "overwrite": c.flagOn("overwrite"),
		"tools": strings.Split(c.flagText("tools"), ",")}
	var made struct {
		mcpserve.Token
		Secret string `json:"token"`
	}
	if err := d.requestJSON(ctx, http.MethodPost, tokensPath, body, &made); err != nil {
		return err
	}
	c.warnOfUnknownTools(ctx, d, made.Tools)
	if c.json {
		return writeJSON(c.Out, made)
	}
	// The token alone goes to standard output, so that a script can store it.
	fmt.Fprintln(c.Out, made.Secret)
	fmt.Fprintf(c.Err,
		"This is shown once. It lets a host use %s at %s/mcp, with the header Authorization: Bearer TOKEN.\n",
		strings.Join(made.Tools, ", "), d.base)
	return nil
}
