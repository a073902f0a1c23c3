// Package feeds is the native tool pack for RSS, Atom and JSON feeds: feeds_fetch lists the items of a feed,
// feeds_search finds words in the bot's feeds, and feeds_subscribe posts new items to a channel. All its statements
// come from the feeds.
package feeds

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/news/summary"
	"ravenbot/internal/store"
)

// Reader reads a feed.
type Reader interface {
	Fetch(ctx context.Context, url string) (feed.Result, error)
}

const (
	defaultItems       = 10
	maxItems           = 50
	maxLeadRunes       = 240 // of an item's text
	maxParallelFetches = 4
)

// Tools returns feeds_fetch and feeds_search. known returns the feeds that feeds_search reads.
func Tools(r Reader, known func() []string) []tool.Tool {
	yes := true
	hints := tool.Hints{ReadOnly: &yes, OpenWorld: &yes}
	fetch := tool.Func{
		Described: tool.Spec{Server: "feeds", Name: "fetch", Native: true, Hints: hints,
			Description: "Reads an RSS, Atom or JSON feed and lists its newest items with their links.",
			Schema: json.RawMessage(
				`{"type":"object","properties":{"url":{"type":"string","description":"of the feed, or of a page that names one; ` +
					`bundled:NAME: a feed that came with the bot"},` +
					`"limit":{"type":"integer","minimum":1,"maximum":50,"description":"default 10"}},"required":["url"]}`,
			)},
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			in := struct {
				URL   string
				Limit int
			}{Limit: defaultItems}
			if err := json.Unmarshal(args, &in); err != nil {
				return tool.Failure(err.Error()), nil
			}
			// A failed feed is a result for the model to explain, not an error of the tool.
			res, err := r.Fetch(ctx, in.URL)
			if err != nil {
				return tool.Failure(feed.Explain(in.URL, err)), nil
			}
			return tool.Text(formatFeed(res.Feed, newestItems(res.Items, min(max(in.Limit, 1), maxItems)))), nil
		},
	}
	search := tool.Func{
		Described: tool.Spec{Server: "feeds", Name: "search", Native: true, Hints: hints,
			Description: "Looks for words in the items of the feeds that the bot's digests are made of.",
			Schema: json.RawMessage(
				`{"type":"object","properties":{"query":{"type":"string","description":"words that an item must all hold"}},` +
					`"required":["query"]}`,
			)},
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			var in struct{ Query string }
			if err := json.Unmarshal(args, &in); err != nil {
				return tool.Failure(err.Error()), nil
			}
			return searchFeeds(ctx, r, known(), in.Query), nil
		},
	}
	return []tool.Tool{fetch, search}
}

// Subscriptions are the feeds whose new items are posted to conversations.
type Subscriptions interface {
	Subscribe(ctx context.Context, to chat.Address, url string) (title string, err error)
	Unsubscribe(ctx context.Context, to chat.Address, url string) error
}

// SubscribeTool returns the tool feeds_subscribe. reaches reports whether something can be posted to a conversation.
func SubscribeTool(s Subscriptions, reaches func(chat.Address) bool) tool.Tool {
	yes, no := true, false
	return tool.Func{
		Described: tool.Spec{
			Server:      "feeds",
			Name:        "subscribe",
			Native:      true,
			Hints:       tool.Hints{ReadOnly: &no, Destructive: &no, Idempotent: &yes, OpenWorld: &yes},
			Description: "Has new items of a feed posted to this channel from now on, or, with stop, no longer.",
			Schema: json.RawMessage(
				`{"type":"object","properties":{"url":{"type":"string","description":"address of the feed"},` +
					`"stop":{"type":"boolean","description":"true ends the subscription"}},"required":["url"]}`,
			),
		},
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			var in struct {
				URL  string
				Stop bool
			}
			if err := json.Unmarshal(args, &in); err != nil {
				return tool.Failure(err.Error()), nil
			}
			// A subscription belongs to the channel, not to the thread that it was asked for in.
			to := tool.CallerFrom(ctx).Conversation.Base()
			if in.Stop {
				switch err := s.Unsubscribe(ctx, to, in.URL); {
				case errors.Is(err, store.ErrNotFound):
					return tool.Failure("This channel has no subscription to " + in.URL + "."), nil
				case err != nil:
					return tool.Result{}, err
				}
				return tool.Text("New items of " + in.URL + " are no longer posted to this channel."), nil
			}
			if !reaches(to) {
				return tool.Failure(
					"There is no channel here that new items could be posted to, so nothing was subscribed. " +
						"Ask the bot in the chat of the channel that wants them.",
				), nil
			}
			title, err := s.Subscribe(ctx, to, in.URL)
			if errors.Is(err, store.ErrFull) {
				return tool.Failure("This channel follows as many feeds as one may. " +
					"End a subscription first, or make a digest of several feeds."), nil
			}
			if err != nil {
				return tool.Failure(feed.Explain(in.URL, err)), nil
			}
			return tool.Text(
				"Subscribed: new items of **" + replaceBrackets(
					title,
				) + "** will be posted to this channel. Calling feeds_subscribe with \"stop\": true ends that.",
			), nil
		},
	}
}

// newestItems returns the n newest items, newest first.
func newestItems(items []feed.Item, n int) []feed.Item {
	sorted := append([]feed.Item(nil), items...)
	// Items without a date come last, in the feed's order.
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].Time().After(sorted[j].Time()) })
	return sorted[:min(n, len(sorted))]
}

// formatFeed returns the items of a feed as Markdown.
func formatFeed(f feed.Feed, items []feed.Item) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n", replaceBrackets(cmp.Or(f.Heading(), "Feed")))
	if len(items) == 0 {
		b.WriteString("\nThe feed is empty.")
	}
	for n, i := range items {
		fmt.Fprintf(&b, "\n%d. %s", n+1, formatItem(i))
	}
	return b.String()
}

// formatItem returns an item as a Markdown list entry.
func formatItem(i feed.Item) string {
	title := replaceBrackets(cmp.Or(i.Heading(), i.Link))
	if i.Link != "" {
		title = "[" + title + "](" + i.Link + ")"
	}
	if !i.Time().IsZero() {
		title += " (" + i.Time().Format("2006-01-02") + ")"
	}
	body := cmp.Or(feed.PlainText(i.Summary), i.Text())
	// Some feeds put whole articles into the summary; one sentence is enough for a list.
	lead := []rune(strings.Join(strings.Fields(strings.Join(summary.Summarize(i.Heading(), body, 1), " ")), " "))
	if len(lead) > maxLeadRunes {
		lead = append(lead[:maxLeadRunes], '…')
	}
	if len(lead) > 0 {
		title += ": " + string(lead)
	}
	return title
}

// replaceBrackets replaces square brackets, which would end the text of a Markdown link.
func replaceBrackets(title string) string {
	return strings.NewReplacer("[", "(", "]", ")").Replace(title)
}

// searchFeeds fetches the known feeds and lists the items that contain all the words.
func searchFeeds(ctx context.Context, r Reader, known []string, query string) tool.Result {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return tool.Failure("The query is empty.")
	}
	if len(known) == 0 {
		return tool.Failure("No digest is configured, so there is no feed to search; feeds_fetch reads one by its address.")
	}
	results, errs := make([]feed.Result, len(known)), make([]error, len(known))
	// Feeds of one host wait for each other anyway; the bound is for many hosts at once.
	slots := make(chan struct{}, maxParallelFetches)
	var wg sync.WaitGroup
	for n, address := range known {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[n], errs[n] = r.Fetch(ctx, address)
		})
	}
	wg.Wait()
	var hits []feed.Item
	var failed []string
	for n := range known {
		// One failing feed must not hide what the others have.
		if errs[n] != nil {
			failed = append(failed, feed.Explain(known[n], errs[n]))
			continue
		}
		for _, i := range results[n].Items {
			if containsAll(i, words) {
				hits = append(hits, i)
			}
		}
	}
	return tool.Text(formatHits(newestItems(hits, defaultItems), len(hits), failed))
}

// containsAll reports whether an item contains all the words.
func containsAll(i feed.Item, words []string) bool {
	text := strings.ToLower(i.Title + " " + feed.PlainText(i.Summary) + " " + feed.PlainText(i.Content))
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// formatHits returns the result of a search as Markdown.
func formatHits(hits []feed.Item, all int, failed []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d items hold all the words.\n", all)
	for n, i := range hits {
		fmt.Fprintf(&b, "\n%d. %s", n+1, formatItem(i))
	}
	for _, f := range failed {
		b.WriteString("\n\n" + f)
	}
	return b.String()
}
