// Package storetest is the test suite of all implementations of store.Store.
package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
)

// Open returns an empty store that reads the time from now and is closed when the test ends.
type Open func(t *testing.T, now func() time.Time) store.Store

var (
	noon    = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	general = chat.Address{Platform: "web", Channel: "general"}
)

// Run runs the suite. Each test gets a store of its own, and a clock that it may set.
func Run(t *testing.T, open Open) {
	stories := map[string]func(*testing.T, store.Store, *time.Time){
		"a message is kept until its answer is posted":          messageUntilPosted,
		"an undelivered post stays visible":                     postUndelivered,
		"keys of finished messages are kept for two days":       doneKeysPruned,
		"a turn is saved in place as it grows":                  turnGrows,
		"a turn is found by the messages that it quotes":        quotesIndexed,
		"a conversation is listed and deleted":                  conversationDeleted,
		"a digest runs once for a due time":                     runOnce,
		"a change finds its message's conversation":             conversationOfMessage,
		"the last seen message is kept for a month":             lastSeen,
		"turns are read by range, and deleted one by one":       turnRanges,
		"a post's place is found, also after it was replaced":   postPlaces,
		"the usage of a turn is counted once":                   usageCounted,
		"a layer of settings is kept until it is cleared":       settingLayers,
		"a user's newest feedback on an answer counts":          newestFeedback,
		"a reaction is feedback that can be withdrawn":          reactions,
		"a message of the bot leads to the turn that it shows":  shownTurns,
		"the place of a begun answer is kept until its post":    begunAnswers,
		"old turns are pruned when a summary covers them":       oldTurns,
		"a summary is kept until its conversation is deleted":   summaries,
		"a subscription is kept until it is deleted":            subscriptions,
		"a blob is returned as it was saved":                    blobs,
		"a feed's record is returned as it was saved":           feedRecord,
		"a room keeps its lines in order, one for each id":      roomLines,
		"a memory stays in its scope until it is deleted":       memories,
		"messages outside of turns are kept by time":            messagesOutsideTurns,
		"calls are listed newest first, with their results":     callsListed,
		"an approval is kept with its decision":                 approvalKept,
		"an item is replaced only with overwrite":               itemsKept,
		"what is over its time is nowhere any more":             overItsTime,
		"a summary goes with the oldest words in it":            summaryOverItsTime,
		"an item is swapped with its posts, or not at all":      itemsSwapped,
		"conversations and usage are listed page by page":       pages,
		"of several at once exactly one is first":               firstWins,
		"a message is known while its outcome is stored":        knownBesideOutcome,
		"what several count at once is counted":                 countedTogether,
		"each turn has its number, whatever fails beside it":    turnsBesideFailures,
		"a turn that outlasts its conversation keeps its place": turnAfterDeletion,
		"the order of each writer is kept":                      orderKept,
		"pages under writes miss nothing":                       pagesUnderWrites,
		"a version changes with what is kept":                   versionsChange,
		"reactions that arrive together all count":              reactionsTogether,
		"any text may be kept":                                  oddTexts,
		"names are kept apart to the last byte":                 namesApart,
		"a post that waits is kept as it was stored first":      firstPostKept,
		"a room keeps as many lines and files as it says":       roomLimits,
		"a digest keeps its newest runs":                        runLimit,
		"what cannot be written is refused as a whole":          unwritable,
		"what is kept for a time of its own is kept that long":  timesKept,
		"the last seen message is kept for no longer":           lastSeenKept,
		"without a retention nothing goes":                      withoutEnd,
		"a young turn keeps those behind it":                    youngTurnFirst,
		"a post that was replaced late stays known":             replacedLate,
		"posts have numbers, however they are stored":           postsNumbered,
		"a list is as long as it is asked for":                  listLengths,
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			now := noon
			story(t, open(t, func() time.Time { return now }), &now)
		})
	}
}

// message returns a message of the conversation general, addressed to the bot.
func message(id string) chat.Message {
	return chat.Message{ID: id, Conversation: general, Text: "hello", Reach: chat.Addressed, Time: noon}
}

// must ends the test where there is an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// same fails the test where two values differ, and goes on.
func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// A message waits until the post that answers it has an outcome, whatever is stored twice
// meanwhile.
func messageUntilPosted(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	first := store.Received{Message: message("1"), At: noon}
	second := store.Received{Message: message("2"), At: noon}
	for _, r := range []store.Received{first, second, first} {
		_, err := s.Accept(ctx, r)
		must(t, err)
	}
	waiting, err := s.Unanswered(ctx)
	must(t, err)
	same(t, "waiting", []store.Received{first, second}, waiting)

	turn := &conversation.Turn{ID: "web/1", State: conversation.Answered, Began: noon}
	post := store.Post{
		Key:     "web/1",
		To:      general,
		Draft:   chat.Draft{Key: "web/1", Text: "hi"},
		Message: "web/1",
		At:      noon,
	}
	must(t, s.SaveAnswer(ctx, general, []string{"web/1"}, turn, []store.Post{post}))
	must(t, s.SaveAnswer(ctx, general, []string{"web/1"}, turn, []store.Post{post}))
	pending, err := s.PendingPosts(ctx)
	must(t, err)
	if len(pending) != 1 || pending[0].Draft.Text != "hi" {
		t.Fatalf("pending posts %+v, want the one answer", pending)
	}
	waiting, err = s.Unanswered(ctx)
	must(t, err)
	same(t, "messages waiting while the answer is on its way", 2, len(waiting))

	must(t, s.SaveOutcomes(ctx, []store.Outcome{{Key: "web/1", Ref: chat.Ref{IDs: []string{"9"}}, At: noon}}, 0))
	must(t, s.SaveAnswer(ctx, general, []string{second.Message.Key()}, nil, nil))
	waiting, err = s.Unanswered(ctx)
	must(t, err)
	pending, err = s.PendingPosts(ctx)
	must(t, err)
	if len(waiting)+len(pending) != 0 {
		t.Errorf("after the posts %d messages and %d posts are left", len(waiting), len(pending))
	}
	isNew, err := s.Accept(ctx, first)
	must(t, err)
	if isNew {
		t.Error("a message was new again after it had been answered")
	}
}

// A post that was given up no longer waits, and its place is to be told once.
func postUndelivered(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	must(t, s.SavePosts(ctx, []store.Post{{Key: "a", To: general}, {Key: "b", To: general}, {Key: "a", To: general}}))
	must(t, s.SaveOutcomes(ctx, []store.Outcome{{Key: "a", Error: "no such channel", At: noon}}, 0))
	pending, err := s.PendingPosts(ctx)
	must(t, err)
	lost, err := s.Undelivered(ctx)
	must(t, err)
	if len(pending) != 1 || pending[0].Key != "b" || len(lost) != 1 || lost[0].Error != "no such channel" {
		t.Errorf("pending %+v and given up %+v, want b and a", pending, lost)
	}
	unnotified, err := s.Unnotified(ctx)
	must(t, err)
	must(t, s.MarkNotified(ctx, []string{"a"}))
	notified, err := s.Unnotified(ctx)
	must(t, err)
	if len(unnotified) != 1 || unnotified[0].Key != "a" || len(notified) != 0 {
		t.Errorf("to give notice of: %+v, and after the notice %+v", unnotified, notified)
	}
	// A post that was made is not given up by a second outcome.
	must(t, s.SavePosts(ctx, []store.Post{{Key: "made", To: general}}))
	must(t, s.SaveOutcomes(ctx, []store.Outcome{
		{Key: "made", Ref: chat.Ref{IDs: []string{"1"}}, At: noon}, {Key: "made", Error: "late", At: noon},
		{Key: "made", Ref: chat.Ref{IDs: []string{"2"}}, At: noon}}, 0))
	ref, _, err := s.PostRef(ctx, "made")
	must(t, err)
	same(t, "where the post is", []string{"1"}, ref.IDs)
	lost, err = s.Undelivered(ctx)
	must(t, err)
	same(t, "posts given up", 1, len(lost))
	both := []string{"c", "d"}
	for _, key := range both {
		must(t, s.SavePosts(ctx, []store.Post{{Key: key, To: general}}))
		must(t, s.SaveOutcomes(ctx, []store.Outcome{{Key: key, Error: "no such channel", At: noon}}, 0))
	}
	must(t, s.MarkNotified(ctx, both))
	notified, err = s.Unnotified(ctx)
	must(t, err)
	same(t, "posts to give notice of after a notice of two", 0, len(notified))
}

// A message that was answered counts as a repeat for two days.
func doneKeysPruned(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	m := message("1")
	_, err := s.Accept(ctx, store.Received{Message: m})
	must(t, err)
	must(t, s.SaveAnswer(ctx, general, []string{m.Key()}, nil, nil))
	for _, c := range []struct {
		after time.Duration
		isNew bool
	}{{time.Hour, false}, {72 * time.Hour, true}} {
		*now = noon.Add(c.after)
		prune(t, s)
		isNew, err := s.Accept(ctx, store.Received{Message: m})
		must(t, err)
		if isNew != c.isNew {
			t.Errorf("after %v the message counts as new: %v", c.after, isNew)
		}
	}
}

// A turn is replaced as it grows, and raw parts of a provider come back byte by byte.
func turnGrows(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	for i := range 3 {
		turn := conversation.Turn{ID: fmt.Sprint(i), State: conversation.Open, Began: noon}
		must(t, s.SaveTurn(ctx, general, &turn))
		turn.State = conversation.Answered
		turn.Messages = []llm.Message{{
			Role:  llm.Assistant,
			Parts: []llm.Part{{Text: "é<&>", Raw: []byte(`{"thoughtSignature":"q+8="}`)}},
		}}
		must(t, s.SaveTurn(ctx, general, &turn))
	}
	turns, err := s.Turns(ctx, general, store.Range{Newest: 2})
	must(t, err)
	if len(turns) != 2 || turns[0].ID != "1" || turns[1].ID != "2" || turns[1].State != conversation.Answered {
		t.Fatalf("the newest two turns are %+v", turns)
	}
	same(t, "raw bytes", `{"thoughtSignature":"q+8="}`, string(turns[1].Messages[0].Parts[0].Raw))
}

// A conversation that was deleted is neither listed nor there.
func conversationDeleted(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	turn := conversation.Turn{ID: "1", Began: noon}
	must(t, s.SaveTurn(ctx, general, &turn))
	list, _, err := s.Conversations(ctx, "", 100)
	must(t, err)
	same(t, "conversations", []store.ConversationInfo{{Address: general, Turns: 1, Last: noon}}, list)
	has, err := s.HasConversation(ctx, general)
	must(t, err)
	same(t, "the conversation is there", true, has)
	must(t, s.DeleteConversation(ctx, general))
	has, err = s.HasConversation(ctx, general)
	must(t, err)
	same(t, "the conversation is there", false, has)
}

// Of two runs for the same due time the first is stored, with its posts and items; a run with an
// item that cannot be stored is not. A run that is amended makes items unseen again.
func runOnce(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	run := store.Run{Digest: "morning", Due: noon, Ended: noon, OK: true, Posted: 2}
	posts := []store.Post{{Key: "digest/morning/1", To: general}}
	must(t, s.SaveItem(ctx, "verdicts", "morning", []byte(`"of yesterday"`), false))
	for i, want := range []bool{true, false} {
		items := []store.Item{
			{Kind: "verdicts", Name: "morning", Data: fmt.Appendf(nil, `"of run %d"`, i)},
			{Kind: "posted/morning", Name: "1", Data: fmt.Appendf(nil, `"of run %d"`, i)},
		}
		isNew, err := s.FinishRun(ctx, run, []string{"x", "y"}, posts, items...)
		must(t, err)
		same(t, fmt.Sprintf("run %d is new", i), want, isNew)
	}
	// The items are those of the run that was stored, and with one that cannot be stored there is no run.
	for kind, name := range map[string]string{"verdicts": "morning", "posted/morning": "1"} {
		item, err := s.Item(ctx, kind, name)
		must(t, err)
		same(t, "item of a run", `"of run 0"`, string(item))
	}
	broken := store.Run{Digest: "morning", Due: noon.Add(time.Minute), Ended: noon}
	if _, err := s.FinishRun(ctx, broken, []string{"z"}, nil, store.Item{
		Kind: "verdicts",
		Name: "morning",
		Data: []byte(`{`),
	}); err == nil {
		t.Error("an item that is no JSON is stored")
	}
	later := run
	later.Due, later.Posted = noon.Add(time.Hour), 0
	_, err := s.FinishRun(ctx, later, []string{"w"}, nil)
	must(t, err)
	runs, err := s.LastRuns(ctx, "morning", 5)
	must(t, err)
	same(t, "runs, newest first", []store.Run{later, run}, runs)
	seen, ever, err := s.SeenItems(ctx, "morning", []string{"w", "x", "z"})
	must(t, err)
	same(t, "seen", map[string]bool{"w": true, "x": true}, seen)
	same(t, "ever ran", true, ever)
	_, ever, err = s.SeenItems(ctx, "evening", nil)
	must(t, err)
	same(t, "another digest ever ran", false, ever)
	pending, err := s.PendingPosts(ctx)
	must(t, err)
	same(t, "posts of both runs", 1, len(pending))

	unwritable := run
	unwritable.Ended = farAway
	if err := s.AmendRun(ctx, unwritable, []string{"y"}); err == nil {
		t.Error("a run is replaced by one that cannot be written")
	}
	if err := s.AmendRun(ctx, store.Run{Digest: "evening", Due: noon}, nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("amending a run of a digest that never ran: %v", err)
	}
	run.OK, run.Note = false, "nobody took it"
	must(t, s.AmendRun(ctx, run, []string{"x"}))
	seen, _, err = s.SeenItems(ctx, "morning", []string{"x", "y"})
	must(t, err)
	same(t, "seen after the run was amended", map[string]bool{"y": true}, seen)
	runs, err = s.LastRuns(ctx, "morning", 5)
	must(t, err)
	same(t, "runs after one was amended", []store.Run{later, run}, runs)
}

// Records of feeds are stored together or not at all.
func feedRecord(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	want := store.Feed{URL: "https://example.org/feed", Data: []byte(`{"etag":"\"a\""}`)}
	must(t, s.SaveFeeds(ctx, want))
	got, found, err := s.LoadFeed(ctx, want.URL)
	must(t, err)
	same(t, "found", true, found)
	same(t, "feed", want, got)
	_, found, err = s.LoadFeed(ctx, "https://example.org/other")
	must(t, err)
	same(t, "found", false, found)

	// Records are stored together: those that are there are replaced, and with one that cannot be stored none is.
	newer := store.Feed{URL: want.URL, Data: []byte(`{"etag":"\"b\""}`)}
	other := store.Feed{URL: "https://example.org/other", Data: []byte(`{}`)}
	broken := store.Feed{URL: "https://example.org/broken", Data: []byte(`{`)}
	if err := s.SaveFeeds(ctx, newer, other, broken); err == nil {
		t.Error("a record that is no JSON is stored")
	}
	got, _, err = s.LoadFeed(ctx, want.URL)
	must(t, err)
	same(t, "feed beside one that cannot be stored", want, got)
	must(t, s.SaveFeeds(ctx, other, newer))
	for _, want := range []store.Feed{newer, other} {
		got, _, err = s.LoadFeed(ctx, want.URL)
		must(t, err)
		same(t, "feed stored with another", want, got)
	}
}

// A subscription is stored once, however often it is made.
func subscriptions(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	want := store.Subscription{To: general, URL: "https://example.org/feed", Title: "Feed", At: noon}
	for range 2 {
		must(t, s.SaveSubscription(ctx, want))
	}
	list, err := s.Subscriptions(ctx)
	must(t, err)
	same(t, "subscriptions", []store.Subscription{want}, list)
	must(t, s.DeleteSubscription(ctx, want.To, want.URL))
	if err := s.DeleteSubscription(ctx, want.To, want.URL); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("removing what is not there: %v", err)
	}
}

// A blob that was never saved is nil.
func blobs(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	none, err := s.LoadBlob(ctx, "files")
	must(t, err)
	same(t, "before", 0, len(none))
	must(t, s.SaveBlob(ctx, "files", []byte(`{"tools":[]}`)))
	list, err := s.LoadBlob(ctx, "files")
	must(t, err)
	same(t, "after", `{"tools":[]}`, string(list))
}

// A line that is written again keeps its place; a room that was deleted begins anew.
func roomLines(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	for i := range 5 {
		_, err := s.SaveEntry(ctx, store.Entry{ID: fmt.Sprint(i), Room: "general", Text: "one", At: noon})
		must(t, err)
	}
	again, err := s.SaveEntry(ctx, store.Entry{ID: "3", Room: "general", Text: "two", At: noon})
	must(t, err)
	same(t, "the place of the line written again", uint64(4), again.Seq)
	checkRevisions(t, s, again)
	newest, err := s.Entries(ctx, "general", 0, 2)
	must(t, err)
	if len(newest) != 2 || newest[0].Text != "two" || newest[1].ID != "4" {
		t.Fatalf("newest lines %+v", newest)
	}
	for _, before := range []uint64{newest[1].Seq + 1, 1000, math.MaxUint64} {
		list, err := s.Entries(ctx, "general", before, 2)
		must(t, err)
		same(t, fmt.Sprint("lines before ", before), newest, list)
	}
	older, err := s.Entries(ctx, "general", newest[0].Seq, 10)
	must(t, err)
	if len(older) != 3 || older[0].ID != "0" || older[2].ID != "2" {
		t.Errorf("older lines %+v", older)
	}
	rooms, err := s.Rooms(ctx)
	must(t, err)
	same(t, "rooms", []string{"general"}, rooms)
	file := chat.File{Name: "a.png", Type: "image/png", Data: []byte("png")}
	for _, want := range []uint64{1, 2} {
		n, err := s.SaveRoomFile(ctx, "general", file)
		must(t, err)
		same(t, "number of the file", want, n)
	}
	kept, err := s.RoomFile(ctx, "general", 2)
	must(t, err)
	same(t, "file", file, kept)
	checkFileParts(t, s)
	if _, err := s.RoomFile(ctx, "another", 2); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a file of another room: %v", err)
	}
	for _, room := range []string{"general", "general", "nowhere"} {
		must(t, s.DeleteRoomFile(ctx, room, 1))
	}
	if _, err := s.RoomFile(ctx, "general", 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a file that was deleted: %v", err)
	}
	kept, err = s.RoomFile(ctx, "general", 2)
	must(t, err)
	same(t, "the file beside one that was deleted", file, kept)
	for range 2 {
		must(t, s.DeleteRoom(ctx, "general"))
	}
	rooms, err = s.Rooms(ctx)
	must(t, err)
	same(t, "rooms left", 0, len(rooms))
	if _, err := s.RoomFile(ctx, "general", 2); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a file of a deleted room: %v", err)
	}
	_, err = s.SaveEntry(ctx, store.Entry{ID: "0", Room: "general", Text: "again", At: noon})
	must(t, err)
}

// checkRevisions checks that a line, which is e now, is replaced by none of an older revision. It leaves e there.
func checkRevisions(t *testing.T, s store.Store, e store.Entry) {
	t.Helper()
	ctx := t.Context()
	edited := e
	edited.Text, edited.Revision = "edited", 5
	for range 2 {
		kept, err := s.SaveEntry(ctx, edited)
		must(t, err)
		same(t, "an edited line", edited, kept)
	}
	for _, revision := range []int64{0, 4} {
		older := e
		older.Revision = revision
		kept, err := s.SaveEntry(ctx, older)
		must(t, err)
		same(t, fmt.Sprint("what is kept where revision ", revision, " is written"), edited, kept)
	}
	deleted := store.Entry{ID: e.ID, Room: e.Room, At: e.At, Revision: 6, Deleted: true}
	_, err := s.SaveEntry(ctx, deleted)
	must(t, err)
	_, err = s.SaveEntry(ctx, edited)
	must(t, err)
	list, err := s.Entries(ctx, e.Room, e.Seq+1, 1)
	must(t, err)
	deleted.Seq = e.Seq
	same(t, "a deleted line", []store.Entry{deleted}, list)
	e.Revision = 7
	_, err = s.SaveEntry(ctx, e)
	must(t, err)
}

// kept is how long records are kept where a test says nothing else.
var kept = store.Retention{Calls: 90 * 24 * time.Hour, Usage: 400 * 24 * time.Hour, Feedback: 365 * 24 * time.Hour}

// prune deletes what is over its time by the suite's retention, and returns the conversations that
// changed.
func prune(t *testing.T, s store.Store) []chat.Address {
	t.Helper()
	changed, err := s.Prune(t.Context(), kept)
	must(t, err)
	return changed
}

// checkFileParts checks that a file can be read in parts, wherever these begin and end.
func checkFileParts(t *testing.T, s store.Store) {
	t.Helper()
	ctx := t.Context()
	data := []byte("0123456789abcdef")
	for size := range len(data) {
		// What stands around the data must not be taken for them.
		file := chat.File{Name: `,"data":"MDEy"`, Type: "audio/ogg", Size: 99, Duration: time.Second,
			Handle: json.RawMessage(`{"id":1,"data":"MDEy","n":2}`), Data: data[:size]}
		n, err := s.SaveRoomFile(ctx, "parts", file)
		must(t, err)
		for from := range size + 2 {
			for most := range size + 2 {
				part, err := s.RoomFilePart(ctx, "parts", n, int64(from), most)
				must(t, err)
				want := file
				want.Size, want.Data = int64(size), data[min(from, size):min(from+most, size)]
				if len(part.Data) == 0 && len(want.Data) == 0 {
					part.Data, want.Data = nil, nil
				}
				same(t, fmt.Sprintf("%d bytes from %d of %d", most, from, size), want, part)
			}
		}
	}
	for room, n := range map[string]uint64{"parts": 99, "nowhere": 1} {
		if _, err := s.RoomFilePart(ctx, room, n, 0, 1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("file %d of room %s: %v", n, room, err)
		}
	}
	must(t, s.DeleteRoom(ctx, "parts"))
}
