package digest_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

var (
	news = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}
	anna = chat.User{ID: "U1", Name: "anna"}
	bob  = chat.User{ID: "U2", Name: "bob"}
	root = chat.User{ID: "U3", Name: "root", Admin: true}
)

func says(by chat.User, text string) chat.Message {
	return chat.Message{ID: text, Conversation: news, Author: by, Text: text}
}

func presses(by chat.User, value string) chat.Message {
	return chat.Message{Conversation: news, Author: by, Command: chat.Pressed, Text: value}
}

// answer is what the digests say to a message; empty: it is not for them.
func (b *bench) answer(t *testing.T, m chat.Message) string {
	t.Helper()
	d, _ := handled(t.Context(), b, m)
	return d.Text
}

func (b *bench) command(t *testing.T, by chat.User, text string) string {
	t.Helper()
	return b.Command(t.Context(), chat.Message{Conversation: news, Author: by, Command: "digest", Text: text}).Text
}

func (b *bench) propose(t *testing.T, by chat.User, p digest.Plan) (chat.Draft, error) {
	t.Helper()
	thread := news
	_, err := b.Propose(t.Context(), tool.Caller{Conversation: thread, User: by}, p)
	if err != nil {
		return chat.Draft{}, err
	}
	return b.shown[len(b.shown)-1], nil
}

var weekdays = digest.Plan{Schedule: "0 9 * * 1-5", Timezone: "Europe/Oslo", Feeds: from(a)}

func TestADigestIsMadeInChat(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)})
	b.feeds[a] = []feed.Item{story(1)}
	asked, err := b.propose(t, anna, weekdays)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[Feed a](https://example.org/feed/a)", "slack:T1/C1",
		"Tue 3 Mar 09:00 CET, Wed 4 Mar 09:00 CET, Thu 5 Mar 09:00 CET", "anna"} {
		if !strings.Contains(asked.Text, want) {
			t.Errorf("the plan lacks %q:\n%s", want, asked.Text)
		}
	}
	yes := asked.Buttons[0].Value
	if got := b.answer(t, presses(bob, yes)); !strings.Contains(got, "Only the person who asked") {
		t.Errorf("somebody else was told %q", got)
	}
	if b.Urgent(says(bob, "yes")) || !b.Urgent(says(anna, "Yes!")) || !b.Urgent(says(root, "no")) ||
		b.Urgent(says(anna, "yes, and what is the weather?")) {
		t.Error("the word of the wrong one counts")
	}
	b.restart(t) // the question outlives it
	if got := b.answer(t, presses(anna, yes)); !strings.Contains(got,
		"`feed-a` is created. Its first run is on Tue 3 Mar 09:00 CET") {
		t.Fatalf("the answer is %q", got)
	}
	if got := b.answer(t, presses(anna, yes)); !strings.Contains(got, "decided or has expired") {
		t.Errorf("pressed again: %q", got)
	}
	b.restart(t)
	if jobs := b.Jobs(); len(jobs) != 1 || jobs[0].Name != "feed-a" || !jobs[0].CatchUp {
		t.Fatalf("jobs %+v", jobs)
	}
	if since, ok := b.LastDue("feed-a"); !ok || !since.Equal(b.now) {
		t.Errorf("caught up since %v, %v; want since it was made", since, ok)
	}
	run, err := b.Run(t.Context(), "feed-a", monday.AddDate(0, 0, 1), false)
	if err != nil || run.Posted != 1 || b.sent[0].To != news {
		t.Errorf("run %+v, %v, posts %+v", run, err, b.sent)
	}
}

// One person makes so many digests in chat; what they remove makes room, and others have their own limit.
func TestDigestsOfOnePerson_AreLimited(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) { o.Settings = setElsewhere{maxPerUser: 2} })
	b.feeds[a] = []feed.Item{story(1)}
	add := func(who chat.User) error {
		t.Helper()
		asked, err := b.propose(t, who, weekdays)
		if err == nil {
			b.answer(t, presses(who, asked.Buttons[0].Value))
		}
		return err
	}
	if err := errors.Join(add(anna), add(anna)); err != nil {
		t.Fatal(err)
	}
	if err := add(anna); err == nil || !strings.Contains(err.Error(), "you have made 2 digests already") {
		t.Errorf("the third one: %v", err)
	}
	if err := add(bob); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	operator := anna
	operator.Operator = true
	if err := add(operator); err != nil {
		t.Errorf("whoever runs the bot: %v", err)
	}
	if err := errors.Join(b.Remove(t.Context(), "feed-a"), b.Remove(t.Context(), "feed-a-2"), add(anna)); err != nil {
		t.Errorf("after two were removed: %v", err)
	}
}

func TestWhatCannotBeMadeIsToldBefore(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)})
	b.feeds[a] = []feed.Item{story(1)}
	for _, c := range []struct {
		change func(*digest.Plan)
		want   string
	}{
		{func(p *digest.Plan) { p.Schedule = "* * * * *" }, "more often than every 15 minutes"},
		{func(p *digest.Plan) { p.Schedule = "0 0 30 2 *" }, "never due"},
		{func(p *digest.Plan) { p.Schedule = "whenever you like" }, "schedule:"},
		{func(p *digest.Plan) { p.Timezone = "Europe/Olso" }, "timezone:"},
		{func(p *digest.Plan) { p.Feeds = nil }, "neither feeds, channels nor a prompt"},
		{func(p *digest.Plan) { p.Style = "loud" }, "style loud is not known"},
		{func(p *digest.Plan) { p.Filters = []string{"/(/"} }, "filters:"},
		{func(p *digest.Plan) { p.Prompt = strings.Repeat("x", 5000) }, "4000 bytes"},
		{func(p *digest.Plan) { p.Feeds = from("the daily prophet") }, "no feed called \"the daily prophet\" is read yet"},
		{func(p *digest.Plan) { p.Feeds = from("https://example.org/feed/none") }, "could not be fetched"},
		{func(p *digest.Plan) { p.Feeds = from("file:///etc/passwd") }, ""},
	} {
		p := weekdays
		c.change(&p)
		_, err := b.propose(t, anna, p)
		var bad digest.BadPlan
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: error %v, want %q", p, err, c.want)
		}
	}
	if _, err := b.Propose(t.Context(), tool.Caller{Conversation: news}, weekdays); err == nil {
		t.Error("a digest was proposed in nobody's name")
	}
	if len(b.shown) != 0 {
		t.Errorf("something was asked: %+v", b.shown)
	}
}

// made has anna make a digest called feed-a.
func made(t *testing.T, p digest.Plan) *bench {
	t.Helper()
	b := service(t, digest.Plan{Feeds: from(a)})
	b.feeds[a] = []feed.Item{story(1), story(2)}
	asked, err := b.propose(t, anna, p)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.answer(t, says(anna, "yes")); !strings.Contains(got, "is created") {
		t.Fatal(got, asked)
	}
	return b
}

func TestPropose_ZoneInWords_ShowsTheNextFiveRunsInIt(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)})
	asked, err := b.propose(t, anna, digest.Plan{Schedule: "weekdays at 9 Oslo time", Prompt: "Good morning"})
	const want = "runs weekdays at 9:00 (Europe/Oslo), next: Tue 3 Mar 09:00 CET, Wed 4 Mar 09:00 CET, " +
		"Thu 5 Mar 09:00 CET, Fri 6 Mar 09:00 CET, Mon 9 Mar 09:00 CET"
	if err != nil || !strings.Contains(asked.Text, want) {
		t.Errorf("the plan (%v) lacks %q:\n%s", err, want, asked.Text)
	}
}

func TestATaskAndInstantModeAreMadeInChat(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)})
	b.feeds[a] = []feed.Item{story(1)}
	for _, c := range []struct {
		plan digest.Plan
		want []string
		name string
	}{
		{digest.Plan{Schedule: "weekdays at 9", Prompt: "Say what is *due* today, please."}, []string{"instructions: Say what is \\*due\\* today", "next: Mon 2 Mar 09:00 UTC", "at most 30000 tokens"}, "say-what-is-due-today-please"},
		{digest.Plan{Schedule: digest.OnNew, Feeds: from(a), Filters: []string{"-spam"}}, []string{"as they come, at most 5 at a time", "filters: -spam"}, "feed-a"},
	} {
		asked, err := b.propose(t, anna, c.plan)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(asked.Text, want) {
				t.Errorf("the plan lacks %q:\n%s", want, asked.Text)
			}
		}
		if got := b.answer(t, says(anna, "yes")); !strings.Contains(got, "`"+c.name+"` is created") {
			t.Errorf("the answer is %q", got)
		}
		if c.plan.Schedule == digest.OnNew { // what comes after it was made is new
			b.now = b.now.Add(time.Minute)
			b.feeds[a] = append(b.feeds[a], story(2))
			b.Poll(t.Context())
			if len(b.sent) != 1 || len(b.sent[0].Draft.Cards) != 1 || b.sent[0].Draft.Cards[0].URL != "https://example.org/2" {
				t.Errorf("after the first item came: %+v", b.sent)
			}
		}
		if len(c.plan.Feeds) == 0 {
			if got := b.command(t, anna, "edit "+c.name+" maxTokens 0"); !strings.Contains(got, "between 1 and 200000") {
				t.Errorf("a task without a cap: %q", got)
			}
			if got := b.command(t, anna, "edit "+c.name+" maxTokens 5000"); !strings.Contains(got, "is changed") {
				t.Errorf("a smaller cap: %q", got)
			}
		}
		if shown := b.shown[len(b.shown)-1].Text; !strings.Contains(shown, "confirmed by anna") ||
			!strings.Contains(shown, c.want[0]) {
			t.Errorf("afterwards the plan reads %q", shown)
		}
	}
}

func TestADigestIsMadeByACommand(t *testing.T) {
	for _, c := range []struct{ words, schedule, zone, want string }{
		{"weekdays at 9 Europe/Oslo " + a, "weekdays at 9", "Europe/Oslo", "May I make the digest"},
		{"weekdays at 9 in Europe/Oslo from " + a + " and from " + b2, "weekdays at 9", "Europe/Oslo", "May I make the digest"},
		{"0 9 * * 1-5 " + a + ", and <" + b2 + ">", "0 9 * * 1-5", "UTC", "May I make the digest"},
		{"on-new " + a, "on-new", "UTC", "May I make the digest"},
		{a, "", "", "Say for example"}, {"weekdays at 9", "", "", "Say for example"}, {"now and then " + a, "", "", "That does not work: schedule"},
		{"weekdays at 9 https://example.org/feed/none", "", "", "could not be fetched"},
	} {
		b := service(t, digest.Plan{Feeds: from(a)})
		b.feeds[a], b.feeds[b2] = []feed.Item{story(1)}, []feed.Item{story(2)}
		if got := b.command(t, anna, "create "+c.words); !strings.Contains(got, c.want) {
			t.Errorf("create %s: %q, want %q in it", c.words, got, c.want)
		}
		if c.schedule == "" {
			continue
		}
		b.answer(t, says(anna, "yes"))
		list, err := b.List(t.Context())
		if err != nil || len(list) != 2 || list[0].Schedule != c.schedule || list[0].Timezone != c.zone {
			t.Errorf("create %s: there are %+v, %v", c.words, list, err)
		}
	}
}

func TestWhoMayChangeADigest(t *testing.T) {
	b := made(t, weekdays)
	for n, c := range []struct {
		by         chat.User
		text, want string
	}{
		{bob, "pause feed-a", "Only an administrator, or the author of"}, {bob, "remove feed-a", "Only an admin"}, {bob, "edit feed-a style titles", "Only an admin"},
		{anna, "pause morning", "no digest \"morning\""}, {bob, "run morning", "no digest \"morning\""}, {bob, "preview morning", "no digest \"morning\""}, {root, "remove morning", "comes from config.json"}, {root, "edit morning style titles", "comes from config.json"},
		{bob, "list", "**feed-a**: weekdays at 9:00, `0 9 * * 1-5` (Europe/Oslo), 1 feed to `slack:T1/C1`, made by anna, next Tue 3 Mar 09:00 CET"},
		{bob, "preview feed-a", "2 of 2 new items"}, {bob, "explain feed-a", "Story number 2 of a long series: *posted*"}, {bob, "explain feed-a last", "has not run yet"},
		{anna, "edit feed-a style titles", "is changed"}, {anna, "edit feed-a style loud", "not known"}, {anna, "edit feed-a colour red", "name a field to change"},
		{anna, "edit feed-a maxItems 1", "is changed"}, {anna, "edit feed-a filters -spam, -/x y/", "is changed"}, {anna, "edit feed-a schedule 30 7 * * *", "Next: Tue 3 Mar 07:30 CET"},
		{anna, "edit feed-a feeds -https://nope.example", "does not read"}, {anna, "edit feed-a feeds +https://nope.example", "could not be fetched"},
		{anna, "mute feed-a Council until 2026-03-02", "leaves out Council until 2026-03-02"}, {anna, "mute feed-a council", "write mute:WORD until"}, {bob, "mute feed-a x until 2026-03-02", "Only an admin"},
		{root, "mute morning x until 2026-03-02", "comes from config.json"}, {bob, "run feed-a", "with 1 item"}, {bob, "explain feed-a last", "of 2 Mar 09:00"},
		{root, "pause feed-a", "is paused"}, {anna, "list", "**paused**"}, {anna, "resume feed-a", "is resumed. Next: Tue 3 Mar 07:30 CET"},
		{root, "pause morning", "is paused"}, {root, "resume morning", "is resumed"}, {anna, "dance", "Say `digest list`"}, {anna, "remove nothing", "no digest \"nothing\""},
		{anna, "remove feed-a", "is removed"}, {anna, "run feed-a", "no digest"},
	} {
		if got := b.command(t, c.by, c.text); !strings.Contains(got, c.want) {
			t.Errorf("%d: %s says digest %s: %q, want %q in it", n, c.by.Name, c.text, got, c.want)
		}
	}
	b.restart(t)
	if list, err := b.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("after a restart there are %+v, %v", list, err)
	}
}

func TestOtherChannelsDoNotSeeADigest(t *testing.T) {
	b := made(t, weekdays)
	elsewhere := chat.Message{Conversation: chat.Address{Platform: "slack", Workspace: "T1", Channel: "C2"}, Author: bob}
	for _, text := range []string{"list", "preview feed-a", "explain feed-a", "run feed-a"} {
		elsewhere.Text = text
		if got := b.Command(t.Context(), elsewhere).Text; strings.Contains(got, "feed-a**") ||
			strings.Contains(got, "Story") {
			t.Errorf("digest %s elsewhere says %q", text, got)
		}
	}
	if names := b.Names(elsewhere.Conversation); len(names) != 0 {
		t.Errorf("offered elsewhere: %q", names)
	}
}

func TestAPausedDigestMakesNothingGood(t *testing.T) {
	b := made(t, weekdays)
	if got := b.command(t, anna, "pause feed-a"); !strings.Contains(got, "is paused") {
		t.Fatal(got)
	}
	if run, err := b.Run(t.Context(), "feed-a", monday.AddDate(0, 0, 1), false); err != nil || run.OK || len(b.sent) != 0 {
		t.Errorf("it ran: %+v, %v", run, err)
	}
	b.now = monday.AddDate(0, 0, 4)
	b.restart(t)
	if jobs := b.Jobs(); !jobs[0].Paused {
		t.Errorf("after a restart it goes on: %+v", jobs)
	}
	b.command(t, anna, "resume feed-a")
	if since, _ := b.LastDue("feed-a"); !since.Equal(b.now) {
		t.Errorf("caught up since %v, want since it was resumed, %v", since, b.now)
	}
}

func TestItemsArePostedAsTheyCome(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a), Schedule: digest.OnNew})
	look := func() []store.Post {
		b.sent = nil
		b.now = b.now.Add(30 * time.Minute)
		b.Poll(t.Context())
		return b.sent
	}
	b.feeds[a] = []feed.Item{story(0)}
	if posts := look(); len(posts) != 0 {
		t.Fatalf("the first look posted %+v", posts)
	}
	b.feeds[a] = append(b.feeds[a], story(1))
	if posts := look(); len(posts) != 1 || len(posts[0].Draft.Cards) != 1 ||
		posts[0].Draft.Cards[0].URL != "https://example.org/1" {
		t.Fatalf("the new item: %+v", posts)
	}
	b.restart(t, digest.Plan{Name: "morning", Schedule: digest.OnNew, Post: []string{"web:/general"}, Feeds: from(a)})
	if posts := look(); len(posts) != 0 {
		t.Errorf("after a restart it was posted again: %+v", posts)
	}
	for n := range 9 {
		it := story(100 + n)
		it.Title = fmt.Sprintf("%s happens number %d", strings.Repeat(string(rune('k'+n)), 12), n)
		it.Summary = it.Title
		b.feeds[a] = append(b.feeds[a], it)
	}
	if posts := look(); len(posts) != 1 || len(posts[0].Draft.Cards) != 5 ||
		!regexp.MustCompile(`, and 4 more: \[.*\]\(https://example.org/1\d\d\), .*, …$`).MatchString(posts[0].Draft.Text) {
		t.Errorf("of nine items: %+v", posts)
	}
	if posts := look(); len(posts) != 0 {
		t.Errorf("the surplus came again: %+v", posts)
	}
	if jobs := b.Jobs(); len(jobs) != 0 {
		t.Errorf("it is due at %+v", jobs)
	}
}

// A feed that cannot be read for a while is told of when that lasts, and what it holds
// when it is first read is not new.
func TestAFeedThatFailsBeforeItsFirstLook(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a), Schedule: digest.OnNew})
	told := []int{}
	for n := range 8 {
		b.now = b.now.Add(30 * time.Minute)
		switch n {
		case 5:
			b.feeds[a] = []feed.Item{story(0), story(1)}
		case 7:
			b.feeds[a] = append(b.feeds[a], story(2))
		}
		b.Poll(t.Context())
		told = append(told, len(b.sent))
	}
	if fmt.Sprint(told) != "[0 0 1 1 1 2 2 3]" || len(b.notices()) != 2 {
		t.Errorf("posts after each look: %v, of them %q about the feed", told, b.notices())
	}
	if last := b.sent[2].Draft; len(last.Cards) != 1 || last.Cards[0].URL != "https://example.org/2" {
		t.Errorf("the last post is %+v", last)
	}
}

func TestATaskIsCarriedOutOncePerDueInstant(t *testing.T) {
	var asked []digest.Task
	settled := 0
	var fails error
	p := digest.Plan{Name: "morning", Schedule: "0 8 * * *", Prompt: "Say what is due today.", Language: "Norwegian",
		MaxTokens: 500, Post: []string{general.String()}}
	b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) {
		o.Task = func(_ context.Context, task digest.Task) (chat.Draft, func(context.Context) error, error) {
			asked = append(asked, task)
			return chat.Draft{Text: "Nothing is due."}, func(context.Context) error { settled++; return nil }, fails
		}
	})
	b.restart(t, p)
	if d := b.preview(t).Draft; len(asked) != 0 || !strings.Contains(d.Text, "Say what is due today.") {
		t.Errorf("the preview asked %d times and shows %q", len(asked), d.Text)
	}
	for range 2 {
		b.run(t, monday)
	}
	if len(b.sent) != 1 || b.sent[0].Draft.Text != "**morning**\n\nNothing is due." || settled != 2 {
		t.Errorf("posted %+v, settled %d times", b.sent, settled)
	}
	if task := asked[0]; task.Key != asked[1].Key || !strings.Contains(task.Prompt, "in this language: Norwegian") ||
		task.Plan.MaxTokens != 500 || task.To != general {
		t.Errorf("asked %+v", asked)
	}
	fails = errors.New("secret reason")
	run, err := b.Run(t.Context(), "morning", monday.Add(time.Hour), false)
	if err == nil || run.OK || len(b.sent) != 2 || !b.sent[1].Draft.Failed ||
		strings.Contains(b.sent[1].Draft.Text, "secret") {
		t.Errorf("a task that fails: %+v, %v, posted %+v", run, err, b.sent)
	}
}

// A run that takes too long is told of; one that is cut off because the bot ends is made
// good after the next start.
func TestARunThatEndsEarly(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) {
		o.Task = func(ctx context.Context, _ digest.Task) (chat.Draft, func(context.Context) error, error) {
			<-ctx.Done()
			return chat.Draft{}, nil, ctx.Err()
		}
	})
	b.restart(t, digest.Plan{Name: "morning", Schedule: "0 8 * * *", Prompt: "Count to a million.",
		Post: []string{general.String()}})
	ended, end := context.WithCancel(t.Context())
	end()
	if run, err := b.Run(ended, "morning", monday, false); !errors.Is(err, context.Canceled) || len(b.sent) != 0 {
		t.Errorf("cut off: %+v, %v, %d posts", run, err, len(b.sent))
	}
	slow, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	run, err := b.Run(slow, "morning", monday, false)
	if err == nil || run.OK || len(b.sent) != 1 || !strings.Contains(b.sent[0].Draft.Text, "it took too long") {
		t.Errorf("too slow: %+v, %v, posts %+v", run, err, b.sent)
	}
	if _, known := b.LastDue("morning"); !known {
		t.Error("the run is not on record")
	}
}

func TestKnownFeedsNameTheirUsers(t *testing.T) {
	b := service(t, digest.Plan{Feeds: []digest.Feed{{URL: "https://x.example/?key=hidden",
		Shown: "https://x.example/?key=***"}}})
	b.feeds[a] = []feed.Item{story(1)}
	if _, err := b.Subscribe(t.Context(), news, a); err != nil {
		t.Fatal(err)
	}
	list, err := b.KnownFeeds(t.Context())
	if err != nil || len(list) != 2 || list[0].Name != a || list[0].UsedBy[0] != "slack:T1/C1" ||
		list[1].Name != "https://x.example/?key=***" || list[1].UsedBy[0] != "morning" {
		t.Errorf("%+v, %v", list, err)
	}
	if got := b.command(t, bob, "list"); !strings.Contains(got, "[Feed a](https://example.org/feed/a)") {
		t.Errorf("the channel's list does not name what it follows: %q", got)
	}
	if got := b.command(t, bob, "unsubscribe Feed a"); !strings.Contains(got, "no longer posted") {
		t.Errorf("%q", got)
	}
	if list, _ := b.KnownFeeds(t.Context()); len(list) != 1 {
		t.Errorf("after that: %+v", list)
	}
	if _, err := b.propose(t, anna, digest.Plan{Schedule: "0 8 * * *", Feeds: from("x.example key")}); err == nil ||
		strings.Contains(err.Error(), "hidden") {
		t.Errorf("a feed with a secret was found by words: %v", err)
	}
}

func TestSubscribe_PlaceThatFollowsTooManyFeeds_IsRefused(t *testing.T) {
	b := service(t, digest.Plan{Feeds: []digest.Feed{{URL: a}}})
	b.feeds[a] = []feed.Item{story(1)}
	for n := range 50 {
		b.feeds[fmt.Sprint(a, n)] = []feed.Item{story(n)}
		if _, err := b.Subscribe(t.Context(), news, fmt.Sprint(a, n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Subscribe(t.Context(), news, a); !errors.Is(err, store.ErrFull) {
		t.Errorf("the 51st feed: %v", err)
	}
	if _, err := b.Subscribe(t.Context(), news, a+"0"); err != nil {
		t.Errorf("one that is followed already: %v", err)
	}
}

// handled returns what a feature answers to a message; false: the message is not for it.
func handled(ctx context.Context, f feature.Feature, m chat.Message) (chat.Draft, bool) {
	d, err := f.Handle(ctx, m)
	if d == nil || err != nil {
		return chat.Draft{}, false
	}
	return *d, true
}

// neverReady is a delivery that has not begun when the bot is stopped.
type neverReady struct{ *bench }

func (neverReady) Ready() <-chan struct{} { return nil }

func TestRun_TookTooLongAndDeliveryIsNotReady_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := service(t, digest.Plan{Prompt: "what is new?"}, func(o *digest.Options) {
			o.Task = func(ctx context.Context, _ digest.Task) (chat.Draft, func(context.Context) error, error) {
				<-ctx.Done()
				return chat.Draft{}, nil, ctx.Err()
			}
		})
		b.options.Delivery = neverReady{b}
		b.restart(t, digest.Plan{Name: "morning", Prompt: "what is new?", Schedule: "30 8 * * *",
			Post: []string{general.String()}})
		if run, err := b.Run(t.Context(), "morning", monday, false); err == nil {
			t.Errorf("stored %+v although delivery is not ready", run)
		}
	})
}
