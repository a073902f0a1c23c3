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

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
)

func historyFlags(c *invocation) {
	searchFlags(c)
	c.flags.Lookup("k").Usage = "show the best `N` messages"
}

// searchHistory prints what was said in a conversation and fits a query, the best first.
func searchHistory(ctx context.Context, c *invocation) error {
	at, err := chat.ParseAddress(c.args[0])
	if err != nil {
		return usageErrorf("%v", err)
	}
	k, err := c.resultLimit()
	if err != nil {
		return err
	}
	type message struct {
		ID     string    `json:"id"`
		Author string    `json:"author"`
		Bot    bool      `json:"bot,omitempty"`
		At     time.Time `json:"at"`
		Text   string    `json:"text"`
		Link   string    `json:"link"`
		Thread string    `json:"thread"`
	}
	var list struct{ Items []message }
	query := url.Values{"q": {strings.Join(c.args[1:], " ")}, "limit": {strconv.Itoa(k)}}
	path := "/api/v1/conversations/" + url.PathEscape(at.String()) + "/search?" + query.Encode()
	if err := c.requestAPI(ctx, http.MethodGet, path, nil, &list); err != nil {
		return err
	}
	if c.json {
		return writeItems(c.Out, list.Items)
	}
	t := tabwriter.NewWriter(c.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "TIME\tAUTHOR\tTEXT\tLINK")
	for _, m := range list.Items {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", m.At.UTC().Format("2006-01-02 15:04"), text.OneLine(m.Author),
			truncate(text.OneLine(m.Text), 120), m.Link)
	}
	return t.Flush()
}
