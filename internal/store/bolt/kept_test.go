package bolt

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
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
		{keepApprovals, [4]int{1, 1, 1, 1}}, // approvals have a limit of their own
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

// What was deleted or has changed since it was looked at is left alone.
func TestSweep_RecordIsGoneOrYoungerSince_IsSkipped(t *testing.T) {
	db := opened(t)
	if err := errors.Join(db.SaveBlob(t.Context(), "old", []byte(`"old"`)),
		db.SaveBlob(t.Context(), "young", []byte(`"young"`))); err != nil {
		t.Fatal(err)
	}
	s := sweep{top: blobsBucket, isOld: func(_ *tx, k, v []byte) (bool, error) {
		var text string
		err := db.decode(k, v, &text)
		return text == "old", err
	}}
	n, left, err := s.delete(t.Context(), db, [][]byte{[]byte("gone"), []byte("young"), []byte("old")})
	if err != nil || n != 1 || len(left) > 0 {
		t.Errorf("%d were deleted, %q are left (%v)", n, left, err)
	}
	if v, err := db.LoadBlob(t.Context(), "young"); err != nil || string(v) != `"young"` {
		t.Errorf("the young one is %q (%v)", v, err)
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
	if err := db.bolt.Load().Update(func(tx *bbolt.Tx) error {
		_, err := tx.Bucket([]byte(turnsBucket)).CreateBucket([]byte("web:/general/a/b/c"))
		return err
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

// A store with a list of free pages that is longer than a page is as it was left, too.
func TestStamp_LongListOfFreePages_Fits(t *testing.T) {
	db := opened(t)
	large := store.Feed{URL: "large", Data: append(append([]byte{'"'}, repeatX(800*4096)...), '"')}
	for range 3 { // what a transaction frees is free when those before it have ended
		if err := db.SaveFeeds(t.Context(), large); err != nil {
			t.Fatal(err)
		}
		large.Data = []byte(`"small"`)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	m := imageOf(t, db.path)
	if p := m.page(m.meta.freelist); p.overflow() == 0 {
		t.Fatalf("the list names %d pages", p.freeCount())
	}
	if s := readStamp(db.path); !s.fits(db.path) {
		t.Error("the file would be read as a whole")
	}
}

// An entry of an index that cannot be read does not keep a turn from being deleted; the operator learns of it.
func TestDeleteTurn_DamagedIndexEntry_IsReportedAndTheTurnIsGone(t *testing.T) {
	for index, what := range map[string]string{messageTurnsBucket: "web/1", quotesBucket: "web/quoted"} {
		db := opened(t)
		turn := conversation.Turn{ID: "web/1", Began: time.Now(), Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: "words", Subject: "web/quoted"}}}}}
		if err := db.SaveTurn(t.Context(), general, &turn); err != nil {
			t.Fatal(err)
		}
		if err := Spoil(db, index); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time there is nothing to delete
			if err := db.DeleteTurn(t.Context(), general, turn.Seq); err != nil {
				t.Fatalf("%s: %v", index, err)
			}
		}
		if turns, err := db.Turns(t.Context(), general, store.Range{Newest: 10}); err != nil || len(turns) != 0 {
			t.Errorf("%s: %d turns are left, %v", index, len(turns), err)
		}
		if damage := db.Damage(); len(damage) != 1 || !strings.Contains(damage[0], what) || db.Health() == nil {
			t.Errorf("%s: the damage is %q, health %v, want the entry of %s", index, damage, db.Health(), what)
		}
	}
}
