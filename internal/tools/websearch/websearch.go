// Package websearch is the native tool web_search. It asks one provider: a SearXNG instance, Brave, Tavily, or Gemini
// with its Google Search. It promises that the time of a search and the size of an answer are limited, that errors are
// in words and without the key, and that results carry their source addresses. The content of results is data.
package websearch

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
)

const (
	maxResults   = 8
	maxTitle     = 150 // characters
	maxSnippet   = 600 // characters
	maxQuery     = 400 // characters: Brave takes no more
	maxBody      = 2 << 20
	maxShown     = 12 << 10 // bytes: all results fit into it
	totalTimeout = 25 * time.Second
)

// Options say who searches.
type Options struct {
	Provider string // searxng, brave, tavily or gemini
	BaseURL  string // empty: the provider's own; SearXNG has none
	APIKey   string
	Model    string // of gemini
}

// hit is a page that a search found.
type hit struct{ title, url, snippet, date string }

// Tools returns the tool web_search; none where the options lack what the provider needs, which the check of the
// configuration says.
func Tools(o Options) []tool.Tool {
	p, ok := newProvider(o)
	if !ok {
		return nil
	}
	s := &searcher{provider: p, client: &http.Client{
		// A redirect would take the key along.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	yes := true
	return []tool.Tool{tool.Func{
		Described: tool.Spec{Server: "web", Name: "search", Native: true, MaxShown: maxShown,
			Description: "Searches the web and returns numbered results with title, address, snippet and date. " +
				"web_fetch reads a page.",
			Schema: json.RawMessage(`{"type":"object","properties":{` +
				`"query":{"type":"string","description":"what to search for, in a few words"}},"required":["query"]}`),
			Hints: tool.Hints{ReadOnly: &yes, OpenWorld: &yes}},
		Do: s.call,
	}}
}

type searcher struct {
	provider provider
	client   *http.Client
}

// call carries out the tool. What went wrong is a result for the model; an error is returned only
// when ctx ends.
func (s *searcher) call(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	var in struct{ Query string }
	if err := json.Unmarshal(args, &in); err != nil {
		return tool.Failure(err.Error()), nil
	}
	query := text.Shorten(strings.TrimSpace(in.Query), maxQuery)
	if query == "" {
		return tool.Failure("web_search wants a query."), nil
	}
	searching, cancel := context.WithTimeout(ctx, totalTimeout)
	defer cancel()
	hits, err := s.search(searching, query)
	switch {
	case ctx.Err() != nil:
		return tool.Result{}, fmt.Errorf("search the web: %w", ctx.Err())
	case err != nil:
		return tool.Failure(err.Error()), nil
	}
	return results(query, hits, tool.CallerFrom(ctx)), nil
}

// results returns hits as the model and people see them.
func results(query string, hits []hit, caller tool.Caller) tool.Result {
	if len(hits) == 0 {
		return tool.Text(fmt.Sprintf("The search for %q found nothing. Try other words.", query))
	}
	var links []chat.Link
	for _, h := range hits {
		links = append(links, chat.Link{Title: h.title, URL: h.url})
	}
	number := 1
	if caller.NumberSources != nil {
		number = caller.NumberSources(links)
	}
	var b strings.Builder
	for i, h := range hits {
		fmt.Fprintf(&b, "[%d] %s\n%s\n", number+i, h.title, h.url)
		if h.date != "" {
			b.WriteString(h.date + ": ")
		}
		b.WriteString(h.snippet + "\n\n")
	}
	b.WriteString("Cite what you use by its number in brackets, such as [" + fmt.Sprint(number) + "].")
	return tool.Result{Text: b.String(), Sources: links}
}

// cleanHits returns at most maxResults hits with addresses of the web, each once, their texts without markup.
func cleanHits(list []hit) []hit {
	var kept []hit
	seen := map[string]bool{}
	for _, h := range list {
		isWeb := strings.HasPrefix(h.url, "https://") || strings.HasPrefix(h.url, "http://")
		if !isWeb || strings.ContainsAny(h.url, " \n\t<>\"") || seen[h.url] || len(kept) == maxResults {
			continue
		}
		seen[h.url] = true
		h.title = cleanText(h.title, maxTitle)
		if h.title == "" {
			h.title = h.url
		}
		h.snippet, h.date = cleanText(h.snippet, maxSnippet), cleanText(h.date, 40)
		kept = append(kept, h)
	}
	return kept
}

// tags matches markup: Brave marks words with <strong>.
var tags = text.Pattern(`</?[a-zA-Z][^>]*>`)

// cleanText returns a text of a search engine as plain text on one line, cut to a number of
// characters.
func cleanText(s string, maxChars int) string {
	// Tags first: what was escaped is text that the page shows, such as "<b>" in an article about HTML.
	plain := html.UnescapeString(tags().ReplaceAllString(s, ""))
	return text.Shorten(text.OneLine(text.Clean(plain)), maxChars)
}
