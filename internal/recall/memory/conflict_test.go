package memory_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/storage"
)

// TestSave_NamesTheNoteThatANewOneRepeatsOrContradicts saves one note after another.
func TestSave_NamesTheNoteThatANewOneRepeatsOrContradicts(t *testing.T) {
	for _, c := range []struct {
		old, text string
		want      string // "" where both stand beside each other
	}{
		{"I live in Oslo", "I live in Bergen", "may contradict number 1"},
		{"My favourite colour is blue", "My favourite colour is green", "may contradict number 1"},
		{"Prefers metric units", "Prefers imperial units", "may contradict number 1"},
		{"The standup is at 9:15", "The standup is at 9:45", "may contradict number 1"},
		{"Eats meat", "Does not eat meat", "may contradict number 1"},
		{"The landlord is Per Lunde", "The new landlord is Kari Moe", "may contradict number 1"},
		{"My cat is called Mons", "the cat is called Mons!", "number 1 about you says this already"},
		{"Likes short answers", "Likes answers that are short", "number 1 about you says this already"},
		{"Likes tea", "Likes coffee", ""},
		{"Speaks Norwegian", "Speaks Portuguese", ""},
		{"Lives in Oslo", "Works in Bergen", ""},
		{"Drives a Volvo", "Drives a Volvo V60 from 2018", ""},
		{"My shoe size is 43", "Plays chess on Lichess", ""},
	} {
		r := newRoom(t)
		r.save(general, anna, "me", c.old)
		res := r.save(general, anna, "me", c.text)
		notices := strings.Contains(res.Text, "may contradict") || strings.Contains(res.Text, "says this already")
		if res.IsError || !strings.Contains(res.Text, c.want) || notices != (c.want != "") {
			t.Errorf("%q after %q: %q, want %q", c.text, c.old, res.Text, c.want)
		}
	}
}

func TestUpdate_ReplacesANoteOfTheCaller(t *testing.T) {
	r := newRoom(t)
	update := func(who chat.User, n int, about, text string) string {
		t.Helper()
		res, err := r.call("update", general, who, map[string]any{"n": n, "text": text, "about": about})
		if err != nil {
			t.Fatal(err)
		}
		return res.Text
	}
	r.save(general, anna, "me", "I live in Oslo")
	r.save(general, anna, "me", "I live in Bergen")
	r.save(general, berit, "channel", "Deploys on Fridays")
	for _, c := range []struct {
		who         chat.User
		n           int
		about, text string
		want        string
	}{
		// Saved before it was known to contradict: one of the two stays.
		{anna, 1, "me", "I live in Bergen", "Number 1 about you, “I live in Oslo”, is removed: number 2 says “I live in Bergen”."},
		{anna, 2, "me", "I live in Voss", "Number 2 about you now says “I live in Voss” instead of “I live in Bergen”."},
		{anna, 1, "me", "I live in Oslo", "there is no number 1 about you"},
		{berit, 2, "me", "I live in Oslo", "there is no number 2 about you"},
		{several, 2, "me", "I live in Oslo", "several people are answered at once"},
		{anna, 1, "channel", "Deploys on Mondays", "Only administrators, and berit, change this note"},
		{berit, 1, "channel", "Deploys on Mondays", "now says “Deploys on Mondays”"},
		{boss, 1, "channel", "Deploys on Tuesdays", "now says “Deploys on Tuesdays”"},
		{anna, 2, "me", " ", "the text has 0 characters"},
	} {
		if got := update(c.who, c.n, c.about, c.text); !strings.Contains(got, c.want) {
			t.Errorf("%s updates %d to %q: %q, want %q", c.who.Name, c.n, c.text, got, c.want)
		}
	}
	if text := r.search(general, anna, "where"); strings.Contains(text, "Oslo") || strings.Contains(text, "Bergen") {
		t.Errorf("after the updates memory_search returns %q", text)
	}
}

// Who had a note of a channel stored is known by id: a name may be taken by others, and changed.
func TestUpdate_ANoteOfAChannel_IsChangedByIDAndNotByName(t *testing.T) {
	db, err := storage.OpenFile(filepath.Join(t.TempDir(), "raven.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	r := over(t, db)
	r.save(general, berit, "channel", "Deploys on Fridays")
	r.save(general, several, "channel", "Lunch is at noon")
	// Earlier versions stored names alone.
	old := store.Memory{Scope: "channel/" + general.String(), Text: "Standup at 9:15", By: berit.Name, At: time.Now()}
	if _, _, err := db.SaveMemory(t.Context(), old, 10); err != nil {
		t.Fatal(err)
	}
	namesake, renamed := chat.User{ID: "U9", Name: berit.Name}, chat.User{ID: berit.ID, Name: "bea"}
	for _, c := range []struct {
		who  chat.User
		n    string
		want string
	}{
		{namesake, "1", "Only administrators, and berit, change this note"},
		{chat.User{Name: berit.Name}, "1", "Only administrators, and berit, change this note"},
		{renamed, "1", "now says"},
		{berit, "1", "now says"},
		{several, "2", "Only administrators change this note"},
		{berit, "3", "Only administrators change this note"},
		{namesake, "3", "Only administrators change this note"},
		{boss, "3", "now says"},
		{boss, "1", "now says"},
		{berit, "1", "Only administrators, and boss, change this note"},
	} {
		d := r.command(general, c.who, "channel edit "+c.n+" changed "+c.who.Name+" "+c.n+c.who.ID)
		if !strings.Contains(d.Text, c.want) {
			t.Errorf("%+v edits %s: %q, want %q", c.who, c.n, d.Text, c.want)
		}
	}
}

func TestSave_RefusesWhatIsAboutSomebodyElse(t *testing.T) {
	r := newRoom(t)
	for _, note := range []string{"@berit likes tea", "<@U2> likes tea", "<@!U2>'s birthday is in May"} {
		res := r.save(general, anna, "me", note)
		if !res.IsError || !strings.Contains(res.Text, "only what people tell of themselves") {
			t.Errorf("%q: %q", note, res.Text)
		}
	}
	for _, note := range []string{"@anna likes tea", "<@U1> likes coffee"} {
		if res := r.save(general, anna, "me", note); res.IsError {
			t.Errorf("%q: %q", note, res.Text)
		}
	}
}
