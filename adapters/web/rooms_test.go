package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/browsertest"
)

func TestRoomLinks_AreSortedByLastUse(t *testing.T) {
	w, db := begin(t, ignore)
	person := chat.Operator()
	for i, room := range []string{"old", "new", "archived"} {
		e := store.Entry{ID: "room/a", Room: room, At: noon.Add(time.Duration(i) * time.Hour), User: &person, Text: "x"}
		if _, err := db.SaveEntry(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.ChangeRoom(t.Context(), "old", new("An *old* one"), nil),
		w.ChangeRoom(t.Context(), "archived", nil, new(true))); err != nil {
		t.Fatal(err)
	}
	links, err := w.roomLinks(t.Context(), "old")
	if err != nil {
		t.Fatal(err)
	}
	want := []roomLink{
		{Room: "archived", Title: "archived", Last: noon.Add(2 * time.Hour), Newest: 1, IsArchived: true},
		{Room: "new", Title: "new", Last: noon.Add(time.Hour), Newest: 1},
		{Room: "old", Title: "An *old* one", Last: noon, Newest: 1, IsCurrent: true},
		{Room: "general", Title: "general"},
	}
	if diff := cmp.Diff(want, links); diff != "" {
		t.Errorf("the rooms (-want +got):\n%s", diff)
	}
	var input *InputError
	if err := w.ChangeRoom(t.Context(), "old", new(strings.Repeat("x", maxTitle+1)), nil); !errors.As(err, &input) {
		t.Errorf("a title that is too long: %v", err)
	}
}

func TestExportRoom_HasAllLinesOldestFirst(t *testing.T) {
	w, db := begin(t, ignore)
	person := chat.Operator()
	for i := range pageSize + 2 {
		e := store.Entry{ID: fmt.Sprint("room/", i), Room: "birds", At: noon, User: &person, Text: fmt.Sprintf("line %d.", i)}
		if _, err := db.SaveEntry(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []store.Entry{
		{ID: "post/1", Draft: &chat.Draft{Text: "**An** answer", Cards: []chat.Card{{Title: "A story", URL: "https://example.org/1"}},
			Files: []chat.File{{Name: "a.png"}}}},
		{ID: "room/x", User: &person, Deleted: true},
	} {
		e.Room, e.At = "birds", noon
		if _, err := db.SaveEntry(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.ChangeRoom(t.Context(), "birds", new("About birds"), nil); err != nil {
		t.Fatal(err)
	}
	get := func(query string) *httptest.ResponseRecorder {
		rw := httptest.NewRecorder()
		w.Handler().ServeHTTP(rw, httptest.NewRequestWithContext(t.Context(), "GET", "/chat/"+query, nil))
		return rw
	}
	md := get("birds/export")
	text := md.Body.String()
	if !strings.HasPrefix(text, "# About birds\n\n**operator**, ") || !strings.Contains(text, "[A story](https://example.org/1)") ||
		strings.Index(text, "line 0.") > strings.Index(text, "line 51.") || !strings.HasSuffix(text, "File: a.png\n") {
		t.Errorf("as Markdown: %s", text)
	}
	if got := md.Header().Get("Content-Disposition"); got != `attachment; filename="birds.md"` {
		t.Errorf("the file is %s", got)
	}
	var out struct {
		Title string
		Lines []exportedLine
	}
	if err := json.Unmarshal(get("birds/export?as=json").Body.Bytes(), &out); err != nil || out.Title != "About birds" ||
		len(out.Lines) != pageSize+3 || out.Lines[1].Text != "line 1." || !out.Lines[pageSize+2].Bot {
		t.Errorf("as JSON: %v %+v", err, out)
	}
	if rw := get("No%20Room/export"); rw.Code != 400 {
		t.Errorf("of no room: %d", rw.Code)
	}
}

func TestForgetRoom_ShowsLinesOfNextRoomWithItsName(t *testing.T) {
	w, db := begin(t, ignore)
	events, cancel := w.Subscribe("general")
	defer cancel()
	for range 3 {
		if _, err := w.Say(t.Context(), "general", anna, "before"); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.DeleteRoom(t.Context(), "general"), w.ForgetRoom(t.Context(), "general")); err != nil {
		t.Fatal(err)
	}
	for range events { // it is closed, so that its reader reads the log again
	}
	events, cancel = w.Subscribe("general")
	defer cancel()
	if _, err := w.Say(t.Context(), "general", anna, "after"); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Entry == nil || e.Entry.Text != "after" || e.Entry.Seq != 1 {
		t.Errorf("the next room begins with %+v", e)
	}
}

func TestConversations_AreKeptInOrderOnThePage(t *testing.T) {
	asked := make(chan chat.Message, 5)
	w, _, p, base := dashboard(t, func(_ *Web, m chat.Message) error { asked <- m; return nil })
	p.Click("form.new-room .action")
	p.Wait("location.pathname.startsWith('/chat/chat-')")
	p.Wait("document.querySelector('.empty')?.checkVisibility()")
	p.Type("#text", "What do ravens eat?")
	p.Enter(false)
	<-asked
	p.Wait("document.querySelector('.rooms [aria-current]').innerText.startsWith('What do ravens eat?')")
	p.Wait("document.title === 'What do ravens eat? · ravenbot' && " +
		"document.querySelector('.rooms nav a').hasAttribute('aria-current')")
	if _, err := w.Post(t.Context(), general, news); err != nil {
		t.Fatal(err)
	}
	p.Eval("htmx.trigger(document.body, 'said')")
	p.Wait("document.querySelector('#room-general .new:not([hidden])') && document.title.startsWith('(1) What do')")
	p.Look(browsertest.View{Width: 1280, Height: 700})
	shoot(p, "rooms")
	p.Click("#room-general")
	p.Wait("location.pathname === '/chat/general' && !document.querySelector('.new:not([hidden])') && " +
		"document.title === 'general · ravenbot'")

	p.Click(".manage summary")
	p.Eval("document.querySelector('.manage [name=title]').value = 'All <b>news</b>'")
	p.Click(".manage form button")
	p.Wait("document.querySelector('h1').textContent === 'All <b>news</b>' && " +
		"document.querySelector('#room-general').innerText.startsWith('All <b>news</b>')")
	p.Go(base + "/chat?q=NEWS")
	p.Wait("document.querySelector('.results li a[href=\"/chat/general\"]')?.innerText === 'All <b>news</b>'")
	p.Go(base + "/chat/general")
	p.Click(".manage [name=archived]")
	p.Wait("document.querySelector('.manage [name=archived]')?.value === 'no'")
	p.Go(base + "/chat/other")
	p.Wait("document.querySelector('#archived #room-general') && !document.querySelector('#archived').open")
	clean(t, p, base)
}
