package approval_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/approval"
	"ravenbot/internal/chat"
	"ravenbot/internal/tool"
)

// askGrantable asks about a call that may be approved for more than once, and returns the ID of the question.
func askGrantable(t *testing.T, b *approval.Queue, in tool.Intent) string {
	t.Helper()
	go func() {
		_, _, _ = b.Ask(context.WithoutCancel(t.Context()), in, tool.Verdict{Reason: "it writes", Grantable: true})
	}()
	synctest.Wait()
	open := b.Open()
	return open[len(open)-1].ID
}

func TestApprove_WiderScopes_AllowMoreCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		b := d.book(t)
		first := intent("1", anna, `{"x":1}`)
		id := askGrantable(t, b, first)
		if buttons := d.last().Buttons; len(buttons) != 4 || buttons[1].Label != "In this conversation" ||
			buttons[2].Label != "Always here" {
			t.Errorf("the buttons are %+v", buttons)
		}
		if _, err := b.Approve(t.Context(), id, approval.Always, anna, "slack"); !errors.Is(err, approval.ErrAlways) {
			t.Errorf("always, by a member: %v", err)
		}
		if _, err := b.Approve(t.Context(), id, approval.InConversation, anna, "slack"); err != nil {
			t.Fatal(err)
		}
		if r := mustHandle(t, b, anna, "approve-conversation "+id); !r.Failed {
			t.Errorf("a second decision was answered %+v", r)
		}
		loaded, err := approval.LoadGrants(t.Context(), d, time.Now) // as after a restart
		if err != nil {
			t.Fatal(err)
		}
		thread := intent("5", anna, `{}`)
		thread.Caller.Conversation.Thread = "7"
		other := intent("6", anna, `{}`)
		other.Tool.Name = "s_other"
		for what, c := range map[string]struct {
			in   tool.Intent
			want bool
		}{
			"other arguments":          {intent("2", anna, `{"x":2}`), true},
			"another person":           {intent("3", bert, `{"x":1}`), false},
			"several people at once":   {intent("4", chat.User{}, `{}`), false},
			"another conversation":     {thread, false},
			"another tool":             {other, false},
			"the same after a restart": {first, true},
		} {
			if got := loaded.Allow(c.in); got != c.want {
				t.Errorf("%s: allowed %v, want %v", what, got, c.want)
			}
		}
		time.Sleep(25 * time.Hour)
		if loaded.Allow(first) || len(loaded.List()) != 0 {
			t.Error("it counts for more than a day")
		}
		always := askGrantable(t, b, intent("8", anna, `{}`))
		if _, err := b.Approve(t.Context(), always, approval.Always, boss, "slack"); err != nil {
			t.Fatal(err)
		}
		loaded, err = approval.LoadGrants(t.Context(), d, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if !loaded.Allow(thread) || !loaded.Allow(intent("9", bert, `{}`)) {
			t.Error("an approval for always is not for the whole channel")
		}
	})
}

func TestApprove_CallThatMayBeApprovedOnceAlone_TakesNoWiderScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newDesk().book(t)
		got := ask(t.Context(), b, intent("1", anna, `{}`))
		id := b.Open()[0].ID
		if _, err := b.Approve(t.Context(), id, approval.InConversation, boss, "slack"); !errors.Is(err, approval.ErrScope) {
			t.Errorf("a wider scope: %v", err)
		}
		if _, err := b.Approve(t.Context(), id, approval.Once, anna, "slack"); err != nil {
			t.Error(err)
		}
		if a := <-got; !a.ok {
			t.Errorf("the answer is %+v", a)
		}
	})
}

func mustHandle(t *testing.T, b *approval.Queue, by chat.User, text string) chat.Draft {
	t.Helper()
	d, ok := says(b, by, text)
	if !ok {
		t.Fatalf("%q is not for the queue", text)
	}
	return d
}

func TestCommand_ListsAndRevokesGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		b := d.book(t)
		say := func(by chat.User, text string) string {
			r, err := b.Handle(t.Context(), chat.Message{Conversation: here, Author: by, Command: "approvals", Text: text})
			if err != nil || r == nil {
				t.Fatalf("%q: %v", text, err)
			}
			return r.Text
		}
		if got := say(bert, ""); !strings.Contains(got, "No tool") {
			t.Errorf("without any: %q", got)
		}
		if _, err := b.Approve(t.Context(), askGrantable(t, b, intent("1", anna, `{}`)), approval.InConversation,
			anna, "slack"); err != nil {
			t.Fatal(err)
		}
		var id string
		for id = range d.items {
		}
		if got := say(bert, ""); !strings.Contains(got, "`s_do`: in one conversation until ") || !strings.Contains(got, id) {
			t.Errorf("the list is %q", got)
		}
		for _, c := range []struct {
			by         chat.User
			text, want string
		}{
			{bert, "revoke " + id, "Only an administrator, or whoever gave it"},
			{anna, "revoke nothing", "There is no such approval here"},
			{anna, "forget", "Say `approvals`"},
			{anna, "revoke `" + id + "`", "`s_do` asks again from now on."},
			{anna, "revoke " + id, "There is no such approval here"},
		} {
			if got := say(c.by, c.text); !strings.Contains(got, c.want) {
				t.Errorf("%q by %s: %q, want %q", c.text, c.by.Name, got, c.want)
			}
		}
	})
}
