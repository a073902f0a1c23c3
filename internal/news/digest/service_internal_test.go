package digest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature/catchup"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
)

func (r *records) Subscriptions(context.Context) ([]store.Subscription, error) { return r.subs, nil }

func (r *records) LoadFeed(_ context.Context, url string) (store.Feed, bool, error) {
	raw, ok := r.kept["feed"][url]
	return store.Feed{Data: raw}, ok, nil
}

// What is told of a feed is when it was read, why it fails, and when it is read next: when all reasons to wait are
// over.
func TestKnownFeeds_TellWhenTheyAreReadNext(t *testing.T) {
	at := func(hours int) time.Time { return noon.Add(time.Duration(hours) * time.Hour) }
	for name, c := range map[string]struct {
		state feed.State
		next  time.Time
	}{
		"at once":      {feed.State{FetchedAt: at(-1), FreshUntil: at(-1)}, time.Time{}},
		"fresh":        {feed.State{FreshUntil: at(1)}, at(1)},
		"the latest":   {feed.State{NextAllowed: at(2), FreshUntil: at(3), TryAgain: at(1)}, at(3)},
		"in any order": {feed.State{NextAllowed: at(4), FreshUntil: at(3), TryAgain: at(5)}, at(5)},
		"it fails":     {feed.State{Failures: 2, FailingSince: at(-3), LastFailure: "it is down", TryAgain: at(1)}, at(1)},
	} {
		s, kept := onRecords()
		kept.subs = []store.Subscription{{URL: "https://a.example/feed", To: chat.Address{Platform: "web", Channel: "x"}}}
		c.state.Document.Feed.Title = "News"
		raw, err := json.Marshal(c.state)
		if err != nil {
			t.Fatal(err)
		}
		kept.kept["feed"] = map[string]json.RawMessage{"https://a.example/feed": raw}
		list, err := s.KnownFeeds(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %+v, %v", name, list, err)
		}
		i := list[0]
		if (i.Next == nil) != c.next.IsZero() || i.Next != nil && !i.Next.Equal(c.next) || i.Title != "News" ||
			(i.LastFetch != nil) != !c.state.FetchedAt.IsZero() || (i.FailingSince != nil) != (c.state.Failures > 0) ||
			i.Failure != c.state.LastFailure {
			t.Errorf("%s: %+v", name, i)
		}
	}
}

// A record that cannot be read is no reason to make another one, whose address nobody has.
func TestPublish_RecordDamaged_IsAnError(t *testing.T) {
	s, kept := onRecords()
	s.created["news"] = spec{Plan: Plan{Name: "news", Feeds: []Feed{{URL: "x"}}}}
	kept.kept[publishKind] = map[string]json.RawMessage{"news": json.RawMessage(`{`)}
	if token, err := s.Publish(t.Context(), "news"); err == nil || token != "" {
		t.Errorf("published under %q, %v", token, err)
	}
	delete(kept.kept[publishKind], "news")
	token, err := s.Publish(t.Context(), "news")
	again, err2 := s.Publish(t.Context(), "news")
	if err != nil || err2 != nil || token == "" || again != token || strings.ToLower(token) != token {
		t.Errorf("published under %q, then %q, %v, %v", token, again, err, err2)
	}
	if _, err := s.Publish(t.Context(), "unknown"); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown digest: %v", err)
	}
	s.created["task"] = spec{Plan: Plan{Name: "task"}}
	if _, err := s.Publish(t.Context(), "task"); !errors.As(err, new(BadPlan)) {
		t.Errorf("a task: %v", err)
	}
}

// A published digest shows its newest thirty posts, with the words that were posted.
func TestPublished_IsBounded(t *testing.T) {
	s, kept := onRecords()
	s.created["news"] = spec{Plan: Plan{Name: "news", Feeds: []Feed{{URL: "x"}}, Source: FromAPI}, title: "news",
		zone: time.UTC}
	for n := range 40 {
		due := noon.Add(-time.Duration(n) * time.Hour)
		kept.runs = append(kept.runs, store.Run{Due: due, OK: true})
		p := pastRun{Version: pastVersion, Due: due, Turn: fmt.Sprint(n), Summary: "In short."}
		if n != 1 {
			also := past("g", "same")
			also.Link = "https://example.org/T"
			p.Entries = []pastEntry{{N: 1, Title: "T", Link: "https://example.org/T", Said: "said", Text: "own",
				Also: []pastEntry{past("f", "other"), also}}}
		}
		if err := s.saveItem(t.Context(), pastRunKind+"news", due.Format(time.RFC3339Nano), p); err != nil {
			t.Fatal(err)
		}
	}
	token, err := s.Publish(t.Context(), "news")
	if err != nil {
		t.Fatal(err)
	}
	p, found, err := s.Published(t.Context(), token)
	if err != nil || !found || len(p.Posts) != 30 || p.Posts[0].ID != "0" || p.Posts[1].ID != "2" ||
		p.Posts[0].Title != "news, 2 March 2026 12:00" || p.Posts[0].Draft.Cards[0].Text != "said" ||
		len(p.Posts[0].Draft.Cards[0].Also) != 1 {
		t.Errorf("%d posts, %v, %v, the first %+v", len(p.Posts), found, err, p.Posts[:min(1, len(p.Posts))])
	}
	for _, wrong := range []string{"", "x", token + "x"} {
		if _, found, err := s.Published(t.Context(), wrong); found || err != nil {
			t.Errorf("the token %q: %v, %v", wrong, found, err)
		}
	}
}

// everywhere is a Platforms and a Delivery on which everything works.
type everywhere struct {
	Platforms
	Delivery
	shown []chat.Draft
}

func (*everywhere) CanPost(chat.Address) bool { return true }

func (*everywhere) CheckPost(context.Context, chat.Address, []string) error { return nil }

func (e *everywhere) Interject(_ context.Context, _ chat.Address, d chat.Draft, _ string) error {
	e.shown = append(e.shown, d)
	return nil
}

// Two hundred proposals are open at a time, each for an hour; those that have expired make room.
func TestPropose_ManyAreOpen(t *testing.T) {
	s, _ := onRecords()
	on, now := &everywhere{}, noon
	s.o.Platforms, s.o.Delivery = on, on
	s.o.Now = func() time.Time { return now }
	at := chat.Address{Platform: "web", Channel: "general"}
	caller := tool.Caller{Conversation: at, User: chat.User{ID: "U1", Name: "anna", Admin: true}}
	propose := func() error {
		_, err := s.Propose(t.Context(), caller, Plan{Schedule: "0 9 * * *", Prompt: "Say hello to all."})
		return err
	}
	for range 200 {
		if err := propose(); err != nil {
			t.Fatal(err)
		}
	}
	if err := propose(); !errors.As(err, new(BadPlan)) || !strings.Contains(err.Error(), "too many digests wait") {
		t.Errorf("one more: %v", err)
	}
	stored := func() map[string]proposal {
		all, err := loadItems[proposal](t.Context(), s, proposalKind)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for _, w := range stored() {
		if w.Plan.By.Admin || w.Plan.MaxTokens != 30_000 || w.Plan.Name != "say-hello-to-all" || !slices.Equal(w.Plan.Post,
			[]string{"web:/general"}) {
			t.Errorf("proposed is %+v", w.Plan)
		}
		break
	}
	yes := chat.Message{Conversation: at, Author: caller.User, Text: "yes", Reach: chat.Addressed}
	now = noon.Add(time.Hour)
	if _, open := s.proposalFor(yes); !open {
		t.Error("after an hour a yes is about nothing")
	}
	if err := propose(); err == nil {
		t.Error("what is an hour old makes room")
	}
	now = now.Add(1)
	if _, open := s.proposalFor(yes); open {
		t.Error("a yes is about what has expired")
	}
	id := ""
	for id = range stored() {
		break
	}
	press := yes
	press.Command, press.Text = chat.Pressed, pressYes+" "+id
	if d, ok := s.handle(t.Context(), press); !ok || !strings.Contains(d.Text, "decided or has expired") {
		t.Errorf("the press is answered %+v", d)
	}
	if err := propose(); err != nil || len(stored()) != 1 {
		t.Errorf("after that: %v, %d are open", err, len(stored()))
	}
	if text := on.shown[len(on.shown)-1]; !strings.Contains(text.Text, "Only anna or an administrator") ||
		text.Footer != "expires at 14:00 UTC" {
		t.Errorf("shown is %+v", text)
	}
}

// A name that is taken gets the next number.
func TestFreeName(t *testing.T) {
	s, _ := onRecords()
	for want, taken := range map[string][]string{
		"news": nil, "news-2": {"news"}, "news-3": {"news", "news-2"}, "news-11": {"news", "news-2", "news-3", "news-4",
			"news-5", "news-6",
			"news-7", "news-8", "news-9", "news-10"},
	} {
		s.created = map[string]spec{}
		for _, name := range taken {
			s.created[name] = spec{}
		}
		if got := s.freeName("news"); got != want {
			t.Errorf("beside %q: %q, want %q", taken, got, want)
		}
	}
}

// Words name the feed among those that are read whose title or address has all of them; of several the model asks.
func TestFindKnownFeed(t *testing.T) {
	s, kept := onRecords()
	for n := range 12 {
		kept.subs = append(kept.subs, store.Subscription{URL: fmt.Sprintf("https://h%d.example/daily", n)})
	}
	s.created["news"] = spec{Plan: Plan{Name: "news", Feeds: []Feed{{URL: "https://x.example/?key=1",
		Shown: "https://x.example/?key=***"},
		{URL: "bundled:news"}}}}
	if got, err := s.findKnownFeed(t.Context(), "Daily H3"); err != nil || got != "https://h3.example/daily" {
		t.Errorf("found %q, %v", got, err)
	}
	if got, err := s.findKnownFeed(t.Context(), "daily"); err == nil || got != "" || strings.Count(err.Error(),
		"https://") != 10 {
		t.Errorf("found %q, %v", got, err)
	}
	for _, words := range []string{"weekly", "x.example", "bundled news"} {
		if got, err := s.findKnownFeed(t.Context(), words); err == nil || !strings.Contains(err.Error(), "is read yet") {
			t.Errorf("%s: found %q, %v", words, got, err)
		}
	}
}

// The configuration's digests are sorted, each with its webhooks and what is not usual of its feeds.
func TestPlans_OfAConfiguration(t *testing.T) {
	c := &config.Config{Digests: map[string]config.Digest{
		"b": {Articles: true, Feeds: []config.DigestFeed{{Weight: 1, MergeDuplicates: true}, {Weight: 2, Pin: true,
			Mute: true}}},
		"a": {},
	}, Webhooks: map[string]config.Webhook{"z": {Digest: "b"}, "ci": {Digest: "b"}, "task": {}}}
	list := Plans(c)
	if len(list) != 2 || list[0].Name != "a" || list[1].Name != "b" || !slices.Equal(list[1].Hooks, []string{"ci",
		"z"}) || len(list[0].Hooks) != 0 {
		t.Fatalf("%+v", list)
	}
	want := []Feed{{}, {Weight: 2, NoMerge: true, Pin: true, Mute: true}}
	if diff := cmp.Diff(want, list[1].Feeds); diff != "" || list[1].Teasers || !list[0].Teasers {
		t.Errorf("the feeds (-want +got):\n%s", diff)
	}
}

// answering is an Agent whose turns end as a function says, and a Roster and Turns for it.
type answering struct {
	answer func(ctx context.Context, q chat.Asked) (*conversation.Turn, *chat.Draft)
	models []string
	saved  []string
	used   store.Usage
}

func (a *answering) Answer(ctx context.Context, q chat.Asked, _ func(chat.Progress)) (*conversation.Turn,
	*chat.Draft) {
	return a.answer(ctx, q)
}

func (a *answering) Complete(_ context.Context, on store.Usage, models []string, system, prompt string) (string,
	string, error) {
	a.used = on
	return system + prompt, strings.Join(models, ","), nil
}

func (a *answering) CompleteJSON(
	_ context.Context,
	on store.Usage,
	models []string,
	system, prompt string,
	schema json.RawMessage,
) (string, string, error) {
	a.used = on
	return system + prompt + string(schema), strings.Join(models, ","), nil
}

func (a *answering) Writers(string, chat.Address) []string { return a.models }

func (a *answering) SaveTurn(_ context.Context, at chat.Address, turn *conversation.Turn, _ ...store.ToolCall) error {
	a.saved = append(a.saved, at.String()+" "+turn.ID)
	return nil
}

// A task is a turn of its own conversation, under a key that is the same after a crash; it is closed when its run is
// stored, and without an answer it has failed.
func TestAgentTask(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	turn, draft := &conversation.Turn{ID: "t"}, &chat.Draft{Text: "done"}
	for _, c := range []struct {
		name    string
		turn    *conversation.Turn
		draft   *chat.Draft
		ctx     context.Context
		saved   int
		isError bool
	}{
		{"an answer", turn, draft, t.Context(), 1, false}, {"without a turn", nil, draft, t.Context(), 0, false},
		{"no answer", nil, nil, t.Context(), 0, true}, {"cut off", nil, nil, ctx, 0, true},
	} {
		var asked chat.Asked
		a := &answering{answer: func(_ context.Context, q chat.Asked) (*conversation.Turn, *chat.Draft) {
			if asked = q; c.name == "cut off" {
				cancel()
			}
			return c.turn, c.draft
		}}
		do := AgentTask(a, a, func() time.Time { return noon })
		d, settle, err := do(c.ctx, Task{Key: "digest/news/1", Plan: Plan{Name: "news", By: chat.User{ID: "U1"}},
			Prompt: "Say."})
		if (err != nil) != c.isError || !c.isError && d.Text != "done" || (settle != nil) != (c.saved > 0) {
			t.Errorf("%s: %+v, %v", c.name, d, err)
		}
		if c.name == "cut off" && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", c.name, err)
		}
		if settle != nil {
			if err := settle(t.Context()); err != nil || len(a.saved) != 1 {
				t.Errorf("%s: saved %q, %v", c.name, a.saved, err)
			}
		}
		if m := asked.Last(); m.ID != "digest/news/1" || m.Text != "Say." || m.Author.ID != "U1" ||
			asked.Turn != m.Key() || !m.Time.Equal(noon) {
			t.Errorf("%s: asked %+v", c.name, m)
		}
	}
}

// The models of an agent write on the account of the digest; without models nobody does.
func TestAgentWriter(t *testing.T) {
	a := &answering{}
	p := Plan{Name: "news", Post: []string{"slack:T1/C1"}}
	if AgentWriter(a, a)(p) != nil {
		t.Error("somebody writes without a model")
	}
	a.models = []string{"m", "n"}
	text, model, err := AgentWriter(a, a)(p)(t.Context(), "s", "p", json.RawMessage("{}"))
	if err != nil || text != "sp{}" || model != "m,n" || a.used.Channel != taskAddress(p) {
		t.Errorf("wrote %q by %s for %v, %v", text, model, a.used, err)
	}
}

// A task may read back the channel that its digest is posted to, where there is but one.
func TestReadable(t *testing.T) {
	s, _ := onRecords()
	s.created["one"] = spec{Plan: Plan{Name: "one", Post: []string{"slack:T1/C1"}}}
	s.created["two"] = spec{Plan: Plan{Name: "two", Post: []string{"slack:T1/C1", "slack:T1/C2"}}}
	for name, want := range map[string]bool{"one": true, "two": false, "none": false} {
		at, ok := s.Readable(taskAddress(Plan{Name: name}))
		if ok != want || ok && at.Channel != "C1" {
			t.Errorf("%s: %v, %v", name, at, ok)
		}
	}
	if p, channel, ok := s.Task(taskAddress(Plan{Name: "two"})); !ok || p.Name != "two" || channel.Channel != "C1" {
		t.Errorf("the task of two: %+v in %v, %v", p, channel, ok)
	}
	if _, _, ok := s.Task(chat.Address{Platform: "slack", Channel: "two"}); ok {
		t.Error("a channel is a task")
	}
}

// reporter notes what it is asked to tell.
type reporter struct{ asked catchup.Query }

func (r *reporter) Report(_ context.Context, q catchup.Query) (catchup.Report, error) {
	r.asked = q
	return catchup.Report{}, nil
}

// ReadersCanRead lets readers of a place read what is not secret, and does not know of what is odd.
func (*everywhere) ReadersCanRead(_ context.Context, _, source chat.Address) (bool, error) {
	if source.Channel == "odd" {
		return true, errors.New("not known")
	}
	return source.Channel != "secret", nil
}

// Channels are read from a day before the last run that succeeded, in the digest's language, and those alone that
// everybody may read who reads the digest.
func TestAddChannels(t *testing.T) {
	s, kept := onRecords()
	r := &reporter{}
	s.o.Channels, s.o.Platforms = r, &everywhere{}
	channel := func(name string) chat.Address { return chat.Address{Platform: "web", Channel: name} }
	d := spec{Plan: Plan{Name: "news", Language: "Norwegian", Prompt: "sailing"},
		post:     []chat.Address{channel("general")},
		channels: []chat.Address{channel("open"), channel("secret"), channel("odd")}}
	e := &edition{}
	if err := s.addChannels(t.Context(), d, e); err != nil {
		t.Fatal(err)
	}
	if len(r.asked.Channels) != 1 || r.asked.Channels[0].Channel != "open" || len(e.faults) != 1 ||
		!r.asked.After.Equal(noon.Add(-24*time.Hour)) {
		t.Errorf("asked for %+v, faults %q", r.asked, e.faults)
	}
	want := "Write in this language: Norwegian. Whoever made the digest adds, as far as the rules above allow it: sailing"
	if r.asked.Extra != want || r.asked.Write != nil {
		t.Errorf("told %q", r.asked.Extra)
	}
	kept.runs = []store.Run{{Began: noon.Add(-time.Hour)}, {Began: noon.Add(-2 * time.Hour), OK: true},
		{Began: noon.Add(-3 * time.Hour), OK: true}}
	if err := s.addChannels(t.Context(), d, e); err != nil || !r.asked.After.Equal(noon.Add(-26*time.Hour)) {
		t.Errorf("after a run %v is asked for, %v", r.asked.After, err)
	}
	*r = reporter{}
	d.channels = d.channels[1:]
	if err := s.addChannels(t.Context(), d, e); err != nil || r.asked.Name != "" {
		t.Errorf("of channels that nobody may read %+v is asked, %v", r.asked, err)
	}
	if err := s.checkPlaces(t.Context(), d); !errors.As(err, new(BadPlan)) {
		t.Errorf("a digest of such channels is made: %v", err)
	}
}

// A look posts five items and names the others; the first look of a digest posts none.
func TestChooseInstant(t *testing.T) {
	stories := func() (list []story) {
		for n := range 8 {
			list = append(list, tale("A", fmt.Sprint("T", n), ""))
		}
		return list
	}
	for name, c := range map[string]struct {
		first           bool
		maxItems        int
		chosen, surplus int
	}{"room": {false, 10, 5, 3}, "fewer wanted": {false, 2, 2, 6}, "the first look": {true, 10, 0, 0}} {
		e, list := &edition{firstRun: c.first}, stories()
		(spec{Plan: Plan{MaxItems: c.maxItems}}).chooseInstant(e, list)
		if len(e.chosen) != c.chosen || len(e.surplus) != c.surplus || e.markOnly != c.first {
			t.Errorf("%s: %d are chosen, %d named", name, len(e.chosen), len(e.surplus))
		}
		want := fmt.Sprintf("over the limit: %d items a look are posted, the others named", c.chosen)
		if c.first {
			want = "taken as known: it was there before the first look"
		}
		if got := list[7].verdict + ": " + list[7].reason; got != want {
			t.Errorf("%s: the last one is %s, want %s", name, got, want)
		}
	}
	e := &edition{firstRun: true}
	(spec{Plan: Plan{Source: fromSubscription, MaxItems: 5}}).chooseInstant(e, stories())
	if e.markOnly || len(e.chosen) != 5 {
		t.Errorf("of a subscription: %+v", e.chosen)
	}
}

// A poll that fails is logged, and one that ends in the middle is not.
func TestPoll_Failure_IsLogged(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		stop bool
		want bool
	}{"it fails": {errors.New("down"), false, true}, "it works": {nil, false, false},
		"the bot stops": {errors.New("down"), true, false}} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var logged bytes.Buffer
		s, kept := onRecords()
		kept.subs = []store.Subscription{{URL: "https://a.example/feed", To: chat.Address{Platform: "web", Channel: "x"}}}
		s.o.Log = slog.New(slog.NewTextHandler(&logged, nil))
		s.o.Feeds = polled(func() error {
			if c.stop {
				cancel()
			}
			return c.err
		})
		s.Poll(ctx)
		if got := strings.Contains(logged.String(), "poll of digest failed"); got != c.want {
			t.Errorf("%s: logged %v: %s", name, got, &logged)
		}
	}
}

// polled is Feeds of which one feed is polled, with an outcome.
type polled func() error

func (p polled) Fetch(context.Context, string) (feed.Result, error) { return feed.Result{}, p() }

func (p polled) FetchAll(_ context.Context, urls []string, _ func(func())) ([]feed.Result, []error) {
	return make([]feed.Result, len(urls)), []error{p()}
}

func (p polled) PollAll(ctx context.Context, urls []string, turn func(func())) ([]feed.Result, []error) {
	return p.FetchAll(ctx, urls, turn)
}

func (polled) Find(context.Context, string) ([]feed.Link, error) { return nil, feed.ErrNoFeed }

func (r *records) SeenItems(context.Context, string, []string) (map[string]bool, bool, error) {
	return map[string]bool{}, true, nil
}

// unreadable is Channels that cannot be read.
type unreadable struct{}

func (unreadable) Report(context.Context, catchup.Query) (catchup.Report, error) {
	return catchup.Report{}, errors.New("the platform is down")
}

// A digest whose channels cannot be read is not made as if nothing had been said there.
func TestBuildEdition_ChannelsUnreadable_IsAnError(t *testing.T) {
	s, _ := onRecords()
	s.o.Channels, s.o.Platforms, s.o.Feeds = unreadable{}, &everywhere{}, polled(func() error { return nil })
	at := chat.Address{Platform: "web", Channel: "general"}
	d := spec{Plan: Plan{Name: "news"}, post: []chat.Address{at}, channels: []chat.Address{at}, asked: true}
	if _, err := s.buildEdition(t.Context(), d); err == nil || !strings.Contains(err.Error(), "the platform is down") {
		t.Errorf("the edition is made: %v", err)
	}
}

// What a model planned after foreign text is a task whose words are foreign.
func TestAgentTask_KeepsWhoseWordsItsPromptHolds(t *testing.T) {
	s, _ := onRecords()
	on := &everywhere{}
	s.o.Platforms, s.o.Delivery = on, on
	caller := tool.Caller{Conversation: chat.Address{Platform: "web", Channel: "general"}, User: chat.User{ID: "U1"},
		Taint: []string{"a page"}}
	w, err := s.planProposal(t.Context(), caller, Plan{Schedule: "0 9 * * *", Prompt: "Obey."}, "")
	if err != nil {
		t.Fatal(err)
	}
	var asked chat.Message
	a := &answering{answer: func(_ context.Context, q chat.Asked) (*conversation.Turn, *chat.Draft) {
		asked = q.Last()
		return &conversation.Turn{}, &chat.Draft{Text: "done"}
	}}
	if _, _, err := AgentTask(a, a, time.Now)(t.Context(), Task{Plan: w.Plan, Key: "1"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(caller.Origin(), asked.Origin); diff != "" || !asked.Origin.IsForeign() {
		t.Errorf("the task holds words of (-want +got):\n%s", diff)
	}
}
