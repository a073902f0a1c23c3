package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"ravenbot/internal/app"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/turn/roster"
)

// query has ask read an answer of the daemon. Where no daemon runs, it opens the store here and calls with.
func (c *invocation) query(ctx context.Context, ask func(*client) error, with func(*app.App) error) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	d, err := findDaemon(ctx, cfg)
	switch {
	case err == nil:
		return ask(d)
	// A daemon that refuses is an error: the store is open there and cannot be opened here.
	case !errors.Is(err, errNoDaemon):
		return err
	}
	a, err := openLocal(c, cfg)
	if err != nil {
		return err
	}
	return errors.Join(with(a), a.Close())
}

// listAgents prints the agents.
func listAgents(ctx context.Context, c *invocation) error {
	var list struct {
		Items []roster.Agent `json:"items"`
	}
	err := c.query(ctx, func(d *client) (err error) {
		list.Items, err = requestList[roster.Agent](ctx, d, "/api/v1/agents")
		return err
	}, func(a *app.App) error {
		list.Items = a.Roster().List()
		return nil
	})
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, list)
	}
	t := tabwriter.NewWriter(c.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tMODEL\tMCP SERVERS\tTOOLS\tFROM")
	for _, v := range list.Items {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", v.Name, v.Model, v.Linked(), strings.Join(v.Tools, ", "), v.Source)
	}
	return t.Flush()
}

// listTools shows all tools.
func listTools(ctx context.Context, c *invocation) error { return showTools(ctx, c, "", 0) }

// searchTools shows the tools that fit a request, best first.
func searchTools(ctx context.Context, c *invocation) error {
	k, err := c.resultLimit()
	if err != nil {
		return err
	}
	return showTools(ctx, c, strings.Join(c.args, " "), k)
}

// showTools prints all tools, or the k that fit a query best.
func showTools(ctx context.Context, c *invocation, query string, k int) error {
	list := struct {
		Items []roster.ToolItem `json:"items"`
	}{}
	err := c.query(ctx, func(d *client) (err error) {
		if query == "" {
			list.Items, err = requestList[roster.ToolItem](ctx, d, "/api/v1/tools")
			return err
		}
		path := "/api/v1/tools?" + url.Values{"query": {query}, "k": {strconv.Itoa(k)}}.Encode()
		return d.requestJSON(ctx, http.MethodGet, path, nil, &list)
	}, func(a *app.App) error {
		// Without a query the tools are listed in their usual order, not ranked.
		if list.Items = a.Roster().ListTools(); query != "" {
			list.Items = a.Roster().SearchTools(query, k)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, list)
	}
	t := tabwriter.NewWriter(c.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSERVER\tHINT\tDESCRIPTION")
	for _, v := range list.Items {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", v.Name, v.Server, v.Hint, truncate(text.OneLine(v.Description), 80))
	}
	return t.Flush()
}

// truncate shortens s to n characters and marks the cut.
func truncate(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// whyTool prints what each layer of rules decides about a tool.
func whyTool(ctx context.Context, c *invocation) error {
	return c.explainCall(ctx, roster.Simulation{Tool: c.args[0]})
}

// simulateCall prints what would be decided about a call, and runs nothing.
func simulateCall(ctx context.Context, c *invocation) error {
	sim := roster.Simulation{Tool: c.args[0], Args: json.RawMessage("{}"), Tainted: c.flagOn("tainted")}
	if len(c.args) > 1 {
		if sim.Args = json.RawMessage(c.args[1]); !json.Valid(sim.Args) {
			return usageErrorf("the arguments are no JSON: %s", c.args[1])
		}
	}
	if roles := c.flagText("roles"); roles != "" {
		sim.Roles = strings.Split(roles, ",")
	}
	if others := c.flagText("others"); others != "" {
		sim.Others = strings.Split(others, ",")
	}
	return c.explainCall(ctx, sim)
}

// explainCall prints what each layer of rules decides about a call.
func (c *invocation) explainCall(ctx context.Context, sim roster.Simulation) error {
	at, err := chat.ParseAddress(c.flagText("channel"))
	if err != nil {
		return usageErrorf("--channel: %v", err)
	}
	sim.User, sim.Channel = c.flagText("user"), at
	var v roster.Verdict
	query := url.Values{"user": {sim.User}, "channel": {at.String()}, "arguments": {string(sim.Args)}}
	if len(sim.Roles) > 0 {
		query.Set("roles", strings.Join(sim.Roles, ","))
	}
	if len(sim.Others) > 0 {
		query.Set("others", strings.Join(sim.Others, ","))
	}
	if sim.Tainted {
		query.Set("tainted", "true")
	}
	err = c.query(ctx, func(d *client) error {
		return d.requestJSON(ctx, http.MethodGet, "/api/v1/tools/"+url.PathEscape(sim.Tool)+"/why?"+query.Encode(), nil, &v)
	}, func(a *app.App) error {
		var err error
		v, err = a.Roster().Why(sim)
		return err
	})
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, v)
	}
	fmt.Fprintf(c.Out, "%s in %s: %s\n", v.Tool, v.Channel,
		map[string]string{
			"allow": "may be used",
			"ask":   "may be used after an approval",
			"deny":  "may not be used",
		}[v.Verdict])
	if v.Approvers != "" {
		fmt.Fprintf(c.Out, "  may approve: %s\n", v.Approvers)
	}
	t := tabwriter.NewWriter(c.Out, 0, 4, 2, ' ', 0)
	for _, f := range v.Layers {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", f.Layer, f.Decision, f.Reason)
	}
	return t.Flush()
}
