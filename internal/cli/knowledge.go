package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ravenbot/internal/recall/knowledge"
)

func knowledgeFlags(c *invocation) {
	searchFlags(c)
	c.flags.Lookup("k").Usage = "show the best `N` passages"
}

// searchKnowledge prints the passages of an agent's files that fit a question, the best first.
func searchKnowledge(ctx context.Context, c *invocation) error {
	k, err := c.resultLimit()
	if err != nil {
		return err
	}
	var list struct{ Items []knowledge.Passage }
	query := url.Values{"q": {strings.Join(c.args[1:], " ")}, "limit": {strconv.Itoa(k)}}
	path := "/api/v1/agents/" + url.PathEscape(c.args[0]) + "/knowledge?" + query.Encode()
	if err := c.requestAPI(ctx, http.MethodGet, path, nil, &list); err != nil {
		return err
	}
	if c.json {
		return writeItems(c.Out, list.Items)
	}
	for _, p := range list.Items {
		place := p.File
		if p.Line > 0 {
			place += ":" + strconv.Itoa(p.Line)
		}
		fmt.Fprintf(c.Out, "%s (score %.2f)\n  %s\n\n", place, p.Score, strings.ReplaceAll(p.Text, "\n", "\n  "))
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(c.Out, "no passage fits")
	}
	return nil
}
