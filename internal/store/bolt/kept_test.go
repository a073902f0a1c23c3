package bolt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
	"ravenbot/internal/testing/storetest"
)

// What has no retention is kept without end.
func TestPrune_NoRetention_KeepsUsageAndFeedback(t *testing.T) {
	now := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	db := openAt(t, func() time.Time { return now })
	ctx := t.Context()
	if err := errors.Join(
		db.CountUsage(ctx, store.Usage{Model: "m", Channel: general, Tokens: llm.Usage{Input: 1}}),
		db.SaveFeedback(ctx, store.Feedback{Turn: "1", User: "anna", At: now}),
		db.SaveCalls(ctx, []store.ToolCall{{ID: "c", Began: now}}),
		db.SaveApproval(ctx, store.Approval{Turn: "1", Call: "c", At: now})); err != nil {
		t.Fatal(err)
	}
	count := func() [4]int {
		t.Helper()
		usage, _, err1 := db.Usage(ctx, "", "", 10)
		feedback, err2 := db.Feedback(ctx)
		calls, err3 := db.ToolCalls(ctx, 0, 10, nil)
		approvals, err4 := db.Approvals(ctx, time.Time{})
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		return [4]int{len(usage), len(feedback), len(calls), len(approvals)}
	}
	for _, c := range []struct {
		after time.Duration
		want  [4]int
	}{
		{30 * 24 * time.Hour, [4]int{1, 1, 1, 1}}, // approvals have a limit of their own
		{20 * 365 * 24 * time.Hour, [4]int{1, 1, 1, 0}},
	} {
		now = now.Add(c.after)
		if _, err := db.Prune(ctx, store.Retention{}); err != nil {
			t.Fatal(err)
		}
		if got := count(); got != c.want {
			t.Errorf("after %v more usage, feedback, calls and approvals are %v, want %v", c.after, got, c.want)
		}
	}
}

// What others wrote as JSON comes back byte by byte: a provider signs it, and SwapItem compares it.
func TestSaveItem_JSONWithMarkup_ComesBackByteByByte(t *testing.T) {
	db := opened(t)
	want := json.RawMessage(`{"text":"<b> & \u003c"}`)
	if err := db.SaveItem(t.Context(), "kind", "name", want, false); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Item(t.Context(), "kind", "name"); err != nil || string(got) != string(want) {
		t.Errorf("%s (%v), want %s", got, err, want)
	}
}

// A database of another program is no backup.
func TestVerify_DatabaseOfAnotherProgram_IsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	b, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	if err := Verify(t.Context(), path); !errors.As(err, &damaged) || damaged.What != "it holds no records of ravenbot" {
		t.Errorf("checking it gave %v", err)
	}
}

// A conversation whose name cannot be read is told of, and not left out.
func TestConversations_NameIsDamaged_Fail(t *testing.T) {
	db := opened(t)
	if err := db.bolt.Update(func(tx *bbolt.Tx) error {
		b, err := tx.Bucket([]byte(turnsBucket)).CreateBucket([]byte("web:/general/a/b/c"))
		return errors.Join(err, b.SetSequence(1))
	}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.Conversations(t.Context(), "", 10); err == nil {
		t.Error("they are listed")
	}
	if _, err := db.Versions(t.Context(), chat.Address{Platform: "web", Channel: "general"}); err == nil {
		t.Error("their versions are listed")
	}
}

// An entry of an index stays while its turn is there, or a summary has its words: also at the ends of what the summary
// covers.
func TestPrune_IndexOfASummary_StaysAsFarAsItGoes(t *testing.T) {
	db := opened(t)
	at := func(a chat.Address, seq uint64) store.TurnRef { return store.TurnRef{Conversation: a, Seq: seq} }
	other := chat.Address{Platform: "web", Channel: "other"}
	if err := db.update(t.Context(), func(tx *tx) error {
		err := tx.top(summariesBucket).put([]byte(general.String()), conversation.Summary{Text: "words", From: 3, Upto: 5})
		for seq := range uint64(8) {
			key := []byte(fmt.Sprint("web/", seq))
			err = errors.Join(err, tx.top(messageTurnsBucket).put(key, at(general, seq)),
				tx.top(quotesBucket).put(key, []store.TurnRef{at(other, 9), at(general, seq)}))
		}
		return errors.Join(err, tx.top(messageTurnsBucket).put([]byte("web/of no summary"), at(other, 4)))
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Prune(t.Context(), store.Retention{}); err != nil {
		t.Fatal(err)
	}
	for _, bucket := range []string{messageTurnsBucket, quotesBucket} {
		var left []string
		if err := db.view(func(tx *tx) error {
			return tx.top(bucket).each(func(k, _ []byte) error { left = append(left, string(k)); return nil })
		}); err != nil || !slices.Equal(left, []string{"web/3", "web/4", "web/5"}) {
			t.Errorf("of %s %q are left (%v)", bucket, left, err)
		}
	}
}

// What keeps Prune from deleting old words is told: it must not look as if they were gone.
func TestPrune_CannotDelete_Fails(t *testing.T) {
	keep := store.Retention{
		Conversations: func(chat.Address) time.Duration { return time.Hour },
		Rooms:         func(string) time.Duration { return time.Hour },
	}
	name := general.String()
	for what, spoil := range map[string]func(tx *tx) error{
		"index of a message": func(tx *tx) error {
			key := []byte(kv.Key("web", "m", name))
			err := tx.top(messageIDsBucket).delete(key)
			_, failed := tx.top(messageIDsBucket).createNested(string(key))
			return errors.Join(err, failed)
		},
		"index of a line":    func(tx *tx) error { return blockRecord(tx, entriesBucket, "general", "e") },
		"line":               func(tx *tx) error { return blockRecord(tx, roomsBucket, "general", "") },
		"file of a room":     func(tx *tx) error { return blockRecord(tx, roomFilesBucket, "general", "") },
		"item that was seen": func(tx *tx) error { return blockRecord(tx, seenBucket, "d", "") },
		"name of messages": func(tx *tx) error {
			b, err := tx.top(messagesBucket).createNested("web:/general/a/b/c")
			return errors.Join(err, b.raiseSequence(1))
		},
		"name of turns": func(tx *tx) error {
			b, err := tx.top(turnsBucket).createNested("web:/general/a/b/c")
			return errors.Join(err, b.raiseSequence(1))
		},
		"name of a summary": func(tx *tx) error {
			return tx.top(summariesBucket).put([]byte("web:/general/a/b/c"), conversation.Summary{Text: "words"})
		},
	} {
		t.Run(what, func(t *testing.T) {
			db := opened(t)
			old := time.Now().Add(-180 * 24 * time.Hour)
			_, err1 := db.SaveEntry(t.Context(), store.Entry{ID: "e", Room: "general", At: old})
			_, err2 := db.SaveRoomFile(t.Context(), "general", chat.File{Name: "a"})
			_, err3 := db.SaveMessages(t.Context(), []store.Message{{ID: "m", Conversation: general, At: old, Text: "words"}})
			_, err4 := db.FinishRun(t.Context(), store.Run{Digest: "d", Due: old}, nil, nil)
			err5 := db.update(t.Context(), spoil)
			if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
				t.Fatal(err)
			}
			if _, err := db.Prune(t.Context(), keep); err == nil {
				t.Error("it says that all is done")
			}
		})
	}
}

// blockRecord puts a bucket in the place of a record of a nested bucket; "" is the first one.
func blockRecord(tx *tx, top, nested, key string) error {
	b, err := tx.top(top).createNested(nested)
	if err != nil {
		return err
	}
	name := []byte(key)
	if key == "" {
		name, _ = b.cursor().first()
		name = slices.Clone(name)
	}
	if len(name) == 0 {
		name = seqKey(0)
	} else if err := b.delete(name); err != nil {
		return err
	}
	_, err = b.createNested(string(name))
	return err
}

// The newest large results are kept, and whoever stores one is told where the oldest cannot be deleted.
func TestSaveCalls_ManyLargeResults_KeepsTheNewest(t *testing.T) {
	db := opened(t)
	save := func(n int) error {
		id := fmt.Sprint("r", 1000+n)
		return db.SaveCalls(t.Context(), []store.ToolCall{{ID: id, ResultID: id, Whole: "words", Began: time.Now()}})
	}
	for n := range 256 + 2 {
		if err := save(n); err != nil {
			t.Fatal(err)
		}
	}
	for n, isKept := range map[int]bool{1: false, 2: true, 256 + 1: true} {
		if _, err := db.ToolResult(t.Context(), fmt.Sprint("r", 1000+n)); (err == nil) != isKept {
			t.Errorf("result %d: %v", n, err)
		}
	}
	if err := db.update(t.Context(), func(tx *tx) error {
		_, err := tx.top(resultsBucket).createNested("a bucket")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := save(9999); err == nil {
		t.Error("it says that all is stored")
	}
}

// An entry of an index that cannot be read does not keep a turn from being deleted; the operator learns of it.
func TestDeleteTurn_DamagedIndexEntry_IsReportedAndTheTurnIsGone(t *testing.T) {
	db := opened(t)
	turn := conversation.Turn{ID: "web/1", Began: time.Now(), Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: "words", Subject: "web/quoted"}}}}}
	if err := db.SaveTurn(t.Context(), general, &turn); err != nil {
		t.Fatal(err)
	}
	for _, index := range []string{messageTurnsBucket, quotesBucket} {
		if err := Spoil(db, index); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time there is nothing to delete
		if err := db.DeleteTurn(t.Context(), general, turn.Seq); err != nil {
			t.Fatal(err)
		}
	}
	if turns, err := db.Turns(t.Context(), general, store.Range{Newest: 10}); err != nil || len(turns) != 0 {
		t.Errorf("%d turns are left, %v", len(turns), err)
	}
	if damage := db.Damage(); len(damage) != 1 || !strings.Contains(damage[0], "web/1") || db.Health() == nil {
		t.Errorf("the damage is %q, health %v, want the entry of web/1", damage, db.Health())
	}
	if quoting, err := db.TurnsQuoting(t.Context(), "web/quoted"); err != nil || len(quoting) > 0 {
		t.Errorf("quoted by %v, %v", quoting, err)
	}
}

// The index of quotes of an earlier version has lists of turns by messages. They are read, and lose turns, as the newer
// entries do.
func TestTurnsQuoting_ListOfAnEarlierVersion(t *testing.T) {
	db := opened(t)
	old := store.TurnRef{Conversation: general, Seq: 1}
	turn := conversation.Turn{ID: "web/1", Began: time.Now(), Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: "words", Subject: "web/quoted"}}}}}
	other := conversation.Turn{ID: "web/2", Began: time.Now(), Messages: turn.Messages}
	for _, one := range []*conversation.Turn{&turn, &other} {
		if err := db.SaveTurn(t.Context(), general, one); err != nil {
			t.Fatal(err)
		}
	}
	gone := store.TurnRef{Conversation: chat.Address{Platform: "web", Channel: "other"}, Seq: 7}
	if err := db.update(t.Context(), func(tx *tx) error {
		return tx.top(quotesBucket).put([]byte("web/quoted"), []store.TurnRef{gone, old})
	}); err != nil {
		t.Fatal(err)
	}
	want := []store.TurnRef{gone, old, old, {Conversation: general, Seq: 2}}
	if got, err := db.TurnsQuoting(t.Context(), "web/quoted"); err != nil || !slices.Equal(got, want) {
		t.Errorf("quoted by %v (%v), want %v", got, err, want)
	}
	if err := db.DeleteTurn(t.Context(), general, 1); err != nil {
		t.Fatal(err)
	}
	want = []store.TurnRef{gone, {Conversation: general, Seq: 2}}
	if got, err := db.TurnsQuoting(t.Context(), "web/quoted"); err != nil || !slices.Equal(got, want) {
		t.Errorf("afterwards quoted by %v (%v), want %v", got, err, want)
	}
}

// A message that cannot be deleted, since a bucket is in its place, is reported, and the rest is deleted.
func TestPrune_BucketInThePlaceOfAMessage_IsReportedAndTheRestIsDeleted(t *testing.T) {
	db, old := opened(t), time.Now().Add(-48*time.Hour)
	other := chat.Address{Platform: "web", Channel: "other"}
	var list []store.Message
	for _, id := range []string{"1", "2", "3"} {
		list = append(list, store.Message{ID: id, Conversation: general, At: old, Text: "words"},
			store.Message{ID: id, Conversation: other, At: old, Text: "words"})
	}
	_, err1 := db.SaveMessages(t.Context(), list)
	_, err2 := db.SaveEntry(t.Context(), store.Entry{ID: "e", Room: "general", At: old})
	err3 := db.update(t.Context(), func(tx *tx) error { return blockRecord(tx, messagesBucket, general.String(), "") })
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	for range 2 { // found again it is no further damage
		var damaged *store.DamagedError
		_, err := db.Prune(t.Context(), store.Retention{
			Conversations: func(chat.Address) time.Duration { return time.Hour },
			Rooms:         func(string) time.Duration { return time.Hour },
		})
		if !errors.As(err, &damaged) || !strings.Contains(damaged.What, general.String()) {
			t.Fatalf("pruning gave %v", err)
		}
		if damage := db.Damage(); len(damage) != 1 || damage[0] != damaged.What || db.Health() == nil {
			t.Errorf("the damage is %q, health %v", damage, db.Health())
		}
	}
	if err := db.view(func(tx *tx) error {
		for b, want := range map[*bucket]int{
			tx.top(messagesBucket).nested(general.String()): 1, // the bucket
			tx.top(messagesBucket).nested(other.String()):   0,
			tx.top(roomsBucket).nested("general"):           0,
		} {
			n := 0
			if b != nil {
				_ = b.each(func(_, _ []byte) error { n++; return nil })
			}
			if n != want {
				t.Errorf("%d records are left, want %d", n, want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A record that cannot be read, whatever it is, is reported, and keeps nothing else from being deleted. One that is older
// than another old one is deleted with it.
func TestPrune_RecordsCannotBeRead_AreReportedAndTheRestIsDeleted(t *testing.T) {
	db, old := opened(t), time.Now().Add(-48*time.Hour)
	other := chat.Address{Platform: "web", Channel: "other"}
	for _, a := range []chat.Address{general, other} {
		storetest.SayEverywhere(t, db, a, "1"+a.Channel, "forgotten in "+a.Channel, old)
		saveTurns(t, db, a, 10, 13, old)
	}
	spoil := func(tx *bbolt.Tx, path ...string) error {
		b := tx.Bucket([]byte(path[0]))
		for _, name := range path[1:] {
			b = b.Bucket([]byte(name))
		}
		k, v := b.Cursor().First()
		if v == nil {
			return fmt.Errorf("no record in %q", path)
		}
		spoiled := bytes.Clone(v)
		spoiled[len(spoiled)-1] ^= 1
		return b.Put(bytes.Clone(k), spoiled)
	}
	if err := db.bolt.Update(func(tx *bbolt.Tx) (err error) {
		for _, path := range [][]string{{turnsBucket, general.String()}, {messagesBucket, general.String()},
			{roomsBucket, general.Channel}, {lastSeenBucket}} {
			err = errors.Join(err, spoil(tx, path...))
		}
		// A name that is none, before those that are.
		all := tx.Bucket([]byte(turnsBucket))
		b, failed := all.CreateBucket([]byte("!"))
		return errors.Join(err, failed, b.SetSequence(1))
	}); err != nil {
		t.Fatal(err)
	}
	var damaged *store.DamagedError
	keep := store.Retention{
		Conversations: func(chat.Address) time.Duration { return time.Hour },
		Rooms:         func(string) time.Duration { return time.Hour },
	}
	if _, err := db.Prune(t.Context(), keep); !errors.As(err, &damaged) {
		t.Errorf("it returned %v, want that something is damaged", err)
	}
	if n := len(db.Damage()); n != 5 {
		t.Errorf("reported %d: %q", n, db.Damage())
	}
	var left []string
	for _, record := range dump(t, db) {
		if strings.Contains(record, "forgotten") && !strings.Contains(record, "filedata") {
			left = append(left, record)
		}
	}
	// When the line was said is not known.
	if len(left) != 1 || !strings.Contains(left[0], roomsBucket) {
		t.Errorf("%d records are left, want the line: %q", len(left), left)
	}
}

// More conversations than one read transaction looks at are all pruned, and each that lost something is named once.
func TestPrune_ManyConversations_AllAreLookedAt(t *testing.T) {
	db := opened(t)
	old, n := time.Now().Add(-48*time.Hour), 2001
	if err := db.update(t.Context(), func(tx *tx) (err error) {
		for i := range n {
			var b *bucket
			if b, err = tx.createNamed(turnsBucket + nul + room(i).String()); err == nil {
				err = b.put(seqKey(1), conversation.Turn{ID: fmt.Sprint(i), Began: old})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	keep := store.Retention{Conversations: func(chat.Address) time.Duration { return time.Hour }}
	changed, err := db.Prune(t.Context(), keep)
	if err != nil || len(changed) != n {
		t.Fatalf("%d conversations lost something (%v), want %d", len(changed), err, n)
	}
	if !slices.IsSortedFunc(changed, func(a, b chat.Address) int { return strings.Compare(a.String(), b.String()) }) {
		t.Error("they are not sorted")
	}
	if list, _, err := db.Conversations(t.Context(), "", n); err != nil || len(list) != 0 {
		t.Errorf("%d are left (%v)", len(list), err)
	}
}

// A turn that a clock which was ahead has dated keeps those behind it from being kept too long, and goes with them.
func TestPrune_TurnOfTheFuture_KeepsNoOtherOne(t *testing.T) {
	db := opened(t)
	now := time.Now()
	for i, began := range []time.Time{now.Add(-48 * time.Hour), now.Add(48 * time.Hour), now.Add(-47 * time.Hour), now} {
		if err := db.SaveTurn(t.Context(), general, &conversation.Turn{ID: fmt.Sprint(i), Began: began}); err != nil {
			t.Fatal(err)
		}
	}
	keep := store.Retention{Conversations: func(chat.Address) time.Duration { return time.Hour }}
	if _, err := db.Prune(t.Context(), keep); err != nil {
		t.Fatal(err)
	}
	turns, err := db.Turns(t.Context(), general, store.Range{Newest: 10})
	if err != nil || len(turns) != 1 || turns[0].ID != "3" {
		t.Errorf("%d turns are left (%v): %+v", len(turns), err, turns)
	}
}

// An old store that is kept within the same second as another one gets a name of its own.
func TestKeepAs_NameIsTaken_TakesTheNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raven.db")
	if name, err := keepAs(path, path+".old"); name != "" || err != nil {
		t.Errorf("without a file it kept %q (%v)", name, err)
	}
	for n, want := range []string{".old", ".old-2", ".old-3"} {
		if err := os.WriteFile(path, []byte{byte(n)}, 0o600); err != nil {
			t.Fatal(err)
		}
		name, err := keepAs(path, path+".old")
		if err != nil || name != path+want {
			t.Fatalf("kept as %s (%v), want %s", name, err, want)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for n, name := range []string{".old", ".old-2", ".old-3"} {
		if b, err := os.ReadFile(path + name); err != nil || len(b) != 1 || b[0] != byte(n) {
			t.Errorf("%s holds %v (%v)", name, b, err)
		}
	}
}

// Backups of a damaged store fail, and the log names what helps; none are made without an interval, and none after the
// end of the program.
func TestBackups_StoreIsDamaged_LogNamesTheRemedy(t *testing.T) {
	db := opened(t)
	if err := errors.Join(db.SaveBlob(t.Context(), "k", []byte(`1`)), Spoil(db, blobsBucket)); err != nil {
		t.Fatal(err)
	}
	log := &logText{}
	o := BackupOptions{Folder: t.TempDir(), Log: slog.New(slog.NewTextHandler(log, nil)), Now: time.Now}
	copies := NewBackups(db.DB, o)
	copies.Run(t.Context()) // ends at once
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := copies.Make(over); !errors.Is(err, context.Canceled) || log.String() != "" ||
		copies.Status().Error != "" {
		t.Errorf("at the end of the program: %v, %+v, logged %s", err, copies.Status(), log)
	}
	var damaged *store.DamagedError
	err := copies.Make(t.Context())
	if !errors.As(err, &damaged) || !strings.Contains(log.String(), "ravenbot store check") ||
		copies.Status().Error != err.Error() {
		t.Errorf("it gave %v, %+v, and logged %s", err, copies.Status(), log)
	}
	if got := SuggestBackup(t.Context(), o.Folder, errStop); got != errStop {
		t.Errorf("another error became %v", got)
	}
}

// How long records are kept that no setting is about, to the second.
func TestPrune_LimitsOfTheirOwn(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	db := openAt(t, func() time.Time { return now })
	limits := map[string]time.Duration{doneBucket: 2 * day, streamsBucket: 2 * day, outboxBucket: 7 * day,
		lastSeenBucket: 30 * day, shownTurnsBucket: 30 * day, approvalsBucket: 30 * day,
		seenBucket + nul + "digest": 90 * day, turnsBucket + nul + general.String(): 30 * day}
	if err := db.update(t.Context(), func(tx *tx) error {
		_, err1 := tx.createNamed(seenBucket + nul + "digest")
		_, err2 := tx.createNamed(turnsBucket + nul + general.String())
		err := errors.Join(err1, err2, tx.top(summariesBucket).put([]byte(general.String()),
			conversation.Summary{Text: "words", From: 1, Upto: 9, Since: now}))
		for n, age := range []time.Duration{time.Second, 0} { // the first is older than it is kept
			for bucket, limit := range limits {
				at := now.Add(-limit - age)
				err = errors.Join(err, tx.named(bucket).put(seqKey(uint64(n+1)), map[string]any{
					doneBucket:       map[string]any{"done": at},
					streamsBucket:    map[string]any{"done": at},
					outboxBucket:     store.Post{Error: "refused", At: at},
					lastSeenBucket:   chat.LastSeen{At: at},
					shownTurnsBucket: map[string]any{"at": at},
					approvalsBucket:  store.Approval{At: at},
					seenBucket:       at,
					turnsBucket:      conversation.Turn{Began: at},
				}[strings.SplitN(bucket, nul, 2)[0]]))
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Prune(t.Context(), store.Retention{}); err != nil {
		t.Fatal(err)
	}
	if err := db.view(func(tx *tx) error {
		for bucket := range limits {
			b := tx.named(bucket)
			if b.has(seqKey(1)) || !b.has(seqKey(2)) {
				t.Errorf("%s: the older record is there %v, the younger %v", displayName(bucket), b.has(seqKey(1)),
					b.has(seqKey(2)))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// One backup is always kept. Other files are none.
func TestBackups_KeepNone_KeepsTheNewest(t *testing.T) {
	for keep, want := range map[int]int{0: 1, 1: 1, 2: 2, 9: 3} {
		folder := t.TempDir()
		other := strings.TrimPrefix(backupName(time.Unix(4, 0)), "ravenbot-")
		for _, name := range []string{backupName(time.Unix(1, 0)), backupName(time.Unix(3, 0)), backupName(time.Unix(2, 0)),
			other, "ravenbot-" + other + ".db", "raven.db"} {
			if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		surplus := NewBackups(nil, BackupOptions{Folder: folder, Keep: keep, Now: time.Now}).surplus()
		if len(surplus) != 3-want {
			t.Errorf("of 3 backups with %d to keep %d are too many, want %d", keep, len(surplus), 3-want)
		}
		for _, old := range surplus {
			if old.time.Equal(time.Unix(3, 0)) {
				t.Error("the newest is one of them")
			}
		}
	}
}

// What is done with several records at once is done with each of them.
func TestDB_SeveralAtOnce_AllAreDone(t *testing.T) {
	db, ctx, now := opened(t), t.Context(), time.Now()
	names := []string{"1", "2", "3"}
	check := func(what string, err error, left int, want int) {
		t.Helper()
		if err != nil || left != want {
			t.Errorf("%s: %d are there, want %d (%v)", what, left, want, err)
		}
	}
	var posts []store.Post
	var outcomes []store.Outcome
	var calls []store.ToolCall
	var feeds []store.Feed
	var list []store.Message
	for i, name := range names {
		posts = append(posts, store.Post{Key: name, To: general, At: now})
		outcomes = append(outcomes, store.Outcome{Key: name, Error: "refused", At: now})
		calls = append(calls, store.ToolCall{ID: name, ResultID: name, Whole: "words", Began: now})
		feeds = append(feeds, store.Feed{URL: name, Data: []byte(`1`)})
		list = append(list, store.Message{ID: "same", Conversation: room(i), At: now},
			store.Message{ID: name, Conversation: room(i), At: now})
	}
	err := errors.Join(db.SavePosts(ctx, posts), db.SaveCalls(ctx, calls), db.SaveFeeds(ctx, feeds...))
	pending, err1 := db.PendingPosts(ctx)
	check("posts", errors.Join(err, err1), len(pending), 3)
	err = db.SaveOutcomes(ctx, outcomes, 0)
	untold, err1 := db.Unnotified(ctx)
	check("undelivered posts", errors.Join(err, err1), len(untold), 3)
	err = db.MarkNotified(ctx, append([]string{"unknown"}, names...))
	untold, err1 = db.Unnotified(ctx)
	check("posts that nobody was told of", errors.Join(err, err1), len(untold), 0)
	found, err := db.ToolCalls(ctx, 0, 9, nil)
	check("calls", err, len(found), 3)
	for _, name := range names {
		_, err1 := db.ToolResult(ctx, name)
		_, isThere, err2 := db.LoadFeed(ctx, name)
		if err := errors.Join(err1, err2); err != nil || !isThere {
			t.Errorf("result and feed %s: %v, %v", name, isThere, err)
		}
	}
	added, err := db.SaveMessages(ctx, list)
	check("messages that are new", err, added, 6)
	err = db.DeleteMessage(ctx, "web", "same")
	for i := range names {
		left, _, err1 := db.Messages(ctx, room(i), "", 9)
		check("messages", errors.Join(err, err1), len(left), 1)
	}
	run := store.Run{Digest: "d", Due: now, Ended: now}
	_, err = db.FinishRun(ctx, run, names, nil)
	seen, _, err1 := db.SeenItems(ctx, "d", names)
	check("items that were seen", errors.Join(err, err1), len(seen), 3)
	err = db.AmendRun(ctx, run, names)
	seen, _, err1 = db.SeenItems(ctx, "d", names)
	check("items after the run was taken back", errors.Join(err, err1), len(seen), 0)
}

// TestKeepAs_AllNamesAreTaken_ReplacesNothing: what was kept before is not lost for what is to be kept now.
func TestKeepAs_AllNamesAreTaken_ReplacesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "raven.db")
	kept := []string{path + ".kept"}
	for n := 2; n < 100; n++ {
		kept = append(kept, fmt.Sprint(path, ".kept-", n))
	}
	for _, file := range append(kept, path) {
		if err := os.WriteFile(file, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if name, err := keepAs(path, path+".kept"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("it was kept as %s (%v)", name, err)
	}
	for _, file := range append(kept, path) {
		if text, err := os.ReadFile(file); err != nil || string(text) != file {
			t.Errorf("%s holds %q (%v)", file, text, err)
		}
	}
}
