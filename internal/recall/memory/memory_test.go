package memory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/recall/memory"
	"ravenbot/internal/store"
	"ravenbot/internal/store/storage"
)

var (
	general = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}
	thread  = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1", Thread: "1.2"}
	random  = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C2"}
	other   = chat.Address{Platform: "discord", Workspace: "T1", Channel: "C1"}

	anna    = chat.User{ID: "U1", Name: "anna"}
	berit   = chat.User{ID: "U2", Name: "berit"}
	boss    = chat.User{ID: "U3", Name: "boss", Admin: true}
	several = chat.User{Name: "several people"}
)

// room is a pack over a real store, at a noon that each save moves on by an hour.
type room struct {
	t    *testing.T
	pack *memory.Pack
	log  bytes.Buffer
}

func newRoom(t *testing.T) *room {
	t.Helper()
	db, err := storage.OpenFile(filepath.Join(t.TempDir(), "raven.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return over(t, db)
}

func over(t *testing.T, s memory.Store) *room {
	r := &room{t: t}
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	r.pack = memory.New(memory.Options{Store: s, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
		Now:     func() time.Time { now = now.Add(time.Hour); return now },
		Manages: func(m chat.Message) bool { return m.Author.Admin }})
	return r
}

func (r *room) call(name string, where chat.Address, who chat.User, args map[string]any) (tool.Result, error) {
	r.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, one := range r.pack.Tools() {
		if one.Spec().Name == name {
			return one.Call(tool.WithCaller(r.t.Context(), tool.Caller{Conversation: where, User: who}), raw)
		}
	}
	r.t.Fatalf("there is no tool %s", name)
	return tool.Result{}, nil
}

func (r *room) save(where chat.Address, who chat.User, about, text string) tool.Result {
	r.t.Helper()
	res, err := r.call("save", where, who, map[string]any{"text": text, "about": about})
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func (r *room) search(where chat.Address, who chat.User, query string) string {
	r.t.Helper()
	res, err := r.call("search", where, who, map[string]any{"query": query})
	if err != nil || res.IsError {
		r.t.Fatal(res.Text, err)
	}
	return res.Text
}

func (r *room) command(where chat.Address, who chat.User, text string) chat.Draft {
	r.t.Helper()
	d := r.pack.Command(r.t.Context(), chat.Message{Conversation: where, Author: who, Text: text, Command: "memory"})
	if !d.Ephemeral {
		r.t.Errorf("%q was answered before everybody", text)
	}
	return d
}

func TestMemoriesAreSeenWhereTheyBelongAlone(t *testing.T) {
	r := newRoom(t)
	r.save(general, anna, "me", "anna's cat is called Mons")
	r.save(general, berit, "me", "berit's cat is called Pus")
	r.save(thread, anna, "channel", "the cat of the office is called Kaptein")
	for _, c := range []struct {
		where chat.Address
		who   chat.User
		want  string
	}{
		{general, anna, "Mons Kaptein"}, {general, berit, "Pus Kaptein"}, {thread, anna, "Mons Kaptein"}, {random, anna, "Mons"},
		{general, boss, "Kaptein"}, {random, boss, ""}, {general, several, "Kaptein"}, {random, several, ""}, {other, anna, ""},
	} {
		for _, query := range []string{"cat", ""} {
			text := r.search(c.where, c.who, query)
			for _, name := range []string{"Mons", "Pus", "Kaptein"} {
				if got, want := strings.Contains(text, name), strings.Contains(c.want, name); got != want {
					t.Errorf("%s in %s asks %q and sees %s: %v, want %v", c.who.Name, c.where, query, name, got, want)
				}
			}
			if said := strings.Contains(text, "Several people"); said != (c.who.ID == several.ID) {
				t.Errorf("%s is told of several people: %v", c.who.Name, said)
			}
		}
	}
}

func TestWhatIsStoredIsSaid(t *testing.T) {
	r := newRoom(t)
	want := "Stored as number 1 about you: “likes short answers”. `/raven memory list` shows what is kept, `/raven " +
		"memory delete 1` removes this."
	if res := r.save(general, anna, "me", "  likes\n short\u202e \x1banswers "); res.IsError || res.Text != want {
		t.Errorf("said %q, want %q", res.Text, want)
	}
	if res := r.save(random, anna, "me", "likes short answers"); res.Text != "This was remembered before, as number 1 "+
		"about you." {
		t.Errorf("said %q of what was there", res.Text)
	}
	want = "Stored as number 1 about this channel: “deploys on Fridays”. `/raven memory channel list` shows what is " +
		"kept, `/raven memory channel delete 1` removes this."
	if res := r.save(general, several, "channel", "deploys on Fridays"); res.IsError || res.Text != want {
		t.Errorf("said %q, want %q", res.Text, want)
	}
	for _, c := range []struct {
		who               chat.User
		about, text, want string
	}{
		{several, "me", "likes tea", "several people are answered at once"}, {anna, "me", " \n ", "0 characters"},
		{anna, "me", strings.Repeat("ø", 501), "501 characters"}, {anna, "everybody", "x", "want me or channel"},
	} {
		if res := r.save(general, c.who, c.about, c.text); !res.IsError ||
			!strings.HasPrefix(res.Text, "Nothing was stored") || !strings.Contains(res.Text, c.want) {
			t.Errorf("%s, %.20q: %q, want %q", c.about, c.text, res.Text, c.want)
		}
	}
	if res := r.save(general, anna, "me", strings.Repeat("ø", 500)); res.IsError {
		t.Errorf("the longest text: %s", res.Text)
	}
	if res := r.save(chat.Address{}, anna, "me", "x"); !res.IsError || !strings.Contains(res.Text, "neither") {
		t.Errorf("from nowhere: %s", res.Text)
	}
}

func TestAFullScopeKeepsWhatItHas(t *testing.T) {
	r := newRoom(t)
	for n := range 200 {
		if res := r.save(general, anna, "me", fmt.Sprint("fact ", n)); res.IsError {
			t.Fatal(res.Text)
		}
	}
	want := "Nothing was stored: 200 notes about you are kept, and that is the most. The oldest is number 1, of " +
		"2026-03-04: “fact 0”. `/raven memory delete 1` makes room."
	if res := r.save(general, anna, "me", "one more"); !res.IsError || res.Text != want {
		t.Errorf("said %q, want %q", res.Text, want)
	}
	if res := r.save(general, anna, "channel", "one more"); res.IsError {
		t.Errorf("the channel is full too: %s", res.Text)
	}
	r.command(general, anna, "delete 1")
	if res := r.save(general, anna, "me", "one more"); res.IsError {
		t.Errorf("after one was removed: %s", res.Text)
	}
}

func TestTheBestAndNewestAreFoundFirst(t *testing.T) {
	r := newRoom(t)
	for _, text := range []string{"plays the violin", "has two violins and a viola", "likes tea",
		"the violin is from 1890 and red", "猫の名前はモンス", "vio"} {
		r.save(general, anna, "me", text)
	}
	for query, want := range map[string][]string{
		"red violin":  {"the violin is from 1890 and red", "plays the violin", "has two violins and a viola"},
		"VIOLIN tea?": {"likes tea", "plays the violin", "the violin is from 1890 and red", "has two violins and a viola"}, // tea is rarer
		"teh violni":  {"plays the violin", "the violin is from 1890 and red", "has two violins and a viola"},
		"viola":       {"has two violins and a viola"},
		"猫":           {"猫の名前はモンス"},
		"vio":         {"vio"},
		"名前":          {"猫の名前はモンス"},
		"guitar":      {"plays the violin", "the violin is from 1890 and red", "has two violins and a viola"}, // an instrument, too
		"passport":    nil,
	} {
		var got []string
		for line := range strings.Lines(r.search(general, anna, query)) {
			if _, text, found := strings.Cut(line, "): "); found {
				got = append(got, strings.TrimSpace(text))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
	for n := range 20 {
		r.save(general, anna, "channel", fmt.Sprint("violin lesson ", n))
	}
	text := r.search(general, anna, "violin lesson")
	if lines := strings.Count(text, "\n- "); lines != 10 || !strings.HasPrefix(text, "23 notes fit") ||
		!strings.Contains(text, "- about this channel, from anna (number 20, 2026-03-05): violin lesson 19") {
		t.Errorf("%d lines in\n%s", lines, text)
	}
}

func TestTheCommandShowsAndDeletes(t *testing.T) {
	r := newRoom(t)
	r.save(general, anna, "me", "likes tea")
	r.save(general, anna, "me", "plays the violin")
	r.save(general, berit, "me", "likes coffee")
	r.save(general, berit, "channel", "deploys on Fridays")
	for _, c := range []struct {
		who        chat.User
		text, want string
		failed     bool
	}{
		{anna, "", "**What I remember of you** (2)\n\n- `2` (2026-03-04): plays the violin\n- `1` (2026-03-04): likes tea\n\nFor this channel I remember 1: `/raven memory channel`\n\n`/raven memory` shows", false},
		{anna, "list 1", "**What I remember of you** (2)\n\n- `1` (2026-03-04): likes tea\n\nFor", false},
		{anna, "me LIST", "**What I remember of you** (2)", false},
		{boss, "list", "**What I remember of you** (0)\n\nNothing.", false},
		{anna, "channel", "**What I remember of this channel** (1)\n\n- `1` (2026-03-04, from berit): deploys on Fridays\n\n`/raven", false},
		{anna, "channel delete 1", "Only administrators", true},
		{anna, "channel delete all", "Only administrators", true},
		{anna, "delete 7", "Of you I remember nothing with the number 7.", true},
		{anna, "delete seven", `"seven" is not the number`, true},
		{anna, "delete 0", `"0" is not the number`, true},
		{anna, "list x", `"x" is not the number`, true},
		{anna, "delete", "not understood", true},
		{anna, "of a goldfish", "not understood", true},
		{anna, "delete 1", "Removed: number 1 of what I remember of you.", false},
		{anna, "", "**What I remember of you** (1)\n\n- `2`", false},
		{anna, "delete all", "Removed: all 1 that I remembered of you.", false},
		{anna, "", "**What I remember of you** (0)", false},
		{berit, "", "**What I remember of you** (1)\n\n- `1` (2026-03-04): likes coffee", false},
		{boss, "channel delete 1", "Removed: number 1 of what I remember of this channel.", false},
		{berit, "channel list", "**What I remember of this channel** (0)", false},
	} {
		if d := r.command(general, c.who, c.text); !strings.Contains(d.Text, c.want) || d.Failed != c.failed {
			t.Errorf("%s says %q and hears (failed: %v)\n%s\nwant\n%s", c.who.Name, c.text, d.Failed, d.Text, c.want)
		}
	}
}

func TestALongListComesInParts(t *testing.T) {
	r := newRoom(t)
	for n := range 30 {
		r.save(general, anna, "me", fmt.Sprintf("%d %s", n, strings.Repeat("x", 450)))
	}
	seen := 0
	for text, pages := "list", 0; ; pages++ {
		d := r.command(general, anna, text)
		seen += strings.Count(d.Text, "\n- `")
		_, next, more := strings.Cut(d.Text, "Older ones: `/raven memory ")
		if !more {
			break
		}
		if text, _, _ = strings.Cut(next, "`"); pages > 5 {
			t.Fatal("the list does not end")
		}
	}
	if seen != 30 {
		t.Errorf("all parts together show %d, want 30", seen)
	}
}

// broken is a store that fails.
type broken struct{}

var errDisk = errors.New("the disk is on fire")

func (broken) SaveMemory(context.Context, store.Memory, int) (store.Memory, bool, error) {
	return store.Memory{}, false, errDisk
}
func (broken) ReplaceMemory(context.Context, store.Memory) (before, kept store.Memory, err error) {
	return store.Memory{}, store.Memory{}, errDisk
}
func (broken) Memories(context.Context, string) ([]store.Memory, error) { return nil, errDisk }
func (broken) MemoryScopes(context.Context) ([]string, error)           { return nil, errDisk }
func (broken) DeleteMemory(context.Context, string, uint64) error       { return errDisk }
func (broken) DeleteMemories(context.Context, string) error             { return errDisk }

func TestAStoreThatFailsIsToldWithoutItsReason(t *testing.T) {
	r := over(t, broken{})
	for _, name := range []string{"save", "update", "search"} {
		args := map[string]any{"n": 1, "text": "x", "about": "me", "query": "x"}
		if _, err := r.call(name, general, anna, args); !errors.Is(err, errDisk) {
			t.Errorf("memory_%s gives %v", name, err)
		}
	}
	for _, text := range []string{"", "channel", "delete 1", "delete all", "search x", "edit 1 x", "export"} {
		if d := r.command(general, anna, text); !d.Failed || strings.Contains(d.Text, "fire") {
			t.Errorf("%q: %+v", text, d)
		}
	}
	if text := r.recall(general, anna, "x"); text != "" {
		t.Errorf("%q is recalled", text)
	}
	if n := strings.Count(r.log.String(), "level=ERROR"); n != 8 {
		t.Errorf("the log has it %d times:\n%s", n, r.log.String())
	}
}
