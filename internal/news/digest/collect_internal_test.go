package digest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

// records is a store of items in memory. What else is asked of it does not work.
type records struct {
	Store
	kept         map[string]map[string]json.RawMessage
	runs         []store.Run // of every digest, newest first
	subs         []store.Subscription
	words        []store.Feedback
	unsubscribed []string

	amended   []store.Run
	forgotten []string // items that are new again
}

func newRecords() *records { return &records{kept: map[string]map[string]json.RawMessage{}} }

func (r *records) Items(_ context.Context, kind string) (map[string]json.RawMessage, error) {
	return maps.Clone(r.kept[kind]), nil
}

func (r *records) Item(_ context.Context, kind, name string) (json.RawMessage, error) {
	if raw, ok := r.kept[kind][name]; ok {
		return raw, nil
	}
	return nil, store.ErrNotFound
}

func (r *records) SaveItem(_ context.Context, kind, name string, raw json.RawMessage, overwrite bool) error {
	if _, ok := r.kept[kind][name]; ok && !overwrite {
		return store.ErrExists
	}
	if r.kept[kind] == nil {
		r.kept[kind] = map[string]json.RawMessage{}
	}
	r.kept[kind][name] = raw
	return nil
}

func (r *records) DeleteItem(_ context.Context, kind, name string) error {
	if _, ok := r.kept[kind][name]; !ok {
		return store.ErrNotFound
	}
	delete(r.kept[kind], name)
	return nil
}

func (r *records) LastRuns(_ context.Context, _ string, n int) ([]store.Run, error) {
	return r.runs[:min(n, len(r.runs))], nil
}

// onRecords returns a service over items in memory.
func onRecords() (*Service, *records) {
	r := newRecords()
	return New(Options{Store: r, Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)}), r
}

// Each item that needs no comparison gets its verdict, the first that fits.
func TestDecideAlone(t *testing.T) {
	for name, c := range map[string]struct {
		change          func(*item, *spec)
		verdict, reason string
	}{
		"nothing":            {func(*item, *spec) {}, "", ""},
		"no link":            {func(i *item, _ *spec) { i.Link = "" }, "no link", ""},
		"a foreign link":     {func(i *item, _ *spec) { i.Link = "javascript:x" }, "no link", ""},
		"an event":           {func(i *item, _ *spec) { i.Link, i.event = "", "build" }, "", ""},
		"an event, bad link": {func(i *item, _ *spec) { i.Link, i.event = "javascript:x", "build" }, "no link", ""},
		"muted":              {func(i *item, _ *spec) { i.feed.Mute = true }, "muted", "its feed is muted"},
		"as old as may be": {func(i *item, d *spec) {
			i.Published, d.MaxAge = noon.Add(-time.Hour),
				Duration(time.Hour)
		}, "", ""},
		"too old": {func(i *item, d *spec) {
			i.Published, d.MaxAge = noon.Add(-time.Hour-1),
				Duration(time.Hour)
		}, "too old", ""},
		"of no age":  {func(_ *item, d *spec) { d.MaxAge = Duration(time.Hour) }, "", ""},
		"any age":    {func(i *item, _ *spec) { i.Published = noon.AddDate(-1, 0, 0) }, "", ""},
		"has waited": {func(i *item, _ *spec) { i.since = noon.AddDate(0, 0, -7) }, "", ""},
		"has waited too long": {func(i *item, _ *spec) { i.since = noon.AddDate(0, 0, -7).Add(-1) }, "too old",
			"it has waited for a place since 23 Feb 11:59"},
		"filtered": {func(_ *item, d *spec) { d.filters = []filter{mustFilter("-boat")} }, "filtered by -boat",
			""},
		"wanted": {func(_ *item, d *spec) { d.filters = []filter{mustFilter("boat")} }, "", ""},
		"an advertisement": {func(i *item, _ *spec) { i.Categories = []string{"Sponsored"} }, "advertisement",
			`it calls itself "Sponsored"`},
		"adverts are welcome": {func(i *item, d *spec) { i.Categories, d.Adverts = []string{"Sponsored"}, true }, "", ""},
		"muted before too old": {func(i *item, d *spec) {
			i.feed.Mute, i.Published, d.MaxAge = true, noon.AddDate(-1, 0,
				0), 1
		}, "muted", "its feed is muted"},
	} {
		st := tale("A", "A new boat", "It sails.")
		d := spec{zone: time.UTC}
		c.change(st.item, &d)
		if verdict, reason := d.decideAlone(st.item, noon); verdict != c.verdict || reason != c.reason {
			t.Errorf("%s: %q because %q, want %q because %q", name, verdict, reason, c.verdict, c.reason)
		}
	}
}

// mustFilter reads a filter.
func mustFilter(text string) filter {
	f, err := parseFilter(text, time.UTC)
	if err != nil {
		panic(err)
	}
	return f
}

// An item passes where a filter that includes fits, and none that excludes; a mute holds until its day begins.
func TestFailedFilter(t *testing.T) {
	for name, c := range map[string]struct {
		filters []string
		want    string
	}{
		"none":                 {nil, ""},
		"excluded":             {[]string{"-BOAT"}, "filtered by -BOAT"},
		"not excluded":         {[]string{"-car"}, ""},
		"wanted":               {[]string{"car", "boat"}, ""},
		"not wanted":           {[]string{"car", "train"}, "filtered by car, train"},
		"wanted and excluded":  {[]string{"boat", "-sails"}, "filtered by -sails"},
		"by its topic":         {[]string{"-harbour"}, "filtered by -harbour"},
		"an expression":        {[]string{"-/b.at/"}, "filtered by -/b.at/"},
		"a mute":               {[]string{"mute:boat until 2026-03-03"}, "filtered by mute:boat until 2026-03-03"},
		"a mute that is over":  {[]string{"mute:boat until 2026-03-02"}, ""},
		"far behind":           {[]string{"-deep"}, ""},
		"behind what is read":  {[]string{"deep"}, "filtered by deep"},
		"a mute is no wish":    {[]string{"mute:car until 2026-03-03"}, ""},
		"a topic is not wish":  {[]string{"-/^harbour$/"}, ""},
		"over its lines":       {[]string{"-/boat.*sails/"}, ""},
		"one word of the text": {[]string{"sails"}, ""},
	} {
		var filters []filter
		for _, text := range c.filters {
			filters = append(filters, mustFilter(text))
		}
		st := tale("A", "A new boat", "It sails. "+strings.Repeat("x", 16<<10)+" deep")
		if !strings.HasPrefix(name, "far") && !strings.HasPrefix(name, "behind") {
			st = tale("A", "A new boat", "It sails.")
		}
		st.Categories = []string{"Harbour"}
		if got := failedFilter(st.item, filters, noon); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The verdicts that tell the most come first: failed feeds, then what was posted and what waits.
func TestListVerdicts_Order(t *testing.T) {
	e := &edition{failures: map[string]string{"b": "gone", "a": "down"}, shownURLs: map[string]string{"a": "A",
		"b": "B"}}
	for _, verdict := range []string{seenBefore, overLimit, "muted", carriedOver, posted, "merged into X"} {
		st := tale("A", verdict, "")
		st.verdict, st.reason = verdict, "why"
		e.items = append(e.items, st.item)
	}
	e.listVerdicts()
	var got []string
	for _, v := range e.verdicts {
		got = append(got, v.Feed+" "+v.Verdict+" "+v.Reason)
	}
	want := []string{"A feed failed: down ", "B feed failed: gone ", "A posted why", "A carried over why", "A muted why",
		"A merged into X why", "A over the limit why", "A already seen why"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if why := e.verdicts[2].Why(); why != "why; "+e.verdicts[2].Score.String() {
		t.Errorf("why it was posted: %s", why)
	}
}

// All that was decided about counts as seen, but for what waits; only what was not seen before is new. Messages of
// channels count as well, and a weekly digest has no items of its own.
func TestListSeen(t *testing.T) {
	e := &edition{seen: map[string]bool{"old": true}}
	for _, id := range []string{"old", "new", "waits", "with it"} {
		e.items = append(e.items, &item{id: id})
	}
	e.waiting = []story{{item: e.items[2], also: []*item{e.items[3]}}}
	e.report.IDs = []string{"m1"}
	e.listSeen(spec{})
	hash := messageHash("m1")
	if !slices.Equal(e.seenIDs, []string{"old", "new", hash}) || !slices.Equal(e.newIDs, []string{"new", hash}) {
		t.Errorf("seen %q, new %q", e.seenIDs, e.newIDs)
	}
	e.seenIDs, e.newIDs = nil, nil
	if e.listSeen(spec{Plan: Plan{Style: Weekly}}); e.seenIDs != nil || e.newIDs != nil {
		t.Errorf("of a weekly digest: seen %q, new %q", e.seenIDs, e.newIDs)
	}
}

// Channels are told once that a feed fails, polls only when it fails for the third time, and once that it works again.
// A feed that was not asked stays as it was, and one that left the digest is forgotten.
func TestUpdateFailures(t *testing.T) {
	const x, y = "https://x.example/feed", "https://y.example/feed"
	s, kept := onRecords()
	d := spec{Plan: Plan{Name: "news", Feeds: []Feed{{URL: x}, {URL: y, Shown: "https://y.example/***"}}},
		title: "news", zone: time.UTC,
		post: []chat.Address{{Platform: "web", Channel: "a"}, {Platform: "web", Channel: "b"}}}
	step := func(d spec, hours int, failing map[string]string, unasked ...string) (lines []string, keys []string) {
		t.Helper()
		e := &edition{failures: failing, unasked: map[string]bool{}}
		for _, u := range unasked {
			e.unasked[u] = true
		}
		after, posts, err := s.updateFailures(t.Context(), d, e, noon.Add(time.Duration(hours)*time.Hour))
		if err == nil {
			err = s.saveFailures(t.Context(), d, after)
		}
		if err != nil || len(posts) != 0 && len(posts) != 2 {
			t.Fatalf("%d posts, %v", len(posts), err)
		}
		for _, p := range posts {
			keys = append(keys, p.Key)
		}
		if len(posts) > 0 {
			lines = strings.Split(strings.TrimPrefix(posts[1].Draft.Text, "**news**\n\n- "), "\n- ")
		}
		return lines, keys
	}
	fails := map[string]string{x: "x is down", y: "y is down"}
	lines, first := step(d, 0, fails)
	want := []string{"A feed fails: x is down. I keep trying and post again when it works.",
		"A feed fails: y is down. I keep trying and post again when it works."}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if lines, _ = step(d, 1, fails); lines != nil {
		t.Errorf("told again %q", lines)
	}
	if lines, _ = step(d, 2, map[string]string{x: "x is down"}, y); lines != nil {
		t.Errorf("of a feed that was not asked: %q", lines)
	}
	lines, _ = step(d, 3, map[string]string{x: "x is down"})
	if diff := cmp.Diff([]string{"A feed works again: https://y.example/\\*\\*\\*. It had failed since 2 Mar 12:00 UTC."},
		lines); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if lines, again := step(d, 4, fails); len(lines) != 1 || slices.Equal(again, first) {
		t.Errorf("a later failure is told %q with the keys %q", lines, again)
	}
	left := d
	left.Feeds = []Feed{{URL: "https://z.example/feed"}}
	if lines, _ = step(left, 5, nil); lines != nil || string(kept.kept[failureKind]["news"]) != "{}" {
		t.Errorf("feeds that left are told %q, kept %s", lines, kept.kept[failureKind]["news"])
	}
	quiet := d
	quiet.Name, quiet.quiet = "poll", true
	for n := range 4 {
		lines, _ = step(quiet, n, map[string]string{x: "x is down"})
		if (len(lines) == 1) != (n == 2) {
			t.Errorf("poll %d: told %q", n, lines)
		}
	}
	quiet.Name = "fine"
	if step(quiet, 0, nil); kept.kept[failureKind]["fine"] != nil {
		t.Error("that nothing fails is stored")
	}
	quiet.Name = "moment"
	step(quiet, 0, map[string]string{x: "x is down"})
	if lines, _ = step(quiet, 1, nil); lines != nil {
		t.Errorf("a failure that nobody was told of is healed with %q", lines)
	}
}

// What waits comes back with the next run: from its feed, where it is still listed, else as it was stored. Feeds that
// left the digest take theirs along; polls have nothing that waits.
func TestAddWaiting(t *testing.T) {
	s, _ := onRecords()
	listed, gone, left := tale("A", "listed", "old words"), tale("A", "gone", "kept words"), tale("B", "left", "")
	d := spec{Plan: Plan{Name: "news", Feeds: []Feed{{URL: listed.feed.URL, Weight: 3}}}}
	e := &edition{waiting: []story{listed, gone, left}}
	event := tale("hook", "event", "")
	event.event = "build"
	since := noon.Add(-time.Hour)
	gone.since = since
	e.chosen = []story{event}
	if err := s.saveItem(t.Context(), waitingKind, "news", newWaitingItems(e, noon)); err != nil {
		t.Fatal(err)
	}
	fresh := tale("A", "listed", "new words")
	e = &edition{items: []*item{fresh.item}}
	if err := s.addWaiting(t.Context(), d, e); err != nil {
		t.Fatal(err)
	}
	if len(e.items) != 2 || e.items[0].text() != "new words" || !e.items[0].since.Equal(noon) ||
		e.items[1].text() != "kept words" ||
		!e.items[1].since.Equal(since) || e.items[1].feed.Weight != 3 || e.items[1].listed || !e.waited {
		t.Errorf("came back: %+v", e.items)
	}
	e = &edition{}
	if err := s.addWaiting(t.Context(), spec{Plan: d.Plan, quiet: true}, e); err != nil || len(e.items) != 0 {
		t.Errorf("a poll has %d items that wait, %v", len(e.items), err)
	}
	e = &edition{}
	for n := range 201 {
		e.waiting = append(e.waiting, tale("A", fmt.Sprint(n), ""))
	}
	if n := len(newWaitingItems(e, noon).Items); n != 200 {
		t.Errorf("%d items are kept, want 200", n)
	}
}

// Events are texts, not markup, and each is an entry of its own.
func TestAddEvents(t *testing.T) {
	s, kept := onRecords()
	d := spec{Plan: Plan{Name: "news", Hooks: []string{"ci"}}}
	s.created["news"] = d
	it := feed.Item{ID: "1", Title: "a < b", Summary: "one\ntwo <b>", Link: "https://ci.example/1", Published: noon}
	for range 2 {
		if err := s.AddEvent(t.Context(), "news", "ci", it); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.saveItem(t.Context(), eventKind+"news", "later", event{Version: 2}); err != nil {
		t.Fatal(err)
	}
	e := &edition{}
	if err := s.addEvents(t.Context(), d, e); err != nil || len(e.items) != 1 {
		t.Fatalf("%d events, %v", len(e.items), err)
	}
	got := e.items[0]
	if got.Heading() != "a < b" || got.text() != "one\n\ntwo <b>" && got.text() != "one\ntwo <b>" || !got.feed.NoMerge ||
		got.source != "ci" || !got.since.Equal(noon) || got.event != "1" || got.Link != it.Link {
		t.Errorf("the event is %+v with the text %q", got, got.text())
	}
	// Only what an earlier run has decided about is deleted.
	if err := s.deleteEvents(t.Context(), "news", e); err != nil || len(kept.kept[eventKind+"news"]) != 2 {
		t.Errorf("%d events are left, %v", len(kept.kept[eventKind+"news"]), err)
	}
	e.seen = map[string]bool{got.id: true}
	if err := s.deleteEvents(t.Context(), "news", e); err != nil || len(kept.kept[eventKind+"news"]) != 1 {
		t.Errorf("%d events are left, %v", len(kept.kept[eventKind+"news"]), err)
	}
	if e = (&edition{}); s.addEvents(t.Context(), spec{Plan: Plan{Name: "news"}}, e) != nil || len(e.items) != 0 {
		t.Errorf("a digest without webhooks has %d events", len(e.items))
	}
}

// Two thousand events wait at most; a restart counts them again.
func TestAddEvent_TooMany(t *testing.T) {
	s, kept := onRecords()
	s.created["news"] = spec{}
	kept.kept[eventKind+"news"] = map[string]json.RawMessage{}
	for n := range 1999 {
		kept.kept[eventKind+"news"][fmt.Sprint(n)] = json.RawMessage(`{}`)
	}
	if err := s.AddEvent(t.Context(), "news", "ci", feed.Item{ID: "last"}); err != nil {
		t.Errorf("the last one: %v", err)
	}
	err := s.AddEvent(t.Context(), "news", "ci", feed.Item{ID: "more"})
	full, ok := err.(FullError)
	if !ok || full.Digest != "news" || !full.Full() || !strings.Contains(err.Error(), "2000 events wait") {
		t.Errorf("one more: %v", err)
	}
	if err := s.AddEvent(t.Context(), "unknown", "ci", feed.Item{}); err != ErrUnknown {
		t.Errorf("for an unknown digest: %v", err)
	}
}

// What is kept of runs is of those that succeeded, newest first; thirty days and 150 runs of it.
func TestPastRuns_AreBounded(t *testing.T) {
	s, kept := onRecords()
	add := func(age time.Duration, ok bool) {
		due := noon.Add(-age)
		kept.runs = append(kept.runs, store.Run{Due: due, OK: ok})
		p := pastRun{Version: pastVersion, Due: due, Turn: fmt.Sprint(age)}
		if err := s.saveItem(t.Context(), pastRunKind+"news", due.UTC().Format(time.RFC3339Nano), p); err != nil {
			t.Fatal(err)
		}
	}
	add(time.Hour, true)
	add(2*time.Hour, false)
	add(30*24*time.Hour, true)
	add(30*24*time.Hour+1, true)
	if err := s.saveItem(t.Context(), pastRunKind+"news", "odd", pastRun{Version: 2,
		Due: noon.Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	turns := func() (list []string) {
		runs, err := s.pastRuns(t.Context(), spec{Plan: Plan{Name: "news"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range runs {
			list = append(list, p.Turn)
		}
		return list
	}
	if diff := cmp.Diff([]string{"1h0m0s", "720h0m0s", "720h0m0.000000001s"}, turns()); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if err := s.deleteOldRuns(t.Context(), "news"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1h0m0s", "720h0m0s"}, turns()); diff != "" {
		t.Errorf("after old ones were deleted (-want +got):\n%s", diff)
	}
	for n := range 160 {
		add(time.Duration(n)*time.Minute, true)
	}
	if err := s.deleteOldRuns(t.Context(), "news"); err != nil {
		t.Fatal(err)
	}
	if n := len(kept.kept[pastRunKind+"news"]); n != 151 { // with the one whose name is no time
		t.Errorf("%d runs are kept", n)
	}
}

// The verdicts of a run are kept up to 200, with how many more there were.
func TestNewRunVerdicts(t *testing.T) {
	for n, want := range map[int][2]int{200: {200, 0}, 203: {200, 3}} {
		all := slices.Repeat([]Verdict{{Title: strings.Repeat("x", 200)}}, n)
		if got := newRunVerdicts(noon, all); len(got.Items) != want[0] || got.More != want[1] ||
			len([]rune(got.Items[0].Title)) != 161 ||
			len(all[0].Title) != 200 {
			t.Errorf("of %d verdicts %d are kept, %d more, with titles of %d characters", n, len(got.Items), got.More,
				len(got.Items[0].Title))
		}
	}
}

// What a weekly digest takes is liked, or told by many, from digests of the same places, each page once.
func TestCountVotes(t *testing.T) {
	got := countVotes([]store.Feedback{{Turn: "a", Good: true}, {Turn: "a", Good: true}, {Turn: "a"}, {Turn: "b"}})
	if diff := cmp.Diff(map[string]float64{"a": 1, "b": -1}, got); diff != "" {
		t.Errorf("votes (-want +got):\n%s", diff)
	}
}
