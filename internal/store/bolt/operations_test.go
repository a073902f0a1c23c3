package bolt_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// operation is one thing to do with a store that holds what writeRecords wrote.
type operation func(ctx context.Context, db *bolt.TestStore) (any, error)

// done returns an operation of which only the error counts.
func done(do func(ctx context.Context, db *bolt.TestStore) error) operation {
	return func(ctx context.Context, db *bolt.TestStore) (any, error) { return nil, do(ctx, db) }
}

// both returns two results as one.
func both[A, B any](a A, b B, err error) (any, error) { return []any{a, b}, err }

// inSteps are operations that take several transactions: one that fails may have done a part.
var inSteps = map[string]bool{"Prune": true, "Prune all": true, "DeleteConversation": true,
	"SaveOutcomes of an edit": true}

// readers are operations that have to read a record.
func readers() map[string]operation {
	whole := store.Range{Newest: math.MaxInt}
	return map[string]operation{
		"Unanswered": func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Unanswered(ctx) },
		"ConversationOf": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return both(db.ConversationOf(ctx, "web/waits"))
		},
		"ConversationOf a turn": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return both(db.ConversationOf(ctx, "web/answered"))
		},
		"PendingPosts": func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.PendingPosts(ctx) },
		"Undelivered":  func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Undelivered(ctx) },
		"Unnotified":   func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Unnotified(ctx) },
		"LastSeen": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.LastSeen(ctx, "web", time.Time{})
		},
		"PostRef": func(ctx context.Context, db *bolt.TestStore) (any, error) { return both(db.PostRef(ctx, "p1")) },
		"Stream":  func(ctx context.Context, db *bolt.TestStore) (any, error) { return both(db.Stream(ctx, "p3")) },
		"ShownTurn": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return both(db.ShownTurn(ctx, fixtureRoom, "m1"))
		},
		"Feedback": func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Feedback(ctx) },
		"FeedbackCounts": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			good, bad, err := db.FeedbackCounts(ctx)
			return [2]int{good, bad}, err
		},
		"Turns": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.Turns(ctx, fixtureRoom, whole)
		},
		"TurnOf": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return both(db.TurnOf(ctx, "web/answered"))
		},
		"TurnsQuoting": func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.TurnsQuoting(ctx, "web/quoted") },
		"Summary":      func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Summary(ctx, fixtureRoom) },
		"Conversations": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return both(db.Conversations(ctx, "", 10))
		},
		"Messages": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return both(db.Messages(ctx, fixtureRoom, "", 10))
		},
		"ToolCalls":     func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.ToolCalls(ctx, 0, 10, nil) },
		"ToolResult":    func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.ToolResult(ctx, "r1") },
		"Approvals":     func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Approvals(ctx, time.Time{}) },
		"LoadFeed":      func(ctx context.Context, db *bolt.TestStore) (any, error) { return both(db.LoadFeed(ctx, feedURL)) },
		"LastRuns":      func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.LastRuns(ctx, "morning", 10) },
		"Subscriptions": func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Subscriptions(ctx) },
		"Entries":       func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Entries(ctx, "general", 0, 10) },
		"RoomFile":      func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.RoomFile(ctx, "general", 1) },
		"RoomFilePart": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.RoomFilePart(ctx, "general", 1, 0, 9)
		},
		"Memories": func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Memories(ctx, noteScope) },
		"Settings": func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Settings(ctx) },
		"LoadBlob": func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.LoadBlob(ctx, "server") },
		"Items":    func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Items(ctx, "agents") },
		"Item":     func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Item(ctx, "agents", "helper") },
		"Usage":    func(ctx context.Context, db *bolt.TestStore) (any, error) { return both(db.Usage(ctx, "", "", 10)) },
		"Records": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			var list []store.Record
			err := db.Records(ctx, func(r store.Record) error { list = append(list, r); return nil })
			return list, err
		},
		"Prune": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.Prune(ctx, store.Retention{Calls: time.Hour})
		},
		"Prune all": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			keep := time.Nanosecond
			return db.Prune(ctx, store.Retention{Calls: keep, Usage: keep, Feedback: keep,
				Conversations: func(chat.Address) time.Duration { return keep },
				Rooms:         func(string) time.Duration { return keep }})
		},
		"SaveOutcomes": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.SaveOutcomes(ctx, []store.Outcome{{Key: "p3", Ref: chat.Ref{IDs: []string{"m3"}}, At: day}}, 0)
		}),
		"MarkNotified": done(func(ctx context.Context, db *bolt.TestStore) error { return db.MarkNotified(ctx, []string{"p2"}) }),
		"SaveReaction": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.SaveReaction(ctx, store.Reaction{Turn: "answered", User: "anna", Post: "general/m1", Sign: "up", At: day})
		}),
		"SaveReaction removed": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.SaveReaction(ctx, store.Reaction{Turn: "answered", Post: "general/m1", At: day})
		}),
		"DeleteTurn": done(func(ctx context.Context, db *bolt.TestStore) error { return db.DeleteTurn(ctx, fixtureRoom, 1) }),
		"DeleteMessage": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.DeleteMessage(ctx, "web", "imported")
		}),
		"CountUsage": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.CountUsage(ctx, store.Usage{Model: "m", Channel: fixtureRoom, User: "web/anna",
				Tokens: llm.Usage{Input: 1}})
		}),
		"SaveMemory": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return both(db.SaveMemory(ctx, store.Memory{Scope: noteScope, Text: "likes milk", At: day}, 10))
		},
		"ReplaceMemory": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return both(db.ReplaceMemory(ctx, store.Memory{Scope: noteScope, N: 1, Text: "likes coffee", At: day}))
		},
		"DecideApproval": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.DecideApproval(ctx, store.Approval{ID: "a1", Turn: "answered", Call: "c1", Decision: store.Denied})
		},
		"SaveEntry again": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.SaveEntry(ctx, store.Entry{ID: "e1", Room: "general", At: day, Text: "another line"})
		},
		"SwapItem": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.SwapItem(ctx, "agents", "helper", json.RawMessage(`{"model":"default"}`), json.RawMessage(`{}`),
				[]store.Post{{Key: "p4", To: fixtureRoom, At: day}})
		},
	}
}

const (
	feedURL   = "https://example.org/feed"
	noteScope = "user/web/anna"
)

// writers are the operations that need no record but write, or delete, some.
func writers() map[string]operation {
	elsewhere := chat.Address{Platform: "web", Channel: "elsewhere"}
	quoting := func() *conversation.Turn {
		return &conversation.Turn{ID: "new", Of: []string{"web/new"}, State: conversation.Answered, Began: day, Model: "m",
			User: "web/bob", Usage: llm.Usage{Input: 7}, Messages: []llm.Message{
				{Role: llm.User, Parts: []llm.Part{{Text: "new"}, {Text: "old", Subject: "web/old"}}}}}
	}
	call := store.ToolCall{ID: "c2", Conversation: elsewhere, ResultID: "r2", Whole: "the whole", Began: day}
	return map[string]operation{
		"Accept": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.Accept(ctx, store.Received{Message: chat.Message{ID: "new", Conversation: elsewhere, Time: day}})
		},
		"SaveAnswer": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.SaveAnswer(ctx, elsewhere, []string{"web/waits"}, quoting(), []store.Post{{Key: "p4", To: elsewhere}})
		}),
		"SaveAnswer without posts": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.SaveAnswer(ctx, fixtureRoom, []string{"web/waits"}, nil, nil)
		}),
		"SavePosts": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.SavePosts(ctx, []store.Post{{Key: "p4", To: fixtureRoom}})
		}),
		"SaveOutcomes of an edit": done(func(ctx context.Context, db *bolt.TestStore) error {
			if err := db.SavePosts(ctx, []store.Post{{Key: "p5", Replaces: "p1", Turn: "answered", To: fixtureRoom,
				Message: "web/waits"}}); err != nil {
				return err
			}
			return db.SaveOutcomes(ctx, []store.Outcome{{Key: "p5", Ref: chat.Ref{IDs: []string{"m5"}}, At: day}}, 0)
		}),
		"SaveStream": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.SaveStream(ctx, "p2", chat.Ref{IDs: []string{"m2"}})
		}),
		"SaveFeedback": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.SaveFeedback(ctx, store.Feedback{Turn: "answered", User: "bob", At: day})
		}),
		"SaveTurn": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			turn := quoting()
			err := db.SaveTurn(ctx, elsewhere, turn, call)
			return turn.Seq, err
		},
		"SaveSummary": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.SaveSummary(ctx, elsewhere, conversation.Summary{Upto: 1, Text: "words", At: day})
		}),
		"SaveMessages": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.SaveMessages(ctx, []store.Message{{Conversation: elsewhere, ID: "other", At: day}})
		},
		"SaveCalls": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.SaveCalls(ctx, []store.ToolCall{call})
		}),
		"SaveApproval": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.SaveApproval(ctx, store.Approval{ID: "a2", Turn: "new", Call: "c2", At: day})
		}),
		"SaveFeeds": done(func(ctx context.Context, db *bolt.TestStore) error {
			data := []byte(`{}`)
			return db.SaveFeeds(ctx, store.Feed{URL: feedURL, Data: data}, store.Feed{URL: feedURL + "2", Data: data})
		}),
		"FinishRun": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.FinishRun(ctx, store.Run{Digest: "evening", Due: day, Ended: day}, []string{"item"},
				[]store.Post{{Key: "p4", To: fixtureRoom}}, store.Item{Kind: "kind", Name: "name", Data: json.RawMessage(`{}`)})
		},
		"AmendRun": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.AmendRun(ctx, store.Run{Digest: "morning", Due: day, Note: "taken back"}, []string{"item"})
		}),
		"SaveSubscription": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.SaveSubscription(ctx, store.Subscription{To: elsewhere, URL: feedURL, At: day})
		}),
		"DeleteSubscription": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.DeleteSubscription(ctx, fixtureRoom, feedURL)
		}),
		"SaveEntry": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.SaveEntry(ctx, store.Entry{ID: "e2", Room: "elsewhere", At: day})
		},
		"SaveRoomFile": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.SaveRoomFile(ctx, "elsewhere", chat.File{Name: "b.txt"})
		},
		"DeleteRoom": done(func(ctx context.Context, db *bolt.TestStore) error { return db.DeleteRoom(ctx, "general") }),
		"SwapSetting": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.SwapSetting(ctx, "web", nil, []byte(`{}`))
		},
		"SwapSetting by nothing": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.SwapSetting(ctx, "instance", []byte(`{"language":"en"}`), nil)
		},
		"SaveBlob": done(func(ctx context.Context, db *bolt.TestStore) error { return db.SaveBlob(ctx, "other", []byte(`{}`)) }),
		"SaveItem": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.SaveItem(ctx, "servers", "new", json.RawMessage(`{}`), false)
		}),
		"DeleteItem": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.DeleteItem(ctx, "agents", "helper")
		}),
		"SwapItem new": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.SwapItem(ctx, "locks", "new", nil, json.RawMessage(`{}`), nil)
		},
		"SaveMemory new": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return both(db.SaveMemory(ctx, store.Memory{Scope: "channel", Text: "meets on Mondays", At: day}, 10))
		},
		"DeleteMemory": done(func(ctx context.Context, db *bolt.TestStore) error { return db.DeleteMemory(ctx, noteScope, 1) }),
		"DeleteMemories": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.DeleteMemories(ctx, noteScope)
		}),
		"DeleteConversation": done(func(ctx context.Context, db *bolt.TestStore) error {
			return db.DeleteConversation(ctx, fixtureRoom)
		}),
		"HasConversation": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return db.HasConversation(ctx, fixtureRoom)
		},
		"SeenItems": func(ctx context.Context, db *bolt.TestStore) (any, error) {
			return both(db.SeenItems(ctx, "morning", []string{"item", "other"}))
		},
		"Rooms":        func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Rooms(ctx) },
		"MemoryScopes": func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.MemoryScopes(ctx) },
		"Versions":     func(ctx context.Context, db *bolt.TestStore) (any, error) { return db.Versions(ctx, fixtureRoom) },
	}
}

// Whoever reads or changes a record that a disk has spoiled is told, and never takes it for one that is not there.
func TestDB_EveryRecordIsSpoiled_WhoeverReadsOneIsTold(t *testing.T) {
	ops := readers()
	ops["Backup"] = done(func(ctx context.Context, db *bolt.TestStore) error {
		return db.Backup(ctx, filepath.Join(t.TempDir(), "copy.db"))
	})
	f := recordsIn(t, t.TempDir())
	for name, do := range ops {
		_, err := f.run(t, name, do, func(db *bolt.TestStore) error { return bolt.Spoil(db, bolt.Buckets()...) })
		var damaged *store.DamagedError
		if !errors.As(err, &damaged) {
			t.Errorf("%s returned %v, want a *store.DamagedError", name, err)
		}
	}
}

// What looks at several kinds of record says of each that one of them is spoiled: what Prune keeps may be over its time.
func TestDB_OneOfSeveralKindsIsSpoiled_IsDamage(t *testing.T) {
	f := recordsIn(t, t.TempDir())
	for name, buckets := range map[string][]string{
		"Conversations":      {"messages", "turns"},
		"DeleteConversation": {"results"},
		"Prune all": {"approvals", "calls", "done", "feedback", "heard", "outbox", "places", "results", "roomfiles",
			"rooms", "seen", "shown", "streams", "summaries", "turns"},
		"TurnOf": {"places", "turns"},
	} {
		for _, bucket := range buckets {
			if !slices.Contains(bolt.Buckets(), bucket) {
				t.Fatalf("there is no bucket %s", bucket)
			}
			_, err := f.run(t, name, allOperations()[name], func(db *bolt.TestStore) error { return bolt.Spoil(db, bucket) })
			var damaged *store.DamagedError
			if !errors.As(err, &damaged) {
				t.Errorf("%s is spoiled, and %s returned %v", bucket, name, err)
			}
		}
	}
}

// What cannot be read of the results may belong to the conversation: whoever deletes it is told that it may still be
// there. All else is deleted.
func TestDeleteConversation_BucketInPlaceOfAResult_IsDamage(t *testing.T) {
	f := recordsIn(t, t.TempDir())
	got, err := f.run(t, "DeleteConversation", allOperations()["DeleteConversation"], func(db *bolt.TestStore) error {
		_, err := bolt.BlockRecord(db, "results\x00r1")
		return err
	})
	var damaged *store.DamagedError
	if !errors.As(err, &damaged) {
		t.Errorf("%v", err)
	}
	turns := "turns\x00" + fixtureRoom.String()
	has := func(records map[string]string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(records)), func(k string) bool { return strings.HasPrefix(k, turns) })
	}
	if !has(got.Before) || has(got.After) {
		t.Errorf("there were turns: %v, and are still: %v", has(got.Before), has(got.After))
	}
}

// A message whose turn went with its conversation is not found, though the index still has it, and the conversation is
// named.
func TestTurnOf_ConversationIsGone_IsNotFound(t *testing.T) {
	f := recordsIn(t, t.TempDir())
	var of chat.Address
	_, err := f.run(t, "TurnOf", func(ctx context.Context, db *bolt.TestStore) (_ any, err error) {
		of, _, err = db.TurnOf(ctx, "web/answered")
		return nil, err
	}, func(db *bolt.TestStore) error { return bolt.HideTurns(db, fixtureRoom) })
	if !errors.Is(err, store.ErrNotFound) || of != fixtureRoom {
		t.Errorf("%v, %v", of, err)
	}
}

// A record that a disk has spoiled makes what needs it fail as a whole, and nothing else. What does not need it does
// what it always does.
func TestDB_OneKindOfRecordIsSpoiled_OperationsFailWholeOrDoAll(t *testing.T) {
	f := recordsIn(t, t.TempDir())
	for name, do := range allOperations() {
		want, err := f.run(t, name, do, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		try := func(buckets ...string) error {
			got, err := f.run(t, name, do, func(db *bolt.TestStore) error { return bolt.Spoil(db, buckets...) })
			var damaged *store.DamagedError
			switch {
			case err == nil && (got.Value != want.Value || !cmp.Equal(want.changes(buckets), got.changes(buckets))):
				t.Errorf("%s: %s is spoiled, it returned %s instead of %s, and changed (-want +got):\n%s", name, buckets,
					got.Value, want.Value, cmp.Diff(want.changes(buckets), got.changes(buckets)))
			case err != nil && !errors.As(err, &damaged):
				t.Errorf("%s: %s is spoiled, and the error is %v", name, buckets, err)
			case err != nil && !inSteps[name] && len(got.changes(nil)) > 0:
				t.Errorf("%s: %s is spoiled, it failed and changed %v", name, buckets, got.changes(nil))
			}
			return err
		}
		if try(bolt.Buckets()...) == nil {
			continue // it reads no record
		}
		for _, bucket := range bolt.Buckets() {
			// A turn that cannot be decoded can still be deleted, and leaves its entries in the indexes to Prune.
			if name != "DeleteConversation" || bucket != "turns" {
				_ = try(bucket)
			}
		}
	}
}

// What cannot write or delete one of its records, or make the bucket for it, fails as a whole, and ends. What does not
// come to it does the rest.
func TestDB_RecordCannotBeWritten_OperationsFailWhole(t *testing.T) {
	deletesMany := map[string]bool{"DeleteConversation": true, "DeleteRoom": true, "DeleteTurn": true, "Prune": true,
		"Prune all": true} // a record that is none any more counts as deleted
	f := recordsIn(t, t.TempDir())
	for name, do := range allOperations() {
		whole, err := f.run(t, name, do, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for record := range whole.changes(nil) {
			for _, block := range []func(*bolt.TestStore, string) (bool, error){bolt.BlockRecord, bolt.BlockBucket} {
				isBlocked := false
				got, err := f.run(t, name, do, func(db *bolt.TestStore) (err error) {
					isBlocked, err = block(db, record)
					return err
				})
				changes, others := got.changes(nil), whole.changes(nil)
				delete(others, record)
				// A record that is no record any more may count as one that is not there, so that nothing is to be done.
				isNothing := len(changes) == 0 && whole.Before[record] != ""
				switch {
				case !isBlocked:
				case err == nil && !isNothing && (whole.After[record] != "" || !deletesMany[name]):
					t.Errorf("%s: record %q cannot be written, and it returned no error", name, record)
				case err == nil && !inSteps[name] && !isNothing && !cmp.Equal(changes, others):
					t.Errorf("%s: record %q cannot be written, and without an error it changed (-want +got):\n%s", name, record,
						cmp.Diff(others, changes))
				case err != nil && !inSteps[name] && len(changes) > 0:
					t.Errorf("%s: record %q cannot be written, it failed and changed %q", name, record, changes)
				}
			}
		}
	}
}

// In a store without records nothing is found and nothing is deleted. Whoever names a record is told that there is
// none; what may be there or not is no error.
func TestDB_NoRecords_NamedOnesAreNotFound(t *testing.T) {
	named := map[string]bool{"AmendRun": true, "DeleteConversation": true, "DeleteItem": true, "DeleteMemory": true,
		"DeleteSubscription": true, "Item": true, "ReplaceMemory": true, "RoomFile": true, "RoomFilePart": true,
		"ToolResult": true, "TurnOf": true}
	writes := map[string]bool{"CountUsage": true, "SaveEntry again": true, "SaveMemory": true, "SaveReaction": true}
	f := fixture{filepath.Join(t.TempDir(), "raven.db")}
	db, err := bolt.OpenRecords(f.path, func() time.Time { return day })
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for name, do := range allOperations() {
		got, err := f.run(t, name, do, nil)
		isMissing := errors.Is(err, store.ErrNotFound)
		if isMissing != named[name] || err != nil && !isMissing {
			t.Errorf("%s returned %v", name, err)
		}
		_, isReader := readers()[name]
		if changes := got.changes(nil); len(changes) > 0 && (isMissing || isReader && !writes[name]) {
			t.Errorf("%s changed %q", name, changes)
		}
	}
}

// fixture is a store with a record of each kind, of which every operation gets a copy.
type fixture struct{ path string }

func recordsIn(t *testing.T, folder string) fixture {
	t.Helper()
	f := fixture{filepath.Join(folder, "raven.db")}
	db, err := bolt.OpenRecords(f.path, func() time.Time { return day })
	if err != nil {
		t.Fatal(err)
	}
	writeRecords(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := bolt.Compact(t.Context(), f.path, day); err != nil { // many copies are made of it
		t.Fatal(err)
	}
	return f
}

// outcome is what an operation returns, and the records before and after it.
type outcome struct {
	Value         string
	Before, After map[string]string
}

// changes returns the records that an operation wrote, and with "" those that it deleted, without those of top-level
// buckets.
func (o outcome) changes(without []string) map[string]string {
	changed := map[string]string{}
	for _, records := range []map[string]string{o.Before, o.After} {
		for k := range records {
			bucket, _, _ := strings.Cut(k, "\x00")
			if o.Before[k] != o.After[k] && !slices.Contains(without, bucket) {
				changed[k] = o.After[k]
			}
		}
	}
	return changed
}

// run carries out an operation in a copy of the store, in which something was changed before. What is pruned is a year
// old.
func (f fixture) run(t *testing.T, name string, do operation, change func(*bolt.TestStore) error) (outcome, error) {
	t.Helper()
	path := f.path + ".copy"
	if err := os.WriteFile(path, readFile(t, f.path), 0o600); err != nil {
		t.Fatal(err)
	}
	now := day
	if name == "Prune all" {
		now = day.AddDate(1, 0, 0)
	}
	file, release, err := bolt.OpenUnsynced(path, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	db := bolt.NewTestStore(file)
	if change != nil {
		err = change(db)
	}
	o := outcome{Before: bolt.RawRecords(t, db)}
	value, failed := do(t.Context(), db)
	o.After = bolt.RawRecords(t, db)
	text, jsonErr := json.Marshal(value)
	if err := errors.Join(err, jsonErr, release()); err != nil {
		t.Fatal(err)
	}
	o.Value = string(text)
	return o, failed
}

// allOperations returns the readers and the writers.
func allOperations() map[string]operation {
	ops := readers()
	maps.Copy(ops, writers())
	return ops
}
