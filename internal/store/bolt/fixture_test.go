package bolt_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
)

// newestFormat has a file in testdata, as all before it. A new one is written by
// RAVENBOT_UPDATE=1 go test ./internal/store/bolt -run Fixture, and none is changed.
const newestFormat = 6

// TestFixture_OfEachFormat_IsReadWhole opens a file of each format as its version left it.
func TestFixture_OfEachFormat_IsReadWhole(t *testing.T) {
	newest := filepath.Join("testdata", fmt.Sprintf("format%d.db.gz", newestFormat))
	if _, err := os.Stat(newest); os.Getenv("RAVENBOT_UPDATE") != "" && errors.Is(err, os.ErrNotExist) {
		writeFixture(t, newest)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "records.json"))
	if err != nil {
		t.Fatal(err)
	}
	// The one that was killed has all of its records in the write-ahead log.
	for _, name := range []string{"format1", "format2", "format3", "format4", "format4-killed", "format5", "format6"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "raven.db")
			unpackStore(t, name, path)
			for range 2 { // as its version left it, and as this one did
				db, err := bolt.OpenRecords(path, func() time.Time { return day })
				if err != nil {
					t.Fatal(err)
				}
				if _, err := db.Prune(t.Context(), store.Retention{}); err != nil {
					t.Error(err)
				}
				got := readRecords(t, db)
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("records (-stored +read):\n%s", diff)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if r, err := bolt.Check(t.Context(), path); err != nil {
				t.Errorf("%v\n%+v", err, r)
			}
		})
	}
}

// TestFixture_OfEachFormat_CanBeCopied makes copies of a file of each format, which are of the newest one, and changes
// nothing in the file itself.
func TestFixture_OfEachFormat_CanBeCopied(t *testing.T) {
	want := string(readFile(t, filepath.Join("testdata", "records.json")))
	ctx := t.Context()
	for _, name := range []string{"format1", "format2", "format3", "format4", "format4-killed", "format5", "format6"} {
		for what, copied := range map[string]func(path, to string) error{
			"backed up": func(path, to string) error { return bolt.BackupFile(ctx, path, to) },
			"restored":  func(path, to string) error { _, err := bolt.Restore(ctx, path, to, day); return err },
			"salvaged":  func(path, to string) error { _, err := bolt.Salvage(ctx, path, to); return err },
			"compacted": func(path, to string) error {
				for _, end := range []string{"", ".wal"} {
					if b, err := os.ReadFile(path + end); err == nil {
						if err := os.WriteFile(to+end, b, 0o600); err != nil {
							return err
						}
					}
				}
				_, _, err := bolt.Compact(ctx, to, day)
				return err
			},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				dir := t.TempDir()
				path, to := filepath.Join(dir, "raven.db"), filepath.Join(dir, "copy.db")
				unpackStore(t, name, path)
				before := readFile(t, path)
				if err := copied(path, to); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(before, readFile(t, path)) {
					t.Error("the file was changed")
				}
				if err := bolt.Verify(ctx, to); err != nil {
					t.Error(err)
				}
				db, err := bolt.OpenRecords(to, func() time.Time { return day })
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				if diff := cmp.Diff(want, readRecords(t, db)); diff != "" {
					t.Errorf("records (-stored +read):\n%s", diff)
				}
			})
		}
	}
}

// unpackStore writes the file of a format, and the write-ahead log if it has one.
func unpackStore(t *testing.T, name, path string) {
	t.Helper()
	unpack(t, filepath.Join("testdata", name+".db.gz"), path)
	if log := filepath.Join("testdata", name+".db.wal.gz"); fileExists(log) {
		unpack(t, log, path+".wal")
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func unpack(t *testing.T, from, to string) {
	t.Helper()
	packed, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeFixture writes a packed store with a record of each kind.
func writeFixture(t *testing.T, path string) {
	t.Helper()
	dir := t.TempDir()
	db, err := bolt.OpenRecords(filepath.Join(dir, "raven.db"), func() time.Time { return day })
	if err != nil {
		t.Fatal(err)
	}
	writeRecords(t, db)
	if err := errors.Join(db.Backup(t.Context(), filepath.Join(dir, "copy.db")), db.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "copy.db"))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(b)
	if err := errors.Join(err, w.Close(), os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(path, packed.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

var fixtureRoom = chat.Address{Platform: "web", Channel: "general"}

func writeRecords(t *testing.T, db *bolt.TestStore) {
	t.Helper()
	ctx := t.Context()
	var failed []error
	add := func(err error) { failed = append(failed, err) }
	message := func(id string) chat.Message {
		return chat.Message{ID: id, Conversation: fixtureRoom, Text: "words of " + id, Time: day}
	}
	for _, id := range []string{"answered", "waits", "refused"} {
		_, err := db.Accept(ctx, store.Received{Message: message(id), At: day})
		add(err)
	}
	turn := &conversation.Turn{ID: "answered", Of: []string{"web/answered"}, State: conversation.Answered,
		Began: day, Model: "m",
		User: "web/anna", Usage: llm.Usage{Input: 100, Output: 10}, Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: "words of answered"}, {Text: "quoted", Subject: "web/quoted"}}},
			{Role: llm.Assistant, Parts: []llm.Part{{Text: "an answer"}}}}}
	call := store.ToolCall{ID: "c1", Turn: "answered", Conversation: fixtureRoom, Server: "native", Tool: "feeds_fetch",
		Args: json.RawMessage(`{"url":"https://example.org"}`), Result: "its begin", ResultID: "r1", Whole: "all of it",
		Began: day, Took: time.Second}
	add(db.SaveTurn(ctx, fixtureRoom, turn, call))
	add(db.SaveAnswer(ctx, fixtureRoom, []string{message("answered").Key()}, turn, []store.Post{
		{Key: "p1", To: fixtureRoom, Draft: chat.Draft{Text: "an answer"}, Message: message("answered").Key(), Turn: "answered", At: day}}))
	add(db.SavePosts(ctx, []store.Post{
		{Key: "p2", To: fixtureRoom, Draft: chat.Draft{Text: "refused"}, Message: message("refused").Key(), At: day},
		{Key: "p3", To: fixtureRoom, Draft: chat.Draft{Text: "pending"}, At: day}}))
	add(db.SaveOutcomes(ctx, []store.Outcome{{Key: "p1", Ref: chat.Ref{IDs: []string{"m1"}}, At: day},
		{Key: "p2", Error: "no rights", At: day}}, 0))
	add(db.SaveStream(ctx, "p3", chat.Ref{IDs: []string{"m3"}}))
	add(db.SaveFeedback(ctx, store.Feedback{Turn: "answered", User: "anna", Good: true, At: day}))
	add(db.SaveSummary(ctx, fixtureRoom, conversation.Summary{Upto: 1, Text: "a summary", At: day}))
	_, err := db.SaveMessages(ctx, []store.Message{{Conversation: fixtureRoom, ID: "imported",
		Author: chat.User{ID: "bob"}, At: day, Text: "before"}})
	add(err)
	add(db.SaveFeeds(ctx, store.Feed{URL: "https://example.org/feed", Data: []byte(`{"title":"News"}`)}))
	_, err = db.FinishRun(ctx, store.Run{Digest: "morning", Due: day, Began: day, Ended: day, OK: true, Posted: 1},
		[]string{"item"}, nil)
	add(err)
	add(db.SaveSubscription(ctx, store.Subscription{To: fixtureRoom, URL: "https://example.org/feed",
		Title: "News", At: day}))
	_, err = db.SaveEntry(ctx, store.Entry{ID: "e1", Room: "general", At: day, Text: "a line"})
	add(err)
	_, err = db.SaveRoomFile(ctx, "general", chat.File{Name: "a.txt", Data: []byte("a file")})
	add(err)
	_, _, err = db.SaveMemory(ctx, store.Memory{Scope: "user/web/anna", Text: "likes tea", By: "anna", At: day}, 10)
	add(err)
	add(db.SaveApproval(ctx, store.Approval{ID: "a1", Turn: "answered", Call: "c1", Tool: "feeds_fetch",
		Conversation: fixtureRoom, At: day, Decision: store.Approved}))
	_, err = db.SwapSetting(ctx, "instance", nil, []byte(`{"language":"en"}`))
	add(err)
	add(db.SaveBlob(ctx, "server", []byte(`{"tools":[]}`)))
	add(db.SaveItem(ctx, "agents", "helper", json.RawMessage(`{"model":"default"}`), false))
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
}

// readRecords returns all that writeRecords wrote, as JSON.
func readRecords(t *testing.T, db *bolt.TestStore) string {
	t.Helper()
	ctx := t.Context()
	all := map[string]any{}
	var failed []error
	add := func(name string, v any, err error) {
		all[name] = v
		failed = append(failed, err)
	}
	waiting, err := db.Unanswered(ctx)
	add("waiting", waiting, err)
	pending, err := db.PendingPosts(ctx)
	add("pending", pending, err)
	undelivered, err := db.Undelivered(ctx)
	add("undelivered", undelivered, err)
	seen, err := db.LastSeen(ctx, "web", day.Add(-time.Hour))
	add("lastSeen", seen, err)
	ref, _, err := db.PostRef(ctx, "p1")
	add("postRef", ref, err)
	stream, _, err := db.Stream(ctx, "p3")
	add("stream", stream, err)
	shown, _, err := db.ShownTurn(ctx, fixtureRoom, "m1")
	add("shown", shown, err)
	feedback, err := db.Feedback(ctx)
	add("feedback", feedback, err)
	turns, err := db.Turns(ctx, fixtureRoom, store.Range{Newest: math.MaxInt})
	add("turns", turns, err)
	place, _, err := db.TurnOf(ctx, "web/answered")
	add("place", place, err)
	quoting, err := db.TurnsQuoting(ctx, "web/quoted")
	add("quoting", quoting, err)
	summary, err := db.Summary(ctx, fixtureRoom)
	add("summary", summary, err)
	messages, _, err := db.Messages(ctx, fixtureRoom, "", 10)
	add("messages", messages, err)
	calls, err := db.ToolCalls(ctx, 0, 10, nil)
	add("calls", calls, err)
	result, err := db.ToolResult(ctx, "r1")
	add("result", result.Text, err)
	approvals, err := db.Approvals(ctx, time.Time{})
	add("approvals", approvals, err)
	feed, _, err := db.LoadFeed(ctx, "https://example.org/feed")
	add("feed", feed, err)
	runs, err := db.LastRuns(ctx, "morning", 10)
	add("runs", runs, err)
	items, _, err := db.SeenItems(ctx, "morning", []string{"item", "other"})
	add("seenItems", items, err)
	subscriptions, err := db.Subscriptions(ctx)
	add("subscriptions", subscriptions, err)
	entries, err := db.Entries(ctx, "general", 0, 10)
	add("entries", entries, err)
	file, err := db.RoomFile(ctx, "general", 1)
	add("file", file, err)
	memories, err := db.Memories(ctx, "user/web/anna")
	add("memories", memories, err)
	settings, err := db.Settings(ctx)
	add("settings", fmt.Sprintf("%s", settings), err)
	blob, err := db.LoadBlob(ctx, "server")
	add("blob", json.RawMessage(blob), err)
	made, err := db.Items(ctx, "agents")
	add("items", made, err)
	usage, _, err := db.Usage(ctx, "", "", 100)
	add("usage", usage, err)
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}
