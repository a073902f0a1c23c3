package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"text/tabwriter"
	"time"

	"ravenbot/internal/core/text"
	"ravenbot/internal/mcp"
	"ravenbot/internal/ops/admin"
)

// serversPath is where the API lists the MCP servers.
const serversPath = "/api/v1/mcp/servers"

// serverPath returns the path of the server that the first argument names.
func (c *invocation) serverPath() string { return serversPath + "/" + url.PathEscape(c.args[0]) }

// listServers prints the servers of the daemon, or those of the configuration when none runs.
func listServers(ctx context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	list := struct {
		Items []mcp.Status `json:"items"`
	}{[]mcp.Status{}}
	d, err := findDaemon(ctx, cfg)
	switch {
	case err == nil:
		list.Items, err = requestList[mcp.Status](ctx, d, serversPath)
	case errors.Is(err, errNoDaemon):
		list.Items, err = mcp.ConfiguredStatus(mcp.ConfiguredServers(cfg)), nil
	}
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, list)
	}
	t := tabwriter.NewWriter(c.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSTATE\tTOOLS\tFROM\tERROR")
	for _, v := range list.Items {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", v.Name, v.State, len(v.Tools), v.Source, text.OneLine(v.Error))
	}
	return t.Flush()
}

// serverTools prints the tools of a server: of the daemon, or else of the configuration, which is started for
// it. An address is asked directly.
func serverTools(ctx context.Context, c *invocation) error {
	which := c.args[0]
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	list := struct {
		Items []mcp.ToolInfo `json:"items"`
	}{[]mcp.ToolInfo{}}
	if u, e := url.Parse(which); e == nil && u.Scheme != "" && u.Host != "" {
		list.Items, err = mcp.Probe(ctx, mcp.Config{Name: u.Host, URL: which}, version)
	} else {
		var d *client
		d, err = findDaemon(ctx, cfg)
		entry, known := cfg.MCPServers[which]
		switch {
		case err == nil:
			// Servers start when they are first needed, and have no tools before that.
			if err = waitConnected(ctx, d, which); err == nil {
				list.Items, err = requestList[mcp.ToolInfo](ctx, d, serversPath+"/"+url.PathEscape(which)+"/tools")
			}
		case !errors.Is(err, errNoDaemon):
		case !known:
			err = fmt.Errorf("there is no MCP server %q in %s; ravenbot mcp list lists them", which, c.config)
		case entry.Disabled:
			err = fmt.Errorf("MCP server %q is disabled in %s", which, c.config)
		default:
			list.Items, err = mcp.Probe(ctx, mcp.FromEntry(which, entry), version)
		}
	}
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, list)
	}
	for _, t := range list.Items {
		state := ""
		if t.State != "" && t.State != "offered" {
			state = " (" + string(t.State) + ": " + t.Why + ")"
		}
		fmt.Fprintf(c.Out, "%s%s\n", t.Name, state)
		if t.Description != "" {
			fmt.Fprintf(c.Out, "    %s\n", text.OneLine(t.Description))
		}
	}
	return nil
}

// waitConnected waits up to two minutes until the daemon has connected a server for the first time, or failed to, which
// is no error here.
func waitConnected(ctx context.Context, d *client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	// The API has no event for a connected server.
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		var v mcp.Status
		err := d.requestJSON(ctx, http.MethodGet, serversPath+"/"+url.PathEscape(name), nil, &v)
		if err != nil || len(v.Tools) > 0 || v.State != "uninitialized" && v.State != "connecting" {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookInterval is how often a command that calls a tool looks whether its call waits for an approval.
const lookInterval = 300 * time.Millisecond

// yesFlag adds --yes, for commands that ask before they go on.
func yesFlag(c *invocation) { c.flags.Bool("yes", false, "approve the call without asking") }

// callTool calls a tool of a server through the daemon, and asks here whether it may where it needs an approval. It fails
// when the tool reports an error.
func callTool(ctx context.Context, c *invocation) error {
	if !json.Valid([]byte(c.args[2])) {
		return usageErrorf("the arguments of the call are not valid JSON: %.100s", c.args[2])
	}
	d, _, err := c.requireDaemon(ctx)
	if err != nil {
		return err
	}
	asking, done := context.WithCancel(ctx)
	defer done()
	failed := make(chan error, 1)
	began := time.Now()
	go func() { failed <- c.approveCall(asking, d, began) }()
	var got admin.CallResult
	body := map[string]any{"tool": c.args[1], "arguments": json.RawMessage(c.args[2])}
	err = d.requestJSON(ctx, http.MethodPost, c.serverPath()+"/call", body, &got)
	done()
	if err := errors.Join(err, <-failed); err != nil {
		return err
	}
	if c.json {
		if err := writeJSON(c.Out, got); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(c.Out, got.Text)
	}
	switch {
	case got.NotRun:
		return errors.New("the tool was not run")
	case got.IsError:
		return errors.New("the tool failed")
	}
	return nil
}

// approveCall waits until the call of a command waits for an approval, asks whoever sits at the terminal, and decides. It
// returns nil when ctx ends, when another decides, and when there is nobody to ask.
func (c *invocation) approveCall(ctx context.Context, d *client, began time.Time) error {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
		open, err := requestList[admin.Approval](ctx, d, "/api/v1/approvals")
		if err != nil {
			continue // the call has ended, or its own request says what is wrong
		}
		i := slices.IndexFunc(open, func(a admin.Approval) bool {
			return a.Server == c.args[0] && a.Channel == admin.OperatorCallsAt().String() && a.Asked.After(began)
		})
		if i < 0 {
			continue
		}
		a := newAsker(ctx, c, c.flagOn("yes"))
		a.out = c.Err
		a.say("%s %s\nneeds an approval: %s", open[i].Tool, open[i].Args, open[i].Reason)
		decision := "deny"
		switch yes, err := a.confirm("Run it?"); {
		case errors.Is(err, errInputEnded):
			a.say("Nobody can be asked here: decide on the page Calls, or call again with --yes.")
			return nil
		case err != nil || ctx.Err() != nil:
			return nil
		case yes:
			decision = "approve"
		}
		err = d.requestJSON(ctx, http.MethodPost, "/api/v1/approvals/"+open[i].ID, map[string]string{"decision": decision},
			&json.RawMessage{})
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
}

// serverLogs prints the last log lines of a server.
func serverLogs(ctx context.Context, c *invocation) error {
	d, _, err := c.requireDaemon(ctx)
	if err != nil {
		return err
	}
	list := struct {
		Items []mcp.LogLine `json:"items"`
	}{[]mcp.LogLine{}}
	if list.Items, err = requestList[mcp.LogLine](ctx, d, c.serverPath()+"/logs"); err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, list)
	}
	if len(list.Items) == 0 {
		fmt.Fprintf(c.Err, "%s has logged nothing.\n", c.args[0])
	}
	for _, l := range list.Items {
		fmt.Fprintf(c.Out, "%s %s: %s\n", l.Time.UTC().Format(time.RFC3339), l.Stream, l.Text)
	}
	return nil
}

// approveServer approves the changed tools of a server and prints what changed.
func approveServer(ctx context.Context, c *invocation) error {
	d, _, err := c.requireDaemon(ctx)
	if err != nil {
		return err
	}
	var got struct {
		mcp.Status
		Approved []mcp.Change `json:"approved"`
	}
	// A server that was just added is still connecting, and has no tools to approve before that.
	if err := waitConnected(ctx, d, c.args[0]); err != nil {
		return err
	}
	if err := d.requestJSON(ctx, http.MethodPost, c.serverPath()+"/approve", nil, &got); err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, got)
	}
	if len(got.Approved) == 0 {
		fmt.Fprintln(c.Err, "No tool was waiting for approval.")
	}
	for _, t := range got.Approved {
		fmt.Fprintf(c.Out, "%s (%s)\n%s\n", t.Tool, t.Kind, t.Diff)
	}
	return nil
}
