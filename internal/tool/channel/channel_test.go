package channel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/tool"
	"ravenbot/internal/tool/channel"
)

var began = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// log is a channel in which a message is said every minute, given in pages of 40.
type log struct {
	said int
	err  error
	read []chat.Address
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
		page = append(page, chat.Said{ID: fmt.Sprint(n), By: "anna", Bot: n%2 == 1, Text: fmt.Sprintf("word %d\nand\x1b[31m more", n), At: began.Add(time.Duration(n) * time.Minute)})
	}
	return page, l.err
}

var asked = chat.Address{Platform: "slack", Workspace: "T", Channel: "C", Thread: "7.1"}

func (l *log) call(t *testing.T, from chat.Address, args string) tool.Result {
	t.Helper()
	it := channel.History(l.history, func(c tool.Caller) (chat.Address, bool) { return c.Conversation, !c.Conversation.IsZero() })
	res, err := it.Call(tool.WithCaller(t.Context(), tool.Caller{Conversation: from}), []byte(args))
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
		if len(numbers) == 0 || numbers[0] != tt.first || numbers[len(numbers)-1] != tt.last || len(numbers) != tt.last-tt.first+1 {
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
	l := &log{said: 3}
	l.call(t, asked, `{}`)
	l.call(t, asked, `{"where":"thread","channel":"slack:T/OTHER"}`)
	if l.read[0] != asked.Base() || l.read[len(l.read)-1] != asked {
		t.Errorf("read %v", l.read)
	}
	for from, want := range map[chat.Address]string{{}: "comes from no channel", asked.Base(): "not asked in a thread"} {
		if res := l.call(t, from, `{"where":"thread"}`); !res.IsError || !strings.Contains(res.Text, want) {
			t.Errorf("from %s: %+v", from, res)
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
	it := channel.History((&log{err: errors.New("broken")}).history, func(tool.Caller) (chat.Address, bool) { return asked, true })
	if _, err := it.Call(t.Context(), []byte(`{}`)); err == nil {
		t.Error("a host's fault is taken for an answer")
	}
}
