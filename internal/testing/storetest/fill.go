package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
)

// Fill stores records of every kind as of an instant, with what is hard to carry to another store.
func Fill(t *testing.T, s store.Store, at time.Time) {
	t.Helper()
	ctx := t.Context()
	thread := chat.Address{Platform: "slack", Workspace: "T", Channel: "C", Thread: "1.2"}
	for i, a := range []chat.Address{general, thread} {
		SayEverywhere(t, s, a, fmt.Sprint("said", i), "words é<&>𝄞", at)
		must(t, s.SaveTurn(ctx, a, &conversation.Turn{ID: fmt.Sprint("deleted", i), Began: at}))
		must(t, s.DeleteTurn(ctx, a, 2)) // numbers count on from 3
	}
	for _, id := range []string{"waits", "\x00odd", strings.Repeat("long", 200)} {
		m := chat.Message{ID: id, Conversation: general, Text: id, Time: at}
		_, err := s.Accept(ctx, store.Received{Message: m, At: at})
		must(t, err)
	}
	quoting := &conversation.Turn{ID: "q", Of: []string{"web/x", "web/y"}, Began: at, User: "u", Model: "m",
		Usage: llm.Usage{Input: 7, Cached: 2, Output: 3}, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{
			{Text: "a", Subject: "slack/8"}, {Text: "b", Raw: []byte(`{"a":"\u0000"}`), Subject: "quoted said0"}}}}}
	posts := []store.Post{{Key: "pending", To: general, At: at}, {Key: "replaced", To: general, At: at}}
	must(t, s.SaveAnswer(ctx, general, nil, quoting, posts))
	must(t, s.SaveOutcomes(ctx, []store.Outcome{{Key: "replaced", Error: "no", At: at}}, 0))
	must(t, s.SavePosts(ctx, []store.Post{{Key: "new", To: general, Replaces: "replaced", At: at}}))
	must(t, s.SaveOutcomes(ctx, []store.Outcome{{Key: "new", Ref: chat.Ref{IDs: []string{"1"}}, At: at}}, 0))
	odd := chat.Address{Platform: "web", Channel: "odd\x00channel"}
	must(t, s.SavePosts(ctx, []store.Post{{Key: "odd", To: odd, Turn: "q", At: at}}))
	must(t, s.SaveOutcomes(ctx, []store.Outcome{{Key: "odd", Ref: chat.Ref{IDs: []string{"3"}}, At: at}}, 0))
	must(t, s.SaveStream(ctx, "pending", chat.Ref{IDs: []string{"2"}, Repeated: true}))
	must(t, s.SaveFeedback(ctx, store.Feedback{Turn: "q", User: "U1", Good: true, At: at}))
	must(t, s.SaveReaction(ctx, store.Reaction{Turn: "q", User: "U2", Post: "p", Sign: "up", Gone: true, At: at}))
	must(t, s.CountUsage(ctx, store.Usage{Model: "title", Tokens: llm.Usage{Input: 1}}))
	address := "https://example.org/" + strings.Repeat("x", 3000)
	must(t, s.SaveFeeds(ctx, store.Feed{URL: address, Data: json.RawMessage(`{"etag":"\"a\""}`)}))
	must(t, s.SaveSubscription(ctx, store.Subscription{To: thread, URL: address, At: at}))
	for n := range 3 {
		run := store.Run{Digest: "morning", Due: at.Add(time.Duration(n)), Ended: at, OK: true}
		_, err := s.FinishRun(ctx, run, []string{"item", strings.Repeat("i", 4000), "\xff"}, nil)
		must(t, err)
	}
	for n := range 3 {
		_, err := s.SaveEntry(ctx, store.Entry{ID: fmt.Sprint("line", n), Room: "other", Text: "x", At: at})
		must(t, err)
		_, _, err = s.SaveMemory(ctx, store.Memory{Scope: "user/web/a", Text: fmt.Sprint(n), At: at}, 10)
		must(t, err)
		_, _, err = s.SaveMemory(ctx, store.Memory{Scope: "emptied", Text: fmt.Sprint(n), At: at}, 10)
		must(t, err)
	}
	for n := range uint64(3) {
		must(t, s.DeleteMemory(ctx, "emptied", n+1))
	}
	emptied := chat.Address{Platform: "web", Channel: "emptied"}
	_, err := s.SaveMessages(ctx, []store.Message{{Conversation: emptied, ID: "m", At: at}})
	must(t, err)
	must(t, s.DeleteMessage(ctx, "web", "m"))
	args := json.RawMessage(`{"b":1, "a":2}`)
	must(t, s.SaveCalls(ctx, []store.ToolCall{{ID: "c", Tool: "t", Began: at, Took: time.Second, Args: args}}))
	must(t, s.SaveApproval(ctx, store.Approval{
		ID: "a", Turn: "q", Call: "c", Conversation: thread, At: at, Decision: store.Denied, Args: args}))
	_, err = s.SwapSetting(ctx, "instance", nil, []byte(`{"language":"en"}`))
	must(t, err)
	must(t, s.SaveBlob(ctx, "server", []byte(`{"tools":[],"x":"`+"\u2028"+`"}`)))
	must(t, s.SaveItem(ctx, "agent", "helper", json.RawMessage(`{"model":"default"}`), false))
}
