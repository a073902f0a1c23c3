package digest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
)

// onCreated returns a service that keeps a digest called news, made by a user in chat.
func onCreated(t *testing.T) (*Service, *records) {
	t.Helper()
	s, kept := onRecords()
	on := &everywhere{}
	s.o.Platforms, s.o.Delivery = on, on
	p := daily(func(p *Plan) { p.Source, p.By, p.On = FromChat, chat.User{ID: "U1", Name: "anna"}, "slack" })
	if _, err := s.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return s, kept
}

// A digest that is replaced has another plan, from now on, and the author that it had; a plan that is wrong changes
// nothing.
func TestReplace_KeepsTheAuthor(t *testing.T) {
	s, kept := onCreated(t)
	now := noon.Add(time.Hour)
	s.o.Now = func() time.Time { return now }
	changes := 0
	s.onChange = func() { changes++ }
	plan := daily(func(p *Plan) {
		p.Schedule, p.Style, p.By, p.On, p.Source, p.Name = "0 8 * * *", Titles, chat.User{ID: "U2"}, "web", FromAPI,
			"other"
	})
	i, err := s.Replace(t.Context(), "news", plan)
	want := daily(func(p *Plan) {
		p.Schedule, p.Style, p.By, p.On, p.Source, p.At = "0 8 * * *", Titles, chat.User{ID: "U1", Name: "anna"}, "slack",
			FromChat, now
	})
	got, _ := s.Plan("news")
	got.Timezone, got.MaxItems = "", 0 // defaults
	if diff := cmp.Diff(want, got); err != nil || i.Schedule != "0 8 * * *" || diff != "" || changes != 1 {
		t.Errorf("%+v, %v, told %d times (-want +got):\n%s", i, err, changes, diff)
	}
	var stored Plan
	if err := json.Unmarshal(kept.kept[createdKind]["news"], &stored); err != nil || stored.Schedule != "0 8 * * *" {
		t.Errorf("stored is %+v, %v", stored, err)
	}
	for name, change := range map[string]func(*Plan) error{
		"an error": func(*Plan) error { return errors.New("no") },
		"a wrong plan": func(p *Plan) error {
			p.Feeds[0].URL, p.Schedule = "https://changed.example/",
				"at will"
			return nil
		},
		"too much":      func(p *Plan) error { p.MaxItems = 101; return nil },
		"far too often": func(p *Plan) error { p.Schedule = "* * * * *"; return nil },
		"a secret place": func(p *Plan) error {
			p.Post, p.Channels = []string{"web:/x"},
				[]string{"web:/secret"}
			return nil
		},
	} {
		if _, err := s.Change(t.Context(), "news", change); !errors.As(err, new(BadPlan)) {
			t.Errorf("%s: %v", name, err)
		}
		if p, _ := s.Plan("news"); p.Feeds[0].URL != "https://example.org/feed" || p.Schedule != "0 8 * * *" {
			t.Errorf("%s: changed to %+v", name, p)
		}
	}
	if _, err := s.Replace(t.Context(), "unknown", plan); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown digest: %v", err)
	}
	s.configured["conf"] = spec{Plan: Plan{Name: "conf", Source: FromConfig}}
	for _, err := range []error{s.Remove(t.Context(), "conf"), s.Remove(t.Context(), "unknown")} {
		if !errors.Is(err, ErrConfigured) && !errors.Is(err, ErrUnknown) {
			t.Errorf("removed: %v", err)
		}
	}
}

// A digest that another process has changed is changed as it is now.
func TestChange_AfterAnotherProcess(t *testing.T) {
	s, kept := onCreated(t)
	p, _ := s.Plan("news")
	p.Language = "Norwegian"
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	kept.kept[createdKind]["news"] = raw
	if _, err := s.Change(t.Context(), "news", func(p *Plan) error { p.Style = Titles; return nil }); err != nil {
		t.Fatal(err)
	}
	if p, _ := s.Plan("news"); p.Language != "Norwegian" || p.Style != Titles {
		t.Errorf("changed to %+v", p)
	}
}

// A pause is stored once, counts from when it was made, and is gone with its digest; one of the configuration can be
// paused, too.
func TestPause_IsStored(t *testing.T) {
	s, kept := onCreated(t)
	changes := 0
	s.onChange = func() { changes++ }
	for _, on := range []bool{false, true, true, false, true} {
		if err := s.Pause(t.Context(), "news", on); err != nil {
			t.Fatal(err)
		}
	}
	var p pause
	if err := json.Unmarshal(kept.kept[pauseKind]["news"], &p); err != nil || !p.Paused || !p.Since.Equal(noon) ||
		changes != 3 {
		t.Errorf("stored is %+v, %v, after %d changes", p, err, changes)
	}
	i, err := s.Get(t.Context(), "news")
	if err != nil || !i.Paused || i.Next != nil {
		t.Errorf("told is %+v, %v", i, err)
	}
	if err := s.Reload(t.Context()); err != nil || !s.pauses["news"].Paused || changes != 4 {
		t.Errorf("after it is read again: %+v, %v, %d changes", s.pauses, err, changes)
	}
	if err := s.Remove(t.Context(), "news"); err != nil || len(kept.kept[pauseKind]) != 0 || len(s.pauses) != 0 ||
		len(kept.kept[createdKind]) != 0 {
		t.Errorf("after the removal %v are kept, %v", kept.kept, err)
	}
	if err := s.Pause(t.Context(), "news", true); !errors.Is(err, ErrUnknown) {
		t.Errorf("what is gone is paused: %v", err)
	}
}

// What was stored by another version and cannot be carried out is left out and logged; what cannot be read is an error.
func TestLoad_WhatCannotBeCarriedOut(t *testing.T) {
	s, kept := onCreated(t)
	kept.kept[createdKind]["old"] = json.RawMessage(`{"name":"old","schedule":"at will"}`)
	if err := s.Reload(t.Context()); err != nil || len(s.created) != 1 {
		t.Errorf("%d digests, %v", len(s.created), err)
	}
	kept.kept[createdKind]["old"] = json.RawMessage(`{`)
	if err := s.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), `read digest "old"`) ||
		len(s.created) != 1 {
		t.Errorf("%d digests, %v", len(s.created), err)
	}
}

// Feeds that a digest reads already are not added again, however their addresses are written.
func TestAddFeeds_CountsWhatIsNew(t *testing.T) {
	s, _ := onCreated(t)
	i, n, err := s.AddFeeds(t.Context(), "news", []string{"https://EXAMPLE.org/feed", "https://b.example/f",
		"https://b.example/f", "https://c.example/f"})
	if err != nil || n != 2 || len(i.Feeds) != 3 {
		t.Errorf("%d were added: %q, %v", n, i.Feeds, err)
	}
}
