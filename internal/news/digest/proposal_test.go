package digest_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature/catchup"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
)

// website is feeds behind pages: an address without items is a page that offers feeds.
type website struct {
	feeds
	offers []feed.Link
}

func (w website) Fetch(ctx context.Context, address string) (feed.Result, error) {
	if _, ok := w.feeds[address]; !ok {
		return feed.Result{}, feed.ErrNotFeed
	}
	return w.feeds.Fetch(ctx, address)
}

func (w website) Find(context.Context, string) ([]feed.Link, error) { return w.offers, nil }

// People name a site as they know it: by its domain, of which the feed is found; where there are several, they are
// asked which.
func TestEdit_FeedNamedByItsSite_IsFound(t *testing.T) {
	one, two := feed.Link{URL: b2, Title: "News"}, feed.Link{URL: "https://example.org/feed/c", Title: "Sports"}
	for name, c := range map[string]struct {
		words  string
		offers []feed.Link
		want   string // of the answer
		reads  []string
	}{
		"its domain":        {"blog.example", nil, "is changed", []string{a, "https://blog.example"}},
		"with a plus":       {"+blog.example", nil, "is changed", []string{a, "https://blog.example"}},
		"a page of a feed":  {"https://page.example/", []feed.Link{one}, "is changed", []string{a, b2}},
		"a page of several": {"https://page.example/", []feed.Link{one, two}, "several feeds; ask which is meant", []string{a}},
		"a page of none":    {"https://page.example/", nil, "page.example", []string{a}},
	} {
		t.Run(name, func(t *testing.T) {
			b := made(t, weekdays)
			b.feeds["https://blog.example"], b.feeds[b2] = []feed.Item{story(3)}, []feed.Item{story(4)}
			b.options.Feeds = website{b.feeds, c.offers}
			b.restart(t)
			if got := b.command(t, anna, "edit feed-a feeds "+c.words); !strings.Contains(got, c.want) {
				t.Errorf("answered %q, want %q in it", got, c.want)
			}
			p, _ := b.Plan("feed-a")
			var reads []string
			for _, f := range p.Feeds {
				reads = append(reads, f.URL)
			}
			if !slices.Equal(reads, c.reads) {
				t.Errorf("the digest reads %q, want %q", reads, c.reads)
			}
		})
	}
}

// Only feeds that are new to a digest are counted as added.
func TestAddFeeds_CountsTheNewOnes(t *testing.T) {
	b := made(t, weekdays)
	b.feeds[b2] = []feed.Item{story(4)}
	for _, want := range []int{1, 0} {
		if _, n, err := b.AddFeeds(t.Context(), "feed-a", []string{a, b2}); n != want || err != nil {
			t.Errorf("%d feeds were added, want %d, %v", n, want, err)
		}
	}
}

// listener reports one message, and asks which were told before.
type listener struct {
	seen *[]map[string]bool
	err  *error // of the last time
}

func (l listener) Report(ctx context.Context, q catchup.Query) (catchup.Report, error) {
	seen, err := q.Seen(ctx, []string{"1", "2"})
	*l.seen, *l.err = append(*l.seen, seen), err
	return catchup.Report{Text: "- Anna: we paint the shed", Entries: 1, Said: 1, IDs: []string{"1"}}, err
}

// unseen is a store that cannot tell which of two messages a digest has told.
type unseen struct{ digest.Store }

func (u unseen) SeenItems(ctx context.Context, name string, ids []string) (map[string]bool, bool, error) {
	if len(ids) == 2 {
		return nil, false, errDisk
	}
	return u.Store.SeenItems(ctx, name, ids)
}

// A message is told once: the next run knows it, and a run that cannot know it tells nothing.
func TestRun_ChannelMessages_AreToldOnce(t *testing.T) {
	var seen []map[string]bool
	var unknown error
	b := service(t, digest.Plan{Channels: []string{general.String()}},
		func(o *digest.Options) { o.Channels = listener{&seen, &unknown} })
	b.run(t, b.now)
	b.now = b.now.AddDate(0, 0, 1)
	b.run(t, b.now)
	if len(seen) != 2 || seen[0]["1"] || seen[0]["2"] || !seen[1]["1"] || seen[1]["2"] {
		t.Errorf("the messages were told before: %v", seen)
	}
	b = service(t, digest.Plan{Channels: []string{general.String()}},
		func(o *digest.Options) { o.Channels, o.Store = listener{&seen, &unknown}, unseen{o.Store} })
	if _, err := b.Run(t.Context(), "morning", b.now, false); !errors.Is(err, errDisk) || !errors.Is(unknown, errDisk) {
		t.Errorf("the run returned %v, and told the channels %v", err, unknown)
	}
	for _, p := range b.sent {
		if strings.Contains(p.Draft.Text, "shed") {
			t.Errorf("what may have been told is sent: %q", p.Draft.Text)
		}
	}
}

// Words join what is named, wherever they stand: they are no part of the schedule.
func TestCreate_FeedAndChannel_AreJoinedByWords(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) { o.Channels = said{} })
	b.feeds[a] = []feed.Item{story(1)}
	got := b.command(t, anna, "create weekdays at 9 "+a+" and here and")
	if len(b.shown) != 0 || !strings.Contains(got, "weekdays at 9:00") ||
		!strings.Contains(got, "slack:T1/C1") {
		t.Fatalf("answered %q, and also %+v", got, b.shown)
	}
	if got := b.answer(t, says(anna, "yes")); !strings.Contains(got, "is created") {
		t.Fatal(got)
	}
	p, _ := b.Plan("feed-a")
	if !slices.Equal(p.Channels, []string{news.String()}) {
		t.Errorf("the digest is of the channels %q", p.Channels)
	}
}

// A task whose agent could not answer has failed: what it says is a reason, and no digest.
func TestRun_AgentFails_IsAFailure(t *testing.T) {
	b := service(t, digest.Plan{Prompt: "Good morning"}, func(o *digest.Options) {
		o.Task = func(context.Context, digest.Task) (chat.Draft, func(context.Context) error, error) {
			return chat.Draft{Failed: true, Text: "no model answers"}, nil, nil
		}
	})
	if run, err := b.Run(t.Context(), "morning", b.now, false); err == nil || !strings.Contains(err.Error(), "no model answers") || run.OK {
		t.Errorf("the run is %+v, %v", run, err)
	}
}

// Readers are told why a digest has no words of a model.
func TestRun_ModelFails_SaysSo(t *testing.T) {
	for _, style := range []string{digest.Bullets, digest.Deep} {
		b := service(t, digest.Plan{Feeds: from(a), Style: style}, func(o *digest.Options) {
			o.Writer = func(digest.Plan) digest.Writer {
				return func(context.Context, string, string, json.RawMessage) (string, string, error) {
					return "", "", errors.New("secret detail")
				}
			}
		})
		b.feeds[a] = distinct(3)
		b.run(t, b.now)
		if footer := b.sent[0].Draft.Footer; !strings.Contains(footer, "no language model: ") ||
			strings.Contains(footer, "secret") {
			t.Errorf("%s: below the post stands %q", style, footer)
		}
	}
}

// A stored record is taken where it is a digest of its name that can be carried out.
func TestCheckStored(t *testing.T) {
	for record, ok := range map[string]bool{
		`{"name":"news","schedule":"0 9 * * *","feeds":["` + a + `"],"post":["slack:T1/C1"]}`:  true,
		`{"name":"other","schedule":"0 9 * * *","feeds":["` + a + `"],"post":["slack:T1/C1"]}`: false,
		`{"name":"news","schedule":"now and then","feeds":["` + a + `"]}`:                      false,
		`{"name":"news"`: false,
	} {
		if err := digest.CheckStored("news", json.RawMessage(record)); (err == nil) != ok {
			t.Errorf("%s: %v", record, err)
		}
	}
}

// scribe has what was said written about by a model, in two sizes.
type scribe struct{ wrote *[]string }

func (s scribe) Report(ctx context.Context, q catchup.Query) (catchup.Report, error) {
	if q.Write == nil {
		*s.wrote = append(*s.wrote, "nobody")
		return catchup.Report{}, nil
	}
	for _, prompt := range []string{"short", strings.Repeat("long ", 10_000)} {
		text, err := q.Write(ctx, "system", prompt)
		if err != nil {
			text = "nothing"
		}
		*s.wrote = append(*s.wrote, text)
	}
	return catchup.Report{Text: "- Anna: we paint the shed", Entries: 1, Said: 1, IDs: []string{"1"}}, nil
}

// What was said in channels is written about by the model of the digest, within its tokens.
func TestRun_ChannelMessages_AreWrittenWithinTheTokens(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*digest.Options)
		want   []string
		note   bool
	}{
		"no model":            {func(*digest.Options) {}, []string{"nobody"}, false},
		"none of this digest": {func(o *digest.Options) { o.Writer = func(digest.Plan) digest.Writer { return nil } }, []string{"nobody"}, false},
		"a model":             {writes("words"), []string{"words", "nothing"}, true},
	} {
		var wrote []string
		b := service(t, digest.Plan{Channels: []string{general.String()}, MaxTokens: 5000}, c.change,
			func(o *digest.Options) { o.Channels = scribe{&wrote} })
		b.run(t, b.now)
		if !slices.Equal(wrote, c.want) {
			t.Errorf("%s wrote %q, want %q", name, wrote, c.want)
		}
		if c.note && !strings.Contains(b.sent[0].Draft.Footer, "the messages do not fit into 5000 tokens") {
			t.Errorf("%s: below the post stands %q", name, b.sent[0].Draft.Footer)
		}
	}
}

// Who asks for a run is told what becomes of it.
func TestRunNow_SaysWhatBecomesOfIt(t *testing.T) {
	b := made(t, weekdays)
	for _, want := range []string{"with 2 items", "nothing new since the last one"} {
		if got := b.command(t, anna, "run feed-a"); !strings.Contains(got, want) {
			t.Errorf("answered %q, want %q in it", got, want)
		}
		b.now = b.now.Add(time.Hour)
	}
}
