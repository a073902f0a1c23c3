package sim_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/testing/sim"
)

func TestWatchWakesWaiters(t *testing.T) {
	var w sim.Watch
	n := 0
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if err := w.Wait(t.Context(), func() bool { return n == 3 }); err != nil {
				t.Error(err)
			}
		})
	}
	for range 3 {
		w.Lock()
		n++
		w.Release()
	}
	all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Wait(ctx, func() bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("wait under a dead context: %v", err)
	}
}

func open(t *testing.T, h http.HandlerFunc) *sim.HTTPServer {
	t.Helper()
	d, err := sim.NewHTTPServer(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func post(t *testing.T, url string) (int, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("in"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func TestFaults(t *testing.T) {
	var mu sync.Mutex
	served := 0
	d := open(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		served++
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	})
	cases := []struct {
		name   string
		fault  sim.Fault
		status int // 0: the connection fails
		body   string
		served int
	}{
		{"answer", sim.Fault{Status: 503, Body: "no"}, 503, "no", 0},
		{"accepted", sim.Fault{Status: 502, Accept: true}, 502, "", 1},
		{"dropped", sim.Fault{Drop: true, Accept: true}, 0, "", 1},
		{"late", sim.Fault{Hang: time.Millisecond}, 200, "in", 1},
		{"another path", sim.Fault{Match: sim.MatchPath("POST", "/other"), Status: 500}, 200, "in", 1},
	}
	for _, c := range cases {
		mu.Lock()
		served = 0
		mu.Unlock()
		off := d.Fail(c.fault)
		status, body, err := post(t, d.URL()+"/path")
		off()
		mu.Lock()
		if status != c.status || body != c.body || (err != nil) != (c.status == 0) || served != c.served {
			t.Errorf("%s: %d %q %v, served %d", c.name, status, body, err, served)
		}
		mu.Unlock()
	}
	d.Fail(sim.Fault{Status: 500, Times: 2})
	for i, want := range []int{500, 500, 200} {
		if status, _, err := post(t, d.URL()); status != want {
			t.Errorf("request %d: %d %v", i, status, err)
		}
	}
	r, err := d.WaitRequest(t.Context(), func(r sim.Request) bool { return r.Status == 503 })
	if err != nil || string(r.Body) != "in" || r.Path != "/path" || r.Method != "POST" {
		t.Errorf("log %+v %v", r, err)
	}
}

func TestCloseEndsHangingRequests(t *testing.T) {
	d := open(t, func(http.ResponseWriter, *http.Request) { t.Error("served") })
	d.Fail(sim.Fault{Hang: time.Hour})
	done := make(chan error, 1)
	go func() {
		_, _, err := post(t, d.URL())
		done <- err
	}()
	if err := d.WaitArrival(t.Context(), sim.MatchPath("POST", "")); err != nil {
		t.Fatal(err)
	}
	d.Close()
	if err := <-done; err == nil {
		t.Error("the hanging request was answered")
	}
}
