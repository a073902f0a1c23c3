package egress

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/resident"
)

func TestGet_LargeAnswersWaitForMemory(t *testing.T) {
	large := strings.Repeat("x", 2*smallBody)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/small" {
			_, _ = w.Write([]byte("small"))
			return
		}
		_, _ = w.Write([]byte(large))
	}))
	defer s.Close()
	for name, m := range map[string]*memory{
		"of bodies": {resident.NewPool(2 * smallBody), nil},
		"of work":   {nil, resident.NewPool(smallBody)},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New(Options{AllowPrivateHosts: []string{"127.0.0.1"}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.CloseIdle()
			c.memory = m
			first, err := c.Get(t.Context(), s.URL, GetOptions{})
			if err != nil || string(first.Body) != large {
				t.Fatalf("%d bytes, %v", len(first.Body), err)
			}
			if res, err := c.Get(t.Context(), s.URL+"/small", GetOptions{}); err != nil || string(res.Body) != "small" {
				t.Errorf("a small answer beside a large one: %v", err)
			}
			_, err = c.Get(t.Context(), s.URL, GetOptions{Timeout: time.Second})
			if !errors.Is(err, ErrBusy) || errors.Is(err, ErrTimeout) {
				t.Errorf("no memory until the time is over: %v, want ErrBusy", err)
			}
			ended, end := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, end)
			if _, err = c.Get(ended, s.URL, GetOptions{}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrBusy) {
				t.Errorf("whoever asks has ended: %v, want that it was canceled", err)
			}
			time.AfterFunc(20*time.Millisecond, first.Close)
			second, err := c.Get(t.Context(), s.URL, GetOptions{})
			if err != nil || string(second.Body) != large {
				t.Fatalf("after the first was closed: %v", err)
			}
			second.Close()
			second.Close() // gives nothing back twice
			if _, err := c.Get(t.Context(), s.URL, GetOptions{MaxBytes: smallBody + 1}); !errors.Is(err, ErrTooLarge) {
				t.Errorf("got %v, want ErrTooLarge", err)
			}
			third, err := c.Get(t.Context(), s.URL, GetOptions{})
			if err != nil {
				t.Fatalf("an answer that failed holds memory: %v", err)
			}
			third.Close()
		})
	}
}
