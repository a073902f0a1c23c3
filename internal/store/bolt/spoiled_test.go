package bolt_test

import (
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"testing"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// Whoever reads or changes a record that a disk has spoiled is told, and never takes it for one that is not there. What
// replaces a whole record does not read it, and is not listed here.
func TestDB_RecordIsSpoiled_EveryUseOfItFails(t *testing.T) {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "raven.db"), func() time.Time { return day })
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	writeRecords(t, db)
	if err := bolt.Spoil(db); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	whole := store.Range{Newest: math.MaxInt}
	last := func(_ any, err error) error { return err }
	last3 := func(_, _ any, err error) error { return err }
	for name, use := range map[string]func() error{
		"Unanswered":     func() error { return last(db.Unanswered(ctx)) },
		"ConversationOf": func() error { return last3(db.ConversationOf(ctx, "web/waits")) },
		"PendingPosts":   func() error { return last(db.PendingPosts(ctx)) },
		"Undelivered":    func() error { return last(db.Undelivered(ctx)) },
		"Unnotified":     func() error { return last(db.Unnotified(ctx)) },
		"LastSeen":       func() error { return last(db.LastSeen(ctx, "web", time.Time{})) },
		"PostRef":        func() error { return last3(db.PostRef(ctx, "p1")) },
		"Stream":         func() error { return last3(db.Stream(ctx, "p3")) },
		"ShownTurn":      func() error { return last3(db.ShownTurn(ctx, fixtureRoom, "m1")) },
		"Feedback":       func() error { return last(db.Feedback(ctx)) },
		"Turns":          func() error { return last(db.Turns(ctx, fixtureRoom, whole)) },
		"TurnOf":         func() error { return last3(db.TurnOf(ctx, "web/answered")) },
		"TurnsQuoting":   func() error { return last(db.TurnsQuoting(ctx, "web/quoted")) },
		"Summary":        func() error { return last(db.Summary(ctx, fixtureRoom)) },
		"Messages":       func() error { return last3(db.Messages(ctx, fixtureRoom, "", 10)) },
		"ToolCalls":      func() error { return last(db.ToolCalls(ctx, 0, 10, nil)) },
		"ToolResult":     func() error { return last(db.ToolResult(ctx, "r1")) },
		"Approvals":      func() error { return last(db.Approvals(ctx, time.Time{})) },
		"LoadFeed":       func() error { return last3(db.LoadFeed(ctx, "https://example.org/feed")) },
		"LastRuns":       func() error { return last(db.LastRuns(ctx, "morning", 10)) },
		"Subscriptions":  func() error { return last(db.Subscriptions(ctx)) },
		"Entries":        func() error { return last(db.Entries(ctx, "general", 0, 10)) },
		"RoomFile":       func() error { return last(db.RoomFile(ctx, "general", 1)) },
		"Memories":       func() error { return last(db.Memories(ctx, "user/web/anna")) },
		"Settings":       func() error { return last(db.Settings(ctx)) },
		"LoadBlob":       func() error { return last(db.LoadBlob(ctx, "server")) },
		"Items":          func() error { return last(db.Items(ctx, "agents")) },
		"Item":           func() error { return last(db.Item(ctx, "agents", "helper")) },
		"Usage":          func() error { return last3(db.Usage(ctx, "", "", 10)) },
		"Backup":         func() error { return db.Backup(ctx, filepath.Join(t.TempDir(), "copy.db")) },
		"Records":        func() error { return db.Records(ctx, func(store.Record) error { return nil }) },
		"Prune": func() error {
			return last(db.Prune(ctx, store.Retention{Calls: time.Hour}))
		},
		"SaveOutcomes": func() error {
			return db.SaveOutcomes(ctx, []store.Outcome{{Key: "p3", Ref: chat.Ref{IDs: []string{"m3"}}, At: day}}, 0)
		},
		"MarkNotified": func() error { return db.MarkNotified(ctx, []string{"p2"}) },
		"SaveReaction": func() error {
			return db.SaveReaction(ctx, store.Reaction{Turn: "answered", User: "anna", Post: "general/m1", Sign: "up", At: day})
		},
		"DeleteTurn":    func() error { return db.DeleteTurn(ctx, fixtureRoom, 1) },
		"DeleteMessage": func() error { return db.DeleteMessage(ctx, "web", "imported") },
		"CountUsage": func() error {
			return db.CountUsage(ctx, store.Usage{Model: "m", Channel: fixtureRoom, User: "web/anna",
				Tokens: llm.Usage{Input: 1}})
		},
		"SaveMemory": func() error {
			return last3(db.SaveMemory(ctx, store.Memory{Scope: "user/web/anna", Text: "likes tea", At: day}, 10))
		},
		"ReplaceMemory": func() error {
			return last3(db.ReplaceMemory(ctx, store.Memory{Scope: "user/web/anna", N: 1, Text: "likes coffee", At: day}))
		},
		"DecideApproval": func() error {
			return last(db.DecideApproval(ctx, store.Approval{ID: "a1", Turn: "answered", Call: "c1", Decision: store.Denied}))
		},
		"SaveEntry again": func() error {
			return last(db.SaveEntry(ctx, store.Entry{ID: "e1", Room: "general", At: day, Text: "another line"}))
		},
		"SwapItem": func() error {
			return last(db.SwapItem(ctx, "agents", "helper", json.RawMessage(`{"model":"default"}`), json.RawMessage(`{}`), nil))
		},
	} {
		var damaged *store.DamagedError
		if err := use(); !errors.As(err, &damaged) {
			t.Errorf("%s returned %v, want a *store.DamagedError", name, err)
		}
	}
}
