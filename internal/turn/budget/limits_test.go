package budget_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/feature"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/budget"
)

// used is a store with the usage of today.
type used []store.Usage

func (u used) Usage(context.Context, string, string, int) ([]store.Usage, string, error) {
	return u, "", nil
}

type rates struct{ limits budget.Limits }

func (rates) Caps() budget.Caps               { return budget.Caps{} }
func (r rates) Limits([]string) budget.Limits { return r.limits }
func (r rates) AreUsersLimited() bool         { return true }
func (rates) Price(string) budget.Price       { return budget.Price{} }

func spending(t *testing.T, l budget.Limits, now *time.Time, usage ...store.Usage) *budget.Spending {
	t.Helper()
	s, err := budget.LoadSpending(t.Context(), used(usage), rates{l}, slog.New(slog.DiscardHandler),
		func() time.Time { return *now })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func said(n int, by, words string, files int) chat.Message {
	return chat.Message{
		ID:           fmt.Sprint(by, n),
		Conversation: chat.Address{Platform: "slack", Workspace: "T", Channel: "C"},
		Author:       chat.User{ID: by},
		Text:         words,
		Files:        make([]chat.File, files),
	}
}

func TestRefuse_WhatIsOverTheLimitsOfItsAuthor(t *testing.T) {
	now := time.Date(2026, 11, 22, 21, 30, 0, 0, time.UTC)
	s := spending(t, budget.Limits{MessageChars: 10, Messages: 4, Files: 3}, &now,
		store.Usage{Day: "2026-11-22", User: "slack/anna", Turns: 1})
	operator := said(9, "anna", strings.Repeat("é", 90), 9)
	operator.Author.Operator = true
	for n, c := range []struct {
		m    chat.Message
		want string
	}{
		{said(1, "anna", strings.Repeat("é", 10), 2), ""},
		{said(1, "anna", "again", 2), ""}, // the same message, worked on again
		{said(2, "anna", strings.Repeat("é", 11), 0), "Your message has 11 characters, and I read up to 10."},
		{said(3, "anna", "files", 2), "You have sent me 2 files today; the limit for one person is 3."},
		{said(4, "anna", "file", 1), ""},
		{said(5, "anna", "one", 0), ""},
		{said(6, "anna", "more", 0), "You have asked me 4 times today, which is the limit for one person. It starts again at midnight UTC, in 2 h 30 min."},
		{said(6, "berit", "hello", 0), ""},
		{operator, ""},
	} {
		if got := s.Refuse(c.m); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("message %d: %q, want %q", n, got, c.want)
		}
	}
	now = now.Add(3 * time.Hour)
	if got := s.Refuse(said(7, "anna", "morning", 3)); got != "" {
		t.Errorf("on the next day: %q", got)
	}
}

// byRole limits people with a role to one message and no tokens to speak of.
type byRole struct{ rates }

func (byRole) Limits(roles []string) budget.Limits {
	if len(roles) > 0 {
		return budget.Limits{Messages: 1, Tokens: 1}
	}
	return budget.Limits{}
}

func TestLimits_AreThoseOfTheRolesOfTheNewestMessage(t *testing.T) {
	now := time.Now()
	s, err := budget.LoadSpending(t.Context(), used(nil), byRole{}, slog.New(slog.DiscardHandler),
		func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	guest := func(n int) chat.Message {
		m := said(n, "anna", "hello", 0)
		m.Author.Roles = []string{"Guests"}
		return m
	}
	reserve := func() error {
		count, err := s.Reserve(t.Context(), store.Usage{User: "slack/anna", Model: "m"}, llm.Request{})
		if err == nil {
			count(llm.Usage{Input: 5})
		}
		return err
	}
	if err := reserve(); err != nil {
		t.Errorf("without a role: %v", err)
	}
	if first, second := s.Refuse(guest(1)), s.Refuse(guest(2)); first != "" || second == "" {
		t.Errorf("messages with a role: %q, %q", first, second)
	}
	if err := reserve(); err == nil {
		t.Error("the tokens of a role are not limited")
	}
	if got := s.Refuse(said(3, "anna", "hello", 0)); got != "" {
		t.Errorf("the role was taken away: %q", got)
	}
}

func TestReserve_TokensOfAUserAreUsedUp(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	s := spending(t, budget.Limits{Tokens: 20_000}, &now,
		store.Usage{Day: "2026-11-22", User: "slack/anna", Tokens: llm.Usage{Input: 9_000, Output: 1_000}})
	anna := store.Usage{Model: "m", Channel: chat.Address{Platform: "slack", Workspace: "T", Channel: "C"},
		User: "slack/anna"}
	count, err := s.Reserve(t.Context(), anna, llm.Request{})
	if err != nil {
		t.Fatal(err)
	}
	count(llm.Usage{Input: 8_000, Output: 2_000})
	var refused *llm.Error
	if _, err := s.Reserve(t.Context(), anna, llm.Request{}); !errors.As(err, &refused) || refused.Kind != llm.Capped ||
		!strings.HasPrefix(refused.Reason, "Your budget for today, 20,000 tokens, is used up; it starts again at midnight "+
			"UTC, in 12 h 0 min") {
		t.Errorf("over the limit: %v", err)
	}
	anna.User = "slack/berit"
	if _, err := s.Reserve(t.Context(), anna, llm.Request{}); err != nil {
		t.Errorf("somebody else: %v", err)
	}
}

// shared is a store in which other processes count, too.
type shared struct {
	used
	others *[]store.Usage
	reads  *int
}

func (s shared) UsageOfOthers(context.Context, string) ([]store.Usage, error) {
	*s.reads++
	return *s.others, nil
}

type capped struct{ rates }

func (capped) Caps() budget.Caps         { return budget.Caps{Instance: 3} }
func (capped) Price(string) budget.Price { return budget.Price{InputPerM: 1} }

// What other replicas spend counts for the caps, and not twice.
func TestReload_WhatOtherProcessesSpendCounts(t *testing.T) {
	now := time.Date(2026, 11, 22, 23, 59, 0, 0, time.UTC)
	channel := chat.Address{Platform: "slack", Workspace: "T", Channel: "C"}
	spent := func(millions, turns int) []store.Usage {
		return []store.Usage{{Day: "2026-11-22", Model: "m", Channel: channel, User: "slack/anna", Turns: turns,
			Tokens: llm.Usage{Input: millions * 1_000_000}}}
	}
	var reads int
	others := spent(1, 1)
	s, err := budget.LoadSpending(t.Context(), shared{used(spent(1, 1)), &others, &reads},
		capped{rates{budget.Limits{Messages: 3}}}, slog.New(slog.DiscardHandler), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	reserve := func() (func(llm.Usage), error) {
		return s.Reserve(t.Context(), store.Usage{Model: "m", Channel: channel, User: "slack/anna"}, llm.Request{})
	}
	count, err := reserve()
	if err != nil {
		t.Fatal(err)
	}
	count(llm.Usage{Input: 1_000_000}) // two are spent: one by others before the start, one here
	reload := func(pass time.Duration, wantReads int) {
		t.Helper()
		now = now.Add(pass)
		if err := s.Reload(t.Context()); err != nil || reads != wantReads {
			t.Fatalf("%d reads, want %d; %v", reads, wantReads, err)
		}
	}
	reload(2*time.Second, 2)
	if _, err := reserve(); err != nil {
		t.Errorf("two of three are spent: %v", err)
	}
	if refused := s.Refuse(said(1, "anna", "hello", 0)); refused != "" {
		t.Errorf("the second message: %q", refused)
	}
	others = spent(2, 2)
	reload(time.Second, 2) // it was read just now
	reload(time.Second, 3)
	if _, err := reserve(); err == nil {
		t.Error("all is spent, and a request was let through")
	}
	if refused := s.Refuse(said(2, "anna", "hello", 0)); !strings.HasPrefix(refused, "You have asked me 3 times today") {
		t.Errorf("the fourth message: %q", refused)
	}
	others = nil
	reload(time.Minute, 4) // the next day
	if _, err := reserve(); err != nil {
		t.Errorf("on the next day: %v", err)
	}
	if refused := s.Refuse(said(3, "anna", "hello", 0)); refused != "" {
		t.Errorf("on the next day: %q", refused)
	}
}

func TestReload_WithoutLimitsNothingIsRead(t *testing.T) {
	var reads int
	s, err := budget.LoadSpending(t.Context(), shared{nil, &[]store.Usage{}, &reads}, rates{},
		slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(t.Context()); err != nil || reads != 1 {
		t.Errorf("%d reads, want the one at the start; %v", reads, err)
	}
}

func TestRefuse_FilesSentToOtherProcessesCount(t *testing.T) {
	now := time.Date(2026, 11, 22, 21, 30, 0, 0, time.UTC)
	l := budget.Limits{Files: 5}
	here, there := spending(t, l, &now), spending(t, l, &now)
	share := func() {
		t.Helper()
		told, err := here.Told()
		if err == nil {
			err = there.Hear(map[int64]json.RawMessage{7: told})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	here.Refuse(said(1, "anna", "look", 3))
	share()
	share() // what is told again replaces what was told before
	if r := there.Refuse(said(2, "anna", "look", 3)); !strings.Contains(r, "sent me 3 files") {
		t.Errorf("the fourth to sixth file: %q", r)
	}
	if r := there.Refuse(said(3, "anna", "look", 2)) + there.Refuse(said(4, "berit", "look", 5)); r != "" {
		t.Errorf("what is within the limit is refused: %q", r)
	}
	here.Refuse(said(5, "carl", "look", 5))
	now = now.Add(3 * time.Hour)
	if r := there.Refuse(said(6, "carl", "look", 5)); r != "" {
		t.Errorf("files of yesterday count: %q", r)
	}
	if err := there.Hear(map[int64]json.RawMessage{7: json.RawMessage(`3`)}); err == nil {
		t.Error("what cannot be read is taken for nothing")
	}
}

// answerer answers each message by its words.
type answerer struct{ feature.Answerer }

func (answerer) Answer(_ context.Context, q chat.Asked, _ func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	var words []string
	for _, m := range q.Messages {
		words = append(words, "re: "+m.Text)
	}
	return &conversation.Turn{ID: q.Turn}, &chat.Draft{Text: strings.Join(words, ", ")}
}

// People who are answered together have limits of their own: one who has reached theirs costs the others no answer, and
// is told by name.
func TestAnswer_SeveralPeople_OnlyThoseOverTheirLimitsAreRefused(t *testing.T) {
	now := time.Date(2026, 3, 4, 22, 0, 0, 0, time.UTC)
	const refused = "You have asked me once today"
	for name, c := range map[string]struct {
		asked     []chat.Message
		begins    string
		has       []string
		ephemeral bool
		failed    bool
	}{
		"within": {[]chat.Message{said(2, "berit", "one", 0), said(3, "carl", "two", 0)}, "re: one, re: two", nil,
			false, false},
		"one of two": {[]chat.Message{said(4, "anna", "one", 0), said(5, "berit", "two", 0)}, "re: two\n\n",
			[]string{"\n\nanna: " + refused}, false, false},
		"alone, twice": {[]chat.Message{said(6, "anna", "one", 0), said(7, "anna", "two", 0)}, refused, nil, true, true},
		"everybody": {[]chat.Message{said(8, "anna", "one", 0), said(9, "dora", "two", 0)}, "anna: " + refused,
			[]string{"\ndora: " + refused}, false, true},
	} {
		s := spending(t, budget.Limits{Messages: 1}, &now)
		s.Refuse(said(1, "anna", "before", 0))
		s.Refuse(said(1, "dora", "before", 0))
		_, d := budget.Limited{Answerer: answerer{}, Spending: s}.Answer(t.Context(), chat.Asked{Messages: c.asked}, nil)
		if !strings.HasPrefix(d.Text, c.begins) || d.Ephemeral != c.ephemeral || d.Failed != c.failed {
			t.Errorf("%s: answered %+v", name, d)
		}
		for _, want := range c.has {
			if !strings.Contains(d.Text, want) {
				t.Errorf("%s: %q is not in %q", name, want, d.Text)
			}
		}
		if len(c.has) == 0 && strings.Contains(d.Text, "\n") {
			t.Errorf("%s: more than one line: %q", name, d.Text)
		}
	}
}
