package transfer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/ops/transfer"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/testing/storetest"
)

var (
	general = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}
	thread  = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1", Thread: "1.1"}
	room    = chat.Address{Platform: "web", Channel: "general"}
	noon    = time.Date(2026, 3, 4, 12, 0, 0, 123456789, time.UTC)
)

// side is a store with its Service.
type side struct {
	t        *testing.T
	db       *records.Store
	transfer *transfer.Service
	reloads  int
	isOver   func(time.Time) bool
}

func newSide(t *testing.T) *side {
	t.Helper()
	db, err := storage.OpenFile(filepath.Join(t.TempDir(), "raven.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := &side{t: t, db: db}
	s.transfer = transfer.New(transfer.Options{
		Store:        db,
		Reload:       func(context.Context) error { s.reloads++; return nil },
		IsConfigured: func(digest string) bool { return strings.HasPrefix(digest, "configured") },
		Check:        refuseUseless,
		IsOver:       func(_ chat.Address, at time.Time) bool { return s.isOver != nil && s.isOver(at) },
	})
	return s
}

func refuseUseless(_, name string, _ json.RawMessage) error {
	if name == "useless" {
		return errors.New("useless cannot be used")
	}
	return nil
}

func (s *side) export(only chat.Address) string {
	s.t.Helper()
	var b bytes.Buffer
	s.must(s.transfer.Export(s.t.Context(), &b, only))
	return b.String()
}

func (s *side) load(lines string) transfer.Result {
	s.t.Helper()
	r, err := s.transfer.Import(s.t.Context(), strings.NewReader(lines), 1)
	s.must(err)
	return r
}

func (s *side) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// fill stores a record of every kind, and more turns than are read at once.
func (s *side) fill() {
	ctx := s.t.Context()
	for i := range 1100 {
		at, words := general, fmt.Sprint("question ", i)
		if i%10 == 0 {
			at = thread
		}
		s.must(s.db.SaveTurn(ctx, at, &conversation.Turn{
			ID:    fmt.Sprintf("slack/T1/C1/%d", i),
			Began: noon.Add(time.Duration(i) * time.Second),
			State: conversation.Answered,
			User:  "slack/U1",
			Messages: []llm.Message{
				{Role: llm.User, Parts: []llm.Part{{Source: llm.SourceSpeaker, Text: "anna says:\n"}, {Text: words}}},
				{Role: llm.Assistant, Parts: []llm.Part{{Text: "answer <" + words + "> & more"}}},
			},
		}))
	}
	_, err := s.db.SaveMessages(ctx, []store.Message{{Conversation: room, ID: "m1", Author: chat.User{Name: "berit"},
		At: noon, Text: "hi"}})
	s.must(err)
	for _, scope := range []string{"user/slack/U1", "channel/slack:T1/C1"} {
		for _, text := range []string{"one", "two", "three"} {
			_, _, err := s.db.SaveMemory(ctx, store.Memory{Scope: scope, Text: text, By: "anna", User: "slack/U1", At: noon}, 9)
			s.must(err)
		}
		s.must(s.db.DeleteMemory(ctx, scope, 2)) // numbers need not be without gaps
	}
	for scope, layer := range map[string]string{
		"channel/slack:T1/C1": `{"language":"German"}`, "instance": `{"model":"default"}`,
	} {
		_, err := s.db.SwapSetting(ctx, scope, nil, []byte(layer))
		s.must(err)
	}
	s.must(s.db.SaveSubscription(ctx, store.Subscription{To: general, URL: "https://example.org/feed",
		Title: "Feed", At: noon}))
	for kind, name := range map[string]string{"mcp server": "files", "agent": "helper", "digest": "morning", "job": "j1",
		"digest member filter": "f1", "digest unsubscription": "u1"} {
		s.must(s.db.SaveItem(ctx, kind, name, json.RawMessage(`{"a":[1,2]}`), false))
	}
}

func TestRoundTrip_GivesTheSameLines(t *testing.T) {
	from, to := newSide(t), newSide(t)
	from.fill()
	want := from.export(chat.Address{})
	if n := strings.Count(want, "\n"); n != 2200+1+4+2+1+6 {
		t.Errorf("%d lines are exported", n)
	}
	if n := strings.Count(want, `"by":"anna","user":"slack/U1"`); n != 4 {
		t.Errorf("%d notes are exported with who had them stored", n)
	}
	r := to.load(want)
	added := map[string]int{"message": 2201, "memory": 4, "setting": 2, "subscription": 1, "server": 1,
		"agent": 1, "digest": 1, "job": 1, "filter": 1, "unsubscription": 1}
	if diff := cmp.Diff(transfer.Result{Added: added, Errors: []transfer.LineError{}}, r); diff != "" {
		t.Errorf("the import (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, to.export(chat.Address{})); diff != "" {
		t.Errorf("the second export (-want +got):\n%.2000s", diff)
	}
	// Again, into both: everything is there, in turns or outside of them.
	for _, s := range []*side{from, to} {
		if r := s.load(want); r.Skipped != 2214 || len(r.Added) != 0 || len(r.Errors) != 0 {
			t.Errorf("a second import: %+v", r)
		}
	}
	if from.reloads != 0 || to.reloads != 1 {
		t.Errorf("reloads: %d and %d, want 0 and 1", from.reloads, to.reloads)
	}
}

// The largest answer that is read from a model comes back, also where JSON writes each byte of it as two.
func TestRoundTrip_LargestAnswer_ComesBack(t *testing.T) {
	from, to := newSide(t), newSide(t)
	from.must(from.db.SaveTurn(t.Context(), general, &conversation.Turn{
		ID:    "slack/T1/C1/1",
		Began: noon,
		State: conversation.Answered,
		Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: "all of it"}}},
			{Role: llm.Assistant, Parts: []llm.Part{{Text: strings.Repeat(`"`, 1<<20)}}},
		},
	}))
	want := from.export(chat.Address{})
	if r := to.load(want); r.Added["message"] != 2 || len(r.Errors) != 0 {
		t.Errorf("the import: %+v", r)
	}
	if to.export(chat.Address{}) != want {
		t.Error("the second export is another one")
	}
}

func TestExport_OfOneConversation(t *testing.T) {
	s := newSide(t)
	s.fill()
	for only, want := range map[chat.Address]map[string]int{
		general: {"message": 2200, "memory": 2, "setting": 1, "subscription": 1},
		thread:  {"message": 220, "memory": 2, "setting": 1},
		room:    {"message": 1},
	} {
		got := map[string]int{}
		for line := range strings.Lines(s.export(only)) {
			var head struct{ Kind string }
			s.must(json.Unmarshal([]byte(line), &head))
			got[head.Kind]++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", only, diff)
		}
	}
}

func TestImport_NamesBadLinesAndTakesTheOthers(t *testing.T) {
	const message = `{"kind":"message","conversation":"web:/general","id":"%s","author":{"id":"","name":"a"},` +
		`"bot":false,` +
		`"at":"2026-03-04T12:00:00Z","text":"hi"}`
	for line, want := range map[string]string{
		`{"kind":`: "it is no JSON object",
		`{"kind":"agent","name":"useless","value":{}}`:                                                 "useless cannot be used",
		`{"kind":"setting","scope":"useless","value":{}}`:                                              "useless cannot be used",
		`{"kind":"subscription","to":"web:/a","url":"file:///etc/passwd","at":"2026-03-04T12:00:00Z"}`: `"url" is "file:///etc/passwd"`,
		`{"kind":"tea"}`:     `its kind "tea" is not known`,
		`[1]`:                "it is no JSON object",
		`{"kind":"message"}`: `"conversation": parse address`,
		`{"kind":"message","conversation":"web:/general","id":"","at":"2026-03-04T12:00:00Z","text":"x"}`:                 `"id" has 0 bytes`,
		`{"kind":"message","conversation":"web:/general","id":"1","text":"x"}`:                                            `"at" is missing`,
		`{"kind":"message","conversation":"web:/general","id":"1","at":"2026-03-04T12:00:00Z","text":""}`:                 `"text" has 0 bytes`,
		`{"kind":"message","conversation":"web:/general","id":"1","at":"2026-03-04T12:00:00Z","text":"x","colour":"red"}`: `unknown field "colour"`,
		`{"kind":"message","conversation":"web:/general","id":"1","at":"yesterday","text":"x"}`:                           "parsing time",
		`{"kind":"memory","scope":"anna","text":"x"}`:                                                                     `"scope" is "anna"`,
		`{"kind":"memory","scope":"user:slack/U1","text":""}`:                                                             `"text" has 0 characters`,
		`{"kind":"memory","scope":"user:slack/U1","text":"x","user":"U1"}`:                                                `"user" is "U1"`,
		`{"kind":"setting","scope":"instance","value":7}`:                                                                 "is no JSON object",
		`{"kind":"subscription","to":"web:/general","url":""}`:                                                            `"url" has 0 bytes`,
		`{"kind":"server","name":"","value":{}}`:                                                                          `"name" has 0 bytes`,
		`{"kind":"digest","name":"x","value":[]}`:                                                                         `"value" is no JSON object`,
	} {
		s := newSide(t)
		r := s.load(fmt.Sprintf(message, "1") + "\n\n" + line + "\n" + fmt.Sprintf(message, "2"))
		if len(r.Errors) != 1 || r.Errors[0].Line != 3 || !strings.Contains(r.Errors[0].Error, want) ||
			r.Added["message"] != 2 {
			t.Errorf("%s: %+v, want an error of line 3 with %q and two messages", line, r, want)
		}
	}
}

// failingReader fails once its end is reached, as a sender that goes away does, whose request is canceled then.
type failingReader struct {
	io.Reader
	cancel func()
}

var errGone = errors.New("the sender is gone")

func (r failingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		r.cancel()
		return n, errGone
	}
	return n, err
}

// A digest beside that of the configuration would take its name, which begins anew then.
// A digest that is paused stays so where it is imported; what is stored of one that is not is left out.
func TestRoundTrip_PausedDigest_StaysPaused(t *testing.T) {
	from, to := newSide(t), newSide(t)
	for name, value := range map[string]string{"news": `{"paused":true,"source":"chat"}`, "other": `{"paused":false}`} {
		from.must(from.db.SaveItem(t.Context(), "digest pause", name, json.RawMessage(value), false))
	}
	lines := from.export(chat.Address{})
	if want := `{"kind":"pause","name":"news","value":{"paused":true,"source":"chat"}}` + "\n"; lines != want {
		t.Fatalf("exported %s, want %s", lines, want)
	}
	if r := to.load(lines); r.Added["pause"] != 1 || to.reloads != 1 || to.export(chat.Address{}) != lines {
		t.Errorf("imported %+v, exported %s", r, to.export(chat.Address{}))
	}
}

func TestImport_DigestOfTheConfiguration_IsLeftOut(t *testing.T) {
	s := newSide(t)
	s.must(s.db.SaveItem(t.Context(), "digest", "configured later", []byte(`{}`), false))
	r := s.load(`{"kind":"digest","name":"configured","value":{}}` + "\n" +
		`{"kind":"digest","name":"configured later","value":{}}` + "\n" + `{"kind":"digest","name":"other","value":{}}`)
	if r.Added["digest"] != 1 || r.Skipped != 1 || len(r.Errors) != 1 || r.Errors[0].Line != 1 ||
		!strings.Contains(r.Errors[0].Error, `config.json has a digest called "configured"`) {
		t.Errorf("imported %+v, want the first named as left out, and the second as there", r)
	}
	items, err := s.db.Items(t.Context(), "digest")
	s.must(err)
	if _, ok := items["configured"]; ok || len(items) != 2 {
		t.Errorf("stored are %v, want none of the name", items)
	}
}

func TestImport_ReadingFails_KeepsAndReloadsWhatWasRead(t *testing.T) {
	s := newSide(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := `{"kind":"digest","name":"x","value":{}}` + "\n" +
		`{"kind":"message","conversation":"web:/general","id":"1",` +
		`"author":{"id":"","name":"a"},"bot":false,"at":"2026-03-04T12:00:00Z","text":"hi"}` + "\n"
	r, err := s.transfer.Import(ctx, failingReader{strings.NewReader(lines), cancel}, 1)
	if !errors.Is(err, errGone) {
		t.Errorf("the error is %v", err)
	}
	if s.reloads != 1 || r.Added["message"] != 1 || !strings.Contains(s.export(chat.Address{}), `"text":"hi"`) {
		t.Errorf("%d reloads, want 1; the import: %+v", s.reloads, r)
	}
}

func TestExport_HoldsNothingThatIsOverItsRetention(t *testing.T) {
	s := newSide(t)
	room := chat.Address{Platform: "web", Channel: "general"}
	storetest.SayEverywhere(t, s.db, room, "old", "words of long ago", time.Now().Add(-30*24*time.Hour))
	storetest.SayEverywhere(t, s.db, room, "young", "words of today", time.Now())
	if before := s.export(chat.Address{}); !strings.Contains(before, "words of long ago") {
		t.Fatalf("the export has not what was said:\n%s", before)
	}
	_, err := s.db.Prune(t.Context(), storetest.WeekIn("general"))
	s.must(err)
	if after := s.export(chat.Address{}); strings.Contains(after, "words of long ago") ||
		!strings.Contains(after, "words of today") {
		t.Errorf("after pruning the export is\n%s", after)
	}
}

// brokenStore stores nothing, and counts how often it is asked for all settings or subscriptions.
type brokenStore struct {
	transfer.Store
	fail  error
	lists int
}

func (s *brokenStore) SwapSetting(ctx context.Context, scope string, was, now []byte) (bool, error) {
	swapped, err := s.Store.SwapSetting(ctx, scope, was, now)
	return swapped, errors.Join(s.fail, err)
}

func (s *brokenStore) SaveMemory(ctx context.Context, m store.Memory, limit int) (store.Memory, bool, error) {
	if s.fail != nil {
		return m, true, s.fail
	}
	return s.Store.SaveMemory(ctx, m, limit)
}

func (s *brokenStore) SaveItem(ctx context.Context, kind, name string, item json.RawMessage, over bool) error {
	return errors.Join(s.fail, s.Store.SaveItem(ctx, kind, name, item, over))
}

func (s *brokenStore) SaveSubscription(ctx context.Context, one store.Subscription) error {
	return errors.Join(s.fail, s.Store.SaveSubscription(ctx, one))
}

func (s *brokenStore) Settings(ctx context.Context) (map[string][]byte, error) {
	s.lists++
	return s.Store.Settings(ctx)
}

func (s *brokenStore) Subscriptions(ctx context.Context) ([]store.Subscription, error) {
	s.lists++
	return s.Store.Subscriptions(ctx)
}

// What the store refuses does not count as added, and many records of a kind do not have all of them read for each.
func TestImport_CountsWhatIsStored_AndReadsWhatIsThereOnce(t *testing.T) {
	lines := []string{
		`{"kind":"setting","scope":"user/slack/U%d","value":{"language":"German"}}`,
		`{"kind":"subscription","to":"slack:T1/C1","url":"https://example.org/%d","title":"Feed",` +
			`"at":"2026-03-04T12:00:00Z"}`,
		`{"kind":"memory","scope":"user:slack/U1","text":"note %d","by":"anna","at":"2026-03-04T12:00:00Z"}`,
		`{"kind":"digest","name":"d%d","value":{"a":1}}`,
	}
	for _, line := range lines {
		s := newSide(t)
		kept := &brokenStore{Store: s.db, fail: errors.New("the disk is full")}
		service := transfer.New(transfer.Options{
			Store:        kept,
			Reload:       func(context.Context) error { return nil },
			IsConfigured: func(string) bool { return false },
			Check:        refuseUseless,
		})
		r, err := service.Import(t.Context(), strings.NewReader(fmt.Sprintf(line, 1)), 1)
		if !errors.Is(err, kept.fail) || len(r.Added) != 0 || r.Skipped != 0 {
			t.Errorf("%s: counted %+v although it was not stored (%v)", line, r, err)
		}
		var many strings.Builder
		for n := range 5 {
			fmt.Fprintf(&many, line+"\n"+line+"\n", 10+n, 10+n)
		}
		kept.fail, kept.lists = nil, 0
		r, err = service.Import(t.Context(), strings.NewReader(many.String()), 1)
		added := 0
		for _, n := range r.Added {
			added += n
		}
		if err != nil || added != 5 || r.Skipped != 5 || len(r.Errors) != 0 || kept.lists > 1 {
			t.Errorf("%s: %+v, %v, want 5 of 10 added; all were read %d times", line, r, err, kept.lists)
		}
	}
}

// What is over its retention is in no export, though it may be stored for some hours, and an import does not bring it
// back, so that the same import twice adds nothing.
func TestTransfer_MessagesOverTheirRetention_AreLeftOut(t *testing.T) {
	s := newSide(t)
	for id, at := range map[string]time.Time{"old": noon.Add(-48 * time.Hour), "new": noon} {
		_, err := s.db.SaveMessages(t.Context(), []store.Message{{Conversation: general, ID: id, At: at, Text: "of " + id}})
		s.must(err)
	}
	all := s.export(chat.Address{})
	s.isOver = func(at time.Time) bool { return at.Before(noon.Add(-24 * time.Hour)) }
	if got := s.export(chat.Address{}); strings.Contains(got, "of old") || !strings.Contains(got, "of new") {
		t.Errorf("exported:\n%s", got)
	}
	to := newSide(t)
	to.isOver = s.isOver
	r := to.load(all)
	want := transfer.Result{Added: map[string]int{"message": 1}, Expired: 1, Errors: []transfer.LineError{}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("the import (-want +got):\n%s", diff)
	}
}
