package digest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

// traceKinds are the kinds of items that are stored of a digest called name, beside its plan.
func traceKinds(name string) []string {
	return []string{"digest pause", "digest trouble", "digest waiting", "digest page", "digest verdicts",
		"digest run/" + name, "digest event/" + name}
}

// leaveTraces has the digest morning leave one item of each kind, and returns the token of its page.
func (b *bench) leaveTraces(t *testing.T) (token string) {
	t.Helper()
	b.feeds[a] = []feed.Item{story(1), story(2), story(3)} // b2 fails
	b.run(t, b.now)
	b.feeds[a] = append(b.feeds[a], story(4), story(5))
	b.now = b.now.Add(24 * time.Hour)
	b.run(t, b.now)
	token, err := b.Publish(t.Context(), "morning")
	err = errors.Join(err, b.AddEvent(t.Context(), "morning", "push", fault(9, b.now)),
		b.Pause(t.Context(), "morning", true))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range traceKinds("morning") {
		if len(b.items(t, kind)) == 0 {
			t.Fatalf("nothing of the kind %q is stored", kind)
		}
	}
	return token
}

func (b *bench) items(t *testing.T, kind string) map[string]json.RawMessage {
	t.Helper()
	items, err := b.db.Items(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// A digest of the name of one that the operator took out of the configuration is another one: it is not paused, the
// address of the old page does not show it, its page does not show what the old one posted, and nobody gets it
// directly.
func TestCreate_NameOfADigestThatIsGone_InheritsNothing(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a, b2), Hooks: []string{"push"}, MaxItems: 1})
	token := b.leaveTraces(t)
	b.restart(t)
	b.feeds[b2] = []feed.Item{story(20)}
	other := digest.Plan{Name: "morning", Schedule: "0 9 * * *", Feeds: from(b2), Post: []string{"web:/private"},
		Source: digest.FromAPI}
	info, err := b.Create(t.Context(), other)
	if err != nil || info.Paused {
		t.Fatalf("made: %+v, %v", info, err)
	}
	for _, kind := range traceKinds("morning") {
		if items := b.items(t, kind); len(items) > 0 {
			t.Errorf("of the kind %q it has %d items", kind, len(items))
		}
	}
	b.sent, b.now = nil, b.now.Add(24*time.Hour)
	b.run(t, b.now)
	if len(b.sent) != 1 || b.sent[0].To.Channel != "private" {
		t.Errorf("its posts: %+v", b.sent)
	}
	if _, ok, err := b.Published(t.Context(), token); ok || err != nil {
		t.Errorf("the old address shows it: %v, %v", ok, err)
	}
	if token, err = b.Publish(t.Context(), "morning"); err != nil {
		t.Fatal(err)
	}
	if p, ok, err := b.Published(t.Context(), token); err != nil || !ok || len(p.Posts) != 1 {
		t.Errorf("its page shows %d posts, %v", len(p.Posts), err)
	}
}

// A digest that is removed leaves nothing but which items it saw.
func TestRemove_LeavesNoTraces(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)})
	made := digest.Plan{Name: "made", Schedule: "0 9 * * *", Feeds: from(a, b2), MaxItems: 1,
		Post:   []string{general.String()},
		Source: digest.FromAPI}
	if _, err := b.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	b.feeds[a] = []feed.Item{story(1), story(2)}
	for range 2 {
		if _, err := b.Run(t.Context(), "made", b.now, false); err != nil {
			t.Fatal(err)
		}
		b.feeds[a] = append(b.feeds[a], story(3), story(4))
		b.now = b.now.Add(24 * time.Hour)
	}
	_, err := b.Publish(t.Context(), "made")
	if err := errors.Join(err, b.Pause(t.Context(), "made", true), b.Remove(t.Context(), "made")); err != nil {
		t.Fatal(err)
	}
	for _, kind := range append(traceKinds("made"), "digest") {
		if items := b.items(t, kind); len(items) > 0 {
			t.Errorf("of the kind %q %d items are left", kind, len(items))
		}
	}
	if runs, err := b.db.LastRuns(t.Context(), "made", 9); len(runs) != 2 || err != nil {
		t.Errorf("%d runs are known, %v", len(runs), err)
	}
}

// racingChange has another replica change a digest just before this one does.
type racingChange struct {
	digest.Store
	other func()
}

func (r *racingChange) SwapItem(
	ctx context.Context, kind, name string, was, now json.RawMessage, posts []store.Post,
) (bool, error) {
	if other := r.other; other != nil && kind == "digest" {
		r.other = nil
		other()
	}
	return r.Store.SwapItem(ctx, kind, name, was, now, posts)
}

// noRuns is a store that cannot read runs.
type noRuns struct{ digest.Store }

func (noRuns) LastRuns(context.Context, string, int) ([]store.Run, error) { return nil, errDisk }

// Only the look at a digest that is stored fails: it is not said to have failed.
func TestCreateAndChange_ReadAfterwardsFails_Succeed(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) { o.Store = noRuns{o.Store} })
	made := digest.Plan{Name: "made", Schedule: "0 9 * * *", Feeds: from(a), Post: []string{general.String()},
		Source: digest.FromAPI}
	if info, err := b.Create(t.Context(), made); err != nil || info.Name != "made" || info.Next == nil {
		t.Errorf("made: %+v, %v", info, err)
	}
	if info, added, err := b.AddFeeds(t.Context(), "made", []string{b2}); err != nil || added != 1 ||
		len(info.Feeds) != 2 {
		t.Errorf("changed: %+v, %v", info, err)
	}
}

func TestAddFeeds_AnotherReplicaChangesTheDigest_CountsEachFeedOnce(t *testing.T) {
	racing := &racingChange{}
	b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) { racing.Store, o.Store = o.Store, racing })
	made := digest.Plan{Name: "made", Schedule: "0 9 * * *", Feeds: from(a), Post: []string{general.String()},
		Source: digest.FromAPI}
	if _, err := b.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	other := digest.New(b.options)
	if err := other.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	racing.other = func() {
		if _, added, err := other.AddFeeds(t.Context(), "made", []string{b2}); added != 1 || err != nil {
			t.Errorf("the other replica has added %d feeds, %v", added, err)
		}
	}
	const c = "https://example.org/feed/c"
	info, added, err := b.AddFeeds(t.Context(), "made", []string{b2, c})
	if added != 1 || err != nil || strings.Join(info.Feeds, " ") != strings.Join([]string{a, b2, c}, " ") {
		t.Errorf("%d feeds were added to %v, %v", added, info.Feeds, err)
	}
}

// What the store refuses has not happened: a proposal that nobody was shown cannot be confirmed, and a decision that
// was not stored can be made again.
func TestProposals_StoreRefuses_ChangeNothing(t *testing.T) {
	b, f := onFrail(t, digest.Plan{Feeds: from(a)})
	f.arm(-1)
	b.feeds[a] = []feed.Item{story(1)}
	f.arm(1)
	if _, err := b.propose(t, anna, weekdays); !errors.Is(err, errDisk) || b.Urgent(says(anna, "yes")) {
		t.Errorf("a proposal that is not stored: %v, and a yes counts: %v", err, b.Urgent(says(anna, "yes")))
	}
	f.arm(-1)
	asked, err := b.propose(t, anna, weekdays)
	if err != nil {
		t.Fatal(err)
	}
	yes, no := presses(anna, asked.Buttons[0].Value), presses(anna, asked.Buttons[1].Value)
	shown := len(b.shown)
	for _, press := range []chat.Message{yes, no} {
		f.arm(1)
		if got := b.answer(t, press); !strings.Contains(got, "Please try again") || len(b.shown) != shown {
			t.Errorf("%s is answered %q", press.Text, got)
		}
	}
	f.arm(-1)
	if got := b.answer(t, no); !strings.Contains(got, "is not created") {
		t.Errorf("tried again: %q", got)
	}
	b.restart(t)
	if got := b.answer(t, yes); !strings.Contains(got, "decided or has expired") {
		t.Errorf("a yes after the no: %q", got)
	}
}

// A plan that cannot be made now can be confirmed once there is room.
func TestProposal_ThatCannotBeMadeNow_StaysOpen(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) { o.Settings = setElsewhere{maxPerUser: 1} })
	b.feeds[a] = []feed.Item{story(1)}
	var yes []chat.Message
	for _, name := range []string{"first", "second"} {
		p := weekdays
		p.Name = name
		asked, err := b.propose(t, anna, p)
		if err != nil {
			t.Fatal(err)
		}
		yes = append(yes, presses(anna, asked.Buttons[0].Value))
	}
	b.answer(t, yes[1])
	if got := b.answer(t, yes[0]); !strings.Contains(got, "you have made 1 digests already, which is the limit") {
		t.Fatalf("one too many: %q", got)
	}
	if err := b.Remove(t.Context(), "second"); err != nil {
		t.Fatal(err)
	}
	if got := b.answer(t, yes[0]); !strings.Contains(got, "`first` is created") {
		t.Errorf("with room: %q", got)
	}
}

// The configuration takes the name of a digest whose page was shared: its old address does not show the operator's
// posts.
func TestConfigure_NameOfASharedDigest_OldAddressShowsNothing(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)})
	made := digest.Plan{Name: "made", Schedule: "0 9 * * *", Feeds: from(a), Post: []string{general.String()},
		Source: digest.FromAPI}
	if _, err := b.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	old, err := b.Publish(t.Context(), "made")
	if err != nil {
		t.Fatal(err)
	}
	b.restart(t, made)
	b.feeds[a] = []feed.Item{story(1)}
	if _, err := b.Run(t.Context(), "made", b.now, false); err != nil {
		t.Fatal(err)
	}
	if p, ok, err := b.Published(t.Context(), old); ok || err != nil {
		t.Errorf("the old address shows %+v, %v", p, err)
	}
	b.restart(t)
	if p, ok, err := b.Published(t.Context(), old); !ok || len(p.Posts) > 0 || err != nil {
		t.Errorf("once the name is given up the old address shows %+v, %v, %v", p, ok, err)
	}
	b.restart(t, made)
	token, err := b.Publish(t.Context(), "made")
	if err != nil || token == old {
		t.Fatalf("the operator's page has the old address (%v), want another one", err)
	}
	if p, ok, err := b.Published(t.Context(), token); err != nil || !ok || len(p.Posts) != 1 {
		t.Errorf("the operator's page shows %+v, %v, %v", p, ok, err)
	}
}

// The configuration takes the name of a digest that was made in chat and is paused, and gives it up: it is another digest,
// and that of the chat is paused as before.
func TestConfigure_NameOfAPausedDigest_IsNotPaused(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)})
	made := digest.Plan{Name: "made", Schedule: "0 9 * * *", Feeds: from(a), Post: []string{general.String()},
		Source: digest.FromAPI}
	if _, err := b.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	if err := b.Pause(t.Context(), "made", true); err != nil {
		t.Fatal(err)
	}
	for _, plans := range [][]digest.Plan{{made}, nil} {
		b.restart(t, plans...)
		if p, ok := b.Plan("made"); !ok || p.Paused != (len(plans) == 0) {
			t.Errorf("with %d digests of the configuration it is paused: %v", len(plans), p.Paused)
		}
	}
}

// Records that cannot be read, as an import may bring them, keep neither the bot from starting nor others from
// counting.
func TestLoad_RecordsThatCannotBeRead_AreSkipped(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)})
	made := digest.Plan{Name: "made", Schedule: "0 9 * * *", Feeds: from(a), Post: []string{general.String()},
		Source: digest.FromAPI}
	if _, err := b.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	if err := b.Pause(t.Context(), "made", true); err != nil {
		t.Fatal(err)
	}
	broken := json.RawMessage(`{"at":7,"id":7,"digest":7}`)
	for _, kind := range []string{"digest pause", "digest wish", "digest page", "digest unsubscription"} {
		if err := b.db.SaveItem(t.Context(), kind, "broken", broken, true); err != nil {
			t.Fatal(err)
		}
	}
	b.restart(t)
	if p, ok := b.Plan("made"); !ok || !p.Paused {
		t.Errorf("the digest is %+v, want it paused", p)
	}
}
