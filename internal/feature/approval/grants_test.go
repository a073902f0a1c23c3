package approval_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature/approval"
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
		if _, err := b.Decide(t.Context(), id, approval.Always, anna, here); !errors.Is(err, approval.ErrAlways) {
			t.Errorf("always, by a member: %v", err)
		}
		if _, err := b.Decide(t.Context(), id, approval.InConversation, anna, here); err != nil {
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
		if _, err := b.Decide(t.Context(), always, approval.Always, boss, here); err != nil {
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
		if _, err := b.Decide(t.Context(), id, approval.InConversation, boss, here); !errors.Is(err, approval.ErrScope) {
			t.Errorf("a wider scope: %v", err)
		}
		if _, err := b.Decide(t.Context(), id, approval.Once, anna, here); err != nil {
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
		if _, err := b.Decide(t.Context(), askGrantable(t, b, intent("1", anna, `{}`)), approval.InConversation, anna, here); err != nil {
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
			{bert, "revoke " + id, "Only an administrator, or the person who gave it"},
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

// An administrator can let the reading tools of a server run in a channel; that is listed and revoked like others.
func TestDecide_ReadingTools_AreApprovedByAnAdministrator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		b := d.book(t)
		go func() {
			_, _, _ = b.Ask(context.WithoutCancel(t.Context()), intent("1", anna, `{}`),
				tool.Verdict{Reason: "not known", ReadingGrantable: true, Line: `"mcpServers": {"s": {"reads": ["do"]}}`})
		}()
		synctest.Wait()
		asked := d.last()
		if len(asked.Buttons) != 3 || asked.Buttons[1].Label != "Reading tools here" ||
			!strings.Contains(asked.Text, "`\"mcpServers\": {\"s\": {\"reads\": [\"do\"]}}`") {
			t.Errorf("asked %+v", asked)
		}
		id := b.Open()[0].ID
		if r := mustHandle(t, b, anna, "approve-reading "+id); !r.Failed || !strings.Contains(r.Text, "Only an administrator") {
			t.Errorf("a member was answered %+v", r)
		}
		if r := mustHandle(t, b, boss, "approve-reading "+id); r.Failed {
			t.Fatalf("an administrator was answered %+v", r)
		}
		loaded, err := approval.LoadGrants(t.Context(), d, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		yes, no := true, false
		call := func(server, name string, hints tool.Hints) tool.Intent {
			in := intent("2", bert, `{}`)
			in.Caller.Conversation.Thread = "7"
			in.Tool = tool.Named{Name: server + "_" + name, Tool: tool.Func{Described: tool.Spec{Server: server, Name: name, Hints: hints}}}
			return in
		}
		elsewhere := call("s", "do", tool.Hints{})
		elsewhere.Caller.Conversation.Channel = "C2"
		for what, c := range map[string]struct {
			in   tool.Intent
			want bool
		}{
			"the tool itself":            {call("s", "do", tool.Hints{}), true},
			"another that says so":       {call("s", "get", tool.Hints{ReadOnly: &yes}), true},
			"another that says nothing":  {call("s", "put", tool.Hints{}), false},
			"another that writes":        {call("s", "put", tool.Hints{ReadOnly: &no, Destructive: &no}), false},
			"another server":             {call("z", "get", tool.Hints{ReadOnly: &yes}), false},
			"another channel":            {elsewhere, false},
			"the tool, now with effects": {call("s", "do", tool.Hints{Destructive: &yes}), false},
		} {
			if got := loaded.AllowReading(c.in); got != c.want || loaded.Allow(c.in) {
				t.Errorf("%s: %v, want %v", what, got, c.want)
			}
		}
		list, err := b.Handle(t.Context(), chat.Message{Conversation: here, Author: bert, Command: "approvals"})
		if err != nil || !strings.Contains(list.Text, "reading tools of `s`") {
			t.Errorf("the list: %v, %+v", err, list)
		}
	})
}
