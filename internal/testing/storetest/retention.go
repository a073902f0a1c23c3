package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
)

const week = 7 * 24 * time.Hour

// SayEverywhere stores words in every record that may hold what was said in a conversation, as of an
// instant. The name keeps its records apart from those of other calls.
func SayEverywhere(t *testing.T, s store.Store, a chat.Address, name, words string, at time.Time) {
	t.Helper()
	ctx := t.Context()
	m := chat.Message{ID: name, Conversation: a, Text: words, Time: at}
	_, err := s.Accept(ctx, store.Received{Message: m, At: at})
	must(t, err)
	turn := &conversation.Turn{ID: name, Of: []string{m.Subject()}, State: conversation.Answered, Began: at,
		Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: words}, {Text: words, Subject: "quoted " + name}}},
			{Role: llm.Assistant, Parts: []llm.Part{{Text: words}}}}}
	call := store.ToolCall{ID: name, Turn: name, Conversation: a, Args: json.RawMessage(`"` + words + `"`), Result: words,
		ResultID: fmt.Sprintf("%011x%s", at.UnixMilli(), name), Whole: words, Began: at}
	must(t, s.SaveTurn(ctx, a, turn, call))
	posts := []store.Post{
		{Key: "posted " + name, To: a, Draft: chat.Draft{Text: words}, Message: m.Key(), Turn: name, At: at},
		{Key: "refused " + name, To: a, Draft: chat.Draft{Text: words}, At: at},
	}
	must(t, s.SaveAnswer(ctx, a, []string{m.Key()}, turn, posts))
	must(t, s.SaveOutcomes(ctx, []store.Outcome{
		{Key: posts[0].Key, Ref: chat.Ref{IDs: []string{"shown " + name}}, At: at},
		{Key: posts[1].Key, Error: "refused", At: at}}, 0))
	must(t, s.SaveApproval(ctx, store.Approval{ID: name, Turn: name, Conversation: a,
		Args: json.RawMessage(`"` + words + `"`), At: at}))
	_, err = s.SaveMessages(ctx, []store.Message{{Conversation: a, ID: "imported " + name, At: at, Text: words}})
	must(t, err)
	_, err = s.SaveEntry(ctx, store.Entry{ID: name, Room: a.Channel, At: at, Text: words})
	must(t, err)
	_, err = s.SaveRoomFile(ctx, a.Channel, chat.File{Name: name, Data: []byte(words)})
	must(t, err)
	must(t, s.SaveSummary(ctx, a, conversation.Summary{Upto: turn.Seq, Text: words, At: at, From: turn.Seq, Since: at}))
}

// WeekIn keeps what is said in a channel for a week, and the rest without end.
func WeekIn(channel string) store.Retention {
	days := func(is string) time.Duration {
		if is == channel {
			return week
		}
		return 0
	}
	return store.Retention{Conversations: func(a chat.Address) time.Duration { return days(a.Channel) }, Rooms: days}
}

// What is over its conversation's retention is nowhere any more, in no index and no summary, and
// the rest is whole.
func overItsTime(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	other := chat.Address{Platform: "web", Channel: "other"}
	SayEverywhere(t, s, general, "old", "old words", *now)
	SayEverywhere(t, s, other, "elsewhere", "words of elsewhere", *now)
	*now = now.Add(6 * 24 * time.Hour)
	SayEverywhere(t, s, general, "young", "young words", *now)
	changed, err := s.Prune(ctx, WeekIn("general"))
	must(t, err)
	same(t, "conversations that changed too early", 0, len(changed))
	must(t, containsAll(readAll(t, s, general), "old words", "young words"))

	*now = now.Add(2 * 24 * time.Hour)
	changed, err = s.Prune(ctx, WeekIn("general"))
	must(t, err)
	same(t, "conversations that changed", []chat.Address{general}, changed)
	left := readAll(t, s, general)
	if strings.Contains(left, "old words") {
		t.Errorf("what is over its time is still there:\n%s", left)
	}
	must(t, containsAll(left, "young words"))
	must(t, containsAll(readAll(t, s, other), "words of elsewhere"))
	_, _, err = s.TurnOf(ctx, "web/old")
	same(t, "the old turn is found", true, errors.Is(err, store.ErrNotFound))
	_, known, err := s.ConversationOf(ctx, "web/old")
	must(t, err)
	same(t, "the old message is known", false, known)
	quoting, err := s.TurnsQuoting(ctx, "quoted old")
	must(t, err)
	same(t, "turns that quote the old message", 0, len(quoting))

	*now = now.Add(2 * week)
	_, err = s.Prune(ctx, WeekIn("general"))
	must(t, err)
	has, err := s.HasConversation(ctx, general)
	must(t, err)
	same(t, "the conversation is there when all of it is over its time", false, has)
	s1, err := s.Summary(ctx, general)
	must(t, err)
	same(t, "its summary", conversation.Summary{}, s1)
}

// containsAll returns an error that names the first word that a text lacks.
func containsAll(text string, words ...string) error {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return fmt.Errorf("%q is missing in\n%s", w, text)
		}
	}
	return nil
}

// readAll returns all that can be read of a conversation, as text.
func readAll(t *testing.T, s store.Store, a chat.Address) string {
	t.Helper()
	ctx := t.Context()
	var all []string
	add := func(v any, err error) {
		t.Helper()
		must(t, err)
		b, err := json.Marshal(v)
		must(t, err)
		all = append(all, string(b))
	}
	turns, err := s.Turns(ctx, a, store.Range{Newest: math.MaxInt})
	add(turns, err)
	messages, _, err := s.Messages(ctx, a, "", math.MaxInt)
	add(messages, err)
	summary, err := s.Summary(ctx, a)
	add(summary, err)
	entries, err := s.Entries(ctx, a.Channel, 0, math.MaxInt)
	add(entries, err)
	posts, err := s.Undelivered(ctx)
	add(slices.DeleteFunc(posts, func(p store.Post) bool { return p.To != a }), err)
	calls, err := s.ToolCalls(ctx, 0, math.MaxInt, func(c store.ToolCall) bool { return c.Conversation == a })
	add(calls, err)
	approvals, err := s.Approvals(ctx, time.Time{})
	add(slices.DeleteFunc(approvals, func(p store.Approval) bool { return p.Conversation != a }), err)
	for n := range uint64(10) {
		if f, err := s.RoomFile(ctx, a.Channel, n+1); err == nil {
			all = append(all, string(f.Data))
		}
	}
	return strings.Join(all, "\n")
}

// A summary that holds older words than are kept is emptied, though its turns are younger.
func summaryOverItsTime(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	for i := range 3 {
		turn := &conversation.Turn{ID: fmt.Sprint(i), Of: []string{fmt.Sprint("web/", i)}, Began: *now}
		must(t, s.SaveTurn(ctx, general, turn))
		*now = now.Add(3 * 24 * time.Hour)
	}
	must(t, s.SaveSummary(ctx, general, conversation.Summary{Upto: 2, From: 1, Since: noon,
		Text: "the first three days", At: *now}))
	changed, err := s.Prune(ctx, WeekIn("general"))
	must(t, err)
	same(t, "conversations that changed", []chat.Address{general}, changed)
	got, err := s.Summary(ctx, general)
	must(t, err)
	same(t, "the emptied summary", conversation.Summary{Upto: 2, From: 3, Since: *now, At: *now}, got)
	turns, err := s.Turns(ctx, general, store.Range{Newest: 9})
	must(t, err)
	same(t, "turns that are left", 2, len(turns))

	// A summary of nothing that is there goes as a whole.
	alone := chat.Address{Platform: "web", Channel: "general", Thread: "alone"}
	must(t, s.SaveSummary(ctx, alone, conversation.Summary{Upto: 2, From: 1, Since: noon, Text: "words", At: *now}))
	_, err = s.Prune(ctx, WeekIn("general"))
	must(t, err)
	got, err = s.Summary(ctx, alone)
	must(t, err)
	same(t, "the summary of a conversation that is gone", conversation.Summary{}, got)
}
