package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
)

// together runs fn n times at once and fails where one of them does.
func together(t *testing.T, n int, fn func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			if err := fn(i); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
}

// winners runs fn n times at once and returns how often it returned true.
func winners(t *testing.T, n int, fn func(i int) (bool, error)) int {
	t.Helper()
	var won atomic.Int64
	together(t, n, func(i int) error {
		is, err := fn(i)
		if is {
			won.Add(1)
		}
		return err
	})
	return int(won.Load())
}

// A transaction that shares its commit with others that fail is run again: no two turns get one number, and what a turn
// quotes is found.
func turnsBesideFailures(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	must(t, s.SaveItem(ctx, "server", "taken", json.RawMessage(`{}`), true))
	const rounds, turns = 40, 3
	for round := range rounds {
		a := chat.Address{Platform: "web", Channel: fmt.Sprint("room", round)}
		saved := make([]conversation.Turn, turns)
		together(t, turns+6, func(i int) error {
			if i >= turns {
				if err := s.SaveItem(ctx, "server", "taken", json.RawMessage(`{}`), false); !errors.Is(err, store.ErrExists) {
					return fmt.Errorf("a name that is taken: %w", err)
				}
				return nil
			}
			id := fmt.Sprint(round, "/", i)
			saved[i] = conversation.Turn{ID: id, Of: []string{"web/" + id}, Began: noon,
				Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "hello", Subject: "web/quoted" + id}}}}}
			if i == 0 {
				return s.SaveTurn(ctx, a, &saved[i])
			}
			return s.SaveAnswer(ctx, a, []string{id}, &saved[i], []store.Post{{Key: id, To: a, At: noon}})
		})
		kept, err := s.Turns(ctx, a, store.Range{Newest: 10})
		must(t, err)
		if len(kept) != turns {
			t.Fatalf("round %d: %d turns are kept of %d", round, len(kept), turns)
		}
		for _, turn := range saved {
			quoting, err := s.TurnsQuoting(ctx, "web/quoted"+turn.ID)
			must(t, err)
			same(t, "turns that quote a message", []store.TurnRef{{Conversation: a, Seq: turn.Seq}}, quoting)
		}
	}
}

// A turn under way may be saved after its conversation was deleted: the next one does not take its place.
func turnAfterDeletion(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	save := func(turn *conversation.Turn) {
		t.Helper()
		turn.Began = noon
		must(t, s.SaveTurn(ctx, general, turn))
	}
	for n := range 2 {
		save(&conversation.Turn{ID: fmt.Sprint("before", n)})
	}
	underWay := conversation.Turn{ID: "under way"}
	save(&underWay)
	must(t, s.DeleteConversation(ctx, general))
	save(&underWay)
	for n := range 4 {
		save(&conversation.Turn{ID: fmt.Sprint("after", n)})
	}
	kept, err := s.Turns(ctx, general, store.Range{Newest: 10})
	must(t, err)
	var ids []string
	for _, turn := range kept {
		ids = append(ids, turn.ID)
	}
	same(t, "turns", []string{"under way", "after0", "after1", "after2", "after3"}, ids)
}

// A message that is delivered again while its outcome is being stored is known: it must not be answered twice.
func knownBesideOutcome(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	for round := range 30 {
		r := store.Received{Message: message(fmt.Sprint(round)), At: noon}
		key := r.Message.Key()
		isNew, err := s.Accept(ctx, r)
		must(t, err)
		same(t, "the message is new", true, isNew)
		post := store.Post{Key: key, To: general, Message: key, At: noon}
		must(t, s.SaveAnswer(ctx, general, []string{key}, nil, []store.Post{post}))
		same(t, "accepted once more", 0, winners(t, 8, func(i int) (bool, error) {
			if i == 4 {
				return false, s.SaveOutcomes(ctx, []store.Outcome{{Key: key, Ref: chat.Ref{IDs: []string{"1"}}, At: noon}}, 0)
			}
			return s.Accept(ctx, r)
		}))
		waiting, err := s.Unanswered(ctx)
		must(t, err)
		same(t, "messages that wait", 0, len(waiting))
	}
}

// Of several who store the same thing at once, exactly one is told that it was new.
func firstWins(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	for round := range 5 {
		m := message(fmt.Sprint(round))
		same(t, "accepted messages of one key", 1, winners(t, 8, func(int) (bool, error) {
			return s.Accept(ctx, store.Received{Message: m, At: noon})
		}))
		run := store.Run{Digest: "morning", Due: noon.Add(time.Duration(round) * time.Hour), Ended: noon, OK: true}
		same(t, "runs for one due time", 1, winners(t, 8, func(i int) (bool, error) {
			return s.FinishRun(ctx, run, []string{"x"}, []store.Post{{Key: fmt.Sprint("run/", round, i), To: general}})
		}))
		name := fmt.Sprint("item", round)
		same(t, "items made of nothing", 1, winners(t, 8, func(i int) (bool, error) {
			return s.SwapItem(ctx, "job", name, nil, fmt.Appendf(nil, `{"n":%d}`, i), nil)
		}))
		was, err := s.Item(ctx, "job", name)
		must(t, err)
		same(t, "items replaced by another", 1, winners(t, 8, func(i int) (bool, error) {
			return s.SwapItem(ctx, "job", name, was, fmt.Appendf(nil, `{"next":%d}`, i), nil)
		}))
		same(t, "settings made of nothing", 1, winners(t, 8, func(i int) (bool, error) {
			return s.SwapSetting(ctx, name, nil, fmt.Appendf(nil, `{"n":%d}`, i))
		}))
		layers, err := s.Settings(ctx)
		must(t, err)
		same(t, "settings replaced by others", 1, winners(t, 8, func(i int) (bool, error) {
			return s.SwapSetting(ctx, name, layers[name], fmt.Appendf(nil, `{"next":%d}`, i))
		}))
		same(t, "items made where there must be none", 1, winners(t, 8, func(int) (bool, error) {
			err := s.SaveItem(ctx, "server", name, json.RawMessage(`{}`), false)
			if errors.Is(err, store.ErrExists) {
				return false, nil
			}
			return err == nil, err
		}))
		same(t, "notes of one text", 1, winners(t, 8, func(int) (bool, error) {
			_, isNew, err := s.SaveMemory(ctx, store.Memory{Scope: "a", Text: name, At: noon}, 100)
			return isNew, err
		}))
		same(t, "messages of one id", 1, winners(t, 8, func(int) (bool, error) {
			added, err := s.SaveMessages(ctx, []store.Message{{Conversation: general, ID: name, At: noon}})
			return added > 0, err
		}))
	}
	waiting, err := s.Unanswered(ctx)
	must(t, err)
	same(t, "messages that wait", 5, len(waiting))
	pending, err := s.PendingPosts(ctx)
	must(t, err)
	same(t, "posts of the runs that counted", 5, len(pending))
}

// What is counted is right however many count at once, and a limit is not passed.
func countedTogether(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	const writers, each = 6, 5
	kept := winners(t, writers*each, func(i int) (bool, error) {
		_, isNew, err := s.SaveMemory(ctx, store.Memory{Scope: "full", Text: fmt.Sprint(i), At: noon}, 7)
		if errors.Is(err, store.ErrFull) {
			err = nil
		}
		return isNew, err
	})
	same(t, "notes of a scope that holds 7", 7, kept)
	notes, err := s.Memories(ctx, "full")
	must(t, err)
	same(t, "notes that are there", 7, len(notes))
	numbers := map[uint64]bool{}
	for _, m := range notes {
		numbers[m.N] = true
	}
	same(t, "their numbers", 7, len(numbers))

	together(t, writers, func(w int) error {
		for i := range each {
			turn := &conversation.Turn{ID: fmt.Sprint(w, "/", i), Model: "m", User: "u", Began: noon, Usage: llm.Usage{Input: 1}}
			if err := s.SaveAnswer(ctx, general, nil, turn, nil); err != nil {
				return err
			}
			used := store.Usage{Model: "m", Channel: general, User: "u", Tokens: llm.Usage{Output: 1}}
			if err := s.CountUsage(ctx, used); err != nil {
				return err
			}
			if _, err := s.SaveRoomFile(ctx, "general", chat.File{Name: "a"}); err != nil {
				return err
			}
			if _, err := s.SaveEntry(ctx, store.Entry{ID: turn.ID, Room: "general", At: noon}); err != nil {
				return err
			}
		}
		return nil
	})
	turns, err := s.Turns(ctx, general, store.Range{Newest: 1000})
	must(t, err)
	list, _, err := s.Conversations(ctx, "", 10)
	must(t, err)
	same(t, "turns that the list counts", writers*each, list[0].Turns)
	usage, _, err := s.Usage(ctx, "", "", 10)
	must(t, err)
	want := store.Usage{Day: "2026-03-04", Model: "m", Channel: general, User: "u", Turns: writers * each,
		Tokens: llm.Usage{Input: writers * each, Output: writers * each}}
	same(t, "the sum", []store.Usage{want}, usage)
	for i, turn := range turns {
		same(t, "the number of a turn", uint64(i+1), turn.Seq)
	}
	lines, err := s.Entries(ctx, "general", 0, 1000)
	must(t, err)
	for i, e := range lines {
		same(t, "the number of a line", uint64(i+1), e.Seq)
	}
	same(t, "lines", writers*each, len(lines))
	_, err = s.RoomFile(ctx, "general", writers*each)
	must(t, err)
}

// What one stores after the other is listed in that order, whatever others store meanwhile.
func orderKept(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	const writers, each = 6, 10
	together(t, writers, func(w int) error {
		for i := range each {
			id := fmt.Sprintf("%d/%02d", w, each-i) // their keys say the opposite of their order
			if _, err := s.Accept(ctx, store.Received{Message: message(id), At: noon}); err != nil {
				return err
			}
			posts := []store.Post{{Key: id + "/a", To: general, At: noon}, {Key: id + "/9", To: general, At: noon}}
			if err := s.SavePosts(ctx, posts); err != nil {
				return err
			}
			if posts[0].Seq == 0 || posts[0].Seq >= posts[1].Seq {
				return fmt.Errorf("posts of one call are numbered %d and %d", posts[0].Seq, posts[1].Seq)
			}
		}
		return nil
	})
	var messages, posts []string
	waiting, err := s.Unanswered(ctx)
	must(t, err)
	for _, r := range waiting {
		messages = append(messages, r.Message.ID)
	}
	pending, err := s.PendingPosts(ctx)
	must(t, err)
	for _, p := range pending {
		posts = append(posts, p.Key)
	}
	for w := range writers {
		var wantMessages, wantPosts []string
		for i := range each {
			id := fmt.Sprintf("%d/%02d", w, each-i)
			wantMessages, wantPosts = append(wantMessages, id), append(wantPosts, id+"/a", id+"/9")
		}
		of := func(list []string) []string {
			isOthers := func(id string) bool { return !strings.HasPrefix(id, fmt.Sprint(w, "/")) }
			return slices.DeleteFunc(slices.Clone(list), isOthers)
		}
		same(t, "messages of one writer", wantMessages, of(messages))
		same(t, "posts of one writer", wantPosts, of(posts))
	}
}

// Whoever reads page by page meets all that is there from beginning to end once, whatever comes and goes.
func pagesUnderWrites(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	room := func(i int) chat.Address { return chat.Address{Platform: "web", Channel: fmt.Sprintf("room%03d", i)} }
	for i := range 30 {
		must(t, s.SaveTurn(ctx, room(i), &conversation.Turn{ID: fmt.Sprint(i), Began: noon}))
	}
	var met []string
	for cursor, step := "", 0; ; step++ {
		list, next, err := s.Conversations(ctx, cursor, 4)
		must(t, err)
		for _, info := range list {
			met = append(met, info.Address.Channel)
		}
		if cursor = next; cursor == "" {
			break
		}
		// The one that the cursor stands on goes, one behind it grows, and some come before and behind.
		must(t, s.DeleteConversation(ctx, list[len(list)-1].Address))
		must(t, s.SaveTurn(ctx, room(29), &conversation.Turn{ID: fmt.Sprint("more", step), Began: noon}))
		for _, at := range []string{"a", "room029z"} {
			a := chat.Address{Platform: "web", Channel: fmt.Sprint(at, step)}
			must(t, s.SaveTurn(ctx, a, &conversation.Turn{ID: a.Channel, Began: noon}))
		}
	}
	times := map[string]int{}
	for _, channel := range met {
		times[channel]++
		same(t, "how often "+channel+" was met", 1, times[channel])
	}
	for i := range 30 {
		same(t, "how often "+room(i).Channel+" was met", 1, times[room(i).Channel])
	}
}

// A version changes with what is kept, and with nothing else.
func versionsChange(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	version := func() store.ConversationVersion {
		t.Helper()
		list, err := s.Versions(ctx, general)
		must(t, err)
		for _, v := range list {
			if v.Address == general {
				return v
			}
		}
		return store.ConversationVersion{}
	}
	first, second := &conversation.Turn{ID: "1", Began: noon}, &conversation.Turn{ID: "2", Began: noon}
	must(t, s.SaveTurn(ctx, general, first))
	must(t, s.SaveTurn(ctx, general, second))
	_, err := s.SaveMessages(ctx, []store.Message{{Conversation: general, ID: "a", At: noon}})
	must(t, err)
	before := version()
	must(t, s.SaveTurn(ctx, general, first))
	must(t, s.SaveSummary(ctx, general, conversation.Summary{Upto: 1, Text: "words", At: noon}))
	_, err = s.SaveMessages(ctx, []store.Message{{Conversation: general, ID: "a", At: noon}})
	must(t, err)
	must(t, s.DeleteMessage(ctx, "web", "none"))
	same(t, "the version when nothing of it changed", before, version())

	first.State = conversation.Answered
	must(t, s.SaveTurn(ctx, general, first))
	after := version()
	if after.Turns[1] == before.Turns[1] || after.Turns[2] != before.Turns[2] || after.Messages != before.Messages {
		t.Errorf("a turn changed: from %v to %v", before, after)
	}
	must(t, s.DeleteTurn(ctx, general, 2))
	same(t, "turns with a version when one was deleted", 1, len(version().Turns))

	_, err = s.SaveMessages(ctx, []store.Message{{Conversation: general, ID: "b", At: noon}})
	must(t, err)
	added := version()
	if added.Messages == after.Messages || added.Turns[1] != after.Turns[1] {
		t.Errorf("a message was added: from %v to %v", after, added)
	}
	for _, id := range []string{"a", "b"} {
		must(t, s.DeleteMessage(ctx, "web", id))
	}
	same(t, "the version of no messages", uint64(0), version().Messages)
	// A conversation that was deleted and comes again is another one.
	must(t, s.DeleteConversation(ctx, general))
	_, err = s.SaveMessages(ctx, []store.Message{{Conversation: general, ID: "c", At: noon}})
	must(t, err)
	if again := version(); again.Messages == before.Messages || again.Messages == added.Messages {
		t.Errorf("messages of a new conversation have the version of old ones: %v", again)
	}
}

// Reactions that arrive together all count.
func reactionsTogether(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	const n = 8
	together(t, n, func(i int) error {
		return s.SaveReaction(ctx, store.Reaction{Turn: "a", User: "U", Post: "p", Sign: fmt.Sprint(i), Good: true, At: noon})
	})
	list, err := s.Feedback(ctx)
	must(t, err)
	same(t, "feedback", 1, len(list))
	same(t, "signs of it", n, len(list[0].Signs))
}

// odd are texts that databases have trouble with.
func odd() []string {
	return []string{"", "\x00", "a\x00b", "\x01", "\xff\xfe", "\xed\xa0\x80", `\u0000`, `"'\;--%_`, "å€𝄞",
		strings.Repeat("long ", 700)}
}

// Any text may stand in a record, and any but the longest in a name.
func oddTexts(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	for i, text := range odd() {
		name := fmt.Sprint(i, text[:min(len(text), 40)])
		m := message(name)
		m.Text = text
		for _, want := range []bool{true, false} {
			isNew, err := s.Accept(ctx, store.Received{Message: m, At: noon})
			must(t, err)
			same(t, "the message is new", want, isNew)
		}
		a, known, err := s.ConversationOf(ctx, m.Subject())
		must(t, err)
		same(t, "where it is", general, a)
		same(t, "it is known", true, known)
		turn := &conversation.Turn{ID: name, Of: []string{m.Subject()}, Began: noon, User: name, Model: name,
			Usage: llm.Usage{Input: 1}}
		post := store.Post{Key: name, To: general, Draft: chat.Draft{Text: text}, Message: m.Key(), Turn: name, At: noon}
		must(t, s.SaveAnswer(ctx, general, []string{m.Key()}, turn, []store.Post{post}))
		_, got, err := s.TurnOf(ctx, m.Subject())
		must(t, err)
		same(t, "the turn of the message", turn.Seq, got.Seq)
		must(t, s.SaveOutcomes(ctx, []store.Outcome{{Key: name, Ref: chat.Ref{IDs: []string{name}}, At: noon}}, 0))
		_, known, err = s.PostRef(ctx, name)
		must(t, err)
		same(t, "where the post is, is known", true, known)
		shown, _, err := s.ShownTurn(ctx, general, name)
		must(t, err)
		same(t, "the turn that is shown", strings.ToValidUTF8(name, "\uFFFD") == name, shown.Turn == name)

		must(t, s.SaveItem(ctx, "kind"+name, name, json.RawMessage(`{"a":"\u0000"}`), false))
		items, err := s.Items(ctx, "kind"+name)
		must(t, err)
		same(t, "the item", map[string]json.RawMessage{name: json.RawMessage(`{"a":"\u0000"}`)}, items)
		_, err = s.SwapSetting(ctx, name, nil, []byte(`{}`))
		must(t, err)
		_, _, err = s.SaveMemory(ctx, store.Memory{Scope: name, Text: text, At: noon}, 10)
		must(t, err)
		_, err = s.SaveEntry(ctx, store.Entry{ID: name, Room: name, Text: text, At: noon})
		must(t, err)
		_, err = s.SaveRoomFile(ctx, name, chat.File{Name: text, Data: []byte(text)})
		must(t, err)
		file, err := s.RoomFile(ctx, name, 1)
		must(t, err)
		same(t, "bytes of the file", text, string(file.Data))

		// Feeds choose their own identifiers, of any length.
		must(t, s.SaveFeeds(ctx, store.Feed{URL: text + "url", Data: []byte(`{}`)}))
		_, known, err = s.LoadFeed(ctx, text+"url")
		must(t, err)
		same(t, "the feed is known", true, known)
		must(t, s.SaveSubscription(ctx, store.Subscription{To: general, URL: text + "url", At: noon}))
		must(t, s.DeleteSubscription(ctx, general, text+"url"))
		run := store.Run{Digest: "d" + name, Due: noon, Ended: noon}
		_, err = s.FinishRun(ctx, run, []string{text + "1", text + "2", text + "1"}, nil)
		must(t, err)
		seen, _, err := s.SeenItems(ctx, "d"+name, []string{text + "1", text + "3"})
		must(t, err)
		same(t, "items that were seen", map[string]bool{text + "1": true}, seen)
		oddRecords(t, s, name, text)
	}
	settings, err := s.Settings(ctx)
	must(t, err)
	scopes, err := s.MemoryScopes(ctx)
	must(t, err)
	rooms, err := s.Rooms(ctx)
	must(t, err)
	for i, text := range odd() {
		name := fmt.Sprint(i, text[:min(len(text), 40)])
		if settings[name] == nil || !slices.Contains(scopes, name) || !slices.Contains(rooms, name) {
			t.Errorf("%q is missing in settings, scopes or rooms", name)
		}
	}
}

// oddRecords stores a text in records that maintenance, lists and decisions look into.
func oddRecords(t *testing.T, s store.Store, name, text string) {
	t.Helper()
	ctx := t.Context()
	turn := &conversation.Turn{ID: "newest" + name, Began: noon.Add(time.Minute), Messages: []llm.Message{{
		Role: llm.User, Parts: []llm.Part{{Text: text, Raw: json.RawMessage(`{"a":"\u0000\ud800"}`)}}}}}
	must(t, s.SaveTurn(ctx, general, turn))
	must(t, s.SaveSummary(ctx, general, conversation.Summary{Upto: 1, Text: text + `\u0000`, At: noon}))
	prune(t, s)
	list, _, err := s.Conversations(ctx, "", 9)
	must(t, err)
	same(t, "conversations", 1, len(list))
	same(t, "when the newest turn began", noon.Add(time.Minute), list[0].Last)
	asked := store.Approval{ID: "a", Turn: name, Call: name, Reason: text, At: noon,
		Args: json.RawMessage(`{"a":"\u0000\ud800"}`)}
	must(t, s.SaveApproval(ctx, asked))
	asked.Decision = store.Approved
	for _, want := range []bool{true, false} {
		decided, err := s.DecideApproval(ctx, asked)
		must(t, err)
		same(t, "it is decided", want, decided)
	}
}

// Names are kept apart to the last byte.
func namesApart(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	names := []string{"a", "A", "á", "a\u0301", "a ", "a\x00", "a\x00b", "\x01\"a\"", "ﬀ", "ff"}
	for i, name := range names {
		must(t, s.SaveItem(ctx, "kind", name, fmt.Appendf(nil, "%d", i), false))
		_, err := s.FinishRun(ctx, store.Run{Digest: "d", Due: noon.Add(time.Duration(i)), Ended: noon}, []string{name}, nil)
		must(t, err)
	}
	items, err := s.Items(ctx, "kind")
	must(t, err)
	same(t, "items", len(names), len(items))
	seen, _, err := s.SeenItems(ctx, "d", names)
	must(t, err)
	same(t, "items that were seen", len(names), len(seen))
	runs, err := s.LastRuns(ctx, "d", 100)
	must(t, err)
	same(t, "runs a nanosecond apart", len(names), len(runs))
}
