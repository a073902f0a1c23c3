package channel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/tools/channel"
)

var began = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// log is a channel in which a message is said every minute, given in pages of 40.
type log struct {
	said int
	err  error
	read []chat.Address
	// hidden are messages that the platform does not show.
	hidden []int
	turn   string // that calls come from
}

func (l *log) history(_ context.Context, at chat.Address, before string, most int) ([]chat.Said, error) {
	l.read = append(l.read, at)
	end := l.said
	if before != "" {
		if _, err := fmt.Sscan(before, &end); err != nil {
			return nil, err
		}
	}
	var page []chat.Said
	for n := max(0, end-min(most, 40)); n < end; n++ {
		page = append(page, chat.Said{ID: fmt.Sprint(n), By: "anna", Bot: n%2 == 1,
			Text: fmt.Sprintf("word %d\nand\x1b[31m more", n), At: began.Add(time.Duration(n) * time.Minute)})
		if slices.Contains(l.hidden, n) {
			page[len(page)-1].Text, page[len(page)-1].Hidden, page[len(page)-1].Reason = "", true, "it is hidden; show it"
		}
	}
	return page, l.err
}

var asked = chat.Address{Platform: "slack", Workspace: "T", Channel: "C", Thread: "7.1"}

func (l *log) call(t *testing.T, from chat.Address, args string) tool.Result {
	t.Helper()
	it := channel.History(l.history, func(c tool.Caller) (chat.Address, bool) {
		return c.Conversation, !c.Conversation.IsZero()
	})
	res, err := it.Call(tool.WithCaller(t.Context(), tool.Caller{Conversation: from, Turn: l.turn}), []byte(args))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestTheNewestAreGivenOldestFirst(t *testing.T) {
	for _, tt := range []struct {
		args        string
		first, last int
		earlier     bool
	}{
		{`{}`, 150, 199, true},
		{`{"messages":100}`, 100, 199, true},
		{`{"messages":3,"before":"10"}`, 7, 9, true},
		{`{"messages":100,"before":"10"}`, 0, 9, false},
		{`{"messages":300,"since":"2026-11-21T10:00:00Z"}`, 120, 199, false},
		{`{"messages":5,"since":"2026-11-21T10:00:00Z"}`, 195, 199, true},
	} {
		l := &log{said: 200}
		got := l.call(t, asked, tt.args).Text
		var numbers []int
		for _, line := range strings.Split(got, "\n") {
			var n int
			if _, text, ok := strings.Cut(line, ": word "); ok {
				if _, err := fmt.Sscan(text, &n); err != nil {
					t.Fatal(err)
				}
				numbers = append(numbers, n)
			}
		}
		if len(numbers) == 0 || numbers[0] != tt.first || numbers[len(numbers)-1] != tt.last ||
			len(numbers) != tt.last-tt.first+1 {
			t.Errorf("%s gives %v", tt.args, numbers)
		}
		if earlier := strings.Contains(got, fmt.Sprintf("before \"%d\"", tt.first)); earlier != tt.earlier {
			t.Errorf("%s: earlier ones %v, want %v", tt.args, earlier, tt.earlier)
		}
		if strings.ContainsRune(got, '\x1b') || !strings.Contains(got, "anna (bot): word") {
			t.Errorf("%s gives %q", tt.args, got)
		}
	}
}

func TestOnlyTheChannelItIsCalledInIsRead(t *testing.T) {
	for _, tt := range []struct {
		turn, args string
		from, want chat.Address
	}{
		{"slack/T/C/9.9", `{}`, asked, asked},
		{"slack/T/C/9.9", `{"where":"channel"}`, asked, asked.Base()},
		{"slack/T/C/9.9", `{"where":"thread","channel":"slack:T/OTHER"}`, asked, asked},
		{"slack/T/C/7.1", `{}`, asked, asked.Base()}, // the question began the thread
		{"slack/T/C/7.1", `{"where":"thread"}`, asked, asked},
		{"slack/T/C/7.1", `{}`, asked.Base(), asked.Base()},
	} {
		l := &log{said: 3, turn: tt.turn}
		l.call(t, tt.from, tt.args)
		if l.read[0] != tt.want {
			t.Errorf("%s in %s, asked by %s: read %v, want %s", tt.args, tt.from, tt.turn, l.read, tt.want)
		}
	}
	l := &log{said: 3}
	for from, want := range map[chat.Address]string{{}: "comes from no channel", asked.Base(): "not asked in a thread"} {
		if res := l.call(t, from, `{"where":"thread"}`); !res.IsError || !strings.Contains(res.Text, want) {
			t.Errorf("from %s: %+v", from, res)
		}
	}
}

func TestHistory_HiddenMessages_AreCountedWithTheReason(t *testing.T) {
	for _, tt := range []struct {
		hidden []int
		shown  string
		note   string
	}{
		{nil, "3 messages, oldest first", ""},
		{[]int{1}, "2 messages, oldest first", "1 message of somebody else is not shown to me, because it is hidden; show it."},
		{[]int{0, 1, 2}, "0 messages, oldest first", "3 messages of others are not shown to me, because it is hidden; show it."},
	} {
		got := (&log{said: 3, hidden: tt.hidden}).call(t, asked, `{}`).Text
		if !strings.HasPrefix(got, tt.shown) || !strings.Contains(got, tt.note) ||
			strings.Contains(got, "not shown") != (tt.note != "") ||
			strings.Count(got, "anna") != 3-len(tt.hidden) {
			t.Errorf("%v hidden: %q", tt.hidden, got)
		}
	}
}

func TestWhatCannotBeReadIsSaid(t *testing.T) {
	l := &log{err: &chat.SetupError{Reason: "it is hidden", Remedy: "show it"}}
	if res := l.call(t, asked, `{}`); !res.IsError || res.Text != "it is hidden. Remedy: show it." {
		t.Errorf("%+v", res)
	}
	if res := (&log{}).call(t, asked, `{}`); res.IsError || !strings.Contains(res.Text, "Nothing was said") {
		t.Errorf("%+v", res)
	}
	for _, args := range []string{`{"since":"yesterday"}`, `{"messages":"x"}`} {
		if res := (&log{said: 1}).call(t, asked, args); !res.IsError {
			t.Errorf("%s gives %+v", args, res)
		}
	}
	it := channel.History((&log{err: errors.New("broken")}).history, func(tool.Caller) (chat.Address, bool) {
		return asked, true
	})
	if _, err := it.Call(t.Context(), []byte(`{}`)); err == nil {
		t.Error("a host's fault is taken for an answer")
	}
}
