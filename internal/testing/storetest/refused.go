package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
)

// farAway is a time that JSON cannot hold, and brokenJSON what is none.
var (
	farAway    = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	brokenJSON = json.RawMessage(`{`)
)

// A record that cannot be written is refused, and nothing is stored of what comes with it.
func unwritable(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	good := store.Post{Key: "good", To: general, At: noon}
	posts := []store.Post{good, {Key: "bad", To: general, At: farAway}}
	calls := []store.ToolCall{{ID: "good", Began: noon}, {ID: "bad", Began: farAway}}
	whole := store.ToolCall{ID: "whole", ResultID: "r", Began: farAway}
	goodTurn := func() *conversation.Turn {
		return &conversation.Turn{ID: "good", Of: []string{"web/good"}, Began: noon}
	}
	badTurn := &conversation.Turn{ID: "bad", Of: []string{"web/bad"}, Began: farAway}
	run := store.Run{Digest: "d", Due: noon, Ended: noon}
	badRun := run
	badRun.Ended = farAway
	for name, err := range map[string]error{
		"a turn":                s.SaveTurn(ctx, general, badTurn),
		"a call of a turn":      s.SaveTurn(ctx, general, goodTurn(), calls...),
		"a whole result":        s.SaveCalls(ctx, []store.ToolCall{whole}),
		"a call":                s.SaveCalls(ctx, calls),
		"a post of an answer":   s.SaveAnswer(ctx, general, []string{"web/1"}, goodTurn(), posts),
		"the turn of an answer": s.SaveAnswer(ctx, general, []string{"web/1"}, badTurn, []store.Post{good}),
		"a post":                s.SavePosts(ctx, posts),
		"a message":             second(s.Accept(ctx, store.Received{Message: message("1"), At: farAway})),
		"feedback":              s.SaveFeedback(ctx, store.Feedback{Turn: "a", User: "u", At: farAway}),
		"a reaction":            s.SaveReaction(ctx, store.Reaction{Turn: "a", User: "u", Post: "p", Sign: "up", At: farAway}),
		"a line":                second(s.SaveEntry(ctx, store.Entry{ID: "1", Room: "r", At: farAway})),
		"a file":                second(s.SaveRoomFile(ctx, "r", chat.File{Handle: brokenJSON})),
		"an approval":           s.SaveApproval(ctx, store.Approval{ID: "1", At: farAway}),
		"a summary":             s.SaveSummary(ctx, general, conversation.Summary{Upto: 1, At: farAway}),
		"a subscription":        s.SaveSubscription(ctx, store.Subscription{To: general, URL: "u", At: farAway}),
		"an item":               s.SaveItem(ctx, "kind", "name", brokenJSON, true),
		"a new item":            second(s.SwapItem(ctx, "kind", "name", nil, brokenJSON, []store.Post{good})),
		"a post with an item":   second(s.SwapItem(ctx, "kind", "name", nil, json.RawMessage(`{}`), posts)),
		"settings":              second(s.SwapSetting(ctx, "instance", nil, brokenJSON)),
		"a blob":                s.SaveBlob(ctx, "key", brokenJSON),
		"a run":                 second(s.FinishRun(ctx, badRun, []string{"x"}, []store.Post{good})),
		"a post of a run":       second(s.FinishRun(ctx, run, []string{"x"}, posts)),
		"an item of a run":      second(s.FinishRun(ctx, run, []string{"x"}, nil, store.Item{Data: brokenJSON})),
	} {
		if err == nil {
			t.Errorf("%s that cannot be written is stored", name)
		}
	}
	_, _, err := s.SaveMemory(ctx, store.Memory{Scope: "a", Text: "note", At: farAway}, 9)
	same(t, "a note is refused", true, err != nil)
	_, err = s.SaveMessages(ctx, []store.Message{
		{Conversation: general, ID: "good", At: noon}, {Conversation: general, ID: "bad", At: farAway}})
	same(t, "a message outside of turns is refused", true, err != nil)

	// A clock that is wrong: what only remembers when something was done is refused like all else.
	must(t, s.SavePosts(ctx, []store.Post{{Key: "sent", To: general, Message: "web/1"}}))
	*now = farAway
	for name, err := range map[string]error{
		"a message":      second(s.Accept(ctx, store.Received{Message: message("1"), At: noon})),
		"an answer":      s.SaveAnswer(ctx, general, []string{"web/1"}, nil, nil),
		"a begun answer": s.SaveStream(ctx, "sent", chat.Ref{}),
		"an outcome":     s.SaveOutcomes(ctx, []store.Outcome{{Key: "sent", At: noon}}, 0),
		"a file":         second(s.SaveRoomFile(ctx, "r", chat.File{Name: "a"})),
	} {
		if err == nil {
			t.Errorf("%s is stored as of a time that cannot be written", name)
		}
	}
	*now = noon
	if err := s.SaveOutcomes(ctx, []store.Outcome{{Key: "sent", At: farAway}}, 0); err == nil {
		t.Error("an outcome that cannot be written is stored")
	}
	nothingKept(t, s)
}

// nothingKept fails the test where a store has anything but the post "sent", which waits.
func nothingKept(t *testing.T, s store.Store) {
	t.Helper()
	ctx := t.Context()
	for name, read := range map[string]func() (int, error){
		"turns":         func() (int, error) { return count(s.Turns(ctx, general, store.Range{Newest: 9})) },
		"calls":         func() (int, error) { return count(s.ToolCalls(ctx, 0, 9, nil)) },
		"waiting":       func() (int, error) { return count(s.Unanswered(ctx)) },
		"feedback":      func() (int, error) { return count(s.Feedback(ctx)) },
		"entries":       func() (int, error) { return count(s.Entries(ctx, "r", 0, 9)) },
		"approvals":     func() (int, error) { return count(s.Approvals(ctx, time.Time{})) },
		"subscriptions": func() (int, error) { return count(s.Subscriptions(ctx)) },
		"runs":          func() (int, error) { return count(s.LastRuns(ctx, "d", 9)) },
		"notes":         func() (int, error) { return count(s.Memories(ctx, "a")) },
		"last seen":     func() (int, error) { return count(s.LastSeen(ctx, "web", time.Time{})) },
		"items": func() (int, error) {
			all, err := s.Items(ctx, "kind")
			return len(all), err
		},
		"settings": func() (int, error) {
			all, err := s.Settings(ctx)
			return len(all), err
		},
		"messages": func() (int, error) {
			list, _, err := s.Messages(ctx, general, "", 9)
			return len(list), err
		},
		"conversations": func() (int, error) {
			list, _, err := s.Conversations(ctx, "", 9)
			return len(list), err
		},
	} {
		n, err := read()
		must(t, err)
		same(t, "number of "+name, 0, n)
	}
	pending, err := s.PendingPosts(ctx)
	must(t, err)
	same(t, "posts that wait", 1, len(pending))
	_, ever, err := s.SeenItems(ctx, "d", nil)
	must(t, err)
	same(t, "the digest ever ran", false, ever)
	summary, err := s.Summary(ctx, general)
	must(t, err)
	same(t, "the summary", conversation.Summary{}, summary)
	for _, subject := range []string{"web/good", "web/bad"} {
		_, known, err := s.ConversationOf(ctx, subject)
		must(t, err)
		same(t, fmt.Sprint(subject, " is known"), false, known)
	}
}

// second returns the error of a call that returns something else as well.
func second[T any](_ T, err error) error { return err }

// count returns the length of a list.
func count[T any](list []T, err error) (int, error) { return len(list), err }
