package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/postgres/pgtest"
	"ravenbot/internal/store/storetest"
)

// reading is a call that reads records.
type reading func(ctx context.Context, db *postgres.DB) error

// readings are the calls that read the records of each table, in a store that storetest.Fill has filled.
func readings(at time.Time) map[string][]reading {
	prune := func(ctx context.Context, db *postgres.DB) error { return errOf(db.Prune(ctx, aDay())) }
	note := store.Memory{Scope: "user/web/a", Text: "0", N: 1, At: at}
	return map[string][]reading{
		"inbox": {
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.Unanswered(ctx)) },
			func(ctx context.Context, db *postgres.DB) error {
				_, _, err := db.ConversationOf(ctx, "web/waits")
				return err
			}},
		"posts": {
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.PendingPosts(ctx)) },
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.Unnotified(ctx)) },
			func(ctx context.Context, db *postgres.DB) error {
				return db.SaveOutcomes(ctx, []store.Outcome{{Key: "refused said0", At: at}}, 0)
			},
			func(ctx context.Context, db *postgres.DB) error { return db.MarkNotified(ctx, []string{"replaced"}) }},
		"streams": {func(ctx context.Context, db *postgres.DB) error {
			_, _, err := db.Stream(ctx, "pending")
			return err
		}},
		"last_seen": {
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.LastSeen(ctx, "web", time.Time{})) }},
		"turns": {
			func(ctx context.Context, db *postgres.DB) error {
				return errOf(db.Turns(ctx, general, store.Range{Newest: 9}))
			},
			func(ctx context.Context, db *postgres.DB) error {
				_, _, err := db.TurnOf(ctx, "web/said0")
				return err
			}},
		"summaries": {prune,
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.Summary(ctx, general)) }},
		"messages": {func(ctx context.Context, db *postgres.DB) error {
			_, _, err := db.Messages(ctx, general, "", 9)
			return err
		}},
		"calls": {
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.ToolCalls(ctx, 0, 9, nil)) }},
		"approvals": {
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.Approvals(ctx, time.Time{})) },
			func(ctx context.Context, db *postgres.DB) error {
				return errOf(db.DecideApproval(ctx, store.Approval{ID: "a", Turn: "q", Call: "c"}))
			}},
		"feedback": {
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.Feedback(ctx)) },
			func(ctx context.Context, db *postgres.DB) error {
				_, _, err := db.FeedbackCounts(ctx)
				return err
			},
			func(ctx context.Context, db *postgres.DB) error {
				return db.SaveReaction(ctx, store.Reaction{Turn: "q", User: "U1", Post: "p", Sign: "up", At: at})
			}},
		"shown_turns": {func(ctx context.Context, db *postgres.DB) error {
			_, _, err := db.ShownTurn(ctx, general, "shown said0")
			return err
		}},
		"feeds": {func(ctx context.Context, db *postgres.DB) error {
			_, _, err := db.LoadFeed(ctx, "https://example.org/"+strings.Repeat("x", 3000))
			return err
		}},
		"runs": {
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.LastRuns(ctx, "morning", 9)) }},
		"subscriptions": {func(ctx context.Context, db *postgres.DB) error { return errOf(db.Subscriptions(ctx)) }},
		"entries": {
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.Entries(ctx, "other", 0, 9)) }},
		"room_files": {
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.RoomFile(ctx, "general", 1)) },
			func(ctx context.Context, db *postgres.DB) error {
				return errOf(db.RoomFilePart(ctx, "general", 1, 5, 9))
			}},
		"memories": {
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.Memories(ctx, note.Scope)) },
			func(ctx context.Context, db *postgres.DB) error {
				_, _, err := db.SaveMemory(ctx, note, 10)
				return err
			},
			func(ctx context.Context, db *postgres.DB) error {
				_, _, err := db.ReplaceMemory(ctx, note)
				return err
			}},
		"settings": {
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.Settings(ctx)) },
			func(ctx context.Context, db *postgres.DB) error {
				return errOf(db.SwapSetting(ctx, "instance", nil, []byte(`{}`)))
			}},
		"blobs": {
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.LoadBlob(ctx, "server")) }},
		"items": {
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.Items(ctx, "agent")) },
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.Item(ctx, "agent", "helper")) },
			func(ctx context.Context, db *postgres.DB) error {
				return errOf(db.SwapItem(ctx, "agent", "helper", nil, json.RawMessage(`{}`), nil))
			}},
	}
}

// errOf returns the error of a call that returns something else as well.
func errOf[T any](_ T, err error) error { return err }

// A record that cannot be read, and one of a later version, is neither left out of a list nor written over.
func TestStore_RecordCannotBeRead_IsSaid(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	now := time.Now()
	db, conn := open(t, url, func() time.Time { return now }), connect(t, url)
	storetest.Fill(t, db, now)
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	holdsAny := map[string]bool{"settings": true, "blobs": true, "items": true} // JSON of every form
	for table, calls := range readings(now) {
		exec("alter table ravenbot." + table + " add column kept json")
		exec("update ravenbot." + table + " set kept = record where record is not null")
		for i, read := range calls {
			exec("update ravenbot." + table + " set v = 2")
			newer := (*store.NewerError)(nil)
			if err := read(t.Context(), db); !errors.As(err, &newer) {
				t.Errorf("call %d of %s of a later version: %v", i, table, err)
			}
			exec("update ravenbot." + table + " set v = 1, record = '7' where record is not null")
			damaged := (*store.DamagedError)(nil)
			if err := read(t.Context(), db); !errors.As(err, &damaged) && !holdsAny[table] {
				t.Errorf("call %d of %s of a damaged record: %v", i, table, err)
			}
			exec("update ravenbot." + table + " set v = 1, record = kept where kept is not null")
			if err := read(t.Context(), db); err != nil {
				t.Errorf("call %d of %s of a good record: %v", i, table, err)
			}
		}
	}
}

// What stands under an address that cannot be read is not left out of a list.
func TestStore_AddressCannotBeRead_IsSaid(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	db, conn := open(t, url, time.Now), connect(t, url)
	storetest.Fill(t, db, time.Now())
	records := func(ctx context.Context, db *postgres.DB) error {
		return db.Records(ctx, func(store.Record) error { return nil })
	}
	prune := func(ctx context.Context, db *postgres.DB) error { return errOf(db.Prune(ctx, aDay())) }
	if err := db.CountUsage(t.Context(), store.Usage{Channel: general, Tokens: llm.Usage{Input: 1}}); err != nil {
		t.Fatal(err)
	}
	for column, calls := range map[string][]reading{
		"conversations.address": {records, prune,
			func(ctx context.Context, db *postgres.DB) error {
				_, _, err := db.Conversations(ctx, "", 9)
				return err
			},
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.Versions(ctx, general)) },
			func(ctx context.Context, db *postgres.DB) error {
				_, _, err := db.TurnOf(ctx, "web/said0")
				return err
			},
			func(ctx context.Context, db *postgres.DB) error { return errOf(db.TurnsQuoting(ctx, "quoted said0")) },
			func(ctx context.Context, db *postgres.DB) error {
				_, _, err := db.ConversationOf(ctx, "web/said0")
				return err
			}},
		"usage.channel": {records, func(ctx context.Context, db *postgres.DB) error {
			_, _, err := db.Usage(ctx, "", "", 9)
			return err
		}, func(ctx context.Context, db *postgres.DB) error {
			return errOf(db.UsageOfOthers(ctx, time.Now().UTC().Format("2006-01-02")))
		}},
		"approvals.address": {prune},
		"summaries.address": {prune},
	} {
		table, name, _ := strings.Cut(column, ".")
		exec := func(set, where string) {
			t.Helper()
			if _, err := conn.Exec(t.Context(), "update ravenbot."+table+" set "+set+" where "+where); err != nil {
				t.Fatal(err)
			}
		}
		damaged, good := "damaged", general.String()
		exec(name+" = '"+damaged+"'", name+" = '"+good+"'")
		for i, read := range calls {
			if err := read(t.Context(), db); err == nil {
				t.Errorf("call %d of %s says nothing", i, column)
			}
		}
		exec(name+" = '"+good+"'", name+" = '"+damaged+"'")
		for i, read := range calls {
			if err := read(t.Context(), db); err != nil {
				t.Errorf("call %d of %s of a good address: %v", i, column, err)
			}
		}
	}
}

// What changes nothing is no transaction, for which the disk would be waited for.
func TestWrite_NothingChanges_IsNotCommitted(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t)
	now := time.Now()
	ctx, r, other := t.Context(), joinReplica(t, url), joinReplica(t, url)
	storetest.Fill(t, r.DB, now)
	if _, err := other.Claim(ctx, "key"); err != nil {
		t.Fatal(err)
	}
	if _, err := other.JoinShards(ctx, "bot", 1, 1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.ClaimShard(ctx, "bot", 0, 1); err != nil {
		t.Fatal(err)
	}
	waits := chat.Message{ID: "waits", Conversation: general, Text: "waits", Time: now, Change: chat.Edited}
	if _, err := r.Accept(ctx, store.Received{Message: waits, At: now}); err != nil {
		t.Fatal(err)
	}
	text := json.RawMessage(`{}`)
	before := r.Commits()
	if before == 0 {
		t.Error("nothing is counted")
	}
	for name, err := range map[string]error{
		"a repeat":            errOf(r.Accept(ctx, store.Received{Message: waits, At: now})),
		"no outcome":          r.SaveOutcomes(ctx, []store.Outcome{{Key: "none", At: now}}, 0),
		"no post to be known": r.MarkNotified(ctx, []string{"none"}),
		"no posts":            r.SavePosts(ctx, nil),
		"no calls":            r.SaveCalls(ctx, nil),
		"another item":        errOf(r.SwapItem(ctx, "agent", "helper", text, nil, nil)),
		"other settings":      errOf(r.SwapSetting(ctx, "instance", text, nil)),
		"no approval":         errOf(r.DecideApproval(ctx, store.Approval{ID: "none", Decision: store.Denied})),
		"no message":          r.DeleteMessage(ctx, "web", "none"),
		"a message again": errOf(r.SaveMessages(ctx, []store.Message{{Conversation: general, ID: "imported said0",
			At: now}})),
		"a run again":      errOf(r.FinishRun(ctx, store.Run{Digest: "morning", Due: now, Ended: now}, nil, nil)),
		"a key of another": r.Release(ctx, "key"),
		"no keys":          r.Release(ctx),
		"nothing is over":  errOf(r.Prune(ctx, store.Retention{Calls: time.Hour, Usage: time.Hour})),
		"nothing is left":  errOf(r.Inherit(ctx)),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, isNew, err := r.SaveMemory(ctx, store.Memory{Scope: "user/web/a", Text: "1", At: now}, 9); isNew || err != nil {
		t.Errorf("a note again is new: %v (%v)", isNew, err)
	}
	if _, isOwn, err := r.ClaimShard(ctx, "bot", 0, 1); isOwn || err != nil {
		t.Errorf("the shard of another is this one's: %v (%v)", isOwn, err)
	}
	if n := r.Commits() - before; n != 0 {
		t.Errorf("%d transactions were committed", n)
	}
}
