package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
)

func memoryFlags(c *invocation) {
	searchFlags(c)
	c.flags.Lookup("k").Usage = "show `N` notes at most"
	c.flags.String("scope", "", "whose notes: user:PLATFORM/ID or channel:`ADDRESS`")
}

// note is a note as the API returns it.
type note struct {
	N    uint64    `json:"n"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
	By   string    `json:"by"`
	// Origin says whose words the turn had read in which the note was made.
	Origin origin.Origin `json:"origin,omitzero"`
}

// memoryScope returns the scope that the command line names, which the API checks. It returns a usage error for none.
func (c *invocation) memoryScope() (string, error) {
	scope := c.flagText("scope")
	if scope == "" {
		return "", usageErrorf("name whose notes with --scope user:PLATFORM/ID or --scope channel:ADDRESS")
	}
	return scope, nil
}

// listMemories prints the newest notes: all of them, up to maxRanked, unless -k is written.
func listMemories(ctx context.Context, c *invocation) error {
	if !c.flags.Changed("k") {
		return c.showMemories(ctx, "", maxRanked)
	}
	k, err := c.resultLimit()
	if err != nil {
		return err
	}
	return c.showMemories(ctx, "", k)
}

// searchMemories prints the notes that fit a query, the best first.
func searchMemories(ctx context.Context, c *invocation) error {
	k, err := c.resultLimit()
	if err != nil {
		return err
	}
	return c.showMemories(ctx, strings.Join(c.args, " "), k)
}

// showMemories prints up to k notes: the newest, or those that fit a query.
func (c *invocation) showMemories(ctx context.Context, query string, k int) error {
	scope, err := c.memoryScope()
	if err != nil {
		return err
	}
	var list struct{ Items []note }
	err = c.requestAPI(ctx, http.MethodGet, "/api/v1/memories?"+
		url.Values{"scope": {scope}, "q": {query}, "limit": {strconv.Itoa(k)}}.Encode(), nil, &list)
	if err != nil {
		return err
	}
	if c.json {
		return writeItems(c.Out, list.Items)
	}
	t := tabwriter.NewWriter(c.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "N\tDATE\tFROM\tORIGIN\tTEXT")
	for _, n := range list.Items {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", n.N, n.At.UTC().Format(time.DateOnly), text.OneLine(n.By),
			text.OneLine(strings.Join(n.Origin.Taint, ", ")), n.Text)
	}
	return t.Flush()
}

// addMemory keeps a note and prints its number.
func addMemory(ctx context.Context, c *invocation) error {
	scope, err := c.memoryScope()
	if err != nil {
		return err
	}
	var kept note
	body := map[string]string{"scope": scope, "text": strings.Join(c.args, " ")}
	if err := c.requestAPI(ctx, http.MethodPost, "/api/v1/memories", body, &kept); err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, kept)
	}
	_, err = fmt.Fprintf(c.Out, "number %d of %s: %s\n", kept.N, scope, kept.Text)
	return err
}

// removeMemory removes the note with a number.
func removeMemory(ctx context.Context, c *invocation) error {
	scope, err := c.memoryScope()
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(c.args[0], 10, 64)
	if err != nil {
		return usageErrorf("%q is not the number of a note", c.args[0])
	}
	err = c.requestAPI(ctx, http.MethodDelete, fmt.Sprintf("/api/v1/memories/%s/%d", url.PathEscape(scope), n), nil, nil)
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, map[string]uint64{"removed": n})
	}
	_, err = fmt.Fprintf(c.Out, "removed number %d of %s\n", n, scope)
	return err
}
