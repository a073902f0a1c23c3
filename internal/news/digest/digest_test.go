package digest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
	"ravenbot/internal/store/storage"
)

var (
	monday  = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	general = chat.Address{Platform: "web", Channel: "general"}
)

// feeds answers with the items of an address, or fails where there are none.
type feeds map[string][]feed.Item

func (f feeds) Fetch(_ context.Context, address string) (feed.Result, error) {
	items, ok := f[address]
	if !ok {
		return feed.Result{}, errors.New("secret detail")
	}
	return feed.Result{Document: feed.Document{Feed: feed.Feed{Title: "Feed " + address[len(address)-1:]},
		Items: items}}, nil
}

func (f feeds) FetchAll(ctx context.Context, urls []string, turn func(func())) ([]feed.Result, []error) {
	return fetchEach(ctx, f.Fetch, urls, turn)
}

func (f feeds) PollAll(ctx context.Context, urls []string, turn func(func())) ([]feed.Result, []error) {
	return fetchEach(ctx, f.Fetch, urls, turn)
}

// fetchEach reads all feeds with a function that reads one.
func fetchEach(
	ctx context.Context,
	fetch func(context.Context, string) (feed.Result, error),
	urls []string,
	turn func(func()),
) ([]feed.Result, []error) {
	results, errs := make([]feed.Result, len(urls)), make([]error, len(urls))
	var wg sync.WaitGroup
	for n, url := range urls {
		wg.Go(func() { turn(func() { results[n], errs[n] = fetch(ctx, url) }) })
	}
	wg.Wait()
	return results, errs
}

func (f feeds) Find(context.Context, string) ([]feed.Link, error) { return nil, feed.ErrNoFeed }

func story(n int) feed.Item {
	return feed.Item{ID: fmt.Sprint(n), Title: fmt.Sprintf("Story number %d of a long series", n),
		Link: fmt.Sprintf("https://example.org/%d", n),
		Summary: fmt.Sprintf("<p>The town council decided on matter %d after a long debate. Nobody was surprised "+
			"by it.</p>", n),
		Published: monday.Add(time.Duration(n) * time.Hour)}
}

// bench is a service over a store of its own.
type bench struct {
	*digest.Service
	feeds   feeds
	db      *records.Store
	now     time.Time
	sent    []store.Post
	shown   []chat.Draft              // posted at once
	refuse  func(chat.Address) string // why a place takes nothing
	threads func(chat.Address) bool   // where a post can have a thread below it; nil: nowhere
	options digest.Options
}

// setElsewhere is what people and operators have set.
type setElsewhere struct {
	language   string
	maxPerUser int
}

func (s setElsewhere) Language(chat.Address) string { return s.language }
func (s setElsewhere) MaxDigestsPerUser() int       { return s.maxPerUser }

// service has one digest, called morning and posted to general.
func service(t *testing.T, p digest.Plan, change ...func(*digest.Options)) *bench {
	t.Helper()
	b := &bench{feeds: feeds{}, now: monday}
	db, err := storage.OpenFile(filepath.Join(t.TempDir(), "raven.db"), func() time.Time { return b.now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	b.db = db
	b.options = digest.Options{
		Feeds:     b.feeds,
		Store:     db,
		Delivery:  b,
		Platforms: b,
		Log:       slog.New(slog.DiscardHandler),
		Now:       func() time.Time { return b.now },
	}
	for _, c := range change {
		c(&b.options)
	}
	p.Name, p.Post = "morning", []string{general.String()}
	if p.Schedule == "" {
		p.Schedule = "30 8 * * *"
	}
	b.Service = digest.New(b.options)
	if err := b.Configure([]digest.Plan{p}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) Ready() <-chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}

func (b *bench) Interject(_ context.Context, _ chat.Address, d chat.Draft, _ string) error {
	b.shown = append(b.shown, d)
	return nil
}

func (b *bench) CanPost(chat.Address) bool { return true }

func (b *bench) CanThread(to chat.Address) bool { return b.threads != nil && b.threads(to) }

// CheckPost takes all tags but those that are called unknown.
func (b *bench) CheckPost(_ context.Context, _ chat.Address, tags []string) error {
	if slices.Contains(tags, "unknown") {
		return &chat.SetupError{Reason: "the forum has no tag unknown", Remedy: "name another"}
	}
	return nil
}

// ReadersCanRead has every place readable by all.
func (b *bench) ReadersCanRead(context.Context, chat.Address, chat.Address) (bool, error) {
	return true, nil
}

// Command is what the command answers to a text.
func (b *bench) Command(ctx context.Context, m chat.Message) chat.Draft {
	m.Command = "digest"
	d, _ := handled(ctx, b, m)
	return d
}

func (b *bench) Deliver(posts []store.Post) func(context.Context) []store.Outcome {
	b.sent = append(b.sent, posts...)
	return func(context.Context) []store.Outcome {
		var all []store.Outcome
		for _, p := range posts {
			o := store.Outcome{Key: p.Key}
			if b.refuse != nil {
				o.Error = b.refuse(p.To)
			}
			all = append(all, o)
		}
		return all
	}
}

// restart begins anew on what the store holds.
func (b *bench) restart(t *testing.T, plans ...digest.Plan) {
	t.Helper()
	b.Service = digest.New(b.options)
	if err := errors.Join(b.Configure(plans), b.Reload(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func writes(text string) func(*digest.Options) {
	return func(o *digest.Options) {
		o.Writer = func(digest.Plan) digest.Writer {
			return func(_ context.Context, _, prompt string, schema json.RawMessage) (string, string, error) {
				if schema == nil {
					return text, "gemini/test", nil
				}
				return answerOf(text, prompt), "gemini/test", nil
			}
		}
	}
}

var listed = regexp.MustCompile(`\[(\d+)\]`)

// answerOf returns a text as a model's answer about the items of a prompt: the lines of lists are said of the first items
// that they cite, below their topics, and what else there is stands in the opening. It is blank for a blank text.
func answerOf(text, prompt string) string {
	if strings.TrimSpace(text) == "" {
		return text
	}
	type object = map[string]any
	said, topics := map[string]string{}, map[string]string{}
	topic, opening := "", []string{}
	for _, line := range strings.Split(text, "\n") {
		name, isTopic := strings.CutPrefix(line, "# ")
		n := listed.FindStringSubmatch(line)
		switch {
		case isTopic:
			topic = name
		case !strings.HasPrefix(line, "- "):
			opening = append(opening, line)
		case n != nil:
			said[n[1]], topics[n[1]] = line[2:], topic
		}
	}
	var items []object
	for _, m := range regexp.MustCompile(`(?m)^\[(\d+)\] `).FindAllStringSubmatch(prompt, -1) {
		n, _ := strconv.Atoi(m[1])
		items = append(items, object{"n": n, "relevance": 7, "kind": "news", "text": said[m[1]], "topic": topics[m[1]]})
	}
	raw, err := json.Marshal(object{"opening": opening, "language": "en", "items": items, "lesser": []int{}})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func from(urls ...string) (list []digest.Feed) {
	for _, u := range urls {
		list = append(list, digest.Feed{URL: u})
	}
	return list
}

func (b *bench) run(t *testing.T, due time.Time) store.Run {
	t.Helper()
	run, err := b.Run(t.Context(), "morning", due, false)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func urls(d chat.Draft) []string {
	var list []string
	for _, c := range d.Cards {
		list = append(list, strings.TrimPrefix(c.URL, "https://example.org/"))
	}
	return list
}

const a, b2 = "https://example.org/feed/a", "https://example.org/feed/b"

func TestOnlyWhatIsNewIsPosted(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a), MaxItems: 3})
	for n := range 5 {
		b.feeds[a] = append(b.feeds[a], story(n))
	}
	for i, c := range []struct {
		add  []feed.Item
		want []string
	}{
		{nil, []string{"4", "3", "2"}}, // first: the newest, the surplus is not carried over
		{nil, nil},
		{[]feed.Item{story(7), story(6)}, []string{"7", "6"}},
	} {
		b.feeds[a] = append(b.feeds[a], c.add...)
		b.sent = nil
		p, err := b.Preview(t.Context(), "morning")
		if err != nil {
			t.Fatal(err)
		}
		if run := b.run(t, monday.AddDate(0, 0, i)); run.Posted != len(c.want) || !run.OK {
			t.Errorf("run %d: %+v", i, run)
		}
		var got []string
		for _, post := range b.sent {
			got = append(got, urls(post.Draft)...)
			// Of the run alone, with its day.
			p.Draft.Key, p.Draft.Buttons, p.Draft.Title = post.Draft.Key, post.Draft.Buttons, post.Draft.Title
			p.Draft.Origin, p.Draft.News = post.Draft.Origin, true
			if diff := cmp.Diff(p.Draft, post.Draft); diff != "" {
				t.Errorf("run %d differs from its preview (-preview +run):\n%s", i, diff)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("run %d posted (-want +got):\n%s", i, diff)
		}
	}
}

func TestARunForOneInstantPostsOnce(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a), MaxItems: 3})
	b.feeds[a] = []feed.Item{story(1)}
	b.run(t, monday)
	b.feeds[a] = append(b.feeds[a], story(2))
	b.run(t, monday)
	if len(b.sent) != 1 {
		t.Errorf("%d posts were sent, want 1", len(b.sent))
	}
}

func TestTheSameStoryIsOneEntry(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a, b2), MaxItems: 10, Filters: []string{"-spam"}})
	twin := story(1)
	twin.Link += "?utm_source=feed"
	spam, bare, evil := story(5), story(6), story(7)
	spam.Title, bare.Link, evil.Link = "Spam for you, nothing else", "", "javascript:alert(1)"
	b.feeds[a], b.feeds[b2] = []feed.Item{story(1), story(2)}, []feed.Item{twin, spam, bare, evil}
	p, err := b.Preview(t.Context(), "morning")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"posted", "posted", "merged into Story number 1 of a long series", "filtered by -spam",
		"no link", "no link"}
	var got []string
	for _, v := range p.Items {
		got = append(got, v.Verdict)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if also := p.Draft.Cards[0].Also; len(also) != 1 || also[0].URL != twin.Link {
		t.Errorf("the twin is told as %+v", also)
	}
}

func TestAFeedThatFailsIsNamedAndOthersGoOn(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a, b2), MaxItems: 10})
	b.feeds[a] = []feed.Item{story(1)}
	b.run(t, monday)
	footer := b.sent[0].Draft.Footer
	if told := b.notices(); len(told) != 1 || !strings.Contains(told[0], b2+" could not be fetched") {
		t.Errorf("the channel was told %q, want the feed that fails", told)
	}
	if !strings.Contains(footer, b2+" could not be fetched") || strings.Contains(footer, "secret") {
		t.Errorf("footer %q, want the feed named without the inside", footer)
	}
	delete(b.feeds, a)
	run, err := b.Run(t.Context(), "morning", monday.Add(time.Hour), false)
	if err == nil || run.OK || len(b.sent) != 3 || !b.sent[2].Draft.Failed {
		t.Errorf("with no feed at all: run %+v, %d posts, error %v; want a failure that is posted", run, len(b.sent), err)
	}
	b.feeds[a] = []feed.Item{story(1), story(2)}
	b.run(t, monday.Add(2*time.Hour))
	if got := urls(b.sent[3].Draft); len(got) != 1 || got[0] != "2" {
		t.Errorf("after the failure %v was posted, want what is new since the last success", got)
	}
}

// notices are the posts about feeds that fail and work again.
func (b *bench) notices() (list []string) {
	for _, p := range b.sent {
		if strings.Contains(p.Key, "/feeds/") {
			list = append(list, p.Draft.Text)
		}
	}
	return list
}

func TestAChannelIsToldOnceThatAFeedFailsAndOnceThatItWorks(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a, b2), MaxItems: 10})
	b.feeds[a] = []feed.Item{story(1)}
	for n, want := range []int{1, 1, 1, 2, 2, 3} {
		b.now = monday.AddDate(0, 0, n)
		if delete(b.feeds, b2); n == 3 || n == 4 {
			b.feeds[b2] = []feed.Item{story(2)}
		}
		b.run(t, b.now)
		if n == 2 {
			b.restart(t, digest.Plan{Name: "morning", Schedule: "30 8 * * *", Post: []string{general.String()},
				Feeds: from(a, b2), MaxItems: 10})
		}
		told := b.notices()
		if len(told) != want {
			t.Fatalf("after run %d the channel was told %d times, want %d: %q", n, len(told), want, told)
		}
		if last := told[len(told)-1]; strings.Contains(last, "A feed works again") != (n == 3 || n == 4) ||
			strings.Contains(last, "secret") {
			t.Errorf("run %d: %q", n, last)
		}
	}
}

func TestAModelsSentencesNeedAnItem(t *testing.T) {
	written := "The council met on two matters [1][2]. Aliens have landed in Oslo. It was **settled** late. [2] " +
		"More at [this page](https://evil.example/x) and https://evil.example [1]. Nothing else [9]."
	b := service(t, digest.Plan{Feeds: from(a), MaxItems: 10}, func(o *digest.Options) {
		o.Writer = func(digest.Plan) digest.Writer {
			return func(_ context.Context, _, prompt string, _ json.RawMessage) (string, string, error) {
				if !strings.Contains(prompt, "[1] Story number 2") {
					t.Errorf("prompt lacks the numbered items:\n%s", prompt)
				}
				return answerOf(written, prompt), "gemini/test", nil
			}
		}
	})
	b.feeds[a] = []feed.Item{story(1), story(2)}
	p, err := b.Preview(t.Context(), "morning")
	if err != nil {
		t.Fatal(err)
	}
	text := p.Draft.Text
	for _, never := range []string{"evil", "Aliens", "Nothing else"} {
		if strings.Contains(text, never) {
			t.Errorf("the text holds %q:\n%s", never, text)
		}
	}
	for _, want := range []string{"two matters. [[1]](https://example.org/2)[[2]](https://example.org/1)",
		"settled"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if !strings.Contains(p.Draft.Footer, "summary by test") {
		t.Errorf("footer %q does not say who wrote", p.Draft.Footer)
	}
}

func TestWithoutAModelTheItemsOwnSentencesAreUsed(t *testing.T) {
	for name, writer := range map[string]func(digest.Plan) digest.Writer{
		"nobody": nil, "none for this agent": func(digest.Plan) digest.Writer { return nil },
		"one that fails": func(digest.Plan) digest.Writer {
			return func(context.Context, string, string, json.RawMessage) (string, string, error) {
				return "", "", errors.New("down")
			}
		},
		"one that says nothing": func(digest.Plan) digest.Writer {
			return func(context.Context, string, string, json.RawMessage) (string, string, error) { return " ", "m", nil }
		},
	} {
		for _, style := range []string{digest.Brief, digest.Bullets, digest.Topics} {
			b := service(t, digest.Plan{Feeds: from(a), MaxItems: 10, Style: style}, func(o *digest.Options) {
				o.Writer = writer
			})
			b.feeds[a] = []feed.Item{story(1), story(2), story(3)}
			run := b.run(t, monday)
			d := b.sent[0].Draft
			if style == digest.Brief && !strings.Contains(d.Text, "debate. [[1]](https://example.org/3)") {
				t.Errorf("%s: the summary does not name its items: %q", name, d.Text)
			}
			if !strings.Contains(d.Text, "The town council decided on matter") ||
				!strings.Contains(d.Footer, "without a language model") || strings.Contains(d.Footer, "by m") || run.Posted != 3 {
				t.Errorf("%s, %s: text %q, footer %q", name, style, d.Text, d.Footer)
			}
		}
	}
}

func TestNothingNewIsSaidWhereItIsWanted(t *testing.T) {
	for _, say := range []bool{true, false} {
		b := service(t, digest.Plan{Feeds: from(a), MaxItems: 10, WhenEmpty: map[bool]string{true: "say"}[say]})
		b.feeds[a] = []feed.Item{}
		if b.run(t, monday); (len(b.sent) == 1) != say {
			t.Errorf("sayEmpty %v: %d posts", say, len(b.sent))
		}
	}
}

func TestCommand(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a), MaxItems: 10, Schedule: "30 8 * * *", Timezone: "UTC"})
	b.feeds[a] = []feed.Item{story(1)}
	for _, c := range []struct{ text, want string }{
		{"list", "30 8 * * *"}, {"preview morning", "Monday 2 March · 1 of 1 new item"},
		{"run morning", "on its way to `web:/general` with 1 item"}, {"run nonesuch", "no digest \"nonesuch\""}, {"dance", "Say `digest list`"},
	} {
		if d := b.Command(t.Context(), chat.Message{
			Text:         c.text,
			Conversation: general,
			Author:       chat.User{ID: "1"},
		}); !strings.Contains(d.Text, c.want) {
			t.Errorf("digest %s: %q, want %q in it", c.text, d.Text, c.want)
		}
	}
}

func TestADigestThatNoPlaceTakesHasFailed(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a), MaxItems: 10})
	b.feeds[a] = []feed.Item{story(1)}
	b.refuse = func(chat.Address) string { return "unknown channel" }
	run, err := b.Run(t.Context(), "morning", monday, true)
	if err == nil || run.OK || run.Posted != 0 || !strings.Contains(run.Note,
		"not posted to web:/general: unknown channel") {
		t.Errorf("run %+v, %v; want a failure that names place and reason", run, err)
	}
	b.refuse = nil
	b.now = monday.Add(time.Hour)
	if run := b.run(t, b.now); run.Posted != 1 {
		t.Errorf("the next run posted %d items, want the one that nobody got", run.Posted)
	}
	list, err := b.List(t.Context())
	if err != nil || list[0].Last.Note != "" {
		t.Errorf("the last run is %+v, %v", list[0].Last, err)
	}
}

// topical returns an item about a topic of its own.
func topical(n int, title, text string) feed.Item {
	return feed.Item{ID: fmt.Sprint(n), Title: title, Link: fmt.Sprintf("https://example.org/%d", n),
		Summary: "<p>" + text + "</p>", Published: monday}
}
