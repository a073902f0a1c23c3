package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
	"ravenbot/internal/store/storage"
)

// written saves lines of rooms, each "room who: text", one a minute.
func written(t testing.TB, db *records.Store, lines ...string) {
	t.Helper()
	for i, line := range lines {
		where, text, _ := strings.Cut(line, ": ")
		room, who, _ := strings.Cut(where, " ")
		e := store.Entry{ID: fmt.Sprintf("%s/%d", room, i), Room: room, At: noon.Add(time.Duration(i) * time.Minute)}
		if who == "bot" {
			e.Draft = &chat.Draft{Text: text, Cards: []chat.Card{{Title: "A card", URL: "https://birds.example"}}}
		} else {
			e.User, e.Text = &chat.User{ID: who, Name: who}, text
		}
		if _, err := db.SaveEntry(context.Background(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// found returns what a search finds, with the words that it marks in brackets.
func found(t *testing.T, w *Web, query string) []string {
	t.Helper()
	rooms, err := w.roomNames(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	v, err := w.search(t.Context(), rooms, query)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range v.Found {
		line := f.Room + " " + f.Who + ": "
		for _, p := range f.Passage {
			if p.Found {
				p.Text = "[" + p.Text + "]"
			}
			line += p.Text
		}
		list = append(list, line)
	}
	return list
}

func TestSearch_FindsInAllRooms_NewestFirst(t *testing.T) {
	w, db := begin(t, ignore)
	written(t, db, "general anna: The Budget is 400 euros", "birds berit: no money", "birds bot: the budget, **so far**",
		"general anna: what of (the) BUDGET?", "birds anna: nothing here")
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"budget", []string{"general anna: what of (the) [BUDGET]?",
			"birds ravenbot: the [budget], so far A card",
			"general anna: The [Budget] is 400 euros"}},
		{"euros  BUDGET", []string{"general anna: The [Budget] is 400 [euros]"}},
		{`"budget is"`, []string{"general anna: The [Budget is] 400 euros"}},
		{"(the)", []string{"general anna: what of [(the)] BUDGET?"}},
		{"birds.example card", []string{"birds ravenbot: the budget, **so far** [A [card]](https://[birds.example])"}},
		{"budget money", nil}, {"", nil}, {`""`, nil}, {`"`, nil}, {".*", nil},
	} {
		if diff := cmp.Diff(c.want, found(t, w, c.query)); diff != "" {
			t.Errorf("%q finds (-want +got):\n%s", c.query, diff)
		}
	}
}

// What was deleted or edited away is not found, nor what is over its retention.
func TestSearch_FindsWhatThereIsNow(t *testing.T) {
	w, db := begin(t, ignore)
	written(t, db, "general anna: the old plan", "birds anna: the second plan", "birds anna: a plan")
	w.o.IsOver = func(at chat.Address, when time.Time) bool { return at.Channel == "general" && when.Equal(noon) }
	if err := w.Delete(t.Context(), "birds", 1, chat.Operator()); err != nil {
		t.Fatal(err)
	}
	if err := w.Edit(t.Context(), "birds", 2, chat.Operator(), "an idea"); err != nil {
		t.Fatal(err)
	}
	if list := found(t, w, "plan"); list != nil {
		t.Errorf("found %q", list)
	}
	if list := found(t, w, "idea"); len(list) != 1 {
		t.Errorf("found %q", list)
	}
}

func TestSearch_LongLine_ShowsThePassage(t *testing.T) {
	for _, c := range []struct{ said, query string }{
		{strings.Repeat("ö ", 200) + "needle " + strings.Repeat("ö ", 400), "needle"},
		{strings.Repeat("a", 5000), strings.Repeat("a", 150)},
		{"İİİİ needle", "needle"}, {"ſtraſſe", "straſſe"},
	} {
		parts := cutPassage(c.said, newPattern(parseQuery(c.query)))
		var all strings.Builder
		for _, p := range parts {
			all.WriteString(p.Text)
		}
		if all.Len() > 1500 || !slices.ContainsFunc(parts, func(p passagePart) bool { return p.Found }) ||
			strings.Contains(all.String(), "\uFFFD") {
			t.Errorf("%.20q in %.20q is shown as %v", c.query, c.said, parts)
		}
	}
}

// Of too much the newest is searched in every room, and the page says what was left out.
func TestSearch_TakesTooLong_SaysWhatWasLeftOut(t *testing.T) {
	w, db := begin(t, ignore)
	var lines []string
	for i := range 2*searchBatch + 20 {
		lines = append(lines, fmt.Sprintf("general anna: line %d", i))
	}
	written(t, db, append(lines, "birds anna: line")...)
	at := time.Now()
	<-w.started // the clock is read until then
	w.o.Now = func() time.Time { at = at.Add(searchTimeout); return at }
	base, c := serve(t, w)
	_, _, page := request(t, c, "GET", base+"/chat?q=line", nil)
	oldest := noon.Add((searchBatch + 20) * time.Minute)
	if !strings.Contains(page, "not all rooms were read further back than <time datetime=\""+formatISO(oldest)) ||
		!strings.Contains(page, "these are the newest") || strings.Count(page, `class="found"`) != maxFound ||
		!strings.Contains(page, "# birds") {
		t.Errorf("the page says %.3000s", page)
	}
	_, _, page = request(t, c, "GET", base+"/chat?q="+url.QueryEscape("line 7"), nil)
	if strings.Contains(page, "these are the newest") {
		t.Errorf("of few it says that there are more: %.3000s", page)
	}
}

// A line that was found is shown with those around it, and the way to the newest ones; one that is among the newest on
// the ordinary page.
func TestSearch_LeadsToTheLine(t *testing.T) {
	w, db := begin(t, ignore)
	var lines []string
	for i := range 200 {
		lines = append(lines, fmt.Sprintf("general anna: number-%03d.", i+1))
	}
	written(t, db, lines...)
	base, c := serve(t, w)
	_, _, results := request(t, c, "GET", base+"/chat?q=number-030", nil)
	if !strings.Contains(results, `<a href="/chat/general?line=30#line-30">`) ||
		!strings.Contains(results, "<mark>number-030</mark>") {
		t.Errorf("found %s", results)
	}
	_, _, page := request(t, c, "GET", base+"/chat/general?line=30", nil)
	for part, want := range map[string]bool{
		`id="line-30"`: true, "number-010.": true, "number-050.": true, "number-100.": false,
		`<a class="quiet" href="/chat/general">To the newest`: true, "sse-connect": false, `name="text"`: false} {
		if strings.Contains(page, part) != want {
			t.Errorf("around an old line the page has %s: %v", part, !want)
		}
	}
	for _, line := range []string{"180", "x", "0"} {
		_, _, page = request(t, c, "GET", base+"/chat/general?line="+line, nil)
		if !strings.Contains(page, "number-200.") || !strings.Contains(page, "sse-connect") {
			t.Errorf("for line %s the page lacks the newest lines", line)
		}
	}
}

// Nearly as many lines as a search reads are searched within the time that it has. A room keeps 2,000.
func BenchmarkSearch_FiftyFullRooms(b *testing.B) {
	db, err := storage.OpenFile(filepath.Join(b.TempDir(), "rooms.db"), time.Now)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	w := New(Options{Log: db, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	words := strings.Repeat("some words that somebody said about ravens, and what they do in winter. ", 4)
	var rooms []string
	for room := range 49 {
		rooms = append(rooms, fmt.Sprintf("room-%d", room))
	}
	var written sync.WaitGroup // the store writes together what comes at once
	for _, room := range rooms {
		written.Go(func() {
			for i := range 2000 {
				e := store.Entry{ID: fmt.Sprint(i), Room: room, At: noon.Add(time.Duration(i) * time.Minute)}
				if i%2 == 0 {
					e.Draft = &chat.Draft{Text: words + words, Tools: []chat.ToolRun{{Name: "t", Result: words}}}
				} else {
					e.User, e.Text = &anna, words
				}
				if _, err := db.SaveEntry(b.Context(), e); err != nil {
					b.Error(err)
				}
			}
		})
	}
	written.Wait()
	for b.Loop() {
		v, err := w.search(b.Context(), rooms, "ravens spring")
		if err != nil || len(v.Found) > 0 || !v.Since.IsZero() {
			b.Fatal(len(v.Found), v.Since, err)
		}
	}
}
