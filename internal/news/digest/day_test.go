package digest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
)

// dayItem is an item of a made-up day, with what a reader would think of it.
type dayItem struct {
	feed.Item
	source   string
	language string
	worth    int
	event    string
}

// readDay reads a made-up day from a file of testdata. A line is hours|worth|event|title|text, below its feed.
func readDay(t *testing.T, name string, now time.Time) (items []dayItem) {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	source, language := "", ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if head, ok := strings.CutPrefix(line, "= "); ok {
			source, language, _ = strings.Cut(head, " ")
			continue
		}
		part := strings.SplitN(line, "|", 5)
		if len(part) != 5 || strings.HasPrefix(line, "#") {
			continue
		}
		hours, _ := strconv.Atoi(part[0])
		worth, _ := strconv.Atoi(part[1])
		n := len(items)
		it := feed.Item{ID: fmt.Sprint(n), Title: part[3], Summary: part[4],
			Link:      fmt.Sprintf("https://%s.example/%d", source, n),
			Published: now.Add(-time.Duration(hours) * time.Hour)}
		if source == "threads" || source == "agora" {
			it.Link = fmt.Sprintf("https://%s.example/r/it/comments/%d/", source, n)
		}
		items = append(items, dayItem{it, source, language, worth, part[2]})
	}
	return items
}

// dayFeeds are the feeds of a made-up day, by address.
type dayFeeds struct{ items []dayItem }

func dayAddress(source string) string { return "https://" + source + ".example/feed" }

func (f *dayFeeds) addresses() (all []string) {
	for _, i := range f.items {
		if a := dayAddress(i.source); !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

func (f *dayFeeds) Fetch(_ context.Context, address string) (feed.Result, error) {
	r := feed.Result{}
	for _, i := range f.items {
		if dayAddress(i.source) == address {
			r.Items = append(r.Items, i.Item)
			r.Feed.Title = strings.ToUpper(i.source[:1]) + i.source[1:]
		}
	}
	return r, nil
}

func (f *dayFeeds) FetchAll(ctx context.Context, urls []string, turn func(func())) ([]feed.Result, []error) {
	return fetchEach(ctx, f.Fetch, urls, turn)
}

func (f *dayFeeds) PollAll(ctx context.Context, urls []string, turn func(func())) ([]feed.Result, []error) {
	return fetchEach(ctx, f.Fetch, urls, turn)
}

func (f *dayFeeds) Find(context.Context, string) ([]feed.Link, error) { return nil, feed.ErrNoFeed }

// find returns the item that a model is shown under a title.
func (f *dayFeeds) find(title string) (dayItem, bool) {
	n := slices.IndexFunc(f.items, func(i dayItem) bool { return i.Title == title || i.Title == "" && i.Summary == title })
	if n < 0 {
		return dayItem{}, false
	}
	return f.items[n], true
}

var shownItem = regexp.MustCompile(`(?m)^\[(\d+)\] (.*) \(([^()]*)\)$`)

// dayEditor answers as a model that judges the items by their hidden worth.
type dayEditor struct {
	feeds    *dayFeeds
	requests []string // the prompts
	blind    bool     // it does not notice which tell the same
}

func (e *dayEditor) use(o *digest.Options) {
	o.Writer = func(digest.Plan) digest.Writer {
		return func(_ context.Context, _, prompt string, _ json.RawMessage) (string, string, error) {
			e.requests = append(e.requests, prompt)
			return e.answer(prompt), "default/raven-large-2", nil
		}
	}
}

func (e *dayEditor) answer(prompt string) string {
	type object = map[string]any
	items, _, _ := strings.Cut(prompt, "Posted before:\n")
	first := map[string]int{}
	var list []object
	var opening []string
	for _, m := range shownItem.FindAllStringSubmatch(items, -1) {
		n, _ := strconv.Atoi(m[1])
		i, ok := e.feeds.find(m[2])
		if !ok {
			continue
		}
		text := strings.SplitAfter(i.Summary, ". ")
		one := object{"n": n, "relevance": i.worth, "kind": "news", "topic": "News", "language": i.language[:2],
			"text": strings.TrimSpace(text[0]) + fmt.Sprintf(" [%d]", n)}
		if i.language != "English" {
			one["title"] = "In English: " + i.event
		} else {
			one["language"] = "en"
		}
		if at, ok := first[i.event]; ok && i.event != "" && !e.blind {
			one["sameAs"] = at
		} else {
			first[i.event] = n
		}
		if list = append(list, one); i.worth >= 9 && len(opening) < 2 {
			opening = append(opening, fmt.Sprintf("%s [%d].", strings.TrimSuffix(text[0], ". "), n))
		}
	}
	raw, _ := json.Marshal(object{"language": "en", "opening": opening, "items": list})
	return string(raw)
}

// dayFigures are what a reader sees of a day.
type dayFigures struct {
	posted, worthless, top, twice int
	missing                       []string
	places                        []string
}

// figuresOf counts what of a day was posted: of the ten worthiest events how many, how many places are worth less than 3,
// and how many events have more than one.
func figuresOf(items []dayItem, verdicts []digest.Verdict) (f dayFigures) {
	byLink := map[string]dayItem{}
	best := map[string]int{}
	for _, i := range items {
		byLink[i.Link] = i
		if i.event != "" {
			best[i.event] = max(best[i.event], i.worth)
		}
	}
	shown := map[string]int{}
	for _, v := range verdicts {
		if v.Verdict != "posted" {
			continue
		}
		i := byLink[v.Link]
		f.posted++
		f.places = append(f.places, fmt.Sprintf("%d %s", i.worth, v.Title))
		if max(i.worth, best[i.event]) < 3 {
			f.worthless++
		}
		if i.event != "" {
			if shown[i.event]++; shown[i.event] > 1 {
				f.twice++
			}
		}
	}
	var events []string
	for e := range best {
		events = append(events, e)
	}
	slices.SortFunc(events, func(a, b string) int { return 100*(best[b]-best[a]) + strings.Compare(a, b) })
	for _, e := range events[:10] {
		if shown[e] > 0 {
			f.top++
		} else {
			f.missing = append(f.missing, e)
		}
	}
	return f
}

// runDay previews a digest of a made-up day of which nothing was seen before.
func runDay(t *testing.T, name string, p digest.Plan, before bool, change ...func(*digest.Options)) (
	digest.Preview, dayFigures, *dayFeeds,
) {
	t.Helper()
	f := &dayFeeds{items: readDay(t, name, monday)}
	all := f.items
	b := service(t, digest.Plan{Feeds: from(a)}, append([]func(*digest.Options){func(o *digest.Options) { o.Feeds = f }},
		change...)...)
	p.Feeds = from(f.addresses()...)
	b.plan(t, p)
	if before {
		f.items = []dayItem{{Item: feed.Item{ID: "old", Title: "The day before was quiet in the town of Sollen",
			Link: "https://tribune.example/old", Published: monday.Add(-25 * time.Hour)}, source: all[0].source, language: "English"}}
		b.now = monday.Add(-24 * time.Hour)
		b.run(t, b.now)
		f.items, b.now = all, monday
	}
	preview := b.preview(t)
	return preview, figuresOf(all, preview.Items), f
}

// The main stories of a day are in its digest, each once, and hardly anything else: with a model, without one, at the
// first run of a digest and later.
func TestDay_MainStoriesAreInIt(t *testing.T) {
	for _, name := range []string{"day.txt", "day2.txt"} {
		for _, c := range []struct {
			what      string
			before    bool
			model     bool
			blind     bool
			style     string
			top       int
			worthless int
		}{
			{"model", true, true, false, digest.Brief, 9, 1},
			{"model, first run", false, true, false, digest.Topics, 9, 1},
			{"model that notices no repeats", true, true, true, digest.Bullets, 9, 1},
			{"model, titles", true, true, false, digest.Titles, 9, 1},
			{"no model", true, false, false, digest.Bullets, 6, 3},
			{"no model, first run", false, false, false, digest.Brief, 6, 3},
		} {
			if c.blind && name != "day.txt" { // whose reports in two languages have numbers in common
				continue
			}
			t.Run(name+" "+c.what, func(t *testing.T) {
				e := &dayEditor{blind: c.blind}
				p, got, f := runDay(t, name, digest.Plan{Style: c.style, MaxItems: 12}, c.before, func(o *digest.Options) {
					if e.feeds = o.Feeds.(*dayFeeds); c.model {
						e.use(o)
					}
				})
				t.Logf("%d feeds, %d items: %d places, %d of 10, %d worthless, %d twice, without %v\n%s",
					len(f.addresses()), len(f.items), got.posted, got.top, got.worthless, got.twice, got.missing,
					strings.Join(got.places, "\n"))
				if got.top < c.top || got.worthless > c.worthless || got.twice > 0 || got.posted < 8 {
					t.Errorf("%d of the ten worthiest, %d worthless, %d twice", got.top, got.worthless, got.twice)
				}
				for n, prompt := range e.requests {
					if n == 0 && len(prompt) > 4*4500 {
						t.Errorf("the headlines take %d bytes", len(prompt))
					}
				}
				if os.Getenv("RAVENBOT_SHOW") != "" {
					t.Logf("\n%s", draftOf(p.Draft))
				}
			})
		}
	}
}

// draftOf returns a draft as text.
func draftOf(d chat.Draft) string {
	var b strings.Builder
	b.WriteString(d.Text)
	for _, c := range d.Cards {
		fmt.Fprintf(&b, "\n\n%d. %s\n   %s\n   (%s; %s) %v", c.N, c.Title, c.Text, c.Source, strings.Join(c.Notes(), ", "), c.Also)
	}
	return b.String() + "\n-- " + d.Footer
}
