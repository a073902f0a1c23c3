package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

// Entry is an entry of a feed.
type Entry struct {
	Feed  string  `json:"feed"` // its title; entries with the same one are of one feed
	Title string  `json:"title"`
	URL   string  `json:"url"`
	Text  string  `json:"text"`
	Hours float64 `json:"hours"` // since it was published
}

// caseDigest is the name of the digest of a case.
const caseDigest = "eval"

// caseFeeds are the feeds of a case, by their addresses.
type caseFeeds map[string]feed.Document

// newCaseFeeds returns feeds with the entries of a case; their age counts from now.
func newCaseFeeds(c Case, now time.Time) caseFeeds {
	feeds := caseFeeds{}
	for _, e := range c.Entries {
		address := "https://feeds.example/" + url.PathEscape(e.Feed)
		d := feeds[address]
		d.Feed.Title = e.Feed
		d.Items = append(d.Items, feed.Item{
			ID:        e.URL,
			Title:     html.EscapeString(e.Title),
			Link:      e.URL,
			Summary:   "<p>" + html.EscapeString(e.Text) + "</p>",
			Published: now.Add(-time.Duration(e.Hours * float64(time.Hour))),
		})
		feeds[address] = d
	}
	return feeds
}

func (f caseFeeds) Fetch(_ context.Context, address string) (feed.Result, error) {
	return feed.Result{Document: f[address]}, nil
}

// FetchAll reads the feeds one after the other.
func (f caseFeeds) FetchAll(ctx context.Context, urls []string, turn func(func())) ([]feed.Result, []error) {
	results, errs := make([]feed.Result, len(urls)), make([]error, len(urls))
	for n, address := range urls {
		turn(func() { results[n], errs[n] = f.Fetch(ctx, address) })
	}
	return results, errs
}

// PollAll is FetchAll: nothing is fresh here.
func (f caseFeeds) PollAll(ctx context.Context, urls []string, turn func(func())) ([]feed.Result, []error) {
	return f.FetchAll(ctx, urls, turn)
}

func (caseFeeds) Find(context.Context, string) ([]feed.Link, error) { return nil, feed.ErrNoFeed }

// runDigest makes a digest of the entries of a case and looks at what would be posted. Without a model and a script its
// texts are sentences of the entries.
func (r *Runner) runDigest(ctx context.Context, w *workspace, c Case) (res Result, err error) {
	at, err := c.place()
	if err != nil {
		return res, err
	}
	feeds := newCaseFeeds(c, w.now())
	o := digest.Options{
		Feeds: feeds,
		Store: w.db,
		Log:   w.log,
		Now:   w.now,
	}
	model := r.o.Model
	if model == "" && len(c.Script) > 0 {
		model = scriptName
	}
	if model != "" {
		b, err := r.newBench(ctx, w, c, model)
		if err != nil {
			return res, err
		}
		on := store.Usage{Channel: at}
		o.Writer = func(digest.Plan) digest.Writer {
			return func(ctx context.Context, system, prompt string, schema json.RawMessage) (string, string, error) {
				return b.engine.CompleteJSON(ctx, on, []string{model}, system, prompt, schema)
			}
		}
	}
	plan := c.Digest
	plan.Name, plan.Schedule, plan.Post = caseDigest, "0 8 * * *", []string{at.String()}
	for address := range feeds {
		plan.Feeds = append(plan.Feeds, digest.Feed{URL: address})
	}
	slices.SortFunc(plan.Feeds, func(a, b digest.Feed) int { return strings.Compare(a.URL, b.URL) })
	service := digest.New(o)
	if err := service.Configure([]digest.Plan{plan}); err != nil {
		return res, err
	}
	preview, err := service.Preview(ctx, caseDigest)
	if err != nil {
		return res, err
	}
	if len(preview.Faults) > 0 {
		return res, errors.New(strings.Join(preview.Faults, "; "))
	}
	c.checkDigest(&res, preview)
	return res, r.count(ctx, w, &res)
}

// checkDigest compares a digest with what is expected of it.
func (c Case) checkDigest(res *Result, p digest.Preview) {
	said, links := postText(p.Draft), postLinks(p.Draft)
	res.Answer = said
	for _, want := range c.Expect {
		res.check(fmt.Sprintf("the post says %q", want), contains(said, want), "it does not")
	}
	for _, not := range c.Forbid {
		res.check(fmt.Sprintf("the post does not say %q", not), !contains(said, not), "it does")
	}
	for _, address := range c.Cite {
		res.check("the post links to "+address, slices.Contains(links, address), "it does not")
	}
	for _, one := range c.Stories {
		var told []string
		for _, v := range p.Items {
			if v.Verdict == "posted" && slices.Contains(one, v.Link) {
				told = append(told, v.Link)
			}
		}
		res.check("one entry is posted of "+strings.Join(one, ", "), len(told) == 1,
			fmt.Sprintf("posted are %d: %s", len(told), strings.Join(told, ", ")))
	}
	var foreign []string
	for _, link := range links {
		if !slices.ContainsFunc(c.Entries, func(e Entry) bool { return e.URL == link }) {
			foreign = append(foreign, link)
		}
	}
	res.check("every link is that of an entry", len(foreign) == 0, strings.Join(foreign, ", "))
}

// postText returns what a reader sees of a post.
func postText(d chat.Draft) string {
	parts := []string{d.Text}
	for _, card := range d.Cards {
		parts = append(parts, card.Title, card.Text, card.Source)
	}
	return strings.Join(parts, "\n")
}

// markdownLink matches the address of a link in Markdown.
var markdownLink = text.Pattern(`\]\(<?(https?://[^\s)>]+)>?\)`)

// postLinks returns the addresses that a post links to.
func postLinks(d chat.Draft) []string {
	var links []string
	for _, found := range markdownLink().FindAllStringSubmatch(d.Text, -1) {
		links = append(links, found[1])
	}
	for _, card := range d.Cards {
		links = append(links, card.URL)
		for _, also := range card.Also {
			links = append(links, also.URL)
		}
	}
	return links
}
