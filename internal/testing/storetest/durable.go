package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
)

// The conversation of a message is known while the message waits and after its answer, for all
// messages of the turn.
func conversationOfMessage(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	m := message("1")
	_, err := s.Accept(ctx, store.Received{Message: m})
	must(t, err)
	at, known, err := s.ConversationOf(ctx, m.Subject())
	must(t, err)
	same(t, "a waiting message is known", true, known && at == general)
	_, known, err = s.ConversationOf(ctx, "web/2")
	must(t, err)
	same(t, "another message is known", false, known)

	turn := &conversation.Turn{ID: "web/1", Of: []string{"web/1", "web/3"}, Began: noon}
	must(t, s.SaveAnswer(ctx, general, []string{"web/1"}, turn, nil))
	for _, subject := range turn.Of {
		_, known, err = s.ConversationOf(ctx, subject)
		must(t, err)
		same(t, subject+" is known after its answer", true, known)
		a, got, err := s.TurnOf(ctx, subject)
		must(t, err)
		same(t, "the turn of "+subject, "web/1", got.ID)
		same(t, "its conversation", general, a)
	}
	edit := m
	edit.Change, edit.Revision = chat.Edited, "2"
	for _, isNew := range []bool{true, false} {
		got, err := s.Accept(ctx, store.Received{Message: edit})
		must(t, err)
		same(t, "the edit is new", isNew, got)
	}
}

// The newest message of a conversation is remembered for a month; edits and deletions are not
// messages.
func lastSeen(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	for i := range 3 {
		m := message(fmt.Sprint(i))
		m.Time = noon.Add(time.Duration(i) * time.Minute)
		_, err := s.Accept(ctx, store.Received{Message: m})
		must(t, err)
	}
	deleted := message("0")
	deleted.Change = chat.Deleted
	_, err := s.Accept(ctx, store.Received{Message: deleted})
	must(t, err)
	list, err := s.LastSeen(ctx, "web", noon)
	must(t, err)
	same(t, "heard", []chat.LastSeen{{
		Conversation: general,
		Message:      "2",
		Time:         noon.Add(2 * time.Minute),
		At:           noon,
	}}, list)
	for _, other := range []struct {
		platform string
		since    time.Time
	}{{"slack", noon}, {"we", noon}, {"web", noon.Add(time.Hour)}} {
		list, err = s.LastSeen(ctx, other.platform, other.since)
		must(t, err)
		same(t, fmt.Sprint("heard of ", other), 0, len(list))
	}
	*now = noon.Add(31 * 24 * time.Hour)
	prune(t, s)
	list, err = s.LastSeen(ctx, "web", noon)
	must(t, err)
	same(t, "heard after a month", 0, len(list))
}

// Turns are read in ranges by number; one that was deleted is in no range, and is not found by its
// message.
func turnRanges(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	for i := range 5 {
		must(t, s.SaveTurn(ctx, general, &conversation.Turn{ID: fmt.Sprint("web/", i+1), Began: noon}))
	}
	ids := func(r store.Range) string {
		t.Helper()
		turns, err := s.Turns(ctx, general, r)
		must(t, err)
		all := ""
		for _, turn := range turns {
			all += turn.ID[len("web/"):]
		}
		return all
	}
	for _, c := range []struct {
		r    store.Range
		want string
	}{
		{store.Range{Newest: 2}, "45"}, {store.Range{Newest: 9, After: 3}, "45"}, {store.Range{Newest: 2, Upto: 3}, "23"},
		{store.Range{Newest: 9, Upto: 9}, "12345"},
		{store.Range{Newest: 9, After: 2, Upto: 4}, "34"},
		{store.Range{Newest: 9, After: 5}, ""},
	} {
		same(t, fmt.Sprintf("turns of %+v", c.r), c.want, ids(c.r))
	}
	must(t, s.DeleteTurn(ctx, general, 3))
	must(t, s.DeleteTurn(ctx, general, 3))
	same(t, "turns without the third", "1245", ids(store.Range{Newest: 9}))
	list, _, err := s.Conversations(ctx, "", 100)
	must(t, err)
	same(t, "conversations", []store.ConversationInfo{{Address: general, Turns: 4, Last: noon}}, list)
	if _, _, err := s.TurnOf(ctx, "web/3"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the removed turn is still found (%v)", err)
	}
	must(t, s.DeleteConversation(ctx, general))
	if _, known, err := s.ConversationOf(ctx, "web/1"); known || err != nil {
		t.Errorf("a message of a removed conversation is known (%v)", err)
	}
}

// Where a post is follows its edits; one that was given up finishes the messages that it answers,
// and is listed for a week.
func postPlaces(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	ref := func(key string) []string {
		t.Helper()
		r, _, err := s.PostRef(ctx, key)
		must(t, err)
		return r.IDs
	}
	must(t, s.SavePosts(ctx, []store.Post{{Key: "a", To: general}}))
	same(t, "where a post is that was not made", 0, len(ref("a")))
	must(t, s.SaveOutcomes(ctx, []store.Outcome{{Key: "a", Ref: chat.Ref{IDs: []string{"1"}}, At: noon}}, 0))
	same(t, "where the post is", []string{"1"}, ref("a"))
	must(t, s.SavePosts(ctx, []store.Post{{Key: "b", To: general, Replaces: "a"}}))
	must(t, s.SaveOutcomes(ctx, []store.Outcome{{Key: "b", Ref: chat.Ref{IDs: []string{"1", "2"}}, At: noon}}, 0))
	same(t, "where it is after an edit", []string{"1", "2"}, ref("a"))
	same(t, "where the edit is", []string{"1", "2"}, ref("b"))
	// After a crash the edit may be stored again.
	must(t, s.SavePosts(ctx, []store.Post{{Key: "b", To: general, Replaces: "a"}}))
	pending, err := s.PendingPosts(ctx)
	must(t, err)
	same(t, "edits to be made once more", 0, len(pending))

	both := []string{"web/1", "web/2"}
	for _, id := range []string{"1", "2"} {
		_, err := s.Accept(ctx, store.Received{Message: message(id)})
		must(t, err)
	}
	must(t, s.SaveAnswer(ctx, general, both, nil, []store.Post{{
		Key:     "c",
		To:      general,
		Message: both[0],
		Also:    both[1:],
	}}))
	must(t, s.SaveOutcomes(ctx, []store.Outcome{{Key: "c", Error: "refused", At: noon}}, 0))
	waiting, err := s.Unanswered(ctx)
	must(t, err)
	same(t, "messages waiting after the outcome of the post for both", 0, len(waiting))
	must(t, s.MarkNotified(ctx, []string{"c", "no such post"}))
	lost, err := s.Undelivered(ctx)
	must(t, err)
	same(t, "posts given up of which the channel knows", true, len(lost) == 1 && lost[0].Notified)
	*now = noon.Add(8 * 24 * time.Hour)
	prune(t, s)
	lost, err = s.Undelivered(ctx)
	must(t, err)
	same(t, "posts given up a week ago", 0, len(lost))
}

// A conversation without a summary has the zero one; the summary goes with the conversation.
func summaries(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	none, err := s.Summary(ctx, general)
	must(t, err)
	same(t, "no summary", conversation.Summary{}, none)
	must(t, s.SaveTurn(ctx, general, &conversation.Turn{ID: "web/1", Began: noon}))
	want := conversation.Summary{Upto: 1, Text: "they said hello", At: noon}
	must(t, s.SaveSummary(ctx, general, want))
	got, err := s.Summary(ctx, general)
	must(t, err)
	same(t, "summary", want, got)
	must(t, s.DeleteConversation(ctx, general))
	got, err = s.Summary(ctx, general)
	must(t, err)
	same(t, "summary of a removed conversation", conversation.Summary{}, got)
}

// Where an answer has begun to be shown is known until its post has an outcome.
func begunAnswers(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	for _, ids := range [][]string{{"1"}, {"1", "2"}} {
		must(t, s.SaveStream(ctx, "a", chat.Ref{IDs: ids}))
		ref, found, err := s.Stream(ctx, "a")
		must(t, err)
		same(t, "where the answer is shown", true, found && len(ref.IDs) == len(ids))
	}
	must(t, s.SavePosts(ctx, []store.Post{{Key: "a", To: general}}))
	must(t, s.SaveOutcomes(ctx, []store.Outcome{{Key: "a", Ref: chat.Ref{IDs: []string{"1", "2"}}, At: noon}}, 0))
	_, found, err := s.Stream(ctx, "a")
	must(t, err)
	same(t, "a begun answer is known after its post", false, found)
}

// Without a retention old turns go only when a summary covers them, and their messages stay known.
func oldTurns(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	for i := range 4 {
		began := noon.Add(time.Duration(i) * 20 * 24 * time.Hour)
		must(t, s.SaveTurn(ctx, general, &conversation.Turn{ID: fmt.Sprint("web/", i+1), Began: began}))
	}
	*now = noon.Add(90 * 24 * time.Hour)
	left := func(want int) {
		t.Helper()
		prune(t, s)
		turns, err := s.Turns(ctx, general, store.Range{Newest: 9})
		must(t, err)
		same(t, "turns left", want, len(turns))
	}
	left(4)
	must(t, s.SaveSummary(ctx, general, conversation.Summary{Upto: 1, Text: "they said hello", At: *now}))
	left(3)
	must(t, s.SaveSummary(ctx, general, conversation.Summary{Upto: 2, Text: "they said hello", At: *now}))
	left(2)
	a, _, err := s.TurnOf(ctx, "web/1")
	if !errors.Is(err, store.ErrNotFound) || a != general {
		t.Errorf("the turn that went is in %v (%v), want its conversation known", a, err)
	}
	// A summary that has no words of them leaves nothing to be found.
	must(t, s.SaveSummary(ctx, general, conversation.Summary{Upto: 3, From: 3, Text: "they said hello", At: *now}))
	left(1)
	for i, want := range []chat.Address{{}, {}, general, general} {
		a, _, err := s.TurnOf(ctx, fmt.Sprint("web/", i+1))
		same(t, "the turn is found", i == 3, err == nil)
		same(t, fmt.Sprint("the conversation of message ", i+1), want, a)
	}
}

// The newest feedback of each user counts; it is kept for a year.
func newestFeedback(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	for _, f := range []store.Feedback{
		{Turn: "a", User: "U1", At: noon},
		{Turn: "a", User: "U2", At: noon},
		{Turn: "a", User: "U1", Good: true, At: noon},
	} {
		must(t, s.SaveFeedback(ctx, f))
	}
	list, err := s.Feedback(ctx)
	must(t, err)
	want := []store.Feedback{
		{Turn: "a", User: "U1", Good: true, At: noon},
		{Turn: "a", User: "U2", At: noon},
	}
	same(t, "feedback", want, list)
	same(t, "counts", [2]int{1, 1}, feedbackCounts(t, s))
	*now = noon.Add(400 * 24 * time.Hour)
	prune(t, s)
	list, err = s.Feedback(ctx)
	must(t, err)
	same(t, "feedback of last year", 0, len(list))
	same(t, "counts of last year", [2]int{}, feedbackCounts(t, s))
}

// feedbackCounts returns how much feedback calls its answer helpful, and how much does not.
func feedbackCounts(t *testing.T, s store.Store) [2]int {
	t.Helper()
	good, bad, err := s.FeedbackCounts(t.Context())
	must(t, err)
	return [2]int{good, bad}
}

// Reactions become feedback in whatever order their events come, and however often.
func reactions(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	step := 0
	react := func(user, post, sign string, good, gone bool, want string) {
		t.Helper()
		step++
		must(t, s.SaveReaction(ctx, store.Reaction{
			Turn: "a",
			User: user,
			Post: post,
			Sign: sign,
			Good: good,
			Gone: gone,
			At:   noon.Add(time.Duration(step) * time.Second),
		}))
		list, err := s.Feedback(ctx)
		must(t, err)
		same(t, "counts", [2]int{strings.Count(want, "good"), strings.Count(want, "bad")}, feedbackCounts(t, s))
		got := ""
		for _, f := range list {
			got += f.Turn + " " + f.User + map[bool]string{true: " good", false: " bad"}[f.Good] + "\n"
		}
		same(t, fmt.Sprintf("feedback after %s %s %s, good %v, gone %v", user, post, sign, good, gone), want, got)
	}
	react("U1", "p", "up", true, false, "a U1 good\n")
	react("U1", "p", "down", false, false, "a U1 bad\n")
	react("U1", "p", "down", false, true, "a U1 good\n") // the first stands still
	react("U1", "q", "up", true, true, "a U1 good\n")    // below the other post there is none
	react("U1", "p", "up", true, true, "")
	must(t, s.SaveReaction(ctx, store.Reaction{
		Turn: "a",
		User: "U1",
		Post: "p",
		Sign: "up",
		Good: true,
		At:   noon.Add(time.Second),
	})) // told again
	react("U2", "p", "up", true, false, "a U2 good\n")
	react("U1", "p", "heart", true, false, "a U1 good\na U2 good\n")
	react("U1", "q", "down", false, false, "a U1 bad\na U2 good\n")
	react("U3", "p", "up", true, true, "a U1 bad\na U2 good\n") // its beginning is told of below
	must(t, s.SaveReaction(ctx, store.Reaction{
		Turn: "a",
		User: "U3",
		Post: "p",
		Sign: "up",
		Good: true,
		At:   noon.Add(time.Second),
	}))
	react("", "p", "up", true, true, "a U1 bad\n")
	react("", "q", "", false, true, "a U1 good\n")
	must(t, s.SaveFeedback(ctx, store.Feedback{Turn: "a", User: "U1", At: noon}))
	react("U1", "p", "heart", true, true, "a U1 bad\n") // the button was the later word
}

// The turn that a message shows is found by its id and channel, since ids are unique in a channel
// alone.
func shownTurns(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	here, there := general, general
	there.Channel, there.Thread = "other", "thread"
	must(t, s.SavePosts(ctx, []store.Post{
		{Key: "1", To: here, Turn: "a", At: noon},
		{Key: "2", To: there, Turn: "b", At: noon},
		{Key: "3", To: here, At: noon},
	}))
	must(t, s.SaveOutcomes(ctx, []store.Outcome{
		{Key: "1", Ref: chat.Ref{IDs: []string{"10", "11"}}, At: noon},
		{Key: "2", Ref: chat.Ref{IDs: []string{"11"}}, At: noon},
		{Key: "3", Ref: chat.Ref{IDs: []string{"12"}}, At: noon},
	}, 0))
	for _, c := range []struct {
		channel, id string
		want        store.ShownTurn
	}{
		{here.Channel, "10", store.ShownTurn{To: here, Turn: "a"}},
		{here.Channel, "11", store.ShownTurn{To: here, Turn: "a"}},
		{"other", "11", store.ShownTurn{To: there, Turn: "b"}},
		{"thread", "11", store.ShownTurn{To: there, Turn: "b"}},
		{here.Channel, "12", store.ShownTurn{}},
		{here.Channel, "1", store.ShownTurn{}},
		{"other", "10", store.ShownTurn{}},
	} {
		in := here
		in.Channel = c.channel
		got, found, err := s.ShownTurn(ctx, in, c.id)
		must(t, err)
		same(t, "what "+c.id+" in "+c.channel+" shows", c.want, got)
		same(t, "whether it is known", c.want.Turn != "", found)
	}
	*now = noon.Add(40 * 24 * time.Hour)
	prune(t, s)
	_, found, err := s.ShownTurn(ctx, here, "10")
	must(t, err)
	same(t, "a post of last month is known", false, found)
}

// A layer of settings is replaced as a whole, and deleted by nil, as long as it is the one that the caller knows.
func settingLayers(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	a, b, c := []byte(`{"model":"a"}`), []byte(`{"model":"b"}`), []byte(`{"model":"c"}`)
	for i, step := range []struct {
		scope    string
		was, now []byte
		want     bool
	}{
		{"instance", nil, a, true},
		{"user/web/U1", a, b, false},
		{"user/web/U1", nil, nil, true},
		{"user/web/U1", nil, b, true},
		{"instance", nil, c, false},
		{"instance", b, c, false},
		{"instance", b, nil, false},
		{"instance", a, c, true},
		{"user/web/U1", b, nil, true},
	} {
		swapped, err := s.SwapSetting(ctx, step.scope, step.was, step.now)
		must(t, err)
		same(t, fmt.Sprintf("step %d swaps", i), step.want, swapped)
	}
	all, err := s.Settings(ctx)
	must(t, err)
	same(t, "settings", map[string][]byte{"instance": []byte(`{"model":"c"}`)}, all)
}

// Usage is summed by day; a turn that is answered again counts with what it has used since.
func usageCounted(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	turn := &conversation.Turn{
		ID:    "web/1",
		Model: "default",
		User:  "web/U1",
		Began: noon,
		Usage: llm.Usage{Input: 10, Output: 5},
	}
	must(t, s.SaveAnswer(ctx, general, []string{"web/1"}, turn, nil))
	_, again, err := s.TurnOf(ctx, "web/1")
	must(t, err)
	again.Usage = again.Usage.Add(llm.Usage{Input: 1, Output: 2}) // answered anew
	must(t, s.SaveAnswer(ctx, general, []string{"web/1~edited"}, &again, nil))
	*now = noon.Add(24 * time.Hour)
	must(t, s.SaveAnswer(ctx, general, []string{"web/2"}, &conversation.Turn{
		ID:    "web/2",
		Model: "default",
		User:  "web/U1",
		Began: noon,
		Usage: llm.Usage{Input: 7},
	}, nil))
	must(t, s.CountUsage(ctx, store.Usage{
		Model:   "default",
		Channel: general,
		User:    "web/U1",
		Tokens:  llm.Usage{Output: 3},
	}))
	first := store.Usage{
		Day:     "2026-03-04",
		Model:   "default",
		Channel: general,
		User:    "web/U1",
		Turns:   2,
		Tokens:  llm.Usage{Input: 11, Output: 7},
	}
	second := store.Usage{
		Day:     "2026-03-05",
		Model:   "default",
		Channel: general,
		User:    "web/U1",
		Turns:   1,
		Tokens:  llm.Usage{Input: 7, Output: 3},
	}
	for from, want := range map[string][]store.Usage{"": {first, second}, "2026-03-05": {second}, "2026-03-06": nil} {
		list, _, err := s.Usage(ctx, from, "", 100)
		must(t, err)
		same(t, "usage from "+from, want, list)
	}
}

// quotesIndexed checks that a turn is found by the messages that it quotes until it is deleted.
func quotesIndexed(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	quoting := func(id string) *conversation.Turn {
		return &conversation.Turn{ID: id, Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{
			{Text: "> said", Source: llm.SourceContext, Subject: "slack/8"},
			{Text: "> said twice", Source: llm.SourceContext, Subject: "slack/8"},
			{Text: "> said before", Source: llm.SourceContext, Subject: "slack/7"},
			{Text: "asked"},
		}}}}
	}
	first, second := quoting("web/1"), quoting("web/2")
	other := chat.Address{Platform: "web", Channel: "other"}
	must(t, s.SaveTurn(ctx, general, first))
	must(t, s.SaveTurn(ctx, general, first))
	must(t, s.SaveTurn(ctx, other, second))
	quote := func(when string, want ...store.TurnRef) {
		t.Helper()
		for _, subject := range []string{"slack/7", "slack/8"} {
			refs, err := s.TurnsQuoting(ctx, subject)
			must(t, err)
			if !slices.Equal(refs, want) {
				t.Errorf("turns that quote %s %s: %v, want %v", subject, when, refs, want)
			}
		}
	}
	quote("at first", store.TurnRef{Conversation: general, Seq: 1}, store.TurnRef{Conversation: other, Seq: 1})
	must(t, s.DeleteTurn(ctx, general, first.Seq))
	quote("after one is gone", store.TurnRef{Conversation: other, Seq: 1})
	must(t, s.DeleteConversation(ctx, other))
	quote("at the end")
}
