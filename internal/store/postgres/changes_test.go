package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/postgres/pgtest"
)

var changeTime = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func changesOf(t *testing.T, db *postgres.DB) map[string]int64 {
	t.Helper()
	now, err := db.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func TestChanges_OfEveryKindAreSeenByOthersAlone(t *testing.T) {
	url := pgtest.Start(t)
	here, there := open(t, url, time.Now), open(t, url, time.Now)
	a := store.Approval{ID: "a1", Turn: "t", Call: "c", At: changeTime}
	denied := a
	denied.Decision = store.Denied
	raw := json.RawMessage(`{}`)
	swap := func(was, now json.RawMessage) func(context.Context) error {
		return func(ctx context.Context) error {
			swapped, err := here.SwapItem(ctx, "job", "one", was, now, nil)
			if err == nil && !swapped {
				err = errors.New("not swapped")
			}
			return err
		}
	}
	setting := func(was, now []byte) func(context.Context) error {
		return func(ctx context.Context) error {
			swapped, err := here.SwapSetting(ctx, "instance", was, now)
			if err == nil && !swapped {
				err = errors.New("not swapped")
			}
			return err
		}
	}
	save := func(kind string, overwrite bool) func(context.Context) error {
		return func(ctx context.Context) error { return here.SaveItem(ctx, kind, "one", raw, overwrite) }
	}
	remove := func(ctx context.Context) error { return here.DeleteItem(ctx, "agent", "one") }
	decide := func(ctx context.Context) error { _, err := here.DecideApproval(ctx, denied); return err }
	for _, c := range []struct {
		what, kind string // kind: what is seen; "": nothing
		do         func(context.Context) error
		fails      bool
	}{
		{"a setting", "settings", setting(nil, raw), false},
		{"a setting that is another one", "", setting(nil, raw), true},
		{"no setting", "settings", setting(raw, nil), false},
		{"an item", "agent", save("agent", false), false},
		{"a taken name", "", save("agent", false), true},
		{"an item again", "agent", save("agent", true), false},
		{"an item of a kind with a name", "digest run", save("digest run/news", true), false},
		{"no item", "agent", remove, false},
		{"what is not there", "", remove, true},
		{"a swapped item", "job", swap(nil, raw), false},
		{"another item", "", swap(nil, raw), true},
		{"an item swapped for none", "job", swap(raw, nil), false},
		{"a blob", "blob pins", func(ctx context.Context) error { return here.SaveBlob(ctx, "pins/server", raw) }, false},
		{"an approval", "approvals", func(ctx context.Context) error { return here.SaveApproval(ctx, a) }, false},
		{"a decision", "approvals", decide, false},
		{"a late decision", "", decide, false},
		{"a note", "", func(ctx context.Context) error {
			_, _, err := here.SaveMemory(ctx, store.Memory{Scope: "s", Text: "x"}, 9)
			return err
		}, false},
	} {
		before := changesOf(t, there)
		if err := c.do(t.Context()); (err != nil) != c.fails {
			t.Fatalf("%s: %v", c.what, err)
		}
		after := changesOf(t, there)
		if c.kind != "" && after[c.kind] == before[c.kind] {
			t.Errorf("%s: nothing is seen of it", c.what)
		}
		for kind := range after {
			if kind != c.kind && after[kind] != before[kind] {
				t.Errorf("%s: a change of %q is seen", c.what, kind)
			}
		}
		if own := changesOf(t, here); len(own) > 0 {
			t.Errorf("%s: the process sees its own changes: %v", c.what, own)
		}
	}
}

// Other processes forget what they remember of conversations that lost something, and of feedback that was counted.
func TestChanges_OfConversationsAndFeedback_AreSeenByOthers(t *testing.T) {
	url := pgtest.Start(t)
	now := func() time.Time { return changeTime }
	here, there := open(t, url, now), open(t, url, now)
	at := chat.Address{Platform: "web", Channel: "general"}
	ctx := t.Context()
	saveTurn := func() error {
		return here.SaveTurn(ctx, at, &conversation.Turn{ID: "t", Began: changeTime.Add(-time.Hour)})
	}
	prune := func(keep store.Retention) error { _, err := here.Prune(ctx, keep); return err }
	minute := func(chat.Address) time.Duration { return time.Minute }
	run := store.Run{Digest: "news", Due: changeTime, Ended: changeTime}
	for _, c := range []struct {
		what, kind string // kind: what is seen; "": nothing
		do         func() error
	}{
		{"a turn", "", saveTurn},
		{"no turn", "conversations", func() error { return here.DeleteTurn(ctx, at, 1) }},
		{"another turn", "", saveTurn},
		{"no conversation", "conversations", func() error { return here.DeleteConversation(ctx, at) }},
		{"an old turn", "", saveTurn},
		{"nothing is too old", "", func() error { return prune(store.Retention{}) }},
		{"a turn that is too old", "conversations", func() error { return prune(store.Retention{Conversations: minute}) }},
		{"feedback", "feedback", func() error {
			return here.SaveFeedback(ctx, store.Feedback{Turn: "t", User: "u", Good: true, At: changeTime.Add(-time.Hour)})
		}},
		{"a reaction", "feedback", func() error {
			return here.SaveReaction(ctx, store.Reaction{Turn: "t", User: "v", Post: "p", Sign: "+1", Good: true, At: changeTime})
		}},
		{"feedback that is not too old", "", func() error { return prune(store.Retention{Feedback: 2 * time.Hour}) }},
		{"feedback that is too old", "feedback", func() error { return prune(store.Retention{Feedback: time.Minute}) }},
		{"an item of a run", "digest run", func() error {
			_, err := here.FinishRun(ctx, run, nil, nil, store.Item{Kind: "digest run/news", Name: "1", Data: []byte(`{}`)})
			return err
		}},
	} {
		before := changesOf(t, there)
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		after := changesOf(t, there)
		if c.kind != "" && after[c.kind] == before[c.kind] {
			t.Errorf("%s: nothing is seen of it", c.what)
		}
		for kind := range after {
			if kind != c.kind && after[kind] != before[kind] {
				t.Errorf("%s: a change of %q is seen", c.what, kind)
			}
		}
	}
}

// Writers of one kind do not wait for one another: each could be held up by a transaction that is not committed.
func TestChanges_OfManyWritersAtOnce(t *testing.T) {
	url := pgtest.Start(t)
	a, b := open(t, url, time.Now), open(t, url, time.Now)
	var wg sync.WaitGroup
	for w := range 8 {
		for _, db := range []*postgres.DB{a, b} {
			wg.Go(func() {
				for n := range 20 {
					name := string(rune('a'+w)) + string(rune('a'+n))
					if err := db.SaveItem(context.Background(), "job", name, json.RawMessage(`1`), true); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	before := changesOf(t, a)
	if err := b.SaveItem(t.Context(), "job", "last", json.RawMessage(`1`), true); err != nil {
		t.Fatal(err)
	}
	if after := changesOf(t, a); after["job"] == before["job"] {
		t.Error("the last change is not seen")
	}
}

func TestUsageOfOthers_HasNothingOfOnesOwn(t *testing.T) {
	url := pgtest.Start(t)
	now := func() time.Time { return changeTime }
	a, b := open(t, url, now), open(t, url, now)
	channel := chat.Address{Platform: "slack", Workspace: "T", Channel: "C"}
	count := func(db *postgres.DB, user string, tokens int) {
		t.Helper()
		err := db.CountUsage(t.Context(), store.Usage{Model: "m", Channel: channel, User: user, Turns: 1,
			Tokens: llm.Usage{Input: tokens}})
		if err != nil {
			t.Fatal(err)
		}
	}
	count(a, "anna", 10)
	count(b, "anna", 200)
	count(b, "berit", 3000)
	turn := &conversation.Turn{ID: "1", Model: "m", User: "anna", Usage: llm.Usage{Output: 7}, Began: changeTime}
	thread := channel
	thread.Thread = "1"
	if err := a.SaveAnswer(t.Context(), thread, []string{"1"}, turn, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		db   *postgres.DB
		day  string
		want map[string]llm.Usage
	}{
		{a, "2026-11-22", map[string]llm.Usage{"anna": {Input: 200}, "berit": {Input: 3000}}},
		{b, "2026-11-22", map[string]llm.Usage{"anna": {Input: 10, Output: 7}}},
		{a, "2026-11-21", map[string]llm.Usage{}},
	} {
		list, err := c.db.UsageOfOthers(t.Context(), c.day)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != len(c.want) {
			t.Errorf("%s: %+v, want %v", c.day, list, c.want)
		}
		for _, u := range list {
			if u.Tokens != c.want[u.User] || u.Channel != channel {
				t.Errorf("%+v, want %v", u, c.want[u.User])
			}
		}
	}
}
