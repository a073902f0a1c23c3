package admin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/resident"
)

// A large body waits for memory, first to arrive and then for what is made of it, and is refused in words where none gets
// free; a small one needs none.
func TestReceive_NoMemoryIsFree_LargeBodiesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		path        string
		size        int
		withoutSize bool
		want        int
	}{
		"a file":                  {path: "/chat/general/messages", size: 2 << 20, want: 503},
		"a file of unknown size":  {path: "/chat/general/messages", size: 2 << 20, withoutSize: true, want: 503},
		"a question":              {path: "/chat/general/messages", size: 1000, want: 200},
		"a call":                  {path: "/api/v1/agents", size: 1000, want: 200},
		"a call of unknown size":  {path: "/api/v1/agents", size: 1000, withoutSize: true, want: 200},
		"a call that is too long": {path: "/api/v1/agents", size: 2 << 20, want: 413},
		"an import":               {path: "/api/v1/import", size: 5 << 20, want: 503},
		"a file of an agent":      {path: "/api/v1/agents/default/files", size: 5 << 20, want: 503},
	} {
		for _, lacks := range []string{"to arrive", "when it has arrived"} {
			synctest.Test(t, func(t *testing.T) {
				s := &Server{o: Options{ChatBody: 17 << 20, FileMemory: resident.NewPool(100 << 20)}, arriving: resident.NewPool(100)}
				pool := s.arriving
				if lacks == "when it has arrived" {
					pool = s.o.FileMemory
				}
				held, err := pool.Take(t.Context(), pool.Size())
				if err != nil {
					t.Fatal(err)
				}
				send := func() (*httptest.ResponseRecorder, bool) {
					r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(strings.Repeat("a", c.size)))
					if c.withoutSize {
						r.ContentLength = -1
					}
					w := httptest.NewRecorder()
					release, ok := s.receive(w, r)
					if !ok {
						return w, false
					}
					defer release()
					body, err := io.ReadAll(r.Body)
					return w, err == nil && len(body) == c.size
				}
				began := time.Now()
				w, ok := send()
				if w.Code != c.want || ok != (c.want == 200) {
					t.Errorf("%s without memory %s: %d, taken: %v", name, lacks, w.Code, ok)
				}
				if c.want != 503 {
					return
				}
				if !strings.Contains(w.Body.String(), "try again") || time.Since(began) != 20*time.Second {
					t.Errorf("%s: %s after %v", name, w.Body, time.Since(began))
				}
				held()
				for range 2 { // all is given back
					if _, ok := send(); !ok {
						t.Errorf("%s is refused although memory is free", name)
					}
				}
			})
		}
	}
}

// A bot with little memory takes smaller files, and says how large they may be.
func TestReceive_LittleMemory_TakesSmallerFiles(t *testing.T) {
	s := &Server{o: Options{ChatBody: 17 << 20, FileMemory: resident.NewPool(24 << 20)}, arriving: resident.NewPool(8 << 20)}
	for size, want := range map[int]int{4 << 20: 200, 4<<20 + 1: 413} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/chat/general/messages", strings.NewReader(strings.Repeat("a", size)))
		release, ok := s.receive(w, r)
		if w.Code != want || ok != (want == 200) {
			t.Errorf("%d bytes: %d %s", size, w.Code, w.Body)
		}
		if ok {
			release()
		} else if !strings.Contains(w.Body.String(), "larger than 4 MiB") {
			t.Errorf("%d bytes: %s", size, w.Body)
		}
	}
}
