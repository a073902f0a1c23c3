package history_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
)

// since returns what Since tells somebody.
func (w *world) since(at chat.Address, after time.Time) []string {
	w.t.Helper()
	list, ok, err := w.search.Since(w.t.Context(), tool.Caller{Conversation: at}, after)
	if err != nil || !ok {
		w.t.Fatalf("%s: %t, %v", at, ok, err)
	}
	var texts []string
	for _, m := range list {
		texts = append(texts, m.Text)
	}
	slices.Sort(texts)
	return texts
}

// Where threads may have readers of their own, those that are open to all of the channel are read, and others are not,
// whether the platform or the store has what was said in them.
func TestSince_OpenThreads_AreReadAndOthersAreNot(t *testing.T) {
	w := newWorld(t)
	w.shared = false
	at := func(id string) chat.Address { a := general; a.Thread = id; return a }
	open, secret := at("open"), at("secret")
	w.threads = []chat.Address{open}
	for n, place := range []chat.Address{general, open, secret} {
		w.said[place] = []chat.Said{{
			ID:   fmt.Sprint(n + 1),
			By:   "anna",
			Text: "said in " + place.Thread,
			At:   noon.Add(time.Minute),
		}}
	}
	w.turn(at("open"), "10", "berit", "asked in the open", "answered in the open")
	w.turn(at("secret"), "11", "berit", "asked in secret", "answered in secret")
	want := []string{"answered in the open", "asked in the open", "said in", "said in open"}
	if got := w.since(general, noon.Add(-time.Hour)); !slices.Equal(got, want) {
		t.Errorf("in the channel there is %q, want %q", got, want)
	}
	want = []string{"answered in secret", "answered in the open", "asked in secret", "asked in the open", "said in",
		"said in open",
		"said in secret"}
	if got := w.since(secret, noon.Add(-time.Hour)); !slices.Equal(got, want) {
		t.Errorf("in the private thread there is %q, want %q", got, want)
	}
}

// A channel with many busy threads takes few requests: a page of each of the newest, and none again so soon.
func TestSince_ManyThreads_TakeFewRequests(t *testing.T) {
	w := newWorld(t)
	w.shared = false
	for n := range 50 {
		a := general
		a.Thread = fmt.Sprint(n)
		w.threads = append(w.threads, a)
		for m := range 300 {
			w.said[a] = append(w.said[a], chat.Said{
				ID:   fmt.Sprint(1000*n + m),
				By:   "anna",
				Text: fmt.Sprintf("word %d of %d", m, n),
				At:   noon,
			})
		}
	}
	if got := w.since(general, noon.Add(-time.Hour)); len(got) != 20*100 || w.reads != 1+20 || w.lists != 1 {
		t.Errorf("%d messages after %d reads and %d lists, want 2000 after 21 and 1", len(got), w.reads, w.lists)
	}
	w.wait(20 * time.Second)
	if got := w.since(general, noon.Add(-time.Hour)); len(got) != 20*100 || w.reads != 21 || w.lists != 1 {
		t.Errorf("soon after: %d messages after %d reads and %d lists", len(got), w.reads, w.lists)
	}
	// Further back there may be other threads.
	if w.since(general, noon.Add(-2*time.Hour)); w.reads != 21 || w.lists != 2 {
		t.Errorf("further back: %d reads and %d lists", w.reads, w.lists)
	}
	w.wait(40 * time.Second)
	if w.since(general, noon.Add(-time.Hour)); w.reads != 42 || w.lists != 3 {
		t.Errorf("later: %d reads and %d lists", w.reads, w.lists)
	}
	w.wait(40 * time.Second)
	w.failing = errors.New("the platform is down")
	if got := w.since(general, noon.Add(-time.Hour)); len(got) != 20*100 {
		t.Errorf("while the platform fails %d messages are told", len(got))
	}
}
