package digest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/schedule"
	"ravenbot/internal/store"
)

func (r *records) AmendRun(_ context.Context, run store.Run, forget []string) error {
	r.amended, r.forgotten = append(r.amended, run), forget
	return nil
}

func (r *records) SwapItem(
	ctx context.Context,
	kind, name string,
	was, now json.RawMessage,
	_ []store.Post,
) (bool, error) {
	if string(r.kept[kind][name]) != string(was) {
		return false, nil
	}
	return true, r.SaveItem(ctx, kind, name, now, true)
}

// One place that got a digest is enough; where none did the run has failed, and its items are new again.
func TestAwaitOutcomes(t *testing.T) {
	place := func(name string) chat.Address { return chat.Address{Platform: "web", Channel: name} }
	made := madeRun{newIDs: []string{"i"}, places: map[string]chat.Address{"a": place("a"), "b": place("b")}}
	for name, c := range map[string]struct {
		outcomes []store.Outcome
		note     string
		failed   bool
	}{
		"all got it": {[]store.Outcome{{Key: "a"}, {Key: "b"}}, "before", false},
		"one did not": {[]store.Outcome{{Key: "a"}, {Key: "b", Error: "full"}}, "before; not posted to web:/b: full",
			false},
		"none did": {[]store.Outcome{{Key: "b", Error: "full"}, {Key: "a", Error: "gone"}},
			"before; not posted to web:/a: gone; not posted to web:/b: full", true},
		"a notice failed":   {[]store.Outcome{{Key: "a"}, {Key: "b"}, {Key: "feeds", Error: "full"}}, "before", false},
		"nothing was heard": {nil, "before", false},
	} {
		s, kept := onRecords()
		run := store.Run{OK: true, Posted: 2, Note: "before"}
		got, err := s.awaitOutcomes(t.Context(), run, made, func(context.Context) []store.Outcome { return c.outcomes })
		if (err != nil) != c.failed || got.Note != c.note || got.OK == c.failed || (got.Posted == 0) != c.failed {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if isAmended := len(kept.amended) == 1; isAmended != (c.note != "before") ||
			c.failed != (len(kept.forgotten) == 1) {
			t.Errorf("%s: amended %+v, forgotten %q", name, kept.amended, kept.forgotten)
		}
	}
	s, _ := onRecords()
	got, _ := s.awaitOutcomes(t.Context(), store.Run{OK: true}, made, func(context.Context) []store.Outcome {
		return []store.Outcome{{Key: "a", Error: "full"}}
	})
	if got.Note != "not posted to web:/a: full" {
		t.Errorf("without a note before: %q", got.Note)
	}
}

// A post that says that a run failed names why, and nothing of the error.
func TestFailureDraft(t *testing.T) {
	secret := errors.New("secret")
	feeds := spec{title: "news", Plan: Plan{Feeds: []Feed{{URL: "x"}}}}
	for want, d := range map[string]chat.Draft{
		"no feed could be read: x refuses the connection": failureDraft(feeds, &UnreadError{[]string{"x refuses the " +
			"connection"}}),
		"that failed, and the bot's log has the reason":               failureDraft(feeds, secret),
		"the agent found no answer, and the bot's log has the reason": failureDraft(spec{}, secret),
		"it took too long": failureDraft(feeds, errors.Join(errTimeout, secret)),
	} {
		if !d.Failed || !strings.Contains(d.Text, ": "+want+". I will try again") || strings.Contains(d.Text, "secret") {
			t.Errorf("%s: %+v", want, d)
		}
	}
}

func TestLockRun_LetsOneRunOfADigestIn(t *testing.T) {
	s, _ := onRecords()
	running, most := 0, 0
	var runs sync.WaitGroup
	for n := range 100 {
		runs.Go(func() {
			defer s.lockRun(fmt.Sprint("digest ", n%2))()
			if n%2 == 0 {
				running++ // without another lock: the race detector sees two runs of a digest at a time
				most = max(most, running)
				running--
			}
		})
	}
	runs.Wait()
	if most != 1 {
		t.Errorf("%d runs at a time, want 1", most)
	}
}

// Missed runs are caught up since the last one, or since the digest was made, changed or resumed, whatever is latest.
func TestLastDue(t *testing.T) {
	at := func(hours int) time.Time { return noon.Add(time.Duration(hours-9) * time.Hour) }
	for name, c := range map[string]struct {
		made, resumed, ran time.Time
		want               time.Time
	}{
		"never":   {want: time.Time{}},
		"made":    {made: at(1), want: at(1)},
		"resumed": {made: at(1), resumed: at(2), ran: at(-1), want: at(2)},
		"ran":     {made: at(1), resumed: at(2), ran: at(3), want: at(3)},
		"changed": {made: at(4), resumed: at(2), ran: at(3), want: at(4)},
	} {
		s, kept := onRecords()
		s.created["news"] = spec{Plan: Plan{Name: "news", At: c.made}}
		if !c.resumed.IsZero() {
			s.pauses["news"] = pause{Since: c.resumed}
		}
		if !c.ran.IsZero() {
			kept.runs = []store.Run{{Due: c.ran}}
		}
		if since, ok := s.lastDue("news"); !since.Equal(c.want) || ok == c.want.IsZero() {
			t.Errorf("%s: since %v, %v", name, since, ok)
		}
	}
}

// Runs that were made while the clock was years ahead are none by which missed runs, new messages are
// counted.
func TestLastRuns_RunsFromTheFuture_AreLeftOut(t *testing.T) {
	s, kept := onRecords()
	for n := range 5 {
		due := noon.AddDate(3, 0, -n)
		kept.runs = append(kept.runs, store.Run{Due: due, Began: due, OK: true})
	}
	past := noon.Add(-2 * time.Hour)
	kept.runs = append(kept.runs, store.Run{Due: past, Began: past, OK: true}, store.Run{Due: past.Add(-time.Hour)})
	if since, ok := s.lastDue("news"); !ok || !since.Equal(past) {
		t.Errorf("missed runs are caught up since %v, want %v", since, past)
	}
	read, err := s.lastRead(t.Context(), spec{})
	if err != nil || !read.Equal(past.Add(-channelOverlap)) {
		t.Errorf("messages are new since %v (%v)", read, err)
	}
}

// A page of digests has so many of them, and says whether others follow.
func TestPage(t *testing.T) {
	s, _ := onRecords()
	for n := range 5 {
		name := fmt.Sprint("d", n)
		s.created[name] = spec{Plan: Plan{Name: name, Schedule: OnNew}}
	}
	s.configured["d2"] = spec{Plan: Plan{Name: "d2", Schedule: OnNew, Source: FromConfig}}
	for _, c := range []struct {
		after string
		n     int
		want  []string
		more  bool
	}{{"", 2, []string{"d0", "d1"}, true}, {"d1", 3, []string{"d2", "d3", "d4"}, false}, {"d3", 3, []string{"d4"}, false},
		{"d30", 3, []string{"d4"}, false}, {"d9", 3, nil, false}} {
		list, more, err := s.Page(t.Context(), c.after, c.n)
		var got []string
		for _, i := range list {
			if got = append(got, i.Name); i.Name == "d2" && i.Source != FromConfig {
				t.Error("what was made hides what is configured")
			}
		}
		if err != nil || !slices.Equal(got, c.want) || more != c.more {
			t.Errorf("after %q: %q, more %v, %v", c.after, got, more, err)
		}
	}
	if got := s.Names(chat.Address{}); len(got) != 0 {
		t.Errorf("visible nowhere: %q", got)
	}
}

// Digests that are visible in a channel are offered while somebody types, and only for the digest command.
func TestComplete_Names(t *testing.T) {
	s, _ := onRecords()
	here := chat.Address{Platform: "web", Channel: "general"}
	s.created["news"] = spec{Plan: Plan{Name: "news"}, post: []chat.Address{here}}
	s.created["other"] = spec{Plan: Plan{Name: "other"}}
	for _, c := range []struct {
		command, option, typed string
		want                   int
	}{{"digest", "name", "", 1}, {"digest", "name", "NE", 1}, {"digest", "name", "x", 0}, {"remind", "name", "", 0},
		{"ask", "zone", "oslo", 1},
		{"ask", "more", "oslo", 0}} {
		if got := s.Complete(t.Context(), here, c.command, c.option, c.typed); len(got) != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Posts with entries have buttons and notify people; each place has its own, with a thread below it where one fits.
func TestBuildPosts(t *testing.T) {
	on := &everywhere{}
	s, _ := onRecords()
	s.o.Platforms = on
	a, b := chat.Address{Platform: "web", Channel: "a"}, chat.Address{Platform: "slack", Channel: "b"}
	d := spec{Plan: Plan{Name: "news", Ping: []string{"role:1"}, Tags: []string{"t"}}, title: "News", zone: time.UTC,
		post: []chat.Address{a, b}}
	e := &edition{}
	run := store.Run{Digest: "news", Due: noon, Ended: noon, OK: true, Posted: 2}
	if got := s.buildPosts(d, run, e); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
	e.draft, e.head, e.rest = chat.Draft{Text: "all"}, chat.Draft{Text: "head"}, chat.Draft{Cards: []chat.Card{{}}}
	e.cards = []chat.Card{{}, {Also: []chat.Link{{}}}}
	posts := s.buildPosts(d, run, e)
	var got []string
	for _, p := range posts {
		got = append(got, fmt.Sprintf("%s %q %d buttons, notifies %d, below %q, title %q", p.To, p.Draft.Text,
			len(p.Draft.Buttons),
			len(p.Draft.Notify), strings.TrimPrefix(p.Below, "digest/news/"), p.Draft.Title+p.Title))
	}
	want := []string{`web:/a "all" 2 buttons, notifies 1, below "", title "News, 2 March"`,
		`slack:/b "head" 2 buttons, notifies 1, below "", title "News, 2 March"`,
		`slack:/b "" 0 buttons, notifies 0, below "2026-03-02T12:00:00Z/slack:/b", title "News, 2 March"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("posts (-want +got):\n%s", diff)
	}
	for name, change := range map[string]func(*store.Run, *spec){
		"it failed": func(r *store.Run, _ *spec) { r.OK = false }, "nothing is in it": func(r *store.Run,
			_ *spec) {
			r.Posted = 0
		},
		"a poll": func(_ *store.Run, d *spec) { d.quiet = true },
	} {
		r, changed := run, d
		change(&r, &changed)
		p := s.buildPosts(changed, r, e)[0]
		buttons, notifies := 2, 1
		if name == "it failed" || name == "nothing is in it" {
			buttons, notifies = 0, 0
		} else if name == "a poll" {
			buttons = 0
		}
		if len(p.Draft.Buttons) != buttons || len(p.Draft.Notify) != notifies || (p.Turn == "") != (notifies == 0) {
			t.Errorf("%s: %d buttons, notifies %d, turn %q", name, len(p.Draft.Buttons), len(p.Draft.Notify), p.Turn)
		}
	}
}

// CanThread has threads on Slack alone.
func (*everywhere) CanThread(to chat.Address) bool { return to.Platform == "slack" }

// What is stored with a run is its verdicts; of one that succeeded also what it posted, and what waits where
// something does or did.
func TestNewRunItems(t *testing.T) {
	d := spec{Plan: Plan{Name: "news"}}
	kinds := func(d spec, ok bool, e *edition) string {
		t.Helper()
		items, err := newRunItems(d, store.Run{Due: noon, Ended: noon, OK: ok}, e)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, i := range items {
			list = append(list, i.Kind)
		}
		return strings.Join(list, " ")
	}
	full := editionOf(tale("A", "T", ""))
	empty := &edition{}
	cleared := &edition{waited: true}
	weekly, quiet := d, d
	weekly.Style, quiet.quiet = Weekly, true
	for _, c := range []struct {
		name string
		got  string
		want string
	}{
		{"it failed", kinds(d, false, full), verdictKind}, {"nothing new", kinds(d, true, empty), verdictKind},
		{"a post", kinds(d, true, full), verdictKind + " " + pastRunKind + "news " + waitingKind},
		{"a poll", kinds(quiet, true, full), verdictKind + " " + pastRunKind + "news"},
		{"a week", kinds(weekly, true, full), verdictKind + " " + pastRunKind + "news"},
		{"nothing waits", kinds(d, true, cleared), verdictKind + " " +
			waitingKind},
	} {
		if c.got != c.want {
			t.Errorf("%s: stored %s, want %s", c.name, c.got, c.want)
		}
	}
}

// Jobs returns what is due when, for tests of the package's interface.
func (s *Service) Jobs() []schedule.Job { return s.jobs() }

// LastDue returns the time after which missed runs are caught up.
func (s *Service) LastDue(name string) (time.Time, bool) { return s.lastDue(name) }
