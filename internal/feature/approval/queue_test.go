package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature"
	"ravenbot/internal/feature/approval"
	"ravenbot/internal/store"
)

var (
	here = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}
	anna = chat.User{ID: "U1", Name: "anna"}
	bert = chat.User{ID: "U2", Name: "bert"}
	boss = chat.User{ID: "U9", Name: "boss", Admin: true}
)

// desk keeps approvals and posts.
type desk struct {
	mu    sync.Mutex
	kept  map[string]store.Approval
	posts []chat.Draft
	over  []string
	items map[string]json.RawMessage
}

func (d *desk) SaveItem(_ context.Context, _, name string, item json.RawMessage, _ bool) error {
	d.items[name] = item
	return nil
}

func (d *desk) Items(context.Context, string) (map[string]json.RawMessage, error) {
	return d.items, nil
}

func (d *desk) DeleteItem(_ context.Context, _, name string) error {
	if d.items[name] == nil {
		return store.ErrNotFound
	}
	delete(d.items, name)
	return nil
}

func (*desk) Item(context.Context, string, string) (json.RawMessage, error) {
	return nil, errors.ErrUnsupported
}

func (*desk) SwapItem(context.Context, string, string, json.RawMessage, json.RawMessage, []store.Post) (bool, error) {
	return false, errors.ErrUnsupported
}

func (d *desk) SaveApproval(_ context.Context, a store.Approval) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept[a.Turn+a.Call] = a
	return nil
}

func (d *desk) DecideApproval(_ context.Context, a store.Approval) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := d.kept[a.Turn+a.Call]
	if kept.ID != a.ID || kept.Decision != "" {
		return false, nil
	}
	d.kept[a.Turn+a.Call] = a
	return true, nil
}

func (d *desk) Approvals(_ context.Context, since time.Time) ([]store.Approval, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []store.Approval
	for _, a := range d.kept {
		if !a.At.Before(since) {
			list = append(list, a)
		}
	}
	return list, nil
}

func (d *desk) post(_ context.Context, _ chat.Address, p chat.Draft, replaces string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.posts, d.over = append(d.posts, p), append(d.over, replaces)
	return nil
}

func (d *desk) last() chat.Draft {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.posts[len(d.posts)-1]
}

func (d *desk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.posts)
}

func (d *desk) book(t *testing.T) *approval.Queue {
	t.Helper()
	g, err := approval.LoadGrants(t.Context(), d, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	b := approval.New(approval.Options{Store: d, Grants: g, Post: d.post,
		Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func newDesk() *desk {
	return &desk{kept: map[string]store.Approval{}, items: map[string]json.RawMessage{}}
}

func intent(turn string, asker chat.User, args string) tool.Intent {
	return tool.Intent{Args: json.RawMessage(args), Tool: tool.Named{Name: "s_do",
		Tool: tool.Func{Described: tool.Spec{Server: "s", Name: "do"}}},
		Caller: tool.Caller{Conversation: here, User: asker, Turn: turn, Call: "c1"}}
}

type answer struct {
	ok    bool
	words string
	err   error
}

// ask asks in the background.
func ask(ctx context.Context, b *approval.Queue, in tool.Intent) <-chan answer {
	got := make(chan answer, 1)
	go func() {
		ok, words, err := b.Ask(ctx, in, tool.Verdict{Reason: "the rules want it"})
		got <- answer{ok, words, err}
	}()
	synctest.Wait()
	return got
}

func says(b *approval.Queue, by chat.User, text string) (chat.Draft, bool) {
	return handled(context.Background(), b, chat.Message{Conversation: here, Author: by, Text: text,
		Reach: chat.Addressed})
}

func TestOnlyTheAskerOrAnAdministratorDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		b := d.book(t)
		got := ask(t.Context(), b, intent("1", anna, `{"x":"a\u202eb`+"```"+`"}`))
		asked := d.last()
		if !strings.Contains(asked.Text, "````json") || !strings.Contains(asked.Text, `\u202e`) ||
			!strings.Contains(asked.Text, "anna") || len(asked.Buttons) != 2 {
			t.Errorf("asked %+v", asked)
		}
		if _, ok := says(b, bert, "approve"); ok {
			t.Error("somebody else's word was taken for a decision")
		}
		press := chat.Message{Conversation: here, Author: bert, Command: chat.Pressed, Text: asked.Buttons[0].Value}
		if r, ok := handled(t.Context(), b, press); !ok || !r.Failed || !strings.Contains(r.Text, "Only those whom the question names") {
			t.Errorf("somebody else's press was answered %+v", r)
		}
		if other, ok := says(b, chat.User{ID: anna.ID}, "yes please"); ok {
			t.Errorf("other words were taken for a decision: %+v", other)
		}
		if r, ok := says(b, anna, "Approve!"); !ok || r.Failed {
			t.Errorf("the asker's word was answered %+v, %t", r, ok)
		}
		if a := <-got; !a.ok || a.words != "approved by anna" {
			t.Errorf("the answer is %+v", a)
		}
		if p := d.last(); d.over[len(d.over)-1] != asked.Key || !strings.HasPrefix(p.Text, "**Approved** by anna") ||
			len(p.Buttons) != 0 {
			t.Errorf("the question became %+v", p)
		}
		press.Author = boss
		if r, _ := handled(t.Context(), b, press); !r.Failed || !strings.Contains(r.Text, "decided before") {
			t.Errorf("a second decision was answered %+v", r)
		}
		several := ask(t.Context(), b, intent("2", chat.User{}, `{}`))
		id := b.Open()[0].ID
		if _, err := b.Decide(t.Context(), id, approval.Once, chat.User{}, here); !errors.Is(err, approval.ErrOthers) {
			t.Errorf("nobody's decision: %v", err)
		}
		if _, err := b.Decide(t.Context(), id, approval.Denied, boss, here); err != nil {
			t.Error(err)
		}
		if a := <-several; a.ok || a.words != "denied by boss" {
			t.Errorf("the answer is %+v", a)
		}
	})
}

func TestSilenceIsANo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		b := d.book(t)
		began := time.Now()
		got := ask(t.Context(), b, intent("1", anna, `{}`))
		if a := <-got; a.ok || !strings.Contains(a.words, "within 15 minutes") || time.Since(began) != approval.Wait {
			t.Errorf("after %v the answer is %+v", time.Since(began), a)
		}
		synctest.Wait()
		if p := d.last(); !strings.Contains(p.Text, "nobody decided in time") {
			t.Errorf("the question became %q", p.Text)
		}
	})
}

func TestAQuestionOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		first := d.book(t)
		ctx, kill := context.WithCancel(t.Context())
		got := ask(ctx, first, intent("1", anna, `{}`))
		kill()
		if a := <-got; a.err == nil {
			t.Errorf("at the end the answer is %+v", a)
		}
		second := d.book(t)
		if !second.Fresh("1", "c1") || second.Fresh("1", "c2") {
			t.Error("it is not known that the call was never let go")
		}
		got = ask(t.Context(), second, intent("1", anna, `{}`))
		if len(d.posts) != 1 {
			t.Errorf("asked %d times", len(d.posts))
		}
		if r, ok := says(second, anna, "deny"); !ok || r.Failed {
			t.Errorf("answered %+v", r)
		}
		if a := <-got; a.ok || a.words != "denied by anna" {
			t.Errorf("the answer is %+v", a)
		}
		got = ask(t.Context(), second, intent("2", anna, `{}`))
		says(second, anna, "approve")
		<-got
		if err := second.Begin(t.Context(), intent("2", anna, `{}`)); err != nil {
			t.Fatal(err)
		}
		if d.book(t).Fresh("2", "c1") {
			t.Error("a call that was let go counts as one that was not")
		}
	})
}

func TestStopIsANoAndAnOldQuestionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		b := d.book(t)
		ctx, stop := context.WithCancelCause(t.Context())
		got := ask(ctx, b, intent("1", anna, `{}`))
		stop(chat.ErrStopped)
		<-got
		synctest.Wait()
		if p := d.last(); !strings.Contains(p.Text, "Denied") {
			t.Errorf("the question became %q", p.Text)
		}
		killed, kill := context.WithCancel(t.Context())
		got = ask(killed, b, intent("2", anna, `{}`))
		kill()
		<-got
		ctx2, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); b.Run(ctx2) }()
		time.Sleep(approval.Wait + time.Minute) // in the bubble's time
		if len(b.Open()) != 0 || !strings.Contains(d.last().Text, "nobody decided in time") {
			t.Errorf("still open: %+v", b.Open())
		}
		end()
		<-ended
	})
}

func TestAChangedQuestionIsANo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		b := d.book(t)
		revised := make(chan struct{})
		in := intent("1", anna, `{}`)
		in.Caller.Revised = revised
		got := ask(t.Context(), b, in)
		close(revised)
		if a := <-got; a.ok || a.err != nil || !strings.Contains(a.words, "changed the question") {
			t.Errorf("the answer is %+v", a)
		}
		synctest.Wait()
		if p := d.last(); !strings.Contains(p.Text, "Denied") {
			t.Errorf("the question became %q", p.Text)
		}
	})
}

// One person cannot use up what a channel has, and a channel not what others have.
func TestAsk_TooManyOpenQuestions_AreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		b := d.book(t)
		ctx, end := context.WithCancel(t.Context())
		var waiting []<-chan answer
		turn := 0
		open := func(by chat.User, at chat.Address) <-chan answer {
			turn++
			in := intent(fmt.Sprint("t", turn), by, `{}`)
			in.Caller.Conversation = at
			got := ask(ctx, b, in)
			waiting = append(waiting, got)
			return got
		}
		refused := func(what string, got <-chan answer, want string) {
			t.Helper()
			select {
			case a := <-got:
				if want == "" || a.ok || !strings.Contains(a.words, want) {
					t.Errorf("%s: %+v, want %q", what, a, want)
				}
			default:
				if want != "" {
					t.Errorf("%s: it waits", what)
				}
			}
		}
		for range 8 {
			refused("below the limit of a person", open(anna, here), "")
		}
		refused("one more of a person", open(anna, here), "8 questions of the same person")
		if r, _ := says(b, anna, "approve"); !r.Failed || !strings.Contains(r.Text, "Several calls wait") {
			t.Errorf("a word for eight questions was answered %+v", r)
		}
		for n := range 32 {
			refused("of others", open(chat.User{ID: fmt.Sprint("M", n/8)}, here), "")
		}
		refused("one more in a channel", open(bert, here), "40 questions wait for an approval in this channel")
		refused("elsewhere", open(bert, chat.Address{Platform: "slack", Workspace: "T1", Channel: "C2"}), "")
		end()
		synctest.Wait()
	})
}

// calls returns calls that a model makes at once.
func calls(args ...string) []tool.Intent {
	var undecided sync.WaitGroup
	undecided.Add(len(args))
	var list []tool.Intent
	for n, a := range args {
		in := intent("1", anna, a)
		in.Caller.Call = fmt.Sprint("c", n)
		in.Caller.Decided, in.Caller.AllDecided = sync.OnceFunc(undecided.Done), undecided.Wait
		list = append(list, in)
	}
	return list
}

// Calls that a model makes at once are one question with a list; one press decides all, a word with an ID one of them.
func TestAsk_CallsMadeAtOnce_AreOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		b := d.book(t)
		list := calls(`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`)
		var got []<-chan answer
		for _, in := range list[:3] {
			got = append(got, ask(t.Context(), b, in))
		}
		if d.count() != 0 {
			t.Fatalf("asked before the last call was decided: %+v", d.posts)
		}
		list[3].Caller.Decided() // it needs no question
		synctest.Wait()
		asked := d.last()
		if d.count() != 1 || !strings.Contains(asked.Text, "May I run these 3 calls?") || len(asked.Buttons) != 2 {
			t.Fatalf("%d posts, the last %+v", d.count(), asked)
		}
		for _, in := range list[:3] {
			if !strings.Contains(asked.Text, strings.Trim(string(in.Args), "{}")[4:]) {
				t.Errorf("%s is not shown in %q", in.Args, asked.Text)
			}
		}
		if r, ok := says(b, anna, "deny "+b.Open()[0].ID); !ok || r.Failed {
			t.Errorf("a word for one of them was answered %+v", r)
		}
		if now := d.last(); !strings.Contains(now.Text, "May I run these 2 calls?") || !strings.Contains(now.Text, "**Denied** by anna") ||
			d.over[1] != asked.Key {
			t.Errorf("after one decision: %+v", now)
		}
		press := chat.Message{Conversation: here, Author: anna, Command: chat.Pressed, Text: asked.Buttons[0].Value}
		if r, ok := handled(t.Context(), b, press); !ok || r.Failed {
			t.Errorf("the press was answered %+v", r)
		}
		yes := 0
		for _, g := range got {
			if a := <-g; a.ok {
				yes++
			}
		}
		if yes != 2 || len(d.last().Buttons) != 0 {
			t.Errorf("%d calls were approved, want 2; the question became %+v", yes, d.last())
		}
		if r, _ := handled(t.Context(), b, press); !r.Failed || !strings.Contains(r.Text, "decided before") {
			t.Errorf("a second press was answered %+v", r)
		}
	})
}

// Calls whose arguments are too long to be shown together are asked about one by one.
func TestAsk_CallsMadeAtOnce_ThatAreTooLongTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		b := d.book(t)
		long := func(c string) string { return `{"x":"` + strings.Repeat(c, 7<<10) + `"}` }
		var got []<-chan answer
		for _, in := range calls(long("a"), long("b")) {
			got = append(got, ask(t.Context(), b, in))
		}
		if d.count() != 2 || len(b.Open()) != 2 || !strings.Contains(d.last().Text, "May I run `s_do`?") {
			t.Errorf("%d posts, the last %.100q", d.count(), d.last().Text)
		}
		for _, g := range got {
			<-g
		}
	})
}

// A call whose arguments cannot be shown whole is not approved in the chat.
func TestAsk_ArgumentsThatAreTooLong_AreDecidedOnThePageOrRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, page := range []string{"", "https://bot.example/calls"} {
			d := newDesk()
			b := approval.New(approval.Options{Store: d, Post: d.post, Page: page, Log: slog.New(slog.DiscardHandler), Now: time.Now})
			got := ask(t.Context(), b, intent("1", anna, `{"x":"`+strings.Repeat("a", 13<<10)+`"}`))
			if page == "" {
				if a := <-got; a.ok || !strings.Contains(a.words, "cannot be shown") || d.count() != 0 {
					t.Errorf("without a page: %+v, %d posts", a, d.count())
				}
				continue
			}
			asked := d.last()
			if len(asked.Buttons) != 1 || !strings.Contains(asked.Text, page) || len(asked.Files) != 0 {
				t.Errorf("asked %+v", asked)
			}
			if r, _ := says(b, anna, "approve"); !r.Failed || !strings.Contains(r.Text, "on the page Calls") {
				t.Errorf("a word in the chat was answered %+v", r)
			}
			if _, err := b.Decide(t.Context(), b.Open()[0].ID, approval.Once, chat.User{ID: "admin", Operator: true}, chat.Address{}); err != nil {
				t.Error(err)
			}
			if a := <-got; !a.ok {
				t.Errorf("the answer is %+v", a)
			}
		}
		// All of what can be shown is in the text, and not in a file that may be refused.
		d := newDesk()
		got := ask(t.Context(), d.book(t), intent("2", anna, `{"x":"`+strings.Repeat("a", 10<<10)+`"}`))
		if asked := d.last(); len(asked.Files) != 0 || !strings.Contains(asked.Text, strings.Repeat("a", 10<<10)) {
			t.Errorf("asked %.200s", asked.Text)
		}
		<-got
	})
}

// An administrator decides in the workspace that he is one of.
func TestDecide_ByAnAdministratorOfAnotherWorkspace_IsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newDesk().book(t)
		got := ask(t.Context(), b, intent("1", anna, `{}`))
		id := b.Open()[0].ID
		for _, at := range []chat.Address{
			{Platform: "discord", Workspace: "5", Channel: "6"}, {Platform: "slack", Workspace: "T2", Channel: "C1"},
		} {
			if _, err := b.Decide(t.Context(), id, approval.Once, boss, at); !errors.Is(err, approval.ErrOthers) {
				t.Errorf("at %s: %v", at, err)
			}
		}
		if _, err := b.Decide(t.Context(), id, approval.Once, boss, here); err != nil {
			t.Error(err)
		}
		<-got
	})
}

// handled returns what a feature answers to a message; false: the message is not for it.
func handled(ctx context.Context, f feature.Feature, m chat.Message) (chat.Draft, bool) {
	d, err := f.Handle(ctx, m)
	if d == nil || err != nil {
		return chat.Draft{}, false
	}
	return *d, true
}

// A call waits in the process that makes it. The decision may reach another one that shares the store.
func TestDecision_InAnotherProcess_LetsTheCallGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		asking, other := d.book(t), d.book(t)
		got := ask(t.Context(), asking, intent("1", anna, `{}`))
		reload := func(b *approval.Queue) {
			t.Helper()
			if err := b.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		reload(other)
		id := asking.Open()[0].ID
		if _, err := other.Decide(t.Context(), id, approval.Once, anna, here); err != nil {
			t.Fatal(err)
		}
		// Who has not read it yet does not decide it again.
		if a, err := asking.Decide(t.Context(), id, approval.Denied, boss, here); !errors.Is(err, approval.ErrDecided) ||
			a.Decision != store.Approved {
			t.Errorf("a second decision: %v, %+v", err, a)
		}
		if a := <-got; !a.ok || a.words != "approved by anna" {
			t.Errorf("the call got %+v", a)
		}
		if len(d.posts) != 2 || d.over[1] == "" {
			t.Errorf("posts %+v, want the question, and one in its place", d.posts)
		}
		got = ask(t.Context(), asking, intent("2", anna, `{}`))
		reload(other)
		if _, err := other.Decide(t.Context(), other.Open()[0].ID, approval.Denied, anna, here); err != nil {
			t.Fatal(err)
		}
		reload(asking)
		if a := <-got; a.ok || a.words != "denied by anna" {
			t.Errorf("the call got %+v", a)
		}
		reload(asking)
	})
}

// A question ends where the call waits. One whose process is gone ends elsewhere, a little later.
func TestExpiry_IsLeftToTheProcessThatAsks(t *testing.T) {
	for _, asksOn := range []bool{true, false} {
		t.Run(fmt.Sprintf("asks on %v, the other runs", asksOn), func(t *testing.T) {
			leaveExpiry(t, asksOn, func(_ *desk, other *approval.Queue) *approval.Queue { return other })
		})
		t.Run(fmt.Sprintf("asks on %v, the other starts", asksOn), func(t *testing.T) {
			leaveExpiry(t, asksOn, func(d *desk, _ *approval.Queue) *approval.Queue { return d.book(t) })
		})
	}
}

// leaveExpiry has a question end in the process that asked it, or, where that is gone, in the one that choose returns.
func leaveExpiry(t *testing.T, asksOn bool, choose func(d *desk, other *approval.Queue) *approval.Queue) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		asking, other := d.book(t), d.book(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if got := ask(ctx, asking, intent("1", anna, `{}`)); !asksOn {
			cancel()
			<-got
		}
		if err := other.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		other = choose(d, other)
		running, stop := context.WithCancel(t.Context())
		go other.Run(running)
		time.Sleep(approval.Wait + 30*time.Second)
		synctest.Wait()
		if posts := d.count(); asksOn != (posts == 2) {
			t.Errorf("asks on %v: %d posts at the end of the time", asksOn, posts)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if posts := d.count(); posts != 2 {
			t.Errorf("asks on %v: %d posts afterwards, want the question and its end", asksOn, posts)
		}
		stop()
		synctest.Wait()
	})
}

func TestGrants_OfAnotherProcessCount(t *testing.T) {
	d := newDesk()
	load := func() *approval.Grants {
		g, err := approval.LoadGrants(t.Context(), d, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	here, there := load(), load()
	d.items["g1"] = json.RawMessage(`{"id":"g1","tool":"s_do","server":"s","scope":"always"}`)
	if err := here.Reload(t.Context()); err != nil || len(here.List()) != 1 {
		t.Fatalf("%v, %v", here.List(), err)
	}
	if err := here.Revoke(t.Context(), "g1"); err != nil {
		t.Fatal(err)
	}
	if err := there.Reload(t.Context()); err != nil || len(there.List()) != 0 {
		t.Errorf("%v, %v", there.List(), err)
	}
}
