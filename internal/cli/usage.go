package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"ravenbot/internal/app"
	"ravenbot/internal/turn/budget"
)

// showUsage prints what was asked of models in the last 30 days: from the daemon, or from the store when none
// runs.
func showUsage(ctx context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	var list struct {
		Items []budget.Usage `json:"items"`
	}
	d, err := findDaemon(ctx, cfg)
	switch {
	case err == nil:
		list.Items, err = requestList[budget.Usage](ctx, d, "/api/v1/usage")
	case errors.Is(err, errNoDaemon):
		var a *app.App
		if a, err = openLocal(c, cfg); err != nil {
			return err
		}
		list.Items, err = a.Usage(ctx)
		err = errors.Join(err, a.Close())
	}
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, list)
	}
	t := tabwriter.NewWriter(c.Out, 0, 4, 2, ' ', 0)
	// The costs are estimates: they come from the prices in the configuration.
	fmt.Fprintln(t, "DAY\tMODEL\tCHANNEL\tUSER\tANSWERS\tTOKENS IN\tOUT\tUSD")
	for _, u := range list.Items {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%.4f\n", u.Day, u.Model, u.Channel, u.User, u.Turns, u.Tokens.Input,
			u.Tokens.Output, u.USD)
	}
	return t.Flush()
}
