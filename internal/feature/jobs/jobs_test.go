package jobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature/jobs"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
)

var (
	general = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}
	other   = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C2"}
	anna    = chat.User{ID: "U1", Name: "Anna"}
	bert    = chat.User{ID: "U2", Name: "Bert"}
	root    = chat.User{ID: "U9", Name: "Root", Admin: true}
)

// disk is a store that outlives the bot. It counts every time that a post is stored, also the same one again.
type disk struct {
	mu    sync.Mutex
	items map[string]json.RawMessage // by kind and name
	posts []store.Post
	// onSwap is called before and after each change, without the lock; an error ends the call with it.
	onSwap func(after bool) error
}

func (d *disk) Items(_ context.Context, kind string) (map[string]json.RawMessage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := map[string]json.RawMessage{}
	for key, item := range d.items {
		if name, ok := strings.CutPrefix(key, kind+"/"); ok {
			found[name] = item
		}
	}
	return found, nil
}

func (d *disk) DeleteItem(_ context.Context, kind, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.items, kind+"/"+name)
	return nil
}

func (d *disk) SwapItem(
	_ context.Context,
	kind, name string,
	was, now json.RawMessage,
	posts []store.Post,
) (bool, error) {
	if d.onSwap != nil {
		if err := d.onSwap(false); err != nil {
			return false, err
		}
	}
	d.mu.Lock()
	swapped := bytes.Equal(d.items[kind+"/"+name], was)
	if swapped {
		if d.posts = append(d.posts, posts...); now != nil {
			d.items[kind+"/"+name] = now
		} else {
			delete(d.items, kind+"/"+name)
		}
	}
	d.mu.Unlock()
	if d.onSwap != nil {
		if err := d.onSwap(true); err != nil {
			return false, err
		}
	}
	return swapped, nil
}

func (*disk) Item(context.Context, string, string) (json.RawMessage, error) {
	return nil, errors.ErrUnsupported
}

func (*disk) SaveItem(context.Context, string, string, json.RawMessage, bool) error {
	return errors.ErrUnsupported
}

// texts returns the texts that were posted, and forgets them.
func (d *disk) texts() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []string
	for _, p := range d.posts {
		list = append(list, p.Draft.Text)
	}
	d.posts = nil
	return list
}

type delivery struct{ ready chan struct{} }

func (d delivery) Ready() <-chan struct{} { return d.ready }

func (delivery) Deliver([]store.Post) func(context.Context) []store.Outcome { return nil }

type places struct{ zone string }

func (places) CheckPost(_ context.Context, to chat.Address, _ []string) error {
	switch {
	case to.Platform != "slack":
		return &chat.SetupError{Reason: "that platform is not switched on"}
	case to.Channel == "archived":
		return &chat.SetupError{Reason: "the channel is archived"}
	}
	return nil
}

func (p places) Context(context.Context, chat.Message, chat.ContextQuery) chat.Context {
	return chat.Context{Zone: p.zone}
}

// Link leads to a message as Slack would.
func (places) Link(at chat.Address, id string) string {
	return "https://chat.example/" + at.Channel + "/" + id
}

// bot is a service with all that it needs.
type bot struct {
	*jobs.Service
	disk  *disk
	conf  *config.Config
	zone  string // as the platform tells it
	set   string // as it is set
	shift time.Duration
	task  jobs.Task
	page  page
	mu    sync.Mutex
	log   bytes.Buffer
}

func newBot(t *testing.T) *bot {
	t.Helper()
	b := &bot{disk: &disk{items: map[string]json.RawMessage{}}, conf: &config.Config{}, zone: "Europe/Oslo"}
	b.conf.Jobs.MaxPerUser = 50
	b.task = func(context.Context, jobs.Job, time.Time) (chat.Draft, func(context.Context) error, error) {
		return chat.Draft{}, nil, errors.New("there is no agent here")
	}
	b.restart(t)
	return b
}

// now is the clock, which a test may shift.
func (b *bot) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Add(b.shift)
}

func (b *bot) jump(by time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shift += by
}

// restart makes the service anew over the same disk.
func (b *bot) restart(t *testing.T) {
	t.Helper()
	ready := make(chan struct{})
	close(ready)
	b.Service = jobs.New(jobs.Options{
		Store:    b.disk,
		Delivery: delivery{ready},
		Places:   places{b.zone},
		Task: func(ctx context.Context, j jobs.Job, due time.Time) (chat.Draft, func(context.Context) error, error) {
			return b.task(ctx, j, due)
		},
		Calls:    &b.page,
		Config:   func() *config.Config { return b.conf },
		Timezone: func(chat.Address, string) string { return b.set },
		Log:      slog.New(slog.NewTextHandler(&b.log, nil)),
		Now:      b.now,
	})
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// run runs the service until stop.
func (b *bot) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { b.Run(ctx) })
	return func() { cancel(); wg.Wait() }
}

func (b *bot) say(t *testing.T, who chat.User, command, words string) chat.Draft {
	t.Helper()
	return b.sayIn(t, general, who, command, words)
}

func (b *bot) sayIn(t *testing.T, at chat.Address, who chat.User, command, words string) chat.Draft {
	t.Helper()
	d, err := b.Handle(t.Context(), chat.Message{Conversation: at, Author: who, Command: command, Text: words})
	if err != nil {
		t.Fatal(err)
	}
	return *d
}

// The clock of a synctest bubble starts on Saturday, 1 January 2000, 00:00 UTC, which is 01:00 in Oslo.

func TestRemind_Words_SayWhenAndWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		for _, c := range []struct{ words, when, what string }{
			{"in 20 minutes call Anna", "on Sat 1 Jan 2000 01:20 CET", "call Anna"},
			{"tomorrow kl. 10.30 call Anna", "on Sun 2 Jan 2000 10:30 CET", "call Anna"},
			{"call Anna tomorrow um 14 Uhr", "on Sun 2 Jan 2000 14:00 CET", "call Anna"},
			{"tomorrow 10 Uhr call Anna", "on Sun 2 Jan 2000 10:00 CET", "call Anna"},
			{"2000-W02-3 at 14h30 call Anna", "on Wed 12 Jan 2000 14:30 CET", "call Anna"},
			{"me tomorrow at 9 to water the plants", "on Sun 2 Jan 2000 09:00 CET", "water the plants"},
			{"call the dentist on monday at 14:30", "on Mon 3 Jan 2000 14:30 CET", "call the dentist"},
			{"me to call Anna in 2 hours", "on Sat 1 Jan 2000 03:00 CET", "call Anna"},
			{"friday at 9\nText: write the report", "on Fri 7 Jan 2000 09:00 CET", "write the report"},
			{`"tomorrow at noon" 3 eggs at 5`, "on Sun 2 Jan 2000 12:00 CET", "3 eggs at 5"},
			{"tomorrow at noon: 3 eggs", "on Sun 2 Jan 2000 12:00 CET", "3 eggs"},
			{"24 December 18:00 light the candles", "on Sun 24 Dec 2000 18:00 CET", "light the candles"},
			{"every friday at 16 write the report", "every Friday at 16:00 (Europe/Oslo)", "write the report"},
			{"weekdays at 9 Tokyo time say hello", "weekdays at 9:00 (Asia/Tokyo)", "say hello"},
			{"tomorrow at 9 read the daily report", "on Sun 2 Jan 2000 09:00 CET", "read the daily report"},
		} {
			d := b.say(t, anna, "remind", c.words)
			if d.Failed || !d.Ephemeral || !strings.Contains(d.Text, c.when+" of: "+c.what+"\n") {
				t.Errorf("%q: %s", c.words, d.Text)
			}
		}
		for words, want := range map[string]string{
			"":                           "it says nothing",
			"call Anna":                  "it is not clear when",
			"tomorrow call Anna":         "does not say at what time",
			"2000-W02 at 9 call Anna":    `"2000-W02-1" is its Monday`,
			"tomorrow at 9":              "names nothing to remind you of",
			"every 5 minutes look up":    "more often than every 15 minutes",
			"next friday at 9 call Anna": "", // a Saturday: the one of the next week
			"yesterday at 9 call Anna":   "not clear when",
		} {
			if d := b.say(t, anna, "remind", words); d.Failed != (want != "") || !strings.Contains(d.Text, want) {
				t.Errorf("%q: %s", words, d.Text)
			}
		}
	})
}

func TestRemind_ZoneNotTold_SettingsDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		b.zone, b.set = "", "America/New_York"
		b.restart(t)
		if d := b.say(t, anna, "remind", "at 21:00 sleep"); !strings.Contains(d.Text, "Fri 31 Dec 1999 21:00 EST") {
			t.Error(d.Text)
		}
		b.set = ""
		if d := b.say(t, anna, "remind", "at 21:00 sleep"); !strings.Contains(d.Text, "Sat 1 Jan 2000 21:00 UTC") {
			t.Error(d.Text)
		}
	})
}

func TestReminder_IsPostedOnceAndNamesItsAuthor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		stop := b.run(t)
		defer stop()
		b.say(t, anna, "remind", "in 20 minutes *call* Bert")
		b.say(t, anna, "remind", "every day at 9 stand up")
		<-time.After(50 * time.Hour)
		synctest.Wait()
		if len(b.disk.posts) != 3 {
			t.Fatalf("%d posts, want 3", len(b.disk.posts))
		}
		first := b.disk.posts[0]
		if first.To != general || !slices.Equal(first.Draft.Notify, []string{"user:U1"}) ||
			first.Draft.Text != `⏰ \*call\* Bert` {
			t.Errorf("posted %+v", first)
		}
		if list := b.say(t, anna, "jobs", "").Text; strings.Contains(list, "call") ||
			!strings.Contains(list, "stand up, next Mon 3 Jan 09:00 CET") {
			t.Errorf("afterwards the list is %s", list)
		}
	})
}

// A reminder with a last day keeps to it, over a restart too, and is forgotten after it.
func TestReminder_UntilADay_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		b.say(t, anna, "remind", "every day at 9 until tuesday stand up")
		b.restart(t)
		stop := b.run(t)
		defer stop()
		<-time.After(24 * time.Hour)
		if list := b.say(t, anna, "jobs", "").Text; !strings.Contains(list, "until 4 January 2000") {
			t.Errorf("meanwhile the list is %s", list)
		}
		<-time.After(9 * 24 * time.Hour)
		synctest.Wait()
		if got := len(b.disk.texts()); got != 4 {
			t.Errorf("%d posts, want one on each of the 1st to the 4th", got)
		}
		if list := b.say(t, anna, "jobs", "").Text; strings.Contains(list, "stand up") {
			t.Errorf("afterwards the list is %s", list)
		}
	})
}

func TestReminder_MissedWhileAway_SaysThatItIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		b.say(t, anna, "remind", "in 20 minutes call Bert")
		b.say(t, anna, "remind", "every day at 9 stand up")
		<-time.After(49 * time.Hour) // nothing runs: 1 o'clock plus 49 hours is 2:00
		b.restart(t)
		stop := b.run(t)
		defer stop()
		synctest.Wait()
		got := b.disk.texts()
		slices.Sort(got)
		want := []string{
			"⏰ call Bert\n\n*Late: this was due on Sat 1 Jan 2000 01:20 CET.*",
			"⏰ stand up\n\n*Late: this was due on Sun 2 Jan 2000 09:00 CET.*",
		}
		if !slices.Equal(got, want) {
			t.Errorf("posted %q, want %q", got, want)
		}
		<-time.After(24 * time.Hour)
		if got := b.disk.texts(); !slices.Equal(got, []string{"⏰ stand up"}) {
			t.Errorf("a day later %q", got)
		}
	})
}

func TestJobs_AreSeenAndRemovedByWhoMadeThemAndAdministrators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		id := idIn(t, b.say(t, anna, "remind", "tomorrow at 9 call Carl").Text)
		if list := b.say(t, bert, "jobs", "").Text; strings.Contains(list, "Carl") {
			t.Errorf("Bert sees %s", list)
		}
		if d := b.say(t, bert, "jobs", "all"); !d.Failed {
			t.Errorf("Bert sees all: %s", d.Text)
		}
		for _, words := range []string{"remove " + id, "edit " + id + " text no"} {
			if d := b.say(t, bert, "jobs", words); !d.Failed || !strings.Contains(d.Text, "You have no such job") {
				t.Errorf("Bert says %s: %s", words, d.Text)
			}
		}
		if d := b.sayIn(t, other, root, "jobs", "remove "+id); !d.Failed {
			t.Errorf("an administrator elsewhere: %s", d.Text)
		}
		if list := b.say(t, root, "jobs", "all").Text; !strings.Contains(list, "call Carl, made by Anna") {
			t.Errorf("an administrator sees %s", list)
		}
		if list := b.sayIn(t, other, anna, "jobs", "").Text; !strings.Contains(list, "call Carl, elsewhere") {
			t.Errorf("Anna sees elsewhere %s", list)
		}
		if d := b.say(t, anna, "jobs", "edit "+id+" when tomorrow at 10"); d.Failed ||
			!strings.Contains(d.Text, "Sun 2 Jan 2000 10:00 CET") {
			t.Errorf("moved: %s", d.Text)
		}
		b.say(t, anna, "jobs", "edit "+id+" text call Dora")
		stop := b.run(t)
		<-time.After(34 * time.Hour)
		if got := b.disk.texts(); !slices.Equal(got, []string{"⏰ call Dora"}) {
			t.Errorf("posted %q", got)
		}
		stop()
		id = idIn(t, b.say(t, anna, "remind", "tomorrow at 9 call Carl").Text)
		if d := b.say(t, root, "jobs", "remove "+id); d.Failed {
			t.Errorf("an administrator removes: %s", d.Text)
		}
		if d := b.say(t, anna, "jobs", "remove "+id); !d.Failed {
			t.Errorf("removed twice: %s", d.Text)
		}
	})
}

// idIn returns the id of a job from what its author was told.
func idIn(t *testing.T, words string) string {
	t.Helper()
	_, rest, ok := strings.Cut(words, "/raven jobs remove ")
	id, _, more := strings.Cut(rest, "`")
	if !ok || !more {
		t.Fatalf("no id in %q", words)
	}
	return id
}

func TestRemind_TooMany_IsRefusedInWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		b.conf.Jobs.MaxPerUser = 2
		for _, c := range []struct {
			who  chat.User
			want string
		}{{anna, ""}, {anna, ""}, {anna, "you have 2 reminders and jobs already"}, {bert, ""}} {
			if d := b.say(t, c.who, "remind", "tomorrow at 9 call Carl"); d.Failed != (c.want != "") ||
				!strings.Contains(d.Text, c.want) {
				t.Errorf("%s is told %s", c.who.Name, d.Text)
			}
		}
	})
}

func TestQuietHours_HoldRepeatingJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		b.conf.Jobs.QuietHours = "22:00-07:00"
		b.say(t, anna, "remind", "every day at 6 run")
		b.say(t, anna, "remind", "at 5am get up")
		stop := b.run(t)
		defer stop()
		<-time.After(5*time.Hour + 30*time.Minute) // 6:30
		if got := b.disk.texts(); !slices.Equal(got, []string{"⏰ get up"}) {
			t.Errorf("before 7: %q", got)
		}
		<-time.After(35 * time.Minute)
		if got := b.disk.texts(); !slices.Equal(got, []string{"⏰ run"}) {
			t.Errorf("after 7: %q", got)
		}
	})
}

// However many repeating jobs wait for the end of quiet hours, a reminder at a time that somebody named comes then.
func TestQuietHours_ManyHeldJobs_ReminderComesAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		b.conf.Jobs.QuietHours = "22:00-07:00"
		const many = 300 // more than the loop carries out at once
		for range many {
			if _, err := b.Add(t.Context(), jobs.Job{Schedule: "0 4 * * *", Timezone: "Europe/Oslo", Text: "water",
				Post: []string{general.String()}, Source: jobs.FromAPI}); err != nil {
				t.Fatal(err)
			}
		}
		b.say(t, anna, "remind", "at 5am get up")
		stop := b.run(t)
		defer stop()
		<-time.After(5*time.Hour + 30*time.Minute) // 6:30
		if got := b.disk.texts(); !slices.Equal(got, []string{"⏰ get up"}) {
			t.Errorf("before 7: %q", got)
		}
		<-time.After(35 * time.Minute)
		got := b.disk.texts()
		if slices.Sort(got); len(got) != many || got[0] != "water" || got[many-1] != "water" {
			t.Errorf("after 7: %d posts, %q to %q; want %d, none of which says that it is late", len(got), got[0],
				got[len(got)-1], many)
		}
	})
}

// Quiet hours end when the clock shows it, also in the night in which clocks are set back.
func TestQuietHours_ClocksSetBack_EndByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		b.conf.Jobs.QuietHours = "22:00-07:00"
		// In Oslo clocks are set back on 29 October 2000 at 3:00.
		b.jump(time.Until(time.Date(2000, 10, 28, 12, 0, 0, 0, time.UTC)))
		b.say(t, anna, "remind", "every day at 23 run")
		stop := b.run(t)
		defer stop()
		<-time.After(17*time.Hour + 30*time.Minute) // 6:30
		if got := b.disk.texts(); len(got) != 0 {
			t.Errorf("before 7: %q", got)
		}
		<-time.After(35 * time.Minute)
		if got := b.disk.texts(); !slices.Equal(got, []string{"⏰ run"}) {
			t.Errorf("after 7: %q", got)
		}
	})
}

func TestTool_RemindsTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		call := func(c tool.Caller, args string) tool.Result {
			r, err := b.Tool().Call(tool.WithCaller(t.Context(), c), json.RawMessage(args))
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if spec := b.Tool().Spec(); spec.Hints.Class() != "write" || spec.As != "remind" {
			t.Errorf("the tool is %+v", spec)
		}
		in := tool.Caller{Conversation: general, User: anna}
		if r := call(in, `{"when":"tomorrow at 9","text":"call Carl"}`); r.IsError ||
			!strings.Contains(fmt.Sprint(r), "Sun 2 Jan 2000 09:00 CET") {
			t.Errorf("answered %+v", r)
		}
		for _, args := range []string{`{"when":"soon","text":"x"}`, `{"when":"tomorrow at 9","text":""}`, `[]`} {
			if r := call(in, args); !r.IsError {
				t.Errorf("%s is answered %+v", args, r)
			}
		}
		if r := call(tool.Caller{}, `{"when":"tomorrow at 9","text":"call Carl"}`); !r.IsError {
			t.Errorf("nobody is reminded: %+v", r)
		}
		if list := b.say(t, anna, "jobs", "").Text; strings.Count(list, "call Carl") != 1 {
			t.Errorf("the list is %s", list)
		}
	})
}

func TestAddRequest_ChecksWhatIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		post := []string{general.String()}
		for _, c := range []struct {
			r    jobs.Request
			want string
		}{
			{jobs.Request{At: "2000-01-02T09:00:00Z", Post: post, Text: "hello"}, ""},
			{jobs.Request{At: "tomorrow at noon", Timezone: "Europe/Oslo", Post: post, Text: "hello"}, ""},
			{jobs.Request{Schedule: "every minute", Post: post, Prompt: "look", Tools: []string{"web_fetch"}}, ""},
			{jobs.Request{At: "1999-01-02T09:00:00Z", Post: post, Text: "hello"}, "is past"},
			{jobs.Request{Post: post, Text: "hello"}, "either at"},
			{jobs.Request{At: "in 1h", Schedule: "daily at 9", Post: post, Text: "hello"}, "either at"},
			{jobs.Request{At: "in 1h", Post: post}, "either text"},
			{jobs.Request{At: "in 1h", Post: post, Text: "a", Prompt: "b"}, "either text"},
			{jobs.Request{At: "in 1h", Text: "hello"}, "want 1 to 20"},
			{jobs.Request{At: "in 1h", Post: []string{"irc:a/b"}, Text: "hello"}, "not switched on"},
			{jobs.Request{At: "in 1h", Post: []string{"nowhere"}, Text: "hello"}, "parse address"},
			{jobs.Request{At: "in 1h", Post: post, Text: "hello", Tools: []string{"x"}}, "tools go with a prompt or a watch"},
			{jobs.Request{At: "in 1h", Post: post, Text: strings.Repeat("x", 5000)}, "are taken"},
			{jobs.Request{Schedule: "30 9 30 2 *", Post: post, Text: "hello"}, "never due"},
			{jobs.Request{Schedule: "sometimes", Post: post, Text: "hello"}, "not understood"},
			{jobs.Request{Schedule: "daily at 9", Timezone: "Mars/Olympus", Post: post, Text: "hello"}, "unknown time zone"},
		} {
			_, err := b.AddRequest(t.Context(), c.r)
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: error %v, want %q", c.r, err, c.want)
			}
		}
		list, err := b.List(t.Context())
		if err != nil || len(list) != 3 || list[0].Prompt != "look" ||
			list[1].Next.Format(time.RFC3339) != "2000-01-02T09:00:00Z" {
			t.Errorf("the list is %+v (%v)", list, err)
		}
	})
}

// remind returns the message of a command of Anna's.
func remind(words string) chat.Message {
	return chat.Message{Conversation: general, Author: anna, Command: "remind", Text: words}
}

// A job that another process changes while it is carried out is carried out as it is then, and stays known.
func TestJob_ChangedElsewhereAtItsTime_IsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		id := idIn(t, b.say(t, anna, "remind", "every day at 9 stand up").Text)
		changed := false
		b.disk.onSwap = func(after bool) error {
			if after || changed {
				return nil
			}
			changed = true
			b.disk.mu.Lock()
			key := "job/" + id
			raw := bytes.Replace(b.disk.items[key], []byte("stand up"), []byte("sit down"), 1)
			if bytes.Equal(raw, b.disk.items[key]) {
				t.Errorf("no job to change among %v", b.disk.items)
			}
			b.disk.items[key] = raw
			b.disk.mu.Unlock()
			return nil
		}
		stop := b.run(t)
		defer stop()
		<-time.After(50 * time.Hour)
		synctest.Wait()
		if got := b.disk.texts(); len(got) != 2 || got[1] != "⏰ sit down" {
			t.Errorf("on two days posted %q, want the second as it was changed", got)
		}
	})
}

// What is held in quiet hours is carried out as it is when they end: changed words count, and what was removed is not
// begun, for a task would use its tools.
func TestQuietHours_JobChangedOrRemovedMeanwhile_IsNotCarriedOutAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		b.conf.Jobs.QuietHours = "22:00-07:00"
		tasks := 0
		b.task = func(context.Context, jobs.Job, time.Time) (chat.Draft, func(context.Context) error, error) {
			tasks++
			return chat.Draft{Text: "done"}, nil, nil
		}
		reminder := idIn(t, b.say(t, anna, "remind", "every day at 6 run").Text)
		moved := idIn(t, b.say(t, anna, "remind", "every day at 6 swim").Text)
		task, err := b.Add(t.Context(), jobs.Job{Schedule: "0 5 * * *", Timezone: "Europe/Oslo", Prompt: "tidy up",
			Post: []string{general.String()}, Source: jobs.FromAPI})
		if err != nil {
			t.Fatal(err)
		}
		stop := b.run(t)
		defer stop()
		<-time.After(5*time.Hour + 30*time.Minute) // 6:30
		b.say(t, anna, "jobs", "edit "+reminder+" text walk")
		b.say(t, anna, "jobs", "edit "+moved+" when every day at 20")
		if err := b.Remove(t.Context(), task.ID); err != nil {
			t.Fatal(err)
		}
		<-time.After(35 * time.Minute)
		if got := b.disk.texts(); !slices.Equal(got, []string{"⏰ walk"}) || tasks != 0 {
			t.Errorf("posted %q after %d tasks, want the changed reminder alone", got, tasks)
		}
	})
}

func TestLoad_DeliveryThatCannotBeRead_IsSkipped(t *testing.T) {
	b := newBot(t)
	id := idIn(t, b.say(t, anna, "remind", "tomorrow at 9 call Carl").Text)
	b.disk.items["hook delivery/broken"] = json.RawMessage(`{"at": 7}`)
	b.restart(t)
	if list := b.say(t, anna, "jobs", "").Text; !strings.Contains(list, id) {
		t.Errorf("the jobs are %s", list)
	}
}

// What an earlier version understood must not vanish when a newer one refuses it.
func TestLoad_ScheduleThatIsNoLongerUnderstood_IsShownAndCanBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		id := idIn(t, b.say(t, anna, "remind", "every day at 9 call Carl").Text)
		b.disk.items["job/"+id] = bytes.Replace(b.disk.items["job/"+id], []byte("every day at 9"), []byte("daily at 9 and 5pm"), 1)
		b.restart(t)
		if list := b.say(t, anna, "jobs", "").Text; !strings.Contains(list, id) || !strings.Contains(list, "never due") ||
			!strings.Contains(list, "may be 9:00 in the morning or 21:00") {
			t.Errorf("the jobs are %s", list)
		}
		stop := b.run(t)
		defer stop()
		<-time.After(48 * time.Hour)
		if got := b.disk.texts(); len(got) > 0 {
			t.Errorf("posted %q", got)
		}
		b.say(t, anna, "jobs", "edit "+id+" when every day at 10")
		<-time.After(24 * time.Hour)
		if got := b.disk.texts(); len(got) != 1 {
			t.Errorf("after the change posted %q", got)
		}
	})
}

func TestRemind_PlaceUnreachable_IsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBot(t)
		old := chat.Address{Platform: "slack", Workspace: "T1", Channel: "archived"}
		for command, words := range map[string]string{"remind": "in 1 minute call Anna", "jobs": "watch https://a.example new"} {
			d := b.sayIn(t, old, anna, command, words)
			if !d.Failed || !strings.Contains(d.Text, "I cannot post here: the channel is archived") {
				t.Errorf("%s: %s", command, d.Text)
			}
		}
		b.say(t, anna, "remind", "in 1 minute call Anna")
		stop := b.run(t)
		time.Sleep(2 * time.Minute)
		stop()
		if len(b.disk.posts) != 1 || b.disk.posts[0].Draft.Owner != anna.ID {
			t.Errorf("posted %+v, want a post that Anna owns", b.disk.posts)
		}
	})
}
