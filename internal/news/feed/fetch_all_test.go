package feed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// serveVersioned serves a feed under each path, with a validator, and counts the whole documents that it sends.
func serveVersioned(s *site) *int {
	sent := 0
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/missing") {
			http.NotFound(w, r)
			return
		}
		sent++ // requests to one host come one after the other
		fmt.Fprint(w, rss)
	})
	return &sent
}

// What several reads show is stored by one call, in the order of the addresses, and that of failed reads with it.
func TestFetchAll_SeveralFeeds_AreStoredTogether(t *testing.T) {
	s, f := newSite(t)
	sent := serveVersioned(s)
	addresses := []string{s.URL + "/a", " " + s.URL + "/b", s.URL + "/missing", s.URL + "/a", "bundled:demo"}
	turns := make(chan struct{}, len(addresses))
	results, errs := f.FetchAll(t.Context(), addresses, func(read func()) {
		turns <- struct{}{}
		read()
	})
	for n, address := range addresses {
		if wantErr := n == 2; (errs[n] != nil) != wantErr || !wantErr && len(results[n].Items) == 0 {
			t.Errorf("%s: %d items, %v", address, len(results[n].Items), errs[n])
		}
	}
	if s.store.saves != 1 || len(s.store.states) != 3 || *sent != 2 || len(turns) != len(addresses) {
		t.Errorf("%d calls of the store kept %d states of %d documents, in %d turns",
			s.store.saves, len(s.store.states), *sent, len(turns))
	}
	state, err := f.State(t.Context(), s.URL+"/missing")
	if times := state.Failures; err != nil || times != 1 {
		t.Errorf("the feed that fails: %+v, %v", state, err)
	}
	// Nothing is stored where nothing has changed.
	if _, errs := f.FetchAll(t.Context(), addresses[:2], func(read func()) { read() }); errors.Join(errs...) != nil ||
		s.store.saves != 1 || *sent != 2 {
		t.Errorf("again: %d calls of the store, %d documents, %v", s.store.saves, *sent, errs)
	}
}

// While a run reads its other feeds, another one finds what was read already, and does not ask for it as a whole.
func TestFetchAll_ReadMeanwhileByOthers_AsksForChangesOnly(t *testing.T) {
	s, f := newSite(t)
	sent := serveVersioned(s)
	addresses := []string{s.URL + "/a", s.URL + "/b"}
	first, done := make(chan struct{}, 1), make(chan struct{})
	first <- struct{}{}
	_, errs := f.FetchAll(t.Context(), addresses, func(read func()) {
		select {
		case <-first:
			read()
			close(done)
			return
		case <-done:
		}
		// One of the two was read just now and is not stored yet.
		for _, address := range addresses {
			if _, err := f.Fetch(t.Context(), address); err != nil {
				t.Error(err)
			}
		}
		read()
	})
	if err := errors.Join(errs...); err != nil || *sent != 2 || len(f.unsaved) != 0 {
		t.Errorf("%d documents were sent, %d states are left unsaved, %v", *sent, len(f.unsaved), err)
	}
}

// Where the store fails, every feed of the run says so, and the next run reads them as if they had not been read.
func TestFetchAll_StoreFails_SaysSoAndForgets(t *testing.T) {
	s, f := newSite(t)
	sent := serveVersioned(s)
	addresses := []string{s.URL + "/a", s.URL + "/b"}
	s.store.fail = errors.New("disk full")
	_, errs := f.FetchAll(t.Context(), addresses, func(read func()) { read() })
	for n, err := range errs {
		if !errors.Is(err, s.store.fail) {
			t.Errorf("%s: %v", addresses[n], err)
		}
	}
	s.store.fail = nil
	results, errs := f.FetchAll(t.Context(), addresses, func(read func()) { read() })
	if err := errors.Join(errs...); err != nil || results[0].NotModified || *sent != 4 || len(s.store.states) != 2 {
		t.Errorf("afterwards %d documents were sent, %d states are stored, %v", *sent, len(s.store.states), err)
	}
}

// A run that ends before it has read all of its feeds keeps what it has read.
func TestFetchAll_CutOff_KeepsWhatWasRead(t *testing.T) {
	s, f := newSite(t)
	sent := serveVersioned(s)
	ctx, cancel := context.WithCancel(t.Context())
	_, errs := f.FetchAll(ctx, []string{s.URL + "/a"}, func(read func()) {
		read()
		cancel()
	})
	if res, err := f.Fetch(t.Context(), s.URL+"/a"); err != nil || errs[0] != nil || !res.NotModified || *sent != 1 {
		t.Errorf("%d documents, %v, %v", *sent, errs[0], err)
	}
}

// watchedStore calls fn while states are written.
type watchedStore struct {
	StateStore
	fn func()
}

func (s watchedStore) SaveFeeds(ctx context.Context, states ...State) error {
	s.fn()
	return s.StateStore.SaveFeeds(ctx, states...)
}

// Two writes side by side could end in the other order, and leave the older state of a feed.
func TestFetch_WhileStatesAreWritten_NobodyElseWrites(t *testing.T) {
	s, f := newSite(t)
	serveVersioned(s)
	writes := 0
	f.store = watchedStore{f.store, func() {
		if writes++; f.saving.TryLock() {
			t.Error("another read could write states now")
		}
	}}
	if _, err := f.Fetch(t.Context(), s.URL+"/a"); err != nil || writes != 1 {
		t.Errorf("%d writes, %v", writes, err)
	}
}

// What one read gets of another one that is not stored yet is its own.
func TestLoadState_NotStoredYet_SharesNoItems(t *testing.T) {
	_, f := newSite(t)
	f.noteUnsaved(&State{URL: "https://example.org/a", Document: Document{Items: []Item{{ID: "1", Source: "before"}}}})
	state, err := f.loadState(t.Context(), "https://example.org/a")
	if err != nil {
		t.Fatal(err)
	}
	state.Document.Items[0].Source = "after"
	if kept := f.unsaved["https://example.org/a"].Document.Items[0].Source; kept != "before" {
		t.Errorf("the state that is being stored has the source %q", kept)
	}
}
